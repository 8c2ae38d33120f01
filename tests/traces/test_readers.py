"""Formats are detected by content, and other files are refused in one line."""

from __future__ import annotations

import codecs
import gzip
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hand_written_logs import log_row, write_log
from random_workloads import assert_equal, random_workload

import small_logs
from fairlead.errors import InputError
from fairlead.traces import readers
from fairlead.traces.parquet_trace import write_parquet
from fairlead.traces.readers import NO_OPTIONS, READERS, MachineOptions, read_workload
from faults import fault_of

SWF_ROW = "1 100 5 60 4 -1 -1 4 3600 -1 1 7 1 1 1 1 -1 -1\n"
OPENB_NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\nn1,96000,393216,8,G2\n"
OPENB_PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\np0,12000,16384,1,1000,,LS,Running,5,100,10\n"
)


def test_own_traces(tmp_path: Path) -> None:
    workload = random_workload(1)
    write_parquet(workload, tmp_path / "named.csv")
    assert read_workload(tmp_path / "named.csv")[1] == readers.PARQUET


def test_logs(tmp_path: Path) -> None:
    assert read_workload(write_log(tmp_path, "; comment", log_row(1)))[1] == readers.METACENTRUM
    plain = tmp_path / "log"
    plain.write_bytes(gzip.compress(f"; MaxProcs: 8\n\n{SWF_ROW}".encode()))
    workload, found = read_workload(plain)
    assert found == readers.SWF
    assert workload.cluster.capacity.tolist() == [[8]]
    given = MachineOptions(servers=2, cores=4, memory=16.0)
    workload, _ = read_workload(plain, given)
    assert workload.cluster.capacity.tolist() == [[4, 16]]
    # a comment tells a log in this format, so a fault in its first job has its row
    plain.write_text("; MaxProcs: 8\n1 2 3\n")
    assert "row 2: not 18 columns separated by blanks but 3" in fault_of(read_workload, plain)


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def openb_tables(folder: Path) -> Path:
    folder.mkdir()
    (folder / "openb_node_list.csv").write_text(OPENB_NODES)
    (folder / "openb_pod_list.csv").write_text(OPENB_PODS)
    return folder


def a_metacentrum_log(folder: Path) -> Path:
    folder.mkdir()
    return write_log(folder, log_row(1), log_row(2, user=2))


@pytest.mark.parametrize("write", [a_metacentrum_log, openb_tables])
def test_a_byte_order_mark_of_any_file_is_left_out(
    tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    path = write(tmp_path / "trace")
    plain, found = read_workload(path)
    for file in files_of(tmp_path):
        file.write_bytes(codecs.BOM_UTF8 + file.read_bytes())
    workload, found_then = read_workload(path)
    assert found_then == found
    assert_equal(workload, plain)


OWN_FORMAT = """
from fairlead.traces.readers import TraceFormat
from fairlead.traces.generator import generate_day

def recognises(path, first):
    return first == "my format"

def read(path, machines, on_progress):
    return generate_day(servers=machines.servers or 2, users=2, jobs=5, hours=1, seed=1)

FORMAT = TraceFormat("my own log", recognises, read)
"""


def test_another_package_adds_a_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_format.py").write_text(OWN_FORMAT)
    metadata = tmp_path / "my_format-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-format\nVersion: 1\n")
    point = metadata / "entry_points.txt"
    point.write_text("[fairlead.traces]\nmine = my_format:FORMAT\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    log = tmp_path / "log"
    log.write_bytes(gzip.compress(b"my format\n1 2 3\n"))
    workload, found = read_workload(log, MachineOptions(servers=3))
    assert found == "my own log"
    assert workload.n_servers == 3
    log.write_text("another format\n")
    assert "does not begin a trace" in fault_of(read_workload, log)
    point.write_text("[fairlead.traces]\nmine = my_format:NOTHING\n")
    assert "my_format:NOTHING: cannot be used: AttributeError" in fault_of(read_workload, log)


def test_openb_by_folder_or_file(tmp_path: Path, openb_folder: Path) -> None:
    pods = "openb_pod_list_gpuspec33.csv.gz"
    whole, found = read_workload(openb_folder)
    assert found == readers.OPENB
    assert_equal(read_workload(openb_folder / pods)[0], whole)
    shutil.copy(openb_folder / pods, tmp_path / pods)
    with pytest.raises(InputError, match=r"has 0 files .*node_list.*; name one with --machines"):
        read_workload(tmp_path / pods)
    nodes = openb_folder / "openb_node_list_all_node.csv.gz"
    assert_equal(read_workload(tmp_path / pods, MachineOptions(machines=nodes))[0], whole)
    shutil.copy(openb_folder / pods, tmp_path / "openb_pod_list_again.csv.gz")
    with pytest.raises(InputError, match=r"has 2 files .*pod_list.*: openb_pod_list_again"):
        read_workload(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"; only a comment\n", "holds no job"),
        (b"\x00\x01\x02\x03\x04", "row 1: not text: it holds a zero byte"),
        (b"fairlead: 1\nservers: []\n", "row 1: 'fairlead: 1' does not begin a trace; wanted: a"),
        (b"dear diary\n", "row 1: 'dear diary' does not begin a trace; wanted: a Parquet"),
        (b"sn,cpu_milli,memory_mib,gpu,model\n", "row 1: 'sn,cpu_milli,memory_mib,gpu,model' does"),
    ],
)
def test_files_in_no_format(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert fault_of(read_workload, path).startswith(f"{path}: {message}")


def test_folders_in_no_format(tmp_path: Path) -> None:
    assert "is not the folder of a trace; wanted: a Parquet" in fault_of(read_workload, tmp_path)
    assert "there is no such file" in fault_of(read_workload, tmp_path / "none")


@pytest.mark.parametrize("name", ["servers", "cores", "memory"])
def test_options_that_would_be_ignored(tmp_path: Path, name: str) -> None:
    """The fault names every format that has the option, and the format of the file."""
    write_parquet(random_workload(1), tmp_path / "x.parquet")
    message = fault_of(read_workload, tmp_path / "x.parquet", replace(NO_OPTIONS, **{name: 2}))
    assert message.startswith(f"--{name}: is for ")
    assert message.endswith(", and this was read as Parquet trace")
    takers = [row.called for row in READERS.values() if name in row.takes]
    assert "a plain SWF log" in takers
    for called in takers:
        assert called, f"a format takes --{name}: its row in READERS needs a name for the fault"
        assert called in message


def test_a_machine_file_that_would_be_ignored(tmp_path: Path) -> None:
    write_parquet(random_workload(1), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"^--machines: this was read as Parquet trace, which has"):
        read_workload(tmp_path / "x.parquet", MachineOptions(machines=Path("x")))


@pytest.mark.parametrize("log", ["google-2011", "openb", "lab.swf", "metacentrum.swf.gz"])
def test_progress_ends_with_the_whole_log(log: str) -> None:
    reports: list[tuple[int, int]] = []
    read_workload(
        small_logs.FOLDER / log, on_progress=lambda done, size: reports.append((done, size))
    )
    assert len({size for _, size in reports}) == 1
    assert reports[-1][0] == reports[-1][1] > 0
    assert reports == sorted(reports)
