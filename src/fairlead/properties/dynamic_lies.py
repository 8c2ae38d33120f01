"""Strategy-proofness under arrivals: search for an agent that gains by lying about its demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairlead.mechanisms.dynamic_drf import DynamicDRF
from fairlead.model.arguments import whole_number
from fairlead.model.cluster import FloatArray
from fairlead.model.verdict import Verdict
from fairlead.properties.dynamic import DynamicShares
from fairlead.solvers.hill_climbing import climb

# A relative gain of less than this is a rounding error.
TOLERANCE = 1e-7
# Restart after this many lies without progress.
PATIENCE = 12
# The largest number of steps at which a lie is measured.
MAX_STEPS = 40

# (demands (N, R), weights (N,)) -> (step k -> dominant shares (k,) after it)
Mechanism = Callable[[FloatArray, FloatArray], Callable[[int], FloatArray]]


@dataclass(frozen=True)
class _Lie:
    agent: int
    demand: FloatArray  # (R,): declared demand
    gain: float  # relative
    step: int  # step at which the lie pays most
    honest: float  # worth of the agent's bundle without the lie
    gained: float  # worth of the agent's bundle with the lie


def dynamic_drf(total_weight: float) -> Mechanism:
    """Return dynamic DRF as a `Mechanism`."""

    def divide(demand: FloatArray, weight: FloatArray) -> Callable[[int], FloatArray]:
        n_agents, n_resources = demand.shape
        agents = DynamicDRF(n_agents, n_resources, total_weight=total_weight)
        agents.arrive_all(demand, weight)
        log = agents.log
        return lambda step: log.levels_at(step) * weight[:step]

    return divide


def search_lies(
    history: DynamicShares,
    divide: Mechanism,
    lies: int,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Verdict:
    """Search for a lie that pays, by random restarts and small changes to the best lie so far.

    `history` is the mechanism's answer to honest agents. A bundle A is worth min over r of
    A[r] / d[r] by the true demand d. Each of the `lies` runs the mechanism. The verdict is
    "unknown", or "fails" with the agent, its lie, the step at which the lie pays most, and the
    worth of its bundle without and with the lie.
    """
    lies, seed = whole_number(lies, "lies", 1), whole_number(seed, "seed")
    random = np.random.default_rng(seed)

    def draw(best: _Lie | None) -> _Lie:
        agent = int(random.integers(history.n_agents)) if best is None else best.agent
        return _measure(history, divide, agent, _draw_demand(random, history.demand[agent], best))

    lie = climb(draw, lambda lie: lie.gain, lies, PATIENCE, on_progress)
    if lie.gain <= TOLERANCE:
        return Verdict("strategy-proofness", "unknown", {}, lies, f"{lies:,} lies")
    witness = {
        "agent": history.name(lie.agent),
        "lie": lie.demand.tolist(),
        "step": lie.step,
        "honest": lie.honest,
        "gained": lie.gained,
    }
    return Verdict("strategy-proofness", "fails", witness, lies, f"{lies:,} lies")


def _draw_demand(random: np.random.Generator, truth: FloatArray, best: _Lie | None) -> FloatArray:
    """Draw a demand (R,): a small change to the best lie, or a large change to the truth.

    Half of the draws change only one amount: most lies that pay demand more of a single resource.
    """
    n_resources = len(truth)
    told = np.ones(n_resources, dtype=bool)
    if random.random() < 0.5:
        told[:] = np.arange(n_resources) == random.integers(n_resources)
    if best is not None:
        lie = best.demand * np.exp(random.normal(0.0, 0.1, n_resources) * told)
    elif told.all():
        lie = truth * np.exp(random.normal(0.0, random.choice([0.03, 0.3, 1.5]), n_resources))
    else:  # demand a random amount, all, or next to nothing (nothing if a true demand is 0)
        some = random.uniform(0.0, 1.0)
        extremes = [some, some, 1.0, 0.0 if (truth == 0).any() else 1e-3]
        lie = np.where(told, random.choice(extremes), truth)
    if not (lie > 0).any():
        lie = truth.copy()
    largest: FloatArray = lie / lie.max()
    return largest


def _measure(history: DynamicShares, divide: Mechanism, agent: int, demand: FloatArray) -> _Lie:
    """Measure the gain of a lie at the step where it pays most."""
    told = history.demand.copy()
    told[agent] = demand
    shares_at = divide(told, history.weight)
    asks = history.demand[agent] > 0
    worth = float((demand[asks] / history.demand[agent, asks]).min())
    steps = np.arange(agent + 1, history.n_agents + 1)
    if len(steps) > MAX_STEPS:
        steps = np.unique(np.linspace(agent + 1, history.n_agents, MAX_STEPS).astype(int))
    best = _Lie(agent, demand, -np.inf, 0, 0.0, 0.0)
    for step in steps.tolist():
        honest = float(history.shares_at(step)[agent])
        gained = worth * float(shares_at(step)[agent])
        gain = gained / honest - 1.0 if honest > 0 else (np.inf if gained > 0 else 0.0)
        if gain > best.gain:
            best = _Lie(agent, demand, gain, step, honest, gained)
    return best
