"""A sum of concave utilities: the programme, its optimality conditions and its Newton system.

The programme

    maximise   sum_n f_n(X[n]),  X[n] = sum_g x[n,g]
    subject to sum_n a[r,n,g] x[n,g] + s[r,g] = 1      (each resource of each group)
               X[n] + t[n] = limit[n]                  (users that have one)
               x, s, t >= 0

has N G unknowns but only R G prices p: eliminating the users leaves a Newton system of R G rows for
any number of users. At its optimum a user's marginal utility v[n] = f_n'(X[n]) is the price of a
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

# Added to the balanced diagonal of the Newton system, where rows are linearly dependent.
DEPENDENT = 1e-15
SMALLEST_PIVOT = 1e-200
# The least spending of a user or group in relative measures, as a part of the mean.
LEAST_MONEY = 1e-12
SMALL_MONEY = 1e-6


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

    # (R, N, G): a, the part of a group's resource that one unit takes there; scaled so that a user
    # could have about one unit in all.
    use: FloatArray
    allowed: BoolArray  # (N, G): at least one group each, where the user demands a resource
    limit: FloatArray  # (N,): units at which a user has enough; infinite for none
    start: FloatArray  # (N,): units that are feasible together, each spread by the groups' gamma
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
    """An iterate, or a direction from one."""

    x: FloatArray
    s: FloatArray
    t: FloatArray
    p: FloatArray
    z: FloatArray
    w: FloatArray
    v: FloatArray

    def stepped(self, direction: Point, step: float) -> Point:
        """Return the point so far along a direction."""
        values = (
            getattr(self, field.name) + step * getattr(direction, field.name)
            for field in fields(self)
        )
        return Point(*values)


@dataclass(frozen=True, eq=False)
class Money:
    """Measures of products of complementary unknowns: (N,) per user, (G,) per group."""

    spent: FloatArray
    worth: FloatArray


@dataclass(frozen=True, eq=False)
class Residuals:
    """The residuals of the optimality conditions at an iterate."""

    reduced_cost: FloatArray
    capacity: FloatArray
    limit: FloatArray
    log_marginal: FloatArray
    largest: float


class PriceStep(NamedTuple):
    """A change of prices, and its effect on the users."""

    prices: FloatArray  # (R, G)
    dearer: FloatArray  # (N, G): change of a unit's cost
    change: FloatArray  # (N,): change of each total


class System:
    """The programme with the values that are constant over the iterations."""

    def __init__(self, programme: ConcaveProgramme) -> None:
        self.programme = programme
        self.allowed = programme.allowed
        self.use = np.where(programme.allowed, programme.use, 0.0)
        self.live = self.use.max(axis=1) > 0
        self.limited = np.isfinite(programme.limit)
        self.pairs = int(self.allowed.sum() + self.live.sum() + self.limited.sum())

    def cost(self, prices: FloatArray) -> FloatArray:
        """Return the cost of one unit of each user on each group, (N, G)."""
        total: FloatArray = self.use[0] * prices[0]
        for use, price in zip(self.use[1:], prices[1:], strict=True):
            total += use * price
        return total

    def used(self, split: FloatArray) -> FloatArray:
        """Return the part of each resource of each group that a split uses, (R, G)."""
        return np.stack([(use * split).sum(axis=0) for use in self.use])

    def start(self) -> Point:
        """Return half of the feasible start, and balanced prices."""
        lp = self.programme
        most = np.where(self.allowed, 1.0 / np.where(self.allowed, self.use.max(axis=0), 1.0), 0.0)
        spread = most / most.sum(axis=1, keepdims=True)
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

    def mu(self, point: Point, money: Money) -> float:
        """Return the mean product of complementary unknowns, relative to the money there."""
        products = (point.x * point.z).sum(axis=1) @ (1.0 / money.spent)
        products += (point.s * point.p).sum(axis=0) @ (1.0 / money.worth)
        return float(products + (point.t * point.w) @ (1.0 / money.spent)) / self.pairs

    def money(self, point: Point, relative: bool) -> Money:
        """Return the money of each user and group, or the mean spending for all."""
        spent = point.v * point.x.sum(axis=1)
        mean = float(spent.mean())
        n_groups = point.p.shape[1]
        if not relative:
            return Money(np.full(len(spent), mean), np.full(n_groups, mean))
        least = LEAST_MONEY * mean
        return Money(np.maximum(spent, least), np.maximum(point.p.sum(axis=0), least))

    def residuals(self, point: Point) -> Residuals:
        """Return the residuals of the optimality conditions at a point."""
        lp = self.programme
        amount = point.x.sum(axis=1)
        dearness = self.cost(point.p) + (point.w - point.v)[:, None]
        reduced = np.where(self.allowed, point.z - dearness, 0.0)
        capacity = np.where(self.live, self.used(point.x) + point.s - 1.0, 0.0)
        limit = np.where(self.limited, amount + point.t - lp.limit, 0.0)
        log_marginal = lp.utility.log_marginal(amount)
        marginal = np.log(point.v) - log_marginal
        spent = point.v * amount
        # Residuals are weighted by the money that is spent.
        due = np.maximum(spent, np.exp(log_marginal) * amount)
        counts = np.minimum(due / spent.mean() / SMALL_MONEY, 1.0)
        gap = (point.x * point.z).sum() + (point.s * point.p).sum() + point.t @ point.w
        largest = max(
            float((np.abs(reduced).max(axis=1) / point.v * counts).max()),
            float(np.abs(capacity).max()),
            float((np.abs(limit)[self.limited] / lp.limit[self.limited]).max(initial=0.0)),
            float((np.abs(marginal) * counts).max()),
            float(gap / spent.sum()),
        )
        return Residuals(reduced, capacity, limit, marginal, largest)

    def newton(self, point: Point, residuals: Residuals) -> Callable[..., Point]:
        """Factor the Newton system at a point and return a function that solves for the direction.

        It takes targets of x z, s p and t w (as changes), and what to take off log v - log f'.
        """
        theta = np.where(self.allowed, point.x / point.z, 0.0)
        amount = point.x.sum(axis=1)
        bend = point.v * self.programme.utility.elasticity(amount) / amount
        price = np.where(self.live, point.p, 1.0)
        stiffness = bend + point.w / point.t
        solve_prices = self.eliminate_users(theta, stiffness, point.s / price, self.live)

        def solve(
            products: FloatArray, slack: FloatArray, spare: FloatArray, log_marginal: FloatArray
        ) -> Point:
            moved = np.where(self.allowed, products / point.z, 0.0) + theta * residuals.reduced_cost
            push = spare / point.t + point.w / point.t * residuals.limit
            push = push + point.v * log_marginal
            dp, dearer, change = solve_prices(moved, push, slack / price, residuals.capacity)
            dt = -change - residuals.limit
            dw = np.where(self.limited, (spare - point.w * dt) / point.t, 0.0)
            dv = -point.v * log_marginal - bend * change
            dz = dearer + (dw - dv)[:, None] - residuals.reduced_cost
            return Point(
                x=moved - theta * (dz + residuals.reduced_cost),
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
        ridge: float = DEPENDENT,
    ) -> Callable[..., PriceStep]:
        """Factor the matrix of prices that is left when the users are eliminated.

        An entry moves by ``moved - theta (dearer + push + stiffness change)``, where `theta` (N, G)
        says how easily, `stiffness` (N,) how fast the user's worth of a unit falls, `push` (N,) and
        `moved` (N, G) are given, and `change` (N,) is that of the user's total. The solver takes
        (moved, push, *over), with the sum of `over` (R, G) what has to be freed of each resource.
        """
        n_resources, _, n_groups = self.use.shape
        total = theta.sum(axis=1)
        softened = 1.0 + total * stiffness
        root = np.sqrt(stiffness / softened)[:, None] * theta
        columns = np.concatenate([root * use for use in self.use], axis=1)
        matrix = -(columns.T @ columns)  # one array twice: half the work
        # theta - theta^2 stiffness / softened, without losing the digits that the two share where
        # nearly all of a user's theta is on one group.
        own = theta * (1.0 + stiffness[:, None] * _sum_of_others(theta)) / softened[:, None]
        group = np.arange(n_groups)
        for r in range(n_resources):
            for q in range(r, n_resources):
                block = (own * self.use[r] * self.use[q]).sum(axis=0)
                matrix[r * n_groups + group, q * n_groups + group] = block
                matrix[q * n_groups + group, r * n_groups + group] = block
        size = np.arange(len(matrix))
        matrix[size, size] += diagonal.ravel()
        rows = np.flatnonzero(priced.ravel())
        matrix = matrix[np.ix_(rows, rows)]
        balance = 1.0 / np.sqrt(np.maximum(matrix.diagonal(), SMALLEST_PIVOT))
        matrix *= balance[:, None] * balance
        matrix[np.arange(len(rows)), np.arange(len(rows))] += ridge
        solve_matrix = _factor(matrix)

        def solve(moved: FloatArray, push: FloatArray, *over: FloatArray) -> PriceStep:
            shift = moved.sum(axis=1) - total * push
            gives = moved - theta * (push + stiffness / softened * shift)[:, None]
            right = np.where(priced, sum(over, start=self.used(gives)), 0.0).ravel()
            flat = np.zeros(right.size)
            flat[rows] = solve_matrix(right[rows] * balance) * balance
            prices = flat.reshape(priced.shape)
            dearer = self.cost(prices)
            return PriceStep(prices, dearer, (shift - (theta * dearer).sum(axis=1)) / softened)

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
    """Return for each entry of (N, G) the sum of the others in its row."""
    rows = np.arange(len(theta))
    largest = theta.argmax(axis=1)
    rest = theta.copy()
    rest[rows, largest] = 0.0
    without = rest.sum(axis=1)
    others: FloatArray = (without + theta[rows, largest])[:, None] - theta
    others[rows, largest] = without
    return others


def _factor(matrix: FloatArray) -> Callable[[FloatArray], NDArray[np.floating]]:
    """Return a solver of a symmetric system, positive definite but for rounding."""
    if not matrix.size:  # scipy before 1.14 refuses it
        return lambda right: right
    try:
        factor = cho_factor(matrix, lower=True, check_finite=False)
    except LinAlgError:
        return lambda right: np.linalg.solve(matrix, right)
    return lambda right: cho_solve(factor, right, check_finite=False)
