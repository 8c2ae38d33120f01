"""Attempts with real processes, for tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from fairlead.service.worker._attempts import Attempt, AttemptEnd, Record
from fairlead.service.worker.accounts import Account
from live_cluster import until

KEY = (7, 0, 1)
PATH = os.environ.get("PATH", "/usr/bin:/bin")
IS_ROOT = os.geteuid() == 0


def started(
    root: Path,
    *command: str,
    key: tuple[int, int, int] = KEY,
    time_limit: float | None = None,
    memory: float = 0.0,
    account: Account | None = None,
    environment: Mapping[str, str] | None = None,
) -> Attempt:
    record = Record(key=key, time_limit=time_limit, memory=memory)
    attempt = Attempt.make(root, record, account)
    attempt.start(command, "/tmp", {"PATH": PATH} | dict(environment or {}), account)
    return attempt


def shell(root: Path, line: str, **more: object) -> Attempt:
    return started(root, "/bin/sh", "-c", line, **more)  # type: ignore[arg-type]


def ended(attempt: Attempt, seconds: float = 20.0) -> AttemptEnd:
    found: AttemptEnd = until(attempt.poll, seconds)
    return found


def text(attempt: Attempt, stream: str = "stdout") -> str:
    file = attempt.output(stream)
    assert file is not None
    with file:
        return file.read().decode()


def found_again(attempt: Attempt) -> Attempt:
    """Return the attempt as another worker finds it; this one looks no more."""
    again = Attempt.from_folder(attempt.path)
    assert again is not None
    return again


def runs(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def sleeping(root: Path, **more: object) -> Attempt:
    """Return an attempt whose command runs."""
    attempt = started(root, "sleep", "300", **more)  # type: ignore[arg-type]
    until(lambda: "sleep" in names(attempt))
    return attempt


def names(attempt: Attempt) -> list[str]:
    found = []
    for process in attempt.processes():
        with suppress(psutil.Error):
            found.append(process.name())
    return found


def nest(folder: Path, depth: int) -> None:
    """Make folders in folders, with a file in each."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 20, dir_fd=at)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=at))
        below = os.open("d" * 20, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
