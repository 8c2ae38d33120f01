"""Ways to spoil a right answer, for tests that certificates can fail.

Each changes ``tasks`` in place, at random by ``draw``, in a way that the definitions do not allow
or only rarely do.
"""

from __future__ import annotations

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption


def move_to_another(draw, problem, tasks):
    """Move 1 % of a user's tasks on a server to another that may run there."""
    n, g = _somebody(draw, tasks)
    others = [m for m in range(problem.n_users) if m != n and problem.runnable[m, g]]
    assume(others)
    m = draw(st.sampled_from(others))
    moved = 0.01 * tasks[n, g]
    tasks[n, g] -= moved
    tasks[m, g] += moved * problem.gamma[m, g] / problem.gamma[n, g]


def halve(draw, _problem, tasks):
    """Take half of all that a user has."""
    n, _ = _somebody(draw, tasks)
    tasks[n] *= 0.5


def overfill(draw, _problem, tasks):
    """Run 1 % more of everything on a server."""
    _, g = _somebody(draw, tasks)
    tasks[:, g] *= 1.01


def misplace(draw, problem, tasks):
    """Move tasks to a group where their user may not run."""
    wrong = np.argwhere(~problem.runnable)
    assume(len(wrong))
    n, g = draw(st.sampled_from([tuple(pair) for pair in wrong]))
    tasks[n, g] = 0.01 * tasks[n].sum() + 1e-3
    tasks[n] *= tasks[n].sum() / (tasks[n].sum() + tasks[n, g])


def go_negative(draw, problem, tasks):
    """Owe tasks on one server and have them on another."""
    n, g = _somebody(draw, tasks)
    others = [h for h in range(problem.n_groups) if h != g and problem.runnable[n, h]]
    assume(others)
    h = draw(st.sampled_from(others))
    amount = tasks[n, h] + 0.01 * problem.gamma[n, h]
    tasks[n, g] += amount
    tasks[n, h] -= amount


def beyond_the_limit(draw, problem, tasks):
    """Raise a user to 1 % more than its tasks."""
    finite = np.flatnonzero(np.isfinite(problem.task_limit))
    assume(len(finite))
    n = draw(st.sampled_from(finite.tolist()))
    assume(tasks[n].sum() > 0)
    tasks[n] *= 1.01 * problem.task_limit[n] / tasks[n].sum()


def not_a_number(draw, _problem, tasks):
    """Lose a number."""
    n, g = _somebody(draw, tasks)
    tasks[n, g] = np.nan


def _somebody(draw, tasks):
    pairs = np.argwhere(tasks > 1e-6 * tasks.sum(axis=1, keepdims=True))
    return draw(st.sampled_from([tuple(pair) for pair in pairs]))


SPOIL = [move_to_another, halve, overfill, misplace, go_negative, beyond_the_limit, not_a_number]


def each_way(draw, problem, right):
    """Yield the name of each way to spoil these tasks that is possible here, and a spoiled copy."""
    for spoil in SPOIL:
        tasks = right.copy()
        try:
            spoil(draw, problem, tasks)
        except UnsatisfiedAssumption:
            continue
        yield spoil.__name__, tasks
