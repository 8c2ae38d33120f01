"""Read problem files into a `Problem`, and write them.

The format is YAML or JSON, version 1::

    fairlead: 1
    resources: {cpu: cores, memory: GiB}
    servers:
      - {name: big, count: 3, capacity: {cpu: 64, memory: 512Gi}, labels: {zone: a, gpu: T4}}
    users:
      - {name: ana, demand: {cpu: 500m, memory: 2Gi}, weight: 2, servers: {gpu: T4}, tasks: 40}

``devices: [gpu]`` names resources that come in devices: a server has whole devices, and a task
takes a part of one device, or several whole devices. There may be ``queues``, each with a name, a
weight and a parent; then users name their ``queue``.

The checks are stricter than those of `Problem.from_arrays`: one whole task of each user must fit on
a server that the user may use, or the user must have a positive rate there. Users with 0 tasks,
which are idle, are exempt.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.errors import InputError, ProblemError
from fairlead.formats._problem_rows import (
    FORMAT_VERSION,
    NamedGroups,
    ProblemDocument,
    QueueRow,
    Resources,
    ServerRow,
    UserRow,
    check_layout,
    read_labels,
)
from fairlead.formats.atomic_files import write_text
from fairlead.formats.documents import read_document, source_name
from fairlead.formats.file_faults import keyed_by_text
from fairlead.garbage_collection import garbage_collection_paused
from fairlead.model.arguments import file_name, switch
from fairlead.model.cluster import BoolArray, Cluster, FloatArray, device_names, find_unplaceable
from fairlead.model.problem import Problem, read_count
from fairlead.model.quantity import number_at, show
from fairlead.model.queues import TOP, Queues, read_queues

# Largest number of users times groups: such a table takes some hundred MB.
MOST_PAIRS = 200_000_000
# Largest number of rows times resources.
MOST_CELLS = 50_000_000

# Text that needs no quotes in YAML 1.1 or 1.2, unless it is one of `_WORDS`.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))


def load(path: str | Path, *, skip_unplaceable: bool = False) -> Problem:
    """Read a problem file.

    Parameters
    ----------
    path : str or Path
        A YAML or JSON file, or ``-`` for standard input.
    skip_unplaceable : bool
        Leave out users whose task fits no server, instead of refusing the file; `load_with_report`
        also names them.

    Returns
    -------
    Problem
        The problem, with users and groups in file order. Identical groups are not merged
        (`fairlead.model.reductions` can do so).

    Raises
    ------
    InputError
        For a file that cannot be read or is not a problem file. The message is one line with the
        file, the key path and the fault.
    ProblemError
        For meaningless values, with such a message.

    Notes
    -----
    Cost O(rows + N G).

    Examples
    --------
    >>> from pathlib import Path
    >>> text = '''
    ... fairlead: 1
    ... servers: [{name: big, count: 2, capacity: {cpu: 8}}]
    ... users: [{name: ana, demand: {cpu: 2}}]
    ... '''
    >>> size = Path("cluster.yaml").write_text(text)
    >>> load("cluster.yaml")
    <Problem: N=1 users, G=1 groups of 2 servers, R=1 resources>
    """
    return load_with_report(path, skip_unplaceable=skip_unplaceable)[0]


def load_with_report(
    path: str | Path, *, skip_unplaceable: bool = False
) -> tuple[Problem, list[str]]:
    """Read a problem file as `load` does; also return a line for each user that is left out."""
    file_name(path, "path")
    switch(skip_unplaceable, "skip_unplaceable")
    try:
        with garbage_collection_paused():
            return _assemble(check_layout(read_document(path)), skip_unplaceable)
    except InputError as error:
        raise error.within(source_name(path)) from None


def dump(problem: Problem, path: str | Path) -> None:
    """Write a problem file that reads back as the same problem, completely or not at all.

    It is JSON if the path ends in ``.json``, else YAML; ``-`` is standard output. Amounts are plain
    numbers in the declared units. Raises InputError when the file cannot be written, ProblemError
    when a file cannot express the problem, such as a user whose whole task fits no server.
    """
    file_name(path, "path")
    document = document_of(problem)
    try:
        problem_of(document)
        write_document(document, path)
    except InputError as error:
        target = "standard output" if str(path) == "-" else str(path)
        raise error.within(target) from None


def problem_of(document: object) -> Problem:
    """Return the problem of the plain values of a problem file; raise InputError for any other."""
    return _assemble(check_layout(document), skip_unplaceable=False)[0]


def _assemble(document: ProblemDocument, skip_unplaceable: bool) -> tuple[Problem, list[str]]:
    """Build the problem of a checked document; also return a line for each omitted user."""
    servers, users = document["servers"], document["users"]
    groups = _read_unique_names(servers, "servers")
    names = _read_unique_names(users, "users")
    resources = Resources(document)
    tables = (
        resources.read(servers, "servers", "capacity"),
        resources.read(users, "users", "demand"),
    )
    rows, n_resources = len(servers) + len(users), len(resources.names)
    if rows * n_resources > MOST_CELLS:
        raise InputError(f"has too many resources ({n_resources:,}) for its {rows:,} rows")
    if not n_resources:
        raise InputError("no resource is named", "servers[0].capacity")
    cluster = Cluster(
        groups=groups,
        resources=resources.names,
        capacity=resources.matrix(tables[0]),
        count=read_count([_read_count(row, g) for g, row in enumerate(servers)], len(servers)),
        units=tuple(resources.units.values()),
        labels=read_labels(servers),
        devices=_read_devices(document, resources.names),
    )
    demand = resources.matrix(tables[1])
    weight = _read_weights(users, resources)
    task_limit = np.array([_read_task_limit(user, n) for n, user in enumerate(users)])
    eligible, rates = _read_placement(users, cluster)
    queues = _read_queues(document.get("queues", []), users, names)
    for n, name in enumerate(names):
        if not demand[n].any() and (rates is None or np.isnan(rates[n, 0])):
            raise ProblemError(f"user {name!r} demands nothing", f"users[{n}].demand")
    unplaceable = find_unplaceable(cluster, demand, eligible, rates)
    # An idle user has no task to place.
    unplaceable = {n: why for n, why in unplaceable.items() if task_limit[n] > 0}
    keep, left_out = _split_placeable(names, unplaceable, skip_unplaceable)
    problem = Problem.from_arrays(
        cluster.capacity,
        demand[keep],
        count=cluster.count,
        weight=weight[keep],
        eligible=eligible[keep],
        task_limit=task_limit[keep],
        rates=None if rates is None else rates[keep],
        resources=cluster.resources,
        units=cluster.units,
        groups=groups,
        users=[names[n] for n in keep],
        labels=cluster.labels,
        devices=cluster.devices,
    )
    if queues is not None:
        problem = problem.in_tree(queues.select_users(keep))
    return problem, left_out


def _read_unique_names(rows: Sequence[ServerRow] | Sequence[UserRow], what: str) -> tuple[str, ...]:
    row_of: dict[str, int] = {}
    for number, row in enumerate(rows):
        place = f"{what}[{number}].name"
        name = str(row["name"])
        if row_of.setdefault(name, number) != number:
            raise InputError(
                f"duplicate name {name!r}, already the name of {what}[{row_of[name]}]", place
            )
    return tuple(row_of)


def _read_devices(document: ProblemDocument, resources: Sequence[str]) -> tuple[str, ...]:
    names = document.get("devices", [])
    return device_names([str(name) for name in names], resources)


def _read_count(row: ServerRow, g: int) -> float:
    owner = f" (group {show(row['name'])})"
    return number_at(row.get("count", 1), f"servers[{g}].count", owner)


def _read_weights(users: Sequence[UserRow], resources: Resources) -> FloatArray:
    """Read weights: (N,), or (N, R) if any user has weights per resource."""
    weight = np.ones((len(users), len(resources.names)))
    per_resource = False
    for n, user in enumerate(users):
        stated, place = user.get("weight", 1), f"users[{n}].weight"
        owner = f" (user {show(user['name'])})"
        if not isinstance(stated, dict):
            weight[n] = number_at(stated, place, owner)
            continue
        per_resource = True
        for name, value in keyed_by_text(stated, place).items():
            column = resources.known_column(name, f"{place}.{name}")
            weight[n, column] = number_at(value, f"{place}.{name}", owner)
        if weight[n].any() and not weight[n].all():
            raise ProblemError(f"must be 0 for all resources or for none{owner}", place)
    return weight if per_resource else weight[:, 0].copy()


def _read_task_limit(user: UserRow, n: int) -> float:
    if "tasks" not in user:
        return np.inf
    return number_at(user["tasks"], f"users[{n}].tasks", f" (user {show(user['name'])})")


def _read_queues(
    rows: Sequence[QueueRow], users: Sequence[UserRow], names: Sequence[str]
) -> Queues | None:
    if not rows and not any("queue" in user for user in users):
        return None
    return read_queues(rows, [user.get("queue") for user in users], names)


def _read_placement(
    users: Sequence[UserRow], cluster: Cluster
) -> tuple[BoolArray, FloatArray | None]:
    """Return the groups that each user may use, (N, G) bool, and the given rates.

    Rates are (N, G) with NaN rows for users without rates, or None if no user has rates.
    """
    placement = NamedGroups(cluster.groups, cluster.labels)
    shape = (len(users), len(cluster.groups))
    if shape[0] * shape[1] > MOST_PAIRS:
        raise InputError(
            f"has too many users ({shape[0]:,}) for its rows of servers ({shape[1]:,}); "
            "list identical servers once, with a count"
        )
    eligible = np.ones(shape, dtype=bool)
    rates: FloatArray | None = None
    for n, user in enumerate(users):
        if "servers" in user:
            eligible[n] = placement.eligible(user["servers"], f"users[{n}].servers")
        if "rates" in user:
            if rates is None:
                rates = np.full(shape, np.nan)
            rates[n] = placement.rates(user["rates"], f"users[{n}].rates")
    return eligible, rates


def _split_placeable(
    names: Sequence[str], unplaceable: Mapping[int, str], skip: bool
) -> tuple[NDArray[Any], list[str]]:
    """Return the users to keep, and a line for each user that is left out.

    Raises ProblemError if a user would be left out without `skip`, or no user would be kept.
    """
    lines = {n: f"user {names[n]!r} fits no server: {why}" for n, why in unplaceable.items()}
    for n, line in lines.items():
        if not skip:
            raise ProblemError(line, f"users[{n}]")
        if len(lines) == len(names):
            raise ProblemError(f"no user is left: {line}", f"users[{n}]")
    return np.array([n for n in range(len(names)) if n not in lines]), list(lines.values())


def document_of(problem: Problem) -> dict[str, Any]:
    """Return the plain values of a problem file: plain numbers in declared units, no defaults."""
    cluster, units = problem.cluster, problem.cluster.units
    resources: Any = list(cluster.resources)
    if any(units):
        resources = {r: u or None for r, u in zip(resources, units, strict=True)}
    document = {
        "fairlead": FORMAT_VERSION,
        "resources": resources,
        **({"devices": list(cluster.devices)} if cluster.devices else {}),
        "servers": [_server_row(problem, g) for g in range(problem.n_groups)],
    }
    queues = problem.users.queues
    if queues is not None:
        document["queues"] = queues.rows()
    return document | {"users": [_user_row(problem, n) for n in range(problem.n_users)]}


def write_document(document: Mapping[str, Any], path: str | Path) -> None:
    """Write plain values to a file, completely or not at all.

    It is JSON if the path ends in ``.json``, else YAML with a row on each line; ``-`` is standard
    output.
    """
    if str(path).lower().endswith(".json"):
        text = json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    else:
        text = "".join(_yaml_lines(document))
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        write_text(Path(path), text)


def _server_row(problem: Problem, g: int) -> dict[str, Any]:
    cluster = problem.cluster
    row: dict[str, Any] = {"name": cluster.groups[g]}
    if cluster.count[g] != 1:
        row["count"] = int(cluster.count[g])
    row["capacity"] = _amounts(cluster.resources, cluster.capacity[g])
    if cluster.labels[g]:
        row["labels"] = dict(cluster.labels[g])
    return row


def _user_row(problem: Problem, n: int) -> dict[str, Any]:
    """Return the row of a user, without keys whose values are defaults."""
    users, groups = problem.users, np.array(problem.cluster.groups, dtype=object)
    row: dict[str, Any] = {"name": users.names[n]}
    if users.queues is not None and users.queues.of_user[n] != TOP:
        row["queue"] = users.queues.names[users.queues.of_user[n]]
    if (users.demand[n] > 0).any():
        row["demand"] = _amounts(problem.cluster.resources, users.demand[n])
    if users.resource_weight is not None:
        weights = map(_plain, users.resource_weight[n])
        row["weight"] = dict(zip(problem.cluster.resources, weights, strict=True))
    elif users.weight[n] != 1:
        row["weight"] = _plain(users.weight[n])
    if not users.eligible[n].all():
        row["servers"] = groups[users.eligible[n]].tolist()
    if np.isfinite(users.task_limit[n]):
        row["tasks"] = _plain(users.task_limit[n])
    if users.rates is not None and not np.isnan(users.rates[n, 0]):
        row["rates"] = {groups[g]: _plain(users.rates[n, g]) for g in users.rates[n].nonzero()[0]}
    return row


def _amounts(resources: tuple[str, ...], amounts: Any) -> dict[str, float]:
    return {r: _plain(a) for r, a in zip(resources, amounts, strict=True) if a != 0}


def _plain(number: float) -> float:
    """Return a Python number: an int if it is whole and has at most 15 digits."""
    value = float(number)
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _yaml_lines(document: Mapping[str, Any]) -> Iterator[str]:
    for key, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{key}:\n"
            for row in value:
                yield f"  - {_flow_text(row)}\n"
        else:
            yield f"{key}: {_flow_text(value)}\n"


def _flow_text(value: Any) -> str:
    """Return a value in YAML's flow style; text has quotes only if it needs them."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow_text(k)}: {_flow_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow_text(item) for item in value) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
