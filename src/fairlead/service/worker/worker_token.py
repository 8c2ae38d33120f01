"""Keep a token from other accounts and processes: in its file, and in the worker's memory."""

from __future__ import annotations

import ctypes
import os
import re
import stat
import sys
from pathlib import Path

from fairlead.errors import InputError

TOKEN = re.compile(r"[\x21-\x7e]+")
LONGEST = 4096  # bytes of a token file that are read
OPTION = "--token-file"
PR_SET_DUMPABLE = 4


def read_token(path: Path) -> str:
    """Return the token in the first line of a file."""
    try:
        # Opened without blocking, as the path may be a pipe.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise InputError("must be a file", OPTION, str(path))
            if found.st_mode & 0o077 or found.st_uid not in (0, os.geteuid()):
                fault = "other accounts can read it; it must be this account's, with mode 600"
                raise InputError(fault, OPTION, str(path))
            lines = file.read(LONGEST).splitlines()
    except OSError as fault:
        raise InputError(fault.strerror or str(fault), OPTION, str(path)) from None
    token = lines[0].decode("latin-1").strip() if lines else ""
    if not TOKEN.fullmatch(token):
        raise InputError("its first line must be a token", OPTION, str(path))
    return token


def hide_memory() -> str:
    """Hide this process's memory and environment from others of its account (Linux).

    Call it early: until then a process of the same account can read both. Return the error of the
    system, or an empty text.
    """
    if sys.platform != "linux":
        return ""
    failed = ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    return os.strerror(ctypes.get_errno()) if failed else ""
