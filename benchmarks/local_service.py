"""Shared by benchmarks of the running system: processes of their own, and what they cost."""

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
    """The time that a command took, in seconds."""

    cpu: float
    wall: float


class LocalService:
    """A service and a worker of one server, each a process of its own.

    Parameters
    ----------
    stack : ExitStack
        Stops both at its end.
    program : list of str
        The words that run `fairlead`.
    folder : Path
        Where the service and the worker keep everything.
    cpu : int
        Cores that the worker declares.
    environment : mapping
        The variables of all commands, with this service in the place of others.
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
        # An installation keeps what Python compiles; else each command would compile its sources.
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
        """Submit a job by a request, and return its number."""
        job = {"user": "ana", "command": command, "environment": {}, "directory": "/"}
        sent = {"jobs": [job | {"tasks": tasks}]}
        answer = self.client.post("/v1/jobs", json=sent).raise_for_status()
        return str(answer.json()["ids"][0])

    def wait(self, job: str) -> None:
        """Wait until a job has finished."""
        asked = f"/v1/jobs/{job}/wait?seconds=30"
        until(lambda: self.client.get(asked).json()["state"] == "finished")

    def output(self, *words: str) -> str:
        """Return what a command prints."""
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
    """Start a process that the stack stops, and that writes to `log` in a folder.

    It has a session of its own, so an interrupt of the terminal ends only the benchmark, which
    stops it then.
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
    """Stop a process with all that it started."""
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
    """Kill the processes left at the end: a signal may come before the stack has a new one."""
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
    """Run a command that ends with one of some statuses, and return its time."""
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
    """Return the processor seconds of a process and of the children that it waited for."""
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def mebibytes(process: subprocess.Popen[bytes]) -> float:
    """Return the resident memory of a process."""
    return float(psutil.Process(process.pid).memory_info().rss) / 2**20


def until(found: Callable[[], T], pause: float = 0.02) -> T:
    """Return a function's answer as soon as it is true; a service may not yet answer."""
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
    """Return a function's answer as soon as it is true; raise with the log if a process ends."""

    def checked() -> T:
        if process.poll() is not None:
            raise RuntimeError((folder / "log").read_text())
        return found()

    return until(checked)
