"""Dynamic DRF, proved step by step from the levels alone.

The usage of every step is summed up here from the log of levels; nothing comes from the solver but
that log.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.allocation import Certificate
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.optimize.compiling import inner_kernel, kernel
from fairlead.optimize.level_log import LevelLog, number_kinds

TOLERANCE = 1e-9
WRONG = 1.0

CONDITION = (
    "at every step nothing is used beyond the part of those present, everybody demands a resource "
    "that is used up to it, while nobody with a higher level was given more of it in the step, and "
    "no share shrank (dynamic DRF: Li et al. 2019, linear programme 1 and Lemma 1)"
)

# Places in what the replay reports.
_OVERUSE, _UNSTOPPED, _SHRUNK, _WORST, _STEP = range(5)


class _Stairs(NamedTuple):
    """Stairs, each named by the agent that began it, and what is used.

    ``use`` (N, R) and ``level`` (N,) of each stair, the next higher stair ``above`` (N,), the
    ``lowest`` (K,) of each kind, what each kind ``demands`` (K, R), the highest level to which
    anybody who demands a resource ``rose`` (R,), and what is ``used`` (2, R), with what rounding
    lost in the second row.
    """

    use: FloatArray
    level: FloatArray
    above: IntArray
    lowest: IntArray
    demands: BoolArray
    rose: FloatArray
    used: FloatArray


def certify_dynamic(
    demand: FloatArray,
    weight: FloatArray,
    total_weight: float,
    log: LevelLog,
    least: FloatArray | None = None,
) -> Certificate:
    """Measure what is wrong with the levels of a whole sequence of arrivals.

    Parameters
    ----------
    demand : (N, R) float
        Share of the pool that one task of each agent takes, in order of arrival.
    weight : (N,) float
    total_weight : float
        Weight of all that were announced.
    log : LevelLog
        The levels.
    least : (N,) float, optional
        The least level of all that was reported after each step; checked where given.

    Returns
    -------
    Certificate
        The violation is the largest, over all steps, of the relative overuse of a resource; of how
        far somebody could still have risen, or others rose above, relative; of the relative fall of
        a level; and of the relative error of what was reported. It is 1 where the log is no log.

    Notes
    -----
    A step's shares are the only ones of that kind: by Lemma 1 those who rise end at one level, the
    highest that the budget admits; with zero demands the condition is that of lexicographic max-min
    above what was held. O(N R) where everybody demands the same resources, and with K kinds of
    agents O(N K R).
    """
    n_agents = len(demand)
    kind = number_kinds(demand)
    if not _is_log(log, kind, n_agents):
        return Certificate(CONDITION, WRONG, TOLERANCE, {"fault": "not a log of these agents"})
    n_kinds = int(kind.max()) + 1
    first = np.unique(kind, return_index=True)[1]
    replay = _Stairs(
        use=demand * (weight / demand.max(axis=1))[:, None],
        level=np.zeros(n_agents),
        above=np.full(n_agents, -1),
        lowest=np.full(n_kinds, -1),
        demands=demand[first] > 0,
        rose=np.zeros(demand.shape[1]),
        used=np.zeros((2, demand.shape[1])),
    )
    budget = np.minimum(1.0, np.cumsum(weight) / total_weight)
    reported = np.zeros(n_agents)
    found = np.zeros(5)
    _replay_steps(replay, kind, log.step, log.of_kind, log.level, budget, reported, found)
    misreported = 0.0
    if least is not None:
        error = np.abs(least - reported) / np.maximum(reported, 1e-300)
        misreported = float(np.max(np.where(np.isnan(error), np.inf, error)))
    parts = {
        "overuse": float(found[_OVERUSE]),
        "could_rise": float(found[_UNSTOPPED]),
        "shrunk": float(found[_SHRUNK]),
        "misreported": misreported,
    }
    detail = {**parts, "step": int(found[_STEP])}
    return Certificate(CONDITION, max(parts.values()), TOLERANCE, detail)


def _is_log(log: LevelLog, kind: IntArray, n_agents: int) -> bool:
    """Whether it is in order, finite, of these agents, and says where each newcomer ended."""
    if n_agents == 0 or not np.array_equal(log.kind, kind):
        return False
    if not len(log.step) == len(log.of_kind) == len(log.level):
        return False
    in_order = (np.diff(log.step) >= 0).all() and np.isfinite(log.level).all()
    if not in_order or (log.level < 0).any() or ((log.step < 1) | (log.step > n_agents)).any():
        return False
    of_newcomer = log.of_kind == kind[log.step - 1]
    known = (log.of_kind >= 0) & (log.of_kind <= np.maximum.accumulate(kind)[log.step - 1])
    steps = log.step[of_newcomer]
    return bool(np.array_equal(steps, np.arange(1, n_agents + 1)) and known.all())


@inner_kernel
def _add(used: FloatArray, r: int, amount: float) -> None:
    """Add without losing what rounding cuts off (Neumaier)."""
    total = used[0, r] + amount
    if abs(used[0, r]) >= abs(amount):
        used[1, r] += (used[0, r] - total) + amount
    else:
        used[1, r] += (amount - total) + used[0, r]
    used[0, r] = total


@inner_kernel
def _raise_to(replay: _Stairs, kind: int, target: float) -> None:
    """Raise all of a kind that are lower to a level."""
    use, level, above, lowest = replay.use, replay.level, replay.above, replay.lowest
    used = replay.used
    stair = lowest[kind]
    while True:
        end = target
        higher = above[stair]
        if higher >= 0 and level[higher] <= target:
            end = level[higher]
        for r in range(used.shape[1]):
            _add(used, r, use[stair, r] * (end - level[stair]))
        level[stair] = end
        if higher < 0 or level[higher] > target:
            return
        for r in range(used.shape[1]):
            use[higher, r] += use[stair, r]
        lowest[kind] = higher
        stair = higher


@inner_kernel
def _measure_step(replay: _Stairs, budget: float) -> tuple[float, float, float]:
    """Return the overuse, how far somebody could still have risen, and the least level."""
    level, lowest, rose, used = replay.level, replay.lowest, replay.rose, replay.used
    overuse, unstopped, least = 0.0, 0.0, np.inf
    for r in range(rose.size):
        overuse = max(overuse, (used[0, r] + used[1, r]) / budget - 1.0)
    for kind in range(lowest.size):
        if lowest[kind] < 0:
            continue
        mine = level[lowest[kind]]
        least = min(least, mine)
        missing = 1.0
        for r in range(rose.size):
            if replay.demands[kind, r]:
                left = 1.0 - (used[0, r] + used[1, r]) / budget
                higher = (rose[r] - mine) / rose[r] if rose[r] > mine else 0.0
                missing = min(missing, max(left, higher))
        unstopped = max(unstopped, missing)
    return overuse, unstopped, least


@kernel
def _replay_steps(
    replay: _Stairs,
    kinds: IntArray,
    log_step: IntArray,
    log_kind: IntArray,
    log_level: FloatArray,
    budget: FloatArray,
    least: FloatArray,
    found: FloatArray,
) -> None:
    """Replay all steps; leave the least levels, and the largest faults and the worst step."""
    level, above, lowest, rose = replay.level, replay.above, replay.lowest, replay.rose
    entry = 0
    for i in range(kinds.size):
        above[i] = lowest[kinds[i]]
        lowest[kinds[i]] = i
        rose[:] = 0.0
        while entry < log_step.size and log_step[entry] == i + 1:
            kind, target = log_kind[entry], log_level[entry]
            before = level[lowest[kind]]
            if target < before:
                found[_SHRUNK] = max(found[_SHRUNK], (before - target) / before)
            elif target > before:
                _raise_to(replay, kind, target)
                for r in range(rose.size):
                    if replay.demands[kind, r]:
                        rose[r] = max(rose[r], target)
            entry += 1
        overuse, unstopped, least[i] = _measure_step(replay, budget[i])
        found[_OVERUSE] = max(found[_OVERUSE], overuse)
        found[_UNSTOPPED] = max(found[_UNSTOPPED], unstopped)
        worst = max(overuse, unstopped)
        if worst > found[_WORST]:
            found[_WORST] = worst
            found[_STEP] = i + 1
