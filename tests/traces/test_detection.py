"""Each format is recognised by its content, whatever the name of the file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fairlead.traces import readers
from fairlead.traces.readers import READERS, detect_format

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
    readers.SWF: "; MaxProcs: 8\n" + " ".join(["1"] * 18) + "\n",
}


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_is_known_by_its_first_line(tmp_path: Path, name: str, compressed: bool) -> None:
    path = tmp_path / "log"
    content = FILES[name].encode()
    path.write_bytes(gzip.compress(content) if compressed else content)
    assert detect_format(path) == name


def test_a_dump_in_yaml_is_known(tmp_path: Path) -> None:
    path = tmp_path / "dump.yaml"
    path.write_text("apiVersion: v1\nkind: List\nitems: []\n")
    assert detect_format(path) == readers.KUBERNETES


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["pai_job_table.csv", "pai_task_table.csv"], readers.PAI),
        (["openb_pod_list.csv", "pai_job_table.tar.gz"], readers.PAI),
        (["instance_events-000000000000.json.gz"], readers.GOOGLE_2019),
        (["machine_events/machine_events-000000000000.json"], readers.GOOGLE_2019),
        (["task_events/part-00000-of-00500.csv.gz"], readers.GOOGLE),
        (["machine_events/part-00000-of-00001.csv.gz"], readers.GOOGLE),
        (["openb_pod_list.csv"], readers.OPENB),
        (["cluster_job_log", "cluster_machine_list"], readers.PHILLY),
        (["cluster_log.csv"], readers.HELIOS),
    ],
)
def test_a_folder_is_known_by_its_files(tmp_path: Path, files: list[str], name: str) -> None:
    for file in files:
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert detect_format(tmp_path) == name


def test_all_formats_can_be_read() -> None:
    from importlib import import_module

    for reader in READERS.values():
        assert callable(getattr(import_module(f"fairlead.traces.{reader.module}"), reader.function))
