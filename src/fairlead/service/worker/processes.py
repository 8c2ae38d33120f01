"""Processes as the kernel tells of them: which one a number means, and which belong together."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime
from typing import NamedTuple

import psutil

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TICKS = os.sysconf("SC_CLK_TCK")


class ProcessState(NamedTuple):
    """A process as it is now.

    Attributes
    ----------
    state : str
        A letter of the kernel's; Z and X are those of a process that ended.
    threads : int
    began : int
        Clock ticks from the boot of the machine until it began; with its number and the boot's it
        tells the process from all others, and the process itself cannot change it.
    """

    state: str
    threads: int
    began: int

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs any more. Threads may outlive the first one."""
        return self.state in "ZX" and self.threads <= 1

    @property
    def age(self) -> float:
        """For how many seconds it is there, whatever was done to the clock."""
        return clock_gettime(CLOCK_BOOTTIME) - self.began / TICKS


def state_of(number: int) -> ProcessState | None:
    """Return what a process is, or None where there is none of this number."""
    try:
        text = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return ProcessState(fields[0], int(fields[17]), int(fields[19]))


def members(number: int) -> list[psutil.Process]:
    """Return the live processes of a session, uninterruptible ones among them.

    The group of a session's leader is within the session, as no process enters another's group.
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
    """Return which run of the kernel this is."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return str(int(psutil.boot_time()))
