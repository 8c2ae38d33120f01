"""A replay under drf/best-fit that scans, compiled: every server, for every task that starts.

What Wang, Liang and Li 2015, V-B, describe, without anything kept from one task to the next. Only
what days of `fairlead.traces.generator` have: jobs of one set of tasks each, that may run anywhere,
on servers that stay.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairlead.model.problem import Problem
from fairlead.model.quanta import to_quanta
from fairlead.model.workload import Workload

# Misfits are plain floats: this close, relative, they are equal.
EQUAL = 1e-13


def replay_by_scan(workload: Workload) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the tasks in the order of their starts, and their servers."""
    cluster = workload.cluster
    problem = Problem.from_arrays(cluster.capacity, workload.shapes, count=cluster.count)
    quanta = to_quanta(problem)
    free = np.repeat(quanta.capacity, cluster.count, axis=0)
    job = workload.set_job
    user = workload.job_user[job].astype(np.int64)
    order = np.argsort(user, kind="stable")
    tasks = workload.set_tasks.astype(np.int64)
    return _replay(  # type: ignore[no-any-return]
        quanta.demand[workload.set_shape],
        user,
        workload.job_submit[job],
        np.concatenate([[0], np.cumsum(tasks)]),
        order,
        np.searchsorted(user[order], np.arange(len(workload.users) + 1)),
        workload.task_duration,
        free,
        workload.weight,
    )


@njit(cache=True)
def _best_server(demand: Any, free: Any, total: Any) -> int:
    """Return the fitting server of least misfit, -1 for none; every task takes of resource 0."""
    best, least = -1, np.inf
    for i in range(free.shape[0]):
        fits = True
        for r in range(demand.size):
            fits = fits and free[i, r] >= demand[r]
        if not fits:
            continue
        misfit = 0.0
        for r in range(1, demand.size):
            wanted = (demand[r] * total[0]) / (demand[0] * total[r])
            misfit += abs(wanted - (free[i, r] * total[0]) / (free[i, 0] * total[r]))
        if misfit < least * (1.0 - EQUAL):
            best, least = i, misfit
    return best


@njit(cache=True)
def _score(held: Any, total: Any, weight: float) -> float:
    share = 0.0
    for r in range(total.size):
        share = max(share, held[r] / total[r])
    return share / weight


@njit(cache=True)
def _replay(
    demand: Any,
    user: Any,
    submit: Any,
    first_task: Any,
    sets: Any,
    first_set: Any,
    duration: Any,
    free: Any,
    weight: Any,
) -> Any:
    n_users, n_sets, n_resources = weight.size, user.size, demand.shape[1]
    total = free.sum(axis=0).astype(np.float64)
    held = np.zeros((n_users, n_resources))
    begun = first_task[:-1].copy()
    head, missed = first_set[:-1].copy(), np.full(n_sets, -1)
    started, server = np.empty(duration.size, np.int64), np.empty(duration.size, np.int64)
    running = [(0.0, 0, 0)][:0]
    arrived = placed = moment = 0
    while arrived < n_sets or len(running) > 0:
        now = submit[arrived] if arrived < n_sets else np.inf
        if len(running) > 0:
            now = min(now, running[0][0])
        while len(running) > 0 and running[0][0] == now:
            _, position, k = heappop(running)
            for r in range(n_resources):
                free[server[position], r] += demand[k, r]
                held[user[k], r] -= demand[k, r]
        while arrived < n_sets and submit[arrived] == now:
            arrived += 1
        stuck = np.zeros(n_users, np.bool_)
        while True:
            n, least = -1, np.inf
            for m in range(n_users):
                waits = head[m] < first_set[m + 1] and sets[head[m]] < arrived
                if waits and not stuck[m]:
                    score = _score(held[m], total, weight[m])
                    if score < least:
                        n, least = m, score
            if n < 0:
                break
            best = -1
            for e in range(head[n], first_set[n + 1]):
                k = sets[e]
                if k >= arrived:
                    break
                if begun[k] == first_task[k + 1] or missed[k] == moment:
                    continue
                best = _best_server(demand[k], free, total)
                if best >= 0:
                    break
                missed[k] = moment
            if best < 0:
                stuck[n] = True
                continue
            for r in range(n_resources):
                free[best, r] -= demand[k, r]
                held[n, r] += demand[k, r]
            started[placed], server[placed] = begun[k], best
            heappush(running, (now + duration[begun[k]], placed, k))
            begun[k] += 1
            placed += 1
            while head[n] < first_set[n + 1] and (
                begun[sets[head[n]]] == first_task[sets[head[n]] + 1]
            ):
                head[n] += 1
        moment += 1
    return started[:placed], server[:placed]
