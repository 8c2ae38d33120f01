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


@pytest.mark.parametrize("seed", range(2))
def test_other_tools_see_names(tmp_path: Path, seed: int) -> None:
    workload, log = run_by_seed(seed)
    write_run_log(workload, log, tmp_path / "run.parquet")
    cluster = workload.cluster
    servers = [f"{g}-{k}" for g, n in zip(cluster.groups, cluster.count, strict=True)
               for k in range(n)]  # fmt: skip
    sets = np.repeat(np.arange(workload.n_sets), workload.set_tasks)
    for k, row in enumerate(pl.read_parquet(tmp_path / "run.parquet").rows(named=True)):
        job = workload.set_job[sets[log.task[k]]]
        assert row == {
            "user": workload.users[workload.job_user[job]],
            "job": workload.job_names[job],
            "set": sets[log.task[k]],
            "task": log.task[k],
            "server": servers[log.server[k]],
            "submit": workload.job_submit[job],
            "wait": log.start[k] - workload.job_submit[job],
            "start": log.start[k],
            "end": log.end[k],
            "lost": log.lost[k],
            "server_number": log.server[k],
        }
    header = json.loads(pl.read_parquet_metadata(tmp_path / "run.parquet")[METADATA_KEY])
    assert header["policy"] == log.policy
    assert header["unplaceable_sets"] == np.flatnonzero(log.set_unplaceable).tolist()


def written(folder: Path) -> Path:
    path = folder / "run.parquet"
    write_run_log(*run_by_seed(3), path)
    return path


def refused(path: Path) -> str:
    return fault_within(path, read_run_log, path)


NOT_A_RUN_LOG = "fairlead_run_log: the metadata is not that of a run log"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"version": 7}, "is a run log of version 7; only version 1 can be read"),
        ({"sets": -1}, NOT_A_RUN_LOG),
        ({"sets": 10**14}, NOT_A_RUN_LOG),
        ({"unplaceable_sets": [10**6]}, NOT_A_RUN_LOG),
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
    path = written(tmp_path)
    assert read_fingerprint(path) == ""
    workload, log = run_by_seed(3)
    write_run_log(workload, log, path, fingerprint="abc")
    assert read_fingerprint(path) == "abc"
    assert read_run_log(path).policy == log.policy
    path.write_bytes(path.read_bytes()[:-9])
    assert "ends before its data does" in fault_of(read_fingerprint, path)
