"""Dynamic DRF: agents arrive one after another, and no allocation is ever reduced.

Kash, Procaccia and Shah 2014; Li, Liu, Zhang and Zhang 2019. docs/dynamic.md defines the extension
to weights and zero demands.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from fairlead.errors import InputError, RefusalError
from fairlead.model.arguments import number, texts, whole_number
from fairlead.model.cluster import FloatArray
from fairlead.model.frames import read_numbers
from fairlead.solvers.level_log import LevelLog
from fairlead.solvers.level_raising import (
    RaiseLevels,
    raise_by_halving,
    raise_by_lp,
    raise_by_water,
)
from fairlead.solvers.stair_stack import StairStacks, State

# The sum of weights may exceed the announced weight by this fraction, for rounding errors.
ROUNDING = 1e-9
MOST_AGENTS = 2**53  # floats represent no larger number of agents exactly
MOST_RESOURCES = 1_000_000


class DynamicDRF:
    """Agents that arrive one after another and share every resource by dynamic DRF.

    After the arrival of agents of weights ``w_1 .. w_k``, the fraction ``(w_1 + .. + w_k) / W`` of
    every resource may be used. The agents of lowest level (dominant share per unit of weight) rise
    together. When a resource is used up to that fraction, the agents that demand it stop; the
    others continue.

    Parameters
    ----------
    announced : int
        The largest number of agents that will arrive, n.
    resources : int or sequence of str
        The number of resources, or their names.
    total_weight : float, optional
        Weight of all agents that will arrive, W; n when absent.
    solver : str
        ``"stack"``, amortised O(R) an arrival, or a slower one with the same answers:
        ``"halving"`` (Li et al.'s Algorithm 1, corrected; positive demands only), ``"water"``,
        ``"lp"``.
    capacity : (R,) array, optional
        Capacity of each resource, in the units of the demands. When absent, 1: demands are shares
        of the pool. Only the ratios of an agent's demands matter.

    Raises
    ------
    InputError
        For an invalid number, weight or capacity, or an unknown solver.

    Notes
    -----
    Memory grows with the agents that have arrived, not with those announced.

    Examples
    --------
    >>> agents = DynamicDRF(announced=2, resources=["cpu", "memory"])
    >>> agents.arrive([1, 0.5])
    0.5
    >>> agents.arrive([0.5, 1])
    0.6666666666666666
    """

    def __init__(
        self,
        announced: int,
        resources: int | Sequence[str],
        *,
        total_weight: float | None = None,
        solver: str = "stack",
        capacity: ArrayLike | None = None,
    ) -> None:
        self.announced = whole_number(announced, "announced", 1, MOST_AGENTS)
        self.resources = _read_names(resources)
        self.total_weight = (
            float(self.announced) if total_weight is None else number(total_weight, "total_weight")
        )
        if not 0 < self.total_weight < inf:
            fault = f"must be a positive number, not {self.total_weight:g}"
            raise InputError(fault, "total_weight")
        self.solver = solver
        if solver not in SOLVERS:
            known = ", ".join(SOLVERS)
            raise InputError(f"no solver is named {solver!r}; known: {known}", "solver")
        self._solver = SOLVERS[solver](len(self.resources))
        self._capacity = None if capacity is None else self._check_capacity(capacity)
        self._weights = array("d")
        self._weight_arrived = 0.0
        self._most_weight = self.total_weight * (1.0 + ROUNDING)

    def arrive(self, demand: Sequence[float] | FloatArray, weight: float = 1.0) -> float:
        """Add one agent.

        Parameters
        ----------
        demand : (R,) array
            Demand of one task of the agent, per resource; zeros are admitted.
        weight : float

        Returns
        -------
        float
            The lowest level of all agents after the step.

        Raises
        ------
        InputError
            For an invalid demand or weight, or after the last announced agent; the state is
            unchanged.
        RefusalError
            When the solver does not admit a zero demand.

        Notes
        -----
        Takes some microseconds with ``"stack"``.
        """
        values = demand.tolist() if isinstance(demand, np.ndarray) else demand
        solver = self._solver
        shares = self._shares_of_one(values, weight) if isinstance(solver, _StackSolver) else None
        if shares is None or not isinstance(solver, _StackSolver):
            return float(self.arrive_all([values], [weight])[0])
        self._weight_arrived += weight
        self._weights.append(weight)
        return solver.add_one(shares, weight, self.budget)

    def _shares_of_one(self, values: Sequence[float], weight: float) -> list[float] | None:
        """Return a demand scaled to a maximum of 1; None if it needs the checks of `arrive_all`."""
        try:
            shares = list(values)
            if self._capacity is not None:
                shares = [v / c for v, c in zip(values, self._capacity.tolist(), strict=True)]
            largest = max(shares)
            if (
                len(shares) == len(self.resources)
                and min(shares) >= 0
                and 0 < sum(shares) < inf  # false for a NaN
                and weight > 0
                and self._weight_arrived + weight <= self._most_weight
                and self.arrived < self.announced
            ):
                return [share / largest for share in shares]
        except (TypeError, ValueError, ArithmeticError):
            pass
        return None

    def arrive_all(self, demands: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
        """Add several agents, one after another.

        Parameters
        ----------
        demands : (K, R) array
            Demand of one task of each agent, in order of arrival.
        weights : (K,) array, optional
            1 when absent.

        Returns
        -------
        (K,) float
            The lowest level of all agents after each step.

        Raises
        ------
        InputError, RefusalError
            As `arrive`; no agent is added then.
        """
        demand = self._check_demands(demands)
        weight = self._check_weights(weights, len(demand))
        arrived = np.cumsum(np.concatenate([[self._weight_arrived], weight]))
        self._refuse_unannounced(len(weight), float(arrived[-1]))
        level = self._solver.add(demand, weight, np.minimum(1.0, arrived[1:] / self.total_weight))
        self._weight_arrived = float(arrived[-1])
        self._weights.frombytes(weight.tobytes())
        return level

    @property
    def arrived(self) -> int:
        """Number of agents that have arrived."""
        return len(self._weights)

    @property
    def budget(self) -> float:
        """The fraction of every resource that may be in use."""
        return min(1.0, self._weight_arrived / self.total_weight)

    @property
    def used(self) -> FloatArray:
        """(R,) float: the fraction of each resource that is in use."""
        return self._solver.used

    @property
    def weights(self) -> FloatArray:
        """(k,) float: the weights of the agents that have arrived."""
        return np.array(self._weights)

    @property
    def log(self) -> LevelLog:
        """The levels after every step."""
        return self._solver.log

    @property
    def levels(self) -> FloatArray:
        """(k,) float: each agent's dominant share per unit of weight; O(k) for k agents."""
        return self.log.levels_at(self.arrived)

    @property
    def shares(self) -> FloatArray:
        """(k,) float: each agent's dominant share; O(k)."""
        return self.levels * self.weights

    def shares_at(self, step: int) -> FloatArray:
        """Return the dominant shares (step,) after a step; raise InputError if there is none."""
        if not 1 <= step <= self.arrived:
            raise InputError(f"must be between 1 and {self.arrived}, not {step}", "step")
        return self.log.levels_at(step) * self.weights[:step]

    def _check_capacity(self, capacity: ArrayLike) -> FloatArray:
        given = read_numbers(capacity, "capacity")
        if given.shape != (len(self.resources),):
            raise InputError(f"must be {len(self.resources)} numbers", "capacity")
        for r in np.flatnonzero(~((given >= 0) & (given < inf)))[:1]:
            fault = f"must be a finite number >= 0, not {given[r]:g}"
            raise InputError(fault, f"capacity.{self.resources[r]}")
        return given

    def _check_demands(self, demands: ArrayLike) -> FloatArray:
        """Check demands; return shares of the pool, scaled so that the largest of a row is 1."""
        demand = read_numbers(demands, "demand")
        n_resources = len(self.resources)
        if demand.size == 0:
            demand = demand.reshape(0, n_resources)
        if demand.ndim != 2 or demand.shape[1] != n_resources:
            fault = f"must have {n_resources} amounts each"
            if demand.ndim == 2:
                fault += f", not {demand.shape[1]}"
            raise InputError(fault, "demand")
        for cell in np.flatnonzero(~((demand >= 0) & (demand < inf)))[:1]:
            k, r = divmod(int(cell), n_resources)
            place = f"{_place('demand', k, len(demand))}.{self.resources[r]}"
            raise InputError(f"must be a finite number >= 0, not {demand[k, r]:g}", place)
        if self._capacity is not None:
            for k, r in np.argwhere((demand > 0) & (self._capacity == 0))[:1]:
                place = f"{_place('demand', k, len(demand))}.{self.resources[r]}"
                raise InputError("the capacity of this resource is 0", place)
            demand = demand / np.where(self._capacity > 0, self._capacity, 1.0)
        # By columns, NumPy finds the largest numbers of short rows five times as fast.
        largest = np.asfortranarray(demand).max(axis=1, initial=0.0)
        for k in np.flatnonzero(~((largest > 0) & (largest < inf)))[:1]:
            fault = "demands nothing" if largest[k] == 0 else "is too large for the capacity"
            raise InputError(fault, _place("demand", k, len(demand)))
        demand = np.ascontiguousarray(demand / largest[:, None])
        if self.solver in POSITIVE_ONLY and not (demand > 0).all():
            raise RefusalError("dynamic", f"the solver {self.solver!r} admits no zero demands")
        return demand

    def _check_weights(self, weights: ArrayLike | None, length: int) -> FloatArray:
        weight = np.ones(length) if weights is None else read_numbers(weights, "weight")
        if weight.shape != (length,):
            raise InputError(f"must be {length} numbers, not of shape {weight.shape}", "weight")
        for k in np.flatnonzero(~((weight > 0) & (weight < inf)))[:1]:
            place = _place("weight", k, length)
            raise InputError(f"must be a positive number, not {weight[k]:g}", place)
        return weight

    def _refuse_unannounced(self, length: int, weight: float) -> None:
        """Refuse more agents, or more weight, than was announced."""
        if self.arrived + length > self.announced:
            if self.arrived == self.announced:
                raise InputError(f"all {self.announced} announced agents have already arrived")
            raise InputError(
                f"{self.arrived + length} agents arrive, but only {self.announced} were announced"
            )
        if length and not weight <= self._most_weight:
            raise InputError(
                f"weights add up to {weight:g}, more than the {self.total_weight:g} announced",
                "weight",
            )


class _StackSolver:
    """The compiled solver, `fairlead.solvers.stair_stack`: amortised O(R) a step."""

    def __init__(self, n_resources: int) -> None:
        self._n_resources = n_resources
        self._stacks = StairStacks(n_resources)

    def __getstate__(self) -> tuple[int, State]:
        """Return plain values for copies and pickles; compiled objects have none."""
        return self._n_resources, self._stacks.state()

    def __setstate__(self, state: tuple[int, State]) -> None:
        self._n_resources, stacks = state
        self._stacks = StairStacks(self._n_resources)
        self._stacks.restore(stacks)

    def add(self, demand: FloatArray, weight: FloatArray, budget: FloatArray) -> FloatArray:
        """Add agents one after another; return (K,) the lowest level after each.

        The largest number in each row of `demand` (K, R) is 1. `budget` (K,) is the fraction of
        every resource that may be used after each arrival.
        """
        return np.array(memoryview(self._stacks.add(demand.ravel(), weight, budget)))

    def add_one(self, demand: list[float], weight: float, budget: float) -> float:
        return self._stacks.add(demand, [weight], [budget])[0]

    @property
    def used(self) -> FloatArray:
        return np.array(memoryview(self._stacks.used))

    @property
    def log(self) -> LevelLog:
        stacks = self._stacks
        return LevelLog(
            np.array(memoryview(stacks.kind_of)),
            np.array(memoryview(stacks.log_step)),
            np.array(memoryview(stacks.log_kind)),
            np.array(memoryview(stacks.log_level)),
        )


class _PlainSolver:
    """A solver that recomputes the levels of all P agents at each step: O(P R) or more."""

    def __init__(self, n_resources: int, raise_levels: RaiseLevels) -> None:
        self._raise = raise_levels
        self._use = np.zeros((0, n_resources))
        self._level = np.zeros(0)
        # Agents of one kind demand the same resources.
        self._kinds: dict[bytes, int] = {}  # number of each kind, by its resources
        self._newest: list[int] = []  # the newest agent of each kind, which has its lowest level
        self._kind: list[int] = []  # of each agent
        self._entries: list[tuple[int, int, float]] = []  # of the log: step, kind, level

    def add(self, demand: FloatArray, weight: FloatArray, budget: FloatArray) -> FloatArray:
        rows = zip(demand, weight.tolist(), budget.tolist(), strict=True)
        return np.array([self._add_one(row, w, b) for row, w, b in rows])

    def _add_one(self, demand: FloatArray, weight: float, budget: float) -> float:
        k = len(self._kind)
        kind = self._kinds.setdefault((demand > 0).tobytes(), len(self._kinds))
        if kind == len(self._newest):
            self._newest.append(k)
        before = np.append(self._level, 0.0)
        lowest = before[self._newest]
        lowest[kind] = -1.0  # so that the new agent's kind is logged at any level
        self._newest[kind] = k
        use = np.vstack([self._use, weight * demand])
        level = self._raise(use, before, budget)
        self._kind.append(kind)
        after = level[self._newest]
        for other in np.flatnonzero(after > lowest).tolist():
            self._entries.append((k + 1, other, float(after[other])))
        self._use, self._level = use, level
        return float(level.min())

    @property
    def used(self) -> FloatArray:
        used: FloatArray = self._level @ self._use
        return used

    @property
    def log(self) -> LevelLog:
        step, kind, level = zip(*self._entries, strict=True) if self._entries else ((), (), ())
        return LevelLog(
            np.array(self._kind, dtype=np.int64),
            np.array(step, dtype=np.int64),
            np.array(kind, dtype=np.int64),
            np.array(level, dtype=np.float64),
        )


SOLVERS: dict[str, Callable[[int], _StackSolver | _PlainSolver]] = {
    "stack": _StackSolver,
    "halving": lambda n_resources: _PlainSolver(n_resources, raise_by_halving),
    "water": lambda n_resources: _PlainSolver(n_resources, raise_by_water),
    "lp": lambda n_resources: _PlainSolver(n_resources, raise_by_lp),
}
# Halving assumes that all agents stop together, as they do if all demand every resource.
POSITIVE_ONLY = frozenset({"halving"})


def _place(what: str, k: int, length: int) -> str:
    return what if length == 1 else f"{what}[{k}]"


def _read_names(resources: int | Sequence[str]) -> tuple[str, ...]:
    if isinstance(resources, str):
        raise InputError(f"must be a number or several names, not {resources!r}", "resources")
    if isinstance(resources, Sequence):
        if not resources:
            raise InputError("names no resource", "resources")
        if len(set(resources)) < len(resources):
            raise InputError("names a resource twice", "resources")
        return texts(resources, "resources")
    count = whole_number(resources, "resources", 1, MOST_RESOURCES)
    return tuple(f"r{r + 1}" for r in range(count))
