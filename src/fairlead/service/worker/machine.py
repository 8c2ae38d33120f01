"""Describe this machine: cores, memory, GPUs, and processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime
from typing import NamedTuple

import psutil

GIB = 2**30
CGROUP = Path("/sys/fs/cgroup")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TICKS = os.sysconf("SC_CLK_TCK")
# Folders that only root can write, because the worker may be root; its PATH may have others.
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin:/usr/lib/wsl/lib"
TIMEOUT = 20.0  # seconds for a program of the system


def take_ignored_signals() -> None:
    """Handle signals that this process ignores, as after ``nohup`` or ``&``, by doing nothing.

    Otherwise tasks would ignore the signals, too, and a shell cannot change this.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def cores() -> float:
    """Return the number of cores that this process may use, by its affinity and cgroup."""
    found = float(len(os.sched_getaffinity(0)))
    quota, _, period = _cgroup_limit("cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        found = min(found, int(quota) / int(period))
    return found


def memory() -> float:
    """Return the GiB of this machine, or the limit of this process's cgroup if less."""
    found = psutil.virtual_memory().total
    limit = _cgroup_limit("memory.max")
    if limit.isdigit():
        found = min(found, int(limit))
    return found / GIB


def gpus() -> list[str]:
    """Return the names of the NVIDIA GPUs by number; none without a driver."""
    try:
        listed = output_of(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in listed.splitlines() if line.strip()]


def _cgroup_limit(name: str) -> str:
    """Return the text of a limit of this process's cgroup; empty if unknown."""
    try:
        return (CGROUP / name).read_text(encoding="ascii").strip()
    except OSError:
        return ""


class ProcessState(NamedTuple):
    """The state of a process, from ``/proc/PID/stat``."""

    state: str  # a letter of the kernel; Z and X mean that it has ended
    threads: int
    # Clock ticks from the boot of the machine until its start. With its number and `boot_id` this
    # identifies the process, which cannot change it.
    began: int

    @property
    def is_over(self) -> bool:
        """Whether all of its threads have ended; some may outlive the first one."""
        return self.state in "ZX" and self.threads <= 1

    @property
    def age(self) -> float:
        """Seconds since its start, independent of changes of the clock."""
        return clock_gettime(CLOCK_BOOTTIME) - self.began / TICKS


def state_of(number: int) -> ProcessState | None:
    """Return the state of a process, or None if no process has this number."""
    try:
        text = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return ProcessState(fields[0], int(fields[17]), int(fields[19]))


def members(number: int) -> list[psutil.Process]:
    """Return the live processes of a session, including uninterruptible ones.

    They include the process group of the leader: no process outside the session can join it.
    """
    found = []
    for each in psutil.pids():
        try:
            if os.getsid(each) != number:
                continue
        except OSError:
            continue
        state = state_of(each)
        if state is not None and not state.is_over:
            with suppress(psutil.Error):
                found.append(psutil.Process(each))
    return found


@cache
def boot_id() -> str:
    """Return the identity of this run of the kernel."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return str(int(psutil.boot_time()))


def output_of(words: Sequence[str], pass_fds: Collection[int] = ()) -> str:
    """Run a program of the system, without the worker's environment; return its output."""
    ran = subprocess.run(
        words,
        env={"PATH": SYSTEM_PATH, "LC_ALL": "C"},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT,
        check=True,
        pass_fds=pass_fds,
    )
    return ran.stdout
