"""Among users that are alike the first is the witness, however a processor rounds their tasks."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fairlead.model.holdings import Holdings
from fairlead.model.problem import Problem
from fairlead.properties.efficiency import check_non_wastefulness
from fairlead.properties.envy import check_envy_freeness
from fairlead.properties.feasibility import check_feasibility
from fairlead.properties.population import check_population_monotonicity
from fairlead.properties.sharing import check_sharing_incentive
from fairlead.properties.special_cases import check_bottleneck_fairness, check_single_server_drf
from fairlead.properties.subject import Subject, subject_of

# Each pair of users, and of servers, is alike.
ALIKE = Problem.from_arrays(
    [[9.0, 12.0], [9.0, 12.0]], [[1.0, 2.0], [1.0, 2.0], [0.3, 0.6], [0.3, 0.6]]
)
ONE_POOL = Problem.from_arrays([[9.0, 12.0]], [[1.0, 2.0], [1.0, 2.0], [0.5, 1.0], [0.5, 1.0]])
SPLIT = np.array([[1.0, 1.0], [1.0, 1.0], [5.0, 5.0], [5.0, 5.0]])
LITTLE = SPLIT / 2
TOO_MUCH = SPLIT * 2


def _rounded(tasks: np.ndarray, seed: int) -> np.ndarray:
    ulps = np.random.default_rng(seed).integers(-4, 5, tasks.shape)
    return tasks * (1 + np.finfo(float).eps * ulps)


def _population(subject: Subject):
    return check_population_monotonicity(subject, departures=10, seed=0)


def _halved_when_anybody_leaves(problem: Problem, seed: int) -> Subject:
    """Return the answers of a rule that is rounded in some way."""

    def divide(other: Problem) -> np.ndarray:
        part = 1.0 if other.n_users == problem.n_users else 0.5
        return _rounded(np.full((other.n_users, other.n_groups), part), seed)

    return subject_of(problem, divide)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("check", "problem", "tasks", "named"),
    [
        (check_bottleneck_fairness, ALIKE, SPLIT, {"user": "u1"}),
        (check_envy_freeness, ALIKE, SPLIT, {"user": "u1", "envies": "u3"}),
        (check_feasibility, ALIKE, TOO_MUCH, {"group": "g1", "resource": "r2"}),
        (check_sharing_incentive, ALIKE, LITTLE, {"user": "u1"}),
        (check_single_server_drf, ONE_POOL, SPLIT[:, :1], {"user": "u3"}),
        (check_non_wastefulness, ALIKE, LITTLE, {"user": "u1", "group": "g1"}),
        (_population, ALIKE, SPLIT, {"leaves": "u1", "loses": "u2"}),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_rounding_chooses_no_witness(check, problem, tasks, named, seed) -> None:
    if check is _population:
        subject = _halved_when_anybody_leaves(problem, seed)
    else:
        subject = subject_of(problem, Holdings(problem, _rounded(tasks, seed)))
    verdict = check(subject)
    assert verdict.verdict == "fails"
    assert json.loads(json.dumps(verdict.witness)).items() >= named.items()
