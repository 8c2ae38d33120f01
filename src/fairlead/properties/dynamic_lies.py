"""Search for an agent that gains by lying about its demands when it arrives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairlead.mechanisms.dynamic_drf import DynamicDRF
from fairlead.model.arguments import whole_number
from fairlead.model.cluster import FloatArray
from fairlead.model.verdict import Verdict
from fairlead.properties.course import Course
from fairlead.solvers.hill_climbing import climb

# A gain of less than this, relative, is rounding.
TOLERANCE = 1e-7
# After this many lies that gain no more than the best one, start anew.
PATIENCE = 12
STEPS_LOOKED_AT = 40

# Demands (N, R) and weights (N,) to the dominant shares (k,) after each step.
Mechanism = Callable[[FloatArray, FloatArray], Callable[[int], FloatArray]]


@dataclass(frozen=True)
class _Lie:
    agent: int
    demand: FloatArray
    gain: float
    step: int
    honest: float
    gained: float


def dynamic_drf(total_weight: float) -> Mechanism:
    """Return dynamic DRF as a mechanism to lie to."""

    def divide(demand: FloatArray, weight: FloatArray) -> Callable[[int], FloatArray]:
        n_agents, n_resources = demand.shape
        agents = DynamicDRF(n_agents, n_resources, total_weight=total_weight)
        agents.arrive_all(demand, weight)
        log = agents.log
        return lambda step: log.levels_at(step) * weight[:step]

    return divide


def search_lies(
    course: Course,
    divide: Mechanism,
    lies: int,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Verdict:
    """Search for a lie that pays, by random restarts and small changes to the best so far.

    Parameters
    ----------
    course : Course
        What happens when everybody is honest.
    divide : callable
        The mechanism that made it.
    lies : int
        How many lies to try, at least 1.
    seed : int
        The same seed tries the same lies.
    on_progress : callable, optional
        Called with the lies that were tried and all there are.

    Returns
    -------
    Verdict
        "fails" with the agent, its lie, the first step at which that pays most, and what it could
        do with its own share and with the one it lied for, in dominant shares of its true demand;
        or "unknown": no search proves that there is none.

    Raises
    ------
    InputError
        When the number of lies or the seed is out of range.

    Notes
    -----
    What an agent can do with a bundle is min over r of A[r] / d[r], over what it truly demands.
    Each lie is a run of the mechanism.
    """
    lies, seed = whole_number(lies, "lies", 1), whole_number(seed, "seed")
    random = np.random.default_rng(seed)

    def draw(best: _Lie | None) -> _Lie:
        agent = int(random.integers(course.n_agents)) if best is None else best.agent
        return _try(course, divide, agent, _draw(random, course.demand[agent], best))

    lie = climb(draw, lambda lie: lie.gain, lies, PATIENCE, on_progress)
    if lie.gain <= TOLERANCE:
        return Verdict("strategy-proofness", "unknown", {}, lies, f"{lies:,} lies")
    witness = {
        "agent": course.name(lie.agent),
        "lie": lie.demand.tolist(),
        "step": lie.step,
        "honest": lie.honest,
        "gained": lie.gained,
    }
    return Verdict("strategy-proofness", "fails", witness, lies, f"{lies:,} lies")


def _draw(random: np.random.Generator, truth: FloatArray, best: _Lie | None) -> FloatArray:
    """Draw a lie: a small change to the best one, or a large one to the truth.

    Half of them change one amount only: most lies that pay ask for more of a single resource.
    """
    n_resources = len(truth)
    told = np.ones(n_resources, dtype=bool)
    if random.random() < 0.5:
        told[:] = np.arange(n_resources) == random.integers(n_resources)
    if best is not None:
        lie = best.demand * np.exp(random.normal(0.0, 0.1, n_resources) * told)
    elif told.all():
        lie = truth * np.exp(random.normal(0.0, random.choice([0.03, 0.3, 1.5]), n_resources))
    else:  # ask for more, less, all of it or, where others do so too, nothing
        some = random.uniform(0.0, 1.0)
        extremes = [some, some, 1.0, 0.0 if (truth == 0).any() else 1e-3]
        lie = np.where(told, random.choice(extremes), truth)
    if not (lie > 0).any():
        lie = truth.copy()
    largest: FloatArray = lie / lie.max()
    return largest


def _try(course: Course, divide: Mechanism, agent: int, demand: FloatArray) -> _Lie:
    """Return what a lie brings at the step where it pays most."""
    told = course.demand.copy()
    told[agent] = demand
    shares_at = divide(told, course.weight)
    asks = course.demand[agent] > 0
    worth = float((demand[asks] / course.demand[agent, asks]).min())
    steps = np.arange(agent + 1, course.n_agents + 1)
    if len(steps) > STEPS_LOOKED_AT:
        steps = np.unique(np.linspace(agent + 1, course.n_agents, STEPS_LOOKED_AT).astype(int))
    best = _Lie(agent, demand, -np.inf, 0, 0.0, 0.0)
    for step in steps.tolist():
        honest = float(course.shares_at(step)[agent])
        gained = worth * float(shares_at(step)[agent])
        gain = gained / honest - 1.0 if honest > 0 else (np.inf if gained > 0 else 0.0)
        if gain > best.gain:
            best = _Lie(agent, demand, gain, step, honest, gained)
    return best
