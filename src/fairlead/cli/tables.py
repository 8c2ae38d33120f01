"""Answers as tables for spreadsheets and papers: ``--format csv``, ``latex`` or ``markdown``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fairlead.cli.parameters import Option
from fairlead.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.model.notebooks import Shown

FORMATS = ("csv", "latex", "markdown")
TableFormat = Annotated[
    str | None,
    Option("--format", metavar="|".join(FORMATS), help="Print the main table in this format."),
]


Columns = Annotated[
    str | None,
    Option(
        "--columns",
        metavar="NAME[:UNIT][=HEADING],...",
        help="With --format: only these columns, of a study these measures; times in s, min, h or "
        "d; such as policy,mean_wait:h,p95_wait:h=Late,jain.",
    ),
]


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
    if form is None:
        return None
    from fairlead.report.table_text import frame_text

    frame = answer.to_frame()
    if rows:
        frame = frame.vstack(type(frame)(rows, schema=frame.schema, orient="row"))
    return frame_text(frame, form)
