"""DRF, DRFH and PS-DSF among users in a tree of queues.

- DRF on one pool is hierarchical DRF for divisible tasks (Bhattacharya et al., SoCC 2013; see
  `fairlead.solvers.tree_filling`).
- DRFH counts shares of the whole cluster, too, but users grow only while the servers where they may
  run have free capacity.
- PS-DSF divides each server by hierarchical DRF, with the server as the pool; a user's tasks on
  other servers count as if they ran there. The answer is a fixed point: dividing any server again
  would not change it.

Without inner queues these are the plain mechanisms. The definitions of DRFH and PS-DSF for trees
are ours; docs/design/queues.md lists their properties.
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
# Amounts and prices below this fraction of the whole are rounding errors.
ROUNDING = 1e-9
MAX_SWEEPS = 10_000
# The certificate is checked when no entry changes by more than this fraction of its user's tasks.
# If it does not hold, it is checked again when the changes are a tenth as large.
CONVERGED = 1e-9
# Two sweeps drift equally if their changes differ by no more than this (relative).
SAME_DRIFT = 1e-3


def divide_among_queues(problem: Problem, mechanism: str) -> Allocation:
    """Sweep over the servers and divide each by hierarchical DRF, until no tasks change.

    `problem` has queues. If two sweeps in a row change the tasks equally, further sweeps are
    skipped: the change is multiplied so that a user leaves a server. Raises RefusalError for given
    rates, and NoConvergenceError if the sweeps do not converge. With K stops of users on a server,
    a sweep costs O(G K (N + Q) R). Tens are usual, thousands occur with hundreds of users.
    """
    if problem.users.rates is not None:
        raise RefusalError(mechanism, "in queues it is not defined with given rates")
    use = use_per_task(problem)
    users_of = [np.flatnonzero(runnable) for runnable in problem.runnable.T]
    fillings = [
        _build_filling(problem, users, use[:, users, g].T) if len(users) else None
        for g, users in enumerate(users_of)
    ]
    tasks = np.zeros((problem.n_users, problem.n_groups))
    at_stops = [np.zeros((1, problem.n_users)) for _ in users_of]  # (K, N) tasks at each stop
    drift, converged = np.zeros_like(tasks), CONVERGED
    for _ in range(MAX_SWEEPS):
        before, change = tasks.copy(), 0.0
        for g, (users, filling) in enumerate(zip(users_of, fillings, strict=True)):
            if filling is None:
                continue
            elsewhere = np.maximum(tasks.sum(axis=1) - tasks[:, g], 0.0)[users]
            found = np.array(filling.fill(elsewhere.tolist(), problem.task_limit[users].tolist()))
            moved = np.abs(found[-1] - tasks[users, g])
            total = np.maximum(elsewhere + found[-1], 1e-300)
            change = max(change, float((moved / total).max()))
            tasks[users, g] = found[-1]
            at_stops[g] = np.zeros((len(found), problem.n_users))
            at_stops[g][:, users] = found
        if change <= converged or problem.n_groups == 1:
            certificate = certify_queue_levels(problem, tasks, at_stops)
            if certificate.holds or problem.n_groups == 1:
                return Allocation(problem, mechanism, tasks, certificate)
            converged /= 10
        # Skip sweeps that would repeat the same change.
        last, drift = drift, tasks - before
        falls = drift < 0
        if falls.any() and np.abs(drift - last).max() <= SAME_DRIFT * np.abs(drift).max():
            times = float((tasks[falls] / -drift[falls]).min())
            tasks, drift = np.maximum(tasks + times * drift, 0.0), np.zeros_like(tasks)
    raise NoConvergenceError(f"{mechanism}: the servers' divisions among queues do not converge")


def divide_cluster_among_queues(problem: Problem) -> Allocation:
    """Divide by DRFH among queues; linear programmes find how far users can grow.

    Raises RefusalError for more than `LARGEST_PROGRAMME` pairs of a user and a group. Costs a
    programme of N G unknowns each time that the set of growing users changes: one to three for
    each user.
    """
    from fairlead.solvers.linear_programmes import LevelByLP  # noqa: PLC0415 (slow to import)

    if problem.n_users * problem.n_groups > LARGEST_PROGRAMME:
        fault = f"among queues it takes at most {LARGEST_PROGRAMME:,} pairs of a user and a group"
        raise RefusalError("drfh", fault)
    total = problem.total_capacity
    scale = np.where(total > 0, total, 1.0)
    per_task = problem.task_shares.max(axis=1)
    use = problem.task_shares / per_task[:, None]  # (N, R) of a unit: all of a dominant resource
    programme = LevelByLP(use, problem.runnable, problem.weight, problem.group_capacity / scale)
    filling = _build_filling(problem, np.arange(problem.n_users), use)
    filling.begin([0.0] * problem.n_users, (problem.task_limit * per_task).tolist())
    at_stops, prices = [], []  # tasks (N,), and prices (G, R), each time that a user is stopped
    held = np.zeros(problem.n_users)
    while (growth := filling.next_growth()) is not None:
        room, _, price, _ = programme.solve(np.array(filling.rates(growth)), held)
        is_stop = room <= growth.longest
        filling.grow(growth, max(min(room, growth.longest), 0.0))
        held = np.array(filling.tasks())
        filling.saturated = (held @ use >= 1 - ROUNDING).tolist()
        cost = np.where(problem.runnable, use @ price.T, np.inf).min(axis=1)
        stopped = is_stop & (cost > ROUNDING * cost.max())
        if filling.stop(stopped.tolist()):
            at_stops.append(held / per_task)
            prices.append(price / scale if is_stop else np.zeros_like(price))
    _, split, _, _ = programme.solve(np.zeros(problem.n_users), held)
    split *= (held / np.maximum(split.sum(axis=1), 1e-300))[:, None]
    tasks = split / per_task[:, None]
    certificate = certify_queue_stops(problem, tasks, np.array(at_stops), np.array(prices))
    return Allocation(problem, "drfh", tasks, certificate)


def _build_filling(problem: Problem, users: IntArray, use: FloatArray) -> TreeFilling:
    """Return a filling for some users (K,) of the tree; `use` (K, R) is that of a task of each."""
    queues = problem.users.queues
    assert queues is not None
    return TreeFilling(
        queues.weight.tolist(),
        queues.parent.tolist(),
        problem.weight[users].tolist(),
        queues.of_user[users].tolist(),
        use.tolist(),
    )
