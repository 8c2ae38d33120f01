"""Helpers of benchmarks: start and stop a service and a worker, and measure processes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import httpx
import psutil

T = TypeVar("T")
PATIENCE = 600.0  # seconds
SECONDS_TO_STOP = 30.0


class Took(NamedTuple):
    """The seconds of a command."""

    cpu: float
    wall: float


class LocalService:
    """A service and one worker, each a separate process.

    Parameters
    ----------
    stack : ExitStack
        Stops both at its end.
    program : list of str
        The command that runs `fairlead`.
    folder : Path
        Holds all files of the service and the worker.
    cpu : int
        Cores that the worker declares.
    environment : mapping
        Environment of all commands, to which the address of this service is added.
    """

    def __init__(
        self,
        stack: ExitStack,
        program: list[str],
        folder: Path,
        cpu: int,
        environment: Mapping[str, str],
    ) -> None:
        self.program, self.folder = program, folder
        folder.chmod(0o755)  # a worker of root runs tasks under another account
        socket, self.state = folder / "run" / "s", folder / "worker"
        self.environment = {
            **environment,
            "XDG_STATE_HOME": str(folder / "state"),
            "FAIRLEAD_SERVER": f"unix:{socket}",
        }
        self.environment.pop("FAIRLEAD_TOKEN", None)
        # With it each command would compile its sources, which an installation does once.
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        serve = ["serve", "--port", "0", "--socket", str(socket)]
        size = ["--cpu", str(cpu), "--memory", "8", "--gpu", "0"]
        worker = ["worker", "--name", "a", "--state", str(self.state), *size]
        self.serve, self.worker = (
            begin(stack, [*program, *words], folder, self.environment) for words in (serve, worker)
        )
        transport = httpx.HTTPTransport(uds=str(socket))
        self.client = stack.enter_context(
            httpx.Client(transport=transport, base_url="http://localhost", timeout=60.0)
        )
        until_ready(
            self.worker,
            folder,
            lambda: socket.exists() and self.client.get("/v1/servers").json()["servers"],
        )

    def post(self, command: list[str], tasks: int = 1) -> str:
        """Submit a job by a request, and return its id."""
        job = {"user": "ana", "command": command, "environment": {}, "directory": "/"}
        sent = {"jobs": [job | {"tasks": tasks}]}
        answer = self.client.post("/v1/jobs", json=sent).raise_for_status()
        return str(answer.json()["ids"][0])

    def wait(self, job: str) -> None:
        """Wait until a job has finished."""
        asked = f"/v1/jobs/{job}/wait?seconds=30"
        until(lambda: self.client.get(asked).json()["state"] == "finished")

    def output(self, *words: str) -> str:
        """Run a command, and return its output."""
        return subprocess.run(
            [*self.program, *words],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.strip()


def begin(
    stack: ExitStack, words: list[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a process that the stack stops; its output goes to `log` in the folder.

    It has its own session, so an interrupt from the terminal reaches only the benchmark, which then
    stops the process.
    """
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            words,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    stack.callback(stop, process)
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a process and its descendants."""
    if process.poll() is not None:
        return
    children = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(SECONDS_TO_STOP)
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    process.kill()
    process.wait()


@contextmanager
def nothing_left() -> Iterator[None]:
    """Kill processes left at the end: a signal may come before the stack knows a new one."""
    try:
        yield
    finally:
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()


def time_command(
    words: list[str],
    folder: Path,
    environment: Mapping[str, str],
    statuses: tuple[int, ...] = (0,),
) -> Took:
    """Run a command, check its exit status, and return its time."""
    began = time.perf_counter()
    process = subprocess.Popen(
        words,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in statuses, words
    return Took(used.ru_utime + used.ru_stime, wall)


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the processor seconds of a process and of its ended children."""
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def mebibytes(process: subprocess.Popen[bytes]) -> float:
    """Return the resident memory of a process, in MiB."""
    return float(psutil.Process(process.pid).memory_info().rss) / 2**20


def until(found: Callable[[], T], pause: float = 0.02) -> T:
    """Call a function until its answer is true, and return it; ignore failed connections.

    Raises TimeoutError after `PATIENCE` seconds.
    """
    latest = time.monotonic() + PATIENCE
    while time.monotonic() < latest:
        try:
            if answer := found():
                return answer
        except httpx.TransportError:
            pass
        time.sleep(pause)
    raise TimeoutError("took too long")


def until_ready(process: subprocess.Popen[bytes], folder: Path, found: Callable[[], T]) -> T:
    """Call a function until its answer is true; raise RuntimeError if the process ends before."""

    def checked() -> T:
        if process.poll() is not None:
            raise RuntimeError((folder / "log").read_text())
        return found()

    return until(checked)
