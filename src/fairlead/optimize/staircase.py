"""Raise levels under a budget that grows as participants arrive; nobody's level ever falls.

At each step one participant arrives, at level 0, and the budget of every resource grows. Then the
participants of least level rise together until a resource that they demand is used up; the others
go on, until nobody can rise. Participants that demand the same set of resources (of one *kind*)
stop together, so among them whoever came later is never above whoever came earlier: their levels
are a staircase, and only its lowest stairs move. Kept as a stack of stairs per kind, merged as they
meet, a step costs amortised O(R) where everybody is of one kind; with K kinds each stair that is
reached costs O(K R).

What happened is kept as a log of the least level of each kind after each step in which it rose; see
`fairlead.optimize.level_log`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.optimize.compiling import inner_kernel, kernel

NOBODY = -1
# Resources are used up, too, that miss no more than this, relative, when another is used up.
ROUNDING = 4e-16
IDLE, WAITING, RISING = 0, 1, 2  # states of a kind within a step

# Places in `Staircase.tally`.
ARRIVED, STAIRS, FREE, KINDS, ENTRIES = range(5)


class Staircase(NamedTuple):
    """Stairs of every kind, in one pool, and the log. R resources; the rest grows."""

    # (5,): participants that arrived, stairs ever taken from the pool, the first stair given back
    # (or `NOBODY`), kinds, and entries of the log.
    tally: IntArray
    level: FloatArray  # (S,)
    # (S, R): amount of each resource that the participants on the stair take per unit of level.
    use: FloatArray
    above: IntArray  # (S,): the next higher stair of the kind, or of those given back
    demands: BoolArray  # (K, R): which resources each kind demands
    bottom: IntArray  # (K,): the lowest stair of each kind
    state: IntArray  # (K,): whether the kind can rise, and does; of use within a step only
    used: FloatArray  # (R,): amount of each resource that is used
    # (R,): amount that those who rise take per unit of level; of use within a step only.
    rate: FloatArray
    exhausted: BoolArray  # (R,): of use within a step only
    kind: IntArray  # (P,): kind of each participant
    # (L,): steps, counted from 1, in which a kind rose.
    log_step: IntArray
    log_kind: IntArray
    log_level: FloatArray  # (L,): its least level afterwards


def empty_staircase(n_resources: int) -> Staircase:
    """Return a staircase without stairs, and room for a few."""
    few = 8
    return Staircase(
        tally=np.array([0, 0, NOBODY, 0, 0]),
        level=np.zeros(few),
        use=np.zeros((few, n_resources)),
        above=np.zeros(few, dtype=np.int64),
        demands=np.zeros((few, n_resources), dtype=np.bool_),
        bottom=np.zeros(few, dtype=np.int64),
        state=np.zeros(few, dtype=np.int64),
        used=np.zeros(n_resources),
        rate=np.zeros(n_resources),
        exhausted=np.zeros(n_resources, dtype=np.bool_),
        kind=np.zeros(few, dtype=np.int64),
        log_step=np.zeros(few, dtype=np.int64),
        log_kind=np.zeros(few, dtype=np.int64),
        log_level=np.zeros(few),
    )


def with_room(staircase: Staircase) -> Staircase:
    """Return the staircase with room for one more arrival of any kind, in amortised O(R)."""
    tally = staircase.tally
    kinds = int(tally[KINDS])
    needs = {
        "level": int(tally[STAIRS]) + 1,
        "kind": int(tally[ARRIVED]) + 1,
        "bottom": kinds + 1,
        "log_step": int(tally[ENTRIES]) + kinds + 1,
    }
    together = {
        "level": ("level", "use", "above"),
        "kind": ("kind",),
        "bottom": ("demands", "bottom", "state"),
        "log_step": ("log_step", "log_kind", "log_level"),
    }
    for first, names in together.items():
        room = len(getattr(staircase, first))
        if needs[first] > room:
            wider = {n: _widened(getattr(staircase, n), max(2 * room, needs[first])) for n in names}
            staircase = staircase._replace(**wider)
    return staircase


def _widened(values: NDArray[Any], length: int) -> NDArray[Any]:
    wider = np.zeros((length, *values.shape[1:]), dtype=values.dtype)
    wider[: len(values)] = values
    return wider


@inner_kernel
def _has_room(s: Staircase) -> bool:
    tally = s.tally
    return bool(
        (tally[FREE] != NOBODY or tally[STAIRS] < s.level.size)
        and tally[ARRIVED] < s.kind.size
        and tally[KINDS] < s.bottom.size
        and tally[ENTRIES] + tally[KINDS] < s.log_step.size
    )


@inner_kernel
def _find_kind(s: Staircase, demand: FloatArray, i: int) -> int:
    """Return the kind that demands the same resources as row `i`, a new one if there is none."""
    for kind in range(s.tally[KINDS]):
        is_same = True
        for r in range(s.used.size):
            if s.demands[kind, r] != (demand[i, r] > 0.0):
                is_same = False
                break
        if is_same:
            return kind
    kind = int(s.tally[KINDS])
    s.tally[KINDS] += 1
    for r in range(s.used.size):
        s.demands[kind, r] = demand[i, r] > 0.0
    s.bottom[kind] = NOBODY
    return kind


@inner_kernel
def _add_stair(s: Staircase, kind: int, demand: FloatArray, i: int, weight: float) -> None:
    """Put row `i` at level 0 below everybody of its kind."""
    stair = s.tally[FREE]
    if stair != NOBODY:
        s.tally[FREE] = s.above[stair]
    else:
        stair = s.tally[STAIRS]
        s.tally[STAIRS] += 1
    s.level[stair] = 0.0
    for r in range(s.used.size):
        s.use[stair, r] = weight * demand[i, r]
    s.above[stair] = s.bottom[kind]
    s.bottom[kind] = stair


@inner_kernel
def _merge_up(s: Staircase, kind: int) -> None:
    """Make one stair of the two lowest of a rising kind."""
    stair = s.bottom[kind]
    higher = s.above[stair]
    for r in range(s.used.size):
        s.rate[r] += s.use[higher, r]
        s.use[higher, r] += s.use[stair, r]
    s.bottom[kind] = higher
    s.above[stair] = s.tally[FREE]
    s.tally[FREE] = stair


@inner_kernel
def _find_event(s: Staircase, level: float) -> float:
    """Return the level at which another stair is reached, or infinity."""
    event = np.inf
    for kind in range(s.tally[KINDS]):
        if s.state[kind] == WAITING:
            event = min(event, s.level[s.bottom[kind]])
        elif s.state[kind] == RISING:
            higher = s.above[s.bottom[kind]]
            if higher != NOBODY:
                event = min(event, s.level[higher])
    return max(event, level)


@inner_kernel
def _meet_stairs(s: Staircase, level: float) -> None:
    """Let whoever stands at this level rise from now on."""
    for kind in range(s.tally[KINDS]):
        if s.state[kind] == IDLE:
            continue
        stair = s.bottom[kind]
        if s.state[kind] == WAITING:
            if s.level[stair] > level:
                continue
            s.state[kind] = RISING
            for r in range(s.used.size):
                s.rate[r] += s.use[stair, r]
        while s.above[stair] != NOBODY and s.level[s.above[stair]] <= level:
            _merge_up(s, kind)
            stair = s.bottom[kind]


@inner_kernel
def _find_limit(s: Staircase, budget: float) -> float:
    """Return how far those who rise can rise until a resource is used up."""
    limit = np.inf
    for r in range(s.used.size):
        if s.rate[r] > 0.0:
            limit = min(limit, max(0.0, budget - s.used[r]) / s.rate[r])
    return limit


@inner_kernel
def _use_up(s: Staircase, budget: float, limit: float) -> None:
    """Take what those who rise need for `limit` more, the most that there is."""
    for r in range(s.used.size):
        s.exhausted[r] = False
        if s.rate[r] > 0.0:
            # As `_find_limit` has it, so that the resource which set the limit is among them.
            room = max(0.0, budget - s.used[r]) / s.rate[r]
            s.exhausted[r] = room <= limit * (1.0 + ROUNDING)
            # Set exactly, so that rounding does not pile up over the steps.
            s.used[r] = budget if s.exhausted[r] else s.used[r] + s.rate[r] * limit


@inner_kernel
def _stop(s: Staircase, kind: int, level: float) -> None:
    """Leave a rising kind where it is, and log that."""
    s.state[kind] = IDLE
    s.level[s.bottom[kind]] = level
    entry = s.tally[ENTRIES]
    s.tally[ENTRIES] += 1
    s.log_step[entry] = s.tally[ARRIVED]
    s.log_kind[entry] = kind
    s.log_level[entry] = level


@inner_kernel
def _stop_without(s: Staircase, level: float) -> bool:
    """Stop whoever demands what is used up; whether anybody can still rise."""
    goes_on = False
    s.rate[:] = 0.0
    for kind in range(s.tally[KINDS]):
        if s.state[kind] == IDLE:
            continue
        lacks = False
        for r in range(s.used.size):
            lacks = lacks or (s.exhausted[r] and s.demands[kind, r])
        if lacks:
            if s.state[kind] == RISING:
                _stop(s, kind, level)
            s.state[kind] = IDLE
            continue
        goes_on = True
        if s.state[kind] == RISING:
            for r in range(s.used.size):
                s.rate[r] += s.use[s.bottom[kind], r]
    return goes_on


@inner_kernel
def _rise(s: Staircase, budget: float) -> None:
    """Raise the lowest together, from the newcomer's level 0, until nobody can rise."""
    for kind in range(s.tally[KINDS]):
        s.state[kind] = WAITING
    s.rate[:] = 0.0
    level = 0.0
    while True:
        _meet_stairs(s, level)
        event = _find_event(s, level)
        limit = _find_limit(s, budget)
        if level + limit > event:
            for r in range(s.used.size):
                s.used[r] += s.rate[r] * (event - level)
            level = event
            continue
        if limit == np.inf:  # nobody takes anything that a float can hold
            for kind in range(s.tally[KINDS]):
                if s.state[kind] == RISING:
                    _stop(s, kind, level)
            return
        level += limit
        _use_up(s, budget, limit)
        if not _stop_without(s, level):
            return


@kernel
def take_in(
    s: Staircase, demand: FloatArray, weight: FloatArray, budget: FloatArray, level: FloatArray
) -> int:
    """Let participants arrive one after another, as long as there is room for them.

    Parameters
    ----------
    s : Staircase
        Changed in place.
    demand : (P, R) float
        What each takes per unit of its own share.
    weight : (P,) float
        Each one's share per unit of level.
    budget : (P,) float
        How much of every resource may be used after each arrival; never less than before.
    level : (P,) float
        Set to the least level of all after each arrival.

    Returns
    -------
    int
        How many arrived; where that is fewer than came, make room (`with_room`) and call again
        with the others.

    Notes
    -----
    With K kinds O(R + K) per arrival and O(K R) per stair reached; every arrival adds one stair.
    """
    for i in range(weight.size):
        if not _has_room(s):
            return i
        kind = _find_kind(s, demand, i)
        _add_stair(s, kind, demand, i, weight[i])
        s.kind[s.tally[ARRIVED]] = kind
        s.tally[ARRIVED] += 1
        _rise(s, budget[i])
        least = np.inf
        for other in range(s.tally[KINDS]):
            least = min(least, s.level[s.bottom[other]])
        level[i] = least
    return weight.size
