"""Workloads: derived arrays, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.cluster import Cluster
from fairlead.model.task_kinds import unplaceable_sets
from fairlead.model.workload import Workload
from faults import fault_of

CLUSTER = Cluster(
    groups=("big", "small"),
    resources=("cpu", "memory"),
    capacity=np.array([[4.0, 8.0], [1.0, 2.0]]),
    count=np.array([2, 3]),
    units=("cores", "GiB"),
    labels=({}, {"zone": "a"}),
)
GOOD: dict[str, Any] = {
    "job_names": ["x", "y"],
    "job_user": [1, 0],
    "job_submit": [0.0, 5.0],
    "job_gang": [False, True],
    "job_cancel": [np.inf, 7.0],
    "set_job": [0, 1, 1],
    "set_tasks": [2, 1, 3],
    "set_shape": [0, 0, 1],
    "shapes": [[1.0, 1.0], [2.0, 2.5]],
    "set_place": [0, 1, 1],
    "places": [[True, True], [True, False]],
    "task_duration": [1.0, 2, 3, 4, 5, 6],
    "server_time": [1.0, 2.0, 2.0],
    "server_event": [2, 1, 0],
    "server": [0, 0, 4],
}


def build(**changes: Any) -> Workload:
    return Workload.from_arrays(CLUSTER, ("ana", "bo"), **(GOOD | changes))


def test_counts_and_offsets() -> None:
    workload = build()
    assert (workload.n_users, workload.n_jobs, workload.n_sets, workload.n_tasks) == (2, 2, 3, 6)
    assert workload.first_task.tolist() == [0, 2, 3, 6]
    assert workload.first_set.tolist() == [0, 1, 3]
    assert workload.job_tasks.tolist() == [2, 4]
    assert workload.first_server.tolist() == [0, 2, 5]
    assert workload.n_servers == 5
    assert workload.span == 5.0
    assert build(server_time=[1.0, 2.0, 9.0]).span == 9.0  # the last event of a server counts
    assert workload.there_at_start.tolist() == [True, True, True, True, False]
    events = {"server_time": range(6), "server_event": [0, 2, 0, 1, 0, 2]}
    assert build(server=[3] * 6, **events).there_at_start.tolist() == [True] * 3 + [False, True]


def test_what_fits_where() -> None:
    workload = build(shapes=[[1.0, 2.0 * (1 + 1e-15)], [4.1, 1.0]], set_place=[0, 1, 0])
    assert workload.fits.tolist() == [[True, True], [False, False]]
    assert unplaceable_sets(workload).tolist() == [False, True, True]  # of one gang
    apart = build(shapes=[[1.0, 2.0], [4.1, 1.0]], set_place=[0, 1, 0], job_gang=[False, False])
    assert unplaceable_sets(apart).tolist() == [False, False, True]
    # it fits on the small servers alone, where it may not run
    workload = build(shapes=[[1.0, 1.0], [1.0, 1.5]], places=[[True, True], [True, False]])
    assert not unplaceable_sets(workload).any()
    only_small = build(shapes=[[1.0, 1.0], [3.0, 3.0]], places=[[True, True], [False, True]])
    assert unplaceable_sets(only_small).tolist() == [False, True, True]


def test_gangs_that_all_servers_together_do_not_hold() -> None:
    """Two servers of (4, 8) hold four tasks of (2, 2.5) at once, and three of (1, 2) none."""
    places, tasks = [[True, True], [True, True]], {"task_duration": np.ones(7)}
    room = build(places=places, set_tasks=[2, 1, 4], **tasks)
    assert not unplaceable_sets(room).any()
    tasks = {"task_duration": np.ones(8)}
    gang = build(places=places, set_tasks=[2, 1, 5], **tasks)
    assert unplaceable_sets(gang).tolist() == [False, True, True]
    apart = build(places=places, set_tasks=[2, 1, 5], job_gang=[False, False], **tasks)
    assert not unplaceable_sets(apart).any()
    free = build(shapes=[[1.0, 1.0], [0.0, 1.0]], places=places, set_tasks=[2, 1, 5], **tasks)
    assert not unplaceable_sets(free).any()


def test_equal_shapes_and_places_are_shared_and_unused_ones_go() -> None:
    workload = build(
        shapes=[[9.0, 9.0], [2.0, 3.0], [1.0, -0.0], [2.0, 3.0], [1.0, 0.0]],
        set_shape=[3, 4, 2],
        places=[[False, True], [True, True], [True, True]],
        set_place=[2, 1, 0],
    )
    assert workload.shapes.tolist() == [[2.0, 3.0], [1.0, 0.0]]
    assert workload.set_shape.tolist() == [0, 1, 1]
    assert workload.places.tolist() == [[True, True], [False, True]]
    assert workload.set_place.tolist() == [0, 0, 1]


def test_defaults() -> None:
    workload = Workload.from_arrays(
        CLUSTER,
        ("ana",),
        job_user=[0, 0],
        job_submit=[0, 1],
        set_job=[0, 1],
        set_tasks=[1, 2],
        shapes=[[1, 1], [2, 2]],
        task_duration=[1, 1, 1],
    )
    assert workload.job_names.tolist() == ["job-0", "job-1"]
    assert np.isinf(workload.job_cancel).all()
    assert not workload.job_gang.any()
    assert workload.places.tolist() == [[True, True]]
    assert workload.there_at_start.all()
    assert np.isnan(workload.task_start).all()
    assert not workload.has_starts
    assert workload.task_server.tolist() == [-1] * 3


def test_what_did_not_start_or_nobody_knows_when_has_no_server() -> None:
    start = [9, 9, np.inf, np.nan, 6, np.nan]
    found = build(task_start=start, task_server=[0, -1, 2, 3, 4, -1])
    assert found.has_starts
    np.testing.assert_array_equal(found.task_start, start)
    assert found.task_server.tolist() == [0, -1, -1, -1, 4, -1]


NAN = float("nan")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"job_submit": [0, NAN]}, "jobs[1].submit: must be a number of seconds from 0, not nan"),
        ({"job_submit": [5, 4]}, "jobs[1].submit: time runs backwards to 4.0"),
        ({"job_submit": [[0, 1]]}, "jobs submit: must have one dimension"),
        ({"job_submit": [], "job_user": []}, "jobs: there is no job"),
        ({"job_submit": ["a", "b"]}, "jobs submit: must be a table of numbers"),
        ({"job_user": [0, 2]}, "jobs[1].user: must be from 0 to 1, not 2"),
        ({"job_user": [0, 0.5]}, "jobs[1].user: must be a whole number, not 0.5"),
        ({"job_names": ["x", "x"]}, "jobs[1].name: duplicate name 'x'"),
        ({"job_cancel": [1, 4.9]}, "jobs[1].cancel: must be a time at or after its submission"),
        ({"job_gang": [0, 1]}, "job gang: must be booleans"),
        ({"set_job": [0, 0, 0]}, "jobs[1]: has no tasks"),
        ({"set_job": [1, 0, 1]}, "sets[1].job: runs backwards to job 0"),
        ({"set_tasks": [2, 0, 4]}, "sets[1].tasks: must be a positive number, not 0"),
        ({"set_tasks": [2, 1, 4]}, "task duration: must have shape (7,)"),
        ({"set_tasks": [2, 1, 2**31]}, "sets[2].tasks: must be from 0 to"),
        ({"set_tasks": [2**30, 2**30, 2**30]}, "sets: there are 2^31 tasks or more"),
        ({"set_shape": [0, 0, 2]}, "sets[2].shape: must be from 0 to 1, not 2"),
        ({"set_place": [0, 0, 5]}, "sets[2].place: must be from 0 to 1, not 5"),
        ({"server_event": [2, 1, 3]}, "server events[2].event: must be from 0 to 2, not 3"),
        ({"server": [0, 0, 5]}, "server events[2].server: must be from 0 to 4, not 5"),
        ({"set_shape": None}, "shapes: 2 rows for 3 sets"),
        ({"shapes": [[1, 1], [1, NAN]]}, "shapes[1].memory: must be 0 or a number between"),
        ({"shapes": [[0, 0], [1, 1]]}, "shapes[0]: takes nothing of any resource"),
        ({"shapes": [[1], [1]]}, "shapes: must have shape (rows, 2)"),
        ({"places": [[True, True], [False, False]]}, "places[1]: allows no group"),
        ({"places": [[True], [True]]}, "places: must be booleans of shape (E, 2)"),
        ({"task_duration": [1, 1, 1, 1, 1, 0]}, "tasks[5].duration: must be a positive number"),
        (
            {"task_start": [9, 9, 4, 9, 9, 9]},
            "tasks[2].start: must be a time at or after its job's",
        ),
        ({"task_start": [1, 2, 6, 6, 8, 6]}, "tasks[4].start: must be a time at or before its job"),
        ({"task_server": [0, 1, 2, 3, 5, -1]}, "tasks[4].server: must be from 0 to 4, not 5"),
        ({"server_time": [1, 3, 2]}, "server events[2].time: time runs backwards to 2.0"),
        ({"server_event": [1, 2, 0]}, "server events[1]: a drain cannot follow a leave"),
        ({"weight": [1, -1]}, "users[1].weight: must be a number from 0, not -1.0"),
    ],
)
def test_refusals_name_the_entry(changes: dict[str, Any], said: str) -> None:
    assert fault_of(build, **changes).startswith(said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"count": np.array([2, 0])}, "groups[1].count: must be a positive number, not 0"),
        ({"capacity": np.array([[1.0, 1], [NAN, 1]])}, "groups[1].cpu: must be 0 or a number"),
        ({"groups": ("a", "a")}, "groups[1].name: duplicate name 'a'"),
        ({"labels": ()}, "labels: must have shape (2,), not (0,)"),
        (
            {"count": np.array([10**7, 5])},
            "groups[1].count: there are more than 10,000,",
        ),
        ({"devices": ("memory",)}, "shapes[1].memory: must be a part of one device"),
    ],
)
def test_unusable_clusters(changes: dict[str, Any], said: str) -> None:
    cluster = Cluster(**(vars(CLUSTER) | changes))
    assert fault_of(Workload.from_arrays, cluster, ("ana", "bo"), **GOOD).startswith(said)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_sharing_keeps_what_every_task_takes(rows: list[tuple[int, int]]) -> None:
    """Through all sharing and joining, each task keeps its shape, by the definition of a set."""
    demands = [(cpu + 1.0, memory / 2) for cpu, memory in rows]
    workload = Workload.from_arrays(
        CLUSTER,
        ("ana",),
        job_user=[0],
        job_submit=[0],
        set_job=[0] * len(rows),
        set_tasks=[1] * len(rows),
        shapes=demands,
        task_duration=np.ones(len(rows)),
    )
    per_task = np.repeat(workload.shapes[workload.set_shape], workload.set_tasks, axis=0)
    assert per_task.tolist() == [list(demand) for demand in demands]
    assert len(workload.shapes) == len(set(demands))
    assert (np.diff(workload.set_shape) != 0).all()
