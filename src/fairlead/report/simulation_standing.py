"""Policies beside the one that is in force today: who gained, who lost, and by how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairlead.metrics.comparison import Comparison, compare
from fairlead.metrics.distribution import mean
from fairlead.metrics.outcomes import Outcome
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.run_log import RECORDED

# A mean wait that differs by less, in seconds, is the same.
SAME_WAIT = 1e-6
# Use beyond all that is there by less is rounding.
SAME_USE = 1e-6


@dataclass(frozen=True, eq=False)
class Against:
    """A policy held against today's, by the name of its run; N users."""

    name: str
    outcome: Outcome
    today: Outcome
    comparison: Comparison

    @cached_property
    def job_means(self) -> tuple[float, float]:
        """Mean completion time, and today's, of all jobs that are complete under both; seconds."""
        ours, theirs = (side.summary.jobs.completion for side in (self.outcome, self.today))
        return _means_of_both(ours, theirs)

    @cached_property
    def wait_means(self) -> tuple[float, float]:
        """Mean wait, and today's, of the same jobs as `job_means`; seconds."""
        ours, theirs = (side.summary.jobs.wait for side in (self.outcome, self.today))
        return _means_of_both(ours, theirs)

    @property
    def is_all_known(self) -> bool:
        """Whether both know the fate of every task, so that sums over all are comparable."""
        return bool(self.comparison.known.all())

    @property
    def done(self) -> tuple[FloatArray, FloatArray]:
        """(N,) float each: part of a user's tasks done at the horizon of both, and today."""
        return self.comparison.done, self.comparison.baseline_done

    @property
    def horizon(self) -> float:
        """When tasks done are counted, seconds."""
        return self.comparison.horizon

    @property
    def fewer_done(self) -> BoolArray:
        """(N,) bool: users with fewer tasks done at the horizon than today."""
        fewer: BoolArray = self.comparison.horizon_difference < 0
        return fewer

    @property
    def waits_less(self) -> BoolArray:
        """(N,) bool: users whose jobs that are complete under both wait less in the mean."""
        less: BoolArray = self.comparison.wait_difference < -SAME_WAIT
        return less

    @property
    def waits_more(self) -> BoolArray:
        """(N,) bool: users whose jobs that are complete under both wait longer in the mean."""
        more: BoolArray = self.comparison.wait_difference > SAME_WAIT
        return more


@dataclass(frozen=True, eq=False)
class Standing:
    """Everything that was simulated, from the point of view of today's policy.

    Attributes
    ----------
    today : str
        Name of today's.
    others : tuple of Against
        The others, but for users alone on dedicated servers, in their order.
    sharing : Against or None
        The shared cluster against users alone on dedicated servers, if that was simulated.
    """

    outcomes: Mapping[str, Outcome]
    today: str
    others: tuple[Against, ...]
    sharing: Against | None

    @property
    def is_recorded(self) -> bool:
        """Whether today's is what the log says happened, and no replay."""
        return self.outcomes[self.today].log.is_recorded

    @property
    def shared(self) -> dict[str, Outcome]:
        """All but the run of users alone on dedicated servers, which has a time of its own."""
        names = {self.today, *(against.name for against in self.others)}
        return {name: outcome for name, outcome in self.outcomes.items() if name in names}


def standing_of(
    outcomes: Mapping[str, Outcome],
    today: str | None = None,
    dedicated: tuple[str, str] | None = None,
) -> Standing:
    """Hold every policy against today's.

    Parameters
    ----------
    outcomes : mapping of str to Outcome
        At least one, of the same jobs.
    today : str, optional
        The name of today's; when absent ``recorded`` if that is there, else the first.
    dedicated : (str, str), optional
        Names of a policy and of its run with every user alone on its own servers.

    Notes
    -----
    Cost O(T + J) for each policy.
    """
    names = list(outcomes)
    if today is None:
        today = RECORDED if RECORDED in outcomes else names[0]
    alone = None if dedicated is None else dedicated[1]
    others = tuple(_against(outcomes, name, today) for name in names if name not in (today, alone))
    sharing = None if dedicated is None else _against(outcomes, *dedicated)
    return Standing(outcomes, today, others, sharing)


def _means_of_both(ours: FloatArray, theirs: FloatArray) -> tuple[float, float]:
    """Return the mean of each over the jobs where both have a number."""
    both = ~np.isnan(ours + theirs)
    return mean(ours[both]), mean(theirs[both])


def _against(outcomes: Mapping[str, Outcome], name: str, today: str) -> Against:
    ours, theirs = outcomes[name], outcomes[today]
    return Against(name, ours, theirs, compare(ours.summary, theirs.summary))


def most_used(outcome: Outcome) -> float:
    """Return the largest part of any resource in use in any bin of time; a log may pass 1."""
    share = outcome.summary.utilization.share
    return float(np.nanmax(share, initial=0.0))


def is_overfull(outcome: Outcome) -> bool:
    """Return whether more ran, in the mean of some bin of time, than the servers there hold."""
    return most_used(outcome) > 1 + SAME_USE


@dataclass(frozen=True)
class CannotRun:
    """Tasks that could run nowhere.

    Attributes
    ----------
    names : tuple of str
        Under which policies.
    tasks : int
        How many.
    jobs : tuple of str
        Of which jobs, in the order they came.
    everywhere : bool
        Whether those are all policies that there are.
    """

    names: tuple[str, ...]
    tasks: int
    jobs: tuple[str, ...]
    everywhere: bool


def what_cannot_run(outcomes: Mapping[str, Outcome]) -> list[CannotRun]:
    """Return which tasks could run nowhere, once for all policies with which they are the same."""
    alike: dict[tuple[tuple[str, ...], int], list[str]] = {}
    for name, outcome in outcomes.items():
        tasks = int(outcome.workload.set_tasks[outcome.log.set_unplaceable].sum())
        if tasks:
            alike.setdefault((outcome.unplaceable_jobs, tasks), []).append(name)
    return [
        CannotRun(tuple(names), tasks, jobs, everywhere=len(names) == len(outcomes))
        for (jobs, tasks), names in alike.items()
    ]
