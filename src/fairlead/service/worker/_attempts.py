"""One start of a task: a directory, a process group, and a record that outlives the worker.

A small shell program runs between worker and command, and records the exit status of the command.
So a task continues when its worker is killed, and a restarted worker learns how the task ended. No
attempt runs twice: the shell program waits for a line from its worker. The worker sends the line
only after it has recorded the process number of the program, and it records only one.

An attempt has ended, and its amounts are free, when no process of its group and session is left.
The files of the task do not decide this.

The task's account may write only the directory `task`. The worker may be root, so it trusts no file
there; see `_files.py`.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from time import monotonic, sleep
from typing import Any, BinaryIO, NamedTuple

import psutil
from pydantic import BaseModel, ValidationError

from fairlead.service.bounds import GPU_PARTS, INTERRUPTED, PREEMPTED
from fairlead.service.engines.protocol import Key
from fairlead.service.messages import TaskKey
from fairlead.service.worker._discarded_folders import discard
from fairlead.service.worker._files import (
    append,
    create,
    free_front,
    open_plain,
    read_plain,
    set_owner,
)
from fairlead.service.worker.accounts import Account
from fairlead.service.worker.machine import boot_id, members, state_of

LOG = logging.getLogger("fairlead.service.worker")
# It runs in the task's directory. Its arguments are the directory of the command, and its words.
# Without a line from the worker, the worker is gone and nothing may run.
# `trap :` holds only for this shell: the command gets the signal, and its status is recorded.
# The status goes into an existing file, because the disk may be full. If even that fails, this
# shell exits with the status. The rest of the process group ends with the shell.
SHIM = """
read -r _ || exit 0
trap : HUP INT TERM USR1 USR2
directory=$1
shift
(cd -- "$directory" && exec "$@") >>stdout 2>>stderr </dev/null
status=$?
trap '' HUP INT TERM USR1 USR2 XFSZ
echo "$status" 2>/dev/null 1<>exit && kill -KILL 0
exit "$status"
"""
NO_STATUS = " " * 8  # as long as any status
KILL_AFTER = 10.0  # seconds from SIGTERM to SIGKILL
KILLED = 128 + signal.SIGKILL  # the exit status after SIGKILL, as in a shell
CANNOT_START = 126  # the exit status of an attempt that could not start, as in a shell
STATUS = re.compile(r"\s*([0-9]{1,3})\s*")
# One file, from which a restarted worker resumes. Its first line is written before the attempt
# starts, and each later line changes fields. Appending to one file is faster than creating several,
# and a short file can still grow when the disk is full.
RECORD = "record"


@dataclass
class AttemptEnd:
    """How an attempt ended."""

    status: int | None  # the exit status; None if unknown, so that the task runs again
    reason: str = ""  # why it was stopped or could not start; empty for a normal end


class Leader(NamedTuple):
    """The shell program of an attempt: its process number, and its start as in `ProcessState`."""

    number: int
    began: int


class Record(BaseModel):
    """The stored fields of an attempt."""

    key: TaskKey
    devices: list[int] = []  # the GPUs of this attempt
    parts: int = GPU_PARTS  # used part of each of these GPUs, in 1,024ths
    time_limit: float | None = None  # seconds
    memory: float = 0.0  # limit in bytes, 0 for none
    boot: str = ""  # `boot_id` of the machine at its start
    submitted: float | None = None  # differs for jobs with the same number in two journals
    leader: Leader | None = None  # None until the shell program is started
    stop: str = ""  # why the worker stopped the attempt
    checkpoint_signal: str = ""  # sent in place of SIGTERM when it is preempted
    # Set if the attempt could not start, or its shell program could not write its status.
    ended: AttemptEnd | None = None
    is_reported: bool = False  # whether the service acknowledged its end


def write_record(folder: Path, record: Record) -> None:
    create(folder / RECORD, record.model_dump_json(exclude_defaults=True))


def append_field(folder: Path, record: Record, field: str) -> None:
    """Add the present value of a field to the record on disk."""
    # The line end comes first, so that a line cut off by a full disk does not damage the next one.
    append(folder / RECORD, f"\n{record.model_dump_json(include={field})}")


def read_record(folder: Path) -> Record | None:
    """Return the record in an attempt's folder, or None if it is absent or damaged."""
    first, *changes = (read_plain(folder, RECORD) or "").split("\n")
    try:
        record = Record.model_validate_json(first)
    except ValidationError:
        return None
    for line in changes:
        try:
            record = Record.model_validate(record.model_dump() | json.loads(line))
        except (ValidationError, ValueError, TypeError):
            continue  # cut off
    return record


def trim_output(folder: Path, stream: str, kept: int) -> None:
    """Free the disk space of an attempt's old output; the last `kept` bytes stay."""
    file = open_plain(folder / "task", stream, os.O_RDWR)
    if file is not None:
        with file:
            free_front(file, kept)


def time_of_last_change(folder: Path) -> float:
    return os.stat(folder / RECORD).st_mtime


@dataclass
class Attempt:
    """One start of a task, as a directory and processes."""

    path: Path  # its directory, named after its key
    record: Record
    reported_from: float = 0.0  # when its end may be reported, by the monotonic clock
    process: subprocess.Popen[bytes] | None = None  # its shell program, if this worker started it
    outcome: AttemptEnd | None = None  # None while it runs, as far as this worker knows
    stopped_at: float | None = None  # time of the first signal, by the monotonic clock
    grace: float | None = None  # seconds from that signal to SIGKILL; None for `KILL_AFTER`
    _rest_since: float | None = None  # since when other processes outlive its shell program

    @classmethod
    def make(cls, root: Path, record: Record, account: Account | None = None) -> Attempt:
        """Make the directory of a new attempt. Sync `root` before `start`.

        One sync serves all attempts made before it. After a crash, at least the names of their
        directories exist, and an attempt whose directory exists never starts again.
        """
        path = root / folder_name(record.key)
        if path.exists():
            raise FileExistsError(errno.EEXIST, "it was started before, and its record is damaged")
        draft = root / f".{path.name}"
        record.boot = boot_id()
        draft.mkdir(mode=0o711)
        try:
            task = draft / "task"
            task.mkdir(mode=0o700)
            # Created now, because the disk may be full when the task ends.
            for name, content in (("stdout", ""), ("stderr", ""), ("exit", NO_STATUS)):
                create(task / name, content, 0o640, account)
            write_record(draft, record)
            if account is not None:
                set_owner(task, account)
            draft.rename(path)
        except OSError:
            discard(draft)
            raise
        return cls(path, record)

    @classmethod
    def failed(cls, root: Path, key: Key, reason: str, status: int | None = None) -> Attempt:
        """Return an attempt that has ended because its directory could not be made."""
        return cls(root / folder_name(key), Record(key=key), outcome=AttemptEnd(status, reason))

    @classmethod
    def from_folder(cls, path: Path) -> Attempt | None:
        """Return the attempt of an earlier worker in a directory; None if there is no record."""
        record = read_record(path)
        if record is None or folder_name(record.key) != path.name:
            return None
        return cls(path, record)

    @property
    def key(self) -> Key:
        return self.record.key

    @property
    def is_reported(self) -> bool:
        return self.record.is_reported

    def start(
        self,
        command: Sequence[str],
        directory: str,
        environment: Mapping[str, str],
        account: Account | None,
    ) -> None:
        """Run a command in its own session, unless this attempt has run before."""
        if self.record.leader is not None:
            return
        other: dict[str, Any] = {}
        if account is not None:
            other = {"user": account.uid, "group": account.gid, "extra_groups": account.groups}
        try:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", SHIM, f"fairlead-task-{self.path.name}", directory, *command],
                cwd=self.path / "task",
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                close_fds=True,
                umask=0o027,
                **other,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as fault:
            self.refuse(f"cannot be started: {fault}")
            return
        try:
            self._record_and_release(self.process)
        except OSError as fault:
            self.process.kill()
            self.process.wait()
            self.outcome = AttemptEnd(None, f"cannot be started: {fault.strerror}")

    def refuse(self, reason: str) -> None:
        """End the attempt without a start."""
        self.outcome = self.record.ended = AttemptEnd(CANNOT_START, reason)
        self._note("ended")

    @property
    def is_over(self) -> bool:
        """Whether it has ended, as far as this worker or the service knows."""
        return self.outcome is not None or self.is_reported

    def note_reported(self) -> None:
        """Record that the service has acknowledged the end."""
        self.record.is_reported = True
        self._note("is_reported")

    def stop(self, reason: str) -> None:
        """Signal the attempt to end; `poll` sends SIGKILL later.

        A preempted attempt gets its checkpoint signal, if it has one; after a Ctrl-C it gets
        SIGINT, else SIGTERM.
        """
        if not self.is_over and self.stopped_at is None:
            self.record.stop = reason
            self._note("stop")
            self.stopped_at = monotonic()
            signals = {PREEMPTED: self.record.checkpoint_signal, INTERRUPTED: "INT"}
            self._signal(signal.Signals[f"SIG{signals.get(reason) or 'TERM'}"])

    def drop(self) -> None:
        """Kill the attempt's processes, and discard its directory."""
        deadline = monotonic() + KILL_AFTER
        while self.poll() is None and monotonic() < deadline:
            self._signal(signal.SIGKILL)
            sleep(0.05)
        with suppress(OSError):
            discard(self.path)

    def poll(self) -> AttemptEnd | None:
        """Return how the attempt ended, or None while it has processes; enforce its limits."""
        if self.outcome is not None:
            return self.outcome
        if self.process is not None:
            self.process.poll()  # reap it
        if self._has_shell():
            self._enforce()
        elif self.record.ended is not None:  # recorded by an earlier worker
            self.outcome = self.record.ended
        elif self._kill_rest():
            self.outcome = self._read_end()
        return self.outcome

    def output(self, stream: str) -> BinaryIO | None:
        """Open a stream of output; None without one. The stderr of a failed start is its reason."""
        ended = self.record.ended
        if stream == "stderr" and ended is not None and self.record.leader is None:
            return BytesIO(f"fairlead: {ended.reason}\n".encode())
        return open_plain(self.path / "task", stream)

    def processes(self) -> list[psutil.Process]:
        """Return its processes, the shell program first; none after its end."""
        leader = self.record.leader
        if leader is None or not self._has_shell():
            return []
        number = leader.number
        found: dict[int, psutil.Process] = {}
        with suppress(psutil.Error):
            first = psutil.Process(number)
            found = {each.pid: each for each in (first, *first.children(recursive=True))}
            found |= {each.pid: each for each in members(number) if each.pid not in found}
        return list(found.values())

    def exceeds_memory(self) -> bool:
        """Return whether it uses more memory than its demand; shared pages count once."""
        if not self.record.memory or self.outcome is not None or self.stopped_at is not None:
            return False
        processes, mapped, held = self.processes(), 0, 0
        for process in processes:
            with suppress(psutil.Error):
                mapped += process.memory_info().rss
        if mapped <= self.record.memory:
            return False
        for process in processes:  # `pss` is at most `rss`, but slow to read
            with suppress(psutil.Error):
                held += process.memory_full_info().pss
        return held > self.record.memory

    def kill(self, reason: str) -> None:
        """Send SIGKILL to its processes."""
        self.stop(reason)
        self._signal(signal.SIGKILL)

    def _record_and_release(self, process: subprocess.Popen[bytes]) -> None:
        """Record the shell program, then let it run the command."""
        state = state_of(process.pid)
        if state is None or process.stdin is None:
            raise ChildProcessError(errno.ECHILD, "its process is gone")
        self.record.leader = Leader(process.pid, state.began)
        append_field(self.path, self.record, "leader")
        with process.stdin as line:
            line.write(b"\n")

    def _has_shell(self) -> bool:
        """Return whether its shell program still runs."""
        if self.record.boot != boot_id():
            return False
        if self.process is not None:
            return self.process.returncode is None
        leader = self.record.leader
        if leader is None or (state := state_of(leader.number)) is None:
            return False
        return state.began == leader.began and not state.is_over

    def _kill_rest(self) -> bool:
        """Kill the remaining processes; return whether there are none.

        An uninterruptible process may end late, and holds its amounts until then.
        """
        leader = self.record.leader
        if leader is None or self.record.boot != boot_id():
            return True
        state = state_of(leader.number)
        if state is not None and state.began != leader.began:
            return True  # another process has the number, so the group and session are gone
        remaining = members(leader.number)
        if not remaining:
            return True
        with suppress(OSError):
            os.killpg(leader.number, signal.SIGKILL)
        for process in remaining:
            with suppress(psutil.Error):
                process.kill()
        self._log_survivors(remaining)
        return False

    def _log_survivors(self, remaining: Sequence[psutil.Process]) -> None:
        """Warn once of processes that run on for `KILL_AFTER` seconds after SIGKILL."""
        now = monotonic()
        if self._rest_since is None:
            self._rest_since = now
        elif now - self._rest_since > KILL_AFTER:
            numbers = ", ".join(str(process.pid) for process in remaining[:5])
            LOG.warning("%s: processes still run after SIGKILL: %s", self.path.name, numbers)
            self._rest_since = math.inf

    def _read_end(self) -> AttemptEnd:
        """Return how the attempt ended; record this if its shell program could not."""
        reason = self.record.stop
        # The exit status of the shell program; negative if a signal ended it, or if it is unknown.
        returned = -1 if self.process is None else self.process.returncode
        status = STATUS.fullmatch(read_plain(self.path / "task", "exit") or "")
        if status is not None and returned < 0:
            return AttemptEnd(min(int(status[1]), 255), reason)
        if returned >= 0:
            end = AttemptEnd(returned, reason)
        elif reason or self.process is not None:  # it was stopped, or this worker started it
            end = AttemptEnd(KILLED, reason or "all of its processes were killed")
        else:
            end = AttemptEnd(None, "its processes are gone: killed, or the machine went down")
        self.record.ended = end
        self._note("ended")
        return end

    def _enforce(self) -> None:
        """Stop an attempt that exceeds its time limit; kill a stopped one after its grace."""
        if self.stopped_at is None and self.record.stop:
            self.stop(self.record.stop)  # an earlier worker stopped it
        if self.stopped_at is not None:
            grace = KILL_AFTER if self.grace is None else self.grace
            if monotonic() - self.stopped_at > grace:
                self._signal(signal.SIGKILL)
            return
        limit, leader = self.record.time_limit, self.record.leader
        if limit is not None and leader is not None:
            state = state_of(leader.number)
            if state is not None and state.age > limit:
                self.stop("time limit")

    def _signal(self, number: int) -> None:
        """Send a signal to its process group, and to its other processes."""
        processes = self.processes()
        if not processes:
            return  # `poll` kills the rest of the group
        group = processes[0].pid
        others = []
        for process in processes[1:]:
            with suppress(OSError):
                if os.getpgid(process.pid) != group:
                    others.append(process)
        with suppress(OSError):
            os.killpg(group, number)
        for process in others:
            with suppress(psutil.Error):
                process.send_signal(number)

    def _note(self, field: str) -> None:
        """Append a changed field to the record; a restart loses it if the disk is full."""
        with suppress(OSError):
            append_field(self.path, self.record, field)


def folder_name(key: Key) -> str:
    if len(key) != 3 or not all(type(part) is int and part >= 0 for part in key):
        raise ValueError(f"a task's key is three numbers, not {key!r:.80}")
    return ".".join(map(str, key))
