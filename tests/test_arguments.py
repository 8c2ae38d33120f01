"""Arguments of the Python API that mean nothing are refused by name, before anything is done."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairlead import InputError, Problem, audit, fill, load, simulate, solve
from oracles.random_workloads import random_workload

PROBLEM = Problem.from_arrays([[9.0, 18.0], [4.0, 2.0]], [[1.0, 4.0], [3.0, 1.0]])
TRACE = random_workload(1)
NO_WHOLE_NUMBERS = (2.5, 2.0, -1, "3", None, True, np.True_, [1], np.nan, pl.Series([1, 2]))
NO_SWITCHES = ("yes", 1, None)
NO_FILES = (None, {}, 3, b"x", ["x"], True, pl.DataFrame({"job": range(20)}))
NO_NAMES = (3, None, "drf/best", b"drf", {"drf/best-fit"}, (x for x in "ab"))


def refused(name: str, call: Any, /, *arguments: Any, **options: Any) -> None:
    with pytest.raises(InputError) as caught:
        call(*arguments, **options)
    assert caught.value.place.split("[")[0] == name, str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", NO_WHOLE_NUMBERS)
def test_whole_numbers(wrong: Any) -> None:
    for name in ("lies", "departures", "seed"):
        refused(name, audit, PROBLEM, "drf", **{name: wrong})
    refused("seed", fill, PROBLEM, seed=wrong)
    refused("seed", simulate, TRACE, "drf/best-fit", seed=wrong, processes=1)
    for name in ("lies", "departures"):
        refused(name, audit, PROBLEM, "drf", **{name: 10**400})
    if wrong is not None:
        refused("processes", simulate, TRACE, "drf/best-fit", processes=wrong)


def test_whole_numbers_of_numpy_are_some() -> None:
    found = audit(PROBLEM, "drf", lies=np.int64(2), seed=np.uint8(3))
    assert found["strategy-proofness"].searched == 2
    refused("seed", simulate, TRACE, "drf/best-fit", seed=2**64, processes=1)


@pytest.mark.parametrize("wrong", NO_SWITCHES)
def test_switches(wrong: Any, tmp_path: Path) -> None:
    refused("residual", fill, PROBLEM, residual=wrong)
    refused("capacity", Problem.from_arrays, None, [[1, 1]])
    refused("demand", Problem.from_arrays, [[1, 1]], None)
    refused("skip_unplaceable", load, tmp_path / "none", skip_unplaceable=wrong)
    for name in ("strict_fifo", "dedicated"):
        refused(name, simulate, TRACE, "drf/best-fit", **{name: wrong})


@pytest.mark.parametrize("wrong", NO_FILES)
def test_files(wrong: Any) -> None:
    refused("path", load, wrong)
    refused("trace", simulate, wrong, "drf/best-fit")
    if wrong is not None:
        refused("folder", simulate, TRACE, "drf/best-fit", folder=wrong)


@pytest.mark.parametrize("wrong", ["3", True, None, [1.0], np.nan, np.inf, -1, 1e9, 10**400])
def test_numbers(wrong: Any) -> None:
    refused("alpha", solve, PROBLEM, "alpha-fair", alpha=wrong)
    if wrong is not None and wrong not in (-1, 1e9):
        refused("until", simulate, TRACE, "drf/best-fit", until=wrong)
    if wrong != 1e9:
        refused("load", simulate, TRACE, "drf/best-fit", load=wrong)


def test_numbers_of_any_kind() -> None:
    expected = solve(PROBLEM, "alpha-fair", alpha=2).tasks
    for two in (Fraction(2), np.float32(2), np.int8(2)):
        np.testing.assert_array_equal(solve(PROBLEM, "alpha-fair", alpha=two).tasks, expected)


@pytest.mark.parametrize("wrong", NO_NAMES)
def test_lists_of_names(wrong: Any) -> None:
    for name in ("users", "groups", "resources", "units"):
        if wrong is not None:
            refused(name, Problem.from_arrays, [[1, 1], [1, 1]], [[1, 1]] * 2, **{name: wrong})
    if not isinstance(wrong, str):
        refused("policies", simulate, TRACE, wrong)
        refused("what_if", simulate, TRACE, "drf/best-fit", what_if=wrong)
    if not isinstance(wrong, str | bytes | set) and wrong is not None:
        refused("properties", audit, PROBLEM, "drf", properties=wrong)


@pytest.mark.parametrize("wrong", [1.5, None, True, b"x", ("a",)])
def test_names_are_text(wrong: Any) -> None:
    for name in ("users", "groups", "resources", "units"):
        given = {name: ["a", wrong]}
        refused(name, Problem.from_arrays, [[1, 1], [1, 1]], [[1, 1]] * 2, **given)
    refused("labels", Problem.from_arrays, [[1]], [[1]], labels=[{wrong: "a"}])
    if wrong is not True:
        refused("labels", Problem.from_arrays, [[1]], [[1]], labels=[{"zone": wrong}])
    if wrong is not None:
        refused("name", audit, PROBLEM, "drf", name=wrong)


def test_whole_numbers_are_names_as_in_files() -> None:
    problem = Problem.from_arrays(
        [[1]], [[1], [2]], users=[1, np.int64(2)], groups=(7,), labels=[{"a": 1, 2: True}]
    )
    assert problem.users.names == ("1", "2")
    assert problem.cluster.groups == ("7",)
    assert problem.cluster.labels == ({"a": "1", "2": "true"},)
    refused("users", Problem.from_arrays, [[1]], [[1], [2]], users=[1, "1"])
    frame = pl.DataFrame({"who": ["2", "1"], "r": [2.0, 1.0]})
    problem = Problem.from_arrays(pl.DataFrame({"r": [4.0]}), frame, users=pl.Series(["1", "2"]))
    assert problem.demand.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("labels", [{}, {}]),
        ("labels", ["a"]),
        ("labels", {"a": "b"}),
        ("labels", 3),
        ("units", ["GiB", "GiB"]),
        ("eligible", [["no"]]),
        ("eligible", [[0.5]]),
        ("eligible", [[1], [1, 2]]),
        ("eligible", (x for x in [[True]])),
        ("eligible", np.ma.array([[True]], mask=[[True]])),
    ],
)
def test_tables_beside_the_amounts(name: str, wrong: Any) -> None:
    refused(name, Problem.from_arrays, [[1]], [[1]], **{name: wrong})


def test_a_score_as_a_labelled_frame() -> None:
    scores = np.array([[1.0, 2.0], [3.0, 4.0]])
    frame = pl.DataFrame({"who": ["u2", "u1"], "g2": scores[::-1, 1], "g1": scores[::-1, 0]})
    expected = solve(PROBLEM, "max-min", score=scores)
    np.testing.assert_array_equal(solve(PROBLEM, "max-min", score=frame).tasks, expected.tasks)
    per_user = pl.DataFrame({"who": ["u2", "u1"], "score": [3.0, 1.0]})
    expected = solve(PROBLEM, "max-min", score=[1.0, 3.0])
    np.testing.assert_array_equal(solve(PROBLEM, "max-min", score=per_user).tasks, expected.tasks)
    refused("score", solve, PROBLEM, "max-min", score=frame.rename({"g1": "g3"}))
    for wrong in (None, {}, [["a"]], np.array(["2026-01-01"] * 2, dtype="M8[D]"), [1, 2, 3]):
        refused("score", solve, PROBLEM, "max-min", score=wrong)


def test_a_count_that_is_too_large_says_so() -> None:
    with pytest.raises(InputError, match="count: must be at most 9,007,199,254,740,991, not 1e"):
        Problem.from_arrays([[1]], [[1]], count=[10**23])
