"""A sum of concave utilities: the programme, its optimality conditions and its Newton system.

The programme

    maximise   sum_n f_n(X[n]),  X[n] = sum_g x[n,g]
    subject to sum_n a[r,n,g] x[n,g] + s[r,g] = 1      (resource r of server group g)
               X[n] + t[n] = limit[n]                  (users with a limit)
               x, s, t >= 0

has N G unknowns x but only R G prices p: eliminating the users leaves a Newton system of R G rows
for any number of users. s (R,G) is the free part of each resource, t (N,) the distance of each
total X from its limit. At its optimum a user's marginal utility v[n] = f_n'(X[n]) is the price of a
unit on its cheapest groups, sum_r a[r,n,g] p[r,g], plus the value w[n] of its limit:

    z[n,g] = sum_r a[r,n,g] p[r,g] + w[n] - v[n] >= 0,   x z = s p = t w = 0.

Marginal utilities span many orders of magnitude where the utility is steep, so v is a
separate unknown with the equation log v = log f'(X), which is nearly linear, unlike v = f'(X).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from fairlead.model.cluster import BoolArray, FloatArray

# Added to the balanced diagonal of the Newton system, whose rows may be linearly dependent.
RIDGE = 1e-15
SMALLEST_PIVOT = 1e-200
# The smallest spending to divide by, relative to the mean spending of a user.
SMALLEST_SPENDING = 1e-12
# Residuals of users that spend less than this fraction of the mean weigh proportionally less.
SMALL_SPENDING = 1e-6


class Utility(Protocol):
    """Increasing concave utilities of all users, by their derivatives."""

    def log_marginal(self, amount: FloatArray) -> FloatArray:
        """Return log f_n'(X[n]), (N,), at amounts X > 0."""
        ...

    def elasticity(self, amount: FloatArray) -> FloatArray:
        """Return -X[n] f_n''(X[n]) / f_n'(X[n]), (N,), at least 0."""
        ...


@dataclass(frozen=True, eq=False)
class ConcaveProgramme:
    """The data of one programme."""

    # (R, N, G): a, the fraction of a group's resource that one unit of a user takes there. The unit
    # is about all that the user could have alone.
    use: FloatArray
    allowed: BoolArray  # (N, G): where each user may run; at least one group, with a demand there
    limit: FloatArray  # (N,): largest number of units of a user; infinite for no limit
    # (N,): totals that are feasible together if each is spread over groups in proportion to the
    # units that the user could have alone on each.
    start: FloatArray
    utility: Utility  # f, in a unit in which ``sum_n start[n] f_n'(start[n])`` is about 1


@dataclass(frozen=True, eq=False)
class ConcaveSolution:
    """An optimal split with its prices."""

    split: FloatArray  # (N, G): x
    prices: FloatArray  # (R, G): p, of each whole resource of each group
    reduced_cost: FloatArray  # (N, G): z; infinite where the user may not run
    marginal: FloatArray  # (N,): v, worth of one more unit
    gap: float  # the largest relative residual, the duality gap among them


@dataclass(eq=False)
class Point:
    """An iterate or a direction; letters are those of the module's docstring."""

    x: FloatArray  # (N, G): split
    s: FloatArray  # (R, G): free part of each resource
    t: FloatArray  # (N,): distance of the total from the limit
    p: FloatArray  # (R, G): prices
    z: FloatArray  # (N, G): reduced cost
    w: FloatArray  # (N,): value of the limit
    v: FloatArray  # (N,): marginal utility

    def stepped(self, direction: Point, step: float) -> Point:
        """Return the point after a step of this length in a direction."""
        values = (
            getattr(self, field.name) + step * getattr(direction, field.name)
            for field in fields(self)
        )
        return Point(*values)


@dataclass(frozen=True, eq=False)
class Scales:
    """Scales for the products of complementary unknowns, in units of utility."""

    spending: FloatArray  # (N,): spending of each user, v X
    group_price: FloatArray  # (G,): price of each whole group


@dataclass(frozen=True, eq=False)
class Residuals:
    """The residuals of the optimality conditions at an iterate."""

    reduced_cost: FloatArray  # (N, G): z - (cost + w - v)
    capacity: FloatArray  # (R, G): used + s - 1
    limit: FloatArray  # (N,): X + t - limit
    log_marginal: FloatArray  # (N,): log v - log f'(X)
    largest: float  # of the relative residuals and the duality gap


class PriceStep(NamedTuple):
    """A change of prices, and its effect on the users."""

    prices: FloatArray  # (R, G)
    cost: FloatArray  # (N, G): change of a unit's cost
    total: FloatArray  # (N,): change of each total


class System:
    """The programme with the values that are constant over the iterations."""

    def __init__(self, programme: ConcaveProgramme) -> None:
        self.programme = programme
        self.allowed = programme.allowed
        self.use = np.where(programme.allowed, programme.use, 0.0)
        self.live = self.use.max(axis=1) > 0  # (R, G): resources that some user can use
        self.limited = np.isfinite(programme.limit)  # (N,)
        # Number of pairs of complementary unknowns.
        self.pairs = int(self.allowed.sum() + self.live.sum() + self.limited.sum())

    def cost(self, prices: FloatArray) -> FloatArray:
        """Return the cost of one unit of each user on each group, (N, G)."""
        total: FloatArray = self.use[0] * prices[0]
        for use, price in zip(self.use[1:], prices[1:], strict=True):
            total += use * price
        return total

    def used(self, split: FloatArray) -> FloatArray:
        """Return the fraction of each resource of each group that a split uses, (R, G)."""
        return np.stack([(use * split).sum(axis=0) for use in self.use])

    def start(self) -> Point:
        """Return the starting point: half of the feasible totals, and prices that they pay for."""
        lp = self.programme
        # Units that a user could have alone on each group.
        alone = np.where(self.allowed, 1.0 / np.where(self.allowed, self.use.max(axis=0), 1.0), 0.0)
        spread = alone / alone.sum(axis=1, keepdims=True)
        amount = np.minimum(0.5 * lp.start, 0.5 * lp.limit)
        x = np.where(self.allowed, spread * amount[:, None], 0.0)
        v = np.exp(lp.utility.log_marginal(amount))
        worth = (spread * (v * amount)[:, None]).sum(axis=0)
        p = np.where(self.live, worth / np.maximum(self.live.sum(axis=0), 1), 0.0)
        p = np.where(self.live, np.maximum(p, 1e-3 * worth.max()), 0.0)
        s = np.where(self.live, np.maximum(1.0 - self.used(x), 0.1), 1.0)
        z = np.where(self.allowed, np.maximum(self.cost(p) - v[:, None], 0.5 * v[:, None]), 1.0)
        t = np.where(self.limited, np.maximum(lp.limit - amount, 0.1 * amount), 1.0)
        w = np.where(self.limited, 0.1 * v, 0.0)
        return Point(x, s, t, p, z, w, v)

    def mu(self, point: Point, scales: Scales) -> float:
        """Return the mean product of complementary unknowns, relative to their scales."""
        products = (point.x * point.z).sum(axis=1) @ (1.0 / scales.spending)
        products += (point.s * point.p).sum(axis=0) @ (1.0 / scales.group_price)
        return float(products + (point.t * point.w) @ (1.0 / scales.spending)) / self.pairs

    def scales(self, point: Point, relative: bool) -> Scales:
        """Return the mean spending for all scales; if `relative`, one for each user and group."""
        spent = point.v * point.x.sum(axis=1)
        mean = float(spent.mean())
        n_groups = point.p.shape[1]
        if not relative:
            return Scales(np.full(len(spent), mean), np.full(n_groups, mean))
        least = SMALLEST_SPENDING * mean
        return Scales(np.maximum(spent, least), np.maximum(point.p.sum(axis=0), least))

    def residuals(self, point: Point) -> Residuals:
        """Return the residuals of the optimality conditions at a point."""
        lp = self.programme
        amount = point.x.sum(axis=1)
        excess_cost = self.cost(point.p) + (point.w - point.v)[:, None]
        reduced = np.where(self.allowed, point.z - excess_cost, 0.0)
        capacity = np.where(self.live, self.used(point.x) + point.s - 1.0, 0.0)
        limit = np.where(self.limited, amount + point.t - lp.limit, 0.0)
        log_marginal = lp.utility.log_marginal(amount)
        marginal = np.log(point.v) - log_marginal
        spent = point.v * amount
        due = np.maximum(spent, np.exp(log_marginal) * amount)
        weight = np.minimum(due / spent.mean() / SMALL_SPENDING, 1.0)  # of each user's residuals
        gap = (point.x * point.z).sum() + (point.s * point.p).sum() + point.t @ point.w
        largest = max(
            float((np.abs(reduced).max(axis=1) / point.v * weight).max()),
            float(np.abs(capacity).max()),
            float((np.abs(limit)[self.limited] / lp.limit[self.limited]).max(initial=0.0)),
            float((np.abs(marginal) * weight).max()),
            float(gap / spent.sum()),
        )
        return Residuals(reduced, capacity, limit, marginal, largest)

    def newton(self, point: Point, residuals: Residuals) -> Callable[..., Point]:
        """Factor the Newton system at a point and return a function that solves for the direction.

        The function takes the wanted changes of x z, s p and t w, and the wanted decrease of
        log v - log f'.
        """
        theta = np.where(self.allowed, point.x / point.z, 0.0)
        amount = point.x.sum(axis=1)
        curvature = point.v * self.programme.utility.elasticity(amount) / amount
        price = np.where(self.live, point.p, 1.0)
        stiffness = curvature + point.w / point.t
        solve_prices = self.eliminate_users(theta, stiffness, point.s / price, self.live)

        def solve(
            products: FloatArray, slack: FloatArray, spare: FloatArray, log_marginal: FloatArray
        ) -> Point:
            base = np.where(self.allowed, products / point.z, 0.0) + theta * residuals.reduced_cost
            push = spare / point.t + point.w / point.t * residuals.limit
            push = push + point.v * log_marginal
            dp, dcost, dtotal = solve_prices(base, push, slack / price, residuals.capacity)
            dt = -dtotal - residuals.limit
            dw = np.where(self.limited, (spare - point.w * dt) / point.t, 0.0)
            dv = -point.v * log_marginal - curvature * dtotal
            dz = dcost + (dw - dv)[:, None] - residuals.reduced_cost
            return Point(
                x=base - theta * (dz + residuals.reduced_cost),
                s=np.where(self.live, (slack - point.s * dp) / price, 0.0),
                t=np.where(self.limited, dt, 0.0),
                p=dp,
                z=np.where(self.allowed, dz, 0.0),
                w=dw,
                v=dv,
            )

        return solve

    def eliminate_users(
        self,
        theta: FloatArray,
        stiffness: FloatArray,
        diagonal: FloatArray,
        priced: BoolArray,
        ridge: float = RIDGE,
    ) -> Callable[..., PriceStep]:
        """Factor the linear system of a Newton step, with the users eliminated.

        The unknowns are changes of the split, dx (N, G), of totals, dX = sum_g dx (N,), and of the
        prices of `priced` resources, dp (R, G), with their effect dcost = cost(dp) (N, G):

            dx[n,g] = base[n,g] - theta[n,g] (dcost[n,g] + push[n] + stiffness[n] dX[n])
            used(dx)[r,g] + excess[r,g] = diagonal[r,g] dp[r,g]

        The returned function takes `base` (N, G), `push` (N,) and the terms of the sum `excess`,
        each (R, G). `ridge` is added to the diagonal of the matrix of prices, after it is scaled
        to 1.
        """
        n_resources, _, n_groups = self.use.shape
        total = theta.sum(axis=1)
        softened = 1.0 + total * stiffness
        root = np.sqrt(stiffness / softened)[:, None] * theta
        columns = np.concatenate([root * use for use in self.use], axis=1)
        matrix = -(columns.T @ columns)  # one array twice: half the work
        # theta - theta^2 stiffness / softened, without cancellation of digits where nearly all of a
        # user's theta is on one group.
        own = theta * (1.0 + stiffness[:, None] * _sum_of_others(theta)) / softened[:, None]
        group = np.arange(n_groups)
        for r in range(n_resources):
            for q in range(r, n_resources):
                block = (own * self.use[r] * self.use[q]).sum(axis=0)
                matrix[r * n_groups + group, q * n_groups + group] = block
                matrix[q * n_groups + group, r * n_groups + group] = block
        matrix[np.diag_indices_from(matrix)] += diagonal.ravel()
        rows = np.flatnonzero(priced.ravel())
        matrix = matrix[np.ix_(rows, rows)]
        balance = 1.0 / np.sqrt(np.maximum(matrix.diagonal(), SMALLEST_PIVOT))
        matrix *= balance[:, None] * balance
        matrix[np.diag_indices_from(matrix)] += ridge
        solve_matrix = _factor(matrix)

        def solve(base: FloatArray, push: FloatArray, *excess: FloatArray) -> PriceStep:
            shift = base.sum(axis=1) - total * push
            # dx at dp = 0, with the dX that follows from it: dX = shift / softened.
            at_old_prices = base - theta * (push + stiffness / softened * shift)[:, None]
            right = np.where(priced, sum(excess, start=self.used(at_old_prices)), 0.0).ravel()
            flat = np.zeros(right.size)
            flat[rows] = solve_matrix(right[rows] * balance) * balance
            prices = flat.reshape(priced.shape)
            dcost = self.cost(prices)
            return PriceStep(prices, dcost, (shift - (theta * dcost).sum(axis=1)) / softened)

        return solve

    def longest_step(self, point: Point, direction: Point) -> float:
        """Return the longest step in a direction, at most 1, at which no unknown is negative."""
        step = 1.0
        for field in fields(point):
            values, change = getattr(point, field.name), getattr(direction, field.name)
            falling = change < 0
            step = min(step, float((-values[falling] / change[falling]).min(initial=np.inf)))
        return step


def _sum_of_others(theta: FloatArray) -> FloatArray:
    """Return (N, G) for each entry the sum of the other entries in its row."""
    rows = np.arange(len(theta))
    largest = theta.argmax(axis=1)
    rest = theta.copy()
    rest[rows, largest] = 0.0
    without = rest.sum(axis=1)
    others: FloatArray = (without + theta[rows, largest])[:, None] - theta
    others[rows, largest] = without
    return others


def _factor(matrix: FloatArray) -> Callable[[FloatArray], NDArray[np.floating]]:
    """Return a solver of a symmetric system that is positive definite except for rounding."""
    if not matrix.size:  # scipy before 1.14 refuses it
        return lambda right: right
    try:
        factor = cho_factor(matrix, lower=True, check_finite=False)
    except LinAlgError:
        return lambda right: np.linalg.solve(matrix, right)
    return lambda right: cho_solve(factor, right, check_finite=False)
