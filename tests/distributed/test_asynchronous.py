"""Self-dividing servers: their division is always feasible, and PS-DSF in the end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import Problem, solve
from fairlead.certificates.bottleneck_theorems import certify_bottleneck, certify_time_sharing
from fairlead.certificates.overuse import measure_resource_overuse, measure_time_overuse
from fairlead.errors import InputError, RefusalError
from fairlead.mechanisms.catalogue import CONSTRAINTS, LIMITS
from fairlead.mechanisms.psdsf import prepare_sweeps
from fairlead.model.reductions import restrict
from fairlead_papers.distributed.network_setting import (
    AsynchronousSetting,
    Clocks,
    Delay,
    JoinOrLeave,
)
from fairlead_papers.distributed.simulated_run import AsynchronousRun, run_asynchronously
from random_problems import random_problem
from strategies import problems

PERIODS = 300
SOME = st.sampled_from([0.0, 0.05, 0.3, 1.0, 4.0])
small = {"largest_users": 5, "largest_groups": 4, "largest_resources": 3}


def random(seed: int, users: int = 6, groups: int = 3, resources: int = 2) -> Problem:
    return random_problem(np.random.default_rng(seed), users, groups, resources, weighted=True)


@settings(max_examples=10)
@given(problem=problems((CONSTRAINTS, LIMITS), **small), time_shared=st.booleans())
def test_servers_in_turn_without_delay_run_sweeps(problem: Problem, time_shared: bool) -> None:
    rounds = 20
    setting = AsynchronousSetting(
        problem, float(rounds), time_shared=time_shared, clocks=Clocks(start="in-turn")
    )
    run = run_asynchronously(setting, sample=rounds - 0.5 / problem.n_groups, keep_tasks=True)
    sweeps = prepare_sweeps(problem, setting.mechanism)
    sweeps.run(np.zeros((problem.n_users, problem.n_groups)), 1, enough=-1.0)  # twenty sweeps
    assert run.tasks_over_time is not None
    scale = problem.gamma.max()
    assert run.tasks_over_time[1] == pytest.approx(sweeps.last, rel=1e-9, abs=1e-9 * scale)


@settings(max_examples=10)
@given(
    problem=problems((CONSTRAINTS, LIMITS), **small),
    time_shared=st.booleans(),
    seed=st.integers(0, 99),
)
def test_without_delay_servers_converge_as_sweeps_do(
    problem: Problem, time_shared: bool, seed: int
) -> None:
    setting = AsynchronousSetting(problem, float(PERIODS), time_shared=time_shared, seed=seed)
    run = run_asynchronously(setting, sample=float(PERIODS))
    sweeps = prepare_sweeps(problem, setting.mechanism)
    start = np.zeros((problem.n_users, problem.n_groups))
    sweeps.run(start, PERIODS * sweeps.user.size, enough=-1.0)
    certify = certify_time_sharing if time_shared else certify_bottleneck
    reached = certify(problem, sweeps.last).violation
    # In another order of servers some problems take longer.
    assert run.certificate.violation <= max(1e-6, 30 * reached)


@pytest.mark.parametrize("time_shared", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_random_problems_end_certified(seed: int, time_shared: bool) -> None:
    problem = random(seed)
    setting = AsynchronousSetting(problem, float(PERIODS), time_shared=time_shared, seed=seed)
    run = run_asynchronously(setting, sample=float(PERIODS))
    certify = certify_time_sharing if time_shared else certify_bottleneck
    assert certify(problem, run.tasks).violation <= 1e-6
    assert run.certificate.holds
    if time_shared:  # totals are unique
        exact = solve(problem, "ps-dsf-tdm").user_tasks
        assert run.user_tasks[-1] == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("time_shared", [False, True])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("delay", [Delay(0.25, 0.25), Delay(0.0, 0.5)])
def test_with_short_delays_small_clusters_end_certified(
    seed: int, delay: Delay, time_shared: bool
) -> None:
    setting = AsynchronousSetting(
        random(seed, users=4, groups=2),
        float(PERIODS),
        time_shared=time_shared,
        clocks=Clocks(jitter=0.2),
        delay=delay,
        seed=seed,
    )
    assert run_asynchronously(setting, sample=float(PERIODS)).certificate.holds


def two_alike() -> Problem:
    return Problem.from_arrays([[1.0], [1.0]], [[1.0], [1.0]])


def roamer(servers: int) -> Problem:
    """Return a user that may run on all servers, and for each server one that may run only there.

    A server gives the roamer ``(1 - its tasks elsewhere) / 2``. If all servers react at once to the
    same messages, a common error is multiplied by ``-(servers - 1) / 2``.
    """
    eligible = np.vstack([np.ones(servers, dtype=bool), np.eye(servers, dtype=bool)])
    return Problem.from_arrays([[1.0]] * servers, [[1.0]] * (servers + 1), eligible=eligible)


@pytest.mark.parametrize(
    ("servers", "damping", "settles"),
    [(2, 0.0, True), (4, 0.0, False), (4, 0.15, False), (4, 0.5, True), (9, 0.5, False)],
)
def test_servers_that_react_together_overreact_by_their_number(
    servers: int, damping: float, settles: bool
) -> None:
    """If ``damping - (1 - damping) (servers - 1) / 2`` is below -1, servers never settle."""
    setting = AsynchronousSetting(
        roamer(servers),
        100.0,
        clocks=Clocks(start="together"),
        delay=Delay(0.5, 0.5),
        damping=damping,
    )
    run = run_asynchronously(setting)
    assert setting.crowd == servers / 2
    assert run.certificate.holds == settles
    if settles:
        assert run.tasks[0] == pytest.approx(np.full(servers, 1 / (1 + servers)), rel=1e-4)
    else:
        assert run.violation[-20:].min() > 0.1


@pytest.mark.parametrize("servers", [4, 9, 16])
def test_without_delay_any_number_of_servers_settles(servers: int) -> None:
    run = run_asynchronously(AsynchronousSetting(roamer(servers), 300.0), sample=300.0)
    assert run.certificate.holds


@settings(max_examples=10)
@given(
    problem=problems((CONSTRAINTS, LIMITS), **small),
    time_shared=st.booleans(),
    delay=st.tuples(SOME, SOME).map(sorted),
    jitter=st.sampled_from([0.0, 0.3, 0.9]),
    start=st.sampled_from(["random", "together", "in-turn"]),
    damping=st.sampled_from([0.0, 0.5, 0.9]),
    apart=st.booleans(),
    seed=st.integers(0, 99),
)
def test_every_division_is_feasible_at_all_times(
    problem: Problem,
    time_shared: bool,
    delay: list[float],
    jitter: float,
    start: str,
    damping: float,
    apart: bool,
    seed: int,
) -> None:
    changes = [JoinOrLeave(3.3, 0, joins=False), JoinOrLeave(7.7, 0, joins=True)]
    setting = AsynchronousSetting(
        problem,
        12.0,
        tuple(changes),
        time_shared=time_shared,
        clocks=Clocks(jitter=jitter, start=start),  # type: ignore[arg-type]
        delay=Delay(*delay),
        damping=damping,
        apart=apart,
        seed=seed,
    )
    run = run_asynchronously(setting, sample=0.37, keep_tasks=True)
    assert run.overuse <= 1e-9
    assert run.tasks_over_time is not None
    measure = measure_time_overuse if time_shared else measure_resource_overuse
    for time, tasks in zip(run.times, run.tasks_over_time, strict=True):
        assert measure(problem, tasks) <= 1e-9
        assert (tasks >= 0).all()
        assert (tasks[~problem.runnable] == 0).all()
        if 3.3 <= time < 7.7:
            assert (tasks[0] == 0).all()


def same(one: AsynchronousRun, other: AsynchronousRun) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("times", "user_tasks", "utilisation", "violation", "tasks")
    )


def test_the_same_seed_gives_the_same_run_to_the_last_bit() -> None:
    def run(seed: int) -> AsynchronousRun:
        setting = AsynchronousSetting(
            random(3), 30.0, clocks=Clocks(jitter=0.3), delay=Delay(0.1, 2.5), seed=seed
        )
        return run_asynchronously(setting, sample=0.25)

    assert same(run(1), run(1))
    assert not same(run(1), run(2))


def test_the_violation_is_that_of_the_present_users() -> None:
    problem = random(4)
    setting = AsynchronousSetting(problem, 20.0, (JoinOrLeave(10.0, 2, joins=False),))
    run = run_asynchronously(setting, sample=0.5, keep_tasks=True)
    assert run.tasks_over_time is not None
    rest = [n for n in range(problem.n_users) if n != 2]
    for time, tasks, violation in zip(run.times, run.tasks_over_time, run.violation, strict=True):
        present = rest if time >= 10 else list(range(problem.n_users))
        seen = certify_bottleneck(restrict(problem, users=present), tasks[present])
        assert violation == seen.violation


def test_without_users_there_is_no_violation() -> None:
    setting = AsynchronousSetting(
        two_alike(), 9.0, (JoinOrLeave(3.0, 0, False), JoinOrLeave(3.0, 1, False))
    )
    run = run_asynchronously(setting)
    assert (run.user_tasks[run.times >= 3] == 0).all()
    assert (run.violation[run.times >= 3] == 0).all()
    assert run.certificate.holds


def test_a_user_that_joins_late_is_absent_before() -> None:
    run = run_asynchronously(
        AsynchronousSetting(two_alike(), 9.0, (JoinOrLeave(4.0, 1, joins=True),))
    )
    assert (run.user_tasks[run.times <= 4, 1] == 0).all()
    assert run.user_tasks[-1] == pytest.approx([1, 1])


def test_samples_are_even_and_end_at_the_end() -> None:
    run = run_asynchronously(AsynchronousSetting(two_alike(), 2.0), sample=0.75)
    assert run.times.tolist() == [0.0, 0.75, 1.5, 2.0]
    assert run.user_tasks[-1] == pytest.approx(run.tasks.sum(axis=1))
    assert run.violation[-1] == run.certificate.violation


def test_dominant_shares_are_those_of_an_allocation() -> None:
    problem = random(5)
    run = run_asynchronously(AsynchronousSetting(problem, 100.0, time_shared=True))
    assert run.dominant_share[-1] == pytest.approx(
        solve(problem, "ps-dsf-tdm").dominant_share, rel=1e-5
    )


def test_all_servers_know_the_tasks_at_the_start() -> None:
    problem = random(6)
    exact = solve(problem, "ps-dsf")
    for apart in (False, True):
        setting = AsynchronousSetting(problem, 5.0, delay=Delay(1.0, 3.0), apart=apart)
        run = run_asynchronously(setting, start=exact.tasks, sample=0.1)
        assert run.violation.max() <= 1e-6


def test_servers_of_a_group_agree_if_each_decides_by_itself() -> None:
    problem = Problem.from_arrays(
        [[4.0, 1.0], [1.0, 4.0]], [[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]], count=[3, 2]
    )
    run = run_asynchronously(AsynchronousSetting(problem, 60.0, apart=True, time_shared=True))
    assert run.setting.servers == 5
    assert run.runs == 5 * 60
    assert run.tasks.shape == (3, 2)
    exact = solve(problem, "ps-dsf-tdm").user_tasks
    assert run.user_tasks[-1] == pytest.approx(exact, rel=1e-5)


def test_progress_is_reported() -> None:
    reports: list[tuple[int, int]] = []
    run_asynchronously(
        AsynchronousSetting(two_alike(), 3.0), on_progress=lambda k, n: reports.append((k, n))
    )
    assert reports == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"until": 0.0}, "until: must be a positive number"),
        ({"until": float("inf")}, "until: must be a positive number"),
        ({"damping": 1.0}, "damping: must be from 0 to below 1"),
        ({"damping": float("nan")}, "damping: must be from 0"),
        ({"seed": -1}, "seed: must be a whole number"),
    ],
)
def test_invalid_settings_are_refused(options: dict[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        AsynchronousSetting(**({"problem": two_alike(), "until": 9.0} | options))  # type: ignore[arg-type]


def test_too_many_servers_are_refused() -> None:
    problem = Problem.from_arrays([[1.0]], [[1.0]], count=[2001])
    assert AsynchronousSetting(problem, 9.0).servers == 1
    with pytest.raises(InputError, match="apart: 2,001 servers are too many"):
        AsynchronousSetting(problem, 9.0, apart=True)


@pytest.mark.parametrize("sample", [0.0, -1.0, float("nan"), 1e-12])
def test_invalid_sample_intervals_are_refused(sample: float) -> None:
    with pytest.raises(InputError, match="sample: "):
        run_asynchronously(AsynchronousSetting(two_alike(), 9.0), sample=sample)


def test_problems_that_ps_dsf_does_not_admit_are_refused() -> None:
    weighted = Problem.from_arrays([[1.0, 1.0]], [[1.0, 1.0]], weight=[[1.0, 2.0]])
    with pytest.raises(RefusalError, match="weights per resource"):
        AsynchronousSetting(weighted, 9.0)
    rated = Problem.from_arrays([[1.0, 1.0]], [[1.0, 1.0]], rates=[[1.0]])
    with pytest.raises(RefusalError, match="ps-dsf-tdm"):
        run_asynchronously(AsynchronousSetting(rated, 9.0))
    assert run_asynchronously(AsynchronousSetting(rated, 9.0, time_shared=True)).certificate.holds
