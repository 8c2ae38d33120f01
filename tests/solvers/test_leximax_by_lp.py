"""Two ways to the lexicographic max-min agree, and both carry prices that prove it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from fairlead import Problem
from fairlead.certificates.max_min_duality import certify_max_min
from fairlead.mechanisms.catalogue import CONSTRAINTS, LIMITS
from fairlead.solvers.leximax import lexicographic_max_min
from fairlead.solvers.leximax_by_lp import lexicographic_max_min_by_lp
from strategies import problems


@settings(max_examples=15)
@given(problems(features=(CONSTRAINTS, LIMITS), kinds=("whole", "any"), zeros=False))
def test_totals_agree_and_are_proved(problem: Problem) -> None:
    total = problem.total_capacity
    share = problem.demand / total
    score = share.max(axis=1)
    data = {
        "demand": share / score[:, None],
        "allowed": problem.runnable,
        "need": problem.weight / problem.weight.sum(),
        "limit": problem.task_limit * score,
        "capacity": problem.group_capacity / total,
    }
    by_lp = lexicographic_max_min_by_lp(**data)
    totals = lexicographic_max_min(**data).split.sum(axis=1)
    assert np.allclose(by_lp.split.sum(axis=1), totals, rtol=1e-7)
    tasks = by_lp.split / score[:, None]
    assert certify_max_min(problem, tasks, score, by_lp.prices / total).holds
