"""The engine of a worker: each task is a command, in its own process group on this machine."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import errno
import logging
import math
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time
from typing import Any

from fairlead.errors import InputError
from fairlead.service.bounds import GPU_PARTS
from fairlead.service.engines.protocol import Ending, EngineNode, JobSpec, Key, Start
from fairlead.service.engines.worker_loop import do_all, repeat
from fairlead.service.messages import MOST_INTEGER
from fairlead.service.worker._attempts import (
    CANNOT_START,
    Attempt,
    Record,
    folder_name,
    time_of_last_change,
    trim_output,
)
from fairlead.service.worker._discarded_folders import discard, remove_discarded
from fairlead.service.worker._files import (
    first_kept_byte,
    lock_folder,
    make_folder,
    read_identity,
    sync,
)
from fairlead.service.worker.accounts import Account, Accounts, make_home, make_homes

LOG = logging.getLogger("fairlead.service.worker")
GIB = 2**30
CHECK_SECONDS = 0.1  # between checks for ended tasks
MEMORY_SECONDS = 1.0  # between checks of memory
CLEAN_SECONDS = 60.0  # between deletions of old output
REMOVE_SECONDS = 0.2  # between the turns of a long removal
FAILURE_REPORT_SECONDS = 5.0  # delay of the report of a failed start, which may repeat at once
PIECE = 2**18  # bytes of output in one answer
LARGEST_OUTPUT = 64 * 2**20  # bytes of each stream of a task
OUTPUT_AGE = 7 * 86400.0  # seconds after the end of a task
# Variables of the worker's environment that tasks get.
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
SECRETS = ("FAIRLEAD_TOKEN", "FAIRLEAD_TOKEN_FILE")  # variables that no task gets
STREAMS = ("stdout", "stderr")
GIVEN_UP = "the service does not know it any more"


@dataclass
class Starting:
    """A task that is being started."""

    task: Start
    devices: list[int] = field(default_factory=list)
    account: Account | None = None
    attempt: Attempt | None = None  # set once its directory was made, or failed to be made
    why_stopped: str | None = None  # if it was stopped meanwhile


class LocalProcesses:
    """Runs tasks on this machine; see `TaskEngine`.

    `server` is this machine; its GPUs are numbered from 0.

    Only the event loop's thread uses its tables; other threads get attempts as arguments, and
    return results. A stopped task is killed after `grace` seconds. Raises `InputError` if the
    folder `state` is unusable, or another worker uses it.
    """

    def __init__(
        self,
        server: EngineNode,
        state: Path,
        accounts: Accounts,
        largest_output: float = LARGEST_OUTPUT,
        output_age: float = OUTPUT_AGE,
        grace: float | None = None,
    ) -> None:
        self.server, self.accounts, self.grace = server, accounts, grace
        self.largest_output, self.output_age = int(largest_output), output_age
        state = Path(os.path.realpath(state))  # a symbolic link may change later
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
        self.changed = asyncio.Event()
        # Attempts whose ends the service has not acknowledged. All others are only on disk.
        self._attempts: dict[Key, Attempt] = {}
        self._untrimmed: list[Path] = []  # folders of attempts reported since the last `_clean`
        self._starting: dict[Key, Starting] = {}
        for path in sorted(self._root.iterdir()):
            if path.name.startswith("."):
                with suppress(OSError):  # a folder that cannot be removed is ignored
                    discard(path)
            elif (attempt := Attempt.from_folder(path)) is not None:
                attempt.grace = grace
                if attempt.is_reported:
                    self._untrimmed.append(path)
                else:
                    self._attempts[attempt.key] = attempt
        kept = len(self._attempts) + len(self._untrimmed)
        LOG.info("%d attempts of an earlier run", kept)

    def nodes(self) -> Sequence[EngineNode]:
        return [self.server]

    async def start(self, tasks: Sequence[Start]) -> None:
        """Start the commands of tasks whose attempts have not run before."""
        starting, others = {}, []
        for task in tasks:
            if task.key in self._starting:
                continue
            earlier = self._attempts.get(task.key) or self._read(task.key)
            if earlier is not None:
                if task.job is None or earlier.record.submitted == task.job.submitted:
                    continue
                others.append(earlier)  # of another journal, with a job of the same number
            starting[task.key] = Starting(task)
        self._starting |= starting
        try:
            if others:
                await asyncio.to_thread(do_all, Attempt.drop, others)
                for other in others:
                    self._attempts.pop(other.key, None)
            for each in starting.values():
                each.devices = self._devices_for(each.task)
            await asyncio.to_thread(self._start_in_thread, list(starting.values()))
        finally:
            for key, each in starting.items():
                del self._starting[key]
                if each.attempt is not None:
                    self._add(each.attempt, each.why_stopped)

    def _read(self, key: Key) -> Attempt | None:
        """Return the attempt with a key from its folder, or None if there is none."""
        return Attempt.from_folder(self._root / folder_name(key))

    def _add(self, attempt: Attempt, why_stopped: str | None) -> None:
        """Add an attempt that was started, or failed to start."""
        self._attempts[attempt.key] = attempt
        attempt.grace = self.grace
        if why_stopped is not None:
            attempt.stop(why_stopped)
        if attempt.process is not None:
            self._await_end(attempt, attempt.process.pid)
        if attempt.outcome is not None:  # it could not start
            if attempt.outcome.status is None:
                name = ".".join(map(str, attempt.key))
                LOG.error("%s %s", name, attempt.outcome.reason)
                attempt.reported_from = monotonic() + FAILURE_REPORT_SECONDS
            asyncio.get_running_loop().call_at(attempt.reported_from, self.changed.set)

    def _await_end(self, attempt: Attempt, number: int) -> None:
        """Check an attempt as soon as its shell program ends."""

        def ended() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            self._check_task(attempt)

        loop = asyncio.get_running_loop()
        with suppress(OSError):  # too many open files; `_check_tasks` finds the end later
            descriptor = os.pidfd_open(number)
            loop.add_reader(descriptor, ended)

    def stop(self, key: Key, why: str) -> None:
        if key in self._attempts:
            self._attempts[key].stop(why)
        if key in self._starting:
            self._starting[key].why_stopped = why

    def keep_only(self, keys: Collection[Key]) -> None:
        for key in self._starting.keys() - set(keys):
            self._starting[key].why_stopped = GIVEN_UP
        do_all(self._give_up, [a for key, a in self._attempts.items() if key not in keys])

    def endings(self) -> Sequence[Ending]:
        now = monotonic()
        return [
            Ending(attempt.key, attempt.outcome.status, attempt.outcome.reason)
            for attempt in self._attempts.values()
            if attempt.outcome and attempt.reported_from <= now
        ]

    def forget(self, endings: Sequence[Ending]) -> None:
        for ending in endings:
            attempt = self._attempts.get(ending.key)
            # Without an outcome, another journal's attempt has the key now.
            if attempt is not None and attempt.outcome is not None:
                self._note_reported(attempt)

    async def output(self, key: Key, stream: str, offset: int) -> Mapping[str, Any]:
        unreported = self._attempts.get(key)
        is_reported = unreported is None and key not in self._starting

        def read() -> Mapping[str, Any]:
            attempt = unreported or self._read(key)
            if attempt is None or stream not in STREAMS:
                return {"fault": "the output is no longer kept"}
            return _piece(attempt, is_reported, stream, offset)

        return await asyncio.to_thread(read)

    async def attend(self) -> None:
        """Find ended tasks, enforce limits, and delete old output."""
        self.changed.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(repeat(self._check_tasks, CHECK_SECONDS))
            group.create_task(repeat(self._watch_memory, MEMORY_SECONDS))
            group.create_task(repeat(self._clean, CLEAN_SECONDS))
            group.create_task(repeat(self._remove))

    def _start_in_thread(self, tasks: Sequence[Starting]) -> None:
        """Start tasks once their attempts are on disk."""
        for each in tasks:
            each.attempt = self._make(each)
        made = [each for each in tasks if each.attempt and each.attempt.outcome is None]
        try:
            if made:
                sync(self._root)
        except OSError as error:
            for each in made:
                each.attempt = self._failed(each.task.key, error)
        else:
            do_all(self._run_command, made)

    def _make(self, starting: Starting) -> Attempt:
        """Make the attempt of a task; it has ended already if the task cannot run."""
        task, job = starting.task, starting.task.job
        fault = "" if job is not None else "the service did not send its command"
        if len(starting.devices) < math.ceil(task.demand.get("gpu", 0.0)):
            # Tasks that started under the policy slots, which does not count GPUs, may hold them.
            why = f"its GPUs are not free on {self.server.name}"
            return Attempt.failed(self._root, task.key, why)
        account = None
        if job is not None:
            try:
                account = self.accounts.of(job.user)
            except InputError as error:
                fault = str(error)
        record = Record(
            key=task.key,
            devices=starting.devices,
            parts=parts_of(task),
            time_limit=task.time_limit,
            memory=task.demand.get("memory", 0.0) * GIB,
        )
        if job is not None:
            record.submitted, record.checkpoint_signal = job.submitted, job.checkpoint_signal or ""
        try:
            if job is not None and account is not None and account.is_shared:
                home = make_home(self._homes, job.user, account)
                account = dataclasses.replace(account, home=str(home))
            attempt = Attempt.make(self._root, record, account)
        except OSError as error:
            return self._failed(task.key, error)
        starting.account = account
        if fault:
            attempt.refuse(fault)
        return attempt

    def _failed(self, key: Key, fault: OSError) -> Attempt:
        """Return an attempt that could not be made; the task runs again unless a quota is full."""
        why = f"cannot be started on {self.server.name}: {fault.strerror}"
        is_quota = fault.errno == errno.EDQUOT  # the start would fail on other servers, too
        return Attempt.failed(self._root, key, why, CANNOT_START if is_quota else None)

    def _run_command(self, starting: Starting) -> None:
        """Start the command of a task whose attempt is on disk."""
        task, account, attempt = starting.task, starting.account, starting.attempt
        if task.job is None or attempt is None:
            return
        environment = self._environment(task.key, task.job, starting.devices, account)
        environment["FAIRLEAD_GPU"] = f"{task.demand.get('gpu', 0.0):g}"
        directory = task.job.directory or environment.get("HOME", "/")
        if account is not None and account.is_shared:
            directory = account.home
        attempt.start(task.job.command, directory, environment, account)

    def _environment(
        self, key: Key, job: JobSpec, devices: list[int], account: Account | None
    ) -> dict[str, str]:
        """Return the environment of a command: some of the worker's, the job's, and the task's."""
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
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

    def _devices_for(self, task: Start) -> list[int]:
        """Return the GPUs for a task: those that the service chose, or others if these are in use.

        A task that the service does not know any more holds its GPUs until it has stopped. Under
        slots, the service chooses none.
        """
        held = Counter[int]()  # parts by device
        for attempt in self._attempts.values():
            if not attempt.outcome:
                held.update(dict.fromkeys(attempt.record.devices, attempt.record.parts))
        for starting in self._starting.values():
            held.update(dict.fromkeys(starting.devices, parts_of(starting.task)))
        known, wanted = int(self.server.capacity["gpu"]), math.ceil(task.demand.get("gpu", 0.0))
        free = [n for n in range(known) if held[n] + parts_of(task) <= GPU_PARTS]
        if len(task.devices) == wanted and set(task.devices) <= set(free):
            return list(task.devices)
        return sorted(free, key=held.__getitem__, reverse=True)[:wanted]

    def _give_up(self, attempt: Attempt) -> None:
        """Stop an attempt that the service does not know; do not report its end."""
        if attempt.poll() is None:
            attempt.stop(GIVEN_UP)
        if attempt.outcome is not None:
            self._note_reported(attempt)

    def _note_reported(self, attempt: Attempt) -> None:
        attempt.note_reported()
        del self._attempts[attempt.key]
        self._untrimmed.append(attempt.path)

    async def _check_tasks(self) -> None:
        """Find ended tasks, and stop tasks that exceed a limit."""
        do_all(self._check_task, list(self._attempts.values()))

    def _check_task(self, attempt: Attempt) -> None:
        if attempt.outcome is None and attempt.poll() is not None:
            self.changed.set()

    async def _watch_memory(self) -> None:
        """Kill tasks that hold more memory than their demand."""
        running = list(self._attempts.values())
        exceeding = await asyncio.to_thread(lambda: [a for a in running if a.exceeds_memory()])
        for attempt in exceeding:
            attempt.kill("memory")

    async def _clean(self) -> None:
        """Delete the start of long output, and the folders of attempts that ended long ago."""
        reported, self._untrimmed = self._untrimmed, []
        paths = [*(attempt.path for attempt in self._attempts.values()), *reported]
        await asyncio.to_thread(self._trim, paths)
        old = await asyncio.to_thread(self._find_old)
        held = {folder_name(key) for key in (*self._attempts, *self._starting)}
        await asyncio.to_thread(do_all, discard, [path for path in old if path.name not in held])

    def _trim(self, paths: Sequence[Path]) -> None:
        """Delete the start of long output in some attempts' folders."""

        def trim(path: Path) -> None:
            for stream in STREAMS:
                trim_output(path, stream, self.largest_output)

        do_all(trim, paths)

    def _find_old(self) -> list[Path]:
        """Return the folders of attempts whose record has not changed for `output_age` seconds."""
        latest, found = time() - self.output_age, []
        for path in self._root.iterdir():
            with suppress(OSError):
                if not path.name.startswith(".") and time_of_last_change(path) < latest:
                    found.append(path)
        return found

    async def _remove(self) -> None:
        """Remove discarded folders for a turn, and pause."""
        is_more = await asyncio.to_thread(remove_discarded, self._root)
        await asyncio.sleep(REMOVE_SECONDS if is_more else CLEAN_SECONDS)


def _piece(attempt: Attempt, is_reported: bool, stream: str, offset: int) -> dict[str, Any]:
    """Return a piece of a task's output from an offset; `fault` if it cannot be read."""
    # Read before the output, because a running task may still write to it.
    is_over, size, data = is_reported or attempt.is_over, 0, b""
    file = attempt.output(stream)
    if file is not None:
        try:
            with file:
                size = min(file.seek(0, os.SEEK_END), MOST_INTEGER)
                offset = max(min(offset, size), first_kept_byte(file, size))
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


def parts_of(task: Start) -> int:
    """Return the number of `GPU_PARTS` that a task takes of each of its GPUs."""
    gpus = task.demand.get("gpu") or 1.0
    return max(int(min(gpus, 1.0) * GPU_PARTS), 1)
