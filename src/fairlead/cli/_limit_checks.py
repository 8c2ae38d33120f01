"""Find reasons why a log cannot show whether users are within the limits of an audit."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import BoolArray
from fairlead.model.workload import Workload
from fairlead.report.log_audit_document import HELD_TOO_MUCH, left_out_text
from fairlead.report.numbers import duration
from fairlead.simulation.log_audit import AuditLimits, LogAudit
from fairlead.traces.logs import slurm

# Notes on missing data in a table; if a table has such a note, no limit is checked.
MISSING_DATA = (
    slurm.CUT_OFF,
    slurm.CUT_ARRAY,
    slurm.NO_REQUEST,
    slurm.NO_PARTITION,
    slurm.NO_NODE_PARTITION,
    slurm.UNKNOWN_PARTITION,
    slurm.GPUS_IGNORED,
    slurm.GPUS_GUESSED,
)
SHORT_RUN = 1.0  # seconds; sacct prints whole seconds


def start_of_complete_data(workload: Workload) -> float:
    """Return the earliest end of a job in a sacct table, in seconds; infinite if none has ended.

    Before that time the table is incomplete: it lacks the jobs that ended before --starttime.
    """
    ends = workload.task_start + workload.task_duration
    ended = ends <= (np.inf if workload.recorded_until is None else workload.recorded_until)
    return float(np.nanmin(ends[ended], initial=np.inf))


def why_limits_uncheckable(
    audit: LogAudit,
    limits: AuditLimits,
    since: float,
    complete_since: float | None,
    *,
    has_machines: bool,
) -> str:
    """Return why the limits cannot be checked on a log; empty if they can.

    `since` is the requested start of the audited period, `complete_since` the time from which a
    sacct table has all jobs (None for a log of another format), both in seconds of the trace.
    `has_machines` is whether a machine file lists the nodes of the table.
    """
    workload = audit.workload
    for fault in MISSING_DATA:
        if fault in workload.notes:
            return f"{fault}: {workload.notes[fault]:,}"
    for left_out in (slurm.STILL_RAN, slurm.STILL_PENDING):
        if left_out in workload.notes:
            return f"{left_out}; audit the sacct table itself, not a trace converted from it"
    if complete_since is not None and workload.n_users == 1:
        fault = f"the only user is {workload.users[0]!r:.60}"
        return f"{fault}; sacct --allusers shows others to operators (PrivateData)"
    if not audit.active.any():
        return "no job ran or waited in this period"
    if complete_since is not None and (
        fault := _why_too_short(audit, limits, since, complete_since)
    ):
        return fault
    if complete_since is not None and has_machines and (fault := _why_other_nodes(audit)):
        return fault
    if audit.unplaceable:
        return left_out_text(audit)
    return HELD_TOO_MUCH if audit.held_too_much else ""


def _why_too_short(
    audit: LogAudit, limits: AuditLimits, since: float, complete_since: float
) -> str:
    """Return why a sacct table does not cover the audited period; empty if it does."""
    if audit.begins_after_log:
        return "the period begins after the last event of the table; is the table an old copy?"
    if audit.ends_after_log:
        fault = "no job runs or waits at the end of the period or later"
        return f"{fault}; is the table an old copy, or does it have only jobs of some states?"
    if since < complete_since:
        fault = f"the first job of the table ended {duration(complete_since)} after its start"
        if not np.isfinite(complete_since):
            fault = "no job of the table has ended"
        return f"{fault}, so earlier ones may be missing"
    known = audit.until - complete_since
    if limits.wait is not None and known <= limits.wait:
        fault = f"waits count from the first end of a job, {duration(known)} before the end"
        return f"{fault}: none can be above --max-wait; ask sacct with an earlier --starttime"
    return ""


def _why_other_nodes(audit: LogAudit) -> str:
    """Return why the machine file cannot list a sacct table's nodes; empty if it may."""
    workload = audit.workload
    start, end = workload.task_start, workload.task_start + workload.task_duration
    ran = (start < audit.until) & (end > audit.since)
    unplaced = int((ran & (workload.task_server < 0)).sum())
    if unplaced:
        what = f"the nodes (column NodeList) of {unplaced:,} of {ran.sum():,} tasks"
        return f"--machines does not list {what}"
    where = np.searchsorted(workload.first_server, workload.task_server, side="right") - 1
    sets = np.repeat(np.arange(workload.n_sets), workload.set_tasks)
    fit: BoolArray = workload.fits[workload.set_shape[sets], where]
    if not fit[ran].all() or _is_overfull(workload, ran):
        return "tasks took more than their nodes have: are these the machines of the log?"
    return ""


def _is_overfull(workload: Workload, ran: BoolArray) -> bool:
    """Return whether tasks together took more cores or GPUs of a node than it has.

    `ran` has an entry for each of the T tasks. Costs O(T log T). Jobs on several nodes are ignored,
    as sacct does not record how they divide their resources. Memory is ignored, as not every
    cluster reserves it.
    """
    job_of_task = np.repeat(workload.set_job, workload.set_tasks)
    on_one_node = np.bincount(job_of_task, minlength=workload.n_jobs)[job_of_task] == 1
    tasks = np.flatnonzero(ran & on_one_node & (workload.task_duration >= SHORT_RUN))
    checked = [r for r, name in enumerate(workload.cluster.resources) if name != "memory"]
    shape = np.repeat(workload.set_shape, workload.set_tasks)[tasks]
    amounts = workload.shapes[shape][:, checked]
    server = np.tile(workload.task_server[tasks], 2)
    start = workload.task_start[tasks]
    time = np.concatenate([start, start + workload.task_duration[tasks]])
    change = np.concatenate([amounts, -amounts])
    is_start = np.repeat([True, False], len(tasks))
    order = np.lexsort((is_start, time, server))  # ends before starts of the same second
    held = change[order].cumsum(axis=0)  # 0 after the last end on each server
    group = np.searchsorted(workload.first_server, server[order], side="right") - 1
    return bool((held > workload.cluster.capacity[group][:, checked] + 1e-6).any())
