"""Variations of a study: windows of traces under loads."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from itertools import pairwise
from math import inf, isfinite, isnan
from pathlib import Path
from typing import Any, TypeVar

from fairlead.errors import InputError
from fairlead.model.arguments import file_name, number, several, text
from fairlead.model.workload import Workload
from fairlead.simulation.simulate import with_queues
from fairlead.traces.journal_trace import JournalWorkload
from fairlead.traces.readers import read_workload
from fairlead.traces.time_window import seconds_since_start, time_window
from fairlead.traces.what_if import with_load

WHOLE = (0.0, inf)  # the window of a whole trace
MOST_OUTSIDE = 0.1  # largest fraction of a window beyond the trace without a warning

Trace = Workload | Path | str
Time = float | date  # seconds since the start of the trace, or a date of it, perhaps with a time
Window = tuple[Time, Time]
Value = TypeVar("Value")
_LOGGER = logging.getLogger("fairlead")


@dataclass(frozen=True)
class Variation:
    """A window of a trace under a load, perhaps resampled.

    Attributes
    ----------
    trace : str
    begin, end : float
        The window, in seconds since the start of the trace.
    load : float
        Factor by which jobs arrive faster.
    seed : int, optional
        Seed of the resampling; None for the jobs as they are.
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


def plan_variations(
    traces: Trace | Sequence[Path | str] | Mapping[str, Trace],
    windows: Sequence[Window] | None,
    loads: Sequence[float] | None,
    queues: Path | str | None,
) -> list[tuple[Variation, Workload]]:
    """Return each window of each trace under each load; raises as `fairlead.study`."""
    named, pairs, factors = _parse_traces(traces), _parse_windows(windows), _parse_loads(loads)
    planned: list[tuple[Variation, Workload]] = []
    for name, trace in named.items():
        workload = (
            trace
            if isinstance(trace, Workload)
            else read_workload(Path(file_name(trace, "traces")))[0]
        )
        if isinstance(workload, JournalWorkload):
            workload = workload.as_trace()
        times = [
            (
                seconds_since_start(workload, begin, f"windows[{k}]"),
                seconds_since_start(workload, end, f"windows[{k}]"),
            )
            for k, (begin, end) in enumerate(pairs)
        ]
        _check_windows(name, workload, times)
        for k, (first, end) in enumerate(times):
            begin = max(first, 0.0)
            window = workload
            if (begin, end) != WHOLE:
                try:
                    window = time_window(workload, begin, end)
                except InputError as fault:
                    raise InputError(fault.fault, f"windows[{k}]", name) from None
            for load in factors:
                varied = window if load == 1.0 else with_load(window, load)
                if queues is not None:
                    varied = with_queues(varied, queues)
                planned.append((Variation(name, begin, end, load), varied))
    return planned


def _check_windows(trace: str, workload: Workload, windows: Sequence[tuple[float, float]]) -> None:
    """Raise InputError for an empty window; warn of windows that overlap or leave the trace."""
    last = float(workload.job_submit[-1])
    text_of = workload.time_text
    for k, (begin, end) in enumerate(windows):
        if begin >= end:
            fault = f"ends at {text_of(end)}, not after its start, {text_of(begin)}"
            raise InputError(fault, f"windows[{k}]", trace)
        outside = sum(max(each, 0.0) for each in (-begin, end - last) if isfinite(each))
        if outside > MOST_OUTSIDE * (end - begin):
            jobs = f"{text_of(0.0)} to {text_of(last)}"
            about = f"reaches beyond the trace, whose jobs arrive from {jobs}"
            _LOGGER.warning("%s: windows[%d] %s", trace, k, about)
    order = sorted(range(len(windows)), key=windows.__getitem__)
    for one, other in pairwise(order):
        if windows[other][0] < windows[one][1]:
            about = "overlap: their runs share jobs, and are not independent pairs"
            _LOGGER.warning("%s: windows[%d] and windows[%d] %s", trace, one, other, about)


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


def _parse_windows(
    windows: Sequence[Window] | None,
) -> list[tuple[float | datetime, float | datetime]]:
    """Return windows as pairs; raise InputError for anything else."""
    if windows is None:
        return [WHOLE]
    found: list[tuple[float | datetime, float | datetime]] = []
    for k, window in enumerate(several(windows, "windows", "pairs of times")):
        pair = several(window, f"windows[{k}]", "two times")
        if len(pair) != 2:
            raise InputError(f"must be two times, not {window!r:.60}", f"windows[{k}]")
        begin, end = (_parse_time(each, f"windows[{k}]") for each in pair)
        found.append((begin, end))
    return _distinct(found, "windows")


def _parse_time(given: Any, place: str) -> float | datetime:
    """Return seconds, or a date with a time: midnight if it has none."""
    if isinstance(given, datetime):
        return given
    if isinstance(given, date):
        return datetime.combine(given, time())
    seconds = number(given, place)
    if isnan(seconds):
        raise InputError(f"must be two times, not {seconds}", place)
    return seconds


def _parse_loads(loads: Sequence[float] | None) -> list[float]:
    if loads is None:
        return [1.0]
    given = several(loads, "loads", "numbers")
    return _distinct([number(load, f"loads[{k}]") for k, load in enumerate(given)], "loads")


def _distinct(found: list[Value], what: str) -> list[Value]:
    """Return the values; raise InputError if there is none, or two are equal."""
    if not found or len(set(found)) < len(found):
        raise InputError("must have at least one entry, and no two equal entries", what)
    return found
