"""Documents of allocations, comparisons and changes show the numbers of the answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from handmade_answers import HOSTILE, certificate, crowd, hostile, two_servers

from fairlead.mechanisms.catalogue import solve
from fairlead.model.allocation import Allocation
from fairlead.model.problem import Problem
from fairlead.model.problem_changes import change_problem
from fairlead.report._allocation_figures import (
    LARGEST_HOLDERS,
    group_figure,
    group_holdings,
    runs_on,
    share_figure,
    user_colours,
)
from fairlead.report.allocation_document import allocation_document, comparison_document
from fairlead.report.changes import what_if_document
from fairlead.report.charts import USERS_DRAWN
from fairlead.report.document import Document, Listing
from fairlead.report.page import to_page
from fairlead.report.terminal import to_terminal
from page_reader import Reader, figure_of, read_harmless

LARGEST_PAGE = 1_200_000


def page_of(allocation: Allocation) -> str:
    return to_page(allocation_document(allocation, "t"))


def text_of(allocation: Allocation, width: int | None = None) -> str:
    return to_terminal(allocation_document(allocation, "t"), width=width, plain=True)


def comparison_page(answers: Mapping[str, Allocation], refused: Mapping[str, str]) -> str:
    return to_page(comparison_document(answers, refused, "t"))


def two_answers() -> dict[str, Allocation]:
    return {name: crowd(30, 4, name, seed) for seed, name in enumerate(("drfh", "ps-dsf"))}


PAGES = {
    "one user": lambda: page_of(
        Allocation(Problem.from_arrays([[1]], [[1]]), "drf", np.array([[1.0]]), certificate())
    ),
    "two servers": lambda: page_of(two_servers()),
    "a crowd": lambda: to_page(allocation_document(crowd(930, 6), "t")),
    "hostile": lambda: to_page(
        replace(allocation_document(hostile(), HOSTILE), left_out=[HOSTILE])
    ),
    "hostile, compared": lambda: comparison_page({HOSTILE: hostile()}, {HOSTILE: HOSTILE}),
    "two answers": lambda: comparison_page(two_answers(), {"drf": "not this"}),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_harmless_small_and_accessible(name: str) -> None:
    page = PAGES[name]()
    read = read_harmless(page)
    assert len(page.encode()) < LARGEST_PAGE
    (policy,) = [str(a["content"]) for _, a in read.elements if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'")
    assert ("html", {"lang": "en"}) in read.elements
    assert [tag for tag, _ in read.elements].count("h1") == 1
    for _, attributes in read.elements:
        if attributes.get("role") == "img":
            assert attributes["aria-label"]


def test_the_table_has_the_numbers_of_every_user() -> None:
    allocation = crowd(50, 3)
    read = Reader(page_of(allocation))
    weights, tasks, shares = zip(*read.numbers("Users and their tasks"), strict=True)
    assert weights == pytest.approx(allocation.problem.weight)
    assert tasks == pytest.approx(allocation.user_tasks)
    assert shares == pytest.approx(allocation.dominant_share)
    rows = [line.split() for line in text_of(allocation).splitlines()]
    users = [row[0] for row in rows if row and row[0][:1] == "u" and row[0][1:].isdigit()]
    assert users == [f"u{n + 1}" for n in range(50)]


def test_a_comparison_lists_every_user_and_mechanism() -> None:
    answers = two_answers()
    shown = comparison_document(answers, {"drf": "not this"}, "t")
    read = Reader(to_page(shown))
    drawn = figure_of(shown, "Dominant share of every user under each mechanism").traces
    assert [trace.name for trace in drawn] == list(answers)
    tasks = np.stack([answer.user_tasks for answer in answers.values()], axis=1)
    assert np.array(read.numbers("Tasks of every user")[: len(tasks)]) == pytest.approx(tasks)
    assert "not this" in read.text
    split = two_servers()
    pool = Allocation(split.problem.pooled(), "drf", np.array([[11.0], [11.0]]), certificate())
    shown = Reader(comparison_page({"drf": pool, "drfh": split}, {})).text
    assert "drf (as one pool)" in shown
    assert "2 users on 2 servers in 2 groups" in shown


def test_an_unproved_answer_is_marked() -> None:
    good = two_servers()
    bad = Allocation(good.problem, "drfh", good.tasks, certificate(violation=0.5))
    assert "✓ Proved: " in text_of(good)
    assert "✗ NOT PROVED: " in text_of(bad)
    assert re.search("✗ +proof +DOES NOT HOLD", text_of(bad))


@pytest.mark.parametrize(
    ("tasks", "verdict"),
    [
        ([2.0] * 4, "the dominant share is the same for all, 20.00 %"),
        ([1.0, 1.0, 2.0, 3.0], "the least dominant share is 10.00 % (u1 and u2), the largest 30"),
        ([1.0, 1.0, 1.0, 3.0], "10.00 % (3 of 4 users), the largest 30.00 % (u4)"),
    ],
)
def test_the_verdict_names_least_and_largest_shares(tasks: list[float], verdict: str) -> None:
    problem = Problem.from_arrays([[10.0]], np.ones((4, 1)))
    found = Allocation(problem, "drfh", np.array(tasks)[:, None], certificate())
    assert verdict in text_of(found)


def test_names_are_neither_markup_nor_control_characters() -> None:
    problem = Problem.from_arrays([[1], [1]], [[1], [1]], users=["[bold]x[/bold]", "\u202ered"])
    allocation = Allocation(problem, "drf", np.array([[1.0, 0], [0, 1]]), certificate())
    text = text_of(allocation)
    assert "[bold]x[/bold]" in text
    assert "\u202e" not in text
    assert "\\u202ered" in text


def test_small_holders_are_taken_together() -> None:
    allocation, g = crowd(200, 4), 2
    problem = allocation.problem
    group = group_holdings(allocation, g)
    assert len(group.holdings) == LARGEST_HOLDERS + 1
    users = [n for holding in group.holdings for n in holding.users]
    assert sorted(users) == np.flatnonzero(allocation.tasks[:, g] > 0).tolist()
    amounts = np.sum([holding.amounts for holding in group.holdings], axis=0)
    assert amounts == pytest.approx(allocation.usage[g])
    assert amounts + group.free == pytest.approx(problem.group_capacity[g])


def test_rounding_is_no_holding_and_not_free() -> None:
    clean = two_servers()
    dusty = Allocation(clean.problem, "drfh", clean.tasks + 1e-10, certificate())
    assert [len(group_holdings(dusty, g).holdings) for g in range(2)] == [1, 1]
    assert runs_on(dusty).tolist() == [[True, False], [False, True]]
    problem = Problem.from_arrays([[57, 60]], [[0.57, 0.57]])
    allocation = Allocation(problem, "drf", np.array([[100.0]]), certificate())
    assert group_holdings(allocation, 0).free == (0.0, pytest.approx(3.0))


@pytest.mark.parametrize("mechanism", ["ps-dsf", "ps-dsf-tdm"])
def test_bars_add_up_to_the_whole_group(mechanism: str) -> None:
    allocation = crowd(50, 3, mechanism)
    colours = user_colours(allocation)
    for g in range(3):
        figure = group_figure(allocation, group_holdings(allocation, g), colours)
        labels = [label for _, label in figure.y.marks or ()]
        assert labels[2:] == (["time"] if mechanism.endswith("tdm") else [])
        for place in range(2):
            assert sum(bars.lengths[place] for bars in figure.traces) == pytest.approx(1)


def test_shares_are_drawn_largest_first() -> None:
    allocation = crowd(12, 3)
    bars, diamonds = share_figure(allocation).traces
    assert len(set(bars.colour[:10])) == 10
    expected = sorted(allocation.dominant_share.tolist(), reverse=True)
    assert bars.lengths == pytest.approx(expected, rel=1e-5)
    per_weight = allocation.dominant_share / allocation.problem.weight
    assert sorted(diamonds.x) == pytest.approx(sorted(per_weight.tolist()), rel=1e-5)
    many = crowd(500, 3)
    bars, _ = share_figure(many).traces
    largest = np.sort(many.dominant_share)[::-1][:USERS_DRAWN]
    assert bars.lengths == pytest.approx(largest.tolist(), rel=1e-5)


def changes_document(problem: Problem, *changes: str, mechanism: str) -> Document:
    changed = {text: solve(change_problem(problem, text), mechanism) for text in changes}
    return what_if_document(solve(problem, mechanism), changed, "t")


def sentence_of(problem: Problem, *changes: str, mechanism: str) -> str:
    verdict = changes_document(problem, *changes, mechanism=mechanism).verdict
    assert verdict is not None
    return verdict.sentence


def two_users() -> Problem:
    """Return 12 GPUs for two users with equal demands."""
    return Problem.from_arrays([[1.0]], [[1.0]] * 2, count=[12], groups=["g"], users=["a", "b"])


def test_gains_and_losses_of_a_change_come_first() -> None:
    """With weight 2, a has 8 of 12 GPUs and b 4; both had 6."""
    assert sentence_of(two_users(), "weight:a=2", mechanism="drfh") == (
        "weight:a=2: 1 user loses: b (−33.3\u00a0%); 1 user gains: a (+33.3\u00a0%). "
        "These are shares by drfh, not what users hold now."
    )
    unchanged = sentence_of(two_users(), "tasks:a=6", mechanism="drfh")
    assert unchanged.startswith("tasks:a=6: No user gains or loses. ")


def test_of_many_changes_the_first_are_in_the_sentence() -> None:
    changes = [f"weight:a={k}" for k in range(2, 7)]
    document = changes_document(two_users(), *changes, mechanism="drfh")
    assert document.verdict is not None
    assert re.findall(r"weight:a=(\d): ", document.verdict.sentence) == ["2", "3", "4"]
    (further,) = (block for block in document.blocks if isinstance(block, Listing))
    assert [line.partition(": ")[0] for line in further.lines] == changes[3:]


def test_users_that_take_no_resource_gain_tasks() -> None:
    """A problem with only rates: twice the servers run twice the tasks."""
    problem = Problem.from_arrays(
        [[1.0]], [[0.0], [0.0]], rates=[[1.0], [2.0]], groups=["g"], users=["ana", "bo"]
    )
    sentence = sentence_of(problem, "servers:g+1", mechanism="ps-dsf-tdm")
    assert "2 users gain: " in sentence
    assert "ana (+100\u00a0%)" in sentence
