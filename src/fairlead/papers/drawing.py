"""Pieces of the pictures: lines over time, distributions, bubbles and bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.report.figures import COLOUR_OF_OTHERS, COLOURS, Figure, plain

BEST, FIRST, SLOTS = COLOURS[0], COLOURS[1], COLOURS[5]
_LARGEST_BUBBLE, _SMALLEST_BUBBLE = 26.0, 4.0


def line(
    name: str,
    x: FloatArray,
    y: FloatArray,
    hover: Sequence[str],
    *,
    colour: str,
    width: float = 2.0,
    dash: str = "solid",
    steps: bool = False,
) -> dict[str, Any]:
    """Draw one line; `steps` holds each value until the next."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(name),
        "x": [round(v, 6) for v in x.tolist()],
        "y": [round(v, 6) for v in y.tolist()],
        "line": {
            "color": colour,
            "width": width,
            "dash": dash,
            "shape": "hv" if steps else "linear",
        },
        "hovertext": list(hover),
        "hoverinfo": "text",
    }


def bubbles(x: FloatArray, y: FloatArray, tasks: IntArray, hover: Sequence[str]) -> dict[str, Any]:
    """Draw a circle for each user, its size logarithmic in the number of its tasks."""
    size = np.log(np.maximum(tasks, 1) + 1.0)
    size = _SMALLEST_BUBBLE + (_LARGEST_BUBBLE - _SMALLEST_BUBBLE) * size / size.max()
    return {
        "type": "scatter",
        "mode": "markers",
        "showlegend": False,
        "x": [round(v, 6) for v in x.tolist()],
        "y": [round(v, 6) for v in y.tolist()],
        "marker": {"size": size.round(1).tolist(), "color": BEST, "opacity": 0.5},
        "hovertext": list(hover),
        "hoverinfo": "text",
    }


def bars(
    name: str, labels: Sequence[str], y: FloatArray, hover: Sequence[str], colour: str
) -> dict[str, Any]:
    """Draw upright bars."""
    return {
        "type": "bar",
        "name": plain(name),
        "x": list(labels),
        "y": [None if np.isnan(v) else round(v, 6) for v in y.tolist()],
        "hovertext": list(hover),
        "hoverinfo": "text",
        "marker": {"color": colour},
    }


def diagonal() -> dict[str, Any]:
    """Draw where both are equal."""
    both = np.array([0.0, 1.0])
    drawn = line("", both, both, [], colour=COLOUR_OF_OTHERS, width=1.2, dash="dot")
    return drawn | {"hoverinfo": "skip", "showlegend": False}


def layout(
    across: str, up: str, *, height: int = 300, share: bool = True, legend: bool = True
) -> dict[str, Any]:
    """Lay out a picture with named axes; shares of one are written in per cent."""
    axis = {"title": {"text": up}, "automargin": True, "rangemode": "tozero"}
    return {
        "height": height,
        "margin": {"l": 10, "r": 18, "t": 30 if legend else 10, "b": 46, "pad": 6},
        "xaxis": {"title": {"text": across}, "showgrid": False, "zeroline": False, "nticks": 9},
        "yaxis": axis | ({"tickformat": ".0%"} if share else {}),
        "showlegend": legend,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hovermode": "closest",
    }


def square(across: str, up: str, data: list[dict[str, Any]]) -> Figure:
    """Lay out a picture of two shares of one against each other."""
    drawn = layout(across, up, height=460, legend=False)
    for axis in ("xaxis", "yaxis"):
        drawn[axis] |= {"range": [-0.03, 1.03], "tickformat": ".0%", "showgrid": True}
    return {"data": data, "layout": drawn}
