"""Dynamic DRF of a problem, whose users arrive in the order of the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairlead.certificates.dynamic_levels import certify_dynamic
from fairlead.errors import CertificateError, RefusalError
from fairlead.mechanisms.dynamic_drf import DynamicDRF
from fairlead.model.allocation import FORMAT_VERSION, Certificate
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.model.reductions import active_part
from fairlead.solvers.level_log import LevelLog

# Users that a solver adds between two reports of progress; `stack` is fast enough without reports.
PORTION = 64


@dataclass(frozen=True, eq=False)
class DynamicRun:
    """Dynamic DRF of a problem's users: the shares after every step."""

    problem: Problem  # the pooled problem; step k is the arrival of its k-th user
    solver: str
    demand: FloatArray  # (N, R): share of the pool per unit of dominant share; at most 1
    levels: FloatArray  # (N,): the lowest level after each step
    log: LevelLog  # all levels after every step
    used: FloatArray  # (R,): the fraction of each resource in use after the last step
    due_nothing: tuple[str, ...] = ()  # users without tasks or of weight 0, which do not arrive

    @property
    def n_steps(self) -> int:
        """Number of steps, N."""
        return len(self.levels)

    @cached_property
    def budget(self) -> FloatArray:
        """(N,) float: the fraction of every resource that may be used after each step."""
        weight = self.problem.weight
        budget: FloatArray = np.minimum(1.0, np.cumsum(weight) / weight.sum())
        return budget

    def shares_at(self, step: int) -> FloatArray:
        """Return the dominant shares (step,) after a step. O(N)."""
        return self.log.levels_at(step) * self.problem.weight[:step]

    @cached_property
    def shares(self) -> FloatArray:
        """(N,) float: the dominant shares after the last step."""
        return self.shares_at(self.n_steps)

    @cached_property
    def full_knowledge_levels(self) -> FloatArray:
        """(N,) float: the lowest level under DRF among the first k users, for each k."""
        weight = self.problem.weight
        return full_knowledge_levels(self.demand, weight, float(weight.sum()))

    @cached_property
    def full_knowledge_shares(self) -> FloatArray:
        """(N,) float: the dominant shares under DRF of all users."""
        from fairlead.mechanisms.catalogue import solve  # noqa: PLC0415 (rarely needed)

        return solve(self.problem, "drf").dominant_share

    @cached_property
    def certificate(self) -> Certificate:
        """The proof of the levels: see `certify_dynamic`."""
        weight = self.problem.weight
        return certify_dynamic(self.demand, weight, float(weight.sum()), self.log, self.levels)

    def to_dict(self, all_steps: bool = True) -> dict[str, Any]:
        """Return the documented JSON layout, with all steps (N^2 / 2 shares) or only the last."""
        names = self.problem.users.names
        first = 1 if all_steps else self.n_steps
        return {
            "fairlead": FORMAT_VERSION,
            "mechanism": "dynamic",
            "solver": self.solver,
            "steps": [
                {
                    "step": k,
                    "arrived": names[k - 1],
                    "level": float(self.levels[k - 1]),
                    "shares": dict(zip(names[:k], self.shares_at(k).tolist(), strict=True)),
                    "full_knowledge_level": float(self.full_knowledge_levels[k - 1]),
                    "budget": float(self.budget[k - 1]),
                }
                for k in range(first, self.n_steps + 1)
            ],
            "utilization": dict(
                zip(self.problem.cluster.resources, self.used.tolist(), strict=True)
            ),
            **({"idle": list(self.due_nothing)} if self.due_nothing else {}),
            "certificate": self.certificate.to_dict(),
        }


def run_dynamic(
    problem: Problem,
    solver: str = "stack",
    on_progress: Callable[[int, int], None] | None = None,
) -> DynamicRun:
    """Divide the pool by dynamic DRF, with the users arriving in the file's order.

    Parameters
    ----------
    problem : Problem
        All servers count as one pool. Users with 0 tasks or of weight 0 do not arrive.
    solver : str
        A name that `DynamicDRF` takes.
    on_progress : callable, optional
        Called with the number of steps done and the number of all steps.

    Returns
    -------
    DynamicRun
        With a certificate that holds.

    Raises
    ------
    InputError
        When no solver has that name.
    RefusalError
        For placement constraints, finite tasks, queues, given rates and weights per resource, for
        which the mechanism is not defined; and if the solver does not admit zero demands.
    CertificateError
        When the answer violates its own condition by more than the tolerance.
    """
    names = problem.users.names
    due_nothing = tuple(names[n] for n in np.flatnonzero(problem.due_nothing))
    problem, _, _ = active_part(problem)
    _refuse_undefined(problem)
    pool = problem.pooled()
    weight = pool.weight
    agents = DynamicDRF(
        pool.n_users,
        pool.cluster.resources,
        total_weight=float(weight.sum()),
        solver=solver,
        capacity=pool.total_capacity,
    )
    portion = pool.n_users if solver == "stack" else PORTION
    levels = []
    for first in range(0, pool.n_users, portion):
        rows = slice(first, first + portion)
        levels.append(agents.arrive_all(pool.demand[rows], weight[rows]))
        if on_progress is not None:
            on_progress(agents.arrived, pool.n_users)
    demand = pool.task_shares / pool.task_shares.max(axis=1, keepdims=True)
    level = np.concatenate(levels)
    run = DynamicRun(pool, solver, demand, level, agents.log, agents.used, due_nothing)
    proof = run.certificate
    if not proof.holds:
        raise CertificateError(
            f"dynamic: the answer of {solver} misses its condition by {proof.violation:.3g}, more "
            f"than the tolerance of {proof.tolerance:g} ({proof.condition})"
        )
    return run


def _refuse_undefined(problem: Problem) -> None:
    features = {
        "placement constraints": problem.has_constraints,
        "finite tasks": problem.has_limits,
        "queues": problem.users.queues is not None,
        "given rates": problem.users.rates is not None,
        "weights per resource": problem.users.resource_weight is not None,
    }
    for feature, present in features.items():
        if present:
            raise RefusalError("dynamic", f"its definition does not admit {feature}")


def full_knowledge_levels(
    demand: FloatArray, weight: FloatArray, total_weight: float
) -> FloatArray:
    """Return (N,) the lowest level under DRF among the first k users, for each k.

    The first k users may use their part of every resource by weight. All rise together from 0, so
    the lowest level is reached when the first resource is used up.
    """
    budget = np.minimum(1.0, np.cumsum(weight) / total_weight)
    per_level = np.cumsum(weight[:, None] * demand, axis=0).max(axis=1)
    levels: FloatArray = budget / per_level
    return levels
