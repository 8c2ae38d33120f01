"""Formats are detected by content, whatever a file's name; other files are refused in one line."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hand_written_logs import EXAMPLES, log_row
from random_workloads import assert_equal, random_workload

from fairlead.traces import _stored_files, readers
from fairlead.traces.parquet_trace import write_parquet
from fairlead.traces.readers import (
    NO_OPTIONS,
    READERS,
    MachineOptions,
    detect_format,
    read_workload,
)
from faults import fault_of, fault_within

GAVEL_ROW = "Net (batch size 16)\trun -b 16\tnets\t--steps\t1\t900\t1\t1\t-1.0\t50\n"


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (json.dumps({"nb_res": 4, "jobs": [], "profiles": {}}, indent=1), readers.BATSIM),
        ('{"date": "x", "profiles": {}}', readers.BATSIM),
        (json.dumps({"apiVersion": "v1", "kind": "List"}, indent=1), readers.KUBERNETES),
        ("apiVersion: v1\nkind: List\nitems: []\n", readers.KUBERNETES),
        ('{"task": "jobs"}', readers.KUBERNETES),
        (GAVEL_ROW, readers.GAVEL),
        ("instance_sn,role,app_name,max_instance_per_node,creation_time\n", readers.DLRM),
        ('[{"status": "Pass", "vc": "v", "jobid": "a", "attempts": []}]', readers.PHILLY),
        ('[{"jobid": "a1", "attempts": []}', readers.PHILLY),  # its fault is found when it is read
        ("job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state\n", readers.HELIOS),
        ("JobID|User|State\n", readers.SLURM),
        (f"; comment\n{log_row(1)}\n", readers.METACENTRUM),
        ("\n" + " ".join(["1"] * 18) + "\n", readers.SWF),
        ("; MaxProcs: 8\n1 2 3\n", readers.SWF),  # the comment tells, so a fault has its row
    ],
)
def test_a_file_is_known_by_its_first_line(tmp_path: Path, content: str, name: str) -> None:
    for stored in (content.encode(), gzip.compress(content.encode())):
        (tmp_path / "log").write_bytes(stored)
        assert detect_format(tmp_path / "log") == name


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "is empty"),
        ("; only a comment\n", "holds no job"),
        ("\0\1\2\3\4", "row 1: not text: it holds a zero byte"),
        ("dear diary\n", "row 1: 'dear diary' does not begin a trace; wanted: Parquet"),
        *(
            (line, "row 1: ")
            for line in (
                "fairlead: 1\nservers: []\n",
                "sn,cpu_milli,memory_mib,gpu,model\n",
                '["jobs", {"jobs": 1}]',
                '[{"jobid": "a1"}]',
                GAVEL_ROW.replace("50", "soon"),
                GAVEL_ROW.replace("50", "nan"),
                GAVEL_ROW.replace("--steps\t1", "--steps\tyes"),
                GAVEL_ROW.partition("nets\t")[2],
            )
        ),
    ],
)
def test_files_in_no_format(tmp_path: Path, content: str, fault: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    found = fault_within(path, detect_format, path)
    assert found.startswith(fault)
    assert "does not begin a trace" in found or fault != "row 1: "


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["openb_pod_list.csv", "pai_job_table.tar.gz"], readers.PAI),
        (["instance_events-000000000000.json.gz"], readers.GOOGLE_2019),
        (["collection_events/collection_events-000000000000.json"], readers.GOOGLE_2019),
        (["task_events/part-00000-of-00500.csv.gz"], readers.GOOGLE),
        (["machine_events/part-00000-of-00001.csv.gz"], readers.GOOGLE),
        (["openb_pod_list.csv"], readers.OPENB),
        (["cluster_job_log", "cluster_machine_list"], readers.PHILLY),
        (["cluster_log.csv"], readers.HELIOS),
    ],
)
def test_a_folder_is_known_by_its_files(tmp_path: Path, files: list[str], name: str) -> None:
    assert "is not the folder of a trace; wanted: Parquet" in fault_of(detect_format, tmp_path)
    assert "there is no such file" in fault_of(detect_format, tmp_path / "none")
    for file in files:
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert detect_format(tmp_path) == name


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
    log.write_bytes(gzip.compress(b"my format\n1 2 \xe9\n"))
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
    without_nodes = fault_of(read_workload, tmp_path / pods)
    assert "has 0 files *node_list*.csv*; name one with --machines" in without_nodes
    nodes = openb_folder / "openb_node_list_all_node.csv.gz"
    assert_equal(read_workload(tmp_path / pods, MachineOptions(machines=nodes))[0], whole)
    shutil.copy(openb_folder / pods, tmp_path / "openb_pod_list_again.csv.gz")
    assert "has 2 files *pod_list*.csv*: openb_pod_li" in fault_of(read_workload, tmp_path)


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
    monkeypatch.setattr(_stored_files, "BYTES_PER_BLOCK", 2**10)
    reports: list[tuple[int, int]] = []
    read_workload(EXAMPLES / log, on_progress=lambda done, size: reports.append((done, size)))
    assert len({size for _, size in reports}) == 1
    assert reports[-1][0] == reports[-1][1] > 0
    assert reports == sorted(reports)
    assert len(reports) > 3
