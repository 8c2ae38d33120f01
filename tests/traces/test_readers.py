"""Formats are detected by content, and other files are refused in one line."""

from __future__ import annotations

import codecs
import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hand_written_logs import log_row, write_log
from random_workloads import assert_equal, random_workload

import small_logs
from fairlead.errors import InputError
from fairlead.traces import _stored_files, readers
from fairlead.traces.parquet_trace import write_parquet
from fairlead.traces.readers import NO_OPTIONS, READERS, MachineOptions, read_workload
from faults import fault_of

OPENB_NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\nn1,96000,393216,8,G2\n"
OPENB_PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\np0,12000,16384,1,1000,,LS,Running,5,100,10\n"
)


def content(path: Path) -> bytes:
    """Return the content of a file; the size of its gzip file differs between machines."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def test_small_logs_are_those_of_their_generator(tmp_path: Path) -> None:
    small_logs.write_all(tmp_path)
    written, kept = (
        {path.relative_to(folder): content(path) for path in folder.rglob("*.*")}
        for folder in (tmp_path, small_logs.FOLDER)
    )
    assert written == kept
    assert len(kept) == 15


def test_a_byte_order_mark_of_any_file_is_left_out(tmp_path: Path) -> None:
    openb = tmp_path / "openb"
    openb.mkdir()
    (openb / "openb_node_list.csv").write_text(OPENB_NODES)
    (openb / "openb_pod_list.csv").write_text(OPENB_PODS)
    log = write_log(tmp_path, log_row(1), log_row(2, user=2))
    plain = [read_workload(path) for path in (openb, log)]
    for file in filter(Path.is_file, tmp_path.rglob("*")):
        file.write_bytes(codecs.BOM_UTF8 + file.read_bytes())
    for path, (workload, found) in zip((openb, log), plain, strict=True):
        marked, found_then = read_workload(path)
        assert found_then == found
        assert_equal(marked, workload)


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
    assert "there is no such file" in fault_of(read_workload, tmp_path / "none")
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


@pytest.mark.parametrize("name", ["machines", "servers", "cores", "memory"])
def test_options_that_would_be_ignored(tmp_path: Path, name: str) -> None:
    """The fault names every format that has the option, and the format of the file."""
    write_parquet(random_workload(1), tmp_path / "x.parquet")
    message = fault_of(read_workload, tmp_path / "x.parquet", replace(NO_OPTIONS, **{name: 2}))
    assert message.startswith(f"--{name}: is for ")
    assert message.endswith(", and this was read as Parquet trace")
    assert all(other in message for other, reader in READERS.items() if name in reader.takes)


@pytest.mark.parametrize("log", ["google-2011", "openb", "lab.swf", "metacentrum.swf.gz"])
def test_progress_ends_with_the_whole_log(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stored_files, "ROWS_PER_REPORT", 10)
    reports: list[tuple[int, int]] = []
    read_workload(
        small_logs.FOLDER / log, on_progress=lambda done, size: reports.append((done, size))
    )
    assert len({size for _, size in reports}) == 1
    assert reports[-1][0] == reports[-1][1] > 0
    assert reports == sorted(reports)
    assert len(reports) > 3 or log == "openb"  # whose tables are one block each
