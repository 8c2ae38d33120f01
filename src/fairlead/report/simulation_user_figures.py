"""The pictures of what users gain and lose by another policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.ties import smallest_first
from fairlead.report.figures import (
    COLOUR_OF_OTHERS,
    COLOURS,
    USERS_WITH_A_ROW_EACH,
    Figure,
    plain,
    shortened,
)
from fairlead.report.numbers import counted, short_percent
from fairlead.report.simulation_figures import LONGEST_NAME, PolicyStyle
from fairlead.report.simulation_sentences import known, ratio_text
from fairlead.report.simulation_standing import Against
from fairlead.report.times import short_duration

# Ratios beyond are drawn as these.
LEAST_RATIO, LARGEST_RATIO = 1e-3, 1e3
BETTER, WORSE, SAME = COLOURS[0], COLOURS[5], COLOUR_OF_OTHERS
_MARKS = (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)
_MARGIN = {"l": 10, "r": 18, "t": 10, "b": 48, "pad": 6}


def ratios_figure(others: Sequence[Against], styles: Mapping[str, PolicyStyle]) -> Figure | None:
    """Draw every user's mean completion time over today's, sorted, a line for each policy."""
    traces, drawn_all, most_users = [], [1.0], 0
    for against in others:
        comparison = against.comparison
        compared = np.flatnonzero(comparison.jobs > 0)
        if not len(compared):
            continue
        drawn = np.clip(comparison.completion_ratio, LEAST_RATIO, LARGEST_RATIO)
        order = compared[smallest_first(drawn[compared])]
        drawn_all += [float(drawn[order[0]]), float(drawn[order[-1]])]
        most_users = max(most_users, len(order))
        style = styles[against.name]
        name = plain(shortened(against.name, LONGEST_NAME))
        few = len(order) <= USERS_WITH_A_ROW_EACH
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if few else "lines",
                "name": name,
                "legendgroup": style.key,
                "x": list(range(1, len(order) + 1)),
                "y": known(drawn[order]),
                "line": style.line,
                "marker": {"size": 7, "color": style.colour},
                "text": [_ratio_hover(against, n) for n in order.tolist()],
                "hovertemplate": "%{text}<br>%{fullData.name}<extra></extra>",
            }
        )
    if not traces:
        return None
    least, most = min(*drawn_all, 1 / 1.15) / 1.1, max(*drawn_all, 1.15) * 1.1
    marks = [mark for mark in _MARKS if least <= mark <= most]
    if len(marks) < 3:
        marks = [mark for mark in (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5) if least <= mark <= most]
    layout = {
        "height": 340,
        "margin": _MARGIN,
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": {
            "title": {"text": "users, whoever gains most first"},
            "range": [0.5, most_users + 0.5],
            "showgrid": False,
            "zeroline": False,
            "nticks": 8,
        },
        "yaxis": {
            "type": "log",
            "range": [float(np.log10(least)), float(np.log10(most))],
            "tickvals": marks,
            "ticktext": [f"×{mark:g}" for mark in marks],
            "automargin": True,
        },
        "shapes": [_level_line()],
    }
    return {"data": traces, "layout": layout}


def done_figure(against: Against) -> Figure | None:
    """Draw which part of each user's tasks is done at the horizon, against today; size by tasks."""
    ours, theirs = against.done
    return _done_figure(against, ours, theirs, "today")


def sharing_figure(sharing: Against) -> Figure | None:
    """Draw which part of each user's tasks is done when sharing, against being alone."""
    ours, theirs = sharing.done
    return _done_figure(sharing, ours, theirs, "alone")


def _done_figure(
    against: Against, ours: FloatArray, theirs: FloatArray, beside: str
) -> Figure | None:
    shown = np.flatnonzero(~np.isnan(ours + theirs))
    if not len(shown):
        return None
    tasks = against.outcome.summary.users.tasks
    # Larger ones first, so that smaller ones lie on top.
    order = shown[np.argsort(-tasks[shown], kind="stable")]
    difference = against.comparison.horizon_difference[order]
    names = against.comparison.users
    hover = [
        f"<b>{plain(shortened(names[n], LONGEST_NAME))}</b>, {counted(int(tasks[n]), 'task')}"
        f"<br>{short_percent(float(ours[n]))} done; {short_percent(float(theirs[n]))} {beside}"
        for n in order.tolist()
    ]
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "x": known(theirs[order]),
        "y": known(ours[order]),
        "text": hover,
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {
            "size": np.round(5 + 4 * np.log10(np.maximum(tasks[order], 1)), 1).tolist(),
            "color": [_colour(d) for d in difference.tolist()],
            "opacity": 0.7,
            "line": {"width": 0},
        },
    }
    axis = {"range": [-0.04, 1.06], "tickformat": ".0%", "dtick": 0.25, "zeroline": False}
    layout = {
        "height": 340,
        "margin": _MARGIN,
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": axis | {"title": {"text": f"done {beside}"}},
        "yaxis": axis | {"automargin": True},
        "shapes": [_diagonal()],
    }
    return {"data": [trace], "layout": layout}


def _colour(difference: float) -> str:
    return BETTER if difference > 0 else WORSE if difference < 0 else SAME


def _ratio_hover(against: Against, n: int) -> str:
    comparison = against.comparison
    name = plain(shortened(comparison.users[n], LONGEST_NAME))
    ours, theirs = comparison.completion[n], comparison.baseline_completion[n]
    return (
        f"<b>{name}</b>: {ratio_text(float(comparison.completion_ratio[n]))}<br>"
        f"{short_duration(float(ours))} instead of {short_duration(float(theirs))}, "
        f"{counted(int(comparison.jobs[n]), 'job')}"
    )


def _level_line() -> dict[str, Any]:
    line = {"color": COLOUR_OF_OTHERS, "width": 1.2, "dash": "dot"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1, "line": line}


def _diagonal() -> dict[str, Any]:
    line = {"color": COLOUR_OF_OTHERS, "width": 1.2, "dash": "dot"}
    return {"type": "line", "x0": 0, "x1": 1, "y0": 0, "y1": 1, "layer": "below", "line": line}
