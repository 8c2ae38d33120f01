"""The papers' printed numbers, from problem data written out here, and the park end to end."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

import fairlead
from fairlead.mechanisms.catalogue import solve
from oracles import answers, definitions, examples, leximax
from random_problems import google_park


@pytest.mark.parametrize(("example", "mechanism"), examples.PRINTED_TASKS)
def test_printed_splits(example, mechanism):
    printed = examples.PRINTED_TASKS[example, mechanism]
    tasks = solve(example(), mechanism).tasks
    np.testing.assert_allclose(tasks, printed, rtol=1e-8, atol=1e-8)


EXAMPLES = sorted(examples.PAPERS.glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_files_say_what_comes_out(path):
    problem, expected = fairlead.load(path), yaml.safe_load(path.read_text()).get("expect", {})
    for policy, total in expected.pop("fill", {}).items():
        criterion, select, *residual = policy.split("/")
        filled = fairlead.fill(problem, criterion, select, residual=bool(residual))
        assert filled.tasks.sum() == total
    for mechanism, tasks in expected.items():
        assert tuple(tasks) == problem.users.names
        # printed to two or three decimals
        assert solve(problem, mechanism).user_tasks == pytest.approx(list(tasks.values()), abs=6e-3)


def test_printed_dominant_shares():
    # Wang, Liang and Li, IV-B: g = 5/7. Metin et al., III-A: 2/3 of memory and of CPU.
    shared = solve(examples.drfh_figure_1(), "drfh")
    np.testing.assert_allclose(shared.dominant_share, [5 / 7, 5 / 7], rtol=1e-9)
    assert shared.dominant_resource == ("memory", "cpu")
    pooled = solve(fairlead.load(examples.PAPERS / "drf-original.yaml"), "drf")
    np.testing.assert_allclose(pooled.dominant_share, [2 / 3, 2 / 3], rtol=1e-9)


@pytest.fixture(scope="module")
def park():
    return google_park(np.random.default_rng(930), 930)


# One of each kind of solver.
LARGE = ["drf", "drfh", "ps-dsf-tdm", "alpha-fair", "max-tasks"]


@pytest.mark.parametrize("mechanism", LARGE)
def test_the_park_is_divided_among_930_users(park, mechanism):
    allocation = solve(park, mechanism)
    assert allocation.certificate.violation <= 1e-9
    solved, tasks = allocation.problem, allocation.tasks
    if mechanism in leximax.SCORES:  # their definition takes a linear programme per user
        assert definitions.feasibility_violation(solved, tasks) <= 1e-9
    else:
        assert answers.violation(solved, mechanism, tasks) <= 1e-8


@pytest.mark.parametrize("mechanism", ["drf", "tsf", "ps-dsf", "alpha-fair-tdm"])
def test_the_park_with_finite_tasks_and_constraints(mechanism):
    constrained = 0.0 if mechanism == "drf" else 0.3
    problem = google_park(np.random.default_rng(7), 300, constrained, limited=0.5)
    allocation = solve(problem, mechanism)
    done = allocation.user_tasks >= problem.task_limit * (1 - 1e-9)
    assert done.any()
    assert not done[np.isfinite(problem.task_limit)].all()
    if mechanism in leximax.SCORES:
        assert definitions.feasibility_violation(allocation.problem, allocation.tasks) <= 1e-9
    else:
        assert answers.violation(allocation.problem, mechanism, allocation.tasks) <= 1e-8


def test_a_small_constrained_park_is_leximax():
    problem = google_park(np.random.default_rng(8), 25, constrained=0.4, limited=0.5)
    totals = solve(problem, "tsf").user_tasks
    np.testing.assert_allclose(totals, answers.oracle_totals(problem, "tsf"), rtol=1e-6)
