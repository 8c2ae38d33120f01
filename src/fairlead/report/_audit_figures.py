"""Pictures of an audit: held and due shares, margins, and envy."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.model.ties import largest_first, smallest_first
from fairlead.properties.audit import Audit
from fairlead.properties.verdict_text import NEGLIGIBLE
from fairlead.report._fair_comparison import FairComparison, furthest_off, gains_with_bundles
from fairlead.report.charts import (
    EVEN,
    INK,
    LESS,
    LONGEST_LABEL,
    MORE,
    USERS_DRAWN,
    Figure,
    Trace,
    bars,
    between,
    dots,
    hover,
    listed,
    rows,
    rule,
    texts_in_rows,
)
from fairlead.report.numbers import UNCHANGED, change, number, percent, tasks_text

ENVY_SHOWN = 40
# A heat map with more columns has too narrow cells for numbers.
NUMBERED_COLUMNS = 12
LARGEST_MARGIN = 4.0  # relative; larger margins and gains are drawn as this
# The scale of colours reaches at least this gain; otherwise a single small gain would look large.
SMALLEST_SCALE = 0.5


def shares_figure(audit: Audit, comparison: FairComparison) -> Figure:
    """Draw held and due dominant shares of the users furthest from their due share."""
    users = furthest_off(comparison.ratio, USERS_DRAWN)
    names = [audit.subject.problem.users.names[n] for n in users]
    row = np.arange(len(users))
    held, due, off = comparison.held[users], comparison.due[users], comparison.off[users]
    texts = [user_hover(audit, comparison, n) for n in users]
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
            data.append(dots(label, held[mine], row[mine], [texts[k] for k in mine], colour=colour))
    data.append(dots(comparison.due_name, due, row, texts, colour=INK, size=9, symbol="diamond"))
    ends = np.maximum(held, due).tolist()
    data.append(texts_in_rows([change(o, "as due") for o in off.tolist()], ends, row.tolist()))
    widest = max(ends, default=0.0) or 1.0
    drawn = listed(names, "dominant share", legend=True)
    drawn["xaxis"] |= {"range": [-0.01 * widest, 1.14 * widest]}
    return {"data": data, "layout": drawn}


def margins_figure(audit: Audit, comparison: FairComparison) -> Figure:
    """Draw the margin of each user's tasks over its slice, the smallest first."""
    known = np.flatnonzero(~np.isnan(comparison.margin))
    order = known[smallest_first(1 + comparison.margin[known])][:USERS_DRAWN]
    margin = comparison.margin[order]
    length = np.minimum(margin, LARGEST_MARGIN)
    row = list(range(len(order)))
    colours = [LESS if m <= -UNCHANGED else MORE for m in margin.tolist()]
    texts = [user_hover(audit, comparison, int(n)) for n in order]
    ends = np.maximum(length, 0.0).tolist()
    data = [
        bars("", row, length, texts, colours, horizontal=True),
        rule([0, 0], [-0.5, len(order) - 0.5]),
        texts_in_rows([change(m, "as due") for m in margin.tolist()], ends, row),
    ]
    low, high = min(float(length.min(initial=0.0)), 0.0), max(ends, default=0.0)
    wide = (high - low) or 1.0
    names = [audit.subject.problem.users.names[n] for n in order]
    drawn = listed(names, "margin over the slice")
    drawn["xaxis"] |= {"range": [low - 0.02 * wide, high + 0.14 * wide], "tickformat": ".0~%"}
    return {"data": data, "layout": drawn}


def by_gain(audit: Audit, comparison: FairComparison) -> IntArray:
    """Return the users that envy another, the largest gain first."""
    envious = np.flatnonzero(comparison.envies)
    return envious[largest_first(1 + audit.envy.gain[envious])]


def users_in_envy(audit: Audit, comparison: FairComparison) -> IntArray:
    """Return envious users, the largest gain first, then the users they envy most."""
    envious = by_gain(audit, comparison)
    envied = audit.envy.envied[envious]
    return np.array(list(dict.fromkeys([*envious.tolist(), *envied.tolist()])), dtype=np.int64)


def envy_figure(audit: Audit, comparison: FairComparison, users: IntArray) -> Figure:
    """Draw each user's gain with the bundle of each other user, as a heat map."""
    names = [audit.subject.problem.users.names[n] for n in users]
    could, gain = gains_with_bundles(audit.subject, users)
    gain[gain <= NEGLIGIBLE] = 0.0
    envious = np.flatnonzero(comparison.envies[users])
    envied = np.flatnonzero((gain[envious] > 0).any(axis=0))
    shown = gain[np.ix_(envious, envied)]
    # The gain of a user without tasks is infinite; it gets the colour of the largest gain.
    finite = shown[np.isfinite(shown) & (shown > 0)]
    scale_end = min(max(float(finite.max(initial=0.0)), SMALLEST_SCALE), LARGEST_MARGIN)

    def text(n: int, m: int) -> str:
        return (
            f"{names[n]} would run {tasks_text(float(could[n, m]))} with what "
            f"{names[m]} has, instead of {number(float(could[n, n]))}"
        )

    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": list(range(len(envied))),
        "y": list(range(len(envious))),
        "z": [[min(g, scale_end) if g > 0 else None for g in row] for row in shown.tolist()],
        "zmax": scale_end,
        "colorscale": [[0, "#fbe3d6"], [0.5, "#e8834a"], [1, "#8f2d06"]],
        "hovertext": [
            [text(n, m) if gain[n, m] > 0 else "" for m in envied.tolist()]
            for n in envious.tolist()
        ],
    }
    if len(envied) <= NUMBERED_COLUMNS:
        trace["text"] = [[gain_text(g) if g > 0 else "" for g in row] for row in shown.tolist()]
    drawn = listed([names[n] for n in envious])
    across = rows([names[m] for m in envied])
    longest = max((len(names[m]) for m in envied), default=0)
    drawn["xaxis"] = across | {
        "range": [-0.5, len(envied) - 0.5],
        "domain": [0, min(1.0, 0.2 * len(envied))],
        "tickangle": -40 if len(envied) <= NUMBERED_COLUMNS else -90,
        "side": "top",
        "showgrid": False,
    }
    drawn["yaxis"]["showgrid"] = False
    # Labels above the rows need height, too: a few rows would have no room left.
    drawn["height"] = 8 * min(longest, LONGEST_LABEL) + 60 + 26 * len(envious)
    return {"data": [trace], "layout": drawn}


def user_hover(audit: Audit, comparison: FairComparison, n: int) -> str:
    """Describe a user's holdings, fair share and margin in the text under the pointer."""
    problem, fair = audit.subject.problem, audit.fair
    tasks = tasks_text(float(audit.subject.holdings.user_tasks[n]))
    due, margin, envies = "", "", ""
    if fair is not None:
        fair_tasks = tasks_text(float(fair.user_tasks[n]))
        due = f"{comparison.due_name}: {fair_tasks}, {percent(float(comparison.due[n]))}"
    if not np.isnan(comparison.margin[n]):
        margin = f", margin: {change(float(comparison.margin[n]), 'as due')}"
    if comparison.envies[n]:
        envied = problem.users.names[int(audit.envy.envied[n])]
        envies = f"envies {envied}: {tasks_text(float(audit.envy.could[n]))} with its bundle"
    return hover(
        problem.users.names[n],
        f"{tasks}, dominant share {percent(float(comparison.held[n]))}",
        due,
        f"a slice of every server: {tasks_text(float(audit.slices[n]))}{margin}",
        f"weight {number(float(problem.weight[n]))}",
        envies,
    )


def gain_text(gain: float) -> str:
    """Format the relative gain of a user with another user's bundle."""
    return change(gain, "under 0.1 %") if isfinite(gain) else "has no tasks"
