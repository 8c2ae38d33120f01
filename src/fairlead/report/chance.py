"""The picture of how far random fillings vary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.model.ties import largest_first
from fairlead.report.figures import USERS_WITH_A_ROW_EACH, Figure, Style, listed_layout, plain
from fairlead.report.numbers import number, spread
from fairlead.scheduler.trials import Summary, Trials

# Bars shorter than this part of the picture are not seen beside their dot.
SHORTEST_BAR = 0.02


@dataclass(frozen=True)
class _Row:
    user: int
    name: str
    mean: float
    margin: float
    sd: float


def chance_figure(trials: Trials, styles: Sequence[Style]) -> Figure:
    """Draw mean tasks with the margin of the mean and the deviation of one trial.

    A row per user and group if these are few, else per user, and only the largest users if these
    are many. Where nothing varies by as much as can be seen, deviations are drawn by themselves, as
    shares of the mean. There have to be several trials of a random policy.
    """
    rows = _rows(trials)
    largest = max((row.mean for row in rows), default=0.0)
    widest = max((row.sd for row in rows), default=0.0)
    shares = 0 < widest < SHORTEST_BAR * largest
    colours = [styles[row.user].colour for row in rows]
    traces = []
    for place, (row, colour) in enumerate(zip(rows, colours, strict=True)):
        unit = row.mean if shares and row.mean > 0 else 1.0
        x = 0.0 if shares else row.mean
        traces += [
            _bar(x, place, row.sd / unit, colour, thickness=1.5, cap=4),
            _bar(x, place, row.margin / unit, colour, thickness=6, cap=0),
        ]
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [0.0 if shares else row.mean for row in rows],
            "y": list(range(len(rows))),
            "hovertext": [_hover(row) for row in rows],
            "hoverinfo": "text",
            "marker": {"size": 11, "color": colours},
        }
    )
    layout = listed_layout([row.name for row in rows]) | {"showlegend": False}
    if shares:
        title = "deviation from the mean, as a share of it"
        layout["xaxis"] = {"tickformat": ".3~%", "title": {"text": title}, "nticks": 9}
    else:
        layout["xaxis"] = {"rangemode": "tozero", "title": {"text": "tasks"}, "nticks": 7}
    layout["height"] += 30
    layout["margin"] = {"l": 10, "r": 30, "t": 6, "b": 52, "pad": 6}
    return {"data": traces, "layout": layout}


def _bar(
    x: float, place: int, reach: float, colour: str, *, thickness: float, cap: int
) -> dict[str, Any]:
    """Draw an error bar; it has one colour for all of its trace, so each is a trace."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [x],
        "y": [place],
        "error_x": {
            "type": "data",
            "array": [reach],
            "thickness": thickness,
            "width": cap,
            "color": colour,
        },
        "hoverinfo": "skip",
        "marker": {"size": 1, "color": colour},
    }


def _hover(row: _Row) -> str:
    return (
        f"<b>{plain(row.name)}</b><br>{number(row.mean)} ± {spread(row.margin)} tasks"
        f"<br>sd {spread(row.sd)}"
    )


def _rows(trials: Trials) -> list[_Row]:
    problem = trials.problem
    users, groups = problem.users.names, problem.cluster.groups
    pairs = np.argwhere(trials.tasks.mean > 0).tolist()
    if len(pairs) <= USERS_WITH_A_ROW_EACH:
        return [_row(n, f"{users[n]} on {groups[g]}", trials.tasks, n, g) for n, g in pairs]
    largest = largest_first(trials.allocation.dominant_share)
    shown = sorted(largest[:USERS_WITH_A_ROW_EACH].tolist())
    return [_row(n, users[n], trials.user_tasks, n) for n in shown]


def _row(user: int, name: str, summary: Summary, *index: int) -> _Row:
    assert summary.margin is not None
    assert summary.sd is not None
    mean, margin, sd = (float(v[index]) for v in (summary.mean, summary.margin, summary.sd))
    return _Row(user, name, mean, margin, sd)
