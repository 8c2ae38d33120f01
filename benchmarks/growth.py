"""Measure how the times of several methods grow with size; draw them, and update the docs.

A `Line` is one method over growing sizes, a `Panel` several lines over the same sizes. `publish`
turns a section's panels into its picture, and in some sections also into a table, in
docs/beyond-the-papers.md.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

DOCS = Path(__file__).resolve().parents[1] / "docs"
TEXT = DOCS / "beyond-the-papers.md"
# Shorter times are mostly the overhead of a call, and show no growth.
SHORTEST = 1e-4
# Quick methods are repeated for so long, and the shortest time counts: other load only adds time.
ENOUGH_SECONDS, MOST_REPEATS = 0.5, 9


@dataclass
class Line:
    """One method, measured over growing sizes.

    Attributes
    ----------
    name : str
    is_ours : bool
        Whether it is fairlead's method.
    sizes : list of float
    seconds : list of float
        Processor time at each size.
    unfinished : bool
        Whether the method ran out of time at the last size.
    """

    name: str
    is_ours: bool = False
    sizes: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    unfinished: bool = False

    def add(self, size: float, seconds: float) -> None:
        """Add a measured time."""
        self.sizes.append(size)
        self.seconds.append(seconds)

    @property
    def exponent(self) -> float:
        """The slope in a log-log picture, by least squares over the larger half of the sizes.

        NaN with fewer than three finished times, or if all are shorter than `SHORTEST`.
        """
        finished = len(self.seconds) - self.unfinished
        size, seconds = np.array(self.sizes[:finished]), np.array(self.seconds[:finished])
        half = max(3, (finished + 1) // 2)
        size, seconds = size[-half:], seconds[-half:]
        if len(size) < 3 or seconds.max() < SHORTEST:
            return float("nan")
        return float(np.polyfit(np.log(size), np.log(seconds), 1)[0])

    @property
    def label(self) -> str:
        """The name, with the exponent if it is a number."""
        exponent = self.exponent
        return self.name if np.isnan(exponent) else f"{self.name} (slope {exponent:.2f})"


@dataclass
class Panel:
    """Lines over the same sizes.

    Attributes
    ----------
    title, size_name : str
        Above the panel, and below its horizontal axis.
    lines : sequence of Line
    """

    title: str
    size_name: str
    lines: Sequence[Line]


def seconds_of(action: Callable[[], object]) -> float:
    """Return the shortest processor time of an action; the longer it takes, the fewer repeats.

    Wall time would include other load on the machine. Threads of the action count in full.
    """
    taken: list[float] = []
    while not taken or (sum(taken) < ENOUGH_SECONDS and len(taken) < MOST_REPEATS):
        begin = time.process_time()
        action()
        taken.append(time.process_time() - begin)
    return min(taken)


def tabulate(panels: Sequence[Panel]) -> str:
    """Compare our first method with each other one, at the largest common size, in Markdown."""
    rows = [["at", "ours", "", "slope", "compared with", "", "slope"]]
    rows.append(["---", "---", "---:", "---:", "---", "---:", "---:"])
    for panel in panels:
        ours, *others = panel.lines
        for line in others:
            size = max(set(ours.sizes) & set(line.sizes))
            here = f"{size:,.0f} {panel.size_name}" + (
                f", {panel.title}" if len(panels) > 1 else ""
            )
            rows.append([here, *_cells(ours, size), *_cells(line, size)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _cells(line: Line, size: float) -> list[str]:
    """Return a method's name, its time at a size, and its slope."""
    seconds = in_words(line.seconds[line.sizes.index(size)])
    is_open = line.unfinished and size == line.sizes[-1]
    slope = line.exponent
    return [
        line.name,
        f"over {seconds}" if is_open else seconds,
        "" if np.isnan(slope) else f"{slope:.2f}",
    ]


def in_words(seconds: float) -> str:
    """Format a time with two digits and its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale or unit == "µs":
            return f"{float(f'{seconds / scale:.2g}'):g} {unit}"
    raise AssertionError("every time has a unit")


def publish(section: str, panels: Sequence[Panel], *said: str, has_table: bool = False) -> None:
    """Draw a section's picture, and write its table and the paragraphs `said` into the docs.

    The legend of the picture has the slopes, so a table is only for times that a decision needs.
    """
    from growth_pictures import draw

    draw(panels, DOCS / "pictures" / f"{section}.svg")
    figures = [*([tabulate(panels)] if has_table else []), *said]
    if figures:
        write(section, "\n\n".join(figures))


def write(section: str, figures: str) -> None:
    """Write figures between a section's marks in the docs."""
    text = TEXT.read_text(encoding="utf-8")
    TEXT.write_text(replace_figures(text, section, figures), encoding="utf-8")


def replace_figures(text: str, section: str, figures: str) -> str:
    """Return the text with the lines between a section's two marks replaced."""
    start, end = f"<!-- measured: {section} -->", "<!-- end -->"
    pattern = re.compile(f"({re.escape(start)}\n).*?({re.escape(end)})", re.DOTALL)
    replaced, times = pattern.subn(lambda m: f"{m[1]}{figures}\n{m[2]}", text)
    if times != 1:
        raise ValueError(f"{start!r} is in the text {times} times, not once")
    return replaced


def machine() -> str:
    """Describe the machine: processor, cores and Python version."""
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        name = re.findall(r"model name\s*: (.*)", info)[0]
    except (OSError, IndexError):
        name = platform.processor() or "unknown processor"
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"
