"""The page of an audit is whole, harmless, and shows the numbers of the audit."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from handmade_answers import HOSTILE, crowd
from page_reader import Reader
from plotly.offline import get_plotlyjs

from fairlead.model.holdings import Holdings, WaitingTask
from fairlead.model.problem import Problem
from fairlead.properties import envy, feasibility, sharing, waste
from fairlead.properties.audit import Audit, audit
from fairlead.properties.sharing import measure_slices
from fairlead.report import audit_figures, audit_page, audit_tables
from fairlead.report.audit_standing import change, least_and_most, standing_of, tasks_with_bundles
from fairlead.report.numbers import percent

CHEAP = (feasibility.NAME, waste.NAME, sharing.NAME, envy.NAME)


def small() -> Problem:
    return Problem.from_arrays(
        [[2, 12], [12, 2]],
        [[0.2, 1], [1, 0.2], [0.3, 0.4]],
        weight=[1, 2, 1],
        eligible=[[True, True], [True, True], [False, True]],
        users=["ana", "bo", "cy"],
        groups=["high-memory", "high-cpu"],
    )


def greedy(problem: Problem) -> np.ndarray[Any, Any]:
    """Give the more to those who ask for more, and a tenth to nobody."""
    asked = problem.demand.sum(axis=1)
    tasks: np.ndarray[Any, Any] = 0.9 * problem.gamma * (asked / asked.sum())[:, None]
    return tasks


def of_many() -> Audit:
    allocation = crowd(1000, 4)
    return audit(allocation.problem, allocation.tasks, fair="ps-dsf", properties=CHEAP)


def with_everything_hostile() -> Audit:
    problem = Problem.from_arrays(
        [[4.0, 1.0], [2.0, 3.0]],
        [[1.0, 0.5], [0.5, 1.0]],
        weight=[1, 3],
        eligible=[[True, False], [True, True]],
        resources=[f"{HOSTILE}r{k}" for k in range(2)],
        units=[HOSTILE] * 2,
        groups=[f"{HOSTILE}g{k}" for k in range(2)],
        users=[f"{HOSTILE}'\"{k}" for k in range(2)],
    )
    tasks = np.array([[0.5, 0.0], [0.1, 0.0]])
    holdings = Holdings(problem, tasks, HOSTILE, skipped=(HOSTILE,))
    return audit(problem, holdings, fair="max-tasks")


def of_several_shapes() -> Audit:
    problem = small()
    tasks = np.array([[4.0, 0.0], [0.0, 2.0], [0.0, 3.0]])
    amounts = tasks[:, :, None] * problem.demand[:, None, :]
    waits = WaitingTask("job 7", 0, np.array([0.1, 0.1]), np.array([True, True]))
    skipped = tuple(f"row {k}: no such user" for k in range(250))
    holdings = Holdings(problem, tasks, "a log", True, amounts, (waits,), skipped)
    return audit(problem, holdings)


def with_a_number_missing() -> Audit:
    return audit(small(), np.array([[1.0, 0], [np.nan, 0], [0, 1]]), fair="ps-dsf")


def of_given_rates() -> Audit:
    problem = Problem.from_arrays([[1.0]], [[0.0], [0.0]], rates=[[3.0], [5.0]])
    return audit(problem, np.array([[0.6], [4.0]]), fair="ps-dsf-tdm")


AUDITS = {
    "a mechanism": lambda: audit(small(), "max-tasks", fair="ps-dsf", lies=5),
    "a rule": lambda: audit(small(), greedy, lies=60),
    "an allocation": lambda: audit(small(), np.array([[1.0, 0], [0, 3], [0, 1]]), fair="drfh"),
    "one user": lambda: audit(Problem.from_arrays([[4.0]], [[1.0]]), "drf"),
    "one pool": lambda: audit(Problem.from_arrays([[4.0], [2.0]], [[1.0], [2.0]]), "drf", lies=2),
    "whole tasks": lambda: audit(
        Problem.from_arrays([[7.0]], [[2.0], [3.0]]), "drf-tasks", lies=2, fair="drf"
    ),
    "several shapes": of_several_shapes,
    "a number missing": with_a_number_missing,
    "rates": of_given_rates,
    "hostile": with_everything_hostile,
    "many": of_many,
}


@cache
def audit_of(name: str) -> Audit:
    return AUDITS[name]()


@cache
def page_of(name: str) -> str:
    return audit_page.audit_page(audit_of(name), HOSTILE, [HOSTILE])


def read(name: str) -> Reader:
    return Reader(page_of(name))


def text_of(name: str) -> str:
    return " ".join("".join(read(name).shown).split())


def drawn(name: str) -> Any:
    return read(name).embedded("figures")


@pytest.mark.parametrize("name", AUDITS)
def test_a_page_fetches_nothing_and_every_picture_has_its_data(name: str) -> None:
    page, reader = page_of(name), read(name)
    assert reader.open == []
    assert page.count(get_plotlyjs()) == 1
    own = page.replace(get_plotlyjs(), "")
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttpRequest", own)
    for tag, attributes in reader.elements:
        assert tag not in ("b", "link", "iframe", "img", "object", "embed", "base", "form", "a")
        assert not {"src", "href", "action"} & attributes.keys()
        assert not any(attribute.startswith("on") for attribute in attributes)
    assert len(reader.scripts) == 3
    figures = [a["data-figure"] for _, a in reader.elements if "data-figure" in a]
    assert sorted(reader.embedded("figures")) == sorted(f for f in figures if f)


@pytest.mark.parametrize("name", AUDITS)
def test_every_verdict_is_shown_with_its_sentence(name: str) -> None:
    found, shown = audit_of(name), text_of(name)
    kinds = [
        str(a["class"]).split()[1]
        for t, a in read(name).elements
        if t == "li" and str(a.get("class")).startswith("verdict ")
    ]
    assert kinds == [v.verdict if v.applies else "muted" for v in found]
    for verdict in found:
        start = re.sub("^(not decided|nothing to ask): ", "", verdict.sentence)
        assert verdict.name in shown
        assert " ".join(start.split()) in shown
    fail = kinds.count("fails")
    assert (f"{fail} of {len(found)} properties fail" in shown) == (fail > 0)
    assert ("no property fails" in shown) == (fail == 0)
    folded = [a.get("class") for t, a in read(name).elements if t == "details"]
    assert folded.count(None) == fail


@pytest.mark.parametrize("name", AUDITS)
def test_the_table_holds_what_the_audit_says_of_users(name: str) -> None:
    users = audit_of(name).to_dict()["users"]
    table = page_of(name).rsplit('<table class="sortable" id="users">', 1)[1]
    cells = [float(v) for v in re.findall(r'data-value="([^"]*)"', table.split("</table>")[0])]
    weighted = len({user["weight"] for user in users}) > 1
    expected = []
    for user in users:
        expected += [user["weight"]] if weighted else []
        expected += [user["tasks"], user["dominant_share"]]
        if "fair_tasks" in user:
            share, due = user["dominant_share"], user["fair_dominant_share"]
            if name == "rates":  # nothing is demanded: tasks are compared
                share, due = user["tasks"], user["fair_tasks"]
            held = share / due if share is not None and due > 0 else None
            expected += [user["fair_tasks"], user["fair_dominant_share"], held]
        expected += [user["slice"], user["margin"]]
    assert cells == pytest.approx([1e300 if value is None else value for value in expected])


def test_shares_are_drawn_beside_the_fair_ones_the_furthest_over_first() -> None:
    found = audit_of("an allocation")
    assert found.fair is not None
    *others, reference, labels = drawn("an allocation")["shares"]["data"]
    held = found.subject.holdings.dominant_share
    ratio = held / found.fair.dominant_share
    order = np.argsort(-ratio)
    assert reference["name"] == "fair share by drfh"
    assert reference["x"] == pytest.approx(found.fair.dominant_share[order].tolist())
    assert [text.strip() for text in labels["text"]] == [change(r - 1) for r in ratio[order]]
    dots = {
        y: x for t in others if t["mode"] == "markers" for x, y in zip(t["x"], t["y"], strict=True)
    }
    assert [dots[k] for k in range(3)] == pytest.approx(held[order].tolist())
    names = drawn("an allocation")["shares"]["layout"]["yaxis"]["ticktext"]
    assert names == [("ana", "bo", "cy")[n] for n in order]
    assert f"dominant share {percent(float(held[order[0]]))}" in reference["hovertext"][0]


def test_without_fair_shares_the_reference_is_the_slice() -> None:
    found = audit_of("a rule")
    problem = found.subject.problem
    reference = drawn("a rule")["shares"]["data"][-2]
    due = found.slices * (problem.demand / problem.total_capacity).max(axis=1)
    assert sorted(reference["x"]) == pytest.approx(sorted(due))
    assert reference["name"] == "share of its slice of every server"


def test_of_many_users_those_furthest_off_are_drawn_and_all_are_counted() -> None:
    found = audit_of("many")
    standing = standing_of(found)
    figures = drawn("many")
    reference = figures["shares"]["data"][-2]
    assert len(reference["x"]) == audit_figures.ROWS
    assert "… 940 between …" in figures["shares"]["layout"]["yaxis"]["ticktext"]
    assert "The 30 users furthest over and the 30 furthest under, of 1,000." in text_of("many")
    order = np.argsort(-standing.ratio, kind="stable")
    ends = [*order[:30], *order[-30:]]
    assert reference["x"] == pytest.approx(standing.reference[ends].tolist())
    bars = figures["ratios"]["data"][0]
    assert sum(bars["y"]) == 1000
    less = sum(count for x, count in zip(bars["x"], bars["y"], strict=True) if x < 1)
    assert less == standing.below.sum() > 0


def test_margins_are_drawn_the_least_first_and_the_largest_cut_off() -> None:
    found = audit_of("an allocation")
    bars, zero, _ = drawn("an allocation")["margins"]["data"]
    margin = found.subject.holdings.user_tasks / found.slices - 1
    assert bars["x"] == pytest.approx(np.sort(margin).tolist())
    assert zero["x"] == [0, 0]
    many = audit_of("many")
    curve = drawn("many")["margins"]["data"][1]
    margin = np.sort(many.subject.holdings.user_tasks / many.slices - 1)
    assert margin[-1] > audit_figures.LARGEST_MARGIN
    assert len(curve["x"]) == audit_figures.POINTS
    expected = np.minimum(margin[np.array(curve["x"]) - 1], audit_figures.LARGEST_MARGIN)
    assert curve["y"] == pytest.approx(expected.tolist())
    assert (curve["x"][0], curve["x"][-1]) == (1, 1000)
    assert "Margins above +400 % are drawn as that" in text_of("many")


def could_by_definition(found: Audit) -> np.ndarray[Any, Any]:
    """Count, resource by resource, the tasks of each with the bundle of each other."""
    problem, tasks = found.subject.problem, found.subject.tasks
    n_users = problem.n_users
    could = np.zeros((n_users, n_users))
    for n in range(n_users):
        for m in range(n_users):
            for g in range(problem.n_groups):
                if problem.users.eligible[n, g]:
                    asks = problem.demand[n] > 0
                    bundle = tasks[m, g] * problem.demand[m] * problem.weight[n] / problem.weight[m]
                    could[n, m] += (bundle[asks] / problem.demand[n, asks]).min()
    return could


@pytest.mark.parametrize("name", ["a mechanism", "an allocation", "a rule"])
def test_envy_is_drawn_pair_by_pair(name: str) -> None:
    found = audit_of(name)
    users = np.arange(3)
    could = could_by_definition(found)
    assert tasks_with_bundles(found.subject, users) == pytest.approx(could)
    own = np.diag(could)
    envious = np.flatnonzero((could > own[:, None] * (1 + 1e-6)).any(axis=1))
    assert (len(envious) > 0) == (found["envy-freeness"].verdict == "fails")
    assert ("envy" in drawn(name)) == (len(envious) > 0)
    if not len(envious):
        return
    map_ = drawn(name)["envy"]
    names = found.subject.problem.users.names
    rows, columns = map_["layout"]["yaxis"]["ticktext"], map_["layout"]["xaxis"]["ticktext"]
    assert sorted(rows) == sorted(names[n] for n in envious)
    cells = {
        (rows[i], columns[j]): z
        for i, row in enumerate(map_["data"][0]["z"])
        for j, z in enumerate(row)
        if z is not None
    }
    expected = {
        (names[n], names[m]): could[n, m] / own[n] - 1 if own[n] > 0 else np.inf
        for n in envious
        for m in range(3)
        if could[n, m] > own[n] * (1 + 1e-5)
    }
    assert cells.keys() == expected.keys()
    for pair, gain in expected.items():
        assert cells[pair] == pytest.approx(min(gain, map_["data"][0]["zmax"]))


def test_envy_among_those_who_hold_tasks_of_several_shapes_or_time() -> None:
    for found in (audit_of("several shapes"), audit_of("rates"), audit_of("whole tasks")):
        users = np.arange(found.subject.problem.n_users)
        could = tasks_with_bundles(found.subject, users)
        assert could.max(axis=1) == pytest.approx(found.envy.could)


def test_of_many_that_envy_a_table_lists_the_largest() -> None:
    found = audit_of("many")
    assert found.envy.count(1e-6) > audit_figures.ENVY_SHOWN
    rows = audit_figures.largest_envies(found, standing_of(found))
    assert len(rows) == audit_figures.ENVY_SHOWN
    worst = int(found.envy.gain.argmax())
    names = found.subject.problem.users.names
    assert rows[0]["user"] == names[worst]
    assert rows[0]["envies"] == names[found.envy.envied[worst]]
    assert "The 40 that would gain most, of" in text_of("many")
    assert "envy" not in drawn("many")


def test_envy_within_rounding_is_none() -> None:
    problem = Problem.from_arrays([[1.0]], [[1.0], [1.0]])
    found = audit(problem, np.array([[0.5], [0.5 * (1 + 1e-7)]]), properties=CHEAP)
    assert found.envy.gain[0] > 0
    page = audit_page.audit_page(found, "t")
    assert "Who envies whom" not in page
    assert "0 of 2" in page


def test_a_witness_is_laid_out_to_check_it_by_hand() -> None:
    found, shown = audit_of("an allocation"), text_of("an allocation")
    better = found["pareto-optimality"].witness["better"]
    assert "A better allocation, in tasks" in shown
    for places in better.values():
        for tasks in places.values():
            assert f"{tasks:.6g}"[:6] in shown
    lie = audit_of("a rule")["strategy-proofness"].witness
    shown = text_of("a rule")
    assert lie["gained"] > lie["honest"]
    assert "Demand of one task" in shown
    for told in lie["demand"].values():
        assert f"{told:.7g}" in shown


def test_whole_tasks_fall_short_by_whole_tasks_only() -> None:
    found = audit_of("whole tasks")
    standing = standing_of(found)
    has = found.subject.holdings.user_tasks
    assert (has < measure_slices(found.subject.problem)).any()
    np.testing.assert_array_equal(found.slices, measure_slices(found.subject.problem))
    assert (standing.margin < 0).any()
    assert not standing.short.any()
    assert found["sharing-incentive"].verdict == "holds"


def test_of_whom_nothing_is_asked_is_said_and_counted() -> None:
    """Ten users of one server for four tasks: a slice is less than one, and six run nothing."""
    problem = Problem.from_arrays([[4.0]], [[1.0]] * 10)
    tasks = np.array([[1.0]] * 3 + [[0.0]] * 7)
    found = audit(problem, Holdings(problem, tasks, whole_tasks=True))
    page = audit_page.audit_page(found, "small slices").replace(get_plotlyjs(), "")
    shown = " ".join(re.sub("<[^>]*>", " ", page).split())
    assert "0 of 10 7 of 10 not asked: slice under one task" in shown
    assert "Of 7 users that run less, the slice is less than one whole task" in shown
    said = "nothing is said of 7 of 10 users, whose slice is less than one whole task (u4, u5, u6"
    assert said in shown
    assert said in " ".join(audit_tables.audit_tables(found, width=80, plain=True).split())
    verdict = next(v for v in found.to_dict()["properties"] if v["name"] == "sharing-incentive")
    users = [f"u{n}" for n in range(4, 11)]
    assert verdict["vacuous"] == {"count": 7, "users": users}


def test_what_was_skipped_and_left_out_is_listed() -> None:
    shown = text_of("several shapes")
    assert "row 199: no such user" in shown
    assert "row 200" not in shown
    assert "and 50 more" in shown
    assert HOSTILE in shown
    assert text_of("hostile").count(HOSTILE) > 10


def test_names_mean_themselves_in_pictures() -> None:
    figures = str(drawn("hostile"))
    assert figures.count("&lt;/script&gt;") > 5
    assert "</script>" not in figures
    assert "<b>&lt;/script&gt;" in figures


def test_a_page_of_a_thousand_users_is_small() -> None:
    assert len(page_of("many")) - len(get_plotlyjs()) < 1_000_000


def test_a_long_table_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_page, "LONGEST_TABLE", 50)
    page = audit_page.audit_page(audit_of("many"), "t")
    assert "The 50 largest of 1,000 users" in page
    assert len(page) < len(page_of("many"))


def test_who_cannot_be_drawn_is_counted() -> None:
    assert "Without 1 user of whom a number is missing." in text_of("a number missing")
    assert len(drawn("a number missing")["shares"]["data"][-2]["x"]) == 2
    assert len(drawn("a number missing")["margins"]["data"][0]["x"]) == 2
    assert "a number is missing" not in text_of("an allocation")


def test_whom_to_show_of_many() -> None:
    ratio = np.array([0.5, np.nan, 3.0, 1.0, np.inf, 0.1])
    assert least_and_most(ratio, 10) == ([4, 2, 3, 0, 5], 5)
    assert least_and_most(ratio, 4) == ([4, 2, 0, 5], 2)


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.1234567, "+12.3 %"),
        (-1 / 15, "−6.67 %"),
        (1e-9, "0 %"),
        (12.5, "+1,250 %"),
        (float("inf"), "from nothing"),
        (1e8, "+1e+10 %"),
    ],
)
def test_changes_in_words(fraction: float, text: str) -> None:
    assert change(fraction) == text
