"""Documents of the cost of alpha-fairness."""

from __future__ import annotations

from math import isfinite

from fairlead.report.allocation import size_of
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
from fairlead_papers.trade_off.alpha_fairness import TradeOff

_MEASURES = (
    "The larger alpha, the more users with few tasks are favoured: at 0 as many tasks as possible "
    "run; at 1 shares are proportionally fair; as alpha grows, shares approach max-min fairness in "
    "tasks. Least share: the least dominant share over weight (weights scaled to a mean of 1). "
    "Users with envy: users that could run more tasks with another user's bundle, scaled by "
    "weights. Largest envy: the largest such gain, relative to the user's tasks."
)


def trade_off_document(trade_off: TradeOff, title: str) -> Document:
    """Show tasks, the least share and envy for each alpha.

    Parameters
    ----------
    trade_off : TradeOff
        With at least one point.
    title : str
        Name of the problem, such as its file's.

    Returns
    -------
    Document
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
