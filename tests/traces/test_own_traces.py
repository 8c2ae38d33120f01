"""The project's own trace: round trips, and every kind of damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from random_workloads import assert_equal, random_workload

from fairlead.model.queues import read_queues
from fairlead.traces.parquet_trace import METADATA_KEY, read_parquet, write_parquet
from faults import change_header, fault_of

NAN = float("nan")


@pytest.mark.parametrize("seed", range(6))
def test_round_trips_are_exact(tmp_path: Path, seed: int) -> None:
    workload = random_workload(seed)
    write_parquet(workload, tmp_path / "trace.parquet")
    assert_equal(workload, read_parquet(tmp_path / "trace.parquet"))
    assert [path.name for path in tmp_path.iterdir()] == ["trace.parquet"]


def test_trees_of_queues_are_kept(tmp_path: Path) -> None:
    workload = random_workload(1)
    rows = [{"name": "a queue", "weight": 2}, {"name": "below", "parent": "a queue"}]
    of_user = [None, "below", "a queue", *[None] * workload.n_users][: workload.n_users]
    limits = {"below": {"tasks": 3, "cpu": 0.5}}
    quotas = {"below": [{"cpu": 0.25}, {"cpu": 0.1, "where": {"type": "new"}}]}
    queues = read_queues(rows, of_user, workload.users)
    workload = replace(workload, queues=queues, limits=limits, quotas=quotas)
    write_parquet(workload, tmp_path / "trace.parquet")
    again = read_parquet(tmp_path / "trace.parquet")
    assert again.queues is not None
    assert again.limits == limits
    assert again.quotas == quotas
    assert (again.queues.rows(), again.queues.user_queue()) == (rows, of_user)
    users = ["nowhere", *[None] * (random_workload(3).n_users - 1)]
    path = parquet(tmp_path, queues=rows, user_queue=users)
    assert "no queue is named 'nowhere'" in refused(path)


def parquet(
    folder: Path, frame: Callable[[pl.DataFrame], pl.DataFrame] | None = None, **header: object
) -> Path:
    """A trace, whose table or metadata may have been changed by another program."""
    path = folder / "trace.parquet"
    write_parquet(random_workload(3), path)
    if frame is not None or header:
        metadata = pl.read_parquet_metadata(path)[METADATA_KEY]
        changed = pl.read_parquet(path) if frame is None else frame(pl.read_parquet(path))
        changed.write_parquet(path, metadata={METADATA_KEY: metadata})
        change_header(path, **header)
    return path


def refused(path: Path) -> str:
    message = fault_of(read_parquet, path)
    assert message.startswith(f"{path}")
    return message.removeprefix(f"{path}").removeprefix(": ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a Parquet file"),
        (b"PAR1" + bytes(20), "the Parquet file ends before its data does (truncated?)"),
        (b"PAR1" + bytes(20) + b"PAR1", "the Parquet file is damaged: "),
    ],
)
def test_files_that_are_no_trace(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "trace"
    assert refused(path) == "cannot be read: No such file or directory"
    pl.DataFrame({"a": [1]}).write_parquet(path)
    assert refused(path).startswith("is a Parquet file but not a trace: its metadata has no 'fair")
    pl.DataFrame({"a": [1]}).write_parquet(path, metadata={METADATA_KEY: "{"})
    assert refused(path) == "fairlead_trace: is not the JSON of a trace"
    path.write_bytes(content)
    assert refused(path).startswith(said)


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
    path = parquet(tmp_path, lambda frame: frame)
    assert_equal(read_parquet(path), random_workload(3))


NOT_A_TRACE = "fairlead_trace: the metadata is not that of a trace: "


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"version": 2}, "is a trace of version 2; only version 1 can be read"),
        ({"users": "x"}, NOT_A_TRACE),
        ({"users": [{"name": f"user {n}", "weight": 10**400} for n in range(9)]}, "weight: "),
        ({"users": [{"name": "nobody", "weight": 1.0}]}, "jobs[0].user: unknown user 'user "),
        ({"places": [[99]]}, "places[0]: must be numbers"),
        (
            {"server_events": {"time": [1.0], "event": ["join"], "server": [999]}},
            "server events[0].server: must be from 0 to",
        ),
        *(({"start_date": date}, "start_date: must be ") for date in (-1, 1e12, NAN, "2025", True)),
        *(({"recorded_until": end}, "recorded_until: must be ") for end in (0, NAN, "2025", True)),
    ],
)
def test_damaged_metadata(tmp_path: Path, header: dict[str, object], said: str) -> None:
    assert refused(parquet(tmp_path, **header)).startswith(said)


@pytest.mark.parametrize("count", [0, 10**7 + 1, True, 1.5])
def test_a_count_of_the_metadata_is_usable(tmp_path: Path, count: object) -> None:
    path = parquet(tmp_path)
    groups = json.loads(pl.read_parquet_metadata(path)[METADATA_KEY])["groups"]
    groups[0]["count"] = count
    change_header(path, groups=groups)
    assert refused(path).startswith("groups[0].count: must be a whole")


SECOND = pl.int_range(pl.len()) == 1


def again(frame: pl.DataFrame) -> pl.DataFrame:
    late = frame.head(1).with_columns(submit=frame["submit"].max(), cancel=None)
    return pl.concat([frame, late])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"place": pl.lit("x")}, "columns: the columns are job String, user"),
        ({"submit": pl.when(~SECOND).then("submit")}, "row 2: submit: is empty"),
        ({"durations": pl.lit([1.0, None])}, "row 1: durations: one is empty"),
        ({"durations": pl.lit([], pl.List(pl.Float64))}, "sets[0].tasks: must be a positive"),
        ({"demand.cpu": pl.lit(-1.0)}, "shapes[0].cpu: must be 0 or a number between"),
        ({"place": pl.lit(99, dtype=pl.Int32)}, "sets[0].place: must be from"),
        ({"starts": pl.lit([1.0] * 9)}, "row 1: starts: not as many as durations"),
        ({"job": pl.lit("one"), "submit": pl.int_range(pl.len()) * 1.0}, "differs within a job"),
    ],
)
def test_damaged_tables(tmp_path: Path, changed: dict[str, pl.Expr], said: str) -> None:
    assert said in refused(parquet(tmp_path, lambda f: f.with_columns(**changed)))
    assert refused(parquet(tmp_path, lambda f: f.head(0))) == "holds no job"
    assert "duplicate name" in refused(parquet(tmp_path, again))
