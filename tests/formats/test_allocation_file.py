"""Allocation files: written ones read back, and every fault is one line with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import cases
from fairlead.formats.allocation_file import read_allocation
from fairlead.mechanisms import catalogue
from fairlead.mechanisms.catalogue import solve
from fairlead.model.holdings import Holdings
from fairlead.model.problem import Problem
from fairlead.scheduler.policies import find_policy
from fairlead.simulation.trials import run_trials
from faults import fault_within
from strategies import admitted_by, problems

# ana could run 6 tasks on big (memory) and 4 on old; bo 3 and 16, but is kept from old; cy needs a
# device that old lacks; dee says how much it does on one server.
PROBLEM = Problem.from_arrays(
    [[8.0, 24.0, 2.0], [16.0, 4.0, 0.0]],
    [[1.0, 4.0, 0.0], [2.0, 0.5, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]],
    count=[1, 4],
    weight=[2.0, 1.0, 1.0, 1.0],
    eligible=[[True, True], [True, False], [True, True], [True, True]],
    task_limit=[np.inf, 3.0, np.inf, np.inf],
    rates=[[np.nan] * 2] * 3 + [[5.0, 0.0]],
    resources=["cpu", "memory", "gpu"],
    units=["cores", "GiB", ""],
    groups=["big", "old"],
    users=["ana", "bo", "cy", "dee"],
)


def row(name: Any = "ana", **more: Any) -> dict[str, Any]:
    return {"name": name, "servers": {"big": 1}} | more


def read(tmp_path: Path, document: Any, problem: Problem = PROBLEM, **options: Any) -> Holdings:
    path = tmp_path / "a.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return read_allocation(path, problem, **options)


def fault_of(tmp_path: Path, document: Any, problem: Problem = PROBLEM, **options: Any) -> str:
    """Read the document as a file, and return the message without the file's name."""
    return fault_within(tmp_path / "a.json", read, tmp_path, document, problem, **options)


@settings(max_examples=cases(8), deadline=None)
@given(
    data=st.data(), mechanism=st.sampled_from(["ps-dsf", "drfh", "tsf", "drf", "drf-per-server"])
)
def test_allocations_round_trip(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, mechanism: str
) -> None:
    problem = data.draw(admitted_by(mechanism))
    answer = solve(problem, mechanism)
    held = read(tmp_path_factory.mktemp("a"), answer.to_dict(), problem)
    np.testing.assert_array_equal(held.tasks, answer.tasks)
    assert held.problem.cluster.groups == answer.problem.cluster.groups
    np.testing.assert_allclose(held.usage, answer.usage, rtol=1e-12, atol=1e-12)
    assert held.source == mechanism
    assert held.whole_tasks is False
    assert held.of_one_shape
    assert held.skipped == held.waiting == ()


@settings(max_examples=cases(5), deadline=None)
@given(problem=problems((catalogue.CONSTRAINTS, catalogue.LIMITS)), trials=st.integers(1, 3))
def test_fillings_round_trip(
    tmp_path_factory: pytest.TempPathFactory, problem: Problem, trials: int
) -> None:
    answer = run_trials(problem, find_policy("drf", "rrr", False), trials, seed=1)
    held = read(tmp_path_factory.mktemp("f"), answer.to_dict(), problem)
    np.testing.assert_array_equal(held.tasks, answer.tasks.mean)
    assert held.source == "drf/rrr"
    assert held.whole_tasks is True


def test_yaml_and_whole_numbers_as_names(tmp_path: Path) -> None:
    problem = Problem.from_arrays([[4.0]], [[1.0], [1.0]], groups=["1"], users=["7", "8"])
    path = tmp_path / "a.yaml"
    path.write_text("mechanism: 7\nusers:\n  - {name: 8, servers: {1: 2}}\n")
    held = read_allocation(path, problem)
    assert held.tasks.tolist() == [[0], [2]]
    assert held.source == "7"


def test_the_file_says_whether_tasks_are_whole(tmp_path: Path) -> None:
    for key in ("trials", "criterion", "select"):
        document = {"users": [row()], key: "1"}
        assert read(tmp_path, document).whole_tasks is True
        assert read(tmp_path, {**document, "whole_tasks": False}).whole_tasks is False
    assert read(tmp_path, {"users": [row()], "whole_tasks": True}).whole_tasks is True
    unclear = {"users": [row()], "whole_tasks": "no"}
    assert fault_of(tmp_path, unclear) == "whole_tasks: must be True or False, not 'no'"


def test_one_pool(tmp_path: Path) -> None:
    document = {"users": [row(servers={"pool": 5}), row("bo", servers={})]}
    held = read(tmp_path, document)
    assert held.problem.cluster.groups == ("pool",)
    assert held.problem.cluster.capacity.tolist() == [[72, 40, 2]]
    assert held.tasks.tolist() == [[5], [0], [0], [0]]
    alone = Problem.from_arrays([[4.0]], [[1.0]], groups=["one"], users=["ana"])
    assert read(tmp_path, {"users": [row(servers={"pool": 3})]}, alone).tasks.tolist() == [[3]]
    mixed = {"users": [row(), row("bo", servers={"pool": 1})]}
    assert fault_of(tmp_path, mixed) == "users[1].servers.pool: no group is named 'pool'"


def test_faults_left_to_an_audit(tmp_path: Path) -> None:
    """Forbidden groups, joint overuse and rounding are left to the audit."""
    forbidden = {"users": [row("bo", servers={"old": 2})]}
    assert read(tmp_path, forbidden).tasks[1].tolist() == [0, 2]
    together = {"users": [row(servers={"big": 6}), row("cy", servers={"big": 2})]}
    assert (read(tmp_path, together).usage[0] > PROBLEM.group_capacity[0]).any()
    rounded = {"users": [row(servers={"big": 6 * (1 + 9e-7), "old": 1e-300}, tasks=6)]}
    assert read(tmp_path, rounded).tasks[0].tolist() == [6 * (1 + 9e-7), 0]
    assert read(tmp_path, {"users": [row(weight=2 * (1 + 5e-10), note="x")], "more": 1}).tasks[0, 0]


LAYOUT = {
    "{}": "the key 'users' is missing",
    '{"fairlead": 2, "users": []}': "fairlead: unknown format version 2; this reader knows 1",
    '{"mechanisms": {"drf": {"users": []}}}': "mechanisms: holds the answers of several",
    '{"users": []}': "users: must list at least one",
    '{"users": 3}': "users: must be a list, not 3",
}

ROWS: list[tuple[Any, str]] = [
    (row(None), ".name: must be text, not empty"),
    ({"name": "ana"}, ": the key 'servers' is missing"),
    ({"servers": {}}, ": the key 'name' is missing"),
    (row("anna"), ".name: no user is named 'anna'; did you mean 'ana'?"),
    (row(servers={"bgi": 1}), ".servers.bgi: no group is named 'bgi'; did you mean 'big'?"),
    (row(servers={"big": -1}), ".servers.big: must be a number from 0, not -1"),
    (row(weight="2"), ".weight: must be a number from 0, not '2'"),
    (row(tasks=2), ".tasks: is 2, and the sum over servers is 1"),
    (row(servers={"big": 9}), ".servers.big: 9 tasks need 36 GiB of memory, and the group has 24"),
    (row("cy", servers={"old": 0.5}), ".servers.old: 0.5 tasks need 0.5 of gpu, and the group has"),
    (row("dee", servers={"big": 6}), ".servers.big: 6 tasks, but the user's rate allows only 5"),
    (row("bo", servers={"big": 2, "old": 1.5}), ".servers: hold 3.5 tasks, and user 'bo' has 3"),
]


@pytest.mark.parametrize(("text", "fault"), [*LAYOUT.items()])
def test_a_file_that_is_no_allocation(tmp_path: Path, text: str, fault: str) -> None:
    assert fault_of(tmp_path, text).startswith(fault)


@pytest.mark.parametrize(("source", "fault"), ROWS)
def test_a_row_at_fault(tmp_path: Path, source: Any, fault: str) -> None:
    """A lenient reader skips the row, and looks for no similar names."""
    document = {"users": [source, row("cy")]}
    found = fault_of(tmp_path, document)
    assert found.startswith(f"users[0]{fault}")
    held = read(tmp_path, document, lenient=True)
    assert held.skipped == (found.partition("; did you mean")[0],)
    assert held.tasks[2, 0] == 1
    assert held.tasks.sum() == 1


def test_rows_that_cannot_be_used(tmp_path: Path) -> None:
    """The second row of a user is skipped; if all are, there is no answer."""
    document = {"users": [row(), row("bo"), row()]}
    twice = "users[2].name: user 'ana' already has the row users[0]"
    assert fault_of(tmp_path, document) == twice
    held = read(tmp_path, document, lenient=True)
    assert held.tasks[:, 0].tolist() == [1, 1, 0, 0]
    assert held.skipped == (twice,)
    document = {"users": [row(servers={"big": -1}), row("bo", servers={"x": 1}), 3]}
    assert fault_of(tmp_path, document, lenient=True) == (
        "nothing in it can be used: users[0].servers.big: must be a number from 0, not -1 "
        "(and 2 more)"
    )


def test_allocations_of_another_problem_are_refused(tmp_path: Path) -> None:
    for lenient in (False, True):
        document = {"users": [row("cy"), row(weight=3), row("bo", weight=9)]}
        fault = "users[1].weight: belongs to another problem: user 'ana' has weight 3 here and 2 in"
        assert fault_of(tmp_path, document, lenient=lenient).startswith(fault)
