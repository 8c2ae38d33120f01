"""The command ``fairlead``: find a verb, run it, and turn every failure into an exit status.

Exit statuses: 0, 1 (it ran, and the answer is no: no certified answer was found), 2 (unusable
input: one line on standard error), 130 (interrupted), 141 (standard output was closed).

Only the requested verb is imported, and it imports solvers and documents inside its function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

from fairlead.cli._command_line import Parser, UsageFault, alike, help_of, read_words
from fairlead.cli.main import INTERRUPTED
from fairlead.cli.parameters import Option, Parameter, parameters_of
from fairlead.cli.streams import (
    ReaderGoneError,
    StoppedError,
    complain,
    emit,
    fault_of,
    log_on_standard_error,
    silence_standard_output,
)
from fairlead.errors import CertificateError, FairleadError, InputError

NO_ANSWER = 1
UNUSABLE_INPUT = 2
READER_GONE = 141


class Verb(NamedTuple):
    """A verb of the command line."""

    place: str  # ``package.module:function``; a leading dot is for `fairlead.cli`
    summary: str = ""  # for the help; the first line of the function's docstring when empty

    def load(self) -> Callable[..., int | None]:
        """Import the function; raise InputError if another package's cannot be imported."""
        module, _, function = self.place.partition(":")
        try:
            found: Callable[..., int | None] = getattr(
                import_module(module, "fairlead.cli"), function
            )
        except Exception as fault:  # another package's module may raise anything
            if module.startswith("."):
                raise
            text = " ".join(str(fault).split())
            raise InputError(
                f"cannot be loaded: {type(fault).__name__}: {text}", self.place
            ) from None
        return found


class Group(NamedTuple):
    """Verbs below a word."""

    verbs: Mapping[str, Verb | Group]
    summary: str
    options: tuple[Parameter, ...] = ()
    epilog: str = ""


COMPUTING = {
    "allocate": Verb(".allocate:allocate", "Divide the cluster by one mechanism."),
    "audit": Verb(".audit:audit", "Check which fairness properties hold."),
    "compare": Verb(".compare:compare", "Divide the cluster by several mechanisms, side by side."),
    "dynamic": Verb(".dynamic:dynamic", "Divide among users that arrive one by one."),
    "explain": Verb(".explain:explain", "Explain why a job waits."),
    "fill": Verb(".fill:fill", "Fill the servers with whole tasks."),
    "mechanisms": Verb(".mechanisms:mechanisms", "List the mechanisms, and what is proved."),
    "simulate": Verb(".simulate:simulate", "Replay a trace under several policies."),
    "trade-off": Verb(".trade_off:trade_off", "Show what alpha-fairness costs."),
}
SERVING = {
    "serve": Verb(".serve:serve", "Run the scheduler as a service."),
    "worker": Verb(".worker:worker", "Run tasks of a service on this machine."),
    "token": Verb(".serve:token", "Add, list and remove tokens of a service."),
}
ASKING = {  # clients of a service; they answer at once, and import little
    "submit": Verb(".submit:submit", "Submit a command, to start in its user's turn."),
    "jobs": Verb(".jobs:jobs", "List jobs of a running service."),
    "cancel": Verb(".jobs:cancel", "Cancel jobs, and end their running tasks."),
    "hold": Verb(".jobs:hold", "Start no more tasks of jobs."),
    "release": Verb(".jobs:release", "Let held jobs start."),
    "modify": Verb(".submit:modify", "Change the request of a waiting job."),
    "logs": Verb(".jobs:logs", "Print the output of a task."),
    "wait": Verb(".jobs:wait", "Wait until jobs are over."),
    "when": Verb(".jobs:when", "Show when a job starts, as far as known."),
    "users": Verb(".cluster:users", "List users of a service, or weigh one."),
    "servers": Verb(".cluster:servers", "List servers of a running service."),
    "shares": Verb(".cluster:shares", "Show users' shares beside the fair ones."),
    "drain": Verb(".cluster:drain", "Start no more tasks on a server."),
    "history": Verb(".cluster:history", "Show hours used by month and user."),
}
RAY = {
    "start": Verb(".ray:start", "Start a dispatcher of fair shares."),
    "stop": Verb(".ray:stop", "End the dispatcher; running tasks go on."),
    "status": Verb(".ray:status", "Show the dispatcher and its policy."),
    "submit": Verb(".ray:submit", "Run a driver when it is your turn."),
    "shares": Verb(".ray:shares", "Show users' shares beside the fair ones."),
    "explain": Verb(".ray:explain", "Explain why a job waits."),
    "jobs": Verb(".ray:list_jobs", "List jobs of a Ray cluster."),
    "cancel": Verb(".ray:cancel", "Cancel jobs, and end their running tasks."),
    "users": Verb(".ray:users", "List users, or weigh one."),
    "servers": Verb(".ray:servers", "List Ray's nodes and their use."),
}
TRACE = {
    "info": Verb(".trace:info", "Describe a trace."),
    "generate": Verb(".trace:generate", "Generate a day like one of Google's in 2011."),
    "convert": Verb(".trace:convert", "Turn a trace into another format, or into a problem file."),
}
VERSION = Parameter("version", Option("--version", help="Show the version."))
FAIRLEAD = Group(
    {
        **COMPUTING,
        **SERVING,
        **ASKING,
        "ray": Group(RAY, "Fair shares inside a Ray cluster."),
        "trace": Group(TRACE, "Trace files: logs of real systems."),
    },
    "Divide a heterogeneous cluster fairly among its users, and prove the answer.",
    (VERSION,),
    "\b\nExample:\n  fairlead allocate cluster.yaml -m ps-dsf",
)
QUIET = (*ASKING, "explain")  # verbs without logging, which takes a while to import


def installed_verbs() -> dict[str, Verb]:
    """Return the verbs of other packages' entry points; ours keep their names."""
    from importlib.metadata import entry_points

    found = {
        point.name: Verb(f"{point.module}:{point.attr}")
        for point in entry_points(group="fairlead.verbs")
    }
    return {name: verb for name, verb in sorted(found.items()) if name not in FAIRLEAD.verbs}


def run_command(words: Sequence[str]) -> int:
    """Run one command, the words after the program's name, and return its exit status."""
    if not (words and words[0] in QUIET):
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
        complain(fault_of(error))
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
            from fairlead.cli.options import with_address

            rest = with_address(rest)
        verb = _load(path, found, rest)
        values = read_words(verb, rest)
    except UsageFault as fault:
        raise UsageFault(f"{fault} (see {path} --help)") from None
    if values is None:
        emit(help_of(path, [verb.__doc__ or ""], "Arguments", {}, parameters_of(verb)))
    else:
        verb(**values)


def _load(path: str, found: Verb, rest: Sequence[str]) -> Callable[..., int | None]:
    """Import a verb's function, or that of the verb which a package adds for one of the options.

    Such a verb is named after ours and the option, as ``audit --random``.
    """
    verb = found.load()
    words = path.removeprefix("fairlead ")
    if words in QUIET:  # these answer at once, and their words may be a user's command
        return verb
    known = {"--help", *(name for each in parameters_of(verb) for name in each.spellings)}
    for option in (word.partition("=")[0] for word in rest if word.startswith("--")):
        if option not in known:
            added = installed_verbs().get(f"{words} {option}")
            if added is not None:
                return added.load()
    return verb


def find_verb(words: Sequence[str]) -> tuple[str, Verb | Group, list[str]]:
    """Return the full name of the verb or group that the first words name, it, and the rest."""
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
    """Print the help of a group, or the version; raise `UsageFault` for other words."""
    if group is FAIRLEAD:
        group = group._replace(verbs={**group.verbs, **installed_verbs()})
    parser = Parser(group.options)
    parser.disable_interspersed_args()
    given, left = parser.parse_args(list(rest))
    if given.help or (VERSION in group.options and not rest):
        rows = {name: _summary(entry) for name, entry in group.verbs.items()}
        texts = [group.summary, group.epilog]
        emit(help_of(path, texts, "Commands", rows, group.options))
    elif VERSION in group.options and given.version:
        from fairlead import __version__
        from fairlead.scheduler.build import how_it_runs

        emit(f"fairlead {__version__} ({how_it_runs()})\n")
    elif left:
        raise UsageFault(f"no such command {left[0]!r}{alike(left[0], group.verbs)}")
    else:
        raise UsageFault("missing command")


def _summary(entry: Verb | Group) -> str:
    """Return the summary of a verb or a group; one that cannot be loaded hides no other."""
    if entry.summary or isinstance(entry, Group):
        return entry.summary
    try:
        return (entry.load().__doc__ or "").strip().partition("\n")[0]
    except InputError as fault:
        return str(fault)
