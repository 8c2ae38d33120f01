"""Google's traces of 2019: each field of a few rows written by hand, each note and each fault."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from fairlead.model.workload import JOIN, LEAVE
from fairlead.traces.logs import google, google_2019, google_tables
from fairlead.traces.logs.google_2019 import COLLECTIONS, INSTANCES, MACHINES, read_google_2019
from fairlead.traces.logs.job_collector import NO_USER
from faults import fault_of, fault_within

AFTER = 2**63 - 1
SUBMIT, QUEUE, ENABLE, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, PENDING, RUNNING = range(11)
Record = dict[str, object]


def at(seconds: float) -> str:
    """Microseconds of the trace's own time, of which 600 s is the first moment."""
    return str(round((600 + seconds) * 1e6))


def event(
    seconds: float | None, kind: int, collection: int, index: int = 0, **more: object
) -> Record:
    """An event of an instance as BigQuery exports it; without seconds it is before the trace."""
    ids = {"collection_id": str(collection), "instance_index": str(index)}
    return {"time": "0" if seconds is None else at(seconds), "type": str(kind), **ids, **more}


def asks(cpus: float, memory: float) -> Record:
    return {"resource_request": {"cpus": cpus, "memory": memory}}


MACHINE_EVENTS: list[Record] = [
    {"time": "0", "machine_id": "11", "type": "1", "capacity": {"cpus": 0.5, "memory": 0.25}},
    {"time": "0", "machine_id": "12", "type": "1", "capacity": {"cpus": 1, "memory": 1.0}},
    {"time": at(50), "machine_id": "11", "type": "3", "capacity": {"cpus": 0.5, "memory": 0.5}},
    {"time": at(20), "machine_id": "13", "type": "1", "capacity": {"cpus": 0.5, "memory": 0.25}},
    {"time": at(90), "machine_id": "13", "type": "2"},
    {"time": at(95), "machine_id": "14", "type": "1"},
    {"time": str(AFTER), "machine_id": "12", "type": "2"},
]
COLLECTION_EVENTS: list[Record] = [
    {"time": at(5), "type": "0", "collection_id": "300", "user": "ana"},
    {"time": at(9), "type": "3", "collection_id": "300", "user": "ana", "max_per_machine": 1},
    {"time": "0", "type": "0", "collection_id": "200", "user": "bo", "max_per_switch": "0"},
    {"time": at(7), "type": "0", "collection_id": "400", "max_per_machine": 0},
    {"time": at(7), "type": "0", "collection_id": "500", "user": "cy",
     "start_after_collection_ids": ["300"]},
]  # fmt: skip
INSTANCE_EVENTS: list[Record] = [
    # Task 0 of job 300 was evicted and ran again; the rows are not in order.
    event(70, FINISH, 300, 0, machine_id="11"),
    event(10, SCHEDULE, 300, 0, machine_id="12"),
    event(5, SUBMIT, 300, 0, **asks(0.1, 0.05)),
    event(30, EVICT, 300, 0, machine_id="12"),
    event(30, SUBMIT, 300, 0, **asks(0.0, 0.0)),
    event(60, SCHEDULE, 300, 0, machine_id="11", **asks(0.2, 0.05)),
    event(6, SUBMIT, 300, 1, constraint=[{"name": "x", "relation": "0"}], **asks(0.2, 0.05)),
    event(40, SCHEDULE, 300, 1, machine_id="11"),
    event(45, FAIL, 300, 1),
    # Job 200 runs all the time; it is cut at both ends.
    event(None, SUBMIT, 200, 0, **asks(0.25, 0.125)),
    event(None, SCHEDULE, 200, 0, machine_id="12"),
    {**event(0, KILL, 200, 0), "time": str(AFTER)},
    # Job 400 has no known user, and runs on a machine that the trace does not list.
    event(8, SUBMIT, 400, 0, **asks(0.5, 0.0)),
    event(9, SCHEDULE, 400, 0, machine_id="-1"),
    # Of job 500, one task runs in an alloc instance; others never run, ask for nothing, take no
    # time or begin after the trace.
    event(12, SUBMIT, 500, 0, **asks(0.1, 0.1)),
    event(13, SCHEDULE, 500, 0, machine_id="13", alloc_collection_id="300", **asks(0.1, 0.1)),
    event(14, KILL, 500, 0),
    event(12, SUBMIT, 500, 1, **asks(0.1, 0.1)),
    event(12, SCHEDULE, 500, 2, **asks(0.0, 0.0)),
    event(15, SCHEDULE, 500, 3, **asks(0.1, 0.1)),
    event(15, FINISH, 500, 3),
    {**event(0, SCHEDULE, 500, 4, **asks(0.1, 0.1)), "time": str(AFTER)},
    event(25, SCHEDULE, 500, 5, machine_id="13", alloc_collection_id="0", **asks(0.3, 0.1)),
    event(100, LOST, 500, 5),
    event(110, RUNNING, 999, 0),
]
TABLES = {MACHINES: MACHINE_EVENTS, COLLECTIONS: COLLECTION_EVENTS, INSTANCES: INSTANCE_EVENTS}


def lines(records: Iterable[Record]) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def first_file(folder: Path, table: str) -> Path:
    return folder / f"{table}-000000000000.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for table, records in TABLES.items():
        first_file(tmp_path, table).write_text(lines(records))
    return tmp_path


def test_jobs_arrive_with_their_tasks_last_attempts(folder: Path) -> None:
    workload = read_google_2019(folder)
    cluster = workload.cluster
    assert cluster.resources == ("cpu", "memory")
    assert cluster.capacity.tolist() == [[0.5, 0.25], [1, 1], [0.5, 0.5]]
    assert cluster.count.tolist() == [2, 1, 1]
    assert workload.server_time.tolist() == [20, 50, 50, 90]
    assert workload.server_event.tolist() == [JOIN, LEAVE, JOIN, LEAVE]
    assert workload.server.tolist() == [1, 0, 3, 1]
    assert workload.job_names.tolist() == ["200", "300", "400", "500"]
    assert workload.users == ("bo", "ana", "unknown", "cy")
    assert workload.job_user.tolist() == [0, 1, 2, 3]
    assert workload.job_submit.tolist() == [0, 5, 8, 25]
    assert not workload.job_gang.any()
    assert workload.set_job.tolist() == [0, 1, 2, 3]
    assert workload.set_tasks.tolist() == [1, 2, 1, 1]
    assert workload.shapes[workload.set_shape].tolist() == [
        [0.25, 0.125], [0.2, 0.05], [0.5, 0], [0.3, 0.1],
    ]  # fmt: skip
    assert workload.places.all()
    assert workload.task_start.tolist() == [0, 60, 40, 9, 25]
    assert workload.task_duration.tolist() == [110, 10, 5, 101, 75]
    # Machine 11 is server 0, and 3 from its update at 50 s; 12 is 2, 13 is 1.
    assert workload.task_server.tolist() == [2, 3, 0, -1, 1]
    assert workload.notes == {
        google_2019.IN_ALLOC: 1, google_2019.CONSTRAINED: 1, google_2019.NO_SERVER: 1, NO_USER: 1,
        google_2019.SPREAD: 1, google_2019.AFTER_OTHERS: 1, google_2019.AFTER_END: 1,
        google.NEVER_RAN: 3, google.NO_REQUEST: 1, google.NO_TIME: 1, google.EARLIER_ATTEMPTS: 1,
        google.STILL_RUNNING: 2, google.RAN_BEFORE: 1, google.LAST_ATTEMPT.format("failed"): 1,
        google.LAST_ATTEMPT.format("lost"): 1, google_tables.NO_CAPACITY: 1,
    }  # fmt: skip


def test_an_end_at_a_later_begin_is_of_the_attempt_before(folder: Path) -> None:
    records = [
        event(1, SCHEDULE, 1, **asks(0.1, 0.1)),
        event(5, SCHEDULE, 1),
        event(5, EVICT, 1),
        event(9, FINISH, 1),
    ]
    first_file(folder, INSTANCES).write_text(lines(records))
    workload = read_google_2019(folder)
    assert (workload.task_start.tolist(), workload.task_duration.tolist()) == ([5], [4])


def test_tables_may_be_folders_of_compressed_parts(folder: Path) -> None:
    whole = read_google_2019(folder)
    for table, records in TABLES.items():
        first_file(folder, table).unlink()
        (folder / table).mkdir()
        for k, part in enumerate((records[:3], records[3:])):
            packed = gzip.compress(lines(part).encode())
            (folder / table / f"{table}-00000000000{k}.json.gz").write_bytes(packed)
    workload = read_google_2019(folder)
    assert workload.notes == whole.notes
    assert workload.task_start.tolist() == whole.task_start.tolist()


def test_a_missing_table_is_named(folder: Path) -> None:
    for table in (MACHINES, INSTANCES, COLLECTIONS):
        first_file(folder, table).unlink()
        first_file(folder, table).mkdir()  # no file of the table, as these are not:
        (folder / f"{table}.schema.json").write_text("")
        (folder / table).mkdir()
        (folder / table / "part-00000-of-00001.csv.gz").write_text("")
        assert f"{folder}: has no file such as {table}-000" in fault_of(read_google_2019, folder)


GOOD = event(0, SCHEDULE, 300, **asks(0.5, 0.5))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"time": None}, "time: is empty"),
        ({"type": "11"}, "type: '11' is more than 10"),
        ({"machine_id": -2}, "machine_id: '-2' is less than -1"),
        ({"resource_request": 5}, "resource_request: '5' is not a record"),
        ({"resource_request": {"cpus": float("nan")}}, "resource_request.cpus: 'nan' is not a num"),
        ({"resource_request": {"cpus": 10**400}}, "resource_request.cpus: '1000"),
        ({"resource_request": {"cpus": 1e12}}, "is more than 1000000000"),
    ],
)  # fmt: skip
def test_a_fault_names_file_row_and_column(folder: Path, change: Record, fault: str) -> None:
    path = first_file(folder, INSTANCES)
    path.write_text("\n" + lines([GOOD, {**GOOD, **change}]))
    found = fault_of(read_google_2019, folder)
    assert f"{path}: row 3: " in found
    assert fault in found


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"time": 1', "row 1: is not JSON"),
        ('{"time": ' + "[" * 100_000, "row 1: is not JSON"),
        ("{}\n[1]", "row 2: is not a JSON record"),
        ("", "holds no event"),
    ],
)
def test_text_in_another_form_is_refused(folder: Path, text: str, fault: str) -> None:
    path = first_file(folder, INSTANCES)
    path.write_text(text)
    assert f"{path}: {fault}" in fault_of(read_google_2019, folder)


def test_a_trace_without_tasks_that_ran_says_why(folder: Path) -> None:
    first_file(folder, INSTANCES).write_text(lines([event(1, SUBMIT, 300, **asks(1, 1))]))
    fault = fault_within(folder, read_google_2019, folder)
    assert fault.startswith("holds no task that ran (")
    assert f"{google.NEVER_RAN}: 1" in fault
