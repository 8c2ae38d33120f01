"""Compare policies with a reference policy, and name the users with the largest differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.run_log import RECORDED
from fairlead.model.ties import first_largest, first_smallest
from fairlead.model.workload import Workload
from fairlead.report.charts import shortened
from fairlead.report.numbers import (
    UNCHANGED,
    change,
    counted,
    duration,
    named,
    number,
    percent,
    spread,
)
from fairlead.simulation.log_audit import worst_time
from fairlead.simulation.metrics.comparison import Comparison, compare
from fairlead.simulation.metrics.distribution import mean, ratio
from fairlead.simulation.metrics.fairness_error import FairnessError
from fairlead.simulation.metrics.utilization import time_averages
from fairlead.simulation.simulate import Outcome

LONGEST_NAME = 80
MULTIPLE = 10.0  # larger ratios are written as multiples, smaller ones as percentages
USERS_NAMED = 3
# A smaller excess, relative to capacity, counts as rounding, as many logs have whole seconds.
LARGEST_ROUNDING = 1e-3
HALF_SECOND = 0.5  # run time of jobs that ended in the second of their start
ROUNDED = 9  # digits of cluster-hours, beyond which they are rounding

Figures = Mapping[str, Any]  # as `Outcome.to_dict` returns them

BY_TASKS = "by tasks completed"  # in place of a change of completion times, if none is known


@dataclass(frozen=True, eq=False)
class ComparedPolicy:
    """A policy compared with the reference policy, for N users."""

    name: str
    outcome: Outcome
    reference: Outcome
    comparison: Comparison

    def means(self, time: str) -> tuple[float, float]:
        """Return the mean ``completion`` or ``wait`` under this policy and the reference.

        The means are in seconds, over jobs complete under both.
        """
        runs = self.outcome, self.reference
        policy, reference = (getattr(run.summary.jobs, time) for run in runs)
        both = ~np.isnan(policy + reference)
        return mean(policy[both]), mean(reference[both])

    @property
    def unchanged(self) -> BoolArray:
        """(N,) bool: users that neither gain nor lose."""
        comparison = self.comparison
        same: BoolArray = ~(comparison.gained | comparison.lost | comparison.unknown)
        return same

    @property
    def wait_difference(self) -> FloatArray:
        """(N,) float: mean wait minus that under the reference, in seconds; 0 where unchanged.

        Only jobs complete under both count. A difference that is negligible relative to the
        completion time is no change.
        """
        difference = self.comparison.wait_difference
        same = np.abs(difference) < UNCHANGED * self.comparison.baseline_completion
        return np.where(same | np.isnan(difference), 0.0, difference)

    def extreme(self, users: BoolArray, *, reduction: bool) -> str:
        """Return the name of the user with the largest change of completion time, and the change.

        Only `users` (N,) count. The change is the largest reduction if `reduction`, else the
        largest increase. Returns `BY_TASKS` if no change of completion times is known, and "" if
        `users` is empty.
        """
        comparison = self.comparison
        ratios = np.where(users & (comparison.jobs > 0), comparison.completion_ratio, np.nan)
        if np.isnan(ratios).all():
            return BY_TASKS if users.any() else ""
        n = first_smallest(ratios) if reduction else first_largest(ratios)
        return f"{short_name(comparison.users[n])} {ratio_text(float(ratios[n]))}"


@dataclass(frozen=True, eq=False)
class Runs:
    """All outcomes of a simulation, compared with the reference policy."""

    outcomes: Mapping[str, Outcome]
    reference_name: str
    others: tuple[ComparedPolicy, ...]  # without the run on dedicated servers
    sharing: ComparedPolicy | None  # sharing compared with dedicated servers, if simulated

    @cached_property
    def figures(self) -> dict[str, Figures]:
        """The figures of every run, by name."""
        return {name: outcome.to_dict() for name, outcome in self.outcomes.items()}

    @property
    def baseline(self) -> Outcome:
        """The outcome of the reference policy."""
        return self.outcomes[self.reference_name]

    @property
    def shared(self) -> dict[str, Outcome]:
        """All runs except the run on dedicated servers."""
        names = {self.reference_name, *(policy.name for policy in self.others)}
        return {name: outcome for name, outcome in self.outcomes.items() if name in names}


def compare_with_reference(
    outcomes: Mapping[str, Outcome], reference_name: str | None, dedicated: tuple[str, str] | None
) -> Runs:
    """Compare every policy with a reference policy: the recorded run, or without one the first.

    `reference_name` names another reference. `dedicated` has the names of a policy and of its run
    on dedicated servers.
    """
    if reference_name is None:
        reference_name = RECORDED if RECORDED in outcomes else next(iter(outcomes))

    def against(name: str, base: str) -> ComparedPolicy:
        policy, reference = outcomes[name], outcomes[base]
        comparison = compare(policy.summary, reference.summary)
        return ComparedPolicy(name, policy, reference, comparison)

    dedicated_run = dedicated and dedicated[1]
    left_out = (reference_name, dedicated_run)
    others = tuple(against(name, reference_name) for name in outcomes if name not in left_out)
    return Runs(outcomes, reference_name, others, against(*dedicated) if dedicated else None)


def largest_utilization(outcome: Outcome) -> float:
    """Return the largest utilization of any resource in any time bin; in some logs above 1."""
    return float(np.nanmax(outcome.summary.utilization.share, initial=0.0))


def takes_too_much(outcome: Outcome) -> bool:
    """Return whether tasks took more than the servers have, by more than rounding.

    In a log of whole seconds a job may end in the second in which the next job starts. Only jobs
    of 0 s, which count as half a second, overlap the next job by rounding; they are left out.
    """
    use, workload, log = outcome.summary.utilization, outcome.workload, outcome.log
    if largest_utilization(outcome) <= 1 + LARGEST_ROUNDING:
        return False
    brief = workload.task_duration[log.task] <= HALF_SECOND
    shape = np.repeat(workload.set_shape, workload.set_tasks)[log.task[brief]]
    of_brief = time_averages(log.start[brief], log.end[brief], workload.shapes[shape], use.edges)
    share = ratio(use.used - of_brief, use.available)
    return bool(np.nanmax(share, initial=0.0) > 1 + LARGEST_ROUNDING)


def unplaceable_tasks(outcomes: Mapping[str, Outcome], jobs_named: int) -> list[str]:
    """List unplaceable tasks, with the policies under which they are unplaceable."""
    alike: dict[tuple[tuple[str, ...], int], list[str]] = {}
    for name, outcome in outcomes.items():
        tasks = int(outcome.summary.outcomes.unplaceable.sum())
        if tasks:
            alike.setdefault((outcome.unplaceable_jobs, tasks), []).append(name)
    lines = []
    for (jobs, tasks), names in alike.items():
        where = "every policy" if len(names) == len(outcomes) else "; ".join(names)
        listed = named([short_name(job) for job in jobs], jobs_named)
        n_jobs = counted(len(jobs), "job")
        lines.append(f"{counted(tasks, 'task')} of {n_jobs}, under {where}: {listed}")
    return lines


def short_name(name: str) -> str:
    """Shorten the name of a user, job or policy."""
    return shortened(name, LONGEST_NAME)


def ratio_text(ratio: float) -> str:
    """Format a ratio of completion times: ``−45 %``, ``12 times as long``, ``unchanged``."""
    if ratio >= MULTIPLE:
        return f"{spread(ratio)} times as long"
    return change(ratio - 1.0)


def starved_users(figures: Figures) -> list[str]:
    """Name the users that never ran a task, and the other users that ran none while jobs arrived.

    Returns a phrase for each of the two, unless it has no users.
    """
    never = figures["never_ran"]
    got_nothing = [user for user in figures["got_nothing"] if user not in set(never)]
    return [
        f"{named([short_name(user) for user in users], USERS_NAMED)} {what}"
        for users, what in (
            (never, "never ran anything"),
            (got_nothing, "got nothing while jobs arrived"),
        )
        if users
    ]


def extremes_text(
    fairness: FairnessError, waits: Mapping[str, float], workload: Workload | None = None
) -> str:
    """Name the users that were owed most, held most beyond their share, and waited longest.

    `waits` maps each user to the longest time in seconds in which its tasks waited and none ran.
    With a `workload` the sentence says when most of the owed hours arose.
    """
    names, owed, due = list(waits), fairness.owed.round(ROUNDED), fairness.due_hours
    longest = np.fromiter(waits.values(), dtype=float)
    parts = []
    if owed.max() > 0:
        n = int(owed.argmax())
        part = f"{percent(owed[n] / due[n])} of its fair share"
        if workload is not None and (worst := worst_time(fairness, n)) is not None:
            begin, end = (short_time(workload, time) for time in worst)
            part += f", most of it from {begin} to {end}"
        hours = f"{number(owed[n])} hours of the whole cluster"
        parts.append(f"owed most: {_first(names, owed)}, {hours} ({part})")
    if owed.min() < 0:
        n = int(owed.argmin())
        part = f" ({change(-owed[n] / due[n])})" if due[n] > 0 else ""
        hours = f"{number(-owed[n])} {'such hours' if parts else 'hours of the whole cluster'}"
        parts.append(f"held most beyond its fair share: {_first(names, -owed)}, {hours}{part}")
    if longest.max() > 0:
        wait = duration(float(longest.max()))
        parts.append(f"waited longest with nothing running: {_first(names, longest)}, {wait}")
    if fairness.has_no_answer:
        parts.insert(0, "no fair shares are known")
    return "; ".join(parts) or "every user held its fair share all the time"


def short_time(workload: Workload, seconds: float) -> str:
    """Write a time as a date without seconds, if the log has dates."""
    date = workload.date_of(seconds)
    return duration(seconds) if date is None else f"{date:%Y-%m-%d %H:%M}"


def _first(names: list[str], values: FloatArray) -> str:
    """Name the first user with the largest value, and count further users with that value."""
    users = np.flatnonzero(values == values.max())
    equal = f" and {len(users) - 1} more, each" if len(users) > 1 else ""
    return f"{short_name(names[users[0]])}{equal}"
