"""Alibaba's PAI trace: each field of a few rows written by hand, each note and each fault."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fairlead.traces.logs import pai
from fairlead.traces.logs.pai import read_pai
from faults import fault_of, spoil

# j2 comes first by time; j1 is a gang; the instances of j3 follow one another.
JOBS = """\
j1,i1,ana,Terminated,1000.0,1300.0
j2,i2,bo,Terminated,900.0,1200.0
j3,i3,,Failed,1100.0,1200.0
j4,i4,bo,Running,1150.0,
j5,i5,ana,Terminated,,
j6,i6,ana,Terminated,1400.0,1450.0
j6,i6,dee,Terminated,1200.0,1450.0
j7,i7,cy,Waiting,1500.0,0
"""
TASKS = """\
j1,ps,1.0,Terminated,1010.0,1300.0,600.0,29.296875,,T4
j1,worker,2.0,Terminated,1010.0,1300.0,400.0,10.0,50.0,T4
j2,tensorflow,1.0,Terminated,905.0,1200.0,100.0,8.0,100.0,P100
j3,tensorflow,2.0,Failed,1105.0,1200.0,200.0,4.0,25.0,
j4,tensorflow,1.0,Running,1160.0,,200.0,4.0,25.0,T4
j5,evaluator,1.0,Terminated,1300.0,1301.0,,,200.0,A9
j6,worker,1.0,Terminated,1390.0,1450.0,100.0,1.0,0.0,CPU
j6,worker,1.0,Terminated,1390.0,1450.0,999.0,1.0,0.0,CPU
j6,idle,1.0,Terminated,1390.0,1450.0,,,,
j8,worker,1.0,Terminated,1390.0,1450.0,100.0,1.0,0.0,CPU
"""
INSTANCES = """\
j1,worker,a,w1,i1,Terminated,1020.0,1290.0,m2
j1,ps,b,w2,i1,Terminated,1015.0,1300.0,m1
j1,worker,c,w3,i1,Failed,1012.0,1013.0,m3
j1,worker,c,w3,i1,Terminated,1025.0,1280.0,m1
j2,tensorflow,d,w4,i2,Terminated,910.0,1200.0,m3
j3,tensorflow,e,w5,i3,Failed,1110.0,1150.0,m4
j3,tensorflow,f,,i3,Failed,1150.0,1150.0,
j4,tensorflow,g,w6,i4,Running,1170.0,,m1
j4,tensorflow,g,w7,i4,Running,1170.0,0.0,m1
j4,tensorflow,g,w8,i4,Waiting,,,
j4,tensorflow,g,w9,i4,Interrupted,1200.0,1100.0,m1
j5,evaluator,h,w10,i5,Terminated,1300.0,1301.0,m9
j6,worker,k,w11,i6,Terminated,1390.0,1450.0,m4
j6,idle,k,w12,i6,Terminated,1390.0,1450.0,m4
j6,ps,k,w13,i6,Terminated,1390.0,1450.0,m4
j8,worker,k,w14,i8,Terminated,1390.0,1450.0,m4
"""
MACHINES = """\
m1,T4,96,512,2
m3,P100,64,512,2
m2,T4,96,512,2
m4,CPU,96,384,0
"""
TABLES = {
    pai.JOB_TABLE: JOBS,
    pai.TASK_TABLE: TASKS,
    pai.INSTANCE_TABLE: INSTANCES,
    pai.MACHINE_TABLE: MACHINES,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_jobs_come_by_submission_with_their_instances(folder: Path) -> None:
    workload = read_pai(folder)
    cluster = workload.cluster
    assert cluster.groups == ("2xT4-96c-512g", "2xP100-64c-512g", "cpu-96c-384g")
    assert (cluster.resources, cluster.units) == (pai.RESOURCES, ("cores", "GiB", "GPUs"))
    assert cluster.capacity.tolist() == [[96, 512, 2], [64, 512, 2], [96, 384, 0]]
    assert cluster.count.tolist() == [2, 1, 1]
    assert [dict(labels) for labels in cluster.labels] == [{"gpu": "T4"}, {"gpu": "P100"}, {}]
    assert workload.job_names.tolist() == ["j2", "j1", "j3", "j5", "j6"]
    assert workload.users == ("bo", "ana", "unknown")
    assert workload.job_user.tolist() == [0, 1, 2, 1, 1]
    assert workload.job_submit.tolist() == [0, 100, 200, 400, 490]
    assert workload.job_gang.tolist() == [False, True, False, False, False]
    assert "second 900 of their clock" in workload.origin
    assert workload.set_job.tolist() == [0, 1, 1, 2, 3, 4]
    assert workload.set_tasks.tolist() == [1, 1, 2, 2, 1, 1]
    assert workload.shapes[workload.set_shape].tolist() == [
        [1, 8, 1], [6, 29.296875, 0], [4, 10, 0.5], [2, 4, 0.25], [0, 0, 2], [1, 1, 0],
    ]  # fmt: skip
    everywhere, t4 = [True, True, True], [True, False, False]
    assert workload.places[workload.set_place].tolist() == [
        [False, True, False], t4, t4, everywhere, everywhere, [False, False, True],
    ]  # fmt: skip
    assert workload.task_start.tolist() == [10, 115, 120, 125, 210, 250, 400, 490]
    assert workload.task_duration.tolist() == [290, 285, 270, 255, 40, 0.5, 1, 60]
    assert workload.task_server.tolist() == [2, 0, 1, 0, 3, -1, -1, 3]
    assert workload.notes == {
        pai.NEVER_RAN: 1, pai.NOT_ENDED: 2, pai.ENDED_BEFORE_START: 1,
        pai.NO_TASK: 1, pai.NO_JOB: 1,
        pai.NO_INSTANCE: 2, pai.NO_DEMAND: 1, pai.EARLIER_RUNS: 1, pai.JOBS_AGAIN: 1,
        pai.TASKS_AGAIN: 1, pai.ROUNDED_UP: 1, pai.FAILED: 2, pai.UNKNOWN_TYPE: 1,
        pai.NO_SERVER: 2, pai.NOT_TOGETHER: 1, pai.NO_SUBMISSION: 1, pai.LATE_SUBMISSION: 1,
        pai.NO_USER: 1,
    }  # fmt: skip


# The instances of j3 that run one after the other, and the rows of a worker of j1 that ran twice.
AFTER = "f,,i3,Failed,1150.0,1150.0"
TWICE = "".join(INSTANCES.splitlines(keepends=True)[2:4])
LATER_FIRST = "".join(reversed(TWICE.splitlines(keepends=True)))


@pytest.mark.parametrize(
    ("old", "new", "tasks", "notes"),
    [
        (AFTER, "f,,i3,Failed,1149.0,1160.0", 2, {pai.NOT_TOGETHER: 0}),  # one second together
        (AFTER, "f,,i3,Failed,1150.0,1160.0", 2, {pai.NOT_TOGETHER: 1}),
        ("b,w2,i1", "b,w1,i1", 2, {pai.EARLIER_RUNS: 1}),  # of two tasks of a job
        ("c,w3,i1", "c,,i1", 3, {pai.EARLIER_RUNS: 0}),  # only a name tells that two are one
        (TWICE, LATER_FIRST, 2, {pai.EARLIER_RUNS: 1}),
    ],
)
def test_instances_that_differ(
    folder: Path, old: str, new: str, tasks: int, notes: dict[str, int]
) -> None:
    spoil(folder / pai.INSTANCE_TABLE, old, new)
    workload = read_pai(folder)
    assert workload.set_tasks.tolist() == [1, 1, tasks, 2, 1, 1]
    assert {120, 125} <= {*workload.task_start[2 : tasks + 2]}
    assert workload.job_gang[2] == (notes.get(pai.NOT_TOGETHER) == 0)
    assert {note: workload.notes.get(note, 0) for note in notes} == notes


def test_tasks_may_lack_a_name_and_a_time_of_0_is_unknown(folder: Path) -> None:
    for name in (pai.TASK_TABLE, pai.INSTANCE_TABLE):
        text = TABLES[name].replace("w2,i1,Terminated,1015.0", "w2,i1,Terminated,0.0")
        (folder / name).write_text(text.replace("j2,tensorflow", "j2,"))
    (folder / pai.JOB_TABLE).write_text(JOBS.replace("Terminated,,", "Terminated,0.0,0.0"))
    workload = read_pai(folder)
    assert workload.job_names.tolist()[0] == "j2"
    assert workload.job_submit.tolist() == [0, 100, 200, 400, 490]
    assert workload.notes[pai.NO_SUBMISSION] == 1
    assert workload.notes[pai.NEVER_RAN] == 2


@pytest.mark.parametrize("name", TABLES)
def test_an_empty_or_missing_table_is_named(folder: Path, name: str) -> None:
    table = folder / name
    table.write_text("")
    assert fault_of(read_pai, folder).startswith(f"{table}: holds no ")
    table.unlink()
    fault = fault_of(read_pai, folder)
    assert fault.startswith(f"{folder}: has 0 files {name}*; the trace needs one; unpack ")


def test_a_trace_without_usable_instances_says_why(folder: Path) -> None:
    (folder / pai.INSTANCE_TABLE).write_text("j4,tensorflow,g,w6,i4,Running,1170.0,,m1\n")
    fault = fault_of(read_pai, folder)
    assert f"holds no instance that ran ({pai.NOT_ENDED}: 1; " in fault


def test_tables_may_be_compressed_and_machines_elsewhere(folder: Path) -> None:
    whole = read_pai(folder)
    packed = folder / f"{pai.INSTANCE_TABLE}.gz"
    packed.write_bytes(gzip.compress((folder / pai.INSTANCE_TABLE).read_bytes()))
    (folder / pai.INSTANCE_TABLE).unlink()
    elsewhere = (folder / pai.MACHINE_TABLE).rename(folder / "machines.csv")
    elsewhere.write_text(MACHINES.replace("384", "256"))
    workload = read_pai(folder, machines=elsewhere)
    assert workload.task_start.tolist() == whole.task_start.tolist()
    assert workload.cluster.capacity[2].tolist() == [96, 256, 0]


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        (pai.TASK_TABLE, "400.0", "1e12", "row 2: plan_cpu: '1e12' is more than 1000000000"),
        (pai.MACHINE_TABLE, "m3,", "m1,", "row 2: duplicate machine 'm1'"),
        (pai.MACHINE_TABLE, "64,512", "1e12,512", "row 2: cap_cpu: '1e12' is more than"),
    ],
)
def test_a_fault_names_table_and_row(
    folder: Path, name: str, old: str, new: str, fault: str
) -> None:
    spoil(folder / name, old, new)
    assert f"{folder / name}: {fault}" in fault_of(read_pai, folder)
