"""The page of a survey is whole, harmless, and shows what the survey found."""

from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pytest
from handmade_answers import HOSTILE, hostile_problem

from fairlead.executors.local_processes import Processes
from fairlead.mechanisms.mechanism import Claim
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.report.document import Cell as Shown
from fairlead.report.document import Table
from fairlead.report.page import to_page
from fairlead.report.terminal import to_terminal
from fairlead.report.witness import exact, problem_blocks, problem_line, witness_blocks
from fairlead_papers.surveys.drawing import Distribution
from fairlead_papers.surveys.page import survey_document
from fairlead_papers.surveys.survey import Survey, survey
from fairlead_papers.surveys.work import SurveyCell, Witness
from page_reader import read_harmless, unpacked


@pytest.fixture(scope="module")
def found() -> Survey:
    return survey(["drf-per-server", "pdrf"], 8, lies=5, seed=2, executor=Processes(1))


def handmade() -> Survey:
    """One cell of each kind."""
    verdict = Verdict("envy-freeness", "fails", {HOSTILE: 1.5}, 2, HOSTILE, HOSTILE, severity=0.25)
    witness = Witness(hostile_problem(), verdict, None, True, 7)
    claim = Claim("envy-freeness", (HOSTILE, "finite tasks"))
    kinds = {
        "refuted": SurveyCell("a", "p0", claim, 9, 5, 3, 2, witness),
        "fails outside": SurveyCell("a", "p1", claim, 9, 5, 3, 0, witness),
        "stands": SurveyCell("a", "p2", claim, 9, 5),
        "never asked": SurveyCell("b", "p0", claim),
        "fails": SurveyCell("b", "p1", None, 1234, 0, 1001, 0, witness),
        "nothing": SurveyCell("b", "p2", None, 9),
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


def page_of(found: Survey) -> str:
    """Return the page, with the rows that it opens put in their places."""
    page = to_page(survey_document(found, HOSTILE))
    kept = json.loads(unpacked(page)["contents"])["kept"]
    for place, html in kept.items():
        page = page.replace(f'<tbody id="{place}">', f'<tbody id="{place}">{html}')
    return page


def text_of(found: Survey) -> str:
    return to_terminal(survey_document(found, "t"), width=None, plain=True)


def stripped(html: str) -> str:
    return " ".join(unescape(re.sub("<[^>]*>", " ", html)).split())


def table_of(page: str) -> list[list[str]]:
    """Return the text of the cells of the table of mechanisms."""
    after = page.split('aria-label="Mechanisms and their properties">')[1]
    body = after.split("<tbody", maxsplit=1)[1].split("</tbody>", maxsplit=1)[0]
    rows = re.findall("<tr>(.*?)</tr>", body, re.DOTALL)
    return [[stripped(cell) for cell in re.split("</t[dh]>", row)[:-1]] for row in rows]


def test_a_page_fetches_nothing_and_every_link_leads_somewhere(found: Survey) -> None:
    for page in (to_page(survey_document(each, HOSTILE)) for each in (found, handmade())):
        read = read_harmless(page)
        assert read.figures == {}
        assert any("href" in attributes for _, attributes in read.elements)
        assert len(page) < 100_000


def test_every_cell_says_what_was_claimed_and_found(found: Survey) -> None:
    rows, text = table_of(page_of(found)), text_of(found)
    assert len(rows) == 2
    for mechanism, row in zip(found.mechanisms, rows, strict=True):
        assert row[0] == mechanism
        assert f"\n {mechanism} {' '.join(row[1:])}\n" in re.sub(" +", " ", text)
        for of, said in zip(found.properties, row[1:], strict=True):
            cell = found.cells[mechanism, of]
            assert ("✓" in said) == (cell.claim is not None)
            assert ("*" in said) == (cell.claim is not None and bool(cell.claim.without))
            assert said.endswith(f"{cell.violations}/{cell.asked}" if cell.asked else "not asked")
            if cell.claim is not None and cell.claim.without:
                without = " or ".join(cell.claim.without)
                line = f"* {mechanism}, {of}: claimed without {without}"
                assert line in text
                assert line in stripped(page_of(found))


def test_each_kind_of_cell_in_words() -> None:
    rows = table_of(page_of(handmade()))
    assert rows == [
        ["a", "REFUTED 2/5", "✓* 3/9", "✓* 0/9"],
        ["b", "✓* not asked", "1,001/1,234", "0/9"],
    ]
    body = page_of(handmade()).split("</tbody>")[0]
    classes = re.findall('<td class="num ?(good|bad|dim|)"', body)
    assert classes == ["bad", "good", "good", "good", "", "dim"]
    for shown in (stripped(page_of(handmade())), " ".join(text_of(handmade()).split())):
        assert "refuted on 1,300 random problems: a, p0." in shown
        assert f"* a, p1: claimed without {HOSTILE} or finite tasks" in shown
        assert "on 2 of 5 problems on which it is claimed, and on 3 of 9 in all" in shown
        assert shown.count("fails where it is not claimed") == 1


def test_a_survey_opens_with_what_is_refuted(found: Survey) -> None:
    opening = "No claim is refuted on 8 random problems."
    assert f"✓ {opening}\n" in text_of(found)
    assert f"✓ {opening}" in stripped(page_of(found))
    assert "✗ 1 claim is refuted on 1,300 random problems: a, p0.\n" in text_of(handmade())


def test_every_witness_is_shown_with_its_problem(found: Survey) -> None:
    cards, text = page_of(found).split("<article ")[1:], text_of(found)
    cells = [
        found.cells[m, p]
        for m in found.mechanisms
        for p in found.properties
        if found.cells[m, p].witness is not None
    ]
    assert len(cards) == len(cells) > 0
    for card, cell in zip(cards, cells, strict=True):
        assert cell.witness is not None
        shown = stripped(card)
        assert cell.property in shown
        assert cell.witness.verdict.sentence in shown
        problem = cell.witness.problem
        for amount in [*problem.cluster.capacity.ravel(), *problem.demand.ravel()]:
            assert exact(float(amount)) in shown.split()
        assert f"random problem {cell.witness.number}" in shown
        assert ("REFUTED" in shown) == (cell.refutations > 0)
        said = (f"{cell.mechanism}, {cell.property}", cell.witness.verdict.sentence)
        for line in (*said, problem_line(problem)):
            assert " ".join(line.split()) in " ".join(text.split())


def test_what_was_searched_stands_at_the_end() -> None:
    end = page_of(handmade()).split("What was searched")[1]
    answers = [float(v) for v in re.findall(r'data-value="([^"]*)"', end)]
    assert answers == [1234, 66, 0, 1289, 0, 11]
    shown = stripped(end)
    assert "seed 42" in shown
    assert "users at most 5" in shown
    assert "chance that a user has finitely many tasks 0.25" in shown
    assert re.search(r"\n b +1,289 +0 +11\n", text_of(handmade()))


def test_a_small_problem_in_a_line() -> None:
    users = (f"{HOSTILE}'\"0 (1, 0.5) only on {HOSTILE}g0", f"{HOSTILE}'\"1 (0.5, 1) weight 7")
    assert problem_line(hostile_problem()) == (
        f"servers {HOSTILE}g0 (4, 1.25), {HOSTILE}g1 (2, 3) x 3; "
        f"tasks {users[0]}, {users[1]} with 17.5 tasks"
    )


def headings(table: Table) -> tuple[str, ...]:
    return tuple(column.heading for column in table.columns)


def rows_of(table: Table) -> list[tuple[str, ...]]:
    """Return the text of the cells of a table."""
    rows = map(table.row, range(table.count))
    return [tuple(c.text if isinstance(c, Shown) else c for c in row) for row in rows]


def test_a_small_problem_is_laid_out_in_full() -> None:
    servers, users = problem_blocks(hostile_problem())
    r0, r1 = f"{HOSTILE}r0", f"{HOSTILE}r1 ({HOSTILE})"
    assert headings(servers) == ("group", "how many", r0, r1)
    assert rows_of(servers)[1] == (f"{HOSTILE}g1", "3", "2", "3")
    per_task = (f"{r0} per task", f"{r1} per task")
    assert headings(users) == ("user", *per_task, "weight", "tasks in all", "may run on")
    assert rows_of(users)[0][1:] == ("1", "0.5", "1", "unlimited", f"{HOSTILE}g0")
    assert rows_of(users)[1][1:] == ("0.5", "1", "7", "17.5", "all servers")
    assert [k for k, column in enumerate(users.columns) if column.words] == [0, 5]


def test_rates_and_weights_per_resource_are_laid_out() -> None:
    problem = Problem.from_arrays(
        [[1.0, 1.0]],
        [[1.0, 1.0], [0.0, 2.0]],
        rates=[[np.nan], [3.0]],
        weight=[[1.0, 2.0], [1.0, 1.0]],
    )
    users = problem_blocks(problem)[1]
    assert headings(users)[3:] == ("weight, r1", "weight, r2", "rate on g1")
    assert [row[3:] for row in rows_of(users)] == [("1", "2", ""), ("1", "1", "3")]


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
    assert rows_of(said)[0] == ("user", "u1")
    assert rows_of(said)[-1] == ("off by", "50 %")
    assert rows_of(rates) == [("g1", "2", "2"), ("g2", "30", "3"), ("g3", "0", "0")]
    assert rows_of(places) == [("g1", "may not run", "may run")]
    assert places.about == "Where it may run; the truth on 2 other groups"
    assert verdict.witness is witness
    assert "rates" in witness


def test_a_better_allocation_on_many_groups_is_put_into_words() -> None:
    problem = Problem.from_arrays(np.ones((12, 1)), [[1.0], [1.0]])
    better = {"u1": {f"g{k}": 0.5 for k in range(1, 13)}, "u2": {}}
    verdict = Verdict("pareto-optimality", "fails", {"user": "u1", "better": better}, 1)
    said, block = witness_blocks(verdict, problem, np.array([5.0, 0.0]))
    assert rows_of(said) == [("user", "u1")]
    assert headings(block) == ("user", "where", "in all", "now")
    assert rows_of(block)[0][1].startswith("g1 0.5, g2 0.5")
    assert rows_of(block)[0][2:] == ("6", "5")


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.0, "3"), (1 / 3, "0.3333333"), (12345.678, "12,345.68"), (np.inf, "unlimited")],
)
def test_numbers_of_witnesses(value: float, text: str) -> None:
    assert exact(value) == text
