"""Dynamic DRF: agents arrive one after another, and nobody ever has to give anything back.

Kash, Procaccia and Shah 2014; Li, Liu, Zhang and Zhang 2019. With weights and zero demands it is
extended as docs/dynamic.md says.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite

import numpy as np
from numpy.typing import ArrayLike

from fairlead.errors import InputError, RefusalError
from fairlead.mechanisms.dynamic_steps import POSITIVE_ONLY, StackSteps, start_steps
from fairlead.model.arguments import texts, whole_number
from fairlead.model.cluster import FloatArray
from fairlead.solvers.level_log import LevelLog

# Weights that add up to this much more than was announced, relative, do so by rounding.
ROUNDING = 1e-9


class DynamicDRF:
    """Agents that arrive one after another and share every resource by dynamic DRF.

    After the arrival of agents of weights ``w_1 .. w_k``, the fraction ``(w_1 + .. + w_k) / W`` of
    every resource is given out: those of least level (dominant share per unit of weight) rise
    together until a resource that they demand is used up to that fraction.

    Parameters
    ----------
    announced : int
        How many agents will come at most, n.
    resources : int or sequence of str
        How many resources there are, or their names.
    total_weight : float, optional
        Weight of all that will come, W; n when absent.
    solver : str
        ``"stack"``, amortised O(R) an arrival, or one of the plain ones that it is held against,
        all with the same answers: ``"halving"`` (Li et al.'s Algorithm 1, put right; positive
        demands only), ``"water"``, ``"lp"``.
    capacity : (R,) array, optional
        What there is of each resource, in the units of the demands; 1 when absent, so that demands
        are shares of the pool. Only the ratios of an agent's demands matter.

    Raises
    ------
    InputError
        For a number, a weight or a capacity without meaning, or an unknown solver.

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
        self.announced = whole_number(announced, "announced", 1)
        self.resources = _names(resources)
        self.total_weight = (
            float(self.announced) if total_weight is None else _positive(total_weight)
        )
        self.solver = solver
        n_resources = len(self.resources)
        self._steps = start_steps(solver, n_resources)
        self._capacity = _capacity(capacity, self.resources)
        # What a single arrival is divided by, at once; by nothing where there is some of nothing.
        self._divisor = (
            None if self._capacity is None or 0 in self._capacity else self._capacity.tolist()
        )
        self._arrived = 0
        self._weight_arrived = 0.0
        self._most_weight = self.total_weight * (1.0 + ROUNDING)
        self._weights = np.zeros(8)

    def arrive(self, demand: Sequence[float] | FloatArray, weight: float = 1.0) -> float:
        """Add one agent.

        Parameters
        ----------
        demand : (R,) array
            What one task of the agent takes of each resource; zeros are admitted.

        Returns
        -------
        float
            The least level of all agents after the step, M.

        Raises
        ------
        InputError
            For a demand or a weight without meaning, or when everybody announced is there; nothing
            has changed then.
        RefusalError
            When the solver does not admit a zero demand.

        Notes
        -----
        Some microseconds, with ``"stack"``.
        """
        steps = self._steps
        values = demand.tolist() if isinstance(demand, np.ndarray) else demand
        try:
            shares = values
            if self._divisor is not None:
                shares = [v / c for v, c in zip(values, self._divisor, strict=True)]
            largest = max(shares)
            is_plain = (
                (self._capacity is None or shares is not values)
                and len(values) == len(self.resources)
                and min(shares) >= 0
                and 0 < sum(shares) < inf  # a NaN is not
                and weight > 0
                and self._weight_arrived + weight <= self._most_weight
                and self._arrived < self.announced
            )
        except (TypeError, ValueError, OverflowError):
            is_plain = False
        if not is_plain or not isinstance(steps, StackSteps):
            return float(self.arrive_all([values], [weight])[0])
        self._weight_arrived += weight
        level = steps.take_in_one([share / largest for share in shares], weight, self.budget)
        if self._arrived == len(self._weights):
            self._widen(self._arrived + 1)
        self._weights[self._arrived] = weight
        self._arrived += 1
        return level

    def arrive_all(self, demands: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
        """Add several agents, one after another.

        Parameters
        ----------
        demands : (K, R) array
            What one task of each takes of each resource, in order of arrival.
        weights : (K,) array, optional
            1 when absent.

        Returns
        -------
        (K,) float
            The least level of all agents after each step.

        Raises
        ------
        InputError, RefusalError
            As `arrive`; nobody has arrived then.
        """
        demand = self._checked_demands(demands)
        weight = self._checked_weights(weights, len(demand))
        arrived = np.cumsum(np.concatenate([[self._weight_arrived], weight]))[1:]
        self._refuse_unannounced(arrived)
        level = self._steps.take_in(demand, weight, np.minimum(1.0, arrived / self.total_weight))
        if len(arrived):
            self._weight_arrived = float(arrived[-1])
            last = self._arrived + len(weight)
            if last > len(self._weights):
                self._widen(last)
            self._weights[self._arrived : last] = weight
            self._arrived = last
        return level

    @property
    def arrived(self) -> int:
        """How many agents have arrived."""
        return self._arrived

    @property
    def budget(self) -> float:
        """The fraction of every resource that may be in use."""
        return min(1.0, self._weight_arrived / self.total_weight)

    @property
    def used(self) -> FloatArray:
        """(R,) float: the fraction of each resource that is in use."""
        return self._steps.used

    @property
    def weights(self) -> FloatArray:
        """(k,) float: the weights of those who have arrived."""
        return self._weights[: self._arrived].copy()

    @property
    def log(self) -> LevelLog:
        """The levels after every step."""
        return self._steps.log

    @property
    def levels(self) -> FloatArray:
        """(k,) float: everybody's dominant share per unit of weight. O(k)."""
        return self.log.levels_at(self._arrived)

    @property
    def shares(self) -> FloatArray:
        """(k,) float: everybody's dominant share. O(k)."""
        return self.levels * self._weights[: self._arrived]

    def shares_at(self, step: int) -> FloatArray:
        """Return (step,) the dominant shares of those present after an earlier step. O(k).

        Raises
        ------
        InputError
            When there has been no such step.
        """
        if not 1 <= step <= self._arrived:
            raise InputError(f"must be between 1 and {self._arrived}, not {step}", "step")
        return self.log.levels_at(step) * self._weights[:step]

    def _widen(self, length: int) -> None:
        wider = np.zeros(max(2 * len(self._weights), length))
        wider[: self._arrived] = self._weights[: self._arrived]
        self._weights = wider

    def _checked_demands(self, demands: ArrayLike) -> FloatArray:
        """Return the demands as shares of the pool, the largest of a row being 1."""
        demand = _numbers(demands, "demand")
        n_resources = len(self.resources)
        if demand.size == 0:
            demand = demand.reshape(0, n_resources)
        if demand.ndim != 2 or demand.shape[1] != n_resources:
            fault = f"must have {n_resources} amounts each"
            if demand.ndim == 2:
                fault += f", not {demand.shape[1]}"
            raise InputError(fault, "demand")
        usable = (demand >= 0) & (demand < inf)
        for k, r in np.argwhere(~usable)[:1]:
            place = self._place("demand", int(k), len(demand)) + f".{self.resources[r]}"
            raise InputError(f"must be a finite number >= 0, not {demand[k, r]:g}", place)
        if self._capacity is not None:
            for k, r in np.argwhere((demand > 0) & (self._capacity == 0))[:1]:
                place = self._place("demand", int(k), len(demand)) + f".{self.resources[r]}"
                raise InputError("there is nothing of this resource", place)
            demand = demand / np.where(self._capacity > 0, self._capacity, 1.0)
        largest = demand.max(axis=1, initial=0.0)
        for k in np.flatnonzero(~((largest > 0) & (largest < inf)))[:1]:
            fault = "demands nothing" if largest[k] == 0 else "is too large for the capacity"
            raise InputError(fault, self._place("demand", int(k), len(demand)))
        demand = np.ascontiguousarray(demand / largest[:, None])
        if self.solver in POSITIVE_ONLY and not (demand > 0).all():
            raise RefusalError("dynamic", f"the solver {self.solver!r} admits no zero demands")
        return demand

    def _checked_weights(self, weights: ArrayLike | None, length: int) -> FloatArray:
        weight = np.ones(length) if weights is None else _numbers(weights, "weight")
        if weight.shape != (length,):
            raise InputError(f"must be {length} numbers, not of shape {weight.shape}", "weight")
        for k in np.flatnonzero(~((weight > 0) & (weight < inf)))[:1]:
            place = self._place("weight", int(k), length)
            raise InputError(f"must be a positive number, not {weight[k]:g}", place)
        return weight

    def _refuse_unannounced(self, arrived: FloatArray) -> None:
        """Refuse more agents, or more weight, than was announced."""
        if self._arrived + len(arrived) > self.announced:
            if self._arrived == self.announced:
                raise InputError(f"an arrival after the last of {self.announced} steps")
            raise InputError(
                f"{self._arrived + len(arrived)} arrivals where {self.announced} were announced"
            )
        if len(arrived) and not arrived[-1] <= self._most_weight:
            raise InputError(
                f"weights add up to {arrived[-1]:g}, more than the {self.total_weight:g} announced",
                "weight",
            )

    @staticmethod
    def _place(what: str, k: int, length: int) -> str:
        return what if length == 1 else f"{what}[{k}]"


def _numbers(values: ArrayLike, place: str) -> FloatArray:
    try:
        numbers: FloatArray = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError("must be numbers, as many in each row", place) from None
    return numbers


def _positive(value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not (isfinite(number) and number > 0):
        raise InputError(f"must be a positive number, not {value!r}", "total_weight")
    return number


def _names(resources: int | Sequence[str]) -> tuple[str, ...]:
    if isinstance(resources, str):
        raise InputError(f"must be a number or several names, not {resources!r}", "resources")
    if isinstance(resources, Sequence):
        if not resources:
            raise InputError("names none", "resources")
        if len(set(resources)) < len(resources):
            raise InputError("names one twice", "resources")
        return texts(resources, "resources")
    return tuple(f"r{r + 1}" for r in range(whole_number(resources, "resources", 1)))


def _capacity(capacity: ArrayLike | None, resources: tuple[str, ...]) -> FloatArray | None:
    if capacity is None:
        return None
    given = _numbers(capacity, "capacity")
    if given.shape != (len(resources),):
        raise InputError(f"must be {len(resources)} numbers", "capacity")
    for r in np.flatnonzero(~((given >= 0) & (given < inf)))[:1]:
        fault = f"must be a finite number >= 0, not {given[r]:g}"
        raise InputError(fault, f"capacity.{resources[r]}")
    return given
