"""Measure the forecasts of starts of waiting jobs, by replaying a log through the service's state.

    python benchmarks/start_forecasts.py TRACE [--machines FILE] [-p POLICY ...] [--every 1]
        [--seed N]

For each job that has waited for a minute, the start is forecast, as by `fairlead when`. Over the
last third of these jobs, and over those of the last third of the time, it prints how many start
within the interval, how wide the intervals are, and the errors of the expected start and of the
start by time limits only. Earlier starts calibrate the intervals: one forecast a minute is recorded
for that, as in the service. `--seed` resamples the log, so that other jobs run at the same time.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from fairlead.model.workload import Workload
from fairlead.service.run_times import RunTimes
from fairlead.service.service_state import ServiceState
from fairlead.service.start_forecasts import StartIntervals, simulate_starts
from fairlead.traces.readers import MachineOptions, read_workload
from fairlead.traces.what_if import resampled, with_load

ASKED_AFTER = 60.0  # seconds of waiting
LEARN_SECONDS = 60.0  # between forecasts that calibrate later ones, as in the service
SUBMIT, END, ASK = range(3)
POLICIES = ("drf/best-fit", "ps-dsf/best-fit", "easy/first-fit", "fifo/first-fit")
HOUR = 3600.0


class Answer(NamedTuple):
    """A forecast and the start; all but `asked` are seconds after the forecast."""

    asked: float  # time of the forecast, in the seconds of the log
    waited: float  # the start
    expected: float  # the forecast
    by_limits: float  # the forecast by time limits only; NaN if tasks lack limits
    earliest: float  # of the interval; NaN before there are enough forecasts
    latest: float


def answers_of(workload: Workload, policy: str, every: int) -> Iterator[Answer]:
    """Replay a log, and yield the forecast of each job whose number is a multiple of `every`."""
    state, run_times, intervals = ServiceState(policy), RunTimes(), StartIntervals()
    _add_servers(state, workload)
    first_task = np.concatenate([[0], np.cumsum(workload.set_tasks)])
    durations: dict[int, np.ndarray] = {}
    asked: dict[int, Answer] = {}
    learnt = -np.inf  # time of the last recorded forecast
    order, events = count(), []

    def add(time: float, kind: int, subject: object) -> None:
        heappush(events, (time, next(order), kind, subject))

    for k, job in enumerate(workload.set_job):
        add(float(workload.job_submit[job]), SUBMIT, k)
    while events:
        now = events[0][0]
        while events and events[0][0] <= now:
            _, _, kind, what = heappop(events)
            if kind == SUBMIT:
                (job,) = state.apply("submit", {"jobs": [_request(workload, what)]}, now)
                lasted = workload.task_duration[first_task[what] : first_task[what + 1]]
                limit = workload.job_limit[workload.set_job[what]]
                durations[job] = np.minimum(lasted, limit)  # a service stops tasks at their limits
                add(now + ASKED_AFTER, ASK, job)
            elif kind == END:
                state.apply("end", {"tasks": [[*what, 0, ""]]}, now)
            elif what in state.jobs and state.jobs[what].started is None and what % every == 0:
                expected = simulate_starts(state, now, run_times, what).of(what).starts
                by_limits = simulate_starts(state, now, None, what).of(what).starts
                if expected is not None:
                    early, late = intervals.interval(expected - now) or (np.nan, np.nan)
                    limit = np.nan if by_limits is None else by_limits - now
                    asked[what] = Answer(now, np.nan, expected - now, limit, early, late)
                    if now >= learnt + LEARN_SECONDS:
                        intervals.note(what, now, expected - now)
                        learnt = now
        state.apply("place", {"limit": 10**6}, now)
        effects = state.take_effects()
        for attempt in effects.attempts:
            run_times.add(attempt)
        for run in effects.starts:
            add(now + float(durations[run.key.job][run.key.index]), END, run.key)
            intervals.learn_start(run.key.job, now)
            if (answer := asked.pop(run.key.job, None)) is not None:
                yield answer._replace(waited=now - answer.asked)


def _add_servers(state: ServiceState, workload: Workload) -> None:
    cluster, names = workload.cluster, workload.cluster.resources
    for group, capacity in enumerate(cluster.capacity):
        labels = {f"place{e}": "yes" for e in np.flatnonzero(workload.places[:, group])}
        amounts = dict(zip(names, capacity.tolist(), strict=True))
        for k in range(int(cluster.count[group])):
            body = {"name": f"{group}-{k}", "capacity": amounts, "labels": labels, "identity": "x"}
            state.apply("server", body, 0.0)


def _request(workload: Workload, k: int) -> dict[str, object]:
    job, names = workload.set_job[k], workload.cluster.resources
    shape = workload.shapes[workload.set_shape[k]].tolist()
    limit = float(workload.job_limit[job])
    return {
        "user": workload.users[workload.job_user[job]],
        "demand": {name: amount for name, amount in zip(names, shape, strict=True) if amount},
        "tasks": int(workload.set_tasks[k]),
        "gang": bool(workload.job_gang[job]),
        "where": {f"place{workload.set_place[k]}": "yes"},
        "priority": 0,
        "time_limit": limit if np.isfinite(limit) else None,
        "after": [],
    }


def main() -> None:
    """Print the quality of forecasts under each policy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("trace", type=Path)
    parser.add_argument("--machines", type=Path)
    parser.add_argument("--load", type=float, default=1.0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("-p", "--policy", action="append")
    options = parser.parse_args()
    machines = MachineOptions(options.machines, None, None, None)
    workload = with_load(read_workload(options.trace, machines)[0], options.load)
    if options.seed is not None:
        workload = resampled(workload, options.seed)
    print("hours: mean and median width of the interval; mean error of expected, and by limits")
    for policy in options.policy or POLICIES:
        began = perf_counter()
        rows = np.array(sorted(answers_of(workload, policy, options.every)))
        asked, waited, expected, by_limits, early, late = rows.T
        print(f"{policy}: {len(rows):,} jobs, {perf_counter() - began:.0f} s")
        last = {
            "last third of jobs": np.arange(len(rows)) >= 2 * len(rows) // 3,
            "last third of time": asked >= asked[0] + 2 / 3 * (asked[-1] - asked[0]),
        }
        for name, held_out in last.items():
            chosen = held_out & ~np.isnan(early)
            inside = ((waited >= early) & (waited <= late))[chosen].mean()
            width = (late - early)[chosen] / HOUR
            errors = [np.nanmean(abs(x - waited)[chosen]) / HOUR for x in (expected, by_limits)]
            print(
                f"  {name}: {chosen.sum():5,} jobs, waited {waited[chosen].mean() / HOUR:5.1f} h; "
                f"{inside:.1%} inside; {(waited < early)[chosen].mean():.1%} before; "
                f"width {width.mean():.1f}, {np.median(width):.1f}; "
                f"error {errors[0]:.1f}, {errors[1]:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
