"""What a policy would have changed, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.run_log import RECORDED
from fairlead.model.ties import first_largest, first_smallest
from fairlead.report.audit_standing import change
from fairlead.report.figures import shortened
from fairlead.report.numbers import counted, short_percent, spread
from fairlead.report.simulation_standing import Against
from fairlead.report.times import short_duration

LONGEST_NAME = 80
# From here on a completion time is said as a multiple, not as a percentage more.
MULTIPLE = 10.0
STARVED_NAMED = 3
_AS_TODAY = "as today"
_NONE_COMPLETE = "none is complete under both"

Figures = Mapping[str, Any]


def sentences(against: Against, figures: Figures, today: Figures) -> dict[str, Any]:
    """Say what a policy would have changed.

    Parameters
    ----------
    against : Against
    figures, today : mapping
        Of the policy and of today's, as `fairlead.metrics.outcomes.Outcome.to_dict` returned them.

    Returns
    -------
    dict
        For the page: the name, counts of who gained and lost with the most of each, and facts,
        each a label and a text.
    """
    comparison = against.comparison
    gained, lost, unknown = comparison.gained, comparison.lost, comparison.unknown
    return {
        "name": against.name,
        "users": len(comparison.users),
        "gained": int(gained.sum()),
        "lost": int(lost.sum()),
        "same": int((~gained & ~lost & ~unknown).sum()),
        "unknown": int(unknown.sum()),
        "gained_most": _most(against, gained, least=True),
        "lost_most": _most(against, lost, least=False),
        "facts": [
            ("jobs", _jobs(against)),
            ("waiting", _waiting(against)),
            *_over_all_tasks(against, figures, today),
            *_unfinished(against),
        ],
    }


def beside(figures: Figures, today: Figures, key: str, write: Callable[[float], str]) -> str:
    """Write a figure beside today's: ``12 % instead of 34 %``, ``12 %, as today``."""
    ours, theirs = (
        "unknown" if side[key] is None else write(side[key]) for side in (figures, today)
    )
    return _instead_of(ours, theirs)


def _instead_of(ours: str, theirs: str) -> str:
    return f"{ours}, {_AS_TODAY}" if ours == theirs else f"{ours} instead of {theirs}"


def ratio_text(ratio: float) -> str:
    """Write how completion times differ: ``−45 %``, ``+80 %``, ``12 times as long``."""
    if ratio >= MULTIPLE:
        return f"{spread(ratio)} times as long"
    return change(ratio - 1.0).replace(" ", "\u00a0")


def difference_text(seconds: float) -> str:
    """Write by how much longer or shorter something takes: ``+3.2 h``, ``−12 min``."""
    return f"{'−' if seconds < 0 else '+'}{short_duration(abs(seconds))}"


def _most(against: Against, whose: BoolArray, *, least: bool) -> str:
    """Say by how much those users gained or lost, and who did most."""
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
    if short_duration(ours) == short_duration(theirs):
        return f"{text}, {_AS_TODAY}"
    times = ratio_text(ours / theirs)
    return f"{text} instead of {short_duration(theirs)} ({times}), of those complete under both"


def _waiting(against: Against) -> str:
    ours, theirs = against.wait_means
    if np.isnan(ours):
        return _NONE_COMPLETE
    difference = against.comparison.wait_difference
    means = _instead_of(short_duration(ours), short_duration(theirs))
    parts = [f"{means} in the mean of those jobs"]
    for whose, how, extreme in (
        (against.waits_less, "less", first_smallest),
        (against.waits_more, "longer", first_largest),
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
    """Say what is summed up over all tasks, and where those are not the same that it is not."""
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
    """Say of how much the log does not say when it ran: ``3 tasks of 2 jobs``."""
    tasks, jobs = figures["unrecorded"], figures["jobs_unrecorded"]
    return f"{counted(tasks, 'task')} of {counted(jobs, 'job')}"


def _used(figures: Figures, today: Figures) -> tuple[str, str]:
    """Say what was used over the time that both have in common: until the horizon."""
    time, label = figures["horizon"]["time"], "used until the end"
    sides = figures, today
    if today["horizon"]["time"] == time:
        sides = figures["horizon"], today["horizon"]
        label = f"used, first {short_duration(time)}"
    ours, theirs = (side["utilization"] for side in sides)
    return label, "; ".join(f"{name} {beside(ours, theirs, name, short_percent)}" for name in ours)


def _unfinished(against: Against) -> Iterator[tuple[str, str]]:
    """Say which of the tasks that both know were left undone, where some were under either."""
    known = against.comparison.known
    sides = [side.summary for side in (against.outcome, against.today)]
    for label, counts in (
        ("could not run", [side.course.unplaceable[known] for side in sides]),
        ("still waiting in the end", [side.course.waits_forever[known] for side in sides]),
        ("lost with their servers", [side.log.lost[known[side.log.task]] for side in sides]),
    ):
        ours, theirs = (int(count.sum()) for count in counts)
        if ours or theirs:
            yield label, _instead_of(counted(ours, "task"), counted(theirs, "task"))


def got_nothing(
    figures: Figures, users: int, write: Callable[[float], str] = short_duration
) -> tuple[str, str]:
    """Say who got nothing while waiting, and for how long; or who waited longest with nothing.

    `figures` are as `fairlead.metrics.outcomes.Outcome.to_dict` returned them; `write` writes a
    time in seconds. Returns what it is, and who.
    """
    starved: Mapping[str, float] = figures["got_nothing"]
    if starved:
        each = [
            f"{shortened(name, LONGEST_NAME)} for {write(seconds)}"
            for name, seconds in list(starved.items())[:STARVED_NAMED]
        ]
        more = f" and {len(starved) - len(each):,} more" if len(starved) > len(each) else ""
        who = f"{len(starved):,} of {counted(users, 'user')}: {', '.join(each)}{more}"
        return "got nothing while waiting", who
    longest = figures["longest_without"]
    if longest is None:
        return "longest wait with nothing", "nobody waited with nothing"
    name = shortened(longest["user"], LONGEST_NAME)
    return "longest wait with nothing", f"{name}, {write(longest['seconds'])}"


def known(values: FloatArray) -> list[float | None]:
    """Return plain numbers of four digits, None for what is not finite."""
    return [float(f"{v:.4g}") if np.isfinite(v) else None for v in values.tolist()]
