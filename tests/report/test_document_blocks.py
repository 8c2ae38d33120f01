"""Blocks of documents on a terminal, in a pipe, on a page and as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fairlead.report import page
from fairlead.report.charts import Axis, Figure, Line
from fairlead.report.document import (
    FAILS,
    HOLDS,
    MUTED,
    ROWS_ON_TERMINAL,
    UNKNOWN,
    Block,
    Cell,
    Document,
    Listing,
    Picture,
    Prose,
    Section,
    Statement,
    Tiles,
    numbers,
    pairs_table,
    table_of,
    words,
)
from fairlead.report.page import ROWS_ON_PAGE, to_page
from fairlead.report.terminal import LINES_ON_TERMINAL, to_terminal
from page_reader import Reader, read_harmless

COLUMNS = [*words("who"), *numbers("what")]


def document(*blocks: Block, **more: Any) -> Document:
    given: dict[str, Any] = {"verdict": None, "values": dict} | more
    return Document("title", "about", "lead", blocks=blocks, **given)


def on_terminal(*blocks: Block, width: int | None = 80) -> str:
    return to_terminal(document(*blocks), width=width, plain=True)


def on_page(*blocks: Block) -> Reader:
    return read_harmless(to_page(document(*blocks)))


def in_words(read: Reader) -> str:
    """Return the shown text, with a blank between elements."""
    return " ".join(" ".join(read.shown).split())


def rows_of(count: int) -> list[list[str]]:
    return [[f"u{k}", f"{k}.5"] for k in range(count)]


def listed(text: str) -> list[str]:
    return [word for word in text.split() if word.startswith("u") and word[1:].isdigit()]


def names(rows: Any) -> list[str]:
    return [f"u{k}" for k in rows]


@pytest.mark.parametrize(
    "block",
    [
        table_of("t", COLUMNS, [["marker", "1"]], page_only=True),
        Prose("marker", page_only=True),
        Section("head", [Prose("marker")], page_only=True),
        Picture("marker", Figure([], Axis(), Axis()), "marker"),
    ],
    ids=lambda block: type(block).__name__,
)
def test_some_blocks_are_for_pages_only(block: Block) -> None:
    assert "marker" not in on_terminal(block)
    assert "marker" in on_page(block).text


@pytest.mark.parametrize("count", [0, ROWS_ON_PAGE, ROWS_ON_PAGE + 1])
@pytest.mark.parametrize("folded", ["", "open this"])
def test_a_page_has_the_first_rows_and_counts_others(count: int, folded: str) -> None:
    text = on_page(table_of("t", COLUMNS, rows_of(count), folded=folded)).text
    assert listed(text) == names(range(min(count, ROWS_ON_PAGE)))
    assert ("open this" in text) == bool(folded)
    assert ("… and 1 row" in text) == (count > ROWS_ON_PAGE)


def test_a_pipe_has_all_rows_and_a_terminal_a_screen() -> None:
    table = table_of("t", COLUMNS, rows_of(60), each="user", rest="with less")
    assert listed(on_terminal(table, width=None)) == names(range(60))
    text = on_terminal(table)
    assert listed(text) == names(range(ROWS_ON_TERMINAL))
    assert "... and 20 users with less" in text


def test_the_largest_rows_are_shown_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "ROWS_ON_PAGE", 4)
    size = np.array([3.0, 9, 1, 7, 5, 8])
    more = {"size": size, "each": "user", "rest": "with less", "on_terminal": 3}
    table = table_of("t", COLUMNS, rows_of(6), **more)
    assert listed(on_terminal(table)) == names([1, 3, 5])
    read = on_page(table).text
    assert listed(read) == names([1, 3, 4, 5])
    assert "… and 2 users with less; all are in the output of --json." in read


def test_a_cell_has_its_value_colour_and_note() -> None:
    row = [Cell("name", 7.0), Cell("1.50", 1.4999999999, "bad", "#123456", "n")]
    table = table_of("t", COLUMNS, [row])
    read = on_page(table)
    (cell,) = [a for tag, a in read.elements if tag == "td"]
    assert cell == {"class": "num bad", "data-value": "1.5"}
    assert [a for tag, a in read.elements if tag == "th" and "data-value" in a] == []
    styles = [str(a["style"]) for _, a in read.elements if "style" in a]
    assert styles == ["background: #123456"]
    assert "1.50 n" in read.text
    assert "1.50 n" in on_terminal(table)


@pytest.mark.parametrize("more", [0, 1])
def test_long_lists_are_cut_and_counted(more: int) -> None:
    for most, shown in (
        (LINES_ON_TERMINAL, lambda lines: on_terminal(Listing(lines, "heading"))),
        (page.LINES_ON_PAGE, lambda lines: in_words(on_page(Listing(lines, "heading")))),
    ):
        text = shown(names(range(most + more)))
        assert listed(text) == names(range(most))
        assert ("and 1 more" in text) == bool(more)
        assert "heading" in text
    assert len(listed(on_terminal(Listing(names(range(900))), width=None))) == 900


@pytest.mark.parametrize(
    ("kind", "mark"), [(HOLDS, "✓"), (FAILS, "✗"), (UNKNOWN, "?"), (MUTED, "–")]
)
def test_statements_have_the_mark_of_their_kind(kind: str, mark: str) -> None:
    witness = [table_of("w", COLUMNS, [["shown", "by"]])]
    statement = Statement(kind, "because.", "it", "it is so", "in detail", witness)
    shown = document(statement, verdict=Statement(kind, "A sentence."))
    lines = to_terminal(shown, width=80, plain=True).splitlines()
    assert lines[:2] == ["title: lead", f"{mark} A sentence."]
    assert lines[2] == f"{mark}  it  it is so  because. (in detail)"
    read = read_harmless(to_page(shown))
    assert f"{mark} it it is so because. (in detail) what shows it" in read.text
    assert "shown" in read.text
    classes = [str(a.get("class")) for _, a in read.elements]
    assert f"opening {kind}" in classes
    assert f"statement {kind}" in classes


def test_tiles_pairs_and_sections() -> None:
    tiles = Tiles([("users", "12", "all of them"), ("servers", "3", "")])
    pairs = pairs_table("p", [("paper", "claims"), ("found", "otherwise")])
    blocks = (tiles, pairs, Section("section", lambda: [Prose("lazy")]))
    text = on_terminal(*blocks).split()
    expected = "users 12 all of them servers 3 paper claims found otherwise section lazy"
    assert text[2:] == expected.split()
    read = on_page(*blocks)
    assert expected in in_words(read)


def picture(*traces: Any, legend: bool = True) -> Picture:
    return Picture("c", Figure(traces, Axis(), Axis(), has_legend=legend), "about")


def legend_of(read: Reader) -> list[str]:
    return [str(a["style"]) for _, a in read.elements if a.get("class") in ("line", "swatch")]


def test_a_legend_names_each_line_once() -> None:
    x = np.arange(2.0)
    same = [Line("a & b", x, x, colour="#111111", dash="dot") for _ in range(2)]
    other = Line("c", x, x, colour="#222222")
    silent = Line("", x, x, colour="#333333")
    read = on_page(picture(*same, other, silent))
    assert legend_of(read) == [
        "border-top-style: dotted; border-top-color: #111111",
        "border-top-style: solid; border-top-color: #222222",
    ]
    assert read.text.count("a & b") == 1
    assert legend_of(on_page(picture(other, legend=False))) == []


def test_left_out_parts_are_on_the_page_and_in_json() -> None:
    found = document(Prose("x"), left_out=["u7: has nothing"], values=lambda: {"fairlead": 1})
    assert "Left out u7: has nothing" in in_words(read_harmless(to_page(found)))
    assert json.loads(found.to_json()) == {"fairlead": 1, "left_out": ["u7: has nothing"]}
    whole = document(Prose("x"), values=lambda: {"fairlead": 1})
    assert "Left out" not in read_harmless(to_page(whole)).text
    assert json.loads(whole.to_json()) == {"fairlead": 1}


@pytest.mark.parametrize(("width", "columns"), [(30, 1), (60, 9), (120, 5), (None, 9)])
def test_names_fold_and_numbers_stand_whole(width: int | None, columns: int) -> None:
    rng = np.random.default_rng(columns)
    figures = [[f"{10 ** rng.uniform(0, 9):,.0f}" for _ in range(columns)] for _ in range(3)]
    table = table_of(
        "t",
        [*words("who"), *numbers(*["some heading"] * columns)],
        [["x" * 36, *row] for row in figures],
    )
    text = on_terminal(table, width=width)
    shown = text.split()
    assert [word for row in figures for word in row] == [w for w in shown if w[0].isdigit()]
    least = 12 + 14 * columns  # of folded names and of numbers
    assert max(map(len, text.splitlines())) <= max(width or 10**6, least)
    assert text.count("x") == 3 * 36
    assert "…" not in text
