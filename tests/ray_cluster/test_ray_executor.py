"""Work spread over a Ray cluster: the same answers, whatever happens to nodes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from conftest import STORE
from fairlead.cli._application import run_command
from fairlead.cli.options import executor_on
from fairlead.errors import InputError, RefusalError
from fairlead.executors import ray_tasks
from fairlead.executors.executor import WorkerDiedError
from fairlead.executors.ray_tasks import RayExecutor, ray_executor

ROOT = Path(__file__).parents[2]
PAPER, LOG = (
    str(ROOT / "examples" / name) for name in ("papers/psdsf-figure-1.yaml", "logs/lab.swf")
)


@pytest.fixture(scope="module")
def executor(cluster: Cluster) -> RayExecutor:
    with ray_executor(cluster.address) as made:
        return made


@pytest.mark.parametrize(
    "command",
    [
        ["simulate", LOG, "--policy", "drf/best-fit", "--policy", "fifo/best-fit", "--seeds", "2"],
        ["audit", "--random", "5", "-m", "tsf", "--lies", "3"],
        ["reproduce", "dynamic/algorithm-1", "--set", "sequences=5"],
    ],
    ids=lambda command: command[0],
)
def test_the_answer_is_the_same_to_the_last_bit(
    cluster: Cluster, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    alone = run_command([*command, "--json"]), capsys.readouterr().out
    spread = run_command([*command, "--ray", cluster.address, "--json"]), capsys.readouterr().out
    assert spread == alone
    assert json.loads(spread[1])


def test_jobs_run_on_all_nodes_and_report(executor: RayExecutor) -> None:
    def work(job: int, report: Callable[..., None]) -> tuple[int, str]:
        report("begun", job)
        time.sleep(1.2 * ray_tasks.SECONDS_BETWEEN_REPORTS)
        report("nearly over", job)
        return job**2, ray.get_runtime_context().get_node_id()

    found: dict[int, tuple[int, str]] = {}
    heard: set[tuple[int, str, int]] = set()
    executor.do_all(work, range(4), found.__setitem__, lambda *report: heard.add(report))
    assert {number: square for number, (square, _) in found.items()} == {k: k**2 for k in range(4)}
    assert len({node for _, node in found.values()}) == 2
    assert {(k, "nearly over", k) for k in range(4)} <= heard


def test_a_lost_node_costs_time_only(
    cluster: Cluster, executor: RayExecutor, tmp_path: Path
) -> None:
    """What it was doing is done again, and what was done elsewhere is not."""
    lost = cluster.add_node(num_cpus=2, object_store_memory=STORE, node_name="lost")
    doomed = lost.node_id

    def work(job: int) -> int:
        here = ray.get_runtime_context().get_node_id()
        (tmp_path / f"{job}-{here}-{os.getpid()}").touch()
        while here == doomed or not list(tmp_path.glob(f"*-{doomed}-*")):
            time.sleep(0.05)
        return -job

    found: dict[int, int] = {}
    runs_there: set[int] = set()

    def finish(number: int, answer: int) -> None:
        assert number not in found
        found[number] = answer
        if not runs_there:
            begun = {int(path.name.split("-")[0]) for path in tmp_path.glob(f"*-{doomed}-*")}
            runs_there.update(begun - found.keys())
            if runs_there:
                cluster.remove_node(lost, allow_graceful=False)

    executor.do_all(work, range(12), finish)
    assert found == {k: -k for k in range(12)}
    begun = [int(path.name.split("-")[0]) for path in tmp_path.iterdir()]
    assert runs_there
    assert all(begun.count(job) == 2 for job in runs_there)


def test_a_job_that_kills_its_workers_is_reported_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(job: int) -> int:
        if job == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return job

    monkeypatch.setattr(ray_tasks, "MOST_DEATHS", 2)
    said = r"ended without an answer \(2 times"
    with (
        pytest.raises(WorkerDiedError, match=said) as caught,
        executor_on(cluster.address) as executor,
    ):
        executor.do_all(work, range(4), lambda *_: None)
    assert caught.value.number == 2


def refuse(_: int) -> None:
    raise RefusalError("drf", "not this")


def test_errors_of_jobs_arrive(executor: RayExecutor) -> None:
    with pytest.raises(RefusalError, match=r"^drf: not this$"):
        executor.do_all(refuse, [1], lambda *_: None)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        executor.do_all(lambda job: 1 / job, [1, 0], lambda *_: None)


def test_an_interruption_leaves_nothing_running(executor: RayExecutor) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        executor.do_all(time.sleep, [0, *[600] * 20], interrupt)
    began = time.monotonic()
    found: list[tuple[int, int]] = []
    executor.do_all(abs, [-1] * 4, lambda *answer: found.append(answer))
    assert len(found) == 4
    assert time.monotonic() - began < 60


def test_other_sources_are_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = ray_tasks.installed_version()
    other = ("0.0", "0123456789abcdef", "3.10.1")
    monkeypatch.setattr(ray_tasks, "installed_version", lambda: other)
    here = "fairlead 0.0 (sources 01234567) with Python 3.10.1"
    said = re.escape(f"has {ray_tasks.format_version(theirs)}; here is {here}")
    with pytest.raises(InputError, match=said), ray_executor(cluster.address) as executor:
        executor.do_all(abs, [-1], lambda *_: None)


def test_ray_started_for_one_command_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["fill", PAPER, "--select", "rrr", "--trials", "5", "--json"]
    spread = subprocess.run(
        [sys.executable, "-m", "fairlead", *command, "--ray"],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert (spread.returncode, spread.stderr) == (0, "")
    assert run_command(command) == 0
    assert spread.stdout == capsys.readouterr().out


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", "127.0.0.1:1: --ray: no Ray cluster is there: connection refused"),
        ("nowhere:", "--ray: must be HOST:PORT, auto or local, not 'nowhere:'"),
    ],
)
def test_a_cluster_that_is_not_there_is_one_line(
    address: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    assert run_command(["fill", PAPER, "--ray", address]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"fairlead: {said}")


def test_a_node_without_fairlead_is_refused() -> None:
    script = "import pickle, sys; sys.modules['fairlead'] = None; data = sys.stdin.buffer.read(); "
    script += "print(pickle.loads(data)(None, None, 0, None)[0])"
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=ray.cloudpickle.dumps(ray_tasks._node_function()),
        capture_output=True,
        check=False,
        timeout=180,
    )
    said = rb"node [\d.]+, with Python [\d.]+, has no fairlead that can run jobs of Ray\n"
    assert re.fullmatch(said, done.stdout), done.stderr
