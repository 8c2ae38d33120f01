"""Programs of the system that a worker runs for itself."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Sequence

# Folders that only root writes, as the worker may be root; its own PATH may name others.
FOLDERS = "/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin:/usr/lib/wsl/lib"
LONGEST_RUN = 20.0  # seconds


def output_of(words: Sequence[str], pass_fds: Collection[int] = ()) -> str:
    """Run a program of the system, without the worker's environment; return what it wrote.

    Raises
    ------
    OSError, subprocess.SubprocessError
        When it is not there, fails, or takes too long.
    """
    ran = subprocess.run(
        words,
        env={"PATH": FOLDERS, "LC_ALL": "C"},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LONGEST_RUN,
        check=True,
        pass_fds=pass_fds,
    )
    return ran.stdout
