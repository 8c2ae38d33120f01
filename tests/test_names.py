"""Names with control characters are refused by everything that takes a name, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import category

import numpy as np
import polars as pl
import pytest
from pydantic import TypeAdapter, ValidationError

from fairlead import DynamicDRF, InputError, Problem, load
from fairlead.formats.allocation_file import read_allocation
from fairlead.model.cluster import Cluster
from fairlead.model.names import CONTROL
from fairlead.model.workload import Workload
from fairlead.scheduler.scheduler import Scheduler
from fairlead.service.messages import Label, Name
from fairlead.traces.parquet_trace import read_parquet, write_parquet

Entrance = Callable[[str], object]
FOLDER: list[Path] = []
FINE = ("grün 1", "名前", "a\u200db", '"', "a\u2028b")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> None:
    FOLDER[:] = [tmp_path]


def of_file(user: str = "ana", group: str = "big", cpu: str = "cpu", **label: Any) -> Problem:
    path = FOLDER[0] / "problem.json"
    document = {
        "fairlead": 1,
        "servers": [{"name": group, "capacity": {cpu: 4}, "labels": label}],
        "users": [{"name": user, "demand": {cpu: 1}}],
    }
    path.write_text(json.dumps(document))
    return load(path)


def of_allocation(user: str) -> object:
    problem = of_arrays(groups=["big"])
    problem = Problem(problem.cluster, replace(problem.users, names=(user,)))
    path = FOLDER[0] / "allocation.json"
    path.write_text(json.dumps({"users": [{"name": user, "servers": {"big": 1}}]}))
    return read_allocation(path, problem)


def of_arrays(**names: Any) -> Problem:
    return Problem.from_arrays([[4.0]], [[1.0]], **names)


def of_workload(
    user: str = "ana", job: str = "x", group: str = "big", cpu: str = "cpu", **label: str
) -> Workload:
    cluster = Cluster((group,), (cpu,), np.array([[4.0]]), np.array([1]), ("",), (label,))
    return Workload.from_arrays(
        cluster,
        [user],
        job_names=[job],
        job_user=[0],
        job_submit=[0.0],
        set_job=[0],
        set_tasks=[1],
        shapes=[[1.0]],
        task_duration=[1.0],
    )


def through_parquet(user: str) -> Workload:
    path = FOLDER[0] / "trace.parquet"
    write_parquet(replace(of_workload(), users=(user,)), path)
    return read_parquet(path)


def scheduler() -> Scheduler:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_server("a", {"cpu": 4})
    s.add_queue("ana")
    return s


def frame_of(name: str) -> pl.DataFrame:
    return pl.DataFrame({name: [1.0]})


ENTRANCES: dict[str, Entrance] = {
    "a user of a file": lambda name: of_file(user=name),
    "a group of a file": lambda name: of_file(group=name),
    "a resource of a file": lambda name: of_file(cpu=name),
    "a label of a file": lambda name: of_file(**{name: "x"}),
    "the value of a label of a file": lambda name: of_file(zone=name),
    "a user of an allocation": of_allocation,
    "a user": lambda name: of_arrays(users=[name]),
    "a group": lambda name: of_arrays(groups=[name]),
    "a resource": lambda name: of_arrays(resources=[name]),
    "a label": lambda name: of_arrays(labels=[{name: "x"}]),
    "the value of a label": lambda name: of_arrays(labels=[{"zone": name}]),
    "a frame's column": lambda name: Problem.from_arrays(frame_of(name), frame_of(name)),
    "a user of a workload": lambda name: of_workload(user=name),
    "a job of a workload": lambda name: of_workload(job=name),
    "a group of a workload": lambda name: of_workload(group=name),
    "a resource of a workload": lambda name: of_workload(cpu=name),
    "a label of a workload": lambda name: of_workload(**{name: "x"}),
    "the value of a label of a workload": lambda name: of_workload(zone=name),
    "a user of a parquet file": through_parquet,
    "a resource of a scheduler": lambda name: Scheduler([name], "drf/first-fit"),
    "a server of a scheduler": lambda name: scheduler().add_server(name, {"cpu": 1}),
    "a queue of a scheduler": lambda name: scheduler().add_queue(name),
    "a label of a scheduler": lambda name: scheduler().add_server("b", {}, labels={name: "x"}),
    "the value of a label of a scheduler": lambda name: scheduler().add_server(
        "b", {}, labels={"zone": name}
    ),
    "a label that a task asks for": lambda name: scheduler().submit(
        "ana", {"cpu": 1}, where={name: "x"}
    ),
    "a server that a task asks for": lambda name: scheduler().submit(
        "ana", {"cpu": 1}, where=[name]
    ),
    "a resource of arriving agents": lambda name: DynamicDRF(2, [name]),
    "a name in the service": TypeAdapter(Name).validate_python,
    "a label in the service": TypeAdapter(Label).validate_python,
}


def test_control_characters_are_those_of_unicode() -> None:
    """And halves of characters, which no file can hold."""
    for code in range(0x11000):
        assert bool(CONTROL.search(chr(code))) == (category(chr(code)) in {"Cc", "Cs"})


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_control_characters_in_names(entrance: str) -> None:
    take = ENTRANCES[entrance]
    for name in ("a\0b", "a\t", "a\nb", "a\n", "a\x1bb", "a\x7f", "a\x9bb"):
        with pytest.raises((InputError, ValidationError)) as caught:
            take(name)
        if isinstance(caught.value, InputError):
            assert re.search("control character|zero byte", str(caught.value))
            assert "\n" not in str(caught.value)
    for name in FINE:
        take(name)
