"""Verdicts and claims on DRFH's tables and figures, also on made-up numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.comparison import reduction_by_size
from fairlead.simulation.metrics.task_outcomes import JobTimes
from fairlead.traces.google_park import TABLE_I
from fairlead_papers.drfh._drfh_examples import (
    DRFH,
    PER_SERVER_TASKS,
    PROVED,
    TOGETHER_TASKS,
    judge_division,
    judge_draw,
    judge_properties,
)
from fairlead_papers.drfh._replayed_day import (
    PRINTED,
    all_can_end,
    all_done_only_here,
    asks_for_less,
    judge_ratios,
    judge_sharing,
    judge_slots,
    judge_times,
    judge_uses,
)
from fairlead_papers.entries import CATALOGUE, find_entries, reproduce
from fairlead_papers.reproduction import EQUAL, SHAPE, PrintedClaim
from fairlead_papers.setting import Setting
from fairlead_papers.surveys.survey import Count

PAPERS_SLOTS = np.array(list(PRINTED.values()))
SERVERS = np.array([count for count, _, _ in TABLE_I])


def held(claims: tuple[PrintedClaim, ...]) -> list[bool]:
    return [claim.holds for claim in claims]


@pytest.mark.parametrize(
    ("ours", "best_fit", "expected"),
    [
        (PAPERS_SLOTS, [0.8, 0.6], [True, True]),
        (PAPERS_SLOTS, [0.8, 0.3], [True, False]),
        (PAPERS_SLOTS, [0.5, 0.6], [True, False]),
        (PAPERS_SLOTS[[4, 3, 2, 1, 0]], [0.8, 0.6], [True, True]),
        (np.sort(PAPERS_SLOTS, axis=0), [0.8, 0.6], [False, True]),
        (np.sort(PAPERS_SLOTS, axis=0)[::-1], [0.8, 0.6], [False, True]),
    ],
)
def test_slots(ours: np.ndarray, best_fit: list[float], expected: list[bool]) -> None:
    assert held(judge_slots(ours, np.array(best_fit))) == expected


def test_in_the_printed_table_14_slots_are_best() -> None:
    measured = judge_slots(PAPERS_SLOTS, np.array([0.8, 0.6]))[0].measured
    assert measured.startswith("14 slots of 10, 12, 14, 16, 20")


@pytest.mark.parametrize(
    ("first", "slots", "dips", "failing"),
    [
        (0.8009, 0.4, (0, 0.0), []),
        (0.802, 0.4, (0, 0.0), [0]),
        (0.82, 0.4, (0, 0.0), [0, 1]),
        (0.79, 0.7, (0, 0.0), [2]),
        (0.79, 0.4, (10, 0.05), []),
        (0.79, 0.4, (11, 0.05), [1]),
        (0.79, 0.4, (11, 0.005), []),
    ],
)
def test_uses_over_the_day(
    first: float, slots: float, dips: tuple[int, float], failing: list[int]
) -> None:
    """Judge a day on which Best-Fit uses 80 %, except in some of 100 bins."""
    best = np.full((100, 2), 0.8)
    best[: dips[0]] -= dips[1]
    share = np.stack([best, np.full((100, 2), first), np.full((100, 2), slots)])
    assert held(judge_uses(share, share.mean(axis=1))) == [k not in failing for k in range(3)]


def times(ours: list[float], theirs: list[float]) -> list[bool]:
    """Judge two jobs each of 1, 200 and 2,000 tasks, and one that only Best-Fit completes."""
    tasks = np.array([1, 1, 200, 200, 2000, 2000, 5])
    one, other = np.array([*ours, 1.0]), np.array([*theirs, np.nan])
    nothing = np.full(7, np.nan)
    rest = nothing, nothing, nothing
    reduction = reduction_by_size(tasks, JobTimes(one, *rest), JobTimes(other, *rest))
    return held(judge_times(one[:-1], other[:-1], reduction))


def test_times_by_size() -> None:
    slots = [5.0, 5, 80, 100, 900, 900]
    assert times([5, 5, 64, 80, 300, 400], slots) == [True, True, True, True]
    assert times([2, 5, 40, 50, 300, 400], slots) == [True, False, True, True]
    assert times([5, 5, 76, 95, 300, 400], slots) == [True, True, False, True]
    assert times([5, 5, 40, 50, 855, 800], slots) == [True, True, False, False]
    assert times([5, 5, 40, 50, 490, 490], slots) == [True, True, True, True]
    assert times([5, 5, 40, 50, 500, 500], slots) == [True, True, True, False]
    assert times([9, 9, 40, 50, 300, 400], slots) == [False, False, True, True]


def test_ratios_of_users() -> None:
    best, slots = np.array([1.0, 1.0, 0.9, 0.5]), np.array([1.0, 0.8, 0.7, 0.4])
    assert all_done_only_here(best, slots).tolist() == [False, True, False, False]
    assert held(judge_ratios(best, slots)) == [True, True]
    assert held(judge_ratios(slots, best)) == [False, False]
    assert held(judge_ratios(best, best)) == [True, False]
    assert held(judge_ratios(np.append(best, 0.1), np.append(slots, 0.2))) == [False, True]


def test_users_below_their_share_and_tasks_that_can_end() -> None:
    """Three users share a server of 2 CPU for a day: each is due 16 hours of 1 CPU."""
    hour = 3600.0
    workload = Workload.from_arrays(
        Cluster(("a",), ("cpu",), np.array([[2.0]]), np.array([1]), ("",), ({},)),
        ["ana", "bo", "cy"],
        job_user=[0, 1, 2, 0],
        job_submit=[0.0, 0.0, 20 * hour, 23 * hour],
        set_job=[0, 1, 2, 3],
        set_tasks=[2, 2, 1, 1],
        shapes=[[1.0], [2.0], [1.0], [1.0]],
        task_duration=[hour, 14 * hour, hour, 8 * hour, 4 * hour, 0.9 * hour],
    )
    # Of 24 hours of 2 CPU: ana 15.9 / 48, bo 18 / 48, cy 4 / 48.
    assert asks_for_less(workload).tolist() == [True, False, True]
    assert all_can_end(workload).tolist() == [True, True, True]
    late = replace(workload, job_submit=workload.job_submit + np.array([0, 0, 60.0, 0]))
    assert all_can_end(late).tolist() == [True, True, False]


def test_sharing() -> None:
    shared, alone = np.array([1.0, 1.0, 0.9]), np.array([0.5, 0.7, 0.95])
    assert held(judge_sharing(shared, alone)) == [True, True]
    assert held(judge_sharing(alone, shared)) == [False, False]
    assert held(judge_sharing(shared, np.array([0.5, 0.7, 1.0]))) == [True, True]


def test_names() -> None:
    keys = list(CATALOGUE)
    assert [entry.key for entry in find_entries(["drfh/figure-6", "drfh/figure-4"])] == [
        "drfh/figure-4",
        "drfh/figure-6",
    ]
    two = [key for key in keys if key.startswith(("psdsf/", "drfh/"))]
    assert [e.key for e in find_entries(["psdsf", "drfh", "drfh/table-2"])] == two
    for key, entry in CATALOGUE.items():
        assert key.startswith(f"{entry.paper.key}/")
        assert entry.printed
        assert not entry.printed.endswith(".")


@pytest.mark.parametrize(
    ("key", "verdict"),
    [("drfh/figure-3", EQUAL), ("drfh/table-1", SHAPE), ("drfh/section-4", SHAPE)],
)
def test_verdicts(key: str, verdict: str) -> None:
    assert reproduce(CATALOGUE[key], Setting(quick=True)).verdict == verdict


def test_all_users_gain_under_drfh() -> None:
    assert judge_division(PER_SERVER_TASKS, TOGETHER_TASKS)[0].holds
    for together in (PER_SERVER_TASKS, [[10, 0], [0, 6]], [[6, 0], [0, 10]]):
        assert not judge_division(PER_SERVER_TASKS, np.array(together, float))[0].holds


def test_draws_in_other_proportions_are_rejected() -> None:
    assert judge_draw(SERVERS, SERVERS)[0].holds
    assert judge_draw(np.round(SERVERS / 5).astype(int), SERVERS)[0].holds
    drawn = np.random.default_rng(1).multinomial(2000, SERVERS / SERVERS.sum())
    assert judge_draw(drawn, SERVERS)[0].holds
    assert not judge_draw(np.full(10, 200), SERVERS)[0].holds
    drawn[[0, 1]] = drawn[[1, 0]]
    assert not judge_draw(drawn, SERVERS)[0].holds


def test_a_property_that_fails_or_was_not_checked_does_not_hold() -> None:
    counts = {(DRFH, property_name): Count(0, 9) for property_name in PROVED}
    assert all(claim.holds for claim in judge_properties(counts))
    for k, property_name in enumerate(PROVED):
        for spoilt in (Count(1, 9), Count(0, 0)):
            claims = judge_properties(counts | {(DRFH, property_name): spoilt})
            assert [claim.holds for claim in claims] == [i != k for i in range(len(PROVED))]
