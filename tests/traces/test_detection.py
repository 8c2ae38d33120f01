"""Each format is recognised by its content, whatever the name of the file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hand_written_logs import log_row
from random_workloads import random_workload

from fairlead.traces import readers
from fairlead.traces.parquet_trace import write_parquet
from fairlead.traces.readers import detect_format
from faults import fault_of, fault_within

GAVEL_ROW = "Net (batch size 16)\trun -b 16\tnets\t--steps\t1\t900\t1\t1\t-1.0\t50\n"
DLRM_HEADING = (
    "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,"
    "memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,"
    "scheduled_time,deletion_time\n"
)
FIT_HEADING = (
    "id\tsubmit\twait\truntime\tcpus\tcputimeused\tusedmem\tcpusreq\twalltime\tmemreq\tstatus\tuser\t"
    "group\tapplication\tqueue\tpartition\tprecjob\tthinktime\tDAG_name\tTask_ID\n"
)
FILES = {
    readers.BATSIM: json.dumps({"nb_res": 4, "jobs": [], "profiles": {}}, indent=1),
    readers.KUBERNETES: json.dumps({"apiVersion": "v1", "kind": "List", "items": []}, indent=1),
    readers.GAVEL: GAVEL_ROW,
    readers.DLRM: DLRM_HEADING,
    readers.PHILLY: '[{"status": "Pass", "vc": "v", "jobid": "a", "attempts": []}]',
    readers.HELIOS: "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time\n",
    readers.FIT_WORKFLOWS: FIT_HEADING,
    readers.SLURM: "JobID|User|State\n",
    readers.METACENTRUM: f"; comment\n{log_row(1)}\n",
    readers.SWF: "\n" + " ".join(["1"] * 18) + "\n",
}


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_is_known_by_its_first_line(tmp_path: Path, name: str, compressed: bool) -> None:
    path = tmp_path / "log"
    content = FILES[name].encode()
    path.write_bytes(gzip.compress(content) if compressed else content)
    assert detect_format(path) == name


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("apiVersion: v1\nkind: List\nitems: []\n", readers.KUBERNETES),
        ('{"task": "jobs"}', readers.KUBERNETES),
        ('{"date": "x", "profiles": {}}', readers.BATSIM),
        ('[{"jobid": "a1", "attempts": []}', readers.PHILLY),  # its fault is found when it is read
        ("; MaxProcs: 8\n1 2 3\n", readers.SWF),  # the comment tells, so a fault has its row
    ],
)
def test_other_ways_to_begin_a_file(tmp_path: Path, content: str, name: str) -> None:
    path = tmp_path / "log"
    path.write_text(content)
    assert detect_format(path) == name


def gavel_row(column: int, value: str) -> str:
    fields = GAVEL_ROW.split("\t")
    fields[column] = value
    return "\t".join(fields)


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
                gavel_row(9, "soon"),
                gavel_row(9, "nan"),
                gavel_row(4, "yes"),
                "\t".join(GAVEL_ROW.split("\t")[3:]),
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


def test_own_traces(tmp_path: Path) -> None:
    write_parquet(random_workload(1), tmp_path / "named.csv")
    assert detect_format(tmp_path / "named.csv") == readers.PARQUET


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["pai_job_table.csv", "pai_task_table.csv"], readers.PAI),
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
