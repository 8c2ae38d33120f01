"""Processes of this machine as an engine: each task is a command, in a process group of its own."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import errno
import fcntl
import logging
import os
import secrets
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep, time
from typing import Any

from fairlead.engines.orders import JobSpec
from fairlead.engines.protocol import Ending, EngineNode, Key, Start
from fairlead.errors import InputError
from fairlead.worker.accounts import Account, Accounts, can_enter, make_home
from fairlead.worker.attempts import CANNOT_START, Attempt
from fairlead.worker.files import first_kept, replace, unsafe_parent

LOG = logging.getLogger("fairlead.worker")
GIB = 2**30
LOOK_SECONDS = 0.1
MEMORY_SECONDS = 1.0
CLEAN_SECONDS = 60.0
PAUSE = 5.0  # where no task can be started
PIECE = 2**18  # bytes of output at once
LARGEST_OUTPUT = 64 * 2**20
OUTPUT_AGE = 7 * 86400.0
KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
SECRETS = ("FAIRLEAD_TOKEN", "FAIRLEAD_TOKEN_FILE")  # of the worker; no task gets them
STREAMS = ("stdout", "stderr")


@dataclass(frozen=True)
class Declaration:
    """What a worker says of its machine."""

    name: str
    cpu: float
    memory: float
    devices: tuple[int, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


class LocalProcesses:
    """Runs tasks on this machine; see `fairlead.engines.protocol.TaskEngine`.

    Parameters
    ----------
    server : Declaration
    state : Path
        A folder of its own, kept over restarts.
    accounts : Accounts
    largest_output, output_age : float
        Bytes of a stream, and seconds, for which output is kept.

    Raises
    ------
    InputError
        When another worker has the folder, or it cannot be written.
    """

    def __init__(
        self,
        server: Declaration,
        state: Path,
        accounts: Accounts,
        largest_output: float = LARGEST_OUTPUT,
        output_age: float = OUTPUT_AGE,
    ) -> None:
        self.server, self.accounts = server, accounts
        self.largest_output, self.output_age = int(largest_output), output_age
        self._root, self._homes = state / "attempts", state / "homes"
        try:
            _make_folder(state)
            if accounts.is_root and (above := unsafe_parent(state)) is not None:
                raise InputError(f"another account can replace it, in {above}", "", str(state))
            _make_folder(self._root)
            self._lock = os.open(state / "lock", os.O_CREAT | os.O_RDWR, 0o600)
            os.fchmod(self._lock, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.identity = _identity(state / "identity")
        except BlockingIOError:
            raise InputError("another worker uses this folder", "", str(state)) from None
        except OSError as fault:
            raise InputError(fault.strerror or str(fault), "", str(state)) from None
        if accounts.shared is not None:
            _make_homes(self._homes, accounts.shared)
        self.news = asyncio.Event()
        self._attempts: dict[Key, Attempt] = {}
        for path in sorted(self._root.iterdir()):
            if path.name.startswith("."):
                shutil.rmtree(path, ignore_errors=True)
            elif (attempt := Attempt.found(path)) is not None:
                self._attempts[attempt.key] = attempt
        LOG.info("%d attempts from before", len(self._attempts))

    def nodes(self) -> Sequence[EngineNode]:
        """Return this machine."""
        server = self.server
        amounts = {"cpu": server.cpu, "memory": server.memory, "gpu": len(server.devices)}
        return [EngineNode(server.name, amounts, server.labels)]

    async def start(self, task: Start) -> None:
        """Run a task's command, unless it was run under this attempt before."""
        before, job = self._attempts.get(task.key), task.job
        if before is not None and job is not None and before.submitted != job.submitted:
            await asyncio.to_thread(before.drop)  # it is of another journal, or of a later one
            del self._attempts[task.key]
        if task.key not in self._attempts:
            await asyncio.to_thread(self._start, task)
            if self._attempts[task.key].outcome is not None:  # it could not start
                self.news.set()

    def stop(self, key: Key, why: str) -> None:
        """End a task's processes."""
        if key in self._attempts:
            self._attempts[key].stop(why)

    def keep_only(self, keys: Collection[Key]) -> None:
        """End all other tasks."""
        for key, attempt in self._attempts.items():
            if key not in keys and attempt.look() is None:
                attempt.stop("the service gave it up")
            if key not in keys and attempt.outcome is not None and not attempt.is_reported:
                attempt.note_reported()

    def endings(self) -> Sequence[Ending]:
        """Return how attempts ended that nobody has heard."""
        over = [a for a in self._attempts.values() if a.outcome and not a.is_reported]
        return [Ending(a.key, a.outcome.status, a.outcome.reason) for a in over if a.outcome]

    def forget(self, endings: Sequence[Ending]) -> None:
        """Note that endings were heard."""
        for ending in endings:
            attempt = self._attempts.get(ending.key)
            if attempt is not None and attempt.outcome is not None:  # else another one came since
                attempt.note_reported()

    async def output(self, key: Key, stream: str, offset: int) -> Mapping[str, Any]:
        """Return a piece of what a task wrote."""
        return await asyncio.to_thread(self._piece, key, stream, offset)

    async def attend(self) -> None:
        """Notice what ends, enforce limits, and drop what is old."""
        self.news.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look())
            group.create_task(self._watch_memory())
            group.create_task(self._clean())

    # What is done

    def _start(self, task: Start) -> None:
        """Run a task that has not been run under this attempt."""
        key, job, account = task.key, task.job, None
        fault = "" if job is not None else "the service does not know the job"
        if job is not None:
            try:
                account = self.accounts.of(job.user)
            except InputError as error:
                fault = str(error)
        devices = self._free_devices(int(task.demand.get("gpu", 0)))
        memory = float(task.demand.get("memory", 0.0)) * GIB
        submitted = None if job is None else job.submitted
        try:
            if job is not None and account is not None and account.is_shared:
                home = make_home(self._homes, job.user, account)
                account = dataclasses.replace(account, home=str(home))
            attempt = Attempt.make(
                self._root, key, devices, task.time_limit, memory, account, submitted
            )
        except OSError as error:
            why = f"cannot be started on {self.server.name}: {error.strerror}"
            is_theirs = error.errno == errno.EDQUOT  # the user's quota, as full elsewhere
            attempt = Attempt.failed(self._root, key, why, CANNOT_START if is_theirs else None)
        else:
            if fault or job is None:
                attempt.refuse(fault)
            else:
                environment = self._environment(key, job, devices, account)
                directory = job.directory or environment.get("HOME", "/")
                if account is not None and account.is_shared:
                    directory = account.home
                attempt.start(job.command, directory, environment, account)
        if attempt.outcome is not None and attempt.outcome.status is None:
            LOG.error("%s %s", ".".join(map(str, key)), attempt.outcome.reason)
            sleep(PAUSE)  # it runs again, maybe here
        self._attempts[key] = attempt

    def _environment(
        self, key: Key, job: JobSpec, devices: list[int], account: Account | None
    ) -> dict[str, str]:
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        environment["HOME"] = os.environ.get("HOME", "/")
        environment |= job.environment
        if account is not None:
            environment |= {"HOME": account.home, "USER": account.name, "LOGNAME": account.name}
        number, index, attempt = key
        numbers = {
            "FAIRLEAD_JOB": number,
            "FAIRLEAD_INDEX": index,
            "FAIRLEAD_ATTEMPT": attempt,
            "FAIRLEAD_TASKS": job.tasks,
            "FAIRLEAD_NODE": self.server.name,
            "FAIRLEAD_USER": job.user,
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, devices)),
        }
        environment |= {name: str(value) for name, value in numbers.items()}
        return {name: value for name, value in environment.items() if name not in SECRETS}

    def _free_devices(self, wanted: int) -> list[int]:
        """Return devices that no task has; the service never asks for more than there are."""
        held = {d for a in self._attempts.values() if a.outcome is None for d in a.devices}
        return [d for d in self.server.devices if d not in held][:wanted]

    async def _look(self) -> None:
        """Notice tasks that ended, and end those that are over a limit of theirs."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for attempt in list(self._attempts.values()):
                if attempt.outcome is None and attempt.look() is not None:
                    self.news.set()

    async def _watch_memory(self) -> None:
        while True:
            await asyncio.sleep(MEMORY_SECONDS)
            for attempt in list(self._attempts.values()):
                if attempt.outcome is None and attempt.memory:
                    await asyncio.to_thread(attempt.enforce_memory)

    # Output

    def _piece(self, key: Key, stream: str, offset: int) -> dict[str, Any]:
        """Return a piece of what a task wrote."""
        attempt = self._attempts.get(key)
        if attempt is None or stream not in STREAMS:
            return {"fault": "the output is no longer kept"}
        is_over, size, data = attempt.outcome is not None, 0, b""
        file = attempt.output(stream)
        if file is not None:
            try:
                with file:
                    size = file.seek(0, os.SEEK_END)
                    offset = max(min(offset, size), first_kept(file, size))
                    file.seek(offset)
                    data = file.read(PIECE)
            except OSError as fault:
                return {"fault": fault.strerror or str(fault)}
        return {
            "data": base64.b64encode(data).decode("ascii"),
            "offset": offset,
            "size": size,
            "is_over": is_over and offset + len(data) >= size,
        }

    async def _clean(self) -> None:
        """Drop output that is old, or the older part of what is too much."""
        while True:
            await asyncio.to_thread(self._clean_now)
            await asyncio.sleep(CLEAN_SECONDS)

    def _clean_now(self) -> None:
        for key, attempt in list(self._attempts.items()):
            if attempt.outcome is not None and attempt.is_reported:
                with suppress(OSError):
                    if time() - (attempt.path / "reported").stat().st_mtime > self.output_age:
                        shutil.rmtree(attempt.path, ignore_errors=True)
                        del self._attempts[key]
                        continue
            for stream in STREAMS:
                attempt.forget_front(stream, self.largest_output)


def _make_folder(path: Path) -> None:
    """Make a folder, or use one that is there, in which others read and write nothing.

    Raises
    ------
    InputError
        When it belongs to another account, or all accounts can write to it.
    OSError
        When it cannot be made.
    """
    if not path.exists():
        path.mkdir(parents=True, mode=0o711)
        path.chmod(0o711)  # whatever the umask is
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise InputError("belongs to another account; give the worker its own", "", str(path))
    if found.st_mode & 0o002:
        raise InputError("everybody can write to it; give the worker its own", "", str(path))
    path.chmod(found.st_mode & 0o711)


def _make_homes(folder: Path, account: Account) -> None:
    """Make the folder for the files of users without an account.

    Raises
    ------
    InputError
        When the account that they share cannot go there.
    """
    try:
        _make_folder(folder)
        folder.chmod(0o711)
    except OSError as fault:
        raise InputError(fault.strerror or str(fault), "", str(folder)) from None
    if not can_enter(folder, account):
        why = f"the account {account.name!r} cannot enter it; give another folder with --state"
        raise InputError(why, "", str(folder))
    LOG.info("users without an account run as %s, each in a folder in %s", account.name, folder)


def _identity(path: Path) -> str:
    """Return the worker's identity; a process that knows it can take the worker's place."""
    if not path.exists():
        replace(path, secrets.token_hex(16))
    path.chmod(0o600)
    return path.read_text(encoding="ascii").strip()
