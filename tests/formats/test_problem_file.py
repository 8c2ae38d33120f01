"""Problem files: their meaning, round trips, and every fault in one line with its place."""

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
from fairlead.formats import problem_file
from fairlead.formats.problem_file import dump, load, load_with_report
from fairlead.model.problem import Problem
from faults import fault_of, fault_within
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
expect: {anything: [1, x]}               # for papers
"""


def loaded(tmp_path: Path, content: str) -> Problem:
    path = tmp_path / "p.yaml"
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


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_can_be_loaded(path: Path) -> None:
    assert load(path).n_users >= 2


def test_columns_in_order_of_first_appearance_or_as_declared(tmp_path: Path) -> None:
    servers = "{name: a, capacity: {gpu: 1, cpu: 4}}, {name: b, capacity: {disk: 9}}"
    users = "{name: u, demand: {memory: 0, cpu: 1}}"
    problem = listed(tmp_path, servers, users)
    assert problem.cluster.resources == ("gpu", "cpu", "disk", "memory")
    assert problem.cluster.units == ("",) * 4
    assert problem.cluster.capacity.tolist() == [[1, 4, 0, 0], [0, 0, 9, 0]]
    problem = listed(tmp_path, servers, users, "resources: [memory, net, disk, gpu, cpu]\n")
    assert problem.cluster.resources == ("memory", "net", "disk", "gpu", "cpu")
    assert problem.cluster.capacity.tolist() == [[0, 0, 0, 1, 4], [0, 0, 9, 0, 0]]


def test_absolute_quantities_without_a_unit(tmp_path: Path) -> None:
    servers = "{name: a, capacity: {cpu: 4000m, memory: 1Ki, gpu: 0}}"
    problem = listed(tmp_path, servers, "{name: u, demand: {cpu: 500m, memory: 0}}")
    assert problem.cluster.capacity.tolist() == [[4, 1024, 0]]
    assert problem.demand.tolist() == [[0.5, 0, 0]]


def test_numbers_that_are_not_named(tmp_path: Path) -> None:
    """Weights of resources are 1, and rates on groups 0; rates replace demands."""
    servers = "{name: a, capacity: {cpu: 4, memory: 2}}"
    users = "{name: u, demand: {cpu: 1}, weight: {memory: 3}}, {name: v, rates: {a: 1}, weight: 2}"
    problem = listed(tmp_path, servers, users)
    assert problem.users.resource_weight is not None
    assert problem.users.resource_weight.tolist() == [[1, 3], [2, 2]]
    servers = "{name: 1, capacity: {cpu: 4}}, {name: 2, capacity: {cpu: 4}}"
    users = "{name: u, rates: {2: 3}}, {name: v, demand: {cpu: 9}, rates: {1: 1}}"
    problem = listed(tmp_path, servers, users)
    assert problem.users.rates is not None
    assert problem.users.rates.tolist() == [[0, 3], [1, 0]]
    assert problem.demand.tolist() == [[0], [9]]


def test_names_that_look_like_something_else(tmp_path: Path) -> None:
    problem = listed(
        tmp_path,
        "{name: 1, capacity: {cpu: 4}, labels: {ssd: true, rack: 3}},"
        "{name: off, capacity: {cpu: 4}, labels: {ssd: 'false'}}",
        "{name: no, demand: {cpu: 1}, servers: [1]},"
        "{name: 2020-01-01, demand: {cpu: 1}, servers: {ssd: 'true', rack: '3'}},"
        "{name: on, demand: {cpu: 1}, servers: {ssd: false}}",
    )
    assert problem.cluster.groups == ("1", "off")
    assert problem.users.names == ("no", "2020-01-01", "on")
    assert problem.users.eligible.tolist() == [[1, 0], [1, 0], [0, 1]]


def test_a_whole_server_is_room_for_a_task_of_its_size(tmp_path: Path) -> None:
    server = "{name: a, capacity: {cpu: 0.3, memory: 16Gi}}"
    users = "{name: u, demand: {cpu: 300m, memory: 17179869184000m}}"
    users += ", {name: v, demand: {cpu: 0.30000000000000004}}"
    listed(tmp_path, server, users, "resources: {cpu: cores, memory: GB}\n")


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
    rows = "".join(f", {{name: q{k}, parent: q{k - 1}}}" for k in range(1, 1000))
    text = f"{HEAD}queues: [{{name: q0}}{rows}]\n{CPU}{USERS}"
    assert fault_in(tmp_path, text) == "queues[100].parent: is more than 100 levels deep"


HEAD = "fairlead: 1\n"
SERVERS = "servers: [{name: big, capacity: {cpu: 8, memory: 32}, labels: {zone: a}}]\n"
CPU = "servers: [{name: a, capacity: {cpu: 8}}]\n"
USERS = "users: [{name: ana, demand: {cpu: 1}}]\n"


def fault_in(folder: Path, text: str) -> str:
    """Load the text as a file, and return the message without the file's name."""
    return fault_within(folder / "p.yaml", loaded, folder, text)


TWO = (
    "servers: [{name: big, capacity: {cpu: 8, memory: 32}, labels: {zone: a, gpu: T4}}, "
    "{name: old, count: 3, capacity: {cpu: 16, memory: 4}, labels: {zone: b}}]\n"
)


def user(fields: str, servers: str = TWO) -> str:
    return f"{HEAD}{servers}users: [{{name: ana, {fields}}}]\n"


SHAPE = {
    "": "is empty",
    "servers: []\n": "the key 'fairlead', the version of the format, is missing",
    "fairlead: 2\n": "fairlead: unknown format version 2; this reader knows 1",
    HEAD: "the key 'servers' is missing",
    f"{HEAD}servers: []\n{USERS}": "servers: must list at least one",
    f"{HEAD}servers: [a]\n{USERS}": "servers[0]: must be a mapping, not 'a'",
    f"{HEAD}servers: [{{name: a, capacity: {{}}}}]\nusers: [{{name: ana, rates: {{a: 1}}}}]\n": (
        "servers[0].capacity: no resource is named"
    ),
    f"{HEAD}{SERVERS}{USERS}user: []\n": "user: unknown key; did you mean 'users'?",
    user(
        "demand: {cpu: 1}, servers: [b]", CPU.replace("]", ", {name: b, count: 0, capacity: {}}]")
    ): ("users[0]: user 'ana' fits no server: the groups that its placement allows have no server"),
}

NO_SERVER = ": user 'ana' fits no server:"

# The fields of a user beside its name, and the fault behind users[0].
OF_USERS = {
    "demnad: {cpu: 1}": ".demnad: unknown key; did you mean 'demand'?",
    "demand: {1.5: 3}": ".demand.1.5: must be text, not 1.5; put it in quotes",
    "demand: {cpu: 1, cpu: 2}": ".demand.cpu: the key 'cpu' appears twice in one mapping",
    "demand: {7: 1, '7': 1}": ".demand.7: the key 7 appears twice (user 'ana')",
    "demand: 3": ".demand: must be a mapping, not 3",
    "demand: {cpu: 1}, weight: {7: 1, '7': 1}": ".weight: the key '7' appears twice in one mapping",
    "demand: {cpu: 1}, servers: []": f"{NO_SERVER} its placement constraint allows no group",
    "demand: {cpu: -1}": ".demand.cpu: must not be negative, not -1 (user 'ana')",
    "demand: {cpu: 1}, weight: -2": ".weight: must be a number from 0, not -2 (user 'ana')",
    "demand: {cpu: 1}, weight: {memory: 0}": ".weight: must be 0 for all resources or for none",
    "demand: {cpu: 1}, weight: {memry: 1}": ".weight.memry: unknown resource; did you mean",
    "demand: {cpu: 1}, tasks: -1": ".tasks: must be a number from 0, not -1 (user 'ana')",
    "demand: {cpu: 500m}": ".demand.cpu: an absolute quantity where servers[0].capacity.cpu is",
    "demand: {cpu: 1}, servers: [bgi]": ".servers[0]: no group is named 'bgi'; did you mean 'big'?",
    "demand: {cpu: 1}, servers: big": ".servers: must be a list of names of groups, or a mapping",
    "demand: {cpu: 1}, servers: {zome: a}": ".servers: no group has a label 'zome'; did you mean",
    "demand: {cpu: 1}, servers: {zone: c}": ".servers.zone: no group has the label zone: c",
    "rates: {bgi: 3}": ".rates.bgi: no group is named 'bgi'; did you mean 'big'?",
    "rates: {big: 3}, servers: [old]": f"{NO_SERVER} its rate is 0 on every group that",
    "demand: {cpu: 1}, servers: {zone: b, gpu: T4}": f"{NO_SERVER} its placement constraint allows",
    "demand: {memory: 5}, servers: [old]": (
        f"{NO_SERVER} one task needs 5 of memory, "
        "and the largest server that its placement allows has 4"
    ),
    "demand: {tpu: 1}": f"{NO_SERVER} no server has tpu",
    "demand: {cpu: 10, memory: 10}": f"{NO_SERVER} no server has 10 of cpu and 10 of memory toget",
    "demand: {cpu: 17, memory: 33}": (
        f"{NO_SERVER} one task needs 17 of cpu, and the largest server has 16; one task needs 33"
    ),
}

OF_SERVERS = {
    f"name: {10**400}, capacity: {{cpu: 1}}": "servers[0].name: is longer than 253 characters:",
    "capacity: {cpu: 1}": "servers[0]: the key 'name' is missing",
    "name: 1.10, capacity: {cpu: 1}": "servers[0].name: must be text, not 1.1; put it in quotes",
    "name: 7, capacity: {cpu: 1}}, {name: '7', capacity: {cpu: 2}": (
        "servers[1].name: duplicate name '7', already the name of servers[0]"
    ),
    "name: a, capacity: {cpu: 1}, labels: {v: 1.5}": (
        "servers[0].labels.v: must be text, not 1.5; put it in quotes"
    ),
    "name: a, count: 0, capacity: {cpu: 1}": "servers: there is no server: every group has a count",
    "name: a, count: 1.5, capacity: {cpu: 1}": "servers[0].count: must be a whole number from 0,",
    "name: a, count: 9007199254740993, capacity: {cpu: 1}": "servers[0].count: must be at most 9,0",
    "name: a, count: 1e30, capacity: {cpu: 1}": "servers[0].count: must be at most 9,007,199,254,",
    "name: a, capacity: {cpu: 8000m}": (
        "users[0].demand.cpu: a plain number where servers[0].capacity.cpu is an absolute "
        "quantity; declare the unit of 'cpu' under resources (user 'ana')"
    ),
}

OF_RESOURCES = {
    "{cpu: normalised}": "users[0].demand.cpu: must be a plain number, not '500m': an absolute",
    "{cpu: 3}": "resources.cpu: must be the name of a unit, not 3",
    "[memory]": "servers[0].capacity.cpu: unknown resource",
    "[cpu, cpu]": "resources[1]: duplicate name 'cpu'",
    "3": "resources: must be a mapping of names to units, or a list of names, not 3",
}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        *SHAPE.items(),
        *((user(fields), f"users[0]{fault}") for fields, fault in OF_USERS.items()),
        *((f"{HEAD}servers: [{{{s}}}]\n{USERS}", fault) for s, fault in OF_SERVERS.items()),
        *(
            (f"resources: {named}\n" + user("demand: {cpu: 500m}", CPU), fault)
            for named, fault in OF_RESOURCES.items()
        ),
    ],
)
def test_faults_of_problem_files(tmp_path: Path, text: str, fault: str) -> None:
    assert fault_in(tmp_path, text).startswith(fault)


@pytest.mark.parametrize(
    ("bound", "fault"),
    [
        ("MOST_PAIRS", "has too many users (1) for its rows of servers (2)"),
        ("MOST_CELLS", "has too many resources (2) for its 3 rows"),
    ],
)
def test_tables_too_large_for_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, fault: str
) -> None:
    monkeypatch.setattr(problem_file, bound, 1)
    assert fault_in(tmp_path, user("demand: {cpu: 1}")).startswith(fault)


MIXED = (
    "users: [{name: ana, demand: {cpu: 100}}, {name: bo, weight: 3, demand: {cpu: 1}},"
    " {name: cy, demand: {tpu: 1}}]\n"
)


def test_skipped_users_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(HEAD + SERVERS + MIXED)
    problem, left_out = load_with_report(path, skip_unplaceable=True)
    assert problem.users.names == ("bo",)
    assert problem.weight.tolist() == [3]
    assert left_out == [
        "user 'ana' fits no server: one task needs 100 of cpu, and the largest server has 8",
        "user 'cy' fits no server: no server has tpu",
    ]
    path.write_text(user("demand: {cpu: 100}"))
    assert fault_within(path, load, path, skip_unplaceable=True) == (
        "users[0]: no user is left: user 'ana' fits no server: "
        "one task needs 100 of cpu, and the largest server has 16"
    )
