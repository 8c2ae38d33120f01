"""Linear programmes over the pairs of a user and a group of servers, by HiGHS.

Lexicographic max-min by one programme for each stop is slow, but robust. It is for problems that
`lexicographic_max_min` cannot solve, because the numbers are too far apart or the optimum too
degenerate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult, linprog
from scipy.sparse import csr_array, hstack, vstack

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.solvers.concave_programme import ConcaveProgramme, ConcaveSolution, System
from fairlead.solvers.leximax import REACHED, Leximax

# The tightest tolerances of HiGHS.
TIGHTEST = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# HiGHS ignores smaller coefficients, so positive coefficients that must count are raised to this.
SMALLEST_COEFFICIENT = 1e-8
SMALL_GAIN = 1e-6  # the total gain that `measure_progress` tries to reach; it is scaled to 1
SLACK = 1e-9  # the relative loss that `raise_together` allows settled users
# A dual value below this, relative to the largest, counts as zero.
ZERO_DUAL = 1e-9


@dataclass(frozen=True, eq=False)
class Improvement:
    """A division in which no user has less than before."""

    split: FloatArray  # (N, G): units of each user on each group
    gain: float  # units gained by all users
    bound: float  # an upper bound of the units that all users could gain, by duality


def improve(
    use: FloatArray, allowed: BoolArray, have: FloatArray, limit: FloatArray, capacity: FloatArray
) -> Improvement:
    """Divide so that the sum of gains is largest and no user has less than before.

    Parameters
    ----------
    use : (R, N, G) float, >= 0
        Use of each resource of a group by one unit of a user there, in the unit of `capacity`.
    allowed : (N, G) bool
        Where each user may hold units.
    have : (N,) float
        Units of each user before.
    limit : (N,) float
        Largest number of units of each user; infinite for no limit.
    capacity : (R, G) float
        Capacity of each whole group.

    Raises
    ------
    NoConvergenceError
        When the programme cannot be solved, as when `have` is not feasible.

    Notes
    -----
    At most N G unknowns and N + G R rows. The bound is the sum of the duals that HiGHS returns,
    made feasible here, so that they need not be trusted.
    """
    user, group, taken, total = _rows(use, allowed)
    bounded = np.isfinite(limit)
    result = _maximize(
        np.ones(len(user)),
        [taken, -total, total[bounded]],
        [capacity.ravel(), -have, limit[bounded]],
        what="improvements",
    )
    split = np.zeros(allowed.shape)
    split[user, group] = np.maximum(result.x, 0.0)
    dual = np.maximum(-result.ineqlin.marginals, 0.0)
    prices = dual[: capacity.size].reshape(capacity.shape)
    bound = _bound_gains(use, allowed, have, limit, capacity, prices)
    return Improvement(split, float(split.sum() - have.sum()), bound)


def measure_progress(
    use: FloatArray, allowed: BoolArray, split: FloatArray, limit: FloatArray, capacity: FloatArray
) -> float:
    """Return the fraction of a tiny total gain that is possible without losses: about 1 or 0.

    `split` (N, G) are the units before; other arguments are as for `improve`. Raises
    NoConvergenceError when HiGHS finds no optimum. Changes are tiny and scaled up: if demands are
    orders of magnitude apart, losses below HiGHS's tolerance may be large gains of other users.
    """
    raised = np.where(use > 0, np.maximum(use, SMALLEST_COEFFICIENT), 0.0)
    user, group, taken, total = _rows(raised, allowed)
    here = np.where(allowed, split, 0.0)
    free = np.maximum(capacity - np.einsum("rng,ng->rg", use, here), 0.0)
    left = np.maximum(limit - here.sum(axis=1), 0.0)
    bounded = np.isfinite(left)
    whole_gain = csr_array(np.ones((1, len(user))))
    result = _maximize(
        np.ones(len(user)),
        [taken, -total, total[bounded], whole_gain],
        [free.ravel() / SMALL_GAIN, np.zeros(len(left)), left[bounded] / SMALL_GAIN, [1.0]],
        bounds=np.column_stack([-here[user, group] / SMALL_GAIN, np.full(len(user), np.inf)]),
        what="small changes",
    )
    return float(-result.fun)


def raise_together(
    programme: ConcaveProgramme, settled: BoolArray, amount: FloatArray
) -> FloatArray:
    """Return totals (N,) whose smallest quotient by a positive `amount` (N,) is largest.

    Settled users get their limits, up to a relative loss of 1e-9, and do not count in the smallest
    quotient. The programme's start and utility are unused. Raises NoConvergenceError if HiGHS finds
    no optimum.
    """
    system = System(programme)
    user, _, taken, total = _rows(system.use * amount[:, None], system.allowed)
    bounded = system.limited & ~settled
    least = np.where(settled, 0.0, 1.0)[:, None]
    fixed = vstack([taken, total[bounded]])
    result = _maximize(
        np.append(np.zeros(len(user)), 1.0),
        [hstack([fixed, csr_array((fixed.shape[0], 1))]), hstack([-total, least])],
        [
            np.ones(taken.shape[0]),
            (programme.limit / amount)[bounded],
            np.where(settled, SLACK - 1.0, 0.0),
        ],
        what="levels",
    )
    totals: FloatArray = amount * np.bincount(user, result.x[:-1], len(amount))
    return np.where(settled, programme.limit, totals)


def maximize_linear(programme: ConcaveProgramme, worth: FloatArray) -> ConcaveSolution:
    """Find a split of the largest ``sum_n worth[n] X[n]``, and its prices.

    `worth` (N,) is utility per unit. The programme's start and utility are unused. The answer is a
    vertex of the optimal face. Unknowns are scaled by worth, so that prices are equally exact for
    each user, even if worths differ by 10^12. Raises NoConvergenceError if HiGHS finds no optimum.
    """
    system = System(programme)
    user, group, taken, total = _rows(system.use / worth[:, None], system.allowed)
    part = 1.0 / (worth * np.where(system.limited, programme.limit, 1.0))
    limits = csr_array((part[user], (user, np.arange(len(user)))), total.shape)
    result = _maximize(
        np.ones(len(user)),
        [taken, limits[system.limited]],
        [np.ones(taken.shape[0] + int(system.limited.sum()))],
        methods=("highs-ds",),
        presolve=False,
        what="tasks",
    )
    split = np.zeros(system.allowed.shape)
    split[user, group] = np.maximum(result.x, 0.0) / worth[user]
    prices = np.maximum(-result.ineqlin.marginals[: system.live.size], 0.0)
    prices = prices.reshape(system.live.shape)
    excess = np.maximum(system.cost(prices) - worth[:, None], 0.0)
    reduced = np.where(system.allowed, excess, np.inf)
    return ConcaveSolution(split, prices, reduced, worth, 0.0)


def _maximize(
    gain: FloatArray,
    rows: Sequence[csr_array],
    most: Sequence[ArrayLike],
    *,
    bounds: ArrayLike = (0.0, np.inf),
    methods: Sequence[str] = ("highs",),
    presolve: bool = True,
    what: str,
) -> OptimizeResult:
    """Maximise ``gain @ x`` subject to ``rows @ x <= most``, by the first method that succeeds.

    `what` names the unknowns in the error message.
    """
    for method in methods:
        result = linprog(
            -gain,
            A_ub=vstack(rows).tocsr(),
            b_ub=np.concatenate(most),
            bounds=bounds,
            method=method,
            options=TIGHTEST | {"presolve": presolve},
        )
        if result.status == 0:
            return result
    raise NoConvergenceError(f"the linear programme of {what} has no solution: {result.message}")


def _rows(use: FloatArray, allowed: BoolArray) -> tuple[IntArray, IntArray, csr_array, csr_array]:
    """Return user and group (P,) of each of P allowed pairs, and two matrices.

    The matrices map units of the pairs to the use of each resource (R G, P), and to the total of
    each user (N, P).
    """
    n_users, n_groups = allowed.shape
    user, group = np.nonzero(allowed)
    pairs = np.arange(len(user))
    shape = (n_groups, len(user))
    taken = [csr_array((row[user, group], (group, pairs)), shape) for row in use]
    total = csr_array((np.ones(len(user)), (user, pairs)), (n_users, len(user)))
    return user, group, vstack(taken), total


def _bound_gains(
    use: FloatArray,
    allowed: BoolArray,
    have: FloatArray,
    limit: FloatArray,
    capacity: FloatArray,
    prices: FloatArray,
) -> float:
    """Return an upper bound of the sum of gains, from any prices of resources.

    A unit of user n costs at least q[n], at prices p of capacities c. A user that gains y[n] >= 0
    on top of have[n] pays at least ``(have[n] + y[n]) q[n]``, and all users pay at most
    ``sum c p``. So ``sum y`` is at most ``sum c p - sum have q + sum_n max(1 - q[n], 0) y[n]``. The
    gain y[n] is at most the units that user n could have alone, or its limit, less have[n].
    """
    cost = np.where(allowed, np.einsum("rg,rng->ng", prices, use), np.inf).min(axis=1)
    cost = np.where(allowed.any(axis=1), cost, 1.0)  # users without a group
    with np.errstate(divide="ignore"):
        alone = np.where(use > 0, capacity[:, None, :] / np.where(use > 0, use, 1.0), np.inf)
    alone = np.where(allowed, alone.min(axis=0), 0.0).sum(axis=1)
    room = np.maximum(np.minimum(limit, alone) - have, 0.0)
    left = float((capacity * prices).sum() - (have * cost).sum())
    return left + float((np.maximum(1.0 - cost, 0.0) * room).sum())


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
        self.capacity = capacity
        self.has = np.where(capacity > 0, capacity, 1.0)
        use = demand.T[:, :, None] / self.has.T[:, None, :]
        self.alone = 1.0 / use.max(axis=0)  # (N, G) units that a user alone could have on a group
        self.user, self.group, self.rows, total = _rows(use * self.alone, allowed)
        counts = self.alone if score is None else self.alone * score
        # (N,) score that a user could have alone on all groups.
        self.in_all = np.where(allowed, counts, 0.0).sum(axis=1)
        part = (counts / self.in_all[:, None])[self.user, self.group]
        self.totals = csr_array((part, total.indices, total.indptr), total.shape)
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
        answer = _maximize(
            np.append(np.zeros(len(self.user)), 1.0),
            [hstack([self.rows, no_level]), hstack([-self.totals, csr_array(slope[:, None])])],
            [np.where(self.capacity > 0, 1.0, 0.0).T.ravel(), -fixed / self.in_all],
            bounds=[(0.0, np.inf)] * self.user.size + [(0.0, np.inf if need.any() else 0.0)],
            methods=("highs-ds", "highs-ipm"),
            what="levels",
        )
        split = np.zeros(self.alone.shape)
        split[self.user, self.group] = np.maximum(answer.x[:-1], 0.0)
        duals = np.maximum(-answer.ineqlin.marginals, 0.0)
        n_rows = self.capacity.size
        price = duals[:n_rows].reshape(self.capacity.T.shape).T / self.has
        price = np.where(self.capacity > 0, price, 0.0)
        split *= self.alone
        return float(answer.x[-1]) * self.unit, split, price, duals[n_rows:] * slope
