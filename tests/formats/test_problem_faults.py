"""Every fault of a problem file: one line that names the file, the place in it and the fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.errors import ProblemError
from fairlead.formats import problem_file
from fairlead.formats.problem_file import load, load_with_report
from faults import fault_within

HEAD = "fairlead: 1\n"
SERVERS = "servers: [{name: big, capacity: {cpu: 8, memory: 32}, labels: {zone: a}}]\n"
CPU = "servers: [{name: a, capacity: {cpu: 8}}]\n"
USERS = "users: [{name: ana, demand: {cpu: 1}}]\n"


def fault_of(tmp_path: Path, text: str | bytes, name: str = "p.yaml") -> str:
    """Load the text as a file, and return the message without the file's name."""
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    message = fault_within(path, load, path)
    assert len(message) < 400
    return message


TWO = (
    "servers: [{name: big, capacity: {cpu: 8, memory: 32}, labels: {zone: a, gpu: T4}}, "
    "{name: old, count: 3, capacity: {cpu: 16, memory: 4}, labels: {zone: b}}]\n"
)


def user(fields: str, servers: str = TWO) -> str:
    return f"{HEAD}{servers}users: [{{name: ana, {fields}}}]\n"


SHAPE = {
    "": "is empty",
    "servers: []\n": "the key 'fairlead', the version of the format, is missing: write fairlead: 1",
    "fairlead: 2\n": "fairlead: unknown format version 2; this reader knows 1",
    HEAD: "the key 'servers' is missing",
    f"{HEAD}servers: []\n{USERS}": "servers: must list at least one",
    f"{HEAD}{SERVERS}{USERS}user: []\n": "user: unknown key; did you mean 'users'?",
    f"{HEAD}{SERVERS}users: [{{name: 7, demand: {{cpu: 1}}}}, {{name: '7', demand: {{cpu: 1}}}}]": (
        "users[1].name: duplicate name '7', already the name of users[0]"
    ),
}

DECLARE = "declare the unit of 'cpu' under resources (user 'ana')"
FITS_NONE = ": user 'ana' fits no server:"

# The fields of a user beside its name, and the fault behind users[0].
OF_USERS = {
    "demnad: {cpu: 1}": ".demnad: unknown key; did you mean 'demand'?",
    "demand: {1.5: 3}": ".demand.1.5: is not the name of a resource",
    "demand: {cpu: 1, cpu: 2}": ".demand.cpu: the key 'cpu' appears twice in one mapping",
    "demand: {7: 1, '7': 1}": ".demand.7: the key 7 appears twice (user 'ana')",
    "demand: {cpu: -1}": ".demand.cpu: must not be negative, not -1 (user 'ana')",
    "demand: {cpu: 1}, weight: -2": ".weight: must be a number from 0, not -2 (user 'ana')",
    "demand: {cpu: 1}, weight: {memory: 0}": (
        ".weight: must be 0 for all resources or for none (user 'ana')"
    ),
    "demand: {cpu: 1}, weight: {memry: 1}": (
        ".weight.memry: unknown resource; did you mean 'memory'?"
    ),
    "demand: {cpu: 1}, tasks: -1": ".tasks: must be a number from 0, not -1 (user 'ana')",
    "demand: {cpu: 500m}": (
        ".demand.cpu: an absolute quantity where servers[0].capacity.cpu is a plain number; "
        f"{DECLARE}"
    ),
    "demand: {cpu: 1}, servers: [bgi]": (
        ".servers[0]: no group is named 'bgi'; did you mean 'big'?"
    ),
    "demand: {cpu: 1}, servers: big": (
        ".servers: must be a list of names of groups, or a mapping of labels, not 'big'"
    ),
    "demand: {cpu: 1}, servers: {zome: a}": (
        ".servers: no group has a label 'zome'; did you mean 'zone'?"
    ),
    "demand: {cpu: 1}, servers: {zone: c}": ".servers.zone: no group has the label zone: c",
    "rates: {bgi: 3}": ".rates.bgi: no group is named 'bgi'; did you mean 'big'?",
    "rates: {big: 3}, servers: [old]": (
        f"{FITS_NONE} its rate is 0 on every group that its placement allows"
    ),
    "demand: {cpu: 1}, servers: {zone: b, gpu: T4}": (
        f"{FITS_NONE} its placement constraint allows no group"
    ),
    "demand: {memory: 5}, servers: [old]": (
        f"{FITS_NONE} one task needs 5 of memory, "
        "and the largest server that its placement allows has 4"
    ),
    "demand: {tpu: 1}": f"{FITS_NONE} no server has tpu",
    "demand: {cpu: 10, memory: 10}": (
        f"{FITS_NONE} no server has 10 of cpu and 10 of memory together"
    ),
    "demand: {cpu: 17, memory: 33}": (
        f"{FITS_NONE} one task needs 17 of cpu, and the largest server has 16; "
        "one task needs 33 of memory, and the largest server has 32"
    ),
}

OF_SERVERS = {
    "capacity: {cpu: 1}": "servers[0]: the key 'name' is missing",
    "name: 1.10, capacity: {cpu: 1}": "servers[0].name: must be text, not 1.1; put it in quotes",
    'name: "a\\e[31m", capacity: {cpu: 1}': (
        r"servers[0].name: must not have control characters: 'a\x1b[31m'"
    ),
    "name: a, capacity: {cpu: 1}}, {name: a, capacity: {cpu: 2}": (
        "servers[1].name: duplicate name 'a', already the name of servers[0]"
    ),
    "name: a, count: 0, capacity: {cpu: 1}": (
        "servers: there is no server: every group has a count of 0"
    ),
    "name: a, count: 1.5, capacity: {cpu: 1}": (
        "servers[0].count: must be a whole number from 0, not 1.5 (group 'a')"
    ),
    "name: a, count: 1e30, capacity: {cpu: 1}": (
        "servers[0].count: must be at most 9,007,199,254,740,992, not 1e+30 (group 'a')"
    ),
    "name: a, capacity: {cpu: 8000m}": (
        "users[0].demand.cpu: a plain number where servers[0].capacity.cpu is an absolute "
        f"quantity; {DECLARE}"
    ),
}

OF_RESOURCES = {
    "{cpu: normalised}": (
        "users[0].demand.cpu: must be a plain number, not '500m': an absolute quantity has no "
        "meaning in the unit 'normalised' (user 'ana')"
    ),
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
    assert fault_of(tmp_path, text) == fault


def test_values_without_meaning_are_problem_errors(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(user("demand: {cpu: -1}"))
    with pytest.raises(ProblemError) as caught:
        load(path)
    assert caught.value.place == "users[0].demand.cpu"
    assert caught.value.source == str(path)


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
    assert fault_of(tmp_path, user("demand: {cpu: 1}")).startswith(fault)


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
    assert load(path, skip_unplaceable=True).users.names == ("bo",)


def test_skipping_everyone_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(user("demand: {cpu: 100}"))
    with pytest.raises(ProblemError) as caught:
        load(path, skip_unplaceable=True)
    assert str(caught.value) == (
        f"{path}: users[0]: no user is left: user 'ana' fits no server: "
        "one task needs 100 of cpu, and the largest server has 16"
    )
