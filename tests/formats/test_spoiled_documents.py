"""Documents spoiled somewhere are read, or refused in one line: the inputs of hostile callers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import cases
from fairlead.errors import InputError
from fairlead.formats import _kubernetes_objects, allocation_file, problem_file
from fairlead.formats.kubernetes import read_kubernetes
from fairlead.model.problem import Problem
from kubernetes_dumps import affinity, container, dump, expression, node, pod

PIECES = st.sampled_from(
    [None, True, -1, 0, 1.5, 10**400, math.nan, math.inf, 1e308, "", "x", "4Gi", "ana", "big", "n0",
     "\x1b", "\ud800", "1e999", [], [[]], [3], {}, [{}], {"cpu": "1"}, {"cpu": []}, {"name": "n0"},
     {"big": 1}, {"old": "x"}]
).map(copy.deepcopy)  # fmt: skip
ODD_KEYS = (3, None, True)
ODD_MAPPINGS = st.sampled_from([{1: 2, "1": 3}, {None: 1}, {(1, 2): 3}, {True: 1}])


def spoil(draw: st.DrawFn, value: Any) -> Any:
    """Replace, remove or add something somewhere in a document."""
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        k = draw(st.integers(0, len(value) - 1))
        return [*value[:k], spoil(draw, value[k]), *value[k + draw(st.integers(0, 1)) :]]
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(list(value)))
        rest = {k: v for k, v in value.items() if k != key}
        new = draw(st.sampled_from([key] * 5 + ["x", *ODD_KEYS]))
        return {**rest, new: spoil(draw, value[key])}
    return draw(PIECES | ODD_MAPPINGS)


PROBLEM = yaml.safe_load("""
fairlead: 1
resources: {cpu: cores, memory: GiB}
servers:
  - {name: big, count: 3, capacity: {cpu: 64, memory: 512Gi}, labels: {gpu: T4}}
  - {name: old, count: 8, capacity: {cpu: "16", memory: 64Gi}}
users:
  - {name: ana, demand: {cpu: 500m, memory: 2Gi}, weight: 2}
  - {name: bo, demand: {cpu: 4, memory: 1Gi}, servers: [big], tasks: 40}
  - {name: cy, demand: {cpu: 1, memory: 8Gi}, servers: {gpu: T4}}
  - {name: dee, demand: {cpu: 1}, rates: {big: 80, old: 12}}
""")
HOLDERS = Problem.from_arrays(
    [[8.0, 24.0], [16.0, 4.0]],
    [[1.0, 4.0], [2.0, 0.5]],
    weight=[2.0, 1.0],
    task_limit=[np.inf, 3.0],
    groups=["big", "old"],
    users=["ana", "bo"],
)
ALLOCATION = {
    "fairlead": 1,
    "mechanism": "m",
    "users": [
        {"name": "ana", "servers": {"big": 1}, "weight": 2.0, "tasks": 1},
        {"name": "bo", "servers": {"big": 1, "old": 0.5}},
    ],
}
SMALL = {"cpu": "500m", "memory": "1Gi"}
RICH = pod(
    "rich",
    SMALL,
    affinity=affinity({"matchExpressions": [expression("zone", "Gt", "1")]}),
    tolerations=[{"operator": "Exists"}],
    initContainers=[container(SMALL, sidecar=True)],
)
TAINTED = node("n0", labels={"zone": "2"}, taints=("a=b:NoSchedule",))
DUMP = dump(TAINTED, RICH, node("n1"), pod("good", SMALL, on="n0"))


Patch = pytest.MonkeyPatch


def read_problem(document: Any, lenient: bool, patch: Patch) -> Sequence[str]:
    patch.setattr(problem_file, "read_document", lambda _: document)
    problem = problem_file.load("spoiled.yaml", skip_unplaceable=lenient)
    assert (problem.gamma.max(axis=1) > 0).all()
    return ()


def read_holdings(document: Any, lenient: bool, patch: Patch) -> Sequence[str]:
    patch.setattr(allocation_file, "read_document", lambda _: document)
    held = allocation_file.read_allocation("spoiled.yaml", HOLDERS, lenient=lenient)
    assert (held.tasks <= HOLDERS.unconstrained_gamma * (1 + 1e-6)).all()
    assert (held.tasks >= 0).all()
    return held.skipped


def read_dump(document: Any, lenient: bool, patch: Patch) -> Sequence[str]:
    patch.setattr(_kubernetes_objects, "_load", lambda _: [document])
    held = read_kubernetes("spoiled.yaml", lenient=lenient)
    assert (held.problem.gamma.max(axis=1) > 0).all()
    assert np.isfinite(held.tasks).all()
    return held.skipped


@pytest.mark.parametrize(
    ("document", "read"),
    [(PROBLEM, read_problem), (ALLOCATION, read_holdings), (DUMP, read_dump)],
    ids=["problem", "allocation", "dump"],
)
@settings(max_examples=cases(60), deadline=None)
@given(data=st.data(), lenient=st.booleans())
def test_spoiled_documents_are_read_or_refused_in_one_line(
    document: Any,
    read: Callable[[Any, bool, Patch], Sequence[str]],
    data: st.DataObject,
    lenient: bool,
) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        document = spoil(data.draw, document)
    with pytest.MonkeyPatch.context() as patch:
        try:
            lines = list(read(document, lenient, patch))
            assert lenient or not lines
        except InputError as error:
            lines = [str(error)]
            assert lines[0].startswith("spoiled.yaml: ")
    for line in lines:
        assert line.isprintable()
        assert len(line) < 700
