"""Studies: policies over traces and random variations of them, compared in pairs.

Each variation is replayed under every policy, so differences between policies do not come from
different traces. Means and mean differences have confidence intervals by Student's t.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.errors import InputError
from fairlead.executors.executor import Executor
from fairlead.model.arguments import (
    file_name,
    number,
    one_or_several,
    several,
    switch,
    text,
    whole_number,
)
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.notebooks import Plot, Plottable
from fairlead.model.run_log import RECORDED
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.distribution import margin_of_mean, mean, percentile
from fairlead.simulation.metrics.summary import plain
from fairlead.simulation.metrics.task_outcomes import JobTimes
from fairlead.simulation.planned_runs import Policies, plan_runs, policies_of
from fairlead.simulation.simulate import (
    FAIR,
    Outcome,
    read_trace,
    simulate,
    still_wait,
    with_queues,
)
from fairlead.traces.journal_trace import JournalWorkload
from fairlead.traces.what_if import WEEK, resampled, with_load

Trace = Workload | Path | str
MOST_SEEDS = 10_000
MEASURES = (
    "mean_wait",
    "p95_wait",
    "mean_completion_time",
    "mean_slowdown",
    "mean_bounded_slowdown",
    "fairness_error",
    "fairness_error_over_a_week",
    "longest_without",
    "makespan",
    "lost",
    "waiting",
)
# In seconds.
TIMES = ("mean_wait", "p95_wait", "mean_completion_time", "longest_without", "makespan")
DEFAULT_MEASURE = "mean_wait"


@dataclass(frozen=True)
class Variation:
    """A trace, perhaps resampled.

    Attributes
    ----------
    trace : str
    seed : int, optional
        Seed of the resampling; None for the jobs as they are.
    """

    trace: str
    seed: int | None = None

    def __str__(self) -> str:
        return self.trace if self.seed is None else f"{self.trace}, seed {self.seed}"


@dataclass(frozen=True)
class Interval:
    """The mean of V figures, or of V differences in pairs, with its confidence interval.

    Attributes
    ----------
    mean : float
    low, high : float
        The 95 % confidence interval of the mean; NaN for a single value.
    count : int
        Number of values, without those that are not numbers.
    """

    mean: float
    low: float
    high: float
    count: int

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, eq=False, repr=False)
class Study(Plottable):
    """Figures of P policies in V variations.

    `to_frame` has a row for each run and measure. ``to_frame("means")`` has the mean figures,
    ``to_frame("differences")`` the mean differences from the first policy, over the traces and
    seeds, with 95 % confidence intervals. `plot` draws differences.

    Attributes
    ----------
    policies : tuple of str
        The first one is the reference.
    variations : tuple of Variation
    figures : mapping of str to (P, V) float
        Values of each measure of `figures_of`; times in seconds.
    changes : mapping of str to (P, V) float
        Differences of each measure from the first policy, by `differences_of`.
    unsolved : mapping of str to int
        By policy, the number of instants without fair shares, which its fairness errors leave out.
    """

    policies: tuple[str, ...]
    variations: tuple[Variation, ...]
    figures: Mapping[str, FloatArray]
    changes: Mapping[str, FloatArray]
    unsolved: Mapping[str, int] = field(default_factory=dict)
    frames = ("runs", "means", "differences")

    def mean(self, measure: str, policy: str) -> Interval:
        """Return the mean of a measure over the variations."""
        return interval_of(self.figures[self._known(measure)][self._row(policy)])

    def difference(self, measure: str, policy: str) -> Interval:
        """Return the mean difference of a measure from the first policy, in pairs of runs."""
        return interval_of(self.changes[self._known(measure)][self._row(policy)])

    def _known(self, measure: str) -> str:
        """Return a measure; raise InputError for an unknown one."""
        if not isinstance(measure, str) or measure not in self.figures:
            known = ", ".join(self.figures)
            raise InputError(f"must be one of {known}, not {measure!r:.60}", "measure")
        return measure

    def _row(self, policy: str) -> int:
        """Return the row of a policy; raise InputError for an unknown one."""
        if policy not in self.policies:
            known = ", ".join(self.policies)
            raise InputError(f"must be one of {known}, not {policy!r:.60}", "policy")
        return self.policies.index(policy)

    @property
    def cautions(self) -> tuple[str, ...]:
        """A sentence for each policy that leaves tasks waiting, or has instants without shares."""
        found = []
        for policy, row in zip(self.policies, self.figures["waiting"], strict=True):
            tasks, runs = int(np.nansum(row)), int((row > 0).sum())
            if tasks:
                found.append(
                    f"under {policy} {still_wait(tasks)} at the end, in {runs} of "
                    f"{len(self.variations)} variations: its means leave them out, and its "
                    "differences are of jobs complete under both policies"
                )
        found += [
            f"under {policy} fairness errors leave out {count:,} instants without fair shares, so "
            "their differences compare different times"
            for policy, count in self.unsolved.items()
            if count
        ]
        return tuple(found)

    def plot(self, measure: str = DEFAULT_MEASURE) -> Plot:
        """Draw the differences of a measure from the first policy, a row for each policy."""
        self._known(measure)
        study = import_module("fairlead.report.study_document")  # which imports this module
        drawn: Plot = study.plot(self, measure)
        return drawn

    def to_dict(self) -> dict[str, Any]:
        """Return all figures, means and differences as plain values; missing ones are None."""
        return {
            "policies": list(self.policies),
            "variations": [str(each) for each in self.variations],
            "figures": {
                name: {p: plain(row) for p, row in zip(self.policies, rows, strict=True)}
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
        parts = f"{', '.join(self.policies)}: {len(self.variations)} variations"
        return "\n".join((f"<Study of {parts}>", *self.cautions))

    def _columns(self, what: str) -> Mapping[str, Any]:
        if what == "runs":
            return self._columns_of_runs()
        is_mean = what == "means"
        policies = self.policies if is_mean else self.policies[1:]
        interval = self.mean if is_mean else self.difference
        keys = [(policy, name) for policy in policies for name in self.figures]
        found = [interval(name, policy) for policy, name in keys]
        return {
            "policy": [policy for policy, _ in keys],
            "measure": [name for _, name in keys],
            "mean": plain([each.mean for each in found]),
            "low": plain([each.low for each in found]),
            "high": plain([each.high for each in found]),
            "runs" if is_mean else "pairs": [each.count for each in found],
        }

    def _columns_of_runs(self) -> Mapping[str, Any]:
        runs = [
            (each, v, p)
            for v, each in enumerate(self.variations)
            for p in range(len(self.policies))
        ]
        n = len(self.figures)
        each = [variation for variation, _, _ in runs for _ in range(n)]
        return {
            "trace": [one.trace for one in each],
            "seed": [one.seed for one in each],
            "policy": [self.policies[p] for _, _, p in runs for _ in range(n)],
            "measure": [name for _ in runs for name in self.figures],
            "value": plain([rows[p, v] for _, v, p in runs for rows in self.figures.values()]),
            "difference": plain(
                [self.changes[name][p, v] for _, v, p in runs for name in self.figures]
            ),
        }


def study(
    traces: Trace | Sequence[Path | str] | Mapping[str, Trace],
    policies: Policies,
    *,
    seeds: int | None = None,
    load: float = 1.0,
    queues: Path | str | None = None,
    processes: int | None = None,
    executor: Executor | None = None,
    seed: int = 0,
    strict_fifo: bool = False,
    what_if: str | Sequence[str] = (),
    dedicated: bool = False,
    perfect_estimates: bool = False,
    until: float | None = None,
    warm_up: float = 0.0,
    fair: str = FAIR[0],
    on_progress: Callable[[int, int], None] | None = None,
) -> Study:
    """Replay traces, or random variations of them, under several policies.

    Parameters
    ----------
    traces : Workload, Path or str, sequence of files, or mapping of str to these
        One or several. A mapping names them.
    policies : str or callable, sequence of these, or mapping of str to callable
        As for `fairlead.simulate`. The others are compared with the first one.
    seeds : int, optional
        Number of random variations of each trace, by
        `fairlead.traces.what_if.resampled`; random policies get the same seeds. When absent,
        the jobs are replayed as they are.
    load : float
        Factor by which jobs arrive faster.
    queues : Path or str, optional
        A file with a tree of queues, to which the users belong.
    processes, executor, strict_fifo, what_if, dedicated, perfect_estimates, until, warm_up, fair
        As for `fairlead.simulate`, for each replay.
    seed : int
        The first seed.
    on_progress : callable, optional
        Called with the number of finished variations and of all.

    Returns
    -------
    Study
        `cautions` name policies that leave tasks waiting.

    Raises
    ------
    InputError, RefusalError
        As `fairlead.simulate`; also for ``recorded``, fewer than two seeds, or a
        trace that cannot be resampled.

    Notes
    -----
    The cost is the sum of the replays. A variation is freed once its figures are taken.

    Examples
    --------
    >>> import fairlead
    >>> from fairlead.traces.generator import generate_day
    >>> day = generate_day(servers=20, users=5, jobs=200, hours=60, seed=1)
    >>> found = fairlead.study({"day": day}, ["drf/best-fit", "fifo/best-fit"], seeds=3)
    >>> found
    <Study of drf/best-fit, fifo/best-fit: 3 variations>
    >>> found.difference("mean_wait", "fifo/best-fit").count
    3
    """
    policies = policies_of(policies)
    if RECORDED in policies:
        raise InputError("a recorded run exists for its own trace only", "policies")
    what_if, dedicated = one_or_several(what_if, "what_if"), switch(dedicated, "dedicated")
    runs = plan_runs(policies, what_if, dedicated)
    seed = whole_number(seed, "seed")
    if seeds is not None:
        seeds = whole_number(seeds, "seeds", 2, MOST_SEEDS)
    workloads = read_traces(traces, number(load, "load"), queues)
    plans = [
        (Variation(name, k), workload)
        for name, workload in workloads.items()
        for k in ([None] if seeds is None else range(seed, seed + seeds))
    ]
    figures: dict[str, FloatArray] = {}
    changes: dict[str, FloatArray] = {}
    unsolved = dict.fromkeys((run.name for run in runs), 0)
    for v, (variation, workload) in enumerate(plans):
        if on_progress is not None:
            on_progress(v, len(plans))
        k = variation.seed
        try:
            varied = workload if k is None else resampled(workload, k)
        except InputError as fault:
            raise fault.within(variation.trace) from None
        outcomes = simulate(
            varied,
            policies,
            processes=processes,
            executor=executor,
            seed=seed if k is None else k,
            strict_fifo=strict_fifo,
            what_if=what_if,
            dedicated=dedicated,
            perfect_estimates=perfect_estimates,
            until=until,
            warm_up=warm_up,
            fair=fair,
        )
        first = outcomes[runs[0].name]
        for p, run in enumerate(runs):
            outcome = outcomes[run.name]
            fairness = outcome.summary.fairness
            unsolved[run.name] += 0 if fairness is None else fairness.unsolved
            found = figures_of(outcome)
            pairs = differences_of(outcome, first)
            for name, value in found.items():
                for table, cell in ((figures, value), (changes, pairs[name])):
                    rows = table.setdefault(name, np.full((len(runs), len(plans)), np.nan))
                    rows[p, v] = cell
    if on_progress is not None:
        on_progress(len(plans), len(plans))
    names = tuple(run.name for run in runs)
    variations = tuple(variation for variation, _ in plans)
    return Study(names, variations, figures, changes, unsolved)


def figures_of(outcome: Outcome) -> dict[str, float]:
    """Return the value of each of `MEASURES` in a run; smaller is better."""
    summary, fairness = outcome.summary, outcome.summary.fairness
    return {
        **_figures_of_jobs(summary.jobs, summary.jobs.completed),
        "fairness_error": np.nan if fairness is None else fairness.mean,
        "fairness_error_over_a_week": np.nan if fairness is None else fairness.over(WEEK),
        "longest_without": float(summary.starvation.longest.max()),
        "makespan": outcome.log.makespan,
        "lost": float(summary.lost),
        "waiting": float(outcome.waiting),
    }


def differences_of(outcome: Outcome, first: Outcome) -> dict[str, float]:
    """Return the measures of `outcome` minus those of `first`, another run of the same jobs.

    Waits, completion times and slowdowns are of the jobs complete under both policies, so that a
    policy does not gain by jobs that it leaves waiting. For the same reason the difference of
    makespans is NaN if a task still waits at the end of either run.
    """
    both = outcome.summary.jobs.completed & first.summary.jobs.completed
    ours, theirs = (
        figures_of(each) | _figures_of_jobs(each.summary.jobs, both) for each in (outcome, first)
    )
    found = {name: value - theirs[name] for name, value in ours.items()}
    return found | ({"makespan": np.nan} if outcome.waiting or first.waiting else {})


def _figures_of_jobs(jobs: JobTimes, among: BoolArray) -> dict[str, float]:
    return {
        "mean_wait": mean(jobs.wait[among]),
        "p95_wait": percentile(jobs.wait[among], 95),
        "mean_completion_time": mean(jobs.completion[among]),
        "mean_slowdown": mean(jobs.slowdown[among]),
        "mean_bounded_slowdown": mean(jobs.bounded_slowdown[among]),
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
    margin = float(margin_of_mean(known.std(ddof=1), count))
    return Interval(mean, mean - margin, mean + margin, count)


def _as_dict(found: Interval, count_key: str) -> dict[str, float | int | None]:
    mean, low, high = plain([found.mean, found.low, found.high])
    return {"mean": mean, "low": low, "high": high, count_key: found.count}


def read_traces(
    traces: Trace | Sequence[Path | str] | Mapping[str, Trace],
    load: float,
    queues: Path | str | None,
) -> dict[str, Workload]:
    """Return the workloads of a study by name; raises as `fairlead.study`."""
    found: dict[str, Workload] = {}
    for name, trace in _parse_traces(traces).items():
        workload = read_trace(trace, "traces")
        if isinstance(workload, JournalWorkload):
            workload = workload.as_trace()
        if load != 1:
            workload = with_load(workload, load)
        found[name] = workload if queues is None else with_queues(workload, queues)
    return found


def _parse_traces(traces: Any) -> dict[str, Trace]:
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
