"""Measure the price of fairness: alpha-fair allocations from the most efficient to the most even.

Kesidis et al., III, after Joe-Wong et al. 2013. Neither the sum of tasks nor the least share need
be monotone in alpha.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from fairlead.errors import CertificateError
from fairlead.mechanisms.catalogue import solve
from fairlead.mechanisms.utility import check_alpha
from fairlead.model.allocation import Allocation
from fairlead.model.problem import Problem
from fairlead.model.reductions import active_part
from fairlead.properties.envy import measure_envy
from fairlead.report.allocation_document import size_of
from fairlead.report.document import (
    FAILS,
    HOLDS,
    Content,
    Document,
    Prose,
    Statement,
    count_cell,
    figure,
    numbers,
    table_of,
)
from fairlead.report.numbers import number, percent

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
# Smaller relative gains do not count as envy.
LEAST_ENVY = 1e-6


@dataclass(frozen=True)
class TradeOffPoint:
    """Measures of the alpha-fair allocation for one alpha."""

    alpha: float
    tasks: float  # tasks of all users, ``sum_n x[n]``
    least_share: float  # least dominant share over weight, with weights scaled to a mean of 1
    envious: int  # users that could run more tasks with another user's bundle
    largest_envy: float  # largest relative gain with it; infinite for a user without tasks
    utilization: dict[str, float]  # used fraction of each resource
    violation: float  # of the certificate (eq. 17)

    def to_dict(self) -> dict[str, Any]:
        """Return the point as plain values; an infinite envy is None."""
        values = dict(vars(self))
        values["largest_envy"] = self.largest_envy if isfinite(self.largest_envy) else None
        return values


@dataclass(frozen=True)
class TradeOff:
    """The points of all alphas, and the alphas without a proved answer."""

    problem: Problem
    time_shared: bool  # TDM, instead of RDM
    points: tuple[TradeOffPoint, ...]  # in order of alpha
    unproved: dict[float, str]  # by alpha without a certified answer, the reason

    def to_dict(self) -> dict[str, Any]:
        """Return the trade-off as plain values, for JSON."""
        return {
            "fairlead": 1,
            "division": "time" if self.time_shared else "resource",
            "users": self.problem.n_users,
            "points": [point.to_dict() for point in self.points],
            "unproved": {f"{alpha:g}": reason for alpha, reason in self.unproved.items()},
        }


def measure_trade_off(
    problem: Problem,
    alphas: Sequence[float] = ALPHAS,
    *,
    time_shared: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> TradeOff:
    """Allocate alpha-fairly for several alphas, and measure efficiency, evenness and envy.

    `time_shared` shares servers by time (TDM) instead of by resource (RDM). `on_progress` is called
    with the finished alphas and their number. Raises InputError for an alpha out of range, and
    RefusalError where alpha-fairness does not admit the problem.
    """
    problem, _, _ = active_part(problem)
    wanted = sorted({check_alpha(alpha) for alpha in alphas})
    points, unproved = [], {}
    for done, alpha in enumerate(wanted):
        if on_progress is not None:
            on_progress(done, len(wanted))
        name = "alpha-fair-tdm" if time_shared else "alpha-fair"
        try:
            allocation = solve(problem, name, alpha=alpha)
        except CertificateError as failure:
            unproved[alpha] = str(failure).removeprefix(f"{name}: ")
            continue
        points.append(_measure(allocation, alpha, time_shared))
    return TradeOff(problem, time_shared, tuple(points), unproved)


def _measure(allocation: Allocation, alpha: float, time_shared: bool) -> TradeOffPoint:
    problem = allocation.problem
    weight = problem.weight / problem.weight.mean()
    envy = measure_envy(problem, allocation.tasks, time_shared=time_shared)
    most = float(envy.gain.max(initial=0.0))
    return TradeOffPoint(
        alpha=alpha,
        tasks=float(allocation.user_tasks.sum()),
        least_share=float((allocation.dominant_share / weight).min()),
        envious=envy.count(LEAST_ENVY),
        largest_envy=most if most > LEAST_ENVY else 0.0,
        utilization=allocation.utilization,
        violation=float(allocation.certificate.violation),
    )


_MEASURES = (
    "The larger alpha, the more users with few tasks are favoured: at 0 as many tasks as possible "
    "run; at 1 shares are proportionally fair; as alpha grows, shares approach max-min fairness in "
    "tasks. Least share: the least dominant share over weight (weights scaled to a mean of 1). "
    "Users with envy: users that could run more tasks with another user's bundle, scaled by "
    "weights. Largest envy: the largest such gain, relative to the user's tasks."
)


def trade_off_document(trade_off: TradeOff, title: str) -> Document:
    """Return the document of a trade-off: tasks, the least share and envy for each alpha.

    Parameters
    ----------
    trade_off : TradeOff
        With at least one point.
    title : str
        Name of the problem, such as its file's.
    """
    points = trade_off.points
    most = max(point.tasks for point in points)
    worst = max(point.violation for point in points)
    rows: list[list[Content]] = [
        [
            f"{point.alpha:g}",
            figure(point.tasks),
            figure(point.tasks / most, percent),
            figure(point.least_share, percent),
            count_cell(point.envious),
            percent(point.largest_envy) if isfinite(point.largest_envy) else "has no tasks",
        ]
        for point in points
    ]
    headings = (
        "alpha",
        "tasks",
        "of the maximum",
        "least share",
        "users with envy",
        "largest envy",
    )
    division = "shared by time (TDM)" if trade_off.time_shared else "divided by resource (RDM)"
    return Document(
        title,
        "cost of fairness",
        f"{size_of(trade_off.problem)}, servers {division}, by alpha-fairness",
        _verdict(trade_off),
        [
            table_of("Results of each alpha", numbers(*headings), rows),
            Prose(_MEASURES, "small"),
            Statement(
                HOLDS,
                "every point is a separate answer, proved by eq. 17",
                "proof",
                "holds",
                f"violation {worst:.1e} at most",
            ),
        ],
        trade_off.to_dict,
    )


def _verdict(trade_off: TradeOff) -> Statement:
    """Compare the first and the last alpha."""
    first, last = trade_off.points[0], trade_off.points[-1]
    text = (
        f"From alpha {first.alpha:g} to alpha {last.alpha:g}, tasks go from {number(first.tasks)} "
        f"to {number(last.tasks)}, the least share from {percent(first.least_share)} to "
        f"{percent(last.least_share)}, and users with envy from {first.envious:,} to "
        f"{last.envious:,} of {trade_off.problem.n_users:,}."
    )
    if not trade_off.unproved:
        return Statement(HOLDS, text)
    alphas = ", ".join(f"{alpha:g}" for alpha in trade_off.unproved)
    return Statement(FAILS, f"{text} NO ANSWER IS PROVED for alpha {alphas}.")
