"""Workers with real processes, in this one, for tests."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fairlead.service.engines.protocol import JobSpec, Start
from fairlead.service.worker.accounts import Accounts
from fairlead.service.worker.worker import Declaration, LocalProcesses


def a_job(*command: str, **more: object) -> JobSpec:
    spec = {"user": "ana", "command": command, "environment": {}, "directory": "/tmp"}
    return JobSpec.model_validate(spec | more)


def worker_in(state: Path, **more: float) -> LocalProcesses:
    """Return a worker whose tasks run under its own account."""
    server, accounts = Declaration("a", 4.0, 4.0, (0, 1, 2)), Accounts({}, is_root=False)
    return LocalProcesses(server, state, accounts, **more)


def run(worker: LocalProcesses, *tasks: Start) -> None:
    """Start tasks together."""
    asyncio.run(worker.start(tasks))


def full(*_: object, **__: object) -> None:
    """Stand in for a call that finds the disk full."""
    raise OSError(28, "No space left on device")
