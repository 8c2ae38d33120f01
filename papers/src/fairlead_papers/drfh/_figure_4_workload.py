"""The workload and the servers of Figure 4 of Wang, Liang and Li 2014.

The 100 servers were drawn from Table I. The paper prints their totals, 52.75 CPU and 51.32 memory,
and the users' shares of memory: 62 % for user 1 by itself, 44 % each for users 1 and 2, 26 % each
for all three. Of the sets of servers with these totals, `figure_4_park` is the one whose shares
under best-fit come nearest: 61.9 %, then 43.2 and 42.7 %, then 27.4 to 28.0 %.
papers/docs/reproducing.md explains why no such set gives 26 % if tasks are packed as well.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload
from fairlead.traces.google_park import park_in_proportion

COUNTS = (72, 12, 8, 6, 1, 1, 0, 0, 0, 0)  # of servers, by row of Table I
# CPU and memory of a task of each user, and the user's arrival in seconds.
USERS = ((0.2, 0.3, 0.0), (0.5, 0.1, 200.0), (0.1, 0.3, 500.0))
LEAVES, ENDS = 1080.0, 1500.0  # seconds at which user 1 leaves, and at which the others leave
DURATION = (10.0, 50.0)  # range of the duration of a task, in seconds
TASKS = 12_000  # of a user, for 100 servers


def figure_4_park(servers: int = 100) -> Cluster:
    """Return the 100 servers of Fig. 4, or another number in the same proportions.

    The 100 servers have 52.75 CPU and 51.37 memory in total. Memory adds up to 51.32, as printed,
    with the sizes that the trace has (0.4995, 0.2493, 0.749 and 0.1241) instead of the two digits
    of Table I.
    """
    return park_in_proportion(np.array(COUNTS, dtype=np.int64), servers)


def figure_4(seed: int = 0, servers: int = 100) -> Workload:
    """Return the workload of Fig. 4: three users that come and go, on 100 servers by default.

    The servers are those of `figure_4_park`. User 1 arrives at 0 s,
    user 2 at 200 s, user 3 at 500 s; user 1 leaves at 1080 s, the others at 1500 s. Each user has
    one job, with more tasks than can run until the user leaves. Then its waiting tasks are
    withdrawn, and its running ones end by themselves. The paper states no durations. Here `seed`
    draws them, uniform from 10 to 50 s, so that shares settle within 50 s of a change of users.

    Source: Wang, Liang and Li 2014, Section VI and Fig. 4.
    """
    rng = np.random.default_rng(seed)
    n_users = len(USERS)
    tasks = -(-TASKS * servers // 100)
    return Workload.from_arrays(
        figure_4_park(servers),
        [f"user-{n + 1}" for n in range(n_users)],
        job_names=[f"job of user-{n + 1}" for n in range(n_users)],
        job_user=np.arange(n_users),
        job_submit=[submit for _, _, submit in USERS],
        job_cancel=[LEAVES] + [ENDS] * (n_users - 1),
        set_job=np.arange(n_users),
        set_tasks=np.full(n_users, tasks),
        shapes=[(cpu, memory) for cpu, memory, _ in USERS],
        task_duration=rng.uniform(*DURATION, size=n_users * tasks),
        origin=f"script of Fig. 4 of Wang, Liang and Li 2014, seed {seed}",
    )
