"""Answers as tables for spreadsheets and papers: ``--format csv`` and ``--format latex``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fairlead.cli.parameters import Option
from fairlead.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars

    from fairlead.model.notebooks import Shown

FORMATS = ("csv", "latex")
TableFormat = Annotated[
    str | None,
    Option("--format", metavar="csv|latex", help="Print the main table in this format."),
]


def check_format(form: str | None, as_json: bool) -> None:
    """Raise InputError for an unknown format, or one beside ``--json``."""
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

    cells = frame.fill_nan(None).rows()
    text = tabulate(
        cells, frame.columns, tablefmt="latex_booktabs", floatfmt=".4g", missingval="--"
    )
    return f"{text}\n"
