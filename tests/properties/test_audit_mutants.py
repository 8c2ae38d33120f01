"""Deliberately broken mechanisms: the audit catches each, where the sound mechanism passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead import Problem, solve
from fairlead.properties.audit import audit

CONSTRAINED = Problem.from_arrays(
    [[8, 4], [4, 8], [6, 6]],
    [[1, 1], [2, 1], [1, 3]],
    weight=[1, 2, 1],
    eligible=[[1, 1, 0], [1, 1, 1], [0, 1, 1]],
)
ONE_RESOURCE = Problem.from_arrays([[10], [6]], [[1], [2], [3]], eligible=[[1, 1], [1, 0], [1, 1]])

ONE_SERVER = Problem.from_arrays([[10, 12]], [[1, 3], [1, 3], [3, 1]], weight=[2, 1, 1])


def tasks(problem, name="ps-dsf", **changes):
    """Return the answer of a mechanism for changed users."""
    return solve(Problem(problem.cluster, replace(problem.users, **changes)), name).tasks.copy()


def starve_the_last(problem):
    answer = tasks(problem)
    answer[-1] = 0.0
    return answer


def ignore_constraints(problem):
    return tasks(problem, eligible=np.ones_like(problem.users.eligible))


def waste_a_server(problem):
    answer = tasks(problem)
    answer[:, -1] = 0.0
    return answer


def ignore_weights(problem):
    return tasks(problem, weight=np.ones(problem.n_users))


def give_each_its_slice(problem):
    return problem.weight[:, None] / problem.weight.sum() * problem.gamma


def serve_the_most_tasks(problem):
    return tasks(problem, "max-tasks")


def punish_small_numbers(problem):
    """Fair among three or more; with two left, the first gets nearly all."""
    weight = problem.weight.copy()
    if problem.n_users == 2:
        weight[0] *= 50
    return tasks(problem, weight=weight)


def share_as_declared(problem):
    """Each user in proportion to the size of its declared tasks."""
    return tasks(problem, weight=(problem.demand / problem.total_capacity).sum(axis=1))


@pytest.mark.parametrize(
    ("mutant", "name", "problem"),
    [
        (starve_the_last, "sharing-incentive", CONSTRAINED),
        (ignore_constraints, "feasibility", CONSTRAINED),
        (waste_a_server, "non-wastefulness", CONSTRAINED),
        (ignore_weights, "envy-freeness", ONE_SERVER),
        (give_each_its_slice, "pareto-optimality", CONSTRAINED),
        (serve_the_most_tasks, "single-resource-fairness", ONE_RESOURCE),
        (punish_small_numbers, "population-monotonicity", CONSTRAINED),
        (share_as_declared, "strategy-proofness", ONE_SERVER),
    ],
)
def test_a_broken_mechanism_is_caught(mutant, name, problem) -> None:
    # PS-DSF claims neither of these; DRFH claims both.
    sound = "drfh" if name in ("pareto-optimality", "strategy-proofness") else "ps-dsf"
    options = {"properties": (name,), "lies": 25, "departures": 3}
    assert audit(problem, mutant, **options)[0].verdict == "fails"
    assert audit(problem, sound, **options)[0].verdict != "fails"
