"""Lies that pay are solved again, and their gain is counted by the definition."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fairlead
from fairlead import Problem, solve
from fairlead.errors import CertificateError, InputError, RefusalError
from fairlead.mechanisms.catalogue import CATALOGUE
from fairlead.properties.audit import audit
from fairlead.properties.lies import Lie, declared_problem, search_lies, usable_tasks
from fairlead.properties.subject import subject_of
from fairlead.properties.witness_files import check_folder, save_audit_witnesses
from oracles.plain_lp import gamma_of
from strategies import admitted_by


def told_by(problem, witness):
    """The problem as the witness says that it was told, written down again."""
    n = problem.users.names.index(witness["user"])
    demand, eligible = problem.demand.copy(), problem.users.eligible.copy()
    demand[n] = [witness["demand"][r] for r in problem.cluster.resources]
    if "servers" in witness:
        eligible[n] = [g in witness["servers"] for g in problem.cluster.groups]
    rates = problem.users.rates
    if "rates" in witness:
        rates = rates.copy()
        rates[n] = [witness["rates"][g] for g in problem.cluster.groups]
    told = replace(problem.users, demand=demand, eligible=eligible, rates=rates)
    return Problem(problem.cluster, told)


def true_tasks(truth, told, n, got, *, whole=False):
    """True tasks within the resources that the declared tasks take, or within the time of rates."""
    could = 0.0
    for g in range(got.shape[1]):
        if gamma_of(truth)[n, g] <= 0 or got[n, g] <= 0:
            continue
        if truth.users.rates is not None and not np.isnan(truth.users.rates[n, g]):
            here = got[n, g] / gamma_of(told)[n, g] * gamma_of(truth)[n, g]
        else:
            here = min(
                got[n, g] * told.demand[n, r] / truth.demand[n, r]
                for r in range(truth.n_resources)
                if truth.demand[n, r] > 0
            )
        could += np.floor(here + 1e-9) if whole else here
    return min(could, truth.task_limit[n])


@pytest.mark.parametrize("mechanism", ["max-tasks", "alpha-fair-tdm", "pdrf", "ps-dsf"])
@settings(max_examples=3)
@given(data=st.data())
def test_lies_that_pay_pay_when_they_are_told_afresh(mechanism, data):
    problem = data.draw(admitted_by(mechanism, largest_users=4, largest_groups=3, kinds=("whole",)))
    try:
        subject = subject_of(problem, mechanism)
    except CertificateError:
        assume(False)
    verdict, lie = search_lies(subject, 20, seed=1)
    json.dumps(verdict.to_dict(), allow_nan=False)
    assert (verdict.verdict == "fails") == (lie is not None) == bool(verdict.witness)
    if lie is None:
        assert verdict.verdict == "unknown"
        return
    witness, n = verdict.witness, problem.users.names.index(verdict.witness["user"])
    told = told_by(problem, witness)
    answer = solve(told, mechanism)
    honest = solve(problem, mechanism).user_tasks[n]
    whole = CATALOGUE[mechanism].whole_tasks
    if answer.problem is told:
        gained = true_tasks(problem, told, n, answer.tasks, whole=whole)
    else:
        gained = true_tasks(problem.pooled(), told.pooled(), n, answer.tasks, whole=whole)
    assert witness["honest"] == honest
    assert witness["gained"] == pytest.approx(gained, rel=1e-6)
    assert gained > honest
    truth = dict(zip(problem.cluster.resources, problem.demand[n].tolist(), strict=True))
    assert witness["truth"] == truth
    others = [m for m in range(problem.n_users) if m != n]
    np.testing.assert_array_equal(told.demand[others], problem.demand[others])


# By hand.


def ask(problem, rule, lies=60, **options):
    """Check one property alone, as these rules do not admit departures."""
    only = ["strategy-proofness"]
    return audit(problem, rule, lies=lies, properties=only, **options)["strategy-proofness"]


SERVER = Problem.from_arrays([[12.0, 12.0]], [[1.0, 1.0], [1.0, 1.5]], users=["ana", "bo"])


def test_a_lie_about_servers():
    """Everything on a server goes to the user that declares this server alone."""
    problem = Problem.from_arrays([[4.0], [6.0]], [[1.0], [1.0]])

    def only_here(asked):
        tasks = np.zeros((2, 2))
        for g in range(2):
            loyal = [n for n in range(2) if asked.users.eligible[n].tolist() == [g == 0, g == 1]]
            takers = loyal or [n for n in range(2) if asked.users.eligible[n, g]]
            for n in takers:
                tasks[n, g] = asked.gamma[n, g] / len(takers)
        return tasks

    verdict = ask(problem, only_here, lies=40)
    assert verdict.witness["honest"] == 5
    assert verdict.witness["servers"] == ["g2"]
    assert verdict.witness["gained"] == pytest.approx(6)
    assert verdict.sentence.endswith("servers: 6 tasks instead of 5")


def test_whole_tasks_that_fit_into_what_a_lie_brings():
    """Asking for 3.9 units of a pool of 12 in pieces of 1.3 brings no task of 2, but one."""
    truth = Problem.from_arrays([[12.0]], [[2.0]])
    told = declared_problem(truth, Lie(0, np.array([1.3]), np.array([True]), None))
    got = np.array([3.0])
    assert usable_tasks(truth, told, 0, got) == pytest.approx(1.95)
    assert usable_tasks(truth, told, 0, got, whole_tasks=True) == 1
    many = Problem.from_arrays([[1e7]], [[1.0]])
    told = declared_problem(many, Lie(0, np.array([0.999999]), np.array([True]), None))
    assert usable_tasks(many, told, 0, np.array([1e5]), whole_tasks=True) == 99999


def test_a_missing_number_does_not_hide_a_lie_that_pays():
    def rule(problem):
        if problem is SERVER:
            return np.full((2, 1), 3.0)
        if problem.demand[1, 0] == 1:
            return np.full((2, 1), np.nan)
        return problem.gamma / 2

    verdict = ask(SERVER, rule, lies=60)
    assert (verdict.verdict, verdict.witness["user"]) == ("fails", "bo")


def refuses(_problem):
    raise RefusalError("mine", "not this")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (refuses, "none answered"),
        (lambda _: 1 / 0, "none answered; 5 failures (ZeroDivisionError"),
        (lambda asked: asked.gamma * 0.5005, "none answered; 5 infeasible answers (g1 has"),
    ],
)
def test_lies_without_an_answer_are_no_gain_but_counted(answer, said):
    def rule(problem):
        return np.full((2, 1), 3.0) if problem is SERVER else answer(problem)

    verdict = ask(SERVER, rule, lies=5)
    assert (verdict.verdict, verdict.witness) == ("unknown", {})
    assert f"5 lies tried, {said}" in verdict.sentence


def test_lies_are_counted_and_follow_the_seed():
    subject = subject_of(SERVER, "max-tasks")
    seen = []
    first, _ = search_lies(subject, 12, 7, on_progress=lambda done, all_: seen.append((done, all_)))
    assert seen == [(k, 12) for k in range(1, 13)]
    again, _ = search_lies(subject, 12, 7)
    assert first == again
    assert search_lies(subject, 0)[0].sentence == "not searched"
    for wrong in ((-1, 0), (1, -1)):
        with pytest.raises(InputError):
            search_lies(subject, *wrong)


def test_lies_from_a_first_lie_are_of_its_user():
    liars = set()

    def rule(problem):
        liars.update(np.flatnonzero((problem.demand != SERVER.demand).any(axis=1)).tolist())
        return solve(problem, "drf").tasks

    truth = Lie(1, SERVER.demand[1], SERVER.users.eligible[1], None)
    verdict, _ = search_lies(subject_of(SERVER, rule), 40, first=truth)
    assert (verdict.verdict, liars) == ("unknown", {1})


def test_given_rates_are_lied_about_and_counted_in_time():
    """Under time sharing, a third of a server is a third, whatever rate was declared."""
    problem = Problem.from_arrays([[1.0]], [[1.0], [1.0]], rates=[[6.0], [2.0]])

    def by_rate(asked):
        time = asked.users.rates[:, 0].min() / asked.users.rates[:, 0]
        return asked.users.rates * (time / time.sum())[:, None]

    honest = by_rate(problem)  # time 1/4 and 3/4
    np.testing.assert_allclose(honest, [[1.5], [1.5]])
    verdict = ask(problem, by_rate, lies=60)
    n = problem.users.names.index(verdict.witness["user"])
    told = told_by(problem, verdict.witness)
    assert verdict.witness["gained"] == pytest.approx(true_tasks(problem, told, n, by_rate(told)))
    assert verdict.witness["gained"] > verdict.witness["honest"]
    assert "about its rates" in verdict.sentence


def first_who_fill_a_server(problem):
    """Ten times as much to users of whose tasks no two fit on a server."""
    fits = problem.cluster.capacity / np.maximum(problem.demand, 1e-12)[:, None]
    weight = np.where(fits.min(axis=2).max(axis=1) < 2, 10.0, 1.0)
    return problem.gamma * (weight / weight.sum())[:, None]


def test_a_lie_far_from_the_truth_is_found_in_a_hundred():
    problem = Problem.from_arrays([[17.68, 4.588], [10.68, 6.729]], [[1.54, 0.8752], [0.6211, 0.0]])
    verdict, lie = search_lies(subject_of(problem, first_who_fill_a_server), 100)
    assert verdict.verdict == "fails"
    told = declared_problem(problem, lie)
    got = first_who_fill_a_server(told)
    assert true_tasks(problem, told, lie.user, got) == pytest.approx(lie.gained)


# Answers that cannot be.


@pytest.mark.parametrize("rates", [None, [[6.0, 2.0], [1.0, 3.0]]])
@pytest.mark.filterwarnings("error")
def test_tasks_where_the_liar_said_it_may_not_run_are_no_gain(rates):
    """A rule that forgets constraints: what it answers to a lie about servers is infeasible."""
    problem = Problem.from_arrays([[4.0], [6.0]], [[1.0], [1.0]], rates=rates)

    def forgetful(asked):
        free = replace(asked.users, eligible=np.ones_like(asked.users.eligible))
        return Problem(asked.cluster, free).gamma / 2 + 0.01 * (~asked.users.eligible).sum()

    verdict = ask(problem, forgetful, lies=40)
    assert (verdict.verdict, verdict.witness) == ("unknown", {})
    assert "infeasible answers (u" in verdict.sentence
    assert "where it may not or cannot run)" in verdict.sentence


# As files.


def test_the_files_of_a_lie_show_it_when_they_are_solved_afresh(tmp_path):
    problem = Problem.from_arrays(
        [[2.0, 12.0], [12.0, 2.0]],
        [[0.2, 1.0], [1.0, 0.2], [1.0, 1.0]],
        weight=[1.0, 2.0, 1.0],
        eligible=[[True, True], [True, True], [True, False]],
        resources=["cpu", "nvidia.com/gpu"],
        units=["cores", ""],
        groups=["a b", "on"],
        users=["ann: x", "'b'", "no"],
    )
    found = audit(problem, "alpha-fair", lies=60, properties=["strategy-proofness"])
    witness = found["strategy-proofness"].witness
    folder = tmp_path / "witness"
    check_folder(folder)
    files = save_audit_witnesses(found, folder)
    assert [path.name for path in files] == ["truth.yaml", "lie.yaml"]
    truth, lie = (fairlead.load(path) for path in files)
    n = truth.users.names.index(witness["user"])
    honest, answer = solve(truth, "alpha-fair"), solve(lie, "alpha-fair")
    assert honest.user_tasks[n] == pytest.approx(witness["honest"], rel=1e-9)
    gained = true_tasks(truth, lie, n, answer.tasks)
    assert gained == pytest.approx(witness["gained"], rel=1e-6)
    assert gained > honest.user_tasks[n]
    # Into a folder that is not empty, into a file, and into a folder that is not there.
    for taken in (folder, files[0], tmp_path / "not" / "there"):
        with pytest.raises(InputError):
            check_folder(taken)
    assert save_audit_witnesses(audit(SERVER, "drf", lies=3), tmp_path / "none") == []
    assert not (tmp_path / "none").exists()
