"""Slurm's accounting, read as a trace: each field of a few rows written by hand, and each fault."""

# ruff: noqa: E501 (rows of tables)

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.model.workload import DRAIN, Workload
from fairlead.traces.logs import slurm
from fairlead.traces.logs.slurm import (
    CANCELLED_WHILE_PENDING,
    GPUS_IGNORED,
    NEVER_RAN,
    NO_PARTITION,
    NO_REQUEST,
    NO_SERVER,
    STILL_PENDING,
)
from fairlead.traces.logs.slurm_nodes import amounts_of, host_names, read_nodes
from fairlead.traces.readers import SLURM, MachineOptions, read_workload
from fairlead.traces.time_window import last_time
from faults import fault_of, spoil

HEADING = "JobID|User|Account|Partition|Submit|Start|End|State|ReqTRES|AllocTRES|NNodes|NodeList|Timelimit"
ROWS = """\
7|ana|lab|main|2025-01-01T10:00:00|2025-01-01T10:01:00|2025-01-01T10:03:00|COMPLETED|x|billing=4,cpu=4,mem=8G,node=1|1|n1|01:00:00
7.batch||lab||2025-01-01T10:01:00|2025-01-01T10:01:00|2025-01-01T10:03:00|COMPLETED||cpu=4,mem=8G,node=1|1|n1|
8|bo|lab|main|2025-01-01T10:00:10|2025-01-01T10:02:00|2025-01-01T11:02:00|CANCELLED by 1000||cpu=5,mem=6G,node=2|2|n[1-2]|2-00:00:00
9_1|bo|ml|gpu|2025-01-01T10:00:20|2025-01-01T10:00:20|2025-01-01T10:00:20|FAILED||cpu=1,gres/gpu=2,gres/gpu:a100=2,mem=512M,node=1|1|g1|UNLIMITED
9_2|bo|ml|gpu|2025-01-01T10:00:20|None|2025-01-01T10:00:30|CANCELLED by 7||cpu=1,mem=1G|1|None assigned|UNLIMITED
9_[3-8]|bo|ml|gpu|2025-01-01T10:00:20|Unknown|Unknown|PENDING|cpu=1,mem=1G||1|None assigned|UNLIMITED
10|cy|ml|other|2025-01-01T10:00:30|2025-01-01T10:01:30|Unknown|RUNNING||cpu=1,mem=1G|1|n1|10
11|cy|ml|other|2025-01-01T10:00:40|2025-01-01T10:01:40|2025-01-01T10:01:50|NODE_FAIL||cpu=1,mem=1G,node=1|1|n1|10
11|cy|ml|other|2025-01-01T10:00:40|2025-01-01T10:02:40|2025-01-01T10:02:50|COMPLETED||cpu=2,mem=1G,node=1|1|n2|10
12+0|ana|lab|main|2025-01-01T10:00:50|2025-01-01T10:05:00|2025-01-01T10:06:00|COMPLETED||cpu=1,mem=1G,node=1|1|n1|Partition_Limit
12+1|ana|lab|gpu|2025-01-01T10:00:50|2025-01-01T10:05:00|2025-01-01T10:06:00|COMPLETED||cpu=1,gres/gpu=1,mem=2G,node=1|1|g1|Partition_Limit
"""
NODES = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=8
   CPUAlloc=0 CPUTot=16 CPULoad=0.10
   AvailableFeatures=fast,ib
   Gres=(null)
   RealMemory=32768 AllocMem=0
   Partitions=main,long
   CfgTRES=cpu=16,mem=32G,billing=16

NodeName=n2 Arch=x86_64
   CPUTot=16
   AvailableFeatures=fast,ib
   RealMemory=32768
   Partitions=main,long
   CfgTRES=cpu=16,mem=32G,billing=16

NodeName=g1
   CPUTot=8
   Gres=gpu:a100:4(S:0-1),shard:8
   RealMemory=16384
   Partitions=gpu
   CfgTRES=
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    table, nodes = tmp_path / "sacct.txt", tmp_path / "nodes.txt"
    table.write_text(f"{HEADING}\n{ROWS}")
    nodes.write_text(NODES)
    return table, nodes


def read(files: tuple[Path, Path], **options: Any) -> Workload:
    given = MachineOptions(machines=files[1], **options)
    workload, found = read_workload(files[0], given)
    assert found == SLURM
    return workload


def test_each_job_is_what_its_row_says(files: tuple[Path, Path]) -> None:
    workload = read(files)
    cluster = workload.cluster
    assert cluster.groups == ("n1..n2", "g1")
    assert cluster.resources == ("cpu", "memory", "gpu")
    assert cluster.capacity.tolist() == [[16, 32, 0], [8, 16, 4]]
    assert cluster.count.tolist() == [2, 1]
    assert dict(cluster.labels[0]) == {"partition": "long,main", "fast": "yes", "ib": "yes"}
    assert dict(cluster.labels[1]) == {"partition": "gpu"}
    assert workload.job_names.tolist() == ["7", "8", "9_1", "11", "12"]
    assert workload.users == ("ana", "bo", "cy")
    assert workload.job_user.tolist() == [0, 1, 1, 2, 0]
    assert workload.job_submit.tolist() == [0, 10, 20, 40, 50]
    assert workload.job_limit.tolist() == [3600, 172_800, np.inf, 600, np.inf]
    assert workload.job_gang.tolist() == [False, True, False, False, True]
    shapes = workload.shapes[workload.set_shape].tolist()
    assert workload.set_tasks.tolist() == [1, 1, 1, 1, 1, 1, 1]
    assert shapes == [[4, 8, 0], [3, 3, 0], [2, 3, 0], [1, 0.5, 2], [2, 1, 0], [1, 1, 0], [1, 2, 1]]
    assert workload.task_start.tolist() == [60, 120, 120, 20, 160, 300, 300]
    assert workload.task_duration.tolist() == [120, 3600, 3600, 0.5, 10, 60, 60]
    assert workload.task_server.tolist() == [0, 0, 1, 2, 1, 0, 2]
    places = workload.places[workload.set_place].tolist()
    both = [True, True]
    assert places == [[True, False]] * 3 + [[False, True], both, [True, False], [False, True]]
    assert workload.notes == {
        slurm.STEPS: 1,
        CANCELLED_WHILE_PENDING: 1,
        STILL_PENDING: 6,  # 9_[3-8]
        slurm.STILL_RAN: 1,
        slurm.EARLIER_RUNS: 1,
        slurm.ROUNDED_UP: 1,
        slurm.UNKNOWN_PARTITION: 1,
        slurm.PARTITION_LIMIT: 2,
    }


START = "2025-01-01T10:00:00"


@pytest.mark.parametrize(
    ("row", "note"),
    [
        # Slurm gives a job that was cancelled while it waited a start, at its end, and no amounts.
        (f"{START}|{START}|{START}|CANCELLED by 5|cpu=4,mem=1G||4|", CANCELLED_WHILE_PENDING),
        (f"{START}|{START}|2025-01-01T09:00:00|COMPLETED||cpu=4|1|n1", slurm.ENDED_BEFORE_START),
        (f"{START}|None|Unknown|REVOKED|cpu=4||1|", NEVER_RAN),
        (f"{START}|{START}|2025-01-01T10:01:00|FAILED|cpu=4||1|", NEVER_RAN),
    ],
)
def test_a_job_without_a_run_has_a_note(files: tuple[Path, Path], row: str, note: str) -> None:
    before = read(files).notes.get(note, 0)
    files[0].write_text(f"{HEADING}\n{ROWS}20|ana|lab|main|{row}|\n")
    workload = read(files)
    assert "20" not in workload.job_names.tolist()
    assert workload.notes[note] == before + 1
    if note == NEVER_RAN:
        assert read(files, unended=0.0).notes[note] == 1


def test_users_may_be_accounts(files: tuple[Path, Path]) -> None:
    workload = read(files, user_from="account")
    assert workload.users == ("lab", "ml")
    assert "must be one of user, account" in fault_of(read, files, user_from="jobname")
    assert "has no column qos" in fault_of(read, files, user_from="qos")


def test_servers_may_be_given_instead(files: tuple[Path, Path]) -> None:
    given = MachineOptions(servers=3, cores=16, memory=64.0)
    workload = read_workload(files[0], given)[0]
    assert workload.cluster.capacity.tolist() == [[16, 64, 2]]
    assert workload.cluster.count.tolist() == [3]
    assert workload.places.all()
    assert (workload.task_server == -1).all()
    assert "names no servers" in fault_of(read_workload, files[0])
    both = MachineOptions(machines=files[1], servers=3, cores=16)
    assert "cannot be given with --machines" in fault_of(read_workload, files[0], both)


def test_columns_may_come_in_any_order_with_other_times(files: tuple[Path, Path]) -> None:
    """As with SLURM_TIME_FORMAT=%s; a heading of --parsable ends with a bar, as its rows do."""
    files[0].write_text(
        "State|End|Start|Submit|User|JobID|AllocTRES|\n"
        "COMPLETED|1735725780|1735725660|1735725600|ana|7|cpu=2,mem=1G|\n"
    )
    workload = read(files)
    assert (workload.task_start.tolist(), workload.task_duration.tolist()) == ([60], [120])
    assert np.isinf(workload.job_limit[0])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-02:03:04", 93_784), ("02:03:04", 7384), ("03:04", 184), ("5", 300), ("1-02", 93_600),
        ("UNLIMITED", np.inf), ("", np.inf), ("1-02:03", 93_780),
    ],
)  # fmt: skip
def test_time_limits(files: tuple[Path, Path], text: str, seconds: float) -> None:
    files[0].write_text(f"{HEADING}\n{ROWS.splitlines()[0].rpartition('|')[0]}|{text}\n")
    assert read(files).job_limit.tolist() == [seconds]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("|Submit|", "|Sent|", "row 1: has no column submit"),
        ("7|ana|lab", "7|ana|la|b", "row 2: has 14 columns, where the heading has 13"),
        ("7|ana", "|ana", "row 2: column jobid: is empty"),
        ("2025-01-01T10:01:00|2025-01-01T10:03", "yesterday|2025-01-01T10:03", "row 2: column start"),
        ("|01:00:00", "|soon", "row 2: column timelimit: 'soon' is not a time limit"),
        ("mem=8G", "mem=8Q", "row 2: 'mem=8Q' is not an amount"),
        ("cpu=4,mem=8G,node=1|1", "cpu=4,mem=8G|one", "row 2: column nnodes: 'one'"),
        ("n[1-2]", "n[1-x]", "row 4: 'n[1-x]' is not a list of hosts"),
        ("n[1-2]", "n[1-9999999]", "has more than 1,000,000 hosts"),
        ("10:01:00|", "10:01:00+01:00|", "has a time zone"),
    ],
)  # fmt: skip
def test_a_fault_names_its_row(files: tuple[Path, Path], old: str, new: str, fault: str) -> None:
    spoil(files[0], old, new)
    found = fault_of(read, files)
    assert fault in found
    assert str(files[0]) in found


def test_nodes_of_sinfo(tmp_path: Path) -> None:
    path = tmp_path / "sinfo.txt"
    path.write_text(
        "NODELIST|CPUS|MEMORY|GRES|PARTITION\n"
        "n[01-02]|16|32768|(null)|main*\nn01|16|32768|(null)|long\ng1|8+|16384+|gpu:a100:4(S:0-1)|gpu\n"
    )
    table = read_nodes(path)
    assert table.groups == ("n01", "n02", "g1")  # n02 is in one partition only
    assert table.capacity.tolist() == [[16, 32, 0], [16, 32, 0], [8, 16, 4]]
    assert [sorted(names) for names in table.partitions] == [["long", "main"], ["main"], ["gpu"]]
    assert table.numbers == {"n01": 0, "n02": 1, "g1": 2}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is empty"), ("hello", "is not the output of scontrol"),
        ("NODELIST|CPUS|MEMORY", "lists no node"),
        ("NODELIST|CPUS\nn1|2", "row 1: needs the columns %N, %c and %m"),
        ("NODELIST|CPUS|MEMORY\nn1|2", "row 2: has 2 columns, not 3"),
        ("NODELIST|CPUS|MEMORY\nn1|two|3", "row 2: %c: 'two' is not a whole number"),
        ("NodeName=n1 CPUTot=x RealMemory=1", "row 1: CPUTot: 'x' is not a whole number"),
        ("NodeName=n1 CPUTot=4\n  Gres=(null)", "row 1: RealMemory: '' is not a whole number"),
        ("NODELIST|CPUS|MEMORY|GRES\nn1|2|3|gpu:a:four", "row 2: Gres: 'four' is not a whole"),
    ],
)  # fmt: skip
def test_unusable_nodes_are_refused(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "nodes.txt"
    path.write_text(text)
    assert fault in fault_of(read_nodes, path)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]), ("n[1-3]", ["n1", "n2", "n3"]), ("n[08-10]", ["n08", "n09", "n10"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("None assigned", []), ("", []), ("x[1]-ib", ["x1-ib"]),
    ],
)  # fmt: skip
def test_lists_of_hosts(text: str, names: list[str]) -> None:
    assert host_names(text) == names


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:a100:4(S:0-1),shard:8", 4), ("gpu:4", 4), ("gpu", 1),
        ("gpu:4,craynetwork:1", 4), ("gpu:a100:2,gpu:v100:3", 5), ("gpu:a100", 1), ("(null)", 0),
        ("shard:4", 0),
    ],
)  # fmt: skip
def test_gpus_of_nodes(tmp_path: Path, gres: str, gpus: float) -> None:
    path = tmp_path / "nodes.txt"
    path.write_text(f"NODELIST|CPUS|MEMORY|GRES|PARTITION\nn1|2|1024|{gres}|main\n")
    assert read_nodes(path).capacity.tolist() == [[2, 1, gpus]]


@pytest.mark.parametrize(
    ("tres", "amounts"),
    [
        ("cpu=8,gres/gpu:a100=1,gres/gpu:v100=2", {"cpu": 8, "gpu": 3}),
        ("gres/gpu=2,gres/gpu:a100=2", {"gpu": 2}), ("license/x=3,energy=5,cpu=2", {"cpu": 2}),
        ("mem=1G", {"memory": 1}), ("mem=1T", {"memory": 1024}), ("mem=1024", {"memory": 1}),
        ("mem=1536Mc", {"memory": 1.5}),
    ],
)  # fmt: skip
def test_amounts_of_a_job(tres: str, amounts: dict[str, float]) -> None:
    assert amounts_of(tres) == amounts


def test_a_job_on_a_node_that_is_not_listed_is_counted(files: tuple[Path, Path]) -> None:
    spoil(files[0], "|n[1-2]|", "|n[2-3]|")
    workload = read(files)
    assert workload.task_server.tolist()[:3] == [0, 1, -1]
    assert workload.notes[NO_SERVER] == 1


UNENDED = """\
JobID|User|Submit|Start|End|State|AllocTRES|ReqTRES|NodeList|Partition
1|ana|2025-01-01T10:00:00|2025-01-01T10:00:00|2025-01-01T11:00:00|COMPLETED|cpu=4,mem=1G|cpu=4,mem=1G|n1|main
2|ana|2025-01-01T10:00:00|2025-01-01T10:30:00|Unknown|RUNNING|cpu=8,mem=2G,node=2|cpu=8,mem=2G,node=2|n[1-2]|main
3_[1,4-5%2]|bo|2025-01-01T10:10:00|Unknown|Unknown|PENDING||cpu=2,mem=1G|None assigned|main
4_[1-100...]|cy|2025-01-01T12:00:00|Unknown|Unknown|PENDING||cpu=3,mem=1G|None assigned|main
5|bo|2025-01-01T10:10:00|None|2025-01-01T10:20:00|CANCELLED by 7||cpu=2,mem=1G|None assigned|main
"""


def active(workload: Workload, seconds: float) -> tuple[int, int]:
    """Return the numbers of tasks that run and that wait at a time."""
    job = np.repeat(workload.set_job, workload.set_tasks)
    start = workload.task_start
    runs = (start <= seconds) & (seconds < start + workload.task_duration)
    left = np.where(np.isfinite(start), start, workload.job_cancel[job])
    waits = (workload.job_submit[job] <= seconds) & (seconds < left)
    return int(runs.sum()), int(waits.sum())


def test_jobs_that_had_not_ended_count_at_a_time(files: tuple[Path, Path]) -> None:
    files[0].write_text(UNENDED)
    assert read(files).job_names.tolist() == ["1"]
    workload = read(files, unended=0.0)
    assert workload.job_names.tolist() == ["1", "2", "3_1", "3_4", "3_5", "5", "4_[1-100...]"]
    assert not {CANCELLED_WHILE_PENDING, NEVER_RAN, STILL_PENDING, slurm.STILL_RAN} & {
        *workload.notes
    }
    assert workload.notes[slurm.CUT_ARRAY] == 1
    assert last_time(workload) == 7200  # the last time of the table, as cy submits
    # Job 5 and the jobs of array 3 wait from 600 s on, job 5 until 1200 s; job 2 starts at 1800 s.
    waiting = [active(workload, seconds)[1] for seconds in (599, 600, 1199, 1200)]
    assert waiting == [2, 6, 6, 5]
    assert active(workload, 1900)[0] == 3
    assert active(workload, 7200) == (2, 4)
    assert workload.users == ("ana", "bo", "cy")
    demand = workload.shapes[workload.set_shape].tolist()
    assert demand == [[4, 1, 0], [4, 1, 0], *[[2, 1, 0]] * 4, [3, 1, 0]]


def test_arrays_count_job_by_job(files: tuple[Path, Path]) -> None:
    """Job 3_4 of a pending array has ended; all of another were cancelled after five minutes."""
    rows = (
        "3_4|bo|2025-01-01T10:10:00|2025-01-01T10:20:00|2025-01-01T10:30:00|COMPLETED|cpu=2|cpu=2|n1|main\n"
        "6_[1-3,7]|cy|2025-01-01T10:00:00|Unknown|2025-01-01T10:05:00|CANCELLED by 7||cpu=2|None assigned|main\n"
        "8_[1-10:4%2]|cy|2025-01-01T12:00:00|Unknown|Unknown|PENDING||cpu=3,mem=1G|None assigned|main\n"
    )
    files[0].write_text(UNENDED + rows)
    workload = read(files, unended=0.0)
    names = [name for name in workload.job_names.tolist() if "_" in name and "." not in name]
    of_six = ["6_1", "6_2", "6_3", "6_7"]
    assert sorted(names) == ["3_1", "3_4", "3_5", *of_six, "8_1", "8_5", "8_9"]
    assert workload.n_tasks == 15  # job 3_4 has one, as it does not wait, too
    assert active(workload, 299)[1] - active(workload, 300)[1] == 4
    assert read(files).notes[CANCELLED_WHILE_PENDING] == 5


@pytest.mark.parametrize(
    ("submit", "end", "until"),
    [("T11", "T13", 3 * 3600), ("T08", "T09", 2 * 3600)],  # after and before all other times
)
def test_a_cancellation_beyond_all_other_times(
    files: tuple[Path, Path], submit: str, end: str, until: float
) -> None:
    """The last one ends the table; a job cancelled before second 0 never waits."""
    times = f"2025-01-01{submit}:00:00|None|2025-01-01{end}:00:00"
    files[0].write_text(f"{UNENDED}6|cy|{times}|CANCELLED by 7||cpu=2|None assigned|main\n")
    workload = read(files, unended=0.0)
    assert workload.recorded_until == until
    assert workload.start_date == read(files).start_date
    cancel = workload.job_cancel[workload.job_names.tolist().index("6")]
    assert cancel == until if end == "T13" else cancel <= 0


def test_jobs_that_had_not_ended_leave_second_0_as_it_is(files: tuple[Path, Path]) -> None:
    """Job 2 was submitted a day before the first job that ended."""
    day_before = "2|ana|2024-12-31T10:00:00|2024-12-31"
    files[0].write_text(UNENDED.replace("2|ana|2025-01-01T10:00:00|2025-01-01", day_before))
    workload = read(files, unended=0.0)
    assert workload.start_date == read(files).start_date
    job = workload.job_names.tolist().index("2")
    task = workload.first_task[workload.first_set[job]]
    assert (workload.job_submit[job], workload.task_start[task]) == (0, 0)
    assert workload.task_duration[task] == 7201


@pytest.mark.parametrize(
    ("states", "is_out"),
    [(("MIXED", "ALLOCATED*"), False), (("DOWN*", "IDLE+DRAIN", "FAIL", "IDLE+FAILING"), True)],
)
def test_nodes_out_of_service_are_noted(
    files: tuple[Path, Path], states: tuple[str, ...], is_out: bool
) -> None:
    for state in states:
        with_state = f"CPUTot=16\n   State={state} X=1\n   A"
        files[1].write_text(NODES.replace("CPUTot=16\n   A", with_state))
        workload = read(files)
        assert workload.cluster.groups == ("n1..n2", "g1")
        assert workload.notes.get(slurm.OUT_OF_SERVICE.format("n2"), 0) == is_out
        assert not len(workload.server)


def test_nodes_out_of_service_count_before_the_end(files: tuple[Path, Path]) -> None:
    """They drain at the last time of the table, as jobs of it may have run there earlier."""
    files[0].write_text(UNENDED)
    down = NODES.replace("Gres=gpu", "State=DOWN Gres=gpu")
    files[1].write_text(down.replace("Gres=(", "State=MIXED+DRAIN Gres=("))
    workload = read(files, unended=0.0)
    assert workload.server.tolist() == [0, 2]
    assert workload.server_time.tolist() == [7200, 7200]
    assert workload.server_event.tolist() == [DRAIN, DRAIN]
    more = "".join(f"NodeName=d{k} CPUTot=1 RealMemory=1024 State=DOWN\n" for k in range(6))
    files[1].write_text(NODES + more)
    assert any("(d0, d1, d2, d3, d4 and 1 more)" in note for note in read(files).notes)


def test_what_a_table_lacks_is_noted(files: tuple[Path, Path]) -> None:
    files[0].write_text(
        "JobID|User|Submit|Start|End|State|AllocTRES\n"
        "1|ana|2025-01-01T10:00:00|2025-01-01T10:00:00|2025-01-01T11:00:00|FAILED|cpu=1,gres/gpu=1\n"
    )
    assert read(files).notes == {NO_PARTITION: 1, NO_SERVER: 1}
    files[1].write_text(NODES[: NODES.index("NodeName=g1")])
    assert read(files).notes == {NO_PARTITION: 1, NO_SERVER: 1, GPUS_IGNORED: 1}
    rows = [line.split("|") for line in UNENDED.splitlines()]  # without ReqTRES
    files[0].write_text("\n".join("|".join([*row[:7], *row[8:]]) for row in rows))
    workload = read(files, unended=0.0)
    assert workload.job_names.tolist() == ["1", "2"]
    assert workload.notes[NO_REQUEST] == 3


def test_a_table_cut_in_its_last_field_is_noted(files: tuple[Path, Path]) -> None:
    """The last time limit of 10 min becomes one of 1 min."""
    row = "13|cy|ml|main|2025-01-01T10:02:00|2025-01-01T10:02:00|2025-01-01T10:03:00|COMPLETED||cpu=1|1|n1|10\n"
    whole = f"{HEADING}\n{ROWS}{row}"
    for table, limit, noted in ((whole, 600, False), (whole[:-2], 60, True)):
        files[0].write_text(table)
        workload = read(files)
        assert workload.job_limit[-1] == limit
        assert (slurm.CUT_OFF in workload.notes) == noted


def test_jobs_wait_from_when_they_may_start(files: tuple[Path, Path]) -> None:
    """Ana's second job waits for the first; bo's is held; cy's was held, and withdrawn.

    Dee's job was not to begin before the next week, and was cancelled; the clock of 7 went back.
    """
    files[0].write_text("""\
JobID|User|Submit|Eligible|Start|End|State|AllocTRES|ReqTRES|Partition
1|ana|2025-01-01T10:00:00|2025-01-01T10:00:00|2025-01-01T10:00:00|2025-01-01T11:00:00|COMPLETED|cpu=4,mem=1G|cpu=4,mem=1G|main
2|ana|2025-01-01T10:00:00|2025-01-01T11:00:00|2025-01-01T11:10:00|2025-01-01T12:00:00|COMPLETED|cpu=4,mem=1G|cpu=4,mem=1G|main
3_[1-4]|bo|2025-01-01T10:00:00|Unknown|Unknown|Unknown|PENDING||cpu=4,mem=1G|main
4|cy|2025-01-01T10:00:00|Unknown|None|2025-01-01T10:30:00|CANCELLED by 7||cpu=4,mem=1G|main
5|cy|2025-01-01T10:00:00|2025-01-01T10:20:00|Unknown|Unknown|PENDING||cpu=4,mem=1G|main
6|dee|2025-01-01T10:00:00|2025-01-08T10:00:00|None|2025-01-01T10:05:00|CANCELLED by 7||cpu=4,mem=1G|main
7|dee|2025-01-01T10:00:00|2025-01-01T10:00:00|None|2025-01-01T09:59:00|CANCELLED by 7||cpu=4,mem=1G|main
""")
    workload = read(files, unended=0.0)
    assert workload.job_names.tolist() == ["1", "5", "2"]
    assert workload.job_submit.tolist() == [0, 1200, 3600]
    assert workload.notes[slurm.NOT_ELIGIBLE] == 6
    assert workload.notes[slurm.ENDED_BEFORE_SUBMISSION] == 1
    assert read(files).job_submit.tolist() == [0, 3600]
