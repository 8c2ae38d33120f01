"""Pictures of allocations, and the users that hold each group of servers."""

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
    SYMBOLS,
    USERS_DRAWN,
    Axis,
    Bars,
    Dots,
    Figure,
    Trace,
    hover,
    listed,
    rows,
    shortened,
)
from fairlead.report.numbers import amount, counted, number, percent, resource_label, tasks_text

LARGEST_HOLDERS = 12
# Relative to a user's tasks or a group's capacity. Smaller amounts are errors of solvers or
# rounding, and are not shown.
NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class Holding:
    """The tasks of one user, or of several small users together, on a group."""

    name: str
    users: tuple[int, ...]  # indices in the problem
    tasks: float
    amounts: tuple[float, ...]  # (R,): held amount of each resource
    time: float  # share of the group's time, where servers are shared by time


@dataclass(frozen=True)
class GroupHoldings:
    """A group of identical servers and its holders, the largest first."""

    group: int
    holdings: tuple[Holding, ...]
    free: tuple[float, ...]  # (R,): free amount of each resource


def runs_on(allocation: Allocation) -> BoolArray:
    """Return (N, G) bool: whether more than a billionth of a user's tasks run on a group."""
    runs: BoolArray = allocation.tasks > NEGLIGIBLE * allocation.user_tasks[:, None]
    return runs


def group_holdings(allocation: Allocation, g: int) -> GroupHoldings:
    """Return the largest holders of a group individually, and all others together.

    A holder's size is the largest of its shares of the group's resources. Cost O(N R).
    """
    problem = allocation.problem
    capacity = problem.group_capacity[g]
    tasks = allocation.tasks[:, g]
    users = np.flatnonzero(runs_on(allocation)[:, g])
    amounts = tasks[users, None] * problem.demand[users]
    shares = np.divide(amounts, capacity, out=np.zeros_like(amounts), where=capacity > 0)
    gamma = problem.gamma[users, g]
    time = np.divide(tasks[users], gamma, out=np.zeros(len(users)), where=gamma > 0)
    order = largest_first(np.maximum(shares.max(axis=1, initial=0.0), time))
    # A single further holder is shown itself, not as "1 other".
    individual = len(order) if len(order) <= LARGEST_HOLDERS + 1 else LARGEST_HOLDERS
    rows_of_holding = [[k] for k in order[:individual].tolist()]
    if individual < len(order):
        rows_of_holding.append(order[individual:].tolist())
    names = problem.users.names
    holdings = tuple(
        Holding(
            names[users[held[0]]] if len(held) == 1 else counted(len(held), "other"),
            tuple(users[held].tolist()),
            float(tasks[users[held]].sum()),
            tuple(amounts[held].sum(axis=0).tolist()),
            float(time[held].sum()),
        )
        for held in rows_of_holding
    )
    free = capacity - amounts.sum(axis=0)
    free[free <= NEGLIGIBLE * capacity] = 0.0
    return GroupHoldings(g, holdings, tuple(free.tolist()))


def user_colours(allocation: Allocation) -> list[str]:
    """Choose a colour for every user, the same in every picture; the largest users come first."""
    colours = [COLOUR_OF_OTHERS] * allocation.problem.n_users
    for rank, n in enumerate(largest_first(allocation.dominant_share).tolist()):
        colours[n] = COLOURS[rank % len(COLOURS)]
    return colours


def group_figure(allocation: Allocation, group: GroupHoldings, colours: Sequence[str]) -> Figure:
    """Draw one group: a bar per resource from 0 to 100 % of its capacity, a segment per holder.

    If servers are shared by time, a further bar shows the shares of time.
    """
    cluster = allocation.problem.cluster
    capacity = allocation.problem.group_capacity[group.group]
    by_time = allocation.mechanism.endswith("-tdm")
    present = np.flatnonzero(capacity > 0).tolist()
    labels = [resource_label(cluster, r) for r in present] + ["time"] * by_time

    def segment(name: str, amounts: Sequence[float], time: float, tasks: str, colour: str) -> Bars:
        shares = [amounts[r] / float(capacity[r]) for r in present] + [time] * by_time
        texts = [
            f"{resource_label(cluster, r)}: {amount(amounts[r], cluster.units[r])} "
            f"of {number(float(capacity[r]))} ({percent(share)})"
            for r, share in zip(present, shares, strict=False)
        ] + [f"time: {percent(time)}"] * by_time
        under_pointer = [hover(name, text, tasks) for text in texts]
        inside = [shortened(name) if tasks else ""] * len(shares)
        return Bars("", range(len(shares)), shares, under_pointer, colour, inside)

    traces = []
    for holding in group.holdings:
        is_single = len(holding.users) == 1
        colour = colours[holding.users[0]] if is_single else COLOUR_OF_OTHERS
        tasks = tasks_text(holding.tasks)
        traces.append(segment(holding.name, holding.amounts, holding.time, tasks, colour))
    idle = max(0.0, 1.0 - sum(holding.time for holding in group.holdings))
    traces.append(segment("free", group.free, idle, "", COLOUR_OF_FREE))
    longest = max((sum(bars.lengths[k] for bars in traces) for k in range(len(labels))), default=1)
    x = Axis(ends=(0.0, max(1.0, longest)), step=0.2, is_share=True, has_grid=False)
    return Figure(traces, x, rows(labels, has_grid=False), 46 + 40 * len(labels), gap=0.28)


def share_figure(allocation: Allocation) -> Figure:
    """Draw the dominant shares of the largest users, the largest first."""
    problem = allocation.problem
    order = largest_first(allocation.dominant_share)[:USERS_DRAWN]
    shares = allocation.dominant_share[order]
    texts = [_share_text(allocation, int(n)) for n in order]
    of_user = user_colours(allocation)
    colours = [of_user[n] for n in order.tolist()]
    traces: list[Trace] = [Bars("dominant share", range(len(order)), shares, texts, colours)]
    if is_weighted(allocation):
        weighted = np.flatnonzero(problem.weight[order] > 0)
        per_weight = shares[weighted] / problem.weight[order][weighted]
        of = [texts[k] for k in weighted]
        name = "per unit of weight"
        traces.append(Dots(name, per_weight, weighted, of, size=9, symbol="diamond"))
    return listed([problem.users.names[n] for n in order], traces)


def comparison_figure(answers: Mapping[str, Allocation]) -> Figure:
    """Draw the dominant shares of the largest users under each mechanism."""
    first = next(iter(answers.values()))
    largest: FloatArray = np.max([a.dominant_share for a in answers.values()], axis=0)
    drawn = set(largest_first(largest)[:USERS_DRAWN].tolist())
    order = [n for n in largest_first(first.dominant_share).tolist() if n in drawn]
    traces = [
        Dots(
            mechanism,
            allocation.dominant_share[order],
            range(len(order)),
            [hover(mechanism, _share_text(allocation, n)) for n in order],
            colour=COLOURS[k % len(COLOURS)],
            symbol=SYMBOLS[k % len(SYMBOLS)],
            opacity=0.85,
        )
        for k, (mechanism, allocation) in enumerate(answers.items())
    ]
    return listed([first.problem.users.names[n] for n in order], traces, has_legend=True)


def is_weighted(allocation: Allocation) -> bool:
    """Return whether users have different weights, without a tree of queues."""
    weight = allocation.problem.weight
    return allocation.problem.users.queues is None and bool((weight != weight[0]).any())


def _share_text(allocation: Allocation, n: int) -> str:
    problem = allocation.problem
    share, weight = float(allocation.dominant_share[n]), float(problem.weight[n])
    per_weight = ""
    if weight and allocation.problem.users.queues is None:
        per_weight = f": {percent(share / weight)} per unit of weight"
    return hover(
        problem.users.names[n],
        tasks_text(float(allocation.user_tasks[n])),
        f"{percent(share)} of all {allocation.dominant_resource[n]}",
        f"weight {number(weight)}{per_weight}",
    )
