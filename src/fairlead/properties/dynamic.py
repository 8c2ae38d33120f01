"""Fairness of divisions among agents that arrive one by one, checked on what everybody had.

Definitions: Kash, Procaccia and Shah 2014; Li, Liu, Zhang and Zhang 2019, section 2. Every check
takes a `Course`, whatever mechanism it is from, and returns a `Verdict`: "fails" with a witness, or
"holds". Of many agents only some steps and agents are looked at; no witness among them is
"unknown".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.verdict import Verdict
from fairlead.properties.course import Course

TOLERANCE = 1e-9
# Shares are differences of fractions of the pool, which are rounded to this.
ROUNDING = 1e-13


def check_dynamic(course: Course) -> list[Verdict]:
    """Run all checks of this module.

    O(N^3 R) for up to 300 agents, O(N^2 R) for up to 3,000, and then O(N R).
    """
    return [
        check_feasibility(course),
        check_irrevocability(course),
        check_sharing_incentive(course),
        check_envy_freeness(course),
        check_pareto_optimality(course),
    ]


def check_feasibility(course: Course) -> Verdict:
    """After no step is more of a resource used than the part of those present."""
    name = "feasibility"
    for k in course.steps:
        used, budget = course.shares_at(k) @ course.demand[:k], course.budget[k - 1]
        for r in np.flatnonzero(used > budget * (1 + TOLERANCE))[:1].tolist():
            witness = {"step": k, "resource": r, "used": float(used[r]), "budget": float(budget)}
            return Verdict(name, "fails", witness, k)
    return _no_witness(course, name, course.steps)


def check_irrevocability(course: Course) -> Verdict:
    """Nobody's share ever shrinks."""
    name = "irrevocability"
    for k in course.steps:
        if k == 1:
            continue
        before, after = course.shares_at(k - 1), course.shares_at(k)[:-1]
        for i in np.flatnonzero(after < before * (1 - TOLERANCE))[:1]:
            witness = {
                "step": k,
                "agent": course.name(int(i)),
                "before": float(before[i]),
                "after": float(after[i]),
            }
            return Verdict(name, "fails", witness, k)
    return _no_witness(course, name, course.steps)


def check_sharing_incentive(course: Course) -> Verdict:
    """Check that everybody has at least its part of the announced weight, as soon as it is there.

    Where the least levels are known, all steps are looked at, however many there are.
    """
    name = "sharing-incentive"
    steps = course.steps
    if course.least is not None:
        short = course.least < (1 - TOLERANCE) / course.total_weight
        steps = (np.flatnonzero(short)[:1] + 1).tolist()
    for k in steps:
        shares, part = course.shares_at(k), course.weight[:k] / course.total_weight
        for i in np.flatnonzero(shares < part * (1 - TOLERANCE) - ROUNDING)[:1]:
            witness = {
                "step": k,
                "agent": course.name(int(i)),
                "share": float(shares[i]),
                "part": float(part[i]),
            }
            return Verdict(name, "fails", witness, k)
    return _no_witness(course, name, course.steps if course.least is None else course.all_steps)


def check_envy_freeness(course: Course) -> Verdict:
    """Check that nobody envies who came later, or was given anything since the envious one came.

    Where everybody demands everything, agent i counts as envying j when j's level is higher: the
    papers' definition, which asks for more than that i would rather have j's bundle. With zero
    demands levels of unlike agents say nothing, and i envies j when it could do more with what j
    has, per unit of weight, than with its own.
    """
    name = "dynamic-envy-freeness"
    earlier = {i: course.shares_at(i) for i in course.agents_of_pairs if i > 0}
    for k in course.steps_of_pairs:
        shares = course.shares_at(k)
        for i in course.agents_of_pairs:
            if i >= k:
                break
            others = _envied(course, shares, i)
            others[i] = False
            was = np.zeros(k)  # what the others had when i came
            if i > 0:
                was[:i] = earlier[i]
            others[:i] &= shares[:i] > was[:i] * (1 + TOLERANCE)
            for j in np.flatnonzero(others)[:1]:
                return Verdict(name, "fails", _envy(course, k, i, int(j), shares, was), k)
    return _no_witness(course, name, course.steps_of_pairs)


def check_pareto_optimality(course: Course) -> Verdict:
    """Check that after each step all demand a resource used up to the part of those present.

    Then nobody can be given more without taking from somebody. Where everybody demands everything
    it says that some resource is used up, as the papers do.
    """
    name = "dynamic-pareto-optimality"
    for k in course.steps:
        used = course.shares_at(k) @ course.demand[:k]
        full = used >= course.budget[k - 1] * (1 - TOLERANCE)
        for i in np.flatnonzero(~(course.demand[:k, full] > 0).any(axis=1))[:1]:
            left = float(course.budget[k - 1] - used[course.demand[i] > 0].max())
            witness = {"step": k, "agent": course.name(int(i)), "left": left}
            return Verdict(name, "fails", witness, k)
    return _no_witness(course, name, course.steps)


def _envied(course: Course, shares: FloatArray, i: int) -> BoolArray:
    """Return (k,) bool: the agents whose share agent `i` would rather have."""
    k = len(shares)
    level = shares / course.weight[:k]
    asks = course.demand[i] > 0
    if asks.all() and (course.demand[:k] > 0).all():
        worth = level
    else:
        worth = level * (course.demand[:k, asks] / course.demand[i, asks]).min(axis=1)
    envied: BoolArray = worth > level[i] * (1 + TOLERANCE) + ROUNDING / course.weight[i]
    return envied


def _envy(
    course: Course, step: int, i: int, j: int, shares: FloatArray, was: FloatArray
) -> dict[str, Any]:
    return {
        "step": step,
        "agent": course.name(i),
        "envies": course.name(j),
        "share": float(shares[i]),
        "its_share": float(shares[j]),
        "its_share_before": float(was[j]),
    }


def _no_witness(course: Course, name: str, steps: Sequence[int]) -> Verdict:
    if len(steps) == course.n_agents:
        looked_at = f"all {course.n_agents:,} steps" if course.n_agents > 1 else "the only step"
        return Verdict(name, "holds", {}, len(steps), looked_at)
    detail = f"{len(steps)} of {course.n_agents:,} steps"
    return Verdict(name, "unknown", {}, len(steps), detail)
