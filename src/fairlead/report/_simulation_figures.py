"""Pictures of simulations: utilization, shares and times by policy, and counts of gains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypedDict

import numpy as np
import polars as pl

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.run_log import RunLog
from fairlead.model.ties import largest_first
from fairlead.model.workload import Workload
from fairlead.report._policy_comparison import ComparedPolicy, largest_utilization
from fairlead.report.charts import (
    COLOUR_OF_OTHERS,
    COLOURS,
    DASHES,
    EVEN,
    INK,
    LESS,
    MORE,
    SYMBOLS,
    Axis,
    Bars,
    Dots,
    Figure,
    Line,
    hover,
    listed,
    logarithmic_times,
    shortened,
)
from fairlead.report.numbers import UNCHANGED, counted, duration, percent, time_unit
from fairlead.simulation.metrics.distribution import cumulative_distribution
from fairlead.simulation.metrics.dominant_shares import Shares
from fairlead.simulation.metrics.fairness_error import FairnessError
from fairlead.simulation.simulate import Outcome

POINTS = 500  # of a distribution, at most
USERS_APART = 10  # drawn individually; all others together
LONGEST_NAME = 60
# Seconds at which zero times are drawn on a logarithmic axis; less if all times are short.
SHORTEST = 1.0
LEAST_REDUCTION = -1.0  # smaller reductions are drawn as this
MOST_MARKS = 8  # of a time axis
# Steps between marks, as Polars names them, with the longest length; weeks start on Monday.
_STEPS = {
    **{f"{minutes}m": timedelta(minutes=minutes) for minutes in (1, 5, 10, 15, 30)},
    **{f"{hours}h": timedelta(hours=hours) for hours in (1, 2, 3, 6, 12)},
    **{f"{days}d": timedelta(days=days) for days in (1, 2)},
    **{f"{weeks}w": timedelta(weeks=weeks) for weeks in (1, 2)},
    **{
        f"{months}mo": timedelta(days=31 * months)
        for months in (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
    },
}


class PolicyStyle(TypedDict):
    """Line style of one policy, the same in every picture: arguments of `charts.Line`."""

    colour: str
    dash: str
    width: float


def policy_styles(names: Sequence[str], reference: str) -> dict[str, PolicyStyle]:
    """Choose line styles: the reference policy gets the text's colour, other policies their own.

    Earlier lines are wider, so that coinciding lines stay visible.
    """
    others = [name for name in names if name != reference]
    styles = {}
    for k, name in enumerate(names):
        width = round(4.0 - 2.4 * k / max(1, len(names) - 1), 2)
        rank = 0 if name == reference else others.index(name)
        colour = INK if name == reference else COLOURS[rank % len(COLOURS)]
        dash = DASHES[rank // len(COLOURS) % len(DASHES)]
        styles[name] = PolicyStyle(colour=colour, dash=dash, width=width)
    return styles


def balance_figure(others: Sequence[ComparedPolicy]) -> Figure:
    """Draw the fractions of users that gain and lose under each policy."""
    names = [against.name for against in others]
    users = max(1, len(others[0].comparison.users))
    counts = [
        ("gain", MORE, [a.comparison.gained for a in others]),
        ("unchanged", EVEN, [a.unchanged for a in others]),
        ("lose", LESS, [a.comparison.lost for a in others]),
    ]
    traces = []
    for what, colour, masks in counts:
        parts = np.array([mask.sum() / users for mask in masks])
        texts = [
            hover(name, f"{counted(int(mask.sum()), 'user')} {what}")
            for name, mask in zip(names, masks, strict=True)
        ]
        traces.append(Bars(what, range(len(names)), parts, texts, colour))
    return listed(names, traces, "users", ends=(0.0, 1.0), has_legend=True)


def utilisation_figure(
    outcomes: Mapping[str, Outcome], styles: Mapping[str, PolicyStyle], resource: int
) -> Figure:
    """Draw the utilization of a resource over time, a line for each policy."""
    axis = _TimeAxis(
        next(iter(outcomes.values())).workload, max(o.summary.until for o in outcomes.values())
    )
    traces = []
    for name, outcome in outcomes.items():
        utilization = outcome.summary.utilization
        middles, y = _middles(utilization.edges), utilization.share[:, resource]
        texts = axis.shares(_short(name), middles, y)
        traces.append(Line(_short(name), middles / axis.size, y, texts, **styles[name]))
    top = max(1.0, *(largest_utilization(outcome) for outcome in outcomes.values()))
    return axis.figure(traces, 250, Axis(ends=(0.0, 1.03 * top), is_share=True))


def users_drawn(runs: Sequence[Shares]) -> IntArray:
    """Return the users with the largest holdings, summed over time and all runs."""
    held = np.sum([np.diff(shares.edges) @ shares.dominant for shares in runs], axis=0)
    largest = largest_first(held)[:USERS_APART]
    chosen: IntArray = largest[held[largest] > 0]
    return chosen


def shares_figure(workload: Workload, shares: Shares, users: IntArray, until: float) -> Figure:
    """Draw stacked dominant shares over time, of each of `users` and of all others together.

    `users` has U indices; `until` is the end of the axis, in seconds.
    """
    names = workload.users
    axis = _TimeAxis(workload, until)
    rest = shares.dominant.sum(axis=1) - shares.dominant[:, users].sum(axis=1)
    bands = [
        (names[n], COLOURS[k % len(COLOURS)], shares.dominant[:, n])
        for k, n in enumerate(users.tolist())
    ]
    if len(names) > len(users):
        others = counted(len(names) - len(users), "other user")
        bands.append((others, COLOUR_OF_OTHERS, np.maximum(rest, 0.0)))
    middles = _middles(shares.edges)
    traces = []
    for name, colour, held in bands:
        texts = axis.shares(shortened(name), middles, held)
        x = middles / axis.size
        traces.append(Line(shortened(name), x, held, texts, colour, is_band=True))
    return axis.figure(traces, 340, Axis(is_share=True))


def completion_figure(
    outcomes: Mapping[str, Outcome], styles: Mapping[str, PolicyStyle]
) -> Figure | None:
    """Draw the distribution of completion times of complete jobs."""
    times = {name: outcome.summary.jobs.completion for name, outcome in outcomes.items()}
    known = {name: found for name, found in times.items() if not np.isnan(found).all()}
    if not known:
        return None
    longest = max(float(np.nanmax(found)) for found in known.values())
    shortest = min(float(np.nanmin(found)) for found in known.values())
    floor = max(shortest, SHORTEST if longest > 10 * SHORTEST else longest / 1e4) or SHORTEST
    axis = logarithmic_times(floor / 1.1, max(longest, 2 * floor) * 1.1)
    return _distribution(known, styles, axis, floor, lambda time: f"within {duration(time)}")


def slowdown_figure(
    outcomes: Mapping[str, Outcome], styles: Mapping[str, PolicyStyle]
) -> Figure | None:
    """Draw the distribution of slowdowns of complete jobs."""
    slowdowns = {name: outcome.summary.jobs.slowdown for name, outcome in outcomes.items()}
    known = {name: found for name, found in slowdowns.items() if not np.isnan(found).all()}
    if not known:
        return None
    most = max(float(np.nanmax(found, initial=1.0)) for found in known.values())
    top = max(float(np.log10(most)), 0.35)
    powers = [10.0**k for k in range(int(top) + 1)]
    among = [p * f for p in powers for f in (2.0, 5.0) if p * f <= most * 1.05]
    marks = sorted(powers + (among if len(powers) < 4 else []))
    axis = Axis(
        ends=(10 ** (-0.02 * top), 10 ** (1.02 * top)),
        marks=[(mark, f"{mark:,.0f}") for mark in marks],
        is_log=True,
        has_grid=False,
    )
    return _distribution(known, styles, axis, 1.0, "at most {:.3g} times".format)


def reduction_figure(
    others: Sequence[ComparedPolicy], styles: Mapping[str, PolicyStyle]
) -> Figure | None:
    """Draw the reduction of completion times against the reference, by number of tasks."""
    labels = others[0].comparison.reduction.labels
    some = [
        k
        for k in range(len(labels))
        if any(against.comparison.reduction.jobs[k] for against in others)
    ]
    if not some:
        return None
    traces = []
    for rank, against in enumerate(others):
        reduction, style = against.comparison.reduction, styles[against.name]
        texts = [
            hover(
                _short(against.name),
                f"{counted(int(reduction.jobs[k]), 'job')} of {labels[k]} tasks",
                f"mean completion time {_reduction_text(reduction.of_means[k])}",
                f"mean of the jobs' own changes {_reduction_text(reduction.mean[k])}",
                f"{int(reduction.shortened[k]):,} sooner, {int(reduction.lengthened[k]):,} later",
            )
            for k in some
        ]
        heights = np.maximum(reduction.of_means, LEAST_REDUCTION)[some]
        name, symbol = _short(against.name), SYMBOLS[rank % len(SYMBOLS)]
        traces.append(Dots(name, range(len(some)), heights, texts, style["colour"], symbol=symbol))
    x = Axis(
        "tasks of the job",
        ends=(-0.5, len(some) - 0.5),
        marks=list(enumerate(labels[k] for k in some)),
        has_grid=False,
    )
    return Figure(traces, x, Axis(is_share=True), 320, has_legend=True)


def running_figure(log: RunLog) -> Figure | None:
    """Draw the number of running tasks over time; None if no task started."""
    if not len(log.task):
        return None
    times = np.unique(np.concatenate([[0.0], log.start, log.end]))
    if len(times) > POINTS:
        times = np.linspace(0.0, log.makespan, POINTS)
    started = np.searchsorted(np.sort(log.start), times, side="right")
    running = started - np.searchsorted(np.sort(log.end), times, side="right")
    unit, size = time_unit(log.makespan)
    name = "running tasks"
    texts = [
        hover(name, f"{n} at {t:.4g} {unit}")
        for n, t in zip(running.tolist(), (times / size).tolist(), strict=True)
    ]
    trace = Line(name, times / size, running, texts, COLOURS[0], is_stairs=True)
    return Figure([trace], Axis(unit=unit, steps=8, has_grid=False), Axis())


def _short(name: str) -> str:
    return shortened(name, LONGEST_NAME)


def _reduction_text(reduction: float) -> str:
    if not np.isfinite(reduction):
        return "unknown"
    if abs(reduction) < UNCHANGED:
        return "unchanged"
    return f"{percent(abs(reduction))} {'longer' if reduction < 0 else 'shorter'}"


def _middles(edges: FloatArray) -> FloatArray:
    return (edges[1:] + edges[:-1]) / 2


def _distribution(
    known: Mapping[str, FloatArray],
    styles: Mapping[str, PolicyStyle],
    axis: Axis,
    least: float,
    text_of: Callable[[float], str],
) -> Figure:
    """Draw the distribution of a number of each job, by policy; numbers below `least` are at it.

    Lines are stairs, as no job has a value between two of the points. `axis` is the horizontal
    axis; `text_of` formats a number for the text under the pointer.
    """
    traces = []
    for name, found in known.items():
        value, part = cumulative_distribution(found, POINTS)
        texts = [
            hover(_short(name), f"{p:.1%} of jobs {text_of(v)}")
            for v, p in zip(value.tolist(), part.tolist(), strict=True)
        ]
        x = np.maximum(value, least)
        traces.append(Line(_short(name), x, part, texts, is_stairs=True, **styles[name]))
    return Figure(traces, axis, Axis(ends=(0.0, 1.03), is_share=True), has_legend=True)


def held_and_due_figure(workload: Workload, fairness: FairnessError, user: int) -> Figure:
    """Draw the dominant share that a user holds over time, and its fair share."""
    until = float(fairness.time[-1]) + fairness.interval / 2
    axis = _TimeAxis(workload, until)
    edges = fairness.since + fairness.interval * np.arange(len(fairness.time) + 1)
    weight = fairness.weight[user]
    traces = []
    for name, shares, colour, dash in (
        ("holds", fairness.held, INK, "solid"),
        ("is due", fairness.fair, MORE, "dash"),
    ):
        share = shares[:, user] * weight
        changed = np.flatnonzero(np.diff(share, prepend=np.nan) != 0)
        x = np.repeat(edges[[*changed, -1]], 2)[1:-1]
        y = np.repeat(share[changed], 2)
        texts = axis.shares(name, x, y)
        traces.append(Line(name, x / axis.size, y, texts, colour, dash=dash))
    return axis.figure(traces, 170, Axis(is_share=True), fairness.since)


class _TimeAxis:
    """A time axis: dates if the log has them, else the time since its start."""

    def __init__(self, workload: Workload, until: float) -> None:
        self._workload = workload
        self._ends = workload.date_of(0.0), workload.date_of(until)
        self._until = until
        self.unit, self.size = time_unit(until)

    def shares(self, name: str, seconds: FloatArray, shares: FloatArray) -> list[str]:
        """Return texts under the pointer: the share and the time of each point."""
        return [
            hover(name, "" if np.isnan(share) else f"{percent(share)} at {self._text(second)}")
            for second, share in zip(seconds.tolist(), shares.tolist(), strict=True)
        ]

    def _text(self, seconds: float) -> str:
        date = self._workload.date_of(seconds)
        return (
            f"{seconds / self.size:.4g} {self.unit}"
            if date is None
            else f"{date:%a} {date.day} {date:%b %H:%M}"
        )

    def figure(self, traces: Sequence[Line], height: int, up: Axis, since: float = 0.0) -> Figure:
        """Return a figure over the time from `since` on, in seconds."""
        ends = since / self.size, self._until / self.size
        marks = None
        first, last = self._ends
        if first is not None and last is not None:
            dates = date_marks(first, last)
            marks = [((date - first).total_seconds() / self.size, text) for date, text in dates]
        across = Axis(ends=ends, marks=marks, unit=self.unit, steps=8, has_grid=False)
        return Figure(traces, across, up, height, has_legend=True)


def date_marks(first: datetime, last: datetime) -> list[tuple[datetime, str]]:
    """Return at most `MOST_MARKS` round dates between two dates, with their labels."""
    for step, length in _STEPS.items():
        if (last - first) / length > MOST_MARKS + 1:
            continue
        begin = pl.Series([first]).dt.truncate(step).item()
        dates = pl.datetime_range(begin, last, step, eager=True)
        marks = dates.filter(dates >= first).to_list()
        if marks and len(marks) <= MOST_MARKS:
            return list(zip(marks, _mark_texts(marks, step), strict=True))
    return []


def _mark_texts(marks: list[datetime], step: str) -> Iterator[str]:
    """Yield the labels of marks; the month only where it changes."""
    month = 0
    for mark in marks:
        if step.endswith("mo"):
            yield f"{mark:%b %Y}"
        elif mark.hour or mark.minute:
            yield f"{mark:%H:%M}"
        else:
            yield f"{mark:%a} {mark.day}{'' if mark.month == month else f' {mark:%b}'}"
            month = mark.month
