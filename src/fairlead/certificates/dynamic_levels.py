"""Certify dynamic DRF step by step; the use of each step is computed from the log of levels."""

from __future__ import annotations

import numpy as np

from fairlead.certificates._arrival_replay import ArrivalReplay
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.solvers.level_log import LevelLog, number_kinds

TOLERANCE = 1e-9
# The violation of a malformed log.
MALFORMED = 1.0

CONDITION = (
    "at every step no resource is used beyond the part due to the present agents, every agent "
    "demands a resource that is used up to this part and of which no agent with a higher level got "
    "more in the step, and no share shrank (dynamic DRF: Li et al. 2019, linear programme 1 and "
    "Lemma 1)"
)


def certify_dynamic(
    demand: FloatArray,
    weight: FloatArray,
    total_weight: float,
    log: LevelLog,
    least: FloatArray | None = None,
) -> Certificate:
    """Certify the levels of a whole sequence of arrivals.

    Parameters
    ----------
    demand : (N, R) float
        Share of the pool that one task of each agent takes, in order of arrival.
    weight : (N,) float
    total_weight : float
        Weight of all agents that were announced.
    log : LevelLog
        The levels after every step.
    least : (N,) float, optional
        The reported least level after each step, checked where given.

    Returns
    -------
    Certificate
        The violation is 1 for a malformed log, else the largest, over all steps, of:

        - the relative overuse of a resource,
        - the relative distance of an agent from being stopped by a demanded resource: one that is
          used up, and of which no agent with a higher level got more in the step,
        - the relative fall of a level,
        - the relative error of `least`.

    Notes
    -----
    The answer of each step is unique: by Lemma 1 the agents that rise end at one level, the highest
    that the budget admits. With zero demands the condition is that of lexicographic max-min above
    the previous levels. O(N R) if all demand the same resources, O(N K R) with K kinds of agents.
    """
    n_agents = len(demand)
    kind = number_kinds(demand)
    if not _is_log(log, kind, n_agents):
        return Certificate(CONDITION, MALFORMED, TOLERANCE, {"fault": "not a log of these agents"})
    first = np.flatnonzero(np.diff(np.maximum.accumulate(kind), prepend=-1))
    # By columns, NumPy finds the largest numbers of short rows five times as fast.
    largest = np.asfortranarray(demand).max(axis=1)
    use = demand * (weight / largest)[:, None]
    replay = ArrivalReplay((demand[first] > 0).ravel().tolist(), use.ravel(), demand.shape[1])
    # A budget must not underflow to 0, as it is divided by.
    budget = np.clip(np.cumsum(weight) / total_weight, np.finfo(np.float64).tiny, 1.0)
    replayed = replay.replay(kind, budget, log.step, log.of_kind, log.level)
    reported = np.array(memoryview(replayed))
    misreported = 0.0
    if least is not None:
        error = np.abs(least - reported) / np.maximum(reported, 1e-300)
        misreported = float(np.max(np.where(np.isnan(error), np.inf, error)))
    parts = {
        "overuse": replay.overuse,
        "could_rise": replay.could_rise,
        "shrunk": replay.shrunk,
        "misreported": misreported,
    }
    detail = {**parts, "step": replay.worst_step}
    return Certificate(CONDITION, max(parts.values()), TOLERANCE, detail)


def _is_log(log: LevelLog, kind: IntArray, n_agents: int) -> bool:
    """Return whether a log is sorted, finite, of these agents, and has each new agent's kind."""
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
