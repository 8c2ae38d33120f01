"""The pictures of a page, as plain data that Plotly's script draws in the browser.

Colours of text and axes are left to the page, which follows the reader's light or dark setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from fairlead.model.allocation import Allocation
from fairlead.model.ties import largest_first
from fairlead.report.holdings import GroupHoldings, Holding
from fairlead.report.numbers import amount, counted, number, percent, resource_label

Figure = dict[str, Any]

# Told apart under the common kinds of colour blindness: Okabe and Ito's, and three of Paul Tol's.
COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#999933",
    "#F0E442",
    "#882255",
    "#7A6FD0",
)
PATTERNS = ("", "/", ".", "x")
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star", "hexagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
COLOUR_OF_OTHERS = "#8d8d8d"
COLOUR_OF_FREE = "rgba(128,128,128,0.13)"

USERS_WITH_A_ROW_EACH = 40
LONGEST_LABEL = 26


@dataclass(frozen=True)
class Style:
    """How one user is painted, the same in every picture of a page."""

    colour: str
    pattern: str


def user_styles(allocations: Sequence[Allocation]) -> list[Style]:
    """Give every user a colour, and a pattern where colours repeat; the largest users first."""
    largest = np.max([allocation.dominant_share for allocation in allocations], axis=0)
    styles = [Style(COLOUR_OF_OTHERS, "")] * len(largest)
    for rank, n in enumerate(largest_first(largest)):
        pattern = PATTERNS[rank // len(COLOURS) % len(PATTERNS)]
        styles[int(n)] = Style(COLOURS[rank % len(COLOURS)], pattern)
    return styles


def group_figure(allocation: Allocation, picture: GroupHoldings, styles: Sequence[Style]) -> Figure:
    """Draw one group: a bar per resource from 0 to 100 % of what it has, a segment per holder.

    Where servers are shared by time, one more bar shows who has how much of the time.
    """
    cluster = allocation.problem.cluster
    capacity = allocation.problem.group_capacity[picture.group]
    by_time = allocation.mechanism.endswith("-tdm")
    bars = [r for r in range(len(cluster.resources)) if capacity[r] > 0]
    labels = [resource_label(cluster, r) for r in bars] + (["time"] if by_time else [])
    places = list(range(len(labels)))
    traces = []
    for holding in picture.holdings:
        name = holder_name(allocation, holding)
        shares = [holding.shares[r] for r in bars] + ([holding.time] if by_time else [])
        held = [
            f"{resource_label(cluster, r)}: {amount(holding.amounts[r], cluster.units[r])} "
            f"of {number(float(capacity[r]))} ({percent(holding.shares[r])})"
            for r in bars
        ] + ([f"time: {percent(holding.time)}"] if by_time else [])
        alone = len(holding.users) == 1
        style = styles[holding.users[0]] if alone else Style(COLOUR_OF_OTHERS, "")
        hover = [f"<b>{plain(name)}</b><br>{plain(h)}<br>{_tasks(holding)}" for h in held]
        traces.append(_bar(name, shares, places, style, hover))
    free = [
        f"<b>free</b><br>{plain(resource_label(cluster, r))}: "
        f"{amount(picture.free[r], cluster.units[r])} of {number(float(capacity[r]))}"
        for r in bars
    ]
    share_free = [picture.free[r] / float(capacity[r]) for r in bars]
    if by_time:
        share_free.append(max(0.0, 1.0 - sum(h.time for h in picture.holdings)))
        free.append(f"<b>free</b><br>time: {percent(share_free[-1])}")
    traces.append(_bar("", share_free, places, Style(COLOUR_OF_FREE, ""), free))
    longest = max((sum(t["x"][k] for t in traces) for k in places), default=1.0)
    layout = {
        "barmode": "stack",
        "bargap": 0.28,
        "showlegend": False,
        "height": 46 + 40 * len(labels),
        "xaxis": {"range": [0, max(1.0, longest)], "tickformat": ".0%", "dtick": 0.2},
        "yaxis": _rows(labels),
        "uniformtext": {"mode": "hide", "minsize": 10},
    }
    return {"data": traces, "layout": layout}


def share_figure(allocation: Allocation, styles: Sequence[Style]) -> Figure:
    """Draw every user's dominant share, the largest first."""
    problem = allocation.problem
    order = largest_first(allocation.dominant_share)
    shares = allocation.dominant_share[order].tolist()
    names = [problem.users.names[n] for n in order]
    hover = [_share_hover(allocation, int(n)) for n in order]
    if len(names) > USERS_WITH_A_ROW_EACH:
        trace = {
            "type": "bar",
            "y": shares,
            "hovertext": hover,
            "hoverinfo": "text",
            "marker": {"color": COLOURS[0], "line": {"width": 0}},
        }
        return {"data": [trace], "layout": _ranked_layout(bargap=0)}
    places = list(range(len(names)))
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": "dominant share",
            "x": shares,
            "y": places,
            "hovertext": hover,
            "hoverinfo": "text",
            "marker": {"color": [styles[n].colour for n in order]},
        }
    ]
    weighted = bool((problem.weight != problem.weight[0]).any())
    if weighted:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "per unit of weight",
                "x": (allocation.dominant_share / problem.weight)[order].tolist(),
                "y": places,
                "hovertext": hover,
                "hoverinfo": "text",
                "marker": {"symbol": "diamond", "size": 9, "color": "themed"},
            }
        )
    layout = listed_layout(names) | {"showlegend": False}
    return {"data": traces, "layout": layout}


def comparison_figure(answers: Mapping[str, Allocation]) -> Figure:
    """Draw every user's dominant share under each mechanism."""
    first = next(iter(answers.values()))
    names = first.problem.users.names
    many = len(names) > USERS_WITH_A_ROW_EACH
    order = largest_first(first.dominant_share)
    traces: list[dict[str, Any]] = []
    for k, (mechanism, allocation) in enumerate(answers.items()):
        colour = COLOURS[k % len(COLOURS)]
        if many:
            order = largest_first(allocation.dominant_share)
        shares = allocation.dominant_share[order].tolist()
        hover = [f"{plain(mechanism)}<br>{_share_hover(allocation, int(n))}" for n in order]
        trace: dict[str, Any] = {
            "type": "scatter",
            "name": plain(mechanism),
            "hovertext": hover,
            "hoverinfo": "text",
        }
        if many:
            line = {"color": colour, "width": 2, "dash": DASHES[k % len(DASHES)]}
            trace |= {"mode": "lines", "y": shares, "line": line}
        else:
            symbol = SYMBOLS[k % len(SYMBOLS)]
            marker = {"symbol": symbol, "size": 11, "color": colour, "opacity": 0.85}
            trace |= {
                "mode": "markers",
                "x": shares,
                "y": list(range(len(shares))),
                "marker": marker,
            }
        traces.append(trace)
    layout = _ranked_layout() if many else listed_layout([names[n] for n in order])
    above = {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0}
    layout |= {"showlegend": True, "legend": above}
    layout["height"] += 60
    return {"data": traces, "layout": layout}


def holder_name(allocation: Allocation, holding: Holding) -> str:
    """Name the user that holds, or say how many small holders it stands for."""
    if len(holding.users) == 1:
        return allocation.problem.users.names[holding.users[0]]
    return counted(len(holding.users), "other")


def plain(text: str) -> str:
    """Make a text mean itself where Plotly reads tags and entities."""
    return escape(text, quote=False)


def _tasks(holding: Holding) -> str:
    tasks = number(holding.tasks)
    return f"{tasks} task" if tasks == "1" else f"{tasks} tasks"


def _bar(
    name: str, shares: list[float], places: list[int], style: Style, hover: list[str]
) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "x": shares,
        "y": places,
        "text": [plain(shortened(name))] * len(shares),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "insidetextfont": {"color": _ink_on(style.colour)},
        "constraintext": "inside",
        "hovertext": hover,
        "hoverinfo": "text",
        "marker": {
            "color": style.colour,
            "pattern": _pattern(style.pattern),
        },
    }


def _pattern(shape: str) -> dict[str, Any]:
    return {"shape": shape, "fillmode": "overlay", "size": 7, "solidity": 0.2}


def _ink_on(colour: str) -> str:
    """Choose black or white letters by the luminance of what they stand on."""
    if not colour.startswith("#"):
        return "#000000"
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 118 else "#ffffff"


def _share_hover(allocation: Allocation, n: int) -> str:
    problem = allocation.problem
    share = float(allocation.dominant_share[n])
    weight = float(problem.weight[n])
    return (
        f"<b>{plain(problem.users.names[n])}</b><br>{number(float(allocation.user_tasks[n]))} tasks"
        f"<br>{percent(share)} of all {plain(allocation.dominant_resource[n])}"
        f"<br>weight {number(weight)}: {percent(share / weight)} per unit of weight"
    )


def _rows(labels: Sequence[str]) -> dict[str, Any]:
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [plain(shortened(label)) for label in labels],
        "range": [len(labels) - 0.5, -0.5],
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
    }


def listed_layout(names: Sequence[str]) -> dict[str, Any]:
    """Lay out a picture with a row for each name, the first on top."""
    return {
        "height": 70 + 22 * len(names),
        "bargap": 0.25,
        "xaxis": {"tickformat": ".3~%", "rangemode": "tozero", "nticks": 7},
        "yaxis": _rows(names) | {"showgrid": True},
    }


def _ranked_layout(**options: Any) -> dict[str, Any]:
    return {
        "height": 340,
        "margin": {"l": 10, "r": 30, "t": 6, "b": 52, "pad": 6},
        "xaxis": {"title": {"text": "users, the largest dominant share first"}, "showgrid": False},
        "yaxis": {"tickformat": ".3~%", "rangemode": "tozero", "automargin": True},
        **options,
    }


def shortened(text: str, longest: int = LONGEST_LABEL) -> str:
    """Leave out the middle of a text that is too long."""
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
