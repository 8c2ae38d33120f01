"""Self-dividing servers: their division is always feasible, and PS-DSF in the end.

Clocks, messages and phases of a run have tests of their own, below.
"""

from __future__ import annotations

from itertools import islice

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
    Messages,
    phases_between,
)
from fairlead_papers.distributed.simulated_run import run_asynchronously
from random_problems import random_problem
from strategies import problems

SOME = st.sampled_from([0.0, 0.05, 0.3, 1.0, 4.0])
NAN, INF = float("nan"), float("inf")
THREE = Problem.from_arrays([[1.0]], [[1.0]] * 3, users=["ana", "bo", "cy"])
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


@pytest.mark.parametrize("time_shared", [False, True])
@pytest.mark.parametrize("delay", [Delay(), Delay(0.25, 0.25), Delay(0.0, 0.5)])
def test_small_clusters_end_certified(delay: Delay, time_shared: bool) -> None:
    setting = AsynchronousSetting(
        random(0, users=4, groups=2),
        300.0,
        time_shared=time_shared,
        clocks=Clocks(jitter=0.2),
        delay=delay,
    )
    run = run_asynchronously(setting, sample=300.0)
    certify = certify_time_sharing if time_shared else certify_bottleneck
    assert run.certificate.holds
    assert certify(setting.problem, run.tasks).violation <= 1e-6
    if time_shared:  # totals are unique
        exact = solve(setting.problem, "ps-dsf-tdm")
        assert run.user_tasks[-1] == pytest.approx(exact.user_tasks, rel=1e-5)
        assert run.dominant_share[-1] == pytest.approx(exact.dominant_share, rel=1e-5)


def roamer(servers: int) -> Problem:
    """Return a user that may run on all servers, and for each server one that may run only there.

    A server gives the roamer ``(1 - its tasks elsewhere) / 2``. If all servers react at once to the
    same messages, a common error is multiplied by ``-(servers - 1) / 2``.
    """
    eligible = np.vstack([np.ones(servers, dtype=bool), np.eye(servers, dtype=bool)])
    return Problem.from_arrays([[1.0]] * servers, [[1.0]] * (servers + 1), eligible=eligible)


@pytest.mark.parametrize(
    ("servers", "damping", "settles"),
    [(2, 0.0, True), (4, 0.15, False), (4, 0.5, True)],
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


def test_the_same_seed_gives_the_same_run_to_the_last_bit() -> None:
    def run(seed: int) -> bytes:
        setting = AsynchronousSetting(
            random(3), 30.0, clocks=Clocks(jitter=0.3), delay=Delay(0.1, 2.5), seed=seed
        )
        return run_asynchronously(setting, sample=0.25).user_tasks.tobytes()

    assert run(1) == run(1) != run(2)


def test_the_violation_is_that_of_the_present_users() -> None:
    """From 15 s on no user is left, and there is none."""
    problem = random(4, users=3)
    changes = [JoinOrLeave(10.0 if n == 2 else 15.0, n, joins=False) for n in range(3)]
    run = run_asynchronously(
        AsynchronousSetting(problem, 20.0, tuple(changes)), sample=0.5, keep_tasks=True
    )
    assert run.tasks_over_time is not None
    for time, tasks, violation in zip(run.times, run.tasks_over_time, run.violation, strict=True):
        present = [n for n in range(3) if time < (10 if n == 2 else 15)]
        if present:
            seen = certify_bottleneck(restrict(problem, users=present), tasks[present])
            assert violation == seen.violation
        else:
            assert (violation, tasks.sum()) == (0, 0)


def test_samples_are_even_and_end_at_the_end() -> None:
    run = run_asynchronously(AsynchronousSetting(THREE, 2.0), sample=0.75)
    assert run.times.tolist() == [0.0, 0.75, 1.5, 2.0]
    assert run.user_tasks[-1] == pytest.approx(run.tasks.sum(axis=1))
    assert run.violation[-1] == run.certificate.violation


def test_all_servers_know_the_tasks_at_the_start() -> None:
    problem = random(6)
    exact = solve(problem, "ps-dsf")
    for apart in (False, True):
        setting = AsynchronousSetting(problem, 5.0, delay=Delay(1.0, 3.0), apart=apart)
        run = run_asynchronously(setting, start=exact.tasks, sample=0.1)
        assert run.violation.max() <= 1e-6


def test_servers_of_a_group_agree_if_each_decides_by_itself() -> None:
    problem = Problem.from_arrays(
        [[4.0, 1.0], [1.0, 4.0]],
        [[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]],
        count=[3, 1],
        groups=["big", "old"],
    )
    run = run_asynchronously(AsynchronousSetting(problem, 60.0, apart=True, time_shared=True))
    servers = run.setting.servers_as_groups[0]
    assert servers.cluster.groups == ("big-0", "big-1", "big-2", "old")
    assert servers.total_capacity.tolist() == problem.total_capacity.tolist()
    assert run.runs == 4 * 60
    assert run.tasks.shape == (3, 2)
    exact = solve(problem, "ps-dsf-tdm").user_tasks
    assert run.user_tasks[-1] == pytest.approx(exact, rel=1e-5)


INVALID: list[tuple[type, str, tuple[float | str, ...]]] = [
    (Clocks, "period", (0.0, NAN)),
    (Clocks, "jitter", (-0.1, 1.0)),
    (Clocks, "start", ("x",)),
    (AsynchronousSetting, "until", (0.0, INF)),
    (AsynchronousSetting, "damping", (1.0, NAN)),
    (AsynchronousSetting, "seed", (-1,)),
]


def test_invalid_settings_are_refused() -> None:
    for made, name, values in INVALID:
        given = {} if made is Clocks else {"problem": THREE, "until": 9.0}
        for value in values:
            with pytest.raises(InputError, match=f"^{name}: "):
                made(**given | {name: value})
    for times in ((-1.0, 1.0), (2.0, 1.0), (0.0, INF), (NAN, NAN)):
        with pytest.raises(InputError, match=r"^delay: "):
            Delay(*times)
    for sample in (0.0, -1.0, NAN, 1e-12):
        with pytest.raises(InputError, match=r"^sample: "):
            run_asynchronously(AsynchronousSetting(THREE, 9.0), sample=sample)


def test_too_many_servers_are_refused() -> None:
    problem = Problem.from_arrays([[1.0]], [[1.0]], count=[2001])
    assert AsynchronousSetting(problem, 9.0).servers == 1
    with pytest.raises(InputError, match="apart: 2,001 servers are too many"):
        AsynchronousSetting(problem, 9.0, apart=True)


def test_problems_that_ps_dsf_does_not_admit_are_refused() -> None:
    weighted = Problem.from_arrays([[1.0, 1.0]], [[1.0, 1.0]], weight=[[1.0, 2.0]])
    with pytest.raises(RefusalError, match="weights per resource"):
        AsynchronousSetting(weighted, 9.0)
    rated = Problem.from_arrays([[1.0, 1.0]], [[1.0, 1.0]], rates=[[1.0]])
    with pytest.raises(RefusalError, match="ps-dsf-tdm"):
        run_asynchronously(AsynchronousSetting(rated, 9.0))
    assert run_asynchronously(AsynchronousSetting(rated, 9.0, time_shared=True)).certificate.holds


# Clocks, messages and phases


def due(clocks: Clocks, servers: int, runs: int) -> list[tuple[float, int]]:
    return list(islice(clocks.runs(servers, np.random.default_rng(0)), runs))


def test_clocks_in_turn_and_together() -> None:
    in_turn = due(Clocks(period=2.0, start="in-turn"), 4, 6)
    assert in_turn == [(0.0, 0), (0.5, 1), (1.0, 2), (1.5, 3), (2.0, 0), (2.5, 1)]
    assert due(Clocks(start="together"), 2, 4) == [(0.0, 0), (0.0, 1), (1.0, 0), (1.0, 1)]


@pytest.mark.parametrize("jitter", [0.0, 0.4])
def test_every_server_runs_about_once_a_period(jitter: float) -> None:
    runs = due(Clocks(period=0.5, jitter=jitter), 5, 1000)
    times = [time for time, _ in runs]
    assert times == sorted(times)
    for server in range(5):
        mine = np.array([time for time, runner in runs if runner == server])
        assert 0 <= mine[0] < 0.5
        gaps = np.diff(mine)
        assert gaps.min() >= 0.5 * (1 - jitter) - 1e-9
        assert gaps.max() <= 0.5 * (1 + jitter) + 1e-9
        assert gaps.mean() == pytest.approx(0.5, rel=0.05)
        assert (gaps.std() > 0.05) == bool(jitter)


@settings(deadline=None, max_examples=30)
@given(
    delay=st.tuples(st.floats(0, 5), st.floats(0, 5)).map(sorted),
    gaps=st.lists(st.floats(0.5, 2.0), min_size=1, max_size=40),
    seed=st.integers(0, 9),
)
def test_the_newest_message_that_arrived_counts(
    delay: list[float], gaps: list[float], seed: int
) -> None:
    """Compare with a list of all messages ever sent."""
    messages = Messages(np.zeros((1, 3)), Delay(*delay), 0.5, np.random.default_rng(seed))
    twin = np.random.default_rng(seed)
    sent: list[list[tuple[np.ndarray, float]]] = [[], [], []]
    time = 0.0
    for k, gap in enumerate(gaps):
        for server in range(3):
            taken = twin.uniform(*delay, 3) if delay[1] > delay[0] else np.full(3, delay[0])
            messages.send(server, time, np.array([k + 1.0]))
            sent[server].append((time + taken, k + 1.0))
        for look in (time, time + 0.4 * gap):
            for receiver in range(3):
                expected = sum(
                    next((v for at, v in reversed(sent[s]) if at[receiver] <= look + 1e-9), 0.0)
                    for s in range(3)
                    if s != receiver
                )
                assert messages.known_elsewhere(receiver, look).tolist() == [expected]
        time += gap


def test_more_messages_than_memory_are_refused() -> None:
    with pytest.raises(InputError, match="delay: 1,000,002 messages of each of 3 servers"):
        Messages(np.zeros((99, 3)), Delay(1e6, 1e6), 1.0, np.random.default_rng(0))


def test_phases_follow_arrivals_and_departures() -> None:
    changes = [JoinOrLeave(5.0, 0, False), JoinOrLeave(2.0, 1, True), JoinOrLeave(5.0, 2, False)]
    phases = phases_between(THREE, changes, 9.0)
    assert [(p.start, p.end, p.users) for p in phases] == [
        (0.0, 2.0, (0, 2)),
        (2.0, 5.0, (0, 1, 2)),
        (5.0, 9.0, (1,)),
    ]
    assert [len(p.changes) for p in phases] == [0, 1, 2]
    (phase,) = phases_between(THREE, [JoinOrLeave(0.0, 1, False)], 9.0)
    assert (phase.start, phase.end, phase.users) == (0.0, 9.0, (0, 2))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([(1, 3, True)], "there is no user 3"),
        ([(-1, 0, True)], "'ana' cannot join at -1 s"),
        ([(9, 0, False)], "'ana' cannot leave at 9 s"),
        ([(NAN, 0, False)], "'ana' cannot leave at nan s"),
        ([(1, 1, False), (2, 1, False)], "'bo' cannot leave at 2 s: it is absent"),
        ([(1, 1, True), (2, 1, True)], "'bo' cannot join at 2 s: it is already present"),
        ([(1, 2, True), (1, 2, False)], "'cy' both comes and goes"),
    ],
)
def test_invalid_changes_are_refused(changes: list[tuple[float, int, bool]], said: str) -> None:
    with pytest.raises(InputError, match=f"changes: {said}"):
        phases_between(THREE, [JoinOrLeave(*change) for change in changes], 9.0)
