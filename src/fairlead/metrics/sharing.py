"""Who does worse on shared servers than alone on its own part of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.metrics.completion import measure_jobs
from fairlead.metrics.course import follow_tasks
from fairlead.metrics.waiting import completion_ratio
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload


@dataclass(frozen=True, eq=False)
class Sharing:
    """What N users get done in a shared cluster, and alone on their own parts of it.

    Attributes
    ----------
    users : tuple of str, length N
        Names.
    horizon : float
        When tasks are counted, seconds.
    shared_ratio, dedicated_ratio : (N,) float
        Part of the tasks submitted by then that had ended well by then; not a number for users
        that had submitted none.
    shared_time, dedicated_time : (N,) float
        Mean completion time, seconds, of the jobs that are complete in the end both ways; not a
        number for users without such a job.
    """

    users: tuple[str, ...]
    horizon: float
    shared_ratio: FloatArray
    dedicated_ratio: FloatArray
    shared_time: FloatArray
    dedicated_time: FloatArray

    @property
    def active(self) -> BoolArray:
        """(N,) bool: whether the user had submitted anything."""
        return ~np.isnan(self.shared_ratio)

    @property
    def fewer_tasks(self) -> BoolArray:
        """(N,) bool: whether sharing gets fewer of the user's tasks done by then."""
        fewer: BoolArray = self.shared_ratio < self.dedicated_ratio
        return fewer

    @property
    def slower(self) -> BoolArray:
        """(N,) bool: whether the user's jobs take longer, on average, when sharing."""
        slower: BoolArray = self.shared_time > self.dedicated_time
        return slower

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON; None where there is no number."""
        return {
            "horizon": self.horizon,
            "users_active": int(self.active.sum()),
            "users_with_fewer_tasks": int(self.fewer_tasks.sum()),
            "users_with_slower_jobs": int(self.slower.sum()),
            "users": {
                name: {
                    "completion_ratio": {
                        "shared": _plain(self.shared_ratio[n]),
                        "dedicated": _plain(self.dedicated_ratio[n]),
                    },
                    "mean_completion_time": {
                        "shared": _plain(self.shared_time[n]),
                        "dedicated": _plain(self.dedicated_time[n]),
                    },
                }
                for n, name in enumerate(self.users)
            },
        }


def compare_sharing(
    workload: Workload, shared: RunLog, dedicated: RunLog, horizon: float | None = None
) -> Sharing:
    """Set what users get done in the shared cluster beside what they would get done alone.

    Parameters
    ----------
    workload : Workload
        What was replayed both times.
    shared : RunLog
        All users on all servers.
    dedicated : RunLog
        Each user alone (`fairlead.simulation.dedicated.replay_dedicated`).
    horizon : float, optional
        When tasks are counted, seconds; when absent, the last submission or event of a server.

    Returns
    -------
    Sharing

    Notes
    -----
    Cost O(T). Wang, Liang and Li 2014, Fig. 8, count tasks at the end of the day, and find fewer of
    them done in the shared cloud for 2 % of the users.
    """
    end = workload.span if horizon is None else horizon
    courses = [follow_tasks(workload, log) for log in (shared, dedicated)]
    ratios = [completion_ratio(course, workload.n_users, end) for course in courses]
    times = [measure_jobs(workload, course).completion for course in courses]
    both = ~np.isnan(times[0] + times[1])
    user = workload.job_user[both]
    jobs = np.bincount(user, minlength=workload.n_users)
    means = [
        np.divide(
            np.bincount(user, weights=time[both], minlength=workload.n_users),
            jobs,
            out=np.full(workload.n_users, np.nan),
            where=jobs > 0,
        )
        for time in times
    ]
    return Sharing(workload.users, end, *ratios, *means)


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
