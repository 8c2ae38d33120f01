"""Certificates of whole tasks hold for the one right answer and for nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import Problem
from fairlead.certificates.turn_order import certify_precomputed, certify_turns
from fairlead.mechanisms.catalogue import LIMITS, RESOURCE_WEIGHTS
from fairlead.model.allocation import Certificate
from oracles import whole_tasks as oracle
from strategies import problems

CERTIFY: dict[str, Callable[..., Certificate]] = {
    "drf-tasks": partial(certify_turns, stops=False),
    "drf-algorithm-1": partial(certify_turns, stops=True),
    "pdrf": partial(certify_precomputed, topped_up=True),
    "pdrf-without-top-up": partial(certify_precomputed, topped_up=False),
}
POOLS = problems(features=(LIMITS, RESOURCE_WEIGHTS), largest_users=6).filter(
    lambda p: oracle.count_at_most(p) <= oracle.MOST_TASKS
)

WRONG = [-1, 1, 0.5, -0.25, 1e-6, 1e17, 1e300, np.inf, np.nan]


def spoil(draw: st.DrawFn, how: str, tasks: np.ndarray) -> None:
    """Change a number of tasks, move tasks from one user to another, or exchange numbers."""
    n = draw(st.sampled_from(np.flatnonzero(tasks > 0).tolist()))
    other = draw(st.integers(0, len(tasks) - 1))
    if how == "change":
        tasks[other] += draw(st.sampled_from(WRONG))
    elif how == "owe":
        tasks[other] = -1
    elif how == "exchange":
        tasks[:] = tasks[list(draw(st.permutations(range(len(tasks)))))]
    else:
        moved = draw(st.integers(1, int(tasks[n])))
        tasks[n] -= moved
        tasks[other] += moved if how == "move" else 0


@pytest.mark.parametrize("mechanism", CERTIFY)
@given(data=st.data())
def test_the_right_answer_passes_and_no_other(mechanism: str, data: st.DataObject) -> None:
    problem = data.draw(POOLS)
    right = np.array(oracle.oracle_tasks(problem, mechanism), dtype=float)
    certificate = CERTIFY[mechanism](problem, right[:, None])
    assert certificate.holds
    assert certificate.violation == certificate.tolerance == 0.0
    ways = ("change", "change", "owe", "exchange", "move", "take")
    for how in ways if right.sum() > 0 else ():
        tasks = right.copy()
        spoil(data.draw, how, tasks)
        if (tasks != right).any():
            certificate = CERTIFY[mechanism](problem, tasks[:, None])
            assert not certificate.holds, how
            assert not certificate.violation <= 0.0, how


@pytest.mark.parametrize(
    ("mechanism", "idle"), [("pdrf", 0), ("pdrf-without-top-up", 0), ("pdrf-without-top-up", 1)]
)
def test_what_fits_beyond_the_formula_fails(mechanism: str, idle: int) -> None:
    """One large task that just misses its half leaves room for more small ones than are due."""
    # A user that fits nowhere counts in the formula, and takes nothing.
    problem = Problem.from_arrays([[24]], [[2], [14], *[[26]] * idle])
    right = np.array(oracle.oracle_tasks(problem, mechanism), dtype=float)
    tasks = right.copy()
    tasks[0] += 2
    assert (tasks @ problem.demand <= problem.total_capacity).all()
    assert CERTIFY[mechanism](problem, right[:, None]).holds
    assert not CERTIFY[mechanism](problem, tasks[:, None]).holds


def test_each_form_rejects_the_other() -> None:
    problem = Problem.from_arrays([[59, 19]], [[1, 4], [3, 1]])
    stopped, gone_on = np.array([[2.0], [8.0]]), np.array([[2.0], [11.0]])
    assert CERTIFY["drf-algorithm-1"](problem, stopped).holds
    assert CERTIFY["drf-tasks"](problem, gone_on).holds
    assert not CERTIFY["drf-algorithm-1"](problem, gone_on).holds
    assert CERTIFY["drf-tasks"](problem, stopped).detail["out_of_turn"] == 1 / 9
