"""The page of an audit is whole, harmless, and shows the numbers of the audit."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from handmade_answers import HOSTILE, crowd, hostile_problem

from fairlead.model.holdings import Holdings, WaitingTask
from fairlead.model.problem import Problem
from fairlead.properties import efficiency, envy, feasibility, lies, sharing
from fairlead.properties.audit import Audit, audit
from fairlead.properties.sharing import measure_slices
from fairlead.report import audit_figures
from fairlead.report import page as page_module
from fairlead.report.against_fair import against_fair, least_and_most, tasks_with_bundles
from fairlead.report.audit import audit_document
from fairlead.report.numbers import change, number, percent
from fairlead.report.page import to_page
from fairlead.report.terminal import to_terminal
from page_reader import PACKED, Reader, read_harmless

SHARES, MARGINS = "Dominant share of each", "Margin of each"
ENVY = "By how much each user would gain"
CHEAP = (feasibility.NAME, efficiency.WASTE, sharing.NAME, envy.NAME)


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
    tasks = np.array([[0.5, 0.0], [0.1, 0.0]])
    holdings = Holdings(hostile_problem(), tasks, HOSTILE, skipped=(HOSTILE,))
    return audit(holdings.problem, holdings, fair="max-tasks")


def of_several_shapes() -> Audit:
    problem = small()
    tasks = np.array([[4.0, 0.0], [0.0, 2.0], [0.0, 3.0]])
    amounts = tasks[:, :, None] * problem.demand[:, None, :]
    waits = WaitingTask("job 7", 0, np.array([0.1, 0.1]), np.array([True, True]))
    skipped = tuple(f"row {k}: no such user" for k in range(250))
    holdings = Holdings(problem, tasks, "a log", True, amounts, (waits,), skipped)
    return audit(problem, holdings)


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
    "a number missing": lambda: audit(
        small(), np.array([[1.0, 0], [np.nan, 0], [0, 1]]), fair="ps-dsf"
    ),
    "rates": of_given_rates,
    "hostile": with_everything_hostile,
    "many": of_many,
}


@cache
def audit_of(name: str) -> Audit:
    return AUDITS[name]()


@cache
def page_of(name: str) -> str:
    return to_page(audit_document(audit_of(name), HOSTILE, [HOSTILE]))


@cache
def read(name: str) -> Reader:
    return Reader(page_of(name))


def on_terminal(found: Audit) -> str:
    return to_terminal(audit_document(found, "t"), width=None, plain=True)


@pytest.mark.parametrize("name", AUDITS)
def test_a_page_fetches_nothing_and_every_picture_has_its_data(name: str) -> None:
    reader = read_harmless(page_of(name))
    assert len(reader.chart_script) > 1_000_000
    assert not any(tag == "a" for tag, _ in reader.elements)


@pytest.mark.parametrize("name", AUDITS)
def test_every_verdict_is_shown_with_its_sentence(name: str) -> None:
    found, reader = audit_of(name), read(name)
    shown, text = reader.text, on_terminal(found)
    kinds = [
        str(a["class"]).split()[1]
        for t, a in reader.elements
        if t == "div" and str(a.get("class")).startswith("statement ")
    ]
    asked = [verdict for verdict in found if verdict.applies]
    assert kinds == [v.verdict for v in asked] + ["muted"] * (len(found) - len(asked))
    for verdict in found:
        said = verdict.verdict.replace("fails", "FAILS")
        assert f"{verdict.name} {said} {' '.join(verdict.sentence.split())}" in shown
        assert re.search(rf"^. {verdict.name} +{said} ", text, re.MULTILINE)
    fail = kinds.count("fails")
    for whole in (shown, text):
        assert (f"{fail} of {len(found)} properties fail" in whole) == (fail > 0)
        assert ("No property fails" in whole) == (fail == 0)
    classes = [str(a.get("class")) for _, a in reader.elements]
    assert f"opening {'fails' if fail else 'holds'}" in classes


def test_an_audit_opens_with_who_is_wronged_and_what_fails() -> None:
    tasks = np.array([[4.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    found = audit(small(), tasks, fair="drfh", properties=CHEAP)
    opening = (
        "2 of 3 users hold less than their fair share by drfh; bo got nothing; bo envies another. "
        "3 of 4 properties fail: non-wastefulness, sharing-incentive, envy-freeness."
    )
    assert f"✗ {opening}\n" in on_terminal(found)
    assert f"✗ {opening}" in Reader(to_page(audit_document(found, "t"))).text
    unfair = audit(small(), tasks, fair="drfh", properties=["feasibility"])
    assert "✓ No property fails. 2 of 3 users hold less than their fair share" in on_terminal(
        unfair
    )
    fair = audit(small(), "ps-dsf", properties=(*CHEAP, lies.NAME), lies=3)
    assert (
        "✓ Nobody runs less than it would on its slice of every server; nobody envies another. No "
        "property fails; not decided: strategy-proofness.\n"
    ) in on_terminal(fair)
    missing = audit_of("a number missing")
    assert "a number is missing of 1 user" in on_terminal(missing)
    assert "envies another" not in on_terminal(missing)


@pytest.mark.parametrize("name", AUDITS)
def test_the_table_holds_what_the_audit_says_of_users(name: str) -> None:
    users = audit_of(name).to_dict()["users"]
    table = read(name).table("Users, what they hold")
    cells = [float(str(a["data-value"])) for _, a in table if "data-value" in a]
    weighted = len({user["weight"] for user in users}) > 1
    waits = any("waiting" in user for user in users)
    expected = []
    for user in users:
        expected += [user["weight"]] if weighted else []
        expected += [user["tasks"]]
        expected += [user.get("waiting", 0)] if waits else []
        expected += [user["dominant_share"]]
        if "fair_tasks" in user:
            share, due = user["dominant_share"], user["fair_dominant_share"]
            if name == "rates":  # nothing is demanded: tasks are compared
                share, due = user["tasks"], user["fair_tasks"]
            off = share / due - 1 if share is not None and due > 0 else None
            expected += [user["fair_tasks"], user["fair_dominant_share"], off]
        expected += [user["slice"], user["margin"]]
    known = [1e300 if value is None else value for value in expected]
    assert cells == pytest.approx(known, rel=1e-6, abs=1e-12)


def test_the_terminal_lists_who_holds_what_and_who_is_over_and_under() -> None:
    found = audit_of("an allocation")
    assert found.fair is not None
    text = on_terminal(found)
    for user in found.to_dict()["users"]:
        share, due = user["dominant_share"], user["fair_dominant_share"]
        said = change(share / due - 1).replace("\u00a0", " ")
        (row,) = re.findall(rf"^ {user['name']} .*", text, re.MULTILINE)
        assert all(figure in row for figure in (percent(share), percent(due), said))
        (line,) = re.findall("^under the fair share by drfh: .*", text, re.MULTILINE)
        assert f"{user['name']} ({said})" in line


def test_those_furthest_off_are_named_first() -> None:
    found = audit_of("many")
    off, names = against_fair(found).off, found.subject.problem.users.names
    for word, order in (("over", np.argsort(-off)), ("under", np.argsort(off))):
        (line,) = re.findall(f"^{word} the fair share .*", on_terminal(found), re.MULTILINE)
        said = re.findall(r"(\S+) \(", line)
        assert len(said) > 1
        assert off[[names.index(user) for user in said]] == pytest.approx(off[order[: len(said)]])


def test_shares_are_drawn_beside_the_fair_ones_the_furthest_over_first() -> None:
    found = audit_of("an allocation")
    assert found.fair is not None
    figure = read("an allocation").figure(SHARES)
    *others, reference, labels = figure["data"]
    held = found.subject.holdings.dominant_share
    ratio = held / found.fair.dominant_share
    order = np.argsort(-ratio)
    assert reference["name"] == "fair share by drfh"
    assert reference["x"] == pytest.approx(found.fair.dominant_share[order].tolist(), rel=1e-5)
    said = [change(r - 1, "as due") for r in ratio[order]]
    assert [text.lstrip("\u2002") for text in labels["text"]] == said
    dots = {
        y: x for t in others if t["mode"] == "markers" for x, y in zip(t["x"], t["y"], strict=True)
    }
    assert [dots[k] for k in range(3)] == pytest.approx(held[order].tolist(), rel=1e-5)
    assert figure["layout"]["yaxis"]["ticktext"] == [("ana", "bo", "cy")[n] for n in order]
    assert f"dominant share {percent(float(held[order[0]]))}" in reference["hovertext"][0]
    names = [t["name"] for t in figure["data"] if t.get("name")]
    assert all(name in read("an allocation").text for name in names)


def test_without_fair_shares_the_reference_is_the_slice() -> None:
    found = audit_of("a rule")
    problem = found.subject.problem
    reference = read("a rule").figure(SHARES)["data"][-2]
    due = found.slices * (problem.demand / problem.total_capacity).max(axis=1)
    assert sorted(reference["x"]) == pytest.approx(sorted(due), rel=1e-5)
    assert reference["name"] == "share of its slice of every server"


def test_what_is_off_by_less_than_a_thousandth_is_as_due() -> None:
    problem = Problem.from_arrays([[1.0]], [[1.0]] * 3)
    tasks = np.array([[1 / 3 * (1 - 5e-4)], [1 / 3], [1 / 3 * (1 + 5e-4)]])
    found = audit(problem, tasks, fair="drf", properties=CHEAP)
    assert not against_fair(found).below.any()
    page = Reader(to_page(audit_document(found, "t")))
    names = {t["name"] for t in page.figure(SHARES)["data"] if t.get("name")}
    assert names == {"holds as much", "fair share by drf"}
    assert page.text.count("as due") == 6
    assert "Nobody holds less than its fair share by drf" in page.text
    assert not re.search("^(over|under) the fair share", on_terminal(found), re.MULTILINE)


def test_of_many_users_those_furthest_off_are_drawn_and_all_are_counted() -> None:
    found, reader = audit_of("many"), read("many")
    against, figure = against_fair(found), reader.figure(SHARES)
    reference = figure["data"][-2]
    assert len(reference["x"]) == audit_figures.ROWS
    assert "… 940 between …" in figure["layout"]["yaxis"]["ticktext"]
    assert "The 30 users furthest over and the 30 furthest under, of 1,000." in reader.text
    order = np.argsort(-against.ratio, kind="stable")
    ends = [*order[:30], *order[-30:]]
    assert reference["x"] == pytest.approx(against.due[ends].tolist(), rel=1e-5)
    bars = reader.figure("How many users hold")["data"][0]
    assert sum(bars["y"]) == 1000
    less = sum(count for x, count in zip(bars["x"], bars["y"], strict=True) if x < 1)
    assert less == against.below.sum() > 0


def test_margins_are_drawn_the_least_first_and_the_largest_cut_off() -> None:
    found = audit_of("an allocation")
    bars, zero, _ = read("an allocation").figure(MARGINS)["data"]
    margin = found.subject.holdings.user_tasks / found.slices - 1
    assert bars["x"] == pytest.approx(np.sort(margin).tolist(), rel=1e-5)
    assert zero["x"] == [0, 0]
    many = audit_of("many")
    curve = read("many").figure(MARGINS)["data"][1]
    margin = np.sort(many.subject.holdings.user_tasks / many.slices - 1)
    assert margin[-1] > audit_figures.LARGEST_MARGIN
    assert len(curve["x"]) == audit_figures.POINTS
    ranks = np.array(curve["x"], dtype=int)
    expected = np.minimum(margin[ranks - 1], audit_figures.LARGEST_MARGIN)
    assert curve["y"] == pytest.approx(expected.tolist(), rel=1e-5)
    assert (curve["x"][0], curve["x"][-1]) == (1, 1000)
    assert "Margins above +400 % are drawn as that" in read("many").text


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
    assert any(about.startswith(ENVY) for about in read(name).pictures()) == (len(envious) > 0)
    if not len(envious):
        return
    map_ = read(name).figure(ENVY)
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
        if could[n, m] > own[n] * (1 + 1e-6)
    }
    assert cells.keys() == expected.keys()
    for pair, gain in expected.items():
        assert cells[pair] == pytest.approx(min(gain, map_["data"][0]["zmax"]))


def test_envy_among_those_who_hold_tasks_of_several_shapes_or_time() -> None:
    for found in (audit_of("several shapes"), audit_of("rates"), audit_of("whole tasks")):
        users = np.arange(found.subject.problem.n_users)
        could = tasks_with_bundles(found.subject, users)
        assert could.max(axis=1) == pytest.approx(found.envy.could)


def test_of_many_that_envy_a_table_lists_who_would_gain_most_first() -> None:
    found, reader = audit_of("many"), read("many")
    envious = found.envious.sum()
    assert envious > audit_figures.ENVY_SHOWN
    assert not any(about.startswith(ENVY) for about in reader.pictures())
    cells = [a for t, a in reader.table("Who envies another") if t == "td"]
    gains = [float(str(a["data-value"])) for a in cells[3::4]]
    expected = np.sort(found.envy.gain[found.envious])[::-1]
    assert gains == pytest.approx(np.minimum(expected, 1e300).tolist())
    worst = int(found.envy.gain.argmax())
    names = found.subject.problem.users.names
    assert f"gain {names[worst]} {names[found.envy.envied[worst]]} " in reader.text


def test_envy_within_rounding_is_none() -> None:
    problem = Problem.from_arrays([[1.0]], [[1.0], [1.0]])
    found = audit(problem, np.array([[0.5], [0.5 * (1 + 1e-7)]]), properties=CHEAP)
    assert found.envy.gain[0] > 0
    page = to_page(audit_document(found, "t"))
    assert "Who envies another" not in page
    assert "<dt>users that envy</dt><dd>0 of 2</dd>" in page
    assert "nobody envies another" in page


def test_a_witness_is_laid_out_to_check_it_by_hand() -> None:
    found, shown = audit_of("an allocation"), read("an allocation").text
    better = found["pareto-optimality"].witness["better"]
    assert "A better allocation, in tasks" in shown
    for places in better.values():
        for tasks in places.values():
            assert f"{tasks:.6g}"[:6] in shown
    lie = audit_of("a rule")["strategy-proofness"].witness
    shown = read("a rule").text
    assert lie["gained"] > lie["honest"]
    assert "Demand of one task" in shown
    for told in lie["demand"].values():
        assert f"{told:.7g}" in shown


def test_whole_tasks_fall_short_by_whole_tasks_only() -> None:
    found = audit_of("whole tasks")
    against = against_fair(found)
    has = found.subject.holdings.user_tasks
    assert (has < measure_slices(found.subject.problem)).any()
    np.testing.assert_array_equal(found.slices, measure_slices(found.subject.problem))
    assert (against.margin < 0).any()
    assert not against.short.any()
    assert found["sharing-incentive"].verdict == "holds"


def test_of_whom_nothing_is_asked_is_said_and_counted() -> None:
    """Ten users of one server for four tasks: a slice is less than one, and six run nothing."""
    problem = Problem.from_arrays([[4.0]], [[1.0]] * 10)
    tasks = np.array([[1.0]] * 3 + [[0.0]] * 7)
    found = audit(problem, Holdings(problem, tasks, whole_tasks=True))
    page = to_page(audit_document(found, "small slices"))
    shown = Reader(page).text
    tile = '<dd>0 of 10</dd><dd class="small">7 of 10 not asked: slice under one task</dd>'
    assert tile in page
    assert "Of 7 users that run less, the slice is less than one whole task" in shown
    said = "nothing is said of 7 of 10 users, whose slice is less than one whole task (u4, u5, u6"
    assert said in shown
    assert said in on_terminal(found)
    verdict = next(v for v in found.to_dict()["properties"] if v["name"] == "sharing-incentive")
    users = [f"u{n}" for n in range(4, 11)]
    assert verdict["vacuous"] == {"count": 7, "users": users}


def test_what_was_skipped_and_left_out_is_listed() -> None:
    shown = read("several shapes").text
    assert "skipped: 250 rows" in shown
    assert "row 199: no such user" in shown
    assert "row 200" not in shown
    assert "and 50 more" in shown
    assert HOSTILE in shown
    assert read("hostile").text.count(HOSTILE) > 10
    text = on_terminal(audit_of("several shapes"))
    assert "skipped: 250 rows" in text
    assert "row 249: no such user" in text


def test_names_mean_themselves_in_pictures() -> None:
    figures = str(read("hostile").figures)
    assert figures.count("&lt;/script&gt;") > 5
    assert "</script>" not in figures
    assert "<b>&lt;/script&gt;" in figures


def test_a_page_of_a_thousand_users_is_small() -> None:
    packed = {name: len(text) for name, _, text in PACKED.findall(page_of("many"))}
    assert len(page_of("many")) - packed["charts"] < 350_000


def test_a_long_table_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "ROWS_ON_PAGE", 50)
    page = to_page(audit_document(audit_of("many"), "t"))
    assert "and 950 users with smaller shares" in Reader(page).text
    assert len(page) < len(page_of("many"))


def test_who_cannot_be_drawn_is_counted() -> None:
    reader = read("a number missing")
    assert "Without 1 user: a number is missing." in reader.text
    assert "<dt>users that envy</dt><dd>not known</dd>" in page_of("a number missing")
    assert len(reader.figure(SHARES)["data"][-2]["x"]) == 2
    assert len(reader.figure(MARGINS)["data"][0]["x"]) == 2
    assert "a number is missing" not in read("an allocation").text


def test_who_is_shown_of_many() -> None:
    ratio = np.array([0.5, np.nan, 3.0, 1.0, np.inf, 0.1])
    assert least_and_most(ratio, 10) == ([4, 2, 3, 0, 5], 5)
    assert least_and_most(ratio, 4) == ([4, 2, 0, 5], 2)


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("most", [9.0, 9e8])
def test_no_digit_is_cut_on_a_narrow_terminal(width: int, most: float) -> None:
    rng = np.random.default_rng(3)
    capacity, demand = rng.uniform(most / 2, most, (3, 2)), rng.uniform(0.5, 3, (4, 2))
    problem = Problem.from_arrays(capacity, demand, weight=[1, 20.25, 12345, 2])
    found = audit(problem, problem.gamma / 4, fair="drfh", properties=["sharing-incentive"])
    shown = to_terminal(audit_document(found, "t"), width=width, plain=True)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for values in (problem.weight, found.slices, found.subject.holdings.user_tasks):
        for value in values.tolist():
            assert number(value) in shown.split()


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.1234567, "+12.3 %"), (-1 / 15, "−6.67 %"), (-9e-4, "as due"), (1e-3, "+0.1 %"),
     (12.5, "+1,250 %"), (float("inf"), "from nothing"), (1e8, "+1e+10 %")],
)  # fmt: skip
def test_changes_in_words(fraction: float, text: str) -> None:
    assert change(fraction, "as due").replace("\u00a0", " ") == text


def test_an_audit_that_decides_nothing_has_no_tick() -> None:
    problem = Problem.from_arrays([[4.0]], [[1.0], [2.0]])
    for properties, kind in ((["strategy-proofness"], "unknown"), (["feasibility"], "holds")):
        found = audit(problem, "drf", properties=properties, lies=3)
        opening = audit_document(found, "x").verdict
        assert opening is not None
        assert opening.kind == kind
