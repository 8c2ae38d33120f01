"""What a machine has: cores, memory, GPUs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psutil

from fairlead.service.worker.programs import output_of

GIB = 2**30
CGROUP = Path("/sys/fs/cgroup")


def cores() -> float:
    """Return the cores that this process may use: its affinity, or its group's quota if less."""
    have = float(len(os.sched_getaffinity(0)))
    quota, _, period = _group_limit("cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        have = min(have, int(quota) / int(period))
    return have


def memory() -> float:
    """Return GiB: the machine's, or the limit of this process's group if less."""
    have = psutil.virtual_memory().total
    limit = _group_limit("memory.max")
    if limit.isdigit():
        have = min(have, int(limit))
    return have / GIB


def gpus() -> list[str]:
    """Return the names of NVIDIA's GPUs, in the order of their numbers; none without a driver."""
    try:
        listed = output_of(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in listed.splitlines() if line.strip()]


def _group_limit(name: str) -> str:
    try:
        return (CGROUP / name).read_text(encoding="ascii").strip()
    except OSError:
        return ""
