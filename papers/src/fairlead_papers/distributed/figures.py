"""The pictures of a cluster whose servers divide themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.ties import largest_first
from fairlead.report.charts import COLOURS, LESS, Figure, Trace, layout, line, mark_at
from fairlead_papers.distributed.asynchronous import AsynchronousRun
from fairlead_papers.distributed.convergence import CERTIFIED, CLOSE, Settlement

LINES = 20
NAMED_LINES = 12
POINTS = 1200
PICTURES = 16
# The violation is drawn between these: below is rounding, above somebody has next to nothing.
LEAST, MOST = 1e-12, 1e2
_WHEN = " at %{x:,.6~g} s"
NAMES = {"ps-dsf": "PS-DSF", "ps-dsf-tdm": "PS-DSF (TDM)", "tsf": "TSF", "drfh": "C-DRFH"}


def drawn_lines(settlement: Settlement) -> list[tuple[str, str, str, str]]:
    """Return key, name, colour and dash of the servers' own division, then of exact answers."""
    own = settlement.run.setting.mechanism
    others = [name for name in settlement.exact if name != own]
    return [
        (own, f"{NAMES[own]}, by the servers", COLOURS[0], "solid"),
        *(
            (name, f"{NAMES.get(name, name)}, exact", COLOURS[k + 1], ("dash", "dot")[k % 2])
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


def utilisation_pictures(settlement: Settlement) -> list[tuple[int, int]]:
    """Return the groups and resources that are drawn: those used least evenly by the mechanisms.

    Of many, those where the division over time is farthest from any of the others, in their order.
    """
    run = settlement.run
    capacity = run.setting.problem.cluster.capacity
    pairs = [(int(g), int(r)) for g, r in np.argwhere(capacity > 0)]
    if len(pairs) <= PICTURES:
        return pairs
    apart = np.zeros(capacity.shape)
    phase = np.searchsorted([p.begin for p in run.phases], run.times, side="right") - 1
    for name in settlement.exact.keys() - {run.setting.mechanism}:
        used = np.stack([settlement.exact_utilisation(name, k) for k in range(len(run.phases))])
        np.maximum(apart, np.abs(run.utilisation - used[phase]).mean(axis=0), out=apart)
    least_even = largest_first(np.array([1 + apart[pair] for pair in pairs]))[:PICTURES]
    return [pairs[k] for k in sorted(least_even.tolist())]


def utilisation_figure(
    settlement: Settlement, group: int, resource: int, *, legend: bool = False
) -> Figure:
    """Draw how much of a group's resource is used, beside the exact answers for those present."""
    run = settlement.run
    traces = []
    (own, own_name, own_colour, _), *others = drawn_lines(settlement)
    for key, name, colour, dash in others:
        used = [
            float(settlement.exact_utilisation(key, phase)[group, resource])
            for phase in range(len(run.phases))
        ]
        traces.append(_exact_line(run, name, used, colour=colour, width=2.5, dash=dash, key=key))
    samples, used_now = shown_samples(run), run.utilisation[:, group, resource]
    said = f"%{{y:.2%}} used{_WHEN}"
    x, y = run.times[samples], used_now[samples]
    traces.append(line(own_name, x, y, said, colour=own_colour, key=own))
    lowest = min(min(trace["y"]) for trace in traces)
    drawn = _timeline(run, "", 190, legend=legend)
    bottom = 0.0 if lowest < 0.5 else 0.5
    drawn["yaxis"] |= {"range": [bottom, 1.03], "tickformat": ".0%"}
    return {"data": traces, "layout": drawn}


def violation_figure(run: AsynchronousRun) -> Figure:
    """Draw by how much the division misses its theorem, on a logarithmic scale."""
    samples = shown_samples(run)
    times, violation = run.times[samples], run.violation[samples]
    said = [
        f"{f'{v:.1e}' if np.isfinite(v) else 'infinite: somebody has nothing'} at {t:,.6g} s"
        for v, t in zip(violation.tolist(), times.tolist(), strict=True)
    ]
    drawn = _timeline(run, "violation", 320)
    drawn["yaxis"] |= {
        "type": "log",
        "range": [float(np.log10(LEAST)) - 0.4, float(np.log10(MOST)) + 0.4],
        "tickvals": [LEAST, 1e-9, CERTIFIED, CLOSE, 1.0, MOST],
        "ticktext": ["≤ 1e-12", "1e-9", "1e-6", "1e-3", "1", "≥ 100"],
    }
    drawn["shapes"] += [mark_at(y=bound, colour=LESS) for bound in (CLOSE, CERTIFIED)]
    trace = line("violation", times, np.clip(violation, LEAST, MOST), said, colour=COLOURS[0])
    return {"data": [trace], "layout": drawn}


def shares_figure(settlement: Settlement) -> Figure:
    """Draw users' dominant shares over time, and beside each what it has in the exact answer."""
    run = settlement.run
    share, users, samples = run.dominant_share, shown_users(run), shown_samples(run)
    exact = _exact_shares(settlement)
    named = len(users) <= NAMED_LINES
    traces: list[Trace] = []
    for rank, n in enumerate(users):
        name = run.setting.problem.users.names[n]
        # Earlier lines are wider, so that those which coincide are all seen.
        width = round(5.0 - 3.0 * rank / max(1, len(users) - 1), 2)
        style: dict[str, Any] = {"colour": COLOURS[rank % len(COLOURS)], "key": f"user {n}"}
        said = f"%{{y:.4p}}{_WHEN}"
        own = line(name, run.times[samples], share[samples, n], said, width=width, **style)
        traces.append(own | {"showlegend": named})
        if exact is not None:
            style |= {"width": 1.3, "dash": "dot"}
            drawn = _exact_line(run, f"{name}, exact", exact[:, n].tolist(), **style)
            traces.append(drawn | {"showlegend": False})
    return {
        "data": traces,
        "layout": _timeline(run, "dominant share", 400, share=True, legend=True),
    }


def _exact_shares(settlement: Settlement) -> FloatArray | None:
    """Return (phases, N) dominant shares under the exact mechanism, None if it had no answer."""
    run = settlement.run
    own = run.setting.mechanism
    if own not in settlement.exact:
        return None
    tasks = np.stack([settlement.exact_tasks(own, k) for k in range(len(run.phases))])
    return run.share_of(tasks)


def _exact_line(run: AsynchronousRun, name: str, values: Iterable[float], **style: Any) -> Trace:
    """Draw what is constant in each phase."""
    ends = np.array([(phase.begin, phase.end) for phase in run.phases]).ravel()
    y = np.repeat(np.array(list(values)), 2)
    return line(name, ends, y, "%{y:.4p}", **style)


def _timeline(run: AsynchronousRun, what: str, height: int, **more: bool) -> dict[str, Any]:
    """Lay out a picture over time, with a thin line where somebody comes or goes."""
    until = run.setting.until
    drawn = layout("seconds", what, height=height, **more)
    drawn["xaxis"] |= {"range": [-0.01 * until, 1.01 * until]}
    drawn["shapes"] = [mark_at(x=phase.begin) for phase in run.phases if phase.changes]
    return drawn
