"""The picture of what fairness costs."""

from __future__ import annotations

from math import isfinite
from typing import Any

from fairlead.properties.trade_off import TradeOff, TradeOffPoint
from fairlead.report.figures import COLOURS, Figure
from fairlead.report.numbers import number, percent

HEIGHT_OF_ONE = 210


def trade_off_figures(trade_off: TradeOff) -> dict[str, Figure]:
    """Draw total tasks, the least share and envy over alpha, one picture each, on one scale."""
    points = trade_off.points
    users = trade_off.problem.n_users
    return {
        "tasks": _over_alpha(points, [p.tasks for p in points], COLOURS[0], "tasks", ",.3~s"),
        "least": _over_alpha(
            points, [p.least_share for p in points], COLOURS[2], "least share", ".3~p"
        ),
        "envious": _over_alpha(
            points, [p.envious / users for p in points], COLOURS[5], "users with envy", ".0%"
        ),
    }


def describe(point: TradeOffPoint, users: int) -> str:
    """Say in a line of HTML what one alpha gives."""
    envy = f"by up to {percent(point.largest_envy)}" if isfinite(point.largest_envy) else ""
    return (
        f"<b>alpha {point.alpha:g}</b><br>{number(point.tasks)} tasks<br>"
        f"least share {percent(point.least_share)}<br>"
        f"{point.envious:,} of {users:,} users envy another {envy if point.envious else ''}"
    )


def _over_alpha(
    points: tuple[TradeOffPoint, ...], values: list[float], colour: str, what: str, tick: str
) -> Figure:
    users = len(points)
    highest = max(values, default=1.0)
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [point.alpha for point in points],
        "y": values,
        "line": {"color": colour, "width": 2.5},
        "marker": {"size": 7, "color": colour},
        "hoverinfo": "text",
        "hovertext": [
            f"alpha {p.alpha:g}: {number(v)}" for p, v in zip(points, values, strict=True)
        ]
        if users
        else [],
        "showlegend": False,
    }
    layout = {
        "height": HEIGHT_OF_ONE,
        "margin": {"l": 78, "r": 24, "t": 10, "b": 46},
        "xaxis": {"title": {"text": "alpha"}, "rangemode": "tozero", "zeroline": False},
        "yaxis": {
            "title": {"text": what},
            "tickformat": tick,
            "range": [0, 1.08 * highest if highest > 0 else 1],
            "nticks": 5,
        },
    }
    return {"data": [trace], "layout": layout}
