"""Tables on narrow terminals: divided where they are too wide, with every digit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.report.document import (
    FAILS,
    HOLDS,
    ROOMY,
    Cell,
    Column,
    Document,
    Prose,
    Statement,
    table_of,
    words,
)
from fairlead.report.terminal import (
    finished,
    open_console,
    plain_table,
    print_table,
    to_terminal,
)


def figure(rng: np.random.Generator) -> str:
    value = 10 ** rng.uniform(0, 9)
    return f"{value:,.0f}" if rng.random() < 0.7 else f"{value % 100:.2f} %"


@settings(max_examples=100)
@given(
    width=st.integers(40, 120) | st.none(),
    seed=st.integers(0, 10**6),
    columns=st.integers(1, 12),
    keys=st.integers(1, 2),
)
def test_every_figure_stands_whole_beside_its_name(
    width: int | None, seed: int, columns: int, keys: int
) -> None:
    rng = np.random.default_rng(seed)
    names = ["-" * length for length in rng.integers(1, 31, rng.integers(1, 5))]
    figures = [[figure(rng) for _ in range(columns)] for _ in names]
    console, buffer = open_console(width, plain=True)
    table = plain_table()
    for key in range(keys):
        table.add_column(f"key {key}", overflow="fold")
    for k in range(columns):
        table.add_column(f"column {k}", justify="right")
    for name, row in zip(names, figures, strict=True):
        table.add_row(*[name] * keys, *row)
    print_table(console, table, keys=keys)
    lines = finished(buffer).splitlines()
    assert all(len(line) <= (width or 10**6) for line in lines)
    spoken = [word for line in lines for word in line.replace(" %", "%").split()]
    for cell in (cell for row in figures for cell in row):
        assert cell.replace(" %", "%") in spoken
        spoken.remove(cell.replace(" %", "%"))
    heads = [line for line in lines if "column" in line]
    assert sum(line.count("column") for line in heads) == columns
    assert all(line.strip().startswith("key 0") for line in heads)
    if width is None:
        assert len(heads) == 1


def test_a_terminal_lists_some_rows_and_counts_the_others() -> None:
    rows = [[f"u{k}", f"{k}"] for k in range(12)]
    some = {"each": "user", "rest": "with less", "on_terminal": 10, "in_pipe": 11}
    sizes = np.arange(12.0)
    for size, there in ((None, range(10)), (sizes, range(2, 12))):
        table = table_of("t", [words("user"), Column("n")], rows, size=size, **some)
        document = Document("t", "", "", None, [table], dict)
        text = to_terminal(document, width=80, plain=True)
        assert [line.split()[0] for line in text.splitlines() if line.startswith(" u")][1:] == [
            f"u{k}" for k in there
        ]
        assert "... and 2 users with less (all of them: --json" in text
        assert "... and 1 user with less" in to_terminal(document, width=None, plain=True)


@pytest.mark.parametrize("width", [80, None])
def test_what_has_room_is_one_table(width: int | None) -> None:
    console, buffer = open_console(width, plain=True)
    table = plain_table()
    table.add_column("user", overflow="fold")
    for heading in ("weight", "tasks", "share"):
        table.add_column(heading, justify="right")
    table.add_row("research-computing-department", "2.5", "15,484,103", "46.26 %")
    print_table(console, table)
    assert finished(buffer).count("user") == 1


def test_statements_stand_below_each_other_and_what_follows_is_indented() -> None:
    statements = [
        Statement(HOLDS, "all that is said of it fits on one line", "short", "holds"),
        Statement(FAILS, "five words and " * 6 + "50.00 % of it", "a-longer-name", "not so"),
    ]
    document = Document("t", "t", "two", None, [Prose("first"), *statements], dict)
    lines = to_terminal(document, width=60, plain=True).splitlines()
    assert lines[:3] == ["t: two", "first", ""]
    assert lines[3].startswith("✓ short          holds   all that is said")
    assert lines[5].startswith("✗ a-longer-name  not so  five words")
    assert [line for line in lines[3:] if line[0] not in "✓✗" and not line.startswith("  ")] == []
    assert " ".join(" ".join(lines[5:]).split()).endswith("50.00 % of it")
    piped = to_terminal(document, width=None, plain=True).splitlines()
    assert len(piped) == 5


@pytest.mark.parametrize("width", range(30, 60, 3))
def test_no_line_ends_between_a_number_and_its_per_cent(width: int) -> None:
    said = "in the end 50.00 % of one and 7.25 % of two are used, 100.00 % of all is had"
    document = Document("t", "t", "u", Statement(HOLDS, said), [Prose(said)], dict)
    text = to_terminal(document, width=width, plain=True)
    assert "\n%" not in text
    assert " ".join(text.split()).count(said) == 2


def test_a_list_in_a_cell_is_short_where_there_is_little_room() -> None:
    cell = Cell("a 1, b 2, " * 5, brief="a 1 and 9 more")
    columns = [words("user"), words("where"), words("what it is", ROOMY)]
    document = Document("t", "t", "u", None, [table_of("x", columns, [["u", cell, "long"]])], dict)
    for width, brief in ((80, True), (200, False), (None, False)):
        text = to_terminal(document, width=width, plain=True)
        assert ("a 1 and 9 more" in text) is brief
        assert ("what it is" in text) is not brief
