"""Tables of replays and studies: CSV for programs, LaTeX and markdown for papers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import polars

from fairlead.errors import InputError
from fairlead.model.arguments import texts
from fairlead.report.numbers import counted
from fairlead.report.table_text import (
    escaped,
    frame_text,
    halves,
    in_words,
    interval_text,
    latex_float,
    markdown,
)
from fairlead.simulation.metrics.distribution import CONFIDENCE
from fairlead.simulation.simulate import TIME_FIGURES, Outcomes
from fairlead.simulation.studies import TIMES, Study

LABEL = "tab:study"
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}  # seconds of each unit of time


@dataclass(frozen=True)
class FigureColumn:
    """A requested column of a table.

    Attributes
    ----------
    name : str
        Name of the figure.
    unit : str
        One of `UNITS` for a time; empty for seconds.
    title : str
        The heading to print; empty for the name.
    """

    name: str
    unit: str = ""
    title: str = ""

    @property
    def heading(self) -> str:
        """The heading for programs: the title, or the name with the chosen unit."""
        return self.title or (f"{self.name} ({self.unit})" if self.unit else self.name)

    def heading_in_words(self, times: Collection[str]) -> str:
        """Return the heading for readers: the title, or the name in words, and a time's unit.

        `times` are the names of the figures that are times.
        """
        unit = self.unit or ("s" if self.name in times else "")
        return self.title or (f"{in_words(self.name)} ({unit})" if unit else in_words(self.name))


def parse_columns(
    columns: str | Sequence[str],
    known: Collection[str],
    times: Collection[str],
    argument: str = "columns",
) -> list[FigureColumn]:
    """Parse columns ``NAME[:UNIT][=HEADING]``, separated by commas or in a sequence.

    `known` are the names of all figures, `times` of those that take a unit; `argument` names the
    columns in errors. Raises InputError for an unknown or repeated column, or a wrong unit.
    """
    found: list[FigureColumn] = []
    for column_text in columns.split(",") if isinstance(columns, str) else texts(columns, argument):
        figure, has_title, title = column_text.partition("=")
        name, _, unit = figure.partition(":") if figure not in known else (figure, "", "")
        if name not in known:
            fault = f"there is no column {name!r:.60}; known: {', '.join(known)}"
            raise InputError(fault, argument)
        unit = "min" if unit == "m" else unit
        if figure != name and (name not in times or unit not in UNITS):
            fault = f"{' or '.join(UNITS)}, not {unit!r:.60}" if name in times else "no unit"
            raise InputError(f"{name} takes {fault}", argument)
        if has_title and not title.strip():
            raise InputError(f"{name} has an empty heading", argument)
        column = FigureColumn(name, unit, title.strip())
        if column.heading in [each.heading for each in found]:
            raise InputError(f"names {column.heading!r:.60} twice", argument)
        found.append(column)
    if not found:
        raise InputError("names no column", argument)
    return found


def outcomes_text(
    outcomes: Outcomes, table_format: str, columns: Sequence[FigureColumn] | None
) -> str:
    """Format figures of runs, a row for each policy; without `columns` the usual figures."""
    if columns is None:
        frame = outcomes.to_frame()
        columns = [FigureColumn(name) for name in frame.columns]
    else:
        if table_format != "csv" and all(column.name != "policy" for column in columns):
            columns = [FigureColumn("policy"), *columns]
        frame = outcomes.to_frame("figures").select(
            (
                polars.col(column.name).cast(polars.Float64) / UNITS[column.unit]
                if column.unit
                else polars.col(column.name)
            ).alias(column.heading)
            for column in columns
        )
    headings = [column.heading_in_words(TIME_FIGURES) for column in columns]
    return frame_text(frame, table_format, headings)


def study_text(
    study: Study, table_format: str, columns: Sequence[FigureColumn] | None, label: str = LABEL
) -> str:
    """Format differences from the first policy, or the means of a single policy.

    CSV has a row for each load, policy and measure. The other formats have a row for each policy
    and load, and a column for each measure. `label` is for references in LaTeX.
    """
    has_pairs = len(study.policies) > 1
    if table_format == "csv":
        frame = study.to_frame("differences" if has_pairs else "means")
        return (frame if columns is None else _chosen_measures(frame, columns)).write_csv()
    if columns is None:
        columns = [FigureColumn(name) for name in study.figures]
    # For each row the study at one load, and the policy.
    row_keys = [
        (at_load, policy)
        for at_load in map(study.at, study.loads)
        for policy in (study.policies[1:] if has_pairs else study.policies)
    ]
    # For each row and column the interval of the mean or difference, in seconds if it is a time.
    rows = [
        [(at_load.difference if has_pairs else at_load.mean)(c.name, policy) for c in columns]
        for at_load, policy in row_keys
    ]
    # Means that are tiny compared with a column's largest figure are rounding errors of 0.
    largest = [float(np.nanmax(np.abs(study.figures[c.name]), initial=0.0)) for c in columns]
    units = [UNITS.get(column.unit, 1.0) for column in columns]
    cells = [
        [
            interval_text(
                interval.mean / unit,
                interval.low / unit,
                interval.high / unit,
                table_format,
                most / unit,
            )
            for interval, unit, most in zip(row, units, largest, strict=True)
        ]
        for row in rows
    ]
    has_loads = len(study.loads) > 1
    names = [
        (policy, f"{at_load.loads[0]:g}") if has_loads else (policy,)
        for at_load, policy in row_keys
    ]
    key_headings = ("policy", "load") if has_loads else ("policy",)
    headings = [*key_headings, *(column.heading_in_words(TIMES) for column in columns)]
    sides = "l" * len(key_headings) + "c" * len(columns)
    caption = _caption(study, [interval.count for row in rows for interval in row])
    if table_format == "markdown":
        lines = [(*name, *map(" ".join, row)) for name, row in zip(names, cells, strict=True)]
        return f"{caption}\n\n{markdown(headings, lines, sides)}"
    # LaTeX breaks the name of a policy into halves.
    latex_rows = [
        [*(list(map(escaped, halves(text, "/"))) for text in name), *row]
        for name, row in zip(names, cells, strict=True)
    ]
    return latex_float(headings, latex_rows, sides, caption, label)


def _chosen_measures(frame: polars.DataFrame, columns: Sequence[FigureColumn]) -> polars.DataFrame:
    """Select rows of intervals by measure, and convert times to the units of `columns`."""
    return polars.concat(
        frame.filter(polars.col("measure") == each.name).with_columns(
            polars.col("mean", "low", "high") / UNITS.get(each.unit, 1.0),
            measure=polars.lit(each.heading),
        )
        for each in columns
    )


def _caption(study: Study, counts: Sequence[int]) -> str:
    """Return the caption of a study's table: reference, confidence level, and number of pairs."""
    has_pairs = len(study.policies) > 1
    shown = f"Mean differences from {study.policies[0]}" if has_pairs else "Means"
    load = study.loads[-1]
    at = f" at load {load:g}" if len(study.loads) == 1 and load != 1 else ""
    least, most = min(counts), max(counts)
    noun = "pair" if has_pairs else "run"
    over = counted(most, noun) if least == most else f"{least} to {counted(most, noun)}"
    if most < 2:
        return f"{shown}{at}, of {over}."
    return f"{shown}{at}, with {CONFIDENCE:.0%} confidence intervals by Student's t over {over}."


def study_latex(study: Study, columns: str | Sequence[str] | None, label: str) -> str:
    """Return the table of a study in LaTeX."""
    chosen = None if columns is None else parse_columns(columns, tuple(study.figures), TIMES)
    return study_text(study, "latex", chosen, label)


def outcomes_latex(outcomes: Outcomes, columns: str | Sequence[str] | None) -> str:
    """Return the table of outcomes in LaTeX."""
    known = outcomes.to_frame("figures").columns
    chosen = None if columns is None else parse_columns(columns, known, TIME_FIGURES)
    return outcomes_text(outcomes, "latex", chosen)
