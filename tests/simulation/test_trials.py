"""Means, deviations and margins of trials are those of the fillings, taken one by one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fairlead.errors import CertificateError, InputError, RefusalError
from fairlead.model.allocation import Certificate
from fairlead.model.problem import Problem
from fairlead.scheduler.policies import Policy, find_policy
from fairlead.simulation import trials as module
from fairlead.simulation.filling import Filling, fill, fill_by
from fairlead.simulation.trials import Trials, TrialSummary, run_trials

KESIDIS = Problem.from_arrays(
    [[100, 30], [30, 100]], [[5, 1], [1, 5]], groups=["s1", "s2"], users=["f1", "f2"]
)
RRR = find_policy("drf", "rrr")


def random_problem(seed: int) -> Problem:
    """Servers of several kinds and decimal amounts: the rest is no whole number."""
    random = np.random.default_rng(seed)
    return Problem.from_arrays(
        random.integers(5, 60, (3, 2)) / 10,
        random.integers(1, 12, (4, 2)) / 10,
        count=random.integers(1, 4, 3),
        weight=random.integers(1, 4, 4),
    )


def one_by_one(problem: Problem, policy: Policy, trials: int, seed: int) -> list[Filling]:
    root = np.random.SeedSequence(seed)
    return [fill_by(problem, policy, s) for s in (root, *root.spawn(trials - 1))]


@pytest.mark.parametrize("seed", range(5))
def test_the_statistics_are_those_of_the_fillings(seed: int) -> None:
    problem = random_problem(seed)
    policy = find_policy("ps-dsf", "rrr")
    answer = run_trials(problem, policy, 5, seed)
    fillings = one_by_one(problem, policy, 5, seed)
    quantities: list[tuple[TrialSummary, Any]] = [
        (answer.tasks, [f.tasks for f in fillings]),
        (answer.user_tasks, [f.user_tasks for f in fillings]),
        (answer.total, [f.tasks.sum() for f in fillings]),
        (answer.unused, [f.unused for f in fillings]),
    ]
    assert any(np.std(values, axis=0).any() for _, values in quantities)
    for summary, values in quantities:
        sd = np.std(values, axis=0, ddof=1)
        assert summary.mean == pytest.approx(np.mean(values, axis=0))
        assert summary.sd == pytest.approx(sd, abs=1e-12)
        # 2.776: the printed quantile of Student's t for four degrees of freedom.
        assert summary.margin == pytest.approx(2.776 * sd / np.sqrt(5), rel=2e-4, abs=1e-12)


def test_the_first_trial_is_what_fill_gives() -> None:
    for seed in (0, 2**70):
        alone = fill(KESIDIS, "drf", "rrr", seed=seed)
        assert run_trials(KESIDIS, RRR, 3, seed).first.order.tolist() == alone.order.tolist()
        assert run_trials(KESIDIS, RRR, 1, seed).tasks.mean.tolist() == alone.tasks.tolist()


def test_a_policy_that_is_not_random_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def counted(*arguments: Any) -> Filling:
        runs.append(arguments)
        assert len(runs) == 1
        return fill_by(*arguments)

    monkeypatch.setattr(module, "fill_by", counted)
    answer = run_trials(KESIDIS, find_policy("drf", "best-fit"), 10**6, 0)
    assert answer.tasks.mean.tolist() == [[19, 2], [2, 19]]
    assert not answer.varies
    for summary in (answer.tasks, answer.user_tasks, answer.total, answer.unused):
        assert np.array_equal(summary.sd, np.zeros_like(summary.mean))
        assert np.array_equal(summary.margin, np.zeros_like(summary.mean))


def test_one_trial_of_a_random_policy_says_nothing_of_others() -> None:
    answer = run_trials(KESIDIS, RRR, 1, 0)
    assert answer.tasks.sd is None
    assert answer.total.margin is None
    values = answer.to_dict()
    assert [user["sd"] for user in values["users"]] == [None, None]
    assert values["total_sd"] is values["unused_margin"] is None


def test_json_has_the_layout_of_an_allocation_and_more() -> None:
    answer = run_trials(KESIDIS, find_policy("ps-dsf", "joint"), 1, 0)
    values = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    assert set(answer.allocation.to_dict()) < set(values)
    assert [user["servers"] for user in values["users"]] == [{"s1": 19}, {"s1": 2, "s2": 20}]
    assert values["mean_total"] == 41
    assert values["unused"] == {"s1": {"r1": 3, "r2": 1}, "s2": {"r1": 10, "r2": 0}}
    assert (values["trials"], values["seed"], values["random"]) == (1, 0, False)


def with_violations(monkeypatch: pytest.MonkeyPatch, *violations: float) -> None:
    """Let the next fillings have these violations, one after the other."""
    left = list(violations)

    def spoiled(*arguments: Any) -> Filling:
        filling = fill_by(*arguments)
        filling.__dict__["certificate"] = Certificate("all is well", left.pop(0), 1e-9)
        return filling

    monkeypatch.setattr(module, "fill_by", spoiled)


def test_the_largest_violation_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with_violations(monkeypatch, 1e-12, 3e-10, 2e-10)
    answer: Trials = run_trials(KESIDIS, RRR, 3, 0)
    assert answer.certificate.violation == 3e-10
    assert answer.certificate.condition == "in every trial all is well"


@pytest.mark.parametrize("violation", [1e-3, float("nan")])
def test_a_trial_without_proof_is_no_answer(
    violation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_violations(monkeypatch, 0.0, violation, 0.0)
    with pytest.raises(CertificateError, match=r"drf/rrr: trial 2 misses its condition"):
        run_trials(KESIDIS, RRR, 3, 0)


def test_every_trial_is_reported_and_the_tasks_of_a_single_one() -> None:
    reports: list[tuple[int, int]] = []
    run_trials(KESIDIS, RRR, 4, 0, lambda done, total: reports.append((done, total)))
    run_trials(
        KESIDIS, find_policy("drf", "first-fit"), 4, 0, lambda *report: reports.append(report)
    )
    assert reports[:4] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    # Of one filling its tasks are: twenty of the 43 that would fit on one pool.
    assert reports[4:] == [(20, 43)]


def test_unusable_numbers_and_problems_are_refused() -> None:
    for trials, seed, place in ((0, 0, "trials"), (10**6 + 1, 0, "trials"), (1, -1, "seed")):
        with pytest.raises(InputError, match=f"^{place}: "):
            run_trials(KESIDIS, RRR, trials, seed)
    rated = Problem.from_arrays([[1]], [[1]], rates=[[2]])
    with pytest.raises(RefusalError, match="rates"):
        run_trials(rated, RRR, 2)
