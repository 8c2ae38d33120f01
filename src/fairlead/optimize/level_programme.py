"""One level's programme and its solution, as data.

The letters are those of `fairlead.optimize.interior`, which solves it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.model.cluster import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class LevelProgramme:
    """The data of one programme, in the letters of the solver's text.

    Attributes
    ----------
    demand : (N, R) float
        d, per unit of a user's x, scaled so that x, c and p are of moderate size.
    allowed : (N, G) bool
        Where each user may run; at least one group per user.
    need : (N,) float
        w, what each user needs per unit of level; 0 for users that are fixed.
    fixed : (N,) float
        b, what each user needs whatever the level.
    capacity : (G, R) float
        c.
    slope : (G, R) float
        a, what users that are not listed take of each resource per unit of level.
    exhausted : (G, R) bool
        Rows known to be used up in every solution: their slack is 0 and their price free.
    """

    demand: FloatArray
    allowed: BoolArray
    need: FloatArray
    fixed: FloatArray
    capacity: FloatArray
    slope: FloatArray
    exhausted: BoolArray


@dataclass(frozen=True, eq=False)
class LevelSolution:
    """An optimal level with its prices.

    Attributes
    ----------
    level : float
        t.
    split : (N, G) float
        x.
    slack : (G, R) float
        s, 0 on exhausted rows.
    prices : (G, R) float
        p.
    value : (N,) float
        y, the price of one unit of each user.
    reduced_cost : (N, G) float
        z, how much dearer a unit is on a group than on the user's cheapest one.
    residual : float
        Largest relative residual of the optimality conditions, the duality gap among them.
    iterations : int
        Newton steps taken.
    """

    level: float
    split: FloatArray
    slack: FloatArray
    prices: FloatArray
    value: FloatArray
    reduced_cost: FloatArray
    residual: float
    iterations: int
