"""A page is whole by itself, harmless, and says what the allocation says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256

import numpy as np
import pytest
from handmade_answers import HOSTILE, certificate, crowd, hostile, two_servers

from fairlead.model.allocation import Allocation
from fairlead.model.problem import Problem
from fairlead.report.allocation import allocation_document, comparison_document
from fairlead.report.page import ROWS_ON_PAGE, to_page
from fairlead.report.terminal import to_terminal
from page_reader import PACKED, Reader

LARGEST_PAGE = 1_200_000
# Of plotly-cartesian.min.js in plotly.js-cartesian-dist-min 4.1.1 of npm.
AS_PLOTLY_PUBLISHED_IT = "79542150855a52c567260e3137095dbe2b744e6d702a5cabe67da246942fba7a"


def allocation_page(allocation: Allocation, title: str, left_out: Sequence[str] = ()) -> str:
    return to_page(allocation_document(allocation, title, left_out))


def comparison_page(
    answers: Mapping[str, Allocation], refused: Mapping[str, str], title: str
) -> str:
    return to_page(comparison_document(answers, refused, title))


def two_answers() -> dict[str, Allocation]:
    return {name: crowd(30, 4, name, seed) for seed, name in enumerate(("drfh", "ps-dsf"))}


PAGES = {
    "one user": lambda: allocation_page(
        Allocation(Problem.from_arrays([[1]], [[1]]), "drf", np.array([[1.0]]), certificate()), "t"
    ),
    "two servers": lambda: allocation_page(two_servers(), "two.yaml"),
    "a crowd": lambda: allocation_page(crowd(930, 10), "crowd.yaml", ["cy: no server has gpu"]),
    "hostile": lambda: allocation_page(hostile(), HOSTILE, [HOSTILE]),
    "hostile, compared": lambda: comparison_page({HOSTILE: hostile()}, {HOSTILE: HOSTILE}, HOSTILE),
    "two answers": lambda: comparison_page(two_answers(), {"drf": "not this"}, "two"),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fetches_nothing_and_is_well_formed(name: str) -> None:
    page = PAGES[name]()
    read = Reader(page)
    assert read.open == []
    for tag, attributes in read.elements:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base", "form")
        for attribute in ("src", "action", "srcset", "data", "poster"):
            assert attribute not in attributes
        assert str(attributes.get("href", "#")).startswith("#")
        assert not any(attribute.startswith("on") for attribute in attributes)
    assert sha256(read.chart_script.encode()).hexdigest() == AS_PLOTLY_PUBLISHED_IT
    own = PACKED.sub("", page) + json.dumps(read.figures)
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttpRequest", own)
    policy = [a["content"] for t, a in read.elements if a.get("http-equiv")]
    assert policy[0] is not None
    assert policy[0].startswith("default-src 'none'")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_and_every_picture_has_its_data(name: str) -> None:
    read = Reader(PAGES[name]())
    tags = [tag for tag, _ in read.elements]
    assert ("html", {"lang": "en"}) in read.elements
    assert tags.count("title") == tags.count("h1") == tags.count("main") == 1
    drawn = [a["data-figure"] for _, a in read.elements if "data-figure" in a]
    assert sorted(read.figures) == sorted(d for d in drawn if d)
    for _, attributes in read.elements:
        if "data-figure" in attributes:
            assert attributes["role"] == "img"
            assert attributes["aria-label"]
    identities = [a["id"] for _, a in read.elements if "id" in a]
    assert len(identities) == len(set(identities))
    assert len(read.scripts) == 3


def test_hostile_names_stay_text() -> None:
    read = Reader(allocation_page(hostile(), HOSTILE, [HOSTILE]))
    shown = "".join(read.shown)
    for prefix in ("n", "g", "r", "k", "m"):
        assert f"{prefix}{HOSTILE}" in shown
    assert "b" not in [tag for tag, _ in read.elements]
    bar = read.figure("Shares of g")["data"][0]
    assert "<script" not in bar["hovertext"][0]
    assert "&lt;script&gt;" in bar["hovertext"][0]


@pytest.mark.parametrize("allocation", [two_servers(), crowd(930, 10)], ids=["two", "crowd"])
def test_what_is_embedded_and_listed_is_the_allocation(allocation: Allocation) -> None:
    read = Reader(allocation_page(allocation, "t"))
    drawn = read.figure("Dominant share of every user")["data"][0]
    shares = drawn["x"] if drawn["orientation"] == "h" else drawn["y"]
    expected = sorted(allocation.dominant_share.tolist(), reverse=True)
    assert shares == pytest.approx(expected, rel=1e-5)
    capacity = allocation.problem.group_capacity
    for g, used in enumerate(allocation.usage):
        name = allocation.problem.cluster.groups[g]
        *holdings, free = read.figure(f"Shares of {name} by")["data"]
        assert np.sum([trace["x"] for trace in holdings], axis=0) == pytest.approx(
            used / capacity[g]
        )
        assert free["x"] == pytest.approx(1 - used / capacity[g])
    table = read.table("Users and their tasks")
    values = [float(str(a["data-value"])) for _, a in table if "data-value" in a]
    assert values[1::3] == pytest.approx(allocation.user_tasks)
    assert values[2::3] == pytest.approx(allocation.dominant_share)


def test_a_comparison_lists_every_user_under_every_mechanism() -> None:
    answers = two_answers()
    read = Reader(comparison_page(answers, {"drf": "not this"}, "t"))
    drawn = read.figure("Dominant share of every user under each mechanism")["data"]
    assert [trace["name"] for trace in drawn] == list(answers)
    table = read.table("Tasks of every user")
    listed = [float(str(a["data-value"])) for _, a in table if "data-value" in a]
    tasks = np.stack([answer.user_tasks for answer in answers.values()], axis=1)
    assert listed[: tasks.size] == pytest.approx(tasks.ravel())
    tabs = [a for _, a in read.elements if a.get("role") == "tab"]
    panels = [a for _, a in read.elements if a.get("role") == "tabpanel"]
    assert [tab["aria-controls"] for tab in tabs] == [panel["id"] for panel in panels]
    assert "not this" in "".join(read.shown)


def test_mechanisms_on_one_pool_and_on_groups_share_a_page() -> None:
    split = two_servers()
    pooled = split.problem.pooled()
    pool = Allocation(pooled, "drf", np.array([[11.0], [11.0]]), certificate())
    shown = "".join(Reader(comparison_page({"drf": pool, "drfh": split}, {}, "t")).shown)
    assert "all servers as one pool" in shown
    assert "2 users on 2 servers in 2 groups" in shown


def test_tables_of_very_many_users_say_what_they_leave_to_json() -> None:
    allocation = crowd(ROWS_ON_PAGE + 5, 2)
    read = Reader(allocation_page(allocation, "t"))
    listed = [a for _, a in read.elements if a.get("class") == "swatch"]
    assert len(listed) == ROWS_ON_PAGE
    assert "… and 5 users with smaller shares; all are in the output of --json" in read.text


def test_an_unproved_answer_is_marked() -> None:
    good = two_servers()
    bad = Allocation(good.problem, "drfh", good.tasks, certificate(violation=0.5))
    assert "✓ Proved: " in Reader(allocation_page(good, "t")).text
    assert "✗ NOT PROVED: " in Reader(allocation_page(bad, "t")).text
    assert "✗ proof DOES NOT HOLD" in Reader(allocation_page(bad, "t")).text


def test_a_page_opens_with_the_verdict_and_the_picture() -> None:
    """Of two users who hold alike, and of a crowd: the least, the largest, and what is used."""
    read = Reader(allocation_page(two_servers(), "t"))
    said = "✓ Proved: everybody has the same dominant share, 71.43 %. 85.71 % of all cpu is used."
    assert said in read.text
    crowded = crowd(930, 10)
    share = crowded.dominant_share / crowded.problem.weight
    said = f"u{share.argmin() + 1} has the least dominant share per unit of weight"
    read = Reader(allocation_page(crowded, "t"))
    assert said in read.text
    order = [a.get("data-figure") or a.get("class") for _, a in read.elements]
    assert order.index("opening holds") < order.index("figure-1") < order.index("scroll tall")


def test_an_answer_says_what_is_fullest_who_got_nothing_and_what_limits_allow() -> None:
    problem = Problem.from_arrays(
        [[100.0, 10.0]],
        np.ones((3, 2)),
        task_limit=[4, np.inf, np.inf],
        resources=["memory", "cpu"],
        users=["ana", "bo", "cy"],
    )
    found = Allocation(problem, "drfh", np.array([[4.0], [2.0], [0.0]]), certificate())
    page, text = (
        Reader(allocation_page(found, "t")),
        to_terminal(allocation_document(found, "t"), width=None, plain=True),
    )
    said = (
        "cy got nothing; ana has the largest dominant share, 40.00 %. 60.00 % of all cpu is used."
    )
    assert said in text
    assert said in page.text
    rows = [line.split() for line in text.splitlines()]
    (ana,) = [row for row in rows if row[:1] == ["ana"]]
    assert ana[:6] == ["ana", "1", "4", "of", "4", "cpu"]
    (bo,) = [row for row in rows if row[:1] == ["bo"]]
    assert bo[:4] == ["bo", "1", "2", "cpu"]
    table = page.table("Users and their tasks")
    bars = [a["style"] for _, a in table if a.get("class") == "in-cell"]
    assert bars == ["--part: 1.0000", "--part: 0.5000", "--part: 0.0000"]


def test_a_page_is_at_most_so_large() -> None:
    """The script that draws is .62 MB of it; a comparison has every answer by itself, too."""
    assert len(allocation_page(crowd(930, 10), "t").encode()) < LARGEST_PAGE
    answers = {name: crowd(40, 10, name, seed) for seed, name in enumerate("abcdefg")}
    assert len(comparison_page(answers, {}, "t").encode()) < LARGEST_PAGE


def test_the_opening_names_who_shares_the_least_and_who_got_nothing() -> None:
    """One or two by name, of more their number; nobody is called the least who is one of many."""
    names = ["u1", "u2", "u3", "u4"]
    problem = Problem.from_arrays([[10.0]], np.ones((4, 1)), users=names)
    for tasks, said in (
        ([1.0, 1.0, 2.0, 3.0], "u1 and u2 have the least dominant share, 10.00 %, and u4 the"),
        ([1.0, 1.0, 1.0, 3.0], "3 of 4 users have the least dominant share, 10.00 %, and u4"),
        ([0.0, 1.0, 3.0, 3.0], "u1 got nothing; u3 and u4 have the largest dominant share, 30.00"),
    ):
        held = Allocation(problem, "drfh", np.array(tasks)[:, None], certificate())
        assert said in Reader(allocation_page(held, "t")).text
