"""The project's own trace, as Parquet and as CSV: round trips, and every kind of damage."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from random_workloads import assert_equal, random_workload

from fairlead.errors import InputError
from fairlead.model.queues import read_queues
from fairlead.model.workload import Workload
from fairlead.traces import _csv_tables, csv_folder
from fairlead.traces.csv_folder import read_folder, write_folder
from fairlead.traces.parquet_trace import METADATA_KEY, read_parquet, write_parquet
from faults import fault_of


@pytest.mark.parametrize("seed", range(6))
def test_round_trips_are_exact(tmp_path: Path, seed: int) -> None:
    workload = random_workload(seed)
    write_parquet(workload, tmp_path / "trace.parquet")
    assert_equal(workload, read_parquet(tmp_path / "trace.parquet"))
    write_folder(workload, tmp_path / "trace")
    assert_equal(workload, read_folder(tmp_path / "trace"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace", "trace.parquet"]


def test_trees_of_queues_are_kept(tmp_path: Path) -> None:
    workload = random_workload(1)
    rows = [{"name": "a queue", "weight": 2}, {"name": "below", "parent": "a queue"}]
    of_user = [None, "below", "a queue", *[None] * workload.n_users][: workload.n_users]
    limits = {"below": {"tasks": 3, "cpu": 0.5}}
    quotas = {"below": [{"cpu": 0.25}, {"cpu": 0.1, "where": {"type": "new"}}]}
    queues = read_queues(rows, of_user, workload.users)
    workload = replace(workload, queues=queues, limits=limits, quotas=quotas)
    write_parquet(workload, tmp_path / "trace.parquet")
    write_folder(workload, tmp_path / "trace")
    for again in (read_parquet(tmp_path / "trace.parquet"), read_folder(tmp_path / "trace")):
        assert again.queues is not None
        assert again.limits == limits
        assert again.quotas == quotas
        assert (again.queues.rows(), again.queues.user_queue()) == (rows, of_user)
    users = tmp_path / "trace" / "users.csv"
    users.write_text(users.read_text().replace("below", "nowhere"))
    assert "no queue is named 'nowhere'" in refused(tmp_path / "trace")


def parquet(folder: Path) -> Path:
    path = folder / "trace.parquet"
    write_parquet(random_workload(3), path)
    return path


def refused(path: Path) -> str:
    message = fault_of(read_folder if path.is_dir() else read_parquet, path)
    assert message.startswith(f"{path}")
    return message.removeprefix(f"{path}").removeprefix(": ")


def test_files_that_are_no_trace(tmp_path: Path) -> None:
    path = parquet(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert refused(path) == "the Parquet file ends before its data does (truncated?)"
    path.write_bytes(b"")
    assert refused(path) == "is not a Parquet file"
    path.write_bytes(b"PAR1" + bytes(20) + b"PAR1")
    assert refused(path).startswith("the Parquet file is damaged: ")
    pl.DataFrame({"a": [1]}).write_parquet(path)
    assert refused(path) == (
        "is a Parquet file but not a trace: its metadata has no 'fairlead_trace'"
    )
    path.unlink()
    assert refused(path) == "cannot be read: No such file or directory"


def test_every_damaged_byte_is_found(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In one line: the decoder of damaged pages is never asked."""
    path = parquet(tmp_path)
    whole = path.read_bytes()
    mark = whole.rindex(b"blake2b:")
    for place in [*range(4, mark, 101), *range(mark + 40, len(whole) - 4, 101)]:
        stored = bytearray(whole)
        stored[place] ^= 0x5A
        path.write_bytes(stored)
        assert refused(path).startswith("the Parquet file is damaged"), place
    assert capfd.readouterr() == ("", "")


def test_a_trace_of_another_program_needs_no_checksum(tmp_path: Path) -> None:
    path = parquet(tmp_path)
    header = pl.read_parquet_metadata(path)[METADATA_KEY]
    pl.read_parquet(path).write_parquet(path, metadata={METADATA_KEY: header})
    assert_equal(read_parquet(path), random_workload(3))


def rewritten(
    folder: Path,
    frame: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame,
    **header: object,
) -> Path:
    """A trace whose table or metadata was changed."""
    path = parquet(folder)
    metadata = json.loads(pl.read_parquet_metadata(path)[METADATA_KEY]) | header
    changed = frame(pl.read_parquet(path))
    changed.write_parquet(path, metadata={METADATA_KEY: json.dumps(metadata)})
    return path


@pytest.mark.parametrize("count", [0, 10**7 + 1, True, 1.5])
def test_a_count_of_the_metadata_is_usable(tmp_path: Path, count: object) -> None:
    path = parquet(tmp_path)
    groups = json.loads(pl.read_parquet_metadata(path)[METADATA_KEY])["groups"]
    groups[0]["count"] = count
    assert refused(rewritten(tmp_path, groups=groups)).startswith(
        "groups[0].count: must be a whole"
    )


def test_damaged_metadata(tmp_path: Path) -> None:
    assert refused(rewritten(tmp_path, version=2)) == (
        "is a trace of version 2; only version 1 can be read"
    )
    line = refused(rewritten(tmp_path, users="x"))
    assert line.startswith("fairlead_trace: the metadata is not that of a trace: ")
    users = [{"name": f"user {n}", "weight": 10**400} for n in range(9)]
    assert "OverflowError" in refused(rewritten(tmp_path, users=users))
    assert refused(rewritten(tmp_path, places=[[99]])).startswith("places[0]: must be numbers")
    line = refused(rewritten(tmp_path, users=[{"name": "nobody", "weight": 1.0}]))
    assert line.startswith("jobs[0].user: unknown user 'user ")
    events = {"time": [1.0], "event": ["join"], "server": [999]}
    assert refused(rewritten(tmp_path, server_events=events)).startswith(
        "server events[0].server: must be from 0 to"
    )
    path = parquet(tmp_path)
    pl.read_parquet(path).write_parquet(path, metadata={METADATA_KEY: "{"})
    assert refused(path) == "fairlead_trace: is not the JSON of a trace"


SECOND = pl.int_range(pl.len()) == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"place": pl.lit("x")}, "columns: the columns are job String, user"),
        ({"submit": pl.when(~SECOND).then("submit")}, "row 2: submit: is empty"),
        ({"durations": pl.lit([1.0, None])}, "row 1: durations: one is empty"),
        ({"durations": pl.lit([], pl.List(pl.Float64))}, "sets[0].tasks: must be a positive"),
        ({"demand.cpu": pl.lit(-1.0)}, "shapes[0].cpu: must be 0 or a usable positive number"),
        ({"place": pl.lit(99, dtype=pl.Int32)}, "sets[0].place: must be from"),
    ],
)
def test_damaged_tables(tmp_path: Path, changed: dict[str, pl.Expr], said: str) -> None:
    assert refused(rewritten(tmp_path, lambda f: f.with_columns(**changed))).startswith(said)


def test_tables_without_jobs_and_jobs_that_differ(tmp_path: Path) -> None:
    assert refused(rewritten(tmp_path, lambda f: f.head(0))) == "holds no job"
    one = {"job": pl.lit("one"), "submit": pl.int_range(pl.len()) * 1.0}
    assert refused(rewritten(tmp_path, lambda f: f.with_columns(**one))).startswith("row 2: ")


def test_a_job_that_comes_back_is_a_duplicate(tmp_path: Path) -> None:
    def again(frame: pl.DataFrame) -> pl.DataFrame:
        late = frame.head(1).with_columns(submit=frame["submit"].max(), cancel=None)
        return pl.concat([frame, late])

    assert "duplicate name" in refused(rewritten(tmp_path, again))


FILES = {
    "trace.json": '{"trace": 1, "resources": {"cpu": "cores"}}',
    "servers.csv": 'group,count,cpu,labels\nbig,2,8,\nsmall,1,2,"{""zone"": ""a""}"\n',
    "users.csv": "user,weight\nana,2\nbo,1\n",
    "jobs.csv": "job,user,submit,gang,cancel\nx,ana,0,false,\ny,bo,5,true,9.5\n",
    "tasks.csv": "job,place,cpu,duration\nx,,1,10\nx,,1,20\ny,small|big,2,30\ny,small,2,30\n",
    "server_events.csv": "time,event,server\n3,leave,big-1\n",
}


def folder(path: Path, **changes: str) -> Path:
    path = path / "trace"
    path.mkdir(exist_ok=True)
    for name, text in (FILES | {k.replace("__", "."): v for k, v in changes.items()}).items():
        (path / name).write_text(text)
    return path


def test_a_folder_written_by_hand(tmp_path: Path) -> None:
    path = folder(tmp_path)
    workload = read_folder(path)
    assert workload.users == ("ana", "bo")
    assert workload.weight.tolist() == [2, 1]
    assert workload.job_names.tolist() == ["x", "y"]
    assert workload.job_gang.tolist() == [False, True]
    assert workload.job_cancel.tolist() == [float("inf"), 9.5]
    assert workload.set_tasks.tolist() == [2, 1, 1]
    assert workload.task_duration.tolist() == [10, 20, 30, 30]
    assert workload.places[workload.set_place].tolist() == [
        [True, True],
        [True, True],
        [False, True],
    ]
    assert workload.cluster.labels == ({}, {"zone": "a"})
    assert workload.server.tolist() == [1]
    assert workload.server_event.tolist() == [1]
    (path / "server_events.csv").unlink()
    assert len(read_folder(path).server) == 0


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("trace.json", '"trace": 1', '"trace": 2', "trace: is a trace of version 2"),
        ("servers.csv", '""zone""', '""zone"": """", ""zone""', "row 3: labels: "),
        (
            "servers.csv",
            "cpu,labels",
            "ram,labels",
            "row 1: the header lacks the column 'cpu' and has the unknown column 'ram'",
        ),
        ("users.csv", "bo,1", "bo,-1", "row 3: weight: '-1' is less than 0"),
        ("jobs.csv", "y,bo", "x,bo", "row 3: job: 'x' is a repeated job"),
        ("jobs.csv", "y,bo", "y,cy", "row 3: user: 'cy' is not a user of users.csv"),
        ("jobs.csv", "x,ana,0", "x,ana,6", "row 3: submit: '5' is before the row above"),
        ("jobs.csv", "y,bo", 'y,"bo', "row 3: is not CSV: unexpected end of data"),
        ("servers.csv", "big,2", "big,900000000", "row 2: count: there are more than 10,000,000"),
        ("tasks.csv", "x,,1,20", "x,,0,20", "row 3: job: 'x' takes nothing of any resource"),
        ("users.csv", FILES["users.csv"], "\ufeffuser,weight", "holds no user"),
        ("users.csv", "bo,1", ",1", "row 3: user: is empty"),
        ("trace.json", '{"cpu": "cores"}', "[]", "resources: must name each resource"),
        ("jobs.csv", "9.5", "4", "row 3: cancel: '4' is before the submission at 5"),
        ("jobs.csv", "true", "yes", "row 3: gang: 'yes' is neither true nor false"),
        ("jobs.csv", "x,ana", "x\rz,ana", "row 2: holds a carriage return"),
        (
            "tasks.csv",
            "small|big",
            "tiny",
            "row 4: place: 'tiny' names a group that is not in servers.csv",
        ),
        ("tasks.csv", FILES["tasks.csv"][-30:], "", "has no task of job 'y'"),
        ("server_events.csv", "big-1", "big-2", "row 2: server: 'big-2' is not a server of"),
        ("server_events.csv", "leave", "go", "row 2: event: 'go' is none of join, leave, drain"),
        ("server_events.csv", "3,leave,big-1\n", "3,leave,big-1\n" * 2, "row 3: a leave cannot"),
        ("server_events.csv", "3,leave", "3,drain,big-0\n2,leave", "row 3: time: time runs back"),
    ],
)
def test_faults_in_a_folder_name_file_and_row(
    tmp_path: Path, file: str, old: str, new: str, said: str
) -> None:
    assert old in FILES[file]
    path = folder(tmp_path, **{file.replace(".", "__"): FILES[file].replace(old, new)})
    assert refused(path).removeprefix(f"/{file}: ").startswith(said)


def same_tasks(one: Workload, other: Workload) -> bool:
    """Whether both are the same, however their tasks are put into sets, shapes and places."""

    def by_task(workload: Workload) -> list[np.ndarray]:
        job, shape, place = (
            np.repeat(column, workload.set_tasks)
            for column in (workload.set_job, workload.set_shape, workload.set_place)
        )
        rest = (workload.task_duration, workload.task_start, workload.task_server)
        return [job, workload.shapes[shape], workload.places[place], *rest]

    pairs = zip(by_task(one), by_task(other), strict=True)
    jobs = one.job_names.tolist(), other.job_names.tolist()
    return jobs[0] == jobs[1] and all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs
    )


@pytest.mark.parametrize("seed", range(2))
def test_a_folder_is_read_alike_in_blocks_of_any_size(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs, shapes and places go on from one block to the next."""
    workload = random_workload(seed)
    write_folder(workload, tmp_path / "trace")
    assert len(workload.task_duration) > 1
    longest = max(
        len(line)
        for file in (tmp_path / "trace").glob("*.csv")
        for line in file.read_bytes().split(b"\n")
    )
    monkeypatch.setattr(_csv_tables, "BYTES_PER_READ", 7)
    for more in (8, 200):
        monkeypatch.setattr(_csv_tables, "BYTES_PER_BLOCK", longest + more)
        assert same_tasks(workload, read_folder(tmp_path / "trace"))


@pytest.mark.parametrize("damage", [b"\0", b"\xff", b"-"])
def test_rows_are_numbered_on_through_all_blocks(
    tmp_path: Path, damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder(tmp_path, tasks__csv=FILES["tasks.csv"].replace("\ny,small,", "\n\ny,small,"))
    whole = (path / "tasks.csv").read_bytes()
    (path / "tasks.csv").write_bytes(whole.replace(b"small,2,30", b"small,2,3" + damage))
    monkeypatch.setattr(_csv_tables, "BYTES_PER_READ", 1)
    for size in (36, 60, 2**20):
        monkeypatch.setattr(_csv_tables, "BYTES_PER_BLOCK", size)
        assert refused(path).removeprefix("/tasks.csv: ").startswith("row 6: ")


@pytest.mark.parametrize("rows", range(1, 5))
def test_the_order_of_jobs_is_that_of_the_whole_file(
    tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three jobs the middle one is missing, or comes back, wherever blocks end."""
    row = "{},,1,10\n"
    for order, said in (("xxyyxzz", "row 6: job: 'x'"), ("xxxxzzz", "row 6: job: 'z'")):
        tasks = "job,place,cpu,duration\n" + "".join(map(row.format, order))
        jobs = FILES["jobs.csv"].replace("y,bo", "y,bo,5,false,\nz,bo")
        path = folder(tmp_path, jobs__csv=jobs, tasks__csv=tasks)
        monkeypatch.setattr(_csv_tables, "BYTES_PER_READ", 1)
        monkeypatch.setattr(_csv_tables, "BYTES_PER_BLOCK", max(30, len(row) * rows))
        assert refused(path).removeprefix("/tasks.csv: ").startswith(said)


def test_amounts_and_times_may_be_of_any_size(tmp_path: Path) -> None:
    """Also above 2^53, from which on whole numbers are not exact."""
    servers = FILES["servers.csv"].replace("big,2,8", "big,2,1e20")
    path = folder(
        tmp_path,
        servers__csv=servers,
        users__csv=FILES["users.csv"].replace("ana,2", "ana,36028797018963968"),
        jobs__csv=FILES["jobs.csv"].replace("9.5", "1e17"),
        tasks__csv=FILES["tasks.csv"].replace("x,,1,10", "x,,1e18,1e19"),
    )
    workload = read_folder(path)
    assert workload.cluster.capacity.tolist() == [[1e20], [2]]
    assert workload.weight.tolist() == [2.0**55, 1]
    assert workload.job_cancel.tolist() == [math.inf, 1e17]
    assert workload.shapes.max() == 1e18
    assert workload.task_duration.max() == 1e19
    write_folder(workload, tmp_path / "again")
    assert_equal(workload, read_folder(tmp_path / "again"))


def test_servers_are_not_listed_one_by_one(tmp_path: Path) -> None:
    count = 9_999_999
    servers = FILES["servers.csv"].replace("big,2", f"big,{count}")
    last = f"big-{count - 1}"
    path = folder(
        tmp_path,
        servers__csv=servers,
        tasks__csv=RECORDED.replace("big-1", last),
        server_events__csv="time,event,server\n",
    )
    workload = read_folder(path)
    assert workload.task_server.tolist() == [count - 1, -1, -1, count]
    write_folder(workload, tmp_path / "again")
    rows = (tmp_path / "again" / "tasks.csv").read_text().splitlines()[1:]
    assert [row.rpartition(",")[2] for row in rows] == [last, "", "", "small-0"]


LIMITED = "job,user,submit,gang,cancel,limit\nx,ana,0,false,,90.5\ny,bo,5,true,9.5,\n"


def test_a_limit_is_positive(tmp_path: Path) -> None:
    assert read_folder(folder(tmp_path, jobs__csv=LIMITED)).job_limit.tolist() == [90.5, math.inf]
    path = folder(tmp_path, jobs__csv=LIMITED.replace("90.5", "0"))
    assert refused(path) == "/jobs.csv: row 2: limit: must be a positive number of seconds, not 0.0"


RECORDED = (
    "job,place,cpu,duration,start,server\nx,,1,10,4,big-1\nx,,1,20,,\n"
    "y,small|big,2,30,never,\ny,small,2,30,9.5,small-0\n"
)


def test_recorded_starts_and_servers(tmp_path: Path) -> None:
    workload = read_folder(folder(tmp_path, tasks__csv=RECORDED))
    assert repr(workload.task_start.tolist()) == "[4.0, nan, inf, 9.5]"
    assert workload.task_server.tolist() == [1, -1, -1, 2]
    starts_only = "".join(line.rpartition(",")[0] + "\n" for line in RECORDED.splitlines())
    workload = read_folder(folder(tmp_path, tasks__csv=starts_only))
    assert repr(workload.task_start.tolist()) == "[4.0, nan, inf, 9.5]"
    assert workload.task_server.tolist() == [-1] * 4
    assert not read_folder(folder(tmp_path)).has_starts


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "9.5,small-0",
            "4,small-0",
            "row 5: start: must be a time at or after its job's submission",
        ),
        (
            "start,server",
            "server,start",
            "row 1: the header has another order; it must be 'job,place,cpu,duration,start,server'",
        ),
    ],
)
def test_faults_of_recorded_columns(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in RECORDED
    path = folder(tmp_path, tasks__csv=RECORDED.replace(old, new, 1))
    assert refused(path).removeprefix("/tasks.csv: ").startswith(said)


def test_starts_in_a_parquet_file_are_as_many_as_tasks(tmp_path: Path) -> None:
    path = parquet(tmp_path)
    assert {"starts", "servers"}.isdisjoint(pl.read_parquet_schema(path))
    starts = pl.Series([[1.0] * 9] * len(pl.read_parquet(path)))
    assert "starts: not as many as durations" in refused(
        rewritten(tmp_path, lambda f: f.with_columns(starts=starts))
    )


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder(tmp_path)
    older = {file.name: file.read_bytes() for file in path.iterdir()}
    monkeypatch.setattr(csv_folder, "_events_frame", lambda _: {}["events"])
    with pytest.raises(KeyError):
        write_folder(random_workload(2), path)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == older
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace"]
    monkeypatch.undo()
    write_folder(random_workload(2), path)
    assert_equal(random_workload(2), read_folder(path))


def test_folders_of_something_else_are_left_alone(tmp_path: Path) -> None:
    letter, absent = tmp_path / "letter", tmp_path / "no" / "where"
    letter.write_text("dear")
    workload = random_workload(2)
    for path, fault in (
        (tmp_path, "is a folder with other files (it has no trace.json)"),
        (letter, "is a file, not a folder"),
        (absent, "cannot be written: no such file or directory"),
    ):
        assert fault_of(write_folder, workload, path).startswith(f"{path}: {fault}")
    with pytest.raises(InputError, match="cannot be written: no such file or directory"):
        write_parquet(workload, absent)
    assert [entry.name for entry in tmp_path.iterdir()] == ["letter"]


def test_names_that_csv_would_lose_are_refused(tmp_path: Path) -> None:
    workload = random_workload(2)
    object.__setattr__(workload, "users", (" two", *workload.users[1:]))
    with pytest.raises(InputError, match=r"the name ' two' begins or ends with a blank"):
        write_folder(workload, tmp_path / "trace")
    assert not list(tmp_path.iterdir())
