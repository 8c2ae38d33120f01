"""The configuration file of the client commands: the service, the token, and default options.

``~/.config/fairlead/config.toml``, or in ``$XDG_CONFIG_HOME``::

    server = "http://10.0.0.1:8400"
    token-file = "~/.config/fairlead/token"

    [submit]
    memory = "4Gi"

Typed options override those of the file; environment variables override its service and token.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from fairlead.cli.parameters import Option, Parameter
from fairlead.errors import InputError

FILE = "config.toml"
SERVER, TOKEN_FILE = "server", "token-file"
VALUE_TYPES = (str, int, float)
REFUSED = ("--script", "--file", "--weight")


def settings_file() -> Path:
    """Return the path of the configuration file, by the XDG specification."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(folder) / "fairlead" / FILE


def settings_before(
    words: Sequence[str],
    verb: str,
    parameters: Sequence[Parameter] | None,
    verbs: Collection[str],
) -> list[str]:
    """Insert the options that the configuration file has for `verb` before `words`.

    If `parameters` is None, no options are inserted. Sets FAIRLEAD_SERVER and FAIRLEAD_TOKEN if the
    file names them and the environment does not. Raises InputError for unknown settings and for
    tables of verbs that are not in `verbs`.
    """
    path = settings_file()
    if not path.is_file():
        return list(words)
    try:
        settings = _read(path)
        tables = {name: value for name, value in settings.items() if isinstance(value, dict)}
        for name in settings.keys() - {SERVER, TOKEN_FILE, *(tables.keys() & set(verbs))}:
            known = f"{SERVER}, {TOKEN_FILE}, and tables of {', '.join(sorted(verbs))}"
            raise InputError(f"no such setting; there are {known}", name)
        typed = takewhile(lambda word: word != "--", words)
        _set_environment(settings, any(word.partition("=")[0] == "--server" for word in typed))
        table = {} if parameters is None else tables.get(verb, {})
        own = [
            word for name, value in table.items() for word in _words(name, value, parameters or ())
        ]
    except InputError as fault:
        place = f"[{verb}] {fault.place}" if fault.place.startswith("--") else fault.place
        raise InputError(fault.fault, place, fault.source or str(path)) from None
    return [*own, *words]


def _read(path: Path) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except RecursionError:
        raise InputError("is nested too deeply") from None
    except (OSError, ValueError) as fault:
        text = getattr(fault, "strerror", None) or str(fault)
        raise InputError(text) from None


def _set_environment(settings: Mapping[str, object], is_elsewhere: bool) -> None:
    """Set the service and the token, unless the command names another service."""
    server, token_file = (settings.get(name, "") for name in (SERVER, TOKEN_FILE))
    for name, value in ((SERVER, server), (TOKEN_FILE, token_file)):
        if not isinstance(value, str):
            raise InputError("must be text", name)
    if os.environ.get("FAIRLEAD_SERVER", server) not in ("", server) or is_elsewhere:
        return  # the token is only for the file's service
    if server:
        os.environ["FAIRLEAD_SERVER"] = str(server)
    if token_file and not os.environ.get("FAIRLEAD_TOKEN"):
        from fairlead.service.worker.worker_token import read_token

        os.environ["FAIRLEAD_TOKEN"] = read_token(Path(os.path.expanduser(str(token_file))))


def _words(name: str, value: object, parameters: Sequence[Parameter]) -> list[str]:
    """Return a setting as words of a command line: one ``--name=value`` for each value."""
    spelling = f"--{name}"
    if spelling in REFUSED:
        raise InputError("must be typed with each command", spelling)
    found = [
        each
        for each in parameters
        if isinstance(each.declared, Option) and spelling in each.spellings
    ]
    if not found:
        raise InputError("no such option", spelling)
    if found[0].kind is bool:
        if not isinstance(value, bool):
            raise InputError("must be true or false", spelling)
        return [spelling] if value else []
    values = value if isinstance(value, list) and found[0].is_list else [value]
    for each in values:
        if not isinstance(each, VALUE_TYPES) or isinstance(each, bool):
            raise InputError("must be a text or a number", spelling)
    return [f"{spelling}={each}" for each in values]
