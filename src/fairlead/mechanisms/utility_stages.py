"""Sums of steep utilities in stages: those who spend most are settled first.

Where some users spend 10^20 times what others spend, a solver that sees all of them at once finds
the totals of the rich, and leaves the others what rounding leaves. So the totals of those who spend
most are kept, as limits that they reach in any case, but not where they run; then the same is
solved again with the others in sight. A solver gets utilities in units of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairlead.certificates.utility_stages import SIGHT, Stage
from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.solvers.concave import maximize_concave, raise_together
from fairlead.solvers.concave_path import UtilityPath
from fairlead.solvers.concave_system import ConcaveProgramme, ConcaveSolution, System, Utility

# A stage whose conditions are met to this part is not solved again from elsewhere.
CLOSE = 3e-8
# No proof comes of one that misses them by more.
ACCEPTED = 1e-6
STRIDE = 1.5
# No solver starts where somebody has less, as a part of what it could have alone.
LEAST = 1e-12
# What a unit is worth to those who get it in any case; the price of everything together is 1.
AMPLE = 1e3


def maximize_in_stages(
    programme: ConcaveProgramme, path: UtilityPath
) -> tuple[ConcaveSolution, list[Stage]]:
    """Find a split of the largest sum of utilities, and the prices of each stage.

    Parameters
    ----------
    programme : ConcaveProgramme
        Its utility is not looked at.
    path : UtilityPath
        From gentler utilities to the one that is wanted, of what users have in its units.

    Returns
    -------
    ConcaveSolution
        That of the last stage, at which everybody has what is its due.
    list of Stage

    Raises
    ------
    NoConvergenceError
        Where a stage is not solved.

    Notes
    -----
    At most one stage for each user; each a few times `maximize_concave`.
    """
    utility = path.at(path.last)
    settled = np.zeros(len(programme.limit), dtype=bool)
    total, stages = programme.start, []
    while True:
        limit = np.where(settled, total, programme.limit)
        solution, unit = _solved(replace(programme, limit=limit), settled, path)
        stages.append(Stage(solution.prices, unit))
        total = np.where(settled, total, np.maximum(solution.split.sum(axis=1), LEAST))
        logs = utility.log_marginal(total) - unit
        cost = np.where(programme.allowed, System(programme).cost(solution.prices), np.inf)
        with np.errstate(divide="ignore"):
            pays = np.log(total) + np.minimum(logs, np.log(cost.min(axis=1)))
        seen = np.log(total) + logs >= np.log(SIGHT) + pays[~settled].max()
        settled = settled | seen
        if settled.all():
            return solution, stages


def _solved(
    programme: ConcaveProgramme, settled: BoolArray, path: UtilityPath
) -> tuple[ConcaveSolution, float]:
    """Solve one stage from several starts, until one comes close; return the closest."""
    best: tuple[ConcaveSolution, float] | None = None
    even = np.minimum(programme.start, programme.limit)
    even = np.where(settled, programme.limit, even)
    starts = [even]
    raised = raise_together(programme, settled, _alike(even, settled, path))
    if raised is not None:
        starts.insert(0, np.maximum(raised, LEAST))
    for start, gently in [*((start, False) for start in starts), (even, True)]:
        found = _from(programme, settled, path, start, gently)
        if found is not None and (best is None or found[0].gap < best[0].gap):
            best = found
        if best is not None and best[0].gap <= CLOSE:
            return best
    if best is None or best[0].gap > ACCEPTED:
        raise NoConvergenceError(
            f"marginal utilities lie too far apart: {settled.sum()} of {len(settled)} users settled"
        )
    return best


def _alike(even: FloatArray, settled: BoolArray, path: UtilityPath) -> FloatArray:
    """Return amounts at which one more unit is worth about the same to all not settled."""
    utility = path.at(path.last)
    logs = utility.log_marginal(even)
    bend = np.maximum(utility.elasticity(even), 1.0)
    alike: FloatArray = even * np.exp((logs - logs[~settled].max()) / bend)
    return np.where(settled, even, np.clip(alike, LEAST, even))


def _from(
    programme: ConcaveProgramme,
    settled: BoolArray,
    path: UtilityPath,
    start: FloatArray,
    gently: bool,
) -> tuple[ConcaveSolution, float] | None:
    """Solve a stage from a start, by way of gentler utilities if asked for; None if not solved."""
    places = [path.first] if gently else [path.last]
    while places[-1] < path.last:
        places.append(min(STRIDE * places[-1], path.last))
    if places[-1] != path.last:
        return None
    found = None
    for place in places:
        utility = Scaled.of(path.at(place), np.ones(len(start)), start, programme.limit, settled)
        try:
            solution = maximize_concave(replace(programme, start=start, utility=utility))
        except NoConvergenceError:
            found = None
            continue
        found = solution, utility.offset
        total = np.maximum(solution.split.sum(axis=1), LEAST)
        start = np.where(settled, programme.limit, total)
    return found


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
    """

    raw: Utility
    alone: FloatArray  # (N,): what each user could have alone
    start: FloatArray  # (N,): its uniform slice, as a part of that
    offset: float  # logarithm of the unit
    sated: BoolArray  # (N,): users that get all up to their limit in any case

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
