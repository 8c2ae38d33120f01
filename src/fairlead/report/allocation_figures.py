"""Who holds what of each resource on each group of servers, and the pictures of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.model.allocation import Allocation
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.ties import largest_first
from fairlead.report.charts import (
    COLOUR_OF_FREE,
    COLOUR_OF_OTHERS,
    COLOURS,
    DASHES,
    INK,
    PATTERNS,
    SYMBOLS,
    USERS_WITH_A_ROW_EACH,
    Figure,
    Trace,
    bars,
    dots,
    hover,
    ink_on,
    layout,
    line,
    listed,
    plain,
    rows,
    shortened,
)
from fairlead.report.numbers import amount, counted, number, percent, resource_label

LARGEST_HOLDERS = 12
# What a solver leaves on a group beyond its accuracy is no holding, and what rounding leaves of a
# resource that is used up is not free.
DUST = 1e-9


@dataclass(frozen=True)
class Style:
    """How one user is painted, the same in every picture of a page."""

    colour: str
    pattern: str


@dataclass(frozen=True)
class Holding:
    """What one user, or several small ones together, holds of a group."""

    # Who holds it, as positions in the problem; several where small holders are taken together.
    users: tuple[int, ...]
    tasks: float
    # (R,): amount held of each resource, and as a share of what the group has; 0 where it has none.
    amounts: tuple[float, ...]
    shares: tuple[float, ...]
    # Share of the group's time, when servers are shared by time: tasks over the tasks that the user
    # could run there alone.
    time: float


@dataclass(frozen=True)
class GroupHoldings:
    """A group of identical servers, by its position, and who holds it."""

    group: int
    # The largest holders, largest first; the last one stands for all the others together where
    # there are more than the number asked for.
    holdings: tuple[Holding, ...]
    free: tuple[float, ...]  # (R,): amount of each resource that nobody holds


def holds(allocation: Allocation) -> BoolArray:
    """Return who runs where, (N, G): more than a billionth of the user's tasks are on the group."""
    return _matters(allocation.tasks, allocation.user_tasks[:, None])


def _matters(tasks: FloatArray, user_tasks: FloatArray) -> BoolArray:
    matters: BoolArray = (tasks > 0) & (tasks > DUST * user_tasks)
    return matters


def group_holdings(allocation: Allocation, g: int, largest: int = LARGEST_HOLDERS) -> GroupHoldings:
    """Collect who holds what of one group; the `largest` holders are kept apart, the rest together.

    A holder's size is the largest of its shares of the group's resources. Cost O(N R).
    """
    problem = allocation.problem
    capacity = problem.group_capacity[g]
    tasks = allocation.tasks[:, g]
    held = np.flatnonzero(_matters(tasks, allocation.user_tasks))
    amounts = tasks[held, None] * problem.demand[held]
    shares = np.divide(amounts, capacity, out=np.zeros_like(amounts), where=capacity > 0)
    gamma = problem.gamma[held, g]
    time = np.divide(tasks[held], gamma, out=np.zeros(len(held)), where=gamma > 0)
    order = largest_first(np.maximum(shares.max(axis=1, initial=0.0), time))
    keep = len(order) if len(order) <= largest + 1 else largest
    parts = [order[k : k + 1] for k in range(keep)] + ([order[keep:]] if keep < len(order) else [])
    holdings = tuple(
        Holding(
            users=tuple(held[part].tolist()),
            tasks=float(tasks[held[part]].sum()),
            amounts=tuple(amounts[part].sum(axis=0).tolist()),
            shares=tuple(shares[part].sum(axis=0).tolist()),
            time=float(time[part].sum()),
        )
        for part in parts
    )
    free = capacity - amounts.sum(axis=0)
    free[free <= DUST * capacity] = 0.0
    return GroupHoldings(g, holdings, tuple(free.tolist()))


def holder_name(allocation: Allocation, holding: Holding) -> str:
    """Name the user that holds, or say how many small holders it stands for."""
    if len(holding.users) == 1:
        return allocation.problem.users.names[holding.users[0]]
    return counted(len(holding.users), "other")


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
    present = [r for r in range(len(cluster.resources)) if capacity[r] > 0]
    labels = [resource_label(cluster, r) for r in present] + (["time"] if by_time else [])
    traces = []
    for holding in picture.holdings:
        name, tasks = holder_name(allocation, holding), number(holding.tasks)
        shares = [holding.shares[r] for r in present] + ([holding.time] if by_time else [])
        held = [
            f"{resource_label(cluster, r)}: {amount(holding.amounts[r], cluster.units[r])} "
            f"of {number(float(capacity[r]))} ({percent(holding.shares[r])})"
            for r in present
        ] + ([f"time: {percent(holding.time)}"] if by_time else [])
        alone = len(holding.users) == 1
        style = styles[holding.users[0]] if alone else Style(COLOUR_OF_OTHERS, "")
        said = [hover(name, h, f"{tasks} task{'' if tasks == '1' else 's'}") for h in held]
        traces.append(_segment(name, shares, style, said))
    share_free = [picture.free[r] / float(capacity[r]) for r in present]
    free = [
        f"{resource_label(cluster, r)}: {amount(picture.free[r], cluster.units[r])} "
        f"of {number(float(capacity[r]))}"
        for r in present
    ]
    if by_time:
        share_free.append(max(0.0, 1.0 - sum(h.time for h in picture.holdings)))
        free.append(f"time: {percent(share_free[-1])}")
    said = [hover("free", f) for f in free]
    traces.append(_segment("", share_free, Style(COLOUR_OF_FREE, ""), said))
    longest = max((sum(t["x"][k] for t in traces) for k in range(len(labels))), default=1.0)
    drawn = layout(height=46 + 40 * len(labels)) | {"barmode": "stack", "bargap": 0.28}
    drawn["xaxis"] |= {"range": [0, max(1.0, longest)], "tickformat": ".0%", "dtick": 0.2}
    drawn["yaxis"] = rows(labels) | {"showgrid": False}
    drawn["uniformtext"] = {"mode": "hide", "minsize": 10}
    return {"data": traces, "layout": drawn}


def _segment(name: str, shares: list[float], style: Style, said: list[str]) -> Trace:
    """Draw one holder's part of every bar, with its name where that fits."""
    places = list(range(len(shares)))
    drawn = bars("", places, np.array(shares), said, style.colour, level=True)
    drawn["marker"]["pattern"] = {
        "shape": style.pattern,
        "fillmode": "overlay",
        "size": 7,
        "solidity": 0.2,
    }
    return drawn | {
        "x": shares,
        "text": [plain(shortened(name))] * len(shares),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "insidetextfont": {"color": ink_on(style.colour)},
        "constraintext": "inside",
    }


def share_figure(allocation: Allocation, styles: Sequence[Style]) -> Figure:
    """Draw every user's dominant share, the largest first."""
    problem = allocation.problem
    order = largest_first(allocation.dominant_share)
    shares = allocation.dominant_share[order]
    said = [_said_of_share(allocation, int(n)) for n in order]
    if len(order) > USERS_WITH_A_ROW_EACH:
        ranks = list(range(1, len(order) + 1))
        trace = bars("", ranks, shares, said, COLOURS[0])
        trace["marker"]["line"] = {"width": 0}
        return {"data": [trace], "layout": _ranked() | {"bargap": 0}}
    places = list(range(len(order)))
    colours = [styles[n].colour for n in order]
    traces = [bars("dominant share", places, shares, said, colours, level=True)]
    if is_weighted(allocation):
        weighs = np.flatnonzero(problem.weight[order] > 0)
        per_weight = shares[weighs] / problem.weight[order][weighs]
        name, of = "per unit of weight", [said[k] for k in weighs]
        traces.append(dots(name, per_weight, weighs, of, colour=INK, size=9, symbol="diamond"))
    return {"data": traces, "layout": listed([problem.users.names[n] for n in order])}


def comparison_figure(answers: Mapping[str, Allocation]) -> Figure:
    """Draw every user's dominant share under each mechanism."""
    first = next(iter(answers.values()))
    names = first.problem.users.names
    many = len(names) > USERS_WITH_A_ROW_EACH
    order = largest_first(first.dominant_share)
    traces: list[Trace] = []
    for k, (mechanism, allocation) in enumerate(answers.items()):
        colour = COLOURS[k % len(COLOURS)]
        if many:
            order = largest_first(allocation.dominant_share)
        shares = allocation.dominant_share[order]
        said = [f"{plain(mechanism)}<br>{_said_of_share(allocation, int(n))}" for n in order]
        if many:
            ranks, dash = np.arange(1, len(order) + 1), DASHES[k % len(DASHES)]
            traces.append(line(mechanism, ranks, shares, said, colour=colour, dash=dash))
        else:
            symbol = SYMBOLS[k % len(SYMBOLS)]
            places = np.arange(len(order))
            traces.append(
                dots(mechanism, shares, places, said, colour=colour, symbol=symbol, opacity=0.85)
            )
    drawn = _ranked() if many else listed([names[n] for n in order])
    return {"data": traces, "layout": drawn | {"showlegend": True}}


def is_weighted(allocation: Allocation) -> bool:
    """Return whether users' weights differ."""
    weight = allocation.problem.weight
    return bool((weight != weight[0]).any())


def _ranked() -> dict[str, object]:
    return layout("users, the largest dominant share first", height=340, share=True)


def _said_of_share(allocation: Allocation, n: int) -> str:
    problem = allocation.problem
    share, weight = float(allocation.dominant_share[n]), float(problem.weight[n])
    per_weight = f": {percent(share / weight)} per unit of weight" if weight else ""
    return hover(
        problem.users.names[n],
        f"{number(float(allocation.user_tasks[n]))} tasks",
        f"{percent(share)} of all {allocation.dominant_resource[n]}",
        f"weight {number(weight)}{per_weight}",
    )
