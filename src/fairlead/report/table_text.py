"""Format tables as text: CSV for programs, LaTeX and markdown for papers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from math import floor, isnan, log10

import polars
from tabulate import LATEX_ESCAPE_RULES, tabulate

from fairlead.report.numbers import number

ROUNDING = 1e-9  # relative to the largest number of a column; smaller numbers are shown as 0
MOST_DECIMALS = 6  # of an interval; smaller numbers are written with a power of ten
_MISSING = {"latex": "--", "markdown": "–"}
_NEEDS = "% needs \\usepackage{booktabs}"
_ESCAPES = str.maketrans(LATEX_ESCAPE_RULES)
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
    """Format a frame as text; without `headings`, its column names in words are the headings."""
    if table_format == "csv":
        return frame.write_csv()
    head = headings or [in_words(name) for name in frame.columns]
    columns = [_column_text(column, table_format) for column in frame]
    rows = list(zip(*columns, strict=True))
    sides = "".join("r" if column.dtype.is_numeric() else "l" for column in frame)
    if table_format == "markdown":
        return markdown(head, rows, sides)
    return "\n".join((_NEEDS, *_tabular([_line(map(escaped, head))], map(_line, rows), sides), ""))


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> str:
    """Format a table in markdown; `sides` has ``l``, ``c`` or ``r`` for each column."""
    aligned = [{"l": "left", "c": "center", "r": "right"}[side] for side in sides]
    text = tabulate(rows, head, tablefmt="github", disable_numparse=True, colalign=aligned)
    return f"{text}\n"


def latex_float(
    head: Sequence[str],
    rows: Sequence[Sequence[Sequence[str]]],
    sides: str,
    caption: str,
    label: str,
) -> str:
    """Format a LaTeX table with caption and label, for a narrow column of a paper.

    Headings and cells have up to two lines. Cells of `rows` are LaTeX; other texts are escaped.
    """
    heads = _lines_of_row([[escaped(half) for half in halves(heading, " ")] for heading in head])
    lines = [line for row in rows for line in ("\\addlinespace", *_lines_of_row(row))][1:]
    return "\n".join(
        (
            _NEEDS,
            "\\begin{table}",
            f"\\caption{{{escaped(caption)}}}\\label{{{label}}}",
            "\\centering\\footnotesize\\setlength{\\tabcolsep}{3pt}",
            *_tabular(heads, lines, f"@{{}}{sides}@{{}}"),
            "\\end{table}",
            "",
        )
    )


def interval_text(
    mean: float, low: float, high: float, table_format: str, largest: float = 0.0
) -> tuple[str, ...]:
    """Format a mean and its interval, with as many digits as the interval's width makes certain.

    Numbers that are rounding errors relative to `largest`, an input of the computation, become 0.
    """
    mean, low, high = (0.0 if abs(x) < ROUNDING * largest else x for x in (mean, low, high))
    if isnan(mean):
        return (_MISSING[table_format],)
    if isnan(low):
        return (_signs(number(mean), table_format),)
    reach = (high - low) / 2
    is_certain = reach <= ROUNDING * max(abs(mean), largest)
    # The reach keeps 4 to 35 units of the last digit, as by the Particle Data Group.
    decimals = 0 if is_certain else max(-floor(log10(reach / 3.55)), 0)
    if is_certain or decimals > MOST_DECIMALS:
        texts = [number(x) for x in (mean, low, high)]
    else:
        texts = [f"{round(x, decimals) + 0.0:,.{decimals}f}" for x in (mean, low, high)]  # no -0
    middle, start, end = (_signs(text, table_format) for text in texts)
    return middle, f"({start} to {end})"


def halves(text: str, at: str) -> list[str]:
    """Split a text into two parts of similar length after a separator; else return it whole."""
    ends = [k + 1 for k, sign in enumerate(text) if sign == at and k + 1 < len(text)]
    if not ends:
        return [text]
    end = min(ends, key=lambda k: max(k, len(text) - k))
    return [text[:end].rstrip(), text[end:]]


def escaped(text: str) -> str:
    """Escape a text for LaTeX."""
    return text.translate(_ESCAPES)


def _lines_of_row(cells_lines: Iterable[Sequence[str]]) -> list[str]:
    """Return the one or two lines of a LaTeX row, from the lines of its cells."""
    return [_line(cells) for cells in zip_longest(*cells_lines, fillvalue="")]


def _line(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _tabular(head: Iterable[str], lines: Iterable[str], sides: str) -> list[str]:
    start = [f"\\begin{{tabular}}{{{sides}}}", "\\toprule", *head, "\\midrule"]
    return [*start, *lines, "\\bottomrule", "\\end{tabular}"]


def _column_text(column: polars.Series, table_format: str) -> list[str]:
    """Format the cells of a column; numbers negligible relative to the largest one become 0."""
    if not column.dtype.is_numeric():
        clean = escaped if table_format == "latex" else lambda text: text.replace("|", "\\|")
        return [_MISSING[table_format] if x is None else clean(str(x)) for x in column]
    least = ROUNDING * max((abs(x) for x in column if x is not None), default=0.0)
    return [
        _MISSING[table_format]
        if x is None
        else _signs(number(x if abs(x) >= least else 0.0), table_format)
        for x in column
    ]


def _signs(text: str, table_format: str) -> str:
    """Convert minus, power of ten and commas of a number to a format."""
    if table_format == "markdown":
        return text.replace("-", "−")
    digits, has_power, power = text.replace(",", "{,}").partition("e")
    return f"${digits}\\times10^{{{int(power)}}}$" if has_power else f"${digits}$"
