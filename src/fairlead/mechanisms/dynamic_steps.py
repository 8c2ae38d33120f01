"""The solvers of dynamic DRF behind one face: take in arrivals, keep the log of levels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import FloatArray
from fairlead.solvers.level_log import LevelLog
from fairlead.solvers.rising import RaiseLevels, raise_by_halving, raise_by_lp, raise_by_water
from fairlead.solvers.staircase import Staircase, State

PORTION = 2**16  # agents that are handed over at once; lists of more take memory


class Steps(Protocol):
    """What is held, step by step."""

    def take_in(self, demand: FloatArray, weight: FloatArray, budget: FloatArray) -> FloatArray:
        """Add agents one after another; return (K,) the least level after each.

        `demand` (K, R) is per unit of dominant share, with 1 as the largest of a row; `weight` (K,)
        is dominant share per unit of level; `budget` (K,) bounds each resource after each arrival.
        """

    @property
    def used(self) -> FloatArray:
        """(R,) float: how much of each resource is used."""

    @property
    def log(self) -> LevelLog:
        """What rose when."""


class StackSteps:
    """Stacks of stairs, compiled: amortised O(R) a step. See `fairlead.solvers.staircase`."""

    def __init__(self, n_resources: int) -> None:
        self._n_resources = n_resources
        self._stairs = Staircase(n_resources)

    def __getstate__(self) -> tuple[int, State]:
        """Return what copies and pickles keep; compiled objects have no copies."""
        return self._n_resources, self._stairs.state()

    def __setstate__(self, state: tuple[int, State]) -> None:
        self._n_resources, stairs = state
        self._stairs = Staircase(self._n_resources)
        self._stairs.restore(stairs)

    def take_in(self, demand: FloatArray, weight: FloatArray, budget: FloatArray) -> FloatArray:
        """See `Steps.take_in`."""
        level: list[float] = []
        for begin in range(0, len(weight), PORTION):
            some = slice(begin, begin + PORTION)
            level += self._stairs.take_in(
                demand[some].ravel().tolist(), weight[some].tolist(), budget[some].tolist()
            )
        return np.array(level)

    def take_in_one(self, demand: list[float], weight: float, budget: float) -> float:
        """Add a single agent, as a plain list; return the least level."""
        return self._stairs.take_in(demand, [weight], [budget])[0]

    @property
    def used(self) -> FloatArray:
        """See `Steps.used`."""
        return np.array(memoryview(self._stairs.used))

    @property
    def log(self) -> LevelLog:
        """See `Steps.log`."""
        stairs = self._stairs
        return LevelLog(
            np.array(memoryview(stairs.kind)),
            np.array(memoryview(stairs.log_step)),
            np.array(memoryview(stairs.log_kind)),
            np.array(memoryview(stairs.log_level)),
        )


class PlainSteps:
    """A rule that raises everybody's levels, anew at each step: O(P R) a step or more."""

    def __init__(self, n_resources: int, raise_levels: RaiseLevels) -> None:
        self._raise = raise_levels
        self._use = np.zeros((8, n_resources))
        self._level = np.zeros(8)
        self._kinds: dict[bytes, int] = {}
        self._newest: list[int] = []  # of each kind: the lowest, too
        self._kind: list[int] = []
        self._entries: list[tuple[int, int, float]] = []

    def take_in(self, demand: FloatArray, weight: FloatArray, budget: FloatArray) -> FloatArray:
        """See `Steps.take_in`."""
        rows = zip(demand, weight.tolist(), budget.tolist(), strict=True)
        return np.array([self._arrive(row, w, b) for row, w, b in rows])

    def _arrive(self, demand: FloatArray, weight: float, budget: float) -> float:
        k = len(self._kind)
        if k == len(self._level):
            self._use = np.concatenate([self._use, np.zeros_like(self._use)])
            self._level = np.concatenate([self._level, np.zeros_like(self._level)])
        self._use[k] = weight * demand
        self._level[k] = 0.0
        level = self._raise(self._use[: k + 1], self._level[: k + 1], budget)
        kind = self._kinds.setdefault((demand > 0).tobytes(), len(self._kinds))
        if kind == len(self._newest):
            self._newest.append(k)
        before = self._level[self._newest]
        before[kind] = -1.0  # the newcomer's kind is logged wherever it ends
        self._newest[kind] = k
        self._kind.append(kind)
        after = level[self._newest]
        for other in np.flatnonzero(after > before).tolist():
            self._entries.append((k + 1, other, float(after[other])))
        self._level[: k + 1] = level
        return float(level.min())

    @property
    def used(self) -> FloatArray:
        """See `Steps.used`."""
        k = len(self._kind)
        used: FloatArray = self._level[:k] @ self._use[:k]
        return used

    @property
    def log(self) -> LevelLog:
        """See `Steps.log`."""
        step, kind, level = zip(*self._entries, strict=True) if self._entries else ((), (), ())
        return LevelLog(
            np.array(self._kind, dtype=np.int64),
            np.array(step, dtype=np.int64),
            np.array(kind, dtype=np.int64),
            np.array(level, dtype=np.float64),
        )


SOLVERS: dict[str, Callable[[int], Steps]] = {
    "stack": StackSteps,
    "halving": lambda n_resources: PlainSteps(n_resources, raise_by_halving),
    "water": lambda n_resources: PlainSteps(n_resources, raise_by_water),
    "lp": lambda n_resources: PlainSteps(n_resources, raise_by_lp),
}
# Halving rests on all agents stopping together, which takes that everybody demands everything.
POSITIVE_ONLY = frozenset({"halving"})


def start_steps(solver: str, n_resources: int) -> Steps:
    """Return a solver that nobody has come to yet; raise InputError when none has that name."""
    if solver not in SOLVERS:
        known = ", ".join(SOLVERS)
        raise InputError(f"no solver is named {solver!r}; known: {known}", "solver")
    return SOLVERS[solver](n_resources)
