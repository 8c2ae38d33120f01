"""Draw log-log pictures of growth as small SVG files, with selectable text, on white."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from growth import Line, Panel, in_words

OURS = ("#0b6e4f", "#1b9e77")
THEIRS = ("#c1440e", "#6a4c93", "#5b6770", "#b08900")
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "growth",
    "font.family": "sans-serif",
    "font.sans-serif": ["Arial", "Helvetica", "DejaVu Sans"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
WIDTH, HEIGHT, MOST_IN_A_ROW = 4.7, 3.9, 3


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Draw panels side by side: our lines are thick, an unfinished time has an arrow upward."""
    columns = 2 if len(panels) in (2, 4) else min(len(panels), MOST_IN_A_ROW)
    rows = -(-len(panels) // columns)
    with mpl.rc_context(STYLE):
        width = 7.2 if len(panels) == 1 else WIDTH * columns
        figure = Figure((width, HEIGHT * rows), layout="constrained", facecolor="white")
        for k, panel in enumerate(panels):
            _draw_panel(figure.add_subplot(rows, columns, k + 1), panel)
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, metadata={"Date": None, "Creator": None})


def _draw_panel(axes: Axes, panel: Panel) -> None:
    """Draw the lines of a panel on log-log axes, with a legend."""
    ours, theirs = iter(OURS), iter(THEIRS)
    for line in panel.lines:
        color = next(ours if line.is_ours else theirs)
        _draw_line(axes, line, color)
    axes.set(xscale="log", yscale="log", xlabel=panel.size_name, ylabel="time")
    for axis, name in ((axes.xaxis, _name_size), (axes.yaxis, in_words)):
        axis.set_major_formatter(FuncFormatter(lambda value, _, name=name: name(value)))
        axis.set_minor_locator(NullLocator())
    sizes = sorted({size for line in panel.lines for size in line.sizes})
    if sizes[-1] < 100 * sizes[0]:  # too few powers of ten between them
        axes.set_xticks(sizes)
    axes.set_title(panel.title, loc="left", fontsize=10.5)
    low, high = axes.get_ylim()
    # Leave space for the legend above the lines.
    axes.set_ylim(low, high * (high / low) ** (0.13 * len(panel.lines)))
    axes.grid(which="major", color="#e3e3e3", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.legend(loc="upper left", frameon=False, fontsize=9)


def _name_size(size: float) -> str:
    """Format a size: in digits below 50,000, else as the nearest power of ten."""
    if size < 5e4:
        return f"{size:,.0f}"
    power = str(round(np.log10(size)))
    return "10" + power.translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _draw_line(axes: Axes, line: Line, color: str) -> None:
    """Draw a line; mark a last time that ran out."""
    sizes, seconds = np.array(line.sizes), np.array(line.seconds)
    axes.plot(
        sizes,
        seconds,
        color=color,
        linewidth=2.2 if line.is_ours else 1.4,
        linestyle="-" if line.is_ours else "--",
        marker="o" if line.is_ours else "s",
        markersize=4.5,
        label=line.label,
    )
    if line.unfinished:
        axes.annotate(
            "not done",
            (sizes[-1], seconds[-1]),
            xytext=(0, 16),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=color,
            arrowprops={"arrowstyle": "<-", "color": color},
        )
