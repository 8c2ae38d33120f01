"""The page of a survey is whole, harmless, and shows what the survey found."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pytest
from handmade_answers import HOSTILE
from page_reader import Reader

from fairlead.mechanisms.catalogue import Claim
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.properties.drawing import Distribution
from fairlead.properties.survey import Survey, survey
from fairlead.properties.survey_cell import Cell, Witness
from fairlead.report.survey_page import survey_page
from fairlead.report.witness_tables import exact, problem_blocks, witness_blocks


@pytest.fixture(scope="module")
def found() -> Survey:
    return survey(["drf-per-server", "pdrf"], 8, lies=5, seed=2, workers=1)


def rich_problem() -> Problem:
    """All that can be said of a problem, with names that try to leave their place."""
    return Problem.from_arrays(
        [[4.0, 1.25], [2.0, 3.0]],
        [[1.0, 0.5], [0.5, 1.0]],
        count=[1, 3],
        weight=[1, 7],
        eligible=[[True, False], [True, True]],
        task_limit=[np.inf, 17.5],
        resources=[f"{HOSTILE}r{k}" for k in range(2)],
        units=["", HOSTILE],
        groups=[f"{HOSTILE}g{k}" for k in range(2)],
        users=[f"{HOSTILE}'\"{k}" for k in range(2)],
    )


def handmade() -> Survey:
    """One cell of each kind."""
    verdict = Verdict("envy-freeness", "fails", {HOSTILE: 1.5}, 2, HOSTILE, HOSTILE, severity=0.25)
    witness = Witness(rich_problem(), verdict, None, True, 7)
    claim = Claim("envy-freeness", (HOSTILE, "finite tasks"))
    kinds = {
        "refuted": Cell("a", "p0", claim, 9, 5, 3, 2, witness),
        "fails outside": Cell("a", "p1", claim, 9, 5, 3, 0, witness),
        "stands": Cell("a", "p2", claim, 9, 5),
        "never asked": Cell("b", "p0", claim),
        "fails": Cell("b", "p1", None, 1234, 0, 1001, 0, witness),
        "nothing": Cell("b", "p2", None, 9),
    }
    cells = {(cell.mechanism, cell.property): cell for cell in kinds.values()}
    return Survey(
        ("a", "b"),
        ("p0", "p1", "p2"),
        1300,
        42,
        Distribution(users=5, limited=0.25),
        cells,
        {"a": 0, "b": 11},
        {"a": 66, "b": 0},
    )


def table_of(page: str) -> list[list[str]]:
    """Return the text of the cells of the table of mechanisms."""
    after = page.split('<table class="survey">')[1].split("<tbody>")[1]
    body = after.split("</tbody>", maxsplit=1)[0]
    rows = re.findall("<tr>(.*?)</tr>", body, re.DOTALL)
    return [
        [" ".join(unescape(re.sub("<[^>]*>", " ", cell)).split()) for cell in row.split("</td>")]
        for row in rows
    ]


def test_a_page_fetches_nothing_and_every_link_leads_somewhere(found: Survey) -> None:
    for page in (survey_page(found, HOSTILE), survey_page(handmade(), HOSTILE)):
        read = Reader(page)
        assert read.open == []
        assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttpRequest", page)
        for tag, attributes in read.elements:
            assert tag not in ("b", "link", "iframe", "img", "object", "embed", "base", "form")
            assert not {"src", "action"} & attributes.keys()
            assert not any(attribute.startswith("on") for attribute in attributes)
        assert len(read.scripts) == 3
        assert read.embedded("figures") == {}
        links = {str(a["href"]) for _, a in read.elements if "href" in a}
        places = {f"#{a['id']}" for _, a in read.elements if "id" in a}
        assert links <= places
        assert len(page) < 300_000


def test_every_cell_says_what_was_claimed_and_found(found: Survey) -> None:
    rows = table_of(survey_page(found, "t"))
    assert len(rows) == 2
    for mechanism, row in zip(found.mechanisms, rows, strict=True):
        for of, text in zip(found.properties, row, strict=False):
            cell = found.cells[mechanism, of]
            assert ("✓ claimed" in text) == (cell.claim is not None)
            if cell.asked:
                assert f"{cell.violations} of {cell.asked}" in text
            assert ("no witness found" in text) == bool(
                cell.asked and cell.claim is None and not cell.violations
            )


def test_each_kind_of_cell_in_words() -> None:
    rows = table_of(survey_page(handmade(), "t"))
    without = f"✓ claimed without {HOSTILE}, finite tasks"
    assert rows[0][:3] == [
        f"a {without} refuted 2 of 5; with what is not claimed 3 of 9",
        f"{without} fails where it is not claimed 3 of 9",
        f"{without} 0 of 9",
    ]
    assert rows[1][:3] == [
        f"b {without} never asked",
        "fails 1,001 of 1,234",
        "no witness found 0 of 9",
    ]
    classes = re.findall('<td class="(refuted|fails|quiet)">', survey_page(handmade(), "t"))
    assert classes == ["refuted", "fails", "quiet", "quiet", "fails", "quiet"]


def test_every_witness_is_shown_with_its_problem(found: Survey) -> None:
    page = survey_page(found, "t")
    cards = page.split("<article ")[1:]
    cells = [
        found.cells[m, p]
        for m in found.mechanisms
        for p in found.properties
        if found.cells[m, p].witness is not None
    ]
    assert len(cards) == len(cells) > 0
    for card, cell in zip(cards, cells, strict=True):
        assert cell.witness is not None
        shown = unescape(re.sub("<[^>]*>", " ", card))
        assert cell.property in shown
        assert cell.witness.verdict.sentence in shown
        problem = cell.witness.problem
        for amount in [*problem.cluster.capacity.ravel(), *problem.demand.ravel()]:
            assert exact(float(amount)) in shown.split()
        assert f"random problem {cell.witness.number}" in shown
        assert ("claim refuted" in shown) == (cell.refutations > 0)


def test_what_was_searched_stands_at_the_end() -> None:
    page = survey_page(handmade(), "t")
    end = page.split("What was searched")[1]
    answers = [float(v) for v in re.findall(r'data-value="([^"]*)"', end)]
    assert answers == [1234, 66, 0, 1289, 0, 11]
    shown = " ".join(unescape(re.sub("<[^>]*>", " ", end)).split())
    assert "seed 42" in shown
    assert "users at most 5" in shown
    assert "chance that a user has finitely many tasks 0.25" in shown
    assert "1 claim refuted" in page


def test_a_small_problem_is_laid_out_in_full() -> None:
    servers, users = problem_blocks(rich_problem())
    r0, r1 = f"{HOSTILE}r0", f"{HOSTILE}r1 ({HOSTILE})"
    assert servers.headings == ("group", "how many", r0, r1)
    assert servers.rows[1] == (f"{HOSTILE}g1", "3", "2", "3")
    per_task = (f"{r0} per task", f"{r1} per task")
    assert users.headings == ("user", *per_task, "weight", "tasks in all", "may run on")
    assert users.rows[0][1:] == ("1", "0.5", "1", "unlimited", f"{HOSTILE}g0")
    assert users.rows[1][1:] == ("0.5", "1", "7", "17.5", "all servers")
    assert users.words == (5,)


def test_rates_and_weights_per_resource_are_laid_out() -> None:
    problem = Problem.from_arrays(
        [[1.0, 1.0]],
        [[1.0, 1.0], [0.0, 2.0]],
        rates=[[np.nan], [3.0]],
        weight=[[1.0, 2.0], [1.0, 1.0]],
    )
    users = problem_blocks(problem)[1]
    assert users.headings[3:] == ("weight, r1", "weight, r2", "rate on g1")
    assert [row[3:] for row in users.rows] == [("1", "2", ""), ("1", "1", "3")]


def test_a_lie_about_servers_and_rates_is_laid_out() -> None:
    problem = Problem.from_arrays(
        [[1.0], [1.0], [1.0]],
        [[1.0], [1.0]],
        rates=[[2.0, 3.0, 0.0], [np.nan] * 3],
        eligible=[[True, True, False], [True, True, True]],
    )
    witness = {
        "user": "u1",
        "demand": {"r1": 1.0},
        "truth": {"r1": 1.0},
        "honest": 1.0,
        "gained": 1.5,
        "rates": {"g1": 2.0, "g2": 30.0, "g3": 0.0},
        "servers": ["g2"],
    }
    verdict = Verdict("strategy-proofness", "fails", witness, 5, severity=0.5)
    said, rates, places = witness_blocks(verdict, problem)
    assert said.rows[0] == ("user", "u1")
    assert said.rows[-1] == ("off by", "50 %")
    assert rates.rows == (("g1", "2", "2"), ("g2", "30", "3"), ("g3", "0", "0"))
    assert places.rows == (("g1", "may not run", "may run"),)
    assert places.caption == "Where it may run; the truth on 2 other groups"
    assert verdict.witness is witness
    assert "rates" in witness


def test_a_better_allocation_on_many_groups_is_put_into_words() -> None:
    problem = Problem.from_arrays(np.ones((12, 1)), [[1.0], [1.0]])
    better = {"u1": {f"g{k}": 0.5 for k in range(1, 13)}, "u2": {}}
    verdict = Verdict("pareto-optimality", "fails", {"user": "u1", "better": better}, 1)
    said, block = witness_blocks(verdict, problem, np.array([5.0, 0.0]))
    assert said.rows == (("user", "u1"),)
    assert block.headings == ("user", "where", "in all", "now")
    assert block.rows[0][1].startswith("g1 0.5, g2 0.5")
    assert block.rows[0][2:] == ("6", "5")


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.0, "3"), (1 / 3, "0.3333333"), (12345.678, "12,345.68"), (np.inf, "unlimited")],
)
def test_numbers_of_witnesses(value: float, text: str) -> None:
    assert exact(value) == text
