"""The pictures of a division among users that arrive one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.mechanisms.dynamic_run import DynamicRun
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.report.figures import (
    COLOURS,
    DASHES,
    USERS_WITH_A_ROW_EACH,
    Figure,
    listed_layout,
    plain,
)
from fairlead.report.numbers import percent, precise_percent, resource_label

LINES = 60
LINES_IN_LEGEND = 10
POINTS = 1500
STEPS_OF_USE = 240

_ABOVE = {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
_WITH_AXIS_TITLES = {"l": 10, "r": 24, "t": 6, "b": 52, "pad": 6}


def is_weighted(run: DynamicRun) -> bool:
    """Whether shares and levels differ by more than a factor."""
    return bool((run.problem.weight != run.problem.weight[0]).any())


def shown_users(run: DynamicRun) -> list[int]:
    """Return who is in the staircase: everybody, or some, evenly spaced."""
    n = run.n_steps
    if n <= LINES:
        return list(range(n))
    return sorted({round(k) for k in np.linspace(0, n - 1, LINES).tolist()})


def staircase_figure(run: DynamicRun) -> Figure:
    """Draw the share of each user over the steps, from its arrival on.

    Shares are per unit of weight where weights differ. Lines of earlier users are wider, so that
    those who share a stair are all seen.
    """
    unit = 1.0 if is_weighted(run) else float(run.problem.weight[0])
    users = shown_users(run)
    in_legend = len(users) <= LINES_IN_LEGEND
    traces = [_line_of_user(run, n, unit, k, len(users), in_legend) for k, n in enumerate(users)]
    last = run.n_steps
    part = unit / float(run.problem.weight.sum())
    traces.append(_dashed("equal split, by weight", np.array([1]), np.array([part]), "dot", last))
    steps = _thinned(np.arange(1, last + 1))
    known = unit * run.full_knowledge_levels[steps - 1]
    traces.append(_dashed("DRF, had all present been known", steps, known, "dash", last))
    what = "dominant share, per unit of weight" if is_weighted(run) else "dominant share"
    layout = _over_steps(run, what, 460)
    # Nobody ever has less than an equal split: below it there is nothing to see.
    highest = max(max(trace["y"]) for trace in traces)
    layout["yaxis"] |= {"range": [0.85 * part, highest + 0.08 * (highest - 0.85 * part)]}
    return {"data": traces, "layout": layout}


def use_figure(run: DynamicRun) -> Figure:
    """Draw how much of each resource was used after each step, beside how much could be."""
    last = run.n_steps
    steps = np.unique(np.linspace(1, last, min(last, STEPS_OF_USE)).round().astype(np.int64))
    used = np.array([run.shares_at(k) @ run.demand[:k] for k in steps.tolist()])
    cluster = run.problem.cluster
    traces = []
    for r in range(len(cluster.resources)):
        label = plain(cluster.resources[r])
        hover = [
            f"<b>{label}</b><br>{percent(u)} used after step {k:,}"
            for k, u in zip(steps.tolist(), used[:, r].tolist(), strict=True)
        ]
        line = {
            "color": COLOURS[r % len(COLOURS)],
            "width": 2.5,
            "shape": "hv",
            "dash": DASHES[r // len(COLOURS) % len(DASHES)],
        }
        traces.append(_line(label, steps, used[:, r], line, hover, last))
    traces.append(_dashed("what may be used", steps, run.budget[steps - 1], "dash", last))
    return {"data": traces, "layout": _over_steps(run, "part of the resource", 340)}


def shares_figure(run: DynamicRun) -> Figure:
    """Draw everybody's share in the end beside the one under DRF that had known everybody.

    Of many users, shares are per unit of weight where weights differ, or nothing could be seen but
    the weights.
    """
    names = run.problem.users.names
    series = (
        ("dynamic, in the end", run.shares, "circle", COLOURS[0]),
        ("DRF, had all been known", run.full_knowledge_shares, "diamond", COLOURS[1]),
    )
    listed = len(names) <= USERS_WITH_A_ROW_EACH
    per_weight = is_weighted(run) and not listed
    places = np.arange(len(names)) if listed else _thinned(np.arange(len(names)))
    traces: list[dict[str, Any]] = []
    for name, shares, symbol, colour in series:
        drawn = (shares / run.problem.weight if per_weight else shares)[places].tolist()
        hover = [
            f"<b>{plain(names[n])}</b><br>{name}: {precise_percent(float(shares[n]))}"
            for n in places.tolist()
        ]
        marker = {"symbol": symbol, "color": colour, "size": 11, "opacity": 0.85}
        x, y = drawn, places.tolist()
        if not listed:
            x, y = (places + 1).tolist(), drawn
            marker["size"] = 4
        trace: dict[str, Any] = {"type": "scatter", "mode": "markers", "name": name, "x": x, "y": y}
        if not listed:  # mere markers get rims, which would cover their neighbours
            trace |= {"mode": "lines+markers", "line": {"width": 0}}
        traces.append(trace | {"marker": marker, "hovertext": hover, "hoverinfo": "text"})
    if listed:
        layout = listed_layout(names) | {"showlegend": True, "legend": _ABOVE}
        layout["height"] += 40
    else:
        what = "dominant share, per unit of weight" if per_weight else "dominant share"
        layout = _over_steps(run, what, 340)
        layout["xaxis"]["title"] = {"text": "users, in order of arrival"}
        layout["yaxis"]["rangemode"] = "normal"
        traces.reverse()  # those of DRF nearly form a line, which would hide the others
    return {"data": traces, "layout": layout}


def _line_of_user(
    run: DynamicRun, n: int, unit: float, rank: int, n_lines: int, in_legend: bool
) -> dict[str, Any]:
    """Draw where a user's level changed: the largest of its kind's least levels since it came."""
    log = run.log
    mine = (log.step > n) & (log.of_kind == log.kind[n])
    step, level = log.step[mine], np.maximum.accumulate(log.level[mine])
    changed = np.flatnonzero(np.diff(level, prepend=-1.0) > 0)
    chosen = _thinned(changed)
    x, y = step[chosen], unit * level[chosen]
    name = plain(run.problem.users.names[n])
    weight = float(run.problem.weight[n]) / unit
    hover = [
        f"<b>{name}</b><br>{precise_percent(weight * share)} after step {k:,}"
        for k, share in zip(x.tolist(), y.tolist(), strict=True)
    ]
    line = {
        "color": COLOURS[rank % len(COLOURS)],
        "width": round(6.0 - 4.5 * rank / max(1, n_lines - 1), 2),
        "shape": "hv",
    }
    trace = _line(name, x, y, line, hover, run.n_steps)
    sizes = [7] + [0] * len(x)
    marker = {"color": COLOURS[rank % len(COLOURS)], "size": sizes, "opacity": 1}
    return trace | {"mode": "lines+markers", "marker": marker, "showlegend": in_legend}


def _line(
    name: str, x: IntArray, y: FloatArray, line: dict[str, Any], hover: list[str], last: int
) -> dict[str, Any]:
    """Draw what held from each step `x` on; the last step is as long as the others."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [*x.tolist(), last + 1],
        "y": [*y.tolist(), float(y[-1])],
        "line": line,
        "hovertext": [*hover, hover[-1]],
        "hoverinfo": "text",
    }


def _dashed(name: str, x: IntArray, y: FloatArray, dash: str, last: int) -> dict[str, Any]:
    line = {"color": "themed", "width": 1.5, "dash": dash, "shape": "hv"}
    hover = [f"{name}: {precise_percent(value)}" for value in y.tolist()]
    return _line(name, x, y, line, hover, last)


def _thinned(values: IntArray) -> IntArray:
    """Return all values, or as many evenly spaced ones as a picture can show."""
    if len(values) <= POINTS:
        return values
    return values[np.unique(np.linspace(0, len(values) - 1, POINTS).round().astype(np.int64))]


def _over_steps(run: DynamicRun, what: str, height: int) -> dict[str, Any]:
    last = run.n_steps
    margin = max(0.2, 0.01 * last)
    ticks = {"tickvals": list(range(1, last + 1))} if last <= 25 else {"nticks": 12}
    return {
        "height": height,
        "margin": _WITH_AXIS_TITLES,
        "xaxis": {
            "title": {"text": "step: users present"},
            "range": [1 - margin, last + 1 + margin],
            "showgrid": False,
            "zeroline": False,
            **ticks,
        },
        "yaxis": {
            "title": {"text": what},
            "tickformat": ".3~p",
            "rangemode": "tozero",
            "automargin": True,
        },
        "showlegend": True,
        "legend": _ABOVE,
        "hovermode": "closest",
    }


def resource_labels(run: DynamicRun) -> list[str]:
    """Name the resources with their units."""
    cluster = run.problem.cluster
    return [resource_label(cluster, r) for r in range(len(cluster.resources))]
