"""Compare policies with today's: gains and losses of users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.run_log import RECORDED
from fairlead.model.ties import first_largest, first_smallest
from fairlead.report.charts import shortened
from fairlead.report.numbers import UNCHANGED, change, counted, duration, named, spread
from fairlead.simulation.metrics.comparison import Comparison, compare
from fairlead.simulation.metrics.distribution import mean, ratio
from fairlead.simulation.metrics.utilization import time_averages
from fairlead.simulation.simulate import Outcome

LONGEST_NAME = 80
MULTIPLE = 10.0  # larger ratios are written as multiples, smaller ones as percentages
USERS_NAMED = 3
# Of capacity: a smaller excess is rounding, as many logs have whole seconds.
MOST_OVERLAP = 1e-3
HALF_SECOND = 0.5  # run time of jobs that ended in the second of their start

Figures = Mapping[str, Any]  # as `Outcome.to_dict` returns them

BY_TASKS = "by tasks completed"


@dataclass(frozen=True, eq=False)
class ComparedPolicy:
    """A policy compared with today's; N users."""

    name: str
    outcome: Outcome
    today: Outcome
    comparison: Comparison

    def means(self, what: str) -> tuple[float, float]:
        """Return mean ``completion`` or ``wait``, and today's, of jobs complete under both."""
        ours, theirs = (getattr(run.summary.jobs, what) for run in (self.outcome, self.today))
        both = ~np.isnan(ours + theirs)
        return mean(ours[both]), mean(theirs[both])

    @property
    def unchanged(self) -> BoolArray:
        """(N,) bool: users that neither gain nor lose."""
        comparison = self.comparison
        same: BoolArray = ~(comparison.gained | comparison.lost | comparison.unknown)
        return same

    @property
    def wait_difference(self) -> FloatArray:
        """(N,) float: mean wait less today's, of jobs complete under both; 0 where unchanged.

        A wait is unchanged if it differs by a negligible part of the completion time.
        """
        difference = self.comparison.wait_difference
        same = np.abs(difference) < UNCHANGED * self.comparison.baseline_completion
        return np.where(same | np.isnan(difference), 0.0, difference)

    def extreme(self, users: BoolArray, *, least: bool) -> str:
        """Name the user among `users` whose completion time changes most, with the change."""
        comparison = self.comparison
        ratios = np.where(users & (comparison.jobs > 0), comparison.completion_ratio, np.nan)
        if np.isnan(ratios).all():
            return BY_TASKS if users.any() else ""
        n = first_smallest(ratios) if least else first_largest(ratios)
        return f"{short_name(comparison.users[n])} {ratio_text(float(ratios[n]))}"


@dataclass(frozen=True, eq=False)
class Runs:
    """All outcomes of a simulation, compared with today's policy."""

    outcomes: Mapping[str, Outcome]
    today: str
    others: tuple[ComparedPolicy, ...]  # without the run on dedicated servers
    sharing: ComparedPolicy | None  # sharing compared with dedicated servers, if simulated

    @property
    def baseline(self) -> Outcome:
        """The outcome of today's policy."""
        return self.outcomes[self.today]

    @property
    def shared(self) -> dict[str, Outcome]:
        """All runs except that on dedicated servers, whose time differs."""
        names = {self.today, *(against.name for against in self.others)}
        return {name: outcome for name, outcome in self.outcomes.items() if name in names}


def compare_with_today(
    outcomes: Mapping[str, Outcome], today: str | None, dedicated: tuple[str, str] | None
) -> Runs:
    """Compare every policy with today's; the arguments are as of `simulation_document`."""
    if today is None:
        today = RECORDED if RECORDED in outcomes else next(iter(outcomes))

    def against(name: str, base: str) -> ComparedPolicy:
        ours, theirs = outcomes[name], outcomes[base]
        return ComparedPolicy(name, ours, theirs, compare(ours.summary, theirs.summary))

    alone = dedicated and dedicated[1]
    others = tuple(against(name, today) for name in outcomes if name not in (today, alone))
    return Runs(outcomes, today, others, against(*dedicated) if dedicated else None)


def most_used(outcome: Outcome) -> float:
    """Return the highest use of any resource in any bin of time; some logs exceed 1."""
    return float(np.nanmax(outcome.summary.utilization.share, initial=0.0))


def takes_too_much(outcome: Outcome) -> bool:
    """Return whether tasks took more than the servers have, by more than rounding.

    In a log of whole seconds a job ends in the second in which the next one starts. Only jobs of
    0 s, which are taken as half a second, overlap the next one by rounding; they are left out.
    """
    use, workload, log = outcome.summary.utilization, outcome.workload, outcome.log
    if most_used(outcome) <= 1 + MOST_OVERLAP:
        return False
    brief = workload.task_duration[log.task] <= HALF_SECOND
    shape = np.repeat(workload.set_shape, workload.set_tasks)[log.task[brief]]
    of_brief = time_averages(log.start[brief], log.end[brief], workload.shapes[shape], use.edges)
    share = ratio(use.used - of_brief, use.available)
    return bool(np.nanmax(share, initial=0.0) > 1 + MOST_OVERLAP)


def unplaceable_tasks(outcomes: Mapping[str, Outcome], jobs_named: int) -> list[str]:
    """List tasks that could run nowhere, once for all policies with the same ones."""
    alike: dict[tuple[tuple[str, ...], int], list[str]] = {}
    for name, outcome in outcomes.items():
        tasks = int(outcome.summary.outcomes.unplaceable.sum())
        if tasks:
            alike.setdefault((outcome.unplaceable_jobs, tasks), []).append(name)
    lines = []
    for (jobs, tasks), names in alike.items():
        where = "every policy" if len(names) == len(outcomes) else "; ".join(names)
        listed = named([short_name(job) for job in jobs], jobs_named)
        of = counted(len(jobs), "job")
        lines.append(f"{counted(tasks, 'task')} of {of}, under {where}: {listed}")
    return lines


def short_name(name: str) -> str:
    """Shorten the name of a user, job or policy."""
    return shortened(name, LONGEST_NAME)


def ratio_text(ratio: float) -> str:
    """Format a ratio of completion times: ``−45 %``, ``12 times as long``, ``unchanged``."""
    if ratio >= MULTIPLE:
        return f"{spread(ratio)} times as long"
    return change(ratio - 1.0)


def difference_text(seconds: float) -> str:
    """Format a difference of times: ``+3.2 h``, ``−12 min``."""
    return f"{'−' if seconds < 0 else '+'}{duration(abs(seconds))}"


def unrecorded(figures: Figures) -> str:
    """Count the work whose time the log lacks: ``3 tasks of 2 jobs``."""
    tasks, jobs = figures["unrecorded"], figures["jobs_unrecorded"]
    return f"{counted(tasks, 'task')} of {counted(jobs, 'job')}"


def starved_users(figures: Figures) -> list[str]:
    """Name users that never ran anything, and users that ran nothing while jobs arrived."""
    never = figures["never_ran"]
    later = [user for user in figures["got_nothing"] if user not in set(never)]
    return [
        f"{named([short_name(user) for user in users], USERS_NAMED)} {what}"
        for users, what in (
            (never, "never ran anything"),
            (later, "got nothing while jobs arrived"),
        )
        if users
    ]
