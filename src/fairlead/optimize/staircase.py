"""Raise the lowest of those who came, again and again, under a budget that grows with each arrival.

At each step somebody arrives with nothing, and the lowest levels are raised together until a
resource is used up to the budget; whoever uses it stops there, the others go on. Who uses the same
resources (a *kind*) stops at the same moment, so within a kind later arrivals never have more than
earlier ones: its levels are stairs, the newcomer the lowest. A step adds a stair at the bottom and
raises it; reaching the next stair, the two become one. Each arrival adds one stair, and a stair
disappears once, so a step costs O(m) on average where all use all m resources.

The kernels keep their state in arrays that Python makes and enlarges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.optimize.compiling import inner_kernel, kernel

NOBODY = -1
# Entries of `counts`.
KINDS, STAIRS, RISES, FREE = 0, 1, 2, 3


class Staircase(NamedTuple):
    """The state of all steps so far.

    Attributes
    ----------
    uses : (K, m) bool
        Which resources each kind uses.
    bottom : (K,) int
        Its lowest stair.
    level : (S,) float
        Level of each stair.
    rate : (S, m) float
        What all on the stair take of each resource per unit of level.
    above : (S,) int
        The next stair up, or `NOBODY`; of a stair that is free, the next free one.
    used : (m,) float
        What is used of each resource.
    rise_step, rise_kind : (L,) int
    rise_level : (L,) float
        Which kinds' lowest stairs rose at which step, and to where.
    counts : (4,) int
        How many kinds, stairs (free ones included) and rises there are, and the first free stair.
    active, rose : (K,) bool
    front_rate : (m,) float
    exhausted : (m,) bool
        Room to work in.
    """

    uses: BoolArray
    bottom: IntArray
    level: FloatArray
    rate: FloatArray
    above: IntArray
    used: FloatArray
    rise_step: IntArray
    rise_kind: IntArray
    rise_level: FloatArray
    counts: IntArray
    active: BoolArray
    rose: BoolArray
    front_rate: FloatArray
    exhausted: BoolArray


# What is as long as there are kinds, stairs and rises.
_PER_KIND = ("uses", "bottom", "active", "rose")
_PER_STAIR = ("level", "rate", "above")
_PER_RISE = ("rise_step", "rise_kind", "rise_level")
_SMALLEST = 16


def empty_staircase(n_resources: int) -> Staircase:
    """Return the state before anybody came."""
    m, size = n_resources, _SMALLEST
    return Staircase(
        uses=np.zeros((size, m), dtype=np.bool_),
        bottom=np.full(size, NOBODY, dtype=np.int64),
        level=np.zeros(size),
        rate=np.zeros((size, m)),
        above=np.full(size, NOBODY, dtype=np.int64),
        used=np.zeros(m),
        rise_step=np.zeros(size, dtype=np.int64),
        rise_kind=np.zeros(size, dtype=np.int64),
        rise_level=np.zeros(size),
        counts=np.array([0, 0, 0, NOBODY], dtype=np.int64),
        active=np.zeros(size, dtype=np.bool_),
        rose=np.zeros(size, dtype=np.bool_),
        front_rate=np.zeros(m),
        exhausted=np.zeros(m, dtype=np.bool_),
    )


def with_room(stairs: Staircase) -> Staircase:
    """Return the state with room for one more arrival at least; doubles what is full."""
    kinds, used_stairs, rises, _ = stairs.counts.tolist()
    larger = {}
    for names, needed in (
        (_PER_KIND, kinds + 1),
        (_PER_STAIR, used_stairs + 1),
        (_PER_RISE, rises + kinds + 1),
    ):
        for name in names:
            array = getattr(stairs, name)
            if len(array) < needed:
                wider = np.zeros((2 * needed, *array.shape[1:]), dtype=array.dtype)
                wider[: len(array)] = array
                larger[name] = wider
    return stairs._replace(**larger)


@inner_kernel
def _find_kind(stairs: Staircase, demand: FloatArray) -> int:
    """Return the kind of those who use the same resources, made if there is none."""
    n_resources = len(demand)
    for kind in range(stairs.counts[KINDS]):
        same = True
        for r in range(n_resources):
            if stairs.uses[kind, r] != (demand[r] > 0):
                same = False
                break
        if same:
            return kind
    kind = int(stairs.counts[KINDS])
    stairs.counts[KINDS] = kind + 1
    for r in range(n_resources):
        stairs.uses[kind, r] = demand[r] > 0
    stairs.bottom[kind] = NOBODY
    return kind


@inner_kernel
def _add_stair(stairs: Staircase, kind: int, demand: FloatArray, weight: float) -> None:
    """Put a newcomer, who has nothing, on a stair of its own below the others of its kind."""
    stair = stairs.counts[FREE]
    if stair == NOBODY:
        stair = stairs.counts[STAIRS]
        stairs.counts[STAIRS] = stair + 1
    else:
        stairs.counts[FREE] = stairs.above[stair]
    stairs.level[stair] = 0.0
    for r in range(len(demand)):
        stairs.rate[stair, r] = weight * demand[r]
    stairs.above[stair] = stairs.bottom[kind]
    stairs.bottom[kind] = stair


@inner_kernel
def _merge_up(stairs: Staircase, kind: int) -> None:
    """Make one stair of the lowest and those it has reached."""
    stair = stairs.bottom[kind]
    above = stairs.above[stair]
    while above != NOBODY and stairs.level[above] <= stairs.level[stair]:
        for r in range(stairs.rate.shape[1]):
            stairs.rate[above, r] += stairs.rate[stair, r]
        stairs.above[stair] = stairs.counts[FREE]
        stairs.counts[FREE] = stair
        stairs.bottom[kind] = above
        stair, above = above, stairs.above[above]


@inner_kernel
def _front(stairs: Staircase) -> tuple[float, float]:
    """Return the lowest level of the active kinds, and the next at which somebody joins them.

    Leaves in `front_rate` what those on the lowest level take together.
    """
    kinds = stairs.counts[KINDS]
    lowest = following = np.inf
    for kind in range(kinds):
        if stairs.active[kind]:
            lowest = min(lowest, stairs.level[stairs.bottom[kind]])
    for r in range(len(stairs.front_rate)):
        stairs.front_rate[r] = 0.0
    for kind in range(kinds):
        if not stairs.active[kind]:
            continue
        stair = stairs.bottom[kind]
        if stairs.level[stair] > lowest:
            following = min(following, stairs.level[stair])
            continue
        for r in range(len(stairs.front_rate)):
            stairs.front_rate[r] += stairs.rate[stair, r]
        if stairs.above[stair] != NOBODY:
            following = min(following, stairs.level[stairs.above[stair]])
    return lowest, following


@inner_kernel
def _raise_front(stairs: Staircase, lowest: float, reached: float) -> None:
    """Raise all active kinds on the lowest level to a higher one."""
    for r in range(len(stairs.used)):
        stairs.used[r] += (reached - lowest) * stairs.front_rate[r]
    for kind in range(stairs.counts[KINDS]):
        if stairs.active[kind] and stairs.level[stairs.bottom[kind]] <= lowest:
            stairs.level[stairs.bottom[kind]] = reached
            stairs.rose[kind] = True
            _merge_up(stairs, kind)


@inner_kernel
def _find_exhaustion(stairs: Staircase, budget: float, lowest: float) -> float:
    """Return the level at which the front uses up a resource, and mark which it uses up there."""
    full = np.inf
    for r in range(len(stairs.used)):
        stairs.exhausted[r] = False
        if stairs.front_rate[r] > 0:
            full = min(full, lowest + max(budget - stairs.used[r], 0.0) / stairs.front_rate[r])
    for r in range(len(stairs.used)):
        if stairs.front_rate[r] > 0:
            reached = lowest + max(budget - stairs.used[r], 0.0) / stairs.front_rate[r]
            stairs.exhausted[r] = reached <= full
    return full


@inner_kernel
def _stop_at(stairs: Staircase, budget: float) -> None:
    """Stop all who use a resource that is used up; what is used of it is all, to the last digit."""
    for r in range(len(stairs.used)):
        if not stairs.exhausted[r]:
            continue
        stairs.used[r] = budget
        for kind in range(stairs.counts[KINDS]):
            if stairs.uses[kind, r]:
                stairs.active[kind] = False


@inner_kernel
def _fill(stairs: Staircase, budget: float) -> None:
    """Raise the lowest together until nobody can be raised under the budget."""
    while True:
        lowest, following = _front(stairs)
        if lowest == np.inf:
            return
        full = _find_exhaustion(stairs, budget, lowest)
        _raise_front(stairs, lowest, min(full, following))
        if full <= following:
            _stop_at(stairs, budget)


@kernel
def arrive_many(
    stairs: Staircase,
    first_step: int,
    demand: FloatArray,
    weight: FloatArray,
    budget: FloatArray,
    levels: FloatArray,
) -> int:
    """Let agents arrive one after another.

    Parameters
    ----------
    stairs : Staircase
        Changed in place.
    first_step : int
        The number of the first of these steps, counted from 1.
    demand : (k, m) float
        What each takes of each resource per unit of its level, as a part of all there is.
    weight : (k,) float
    budget : (k,) float
        The part of each resource that may be used at each step.
    levels : (k,) float
        Room for the least level of all after each step.

    Returns
    -------
    int
        How many arrived; fewer than k when the arrays are full (see `with_room`).

    Notes
    -----
    O(m) a step on average where all use all resources; with K kinds O(K m) for each stair and
    each resource that is used up.
    """
    for k in range(len(demand)):
        kinds = stairs.counts[KINDS]
        if (
            kinds >= len(stairs.bottom)
            or stairs.counts[STAIRS] >= len(stairs.level)
            or stairs.counts[RISES] + kinds + 1 > len(stairs.rise_step)
        ):
            return k
        _add_stair(stairs, _find_kind(stairs, demand[k]), demand[k], weight[k])
        for kind in range(stairs.counts[KINDS]):
            stairs.active[kind] = True
            stairs.rose[kind] = False
        _fill(stairs, budget[k])
        least = np.inf
        for kind in range(stairs.counts[KINDS]):
            level = stairs.level[stairs.bottom[kind]]
            least = min(least, level)
            if stairs.rose[kind]:
                rise = stairs.counts[RISES]
                stairs.rise_step[rise] = first_step + k
                stairs.rise_kind[rise] = kind
                stairs.rise_level[rise] = level
                stairs.counts[RISES] = rise + 1
        levels[k] = least
    return len(demand)
