"""Answers as tables for spreadsheets and papers: ``--format csv`` and ``--format latex``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fairlead.cli.parameters import Option
from fairlead.errors import InputError

if TYPE_CHECKING:
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


def table_text(answer: Shown, form: str | None) -> str | None:
    """Return the main table of an answer as text; None without a format."""
    if form is None:
        return None
    frame = answer.to_frame()
    if form == "csv":
        return frame.write_csv()
    from tabulate import tabulate

    rows = frame.fill_nan(None).rows()
    text = tabulate(rows, frame.columns, tablefmt="latex_booktabs", floatfmt=".4g", missingval="--")
    return f"{text}\n"
