"""Read Batsim's workloads: a JSON object of jobs, and of the profiles by which they run.

Source: batsim.readthedocs.io, "Workload". A resource of Batsim is a host, and a job takes `res`
hosts together: it is a gang of `res` tasks of one core. The cluster is `nb_res` hosts of one core,
or equal servers given by options; a task may run on any server.

Only delays and sequences of delays have a known duration without a platform. The duration of other
profiles (computations, transfers, replays) depends on the speed of hosts and links, and on other
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
from functools import partial
from itertools import repeat
from math import inf, isfinite
from pathlib import Path

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload
from fairlead.model.workload_checks import MOST_SERVERS
from fairlead.traces import _json_files as json_files
from fairlead.traces._stored_files import ProgressReport, error_source, quoted
from fairlead.traces.logs.job_collector import (
    NO_USER,
    JobCollector,
    check_server_options,
    equal_servers,
)

# The names of profile types differ between Batsim's releases.
DELAYS = frozenset({"delay", "DelayProfile"})
SEQUENCES = frozenset({"composed", "sequential_composition", "SequentialCompositionProfile"})
USERS = ("user_id", "user")
NO_WALLTIME = -1.0
DEEPEST = 50  # levels of sequences within sequences
ONE_CORE = (1.0,)

NEEDS_PLATFORM = "jobs left out, as the duration of their profile depends on a platform"
NO_HOST = "jobs left out, as they ask for no host"
STOPPED = "jobs that Batsim stops at their walltime; they end there"
DEPENDENCIES = "jobs that depend on other jobs; dependencies are ignored"

_BYTES_FOR_DETECTION = 2**16
_KEY = re.compile(r'"(?:nb_res|jobs|profiles)"\s*:')


def is_batsim(path: Path) -> bool:
    """Return whether a file is a JSON object with a key of Batsim's workloads near its start."""
    start = json_files.start_of_text(path, _BYTES_FOR_DETECTION).lstrip()
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
        workload = json_files.mapping(json_files.read_json(path, on_progress), "")
        cluster = _make_cluster(workload, servers, cores)
        profiles = json_files.field(workload, "profiles", "")
        durations = _ProfileDurations(json_files.mapping(profiles, "profiles"))
        jobs = json_files.sequence(json_files.field(workload, "jobs", ""), "jobs")
        collected = JobCollector()
        for number, job in enumerate(jobs):
            place = f"jobs[{number}]"
            _add_job(json_files.mapping(job, place), place, durations, collected)
        return collected.workload(cluster, f"Batsim workload {path.name}", from_first=True)


def _make_cluster(workload: dict[str, object], servers: int | None, cores: int | None) -> Cluster:
    if servers is not None and cores is not None:
        return equal_servers("server", servers, cores)
    if "nb_res" not in workload:
        raise InputError("has no 'nb_res', its number of hosts; give --servers and --cores")
    hosts = json_files.whole(workload["nb_res"], "nb_res", least=1)
    if hosts > MOST_SERVERS:
        raise InputError(f"must be at most {MOST_SERVERS:,}, not {hosts:,}", "nb_res")
    return equal_servers("host", hosts, 1)


def _add_job(
    job: dict[str, object], place: str, durations: _ProfileDurations, collected: JobCollector
) -> None:
    """Add a job whose duration is known and which requests hosts; count any other job."""
    notes, field = collected.notes, partial(json_files.field, job, place=place)
    name = json_files.text(field("id"), f"{place}.id")
    submit = json_files.real(field("subtime"), f"{place}.subtime")
    hosts = json_files.whole(field("res"), f"{place}.res")
    profile = json_files.text(field("profile"), f"{place}.profile")
    walltime = _read_walltime(job, place)
    duration = durations.compute(profile, f"{place}.profile")
    if duration is None or not hosts:
        notes[NEEDS_PLATFORM if duration is None else NO_HOST] += 1
        return
    notes[STOPPED] += duration > walltime
    notes[DEPENDENCIES] += bool(job.get("dependencies"))
    collected.refuse_beyond(hosts, f"{place}.res")
    key = next((key for key in USERS if key in job), "")
    user = json_files.text(job[key], f"{place}.{key}") if key else "unknown"
    notes[NO_USER] += not key
    try:
        collected.add_job(name, user, submit, gang=hosts > 1, limit=walltime)
    except InputError as error:  # a job that occurs twice
        raise InputError(error.fault, f"{place}.id") from None
    collected.add_tasks(ONE_CORE, None, repeat(min(duration, walltime), hosts))


def _read_walltime(job: dict[str, object], place: str) -> float:
    """Return the walltime of a job; infinite if it is absent or -1."""
    if "walltime" not in job or job["walltime"] == NO_WALLTIME:
        return inf
    return json_files.positive(job["walltime"], f"{place}.walltime")


class _ProfileDurations:
    """Computes the duration of each profile once, in seconds; None if it depends on a platform."""

    def __init__(self, profiles: Mapping[str, object]) -> None:
        self._profiles = profiles
        self._known: dict[str, float | None] = {}

    def compute(self, name: str, place: str, within: tuple[str, ...] = ()) -> float | None:
        """Return the duration of a profile; `place` is the path of keys to its name.

        `within` are the sequences that contain the profile, outermost first. Raises InputError for
        an absent or malformed profile, for a sequence that contains itself, and for too deep
        sequences.
        """
        if name in self._known:
            return self._known[name]
        if name not in self._profiles:
            raise InputError(f"there is no profile {quoted(name)}", place)
        if name in within:
            raise InputError(f"the sequence {quoted(name)} contains itself", place)
        if len(within) >= DEEPEST:
            raise InputError(f"sequences are nested more than {DEEPEST} deep", place)
        here = f"profiles.{name}"
        profile = json_files.mapping(self._profiles[name], here)
        kind = json_files.text(json_files.field(profile, "type", here), f"{here}.type")
        duration: float | None = None
        if kind in DELAYS:
            delay = json_files.field(profile, "delay", here)
            duration = json_files.positive(delay, f"{here}.delay")
        elif kind in SEQUENCES:
            duration = self._sum_sequence(profile, here, (*within, name))
        self._known[name] = duration
        return duration

    def _sum_sequence(
        self, profile: dict[str, object], here: str, within: tuple[str, ...]
    ) -> float | None:
        """Return the duration of a sequence; `here` is the path of keys to the sequence."""
        count = "nb" if "nb" in profile else "repeat"  # the first releases used "nb"
        times = json_files.whole(profile.get(count, 1), f"{here}.{count}", least=1)
        names = json_files.sequence(json_files.field(profile, "seq", here), f"{here}.seq")
        if not names:
            raise InputError("is empty", f"{here}.seq")
        durations: list[float] = []
        for number, value in enumerate(names):
            place = f"{here}.seq[{number}]"
            part = self.compute(json_files.text(value, place), place, within)
            if part is None:
                return None
            durations.append(part)
        duration = times * sum(durations)
        if not isfinite(duration):
            raise InputError("its delays and repeats give no finite duration", here)
        return duration
