"""Attempts and workers with real processes, for tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from fairlead.service.engines.protocol import EngineNode, JobSpec, Key, Start
from fairlead.service.worker._attempts import Attempt, AttemptEnd, Record
from fairlead.service.worker.accounts import Account, Accounts
from fairlead.service.worker.worker import LocalProcesses
from live_cluster import until

KEY = (7, 0, 1)
PATH = os.environ.get("PATH", "/usr/bin:/bin")
IS_ROOT = os.geteuid() == 0
SERVER = EngineNode("a", {"cpu": 4.0, "memory": 4.0, "gpu": 3}, {})


def made(root: Path, **more: object) -> Attempt:
    """Return an attempt that has not started; `more` are fields of its record."""
    return Attempt.make(root, Record.model_validate({"key": KEY} | more))


def started(
    root: Path,
    *command: str,
    directory: str = "/tmp",
    account: Account | None = None,
    environment: Mapping[str, str] | None = None,
    **more: object,
) -> Attempt:
    """Return an attempt that runs a command; `more` are fields of its record."""
    attempt = Attempt.make(root, Record.model_validate({"key": KEY} | more), account)
    attempt.start(command, directory, {"PATH": PATH} | dict(environment or {}), account)
    return attempt


def shell(root: Path, line: str, **more: object) -> Attempt:
    return started(root, "/bin/sh", "-c", line, **more)  # type: ignore[arg-type]


def sleeping(root: Path, **more: object) -> Attempt:
    """Return an attempt whose command runs."""
    attempt = started(root, "sleep", "300", **more)  # type: ignore[arg-type]

    def names() -> list[str]:
        found = []
        for process in attempt.processes():
            with suppress(psutil.Error):
                found.append(process.name())
        return found

    until(lambda: "sleep" in names())
    return attempt


def ended(attempt: Attempt) -> AttemptEnd:
    """Wait for the end of an attempt."""
    found: AttemptEnd = until(attempt.poll, 20.0)
    return found


def text(attempt: Attempt, stream: str = "stdout") -> str:
    file = attempt.output(stream)
    assert file is not None
    with file:
        return file.read().decode()


def printed(attempt: Attempt, word: str = "\n") -> str:
    """Wait until an attempt has printed a word; return its output."""
    return str(until(lambda: (found := text(attempt)) and word in found and found))


def found_again(attempt: Attempt) -> Attempt:
    """Return the attempt as a restarted worker finds it."""
    again = Attempt.from_folder(attempt.path)
    assert again is not None
    return again


def runs(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def worker_in(state: Path, **more: float) -> LocalProcesses:
    """Return a worker whose tasks run under its own account."""
    return LocalProcesses(SERVER, state, Accounts({}, is_root=False), **more)


def task(
    *command: str, key: Key = KEY, gpu: float = 0, devices: tuple[int, ...] = (), **more: object
) -> Start:
    """Return an order to start a command; `more` are fields of its job."""
    spec = {"user": "ana", "command": command, "environment": {}, "directory": "/tmp"}
    job = JobSpec.model_validate(spec | more)
    return Start(key, "a", {"cpu": 1.0, "gpu": gpu}, None, job, devices)


def run(worker: LocalProcesses, *tasks: Start) -> Attempt:
    """Start tasks together; return the attempt of the last one."""
    asyncio.run(worker.start(tasks))
    return worker._attempts[tasks[-1].key]


def full(*_: object, **__: object) -> None:
    """Stand in for a call that finds the disk full."""
    raise OSError(28, "No space left on device")
