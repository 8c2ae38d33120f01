"""Run logs as Parquet files: round trips, what other tools see, and every kind of damage."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fairlead.formats.run_log_file import (
    METADATA_KEY,
    read_fingerprint,
    read_run_log,
    write_run_log,
)
from fairlead.model.cluster import Cluster
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from faults import fault_of, fault_within
from random_runs import run_by_seed


@pytest.mark.parametrize("seed", range(4))
def test_round_trips_are_exact(tmp_path: Path, seed: int) -> None:
    workload, log = run_by_seed(seed)
    path = tmp_path / "run.parquet"
    write_run_log(workload, log, path)
    found = read_run_log(path)
    for name, value in vars(log).items():
        read = getattr(found, name)
        assert np.array_equal(read, value), name
        assert not isinstance(value, np.ndarray) or read.dtype == value.dtype, name
    assert [file.name for file in tmp_path.iterdir()] == ["run.parquet"]


def small() -> tuple[Workload, RunLog]:
    """Two users; the first task of `b` is lost with its server and runs again elsewhere."""
    workload = Workload.from_arrays(
        Cluster(
            groups=("big", "one"),
            resources=("cpu",),
            capacity=np.array([[2.0], [1.0]]),
            count=np.array([2, 1]),
            units=("",),
            labels=({}, {}),
        ),
        ["ana", "bo"],
        job_user=[0, 1],
        job_names=["a", "b"],
        job_submit=[0.0, 1.5],
        set_job=[0, 1, 1],
        set_tasks=[1, 1, 1],
        shapes=[[2.0], [1.0], [9.0]],
        task_duration=[4.0, 5.0, 6.0],
        server_time=[3.0],
        server_event=[1],
        server=[2],
    )
    log = RunLog(
        "drf/best-fit",
        task=np.array([0, 1, 1], dtype=np.int32),
        server=np.array([0, 2, 1], dtype=np.int32),
        start=np.array([0.0, 2.0, 3.0]),
        end=np.array([4.0, 3.0, 8.0]),
        lost=np.array([False, True, False]),
        set_unplaceable=np.array([False, False, True]),
    )
    return workload, log


def written(folder: Path) -> Path:
    path = folder / "run.parquet"
    write_run_log(*small(), path)
    return path


def test_other_tools_see_names(tmp_path: Path) -> None:
    assert pl.read_parquet(written(tmp_path)).rows(named=True)[1] == {
        "user": "bo",
        "job": "b",
        "set": 1,
        "task": 1,
        "server": "one-0",
        "submit": 1.5,
        "wait": 0.5,
        "start": 2.0,
        "end": 3.0,
        "lost": True,
        "server_number": 2,
    }
    header = json.loads(pl.read_parquet_metadata(tmp_path / "run.parquet")[METADATA_KEY])
    assert header["policy"] == "drf/best-fit"
    assert header["unplaceable_sets"] == [2]


def refused(path: Path) -> str:
    return fault_within(path, read_run_log, path)


NOT_A_RUN_LOG = "fairlead_run_log: the metadata is not that of a run log"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"version": 7}, "is a run log of version 7; only version 1 can be read"),
        ({"sets": -1}, NOT_A_RUN_LOG),
        ({"sets": 10**14}, NOT_A_RUN_LOG),
        ({"unplaceable_sets": [3]}, NOT_A_RUN_LOG),
        ({"unplaceable_sets": [-1]}, NOT_A_RUN_LOG),
        ({"policy": 5}, NOT_A_RUN_LOG),
        ({"unplaceable_sets": 5}, NOT_A_RUN_LOG),
    ],
)
def test_damaged_metadata(tmp_path: Path, header: dict[str, object], said: str) -> None:
    path = written(tmp_path)
    metadata = json.loads(pl.read_parquet_metadata(path)[METADATA_KEY]) | header
    pl.read_parquet(path).write_parquet(path, metadata={METADATA_KEY: json.dumps(metadata)})
    assert refused(path).startswith(said)


def test_a_field_of_the_table_may_not_be_empty(tmp_path: Path) -> None:
    path = written(tmp_path)
    metadata = pl.read_parquet_metadata(path)
    frame = pl.read_parquet(path).with_columns(end=pl.lit(None, pl.Float64))
    frame.write_parquet(path, metadata={METADATA_KEY: metadata[METADATA_KEY]})
    assert refused(path) == "row 1: end: is empty"
    frame.drop("end").write_parquet(path, metadata={METADATA_KEY: metadata[METADATA_KEY]})
    assert refused(path).startswith("columns: the columns are user String, job")


def test_a_fingerprint_is_kept_beside_the_log(tmp_path: Path) -> None:
    workload, log = run_by_seed(3)
    path = tmp_path / "run.parquet"
    write_run_log(workload, log, path)
    assert read_fingerprint(path) == ""
    write_run_log(workload, log, path, fingerprint="abc")
    assert read_fingerprint(path) == "abc"
    assert read_run_log(path).policy == log.policy
    path.write_bytes(path.read_bytes()[:-9])
    assert "ends before its data does" in fault_of(read_fingerprint, path)
