"""Problem files: their meaning, and round trips."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import cases
from equal_problems import assert_same
from fairlead.errors import InputError
from fairlead.formats.problem_file import dump, load, load_with_report
from fairlead.model.problem import Problem
from faults import fault_of
from strategies import ALL_FEATURES, problems

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("**/*.yaml"))

EXAMPLE = """
fairlead: 1                              # format version
resources: {cpu: cores, memory: GiB}
servers:
  - {name: big, count: 3, capacity: {cpu: 64, memory: 512Gi}, labels: {zone: a, gpu: T4}}
  - {name: old, count: 8, capacity: {cpu: "16", memory: 64Gi}}
users:
  - {name: ana,  demand: {cpu: 500m, memory: 2Gi}, weight: 2}
  - {name: bo,   demand: {cpu: 4, memory: 1Gi}, servers: [big], tasks: 40}
  - {name: cy,   demand: {cpu: 1, memory: 8Gi}, servers: {gpu: T4}}
  - {name: dee,  demand: {cpu: 1}, rates: {big: 80, old: 12}}
"""


def loaded(tmp_path: Path, content: str, name: str = "p.yaml") -> Problem:
    path = tmp_path / name
    path.write_text(content)
    return load(path)


def listed(tmp_path: Path, servers: str, users: str, head: str = "") -> Problem:
    return loaded(tmp_path, f"fairlead: 1\n{head}servers: [{servers}]\nusers: [{users}]\n")


def test_the_documented_example(tmp_path: Path) -> None:
    problem = loaded(tmp_path, EXAMPLE)
    assert problem.cluster.groups == ("big", "old")
    assert problem.cluster.units == ("cores", "GiB")
    assert problem.cluster.capacity.tolist() == [[64, 512], [16, 64]]
    assert problem.count.tolist() == [3, 8]
    assert problem.cluster.labels == ({"zone": "a", "gpu": "T4"}, {})
    assert problem.demand.tolist() == [[0.5, 2], [4, 1], [1, 8], [1, 0]]
    assert problem.weight.tolist() == [2, 1, 1, 1]
    assert problem.users.eligible.tolist() == [[1, 1], [1, 0], [1, 0], [1, 1]]
    assert problem.task_limit.tolist() == [math.inf, 40, math.inf, math.inf]
    assert problem.users.rates is not None
    np.testing.assert_array_equal(problem.users.rates, [[np.nan] * 2] * 3 + [[80, 12]])
    assert problem.users.resource_weight is None


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_load_and_round_trip(path: Path, tmp_path: Path) -> None:
    problem = load(path)
    assert problem.n_users >= 2
    dump(problem, tmp_path / "again.yaml")
    assert_same(problem, load(tmp_path / "again.yaml"))


def test_columns_in_order_of_first_appearance(tmp_path: Path) -> None:
    servers = "{name: a, capacity: {gpu: 1, cpu: 4}}, {name: b, capacity: {disk: 9}}"
    problem = listed(tmp_path, servers, "{name: u, demand: {memory: 0, cpu: 1}}")
    assert problem.cluster.resources == ("gpu", "cpu", "disk", "memory")
    assert problem.cluster.units == ("",) * 4
    assert problem.cluster.capacity.tolist() == [[1, 4, 0, 0], [0, 0, 9, 0]]


def test_declared_order_and_a_resource_that_nobody_names(tmp_path: Path) -> None:
    servers, users = "{name: a, capacity: {cpu: 4, memory: 2}}", "{name: u, demand: {cpu: 1}}"
    problem = listed(tmp_path, servers, users, "resources: [memory, gpu, cpu]\n")
    assert problem.cluster.resources == ("memory", "gpu", "cpu")
    assert problem.cluster.capacity.tolist() == [[2, 0, 4]]


def test_absolute_quantities_without_a_unit(tmp_path: Path) -> None:
    servers = "{name: a, capacity: {cpu: 4000m, memory: 1Ki, gpu: 0}}"
    problem = listed(tmp_path, servers, "{name: u, demand: {cpu: 500m, memory: 0}}")
    assert problem.cluster.capacity.tolist() == [[4, 1024, 0]]
    assert problem.demand.tolist() == [[0.5, 0, 0]]


def test_weights_per_resource_default_to_one(tmp_path: Path) -> None:
    users = (
        "{name: u, demand: {cpu: 1}, weight: {memory: 3}}, {name: v, demand: {cpu: 1}, weight: 2}"
    )
    problem = listed(tmp_path, "{name: a, capacity: {cpu: 4, memory: 2}}", users)
    assert problem.users.resource_weight is not None
    assert problem.users.resource_weight.tolist() == [[1, 3], [2, 2]]


def test_rates_replace_demand_and_are_zero_where_not_named(tmp_path: Path) -> None:
    servers = "{name: 1, capacity: {cpu: 4}}, {name: 2, capacity: {cpu: 4}}"
    users = "{name: u, rates: {2: 3}}, {name: v, demand: {cpu: 9}, rates: {1: 1}}"
    problem = listed(tmp_path, servers, users)
    assert problem.users.rates is not None
    assert problem.users.rates.tolist() == [[0, 3], [1, 0]]
    assert problem.demand.tolist() == [[0], [9]]


def test_names_that_look_like_something_else(tmp_path: Path) -> None:
    problem = loaded(
        tmp_path,
        "fairlead: 1\n"
        "servers: [{name: 1, capacity: {cpu: 4}, labels: {ssd: true, rack: 3}},"
        " {name: off, capacity: {cpu: 4}, labels: {ssd: 'false'}}]\n"
        "users: [{name: no, demand: {cpu: 1}, servers: [1]},"
        " {name: 2020-01-01, demand: {cpu: 1}, servers: {ssd: 'true', rack: '3'}},"
        " {name: on, demand: {cpu: 1}, servers: {ssd: false}}]\n",
    )
    assert problem.cluster.groups == ("1", "off")
    assert problem.users.names == ("no", "2020-01-01", "on")
    assert problem.users.eligible.tolist() == [[1, 0], [1, 0], [0, 1]]


def test_a_whole_server_is_room_for_a_task_of_its_size(tmp_path: Path) -> None:
    problem = loaded(
        tmp_path,
        "fairlead: 1\nresources: {cpu: cores, memory: GB}\n"
        "servers: [{name: a, capacity: {cpu: 0.3, memory: 16Gi}}]\n"
        "users: [{name: u, demand: {cpu: 300m, memory: 17179869184000m}},"
        " {name: v, demand: {cpu: 0.30000000000000004}}]\n",
    )
    assert problem.n_users == 2


def test_expect_is_ignored(tmp_path: Path) -> None:
    assert_same(
        loaded(tmp_path, EXAMPLE), loaded(tmp_path, EXAMPLE + "expect: {anything: [1, x]}\n")
    )


NAME = st.one_of(
    st.sampled_from(["no", "1", "1e3", "2020-01-01", "true", "a b", "~", "{x}", "#", "x: y"]),
    st.text(
        st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8
    ),
)  # fmt: skip


@st.composite
def named_problems(draw: st.DrawFn) -> Problem:
    """Draw a problem with names that YAML could take for something else; each task fits."""
    problem = draw(problems(ALL_FEATURES, zeros=False, kinds=("whole", "few", "any", "wide")))
    unit = st.sampled_from(["", "cores", "GiB", "of the largest server"])
    labels = st.dictionaries(NAME, NAME, max_size=2)

    def names(length: int) -> tuple[str, ...]:
        return tuple(draw(st.lists(NAME, min_size=length, max_size=length, unique=True)))

    cluster = replace(
        problem.cluster,
        groups=names(problem.n_groups),
        resources=names(problem.n_resources),
        units=tuple(draw(unit) for _ in range(problem.n_resources)),
        labels=tuple(draw(labels) for _ in range(problem.n_groups)),
    )
    demand = np.minimum(problem.demand, cluster.capacity.min(axis=0))
    users = replace(problem.users, names=names(problem.n_users), demand=demand)
    return replace(problem, cluster=cluster, users=users)


@settings(max_examples=cases(20), deadline=None)
@given(problem=named_problems(), suffix=st.sampled_from(["yaml", "json"]))
def test_problem_files_round_trip(
    tmp_path_factory: pytest.TempPathFactory, problem: Problem, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("written") / f"p.{suffix}"
    dump(problem, path)
    again, left_out = load_with_report(path)
    assert left_out == []
    assert_same(problem, again)


def test_unplaceable_users_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("precious")
    too_large = Problem.from_arrays([[1.0]], [[2.0]])
    assert fault_of(dump, too_large, path) == (
        f"{path}: users[0]: user 'u1' fits no server: "
        "one task needs 2 of r1, and the largest server has 1"
    )
    assert path.read_text() == "precious"
    assert os.listdir(tmp_path) == ["p.yaml"]


def test_a_new_file_has_the_mode_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    path = tmp_path / "p.yaml"
    dump(Problem.from_arrays([[1.0]], [[1.0]]), path)
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode
    path.chmod(0o640)
    dump(Problem.from_arrays([[1.0]], [[1.0]]), path)
    assert path.stat().st_mode & 0o777 == 0o640


SMALLEST = (
    "fairlead: 1\nresources: [r1]\nservers:\n  - {name: g1, capacity: {r1: 1}}\n"
    "users:\n  - {name: u1, demand: {r1: 1}}\n"
)


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    dump(Problem.from_arrays([[1.0]], [[1.0]]), "-")
    assert capsys.readouterr().out == SMALLEST


TREE = """
fairlead: 1
resources: [cpu, gpu]
servers: [{name: pool, capacity: {cpu: 8}}]
queues:
  - {name: sales}
  - {name: research, weight: 2}
  - {name: 7, parent: research, weight: 0.5}
users:
  - {name: ana, queue: 7, demand: {cpu: 1}}
  - {name: bo, queue: research, demand: {cpu: 1}}
  - {name: cy, demand: {cpu: 1}, weight: 3}
"""


def test_users_belong_to_queues(tmp_path: Path) -> None:
    problem = loaded(tmp_path, TREE)
    queues = problem.users.queues
    assert queues is not None
    assert queues.names == ("sales", "research", "7")
    assert queues.parent.tolist() == [-1, -1, 1]
    assert queues.of_user.tolist() == [2, 1, -1]
    # Nobody of sales is due anything.
    assert problem.part == pytest.approx([2 / 5 * 1 / 3, 2 / 5 * 2 / 3, 3 / 5])
    for name in ("again.yaml", "again.json"):
        dump(problem, tmp_path / name)
        again = load(tmp_path / name)
        assert_same(problem, again)
        assert again.users.queues is not None
        for what in ("names", "weight", "parent", "of_user"):
            assert list(getattr(again.users.queues, what)) == list(getattr(queues, what))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("queue: 7", "queue: seven", "users[0].queue (ana): no queue is named 'seven'"),
        ("parent: research", "parent: 7", "queues[2].parent: no queue above it is named '7'"),
        ("weight: 2", "weight: 0", "queues[1].weight: must be a positive number, not 0"),
        ("weight: 2", "weight: high", "queues[1].weight: must be a positive number"),
        ("name: 7", "name: sales", "queues[2].name: there is already a queue named 'sales'"),
        ("name: 7", "name: bo", "queues[2].name: there is already a user named 'bo'"),
        ("weight: 0.5", "wait: 0.5", "queues[2].wait: unknown key; did you mean 'weight'?"),
        ("weight: 3", "weight: {cpu: 3, gpu: 1}", "queues: have no meaning with weights"),
        ("queues:", "queues: 3\nexpect:", "queues: must be a list, not 3"),
    ],
)
def test_a_fault_of_a_tree_is_one_line(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert fault in fault_of(loaded, tmp_path, TREE.replace(old, new, 1))


def test_a_chain_of_a_thousand_queues_is_refused(tmp_path: Path) -> None:
    rows = ["{name: q0}"] + [f"{{name: q{k}, parent: q{k - 1}}}" for k in range(1, 1000)]
    with pytest.raises(InputError, match=r"queues\[100\].parent: is more than 100 levels deep"):
        listed(
            tmp_path,
            "{name: a, capacity: {cpu: 1}}",
            "{name: ana, demand: {cpu: 1}}",
            f"queues: [{', '.join(rows)}]\n",
        )
