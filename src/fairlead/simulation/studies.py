"""Studies: policies over traces, windows, loads and random variations, compared in pairs.

Each variation is replayed under every policy, so that a difference between two policies is not one
of their traces. Means and mean differences have confidence intervals by Student's t.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy.stats import t as student_t

from fairlead.errors import InputError
from fairlead.executors.executor import Executor
from fairlead.model.arguments import file_name, number, several, switch, text, whole_number
from fairlead.model.cluster import FloatArray
from fairlead.model.notebooks import Shown
from fairlead.model.run_log import RECORDED
from fairlead.model.workload import Workload
from fairlead.simulation.planned_runs import Policies, plan_runs, policies_of
from fairlead.simulation.simulate import (
    Outcome,
    RunsFailedError,
    one_or_several,
    simulate,
    with_queues,
)
from fairlead.traces.journal_trace import JournalWorkload
from fairlead.traces.readers import read_workload
from fairlead.traces.resampling import WEEK, resampled
from fairlead.traces.time_window import seconds_since_start, time_window
from fairlead.traces.what_if import with_load

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

CONFIDENCE = 0.95
MOST_SEEDS = 10_000
TIMES = ("mean wait", "95 % wait", "mean completion", "makespan")  # figures in seconds
DRAWN = "mean wait"

WHOLE = (0.0, inf)  # the window of a whole trace

Trace = Workload | Path | str
Window = tuple[float | datetime, float | datetime]
Value = TypeVar("Value")


@dataclass(frozen=True)
class Interval:
    """The mean of V figures, or of V differences in pairs, with its confidence interval.

    Attributes
    ----------
    mean : float
    low, high : float
        The 95 % confidence interval of the mean; not numbers for a single value.
    count : int
        Values that exist.
    """

    mean: float
    low: float
    high: float
    count: int

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Variation:
    """A window of a trace under a load, perhaps resampled.

    Attributes
    ----------
    trace : str
    begin, end : float
        The window, in seconds since the start of the trace.
    load : float
        How many times faster jobs arrive.
    seed : int, optional
        Of the resampling.
    """

    trace: str
    begin: float = 0.0
    end: float = inf
    load: float = 1.0
    seed: int | None = None

    def __str__(self) -> str:
        parts = [self.trace]
        if (self.begin, self.end) != WHOLE:
            parts.append(f"{self.begin:g} s to {self.end:g} s")
        if self.load != 1.0:
            parts.append(f"load {self.load:g}")
        if self.seed is not None:
            parts.append(f"seed {self.seed}")
        return ", ".join(parts)


@dataclass(frozen=True, eq=False, repr=False)
class Study(Shown):
    """Figures of P policies in V variations.

    `to_frame` has a row for each run and measure. ``to_frame("means")`` and
    ``to_frame("differences")``, the latter from the first policy, have means with 95 % confidence
    intervals for each load, over its traces, windows and seeds. `plot` draws differences.

    Attributes
    ----------
    policies : tuple of str
        The first one is the reference.
    variations : tuple of Variation
    figures : mapping of str to (P, V) float
        By name, as `figures_of` gives them; times in seconds. Not numbers for failed runs.
    failed : mapping of str to mapping of str to str
        By policy and variation, the fault of each run whose rule failed.
    """

    policies: tuple[str, ...]
    variations: tuple[Variation, ...]
    figures: Mapping[str, FloatArray]
    failed: Mapping[str, Mapping[str, str]]
    frames = ("runs", "means", "differences")

    def mean(self, figure: str, policy: str) -> Interval:
        """Return the mean of a figure of a policy over all variations, with its interval."""
        return interval_of(self.figures[figure][self.policies.index(policy)])

    def difference(self, figure: str, policy: str) -> Interval:
        """Return a figure of a policy less that of the first one, in pairs."""
        rows = self.figures[figure]
        return interval_of(rows[self.policies.index(policy)] - rows[0])

    def at(self, load: float) -> Study:
        """Return the part of the study with one of its loads."""
        chosen = [k for k, each in enumerate(self.variations) if each.load == load]
        if not chosen:
            raise InputError(f"the study has no load {load!r:.60}", "load")
        figures = {name: rows[:, chosen] for name, rows in self.figures.items()}
        return Study(self.policies, tuple(self.variations[k] for k in chosen), figures, self.failed)

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of rules, and in how many variations each came up."""
        counts = Counter(fault for runs in self.failed.values() for fault in runs.values())
        return tuple(
            f"{fault}, in {n} of {len(self.variations)} variations" for fault, n in counts.items()
        )

    def plot(self, figure: str = DRAWN) -> Figure:
        """Draw the differences of a figure from the first policy, with their intervals."""
        if figure not in self.figures:
            known = ", ".join(self.figures)
            raise InputError(f"must be one of {known}, not {figure!r:.60}", "figure")
        study = import_module("fairlead.report.study")  # which imports this module
        drawn: Figure = study.plot(self, figure)
        return drawn

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, means and differences as plain values; missing ones are None."""
        return {
            "policies": list(self.policies),
            "variations": [str(each) for each in self.variations],
            "figures": {
                name: {p: _plain(row) for p, row in zip(self.policies, rows, strict=True)}
                for name, rows in self.figures.items()
            },
            "means": {
                policy: {name: _as_dict(self.mean(name, policy), "runs") for name in self.figures}
                for policy in self.policies
            },
            "differences": {
                policy: {
                    name: _as_dict(self.difference(name, policy), "pairs") for name in self.figures
                }
                for policy in self.policies[1:]
            },
        }

    def __repr__(self) -> str:
        failed = f"; failed: {', '.join(self.failed)}" if self.failed else ""
        return f"<Study of {', '.join(self.policies)}: {len(self.variations)} variations{failed}>"

    def _columns(self, what: str) -> Mapping[str, Any]:
        if what == "runs":
            return self._columns_of_runs()
        is_mean = what == "means"
        policies = self.policies if is_mean else self.policies[1:]
        rows = [
            (
                load,
                policy,
                name,
                part.mean(name, policy) if is_mean else part.difference(name, policy),
            )
            for load in dict.fromkeys(each.load for each in self.variations)
            for part in [self.at(load)]
            for policy in policies
            for name in self.figures
        ]
        loads, names, measures, found = zip(*rows, strict=True) if rows else ((),) * 4
        return {
            "load": list(loads),
            "policy": list(names),
            "measure": list(measures),
            "mean": _plain([each.mean for each in found]),
            "low": _plain([each.low for each in found]),
            "high": _plain([each.high for each in found]),
            "runs" if is_mean else "pairs": [each.count for each in found],
        }

    def _columns_of_runs(self) -> Mapping[str, Any]:
        runs = [
            (each, v, p)
            for v, each in enumerate(self.variations)
            for p, policy in enumerate(self.policies)
            if str(each) not in self.failed.get(policy, ())
        ]
        n = len(self.figures)
        each = [variation for variation, _, _ in runs for _ in range(n)]
        return {
            "trace": [one.trace for one in each],
            "begin": [one.begin for one in each],
            "end": [one.end for one in each],
            "load": [one.load for one in each],
            "seed": [one.seed for one in each],
            "policy": [self.policies[p] for _, _, p in runs for _ in range(n)],
            "measure": [name for _ in runs for name in self.figures],
            "value": _plain([rows[p, v] for _, v, p in runs for rows in self.figures.values()]),
        }


def study(
    traces: Trace | Sequence[Path | str] | Mapping[str, Trace],
    policies: Policies,
    *,
    windows: Sequence[Window] | None = None,
    loads: Sequence[float] | None = None,
    seeds: int | None = None,
    queues: Path | str | None = None,
    executor: Executor | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Study:
    """Replay traces, windows, loads and random variations of them under several policies.

    Every window of every trace is replayed under every load, and resampled with every seed.

    Parameters
    ----------
    traces : Workload, Path or str, sequence of files, or mapping of str to these
        One or several. A mapping names them.
    policies : str or callable, sequence of these, or mapping of str to callable
        As for `fairlead.simulate`. The others are compared with the first one.
    windows : sequence of pairs of float or datetime, optional
        Only jobs submitted from the first to before the second time, which the replay counts from
        the first on: seconds since the start of the trace, or dates where it has them. The whole
        trace when absent.
    loads : sequence of float, optional
        How many times faster jobs arrive; 1 when absent.
    seeds : int, optional
        Variations of each, by `fairlead.traces.resampling.resampled`; random policies get
        the same seeds. Without it the jobs are replayed as they are.
    queues : Path or str, optional
        A file with a tree of queues, to which the users belong.
    executor : Executor, optional
        Runs the replays, as in `fairlead.simulate`.
    on_progress : callable, optional
        Called with the finished variations and all of them.
    **options
        Of `fairlead.simulate`, but `folder`; `seed` is the first seed.

    Returns
    -------
    Study
        Its `failed` has the faults of rules that failed. The other runs go on.

    Raises
    ------
    InputError, RefusalError
        As `fairlead.simulate`; for a recorded run, a number of seeds below 2, a window without
        jobs, or a trace that cannot be resampled.
    RunsFailedError
        When the rules failed in all runs.

    Notes
    -----
    The cost is that of each replay. A variation is dropped once its figures are taken.

    Examples
    --------
    >>> import fairlead
    >>> from fairlead.traces.generator import generate_day
    >>> day = generate_day(servers=20, users=5, jobs=200, hours=60, seed=1)
    >>> found = fairlead.study({"day": day}, ["drf/best-fit", "fifo/best-fit"], seeds=3)
    >>> found
    <Study of drf/best-fit, fifo/best-fit: 3 variations>
    >>> found.difference("mean wait", "fifo/best-fit").count
    3
    """
    if "folder" in options:
        raise InputError("is for single replays", "folder")
    policies = policies_of(policies)
    if RECORDED in policies:
        raise InputError("a recorded run is of its own trace alone", "policies")
    changes = one_or_several(options.get("what_if", ()), "what_if")
    runs = plan_runs(policies, changes, switch(options.get("dedicated", False), "dedicated"))
    seed = whole_number(options.pop("seed", 0), "seed")
    if seeds is not None:
        seeds = whole_number(seeds, "seeds", 2, MOST_SEEDS)
    parts = _parts_of(_traces_of(traces), _windows_of(windows), _loads_of(loads), queues)
    plans = [
        (replace(part, seed=k), workload)
        for part, workload in parts
        for k in ([None] if seeds is None else range(seed, seed + seeds))
    ]
    figures: dict[str, FloatArray] = {}
    failed: dict[str, dict[str, str]] = {}
    last_fault: RunsFailedError | None = None
    for v, (variation, workload) in enumerate(plans):
        if on_progress is not None:
            on_progress(v, len(plans))
        k = variation.seed
        try:
            varied = workload if k is None else resampled(workload, k)
        except InputError as fault:
            raise fault.within(variation.trace) from None
        try:
            outcomes = simulate(
                varied, policies, executor=executor, seed=seed if k is None else k, **options
            )
        except RunsFailedError as fault:
            outcomes, last_fault = fault.finished, fault
            for name, why in fault.faults.items():
                failed.setdefault(name, {})[str(variation)] = why
        for p, run in enumerate(runs):
            for name, value in (
                figures_of(outcomes[run.name]).items() if run.name in outcomes else ()
            ):
                rows = figures.setdefault(name, np.full((len(runs), len(plans)), np.nan))
                rows[p, v] = value
    if not figures and last_fault is not None:
        raise last_fault
    if on_progress is not None:
        on_progress(len(plans), len(plans))
    names = tuple(run.name for run in runs)
    return Study(names, tuple(variation for variation, _ in plans), figures, failed)


def _parts_of(
    traces: Mapping[str, Trace],
    windows: Sequence[Window],
    loads: Sequence[float],
    queues: Path | str | None,
) -> list[tuple[Variation, Workload]]:
    """Return each window of each trace under each load."""
    parts: list[tuple[Variation, Workload]] = []
    for name, trace in traces.items():
        workload = (
            trace
            if isinstance(trace, Workload)
            else read_workload(Path(file_name(trace, "traces")))[0]
        )
        if isinstance(workload, JournalWorkload):
            workload = workload.as_trace()
        for k, window in enumerate(windows):
            begin, end = (seconds_since_start(workload, t, f"windows[{k}]") for t in window)
            begin = max(begin, 0.0)
            part = workload
            if (begin, end) != WHOLE:
                try:
                    part = time_window(workload, begin, end)
                except InputError as fault:
                    raise InputError(fault.fault, f"windows[{k}]", name) from None
            for load in loads:
                varied = part if load == 1.0 else with_load(part, load)
                if queues is not None:
                    varied = with_queues(varied, queues)
                parts.append((Variation(name, begin, end, load), varied))
    return parts


def _traces_of(traces: Any) -> dict[str, Trace]:
    """Return traces by name; files are named as they are given."""
    if isinstance(traces, Workload):
        return {"trace": traces}
    if isinstance(traces, Mapping):
        named = {text(name, "traces"): trace for name, trace in traces.items()}
    else:
        files = [traces] if isinstance(traces, Path | str) else several(traces, "traces", "files")
        named = {str(file_name(each, "traces")): each for each in files}
        if len(named) < len(files):
            raise InputError("names a file twice", "traces")
    if not named:
        raise InputError("give at least one trace", "traces")
    return named


def _windows_of(windows: Sequence[Window] | None) -> list[Window]:
    """Return windows as pairs; raise InputError for anything else."""
    if windows is None:
        return [WHOLE]
    found: list[Window] = []
    for k, window in enumerate(several(windows, "windows", "pairs of times")):
        pair = several(window, f"windows[{k}]", "two times")
        if len(pair) != 2:
            raise InputError(f"must be two times, not {window!r:.60}", f"windows[{k}]")
        begin, end = (
            time if isinstance(time, datetime) else number(time, f"windows[{k}]") for time in pair
        )
        found.append((begin, end))
    return _distinct(found, "windows")


def _loads_of(loads: Sequence[float] | None) -> list[float]:
    if loads is None:
        return [1.0]
    given = several(loads, "loads", "numbers")
    return _distinct([number(load, f"loads[{k}]") for k, load in enumerate(given)], "loads")


def _distinct(found: list[Value], what: str) -> list[Value]:
    """Return values; raise InputError if there is none, or two are equal."""
    if not found or len(set(found)) < len(found):
        raise InputError("must be one or several different ones", what)
    return found


def figures_of(outcome: Outcome) -> dict[str, float]:
    """Return the compared figures of a run; of all of them less is better."""
    jobs, fairness = outcome.summary.jobs, outcome.summary.fairness
    return {
        "mean wait": _mean_of(jobs.wait),
        "95 % wait": _quantile_of(jobs.wait, 0.95),
        "mean completion": _mean_of(jobs.completion),
        "mean slowdown": _mean_of(jobs.slowdown),
        "mean bounded slowdown": _mean_of(jobs.bounded_slowdown),
        "fairness error": np.nan if fairness is None else fairness.mean,
        "weekly fairness error": np.nan if fairness is None else fairness.over(WEEK),
        "makespan": outcome.log.makespan,
        "lost tasks": float(outcome.summary.lost),
    }


def interval_of(values: FloatArray) -> Interval:
    """Return the mean of values with its confidence interval; missing ones do not count."""
    known = values[np.isfinite(values)]
    count = len(known)
    if count == 0:
        return Interval(np.nan, np.nan, np.nan, 0)
    mean = float(known.mean())
    if count == 1:
        return Interval(mean, np.nan, np.nan, 1)
    error = float(known.std(ddof=1)) / np.sqrt(count)
    reach = float(student_t.ppf((1 + CONFIDENCE) / 2, count - 1)) * error
    return Interval(mean, mean - reach, mean + reach, count)


def _as_dict(found: Interval, counted: str) -> dict[str, float | int | None]:
    mean, low, high = _plain([found.mean, found.low, found.high])
    return {"mean": mean, "low": low, "high": high, counted: found.count}


def _plain(values: Sequence[float] | FloatArray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def _mean_of(values: FloatArray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else np.nan


def _quantile_of(values: FloatArray, part: float) -> float:
    return float(np.nanquantile(values, part)) if np.isfinite(values).any() else np.nan
