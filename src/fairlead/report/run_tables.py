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
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}  # of times, in seconds


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

    def in_words(self, times: Collection[str]) -> str:
        """Return the heading for readers: the title, or the name in words, and a time's unit."""
        unit = self.unit or ("s" if self.name in times else "")
        return self.title or (f"{in_words(self.name)} ({unit})" if unit else in_words(self.name))


def parse_columns(
    columns: str | Sequence[str],
    known: Collection[str],
    times: Collection[str],
    place: str = "columns",
) -> list[FigureColumn]:
    """Parse columns ``NAME[:UNIT][=HEADING]``, separated by commas or in a sequence.

    Raises InputError for an unknown or repeated column, or a wrong unit.
    """
    found: list[FigureColumn] = []
    for part in columns.split(",") if isinstance(columns, str) else texts(columns, place):
        figure, has_title, title = part.partition("=")
        name, _, unit = figure.partition(":") if figure not in known else (figure, "", "")
        if name not in known:
            fault = f"there is no column {name!r:.60}; known: {', '.join(known)}"
            raise InputError(fault, place)
        unit = "min" if unit == "m" else unit
        if figure != name and (name not in times or unit not in UNITS):
            units = " or ".join(UNITS) if name in times else "no unit"
            raise InputError(f"{name} takes {units}, not {unit!r:.60}", place)
        if has_title and not title.strip():
            raise InputError(f"{name} has an empty heading", place)
        column = FigureColumn(name, unit, title.strip())
        if column.heading in [each.heading for each in found]:
            raise InputError(f"names {column.heading!r:.60} twice", place)
        found.append(column)
    if not found:
        raise InputError("names no column", place)
    return found


def outcomes_text(
    found: Outcomes, table_format: str, columns: Sequence[FigureColumn] | None
) -> str:
    """Format figures of runs, a row for each policy; without `columns` the usual figures."""
    if columns is None:
        frame = found.to_frame()
        columns = [FigureColumn(name) for name in frame.columns]
    else:
        if table_format != "csv" and all(column.name != "policy" for column in columns):
            columns = [FigureColumn("policy"), *columns]
        frame = found.to_frame("figures").select(
            (
                polars.col(column.name).cast(polars.Float64) / UNITS[column.unit]
                if column.unit
                else polars.col(column.name)
            ).alias(column.heading)
            for column in columns
        )
    return frame_text(frame, table_format, [column.in_words(TIME_FIGURES) for column in columns])


def study_text(
    found: Study, table_format: str, columns: Sequence[FigureColumn] | None, label: str = LABEL
) -> str:
    """Format differences from the first policy, or the means of a single policy.

    CSV has a row for each load, policy and measure. The other formats have a row for each policy
    and load, and a column for each measure. `label` is for references in LaTeX.
    """
    has_pairs = len(found.policies) > 1
    if table_format == "csv":
        frame = found.to_frame("differences" if has_pairs else "means")
        return (frame if columns is None else _chosen_measures(frame, columns)).write_csv()
    if columns is None:
        columns = [FigureColumn(name) for name in found.figures]
    shown = [
        (part, policy)
        for load in found.loads
        for part in [found.at(load)]
        for policy in (found.policies[1:] if has_pairs else found.policies)
    ]
    rows = [
        [(part.difference if has_pairs else part.mean)(each.name, policy) for each in columns]
        for part, policy in shown
    ]
    largest = [float(np.nanmax(np.abs(found.figures[each.name]), initial=0.0)) for each in columns]
    cells = [
        [
            interval_text(
                each.mean / size, each.low / size, each.high / size, table_format, most / size
            )
            for each, column, most in zip(row, columns, largest, strict=True)
            for size in [UNITS.get(column.unit, 1.0)]
        ]
        for row in rows
    ]
    names = [
        (policy, f"{part.loads[0]:g}") if len(found.loads) > 1 else (policy,)
        for part, policy in shown
    ]
    n = 2 if len(found.loads) > 1 else 1
    head = [*("policy", "load")[:n], *(each.in_words(TIMES) for each in columns)]
    sides = "l" * n + "c" * len(columns)
    caption = _caption(found, [each.count for row in rows for each in row])
    if table_format == "markdown":
        lines = [(*name, *map(" ".join, row)) for name, row in zip(names, cells, strict=True)]
        return f"{caption}\n\n{markdown(head, lines, sides)}"
    parts = [
        [*(list(map(escaped, halves(text, "/"))) for text in name), *row]
        for name, row in zip(names, cells, strict=True)
    ]
    return latex_float(head, parts, sides, caption, label)


def _chosen_measures(frame: polars.DataFrame, columns: Sequence[FigureColumn]) -> polars.DataFrame:
    """Select rows of intervals by measure, and convert times to the units of `columns`."""
    return polars.concat(
        frame.filter(polars.col("measure") == each.name).with_columns(
            polars.col("mean", "low", "high") / UNITS.get(each.unit, 1.0),
            measure=polars.lit(each.heading),
        )
        for each in columns
    )


def _caption(found: Study, counts: Sequence[int]) -> str:
    """Return the caption of a study's table: reference, confidence level, and number of pairs."""
    has_pairs = len(found.policies) > 1
    shown = f"Mean differences from {found.policies[0]}" if has_pairs else "Means"
    (*_, load) = found.loads
    at = f" at load {load:g}" if len(found.loads) == 1 and load != 1 else ""
    least, most = min(counts), max(counts)
    noun = "pair" if has_pairs else "run"
    over = counted(most, noun) if least == most else f"{least} to {counted(most, noun)}"
    if most < 2:
        return f"{shown}{at}, of {over}."
    return f"{shown}{at}, with {CONFIDENCE:.0%} confidence intervals by Student's t over {over}."


def study_latex(found: Study, columns: str | Sequence[str] | None, label: str) -> str:
    """Return the table of a study in LaTeX."""
    chosen = None if columns is None else parse_columns(columns, tuple(found.figures), TIMES)
    return study_text(found, "latex", chosen, label)


def outcomes_latex(found: Outcomes, columns: str | Sequence[str] | None) -> str:
    """Return the table of outcomes in LaTeX."""
    known = found.to_frame("figures").columns
    chosen = None if columns is None else parse_columns(columns, known, TIME_FIGURES)
    return outcomes_text(found, "latex", chosen)
