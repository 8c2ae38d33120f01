"""One start of a task: a directory, a process group, and what outlives the worker.

A small shell program is between worker and command. It takes the attempt by making a directory,
which only one can, and writes down how the command ended. So a task goes on when its worker is
killed, a worker that comes back finds out all of it, and no attempt runs twice.

What the task's account may write is in a directory of its own, `task`. The worker may be root, so
it trusts nothing there: it follows no link, waits for no pipe, and reads little.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime, monotonic, sleep
from typing import Any, BinaryIO

import psutil

from fairlead.worker.accounts import Account

# Arguments: a mark that tells this process from others, the directory to go to, the command.
# Everything else is relative to the directory of the task. `trap :` is for this shell alone: the
# command gets the signal, and how it ended is still written down. What the command left running in
# its process group ends with it.
SHIM = """
/bin/mkdir started 2>/dev/null || exit 0
trap : TERM
echo $$ >pid.new && /bin/mv pid.new pid
shift
directory=$1
shift
(cd -- "$directory" && exec "$@") >>stdout 2>>stderr </dev/null
echo $? >exit.new && /bin/mv exit.new exit
trap '' TERM
kill -KILL 0
"""
KILL_AFTER = 10.0  # seconds between asking a task to end and ending it
STARTED_WITHIN = 1.0  # seconds until a process that was made shows its arguments
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
KILLED = 128 + signal.SIGKILL
CANNOT_START = 126
STATUS = re.compile(r"\s*([0-9]{1,3})\s*")
MOST_READ = 4096  # bytes of a file about an attempt
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class AttemptEnd:
    """How an attempt ended; no status where nobody knows it."""

    status: int | None
    reason: str = ""


@dataclass
class Attempt:
    """A start of a task, as its directory tells it.

    Attributes
    ----------
    key : (int, int, int)
        Job, index and attempt.
    path : Path
    devices : list of int
        The GPUs that are its own.
    time_limit : float or None
        Seconds.
    memory : float
        Bytes that it may hold, 0 for any number.
    boot : str
        Which run of the machine's kernel it began in.
    submitted : float or None
        When its job was, which tells it from one that another journal gave the same number.
    """

    key: tuple[int, int, int]
    path: Path
    devices: list[int]
    time_limit: float | None
    memory: float
    boot: str
    submitted: float | None = None
    process: subprocess.Popen[bytes] | None = None
    outcome: AttemptEnd | None = None
    asked_to_end: float | None = field(default=None)  # by the monotonic clock
    first_looked: float = field(default_factory=monotonic)
    _why_stopped: str = ""
    _is_reported: bool = False

    @classmethod
    def make(
        cls,
        root: Path,
        key: tuple[int, int, int],
        devices: list[int],
        time_limit: float | None,
        memory: float,
        account: Account | None,
        submitted: float | None = None,
    ) -> Attempt:
        """Make the directory of an attempt that has none, and have it on disk."""
        path = root / ".".join(map(str, key))
        draft = root / f".{path.name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o711)
        task = draft / "task"
        task.mkdir(mode=0o700)
        spec = {
            "key": key,
            "devices": devices,
            "time_limit": time_limit,
            "memory": memory,
            "boot": boot_id(),
            "submitted": submitted,
        }
        with (draft / "attempt.json").open("w", encoding="utf-8") as file:
            json.dump(spec, file)
            file.flush()
            os.fsync(file.fileno())
        if account is not None:
            os.chown(task, account.uid, account.gid)
        draft.rename(path)
        _sync(root)
        return cls(key, path, devices, time_limit, memory, str(spec["boot"]), submitted)

    @classmethod
    def failed(cls, root: Path, key: tuple[int, int, int], reason: str) -> Attempt:
        """Return an attempt that could not even be written down; it runs again elsewhere."""
        path = root / ".".join(map(str, key))
        return cls(key, path, [], None, 0.0, "", outcome=AttemptEnd(None, reason))

    @classmethod
    def found(cls, path: Path) -> Attempt | None:
        """Return what a directory tells, or None where that is damaged."""
        try:
            spec = json.loads((path / "attempt.json").read_text(encoding="utf-8"))
            job, index, attempt = spec["key"]
            return cls(
                (job, index, attempt),
                path,
                spec["devices"],
                spec["time_limit"],
                spec["memory"],
                spec["boot"],
                spec.get("submitted"),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def start(
        self,
        command: Sequence[str],
        directory: str,
        environment: Mapping[str, str],
        account: Account | None,
    ) -> None:
        """Run a command in a session of its own, if this attempt has not run before."""
        other: dict[str, Any] = {}
        if account is not None:
            other = {"user": account.uid, "group": account.gid, "extra_groups": account.groups}
        mark = f"fairlead-attempt={self.path.name}"
        try:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", SHIM, "fairlead-task", mark, directory, *command],
                cwd=self.path / "task",
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                close_fds=True,
                umask=0o027,
                **other,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as fault:
            self.refuse(f"cannot be started: {fault}")
        else:
            self._write("leader", str(self.process.pid))

    def refuse(self, reason: str) -> None:
        """End an attempt that cannot start."""
        self._write("refused", reason)
        self.outcome = AttemptEnd(CANNOT_START, reason)

    @property
    def is_reported(self) -> bool:
        """Whether the service knows how it ended."""
        return self._is_reported or (self.path / "reported").exists()

    def note_reported(self) -> None:
        """Remember that the service knows how it ended."""
        self._is_reported = True
        self._write("reported", "")

    def stop(self, reason: str) -> None:
        """Ask it to end; `look` ends it if it does not."""
        if self.outcome is None and self.asked_to_end is None:
            self._why_stopped = reason
            self._write("stop", reason)
            self.asked_to_end = monotonic()
            self._signal(signal.SIGTERM)

    def drop(self) -> None:
        """End it at once, and forget all about it."""
        latest = monotonic() + KILL_AFTER
        while self.look() is None and monotonic() < latest:
            self._signal(signal.SIGKILL)
            sleep(0.05)
        aside = self.path.with_name(f".{self.path.name}.dropped")  # what begins so is no attempt
        with suppress(OSError):
            self.path.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)

    def look(self) -> AttemptEnd | None:
        """Return how it ended, or None while it runs; enforce its limits."""
        if self.outcome is not None:
            return self.outcome
        if self.process is not None:
            self.process.poll()  # else it stays a zombie
        if (refused := self._read("refused")) is not None:
            self.outcome = AttemptEnd(CANNOT_START, refused)
        elif not self._has_ended():
            if self._is_alive():
                self._enforce()
            elif not self._has_ended():  # it may have ended just now
                self._end_rest()
                reason = self._reason_to_stop()
                if not reason and self.process is not None:  # the machine is up, and so is this
                    reason = "all of its processes were killed"
                vanished = "it vanished: killed, or its machine went down"
                self.outcome = AttemptEnd(KILLED, reason) if reason else AttemptEnd(None, vanished)
        return self.outcome

    def output(self, stream: str) -> BinaryIO | None:
        """Open what it wrote to a stream, or why it could not start; None if there is nothing."""
        refused = self._read("refused") if stream == "stderr" else None
        if refused is not None:
            return BytesIO(f"fairlead: {refused}\n".encode())
        return _open_own(self.path / "task" / stream)

    def forget_front(self, stream: str, most: int) -> None:
        """Give the room of what it wrote first back, so that the last `most` bytes are kept."""
        file = _open_own(self.path / "task" / stream, os.O_RDWR)
        if file is None:
            return
        with file:
            number = file.fileno()
            status = os.fstat(number)
            if status.st_blocks * 512 > most + 2**20 and status.st_size > most:
                # Of whole blocks: the rest of one would read as zeros.
                length = str((status.st_size - most) // status.st_blksize * status.st_blksize)
                punch = ["fallocate", "--punch-hole", "--offset", "0", "--length", length]
                name = f"/proc/self/fd/{number}"
                subprocess.run([*punch, name], check=False, capture_output=True, pass_fds=[number])

    def processes(self) -> list[psutil.Process]:
        """Return its processes, the shell program first."""
        leader = self._leader()
        if leader is None:
            return []
        with suppress(psutil.Error):
            return [leader, *leader.children(recursive=True)]
        return []

    # How it is done

    def _has_ended(self) -> bool:
        """Note how its command ended, if it did."""
        status = STATUS.fullmatch(self._read("task/exit") or "")
        if status is not None:
            self.outcome = AttemptEnd(min(int(status[1]), 255), self._reason_to_stop())
        return status is not None

    def _reason_to_stop(self) -> str:
        return self._why_stopped or self._read("stop") or ""

    def _enforce(self) -> None:
        if self.asked_to_end is None and (reason := self._read("stop")):
            self.stop(reason)  # a worker before this one had asked
        if self.asked_to_end is not None:
            if monotonic() - self.asked_to_end > KILL_AFTER:
                self._signal(signal.SIGKILL)
            return
        if self.time_limit is not None:
            leader = self._leader()
            if leader is not None and _age(leader) > self.time_limit:
                self.stop("time limit")

    def enforce_memory(self) -> None:
        """Have it end where it holds more than it asked for. It reads each of its processes.

        Memory that several of them share counts once.
        """
        if not self.memory or self.outcome is not None or self.asked_to_end is not None:
            return
        processes, mapped, held = self.processes(), 0, 0
        for process in processes:
            with suppress(psutil.Error):
                mapped += process.memory_info().rss
        if mapped <= self.memory:
            return
        for process in processes:  # slower, and less than what is mapped
            with suppress(psutil.Error):
                held += process.memory_full_info().pss
        if held > self.memory:
            self.stop("memory")
            self._signal(signal.SIGKILL)

    def _number(self) -> int | None:
        """Return the process and group number of the shell program, if it is known."""
        if self.process is not None:
            return self.process.pid
        text = (self._read("leader") or self._read("task/pid") or "").strip()
        return int(text) if re.fullmatch("[0-9]{1,9}", text) else None

    def _leader(self) -> psutil.Process | None:
        number = self._number()
        if number is None:
            return None
        try:
            process = psutil.Process(number)
            mark = f"fairlead-attempt={self.path.name}"
            if process.status() != psutil.STATUS_ZOMBIE and mark in _arguments(process):
                return process
        except psutil.Error:
            pass
        return None

    def _is_alive(self) -> bool:
        if self.boot != boot_id():
            return False
        if self.process is not None:
            return self.process.returncode is None
        if self._number() is not None:
            return self._leader() is not None
        # Another worker started it, or was about to; the shell program needs a moment.
        return monotonic() - self.first_looked < KILL_AFTER

    def _signal(self, number: int) -> None:
        processes = self.processes()
        if not processes:
            return
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

    def _end_rest(self) -> None:
        """End what is left of its group where the shell program was killed alone."""
        number = self.process.pid if self.process is not None else self._read("leader")
        if self.boot == boot_id() and number and not psutil.pid_exists(int(number)):
            with suppress(OSError):  # no process of another group can have the number now
                os.killpg(int(number), signal.SIGKILL)

    def _read(self, name: str) -> str | None:
        file = _open_own(self.path / name)
        if file is None:
            return None
        with file:
            return file.read(MOST_READ).decode("utf-8", errors="replace")

    def _write(self, name: str, text: str) -> None:
        """Keep something for the next worker; where the disk is full only this one knows it."""
        with suppress(OSError):
            new = self.path / f"{name}.new"
            new.write_text(text, encoding="utf-8")
            new.rename(self.path / name)


def first_kept(file: BinaryIO, size: int) -> int:
    """Return where what is kept of a file begins; what was before it is a hole."""
    try:
        return min(size, os.lseek(file.fileno(), 0, os.SEEK_DATA))
    except OSError:  # all of it is a hole, or the file system tells nothing of holes
        return 0


def _open_own(path: Path, mode: int = os.O_RDONLY) -> BinaryIO | None:
    """Open a plain file that has this one name; no link, no pipe."""
    try:
        number = os.open(path, mode | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(number)
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
        return os.fdopen(number, "rb" if mode == os.O_RDONLY else "r+b")
    os.close(number)
    return None


def _arguments(process: psutil.Process) -> list[str]:
    """Return what a process was called with; while it is being started it has none yet."""
    latest = monotonic() + STARTED_WITHIN
    while not (arguments := process.cmdline()) and monotonic() < latest:
        sleep(0.001)
    return arguments


def _age(process: psutil.Process) -> float:
    """Return for how many seconds a process is there, whatever was done to the clock."""
    try:
        text = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    began = int(text.rpartition(")")[2].split()[19]) / TICKS
    return clock_gettime(CLOCK_BOOTTIME) - began


def boot_id() -> str:
    """Return which run of the kernel this is."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return str(int(psutil.boot_time()))


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
