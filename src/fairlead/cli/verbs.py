"""The verbs of the command, and where their functions are; only the asked verb is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NamedTuple

from fairlead.cli.parameters import Option, Parameter
from fairlead.errors import InputError


class Verb(NamedTuple):
    """A verb.

    Attributes
    ----------
    place : str
        Module and function, as ``package.module:function``; a leading dot is for `fairlead.cli`.
    summary : str
        One line for the help; when empty, the first line of the function's docstring.
    """

    place: str
    summary: str = ""

    def load(self) -> Callable[..., int | None]:
        """Import the function; it returns an exit status, or None for 0.

        Raises
        ------
        InputError
            When another package's function cannot be imported.
        """
        module, _, function = self.place.partition(":")
        try:
            found: Callable[..., int | None] = getattr(
                import_module(module, "fairlead.cli"), function
            )
        except Exception as fault:  # whatever another package's module raises
            if module.startswith("."):
                raise
            text = " ".join(str(fault).split())
            raise InputError(
                f"cannot be loaded: {type(fault).__name__}: {text}", self.place
            ) from None
        return found

    def describe(self) -> str:
        """Return the summary."""
        return self.summary or (self.load().__doc__ or "").strip().partition("\n")[0]


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
    "dynamic": Verb(".dynamic:dynamic", "Divide among users who arrive one by one."),
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
ASKING = {  # verbs that ask a service; they answer at once, and import little
    "submit": Verb(".jobs:submit", "Submit a command, to start in its user's turn."),
    "jobs": Verb(".jobs:jobs", "List jobs of a running service."),
    "cancel": Verb(".jobs:cancel", "Cancel jobs, and end their running tasks."),
    "hold": Verb(".jobs:hold", "Start no more tasks of jobs."),
    "release": Verb(".jobs:release", "Let held jobs start."),
    "modify": Verb(".jobs:modify", "Change what a job that waits asks for."),
    "logs": Verb(".jobs:logs", "Print what a task wrote."),
    "wait": Verb(".jobs:wait", "Wait until jobs are over."),
    "when": Verb(".jobs:when", "Show when a job starts, as far as known."),
    "users": Verb(".cluster:users", "List users of a service, or weigh one."),
    "servers": Verb(".cluster:servers", "List servers of a running service."),
    "shares": Verb(".cluster:shares", "Show what users hold, and what is fair."),
    "drain": Verb(".cluster:drain", "Start no more tasks on a server."),
    "history": Verb(".cluster:history", "Show hours used by month and user."),
}
RAY = {
    "start": Verb(".ray:start", "Start a dispatcher of fair shares."),
    "stop": Verb(".ray:stop", "End the dispatcher; what it started goes on."),
    "status": Verb(".ray:status", "Show the dispatcher and its policy."),
    "submit": Verb(".ray:submit", "Run a driver when it is your turn."),
    "shares": Verb(".ray:shares", "Show what users hold, and what is fair."),
    "explain": Verb(".ray:explain", "Explain why a job waits."),
    "jobs": Verb(".ray:list_jobs", "List jobs of a Ray cluster."),
    "cancel": Verb(".ray:cancel", "Cancel jobs, and end their running tasks."),
    "users": Verb(".ray:users", "List users, or weigh one."),
    "servers": Verb(".ray:servers", "List Ray's nodes, and what is used of each."),
}
TRACE = {
    "info": Verb(".trace:info", "Describe a trace."),
    "generate": Verb(".trace_generate:generate", "Generate a day like one of Google's in 2011."),
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


def installed_verbs() -> dict[str, Verb]:
    """Return the verbs that other packages add by entry points of the group ``fairlead.verbs``.

    The verbs of this package keep their names.
    """
    from importlib.metadata import entry_points

    found = {
        point.name: Verb(f"{point.module}:{point.attr}")
        for point in entry_points(group="fairlead.verbs")
    }
    return {name: verb for name, verb in sorted(found.items()) if name not in FAIRLEAD.verbs}
