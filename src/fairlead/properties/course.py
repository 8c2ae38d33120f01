"""A division among agents that arrive one by one, as the checks of its properties see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairlead.mechanisms.dynamic_run import DynamicRun
from fairlead.model.cluster import FloatArray

# Of more agents a check looks at some steps only, and one of pairs at some steps and agents.
CHECKED_IN_FULL = 3_000
PAIRS_IN_FULL = 300
SAMPLED = 60


@dataclass(frozen=True, eq=False)
class Course:
    """Who came with what demands, and who had what after each step, by whatever mechanism."""

    # (N, R): what each takes of the pool per unit of its dominant share: the largest of a row is 1.
    demand: FloatArray
    weight: FloatArray  # (N,)
    total_weight: float  # weight of all that were announced
    shares_at: Callable[[int], FloatArray]  # the dominant shares, (k,), after step k
    # How witnesses name the agents; their numbers in order of arrival where there are none.
    names: Sequence[str] = ()
    # (N,): the least level of those present after each step, where that is known (and proved).
    least: FloatArray | None = None

    @classmethod
    def of_shares(cls, demand: FloatArray, shares: FloatArray) -> Course:
        """Build one of equal weights from (N, N) shares, row k - 1 being those after step k."""
        n_agents = len(demand)

        def shares_at(step: int) -> FloatArray:
            row: FloatArray = shares[step - 1, :step]
            return row

        return cls(demand, np.ones(n_agents), float(n_agents), shares_at)

    @classmethod
    def of_run(cls, run: DynamicRun) -> Course:
        """Build one from a run of dynamic DRF."""
        weight = run.problem.weight
        names = run.problem.users.names
        return cls(run.demand, weight, float(weight.sum()), run.shares_at, names, run.levels)

    @property
    def n_agents(self) -> int:
        """How many agents came, N."""
        return len(self.weight)

    @cached_property
    def budget(self) -> FloatArray:
        """(N,) float: the fraction of every resource that is theirs after each step."""
        budget: FloatArray = np.minimum(1.0, np.cumsum(self.weight) / self.total_weight)
        return budget

    @property
    def all_steps(self) -> range:
        """All steps, from 1."""
        return range(1, self.n_agents + 1)

    @cached_property
    def steps(self) -> list[int]:
        """The steps to look at: all, or evenly spaced ones."""
        return self._spread(1, CHECKED_IN_FULL)

    @cached_property
    def steps_of_pairs(self) -> list[int]:
        """The steps to look at pairs of agents at."""
        return self._spread(1, PAIRS_IN_FULL)

    @cached_property
    def agents_of_pairs(self) -> list[int]:
        """The agents, from 0, to compare with all others."""
        return self._spread(0, PAIRS_IN_FULL)

    def name(self, agent: int) -> str | int:
        """Name an agent, counted from 0, as a witness does."""
        return self.names[agent] if self.names else agent + 1

    def _spread(self, first: int, in_full: int) -> list[int]:
        n = self.n_agents
        if n <= in_full:
            return list(range(first, first + n))
        return sorted({round(k) for k in np.linspace(first, first + n - 1, SAMPLED).tolist()})
