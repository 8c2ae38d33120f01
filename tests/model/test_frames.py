"""Frames and series are laid out by their labels, whatever the order of rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equal_problems import assert_same
from fairlead import Problem
from faults import fault_of

CPU_FIRST = {"cpu": [9.0], "mem": [18.0]}


@dataclass
class Series:
    """A column of a pandas frame."""

    values: Any
    index: Any

    def to_numpy(self) -> Any:
        return np.array(self.values)


@dataclass
class Frame(Series):
    """What of pandas is relied on: an index, columns, values."""

    columns: Any


def shuffled(rng: np.random.Generator, values: Any, rows: Any, columns: Any = None) -> Any:
    """Label an array as pandas does, rows and columns in another order."""
    values = np.asarray(values)
    order = rng.permutation(len(rows))
    index = [rows[k] for k in order]
    if columns is None:
        return Series(values[order], index)
    across = rng.permutation(len(columns))
    return Frame(values[order][:, across], index, [columns[k] for k in across])


def in_polars(frame: Any) -> pl.DataFrame:
    """Put the index into a column of text, as polars has none."""
    columns = dict(zip(getattr(frame, "columns", ["value"]), np.atleast_2d(frame.values.T),
                       strict=True))  # fmt: skip
    return pl.DataFrame({"name": list(frame.index)} | columns)


@pytest.mark.parametrize("convert", [lambda frame: frame, in_polars])
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), per_resource=st.booleans())
def test_labels_decide_and_not_the_order(convert: Any, seed: int, per_resource: bool) -> None:
    rng = np.random.default_rng(seed)
    n, g, r = rng.integers(1, 5, 3)
    resources, groups, users = (
        [f"{letter}-{k}" for k in range(m)] for letter, m in (("r", r), ("g", g), ("u", n))
    )
    weight = rng.uniform(1, 2, (n, r) if per_resource else n)
    plain = {
        "capacity": rng.uniform(1, 9, (g, r)),
        "demand": rng.uniform(0.1, 1, (n, r)),
        "count": rng.integers(1, 9, g),
        "weight": weight,
        "eligible": (rng.random((n, g)) < 0.5) | (np.arange(g) == 0),
        "task_limit": rng.uniform(1, 9, n),
        "rates": rng.uniform(1, 2, (n, g)),
    }
    axes = {
        "capacity": (groups, resources),
        "demand": (users, resources),
        "count": (groups,),
        "weight": (users, resources) if per_resource else (users,),
        "eligible": (users, groups),
        "task_limit": (users,),
        "rates": (users, groups),
    }
    names = {"resources": resources, "groups": groups, "users": users}
    expected = Problem.from_arrays(**plain, **names)
    labelled = {key: convert(shuffled(rng, plain[key], *axes[key])) for key in plain}
    for problem in (
        Problem.from_arrays(**labelled, **names),
        Problem.from_arrays(**labelled | {"capacity": plain["capacity"]}, **names),
    ):
        assert_same(problem, expected)
    found = Problem.from_arrays(**labelled)  # in the order of the first that names them
    order = [found.users.names.index(name) for name in users]
    assert found.weight[order] == pytest.approx(expected.weight)
    assert found.task_limit[order] == pytest.approx(expected.task_limit)


def test_labels_that_merely_count_are_no_names() -> None:
    users = Frame([[1.0], [2.0]], ["ana", "bo"], range(1))
    problem = Problem.from_arrays(
        pl.DataFrame(np.array([[4.0]])), users, weight=Series([1, 2], range(2))
    )
    assert (problem.users.names, problem.weight.tolist()) == (("ana", "bo"), [1, 2])
    assert problem.cluster.resources == ("r1",)
    sorted_users = Frame([[1.0], [2.0]], [1, 0], ["cpu"])
    problem = Problem.from_arrays([[4.0]], sorted_users, weight=Series([1.0, 2.0], range(2)))
    assert (problem.users.names, problem.weight.tolist()) == (("1", "0"), [2, 1])


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            {"demand": pl.DataFrame({"cpu": [1.0], "gpu": [1.0]})},
            "demand: has 'gpu', which is",
        ),
        ({"weight": Series([1.0], ["bo"]), "users": ["ana"]}, "weight: has 'bo', which is"),
        ({"resources": ["CPU", "mem"]}, "capacity: has 'cpu', which is none of CPU, mem"),
        (
            {"demand": Frame([[1.0, 1.0]], ["ana"], ["cpu", "cpu"])},
            "demand: has the label 'cpu'",
        ),
        (
            {"demand": pl.DataFrame({"name": ["ana"], "team": ["x"], "cpu": [1.0]})},
            "demand: has text in 'name' and 'team'; one column",
        ),
    ],
)
def test_labels_that_do_not_agree_are_refused(options: Any, fault: str) -> None:
    given = {"capacity": pl.DataFrame(CPU_FIRST), "demand": [[1.0, 1.0]]} | options
    assert fault_of(Problem.from_arrays, **given).startswith(fault)


def test_text_beside_an_index_of_numbers_names_the_rows() -> None:
    """Sorting, filtering and joining leave such an index."""
    table = np.array([["ana", 1.0], ["bo", 2.0]], dtype=object)
    users = Frame(table, np.array([7, 3]), ["name", "cpu"])
    problem = Problem.from_arrays(pl.DataFrame({"cpu": [4.0]}), users)
    assert (problem.users.names, problem.demand.tolist()) == (("ana", "bo"), [[1], [2]])


@pytest.mark.parametrize("name", ["capacity", "demand", "weight", "rates", "task_limit", "count"])
def test_what_is_no_table_of_numbers_is_refused(name: str) -> None:
    given: Any = {"capacity": [[1.0]], "demand": [[1.0]]}
    masked = np.ma.array([[1.0]], mask=[[True]])
    dates = np.array([["2026-01-01"]], dtype="datetime64[D]")
    for wrong in ([["x"]], [[1.0], [1.0, 2.0]], masked, [masked[0]], dates, [[1j]], [[10**400]]):
        assert fault_of(Problem.from_arrays, **given | {name: wrong}).startswith(f"{name}: ")
