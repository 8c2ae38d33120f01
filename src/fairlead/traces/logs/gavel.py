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
from typing import Annotated, Final

import numpy as np
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from fairlead.errors import InputError
from fairlead.formats.file_faults import check_object
from fairlead.model.names import check_name
from fairlead.model.workload import Workload
from fairlead.traces._stored_files import (
    ProgressReport,
    error_source,
    listed,
    quoted,
    read_json,
    read_lines,
)
from fairlead.traces.logs.job_collector import (
    JobCollector,
    check_server_options,
    equal_servers,
)

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


# The throughput of a job without another job on its GPU, in steps a second; other keys are ignored.
class _Alone(TypedDict):
    null: Annotated[float, Field(ge=0, allow_inf_nan=False)]


_GPU_TYPES: Final = TypeAdapter(dict[str, object])
_THROUGHPUTS: Final = TypeAdapter(dict[str, _Alone])


def is_gavel(line: str) -> bool:
    """Return whether a line is a row of a trace of Gavel, with nine or ten columns."""
    try:
        values = _split_row(line)
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
    gpu, throughputs = _read_throughputs(machines)
    cluster = equal_servers(gpu, servers, {"gpu": float(cores)}, {"gpu": gpu})
    collected, weight_of = JobCollector(), dict[str, float]()
    position, columns = 0, 0
    for number, line in read_lines(path, on_progress):
        if not line:
            continue
        with error_source(str(path), f"row {number}"):
            values = _split_row(line)
            columns = columns or len(values)
            if len(values) != columns:
                fault = f"has {len(values)} columns separated by tabs, where the first row has"
                raise InputError(f"{fault} {columns}")
            key = repr((values["job_type"], _parse_whole(values, "scale_factor")))
            if key not in throughputs:
                raise InputError(f"{machines.name} has no throughput of {quoted(key)} on {gpu}")
            weight = _parse_number(values, "priority_weight")
            if weight <= 0:
                raise InputError(f"column priority_weight: must be positive, not {weight:g}")
            name = f"job-{position}"
            if _add_job(values, name, throughputs[key]["null"], collected):
                weight_of[name] = weight
        position += 1
    workload = collected.workload(path, cluster, "Gavel trace")
    return replace(workload, weight=np.array([weight_of[name] for name in workload.users]))


def _read_throughputs(path: Path) -> tuple[str, dict[str, _Alone]]:
    """Return a GPU type, and the throughputs there by job type and scale factor."""
    with error_source(str(path)):
        types = check_object(_GPU_TYPES, read_json(path), "")
        gpu = next(iter(types)) if len(types) == 1 else REFERENCE
        if gpu not in types:
            found = listed(list(types), 5)
            fault = f"has no GPU type {REFERENCE!r} but {found or 'none'}; keep one type in it"
            raise InputError(fault)
        return check_name(gpu, "GPU type"), check_object(_THROUGHPUTS, types[gpu], gpu)


def _add_job(values: dict[str, str], name: str, throughput: float, collected: JobCollector) -> bool:
    """Add a job and return True; count a job that does not run and return False."""
    steps, gpus = _parse_whole(values, "total_steps"), _parse_whole(values, "scale_factor")
    deadline = _parse_number(values, "SLO")
    arrival = _parse_number(values, "arrival_time")
    if not throughput:
        collected.notes[TOO_LARGE] += 1
        return False
    duration = steps / throughput
    if not 0 < duration < LARGEST_NUMBER:
        raise InputError(f"{steps} steps at {throughput:g} steps/s are not a usable duration")
    collected.notes[DEADLINE] += deadline >= 0
    collected.check_task_count(gpus, "column scale_factor")
    collected.add_job(name, name, arrival, gang=gpus > 1)
    collected.add_tasks(ONE_GPU, None, repeat(duration, gpus))
    return True


def _split_row(line: str) -> dict[str, str]:
    """Return the values of a row by column; raise InputError unless it has nine or ten."""
    values = [value.strip() for value in line.split("\t")]
    names = COLUMNS if len(values) == len(COLUMNS) else WITHOUT_DIRECTORY
    if len(values) != len(names):
        wanted = f"{len(WITHOUT_DIRECTORY)} or {len(COLUMNS)}"
        raise InputError(f"has {len(values)} columns separated by tabs, not {wanted}")
    return dict(zip(names, values, strict=True))


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
