"""Google's tables of 2011, in small files written to the published schema."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fairlead.model.workload import Workload
from fairlead.traces import _stored_files
from fairlead.traces.logs import google, google_tables
from fairlead.traces.logs.google import read_google
from faults import fault_of

AFTER = 2**63 - 1
MACHINES = "0,1,0,,0.5,0.25\n0,2,0,,0.5,0.25\n0,3,0,,1,1\n"


def at(seconds: float) -> int:
    """Microseconds of the trace's own time, of which 600 s is the first moment."""
    return round((600 + seconds) * 1e6)


def task(
    time: int,
    job: int,
    index: int,
    event: int,
    *,
    cpu: str = "0.1",
    memory: str = "0.2",
    user: str = "ana",
    apart: str = "0",
) -> str:
    return f"{time},,{job},{index},,{event},{user},,9,{cpu},{memory},,{apart}\n"  # fmt: skip


def life(job: int, index: int, submit: float, begin: float, end: float, **what: str) -> list[str]:
    return [
        task(at(submit), job, index, 0, **what),
        task(at(begin), job, index, 1, **what),
        task(at(end), job, index, 4, **what),
    ]


def write(folder: Path, table: str, *parts: str) -> None:
    (folder / table).mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(parts):
        name = f"part-{number:05}-of-{len(parts):05}.csv.gz"
        (folder / table / name).write_bytes(gzip.compress(text.encode()))


def in_order(rows: list[str]) -> str:
    return "".join(sorted(rows, key=lambda row: int(row.split(",")[0])))


def read(folder: Path, rows: list[str], *, machines: str = MACHINES, **tables: str) -> Workload:
    tables = {"task_events": in_order(rows), "machine_events": machines, **tables}
    for table, text in tables.items():
        write(folder, table, text)
    return read_google(folder)


def test_jobs_sets_and_durations(tmp_path: Path) -> None:
    rows = [
        *life(7, 0, 10, 12, 20),
        *life(7, 1, 10, 13, 40, cpu="0.3"),
        *life(7, 2, 11, 12, 15),
        *life(5, 0, 10.5, 11, 11.25, user="bo", memory=""),
    ]
    workload = read(tmp_path, rows)
    assert workload.job_names.tolist() == ["7", "5"]
    assert workload.users == ("ana", "bo")
    assert workload.job_user.tolist() == [0, 1]
    assert workload.job_submit.tolist() == [10, 10.5]
    assert workload.set_tasks.tolist() == [2, 1, 1]
    assert workload.shapes[workload.set_shape].tolist() == [[0.1, 0.2], [0.3, 0.2], [0.1, 0]]
    assert workload.task_duration.tolist() == [8, 3, 27, 0.25]
    assert not workload.job_gang.any()
    assert workload.cluster.count.tolist() == [2, 1]
    assert workload.cluster.capacity.tolist() == [[0.5, 0.25], [1, 1]]
    assert len(workload.server) == 0
    assert workload.notes == {}


def test_the_last_attempt_is_the_work(tmp_path: Path) -> None:
    rows = [
        task(at(1), 1, 0, 0),
        task(at(2), 1, 0, 1),
        task(at(5), 1, 0, 2),  # evicted
        task(at(5), 1, 0, 0),
        task(at(6), 1, 0, 1),
        task(at(8), 1, 0, 8, cpu="0.4"),  # an update while running
        task(at(16), 1, 0, 3),  # failed
        task(at(16), 1, 0, 0, cpu="0.4"),
        task(at(30), 1, 0, 5),  # killed while waiting
        task(at(31), 2, 0, 0),
        task(at(32), 2, 0, 7, cpu="0.4", memory=""),  # an update while waiting
        task(at(33), 2, 0, 1, cpu="", memory=""),
        task(at(34), 2, 0, 4, cpu="", memory=""),
    ]
    workload = read(tmp_path, rows)
    assert workload.task_duration.tolist() == [10, 1]
    assert workload.shapes.tolist() == [[0.1, 0.2], [0.4, 0.2]]
    assert workload.notes == {
        google.EARLIER_ATTEMPTS: 1,
        google.LAST_ATTEMPT.format("failed"): 1,
    }


def test_the_ends_of_the_trace(tmp_path: Path) -> None:
    rows = [
        task(0, 1, 0, 0),
        task(0, 1, 0, 1),
        task(at(30), 1, 0, 4, apart="1"),  # ran before the trace began
        task(at(10), 2, 0, 0),
        task(at(20), 2, 0, 1),  # never ends
        task(at(40), 3, 0, 0),
        task(at(50), 3, 0, 1),
        task(AFTER, 3, 0, 4),  # ends after the trace
        *life(4, 0, 60, 70, 100),
    ]
    workload = read(tmp_path, rows)
    assert workload.job_names.tolist() == ["1", "2", "3", "4"]
    assert workload.job_submit.tolist() == [0, 10, 40, 60]
    assert workload.task_duration.tolist() == [30, 80, 50, 30]
    notes = {google.STILL_RUNNING: 2, google.RAN_BEFORE: 1, google.DIFFERENT_MACHINES: 1}
    assert workload.notes == notes


def test_blocks_and_parts_make_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task whose events lie in three parts is the same task."""
    rows = [row for job in range(20) for row in life(job, job % 3, job, job + 5, job + 9)]
    whole = read(tmp_path / "whole", rows)
    lines = in_order(rows).splitlines(keepends=True)
    write(tmp_path / "parts", "machine_events", MACHINES)
    cuts = ["".join(lines[k : k + 17]) for k in range(0, len(lines), 17)]
    write(tmp_path / "parts", "task_events", *cuts)
    monkeypatch.setattr(_stored_files, "BYTES_PER_BLOCK", 400)
    parts = read_google(tmp_path / "parts")
    assert parts.job_names.tolist() == whole.job_names.tolist()
    assert parts.task_duration.tolist() == whole.task_duration.tolist() == [4] * 20
    assert parts.n_tasks == 20


def test_machines_come_and_go(tmp_path: Path) -> None:
    machines = (
        "0,1,0,p,0.5,0.25\n"
        "0,2,0,p,0.5,0.5\n"
        "0,2,1,p,,\n0,2,0,p,0.5,0.5\n"  # goes and comes back before the trace
        f"{at(5)},3,0,p,0.5,0.25\n"  # comes later
        f"{at(6)},1,1,p,,\n"  # goes
        f"{at(7)},2,2,p,0.5,0.75\n"  # changes: another server
        f"{at(8)},1,0,p,0.5,0.25\n"  # comes back
        f"{at(9)},2,2,p,0.5,0.75\n"  # says the same again
        f"{at(9)},9,1,p,,\n"  # was never there
        f"{at(9)},8,0,p,,\n"  # of unknown size
        f"{at(9)},9,2,p,1,1\n"  # is changed while away
    )
    workload = read(tmp_path, life(1, 0, 1, 2, 3), machines=machines)
    assert workload.cluster.capacity.tolist() == [[0.5, 0.25], [0.5, 0.5], [0.5, 0.75]]
    assert workload.cluster.count.tolist() == [2, 1, 1]
    # servers 0 and 1 are machines 1 and 3; 2 and 3 are machine 2 before and after its change
    assert workload.there_at_start.tolist() == [True, False, True, False]
    events = zip(workload.server_time, workload.server_event, workload.server, strict=True)
    assert list(events) == [
        (0, 1, 2),
        (0, 0, 2),
        (5, 0, 1),
        (6, 1, 0),
        (7, 1, 2),
        (7, 0, 3),
        (8, 0, 0),
    ]
    assert workload.notes == {
        google_tables.NO_CAPACITY: 1,
        google_tables.REMOVAL_OF_ABSENT: 1,
        google_tables.UPDATE_OF_ABSENT: 1,
    }


ATTRIBUTES = "0,1,kernel,7,0\n0,2,kernel,9,0\n0,2,ssd,,0\n0,3,rack,q,0\n"
# A constraint, and the machines that meet it; the third differs also in its capacity.
CONSTRAINTS = {
    "0,kernel,7": {1},
    "0,kernel,": {3},
    "1,kernel,7": {2, 3},
    "1,kernel,": {1, 2},
    "2,kernel,9": {1},
    "3,kernel,7": {2},
    "3,kernel,6": {1, 2},
    "2,kernel,1_000": set(),
    "0,rack,q": {3},
}


def test_constraints_choose_machines(tmp_path: Path) -> None:
    """One job has each constraint; what no machine meets is left out and counted."""
    workload = read(
        tmp_path,
        [row for job in range(len(CONSTRAINTS)) for row in life(job, 0, 1, 2, 3)],
        task_constraints="".join(
            f"{at(1)},{job},0,{text}\n" for job, text in enumerate(CONSTRAINTS)
        ),
        machine_attributes=ATTRIBUTES,
    )
    jobs = [list(CONSTRAINTS)[int(name)] for name in workload.job_names]
    for constraint, place in zip(jobs, workload.places[workload.set_place], strict=True):
        meets = CONSTRAINTS[constraint] or {1, 2, 3}
        assert workload.cluster.count[place].sum() == len(meets), constraint
        assert (workload.cluster.capacity[place][:, 0].max() == 1) == (3 in meets), constraint
    assert workload.notes == {google.MET_BY_NONE: 1}


def test_the_last_statement_of_constraints_counts(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        [*life(1, 0, 1, 2, 3), *life(1, 1, 1, 2, 3), *life(2, 0, 2, 3, 4)],
        task_constraints=(
            f"{at(1)},1,0,0,rack,q\n"
            f"{at(2)},1,0,3,kernel,6\n{at(2)},1,0,2,kernel,9\n"
            f"{at(2)},2,0,2,kernel,9\n{at(2)},2,0,3,kernel,6\n"
        ),
        machine_attributes=ATTRIBUTES + f"{at(9)},1,kernel,50,0\n{at(9)},2,kernel,,1\n",
    )
    places = workload.places[workload.set_place]
    assert [int(workload.cluster.count[place].sum()) for place in places] == [3, 1, 1]
    assert (places[1] == places[2]).all()
    assert workload.notes == {google_tables.ATTRIBUTE_CHANGES: 2}


def test_constraints_without_attributes_are_ignored_and_counted(tmp_path: Path) -> None:
    workload = read(tmp_path, life(1, 0, 1, 2, 3), task_constraints=f"{at(1)},1,0,0,rack,q\n")
    assert workload.places.tolist() == [[True] * len(workload.cluster.groups)]
    assert workload.notes == {google.NO_ATTRIBUTES: 1}


@pytest.mark.parametrize(
    ("table", "text", "message"),
    [
        (
            "task_events",
            task(at(2), 1, 0, 0) + task(at(1), 1, 0, 1),
            "row 2: time: '601000000' is before the row above",
        ),
        ("task_events", task(at(1), 1, 0, 9), "row 1: event type: '9' is more than 8"),
        ("machine_events", "0,1,0,p,,\n", "holds no machine of known capacity"),
    ],
)
def test_unusable_tables(tmp_path: Path, table: str, text: str, message: str) -> None:
    good = {"task_events": in_order(life(1, 0, 1, 2, 3)), "machine_events": MACHINES}
    for name, rows in {**good, table: text}.items():
        write(tmp_path, name, rows)
    part = tmp_path / table / "part-00000-of-00001.csv.gz"
    assert fault_of(read_google, tmp_path).startswith(f"{part}: {message}")


def test_parts_are_in_order_and_each_is_there_once(tmp_path: Path) -> None:
    assert "machine_events: has no part such as part-00000" in fault_of(read_google, tmp_path)
    write(tmp_path, "machine_events", MACHINES)
    assert "task_events: has no part such as part-00000" in fault_of(read_google, tmp_path)
    write(tmp_path, "task_events", "")
    assert "holds no task event" in fault_of(read_google, tmp_path)
    write(tmp_path, "task_events", task(at(1), 1, 0, 0))
    assert "holds no task that ran" in fault_of(read_google, tmp_path)
    write(tmp_path, "task_events", task(at(2), 1, 0, 0), task(at(1), 1, 0, 1))
    (tmp_path / "task_events" / "part-00000-of-00001.csv.gz").unlink()
    assert "00001-of-00002.csv.gz: row 1: time: '601000000' is b" in fault_of(read_google, tmp_path)
    part = tmp_path / "task_events" / "part-00000-of-00002.csv.gz"
    part.write_bytes(part.read_bytes()[:30])
    assert "row 1 or later: the gzip file ends before" in fault_of(read_google, tmp_path)
    part.with_suffix("").write_text("")
    assert "is there twice, also as part-00000-of-0000" in fault_of(read_google, tmp_path)
