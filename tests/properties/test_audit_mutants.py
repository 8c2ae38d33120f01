"""Deliberately broken mechanisms: the auditor has to catch each of them.

A mutant is caught when it fails, on some of a few problems, a property that the mechanism it was
made from does not fail there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead import Problem, solve
from fairlead.mechanisms.catalogue import find_mechanism
from fairlead.mechanisms.max_min import solve_max_min
from fairlead.properties.audit import audit

PROBLEMS = {
    "constrained": Problem.from_arrays(
        [[8, 4], [4, 8], [6, 6]],
        [[1, 1], [2, 1], [1, 3]],
        weight=[1, 2, 1],
        eligible=[[1, 1, 0], [1, 1, 1], [0, 1, 1]],
    ),
    # Khamse-Ashari et al. 2017, Fig. 1: weights, and servers that lack a resource.
    "figure": Problem.from_arrays(
        [[9, 12, 100], [12, 12, 0]], [[1, 2, 10], [1, 2, 1], [1, 2, 0]], weight=[1, 1, 2]
    ),
    "two kinds": Problem.from_arrays([[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]]),
    "finite": Problem.from_arrays(
        [[8, 4], [4, 8]], [[1, 1], [2, 1], [1, 3]], task_limit=[1.5, np.inf, np.inf]
    ),
    "one resource": Problem.from_arrays(
        [[10], [6]], [[1], [2], [3]], eligible=[[1, 1], [1, 0], [1, 1]]
    ),
    "one server": Problem.from_arrays([[10, 12]], [[1, 3], [1, 3], [3, 1]], weight=[2, 1, 1]),
}


def using(problem, **changes):
    """The same problem with other users."""
    return Problem(problem.cluster, replace(problem.users, **changes))


def with_capacity(problem, capacity):
    return Problem(replace(problem.cluster, capacity=capacity), problem.users)


def tasks(problem, name="ps-dsf", **options):
    return solve(problem, name, **options).tasks.copy()


def starve_the_last(problem):
    answer = tasks(problem)
    answer[-1] = 0.0
    return answer


def ignore_constraints(problem):
    return tasks(using(problem, eligible=np.ones_like(problem.users.eligible)))


def waste_a_server(problem):
    answer = tasks(problem)
    answer[:, -1] = 0.0
    return answer


def ignore_weights(problem):
    return tasks(using(problem, weight=np.ones(problem.n_users)))


def oversell_a_server(problem):
    capacity = problem.cluster.capacity.copy()
    capacity[0] *= 1.1
    return tasks(with_capacity(problem, capacity))


def ignore_task_limits(problem):
    return tasks(using(problem, task_limit=np.full(problem.n_users, np.inf)))


def swap_two_users(problem):
    answer = tasks(problem)
    answer[[0, 1]] = answer[[1, 0]]
    return answer


def give_everybody_the_slice(problem):
    return problem.weight[:, None] / problem.weight.sum() * problem.gamma


def first_come_first_served(problem):
    answer = np.zeros((problem.n_users, problem.n_groups))
    free = problem.group_capacity.copy()
    for n in range(problem.n_users):
        asks = problem.demand[n] > 0
        could = np.where(
            problem.runnable[n], (free[:, asks] / problem.demand[n, asks]).min(axis=1), 0
        )
        left = problem.task_limit[n]
        for g in range(problem.n_groups):
            answer[n, g] = min(could[g], left)
            left -= answer[n, g]
        free = np.maximum(free - answer[n][:, None] * problem.demand[n], 0.0)
    return answer


def forget_a_resource(problem):
    demand = problem.demand.copy()
    if problem.n_resources > 1:
        demand[:, 0] = np.where((demand[:, 1:] > 0).any(axis=1), 0.0, demand[:, 0])
    return tasks(using(problem, demand=demand))


def serve_the_most_tasks(problem):
    return tasks(problem, "max-tasks")


def owe_a_little(problem):
    answer = tasks(problem)
    answer[0, 0] -= 1.0 + answer[0, 0]
    return answer


def lose_a_number(problem):
    answer = tasks(problem)
    answer[0, 0] = np.nan
    return answer


def prefer_the_first(problem):
    weight = problem.weight.copy()
    weight[0] *= 1.05
    return tasks(using(problem, weight=weight))


def punish_small_numbers(problem):
    """Fair among three or more; with two left, the first gets nearly all."""
    weight = problem.weight.copy()
    if problem.n_users == 2:
        weight[0] *= 50
    return tasks(using(problem, weight=weight))


def share_as_declared(problem):
    """Each user in proportion to the size of its declared tasks."""
    size = (problem.demand / np.maximum(problem.total_capacity, 1e-9)).sum(axis=1)
    return tasks(using(problem, weight=size))


def dominant_over_eligible_servers(problem):
    """DRFH with dominant shares of the servers where a user says that it may run.

    Khamse-Ashari et al. 2017, II-B: "users may have an incentive to misreport the set of eligible
    servers".
    """
    capacity = problem.users.eligible.astype(float) @ problem.group_capacity
    share = problem.demand / np.where(capacity > 0, capacity, 1.0)
    return solve_max_min(problem, "max-min", share.max(axis=1)).tasks


def level_the_number_of_tasks(problem):
    return solve_max_min(problem, "max-min", np.ones(problem.n_users)).tasks


def share_time_of_divided_servers(problem):
    return tasks(problem, "ps-dsf-tdm")


def divide_servers_one_by_one(problem):
    return tasks(using(problem, task_limit=np.full(problem.n_users, np.inf)), "drf-per-server")


def move_a_little_to_another(problem):
    answer = tasks(problem)
    runs = problem.runnable.all(axis=0)
    if runs.any():
        g = int(runs.argmax())
        answer[0, g] *= 0.97
    return answer


MUTANTS = [
    (starve_the_last, "sharing-incentive"),
    (ignore_constraints, "feasibility"),
    (waste_a_server, "non-wastefulness"),
    (ignore_weights, "envy-freeness"),
    (oversell_a_server, "feasibility"),
    (ignore_task_limits, "feasibility"),
    (swap_two_users, "sharing-incentive"),
    (give_everybody_the_slice, "pareto-optimality"),
    (first_come_first_served, "envy-freeness"),
    (forget_a_resource, "feasibility"),
    (serve_the_most_tasks, "single-resource-fairness"),
    (owe_a_little, "feasibility"),
    (lose_a_number, "feasibility"),
    (prefer_the_first, "envy-freeness"),
    (punish_small_numbers, "population-monotonicity"),
    (share_as_declared, "strategy-proofness"),
    (dominant_over_eligible_servers, "strategy-proofness"),
    (level_the_number_of_tasks, "envy-freeness"),
    (share_time_of_divided_servers, "pareto-optimality"),
    (divide_servers_one_by_one, "single-resource-fairness"),
    (move_a_little_to_another, "non-wastefulness"),
]


def ps_dsf(problem):
    return tasks(problem)


def drfh(problem):
    return tasks(problem, "drfh")


def failing(rule, problem, name):
    return audit(problem, rule, properties=(name,), lies=100, departures=3)[0].verdict == "fails"


@pytest.mark.parametrize(("mutant", "name"), MUTANTS, ids=[m.__name__ for m, _ in MUTANTS])
def test_a_broken_mechanism_is_caught(mutant, name) -> None:
    # PS-DSF does not claim that no lie pays; DRFH does.
    sound = drfh if name == "strategy-proofness" else ps_dsf
    both = []
    for called, problem in PROBLEMS.items():
        if failing(mutant, problem, name):
            if not failing(sound, problem, name):
                return
            both.append(called)
    where = f"only on {both}, where {sound.__name__} does too" if both else "on none of PROBLEMS"
    pytest.fail(f"{mutant.__name__} fails {name} {where}")


@pytest.mark.parametrize("name", ["ps-dsf", "ps-dsf-tdm"])
def test_what_they_are_made_from_is_not_caught(name) -> None:
    for problem in PROBLEMS.values():
        for claim in find_mechanism(name).proved:
            if claim.covers(problem):
                verdict = audit(problem, name, properties=(claim.property,), lies=30)[0]
                assert verdict.verdict != "fails", verdict.sentence
