"""Summarise a workload: sizes, demands, load and durations."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.task_kinds import unplaceable_sets
from fairlead.model.workload import EVENT_NAMES, Workload
from fairlead.traces.parquet_trace import group_rows

QUANTILES = (0, 10, 25, 50, 75, 90, 99, 100)


def summarize(workload: Workload) -> dict[str, Any]:
    """Return the figures of a workload as plain values, in O(tasks log tasks).

    Times are seconds; keys of quantiles are percents; ``start_date`` is by the clock of the log.

    - ``demand``: for each resource, quantiles over tasks, as fractions of the largest capacity of a
      server;
    - ``load``: for each resource, the sum over tasks of amount times duration, divided by the
      capacity times the span; None if no server has the resource;
    - ``constrained_tasks``: the fraction of tasks with a placement constraint;
    - ``too_large``: the number of unplaceable tasks, and the names of their jobs.
    """
    cluster, start = workload.cluster, workload.date_of(0.0)
    tasks = workload.set_tasks
    demand = workload.shapes[workload.set_shape]
    largest = cluster.capacity.max(axis=0)
    constrained = workload.places.sum(axis=1)[workload.set_place] < len(cluster.groups)
    too_large = unplaceable_sets(workload)
    jobs_too_large = np.unique(workload.set_job[too_large])
    return {
        "origin": workload.origin,
        "servers": workload.n_servers,
        "servers_at_start": int(workload.there_at_start.sum()),
        "groups": [
            {**group, "capacity": dict(zip(cluster.resources, group["capacity"], strict=True))}
            for group in group_rows(cluster)
        ],
        "users": workload.n_users,
        "jobs": workload.n_jobs,
        "tasks": workload.n_tasks,
        "gangs": int(workload.job_gang.sum()),
        "withdrawn": int(np.isfinite(workload.job_cancel).sum()),
        "limited": int(np.isfinite(workload.job_limit).sum()),
        "span": workload.span,
        "start_date": None if start is None else start.isoformat()[:19],
        "first_submission": float(workload.job_submit[0]),
        "server_events": dict(
            zip(EVENT_NAMES, np.bincount(workload.server_event, minlength=3).tolist(), strict=True)
        ),
        "demand": {
            resource: {
                "unit": cluster.units[r],
                "largest_server": float(largest[r]),
                "quantiles": _quantiles(
                    np.repeat(demand[:, r], tasks) / (largest[r] if largest[r] > 0 else 1.0)
                ),
            }
            for r, resource in enumerate(cluster.resources)
        },
        "load": _load(workload, demand),
        "duration": _quantiles(workload.task_duration),
        "tasks_per_job": _quantiles(workload.job_tasks.astype(np.float64)),
        "constrained_tasks": float(tasks[constrained].sum() / workload.n_tasks),
        "too_large": {
            "tasks": int(tasks[too_large].sum()),
            "jobs": workload.job_names[jobs_too_large].tolist(),
        },
        "notes": dict(workload.notes),
    }


def _quantiles(values: FloatArray) -> dict[str, float]:
    """Return quantiles by percent; each is a value of the array, not interpolated."""
    found = np.percentile(values, QUANTILES, method="inverted_cdf")
    return {str(percent): float(value) for percent, value in zip(QUANTILES, found, strict=True)}


def _load(workload: Workload, demand: FloatArray) -> dict[str, float | None]:
    """Return the load by resource; see `summarize`."""
    seconds = np.add.reduceat(workload.task_duration, workload.first_task[:-1])
    available = workload.cluster.total_capacity * workload.span
    return {
        resource: float(seconds @ demand[:, r] / available[r]) if available[r] > 0 else None
        for r, resource in enumerate(workload.cluster.resources)
    }
