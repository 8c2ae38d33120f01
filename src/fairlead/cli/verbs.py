"""The verbs of the command, and where their functions are; only the asked verb is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NamedTuple

from fairlead.cli.parameters import Option, Parameter


class Verb(NamedTuple):
    """A verb."""

    place: str  # module of `fairlead.cli`, a dot, and the function
    summary: str

    def load(self) -> Callable[..., int | None]:
        """Import the function; it returns an exit status, or None for 0."""
        module, _, function = self.place.partition(".")
        found: Callable[..., int | None] = getattr(
            import_module(f"fairlead.cli.{module}"), function
        )
        return found


class Group(NamedTuple):
    """Verbs below a word."""

    verbs: Mapping[str, Verb | Group]
    summary: str
    options: tuple[Parameter, ...] = ()
    epilog: str = ""


COMPUTING = {
    "allocate": Verb("allocate.allocate", "Divide the cluster by one mechanism."),
    "audit": Verb("audit.audit", "Check which fairness properties hold."),
    "compare": Verb("compare.compare", "Divide the cluster by several mechanisms, side by side."),
    "converge": Verb("converge.converge", "Let every server divide itself."),
    "dynamic": Verb("dynamic.dynamic", "Divide among users who arrive one by one."),
    "explain": Verb("explain.explain", "Say why a job waits."),
    "fill": Verb("fill.fill", "Fill the servers with whole tasks."),
    "mechanisms": Verb("mechanisms.mechanisms", "List the mechanisms, and what is proved of each."),
    "reproduce": Verb("reproduce.reproduce", "Compute what papers print again, beside it."),
    "simulate": Verb("simulate.simulate", "Replay a trace under several policies."),
    "trade-off": Verb("trade_off.trade_off", "Show what alpha-fairness costs."),
}
SERVING = {
    "serve": Verb("serve.serve", "Run the scheduler as a service."),
    "worker": Verb("worker.worker", "Run tasks of a service on this machine."),
    "token": Verb("serve.token", "Say who may use a service."),
}
ASKING = {  # verbs that ask a service; they answer at once, and import little
    "submit": Verb("jobs.submit", "Have a command run when it is its turn."),
    "jobs": Verb("jobs.jobs", "List jobs of a running service."),
    "cancel": Verb("jobs.cancel", "Drop jobs, and end what runs of them."),
    "hold": Verb("jobs.hold", "Start no more tasks of jobs."),
    "release": Verb("jobs.release", "Let held jobs start."),
    "modify": Verb("jobs.modify", "Change what a job that waits asks for."),
    "logs": Verb("jobs.logs", "Print what a task wrote."),
    "wait": Verb("jobs.wait", "Wait until jobs are over."),
    "when": Verb("jobs.when", "Say when a job starts, as far as known."),
    "users": Verb("cluster.users", "List users of a service, or weigh one."),
    "servers": Verb("cluster.servers", "List servers of a running service."),
    "shares": Verb("cluster.shares", "Show what users hold, and what is fair."),
    "drain": Verb("cluster.drain", "Start no more tasks on a server."),
    "history": Verb("cluster.history", "Show hours used by month and user."),
}
RAY = {
    "start": Verb("ray.start", "Have a dispatcher decide whose task starts where."),
    "stop": Verb("ray.stop", "End the dispatcher; what it started goes on."),
    "status": Verb("ray.status", "Say who divides the cluster, and by which policy."),
    "submit": Verb("ray.submit", "Run a driver when it is your turn."),
    "shares": Verb("ray.shares", "Show what users hold, and what is fair."),
    "explain": Verb("ray.explain", "Say why a job waits."),
    "jobs": Verb("ray.list_jobs", "List jobs of a Ray cluster."),
    "cancel": Verb("ray.cancel", "Drop jobs, and end what runs of them."),
    "users": Verb("ray.users", "List users, or weigh one."),
    "servers": Verb("ray.servers", "List Ray's nodes, and what is used of each."),
}
TRACE = {
    "info": Verb("trace.info", "Say what is in a trace."),
    "generate": Verb(
        "trace_generate.generate", "Generate a day like one of Google's cluster of 2011."
    ),
    "convert": Verb("trace.convert", "Turn a trace into another format, or into a problem file."),
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
