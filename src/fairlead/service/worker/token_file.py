"""Read the worker's token from a file that other accounts cannot read."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from fairlead.errors import InputError

TOKEN = re.compile(r"[\x21-\x7e]+")
LONGEST = 4096  # bytes of a token file that are read
OPTION = "--token-file"


def read_token(path: Path) -> str:
    """Return the token in the first line of a file.

    Raises
    ------
    InputError
        When other accounts can read the file, it cannot be read, or has no token.
    """
    try:
        # At once, as a pipe would hold the worker up.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise InputError("must be a file", OPTION, str(path))
            if found.st_mode & 0o077 or found.st_uid not in (0, os.geteuid()):
                fault = "other accounts can read it; let its mode be 600, and the worker its owner"
                raise InputError(fault, OPTION, str(path))
            lines = file.read(LONGEST).splitlines()
    except OSError as fault:
        raise InputError(fault.strerror or str(fault), OPTION, str(path)) from None
    token = lines[0].decode("latin-1").strip() if lines else ""
    if not TOKEN.fullmatch(token):
        raise InputError("its first line must be a token", OPTION, str(path))
    return token
