"""The pictures of what policies did with a trace: over time, by job and by job size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.metrics.distribution import cumulative_distribution
from fairlead.metrics.outcomes import Outcome
from fairlead.metrics.waiting import waiting_times
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.ties import largest_first
from fairlead.report.figures import COLOUR_OF_OTHERS, COLOURS, DASHES, Figure, plain, shortened
from fairlead.report.numbers import counted, short_percent
from fairlead.report.simulation_sentences import known
from fairlead.report.simulation_standing import Against, most_used
from fairlead.report.times import logarithmic_times, short_duration, time_unit

POINTS = 500
USERS_DRAWN = 10
LONGEST_NAME = 60
# Times of no length have a place on a logarithmic axis: this one, or earlier if all are short.
SHORTEST = 1.0
# Errors and reductions beyond are drawn as these.
LARGEST_ERROR = 2.0
LEAST_REDUCTION = -1.0
_MARGIN = {"l": 10, "r": 18, "t": 10, "b": 48, "pad": 6}


@dataclass(frozen=True)
class PolicyStyle:
    """How one policy is drawn, the same in every picture of a page."""

    name: str
    key: str
    colour: str
    dash: str
    width: float

    @property
    def line(self) -> dict[str, Any]:
        """For Plotly."""
        return {"color": self.colour, "dash": self.dash, "width": self.width}

    @property
    def css(self) -> str:
        """Colour for a style sheet."""
        return "var(--ink)" if self.colour == "themed" else self.colour


def policy_styles(names: Sequence[str], today: str) -> dict[str, PolicyStyle]:
    """Give today's policy the colour of ink, and the others colours of their own.

    Earlier lines are wider, so that those which coincide are all seen.
    """
    others = [name for name in names if name != today]
    styles = {}
    for k, name in enumerate(names):
        width = round(4.0 - 2.4 * k / max(1, len(names) - 1), 2)
        rank = 0 if name == today else others.index(name)
        colour = "themed" if name == today else COLOURS[rank % len(COLOURS)]
        dash = DASHES[rank // len(COLOURS) % len(DASHES)]
        styles[name] = PolicyStyle(name, f"policy-{k}", colour, dash, width)
    return styles


def utilisation_figure(
    outcomes: Mapping[str, Outcome], styles: Mapping[str, PolicyStyle], resource: int
) -> Figure:
    """Draw which part of a resource is taken over time, a line for each policy."""
    unit, size = time_unit(max(outcome.summary.until for outcome in outcomes.values()))
    traces = []
    for name, outcome in outcomes.items():
        utilization = outcome.summary.utilization
        trace = _line(styles[name], f"%{{y:.1%}} at %{{x:.4g}} {unit}")
        trace |= _over_bins(utilization.edges, size)
        traces.append(trace | {"y": known(utilization.share[:, resource])})
    layout = _over_time(unit, 250)
    top = max(1.0, *(most_used(outcome) for outcome in outcomes.values()))
    layout["yaxis"] |= {"range": [0, 1.03 * top], "tickformat": ".0%", "nticks": 6}
    return {"data": traces, "layout": layout}


def fairness_figure(
    outcomes: Mapping[str, Outcome], styles: Mapping[str, PolicyStyle]
) -> Figure | None:
    """Draw the fairness error over time; None where nobody was ever there to be treated fairly."""
    unit, size = time_unit(max(outcome.summary.arrivals for outcome in outcomes.values()))
    traces = []
    for name, outcome in outcomes.items():
        fairness = outcome.summary.fairness
        if fairness is None or np.isnan(fairness.error).all():
            continue
        trace = _line(styles[name], "%{text} at %{x:.4g} " + unit)
        error = fairness.error
        trace |= {
            "x": known(fairness.time / size),
            "y": known(np.minimum(error, LARGEST_ERROR)),
            "text": ["" if np.isnan(e) else short_percent(e) for e in error.tolist()],
        }
        traces.append(trace)
    if not traces:
        return None
    layout = _over_time(unit, 300)
    layout["yaxis"] |= {"tickformat": ".0%", "rangemode": "tozero", "nticks": 6}
    return {"data": traces, "layout": layout}


def users_drawn(outcomes: Mapping[str, Outcome]) -> IntArray:
    """Return who holds most over the time of all policies together, the largest first.

    Users that never hold anything are not among them.
    """
    held = np.sum(
        [np.diff(o.summary.shares.edges) @ o.summary.shares.dominant for o in outcomes.values()],
        axis=0,
    )
    largest = largest_first(held)[:USERS_DRAWN]
    chosen: IntArray = largest[held[largest] > 0]
    return chosen


def shares_figure(outcome: Outcome, users: IntArray, until: float) -> Figure:
    """Draw the dominant shares of these users over time, one above the other, and of the others.

    `users` (U,) are drawn by themselves; `until` is the end of the axis, in seconds.
    """
    shares, names = outcome.summary.shares, outcome.workload.users
    unit, size = time_unit(until)
    rest = shares.dominant.sum(axis=1) - shares.dominant[:, users].sum(axis=1)
    bands = [
        (names[n], COLOURS[k % len(COLOURS)], shares.dominant[:, n])
        for k, n in enumerate(users.tolist())
    ]
    if len(names) > len(users):
        others = counted(len(names) - len(users), "other user")
        bands.append((others, COLOUR_OF_OTHERS, np.maximum(rest, 0.0)))
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "stackgroup": "users",
            "name": plain(shortened(name)),
            "y": known(values),
            "line": {"color": colour, "width": 0.5},
            "hovertemplate": "%{y:.2%}",
            "fillcolor": colour,
        }
        | _over_bins(shares.edges, size)
        for name, colour, values in bands
    ]
    layout = _over_time(unit, 340)
    layout["xaxis"]["range"] = [0, until / size]
    layout["yaxis"] |= {"tickformat": ".0%", "rangemode": "tozero", "nticks": 6}
    return {"data": traces, "layout": layout | {"hovermode": "x unified"}}


def completion_figure(
    outcomes: Mapping[str, Outcome], styles: Mapping[str, PolicyStyle]
) -> Figure | None:
    """Draw which part of the jobs complete took at most how long."""
    times = {name: outcome.summary.jobs.completion for name, outcome in outcomes.items()}
    return _times_figure(times, styles, "of jobs within")


def waiting_figure(
    outcomes: Mapping[str, Outcome], styles: Mapping[str, PolicyStyle]
) -> Figure | None:
    """Draw which part of the tasks that started waited at most how long."""
    times = {name: waiting_times(outcome.summary.course) for name, outcome in outcomes.items()}
    return _times_figure(times, styles, "of tasks within")


def slowdown_figure(
    outcomes: Mapping[str, Outcome], styles: Mapping[str, PolicyStyle]
) -> Figure | None:
    """Draw which part of the jobs complete was slowed down at most how much."""
    values = {name: outcome.summary.jobs.slowdown for name, outcome in outcomes.items()}
    most = max((float(np.nanmax(v, initial=1.0)) for v in values.values()), default=1.0)
    layout = _distribution_layout()
    top = max(np.log10(most), 0.35)
    powers = [10.0**k for k in range(int(top) + 1)]
    between = [p * f for p in powers for f in (2.0, 5.0) if p * f <= most * 1.05]
    marks = sorted(powers + (between if len(powers) < 4 else []))
    layout["xaxis"] |= {
        "type": "log",
        "range": [-0.02 * top, 1.02 * top],
        "tickvals": marks,
        "ticktext": [_times(mark) for mark in marks],
        "tickangle": 0,
    }
    traces = [
        _line(styles[name], "%{y:.1%} of jobs at most %{x:.3g} times")
        | _steps(*cumulative_distribution(v, POINTS), 1.0)
        for name, v in values.items()
        if not np.isnan(v).all()
    ]
    return {"data": traces, "layout": layout} if traces else None


def reduction_figure(others: Sequence[Against], styles: Mapping[str, PolicyStyle]) -> Figure | None:
    """Draw by how much sooner than today jobs are complete, by their number of tasks."""
    used = [
        k
        for k in range(len(others[0].comparison.reduction.labels))
        if any(against.comparison.reduction.jobs[k] for against in others)
    ]
    if not used:
        return None
    traces = []
    for against in others:
        reduction = against.comparison.reduction
        drawn = np.maximum(reduction.of_means, LEAST_REDUCTION)[used]
        hover = [
            f"<b>{plain(shortened(against.name, LONGEST_NAME))}</b><br>"
            f"{counted(int(reduction.jobs[k]), 'job')} of {reduction.labels[k]} tasks"
            f"<br>mean completion time {_less(reduction.of_means[k])}"
            f"<br>mean of the jobs' own changes {_less(reduction.mean[k])}"
            f"<br>{int(reduction.shortened[k]):,} sooner, {int(reduction.lengthened[k]):,} later"
            for k in used
        ]
        traces.append(
            {
                "type": "bar",
                "name": plain(shortened(against.name, LONGEST_NAME)),
                "legendgroup": styles[against.name].key,
                "y": known(drawn),
                "marker": {"color": styles[against.name].colour},
                "hovertext": hover,
                "hoverinfo": "text",
            }
        )
    labels = [others[0].comparison.reduction.labels[k] for k in used]
    layout = {
        "height": 320,
        "margin": _MARGIN,
        "barmode": "group",
        "bargap": 0.3,
        "showlegend": False,
        "xaxis": {
            "title": {"text": "tasks of the job"},
            "tickvals": list(range(len(labels))),
            "ticktext": labels,
            "tickangle": 0,
            "showgrid": False,
        },
        "yaxis": {"tickformat": ".0%", "automargin": True, "zerolinewidth": 2, "nticks": 7},
    }
    return {"data": traces, "layout": layout}


def _times(mark: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if mark >= size:
            return f"{mark / size:,.0f} {unit}"
    return f"{mark:.0f}"


def _less(reduction: float) -> str:
    if not np.isfinite(reduction):
        return "unknown"
    return f"{short_percent(abs(reduction))} {'longer' if reduction < 0 else 'shorter'}"


def _times_figure(
    times: Mapping[str, FloatArray], styles: Mapping[str, PolicyStyle], what: str
) -> Figure | None:
    there = {name: values for name, values in times.items() if not np.isnan(values).all()}
    if not there:
        return None
    most = max(float(np.nanmax(values)) for values in there.values())
    least = min(float(np.nanmin(values)) for values in there.values())
    floor = max(least, SHORTEST if most > 10 * SHORTEST else most / 1e4) or SHORTEST
    layout = _distribution_layout()
    layout["xaxis"] |= logarithmic_times(floor / 1.1, max(most, 2 * floor) * 1.1)
    traces = []
    for name, values in there.items():
        value, part = cumulative_distribution(values, POINTS)
        trace = _line(styles[name], f"%{{y:.1%}} {what} %{{text}}")
        trace |= _steps(value, part, floor)
        traces.append(trace | {"text": [short_duration(v) for v in value.tolist()]})
    return {"data": traces, "layout": layout}


def _steps(value: FloatArray, part: FloatArray, floor: float) -> dict[str, Any]:
    return {"x": known(np.maximum(value, floor)), "y": known(part)}


def _distribution_layout() -> dict[str, Any]:
    return {
        "height": 300,
        "margin": _MARGIN,
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": {"zeroline": False},
        "yaxis": {"range": [0, 1.03], "tickformat": ".0%", "automargin": True, "nticks": 6},
    }


def _line(style: PolicyStyle, hover: str) -> dict[str, Any]:
    name = plain(shortened(style.name, LONGEST_NAME))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": style.key,
        "line": style.line,
        "hovertemplate": f"<b>%{{fullData.name}}</b><br>{hover}<extra></extra>",
    }


def _over_bins(edges: FloatArray, size: float) -> dict[str, Any]:
    """Place values in the middles of equal bins."""
    width = float(edges[1] - edges[0]) / size
    return {"x0": float(edges[0]) / size + width / 2, "dx": width}


def _over_time(unit: str, height: int) -> dict[str, Any]:
    return {
        "height": height,
        "margin": _MARGIN,
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": {
            "ticksuffix": f" {unit}",
            "hoverformat": ".4~g",
            "rangemode": "tozero",
            "showgrid": False,
            "zeroline": False,
            "nticks": 8,
        },
        "yaxis": {"automargin": True},
    }
