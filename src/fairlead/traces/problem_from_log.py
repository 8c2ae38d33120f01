"""Turn a batch log into a problem.

A task of a user is one node of the user's median job. The user's placement constraint excludes the
groups that at least half of its jobs exclude.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any

import numpy as np

from fairlead.errors import InputError
from fairlead.model.problem import Problem
from fairlead.traces.logs.job_collector import Shape
from fairlead.traces.logs.metacentrum import GIB, LoggedJob, cluster_of
from fairlead.traces.logs.metacentrum_machines import Machines, NodeSpec


@dataclass(frozen=True)
class ConvertedLog:
    """A problem, and counts of the conversion."""

    problem: Problem  # users ``user-<id>`` by ascending id; cores and GiB
    jobs: int  # jobs that ran
    dropped: int  # jobs left out because they never ran (run time <= 0)
    # For each user with a placement constraint: the groups that it may use.
    restricted: Mapping[str, tuple[str, ...]]
    # For some users: the groups that the user may use although one task exceeds a server there, so
    # that only a part of a task fits.
    larger_than_a_server: Mapping[str, tuple[str, ...]]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures of the conversion as plain values, for JSON."""
        cluster = self.problem.cluster
        return {
            "users": self.problem.n_users,
            "groups": dict(zip(cluster.groups, cluster.count.tolist(), strict=True)),
            "servers": int(cluster.count.sum()),
            "jobs": self.jobs,
            "dropped": self.dropped,
            "restricted": {user: list(groups) for user, groups in self.restricted.items()},
            "larger_than_a_server": {
                user: list(groups) for user, groups in self.larger_than_a_server.items()
            },
        }


@dataclass
class _UserJobs:
    """Counts of a user's jobs."""

    shapes: list[Shape] = field(default_factory=list)  # of a node of each job
    excluded: Counter[str] = field(default_factory=Counter)  # jobs by group that they exclude


def problem_from_jobs(jobs: Iterable[LoggedJob], machines: Machines) -> ConvertedLog:
    """Turn the jobs of a log into a problem.

    - A user's demand is that of a node of its median job: the lower median, with jobs ordered by
      cores per node and then by memory per node.
    - A group is closed to a user when at least half of the user's jobs exclude the group. A job
      excludes a group by naming another group, by naming a node of another group, or by naming the
      group as excluded. If every group would be closed, the user has no constraint.
    - Weights are 1. Jobs that never ran are left out.

    Raises InputError when a job names an unknown group or node, or no job ever ran. Cost O(J (G +
    log J)) for J jobs and G groups.
    """
    cluster = cluster_of(machines)
    groups = list(cluster.groups)
    of_users: dict[int, _UserJobs] = {}
    excluded: dict[NodeSpec, tuple[str, ...]] = {}
    kept = dropped = 0
    for job in jobs:
        if job.row.run <= 0:
            dropped += 1
            continue
        kept += 1
        if job.spec not in excluded:
            excluded[job.spec] = _excluded_groups(job, machines)
        user = of_users.setdefault(job.row.user, _UserJobs())
        user.shapes.append((job.cores_per_node, job.row.memory_requested))
        user.excluded.update(excluded[job.spec])
    if not of_users:
        raise InputError("no job of the log ever ran")
    order = sorted(of_users)
    names = [f"user-{user}" for user in order]
    demand = np.array([median_low(of_users[user].shapes) for user in order]) / (1, GIB)
    eligible = np.array([_open_groups(of_users[user], groups) for user in order])
    problem = Problem.from_arrays(
        cluster.capacity,
        demand,
        count=cluster.count,
        eligible=eligible,
        resources=cluster.resources,
        units=cluster.units,
        groups=groups,
        users=names,
    )
    too_large = eligible & (demand[:, None, :] > cluster.capacity[None, :, :]).any(axis=2)
    return ConvertedLog(
        problem=problem,
        jobs=kept,
        dropped=dropped,
        restricted=_by_user(names, groups, eligible & ~eligible.all(axis=1, keepdims=True)),
        larger_than_a_server=_by_user(names, groups, too_large),
    )


def _excluded_groups(job: LoggedJob, machines: Machines) -> tuple[str, ...]:
    """Return the groups that a job excludes."""
    try:
        allowed = machines.groups_allowed(job.spec)
    except InputError as error:
        raise InputError(error.fault, f"row {job.row.row}") from None
    return tuple(group.name for group in machines.groups if group.name not in allowed)


def _open_groups(user: _UserJobs, groups: list[str]) -> list[bool]:
    """Return whether each group is open: fewer than half of the jobs exclude it; all if none is."""
    open_groups = [2 * user.excluded[group] < len(user.shapes) for group in groups]
    return open_groups if any(open_groups) else [True] * len(groups)


def _by_user(names: list[str], groups: list[str], chosen: Any) -> dict[str, tuple[str, ...]]:
    return {
        names[n]: tuple(groups[g] for g in np.flatnonzero(chosen[n]))
        for n in np.flatnonzero(chosen.any(axis=1))
    }
