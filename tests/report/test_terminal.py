"""Tables on narrow terminals: divided where they are too wide, with every digit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.report.terminal import finished, open_console, plain_table, print_table


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
    said = [word for line in lines for word in line.replace(" %", "%").split()]
    for cell in (cell for row in figures for cell in row):
        assert cell.replace(" %", "%") in said
        said.remove(cell.replace(" %", "%"))
    heads = [line for line in lines if "column" in line]
    assert sum(line.count("column") for line in heads) == columns
    assert all(line.strip().startswith("key 0") for line in heads)
    if width is None:
        assert len(heads) == 1


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
