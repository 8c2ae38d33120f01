"""Lexicographic max-min by one general linear programme per stop: slow, but robust.

It is for problems that `lexicographic_max_min` cannot solve, because the numbers are too far apart
or the optimum too degenerate. The unknowns are fractions of the units that a user alone could have
on a group, so that coefficients are at most 1.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, vstack

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.solvers.leximax import REACHED, Leximax
from fairlead.solvers.linear_programmes import TIGHTEST

# A dual value below this, relative to the largest, counts as zero.
ZERO_DUAL = 1e-9


def lexicographic_max_min_by_lp(
    demand: FloatArray,
    allowed: BoolArray,
    need: FloatArray,
    limit: FloatArray,
    capacity: FloatArray,
    score: FloatArray | None = None,
) -> Leximax:
    """Divide capacity so that the sorted levels of the users are lexicographically largest.

    Parameters
    ----------
    demand, allowed, need, limit, capacity
        As for `lexicographic_max_min`.
    score : (N, G) float, optional
        Score of one unit of a user on a group; 1 when absent. Levels and limits count scores.

    Returns
    -------
    Leximax

    Raises
    ------
    NoConvergenceError
        When a programme cannot be solved.

    Notes
    -----
    One linear programme of N G unknowns and N + G R rows, by HiGHS, for each stop and each level at
    which users reach their limits.
    """
    programme = LevelByLP(demand, allowed, need, capacity, score)
    rising = np.ones(len(need), dtype=bool)
    fixed = np.zeros(len(need))
    prices = []
    while rising.any():
        level, split, price, pays = programme.solve(np.where(rising, need, 0.0), fixed)
        reached = rising & (limit <= need * level * (1 + REACHED))
        fixed[reached] = limit[reached]
        rising &= ~reached
        if reached.any():
            continue
        stopped = rising & (pays > ZERO_DUAL * pays.max(initial=0.0))
        if not stopped.any():
            raise NoConvergenceError("a level was reached at which capacity stops no user")
        fixed[stopped] = need[stopped] * level
        rising &= ~stopped
        prices.append(price)
    if not prices:
        prices.append(np.zeros_like(capacity))
    _, split, _, _ = programme.solve(np.where(rising, need, 0.0), fixed)
    held = (split if score is None else split * score).sum(axis=1)
    return Leximax(split * (fixed / held)[:, None], np.array(prices))


class LevelByLP:
    """Linear programmes for the highest level; the rows of capacities are built once."""

    def __init__(
        self,
        demand: FloatArray,
        allowed: BoolArray,
        usual_need: FloatArray,
        capacity: FloatArray,
        score: FloatArray | None = None,
    ) -> None:
        """Build the rows of P allowed pairs of a user and a group.

        `usual_need` (N,) sets the unit of the level; for other arguments see
        `lexicographic_max_min_by_lp`.
        """
        self.user, self.group = np.nonzero(allowed)
        self.shape = allowed.shape
        self.capacity = capacity
        has = np.where(capacity > 0, capacity, 1.0)
        use = demand[self.user] / has[self.group]
        self.alone = 1.0 / use.max(axis=1)  # (P,) units that a user alone could have on the group
        n_pairs, n_resources = use.shape
        pair, resource = np.nonzero(use)
        row = self.group[pair] * n_resources + resource
        self.rows = csr_array(
            ((use * self.alone[:, None])[pair, resource], (row, pair)),
            shape=(capacity.size, n_pairs),
        )
        counts = self.alone if score is None else self.alone * score[self.user, self.group]
        # (N,) score that a user could have alone on all groups.
        self.in_all = np.bincount(self.user, counts, minlength=len(demand))
        self.totals = csr_array(
            (counts / self.in_all[self.user], (self.user, np.arange(n_pairs))),
            shape=(len(demand), n_pairs),
        )
        self.unit = float((self.in_all / usual_need).min())

    def solve(
        self, need: FloatArray, fixed: FloatArray
    ) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """Return the highest level, the split (N, G), prices (G, R), and users' costs (N,).

        At a level L each user has a score of ``fixed + L need`` (N,). The cost of a user is the
        dual value of its row, times its need; it is positive for users that capacity stops.
        """
        slope = need * self.unit / self.in_all
        no_level = csr_array((self.rows.shape[0], 1))
        level = csr_array(slope[:, None])
        rows = vstack([hstack([self.rows, no_level]), hstack([-self.totals, level])]).tocsr()
        bound = np.concatenate(
            [np.where(self.capacity > 0, 1.0, 0.0).ravel(), -fixed / self.in_all]
        )
        objective = np.zeros(rows.shape[1])
        objective[-1] = -1.0
        for method in ("highs-ds", "highs-ipm"):
            answer = linprog(
                objective,
                A_ub=rows,
                b_ub=bound,
                bounds=(0, None) if need.any() else [(0, None)] * self.user.size + [(0, 0)],
                method=method,
                options=TIGHTEST,
            )
            if answer.status == 0:
                break
        else:
            raise NoConvergenceError(f"a linear programme was not solved: {answer.message}")
        split = np.zeros(self.shape)
        split[self.user, self.group] = np.maximum(answer.x[:-1], 0.0) * self.alone
        duals = np.maximum(-answer.ineqlin.marginals, 0.0)
        n_rows = self.capacity.size
        has = np.where(self.capacity > 0, self.capacity, 1.0)
        price = np.where(self.capacity > 0, duals[:n_rows].reshape(self.capacity.shape) / has, 0.0)
        return float(answer.x[-1]) * self.unit, split, price, duals[n_rows:] * slope
