"""A service and workers as processes, for tests."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from unittest import mock

from fairlead.cli.main import run
from fairlead.service.client import Client, NoServiceError, RefusedError
from fairlead.service.worker._attempts import read_record
from fairlead.service.worker.machine import state_of

PATIENCE = 60.0
PORTS = itertools.count(97 * os.getpid())  # processes of tests begin at different ports
NOBODY = 65534  # an account that is not root's


def until(what: Any, seconds: float = PATIENCE) -> Any:
    """Return what a function returns as soon as that is true."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(NoServiceError, RefusedError):
            if found := what():
                return found
        assert time.monotonic() < deadline, "took too long"
        time.sleep(0.02)


def as_ordinary_user() -> list[str]:
    """Return words before a command of root's that make it another account's.

    The interpreter may be below a home that only root enters, so reading stays possible.
    """
    account = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return ["setpriv", *account, *(f"--{k}-caps=+dac_read_search" for k in ("inh", "ambient"))]


def free_port() -> int:
    """Return a free port that the kernel gives to no connection, and other tests do not choose.

    A service binds its port a second later, and again after each restart.
    """
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", 10_000 + next(PORTS) % 20_000))
            return int(probe.getsockname()[1])


def end_tasks(attempts: Path) -> None:
    """End all that runs of the attempts in a folder, as when the machine goes down."""
    for folder in attempts.glob("*.*.*"):
        record = read_record(folder)
        if record is not None and record.leader is not None:
            number, began = record.leader
            state = state_of(number)
            if state is None or state.began == began:  # else another process has the number
                with contextlib.suppress(OSError):
                    os.killpg(number, signal.SIGKILL)


class Cluster:
    """`fairlead serve` and `fairlead worker` in a folder; each can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.serve: tuple[str, ...] = ()  # more options of the service
        self.url = f"http://127.0.0.1:{self.port}"  # for what asks without `Client`
        self.socket = folder / "run" / "s"
        self.address = f"unix:{self.socket}"
        self.db = folder / "journal.db"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.words: dict[str, list[str]] = {}
        self.accounts: list[str] = []
        self.before: list[str] = []  # words before those that start a worker
        self.service = ""  # a program in Python to start in place of `fairlead`
        if os.geteuid() == 0:
            accounts = folder / "accounts.json"
            accounts.write_text(json.dumps({"*": "nobody"}))
            self.accounts = ["--accounts", str(accounts)]
            folder.chmod(0o755)
        self.environment = {
            **os.environ,
            "XDG_STATE_HOME": str(folder / "state"),
            "FAIRLEAD_SERVER": self.address,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self.environment.pop("FAIRLEAD_TOKEN", None)

    def start_service(self) -> None:
        reached = ["--port", str(self.port), "--socket", str(self.socket)]
        words = ["serve", *reached, "--db", str(self.db), *self.serve]
        self._start("service", words)
        until(self.is_ready)

    def start_worker(self, name: str, *more: str, cpu: float = 2) -> None:
        state = ["--state", str(self.folder / f"worker-{name}")]
        size = ["--cpu", str(cpu), "--memory", "4", "--gpu", "0"]
        words = ["worker", "--name", name, *size, *state, *self.accounts, *more]
        self._start(name, words)

    def start_again(self, name: str) -> None:
        self._start(name, self.words[name])

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        process = self.processes.pop(name)
        process.send_signal(number)
        process.wait(PATIENCE)

    def is_ready(self) -> bool:
        asked = HTTPConnection("127.0.0.1", self.port)  # httpx would read certificates each time
        with contextlib.suppress(OSError, HTTPException), contextlib.closing(asked):
            asked.request("GET", "/readyz")
            return asked.getresponse().status == 200
        return False

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command as a user would, but in this process: starting one takes a second."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with (
            mock.patch.dict(os.environ, self.environment, clear=True),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            status = run(list(words))
        said = [text.buffer.getvalue().decode() for text in (out, err)]  # type: ignore[attr-defined]
        return subprocess.CompletedProcess(words, status, *said)

    def client(self) -> Client:
        return Client(self.address)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)
        for attempts in self.folder.glob("worker-*/attempts"):
            end_tasks(attempts)

    def _start(self, name: str, words: list[str]) -> None:
        self.words[name] = words
        program = ["-c", self.service] if name == "service" and self.service else ["-m", "fairlead"]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*([] if name == "service" else self.before), sys.executable, *program, *words],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
