"""The pictures of an audit."""

from __future__ import annotations

from html import unescape
from math import isfinite
from typing import Any

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.ties import largest_first, smallest_first
from fairlead.properties.audit import Audit
from fairlead.properties.verdict_text import NEGLIGIBLE
from fairlead.report.against_fair import AgainstFair, least_and_most, tasks_with_bundles
from fairlead.report.charts import (
    EVEN,
    INK,
    LESS,
    MORE,
    Figure,
    Trace,
    bars,
    beside,
    between,
    dots,
    hover,
    layout,
    line,
    listed,
    mark_at,
    plain,
    rows,
    rule,
    thinned,
)
from fairlead.report.numbers import UNCHANGED, change, counted, number, percent

ROWS = 60
ENVY_SHOWN = 40
POINTS = 600
# A map of more columns has no room for numbers in its cells.
NUMBERED_COLUMNS = 12
# What is held of more than this many times what is due, and a larger margin, is drawn as this.
LARGEST_RATIO, LARGEST_MARGIN = 10.0, 4.0
# Colours of gains reach at least this far, or a small one alone would look large.
LEAST_SCALE = 0.5


def shares_figure(audit: Audit, against: AgainstFair) -> Figure:
    """Draw everybody's dominant share beside what is due; of many, those furthest off."""
    users, before = least_and_most(against.ratio, ROWS)
    names = [audit.subject.problem.users.names[n] for n in users]
    row = np.arange(len(users))
    omitted = int((~np.isnan(against.ratio)).sum()) - len(users)
    if omitted:
        names.insert(before, f"… {omitted:,} between …")
        row[before:] += 1
    held, due, off = against.held[users], against.due[users], against.off[users]
    said = [user_hover(audit, against, n) for n in users]
    data: list[Trace] = []
    for label, colour, chosen in (
        ("holds more", MORE, off >= UNCHANGED),
        ("holds less", LESS, off <= -UNCHANGED),
        ("holds as much", EVEN, np.abs(off) < UNCHANGED),
    ):
        mine = np.flatnonzero(chosen)
        if len(mine):
            lines = between(held[mine].tolist(), due[mine].tolist(), row[mine].tolist())
            data.append(lines | {"line": {"color": colour, "width": 3}})
            data.append(dots(label, held[mine], row[mine], [said[k] for k in mine], colour=colour))
    data.append(dots(against.what, due, row, said, colour=INK, size=9, symbol="diamond"))
    ends = np.maximum(held, due).tolist()
    data.append(beside([change(o, "as due") for o in off.tolist()], ends, row.tolist()))
    widest = max(ends, default=0.0) or 1.0
    drawn = listed(names, "dominant share", legend=True)
    drawn["xaxis"] |= {"range": [-0.01 * widest, 1.14 * widest]}
    return {"data": data, "layout": drawn}


def ratios_figure(against: AgainstFair) -> Figure:
    """Count users by how much they hold of what is due."""
    known = against.ratio[~np.isnan(against.ratio)]
    # What is said to be as due must not count as less.
    known = np.where(np.abs(known - 1) < UNCHANGED, 1.0, known)
    most = float(np.quantile(np.minimum(known, LARGEST_RATIO), 0.99, method="higher"))
    last, bins = next((end, k) for end, k in ((2, 40), (3, 30), (5, 40), (10, 40)) if most <= end)
    edges = np.linspace(0.0, last, bins + 1)
    counts, _ = np.histogram(np.minimum(known, last), edges)
    middles = (edges[:-1] + edges[1:]) / 2
    said = [
        f"{percent(low)} to {percent(high)} of it: {counted(count, 'user')}"
        for low, high, count in zip(edges[:-1], edges[1:], counts.tolist(), strict=True)
    ]
    if (known > last).any():
        said[-1] = f"more than {percent(edges[-2])} of it: {counted(int(counts[-1]), 'user')}"
    colours = [LESS if middle < 1 else MORE for middle in middles]
    drawn = layout(f"held, of the {plain(against.what)}", "users")
    drawn |= {"bargap": 0.08, "shapes": [mark_at(x=1.0)]}
    drawn["xaxis"] |= {"tickformat": ".0%", "range": [0, last]}
    return {"data": [bars("", middles.tolist(), counts, said, colours)], "layout": drawn}


def margins_figure(audit: Audit, against: AgainstFair) -> Figure:
    """Draw by how much each user runs more than its slice would, the least first."""
    known = np.flatnonzero(~np.isnan(against.margin))
    order = known[smallest_first(1 + against.margin[known])]
    if len(order) > ROWS:
        return _margin_curve(audit, against, order)
    margin = against.margin[order]
    length = np.minimum(margin, LARGEST_MARGIN)
    row = list(range(len(order)))
    colours = [LESS if m <= -UNCHANGED else MORE for m in margin.tolist()]
    said = [user_hover(audit, against, int(n)) for n in order]
    ends = np.maximum(length, 0.0).tolist()
    data = [
        bars("", row, length, said, colours, level=True),
        rule([0, 0], [-0.5, len(order) - 0.5]),
        beside([change(m, "as due") for m in margin.tolist()], ends, row),
    ]
    low, high = min(float(length.min(initial=0.0)), 0.0), max(ends, default=0.0)
    wide = (high - low) or 1.0
    names = [audit.subject.problem.users.names[n] for n in order]
    drawn = listed(names, "margin over the slice")
    drawn["xaxis"] |= {"range": [low - 0.02 * wide, high + 0.14 * wide], "tickformat": ".0~%"}
    return {"data": data, "layout": drawn}


def _margin_curve(audit: Audit, against: AgainstFair, order: IntArray) -> Figure:
    ranks = thinned(np.arange(len(order)), POINTS)
    margin = np.minimum(against.margin[order[ranks]], LARGEST_MARGIN)
    said = [user_hover(audit, against, int(n)) for n in order[ranks]]
    short = line("", ranks + 1, np.minimum(margin, 0.0), colour=LESS) | {
        "mode": "none",
        "fill": "tozeroy",
        "fillcolor": LESS,
    }
    drawn = layout("users, the least margin first", "margin over the slice", height=340)
    drawn["xaxis"] |= {"range": [0, len(order) + 1]}
    drawn["yaxis"] |= {"tickformat": ".0~%"}
    curve = line("", ranks + 1, margin, said, colour=MORE, width=2.5)
    return {"data": [short, curve, rule([0, len(order) + 1], [0, 0])], "layout": drawn}


def by_gain(audit: Audit, against: AgainstFair) -> IntArray:
    """Return who envies, the one that would gain most first."""
    envious = np.flatnonzero(against.envies)
    return envious[largest_first(1 + audit.envy.gain[envious])]


def users_in_envy(audit: Audit, against: AgainstFair) -> IntArray:
    """Return who envies, the one that gains most first, then who else is envied most by them."""
    envious = by_gain(audit, against)
    envied = audit.envy.envied[envious]
    return np.array(list(dict.fromkeys([*envious.tolist(), *envied.tolist()])), dtype=np.int64)


def envy_figure(audit: Audit, against: AgainstFair, users: IntArray) -> Figure:
    """Draw by how much each of some users would gain with the bundle of each of the others."""
    names = [audit.subject.problem.users.names[n] for n in users]
    could = tasks_with_bundles(audit.subject, users)
    gain = _gains(could)
    envious = np.flatnonzero(against.envies[users])
    envied = np.flatnonzero((gain[envious] > 0).any(axis=0))
    shown = gain[np.ix_(envious, envied)]
    # Who has nothing gains infinitely: drawn as the most that anybody gains.
    finite = shown[np.isfinite(shown) & (shown > 0)]
    most = min(max(float(finite.max(initial=0.0)), LEAST_SCALE), LARGEST_MARGIN)
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": list(range(len(envied))),
        "y": list(range(len(envious))),
        "z": [[min(g, most) if g > 0 else None for g in row] for row in shown.tolist()],
        "zmin": 0.0,
        "zmax": most,
        "colorscale": [[0, "#fbe3d6"], [0.5, "#e8834a"], [1, "#8f2d06"]],
        "hovertext": [
            [_envy_hover(names, could, n, m) if gain[n, m] > 0 else "" for m in envied.tolist()]
            for n in envious.tolist()
        ],
        "hoverinfo": "text",
        "hoverongaps": False,
        "xgap": 2,
        "ygap": 2,
        "showscale": False,
    }
    if len(envied) <= NUMBERED_COLUMNS:
        trace["text"] = [[gained(g) if g > 0 else "" for g in row] for row in shown.tolist()]
        trace["texttemplate"] = "%{text}"
    drawn = _envy_layout([names[n] for n in envious], [names[m] for m in envied])
    return {"data": [trace], "layout": drawn}


def _envy_layout(envious: list[str], envied: list[str]) -> dict[str, Any]:
    drawn = listed(envious)
    across = rows(envied)
    longest = max((len(unescape(text)) for text in across["ticktext"]), default=0)
    steep = len(envied) > 6 or longest > 10
    upright = len(envied) > 20
    above = 8 * longest if upright else 6 * longest if steep else 14
    drawn["xaxis"] = across | {
        "range": [-0.5, len(envied) - 0.5],
        "domain": [0, min(1.0, 0.2 * len(envied))],
        "tickangle": -90 if upright else -40 if steep else 0,
        "side": "top",
        "showgrid": False,
    }
    drawn["yaxis"]["showgrid"] = False
    # Labels above take room from the picture; a few rows would have none left.
    drawn["margin"] = {"l": 10, "r": 30, "t": above + 14, "b": 20, "pad": 6}
    drawn["height"] = above + 60 + 26 * len(envious)
    return drawn


def user_hover(audit: Audit, against: AgainstFair, n: int) -> str:
    """Describe in a few lines a user's holdings and fair share."""
    problem, fair = audit.subject.problem, audit.fair
    tasks = number(float(audit.subject.holdings.user_tasks[n]))
    due, margin, envies = "", "", ""
    if fair is not None:
        tasks_due = number(float(fair.user_tasks[n]))
        due = f"{against.what}: {tasks_due} tasks, {percent(float(against.due[n]))}"
    if not np.isnan(against.margin[n]):
        margin = f", margin: {change(float(against.margin[n]), 'as due')}"
    if against.envies[n]:
        envied = problem.users.names[int(audit.envy.envied[n])]
        envies = f"envies {envied}: {number(float(audit.envy.could[n]))} tasks with its bundle"
    return hover(
        problem.users.names[n],
        f"{tasks} tasks, dominant share {percent(float(against.held[n]))}",
        due,
        f"a slice of every server: {number(float(audit.slices[n]))} tasks{margin}",
        f"weight {number(float(problem.weight[n]))}",
        envies,
    )


def gained(gain: float) -> str:
    """Describe how much more a user would have with another's bundle."""
    return change(gain, "under 0.1 %") if isfinite(gain) else "has nothing"


def _gains(could: FloatArray) -> FloatArray:
    """Return what each would gain with the bundle of each other, relative to what it has."""
    own = np.diag(could)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(could > own, could / own - 1.0, 0.0)
    gain[gain <= NEGLIGIBLE] = 0.0
    return gain


def _envy_hover(names: list[str], could: FloatArray, n: int, m: int) -> str:
    return (
        f"<b>{plain(names[n])}</b> would run {number(float(could[n, m]))} tasks with what "
        f"<b>{plain(names[m])}</b> has, instead of {number(float(could[n, n]))}"
    )
