"""The command ``fairlead``: find a verb, run it, and turn every failure into an exit status.

Exit statuses:

- 0: success
- 1: no certified answer, or a property, limit or job failed
- 2: unusable input, with one line on standard error
- 130: interrupted
- 141: the reader of standard output has gone

To start fast, only the requested verb is imported, and it imports solvers inside its function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import takewhile
from typing import NamedTuple

from fairlead.cli.main import INTERRUPTED
from fairlead.cli.parameters import (
    Option,
    Parameter,
    Parser,
    UsageFault,
    alike,
    help_of,
    parameters_of,
    parse_words,
)
from fairlead.cli.streams import (
    ReaderGoneError,
    StoppedError,
    complain,
    describe_system_error,
    emit,
    log_on_standard_error,
    silence_standard_output,
)
from fairlead.errors import CertificateError, FairleadError, InputError

NO_ANSWER = 1
UNUSABLE_INPUT = 2
READER_GONE = 141


class Verb(NamedTuple):
    """A verb of the command line."""

    function: str  # ``package.module:function``; ``.module`` is in `fairlead.cli`
    summary: str = ""  # in lists of verbs; if empty, the first line of the docstring

    def load(self) -> Callable[..., int | None]:
        """Import the verb's function; raise InputError if another package's module fails."""
        module, _, name = self.function.partition(":")
        try:
            found: Callable[..., int | None] = getattr(import_module(module, "fairlead.cli"), name)
        except Exception as fault:  # another package's module may raise anything
            if module.startswith("."):
                raise
            text = " ".join(str(fault).split())
            raise InputError(
                f"cannot be loaded: {type(fault).__name__}: {text}", self.function
            ) from None
        return found


class Group(NamedTuple):
    """A word before further verbs, such as ``ray``."""

    verbs: Mapping[str, Verb | Group]
    summary: str


COMPUTING = {
    "allocate": Verb(".mechanisms:allocate", "Divide the cluster by one mechanism."),
    "audit": Verb(".audit:audit", "Check which fairness properties hold."),
    "compare": Verb(".mechanisms:compare", "Divide the cluster by several mechanisms."),
    "dynamic": Verb(
        ".mechanisms:dynamic", "Divide the cluster among users that arrive one by one."
    ),
    "explain": Verb(".simulate:explain", "Explain why a job waits."),
    "fill": Verb(".mechanisms:fill", "Fill the servers with whole tasks."),
    "mechanisms": Verb(
        ".mechanisms:mechanisms", "List the mechanisms and their proved properties."
    ),
    "simulate": Verb(".simulate:simulate", "Replay a trace under several policies."),
}
SERVING = {
    "serve": Verb(".serve:serve", "Run the scheduler as a service."),
    "worker": Verb(".worker:worker", "Run tasks of a service on this machine."),
    "token": Verb(".serve:token", "Add, list and remove tokens of a service."),
    "completion": Verb(".completion:completion", "Print a script for completion in a shell."),
}
CLIENTS = {  # clients of a running service; they import little, to start fast
    "submit": Verb(".clients.submit:submit", "Submit a command as a job."),
    "run": Verb(".clients.submit:run", "Run a command on the cluster, and print its output."),
    "jobs": Verb(".clients.jobs:jobs", "List jobs of a running service."),
    "cancel": Verb(".clients.jobs:cancel", "Cancel jobs, and end their running tasks."),
    "hold": Verb(".clients.jobs:hold", "Hold jobs: start no more of their tasks."),
    "release": Verb(".clients.jobs:release", "Release held jobs."),
    "modify": Verb(".clients.submit:modify", "Change the request of a waiting job."),
    "logs": Verb(".clients.jobs:logs", "Print the output of a task."),
    "wait": Verb(".clients.jobs:wait", "Wait until jobs are over."),
    "when": Verb(".clients.jobs:when", "Forecast when a job starts."),
    "users": Verb(".clients.cluster:users", "List users of a service, or set a weight."),
    "servers": Verb(".clients.cluster:servers", "List servers of a running service."),
    "shares": Verb(".clients.cluster:shares", "Compare users' shares with the fair ones."),
    "top": Verb(".clients.top:top", "Show shares, servers and jobs live."),
    "what-if": Verb(
        ".clients.cluster:what_if", "Compute shares under other weights, servers or quotas."
    ),
    "drain": Verb(".clients.cluster:drain", "Drain a server: start no more tasks on it."),
    "history": Verb(
        ".clients.cluster:history", "Show core-, GiB- and GPU-hours by month and user."
    ),
}
RAY = {
    "start": Verb(".clients.ray:start", "Start the dispatcher, which decides where tasks start."),
    "stop": Verb(".clients.ray:stop", "Stop the dispatcher; running tasks go on."),
    "status": Verb(".clients.ray:status", "Show the dispatcher and its policy."),
    "submit": Verb(".clients.ray:submit", "Queue a driver, and run it when its user's turn comes."),
    "shares": Verb(".clients.ray:shares", "Compare users' shares with the fair ones."),
    "explain": Verb(".clients.ray:explain", "Explain why a job waits."),
}
TRACE = {
    "info": Verb(".trace:info", "Describe a trace."),
    "generate": Verb(".trace:generate", "Generate a day like one of Google's in 2011."),
    "audit": Verb(".trace_audit:audit", "Compare users' shares in a log with the fair ones."),
    "convert": Verb(".trace:convert", "Convert a trace, also into a problem file."),
}
VERSION = Parameter("version", Option("--version", help="Show the version."))
FAIRLEAD = Group(
    {
        **COMPUTING,
        **SERVING,
        **CLIENTS,
        "ray": Group(RAY, "Share a Ray cluster fairly."),
        "trace": Group(TRACE, "Describe, convert, generate and audit traces."),
    },
    "Divide a heterogeneous cluster fairly among its users, and prove the answer.\n\n"
    "\b\nExample:\n  fairlead allocate cluster.yaml -m ps-dsf",
)
WITHOUT_LOGGING = (*CLIENTS, "explain")  # `logging` is slow to import


def installed_verbs() -> dict[str, Verb]:
    """Return the verbs of other packages' entry points, except names of our own verbs."""
    from importlib.metadata import entry_points

    found = {
        point.name: Verb(f"{point.module}:{point.attr}")
        for point in entry_points(group="fairlead.verbs")
    }
    return {name: verb for name, verb in sorted(found.items()) if name not in FAIRLEAD.verbs}


def run_command(words: Sequence[str]) -> int:
    """Run one command, the words after the program's name, and return its exit status."""
    if not (words and words[0] in WITHOUT_LOGGING):
        log_on_standard_error()
    try:
        _run(words)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except CertificateError as error:
        complain(str(error))
        return NO_ANSWER
    except FairleadError as error:
        complain(str(error))
        return UNUSABLE_INPUT
    except (OSError, MemoryError, OverflowError) as error:
        complain(describe_system_error(error))
        return UNUSABLE_INPUT
    except ReaderGoneError:
        silence_standard_output()
        return READER_GONE
    except StoppedError as stopped:
        complain(str(stopped))
        return INTERRUPTED
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    return 0


def _run(words: Sequence[str]) -> None:
    path, found, rest = find_verb(words)
    try:
        if isinstance(found, Group):
            _show_group(path, found, rest)
            return
        if "--ray" in rest:
            from fairlead.cli.options import with_ray_address

            rest = with_ray_address(rest)
        verb = _load(path, found, rest)
        values = parse_words(verb, _prepare(path, verb, rest))
    except UsageFault as fault:
        raise UsageFault(f"{fault} (see {path} --help)") from None
    if values is None:
        emit(help_of(path, verb.__doc__ or "", "Arguments", {}, parameters_of(verb)))
    else:
        verb(**values)


def _load(path: str, found: Verb, rest: Sequence[str]) -> Callable[..., int | None]:
    """Import the function of a verb.

    Another package may add an option to a verb by an entry point whose name is the verb and the
    option, such as ``audit --random``; a command with this option calls the entry point instead.
    """
    verb = found.load()
    words = path.removeprefix("fairlead ")
    if words in WITHOUT_LOGGING:  # a client's, whose further words may be a command of the user
        return verb
    known = {"--help", *(name for each in parameters_of(verb) for name in each.spellings)}
    for option in (word.partition("=")[0] for word in rest if word.startswith("--")):
        if option not in known:
            added = installed_verbs().get(f"{words} {option}")
            if added is not None:
                return added.load()
    return verb


def _prepare(path: str, verb: Callable[..., object], words: Sequence[str]) -> Sequence[str]:
    """Apply the configuration file to a client's command, and return its words.

    The options of a script come before the words of ``submit``.
    """
    name = path.removeprefix("fairlead ")
    typed = {word.partition("=")[0] for word in takewhile(lambda word: word != "--", words)}
    if name not in WITHOUT_LOGGING or "--help" in typed:
        return words
    if name == "submit":
        parameters = parameters_of(verb)
        script = Parser(parameters).parse_args(list(words))[0].script
        if script is not None:
            from fairlead.cli.clients.job_script import prepend_directives

            words = prepend_directives(words, script, parameters)
    from fairlead.cli.clients.service_connection import apply_settings

    apply_settings(words)
    return words


def find_verb(words: Sequence[str]) -> tuple[str, Verb | Group, list[str]]:
    """Find the verb or group that the first words name.

    Returns its full name, such as ``fairlead ray start``, the verb or group, and the later words.
    """
    path, found, rest = "fairlead", FAIRLEAD, list(words)
    while rest and rest[0] in found.verbs:
        word = rest.pop(0)
        path, entry = f"{path} {word}", found.verbs[word]
        if isinstance(entry, Verb):
            return path, entry, rest
        found = entry
    if found is FAIRLEAD and rest and not rest[0].startswith("-"):
        added = installed_verbs().get(rest[0])
        if added is not None:
            return f"{path} {rest[0]}", added, rest[1:]
    return path, found, rest


def _show_group(path: str, group: Group, rest: Sequence[str]) -> None:
    """Print a group's help, or the version; raise `UsageFault` for other words."""
    is_top = group is FAIRLEAD
    verbs = {**group.verbs, **(installed_verbs() if is_top else {})}
    options = [VERSION] if is_top else []
    parser = Parser(options)
    parser.disable_interspersed_args()
    given, left = parser.parse_args(list(rest))
    if given.help or (is_top and not rest):
        rows = {name: _summary(entry) for name, entry in verbs.items()}
        emit(help_of(path, group.summary, "Commands", rows, options))
    elif is_top and given.version:
        from fairlead import __version__
        from fairlead.compiled import how_it_runs

        emit(f"fairlead {__version__} ({how_it_runs()})\n")
    elif left:
        raise UsageFault(f"no such command {left[0]!r}{alike(left[0], verbs)}")
    else:
        raise UsageFault("missing command")


def _summary(entry: Verb | Group) -> str:
    """Return a verb's or group's summary, or the reason why the verb cannot be loaded."""
    if entry.summary or isinstance(entry, Group):
        return entry.summary
    try:
        return (entry.load().__doc__ or "").strip().partition("\n")[0]
    except InputError as fault:
        return str(fault)
