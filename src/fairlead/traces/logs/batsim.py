"""Batsim's workloads: a JSON object of jobs, and of the profiles by which they run.

Source: batsim.readthedocs.io, "Workload". A resource of Batsim is a host, and a job takes `res`
of them together: it is a gang of `res` tasks of one core. The cluster is `nb_res` hosts of one
core, or equal servers given by options; a task may run on any of them.

Only the duration of a delay, and of a sequence of delays, is known without a platform. Jobs of
other profiles (computations, transfers, replays) are left out and counted: their duration depends
on the speed of hosts and links, and on the jobs beside them. Jobs that ask for no host are left
out, too. Batsim stops a job at its walltime, which is therefore the longest duration as well as
the limit. A workload is an input of a simulation, so starts are unknown.

Batsim knows no users. A job's own field ``user_id`` or ``user`` names one; other jobs are of one
user. Dependencies between jobs, which Batsim leaves to its schedulers, are counted and not used.
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
from fairlead.traces._stored_files import ProgressReport, faults_within, show
from fairlead.traces.logs.job_collector import NO_USER, JobCollector, check_given, equal_servers

# The names of profile types differ between Batsim's releases.
DELAYS = frozenset({"delay", "DelayProfile"})
SEQUENCES = frozenset({"composed", "sequential_composition", "SequentialCompositionProfile"})
USERS = ("user_id", "user")
NO_WALLTIME = -1.0
DEEPEST = 50  # sequences within sequences
ONE_CORE = (1.0,)

NEEDS_PLATFORM = "jobs left out, as the duration of their profile depends on a platform"
NO_HOST = "jobs left out, as they ask for no host"
STOPPED = "jobs that Batsim stops at their walltime, which end there"
DEPENDENCIES = "jobs that depend on other jobs, which is not used"

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
    """Read a Batsim workload; times count from the first submission. O(jobs + hosts of all jobs).

    With `servers` and `cores` each host of a job is a core of equal servers.
    """
    check_given(servers, cores)
    with faults_within(str(path)):
        workload = json_files.mapping(json_files.read_json(path, on_progress), "")
        cluster = _cluster(workload, servers, cores)
        named = json_files.field(workload, "profiles", "")
        durations = _ProfileDurations(json_files.mapping(named, "profiles"))
        jobs = json_files.sequence(json_files.field(workload, "jobs", ""), "jobs")
        collected = JobCollector()
        for number, job in enumerate(jobs):
            place = f"jobs[{number}]"
            _collect(json_files.mapping(job, place), place, durations, collected)
        return collected.workload(cluster, f"Batsim workload {path.name}", from_first=True)


def _cluster(workload: dict[str, object], servers: int | None, cores: int | None) -> Cluster:
    if servers is not None and cores is not None:
        return equal_servers("server", servers, cores)
    if "nb_res" not in workload:
        raise InputError("has no 'nb_res', its number of hosts; give --servers and --cores")
    hosts = json_files.whole(workload["nb_res"], "nb_res", least=1)
    if hosts > MOST_SERVERS:
        raise InputError(f"must be at most {MOST_SERVERS:,}, not {hosts:,}", "nb_res")
    return equal_servers("host", hosts, 1)


def _collect(
    job: dict[str, object], place: str, durations: _ProfileDurations, collected: JobCollector
) -> None:
    notes, field = collected.notes, partial(json_files.field, job, place=place)
    name = json_files.text(field("id"), f"{place}.id")
    submit = json_files.real(field("subtime"), f"{place}.subtime")
    hosts = json_files.whole(field("res"), f"{place}.res")
    profile = json_files.text(field("profile"), f"{place}.profile")
    limit = _limit(job, place)
    duration = durations.of(profile, f"{place}.profile")
    if duration is None or not hosts:
        notes[NEEDS_PLATFORM if duration is None else NO_HOST] += 1
        return
    notes[STOPPED] += duration > limit
    notes[DEPENDENCIES] += bool(job.get("dependencies"))
    collected.refuse_beyond(hosts, f"{place}.res")
    named = next((key for key in USERS if key in job), "")
    user = json_files.text(job[named], f"{place}.{named}") if named else "unknown"
    notes[NO_USER] += not named
    try:
        collected.add_job(name, user, submit, gang=hosts > 1, limit=limit)
    except InputError as error:  # a job that occurs twice
        raise InputError(error.fault, f"{place}.id") from None
    collected.add_tasks(ONE_CORE, None, repeat(min(duration, limit), hosts))


def _limit(job: dict[str, object], place: str) -> float:
    """Return the walltime of a job; infinite without one, which -1 states as well."""
    if "walltime" not in job or job["walltime"] == NO_WALLTIME:
        return inf
    return json_files.positive(job["walltime"], f"{place}.walltime")


class _ProfileDurations:
    """Computes durations of profiles in seconds, each once; None where a platform decides."""

    def __init__(self, profiles: Mapping[str, object]) -> None:
        self._profiles = profiles
        self._known: dict[str, float | None] = {}

    def of(self, name: str, place: str, within: tuple[str, ...] = ()) -> float | None:
        """Return the duration of a profile that is named at `place`.

        `within` are the sequences around it. Raises InputError for a profile that is absent or
        malformed, and for a sequence that contains itself.
        """
        if name in self._known:
            return self._known[name]
        if name not in self._profiles:
            raise InputError(f"there is no profile {show(name)}", place)
        if name in within:
            raise InputError(f"the sequence {show(name)} contains itself", place)
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
            duration = self._of_sequence(profile, here, (*within, name))
        self._known[name] = duration
        return duration

    def _of_sequence(
        self, profile: dict[str, object], here: str, within: tuple[str, ...]
    ) -> float | None:
        count = "nb" if "nb" in profile else "repeat"  # its name in the first releases, and now
        times = json_files.whole(profile.get(count, 1), f"{here}.{count}", least=1)
        names = json_files.sequence(json_files.field(profile, "seq", here), f"{here}.seq")
        if not names:
            raise InputError("is empty", f"{here}.seq")
        parts: list[float] = []
        for number, value in enumerate(names):
            place = f"{here}.seq[{number}]"
            part = self.of(json_files.text(value, place), place, within)
            if part is None:
                return None
            parts.append(part)
        duration = times * sum(parts)
        if not isfinite(duration):
            raise InputError("its delays and repeats give no finite duration", here)
        return duration
