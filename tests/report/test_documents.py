"""A document of every kind of block, made by hand, on a terminal, in a pipe and on a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade_answers import certificate

import fairlead.report
from fairlead.report import page, terminal
from fairlead.report.charts import line
from fairlead.report.document import (
    FAILS,
    HOLDS,
    MUTED,
    PAGE,
    TERMINAL,
    UNKNOWN,
    Block,
    Cards,
    Cell,
    Column,
    Document,
    Facts,
    Legend,
    Listing,
    Picture,
    Prose,
    Section,
    Statement,
    Table,
    Tabs,
    Tiles,
    proof,
    table_of,
    words,
)
from fairlead.report.page import FIRST_ROWS, ROWS_ON_PAGE, to_page
from fairlead.report.terminal import LINES_ON_TERMINAL, SHORTEST_HEADING, to_terminal
from page_reader import Reader, read_harmless, unpacked

COLUMNS = (words("who"), Column("what"))


def document(*blocks: Block, **more: Any) -> Document:
    given: dict[str, Any] = {"verdict": None, "values": dict} | more
    return Document("title", "about", "lead", blocks=blocks, **given)


def on_terminal(*blocks: Block, width: int | None = 80) -> str:
    return to_terminal(document(*blocks), width=width, plain=True)


def on_page(*blocks: Block) -> Reader:
    return read_harmless(to_page(document(*blocks)))


def in_words(read: Reader) -> str:
    """All that is shown, a blank between elements."""
    return " ".join(" ".join(read.shown).split())


def rows_of(count: int) -> list[list[str]]:
    return [[f"u{k}", f"{k}.5"] for k in range(count)]


def listed(text: str) -> list[str]:
    return [word for word in text.split() if word.startswith("u") and word[1:].isdigit()]


def names(rows: Sequence[int]) -> list[str]:
    return [f"u{k}" for k in rows]


ONLY = {
    "table": lambda only: table_of("t", COLUMNS, [["marker", "1"]], only=only),
    "prose": lambda only: Prose("marker", only=only),
    "listing": lambda only: Listing(["marker"], only=only),
    "statement": lambda only: Statement(HOLDS, "marker", only=only),
    "tiles": lambda only: Tiles([("label", "marker", "", None)], only=only),
    "section": lambda only: Section("head", [Prose("marker")], only=only),
    "cards": lambda only: Cards([("", Section("head", [Prose("marker")]))], only=only),
}


@pytest.mark.parametrize("kind", ONLY)
def test_what_is_for_one_place_only_is_in_no_other(kind: str) -> None:
    for only in ("", PAGE, TERMINAL):
        block = ONLY[kind](only)
        assert ("marker" in on_terminal(block)) == (only != PAGE)
        assert ("marker" in on_page(block).text) == (only != TERMINAL)


def test_pictures_keys_of_colours_and_tabs_are_for_pages() -> None:
    blocks = (
        Picture("marker", {"data": [], "layout": {"height": 1}}, "marker"),
        Legend([("key", "marker", "#000000", "solid", "line")]),
        Tabs("marker", {"a": [Prose("marker")]}),
    )
    for block in blocks:
        assert "marker" not in on_terminal(block)
        assert "marker" in on_page(block).text


def test_columns_for_one_place_only_are_in_no_other() -> None:
    columns = (words("key"), words("PAGE-ONLY", PAGE), Column("TERM-ONLY", only=TERMINAL))
    table = table_of("t", columns, [["a", "on-page", "on-terminal"]], keys=2)
    text, read = on_terminal(table), on_page(table).text
    assert "TERM-ONLY" in text
    assert "on-terminal" in text
    assert "PAGE-ONLY" not in text
    assert "on-page" not in text
    assert "PAGE-ONLY" in read
    assert "on-page" in read
    assert "TERM-ONLY" not in read
    assert "on-terminal" not in read


def test_a_key_that_a_terminal_lacks_is_not_repeated_in_its_parts() -> None:
    """Of two keys one is for pages: each part of a divided table begins with the other alone."""
    columns = (words("key"), words("more", PAGE), *(Column(f"figure-{k}") for k in range(8)))
    row = ["name", "hidden", *(f"{k}{k}{k},000,000" for k in range(8))]
    lines = on_terminal(table_of("t", columns, [row], keys=2), width=40).splitlines()
    heads = [line.split() for line in lines if "figure-" in line]
    assert len(heads) > 1
    assert [head[0] for head in heads] == ["key"] * len(heads)
    assert [word for head in heads for word in head[1:]] == [f"figure-{k}" for k in range(8)]


@pytest.mark.parametrize("count", [1, FIRST_ROWS, FIRST_ROWS + 1, FIRST_ROWS + 2])
@pytest.mark.parametrize("folded", ["", "open this"])
def test_every_row_is_on_a_page_once_and_those_after_the_first_are_compressed(
    count: int, folded: str
) -> None:
    html = to_page(document(table_of("t", COLUMNS, rows_of(count), folded=folded)))
    read = read_harmless(html)
    assert listed(read.text) == names(range(count))
    at_once = html.split("</table>")[0].count("<td")
    assert at_once == (0 if folded else min(count, FIRST_ROWS))
    assert ("open this" in read.text) == bool(folded)
    assert "…" not in read.text


@pytest.mark.parametrize("on", ["terminal", "pipe", "page"])
@pytest.mark.parametrize("most", [5, 6, 7])
def test_another_table_stands_in_only_where_there_is_no_room(
    on: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "ROWS_ON_PAGE", most)
    instead = table_of("other", COLUMNS, [["stand-in", "1"]])
    table = replace(
        table_of("t", COLUMNS, rows_of(6), instead=instead), on_terminal=most, in_pipe=most
    )
    shown = {
        "terminal": lambda: on_terminal(table),
        "pipe": lambda: on_terminal(table, width=None),
        "page": lambda: on_page(table).text,
    }[on]()
    assert ("stand-in" in shown) == (most < 6)
    assert listed(shown) == (names(range(6)) if most >= 6 else [])


def test_a_pipe_has_all_rows_unless_the_table_says_otherwise() -> None:
    table = table_of("t", COLUMNS, rows_of(60), on_terminal=5)
    assert listed(on_terminal(table, width=None)) == names(range(60))
    assert listed(on_terminal(table)) == names(range(5))
    assert listed(on_terminal(replace(table, in_pipe=7), width=None)) == names(range(7))


def test_the_largest_rows_are_shown_in_the_order_of_all() -> None:
    size = np.array([3.0, 9, 1, 7, 5, 8])
    table = table_of(
        "t", COLUMNS, rows_of(6), size=size, each="user", rest="with less", on_terminal=3, on_page=4
    )
    text, read = on_terminal(table), on_page(table).text
    assert listed(text) == names([1, 3, 5])
    assert "... and 3 users with less (all of them: --json, --report, or into a pipe)" in text
    assert listed(read) == names([1, 3, 4, 5])
    assert "… and 2 users with less; all are in the output of --json." in read


@pytest.mark.parametrize("most", [6, 7])
def test_nothing_is_said_to_be_left_out_where_all_is_there(most: int) -> None:
    table = table_of("t", COLUMNS, rows_of(6), on_terminal=most, on_page=most, in_pipe=most)
    for shown in (on_terminal(table), on_terminal(table, width=None), on_page(table).text):
        assert listed(shown) == names(range(6))
        assert "row" not in shown


def test_a_page_has_its_rows_at_most_where_a_table_does_not_say() -> None:
    table = table_of("t", COLUMNS, rows_of(ROWS_ON_PAGE + 1))
    read = on_page(table)
    assert listed(read.text) == names(range(ROWS_ON_PAGE))
    assert "… and 1 row with smaller shares" in read.text
    assert listed(on_page(replace(table, on_page=ROWS_ON_PAGE + 1)).text)[-1] == f"u{ROWS_ON_PAGE}"


def test_a_caption_a_note_and_rows_below_all_others() -> None:
    table = table_of(
        "what it is", COLUMNS, rows_of(2), foot=(["in all", "2.0"],), note="beware of it"
    )
    for shown in (on_terminal(table), on_page(table).text):
        assert shown.index("u1") < shown.index("in all") < shown.index("beware of it")
        assert "what it is" not in shown
    captioned = replace(table, captioned=True)
    for shown in (on_terminal(captioned), on_page(captioned).text):
        assert shown.index("what it is") < shown.index("u0")


@pytest.mark.parametrize("each", ["user", "group"])
@pytest.mark.parametrize("count", [page.ROWS_TO_SEARCH, page.ROWS_TO_SEARCH + 1])
def test_users_can_be_searched_for_where_there_are_many(each: str, count: int) -> None:
    read = on_page(table_of("t", COLUMNS, rows_of(count), each=each))
    searched = [a["data-filters"] for _, a in read.elements if "data-filters" in a]
    tables = [a["id"] for tag, a in read.elements if tag == "table"]
    assert searched == (tables if each == "user" and count > page.ROWS_TO_SEARCH else [])


def test_a_cell_has_its_value_bar_colour_note_and_link() -> None:
    row = [Cell("name", 7.0, link="below"), Cell("1.50", 1.4999999999, 0.25, "bad", "#123456", "n")]
    table = table_of("t", COLUMNS, [row])
    read = on_page(table, Section("there", [Prose("x")], anchor="below"))
    (link,) = [a for tag, a in read.elements if tag == "a"]
    assert link["href"] == "#below"
    (cell,) = [a for tag, a in read.elements if tag == "td"]
    assert cell == {"class": "num bad", "data-value": "1.5"}
    assert [a for tag, a in read.elements if tag == "th" and "data-value" in a] == []
    styles = [str(a["style"]) for _, a in read.elements if "style" in a]
    assert styles == ["background: #123456", "--part: 0.2500"]
    assert "1.50 n" in read.text
    assert "1.50 n" in on_terminal(table)


@pytest.mark.parametrize("more", [0, 1])
def test_of_long_lists_the_first_lines_are_shown_and_the_others_counted(more: int) -> None:
    for most, shown in (
        (LINES_ON_TERMINAL, lambda lines: on_terminal(Listing(lines, "heading"))),
        (page.LINES_ON_PAGE, lambda lines: in_words(on_page(Listing(lines, "heading")))),
    ):
        text = shown([f"u{k}" for k in range(most + more)])
        assert listed(text) == names(range(most))
        assert ("and 1 more" in text) == bool(more)
        assert "heading" in text
    assert len(listed(on_terminal(Listing(names(range(900))), width=None))) == 900


@pytest.mark.parametrize(
    ("kind", "mark"), [(HOLDS, "✓"), (FAILS, "✗"), (UNKNOWN, "?"), (MUTED, "–")]
)
def test_statements_and_verdicts_have_the_mark_of_their_kind(kind: str, mark: str) -> None:
    named = Statement(kind, "because.", "it", "said so", "in detail", [Prose("shown by")])
    bare = Statement(kind, "A sentence.")
    verdict = document(named, bare, verdict=bare)
    lines = to_terminal(verdict, width=80, plain=True).splitlines()
    assert lines[:2] == ["title: lead", f"{mark} A sentence."]
    assert [" ".join(line.split()) for line in lines[2:] if line] == [
        f"{mark} it said so because. (in detail)",
        f"{mark} A sentence.",
    ]
    read = read_harmless(to_page(verdict))
    assert f"{mark} it said so because. (in detail) what shows it shown by" in read.text
    assert read.text.count(f"{mark} A sentence.") == 2
    classes = [str(a.get("class")) for _, a in read.elements]
    assert f"opening {kind}" in classes
    assert classes.count(f"statement {kind}") == 2


@pytest.mark.parametrize("violation", [0.0, 1.0])
def test_a_proof_says_whether_it_holds(violation: float) -> None:
    text = on_terminal(proof(certificate(violation=violation)))
    first = next(line for line in text.splitlines()[1:] if line)
    assert first.startswith("✗" if violation else "✓")
    assert ("DOES NOT HOLD" in text) == bool(violation)


def test_numbers_that_sum_up_and_facts() -> None:
    tiles = Tiles([("users", "12", "all of them", 0.5), ("servers", "3", "", None)])
    facts = Facts([("paper", "says so"), ("found", "otherwise")])
    text = [line.split() for line in on_terminal(tiles, facts).splitlines()[1:] if line]
    assert text == [
        ["users", "12", "all", "of", "them"],
        ["servers", "3"],
        ["paper", "says", "so"],
        ["found", "otherwise"],
    ]
    read = on_page(tiles, facts)
    assert "users 12 all of them servers 3" in in_words(read)
    assert "paper says so found otherwise" in read.text
    assert [a["style"] for _, a in read.elements if "style" in a] == ["--part: 0.5000"]


def test_cards_and_sections_are_headed() -> None:
    card = Section("card", [Prose("inside")], kind="fails", anchor="place")
    read = on_page(Cards([("#abcdef", card)]), Section("section", lambda: [Prose("lazy")], level=3))
    assert "card inside section lazy" in in_words(read)
    ((_, found),) = [e for e in read.elements if e[0] == "article"]
    assert found["class"] == "card fails"
    assert found["id"] == "place"
    assert "#abcdef" in str(found["style"])
    assert [tag for tag, _ in read.elements if tag in ("h3", "h4")] == ["h4", "h3"]
    text = on_terminal(Cards([("", card)]), Section("section", lambda: [Prose("lazy")]))
    assert text.split() == ["title:", "lead", "card", "inside", "lazy"]


def test_the_first_of_several_tabs_is_there_at_once_and_long_tables_in_others_come() -> None:
    long = table_of("t", COLUMNS, rows_of(FIRST_ROWS + 9))
    tabs = Tabs("choose", {"one": [Prose("first")], "two": [long], "three": [Prose("third")]})
    html = to_page(document(tabs))
    read = read_harmless(html)
    kept = json.loads(unpacked(html)["contents"])["kept"]
    *panels, rows = kept
    assert (len(panels), rows.endswith("-rows")) == (2, True)
    assert "first" in html
    assert "third" not in html
    assert listed(read.text) == names(range(FIRST_ROWS + 9))
    chosen = [a["aria-selected"] for _, a in read.elements if a.get("role") == "tab"]
    assert chosen == ["true", "false", "false"]
    alone = on_page(Tabs("choose", {"one": [Prose("first")]}))
    assert not [a for _, a in alone.elements if a.get("role") == "tab"]


def picture(*traces: Any, legend: bool = True) -> Picture:
    return Picture("c", {"data": [*traces], "layout": {"height": 9, "showlegend": legend}}, "about")


def legend_of(read: Reader) -> list[str]:
    return [str(a["data-toggles"]) for _, a in read.elements if "data-toggles" in a]


def test_a_legend_names_each_line_once_and_hides_it_in_its_picture_alone() -> None:
    x = np.arange(2.0)
    same = [line("a & b", x, x, colour="#111111", dash="dot") for _ in range(2)]
    other = line("c", x, x, colour="#222222", key="shared")
    silent = line("d", x, x, colour="#333333") | {"showlegend": False}
    read = on_page(picture(*same, other, silent), picture(*same, other))
    first, shared, second, again = legend_of(read)
    assert shared == again == "shared"
    assert first != second
    assert read.text.count("a & b") == 2
    assert " d " not in f" {read.text} "
    styles = [str(a["style"]) for _, a in read.elements if a.get("class") == "line"]
    assert [style.split(";")[0] for style in styles] == [
        "border-top-style: dotted",
        "border-top-style: solid",
    ] * 2
    for figure in read.figures.values():
        assert figure["layout"]["showlegend"] is False
        assert figure["data"][0]["legendgroup"] == figure["data"][1]["legendgroup"]
    assert legend_of(on_page(picture(other, legend=False))) == []


def test_a_document_is_rendered_alike_twice() -> None:
    x = np.arange(2.0)
    shown = document(picture(line("a", x, x, colour="#111111")), table_of("t", COLUMNS, rows_of(3)))
    first = to_page(shown)
    assert legend_of(Reader(first))
    assert to_page(shown) == first
    assert to_terminal(shown, width=80, plain=True) == to_terminal(shown, width=80, plain=True)


def test_what_was_left_out_is_on_the_page_and_in_json() -> None:
    found = document(Prose("x"), left_out=["u7: has nothing"], values=lambda: {"fairlead": 1})
    assert "Left out u7: has nothing" in in_words(read_harmless(to_page(found)))
    assert json.loads(found.to_json()) == {"fairlead": 1, "left_out": ["u7: has nothing"]}
    whole = replace(found, left_out=())
    assert "Left out" not in read_harmless(to_page(whole)).text
    assert json.loads(whole.to_json()) == {"fairlead": 1}


@pytest.mark.parametrize("heading", ["fairness error", "mean completion time by user", "a/b-c d"])
@pytest.mark.parametrize("widest", range(1, 30))
def test_headings_break_between_words_where_they_are_wider_than_their_figures(
    heading: str, widest: int
) -> None:
    lines = terminal._folded(heading, widest).split("\n")
    assert "".join(lines).replace(" ", "") == heading.replace(" ", "")
    room = max(widest, SHORTEST_HEADING)
    pieces = heading.replace("/", "/ ").replace("-", "- ").split()
    for one in lines:
        assert len(one) <= max(room, *map(len, pieces))
    # No word stands on a line of its own that had room on the one before.
    for one, other in pairwise(lines):
        word = next(piece for piece in pieces if other.startswith(piece))
        blank = "" if one[-1] in "/-" else " "
        assert len(one + blank + word) > room


def test_the_script_reads_the_digits_that_are_written() -> None:
    """Python's 85 digits in their order, but for the one that could begin a tag."""
    script = (Path(fairlead.report.__file__).parent / "template" / "page.js").read_text()
    (digits,) = [row.split('"')[1] for row in script.splitlines() if "const DIGITS" in row]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    expected = "0123456789" + letters + letters.lower() + "!#$%&()*+-;<=>?@^_`{|}~"
    assert digits == expected.replace("<", ",")


@pytest.mark.parametrize("length", range(1, 10))
def test_what_is_packed_is_whole_groups_of_five_digits(length: int) -> None:
    """A reader of five digits at a time gets all bytes; then the padding is cut off."""
    html = str(page._packed(b"ab" * length))
    size, text = html.split('data-bytes="')[1].split('">')
    assert len(text) % 5 == 0
    assert 0 <= len(text) // 5 * 4 - int(size) < 4
    assert "<" not in text


def test_a_table_of_no_rows_is_a_table() -> None:
    empty: Table = table_of("t", COLUMNS, [])
    assert "who" in on_terminal(empty)
    assert "who" in on_page(empty).text
