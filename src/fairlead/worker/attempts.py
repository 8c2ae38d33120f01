"""One start of a task: a directory, a process group, and what outlives the worker.

A small shell program is between worker and command. It takes the attempt by making a directory,
which only one can, and writes down how the command ended. So a task goes on when its worker is
killed, a worker that comes back finds out all of it, and no attempt runs twice.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time
from typing import Any

import psutil

from fairlead.worker.accounts import Account

# Arguments: a mark that tells this process from others, the directory to go to, the command.
# Everything else is relative to the attempt's own directory. `trap :` is for this shell alone: the
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
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
KILLED = 128 + signal.SIGKILL
CANNOT_START = 126


@dataclass
class Outcome:
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
    """

    key: tuple[int, int, int]
    path: Path
    devices: list[int]
    time_limit: float | None
    memory: float
    boot: str
    process: subprocess.Popen[bytes] | None = None
    outcome: Outcome | None = None
    asked_to_end: float | None = field(default=None)  # by the monotonic clock
    first_looked: float = field(default_factory=monotonic)
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
    ) -> Attempt:
        """Make the directory of an attempt that has none, and have it on disk."""
        path = root / ".".join(map(str, key))
        draft = root / f".{path.name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        spec = {
            "key": key,
            "devices": devices,
            "time_limit": time_limit,
            "memory": memory,
            "boot": boot_id(),
        }
        with (draft / "attempt.json").open("w", encoding="utf-8") as file:
            json.dump(spec, file)
            file.flush()
            os.fsync(file.fileno())
        if account is not None:
            os.chown(draft, account.uid, account.gid)
        draft.rename(path)
        _sync(root)
        return cls(key, path, devices, time_limit, memory, str(spec["boot"]))

    @classmethod
    def failed(cls, root: Path, key: tuple[int, int, int], reason: str) -> Attempt:
        """Return an attempt that could not even be written down; it runs again elsewhere."""
        path = root / ".".join(map(str, key))
        return cls(key, path, [], None, 0.0, "", outcome=Outcome(None, reason))

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
            )
        except (OSError, ValueError, KeyError):
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
                cwd=self.path,
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

    def refuse(self, reason: str) -> None:
        """End an attempt that cannot start."""
        with suppress(OSError):
            (self.path / "stderr").write_text(f"fairlead: {reason}\n", encoding="utf-8")
        self._write("refused", reason)
        self._write("exit", str(CANNOT_START))

    @property
    def has_started(self) -> bool:
        """Whether its command began to run."""
        return (self.path / "started").exists()

    @property
    def is_reported(self) -> bool:
        """Whether the service knows how it ended."""
        return self._is_reported or (self.path / "reported").exists()

    def note_reported(self) -> None:
        """Remember that the service knows how it ended."""
        self._is_reported = True
        with suppress(OSError):
            self._write("reported", "")

    def stop(self, reason: str) -> None:
        """Ask it to end; `look` ends it if it does not."""
        if self.outcome is None and self.asked_to_end is None:
            self._write("stop", reason)
            self.asked_to_end = monotonic()
            self._signal(signal.SIGTERM)

    def look(self) -> Outcome | None:
        """Return how it ended, or None while it runs; enforce its limits."""
        if self.outcome is not None:
            return self.outcome
        if self.process is not None:
            self.process.poll()  # else it stays a zombie
        status = self._read("exit")
        if status.strip().isdigit():
            self.outcome = Outcome(int(status), self._read("refused") or self._read("stop"))
        elif not self._is_alive():
            status = self._read("exit")  # it may have ended just now
            if status.strip().isdigit():
                self.outcome = Outcome(int(status), self._read("refused") or self._read("stop"))
            elif reason := self._read("stop"):
                self.outcome = Outcome(KILLED, reason)
            else:
                self.outcome = Outcome(None, "it vanished: killed, or its machine went down")
        else:
            self._enforce()
        return self.outcome

    def processes(self) -> list[psutil.Process]:
        """Return its processes, the shell program first."""
        leader = self._leader()
        if leader is None:
            return []
        with suppress(psutil.Error):
            return [leader, *leader.children(recursive=True)]
        return []

    # How it is done

    def _enforce(self) -> None:
        if self.asked_to_end is None and (reason := self._read("stop")):
            self.stop(reason)  # a worker before this one had asked
        if self.asked_to_end is not None:
            if monotonic() - self.asked_to_end > KILL_AFTER:
                self._signal(signal.SIGKILL)
            return
        if self.time_limit is not None:
            with suppress(OSError):
                if time() - (self.path / "started").stat().st_mtime > self.time_limit:
                    self.stop("time limit")

    def enforce_memory(self) -> None:
        """Have it end where it holds more than it asked for. It reads each of its processes."""
        if not self.memory or self.outcome is not None or self.asked_to_end is not None:
            return
        held = 0
        for process in self.processes():
            with suppress(psutil.Error):
                held += process.memory_info().rss
        if held > self.memory:
            self.stop("memory")
            self._signal(signal.SIGKILL)

    def _leader(self) -> psutil.Process | None:
        text = self._read("pid").strip()
        if not text.isdigit():
            return None
        try:
            process = psutil.Process(int(text))
            mark = f"fairlead-attempt={self.path.name}"
            if process.status() != psutil.STATUS_ZOMBIE and mark in process.cmdline():
                return process
        except psutil.Error:
            pass
        return None

    def _is_alive(self) -> bool:
        if self.boot != boot_id():
            return False
        if (self.path / "pid").exists():
            return self._leader() is not None
        if self.process is not None:
            return self.process.returncode is None
        # Another worker started it, or was about to; the shell program needs a moment.
        return monotonic() - self.first_looked < KILL_AFTER

    def _signal(self, number: int) -> None:
        processes = self.processes()
        if processes:
            with suppress(OSError):
                os.killpg(processes[0].pid, number)
        for process in processes[1:]:  # those that have left the group
            with suppress(psutil.Error):
                process.send_signal(number)

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def _write(self, name: str, text: str) -> None:
        new = self.path / f"{name}.worker"
        new.write_text(text, encoding="utf-8")
        new.rename(self.path / name)


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
