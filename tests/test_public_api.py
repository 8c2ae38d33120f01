"""The names that users import, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

import fairlead
from oracles.random_workloads import random_workload


def test_every_public_name_is_there_and_documented() -> None:
    assert set(fairlead.__all__) <= set(dir(fairlead))
    assert [name for name in fairlead.__all__ if not getattr(fairlead, name).__doc__] == []


@pytest.mark.parametrize(
    ("mechanism", "what"),
    [
        (lambda problem: problem.gamma, "a function"),
        (["drf"], "of type list"),
        (None, "of type None"),
    ],
)
def test_solve_says_what_it_takes(mechanism: object, what: str) -> None:
    problem = fairlead.Problem.from_arrays([[1.0]], [[1.0]])
    with pytest.raises(fairlead.InputError, match=f"name of a mechanism, such as .*, not {what}"):
        fairlead.solve(problem, mechanism)


@pytest.mark.parametrize("verb", [fairlead.solve, fairlead.audit, fairlead.fill])
def test_a_file_is_no_problem(verb: Callable[..., object]) -> None:
    fault = "problem: must be a Problem, such as fairlead.load.file. gives, not 'cluster.yaml'"
    with pytest.raises(fairlead.InputError, match=fault):
        verb("cluster.yaml", "drf")


def test_one_policy_may_be_given_alone() -> None:
    trace = random_workload(1)
    alone = fairlead.simulate(trace, "drf/best-fit", processes=1)
    listed = fairlead.simulate(trace, ["drf/best-fit"], processes=1)
    assert list(alone) == ["drf/best-fit"]
    assert alone["drf/best-fit"].to_dict() == listed["drf/best-fit"].to_dict()
    with pytest.raises(fairlead.InputError, match="'drf'"):
        fairlead.simulate(trace, "drf", processes=1)
    with pytest.raises(fairlead.InputError, match="'weight'"):
        fairlead.simulate(trace, "drf/best-fit", what_if="weight", processes=1)


def test_what_is_shown_of_values_is_one_line() -> None:
    problem = fairlead.Problem.from_arrays(np.ones((40, 1)) * 9, np.ones((30, 1)), count=[100] * 40)
    answer = fairlead.solve(problem, "drf")
    held = fairlead.audit(problem, answer, properties=["feasibility"]).subject.holdings
    shown = [repr(x) for x in (problem, problem.cluster, problem.users, answer, held)]
    assert [text for text in shown if len(text) > 100 or "\n" in text] == []
    assert shown[0] == "<Problem: N=30 users, G=40 groups of 4,000 servers, R=1 resources>"
    assert shown[3] == "<Allocation by drf: 36,000 tasks, N=30 users, G=1 groups, proved>"


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'fairlead' has no attribute 'laod'"):
        fairlead.laod  # noqa: B018 (reading the attribute is the test)


def test_importing_the_package_loads_no_parser_and_no_solver() -> None:
    program = (
        "import sys, fairlead; heavy = ('pydantic', 'yaml_rs', 'highspy'); "
        "print([m for m in heavy if m in sys.modules]); "
        "fairlead.load; print([m for m in heavy if m in sys.modules]); "
        "fairlead.fill; print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n['pydantic']\n['pydantic']\n"
