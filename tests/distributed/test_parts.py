"""Clocks, messages and phases of a run of self-dividing servers."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import Problem
from fairlead.errors import InputError
from fairlead.model.reductions import split_groups
from fairlead_papers.distributed.network_setting import (
    Clocks,
    Delay,
    JoinOrLeave,
    Messages,
    phases_between,
)

THREE = Problem.from_arrays([[1.0]], [[1.0]] * 3, users=["ana", "bo", "cy"])


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


@pytest.mark.parametrize(
    "options",
    [{"period": 0.0}, {"period": float("nan")}, {"jitter": -0.1}, {"jitter": 1.0}, {"start": "x"}],
)
def test_invalid_clocks_are_refused(options: dict[str, float]) -> None:
    (name,) = options
    with pytest.raises(InputError, match=f"{name}: must be"):
        Clocks(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "times", [(-1.0, 1.0), (2.0, 1.0), (0.0, float("inf")), (float("nan"),) * 2]
)
def test_invalid_delays_are_refused(times: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="delay: must be"):
        Delay(*times)


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
        ([JoinOrLeave(1, 3, True)], "there is no user 3"),
        ([JoinOrLeave(-1, 0, True)], "'ana' cannot join at -1 s"),
        ([JoinOrLeave(9, 0, False)], "'ana' cannot leave at 9 s: the time is 0 s to 9 s"),
        ([JoinOrLeave(float("nan"), 0, False)], "'ana' cannot leave at nan s"),
        (
            [JoinOrLeave(1, 1, False), JoinOrLeave(2, 1, False)],
            "'bo' cannot leave at 2 s: it is absent",
        ),
        (
            [JoinOrLeave(1, 1, True), JoinOrLeave(2, 1, True)],
            "'bo' cannot join at 2 s: it is already present",
        ),
        ([JoinOrLeave(1, 2, True), JoinOrLeave(1, 2, False)], "'cy' both comes and goes at 1 s"),
    ],
)
def test_invalid_changes_are_refused(changes: list[JoinOrLeave], said: str) -> None:
    with pytest.raises(InputError, match=f"changes: {said}"):
        phases_between(THREE, changes, 9.0)


def test_groups_are_split_into_servers() -> None:
    problem = Problem.from_arrays(
        [[4.0, 1.0], [1.0, 4.0]],
        [[1.0, 0.0], [0.0, 1.0]],
        count=[2, 1],
        eligible=[[1, 0], [1, 1]],
        rates=[[3.0, 0.0], [np.nan, np.nan]],
        groups=["big", "old"],
    )
    split, group_of = split_groups(problem)
    assert split.cluster.groups == ("big-0", "big-1", "old")
    assert group_of.tolist() == [0, 0, 1]
    assert split.total_capacity.tolist() == problem.total_capacity.tolist()
    summed = np.add.reduceat(split.gamma, [0, 2], axis=1)
    assert summed.tolist() == problem.gamma.tolist()
