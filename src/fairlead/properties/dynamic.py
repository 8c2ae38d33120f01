"""Fairness of allocations to agents that arrive one by one.

Definitions: Kash, Procaccia and Shah 2014; Li, Liu, Zhang and Zhang 2019, section 2. Every check
takes a `DynamicShares`, from any mechanism, and returns a `Verdict`: "fails" with a witness, or
"holds". With many agents only some steps and agents are checked; the verdict is "unknown" if the
property holds in all of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairlead.mechanisms.dynamic_drf import DynamicDRF
from fairlead.mechanisms.dynamic_run import DynamicRun
from fairlead.model.arguments import whole_number
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.verdict import Verdict
from fairlead.solvers.hill_climbing import climb

TOLERANCE = 1e-9
# Shares are differences of fractions of the pool, which are rounded to this.
ROUNDING = 1e-13
CHECKED_IN_FULL = 3_000  # with more agents, checks sample steps
PAIRS_IN_FULL = 300  # with more agents, checks of pairs of agents sample steps and agents
SAMPLED = 60  # number of sampled steps or agents
# A relative gain of less than this is a rounding error.
GAIN_TOLERANCE = 1e-7
# Restart after this many lies without progress.
PATIENCE = 12
# The largest number of steps at which a lie is measured.
STEPS_OF_LIE = 40

# (demands (N, R), weights (N,)) -> (step k -> dominant shares (k,) after it)
Mechanism = Callable[[FloatArray, FloatArray], Callable[[int], FloatArray]]


@dataclass(frozen=True, eq=False)
class DynamicShares:
    """The demands of agents in order of arrival, and their dominant shares after each step."""

    demand: FloatArray  # (N, R): fraction of the pool per dominant share; the largest of a row is 1
    weight: FloatArray  # (N,)
    total_weight: float  # weight of all announced agents
    shares_at: Callable[[int], FloatArray]  # dominant shares (k,) after step k
    names: Sequence[str] = ()  # of the agents; their numbers in order of arrival if empty
    least_level: FloatArray | None = None  # (N,): proved lowest level after each step, if known

    @classmethod
    def from_run(cls, run: DynamicRun) -> DynamicShares:
        """Build from a run of dynamic DRF."""
        weight = run.problem.weight
        names = run.problem.users.names
        return cls(run.demand, weight, float(weight.sum()), run.shares_at, names, run.levels)

    @property
    def n_agents(self) -> int:
        """Number of agents, N."""
        return len(self.weight)

    @cached_property
    def budget(self) -> FloatArray:
        """(N,) float: the fraction of every resource that the present agents may use, by step."""
        budget: FloatArray = np.minimum(1.0, np.cumsum(self.weight) / self.total_weight)
        return budget

    @property
    def all_steps(self) -> range:
        """All steps, from 1."""
        return range(1, self.n_agents + 1)

    @cached_property
    def steps(self) -> list[int]:
        """Steps to check: all, or evenly spaced ones."""
        return self._spread(1, CHECKED_IN_FULL)

    @cached_property
    def steps_of_pairs(self) -> list[int]:
        """Steps at which to check pairs of agents."""
        return self._spread(1, PAIRS_IN_FULL)

    @cached_property
    def agents_of_pairs(self) -> list[int]:
        """Agents, from 0, to compare with all others."""
        return self._spread(0, PAIRS_IN_FULL)

    def name(self, agent: int) -> str | int:
        """Return the name or number of an agent, counted from 0, for a witness."""
        return self.names[agent] if self.names else agent + 1

    def _spread(self, first: int, in_full: int) -> list[int]:
        n = self.n_agents
        if n <= in_full:
            return list(range(first, first + n))
        return sorted({round(k) for k in np.linspace(first, first + n - 1, SAMPLED).tolist()})


def check_dynamic(history: DynamicShares) -> list[Verdict]:
    """Run all checks: O(N^3 R) up to 300 agents, O(N^2 R) up to 3,000, and then O(N R)."""
    return [
        check_sharing_incentive(history),
        check_envy_freeness(history),
        check_pareto_optimality(history),
    ]


def check_sharing_incentive(history: DynamicShares) -> Verdict:
    """Check that from its arrival on, each agent has at least its part of the announced weight.

    If lowest levels are known (`least_level`), all steps are checked.
    """
    name = "sharing-incentive"
    steps = history.steps
    if history.least_level is not None:
        short = history.least_level < (1 - TOLERANCE) / history.total_weight
        steps = (np.flatnonzero(short)[:1] + 1).tolist()
    for k in steps:
        shares, part = history.shares_at(k), history.weight[:k] / history.total_weight
        for i in np.flatnonzero(shares < part * (1 - TOLERANCE) - ROUNDING)[:1]:
            witness = {
                "step": k,
                "agent": history.name(int(i)),
                "share": float(shares[i]),
                "part": float(part[i]),
            }
            return Verdict(name, "fails", witness, k)
    return _no_witness(
        history, name, history.steps if history.least_level is None else history.all_steps
    )


def check_envy_freeness(history: DynamicShares) -> Verdict:
    """Check that no agent envies another agent that arrived, or gained anything, after it.

    If all agents demand all resources, i envies j if j's level is higher. The papers define it so;
    it is stricter than preferring j's bundle. With zero demands, levels of agents that demand
    different resources cannot be compared. Then i envies j if, per unit of weight, j's bundle is
    worth more to i than its own.
    """
    name = "dynamic-envy-freeness"
    earlier = {i: history.shares_at(i) for i in history.agents_of_pairs if i > 0}
    for k in history.steps_of_pairs:
        shares = history.shares_at(k)
        for i in history.agents_of_pairs:
            if i >= k:
                break
            others = _envied(history, shares, i)
            others[i] = False
            before = np.zeros(k)  # shares of the others at the arrival of i
            if i > 0:
                before[:i] = earlier[i]
            others[:i] &= shares[:i] > before[:i] * (1 + TOLERANCE)
            for j in np.flatnonzero(others)[:1]:
                witness = _envy_witness(history, k, i, int(j), shares, before)
                return Verdict(name, "fails", witness, k)
    return _no_witness(history, name, history.steps_of_pairs)


def check_pareto_optimality(history: DynamicShares) -> Verdict:
    """Check that after each step every agent demands a used-up resource.

    A resource is used up if the `budget` of the present agents is. Then no agent can gain unless
    another loses.
    """
    name = "dynamic-pareto-optimality"
    for k in history.steps:
        used = history.shares_at(k) @ history.demand[:k]
        full = used >= history.budget[k - 1] * (1 - TOLERANCE)
        for i in np.flatnonzero(~(history.demand[:k, full] > 0).any(axis=1))[:1]:
            left = float(history.budget[k - 1] - used[history.demand[i] > 0].max())
            witness = {"step": k, "agent": history.name(int(i)), "left": left}
            return Verdict(name, "fails", witness, k)
    return _no_witness(history, name, history.steps)


def _envied(history: DynamicShares, shares: FloatArray, i: int) -> BoolArray:
    """Return (k,) bool: the agents whose share agent `i` prefers."""
    k = len(shares)
    level = shares / history.weight[:k]
    asks = history.demand[i] > 0
    if asks.all() and (history.demand[:k] > 0).all():
        worth = level
    else:
        worth = level * (history.demand[:k, asks] / history.demand[i, asks]).min(axis=1)
    envied: BoolArray = worth > level[i] * (1 + TOLERANCE) + ROUNDING / history.weight[i]
    return envied


def _envy_witness(
    history: DynamicShares, step: int, i: int, j: int, shares: FloatArray, before: FloatArray
) -> dict[str, Any]:
    return {
        "step": step,
        "agent": history.name(i),
        "envies": history.name(j),
        "share": float(shares[i]),
        "its_share": float(shares[j]),
        "its_share_before": float(before[j]),
    }


def _no_witness(history: DynamicShares, name: str, steps: Sequence[int]) -> Verdict:
    if len(steps) == history.n_agents:
        looked_at = f"all {history.n_agents:,} steps" if history.n_agents > 1 else "the only step"
        return Verdict(name, "holds", {}, len(steps), looked_at)
    detail = f"{len(steps)} of {history.n_agents:,} steps"
    return Verdict(name, "unknown", {}, len(steps), detail)


@dataclass(frozen=True)
class _Lie:
    """A false demand of an agent, and its gain."""

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

    `history` is the mechanism's answer to honest agents. To an agent of true demand d, a bundle A
    is worth the minimum of A[r] / d[r] over r. Each of the `lies` runs the mechanism. The verdict
    is "unknown", or "fails" with the agent, its lie, the step at which the lie pays most, and the
    worth of its bundle without and with the lie.
    """
    lies, seed = whole_number(lies, "lies", 1), whole_number(seed, "seed")
    random = np.random.default_rng(seed)

    def draw(best: _Lie | None) -> _Lie:
        agent = int(random.integers(history.n_agents)) if best is None else best.agent
        return _measure(history, divide, agent, _draw_demand(random, history.demand[agent], best))

    lie = climb(draw, lambda lie: lie.gain, lies, PATIENCE, on_progress)
    if lie.gain <= GAIN_TOLERANCE:
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
    changed = np.ones(n_resources, dtype=bool)
    if random.random() < 0.5:
        changed[:] = np.arange(n_resources) == random.integers(n_resources)
    if best is not None:
        lie = best.demand * np.exp(random.normal(0.0, 0.1, n_resources) * changed)
    elif changed.all():
        lie = truth * np.exp(random.normal(0.0, random.choice([0.03, 0.3, 1.5]), n_resources))
    else:  # demand a random amount, all, or next to nothing (nothing if a true demand is 0)
        some = random.uniform(0.0, 1.0)
        extremes = [some, some, 1.0, 0.0 if (truth == 0).any() else 1e-3]
        lie = np.where(changed, random.choice(extremes), truth)
    if not (lie > 0).any():
        lie = truth.copy()
    largest: FloatArray = lie / lie.max()
    return largest


def _measure(history: DynamicShares, divide: Mechanism, agent: int, demand: FloatArray) -> _Lie:
    """Return a lie with its gain at the step where it pays most."""
    declared = history.demand.copy()
    declared[agent] = demand
    shares_at = divide(declared, history.weight)
    asks = history.demand[agent] > 0
    worth = float((demand[asks] / history.demand[agent, asks]).min())
    steps = np.arange(agent + 1, history.n_agents + 1)
    if len(steps) > STEPS_OF_LIE:
        steps = np.unique(np.linspace(agent + 1, history.n_agents, STEPS_OF_LIE).astype(int))
    best = _Lie(agent, demand, -np.inf, 0, 0.0, 0.0)
    for step in steps.tolist():
        honest = float(history.shares_at(step)[agent])
        gained = worth * float(shares_at(step)[agent])
        gain = gained / honest - 1.0 if honest > 0 else (np.inf if gained > 0 else 0.0)
        if gain > best.gain:
            best = _Lie(agent, demand, gain, step, honest, gained)
    return best
