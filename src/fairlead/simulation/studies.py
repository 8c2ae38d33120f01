"""Studies: policies over several traces and random variations of them, compared in pairs.

Each variation is replayed under every policy, so that a difference between two policies is not one
of their traces. The mean difference has a confidence interval by Student's t.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student_t

from fairlead.errors import InputError
from fairlead.executors.executor import Executor
from fairlead.model.arguments import whole_number
from fairlead.model.cluster import FloatArray
from fairlead.model.run_log import RECORDED
from fairlead.model.workload import Workload
from fairlead.simulation.planned_runs import NamedRule
from fairlead.simulation.simulate import Outcome, simulate
from fairlead.traces.resampling import WEEK, resampled

CONFIDENCE = 0.95
MOST_SEEDS = 10_000
TIMES = ("mean wait", "95 % wait", "mean completion", "makespan")  # figures in seconds


@dataclass(frozen=True)
class Difference:
    """A figure of a policy less that of the reference, over V pairs of runs.

    Attributes
    ----------
    mean : float
    low, high : float
        The 95 % confidence interval of the mean; not numbers for a single pair.
    pairs : int
        Pairs in which both figures exist.
    """

    mean: float
    low: float
    high: float
    pairs: int

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, eq=False)
class Study:
    """Figures of P policies in V variations.

    Attributes
    ----------
    policies : tuple of str
        The first one is the reference.
    variations : tuple of str
        The trace and the seed of each.
    figures : mapping of str to (P, V) float
        By name, as `figures_of` gives them; times in seconds.
    """

    policies: tuple[str, ...]
    variations: tuple[str, ...]
    figures: Mapping[str, FloatArray]

    def difference(self, figure: str, policy: str) -> Difference:
        """Return a figure of a policy less that of the first one, in pairs."""
        rows = self.figures[figure]
        return paired(rows[self.policies.index(policy)] - rows[0])

    def to_dict(self) -> dict[str, Any]:
        """Return all figures and differences as plain values; missing ones are None."""
        return {
            "policies": list(self.policies),
            "variations": list(self.variations),
            "figures": {
                name: {p: _plain(row) for p, row in zip(self.policies, rows, strict=True)}
                for name, rows in self.figures.items()
            },
            "differences": {
                policy: {name: _as_dict(self.difference(name, policy)) for name in self.figures}
                for policy in self.policies[1:]
            },
        }


def study(
    traces: Mapping[str, Workload],
    policies: Sequence[str | NamedRule],
    *,
    seeds: int | None = None,
    executor: Executor | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Study:
    """Replay traces, or variations of each, under several policies.

    Parameters
    ----------
    traces : mapping of str to Workload
        By name.
    policies : sequence of str
        The others are compared with the first one.
    seeds : int, optional
        Variations of each trace, by `fairlead.traces.resampling.resampled`; random policies get
        the same seeds. Without it the traces are replayed as they are.
    executor : Executor, optional
        Runs the replays, as in `fairlead.simulate`.
    on_progress : callable, optional
        Called with the finished variations and all of them.
    **options
        Of `fairlead.simulate`.

    Raises
    ------
    InputError, RefusalError
        As `fairlead.simulate`; for a recorded run, a number of seeds below 2, or a trace that
        cannot be resampled.

    Notes
    -----
    The cost is that of each replay. A variation is dropped once its figures are taken.

    Examples
    --------
    >>> from fairlead.traces.generator import generate_day
    >>> day = generate_day(servers=20, users=5, jobs=200, hours=60, seed=1)
    >>> found = study({"day": day}, ["drf/best-fit", "fifo/best-fit"], seeds=3)
    >>> found.difference("mean wait", "fifo/best-fit").pairs
    3
    """
    if not traces:
        raise InputError("give at least one trace", "traces")
    if RECORDED in policies:
        raise InputError("a recorded run is of its own trace alone", "policies")
    seed = int(options.pop("seed", 0))
    if seeds is not None:
        seeds = whole_number(seeds, "seeds", 2, MOST_SEEDS)
    plans = [
        (name, workload, k)
        for name, workload in traces.items()
        for k in ([None] if seeds is None else range(seed, seed + seeds))
    ]
    runs: list[dict[str, dict[str, float]]] = []
    for done, (name, workload, k) in enumerate(plans):
        if on_progress is not None:
            on_progress(done, len(plans))
        try:
            varied = workload if k is None else resampled(workload, k)
        except InputError as fault:
            raise fault.within(name) from None
        outcomes = simulate(
            varied, policies, executor=executor, seed=seed if k is None else k, **options
        )
        runs.append({name: figures_of(outcome) for name, outcome in outcomes.items()})
    if on_progress is not None:
        on_progress(len(plans), len(plans))
    names, first = tuple(runs[0]), next(iter(runs[0].values()))
    titles = tuple(name if k is None else f"{name}, seed {k}" for name, _, k in plans)
    figures = {f: np.array([[run[name][f] for run in runs] for name in names]) for f in first}
    return Study(names, titles, figures)


def figures_of(outcome: Outcome) -> dict[str, float]:
    """Return the compared figures of a run; of all of them less is better."""
    jobs, fairness = outcome.summary.jobs, outcome.summary.fairness
    return {
        "mean wait": _mean_of(jobs.wait),
        "95 % wait": _quantile_of(jobs.wait, 0.95),
        "mean completion": _mean_of(jobs.completion),
        "mean slowdown": _mean_of(jobs.slowdown),
        "fairness error": np.nan if fairness is None else fairness.mean,
        "weekly fairness error": np.nan if fairness is None else fairness.over(WEEK),
        "makespan": outcome.log.makespan,
        "lost tasks": float(outcome.summary.lost),
    }


def paired(differences: FloatArray) -> Difference:
    """Return the mean of differences with its confidence interval; missing ones do not count."""
    known = differences[np.isfinite(differences)]
    pairs = len(known)
    if pairs == 0:
        return Difference(np.nan, np.nan, np.nan, 0)
    mean = float(known.mean())
    if pairs == 1:
        return Difference(mean, np.nan, np.nan, 1)
    error = float(known.std(ddof=1)) / np.sqrt(pairs)
    reach = float(student_t.ppf((1 + CONFIDENCE) / 2, pairs - 1)) * error
    return Difference(mean, mean - reach, mean + reach, pairs)


def _as_dict(difference: Difference) -> dict[str, float | int | None]:
    mean, low, high = _plain(np.array([difference.mean, difference.low, difference.high]))
    return {"mean": mean, "low": low, "high": high, "pairs": difference.pairs}


def _plain(values: FloatArray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def _mean_of(values: FloatArray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else np.nan


def _quantile_of(values: FloatArray, part: float) -> float:
    return float(np.nanquantile(values, part)) if np.isfinite(values).any() else np.nan
