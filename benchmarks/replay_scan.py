"""Replay under drf/best-fit by scanning all servers for every task, as a reference for benchmarks.

The method of Wang, Liang and Li 2014, V-B, in NumPy, without any index. It replays only days of
`fairlead.traces.generator`: jobs with one set of equal tasks, which may run on all servers, and
servers that do not change.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from fairlead.model.problem import Problem
from fairlead.model.quanta import to_quanta
from fairlead.model.workload import Workload
from scans import best_server


def replay_by_scan(workload: Workload) -> tuple[list[int], list[int]]:
    """Return the tasks in the order of their starts, and their servers."""
    cluster = workload.cluster
    problem = Problem.from_arrays(cluster.capacity, workload.shapes, count=cluster.count)
    quanta = to_quanta(problem)
    demand = quanta.demand[workload.set_shape]
    free = np.repeat(quanta.capacity, cluster.count, axis=0).T.copy()
    total = free.sum(axis=1)
    user = workload.job_user[workload.set_job].tolist()
    submit = workload.job_submit[workload.set_job].tolist()
    # The next task of each set, and the task after its last.
    following, end = workload.first_task[:-1].tolist(), workload.first_task[1:].tolist()
    held = np.zeros((len(workload.users), len(total)), dtype=np.int64)
    waiting: list[list[int]] = [[] for _ in workload.users]  # by user, sets with waiting tasks
    running: list[tuple[float, int, int]] = []  # end, set, server
    started: list[int] = []
    servers: list[int] = []
    arrived = 0
    while arrived < len(submit) or running:
        now = min(submit[arrived : arrived + 1] + [row[0] for row in running[:1]])
        while running and running[0][0] == now:
            _, k, server = heappop(running)
            free[:, server] += demand[k]
            held[user[k]] -= demand[k]
        while arrived < len(submit) and submit[arrived] == now:
            waiting[user[arrived]].append(arrived)
            arrived += 1
        # A set whose task fits nowhere now cannot start before the next event.
        candidates = {n: sets.copy() for n, sets in enumerate(waiting) if sets}
        share = (held / total).max(axis=1) / workload.weight
        while candidates:
            n = min(candidates, key=share.__getitem__)
            k = candidates[n][0]
            best = best_server(demand[k], free, total)
            if best is not None:
                free[:, best] -= demand[k]
                held[n] += demand[k]
                share[n] = (held[n] / total).max() / workload.weight[n]
                heappush(running, (now + workload.task_duration[following[k]], k, best))
                started.append(following[k])
                servers.append(best)
                following[k] += 1
            if following[k] == end[k]:
                waiting[n].remove(k)
            if best is None or following[k] == end[k]:
                candidates[n].pop(0)
            if not candidates[n]:
                del candidates[n]
    return started, servers
