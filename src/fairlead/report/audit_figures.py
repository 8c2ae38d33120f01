"""The pictures of an audit."""

from __future__ import annotations

from html import unescape
from math import isfinite
from typing import Any

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.ties import largest_first, smallest_first
from fairlead.properties.audit import Audit
from fairlead.report.audit_standing import (
    AS_DUE,
    Standing,
    change,
    least_and_most,
    tasks_with_bundles,
)
from fairlead.report.figures import COLOUR_OF_OTHERS, COLOURS, Figure, listed_layout, plain
from fairlead.report.numbers import counted, number, percent

ROWS = 60
ENVY_SHOWN = 40
POINTS = 600
# A heatmap of more columns has no room for numbers in its cells.
NUMBERED_COLUMNS = 12
# Above so many times what is due, and so much above a slice, everything is drawn alike.
LARGEST_RATIO, LARGEST_MARGIN = 10.0, 4.0
# The scale of gains reaches at least this far, or a small one alone would look large.
LEAST_SCALE = 0.5

OVER, UNDER, EVEN = COLOURS[0], COLOURS[5], COLOUR_OF_OTHERS
_ABOVE = {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
_WITH_AXIS_TITLES = {"l": 10, "r": 24, "t": 6, "b": 52, "pad": 6}


def audit_figures(audit: Audit, standing: Standing) -> dict[str, Figure]:
    """Draw all pictures that there is something to draw in, by name."""
    figures = {"shares": shares_figure(audit, standing), "margins": margins_figure(audit, standing)}
    if (~np.isnan(standing.ratio)).sum() > ROWS:
        figures["ratios"] = ratios_figure(standing)
    involved = users_in_envy(audit, standing)
    if 0 < len(involved) <= ENVY_SHOWN:
        figures["envy"] = envy_figure(audit, standing, involved)
    return figures


def shares_figure(audit: Audit, standing: Standing) -> Figure:
    """Draw everybody's dominant share beside its reference; of many, those furthest off."""
    users, before = least_and_most(standing.ratio, ROWS)
    names = [audit.subject.problem.users.names[n] for n in users]
    rows = list(range(len(users)))
    omitted = int((~np.isnan(standing.ratio)).sum()) - len(users)
    if omitted:
        names.insert(before, f"… {omitted:,} between …")
        rows = [k if k < before else k + 1 for k in rows]
    held, due = standing.held[users], standing.reference[users]
    widest = float(max(held.max(initial=0.0), due.max(initial=0.0))) or 1.0
    hover = [user_hover(audit, standing, n) for n in users]
    traces: list[dict[str, Any]] = []
    ratio = standing.ratio[users]
    for label, colour, chosen in (
        ("holds more", OVER, ratio > 1 + AS_DUE),
        ("holds less", UNDER, ratio < 1 - AS_DUE),
        ("holds as much", EVEN, np.abs(ratio - 1) <= AS_DUE),
    ):
        mine = np.flatnonzero(chosen).tolist()
        if mine:
            lines = _segments(
                [held[k] for k in mine], [due[k] for k in mine], [rows[k] for k in mine]
            )
            traces.append(lines | {"line": {"color": colour, "width": 3}})
            dots = _dots(label, [float(held[k]) for k in mine], [rows[k] for k in mine])
            dots["marker"] = {"color": colour, "size": 11}
            dots["hovertext"] = [hover[k] for k in mine]
            traces.append(dots)
    reference = _dots(plain(standing.what), due.tolist(), rows) | {"hovertext": hover}
    reference["marker"] = {"symbol": "diamond", "color": "themed", "size": 9}
    traces.append(reference)
    right = np.maximum(held, due).tolist()
    traces.append(_labels([change(r - 1) for r in ratio.tolist()], right, rows))
    layout = listed_layout(names) | {"showlegend": True, "legend": _ABOVE}
    layout["height"] += 40
    layout["xaxis"] |= {"range": [-0.01 * widest, 1.13 * widest], "zeroline": False}
    return {"data": traces, "layout": layout}


def ratios_figure(standing: Standing) -> Figure:
    """Count users by how much they hold of their reference."""
    known = standing.ratio[~np.isnan(standing.ratio)]
    # Rounding must not decide on which side of 1 a user is counted.
    known = np.where(np.abs(known - 1) <= AS_DUE, 1.0, known)
    most = float(np.quantile(np.minimum(known, LARGEST_RATIO), 0.99, method="higher"))
    last, bins = next((end, k) for end, k in ((2, 40), (3, 30), (5, 40), (10, 40)) if most <= end)
    edges = np.linspace(0.0, last, bins + 1)
    counts, _ = np.histogram(np.minimum(known, last), edges)
    middles = (edges[:-1] + edges[1:]) / 2
    hover = [
        f"{percent(low)} to {percent(high)} of it: {counted(count, 'user')}"
        for low, high, count in zip(edges[:-1], edges[1:], counts.tolist(), strict=True)
    ]
    if (known > last).any():
        hover[-1] = f"more than {percent(edges[-2])} of it: {counted(int(counts[-1]), 'user')}"
    trace = {
        "type": "bar",
        "x": middles.tolist(),
        "y": counts.tolist(),
        "hovertext": hover,
        "hoverinfo": "text",
        "marker": {"color": [UNDER if middle < 1 else OVER for middle in middles]},
    }
    top = 1.05 * float(counts.max(initial=1))
    layout = {
        "height": 300,
        "margin": _WITH_AXIS_TITLES,
        "bargap": 0.08,
        "showlegend": False,
        "xaxis": {
            "title": {"text": f"held, of the {plain(standing.what)}"},
            "tickformat": ".0%",
            "range": [0, last],
            "showgrid": False,
            "zeroline": False,
        },
        "yaxis": {"title": {"text": "users"}, "range": [0, top], "automargin": True},
    }
    return {"data": [trace, _rule([1, 1], [0, top])], "layout": layout}


def margins_figure(audit: Audit, standing: Standing) -> Figure:
    """Draw by how much each user has more than its uniform slice, the least first."""
    known = np.flatnonzero(~np.isnan(standing.margin))
    order = known[smallest_first(1 + standing.margin[known])]
    if len(order) > ROWS:
        return _margin_curve(audit, standing, order)
    margin = standing.margin[order]
    drawn = np.minimum(margin, LARGEST_MARGIN)
    rows = list(range(len(order)))
    low, high = min(float(drawn.min(initial=0.0)), 0.0), max(float(drawn.max(initial=0.0)), 0.0)
    wide = (high - low) or 1.0
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": drawn.tolist(),
        "y": rows,
        "hovertext": [user_hover(audit, standing, int(n)) for n in order],
        "hoverinfo": "text",
        "marker": {"color": _sides(margin)},
    }
    right = np.maximum(drawn, 0.0).tolist()
    labels = _labels([change(m) for m in margin.tolist()], right, rows)
    layout = listed_layout([audit.subject.problem.users.names[n] for n in order])
    layout |= {"showlegend": False}
    layout["xaxis"] = {
        "tickformat": ".0~%",
        "range": [low - 0.02 * wide, high + 0.13 * wide],
        "nticks": 9,
        "zeroline": False,
    }
    zero = _rule([0, 0], [-0.5, len(order) - 0.5])
    return {"data": [bars, zero, labels], "layout": layout}


def users_in_envy(audit: Audit, standing: Standing) -> IntArray:
    """Return who envies, the one that gains most first, then who else is envied most by them."""
    envious = _by_gain(audit, standing)
    envied = audit.envy.envied[envious]
    return np.array(list(dict.fromkeys([*envious.tolist(), *envied.tolist()])), dtype=np.int64)


def envy_figure(audit: Audit, standing: Standing, users: IntArray) -> Figure:
    """Draw by how much each of some users would gain with the bundle of each of the others."""
    names = [audit.subject.problem.users.names[n] for n in users]
    could = tasks_with_bundles(audit.subject, users)
    gain = _gains(could)
    rows = np.flatnonzero(standing.envies[users])
    columns = np.flatnonzero((gain[rows] > 0).any(axis=0))
    shown = gain[np.ix_(rows, columns)]
    # Who has nothing gains infinitely: drawn as the most that anybody gains.
    finite = shown[np.isfinite(shown) & (shown > 0)]
    most = min(max(float(finite.max(initial=0.0)), LEAST_SCALE), LARGEST_MARGIN)
    cells = [[min(g, most) if g > 0 else None for g in row] for row in shown.tolist()]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": list(range(len(columns))),
        "y": list(range(len(rows))),
        "z": cells,
        "zmin": 0.0,
        "zmax": most,
        "colorscale": [[0, "#fbe3d6"], [0.5, "#e8834a"], [1, "#8f2d06"]],
        "hovertext": [
            [_envy_hover(names, could, n, m) if gain[n, m] > 0 else "" for m in columns.tolist()]
            for n in rows.tolist()
        ],
        "hoverinfo": "text",
        "hoverongaps": False,
        "xgap": 2,
        "ygap": 2,
        "showscale": len(rows) * len(columns) > 1,
        "colorbar": {"thickness": 12, "tickformat": ".0~%", "title": {"text": "gain"}, "nticks": 5},
    }
    if len(columns) <= NUMBERED_COLUMNS:
        trace["text"] = [[_gain(g) for g in row] for row in shown.tolist()]
        trace["texttemplate"] = "%{text}"
    return {"data": [trace], "layout": _envy_layout([names[n] for n in rows], columns, names)}


def largest_envies(audit: Audit, standing: Standing) -> list[dict[str, Any]]:
    """List those who would gain most from what they envy, and who they envy most, for a table."""
    problem, envy = audit.subject.problem, audit.envy
    return [
        {
            "user": problem.users.names[n],
            "envies": problem.users.names[int(envy.envied[n])],
            "tasks": float(audit.subject.holdings.user_tasks[n]),
            "could": float(envy.could[n]),
            "gain": float(envy.gain[n]) if isfinite(envy.gain[n]) else 1e300,
            "gain_text": _gain(float(envy.gain[n])),
        }
        for n in _by_gain(audit, standing)[:ENVY_SHOWN].tolist()
    ]


def user_hover(audit: Audit, standing: Standing, n: int) -> str:
    """Say in a few lines of HTML what a user holds, and what it should."""
    problem, fair = audit.subject.problem, audit.fair
    tasks = float(audit.subject.holdings.user_tasks[n])
    lines = [
        f"<b>{plain(problem.users.names[n])}</b>",
        f"{number(tasks)} tasks, dominant share {percent(float(standing.held[n]))}",
    ]
    if fair is not None:
        lines.append(
            f"{plain(standing.what)}: {number(float(fair.user_tasks[n]))} tasks, "
            f"{percent(float(standing.reference[n]))}"
        )
    slice_text = f"a slice of every server: {number(float(audit.slices[n]))} tasks"
    if not np.isnan(standing.margin[n]):
        slice_text += f", margin {change(float(standing.margin[n]))}"
    lines += [slice_text, f"weight {number(float(problem.weight[n]))}"]
    if standing.envies[n]:
        envied = problem.users.names[int(audit.envy.envied[n])]
        could = number(float(audit.envy.could[n]))
        lines.append(f"envies {plain(envied)}: {could} tasks with its bundle")
    return "<br>".join(lines)


def _margin_curve(audit: Audit, standing: Standing, order: IntArray) -> Figure:
    ranks = np.unique(np.linspace(0, len(order) - 1, min(len(order), POINTS)).round().astype(int))
    margin = np.minimum(standing.margin[order[ranks]], LARGEST_MARGIN)
    trace = {
        "type": "scatter",
        "mode": "lines",
        "x": (ranks + 1).tolist(),
        "y": margin.tolist(),
        "line": {"color": OVER, "width": 2.5},
        "hovertext": [user_hover(audit, standing, int(n)) for n in order[ranks]],
        "hoverinfo": "text",
        "showlegend": False,
    }
    under = np.where(margin < 0, margin, 0.0)
    short = trace | {
        "y": under.tolist(),
        "mode": "none",
        "fill": "tozeroy",
        "fillcolor": UNDER,
        "hoverinfo": "skip",
    }
    del short["hovertext"]
    layout = {
        "height": 340,
        "margin": _WITH_AXIS_TITLES,
        "showlegend": False,
        "xaxis": {
            "title": {"text": "users, the least margin first"},
            "range": [0, len(order) + 1],
            "showgrid": False,
            "zeroline": False,
        },
        "yaxis": {
            "title": {"text": "margin over the slice"},
            "tickformat": ".0~%",
            "automargin": True,
            "zeroline": False,
        },
    }
    return {"data": [short, trace, _rule([0, len(order) + 1], [0, 0])], "layout": layout}


def _envy_layout(rows: list[str], columns: IntArray, names: list[str]) -> dict[str, Any]:
    layout = listed_layout(rows)
    envied = listed_layout([names[m] for m in columns])["yaxis"]
    longest = max((len(unescape(text)) for text in envied["ticktext"]), default=0)
    steep = len(columns) > 6 or longest > 10
    upright = len(columns) > 20
    above = 8 * longest if upright else 6 * longest if steep else 14
    layout["xaxis"] = {
        "tickvals": envied["tickvals"],
        "ticktext": envied["ticktext"],
        "range": [-0.5, len(columns) - 0.5],
        "domain": [0, min(1.0, max(0.1, 0.09 * len(columns)))],
        "tickangle": -90 if upright else -40 if steep else 0,
        "side": "top",
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
    }
    layout["yaxis"]["showgrid"] = False
    # Labels above take room from the picture; a few rows would have none left.
    layout["margin"] = {"l": 10, "r": 30, "t": above + 14, "b": 20, "pad": 6}
    layout["height"] = above + 60 + 26 * len(rows)
    layout["showlegend"] = False
    return layout


def _gains(could: FloatArray) -> FloatArray:
    """Return what each would gain with the bundle of each other, relative to what it has."""
    own = np.diag(could)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(could > own, could / own - 1.0, 0.0)
    gain[gain <= AS_DUE] = 0.0
    return gain


def _envy_hover(names: list[str], could: FloatArray, n: int, m: int) -> str:
    return (
        f"<b>{plain(names[n])}</b> would run {number(float(could[n, m]))} tasks with what "
        f"<b>{plain(names[m])}</b> has, instead of {number(float(could[n, n]))}"
    )


def _by_gain(audit: Audit, standing: Standing) -> IntArray:
    envious = np.flatnonzero(standing.envies)
    return envious[largest_first(1 + audit.envy.gain[envious])]


def _gain(gain: float) -> str:
    if gain <= 0:
        return ""
    return change(gain) if isfinite(gain) else "has nothing"


def _segments(start: list[float], end: list[float], rows: list[int]) -> dict[str, Any]:
    """Draw a line from each start to its end, as one trace with gaps."""
    x: list[float | None] = []
    y: list[float | None] = []
    for a, b, row in zip(start, end, rows, strict=True):
        x += [float(a), float(b), None]
        y += [row, row, None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _dots(name: str, x: list[float], rows: list[int]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": x,
        "y": rows,
        "hoverinfo": "text",
    }


def _labels(texts: list[str], x: list[float], rows: list[int]) -> dict[str, Any]:
    """Write beside marks; a space that the browser keeps parts them at any width."""
    return {
        "type": "scatter",
        "mode": "text",
        "x": x,
        "y": rows,
        "text": [f"\u2002\u2002{text}" for text in texts],
        "textposition": "middle right",
        "hoverinfo": "skip",
        "showlegend": False,
        "cliponaxis": False,
    }


def _rule(x: list[float], y: list[float]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "line": {"color": "themed", "width": 1.5},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _sides(margin: FloatArray) -> list[str]:
    return [OVER if m >= -AS_DUE else UNDER for m in margin.tolist()]
