"""The pictures of a cluster whose servers divide themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.distributed.asynchronous import AsynchronousRun
from fairlead.distributed.convergence import CERTIFIED, CLOSE, Comparison
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.ties import largest_first
from fairlead.report.figures import COLOURS, Figure, plain
from fairlead.report.numbers import percent, precise_percent

LINES = 20
LINES_IN_LEGEND = 12
POINTS = 1200
PICTURES = 16
# The violation is drawn between these: below is rounding, above somebody has next to nothing.
LEAST, MOST = 1e-12, 1e2
NAMES = {"ps-dsf": "PS-DSF", "ps-dsf-tdm": "PS-DSF (TDM)", "tsf": "TSF", "drfh": "C-DRFH"}

# By the names that style sheets have for them.
PLOTLY_DASH = {"dashed": "dash", "dotted": "dot"}

_ABOVE = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"}


@dataclass(frozen=True)
class Line:
    """How one mechanism is drawn in the pictures of what is used."""

    mechanism: str
    name: str
    colour: str
    dash: str


def drawn_lines(comparison: Comparison) -> list[Line]:
    """Return how the servers' own division is drawn, and then each exact answer beside it."""
    own = comparison.run.setting.mechanism
    others = [name for name in comparison.exact if name != own]
    return [
        Line(own, f"{NAMES[own]}, by the servers", COLOURS[0], "solid"),
        *(
            Line(
                name, f"{NAMES.get(name, name)}, exact", COLOURS[k + 1], ("dashed", "dotted")[k % 2]
            )
            for k, name in enumerate(others)
        ),
    ]


def shown_samples(run: AsynchronousRun) -> IntArray:
    """Return which samples are drawn: all, or of many evenly spaced ones and all near changes."""
    everything = np.arange(len(run.times))
    if len(everything) <= POINTS:
        return everything
    begins = np.searchsorted(run.times, [phase.begin for phase in run.phases])
    near = np.concatenate([np.arange(b - 1, b + 1 + POINTS // (4 * len(begins))) for b in begins])
    even = np.linspace(0, len(everything) - 1, POINTS).round().astype(np.int64)
    return np.union1d(even, near[(near >= 0) & (near < len(everything))])


def shown_users(run: AsynchronousRun) -> list[int]:
    """Return whose shares are drawn: everybody, or those whose shares are ever largest."""
    largest = run.dominant_share.max(axis=0)
    if len(largest) <= LINES:
        return list(range(len(largest)))
    return sorted(largest_first(largest)[:LINES].tolist())


def utilisation_pictures(comparison: Comparison) -> list[tuple[int, int]]:
    """Return the groups and resources that are drawn: those used least evenly by the mechanisms.

    Of many, those where the division over time is farthest from any of the others, in their order.
    """
    run = comparison.run
    problem = run.setting.problem
    pairs = [(int(g), int(r)) for g, r in np.argwhere(problem.cluster.capacity > 0)]
    if len(pairs) <= PICTURES:
        return pairs
    others = [name for name in comparison.exact if name != run.setting.mechanism]
    apart = np.zeros(problem.cluster.capacity.shape)
    phase = _phase_of_samples(run)
    for name in others:
        used = np.stack([comparison.exact_utilisation(name, k) for k in range(len(run.phases))])
        np.maximum(apart, np.abs(run.utilisation - used[phase]).mean(axis=0), out=apart)
    least_even = largest_first(np.array([1 + apart[pair] for pair in pairs]))[:PICTURES]
    return [pairs[k] for k in sorted(least_even.tolist())]


def utilisation_figure(comparison: Comparison, group: int, resource: int) -> Figure:
    """Draw how much of a group's resource is used, beside the exact answers for those present."""
    run = comparison.run
    traces = []
    own, *others = drawn_lines(comparison)
    for other in others:
        used = [
            float(comparison.exact_utilisation(other.mechanism, phase)[group, resource])
            for phase in range(len(run.phases))
        ]
        line = {"color": other.colour, "width": 2.5, "dash": PLOTLY_DASH[other.dash]}
        traces.append(_exact_line(run, other.name, used, line))
    samples = shown_samples(run)
    used_now = run.utilisation[samples, group, resource]
    hover = [
        f"<b>{own.name}</b><br>{percent(u)} at {t:,.6g} s"
        for u, t in zip(used_now.tolist(), run.times[samples].tolist(), strict=True)
    ]
    line = {"color": own.colour, "width": 2}
    traces.append(_line(own.name, run.times[samples], used_now, line, hover))
    lowest = min(min(trace["y"]) for trace in traces)
    bottom = 0.0 if lowest < 0.5 else 0.5
    layout = _over_time(run, "", 190) | {"showlegend": False}
    layout["margin"] = {"l": 10, "r": 18, "t": 8, "b": 44, "pad": 6}
    layout["yaxis"] |= {"range": [bottom, 1.03], "tickformat": ".0%", "nticks": 6}
    return {"data": traces, "layout": layout}


def violation_figure(run: AsynchronousRun) -> Figure:
    """Draw by how much the division misses its theorem, on a logarithmic scale."""
    samples = shown_samples(run)
    violation = run.violation[samples]
    drawn = np.clip(violation, LEAST, MOST)
    hover = [
        f"violation {f'{v:.1e}' if np.isfinite(v) else 'infinite: somebody has nothing'}"
        f"<br>at {t:,.6g} s"
        for v, t in zip(violation.tolist(), run.times[samples].tolist(), strict=True)
    ]
    line = {"color": COLOURS[0], "width": 2}
    trace = _line("violation", run.times[samples], drawn, line, hover) | {"showlegend": False}
    layout = _over_time(run, "violation", 320)
    ticks = [1e-12, 1e-9, 1e-6, 1e-3, 1e0, MOST]
    layout["yaxis"] |= {
        "type": "log",
        "range": [float(np.log10(LEAST)) - 0.4, float(np.log10(MOST)) + 0.4],
        "tickvals": ticks,
        "ticktext": ["1e-12 or less", "1e-9", "1e-6", "1e-3", "1", "100 or more"],
    }
    layout["shapes"] += [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": bound,
            "y1": bound,
            "line": {"color": COLOURS[5], "width": 1.2, "dash": "dot"},
        }
        for bound in (CLOSE, CERTIFIED)
    ]
    return {"data": [trace], "layout": layout}


def shares_figure(comparison: Comparison) -> Figure:
    """Draw users' dominant shares over time, and beside each what it has in the exact answer."""
    run = comparison.run
    names = run.setting.problem.users.names
    samples = shown_samples(run)
    share, users = run.dominant_share, shown_users(run)
    exact = _exact_shares(comparison)
    traces = []
    for rank, n in enumerate(users):
        colour = COLOURS[rank % len(COLOURS)]
        values = share[samples, n]
        hover = [
            f"<b>{plain(names[n])}</b><br>{precise_percent(s)} at {t:,.6g} s"
            for s, t in zip(values.tolist(), run.times[samples].tolist(), strict=True)
        ]
        # Earlier lines are wider, so that those which coincide are all seen.
        line = {"color": colour, "width": round(5.0 - 3.0 * rank / max(1, len(users) - 1), 2)}
        trace = _line(plain(names[n]), run.times[samples], values, line, hover)
        traces.append(trace | {"showlegend": len(users) <= LINES_IN_LEGEND})
        if exact is not None:
            thin = {"color": colour, "width": 1.3, "dash": "dot"}
            name = f"{plain(names[n])}, exact"
            traces.append(
                _exact_line(run, name, exact[:, n].tolist(), thin) | {"showlegend": False}
            )
    layout = _over_time(run, "dominant share", 400)
    layout["yaxis"] |= {"tickformat": ".3~p", "rangemode": "tozero"}
    return {"data": traces, "layout": layout}


def _exact_shares(comparison: Comparison) -> FloatArray | None:
    """Return (phases, N) dominant shares under the exact mechanism, None if it had no answer."""
    run = comparison.run
    own = run.setting.mechanism
    if own not in comparison.exact:
        return None
    tasks = np.stack([comparison.exact_tasks(own, k) for k in range(len(run.phases))])
    return run.share_of(tasks)


def _phase_of_samples(run: AsynchronousRun) -> IntArray:
    begins = [phase.begin for phase in run.phases]
    phase: IntArray = np.searchsorted(begins, run.times, side="right") - 1
    return phase


def _exact_line(
    run: AsynchronousRun, name: str, values: Iterable[float], line: dict[str, Any]
) -> dict[str, Any]:
    """Draw what is constant in each phase."""
    x, y, hover = [], [], []
    for phase, value in zip(run.phases, values, strict=True):
        x += [phase.begin, phase.end]
        y += [value, value]
        hover += [f"<b>{name}</b><br>{percent(value)}"] * 2
    return _line(name, np.array(x), np.array(y), line, hover)


def _line(
    name: str, x: FloatArray, y: FloatArray, line: dict[str, Any], hover: list[str]
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x.tolist(),
        "y": y.tolist(),
        "line": line,
        "hovertext": hover,
        "hoverinfo": "text",
    }


def _over_time(run: AsynchronousRun, what: str, height: int) -> dict[str, Any]:
    """Lay out a picture over time, with a thin line where somebody comes or goes."""
    until = run.setting.until
    return {
        "height": height,
        "margin": {"l": 10, "r": 18, "t": 34, "b": 46, "pad": 6},
        "xaxis": {
            "title": {"text": "seconds"},
            "range": [-0.01 * until, 1.01 * until],
            "showgrid": False,
            "zeroline": False,
            "nticks": 8,
        },
        "yaxis": {"title": {"text": what}, "automargin": True},
        "showlegend": True,
        "legend": _ABOVE,
        "hovermode": "closest",
        "shapes": [
            {
                "type": "line",
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "x0": phase.begin,
                "x1": phase.begin,
                "line": {"color": "#8d8d8d", "width": 1, "dash": "dot"},
            }
            for phase in run.phases
            if phase.changes
        ],
    }
