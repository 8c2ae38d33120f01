"""Formats are told by their content, and what is in none is refused in one clear line."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from hand_written_logs import log_row, write_log
from random_workloads import assert_equal, random_workload

from fairlead.errors import InputError
from fairlead.traces import detect
from fairlead.traces.csv_folder import write_folder
from fairlead.traces.own_format import write_parquet
from fairlead.traces.reading import MachinesGiven, read_workload

SWF_ROW = "1 100 5 60 4 -1 -1 4 3600 -1 1 7 1 1 1 1 -1 -1\n"


def test_own_traces(tmp_path: Path) -> None:
    workload = random_workload(1)
    write_parquet(workload, tmp_path / "named.csv")
    write_folder(workload, tmp_path / "folder")
    for name, expected in (("named.csv", detect.PARQUET), ("folder", detect.CSV_FOLDER)):
        read, found = read_workload(tmp_path / name)
        assert found == expected
        assert_equal(read, workload)


def test_logs(tmp_path: Path) -> None:
    assert read_workload(write_log(tmp_path, "; comment", log_row(1)))[1] == detect.METACENTRUM
    plain = tmp_path / "log"
    plain.write_bytes(gzip.compress(f"; MaxProcs: 8\n\n{SWF_ROW}".encode()))
    workload, found = read_workload(plain)
    assert found == detect.SWF
    assert workload.cluster.capacity.tolist() == [[8]]
    given = MachinesGiven(servers=2, cores=4, memory=16.0)
    workload, _ = read_workload(plain, given)
    assert workload.cluster.capacity.tolist() == [[4, 16]]
    # a comment tells a log in this format, so a fault in its first job has its row
    plain.write_text("; MaxProcs: 8\n1 2 3\n")
    with pytest.raises(InputError, match="row 2: not 18 columns separated by blanks but 3"):
        read_workload(plain)


def test_openb_by_folder_or_file(tmp_path: Path, openb_folder: Path) -> None:
    pods = "openb_pod_list_gpuspec33.csv.gz"
    whole, found = read_workload(openb_folder)
    assert found == detect.OPENB
    assert_equal(read_workload(openb_folder / pods)[0], whole)
    shutil.copy(openb_folder / pods, tmp_path / pods)
    with pytest.raises(InputError, match="has 0 tables of nodes; name one with --machines"):
        read_workload(tmp_path / pods)
    nodes = openb_folder / "openb_node_list_all_node.csv.gz"
    assert_equal(read_workload(tmp_path / pods, MachinesGiven(file=nodes))[0], whole)
    shutil.copy(openb_folder / pods, tmp_path / "openb_pod_list_again.csv.gz")
    with pytest.raises(InputError, match=r"has 2 tables \(openb_pod_list_again.csv.gz, openb_pod"):
        read_workload(tmp_path)


def test_google_by_its_folders(tmp_path: Path) -> None:
    (tmp_path / "task_events").mkdir()
    assert detect.detect_format(tmp_path) == detect.GOOGLE


def test_logs_are_told_apart(metacentrum_log: Path, openb_folder: Path, job_events: Path) -> None:
    assert detect.detect_format(metacentrum_log) == detect.METACENTRUM
    assert detect.detect_format(openb_folder) == detect.OPENB
    for path in (job_events, job_events / "part-00000-of-00500.csv.gz"):
        with pytest.raises(InputError, match="trace generate --job-events"):
            detect.detect_format(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"; only a comment\n", "holds no job"),
        (b"\x00\x01\x02\x03\x04", "row 1: not text: it holds a zero byte"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "row 1: not text in UTF-8"),
        (b"dear diary\n", "row 1: 2 columns separated by blanks, 1 by commas: is no trace; wanted"),
        (b"sn,cpu_milli,memory_mib,gpu,model\n", "row 1: is openb's table of nodes; name that of"),
        (b"0,1,0,p,1,1\n", "row 1: looks like a table of Google's trace; name the folder"),
        (b"0,,1,0,,0,a,2,9,1,1,1,0\n", "row 1: looks like Google's task events; name the"),
        (
            gzip.compress(b"1 2 3\n" * 9999, mtime=0)[:25],
            "row 1: the gzip file ends before its data does",
        ),
        (b"1 " * 21 + b"\n", "row 1: 21 columns separated by blanks, 1 by commas: is no trace"),
    ],
)
def test_files_in_no_format(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_workload(path)
    assert str(caught.value).startswith(f"{path}: {said}")


def test_folders_in_no_format(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder of no trace; wanted: a Parquet"):
        read_workload(tmp_path)
    with pytest.raises(InputError, match="there is no such file"):
        read_workload(tmp_path / "none")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (MachinesGiven(file=Path("x")), "--machines: a Parquet trace has no machine file"),
        (MachinesGiven(servers=2), "--servers: is for a plain SWF log, and this is a Parquet"),
        (MachinesGiven(cores=2), "--cores: is for a plain SWF log"),
        (MachinesGiven(memory=2), "--memory: is for a plain SWF log"),
    ],
)
def test_options_that_would_be_ignored(tmp_path: Path, given: MachinesGiven, said: str) -> None:
    write_parquet(random_workload(1), tmp_path / "x.parquet")
    with pytest.raises(InputError) as caught:
        read_workload(tmp_path / "x.parquet", given)
    assert str(caught.value).startswith(said)
