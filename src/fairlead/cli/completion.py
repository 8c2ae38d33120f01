"""``fairlead completion``: completion of verbs, options, jobs, users and servers in shells."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

from fairlead.cli.parameters import Argument, Option, Parameter, parameters_of
from fairlead.cli.streams import emit, emit_lines
from fairlead.errors import FairleadError, InputError
from fairlead.service.client import calls
from fairlead.service.client.calls import Call

WORDS = "words"  # in place of a shell: print what may follow
PATIENCE = 2  # whole seconds for a service
BASH = """\
_fairlead() {
    local IFS=$'\\n'
    COMPREPLY=($(fairlead completion words -- "${COMP_WORDS[@]:1:$COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _fairlead fairlead
"""
SCRIPTS = {
    "bash": BASH,
    "zsh": (
        "(( $+functions[compdef] )) || { autoload -U compinit && compinit; }\n"
        f"autoload -U +X bashcompinit && bashcompinit\n{BASH}"
    ),
    "fish": (
        "complete -c fairlead -a '(fairlead completion words -- "
        '(commandline -opc)[2..-1] "$(commandline -ct)" 2>/dev/null)\'\n'
    ),
}


def completion(
    shell: Annotated[str, Argument(metavar="SHELL", help=f"{', '.join(SCRIPTS)}.")],
    words: Annotated[
        list[str] | None, Argument(metavar="-- WORD...", help="Of the shell's own request.")
    ] = None,
) -> None:
    """Print a script that completes the words of fairlead in a shell.

    \b
    Example:
      fairlead completion bash >> ~/.bashrc
    """
    if shell == WORDS:
        emit_lines(candidates(words or [""]))
        return
    if shell not in SCRIPTS:
        raise InputError(f"must be {', '.join(SCRIPTS)}, not {shell!r:.60}", "SHELL")
    emit(SCRIPTS[shell])


def candidates(words: Sequence[str]) -> list[str]:
    """Return what the last of the words after ``fairlead`` may become, sorted."""
    from fairlead.cli._application import FAIRLEAD, Group, find_verb, installed_verbs

    *before, begun = words
    if "--" in before:
        return []
    _, found, rest = find_verb(before)
    if isinstance(found, Group):
        added = [name for name in installed_verbs() if " " not in name]
        names = [*found.verbs, *(added if found is FAIRLEAD else ()), "--help"]
        return [] if rest else _beginning(begun, names)
    parameters = parameters_of(found.load())
    options = [each for each in parameters if isinstance(each.declared, Option)]
    if begun.startswith("-"):
        return _beginning(begun, ["--help", *(n for each in options for n in each.spellings)])
    if rest:
        for each in options:
            if rest[-1] in each.spellings and each.kind is not bool:
                return _beginning(begun, _values(each))
    arguments = [each for each in parameters if isinstance(each.declared, Argument)]
    return _beginning(begun, [value for each in arguments for value in _values(each)])


def _beginning(begun: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(begun)})


def _values(parameter: Parameter) -> list[str]:
    """Return known values of a parameter, by the name of its value; none for other kinds."""
    find = KINDS.get(parameter.declared.metavar.removesuffix("..."))
    return [] if find is None else find()


def _jobs() -> list[str]:
    return [row["id"] for row in _ask(calls.list_jobs(None, is_all=False), "jobs")]


def _users() -> list[str]:
    return [row["name"] for row in _ask(calls.USERS, "users")]


def _servers() -> list[str]:
    return [row["name"] for row in _ask(calls.SERVERS, "servers")]


def _places() -> list[str]:
    rows = _ask(calls.SERVERS, "servers")
    labels = {f"{key}={value}" for row in rows for key, value in row["labels"].items()}
    return [*labels, *(row["name"] for row in rows)]


def _mechanisms() -> list[str]:
    from fairlead.mechanisms.catalogue import all_mechanisms

    return [row.name for row in all_mechanisms()]


def _policies() -> list[str]:
    from fairlead.scheduler.policies import ROWS

    return list(ROWS)


def _ask(call: Call, field: str) -> list[dict[str, Any]]:
    """Return the rows of a service's answer; none where there is no service."""
    from fairlead.cli._application import WITHOUT_LOGGING
    from fairlead.cli._client import client
    from fairlead.cli._settings import settings_before

    signal.alarm(PATIENCE)  # ends this process
    try:
        settings_before((), "completion", None, WITHOUT_LOGGING)  # sets the service and the token
        with client(None) as service:
            rows: list[dict[str, Any]] = service.ask(call)[field]
            return rows
    except FairleadError:
        return []


KINDS: dict[str, Callable[[], list[str]]] = {
    "JOB": _jobs,
    "USER": _users,
    "SERVER": _servers,
    "KEY=VALUE": _places,
    "MECHANISM": _mechanisms,
    "POLICY": _policies,
}
