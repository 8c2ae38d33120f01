"""A worker under load: short tasks a second, what each of them costs, and how soon one begins.

    python benchmarks/worker_load.py
    git worktree add ../before COMMIT
    python benchmarks/worker_load.py --beside ../before  # its figure comes first in each row

A service and a worker of 8 cores, each a process of its own, run one job of many tasks of `true`.
Processor time is user and system time of the service, and of the worker with all its tasks. Then,
with nothing else to do, the time from a request to the first line of a command's output is taken:
once as a user submits, which starts a command, and once as a program posts the job. Machines are
uneven, so each round runs all trees in turn; medians over the rounds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import httpx
import psutil
import typer

HERE = Path(__file__).resolve().parents[1]
PATIENCE = 600.0  # seconds
IDLE_SECONDS = 1.0  # between jobs whose first line is waited for
FIRST_LINES = 5  # jobs in a round
SHOWN = {
    "tasks": "tasks a second",
    "serve": "processor time of the service, ms a task",
    "worker": "processor time of the worker and its tasks, ms a task",
    "submit": "from the submit command to the first line, ms",
    "post": "from the request to the first line, ms",
    "serve_mib": "memory of the service, MiB",
    "worker_mib": "memory of the worker, MiB",
}


def main(
    beside: Annotated[list[Path] | None, typer.Option(help="Other checkouts, built.")] = None,
    tasks: Annotated[int, typer.Option(help="Tasks of the job.")] = 2000,
    cpu: Annotated[int, typer.Option(help="Cores that the worker declares.")] = 8,
    rounds: Annotated[int, typer.Option(help="How often each tree is run.")] = 3,
) -> None:
    """Run the job under each tree in turn, and print the medians."""
    trees = [tree.resolve() for tree in (*(beside or ()), HERE)]
    found: dict[Path, list[dict[str, float]]] = {tree: [] for tree in trees}
    with TemporaryDirectory() as whole:  # ext4 makes files slowly for minutes after many went
        for k, tree in product(range(rounds), trees):
            folder = Path(whole) / f"{k}-{trees.index(tree)}"
            folder.mkdir()
            for each in (folder, folder.parent):
                each.chmod(0o755)  # a worker of root runs tasks under another account
            found[tree].append(measure(tree, folder, tasks, cpu))
    for name, shown in SHOWN.items():
        medians = (median(row[name] for row in found[tree]) for tree in trees)
        print(f"{shown}: {', '.join(f'{each:.3g}' for each in medians)}")


def measure(tree: Path, folder: Path, tasks: int, cpu: int) -> dict[str, float]:
    """Return the figures of one service and one worker, by the names in `SHOWN`."""
    socket, state = folder / "run" / "s", folder / "worker"
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "XDG_STATE_HOME": str(folder / "state"),
        "FAIRLEAD_SERVER": f"unix:{socket}",
    }
    size = ["--cpu", str(cpu), "--memory", "8", "--gpu", "0"]
    begun = [
        _begin(environment, folder, "serve", "--port", "0", "--socket", str(socket)),
        _begin(environment, folder, "worker", "--name", "a", "--state", str(state), *size),
    ]
    try:
        transport = httpx.HTTPTransport(uds=str(socket))
        with httpx.Client(transport=transport, base_url="http://localhost", timeout=60.0) as asked:
            _until(lambda: socket.exists() and asked.get("/v1/servers").json()["servers"])
            found = _load(asked, begun, tasks)
            posted, submitted = [], []
            for _ in range(FIRST_LINES):
                time.sleep(IDLE_SECONDS)
                began = time.time()
                posted.append(_first_line(state, _post(asked, ["date", "+%s.%N"], 1)) - began)
                time.sleep(IDLE_SECONDS)
                began = time.time()
                job = _submit(environment)
                submitted.append(_first_line(state, job) - began)
        found |= {"post": median(posted) * 1e3, "submit": median(submitted) * 1e3}
        for name, process in zip(("serve_mib", "worker_mib"), begun, strict=True):
            found[name] = psutil.Process(process.pid).memory_info().rss / 2**20
        return found
    finally:
        for process in begun:
            process.kill()
            process.wait()


def _load(
    asked: httpx.Client, begun: list[subprocess.Popen[bytes]], tasks: int
) -> dict[str, float]:
    """Run one job of many short tasks."""
    before, began = [_cpu(process) for process in begun], time.perf_counter()
    job = _post(asked, ["true"], tasks)
    _until(lambda: asked.get(f"/v1/jobs/{job}/wait?seconds=30").json()["state"] == "finished")
    seconds = time.perf_counter() - began
    serve, worker = (_cpu(process) - b for process, b in zip(begun, before, strict=True))
    return {
        "tasks": tasks / seconds,
        "serve": serve / tasks * 1e3,
        "worker": worker / tasks * 1e3,
    }


def _begin(environment: dict[str, str], folder: Path, *words: str) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "fairlead", *words],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _cpu(process: subprocess.Popen[bytes]) -> float:
    """Return the processor seconds of a process and of the children that it waited for."""
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _post(asked: httpx.Client, command: list[str], tasks: int) -> str:
    job = {"user": "ana", "command": command, "environment": {}, "directory": "/", "tasks": tasks}
    answer = asked.post("/v1/jobs", json={"jobs": [job]}).raise_for_status()
    return str(answer.json()["ids"][0])


def _submit(environment: dict[str, str]) -> str:
    words = ["submit", "--user", "ana", "--chdir", "/", "--", "date", "+%s.%N"]
    command = [sys.executable, "-m", "fairlead", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _first_line(state: Path, job: str) -> float:
    """Return what a job's only task wrote: when it ran."""
    return float(_until(lambda: _text(state / "attempts" / f"{job}.0.1" / "task" / "stdout")))


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _until(what: Any) -> Any:
    """Return what a function returns as soon as that is true."""
    latest = time.monotonic() + PATIENCE
    while time.monotonic() < latest:
        try:
            if found := what():
                return found
        except httpx.TransportError:
            pass
        time.sleep(0.02)
    raise TimeoutError("took too long")


if __name__ == "__main__":
    typer.run(main)
