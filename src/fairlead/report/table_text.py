"""Format frames as text: CSV for programs, LaTeX for papers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars
from tabulate import tabulate

from fairlead.report.numbers import number

MISSING = "--"
_LABELS = {
    "mean_completion_time": "mean completion",
    "fairness_error_over_a_week": "weekly fairness error",
    "longest_without": "longest wait with nothing",
    "lost": "lost tasks",
    "waiting": "tasks left waiting",
}


def in_words(name: str) -> str:
    """Return the name of a figure in words; names of resources stay."""
    if name.startswith("used_"):
        return f"used {name.removeprefix('used_')}"
    return _LABELS.get(name, name.replace("p95_", "95 % ").replace("_", " "))


def frame_text(frame: polars.DataFrame, table_format: str, headings: Sequence[str] = ()) -> str:
    """Format a frame as ``csv`` with its column names, or as ``latex`` with `headings`.

    Without `headings`, those of LaTeX are the column names in words.
    """
    if table_format == "csv":
        return frame.write_csv()
    rows = [[_cell(value) for value in row] for row in frame.rows()]
    head = headings or [in_words(name) for name in frame.columns]
    sides = ["right" if column.dtype.is_numeric() else "left" for column in frame]
    text = tabulate(rows, head, "latex_booktabs", disable_numparse=True, colalign=sides)
    text = re.sub(r"(?<= )-(?=[0-9])", "$-$", text)  # LaTeX sets a minus only in mathematics
    return f"% needs \\usepackage{{booktabs}}\n{text}\n"


def _cell(value: object) -> str:
    if value is None:
        return MISSING
    return number(value) if isinstance(value, int | float) else str(value)
