"""Change a workload for a what-if: its users, weights, quotas, limits, servers, load and times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fairlead.errors import InputError, ProblemError
from fairlead.formats.file_faults import did_you_mean
from fairlead.formats.queue_file import read_weights
from fairlead.model.problem_changes import group_named
from fairlead.model.quantity import number_from_text
from fairlead.model.queues import TASKS, read_limits
from fairlead.model.quotas import WHERE, check_quotas, read_quotas
from fairlead.model.quotas import check_cluster as check_quota_servers
from fairlead.model.workload import Workload, excerpt
from fairlead.model.workload_checks import check_cluster, check_weights
from fairlead.traces._stored_files import error_source, listed
from fairlead.traces.logs.job_collector import rows_in_order
from fairlead.traces.time_window import NO_STARTS_AT_LOAD

# For errors. `preempt` changes the policy (in `simulation.planned_runs`), not the workload.
CHANGES = (
    "weight:USER=NUMBER, quota:QUEUE.RESOURCE=NUMBER, limit:QUEUE.RESOURCE=NUMBER, "
    "servers:GROUP+NUMBER, servers:GROUP-NUMBER or preempt:MODE"
)
_SERVERS = re.compile(r"(.+)([+-])([0-9]{1,10})", re.DOTALL)
_MOST_NAMED = 10  # names listed in an error
DAY = 86_400.0
WEEK = 7 * DAY


def change_workload(workload: Workload, change: str) -> Workload:
    """Return the workload with one change, named in its origin.

    Parameters
    ----------
    workload : Workload
    change : str
        One of these, where USER and QUEUE may each be a user or a queue:

        - ``weight:USER=NUMBER``;
        - ``quota:QUEUE.RESOURCE=NUMBER``, on all servers;
        - ``limit:QUEUE.RESOURCE=NUMBER``, where the resource may be ``tasks``;
        - ``servers:GROUP+NUMBER``: add servers at the end of a group, for the whole time;
        - ``servers:GROUP-NUMBER``: remove the last servers of a group, with their events.

        Instead of GROUP, the name of a Slurm partition with a single group will do. Servers of
        later groups keep their events and get other numbers. Names may contain ``:=.+-``.

    Raises
    ------
    InputError
        For any other text, an unknown name, a number out of range, or when no server of the group
        would be left.

    Notes
    -----
    O(users + servers + their events), and O(tasks) to change servers. The result shares the
    unchanged arrays with the given workload.
    """
    kind, _, rest = change.partition(":")
    try:
        if kind == "weight":
            changed = _with_weight(workload, rest)
        elif kind == "servers":
            changed = _with_servers(workload, rest)
        elif kind in ("quota", "limit"):
            changed = _with_amount(workload, kind, rest)
        else:
            raise InputError(f"must be {CHANGES}")
    except InputError as error:
        raise InputError(error.fault, f"what-if {change!r}") from None
    origin = f"{workload.origin}, {change}" if workload.origin else change
    return replace(changed, origin=origin)


def with_perfect_estimates(workload: Workload) -> Workload:
    """Return the workload with each job's limit set to its longest task's duration. O(tasks)."""
    longest = np.maximum.reduceat(workload.task_duration, workload.first_task[:-1])
    return replace(workload, job_limit=np.maximum.reduceat(longest, workload.first_set[:-1]))


def _with_weight(workload: Workload, rest: str) -> Workload:
    """Return the workload with another weight of a queue or user."""
    name, _, text = rest.rpartition("=")
    if not name:
        raise InputError("must be weight:USER=NUMBER, such as weight:ana=3")
    queues, n = workload.queues, _index_of(name, _owners(workload), "user", "users")
    number = _parse_number(text)
    try:
        if queues is not None and n >= workload.n_users:
            return replace(workload, queues=queues.with_weight(name, number))
        weight = workload.weight.copy()
        weight[n] = number
        return replace(workload, weight=check_weights(weight, workload.n_users))
    except ProblemError:
        wanted = "0 or a positive number" if name in workload.users else "a positive number"
        raise InputError(f"the weight of {name} must be {wanted}, not {text}") from None


def _with_amount(workload: Workload, kind: str, rest: str) -> Workload:
    """Return the workload with another quota or limit of a queue or user."""
    key, _, text = rest.rpartition("=")
    if "." not in key:
        raise InputError(f"must be {kind}:QUEUE.RESOURCE=NUMBER, such as {kind}:ana.gpu=4")
    known = workload.cluster.resources
    known = known if kind == "quota" else (*known, TASKS)
    # Names of users and of resources, such as ``nvidia.com/gpu``, may have dots.
    name, _, resource = key.rpartition(".")
    if longer := [each for each in known if key.endswith(f".{each}")]:
        resource = max(longer, key=len)
        name = key.removesuffix(f".{resource}")
    _index_of(name, _owners(workload), "queue or user", "queues and users")
    _index_of(resource, known, "resource", "resources")
    amount, limits, quotas = _parse_number(text), workload.limits, workload.quotas
    parents = {} if workload.queues is None else workload.queues.parents(workload.users)
    try:
        if kind == "limit":
            limits = read_limits({**limits, name: {**limits.get(name, {}), resource: amount}})
        else:
            rows = quotas.get(name, [])
            everywhere = next((row for row in rows if WHERE not in row), {})
            others = [row for row in rows if WHERE in row]
            quotas = read_quotas({**quotas, name: [{**everywhere, resource: amount}, *others]})
            check_quota_servers(quotas, parents, workload.cluster)
        check_quotas(quotas, parents, limits)
    except ProblemError as error:
        raise InputError(f"{error.place}: {error.fault}") from None
    return replace(workload, limits=limits, quotas=quotas)


def with_load(workload: Workload, load: float) -> Workload:
    """Divide the times of submissions and of server events by `load`, and keep durations.

    The time from a job's submission to its cancellation is also divided. The result has no recorded
    starts and no dates. Raises InputError for a load that is not positive, or so small that times
    overflow.
    """
    if not 0 < load < np.inf:
        raise InputError(f"must be a positive number, not {load:g}", "load")
    with np.errstate(over="ignore"):
        submit, server_time = workload.job_submit / load, workload.server_time / load
    if not (np.isfinite(submit).all() and np.isfinite(server_time).all()):
        raise InputError(f"{load:g} gives times that are too large", "load")
    origin = f"{workload.origin}, load {load:g}" if workload.origin else f"load {load:g}"
    notes = dict(workload.notes)
    if workload.has_starts:
        notes[NO_STARTS_AT_LOAD] = int((~np.isnan(workload.task_start)).sum())
    return replace(
        workload,
        origin=origin,
        start_date=None,
        job_submit=submit,
        job_cancel=submit + (workload.job_cancel - workload.job_submit) / load,
        server_time=server_time,
        recorded_until=None if workload.recorded_until is None else workload.recorded_until / load,
        notes=notes,
        task_start=np.full_like(workload.task_start, np.nan),
        task_server=np.full_like(workload.task_server, -1),
    )


def _with_servers(workload: Workload, rest: str) -> Workload:
    """Return the workload with servers added to the end of a group, or removed from it.

    Servers are numbered through all groups, so those of later groups get other numbers. Recorded
    starts on a removed server stay, without a server.
    """
    parts = _SERVERS.fullmatch(rest)
    if parts is None:
        raise InputError(
            "must be servers:GROUP+NUMBER or servers:GROUP-NUMBER, such as servers:big+10"
        )
    name, sign, number = parts[1], parts[2], int(parts[3])
    cluster = workload.cluster
    g = group_named(name, cluster)
    if not number:
        raise InputError("changes nothing: the number must be at least 1")
    before = int(cluster.count[g])
    if sign == "-" and number >= before:
        fault = f"the group {name!r} has {before:,} servers, and at least one must stay"
        raise InputError(fault)
    count = cluster.count.copy()
    count[g] = before + number if sign == "+" else before - number
    changed = replace(cluster, count=count)
    check_cluster(changed)
    end = int(workload.first_server[g + 1])  # number of the first server of the next group
    difference = int(count[g]) - before
    first_removed = end + min(difference, 0)
    event_removed = (workload.server >= first_removed) & (workload.server < end)
    server = workload.server + np.where(workload.server >= end, difference, 0)
    task_server = workload.task_server
    on_removed = (task_server >= first_removed) & (task_server < end)
    renumbered = task_server + np.where(task_server >= end, difference, 0)
    task_server = np.where(on_removed, -1, renumbered)
    return replace(
        workload,
        cluster=changed,
        task_server=task_server.astype(np.int32),
        server_time=workload.server_time[~event_removed],
        server_event=workload.server_event[~event_removed],
        server=server[~event_removed].astype(np.int32),
    )


def _owners(workload: Workload) -> tuple[str, ...]:
    """Return the names of the users, then of the queues."""
    queues = workload.queues
    return workload.users if queues is None else (*workload.users, *queues.names)


def _parse_number(text: str) -> float:
    try:
        return number_from_text(text)
    except ValueError:
        raise InputError(f"{text!r} is not a number") from None


def _index_of(name: str, known: Sequence[str], what: str, plural: str) -> int:
    """Return the index of a name; raise InputError for an unknown one."""
    if name in known:
        return known.index(name)
    names = listed(known, _MOST_NAMED, plural)
    raise InputError(f"no {what} is named {name!r}; known: {names}{did_you_mean(name, known)}")


def without_users(workload: Workload, names: Sequence[str]) -> Workload:
    """Return the workload without some users and their jobs.

    Raises InputError for an unknown user, or when no job is left. O(jobs + sets + tasks).
    """
    left_out = np.zeros(workload.n_users, dtype=bool)
    with error_source("", "--exclude"):
        for name in names:
            left_out[_index_of(name, workload.users, "user", "users")] = True
    kept = np.flatnonzero(~left_out)
    is_kept_set = ~left_out[workload.job_user[workload.set_job]]
    if not is_kept_set.any():
        raise InputError("leaves no job", "--exclude")
    rest = excerpt(workload, is_kept_set, np.ones(workload.n_servers, dtype=bool)).workload
    position = np.cumsum(~left_out) - 1
    queues = workload.queues
    return replace(
        rest,
        users=tuple(workload.users[n] for n in kept),
        weight=workload.weight[kept],
        job_user=position[rest.job_user].astype(np.int32),
        queues=None if queues is None else queues.select_users(kept),
        limits={name: row for name, row in workload.limits.items() if name not in names},
        quotas={name: rows for name, rows in workload.quotas.items() if name not in names},
    )


def with_weights(workload: Workload, path: Path) -> Workload:
    """Return the workload with the weights of a YAML or JSON file, such as ``{ana: 2, bo: 0.5}``.

    Users that the file does not name keep their weights. A note counts named users that the trace
    does not have. Raises InputError for an unreadable file or an invalid weight.
    """
    weight = workload.weight.copy()
    weights = read_weights(path)
    absent = [name for name in weights if name not in workload.users]
    notes = dict(workload.notes)
    if absent:
        notes[f"weights of users without a job in the trace ({listed(absent, 5)})"] = len(absent)
    for name in weights.keys() - set(absent):
        weight[workload.users.index(name)] = weights[name]
    with error_source(str(path)):
        checked = check_weights(weight, workload.n_users)
    return replace(workload, weight=checked, notes=notes)


def resampled(workload: Workload, seed: int) -> Workload:
    """Return a workload with the jobs of each user shifted in time.

    All jobs of a user are shifted by the same random number of whole weeks, or of days in a trace
    shorter than four weeks. Jobs shifted beyond the end wrap around to the beginning. So each user
    keeps its daily rhythm (and with weeks its weekly one), but competes with other jobs than in the
    trace. (Zakay and Feitelson 2013 also resample users.) Servers and their events stay; recorded
    starts are dropped.

    Raises InputError if all jobs are submitted within a day, as none could be shifted then.

    Examples
    --------
    >>> from fairlead.traces.generator import generate_day
    >>> workload = generate_day(servers=20, users=5, jobs=200, hours=60)
    >>> resampled(workload, seed=1).n_tasks == workload.n_tasks
    True
    """
    first, last = float(workload.job_submit.min()), float(workload.job_submit.max())
    unit = WEEK if last - first >= 4 * WEEK else DAY
    periods = int((last - first) // unit) + 1
    if periods < 2:
        raise InputError("all jobs come within a day: there is nothing to resample", "seeds")
    shift = np.random.default_rng(seed).integers(periods, size=workload.n_users) * unit
    moved = first + (workload.job_submit - first + shift[workload.job_user]) % (periods * unit)
    order = np.argsort(moved, kind="stable")
    sets_of_job = np.diff(workload.first_set)
    sets = rows_in_order(sets_of_job, order)
    tasks = rows_in_order(workload.set_tasks.astype(np.int64), sets)
    origin = f"{workload.origin}, resampled {seed}" if workload.origin else f"resampled {seed}"
    until = workload.recorded_until
    return replace(
        workload,
        origin=origin,
        recorded_until=None if until is None else max(until, float(moved.max())),
        job_names=workload.job_names[order],
        job_user=workload.job_user[order],
        job_submit=moved[order],
        job_cancel=(workload.job_cancel - workload.job_submit + moved)[order],
        job_limit=workload.job_limit[order],
        job_gang=workload.job_gang[order],
        set_job=np.repeat(np.arange(len(order), dtype=np.int32), sets_of_job[order]),
        set_tasks=workload.set_tasks[sets],
        set_shape=workload.set_shape[sets],
        set_place=workload.set_place[sets],
        task_duration=workload.task_duration[tasks],
        task_start=np.full_like(workload.task_start, np.nan),
        task_server=np.full_like(workload.task_server, -1),
    )
