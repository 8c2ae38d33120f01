"""Read Batsim's workloads: a JSON object of jobs, and of the profiles by which they run.

Source: batsim.readthedocs.io, "Workload". A resource of Batsim is a host, and a job takes `res`
hosts together: it is a gang of `res` tasks of one core. The cluster is `nb_res` hosts of one core,
or equal servers given by options; a task may run on any server.

Only jobs whose profile is a delay are read. The duration of other profiles (computations,
transfers, replays, sequences of profiles) may depend on the speed of hosts and links, and on other
jobs there. So their jobs are left out and counted, and also jobs that request no host. Batsim stops
a job at its walltime, so durations are cut there; the walltime is also the job's limit. A workload
is the input of a simulation, so starts are unknown.

Batsim has no users. The user of a job is its field ``user_id`` or ``user``; all jobs without such a
field are of one user. Dependencies between jobs, which Batsim leaves to its schedulers, are counted
and not used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import repeat
from math import inf
from pathlib import Path
from typing import Annotated, Final, NotRequired

from pydantic import BeforeValidator, Field, TypeAdapter
from typing_extensions import TypedDict

from fairlead.errors import InputError
from fairlead.formats.file_faults import check_object, short
from fairlead.model.cluster import Cluster
from fairlead.model.names import check_name
from fairlead.model.workload import Workload
from fairlead.model.workload_checks import MOST_SERVERS
from fairlead.traces._stored_files import (
    ProgressReport,
    error_source,
    quoted,
    read_json,
    start_of_text,
)
from fairlead.traces.logs.job_collector import (
    NO_USER,
    JobCollector,
    check_server_options,
    equal_servers,
)

# The names of profile types differ between Batsim's releases.
DELAYS = frozenset({"delay", "DelayProfile"})
NO_WALLTIME = -1.0
ONE_CORE = (1.0,)

NEEDS_PLATFORM = "jobs left out, as the duration of their profile may depend on a platform"
NO_HOST = "jobs left out, as they ask for no host"
STOPPED = "jobs that Batsim stops at their walltime; they end there"
DEPENDENCIES = "jobs that depend on other jobs; dependencies are ignored"

_BYTES_FOR_DETECTION = 2**16
_KEY = re.compile(r'"(?:nb_res|jobs|profiles)"\s*:')

# A whole number is accepted, too: 7 is read as "7".
_Text = Annotated[
    str,
    Field(min_length=1),
    BeforeValidator(lambda value: str(value) if type(value) is int else value),
]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class _Job(TypedDict):
    id: _Text
    subtime: _Number  # seconds
    res: Annotated[int, Field(ge=0)]  # hosts
    profile: _Text
    walltime: NotRequired[_Number]  # seconds; -1 for none
    user_id: NotRequired[_Text]
    user: NotRequired[_Text]
    dependencies: NotRequired[object]


class _Profile(TypedDict):
    type: _Text


class _Delay(TypedDict):
    delay: Annotated[float, Field(gt=0, allow_inf_nan=False)]  # seconds


class _Workload(TypedDict):
    nb_res: NotRequired[Annotated[int, Field(ge=1)]]  # hosts
    jobs: list[object]
    profiles: dict[str, object]


_JOB: Final = TypeAdapter(_Job)
_PROFILE: Final = TypeAdapter(_Profile)
_DELAY: Final = TypeAdapter(_Delay)
_WORKLOAD: Final = TypeAdapter(_Workload)


def is_batsim(path: Path) -> bool:
    """Return whether a file is a JSON object with a key of Batsim's workloads near its start."""
    start = start_of_text(path, _BYTES_FOR_DETECTION).lstrip()
    return start.startswith("{") and _KEY.search(start) is not None


def read_batsim(
    path: Path,
    *,
    servers: int | None = None,
    cores: int | None = None,
    on_progress: ProgressReport | None = None,
) -> Workload:
    """Read a Batsim workload; times are seconds from the first submission. O(hosts of all jobs).

    With `servers` and `cores`, each host of a job is one core of these equal servers. Raises
    InputError with the path of keys to a malformed value.
    """
    check_server_options(servers, cores)
    with error_source(str(path)):
        workload = check_object(_WORKLOAD, read_json(path, on_progress), "")
        cluster = _make_cluster(workload, servers, cores)
        delays = _read_delays(workload["profiles"])
        collected = JobCollector()
        for number, item in enumerate(workload["jobs"]):
            place = f"jobs[{number}]"
            _add_job(check_object(_JOB, item, place), place, delays, collected)
        return collected.workload(path, cluster, "Batsim workload")


def _make_cluster(workload: _Workload, servers: int | None, cores: int | None) -> Cluster:
    if servers is not None and cores is not None:
        return equal_servers("server", servers, {"cpu": cores})
    if "nb_res" not in workload:
        raise InputError("has no 'nb_res', its number of hosts; give --servers and --cores")
    hosts = workload["nb_res"]
    if hosts > MOST_SERVERS:
        raise InputError(f"must be at most {MOST_SERVERS:,}, not {hosts:,}", "nb_res")
    return equal_servers("host", hosts, {"cpu": 1})


def _read_delays(profiles: dict[str, object]) -> dict[str, float | None]:
    """Return the duration of each profile; None if it depends on a platform."""
    delays: dict[str, float | None] = {}
    for name, profile in profiles.items():
        place = f"profiles.{short(name)}"
        is_delay = check_object(_PROFILE, profile, place)["type"] in DELAYS
        delays[name] = check_object(_DELAY, profile, place)["delay"] if is_delay else None
    return delays


def _add_job(
    job: _Job, place: str, delays: Mapping[str, float | None], collected: JobCollector
) -> None:
    """Add a job whose duration is known and which requests hosts; count any other job."""
    notes, hosts, walltime = collected.notes, job["res"], job.get("walltime", NO_WALLTIME)
    user = job.get("user_id", job.get("user"))
    check_name(job["id"], f"{place}.id")
    check_name(user or "", f"{place}.{'user_id' if 'user_id' in job else 'user'}")
    if job["profile"] not in delays:
        raise InputError(f"there is no profile {quoted(job['profile'])}", f"{place}.profile")
    if walltime != NO_WALLTIME and walltime <= 0:
        raise InputError(f"must be a positive number, not {walltime:g}", f"{place}.walltime")
    limit = inf if walltime == NO_WALLTIME else walltime
    duration = delays[job["profile"]]
    if duration is None or not hosts:
        notes[NEEDS_PLATFORM if duration is None else NO_HOST] += 1
        return
    notes[STOPPED] += duration > limit
    notes[DEPENDENCIES] += bool(job.get("dependencies"))
    collected.check_task_count(hosts, f"{place}.res")
    notes[NO_USER] += user is None
    with error_source("", f"{place}.id"):  # a job that occurs twice
        collected.add_job(job["id"], user or "unknown", job["subtime"], gang=hosts > 1, limit=limit)
    collected.add_tasks(ONE_CORE, None, repeat(min(duration, limit), hosts))
