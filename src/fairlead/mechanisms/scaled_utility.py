"""Utilities in units in which a solver finds them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.optimize.concave_system import Utility

# What a unit is worth to those who get it in any case; the price of everything together is 1.
AMPLE = 1e3


@dataclass(frozen=True, eq=False)
class OfParts:
    """A utility of what a user has as a part of what it could have alone, (N,)."""

    raw: Utility
    alone: FloatArray

    def log_marginal(self, amount: FloatArray) -> FloatArray:
        """Return the logarithm of what one more such part is worth, (N,)."""
        return self.raw.log_marginal(amount * self.alone) + np.log(self.alone)

    def elasticity(self, amount: FloatArray) -> FloatArray:
        """Return by how much that falls where parts grow, relative, (N,)."""
        return self.raw.elasticity(amount * self.alone)


@dataclass(frozen=True, eq=False)
class Scaled:
    """A utility of what a user has as a part of what it could have alone.

    Its unit is such that the uniform slices of all users together are worth about 1. All resources
    together then cost about 1, and one unit no more. To users who get their limit in any case
    (`sated`) every task is worth the same, lest a number like f'(limit) drown all others.

    Attributes
    ----------
    alone : (N,) float
        What each user could have alone.
    start : (N,) float
        Its uniform slice, as a part of that.
    offset : float
        Logarithm of the unit.
    sated : (N,) bool
        Users that get all up to their limit in any case.
    """

    raw: Utility
    alone: FloatArray
    start: FloatArray
    offset: float
    sated: BoolArray

    @classmethod
    def of(
        cls,
        raw: Utility,
        alone: FloatArray,
        start: FloatArray,
        limit: FloatArray,
        settled: BoolArray | None = None,
    ) -> Scaled:
        """Return it; those who are settled get their limit in any case, whatever it is worth."""
        logs = raw.log_marginal(alone * start) + np.log(alone * start)
        done = np.zeros(len(alone), dtype=bool) if settled is None else settled
        logs = logs[~done]
        largest = float(logs.max())
        offset = largest + float(np.log(np.exp(logs - largest).sum()))
        last = np.where(np.isfinite(limit), limit, 1.0)
        worth = raw.log_marginal(alone * last) + np.log(alone) - offset
        sated = done | (np.isfinite(limit) & (worth > np.log(AMPLE)))
        return cls(raw, alone, start, offset, sated)

    def log_marginal(self, amount: FloatArray) -> FloatArray:
        """Return the logarithm of what one more such part is worth, (N,)."""
        logs = self.raw.log_marginal(amount * self.alone) + np.log(self.alone) - self.offset
        return np.where(self.sated, np.log(AMPLE), logs)

    def elasticity(self, amount: FloatArray) -> FloatArray:
        """Return by how much that falls where parts grow, relative, (N,)."""
        return np.where(self.sated, 0.0, self.raw.elasticity(amount * self.alone))
