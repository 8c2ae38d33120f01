"""The shared parts of client commands: options, the configuration file, and the connection.

``~/.config/fairlead/config.toml``, or in ``$XDG_CONFIG_HOME``, names the service and the token::

    server = "http://10.0.0.1:8400"
    token-file = "~/.config/fairlead/token"

Options and environment variables override it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

from fairlead.cli.options import parse_pairs
from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import complain, log_on_standard_error
from fairlead.errors import InputError
from fairlead.model.quantity import number_from_text
from fairlead.service.client.plain_client import PlainClient, other_version

Row = dict[str, Any]
Service = Annotated[
    str | None,
    Option(
        "--server",
        metavar="URL",
        help="Address of the service. [default: FAIRLEAD_SERVER, or this machine]",
    ),
]
JobArgument = Annotated[str, Argument(metavar="JOB", help="Id of the job, as printed by submit.")]
JobArguments = Annotated[list[str], Argument(metavar="JOB...", help="Ids of jobs.")]

RAY_PREFIX = "ray:"  # precedes the address of a Ray cluster with a dispatcher
FILE = "config.toml"
SERVER, TOKEN_FILE = "server", "token-file"  # settings in the file


@contextmanager
def client(server: str | None) -> Iterator[PlainClient]:
    """Open a client of a service, or of a dispatcher in Ray.

    An answer without a required field raises the error for a service of another version.
    """
    exchange = None
    if server is not None and server.startswith(RAY_PREFIX):
        log_on_standard_error()
        from fairlead.ray.connection import RayExchange, running_dispatcher

        exchange = RayExchange(running_dispatcher(server.removeprefix(RAY_PREFIX) or None))
        server = None
    # Without a terminal only the failure is reported, not each repeated attempt before it.
    report = complain if sys.stderr.isatty() else lambda _: None
    with PlainClient(server, None, exchange, report) as service:
        try:
            yield service
        except (KeyError, TypeError) as fault:  # a field is missing in the answer
            raise other_version(200, service.url) from fault


def parse_where(texts: list[str] | None) -> dict[str, str] | list[str] | None:
    """Parse ``--where`` into labels or names of servers; raise InputError for a mix."""
    if not texts:
        return None
    if not any("=" in text for text in texts):
        return texts
    if not all("=" in text for text in texts):
        raise InputError("takes labels or names of servers, not both", "--where")
    return parse_pairs(texts, "--where")


def parse_amount(text: str) -> float | str:
    """Parse an amount; return an amount with a unit as text."""
    try:
        return number_from_text(text)
    except ValueError:
        return text


def environment() -> dict[str, str]:
    """Return this process's environment for a job.

    The token is left out. So are names with other characters than letters, digits and underscores,
    as shells export functions, and values that JSON cannot hold or that are very long.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name != "FAIRLEAD_TOKEN"
        and name.replace("_", "a").isalnum()
        and value.encode("utf-8", "replace").decode() == value
        and len(value) < 2**16
    }


def settings_file() -> Path:
    """Return the path of the configuration file, by the XDG specification."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(folder) / "fairlead" / FILE


def apply_settings(words: Sequence[str]) -> None:
    """Set FAIRLEAD_SERVER and FAIRLEAD_TOKEN from the file, unless they are set already.

    The file is ignored if the command's `words` name a server, or FAIRLEAD_SERVER another one than
    the file. Raises InputError for an unknown or invalid setting.
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
    is_server_typed = any(word.partition("=")[0] == "--server" for word in typed)
    if is_server_typed or os.environ.get("FAIRLEAD_SERVER", server) not in ("", server):
        return  # the token is only for the file's service
    if server:
        os.environ["FAIRLEAD_SERVER"] = server
    if token_file and not os.environ.get("FAIRLEAD_TOKEN"):
        from fairlead.service.worker.worker_token import read_token

        os.environ["FAIRLEAD_TOKEN"] = read_token(Path(os.path.expanduser(token_file)))
