"""Run the trials of Tables II to V of Kesidis et al. 2018, and compare the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import lcm
from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.scheduler.policies import find_policy
from fairlead.simulation.trials import Trials, TrialSummary, run_trials
from fairlead_papers.reproduction import Reading, compare_amount
from fairlead_papers.setting import Parameter, Setting

TRIALS = 200
# The columns: (user, server) for tasks, (server, resource) for unused amounts.
COLUMNS = ("(1,1)", "(1,2)", "(2,1)", "(2,2)")

DEMAND = ((5, 1), (1, 5))
CAPACITY = ((100, 30), (30, 100))


class PrintedTrials(NamedTuple):
    """A printed row of the tables: one scheduler."""

    name: str  # in the paper
    # Our policy: criterion, server selection, and whether scores are by free amounts.
    criterion: str
    select: str
    residual: bool
    tasks: tuple[float, ...]  # by user, then by server
    total: float
    unused: tuple[float, ...]  # by server, then by resource
    # Sample standard deviations of tasks and unused amounts; None for schedulers without chance.
    tasks_sd: tuple[float, ...] | None = None
    unused_sd: tuple[float, ...] | None = None


DRF, TSF, RRR_PS_DSF = "DRF", "TSF", "RRR-PS-DSF"
BF_DRF, PS_DSF, RPS_DSF = "BF-DRF", "PS-DSF", "rPS-DSF"
# No table has a row of it: the text says that it equals rPS-DSF in all trials.
RRR_RPS_DSF = "RRR-rPS-DSF"

ROWS = (
    PrintedTrials(
        DRF,
        "drf",
        "rrr",
        False,
        (6.55, 4.69, 4.69, 6.55),
        22.48,
        (62.56, 0, 0, 62.56),
        (2.31, 0.46, 0.46, 2.31),
        (11.09, 0, 0, 11.09),
    ),
    PrintedTrials(
        TSF,
        "tsf",
        "rrr",
        False,
        (6.5, 4.7, 4.7, 6.5),
        22.4,
        (62.8, 0, 0, 62.8),
        (2.29, 0.46, 0.46, 2.29),
        (10.99, 0, 0, 10.99),
    ),
    PrintedTrials(
        RRR_PS_DSF,
        "ps-dsf",
        "rrr",
        False,
        (19.44, 1.15, 1.07, 19.42),
        41.08,
        (1.8, 4.6, 4.86, 1.92),
        (0.59, 0.99, 1.0, 0.49),
        (0.59, 0.99, 1.0, 0.49),
    ),
    PrintedTrials(BF_DRF, "drf", "best-fit-first", False, (20, 2, 0, 19), 41, (0, 10, 1, 3)),
    PrintedTrials(PS_DSF, "ps-dsf", "joint", False, (19, 0, 2, 20), 41, (3, 1, 10, 0)),
    PrintedTrials(RPS_DSF, "ps-dsf", "joint", True, (19, 2, 2, 19), 42, (3, 1, 1, 3)),
)
RANDOM_ROWS = tuple(row for row in ROWS if row.tasks_sd is not None)


def unused_of(tasks: FloatArray) -> FloatArray:
    """Return unused amounts by server and resource, from tasks by user and server; (..., 2, 2)."""
    used: FloatArray = np.swapaxes(tasks, -1, -2) @ np.array(DEMAND, dtype=float)
    return np.array(CAPACITY, dtype=float) - used


def least_unused_sd(tasks_sd: FloatArray) -> FloatArray:
    """Return lower bounds of the deviations of unused amounts, from those of tasks.

    Both are sample standard deviations, (2, 2): of tasks by user and server, of unused amounts by
    server and resource. The deviation of ``d[1,r] x[1,i] + d[2,r] x[2,i]`` is least if the two
    terms are perfectly anticorrelated.
    """
    demand = np.array(DEMAND, dtype=float)
    terms = demand[:, None, :] * tasks_sd[:, :, None]
    least: FloatArray = np.abs(terms[0] - terms[1])
    return least


# Number of trials with a server drawn for each task. With it, most of the chance is in the
# paper's 200 trials.
DRAWN = 2_000
DRAWN_TRIALS = Parameter("drawn-trials", DRAWN, quick=200)
USERS = SERVERS = RESOURCES = range(2)
DIGIT = 0.01
# 95 % of a normal distribution are within this many standard deviations.
NORMAL = 1.96


@dataclass(frozen=True, eq=False)
class StudyOutcome:
    """The numbers of one scheduler in all four tables: means and sample standard deviations."""

    # (2, 2): by user and server.
    tasks: FloatArray
    tasks_sd: FloatArray
    total: float
    total_sd: float
    # (2, 2): by server and resource.
    unused: FloatArray
    unused_sd: FloatArray


@dataclass(frozen=True, eq=False)
class Study:
    """The outcomes of all schedulers."""

    trials: int  # of each random scheduler
    drawn_trials: int  # of each random scheduler with drawn servers
    seed: int
    outcomes: dict[str, StudyOutcome]  # by the paper's name of the scheduler
    # Outcomes of the random schedulers, with a server drawn for each task instead of rounds.
    drawn: dict[str, StudyOutcome]

    @property
    def text(self) -> str:
        """Describe the runs."""
        quickly = "" if self.drawn_trials == DRAWN else f" (usually {DRAWN:,})"
        return (
            "Two users with tasks of (5, 1) and (1, 5) on servers of (100, 30) and (30, 100), "
            f"{self.trials} trials of each random scheduler, and {self.drawn_trials:,}"
            f"{quickly} with a server drawn for each task, seed {self.seed}. Intervals are 1.96 "
            "standard errors of the difference of two means or deviations, and half a digit."
        )


def kesidis_problem() -> Problem:
    """Return the two users and two servers of the paper's (19) and (20)."""
    return Problem.from_arrays(CAPACITY, DEMAND)


def run_study(setting: Setting) -> Study:
    """Fill the two servers by each scheduler, 200 times if it is random."""
    n_drawn = setting.value(DRAWN_TRIALS)
    residual = PrintedTrials(RRR_RPS_DSF, "ps-dsf", "rrr", True, (), 0.0, ())
    outcomes = {
        row.name: _summarise_trials(_run_in_rounds(row, setting)) for row in (*ROWS, residual)
    }
    # Each scheduler has its own random numbers, so that they do not affect each other.
    seeds = np.random.SeedSequence(setting.seed).spawn(len(RANDOM_ROWS))
    jobs = [(row.criterion, seed) for row, seed in zip(RANDOM_ROWS, seeds, strict=True)]
    each = setting.do_all("servers drawn for each task", partial(_run_drawn, n_drawn), jobs)
    drawn = {row.name: outcome for row, outcome in zip(RANDOM_ROWS, each, strict=True)}
    return Study(TRIALS, n_drawn, setting.seed, outcomes, drawn)


def _run_drawn(trials: int, job: tuple[str, np.random.SeedSequence]) -> StudyOutcome:
    """Run the trials of one criterion with drawn servers."""
    criterion, seed = job
    return summarise_tasks(draw_trials(criterion, trials, np.random.default_rng(seed)))


def summarise_tasks(tasks: FloatArray) -> StudyOutcome:
    """Return means and deviations of T trials, (T, 2, 2) tasks by user and server."""
    total, unused = tasks.sum(axis=(1, 2)), unused_of(tasks)
    return StudyOutcome(
        tasks.mean(axis=0),
        tasks.std(axis=0, ddof=1),
        float(total.mean()),
        float(total.std(ddof=1)),
        unused.mean(axis=0),
        unused.std(axis=0, ddof=1),
    )


def _run_in_rounds(row: PrintedTrials, setting: Setting) -> Trials:
    """Run the trials of a scheduler in rounds."""
    policy = find_policy(row.criterion, row.select, row.residual)
    on_progress: Callable[[int, int], None] | None = None
    if setting.on_step is not None and policy.is_random:
        on_progress = partial(setting.on_step, f"trials of {row.name}")
    # Starting processes takes longer than these trials.
    executor = None if setting.executor.starts_processes else setting.executor
    return run_trials(kesidis_problem(), policy, TRIALS, setting.seed, on_progress, executor)


def _summarise_trials(trials: Trials) -> StudyOutcome:
    total, total_sd = _mean_and_sd(trials.total)
    return StudyOutcome(
        *_mean_and_sd(trials.tasks), float(total), float(total_sd), *_mean_and_sd(trials.unused)
    )


def _mean_and_sd(summary: TrialSummary) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the sample standard deviation of a quantity."""
    # Only a single trial of a random policy has no deviation; there are always several.
    deviation = np.full_like(summary.mean, np.nan) if summary.sd is None else summary.sd
    return summary.mean, deviation


def draw_trials(criterion: str, trials: int, random: np.random.Generator) -> FloatArray:
    """Fill the two servers, a server drawn for each task; return tasks, (trials, 2, 2).

    `criterion` (``drf``, ``tsf`` or ``ps-dsf``) chooses the user of the drawn server's next task;
    ties are broken by chance. Tasks are by user and server.
    """
    per_task = _scores_per_task(criterion)
    return np.stack([_fill(per_task, random) for _ in range(trials)]).astype(float)


def _scores_per_task(criterion: str) -> list[list[int]]:
    """Return the score of one task by user and server, as whole multiples of a common unit."""

    def by_server(user: int) -> list[Fraction]:
        demand = DEMAND[user]
        if criterion == "drf":
            total = [sum(row[r] for row in CAPACITY) for r in RESOURCES]
            return [max(Fraction(demand[r], total[r]) for r in RESOURCES)] * len(SERVERS)
        if criterion == "tsf":
            alone = sum(min(row[r] // demand[r] for r in RESOURCES) for row in CAPACITY)
            return [Fraction(1, alone)] * len(SERVERS)
        return [max(Fraction(demand[r], CAPACITY[i][r]) for r in RESOURCES) for i in SERVERS]

    scores = [by_server(user) for user in USERS]
    factor = lcm(*(score.denominator for row in scores for score in row))
    return [[int(score * factor) for score in row] for row in scores]


def _fill(per_task: list[list[int]], random: np.random.Generator) -> IntArray:
    """Fill the servers until no task fits; return (2, 2) tasks by user and server."""
    free = [list(row) for row in CAPACITY]
    tasks = np.zeros((len(USERS), len(SERVERS)), dtype=np.int64)

    def fitting(server: int) -> list[int]:
        return [n for n in USERS if all(DEMAND[n][r] <= free[server][r] for r in RESOURCES)]

    while usable := [i for i in SERVERS if fitting(i)]:
        server = usable[random.integers(len(usable))]
        score = {n: int(tasks[n].sum()) * per_task[n][server] for n in fitting(server)}
        least = [n for n in score if score[n] == min(score.values())]
        user = least[random.integers(len(least))]
        tasks[user, server] += 1
        for r in RESOURCES:
            free[server][r] -= DEMAND[user][r]
    return tasks


def mean_interval(ours_sd: float, paper_sd: float, trials: int) -> float:
    """Return the half-width of the 95 % interval of the difference of two means, plus half a digit.

    Deviations are those of single trials: ours of `trials`, the paper's of 200.
    """
    return NORMAL * float(np.sqrt(ours_sd**2 / trials + paper_sd**2 / TRIALS)) + DIGIT / 2


def sd_interval(ours_sd: float, paper_sd: float, trials: int) -> float:
    """Return the half-width of the 95 % interval of the difference of two sample deviations.

    Half a digit is added. The standard error is that of normal distributions, ``sd / sqrt(2 T)``;
    counts that mostly take one of two values vary less.
    """
    errors = ours_sd**2 / (2 * trials) + paper_sd**2 / (2 * TRIALS)
    return NORMAL * float(np.sqrt(errors)) + DIGIT / 2


def compare_tasks(row: PrintedTrials, ours: StudyOutcome, trials: int) -> Iterator[Reading]:
    """Compare a row of Table II. The total has no printed deviation: ours is used instead."""
    yield from _compare_means(
        f"{row.name}, tasks of", row.tasks, row.tasks_sd, ours.tasks, ours.tasks_sd, trials
    )
    interval = None
    if row.tasks_sd is not None:
        interval = mean_interval(ours.total_sd, ours.total_sd, trials)
    yield compare_amount(f"{row.name}, total", ours.total, row.total, DIGIT, interval)


def compare_tasks_sd(row: PrintedTrials, ours: StudyOutcome, trials: int) -> Iterator[Reading]:
    """Compare a row of Table III."""
    yield from _compare_sds(f"{row.name}, sd of tasks of", row.tasks_sd, ours.tasks_sd, trials)


def compare_unused(row: PrintedTrials, ours: StudyOutcome, trials: int) -> Iterator[Reading]:
    """Compare a row of Table IV.

    For RRR-PS-DSF our deviation replaces the printed one, which cannot be right.
    """
    sd = row.unused_sd if row.name in (DRF, TSF) else None
    if row.name == RRR_PS_DSF:
        sd = tuple(ours.unused_sd.ravel().tolist())
    yield from _compare_means(
        f"{row.name}, unused", row.unused, sd, ours.unused, ours.unused_sd, trials
    )


def compare_unused_sd(row: PrintedTrials, ours: StudyOutcome, trials: int) -> Iterator[Reading]:
    """Compare a row of Table V."""
    yield from _compare_sds(f"{row.name}, sd of unused", row.unused_sd, ours.unused_sd, trials)


def _compare_means(
    what: str,
    paper: tuple[float, ...],
    paper_sd: tuple[float, ...] | None,
    ours: FloatArray,
    ours_sd: FloatArray,
    trials: int,
) -> Iterator[Reading]:
    means, deviations = ours.ravel().tolist(), ours_sd.ravel().tolist()
    for k, column in enumerate(COLUMNS):
        interval = None
        if paper_sd is not None:
            interval = mean_interval(deviations[k], paper_sd[k], trials)
        yield compare_amount(f"{what} {column}", means[k], paper[k], DIGIT, interval)


def _compare_sds(
    what: str, paper: tuple[float, ...] | None, ours: FloatArray, trials: int
) -> Iterator[Reading]:
    if paper is None:
        return
    for column, mine, theirs in zip(COLUMNS, ours.ravel().tolist(), paper, strict=True):
        yield compare_amount(
            f"{what} {column}", mine, theirs, DIGIT, sd_interval(mine, theirs, trials)
        )
