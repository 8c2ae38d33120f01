"""Mehrotra's primal-dual interior-point method for the largest common level.

The linear programme

    maximise   t
    subject to sum_g x[n,g] = w[n] t + b[n]                      (need of user n at level t)
               sum_n d[n,r] x[n,g] + a[g,r] t + s[g,r] = c[g,r]  (resource r of server group g)
               x, s >= 0

has N G unknowns x but only G R prices: eliminating the users leaves a Newton system of G R rows for
any number of users. Its dual has a price p[g,r] of each resource of each group. A unit of user n
costs y[n] = min_g d[n].p[g], and the level costs sum_n w[n] y[n] + a.p = 1.

An interior-point method ends in the middle of the optimal face, where exactly one of x and its
reduced cost z is positive. So the answer shows which users can still rise, and which resources are
used up in every optimal division.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import BoolArray, FloatArray

MAXIMUM_ITERATIONS = 200
STEP_TO_BOUNDARY = 0.995  # longest step, as a fraction of the distance to the boundary
# Smallest target of the mean product of complementary unknowns, relative to the present mean.
SMALLEST_CENTRING = 1e-4
# Smaller residuals are rounding errors, and further steps lose digits.
RESIDUAL_TARGET = 1e-13
# If the residual is below RESIDUAL_SMALL, `PATIENCE` steps that do not halve it end the search. If
# it ends above RESIDUAL_ACCEPTED, the search has failed. Between the two, `_polish` corrects the
# answer, or the certificate rejects it.
RESIDUAL_SMALL = 1e-7
RESIDUAL_ACCEPTED = 1e-4
PATIENCE = 4
# Added to the balanced diagonals of the Newton system and of `_polish`. Rows of resources whose
# users have no other group left may be linearly dependent.
RIDGE = 1e-15
POLISH_RIDGE = 1e-11
SMALLEST_PIVOT = 1e-200


@dataclass(frozen=True, eq=False)
class LevelProgramme:
    """The data of one programme; letters are those of the module's docstring."""

    demand: FloatArray  # (N, R): d, per unit of x, scaled so that x, c and p are of moderate size
    allowed: BoolArray  # (N, G): where each user may run; at least one group per user
    need: FloatArray  # (N,): w, per unit of level; 0 for fixed users
    fixed: FloatArray  # (N,): b
    capacity: FloatArray  # (G, R): c
    slope: FloatArray  # (G, R): a, use per unit of level by users that are not among the N


@dataclass(frozen=True, eq=False)
class LevelSolution:
    """An optimal level with its prices."""

    level: float  # t
    split: FloatArray  # (N, G): x
    prices: FloatArray  # (G, R): p
    value: FloatArray  # (N,): y, the price of one unit of each user
    reduced_cost: FloatArray  # (N, G): z, extra cost of a unit over the user's cheapest group


@dataclass(eq=False)
class _Iterate:
    """An iterate or a direction; letters and shapes are those of `LevelSolution`."""

    x: FloatArray
    s: FloatArray
    t: float
    p: FloatArray
    y: FloatArray
    z: FloatArray

    def stepped(self, direction: _Iterate, primal: float, dual: float) -> _Iterate:
        """Return the point after steps of lengths `primal` and `dual` in a direction."""
        return _Iterate(
            x=self.x + primal * direction.x,
            s=self.s + primal * direction.s,
            t=self.t + primal * direction.t,
            p=self.p + dual * direction.p,
            y=self.y + dual * direction.y,
            z=self.z + dual * direction.z,
        )


@dataclass(frozen=True, eq=False)
class _Residuals:
    """The residuals of the optimality conditions at an iterate."""

    users: FloatArray  # (N,): w t + b - sum_g x
    capacity: FloatArray  # (G, R): c - a t - s - use by x
    level: float  # 1 - price of the level
    reduced_cost: FloatArray  # (N, G): cost - y - z
    largest: float  # of the relative residuals and the duality gap


class _System:
    """The programme with the values that are constant over the iterations."""

    def __init__(self, programme: LevelProgramme) -> None:
        lp = programme
        self.lp = lp
        # (G, R): resources that some user takes.
        self.live = ((lp.allowed.T.astype(float) @ (lp.demand > 0)) > 0) | (lp.slope > 0)
        self.pairs = int(lp.allowed.sum()) + int(self.live.sum())
        self.need_scale = max(float(np.abs(lp.fixed).max(initial=0)), float(lp.need.max(initial=0)))
        self.capacity_scale = float(np.abs(lp.capacity[self.live]).max(initial=0))
        self.row_scale = np.maximum(np.abs(lp.capacity), 1e-9 * self.capacity_scale)
        n_resources = lp.demand.shape[1]
        self.products = [
            (r, q, lp.demand[:, r] * lp.demand[:, q])
            for r, q in combinations_with_replacement(range(n_resources), 2)
        ]

    def start(self) -> _Iterate:
        """Return the starting point: even splits at half the level that these allow."""
        lp = self.lp
        groups = lp.allowed.sum(axis=1)
        share = np.where(lp.allowed, 1.0 / groups[:, None], 0.0)
        per_level = (share * lp.need[:, None]).T @ lp.demand + lp.slope
        room = np.maximum(lp.capacity - (share * lp.fixed[:, None]).T @ lp.demand, 0.0)
        rising = self.live & (per_level > 0)
        t = 0.5 * float((room[rising] / per_level[rising]).min(initial=np.inf))
        t = t if np.isfinite(t) else 1.0
        need = lp.need * t + lp.fixed
        x = share * np.maximum(need, 0.1 * max(float(need.mean()), 1e-9))[:, None]
        used = x.T @ lp.demand + lp.slope * t
        s = np.where(self.live, np.maximum(lp.capacity - used, 0.1 * np.abs(lp.capacity)), 1.0)
        s = np.maximum(s, 1e-12 * self.capacity_scale)
        p = np.where(self.live, 1.0 / np.sqrt(s), 0.0)
        cost = lp.demand @ p.T
        y = 0.5 * np.where(lp.allowed, cost, np.inf).min(axis=1)
        price_of_level = float(lp.need @ y) + float((lp.slope * p).sum())
        scale = 1.0 / price_of_level if price_of_level > 0 else 1.0
        floor = 1e-2 * max(float(cost.mean()) if cost.size else 0.0, 1e-12)
        z = np.where(lp.allowed, scale * np.maximum(cost - y[:, None], floor), 1.0)
        return _Iterate(x, s, t, scale * p, scale * y, z)

    def mu(self, point: _Iterate) -> float:
        """Return the mean product of complementary unknowns."""
        products = float((point.x * point.z).sum()) + float((point.s * point.p)[self.live].sum())
        return products / max(self.pairs, 1)

    def residuals(self, point: _Iterate) -> _Residuals:
        """Return the residuals of the optimality conditions at a point."""
        lp = self.lp
        users = lp.fixed + lp.need * point.t - point.x.sum(axis=1)
        missing = lp.capacity - lp.slope * point.t - point.x.T @ lp.demand
        capacity = np.where(self.live, missing - point.s, 0.0)
        level = 1.0 - float((lp.slope * point.p).sum()) - float(lp.need @ point.y)
        cost = lp.demand @ point.p.T
        reduced = np.where(lp.allowed, cost - point.y[:, None] - point.z, 0.0)
        worth = float((lp.capacity * point.p)[self.live].sum()) - float(lp.fixed @ point.y)
        largest = max(
            float(np.abs(users).max(initial=0)) / max(self.need_scale, 1e-300),
            float((np.abs(capacity) / self.row_scale).max(initial=0)),
            abs(level),
            float(np.abs(reduced).max(initial=0)) / max(float(point.p.max(initial=0)), 1e-300),
            abs(worth - point.t) / max(abs(point.t), 1e-12),
        )
        return _Residuals(users, capacity, level, reduced, largest)

    def newton(
        self, point: _Iterate, residuals: _Residuals
    ) -> Callable[[FloatArray, FloatArray], _Iterate]:
        """Factor the Newton system at a point and return a function that solves for the direction.

        The function takes the wanted changes of the complementary products x z and s p.
        """
        lp, live = self.lp, self.live
        theta = np.where(lp.allowed, point.x / point.z, 0.0)
        total = theta.sum(axis=1)
        relative_need = lp.need / total
        matrix = self.normal_matrix(theta, total)
        price = np.where(live, point.p, 1.0)
        diagonal = np.where(live, point.s / price, 0.0).ravel()
        size = diagonal.size
        matrix[np.arange(size), np.arange(size)] += diagonal
        rows = np.flatnonzero(self.live.ravel())
        matrix = matrix[np.ix_(rows, rows)]
        rise = (lp.slope + (theta * relative_need[:, None]).T @ lp.demand).ravel()[rows]

        def solve(products: FloatArray, slack_products: FloatArray) -> _Iterate:
            held = np.where(lp.allowed, products / point.z, 0.0) - theta * residuals.reduced_cost
            shift = (residuals.users - held.sum(axis=1)) / total
            moved = (held + theta * shift[:, None]).T @ lp.demand
            right = residuals.capacity - moved - np.where(live, slack_products / price, 0.0)
            right = right.ravel()[rows]
            per_level, fixed = _solve_balanced(matrix, np.stack([rise, right], axis=1), RIDGE).T
            level_price = float(lp.need @ relative_need) + float(rise @ per_level)
            short = residuals.level - float(lp.need @ shift) + float(rise @ fixed)
            dt = short / level_price
            flat = np.zeros(size)
            flat[rows] = per_level * dt - fixed
            dp = flat.reshape(lp.capacity.shape)
            dcost = lp.demand @ dp.T
            dy = shift + relative_need * dt + (theta * dcost).sum(axis=1) / total
            return _Iterate(
                x=held - theta * (dcost - dy[:, None]),
                s=np.where(live, (slack_products - point.s * dp) / price, 0.0),
                t=dt,
                p=dp,
                y=dy,
                z=np.where(lp.allowed, dcost - dy[:, None] + residuals.reduced_cost, 0.0),
            )

        return solve

    def normal_matrix(self, theta: FloatArray, total: FloatArray) -> FloatArray:
        """Return the (G R, G R) matrix that is left when the users are eliminated."""
        n_groups, n_resources = self.lp.capacity.shape
        blocks = np.empty((n_groups, n_resources, n_groups, n_resources))
        own = np.arange(n_groups)
        for r, q, product in self.products:
            half = theta * np.sqrt(product / total)[:, None]
            block = -(half.T @ half)  # one array twice: half the work
            # Rows sum to zero, because users move units between groups. Computed in this way, the
            # diagonal keeps its digits when a user's theta is all on one group.
            block[own, own] = 0.0
            block[own, own] = -block.sum(axis=1)
            blocks[:, r, :, q] = block
            blocks[:, q, :, r] = block.T
        return blocks.reshape(n_groups * n_resources, n_groups * n_resources)

    def steps(self, point: _Iterate, direction: _Iterate) -> tuple[float, float]:
        """Return the longest steps at which x and s, and z and p, stay non-negative."""
        live = self.live
        primal = min(_distance(point.x, direction.x), _distance(point.s[live], direction.s[live]))
        dual = min(_distance(point.z, direction.z), _distance(point.p[live], direction.p[live]))
        return primal, dual


def _distance(values: FloatArray, direction: FloatArray) -> float:
    """Return the longest step, at most 1, at which no value is negative."""
    falling = direction < 0
    return min(1.0, float((-values[falling] / direction[falling]).min(initial=np.inf)))


def raise_level(programme: LevelProgramme) -> LevelSolution:
    """Find the largest level, its prices and an interior split.

    Parameters
    ----------
    programme : LevelProgramme
        With at least one user or one row of positive slope.

    Raises
    ------
    NoConvergenceError
        When the final residual of the optimality conditions is above 1e-4.

    Notes
    -----
    About 10 to 50 iterations of O(N G R^2 + N (G R)^2 / 2 + (G R)^3), the middle term as matrix
    products.
    """
    if not len(programme.need):
        return _raise_without_users(programme)
    system = _System(programme)
    point = system.start()
    best, best_residuals = point, system.residuals(point)
    stale = 0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        residuals = best_residuals
        for _ in range(MAXIMUM_ITERATIONS):
            if residuals.largest <= RESIDUAL_TARGET or stale >= PATIENCE:
                break
            try:
                point = _iterate(system, point, residuals)
            except np.linalg.LinAlgError:
                break
            residuals = system.residuals(point)
            if not np.isfinite(residuals.largest):
                break
            if residuals.largest < best_residuals.largest:
                if residuals.largest <= 0.5 * best_residuals.largest:
                    stale = 0
                best, best_residuals = point, residuals
            stale += best_residuals.largest < RESIDUAL_SMALL
    if not best_residuals.largest <= RESIDUAL_ACCEPTED:
        raise NoConvergenceError(
            "the linear programme of the level did not converge: "
            f"residual {best_residuals.largest:.2g}, more than {RESIDUAL_ACCEPTED:g}"
        )
    best = _polish(system, best, best_residuals)
    return LevelSolution(
        level=best.t,
        split=np.where(programme.allowed, best.x, 0.0),
        prices=best.p,
        value=best.y,
        reduced_cost=best.z,
    )


def _raise_without_users(programme: LevelProgramme) -> LevelSolution:
    """Solve a programme without users: the level at which the first resource is used up."""
    rising = programme.slope > 0
    reach = np.full(programme.capacity.shape, np.inf)
    np.divide(programme.capacity, programme.slope, out=reach, where=rising)
    level = float(reach.min())
    first = rising & (reach <= level * (1 + RESIDUAL_TARGET))
    prices = np.zeros_like(reach)
    prices[first] = 1.0 / (programme.slope[first] * first.sum())
    nothing = np.zeros(programme.allowed.shape)  # (0, G)
    return LevelSolution(level, nothing, prices, nothing.sum(axis=1), nothing)


def _iterate(system: _System, point: _Iterate, residuals: _Residuals) -> _Iterate:
    """Return the point after one predictor-corrector step."""
    mu = system.mu(point)
    solve = system.newton(point, residuals)
    products, slack_products = point.x * point.z, point.s * point.p
    predictor = solve(-products, -slack_products)
    primal, dual = system.steps(point, predictor)
    reached = system.mu(point.stepped(predictor, primal, dual))
    target = mu * min(1.0, max((reached / mu) ** 3, SMALLEST_CENTRING)) if mu > 0 else 0.0
    corrector = solve(
        target - products - predictor.x * predictor.z,
        target - slack_products - predictor.s * predictor.p,
    )
    primal, dual = (
        step if step == 1.0 else STEP_TO_BOUNDARY * step for step in system.steps(point, corrector)
    )
    return point.stepped(corrector, primal, dual)


def _polish(system: _System, point: _Iterate, residuals: _Residuals) -> _Iterate:
    """Return the point with a split that uses up resources with a price to the last digit.

    Return the point unchanged if this would change an entry by more than half, or if both the
    users' residuals and the largest residual would grow.
    """
    lp = system.lp
    x_scale, p_scale = float(point.x.max()), float(np.abs(point.p).max())
    held = lp.allowed & (point.x * p_scale > point.z * x_scale)
    scarce = system.live & (point.p * system.row_scale > point.s * p_scale)
    rows = np.flatnonzero(scarce.ravel())
    weights = np.where(held, point.x, 0.0)
    total = np.maximum(weights.sum(axis=1), SMALLEST_PIVOT)
    level = float((point.p * residuals.capacity)[scarce].sum() - point.y @ residuals.users)
    shift = (residuals.users + lp.need * level) / total
    right = residuals.capacity - lp.slope * level - (weights * shift[:, None]).T @ lp.demand
    missing = np.where(scarce, point.s, 0.0)
    solution = np.zeros(scarce.size)
    solution[rows] = _solve_balanced(
        system.normal_matrix(weights, total)[np.ix_(rows, rows)],
        (right + missing).ravel()[rows][:, None],
        POLISH_RIDGE,
    )[:, 0]
    worth = lp.demand @ solution.reshape(scarce.shape).T
    mean = (weights * worth).sum(axis=1) / total
    change = weights * (worth - mean[:, None] + shift[:, None])
    if not np.isfinite(change).all() or (np.abs(change) > 0.5 * weights).any():
        return point
    polished = _Iterate(
        point.x + change, np.where(scarce, 0.0, point.s), point.t + level, point.p, point.y, point.z
    )
    after = system.residuals(polished)
    missed_before, missed = (np.abs(r.users).max(initial=0.0) for r in (residuals, after))
    is_worse = missed > missed_before and after.largest > residuals.largest
    return point if is_worse else polished


def _solve_balanced(matrix: FloatArray, sides: FloatArray, ridge: float) -> FloatArray:
    """Solve a symmetric system, its diagonal scaled to 1 and raised by `ridge`."""
    balance = 1.0 / np.sqrt(np.maximum(matrix.diagonal(), SMALLEST_PIVOT))
    balanced = matrix * balance[:, None] * balance
    own = np.arange(len(balance))
    balanced[own, own] += ridge
    solution: FloatArray = np.linalg.solve(balanced, sides * balance[:, None]) * balance[:, None]
    return solution
