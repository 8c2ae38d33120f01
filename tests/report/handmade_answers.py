"""Allocations made by hand, without a solver, for tests of documents."""

from __future__ import annotations

import numpy as np

from fairlead.model.allocation import Allocation, Certificate
from fairlead.model.problem import Problem

HOSTILE = "</script><script>alert(1)</script><b>&amp;"


def certificate(violation: float = 1e-12) -> Certificate:
    return Certificate("all is well (Theorem 0)", violation, 1e-9, {"largest_at": "u1"})


def two_servers(mechanism: str = "drfh") -> Allocation:
    """Two users on two unlike servers, each wholly on the server that suits it."""
    problem = Problem.from_arrays(
        [[2, 12], [12, 2]],
        [[0.2, 1], [1, 0.2]],
        resources=["cpu", "memory"],
        units=["cores", "GiB"],
        groups=["high-memory", "high-cpu"],
        users=["ana", "bo"],
    )
    return Allocation(problem, mechanism, np.array([[10.0, 0], [0, 10]]), certificate())


def crowd(n_users: int, n_groups: int, mechanism: str = "ps-dsf", seed: int = 1) -> Allocation:
    """Many users of very different sizes on many groups; no resource is used up."""
    random = np.random.default_rng(seed)
    problem = Problem.from_arrays(
        random.uniform(1, 9, (n_groups, 2)),
        random.uniform(0.1, 1, (n_users, 2)),
        count=random.integers(1, 50, n_groups),
        resources=["cpu", "memory"],
        units=["cores", "GiB"],
        weight=random.choice([1, 2, 4], n_users),
    )
    size = random.pareto(1.2, (n_users, n_groups)) * (random.random((n_users, n_groups)) < 0.6)
    size[0] += 1
    share = size / size.sum(axis=0)
    return Allocation(problem, mechanism, share * problem.gamma * 0.9, certificate())


def hostile() -> Allocation:
    """An allocation in which every name is HTML that would escape from its element of a page."""
    problem = Problem.from_arrays(
        [[4.0]],
        [[1.0]],
        resources=[f"r{HOSTILE}"],
        units=[f"u{HOSTILE}"],
        groups=[f"g{HOSTILE}"],
        users=[f"n{HOSTILE}"],
        labels=[{f"k{HOSTILE}": f"v{HOSTILE}"}],
    )
    return Allocation(problem, f"m{HOSTILE}", np.array([[3.0]]), certificate())


def hostile_problem() -> Problem:
    """A problem with every optional field, whose names would escape from elements of a page."""
    return Problem.from_arrays(
        [[4.0, 1.25], [2.0, 3.0]],
        [[1.0, 0.5], [0.5, 1.0]],
        count=[1, 3],
        weight=[1, 7],
        eligible=[[True, False], [True, True]],
        task_limit=[np.inf, 17.5],
        resources=[f"{HOSTILE}r{k}" for k in range(2)],
        units=["", HOSTILE],
        groups=[f"{HOSTILE}g{k}" for k in range(2)],
        users=[f"{HOSTILE}'\"{k}" for k in range(2)],
    )
