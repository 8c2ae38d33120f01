"""The configuration file of the client commands: the service and the token.

``~/.config/fairlead/config.toml``, or in ``$XDG_CONFIG_HOME``::

    server = "http://10.0.0.1:8400"
    token-file = "~/.config/fairlead/token"

Options and environment variables override it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from fairlead.errors import InputError

FILE = "config.toml"
SERVER, TOKEN_FILE = "server", "token-file"


def settings_file() -> Path:
    """Return the path of the configuration file, by the XDG specification."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(folder) / "fairlead" / FILE


def apply_settings(words: Sequence[str]) -> None:
    """Set FAIRLEAD_SERVER and FAIRLEAD_TOKEN by the file, for a command with these words.

    They stay if they are set. Raises InputError for other settings.
    """
    path = settings_file()
    if not path.is_file():
        return
    import tomllib

    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except RecursionError:
        raise InputError("is nested too deeply", "", str(path)) from None
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        raise InputError(reason, "", str(path)) from None
    for name, value in settings.items():
        if name not in (SERVER, TOKEN_FILE):
            raise InputError(
                f"no such setting; there are {SERVER} and {TOKEN_FILE}", name, str(path)
            )
        if not isinstance(value, str):
            raise InputError("must be text", name, str(path))
    server, token_file = settings.get(SERVER, ""), settings.get(TOKEN_FILE, "")
    typed = takewhile(lambda word: word != "--", words)
    is_elsewhere = any(word.partition("=")[0] == "--server" for word in typed)
    if os.environ.get("FAIRLEAD_SERVER", server) not in ("", server) or is_elsewhere:
        return  # the token is only for the file's service
    if server:
        os.environ["FAIRLEAD_SERVER"] = server
    if token_file and not os.environ.get("FAIRLEAD_TOKEN"):
        from fairlead.service.worker.worker_token import read_token

        os.environ["FAIRLEAD_TOKEN"] = read_token(Path(os.path.expanduser(token_file)))
