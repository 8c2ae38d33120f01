"""The ended pods of a Kubernetes dump, read as a trace; its present, as a problem file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead import load
from fairlead.cli.main import run
from fairlead.formats import kubernetes_runs
from fairlead.traces.logs import kubernetes_pods
from fairlead.traces.readers import KUBERNETES, MachineOptions, read_workload
from faults import fault_of
from kubernetes_dumps import node, pod


def ended(
    name: str, requests: dict[str, str], created: str, started: str, ended: list[str], **more: Any
) -> dict[str, Any]:
    """A pod that ended; times are minutes and seconds of an hour."""
    made: dict[str, Any] = pod(name, requests, **more)
    made["metadata"]["creationTimestamp"] = f"2025-01-01T10:{created}Z"
    made["status"] = {
        "phase": "Succeeded",
        "startTime": f"2025-01-01T10:{started}Z",
        "containerStatuses": [
            {"state": {"terminated": {"finishedAt": f"2025-01-01T10:{end}Z"}}} for end in ended
        ],
    }
    return made


def write(path: Path, *items: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1))
    return path


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    zones = ({"zone": "a", "host": name} for name in ("n1", "n2"))
    nodes = [node("n1", labels=next(zones)), node("n2", labels=next(zones))]
    nodes.append(node("g1", {"cpu": "8", "memory": "8Gi"}, labels={"gpu": "yes"}))
    train, half = {"cpu": "2", "memory": "1Gi"}, {"cpu": "500m"}
    pods = [
        ended("a", train, "00:00", "00:10", ["05:00"], on="n2", namespace="research"),
        ended("b", half, "00:05", "01:00", ["02:00", "03:00"], on="g1", namespace="web"),
        ended("c", train, "00:20", "00:30", ["00:30"], on="gone", namespace="web"),
        ended("d", train, "00:30", "01:00", [], on="n1"),
        ended("e", {}, "00:30", "01:00", ["02:00"], on="n1"),
        pod("f", train, on="n1", namespace="research"),
    ]
    pods[1]["spec"]["nodeSelector"] = {"gpu": "yes"}
    pods[2]["metadata"]["labels"] = {"team": "x"}
    return write(tmp_path / "dump.json", *nodes, *pods)


NOTES = (
    kubernetes_runs.STILL_RUNS, kubernetes_runs.WITHOUT_REQUEST, kubernetes_runs.GONE_NODE,
    kubernetes_runs.NEVER_RAN,
)  # fmt: skip


def test_each_job_is_a_pod_that_ended(dump: Path) -> None:
    workload, found = read_workload(dump)
    assert found == KUBERNETES
    assert workload.cluster.resources == ("cpu", "memory")
    assert workload.cluster.groups == ("n1..n2", "g1")
    assert [dict(labels) for labels in workload.cluster.labels] == [{"zone": "a"}, {"gpu": "yes"}]
    assert workload.job_names.tolist() == ["research/a", "web/b", "web/c"]
    assert workload.users == ("research", "web")
    assert workload.job_submit.tolist() == [0, 5, 20]
    assert workload.task_start.tolist() == [10, 60, 30]
    assert workload.task_duration.tolist() == [290, 120, kubernetes_pods.HALF_SECOND]
    assert workload.shapes[workload.set_shape].tolist() == [[2, 1], [0.5, 0], [2, 1]]
    assert workload.cluster.count.tolist() == [2, 1]
    assert workload.task_server.tolist() == [1, 2, -1]
    places = workload.places[workload.set_place].tolist()
    assert places == [[True, True], [False, True], [True, True]]
    assert workload.notes == dict.fromkeys(NOTES, 1)
    labelled = read_workload(dump, MachineOptions(user_from="label:team"))[0]
    assert labelled.users == ("namespace:research", "namespace:web", "x")


GPU = "nvidia.com/gpu"


def with_parts(tmp_path: Path, *annotations: dict[str, str]) -> Path:
    """A node of two GPUs, a whole one taken, and pods with parts."""
    times = "00:00", "00:10", ["05:00"]
    pods = [ended("whole", {"cpu": "1", GPU: "1"}, *times, on="n1")]
    for k, each in enumerate(annotations):
        pods.append(ended(f"p{k}", {"cpu": "1"}, *times, on="n1"))
        pods[-1]["metadata"]["annotations"] = each
    holder = {"namespace": "kai-resource-reservation", "on": "n1"}
    pods.append(ended("holder", {GPU: "1"}, *times, **holder))
    return write(tmp_path / "dump.json", node("n1", {"cpu": "8", GPU: "2"}), *pods)


def test_pods_share_a_gpu_by_annotation(tmp_path: Path) -> None:
    memory, both = {"gpu-memory": "2000"}, {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}
    path = with_parts(tmp_path, {"gpu-fraction": "0.25"}, {"gpu-fraction": "0.6"}, memory, both)
    workload = read_workload(path)[0]
    assert workload.cluster.devices == (GPU,)
    assert workload.job_names.tolist() == ["shop/whole", *(f"shop/p{k}" for k in range(4))]
    taken = workload.shapes[workload.set_shape][:, workload.cluster.resources.index(GPU)]
    assert taken.tolist() == [1, 0.25, 0.6, 0, 0]
    assert workload.notes[kubernetes_runs.GPU_HOLDER] == 1
    assert workload.notes[kubernetes_runs.OTHER_PARTS] == 2


def test_a_dump_without_ended_pods_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "dump.json", node("n1"), pod("f", {"cpu": "1"}, on="n1"))
    assert "holds no pod that ended" in fault_of(read_workload, path)
    path = write(tmp_path / "pods.json", pod("f", {"cpu": "1"}))
    assert "holds no nodes" in fault_of(read_workload, path)


NO_TIME = [{"state": {"terminated": {"finishedAt": "x"}}}]
NO_ZONE = [{"state": {"terminated": {"finishedAt": "2025-01-01T10:01:00"}}}]


@pytest.mark.parametrize("statuses", [5, {"a": 1}, NO_TIME, NO_ZONE])
def test_malformed_statuses_name_their_place(tmp_path: Path, statuses: object) -> None:
    made = ended("a", {"cpu": "1"}, "00:00", "00:10", ["01:00"], on="n1")
    made["status"]["containerStatuses"] = statuses
    path = write(tmp_path / "dump.json", node("n1"), made)
    fault = (
        "is not a time" if statuses in (NO_TIME, NO_ZONE) else "containerStatuses: must be a list"
    )
    assert fault in fault_of(read_workload, path)


def test_the_present_becomes_a_problem_file(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A group has the common labels of its nodes, not the host name of one."""
    out = tmp_path / "cluster.yaml"
    assert run(["trace", "convert", str(dump), "-o", str(out)]) == 0
    assert "1 user, 3 servers in 2 groups" in capsys.readouterr().out
    problem = load(out)
    assert problem.users.names == ("research",)
    assert (problem.cluster.groups, problem.count.tolist()) == (("n1..n2", "g1"), [2, 1])
    assert [dict(row) for row in problem.cluster.labels] == [{"zone": "a"}, {"gpu": "yes"}]
    assert problem.task_limit.tolist() == [1.0]
    trace = tmp_path / "pods.parquet"
    assert run(["trace", "convert", str(dump), "-o", str(trace)]) == 0
    assert read_workload(trace)[0].n_jobs == 3
