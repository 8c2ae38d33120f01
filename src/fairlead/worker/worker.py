"""Processes of this machine as an engine: each task is a command, in a process group of its own."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import errno
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time
from typing import Any

from fairlead.engines.loops import do_all, repeat
from fairlead.engines.orders import LARGEST, JobSpec
from fairlead.engines.protocol import Ending, EngineNode, Key, Start
from fairlead.errors import InputError
from fairlead.worker.accounts import Account, Accounts, make_home
from fairlead.worker.attempts import CANNOT_START, Attempt
from fairlead.worker.files import first_kept
from fairlead.worker.folders import lock_folder, make_folder, make_homes, read_identity
from fairlead.worker.removal import discard, remove_discarded

LOG = logging.getLogger("fairlead.worker")
GIB = 2**30
LOOK_SECONDS = 0.1
MEMORY_SECONDS = 1.0
CLEAN_SECONDS = 60.0
REMOVE_SECONDS = 0.2  # between turns of a removal that takes several
PAUSE = 5.0  # before a failed start is reported: the service may repeat it here at once
PIECE = 2**18  # bytes of output at once
LARGEST_OUTPUT = 64 * 2**20
OUTPUT_AGE = 7 * 86400.0
KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
SECRETS = ("FAIRLEAD_TOKEN", "FAIRLEAD_TOKEN_FILE")  # of the worker; no task gets them
STREAMS = ("stdout", "stderr")
GIVEN_UP = "the service gave it up"


@dataclass(frozen=True)
class Declaration:
    """What a worker says of its machine."""

    name: str
    cpu: float
    memory: float
    devices: tuple[int, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Starting:
    """A task that is being started: its devices, and why it is to end, if it is."""

    devices: list[int] = field(default_factory=list)
    why_stopped: str | None = None


class LocalProcesses:
    """Runs tasks on this machine; see `fairlead.engines.protocol.TaskEngine`.

    Its tables belong to the event loop's thread. Other threads are given attempts, and return what
    they found.

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
        state = Path(os.path.realpath(state))  # a link may lead elsewhere later
        self._root, self._homes = state / "attempts", state / "homes"
        try:
            for folder in (state, self._root):
                make_folder(folder, is_root=accounts.is_root)
            self._lock = lock_folder(state)
            self.identity = read_identity(state)
        except OSError as fault:
            raise InputError(fault.strerror or str(fault), "", str(state)) from None
        if accounts.shared is not None:
            make_homes(self._homes, accounts.shared)
        self.news = asyncio.Event()
        self._attempts: dict[Key, Attempt] = {}
        self._starting: dict[Key, Starting] = {}
        for path in sorted(self._root.iterdir()):
            if path.name.startswith("."):
                with suppress(OSError):  # what stays is no attempt
                    discard(path)
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
        key, job = task.key, task.job
        before = self._attempts.get(key)
        is_other = before is not None and job is not None and before.submitted != job.submitted
        if key in self._starting or (before is not None and not is_other):
            return
        starting = self._starting[key] = Starting()
        try:
            if before is not None:  # it is of another journal, or of a later one
                await asyncio.to_thread(before.drop)
                self._attempts.pop(key, None)
            starting.devices = self._free_devices(int(task.demand.get("gpu", 0)))
            attempt = await asyncio.to_thread(self._start, task, starting.devices)
        finally:
            del self._starting[key]
        self._attempts[key] = attempt
        if starting.why_stopped is not None:
            attempt.stop(starting.why_stopped)
        if attempt.outcome is not None:  # it could not start
            if attempt.outcome.status is None:
                LOG.error("%s %s", ".".join(map(str, key)), attempt.outcome.reason)
                attempt.told_from = monotonic() + PAUSE
            asyncio.get_running_loop().call_at(attempt.told_from, self.news.set)

    def stop(self, key: Key, why: str) -> None:
        """End a task's processes."""
        if key in self._attempts:
            self._attempts[key].stop(why)
        if key in self._starting:
            self._starting[key].why_stopped = why

    def keep_only(self, keys: Collection[Key]) -> None:
        """End all other tasks."""
        for key in self._starting.keys() - set(keys):
            self._starting[key].why_stopped = GIVEN_UP
        do_all(_give_up, [a for key, a in self._attempts.items() if key not in keys])

    def endings(self) -> Sequence[Ending]:
        """Return how attempts ended that the service has not acknowledged."""
        now = monotonic()
        return [
            Ending(attempt.key, attempt.outcome.status, attempt.outcome.reason)
            for attempt in self._attempts.values()
            if attempt.outcome and attempt.told_from <= now and not attempt.is_reported
        ]

    def forget(self, endings: Sequence[Ending]) -> None:
        """Note that endings were heard."""
        for ending in endings:
            attempt = self._attempts.get(ending.key)
            if attempt is not None and attempt.outcome is not None:  # else another one came since
                attempt.note_reported()

    async def output(self, key: Key, stream: str, offset: int) -> Mapping[str, Any]:
        """Return a piece of what a task wrote."""
        attempt = self._attempts.get(key)
        if attempt is None or stream not in STREAMS:
            return {"fault": "the output is no longer kept"}
        return await asyncio.to_thread(_piece, attempt, stream, offset)

    async def attend(self) -> None:
        """Notice what ends, enforce limits, and drop what is old."""
        self.news.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(repeat(self._look, LOOK_SECONDS))
            group.create_task(repeat(self._watch_memory, MEMORY_SECONDS))
            group.create_task(repeat(self._clean, CLEAN_SECONDS))
            group.create_task(repeat(self._remove))

    # What is done

    def _start(self, task: Start, devices: list[int]) -> Attempt:
        """Run a task that has not been run under this attempt."""
        key, job, account = task.key, task.job, None
        fault = "" if job is not None else "the service does not know the job"
        if job is not None:
            try:
                account = self.accounts.of(job.user)
            except InputError as error:
                fault = str(error)
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
            return Attempt.failed(self._root, key, why, CANNOT_START if is_theirs else None)
        if fault or job is None:
            attempt.refuse(fault)
        else:
            environment = self._environment(key, job, devices, account)
            directory = job.directory or environment.get("HOME", "/")
            if account is not None and account.is_shared:
                directory = account.home
            attempt.start(job.command, directory, environment, account)
        return attempt

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
        held |= {d for starting in self._starting.values() for d in starting.devices}
        return [d for d in self.server.devices if d not in held][:wanted]

    async def _look(self) -> None:
        """Notice tasks that ended, and end those that are over a limit of theirs."""
        do_all(self._look_at, list(self._attempts.values()))

    def _look_at(self, attempt: Attempt) -> None:
        if attempt.outcome is None and attempt.look() is not None:
            self.news.set()

    async def _watch_memory(self) -> None:
        for attempt in list(self._attempts.values()):
            if await asyncio.to_thread(attempt.exceeds_memory):
                attempt.kill("memory")

    async def _clean(self) -> None:
        """Drop output that is old, or the older part of what is too much."""
        gone = await asyncio.to_thread(self._trim, list(self._attempts.values()))
        for attempt in gone:
            if self._attempts.get(attempt.key) is attempt:
                del self._attempts[attempt.key]

    def _trim(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Delete old output, and the front of long output; return the attempts without a folder."""
        gone = []

        def trim(attempt: Attempt) -> None:
            if attempt.outcome is not None and attempt.is_reported:
                with suppress(OSError):
                    if time() - (attempt.path / "reported").stat().st_mtime > self.output_age:
                        discard(attempt.path)
                if not attempt.path.exists():
                    gone.append(attempt)
                    return
            for stream in STREAMS:
                attempt.forget_front(stream, self.largest_output)

        do_all(trim, attempts)
        return gone

    async def _remove(self) -> None:
        is_more = await asyncio.to_thread(remove_discarded, self._root)
        await asyncio.sleep(REMOVE_SECONDS if is_more else CLEAN_SECONDS)


def _give_up(attempt: Attempt) -> None:
    if attempt.look() is None:
        attempt.stop(GIVEN_UP)
    if attempt.outcome is not None and not attempt.is_reported:
        attempt.note_reported()


def _piece(attempt: Attempt, stream: str, offset: int) -> dict[str, Any]:
    """Return a piece of what a task wrote, up to the largest offset that a service takes."""
    is_over, size, data = attempt.outcome is not None, 0, b""
    file = attempt.output(stream)
    if file is not None:
        try:
            with file:
                size = min(file.seek(0, os.SEEK_END), LARGEST)
                offset = max(min(offset, size), first_kept(file, size))
                file.seek(offset)
                data = file.read(min(PIECE, size - offset))
        except OSError as fault:
            return {"fault": fault.strerror or str(fault)}
    return {
        "data": base64.b64encode(data).decode("ascii"),
        "offset": offset,
        "size": size,
        "is_over": is_over and offset + len(data) >= size,
    }
