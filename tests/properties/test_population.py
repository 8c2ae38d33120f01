"""Population monotonicity: for each departure the rest of the problem is solved again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fairlead import Problem, solve
from fairlead.errors import CertificateError, InputError
from fairlead.mechanisms.catalogue import CONSTRAINTS, LIMITS, RATES
from fairlead.properties.audit import audit
from fairlead.properties.population import check_population_monotonicity
from fairlead.properties.subject import subject_of
from strategies import problems

FEATURES = {
    "drf-tasks": (LIMITS,),
    "ps-dsf-tdm": (CONSTRAINTS, LIMITS, RATES),
    "max-tasks": (CONSTRAINTS, LIMITS),
}


def without(problem, leaver):
    """The same problem, written down again without one of its users."""
    stays = [n for n in range(problem.n_users) if n != leaver]
    rates = problem.users.rates
    return Problem.from_arrays(
        problem.cluster.capacity,
        problem.demand[stays],
        count=problem.count,
        weight=problem.weight[stays],
        eligible=problem.users.eligible[stays],
        task_limit=problem.task_limit[stays],
        rates=None if rates is None else rates[stays],
        users=[problem.users.names[n] for n in stays],
    )


@pytest.mark.parametrize("mechanism", FEATURES)
@settings(max_examples=7)
@given(data=st.data())
def test_verdicts_follow_the_definition(mechanism, data):
    problem = data.draw(problems(features=FEATURES[mechanism], largest_users=4, largest_groups=3))
    assume(problem.n_users > 1)
    try:
        subject = subject_of(problem, mechanism)
        after = {n: solve(without(problem, n), mechanism) for n in range(problem.n_users)}
    except CertificateError:
        assume(False)
    verdict = check_population_monotonicity(subject)
    json.dumps(verdict.to_dict(), allow_nan=False)
    before = solve(problem, mechanism).user_tasks
    loss = {}
    for leaver, answer in after.items():
        for name, tasks in zip(answer.problem.users.names, answer.user_tasks, strict=True):
            n = problem.users.names.index(name)
            alone = min(subject.problem.gamma[n].sum(), problem.task_limit[n])
            lost = (before[n] - tasks) / max(before[n], 1e-3 * alone)
            loss[problem.users.names[leaver], name] = lost
    if max(loss.values()) > 2e-5:
        assert verdict.verdict == "fails"
    if max(loss.values()) < 1e-6:
        assert verdict.verdict == "holds"
        assert verdict.searched == problem.n_users
    if verdict.verdict == "fails":
        witness = verdict.witness
        leaver = problem.users.names.index(witness["leaves"])
        n = problem.users.names.index(witness["loses"])
        answer = after[leaver]
        tasks = answer.user_tasks[answer.problem.users.names.index(witness["loses"])]
        assert witness["before"] == before[n]
        assert witness["after"] == pytest.approx(tasks)
        assert tasks < before[n]
        assert loss[witness["leaves"], witness["loses"]] == pytest.approx(max(loss.values()))
        assert verdict.severity == pytest.approx(1 - tasks / before[n])


# By hand.


def one_server(n_users):
    return Problem.from_arrays([[12.0]], np.ones((n_users, 1)))


def crowds_first(problem):
    """Each gets a third of the server of three users, and a quarter of it of fewer."""
    part = 1 / 3 if problem.n_users >= 3 else 1 / 4
    return np.full((problem.n_users, 1), 12.0 * part)


def test_who_loses_by_a_departure_is_named():
    verdict = audit(one_server(3), crowds_first, lies=0)["population-monotonicity"]
    assert verdict.witness == {"leaves": "u1", "loses": "u2", "before": 4.0, "after": 3.0}
    assert (verdict.severity, verdict.searched) == (pytest.approx(0.25), 3)


def test_a_whole_task_is_lost_however_many_are_left():
    problem = Problem.from_arrays([[1e7]], [[1.0], [1.0], [1.0]])

    def rule(asked):
        from fairlead.model.holdings import Holdings

        tasks = np.full((asked.n_users, 1), 3e6 + (asked.n_users == 3))
        return Holdings(asked, tasks, whole_tasks=True)

    verdict = audit(problem, rule, lies=0)["population-monotonicity"]
    assert (verdict.witness["before"], verdict.witness["after"]) == (3000001, 3000000)
    assert verdict.sentence.endswith("would run 3,000,000 tasks instead of 3,000,001")


def test_crumbs_may_come_and_go():
    """Next to nothing of a user's tasks alone is rounding, and may be lost."""

    def rule(problem):
        crumb = 1e-12 if problem.n_users == 3 else 0.0
        return np.array([[crumb if name == "u3" else 3.0] for name in problem.users.names])

    assert audit(one_server(3), rule, lies=0)["population-monotonicity"].verdict == "holds"


def missing(problem):
    return np.full((problem.n_users, 1), 4.0 if problem.n_users == 3 else np.nan)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (missing, "a number of tasks is not finite"),
        (lambda _: np.full((3, 1), 4.0), "of shape (3, 1), where the problem asks for (2, 1)"),
    ],
)
def test_no_answer_is_no_answer(rule, why):
    verdict = audit(one_server(3), rule, lies=0)["population-monotonicity"]
    assert (verdict.verdict, verdict.searched) == ("unknown", 0)
    assert why in verdict.sentence


def test_departures_without_an_answer_are_named():
    def infeasible_without_the_first(problem):
        begins = problem.users.names[0] == "u1"
        return np.full((problem.n_users, 1), 12.0 / problem.n_users if begins else 99.0)

    verdict = audit(one_server(3), infeasible_without_the_first, lies=0)["population-monotonicity"]
    assert (verdict.verdict, verdict.searched) == ("unknown", 2)
    assert "any of 2 users leaves; 1 departure without an answer (without u1: " in verdict.sentence


def test_some_departures_of_many_decide_nothing():
    subject = subject_of(one_server(6), "drf")
    verdict = check_population_monotonicity(subject, departures=4, seed=3)
    assert (verdict.verdict, verdict.searched) == ("unknown", 4)
    assert check_population_monotonicity(subject, departures=6).verdict == "holds"
    assert check_population_monotonicity(subject, departures=0).sentence == "not searched"
    for wrong in ({"departures": -1}, {"seed": -1}):
        with pytest.raises(InputError):
            check_population_monotonicity(subject, **wrong)


def test_who_is_alone_leaves_nobody_behind():
    verdict = check_population_monotonicity(subject_of(one_server(1), "drf"))
    assert (verdict.verdict, verdict.applies) == ("holds", False)
