"""Policies beside the one that is in force today: who gained, who lost, by how much; in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.run_log import RECORDED
from fairlead.model.ties import first_largest, first_smallest
from fairlead.report.charts import shortened
from fairlead.report.numbers import (
    UNCHANGED,
    change,
    counted,
    named,
    short_duration,
    short_percent,
    spread,
)
from fairlead.simulation.metrics.comparison import Comparison, compare
from fairlead.simulation.metrics.distribution import mean
from fairlead.simulation.simulate import Outcome

# Use beyond all that is there by less is rounding.
SAME_USE = 1e-6
LONGEST_NAME = 80
# From here on a completion time is said as a multiple, not as a percentage more.
MULTIPLE = 10.0
STARVED_NAMED = 3
_NONE_COMPLETE = "none is complete under both"

Figures = Mapping[str, Any]


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
    def unchanged(self) -> BoolArray:
        """(N,) bool: users that neither gain nor lose."""
        comparison = self.comparison
        same: BoolArray = ~(comparison.gained | comparison.lost | comparison.unknown)
        return same

    @property
    def other_wait(self) -> FloatArray:
        """(N,) float: mean wait less today's, of jobs complete under both; 0 where unchanged.

        A wait is unchanged where it differs by next to nothing of the time to completion.
        """
        difference = self.comparison.wait_difference
        same = np.abs(difference) < UNCHANGED * self.comparison.baseline_completion
        return np.where(same | np.isnan(difference), 0.0, difference)


@dataclass(frozen=True, eq=False)
class AgainstToday:
    """Everything that was simulated, from the point of view of today's policy."""

    outcomes: Mapping[str, Outcome]
    today: str  # name of today's
    # The others, but for users alone on dedicated servers, in their order.
    others: tuple[Against, ...]
    # The shared cluster against users alone on dedicated servers, if that was simulated.
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


def against_today(
    outcomes: Mapping[str, Outcome],
    today: str | None = None,
    dedicated: tuple[str, str] | None = None,
) -> AgainstToday:
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
    return AgainstToday(outcomes, today, others, sharing)


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


@dataclass(frozen=True)
class CannotRun:
    """Tasks that could run nowhere."""

    names: tuple[str, ...]  # under which policies
    tasks: int  # how many
    jobs: tuple[str, ...]  # of which jobs, in the order they came
    everywhere: bool  # whether those are all policies that there are


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


def facts(against: Against, figures: Figures, today: Figures) -> list[tuple[str, str]]:
    """Describe what a policy would have changed, as labels and texts.

    `figures` and `today` are what `Outcome.to_dict` returned of both.
    """
    return [
        ("jobs", _jobs(against)),
        ("waiting", _waiting(against)),
        *_over_all_tasks(against, figures, today),
        *_unfinished(against),
    ]


def beside(figures: Figures, today: Figures, key: str, write: Callable[[float], str]) -> str:
    """Write a figure beside today's: ``12 % instead of 34 %``, ``12 %, unchanged``."""
    sides = (figures[key], today[key])
    ours, theirs = ("unknown" if side is None else write(side) for side in sides)
    if None not in sides and abs(sides[0] - sides[1]) < UNCHANGED * abs(sides[1]):
        theirs = ours
    return _instead_of(ours, theirs)


def _instead_of(ours: str, theirs: str) -> str:
    return f"{ours}, unchanged" if ours == theirs else f"{ours} instead of {theirs}"


def ratio_text(ratio: float) -> str:
    """Write how completion times differ: ``−45 %``, ``12 times as long``, ``unchanged``."""
    if ratio >= MULTIPLE:
        return f"{spread(ratio)} times as long"
    return change(ratio - 1.0)


def difference_text(seconds: float) -> str:
    """Write by how much longer or shorter something takes: ``+3.2 h``, ``−12 min``."""
    return f"{'−' if seconds < 0 else '+'}{short_duration(abs(seconds))}"


def most_of(against: Against, whose: BoolArray, *, least: bool) -> str:
    """Describe by how much those users gained or lost, and who did most."""
    comparison = against.comparison
    ratios = np.where(whose & (comparison.jobs > 0), comparison.completion_ratio, np.nan)
    if np.isnan(ratios).all():
        return "by tasks completed" if whose.any() else ""
    n = first_smallest(ratios) if least else first_largest(ratios)
    name = shortened(comparison.users[n], LONGEST_NAME)
    ours, theirs = comparison.completion[n], comparison.baseline_completion[n]
    most = (
        f"{name}, {ratio_text(float(ratios[n]))} ({short_duration(float(ours))} instead of "
        f"{short_duration(float(theirs))}, {counted(int(comparison.jobs[n]), 'job')})"
    )
    if int(whose.sum()) == 1:
        return most
    return f"{ratio_text(float(np.nanmedian(ratios)))} in the median; most: {most}"


def _jobs(against: Against) -> str:
    ours, theirs = against.job_means
    if np.isnan(ours):
        return _NONE_COMPLETE
    text = f"mean completion {short_duration(ours)}"
    if abs(ours - theirs) <= UNCHANGED * theirs:
        return f"{text}, unchanged"
    times = ratio_text(ours / theirs)
    return f"{text} instead of {short_duration(theirs)} ({times}), of those complete under both"


def _waiting(against: Against) -> str:
    ours, theirs = against.wait_means
    if np.isnan(ours):
        return _NONE_COMPLETE
    difference = against.other_wait
    means = _instead_of(short_duration(ours), short_duration(theirs))
    parts = [f"{means} in the mean of those jobs"]
    for whose, how, extreme in (
        (difference < 0, "less", first_smallest),
        (difference > 0, "longer", first_largest),
    ):
        if whose.any():
            of = np.where(whose, difference, 0.0)
            n = extreme(of)
            name = shortened(against.comparison.users[n], LONGEST_NAME)
            middle = difference_text(float(np.median(difference[whose])))
            most = f"{name}, {difference_text(float(of[n]))}"
            users = counted(int(whose.sum()), "user")
            parts.append(
                f"{users} {'waits' if whose.sum() == 1 else 'wait'} {how} "
                + (f"({most})" if whose.sum() == 1 else f"({middle} in the median; most: {most})")
            )
    return "; ".join(parts)


def _over_all_tasks(
    against: Against, figures: Figures, today: Figures
) -> Iterator[tuple[str, str]]:
    """Describe sums over all tasks; where the tasks differ, name that."""
    facts = (
        _used(figures, today),
        ("makespan", beside(figures, today, "makespan", short_duration)),
        ("fairness error", beside(figures, today, "fairness_error", short_percent)),
    )
    for label, text in facts:
        yield label, text if against.is_all_known else f"{text} (not comparable)"
    if not against.is_all_known:
        side = figures if figures["unrecorded"] else today
        yield (
            "not known when they ran",
            f"{unrecorded(side)}: in {RECORDED} they are in no figure, so that use, makespan and "
            "fairness error are not comparable",
        )


def unrecorded(figures: Figures) -> str:
    """Count the work whose time the log lacks: ``3 tasks of 2 jobs``."""
    tasks, jobs = figures["unrecorded"], figures["jobs_unrecorded"]
    return f"{counted(tasks, 'task')} of {counted(jobs, 'job')}"


def _used(figures: Figures, today: Figures) -> tuple[str, str]:
    """Describe utilization over the common time: until the horizon."""
    time, label = figures["horizon"]["time"], "in use until its own end"
    sides = figures, today
    if today["horizon"]["time"] == time:
        sides = figures["horizon"], today["horizon"]
        label = f"used, first {short_duration(time)}"
    ours, theirs = (side["utilization"] for side in sides)
    return label, "; ".join(f"{name} {beside(ours, theirs, name, short_percent)}" for name in ours)


def _unfinished(against: Against) -> Iterator[tuple[str, str]]:
    """Describe common tasks that were left undone, where either has any."""
    known = against.comparison.known
    sides = [side.summary for side in (against.outcome, against.today)]
    for label, counts in (
        ("could not run", [side.outcomes.unplaceable[known] for side in sides]),
        ("still waiting in the end", [side.outcomes.waits_forever[known] for side in sides]),
        ("lost with their servers", [side.log.lost[known[side.log.task]] for side in sides]),
    ):
        ours, theirs = (int(count.sum()) for count in counts)
        if ours or theirs:
            yield label, _instead_of(counted(ours, "task"), counted(theirs, "task"))


def got_nothing(figures: Figures, users: int) -> tuple[str, str]:
    """Describe who got nothing while waiting, and for how long; or who waited longest.

    `figures` are as `Outcome.to_dict` returned them. Returns what it is,
    and who.
    """
    starved: Mapping[str, float] = figures["got_nothing"]
    if starved:
        each = [
            f"{shortened(name, LONGEST_NAME)} for {short_duration(seconds)}"
            for name, seconds in list(starved.items())[:STARVED_NAMED]
        ]
        more = f" and {len(starved) - len(each):,} more" if len(starved) > len(each) else ""
        who = f"{len(starved):,} of {counted(users, 'user')}: {', '.join(each)}{more}"
        return "got nothing while waiting", who
    longest = figures["longest_without"]
    if longest is None:
        return "longest wait with nothing", "nobody waited with nothing"
    name = shortened(longest["user"], LONGEST_NAME)
    return "longest wait with nothing", f"{name}, {short_duration(longest['seconds'])}"


def without_anything(figures: Figures) -> list[str]:
    """Name users without any start, and users without one while jobs came."""
    never = figures["never_ran"]
    later = [user for user in figures["got_nothing"] if user not in set(never)]
    return [
        f"{named([shortened(user, LONGEST_NAME) for user in users], STARVED_NAMED)} {what}"
        for users, what in ((never, "never ran anything"), (later, "got nothing while jobs came"))
        if users
    ]
