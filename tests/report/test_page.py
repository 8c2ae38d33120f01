"""A page is whole by itself, harmless, and says what the allocation says."""

from __future__ import annotations

import re

import numpy as np
import pytest
from handmade_answers import HOSTILE, certificate, crowd, hostile, two_servers
from page_reader import Reader
from plotly.offline import get_plotlyjs

from fairlead.model.allocation import Allocation
from fairlead.model.problem import Problem
from fairlead.report.page import LONGEST_TABLE, allocation_page, comparison_page


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
        for attribute in ("src", "href", "action", "srcset", "data", "poster"):
            assert attribute not in attributes
        assert not any(attribute.startswith("on") for attribute in attributes)
    own = page.replace(get_plotlyjs(), "")
    assert len(own) < len(page)
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
    figures = read.embedded("figures")
    drawn = [a["data-figure"] for _, a in read.elements if "data-figure" in a]
    assert sorted(figures) == sorted(d for d in drawn if d)
    for _, attributes in read.elements:
        if "data-figure" in attributes:
            assert attributes["role"] == "img"
            assert attributes["aria-label"]
    identities = [a["id"] for _, a in read.elements if "id" in a]
    assert len(identities) == len(set(identities))
    assert len(read.scripts) == 3
    assert read.scripts.count(get_plotlyjs()) == 1


def test_hostile_names_stay_text() -> None:
    read = Reader(allocation_page(hostile(), HOSTILE, [HOSTILE]))
    shown = "".join(read.shown)
    for prefix in ("n", "g", "r", "k", "m"):
        assert f"{prefix}{HOSTILE}" in shown
    assert "b" not in [tag for tag, _ in read.elements]
    bar = read.embedded("figures")["group-0-0"]["data"][0]
    assert "<script" not in bar["hovertext"][0]
    assert "&lt;script&gt;" in bar["hovertext"][0]


@pytest.mark.parametrize("allocation", [two_servers(), crowd(930, 10)], ids=["two", "crowd"])
def test_what_is_embedded_and_listed_is_the_allocation(allocation: Allocation) -> None:
    read = Reader(allocation_page(allocation, "t"))
    figures = read.embedded("figures")
    drawn = figures["shares-0"]["data"][0]
    shares = drawn["x"] if "x" in drawn else drawn["y"]
    assert shares == sorted(allocation.dominant_share.tolist(), reverse=True)
    capacity = allocation.problem.group_capacity
    for g, used in enumerate(allocation.usage):
        *holdings, free = figures[f"group-0-{g}"]["data"]
        assert np.sum([trace["x"] for trace in holdings], axis=0) == pytest.approx(
            used / capacity[g]
        )
        assert free["x"] == pytest.approx(1 - used / capacity[g])
    values = [float(str(a["data-value"])) for _, a in read.elements if "data-value" in a]
    assert values[1::3] == allocation.user_tasks.tolist()
    assert values[2::3] == allocation.dominant_share.tolist()


def test_a_comparison_lists_every_user_under_every_mechanism() -> None:
    answers = two_answers()
    read = Reader(comparison_page(answers, {"drf": "not this"}, "t"))
    assert [trace["name"] for trace in read.embedded("figures")["comparison"]["data"]] == list(
        answers
    )
    start = [a.get("id") for _, a in read.elements].index("comparison-table")
    listed = [float(str(a["data-value"])) for _, a in read.elements[start:] if "data-value" in a]
    tasks = np.stack([answer.user_tasks for answer in answers.values()], axis=1)
    assert listed[: tasks.size] == tasks.ravel().tolist()
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
    assert "2 servers in 2 groups" in shown


def test_tables_of_very_many_users_say_what_they_leave_to_json() -> None:
    allocation = crowd(LONGEST_TABLE + 5, 2)
    read = Reader(allocation_page(allocation, "t"))
    listed = [a for _, a in read.elements if a.get("class") == "swatch"]
    assert len(listed) == LONGEST_TABLE
    assert f"The {LONGEST_TABLE} largest of {LONGEST_TABLE + 5} users" in "".join(read.shown)


def test_an_unproved_answer_is_marked() -> None:
    good = two_servers()
    bad = Allocation(good.problem, "drfh", good.tasks, certificate(violation=0.5))
    assert "✓ Proved" in allocation_page(good, "t")
    assert "✗ Not proved" in allocation_page(bad, "t")
