"""``fairlead completion``: complete verbs, options, jobs and users in a shell."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from fairlead.cli.parameters import Argument, Option, Parameter, parameters_of
from fairlead.cli.streams import emit, emit_lines
from fairlead.errors import FairleadError, InputError
from fairlead.service.client import calls
from fairlead.service.client.calls import Call

WORDS = "words"  # in place of a shell: print the candidates for the last word
PATIENCE = 2  # whole seconds to wait for a service
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
}


def completion(
    shell: Annotated[
        str, Argument(metavar="SHELL", help=f"Name of the shell: {' or '.join(SCRIPTS)}.")
    ],
    words: Annotated[
        list[str] | None,
        Argument(metavar="-- WORD...", help="Words to complete; given by the script itself."),
    ] = None,
) -> None:
    """Print a script that completes verbs, options and names in a shell.

    \b
    Example:
      fairlead completion bash >> ~/.bashrc
    """
    if shell == WORDS:
        emit_lines(candidates(words or [""]))
        return
    if shell not in SCRIPTS:
        raise InputError(f"must be {' or '.join(SCRIPTS)}, not {shell!r:.60}", "SHELL")
    emit(SCRIPTS[shell])


def candidates(words: Sequence[str]) -> list[str]:
    """Return the completions of the last of the words that follow ``fairlead``, sorted."""
    from fairlead.cli._application import FAIRLEAD, Group, find_verb, installed_verbs

    *before, prefix = words
    if "--" in before:
        return []
    _, found, rest = find_verb(before)
    if isinstance(found, Group):
        added = [name for name in installed_verbs() if " " not in name]
        names = [*found.verbs, *(added if found is FAIRLEAD else ()), "--help"]
        return [] if rest else _starting_with(prefix, names)
    parameters = parameters_of(found.load())
    options = [each for each in parameters if isinstance(each.declared, Option)]
    if prefix.startswith("-"):
        return _starting_with(prefix, ["--help", *(n for each in options for n in each.spellings)])
    if rest:
        for each in options:
            if rest[-1] in each.spellings and each.kind is not bool:
                return _starting_with(prefix, _values(each))
    arguments = [each for each in parameters if isinstance(each.declared, Argument)]
    return _starting_with(prefix, [value for each in arguments for value in _values(each)])


def _starting_with(prefix: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(prefix)})


def _values(parameter: Parameter) -> list[str]:
    """Return the known values of a parameter by its metavar: jobs or users of the service."""
    match parameter.declared.metavar.removesuffix("..."):
        case "JOB":
            return [row["id"] for row in _ask(calls.list_jobs(None, is_all=False), "jobs")]
        case "USER":
            return [row["name"] for row in _ask(calls.USERS, "users")]
    return []


def _ask(call: Call, field: str) -> list[dict[str, Any]]:
    """Return the rows of a service's answer; none if no service answers."""
    from fairlead.cli.clients.service_connection import apply_settings, client

    signal.alarm(PATIENCE)  # ends this process if it still waits for the service then
    try:
        apply_settings(())
        with client(None) as service:
            rows: list[dict[str, Any]] = service.ask(call)[field]
            return rows
    except FairleadError:
        return []
