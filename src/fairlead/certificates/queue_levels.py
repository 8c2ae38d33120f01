"""Certify a division among users in a tree of queues, by the steps in which servers were filled.

Each server has a list of rows: the tasks of users there each time that a resource was used up or a
user reached its limit. The certificate measures by how much these conditions are violated:

- Between two rows, only users that could grow grew.
- Of the children of each queue that could grow, only those of lowest level grew.
- After the last row no user can grow.

Levels are those of hierarchical DRF (Bhattacharya et al., SoCC 2013) with the server as the pool. A
user's tasks on other servers count as if they ran here, as long as the user can grow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairlead.certificates.max_min_duality import possible_gain
from fairlead.certificates.overuse import certify_with_feasibility
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.model.queues import Queues

STOPPED = 1e-7  # a user is stopped if prices prove that it can gain at most this (relative)
# A limit or capacity is reached if at most this fraction is missing; smaller growth is none.
REACHED = 1e-9


def certify_queue_levels(
    problem: Problem, tasks: FloatArray, rows: Sequence[FloatArray]
) -> Certificate:
    """Certify tasks (N, G); `rows` has for each group the tasks (stops, N) at each stop.

    The violation is the largest of:

    - the excess of a grown child's level over the lowest one, or the fraction of its tasks that a
      user got while it could not grow (``unfair_growth``),
    - the free fraction of the scarcest resource of a user that could still grow (``unused``),
    - the change from the last row to `tasks`, overuse, and the fraction of misplaced tasks.

    O(stops (N + Q) G R).
    """
    use = use_per_task(problem)
    total = tasks.sum(axis=1)
    detail = {"unfair_growth": 0.0, "unused": 0.0, "unlike_last_row": 0.0}
    for g in range(problem.n_groups):
        here = np.flatnonzero(problem.runnable[:, g])
        if not len(here):
            continue
        server = _Server(problem, here, use[:, here, g].T, (total - tasks[:, g])[here])
        before = np.zeros(len(here))
        for row in rows[g]:
            unfair = server.measure_growth(before, row[here])
            detail["unfair_growth"] = max(detail["unfair_growth"], unfair)
            before = row[here]
        detail["unused"] = max(detail["unused"], server.measure_unused(before))
        off = np.abs(before - tasks[here, g]) / np.maximum(total[here], 1e-300)
        detail["unlike_last_row"] = max(detail["unlike_last_row"], float(off.max()))
    condition = "on every server, users and queues of least level grew until they were stopped"
    return certify_with_feasibility(condition, detail, problem, tasks)


class _Server:
    """A server, and the K users that may run there."""

    def __init__(
        self, problem: Problem, here: IntArray, use: FloatArray, elsewhere: FloatArray
    ) -> None:
        queues = problem.users.queues
        assert queues is not None
        self.queues: Queues = queues.select_users(here)
        self.use, self.elsewhere = use, elsewhere  # (K, R), (K,)
        self.weight, self.limit = problem.weight[here], problem.task_limit[here]

    def can_grow(self, tasks: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Return the users (K,) that can grow from these tasks here, and used-up resources (R,)."""
        used_up = tasks @ self.use >= 1 - REACHED
        below = self.elsewhere + tasks < self.limit * (1 - REACHED)
        return below & ~(self.use[:, used_up] > 0).any(axis=1), used_up

    def measure_growth(self, before: FloatArray, after: FloatArray) -> float:
        """Return the larger violation of the growth between two rows (K,).

        One is the fraction of its tasks that a user lost, or got while it could not grow; the other
        is the excess of a grown child's level over the lowest one.
        """
        able, used_up = self.can_grow(before)
        total = self.elsewhere + after
        change = (after - before) / np.maximum(total, 1e-300)
        grown = change > REACHED
        wrong = np.where(able, np.maximum(-change, 0.0), np.abs(change))
        tasks = np.where(able, total, after)  # the tasks that count in levels
        excess = _measure_excess(
            self.queues, self.weight, tasks[:, None] * self.use, able, grown, used_up
        )
        return max(float(wrong.max()), excess)

    def measure_unused(self, tasks: FloatArray) -> float:
        """Return the largest free fraction of the scarcest resource of a user below its limit."""
        free = np.maximum(1.0 - tasks @ self.use, 0.0)
        scarcest = np.where(self.use > 0, free, np.inf).min(axis=1)
        below = self.elsewhere + tasks < self.limit * (1 - REACHED)
        return float(scarcest[below].max(initial=0.0))


def _measure_excess(
    tree: Queues,
    weight: FloatArray,
    amounts: FloatArray,
    able: BoolArray,
    grown: BoolArray,
    used_up: BoolArray,
) -> float:
    """Return the largest excess of a grown child's level over the lowest of its siblings.

    `amounts` (K, R) are those of K users. `able` (K,) is whether a user could grow, `grown` (K,)
    whether it did. Resources in the mask `used_up` (R,) do not count in the level of a queue.
    """
    n_queues = len(tree.names)
    queue_able, queue_grown = tree.queues_above(able), tree.queues_above(grown)
    level = amounts.max(axis=1) / weight
    queue_amounts = np.zeros((n_queues, amounts.shape[1]))
    queue_level = np.zeros(n_queues)
    worst = 0.0
    for q in range(n_queues - 1, -2, -1):  # a queue's children come after it; the last is TOP
        users, queues = np.flatnonzero(tree.of_user == q), np.flatnonzero(tree.parent == q)
        is_able = np.concatenate([able[users], queue_able[queues]])
        if not is_able.any():
            if q >= 0:
                queue_amounts[q] = amounts[users].sum(axis=0) + queue_amounts[queues].sum(axis=0)
            continue
        levels = np.concatenate([level[users], queue_level[queues]])
        least = levels[is_able].min()
        ahead = levels[np.concatenate([grown[users], queue_grown[queues]])]
        if ahead.size and ahead.max() > least:
            worst = max(worst, float(ahead.max() / least - 1.0) if least else np.inf)
        if q >= 0:
            times = np.where(is_able & (levels > least), least / np.where(levels, levels, 1), 1)
            parts = np.concatenate([amounts[users], queue_amounts[queues]])
            queue_amounts[q] = times @ parts
            queue_level[q] = queue_amounts[q][~used_up].max(initial=0.0) / tree.weight[q]
    return worst


def certify_queue_stops(
    problem: Problem, tasks: FloatArray, rows: FloatArray, prices: FloatArray
) -> Certificate:
    """Certify tasks (N, G) of the whole cluster, filled as one pool.

    `rows` (stops, N) are the users' tasks each time that a user was stopped; `prices`
    (stops, G, R) prove that it could not gain. The violation is the largest of:

    - the excess of a grown child's level over the lowest one, or the fraction of its tasks that a
      user got after it was stopped (``unfair_growth``),
    - the number of users that were never stopped,
    - the change from the last row to `tasks`, overuse, and the fraction of misplaced tasks.

    O(stops N (G R + Q)).
    """
    queues = problem.users.queues
    assert queues is not None
    share = problem.task_shares
    able = np.ones(problem.n_users, dtype=bool)
    before = np.zeros(problem.n_users)
    wrong = unfair = 0.0
    for row, price in zip(rows, prices, strict=True):
        used_up = before @ share >= 1 - REACHED
        change = (row - before) / np.maximum(row, 1e-300)
        wrong = max(wrong, float(np.where(able, np.maximum(-change, 0.0), np.abs(change)).max()))
        amounts = row[:, None] * share
        grown = change > REACHED
        excess = _measure_excess(queues, problem.weight, amounts, able, grown, used_up)
        unfair = max(unfair, excess)
        able &= row < problem.task_limit * (1 - REACHED)
        able &= possible_gain(problem, row, price) > STOPPED
        before = row
    total = tasks.sum(axis=1)
    detail = {
        "unfair_growth": max(unfair, wrong),
        "not_stopped": float(able.sum()),
        "unlike_last_row": float((np.abs(before - total) / np.maximum(total, 1e-300)).max()),
    }
    condition = "users and queues of least level grew until they were stopped (proved by prices)"
    return certify_with_feasibility(condition, detail, problem, tasks)
