"""One level's programme and its solution, as data.

The letters are those of `fairlead.solvers.interior`, which solves it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.model.cluster import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class LevelProgramme:
    """The data of one programme, in the letters of the solver's text."""

    # (N, R): d, per unit of a user's x, scaled so that x, c and p are of moderate size.
    demand: FloatArray
    allowed: BoolArray  # (N, G): where each user may run; at least one group per user
    need: FloatArray  # (N,): w, what each user needs per unit of level; 0 for users that are fixed
    fixed: FloatArray  # (N,): b, what each user needs whatever the level
    capacity: FloatArray  # (G, R): c
    # (G, R): a, what users that are not listed take of each resource per unit of level.
    slope: FloatArray
    # (G, R): rows known to be used up in every solution: their slack is 0 and their price free.
    exhausted: BoolArray


@dataclass(frozen=True, eq=False)
class LevelSolution:
    """An optimal level with its prices."""

    level: float  # t
    split: FloatArray  # (N, G): x
    slack: FloatArray  # (G, R): s, 0 on exhausted rows
    prices: FloatArray  # (G, R): p
    value: FloatArray  # (N,): y, the price of one unit of each user
    # (N, G): z, how much dearer a unit is on a group than on the user's cheapest one.
    reduced_cost: FloatArray
    # Largest relative residual of the optimality conditions, the duality gap among them.
    residual: float
    iterations: int  # Newton steps taken
