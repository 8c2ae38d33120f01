"""The trials that Tables II to V of Kesidis et al. 2018 are all of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.papers.private_clouds.drawn_servers import draw_trials
from fairlead.papers.private_clouds.printed import (
    CAPACITY,
    DEMAND,
    RANDOM_ROWS,
    ROWS,
    RRR_RESIDUAL,
    TRIALS,
    Row,
    unused_of,
)
from fairlead.papers.setting import Setting
from fairlead.scheduler.policies import find_policy
from fairlead.scheduler.trials import Summary, Trials, run_trials

# Of servers drawn for each task: more than the paper's, so that chance is mostly the paper's.
DRAWN, QUICKLY_DRAWN = 2_000, 200


@dataclass(frozen=True, eq=False)
class Outcome:
    """Four tables' numbers of one scheduler; means and sample standard deviations.

    Attributes
    ----------
    tasks, tasks_sd : (2, 2) float
        By user and server.
    unused, unused_sd : (2, 2) float
        By server and resource.
    """

    tasks: FloatArray
    tasks_sd: FloatArray
    total: float
    total_sd: float
    unused: FloatArray
    unused_sd: FloatArray


@dataclass(frozen=True, eq=False)
class Study:
    """What all schedulers came to.

    Attributes
    ----------
    trials : int
        Of each that is random.
    drawn_trials : int
        Of each with drawn servers.
    outcomes : dict of str to Outcome
        By the paper's name of the scheduler.
    drawn : dict of str to Outcome
        The random ones with a server drawn for each task in the place of rounds.
    """

    trials: int
    drawn_trials: int
    seed: int
    outcomes: dict[str, Outcome]
    drawn: dict[str, Outcome]

    @property
    def text(self) -> str:
        """Say what was run."""
        quickly = " (quick)" if self.drawn_trials < DRAWN else ""
        return (
            "Two users with tasks of (5, 1) and (1, 5) on servers of (100, 30) and (30, 100), "
            f"{self.trials} trials of each scheduler that is random, and {self.drawn_trials:,}"
            f"{quickly} with a server drawn for each task, seed {self.seed}. Intervals are 1.96 "
            "standard errors of the difference of two means or deviations, and half a digit."
        )


def kesidis_problem() -> Problem:
    """Return the two users and the two servers of (19) and (20)."""
    return Problem.from_arrays(CAPACITY, DEMAND)


def run_study(setting: Setting) -> Study:
    """Fill the two servers by each scheduler, 200 times if it is random; seconds."""
    n_drawn = QUICKLY_DRAWN if setting.quick else DRAWN
    residual = Row(RRR_RESIDUAL, "ps-dsf", "rrr", True, (), 0.0, ())
    outcomes = {row.name: _outcome(_run(row, setting)) for row in (*ROWS, residual)}
    # Streams of their own: a trial more of one scheduler changes nothing of another.
    seeds = np.random.SeedSequence(setting.seed).spawn(len(RANDOM_ROWS))
    drawn = {}
    for k in setting.steps("servers drawn for each task", len(RANDOM_ROWS)):
        row = RANDOM_ROWS[k]
        tasks = draw_trials(row.criterion, n_drawn, np.random.default_rng(seeds[k]))
        drawn[row.name] = summarise_tasks(tasks)
    return Study(TRIALS, n_drawn, setting.seed, outcomes, drawn)


def summarise_tasks(tasks: FloatArray) -> Outcome:
    """Return means and deviations of T trials, (T, 2, 2) tasks by user and server."""
    total, unused = tasks.sum(axis=(1, 2)), unused_of(tasks)
    return Outcome(
        tasks.mean(axis=0),
        tasks.std(axis=0, ddof=1),
        float(total.mean()),
        float(total.std(ddof=1)),
        unused.mean(axis=0),
        unused.std(axis=0, ddof=1),
    )


def _run(row: Row, setting: Setting) -> Trials:
    policy = find_policy(row.criterion, row.select, row.residual)
    on_progress: Callable[[int, int], None] | None = None
    if setting.on_step is not None and policy.is_random:
        on_progress = partial(setting.on_step, f"trials of {row.name}")
    return run_trials(kesidis_problem(), policy, TRIALS, setting.seed, on_progress)


def _outcome(trials: Trials) -> Outcome:
    total, total_sd = _pair(trials.total)
    return Outcome(*_pair(trials.tasks), float(total), float(total_sd), *_pair(trials.unused))


def _pair(summary: Summary) -> tuple[FloatArray, FloatArray]:
    # One trial of a random policy has no deviation, but nobody asks for one.
    deviation = np.full_like(summary.mean, np.nan) if summary.sd is None else summary.sd
    return summary.mean, deviation
