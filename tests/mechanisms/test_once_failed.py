"""Problems that a solver once got wrong, or did not come back from."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.mechanisms.catalogue import solve
from fairlead.model.problem import Problem
from oracles import answers

ENDLESS = np.inf
ONCE_FAILED = {
    "one place each, very different tasks": (
        "drfh",
        {
            "capacity": [[0.374123, 0.0372234, 4.382234]],
            "count": [3],
            "demand": [[7.641538, 7.641538, 0.132528], [0.374123, 0.0372234, 4.382234]],
            "weight": [6.914763, 1],
        },
    ),
    "one place each, two users limited": (
        "cdrf",
        {
            "capacity": [[10, 0, 0, 9], [2, 5, 8, 0]],
            "count": [2, 4],
            "demand": [[0, 0, 7, 0], [0, 7, 0, 0], [0, 0, 9, 0], [3, 0, 10, 0], [0, 0, 1, 0]],
            "task_limit": [ENDLESS, 0.2, ENDLESS, 2 / 3, ENDLESS],
        },
    ),
    "one place each, by constraint": (
        "tsf",
        {
            "capacity": [[6, 0, 0], [6, 0, 5]],
            "count": [3, 2],
            "demand": [[6, 0, 0], [1, 0, 0], [4, 0, 0], [6, 0, 0]],
            "weight": [1, 2, 2, 0.9074373450543564],
            "eligible": [[1, 0], [0, 1], [1, 0], [1, 0]],
            "task_limit": [ENDLESS, 27.22312035163069, 7.875, ENDLESS],
        },
    ),
    "all leave at their limits": (
        "cdrf",
        {"capacity": [[4, 1]], "demand": [[1, 2]], "task_limit": [0.25]},
    ),
    "eight users, two kinds of tasks": (
        "drfh",
        {
            "capacity": [[2], [2]],
            "count": [4, 1],
            "demand": [[1], [1], [2], [2], [1], [2], [1], [2]],
        },
    ),
    "one resource, three groups": (
        "tsf",
        {"capacity": [[4], [1], [4]], "count": [4, 4, 1], "demand": [[10], [7], [1]]},
    ),
    "equal users in pairs": (
        "cdrf",
        {
            "capacity": [[9, 6, 1], [9, 6, 3], [4, 5, 4]],
            "count": [4, 1, 5],
            "demand": [
                [3, 6, 1],
                [3, 6, 1],
                [2, 10, 7],
                [2, 10, 7],
                [9, 1, 10],
                [4, 6, 3],
                [7, 8, 9],
            ],
        },
    ),
}


@pytest.mark.parametrize("case", ONCE_FAILED)
def test_what_once_failed(case):
    mechanism, arrays = ONCE_FAILED[case]
    problem = Problem.from_arrays(**arrays)
    allocation = solve(problem, mechanism)
    assert answers.violation(problem, mechanism, allocation.tasks) <= 1e-6
    totals = answers.oracle_totals(problem, mechanism)
    np.testing.assert_allclose(allocation.user_tasks, totals, rtol=1e-6)


def test_prices_that_are_rounding_errors_prove_nothing():
    """A user alone on its servers was left short there, and a price of 1e-16 called it proved."""
    capacity = [[2, 0, 2, 1], [1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1], [0, 0, 0, 1]]
    demand = [
        [0, 0, 0, 1],
        [0, 0, 1, 0],
        [1, 0, 2, 1],
        [0, 0, 1, 0],
        [2, 0, 2, 2],
        [2, 0, 2, 2],
        [1, 0, 0, 0],
        [1, 0, 2, 0],
    ]
    places = ("00011", "11000", "11000", "01000", "10000", "11000", "10000", "10000")
    eligible = [[place == "1" for place in row] for row in places]
    problem = Problem.from_arrays(capacity, demand, count=[4, 4, 1, 4, 3], eligible=eligible)
    assert solve(problem, "tsf").user_tasks[0] == pytest.approx(7.0, rel=1e-7)


def test_a_degenerate_problem_is_solved_by_linear_programme() -> None:
    allowed = [[3], [3], [2], [2, 4], [3], [3], [1]]
    problem = Problem.from_arrays(
        [[1, 0, 0, 0], [1, 1, 0, 0], [0, 2, 1, 1], [1, 1, 1, 1], [0, 2, 0, 0]],
        [
            [1, 1, 1, 1],
            [1, 0, 0, 1],
            [0, 2, 1, 1],
            [0, 1, 0, 0],
            [1, 1, 1, 0],
            [1, 0, 1, 1],
            [1, 1, 0, 0],
        ],
        count=[3, 3, 3, 3, 9],
        eligible=[[g in groups for g in range(5)] for groups in allowed],
        task_limit=[np.inf, np.inf, 3, np.inf, np.inf, np.inf, np.inf],
    )
    assert solve(problem, "drfh").certificate.holds
