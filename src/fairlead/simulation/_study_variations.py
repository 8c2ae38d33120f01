"""Variations of a study: traces, perhaps resampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.errors import InputError
from fairlead.model.arguments import file_name, several, text
from fairlead.model.workload import Workload
from fairlead.simulation.simulate import read_trace, with_queues
from fairlead.traces.journal_trace import JournalWorkload
from fairlead.traces.what_if import with_load

Trace = Workload | Path | str


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
