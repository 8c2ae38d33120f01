"""Problems, a trace, and readers of output, that the tests of the command line share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from fairlead.cli.main import run
from fairlead.model.cluster import Cluster
from fairlead.model.workload import Workload

ROOT = Path(__file__).resolve().parents[1]

SMALL = """\
fairlead: 1
resources: {cpu: cores, memory: GB}
servers:
  - {name: high-memory, capacity: {cpu: 2, memory: 12}}
  - {name: high-cpu, capacity: {cpu: 12, memory: 2}}
users:
  - {name: ana, demand: {cpu: 0.2, memory: 1}}
  - {name: bo, demand: {cpu: 1, memory: 0.2}}
"""

CONSTRAINED = SMALL.replace("memory: 0.2}}", "memory: 0.2}, servers: [high-cpu]}")


def workload() -> Workload:
    """Two users on two kinds of servers; each job of ana has one task that fits no server."""
    return Workload.from_arrays(
        Cluster(
            groups=("high-memory", "high-cpu"),
            resources=("cpu", "memory"),
            capacity=np.array([[2.0, 12.0], [12.0, 2.0]]),
            count=np.array([2, 2]),
            units=("cores", "GiB"),
            labels=({}, {}),
        ),
        ["ana", "bo"],
        job_names=["a", "b", "giant", "late"],
        job_user=[0, 1, 0, 1],
        job_submit=[0, 60, 60, 7200],
        set_job=[0, 1, 2, 2, 3],
        set_tasks=[30, 30, 2, 1, 5],
        shapes=[[0.2, 1.0], [1.0, 0.2], [3.0, 3.0], [1.0, 1.0], [1.0, 1.0]],
        task_duration=np.arange(68) % 7 * 10 + 30,
    )


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def answer_of(
    words: list[str], capsys: pytest.CaptureFixture[str], status: int = 0, *, is_quiet: bool = True
) -> dict[str, Any]:
    """Run a verb with ``--json``, check its exit status, and return its answer."""
    assert run([*words, "--json"]) == status
    out, err = capsys.readouterr()
    assert err == "" or not is_quiet
    answer = json.loads(out, parse_constant=_refuse)
    assert isinstance(answer, dict)
    return answer


def install(folder: Path, name: str, entry_points: str) -> None:
    """Write the files that an installer writes for a package with entry points."""
    metadata = folder / f"{name}-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(entry_points)


def only_line(captured: pytest.CaptureFixture[str]) -> str:
    """Return standard error; check that it is one message, and that nothing else was printed."""
    out, err = captured.readouterr()
    assert out == ""
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert err.startswith("fairlead: ")
    return err
