"""Measure how the time of two ways to one answer grows, draw it and put it into the text.

A `Line` is one way over growing sizes, a `Panel` the lines that share their sizes, and
`publish` turns a section's panels into its picture and its table in docs/beyond-the-papers.md.
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
# Times shorter than this are mostly what a call costs: they say nothing of growth.
SHORTEST = 1e-4
# What quick ways are repeated for, in all: others on the machine only ever make a time longer.
ENOUGH_SECONDS, MOST_REPEATS = 0.5, 9


@dataclass
class Line:
    """One way to an answer.

    Attributes
    ----------
    name : str
    is_ours : bool
    sizes : list of float
    seconds : list of float
    unfinished : bool
        Whether the last of these times ran out before the answer was there.
    """

    name: str
    is_ours: bool = False
    sizes: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    unfinished: bool = False

    def add(self, size: float, seconds: float) -> None:
        """Note a measured time."""
        self.sizes.append(size)
        self.seconds.append(seconds)

    @property
    def exponent(self) -> float:
        """The slope in a log-log picture, by least squares over the larger half of the sizes.

        Not a number where fewer than three times tell.
        """
        told = len(self.seconds) - self.unfinished
        size, seconds = np.array(self.sizes[:told]), np.array(self.seconds[:told])
        half = max(3, (told + 1) // 2)
        size, seconds = size[-half:], seconds[-half:]
        if len(size) < 3 or seconds.max() < SHORTEST:
            return float("nan")
        return float(np.polyfit(np.log(size), np.log(seconds), 1)[0])

    @property
    def label(self) -> str:
        """The name with the exponent, where there is one."""
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
    """Return the shortest processor time of an action, of fewer repeats the longer it takes.

    Processor time, because what others do on the machine would count as growth; an action's own
    threads count in full.
    """
    taken: list[float] = []
    while not taken or (sum(taken) < ENOUGH_SECONDS and len(taken) < MOST_REPEATS):
        begin = time.process_time()
        action()
        taken.append(time.process_time() - begin)
    return min(taken)


def tabulate(panels: Sequence[Panel]) -> str:
    """Tabulate our first way beside each other one, at the largest size of both, in Markdown."""
    rows = [["at", "ours", "", "slope", "beside", "", "slope"]]
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
    """Return a way's name, its time at a size, and its slope."""
    seconds = in_words(line.seconds[line.sizes.index(size)])
    is_open = line.unfinished and size == line.sizes[-1]
    slope = line.exponent
    return [
        line.name,
        f"over {seconds}" if is_open else seconds,
        "" if np.isnan(slope) else f"{slope:.2f}",
    ]


def in_words(seconds: float) -> str:
    """Return a time with two digits and its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale or unit == "µs":
            return f"{float(f'{seconds / scale:.2g}'):g} {unit}"
    raise AssertionError("every time has a unit")


def publish(section: str, panels: Sequence[Panel], *said: str) -> None:
    """Draw a section's picture and put its table, and what else was measured, into the text."""
    from growth_pictures import draw

    draw(panels, DOCS / "pictures" / f"{section}.svg")
    command = f"`python -m pytest benchmarks/test_growth.py -k {section.replace('-', '_')}`"
    write(section, "\n\n".join([tabulate(panels), *said, command]))


def write(section: str, figures: str) -> None:
    """Put figures between a section's marks in the text."""
    text = TEXT.read_text(encoding="utf-8")
    TEXT.write_text(replace_figures(text, section, figures), encoding="utf-8")


def replace_figures(text: str, section: str, figures: str) -> str:
    """Return the text with the lines between a section's two marks replaced."""
    begin, end = f"<!-- measured: {section} -->", "<!-- end -->"
    pattern = re.compile(f"({re.escape(begin)}\n).*?({re.escape(end)})", re.DOTALL)
    replaced, times = pattern.subn(lambda m: f"{m[1]}{figures}\n{m[2]}", text)
    if times != 1:
        raise ValueError(f"{begin!r} stands in the text {times} times, not once")
    return replaced


def machine() -> str:
    """Return what the figures were measured on."""
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        name = re.findall(r"model name\s*: (.*)", info)[0]
    except (OSError, IndexError):
        name = platform.processor() or "unknown processor"
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"
