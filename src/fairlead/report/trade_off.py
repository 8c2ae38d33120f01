"""The document of what fairness costs, and its pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

import numpy as np

from fairlead.properties.trade_off import TradeOff, TradeOffPoint
from fairlead.report.allocation import size_of
from fairlead.report.charts import COLOURS, Figure, layout, line
from fairlead.report.document import (
    FAILS,
    HOLDS,
    PAGE,
    Cell,
    Column,
    Content,
    Document,
    Listing,
    Picture,
    Prose,
    Section,
    Statement,
    Table,
    table_of,
)
from fairlead.report.numbers import UNCHANGED, change, number, percent

_ALPHA = (
    "Alpha says how much a task of those who have little counts: at 0 all tasks count alike and as "
    "many as possible run; at 1 shares are proportionally fair; as alpha grows those with the "
    "fewest tasks come first."
)
_MEASURES = (
    "Tasks: of all users. Least share: the least that a user has of its dominant resource, per "
    "unit of weight (weights scaled to a mean of 1). Users with envy: those that could run more "
    "tasks with another's bundle, weights considered. Largest envy: the most that one of them "
    "would gain, relative to what it has."
)


def trade_off_document(trade_off: TradeOff, title: str, left_out: Sequence[str] = ()) -> Document:
    """Show tasks, the least share and envy along alpha; there has to be a point.

    The other arguments are as in `fairlead.report.allocation.allocation_document`.
    """
    points = trade_off.points
    unproved = [f"alpha {alpha:g}: {reason}" for alpha, reason in trade_off.unproved.items()]
    worst = max(point.violation for point in points)
    division = "shared by time (TDM)" if trade_off.time_shared else "divided by resource (RDM)"
    return Document(
        title,
        "what fairness costs",
        f"{size_of(trade_off.problem)}, servers {division}, by alpha-fairness",
        _verdict(trade_off),
        [
            # The terminal's command complains of them by itself.
            *([Listing(unproved, "without an answer", "warning", only=PAGE)] if unproved else []),
            _over_alpha(points, "tasks", lambda point: point.tasks, COLOURS[0]),
            _over_alpha(points, "least share", lambda point: point.least_share, COLOURS[2]),
            _over_alpha(points, "users with envy", lambda point: point.envious, COLOURS[5]),
            Section(
                "Point by point",
                [Prose(_ALPHA, "small"), _points(points), Prose(_MEASURES, "small")],
            ),
            Section(
                "Proof",
                [
                    Statement(
                        HOLDS,
                        "every point is an answer of its own, proved by eq. 17",
                        "proof",
                        "holds",
                        f"violation {worst:.1e} at most",
                    )
                ],
            ),
        ],
        trade_off.to_dict,
        left_out,
    )


def _verdict(trade_off: TradeOff) -> Statement:
    """Describe what the way from the first to the last alpha costs, and what it gives."""
    first, last = trade_off.points[0], trade_off.points[-1]
    users = trade_off.problem.n_users
    if first is last:
        said = (
            f"At alpha {first.alpha:g} {number(first.tasks)} tasks run, the least share is "
            f"{percent(first.least_share)}, and {first.envious:,} of {users:,} users envy another"
        )
    else:
        tasks, share = _moved(first.tasks, last.tasks), _moved(first.least_share, last.least_share)
        by = f"by {change(last.tasks / first.tasks - 1.0).lstrip('+−')}"
        ends = f"{number(first.tasks)} to {number(last.tasks)}"
        count = f"the tasks {tasks.rstrip('s')} {by} ({ends})"
        least = f"{share} from {percent(first.least_share)} to {percent(last.least_share)}"
        envy = f"go from {first.envious:,} to {last.envious:,}"
        if not tasks:
            count = f"the tasks stay {number(last.tasks)}"
        if not share:
            least = f"stays {percent(last.least_share)}"
        if first.envious == last.envious:
            envy = f"stay {last.envious:,}"
        said = (
            f"From alpha {first.alpha:g} to alpha {last.alpha:g} {count}, the least share {least}, "
            f"and users with envy {envy} of {users:,}"
        )
        most = max(trade_off.points, key=lambda point: point.least_share)
        if _moved(max(first.least_share, last.least_share), most.least_share):
            said += (
                f". The least share is largest at alpha {most.alpha:g}, {percent(most.least_share)}"
            )
    if not trade_off.unproved:
        return Statement(HOLDS, f"{said}.")
    alphas = ", ".join(f"{alpha:g}" for alpha in trade_off.unproved)
    return Statement(FAILS, f"{said}. NO ANSWER IS PROVED for alpha {alphas}.")


def _moved(before: float, after: float) -> str:
    """Describe how a value moves; empty where the change does not matter."""
    if abs(after - before) <= UNCHANGED * before:
        return ""
    return "rises" if after > before else "falls"


def _points(points: Sequence[TradeOffPoint]) -> Table:
    most = max(point.tasks for point in points)
    rows: list[list[Content]] = [
        [
            Cell(f"{point.alpha:g}", point.alpha),
            Cell(number(point.tasks), point.tasks),
            Cell(percent(point.tasks / most), point.tasks / most, part=point.tasks / most),
            Cell(percent(point.least_share), point.least_share),
            Cell(f"{point.envious:,}", point.envious),
            Cell(
                percent(point.largest_envy) if isfinite(point.largest_envy) else "has nothing",
                point.largest_envy,
            ),
        ]
        for point in points
    ]
    headings = ("alpha", "tasks", "of the most", "least share", "users with envy", "largest envy")
    return table_of("What each alpha gives", [*map(Column, headings)], rows)


def _over_alpha(
    points: Sequence[TradeOffPoint],
    what: str,
    measure: Callable[[TradeOffPoint], float],
    colour: str,
) -> Picture:
    """Draw one measure over alpha."""
    shares = what == "least share"

    def figure() -> Figure:
        alphas = np.array([point.alpha for point in points])
        values = np.array([measure(point) for point in points], dtype=float)
        said = [
            f"alpha {alpha:g}: {percent(value) if shares else number(value)}"
            for alpha, value in zip(alphas.tolist(), values.tolist(), strict=True)
        ]
        drawn = layout("alpha", what, height=210, share=shares)
        drawn["xaxis"] |= {"rangemode": "tozero"}
        # With the same margin the three pictures have the same alpha below each other.
        drawn["margin"] |= {"l": 78}
        drawn["yaxis"] |= {"range": [0, 1.08 * (values.max() or 1.0)], "automargin": False}
        trace = line(what, alphas, values, said, colour=colour, width=2.5, marks=7)
        return {"data": [trace | {"cliponaxis": False}], "layout": drawn}

    return Picture("", figure, f"{what.capitalize()} over alpha; the numbers are in the table")
