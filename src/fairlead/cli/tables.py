"""Answers as tables for spreadsheets and papers: ``--format csv``, ``latex`` or ``markdown``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fairlead.cli.parameters import Option
from fairlead.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import polars

    from fairlead.model.notebooks import Shown

FORMATS = ("csv", "latex", "markdown")
TableFormat = Annotated[
    str | None,
    Option("--format", metavar="|".join(FORMATS), help="Print the main table in this format."),
]


UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}  # of times, in seconds
Columns = Annotated[
    str | None,
    Option(
        "--columns",
        metavar="NAME[:UNIT],...",
        help="With --format: only these columns, of a study these measures; times in s, min, h or "
        "d; such as policy,mean_wait:h,p95_wait:h,jain.",
    ),
]


@dataclass(frozen=True)
class FigureColumn:
    """A column of a table to print; a time has a unit."""

    name: str
    unit: str = ""

    @property
    def heading(self) -> str:
        """The name, with the unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


def columns_of(text: str, known: Collection[str], times: Collection[str]) -> list[FigureColumn]:
    """Return the columns that an option names; raise InputError for an unknown one or unit."""
    found: list[FigureColumn] = []
    for part in text.split(","):
        name, _, unit = part.partition(":") if part not in known else (part, "", "")
        if name not in known:
            fault = f"there is no column {name!r:.60}; known: {', '.join(known)}"
            raise InputError(fault, "--columns")
        unit = "min" if unit == "m" else unit
        if part != name and (name not in times or unit not in UNITS):
            units = " or ".join(UNITS) if name in times else "no unit"
            raise InputError(f"{name} takes {units}, not {unit!r:.60}", "--columns")
        if FigureColumn(name, unit) in found:
            raise InputError(f"names {part!r:.60} twice", "--columns")
        found.append(FigureColumn(name, unit))
    return found


def chosen_frame(frame: polars.DataFrame, columns: Sequence[FigureColumn]) -> polars.DataFrame:
    """Return columns of a frame, times in their units."""
    import polars

    return frame.select(
        (
            polars.col(column.name).cast(polars.Float64) / UNITS[column.unit]
            if column.unit
            else polars.col(column.name)
        ).alias(column.heading)
        for column in columns
    )


def chosen_measures(frame: polars.DataFrame, measures: Sequence[FigureColumn]) -> polars.DataFrame:
    """Return the rows of a frame of intervals with some measures, times in their units."""
    import polars

    parts = [
        frame.filter(polars.col("measure") == each.name).with_columns(
            polars.col("mean", "low", "high") / UNITS.get(each.unit, 1.0),
            measure=polars.lit(each.heading),
        )
        for each in measures
    ]
    return polars.concat(parts)


def check_format(form: str | None, as_json: bool, columns: str | None = None) -> None:
    """Raise InputError for an unknown format, one beside ``--json``, or columns without one."""
    if form is None and columns is not None:
        raise InputError(f"needs --format {' or '.join(FORMATS)}", "--columns")
    if form is not None and form not in FORMATS:
        raise InputError(f"must be {' or '.join(FORMATS)}, not {form!r:.60}", "--format")
    if form is not None and as_json:
        raise InputError("cannot be given with --json", "--format")


def table_text(
    answer: Shown, form: str | None, rows: Sequence[tuple[object, ...]] = ()
) -> str | None:
    """Return the main table of an answer, and further rows, as text; None without a format."""
    return None if form is None else frame_text(answer.to_frame(), form, rows)


def frame_text(frame: polars.DataFrame, form: str, rows: Sequence[tuple[object, ...]] = ()) -> str:
    """Return a frame, and further rows, as text in a format."""
    if rows:
        frame = frame.vstack(type(frame)(rows, schema=frame.schema, orient="row"))
    if form == "csv":
        return frame.write_csv()
    from tabulate import tabulate

    cells = frame.rows()
    layout, missing = ("github", "–") if form == "markdown" else ("latex_booktabs", "--")
    text = tabulate(cells, frame.columns, tablefmt=layout, floatfmt=".4g", missingval=missing)
    return f"{text}\n"
