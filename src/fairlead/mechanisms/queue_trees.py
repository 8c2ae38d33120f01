"""DRF, DRFH and PS-DSF among users in a tree of queues.

DRF on one pool is hierarchical DRF for divisible tasks (Bhattacharya et al., SoCC 2013; see
`fairlead.solvers.tree_filling`). DRFH has the same shares, of the whole cluster, but users grow as
far as real servers have room where they may run. PS-DSF divides each server by hierarchical DRF,
with its capacity in place of the pool's and tasks elsewhere counted as if they were there, such
that no server would be divided anew. Without inner queues these are the plain mechanisms. The
definitions of DRFH and PS-DSF for trees are ours; docs/design/queues.md lists their properties.
"""

from __future__ import annotations

import numpy as np

from fairlead.certificates.queue_levels import certify_queue_levels, certify_queue_stops
from fairlead.errors import NoConvergenceError, RefusalError
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.solvers.tree_filling import TreeFilling

# One linear programme per level takes minutes beyond this many pairs of a user and a group.
LARGEST_PROGRAMME = 50_000
# Amounts and prices below this part of the whole are rounding errors.
LITTLE = 1e-9
SWEEPS = 10_000
# The sweeps may have converged when no entry changes by more than this part of its user's tasks. A
# tenth of it is asked for if the certificate does not hold, as where tasks that leave a server are
# still some.
STILL = 1e-9
STEADY = 1e-3  # relative difference of two sweeps' changes below which a drift is steady


def divide_among_queues(problem: Problem, mechanism: str) -> Allocation:
    """Divide each server by hierarchical DRF, again and again until nothing changes.

    `problem` has queues. Where tasks drift steadily from server to server, the drift is prolonged
    until a user has left a server. Raises RefusalError for given rates, and NoConvergenceError if
    the sweeps over the servers do not converge. Each sweep costs O(G K (N + Q) R) for K rows of a
    server; tens of sweeps are usual, thousands occur with hundreds of users.
    """
    if problem.users.rates is not None:
        raise RefusalError(mechanism, "in queues it is not defined with given rates")
    use = use_per_task(problem)
    here = [np.flatnonzero(runnable) for runnable in problem.runnable.T]
    fillings = [
        _filling(problem, users, use[:, users, g].T) if len(users) else None
        for g, users in enumerate(here)
    ]
    tasks = np.zeros((problem.n_users, problem.n_groups))
    rows = [np.zeros((1, problem.n_users)) for _ in here]
    drift, still = np.zeros_like(tasks), STILL
    for _ in range(SWEEPS):
        before, change = tasks.copy(), 0.0
        for g, (users, filling) in enumerate(zip(here, fillings, strict=True)):
            if filling is None:
                continue
            elsewhere = np.maximum(tasks.sum(axis=1) - tasks[:, g], 0.0)[users]
            found = np.array(filling.fill(elsewhere.tolist(), problem.task_limit[users].tolist()))
            moved = np.abs(found[-1] - tasks[users, g])
            total = np.maximum(elsewhere + found[-1], 1e-300)
            change = max(change, float((moved / total).max()))
            tasks[users, g] = found[-1]
            rows[g] = np.zeros((len(found), problem.n_users))
            rows[g][:, users] = found
        if change <= still or problem.n_groups == 1:
            certificate = certify_queue_levels(problem, tasks, rows)
            if certificate.holds or problem.n_groups == 1:
                return Allocation(problem, mechanism, tasks, certificate)
            still /= 10
        last, drift = drift, tasks - before
        falls = drift < 0
        if falls.any() and np.abs(drift - last).max() <= STEADY * np.abs(drift).max():
            times = float((tasks[falls] / -drift[falls]).min())
            tasks, drift = np.maximum(tasks + times * drift, 0.0), np.zeros_like(tasks)
    raise NoConvergenceError(f"{mechanism}: the servers' divisions among queues do not converge")


def divide_cluster_among_queues(problem: Problem) -> Allocation:
    """Divide by DRFH among queues: each growth goes as far as a linear programme finds room.

    Raises RefusalError beyond `LARGEST_PROGRAMME` pairs of a user and a group. Cost: a programme of
    N G unknowns for each change, of which there are one to three for each user.
    """
    from fairlead.solvers.leximax_by_lp import LevelByLP  # noqa: PLC0415 (slow to import)

    if problem.n_users * problem.n_groups > LARGEST_PROGRAMME:
        fault = f"among queues it takes at most {LARGEST_PROGRAMME:,} pairs of a user and a group"
        raise RefusalError("drfh", fault)
    total = problem.total_capacity
    scale = np.where(total > 0, total, 1.0)
    per_task = problem.task_shares.max(axis=1)
    use = problem.task_shares / per_task[:, None]  # of a unit, which takes all of a resource
    programme = LevelByLP(use, problem.runnable, problem.weight, problem.group_capacity / scale)
    filling = _filling(problem, np.arange(problem.n_users), use)
    filling.begin([0.0] * problem.n_users, (problem.task_limit * per_task).tolist())
    rows, prices = [], []
    held = np.zeros(problem.n_users)
    while (growth := filling.next_growth()) is not None:
        room, _, price, _ = programme.solve(np.array(filling.rates(growth)), held)
        is_stop = room <= growth.longest
        filling.grow(growth, max(min(room, growth.longest), 0.0))
        held = np.array(filling.tasks())
        filling.saturated = (held @ use >= 1 - LITTLE).tolist()
        cost = np.where(problem.runnable, use @ price.T, np.inf).min(axis=1)
        stopped = is_stop & (cost > LITTLE * cost.max())
        if filling.stop(stopped.tolist()):
            rows.append(held / per_task)
            prices.append(price / scale if is_stop else np.zeros_like(price))
    _, split, _, _ = programme.solve(np.zeros(problem.n_users), held)
    split *= (held / np.maximum(split.sum(axis=1), 1e-300))[:, None]
    tasks = split / per_task[:, None]
    certificate = certify_queue_stops(problem, tasks, np.array(rows), np.array(prices))
    return Allocation(problem, "drfh", tasks, certificate)


def _filling(problem: Problem, users: IntArray, use: FloatArray) -> TreeFilling:
    """Return the filling of the tree of some users (K,) with use (K, R)."""
    queues = problem.users.queues
    assert queues is not None
    return TreeFilling(
        queues.weight.tolist(),
        queues.parent.tolist(),
        problem.weight[users].tolist(),
        queues.of_user[users].tolist(),
        use.tolist(),
    )
