"""Verdicts on tables and figures; claims hold on printed numbers, and fail on wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fairlead.mechanisms.catalogue import solve
from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.comparison import reduction_by_size
from fairlead.simulation.metrics.task_outcomes import JobTimes
from fairlead.traces.generator import TABLE_I
from fairlead_papers.drfh import _drfh_examples as drfh
from fairlead_papers.drfh import _replayed_day as day
from fairlead_papers.dynamic import _dynamic_properties as properties
from fairlead_papers.dynamic._full_knowledge import judge_sums
from fairlead_papers.dynamic._solvers_compared import OTHERS, judge_algorithm, judge_solvers
from fairlead_papers.entries import CATALOGUE, reproduce
from fairlead_papers.pdrf import _runs_of_formula as pdrf
from fairlead_papers.pdrf import _tables_1_and_2 as tables
from fairlead_papers.private_clouds import _tables_2_to_5 as clouds
from fairlead_papers.private_clouds import _trials_of_schedulers as trials
from fairlead_papers.psdsf import _theorem_and_lemma as lemma
from fairlead_papers.psdsf import _two_servers, four_classes
from fairlead_papers.psdsf._compared_properties import TICKS, judge_table
from fairlead_papers.reproduction import DIFFERS, EQUAL, FARTHER, SHAPE, WITHIN, PrintedClaim
from fairlead_papers.setting import Setting
from fairlead_papers.surveys.survey import Count

SLOTS, BEST_FIT = np.array(list(day.PRINTED.values())), np.array([0.8, 0.6])
SERVERS = np.array([count for count, _, _ in TABLE_I])
FEW, MORE = np.array([0.5, 0.7, 0.95]), np.array([1.0, 1.0, 0.9])
NONE, SOME = np.zeros(3), np.array([0.0, 1e-6, 0.0])
SHARES = np.array([[0.6, np.inf], [0.6, np.inf], [8 / 12, 8 / 12], [8 / 9, 8 / 12]])
UNEVEN = np.array([[0, 0], [0.01, 0], [-0.1, 0.01], [0, 0]])
TIME, GAMMA = np.array(_two_servers.PRINTED_TIME), np.array(four_classes.PRINTED_GAMMA)
FAIR = {"PS-DSF": True, "C-DRFH": False, "TSF": False}
DOMINANT = ("bandwidth", "memory", "memory")
TASKS = np.array(four_classes.PRINTED_PS_DSF)
ENDS = np.zeros((4, 4, 2))
ENDS[:2, :2] = [[[0, 80], [125, 205]], [[0, 40], [67, 107]]]
OURS, NEITHER = lemma.JudgedAnswer("ps-dsf", 0.0, 0.0), lemma.JudgedAnswer("tsf", 0.1, 0.05)
HARMLESS = [lemma.LieEffect(about, 0.0, -1e-6) for about in (lemma.DEMANDS, lemma.SERVERS)]
HARMFUL = [lemma.LieEffect(about, 0.0, -0.1) for about in (lemma.DEMANDS, lemma.SERVERS)]
TICKED = {(name, of): Count(0, 10) for name, ticks in TICKS.items() for of in ticks}
BLANK = {("drfh", "sharing-incentive"): 0.5}


def uses(first_fit: float, slots: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a day on which Best-Fit uses 80 %."""
    share = np.stack([np.full((100, 2), part) for part in (0.8, first_fit, slots)])
    return share, share.mean(axis=1)


def times(*best_fit: float) -> tuple[object, ...]:
    """Return times of two jobs each of 1, 200 and 2,000 tasks, with slots 5, 80 to 100, 900 s."""
    slots = np.array([5.0, 5, 80, 100, 900, 900])
    both = [JobTimes(x, *[np.full(6, np.nan)] * 3) for x in (np.array(best_fit), slots)]
    reduction = reduction_by_size(np.array([1, 1, 200, 200, 2000, 2000]), *both)
    return np.array(best_fit), slots, reduction


def steady(value: float, runs: int = 1_000) -> pdrf.Sample:
    """Return counts that differ by at most one between runs, with this mean."""
    low = int(value)
    more = round((value - low) * runs)
    return pdrf.Sample(np.array([low + 1] * more + [low] * (runs - more)))


def counted(row: pdrf.PrintedRow) -> pdrf.CountedRow:
    one, two, many = map(steady, row.over_by)
    return pdrf.CountedRow(
        row,
        1_000,
        under=steady(row.under[0]),
        over=steady(row.over[0]),
        over_by=(one, two, many),
        most_under=1,
        most_over=row.most_over,
        served=steady(1_000),
        still_under=steady(0),
        most_still_under=0,
    )


AVERAGE, WORSE = [counted(row) for row in pdrf.ROWS[:3]], [counted(row) for row in pdrf.ROWS[3:]]
WRONG = [replace(row, most_under=2, under=steady(440), over=steady(2.1)) for row in AVERAGE]


def outcome(row: trials.PrintedTrials) -> trials.StudyOutcome:
    numbers = (row.tasks, row.tasks_sd or [0] * 4, row.unused, row.unused_sd or [0] * 4)
    tasks, tasks_sd, unused, unused_sd = (np.reshape(each, (2, 2)) for each in numbers)
    return trials.StudyOutcome(tasks, tasks_sd, row.total, 0.0, unused, unused_sd)


PRINTED = {row.name: outcome(row) for row in trials.ROWS}
PRINTED[trials.RRR_RPS_DSF] = PRINTED[trials.RPS_DSF]
# The printed numbers of DRF and TSF under the names of PS-DSF, and the other way round.
SWAPPED = PRINTED | {
    trials.DRF: PRINTED[trials.RRR_PS_DSF],
    trials.TSF: PRINTED[trials.PS_DSF],
    trials.RRR_PS_DSF: PRINTED[trials.DRF],
    trials.PS_DSF: PRINTED[trials.TSF],
    trials.RRR_RPS_DSF: PRINTED[trials.DRF],
}

Judge = Callable[..., tuple[PrintedClaim, ...]]
JUDGED: list[tuple[Judge, tuple[object, ...], list[int]]] = [
    (day.judge_slots, (SLOTS, BEST_FIT), []),
    (day.judge_slots, (np.sort(SLOTS, axis=0), BEST_FIT / 2), [0, 1]),
    (day.judge_uses, uses(0.8009, 0.4), []),
    (day.judge_uses, uses(0.82, 0.7), [0, 1, 2]),
    (day.judge_times, times(5, 5, 64, 80, 300, 400), []),
    (day.judge_times, times(9, 9, 76, 95, 300, 400), [0, 1, 2]),
    (day.judge_times, times(5, 5, 40, 50, 500, 500), [3]),
    (day.judge_ratios, (np.array([1.0, 1, 0.9]), np.array([1.0, 0.8, 0.7])), []),
    (day.judge_ratios, (np.array([1.0, 0.8, 0.7]), np.array([1.0, 1, 0.9])), [0, 1]),
    (day.judge_sharing, (MORE, FEW), []),
    (day.judge_sharing, (FEW, MORE), [0, 1]),
    (drfh.judge_division, (drfh.PER_SERVER_TASKS, drfh.TOGETHER_TASKS), []),
    (drfh.judge_division, (drfh.PER_SERVER_TASKS, drfh.PER_SERVER_TASKS), [0]),
    (drfh.judge_draw, (np.round(SERVERS / 5).astype(int), SERVERS), []),
    (drfh.judge_draw, (np.full(10, 200), SERVERS), [0]),
    (drfh.judge_properties, ({("drfh", name): Count(0, 9) for name in drfh.PROVED},), []),
    (drfh.judge_properties, ({("drfh", n): Count(0, 0) for n in drfh.PROVED},), [*range(7)]),
    (properties.judge_failures, ({}, 10, 5), []),
    (properties.judge_failures, ({"sharing-incentive": 1, "lemma 3": 1}, 10, 5), [0, 6]),
    (judge_sums, ({2: (1.7, 1.5), 3: (2.5, 2.0)},), []),
    (judge_sums, ({2: (1.7, 1.5), 3: (1.9, 2.0)},), [0]),
    (judge_algorithm, (NONE, NONE, NONE), []),
    (judge_algorithm, (SOME, SOME, NONE), [0, 1]),
    (judge_solvers, (dict.fromkeys(OTHERS, NONE), NONE), []),
    (judge_solvers, (dict.fromkeys(OTHERS, SOME), SOME), [0, 1, 2, 3]),
    (_two_servers.judge_fairness, (FAIR, DOMINANT, ("memory",)), []),
    (_two_servers.judge_fairness, ({n: not f for n, f in FAIR.items()}, (), ()), [*range(5)]),
    (_two_servers.judge_levels, (SHARES, 0.0), []),
    (
        _two_servers.judge_levels,
        (SHARES + UNEVEN, 0.1),
        [0, 1, 2],
    ),
    (_two_servers.judge_channels, (TIME, 0.0), []),
    (_two_servers.judge_channels, (TIME[::-1], 0.01), [0, 1]),
    (four_classes.judge_freedom, ([GAMMA, GAMMA], GAMMA - 0.4), []),
    (four_classes.judge_freedom, ([GAMMA, GAMMA], GAMMA), [0]),
    (four_classes.judge_table, (TASKS, np.array([205, 107.5, 58.33, 35.55]), ENDS), []),
    (four_classes.judge_table, (np.ones((4, 4)), np.ones(4), ENDS[::-1] + 1), [*range(5)]),
    (judge_table, (TICKED, BLANK, 0.0), []),
    (judge_table, (TICKED, dict.fromkeys(BLANK, 0.0), 0.0), [len(TICKED)]),
    (judge_table, (dict.fromkeys(TICKED, Count(1, 10)), BLANK, 0.0), [*range(len(TICKED))]),
    (lemma.judge_theorem, ([OURS, NEITHER],), []),
    (lemma.judge_theorem, ([replace(OURS, gain=0.1), replace(NEITHER, gain=0)],), [0, 1]),
    (lemma.judge_theorem, ([replace(OURS, missing=0.1, gain=0.1)],), [0, 2]),
    (lemma.judge_lies, (HARMLESS,), []),
    (lemma.judge_lies, (HARMFUL,), [0, 1]),
    (tables.judge_average_cases, (AVERAGE,), []),
    (tables.judge_average_cases, (WRONG,), [0, 1, 2, 4]),
    (tables.judge_average_cases, ([replace(AVERAGE[0], most_over=3), *AVERAGE[1:]],), [3]),
    (tables.judge_worse_cases, (WORSE, 0.694), []),
    (tables.judge_worse_cases, ([replace(WORSE[1], most_under=2), WORSE[0]], 50), [0, 1, 2]),
    (clouds.judge_tasks, (PRINTED,), []),
    (clouds.judge_tasks, (SWAPPED,), [0, 1, 3, 4]),
    (clouds.judge_variation, (PRINTED,), []),
    (clouds.judge_variation, (SWAPPED,), [0, 1]),
    (clouds.judge_unused, (PRINTED,), []),
    (clouds.judge_unused, (SWAPPED,), [0, 1, 2]),
    (clouds.judge_unused_variation, (PRINTED,), []),
    (clouds.judge_unused_variation, (SWAPPED,), [0, 1]),
]


@pytest.mark.parametrize(("judge", "numbers", "failing"), JUDGED)
def test_claims(judge: Judge, numbers: tuple[object, ...], failing: list[int]) -> None:
    assert [k for k, claim in enumerate(judge(*numbers)) if not claim.holds] == failing


def test_numbers_of_another_mechanism_differ() -> None:
    problem = _two_servers.example_of_figure_1()
    answers = {
        called: solve(problem, name) for name, called, _, _ in _two_servers.PRINTED_OF_FIGURE_1
    }
    wrong = answers | {"PS-DSF": answers["TSF"]}
    assert {r.verdict for r in _two_servers.compare_figure_1(answers, problem)} == {EQUAL}
    verdicts = [r.verdict for r in _two_servers.compare_figure_1(wrong, problem)]
    assert verdicts.count(FARTHER) == 4


def test_intervals_follow_the_standard_errors() -> None:
    # 1.96 x 2.31 / 10 is 0.45, 1.96 x 0.46 / 10 is 0.09; the total is unchanged.
    ours = replace(PRINTED[trials.DRF], tasks=PRINTED[trials.DRF].tasks + 0.4)
    readings = trials.compare_tasks(trials.RANDOM_ROWS[0], ours, trials.TRIALS)
    assert [each.verdict for each in readings] == [WITHIN, FARTHER, FARTHER, WITHIN, EQUAL]
    # 1.96 x 86.373 / sqrt(1000) is 5.35.
    for more, verdict in ((0, EQUAL), (5, WITHIN), (6, FARTHER)):
        first, *_ = pdrf.compare_row(replace(AVERAGE[0], under=steady(477.623 + more)))
        assert first.verdict == verdict


def test_findings_of_pdrf_need_other_counts_than_the_printed() -> None:
    worse = [*WORSE, counted(pdrf.TEN_TIMES_RESERVES)]
    found = [
        tables.find_reserves(worse, "x"),
        tables.find_largest_excess(WORSE, "x"),
        tables.find_excess_of_large_demands(AVERAGE[2], "x"),
        tables.find_short_top_up(AVERAGE, "x"),
        tables.find_sums(pdrf.ROWS[:3], "x"),
    ]
    assert found == [None] * 5
    rare = replace(AVERAGE[2], over=steady(0.002))
    assert "2 in 1,000 runs" in tables.find_excess_of_large_demands(rare, "x").found


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
    assert day.asks_for_less(workload).tolist() == [True, False, True]
    assert day.all_can_end(workload).tolist() == [True, True, True]
    late = replace(workload, job_submit=workload.job_submit + np.array([0, 0, 60.0, 0]))
    assert day.all_can_end(late).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("key", "verdict", "seed"),
    [
        ("drfh/figure-3", EQUAL, 0),
        ("drfh/table-1", SHAPE, 0),
        ("drfh/section-4", SHAPE, 0),
        ("psdsf/figure-1", EQUAL, 0),
        ("psdsf/figure-4", EQUAL, 0),
        ("psdsf/table-3", EQUAL, 0),
        ("psdsf/theorem-1", SHAPE, 3),
        ("dynamic/section-2", SHAPE, 1),
        ("dynamic/theorem-1", SHAPE, 1),
        ("dynamic/algorithm-1", DIFFERS, 1),
        ("dynamic/section-4", WITHIN, 1),
        ("dynamic/theorem-2", WITHIN, 1),
    ],
)
def test_verdicts(key: str, verdict: str, seed: int) -> None:
    entry = CATALOGUE[key]
    found = reproduce(entry, Setting(quick=True, seed=seed))
    assert found.verdict == verdict, found.reason
    assert entry.known_to_differ == (verdict == DIFFERS)
    assert verdict == DIFFERS or all(claim.holds for claim in found.claims)
