"""Format amounts, shares, times, names and frames."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from fairlead.model.quantity import printable
from fairlead.properties.verdict_text import (
    NEARLY_ZERO,
    UNCHANGED,
    counted,
    format_tasks,
    is_nearly_zero,
)

if TYPE_CHECKING:
    import polars

    from fairlead.model.cluster import Cluster

__all__ = [
    "UNCHANGED",
    "amount",
    "change",
    "counted",
    "duration",
    "frame_text",
    "in_words",
    "named",
    "number",
    "percent",
    "precise_percent",
    "printable",
    "resource_label",
    "spread",
    "tasks_text",
    "time_unit",
]

UNITS_OF_TIME = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0))
MISSING = "--"
_LABELS = {
    "mean_completion_time": "mean completion",
    "fairness_error_over_a_week": "weekly fairness error",
    "longest_without": "longest wait with nothing",
    "lost": "lost tasks",
    "waiting": "tasks left waiting",
}


def number(value: float) -> str:
    """Format an amount with four significant digits: ``12,583``, ``82.5``, ``0.0123``."""
    value += 0.0  # makes 0 of -0
    if value != 0 and not 1e-4 <= abs(value) < 1e12:
        return f"{value:.3g}"
    if abs(value) >= 999.95:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def tasks_text(tasks: float) -> str:
    """Format a number of tasks with its noun: ``1 task``, ``2.5 tasks``."""
    return format_tasks(number(tasks))


def spread(value: float) -> str:
    """Format a deviation or a margin with three significant digits."""
    return number(float(f"{value:.3g}"))


def percent(share: float) -> str:
    """Format a fraction as a percentage: ``100.00 %``, ``7.14 %``, ``0.0021 %``."""
    if is_nearly_zero(share):
        return NEARLY_ZERO
    if 0 < abs(share) < 1e-4:
        return f"{100 * share:.2g} %"
    return f"{100 * share + 0.0:,.2f} %"  # 0 of -0


def precise_percent(share: float) -> str:
    """Format a percentage with four digits, for shares that differ little: ``0.02857 %``."""
    if is_nearly_zero(share):
        return NEARLY_ZERO
    return f"{100 * share + 0.0:#.4g} %"  # 0 of -0


def change(fraction: float, unchanged: str = "unchanged") -> str:
    """Format a relative change with its sign: ``+12.3 %``, ``−6.67 %``, ``unchanged``."""
    if not isfinite(fraction):
        return "from nothing"
    if abs(fraction) < UNCHANGED:
        return unchanged
    percent = 100 * fraction
    text = f"{percent:+,.0f}" if 100 <= abs(percent) < 1e9 else f"{percent:+.3g}"
    return f"{text.replace('-', '−')}\u00a0%"


def named(names: Sequence[str], limit: int) -> str:
    """List the first names, at most `limit`, and count the others."""
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{more}"


def amount(value: float, unit: str) -> str:
    """Format an amount with its unit, if it has one."""
    return f"{number(value)} {unit}".rstrip()


def resource_label(cluster: Cluster, r: int) -> str:
    """Name a resource with its unit: ``memory (GiB)``."""
    unit = cluster.units[r]
    return f"{cluster.resources[r]} ({unit})" if unit else cluster.resources[r]


def duration(seconds: float) -> str:
    """Format a duration in a suitable unit: ``89 d``, ``3.2 h``, ``45 s``."""
    unit, size = time_unit(abs(seconds))
    return f"{number(seconds / size)} {unit}"


def time_unit(seconds: float) -> tuple[str, float]:
    """Return a suitable unit for times up to `seconds`, and its length in seconds."""
    for unit, size in UNITS_OF_TIME:
        if seconds >= 2 * size:
            return unit, size
    return "s", 1.0


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
    from tabulate import tabulate  # noqa: PLC0415 (most readers of this module need no table)

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
