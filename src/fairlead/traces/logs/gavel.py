"""Read traces of Gavel: deep learning jobs with a type, a number of steps and a number of GPUs.

Source: github.com/stanford-futuredata/gavel, ``scheduler/traces`` and ``parse_trace``. A row has
ten columns separated by tabs, or nine without the working directory. A job's scale factor is its
number of workers, and a worker of Gavel is one GPU. So the job is a gang of that many tasks of one
GPU. A task may run on any server. The trace names no servers; options give equal ones.

A row states steps, not seconds. The duration of a job is its steps divided by its throughput in
steps a second. A file such as Gavel's ``simulation_throughputs.json`` states throughputs by GPU
type, job type and scale factor. Of these, the throughput of a job without other jobs on its GPU is
used. A task has the same duration on all servers, so one GPU type is used: V100, for which Gavel
draws the steps, or the only type of the file. Jobs with a throughput of 0, which do not fit into
the memory of that GPU, are left out and counted.

Gavel has no users. It shares GPUs among jobs by their priority weights, so each job is a user of
its own with this weight. Jobs are named by their position in the trace, as Gavel numbers them.
Deadlines (the column SLO) are counted and not used. Starts are unknown, as a trace is an input of
a simulation.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat
from math import isfinite
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import numpy as np
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from fairlead.errors import InputError
from fairlead.formats.file_faults import check_object
from fairlead.model.cluster import Cluster
from fairlead.model.names import check_name
from fairlead.model.workload import Workload
from fairlead.traces import _json_files as json_files
from fairlead.traces._stored_files import ProgressReport, error_source, listed, quoted, read_lines
from fairlead.traces.logs.job_collector import JobCollector, check_server_options

COLUMNS = (
    "job_type",
    "command",
    "working_directory",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
    "priority_weight",
    "SLO",
    "arrival_time",
)
WITHOUT_DIRECTORY = tuple(name for name in COLUMNS if name != "working_directory")
REFERENCE = "v100"
ONE_GPU = (1.0,)
LARGEST_NUMBER = 1e15

TOO_LARGE = "jobs left out, as they do not run on this GPU (a throughput of 0)"
DEADLINE = "jobs with a deadline (SLO), which is not used"


class GavelRow(NamedTuple):
    """A job of a trace."""

    job_type: str
    steps: int
    gpus: int
    weight: float
    deadline: float  # negative if none
    arrival: float  # seconds


# The throughput of a job without another job on its GPU, in steps a second; other keys are ignored.
class _Alone(TypedDict):
    null: Annotated[float, Field(ge=0, allow_inf_nan=False)]


_GPU_TYPES: Final = TypeAdapter(dict[str, object])
_THROUGHPUTS: Final = TypeAdapter(dict[str, _Alone])


class Throughputs(NamedTuple):
    """Throughputs of each job type and scale factor on one GPU type."""

    path: Path
    gpu: str  # the type
    by_job: dict[str, _Alone]  # by job type and scale factor


def is_gavel(line: str) -> bool:
    """Return whether a line is a row of a trace of Gavel, with nine or ten columns."""
    try:
        values = _split_values(line, _columns_of(line))
        numbers = [float(values[name]) for name in COLUMNS[5:]]
    except (InputError, ValueError):
        return False
    return values["needs_data_dir"] in ("0", "1") and all(map(isfinite, numbers))


def read_gavel(
    path: Path,
    *,
    machines: Path | None = None,
    servers: int | None = None,
    cores: int | None = None,
    on_progress: ProgressReport | None = None,
) -> Workload:
    """Read a trace of Gavel; times are seconds from the first arrival. O(GPUs of all jobs).

    `machines` is a JSON file of throughputs by GPU type and ``('job type', scale factor)``; `cores`
    is the number of GPUs of each server. Raises InputError with the file, and the row or the path
    of keys.
    """
    check_server_options(servers, cores)
    if machines is None:
        fault = "states steps instead of durations; give --machines FILE with Gavel's throughputs"
        raise InputError(fault, "", str(path))
    if servers is None or cores is None:
        fault = "names no servers; give --servers, and --cores for the GPUs of each"
        raise InputError(fault, "", str(path))
    throughputs = _read_throughputs(machines)
    cluster = Cluster(
        groups=(throughputs.gpu,),
        resources=("gpu",),
        capacity=np.array([[float(cores)]]),
        count=np.array([servers]),
        units=("GPUs",),
        labels=({"gpu": throughputs.gpu},),
    )
    collected, weight_of = JobCollector(), dict[str, float]()
    names: tuple[str, ...] = ()
    position = 0
    for number, line in read_lines(path, on_progress):
        if not line:
            continue
        with error_source(str(path), f"row {number}"):
            names = names or _columns_of(line)
            row = _parse_row(_split_values(line, names))
            name = f"job-{position}"
            if _add_job(row, name, throughputs, collected):
                weight_of[name] = row.weight
        position += 1
    with error_source(str(path)):
        workload = collected.workload(cluster, f"Gavel trace {path.name}")
    return replace(workload, weight=np.array([weight_of[name] for name in workload.users]))


def _read_throughputs(path: Path) -> Throughputs:
    with error_source(str(path)):
        types = check_object(_GPU_TYPES, json_files.read_json(path), "")
        gpu = next(iter(types)) if len(types) == 1 else REFERENCE
        if gpu not in types:
            found = listed(list(types), 5)
            fault = f"has no GPU type {REFERENCE!r} but {found or 'none'}; keep one type in it"
            raise InputError(fault)
        check_name(gpu, "GPU type")
        return Throughputs(path, gpu, check_object(_THROUGHPUTS, types[gpu], gpu))


def _add_job(row: GavelRow, name: str, throughputs: Throughputs, collected: JobCollector) -> bool:
    """Add a job and return True; count a job that does not run and return False."""
    throughput = _find_throughput(row, throughputs)
    if not throughput:
        collected.notes[TOO_LARGE] += 1
        return False
    duration = row.steps / throughput
    if not 0 < duration < LARGEST_NUMBER:
        raise InputError(f"{row.steps} steps at {throughput:g} steps/s are not a usable duration")
    collected.notes[DEADLINE] += row.deadline >= 0
    collected.refuse_beyond(row.gpus, "column scale_factor")
    collected.add_job(name, name, row.arrival, gang=row.gpus > 1)
    collected.add_tasks(ONE_GPU, None, repeat(duration, row.gpus))
    return True


def _find_throughput(row: GavelRow, throughputs: Throughputs) -> float:
    """Return the steps a second of a job; raise InputError if the file lacks its throughput."""
    key = repr((row.job_type, row.gpus))
    if key not in throughputs.by_job:
        fault = f"{throughputs.path.name} has no throughput of {quoted(key)} on {throughputs.gpu}"
        raise InputError(fault)
    return throughputs.by_job[key]["null"]


def _columns_of(line: str) -> tuple[str, ...]:
    """Return the names of a row's columns; raise InputError unless it has nine or ten."""
    found = line.count("\t") + 1
    for names in (COLUMNS, WITHOUT_DIRECTORY):
        if found == len(names):
            return names
    wanted = f"{len(WITHOUT_DIRECTORY)} or {len(COLUMNS)}"
    raise InputError(f"has {found} columns separated by tabs, not {wanted}")


def _split_values(line: str, names: tuple[str, ...]) -> dict[str, str]:
    """Return the values of a row by column."""
    values = line.split("\t")
    if len(values) != len(names):
        fault = f"has {len(values)} columns separated by tabs, where the first row has"
        raise InputError(f"{fault} {len(names)}")
    return dict(zip(names, map(str.strip, values), strict=True))


def _parse_row(values: dict[str, str]) -> GavelRow:
    weight = _parse_number(values, "priority_weight")
    if weight <= 0:
        raise InputError(f"column priority_weight: must be positive, not {weight:g}")
    return GavelRow(
        values["job_type"],
        _parse_whole(values, "total_steps"),
        _parse_whole(values, "scale_factor"),
        weight,
        _parse_number(values, "SLO"),
        _parse_number(values, "arrival_time"),
    )


def _parse_number(values: dict[str, str], column: str) -> float:
    try:
        number = float(values[column])
    except ValueError:
        number = float("nan")
    if not abs(number) < LARGEST_NUMBER:
        raise InputError(f"column {column}: {quoted(values[column])} is not a usable number")
    return number


def _parse_whole(values: dict[str, str], column: str) -> int:
    number = _parse_number(values, column)
    if not number.is_integer() or number < 1:
        fault = f"must be a whole number from 1, not {quoted(values[column])}"
        raise InputError(f"column {column}: {fault}")
    return int(number)
