"""Calls of drivers, batches of calls, and the function with which Ray workers run them.

This module does not import the dispatcher, so that agents start in half the time.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import ray
from ray import exceptions

from fairlead.errors import FairleadError
from fairlead.service.engines.protocol import Key

PROTOCOL = 2  # the version of the messages between agents and dispatchers
NAME = NAMESPACE = "fairlead"  # of the dispatcher's actor
AGENT = "ray"  # the first word of a job's command; the second is the agent's name
MOVED = "it runs elsewhere, or has ended"  # a reason to stop an agent's task
STOPPED_STATUS = 143  # the exit status of a stopped task, as after SIGTERM in a shell
GIB = 2**30
SMALL = (type(None), bool, int, float, complex)  # types of results that are returned directly
SHORT = 4096  # texts and bytes below this length are returned directly, too


class NoDispatcherError(FairleadError):
    """The Ray cluster has no dispatcher, or the dispatcher is gone."""


class LostError(FairleadError):
    """A task was lost at each start: its worker or node died, or it took too much memory."""


class CallOptions(NamedTuple):
    """The options of a call; all calls of a job have the same options."""

    kind: str  # tasks, actor or group
    function: int  # its number in `Agent.define`
    request: str  # the amounts and the placement constraint of a job request; JSON
    attempts: int  # maximum number of starts of a call that is lost each time


class StoredResult:
    """A reference to a result that stays on its node until the driver unpickles the reference."""

    def __init__(self, values: Any, index: int, kind: str) -> None:
        self.values, self.index, self.kind = values, index, kind

    def __reduce__(self) -> tuple[Any, ...]:
        return _fetch, (self.values, self.index, self.kind)


def _fetch(values: Any, index: int, kind: str) -> Any:
    value = ray.get(values)[index]
    return ray.cloudpickle.loads(value) if kind == "packed" else value


@dataclass(eq=False)
class RayCall:
    """A call that the driver requested."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outcome: asyncio.Future[Any]  # the result or the error
    batch: CallBatch | None = None  # None until it is submitted
    index: int = 0  # in the batch
    key: Key | None = None  # the start under which it runs
    tries: int = 0  # number of lost starts
    is_alone: bool = False  # whether it must not share a start, as a shared one was lost

    @property
    def waits(self) -> bool:
        """Whether it has neither started nor ended."""
        return self.key is None and not self.outcome.done()

    def take(self) -> Any:
        """Return its result or raise its error; drop all references, so that Ray frees objects."""
        value = self.outcome.result()
        self.args, self.kwargs = (), {}
        self.outcome = asyncio.get_running_loop().create_future()
        self.outcome.set_result(None)
        return value

    def fail(self, fault: BaseException) -> None:
        """Set an error as the outcome, unless it has one."""
        if not self.outcome.done():
            self.outcome.set_exception(fault)


@dataclass(eq=False)
class Function:
    """A function or a class of the driver; only workers can unpickle it."""

    pickled: bytes = b""
    name: str = ""
    is_defined: asyncio.Event = field(default_factory=asyncio.Event)
    seconds: float = inf  # mean time of recent calls; infinite before the first


@dataclass(eq=False)
class CallStart:
    """An ordered start of a task, until the dispatcher acknowledges its end."""

    # The reference of its task in Ray, its actor, later only the actor's id, or its placement
    # group; None until that is made.
    run: Any = None
    calls: list[RayCall] = field(default_factory=list)  # the calls that run under it
    repeated: str = ""  # the reason if it was stopped to run again


@dataclass(eq=False)
class CallBatch:
    """The calls of a job; each is a task of it."""

    options: CallOptions
    request: Mapping[str, Any]  # the parsed `options.request`
    calls: list[RayCall]  # by index of the task
    job: str = ""  # the job's id; empty until it is submitted
    starts_left: int = 0  # number of tasks that have neither ended nor been skipped
    # Of a placement group: the node's id of each bundle whose start was ordered.
    starts: dict[int, str] = field(default_factory=dict)
    is_gone: bool = False  # whether the dispatcher has reported the end of the job

    def __post_init__(self) -> None:
        for index, call in enumerate(self.calls):
            call.batch, call.index = self, index

    @property
    def is_over(self) -> bool:
        """Whether each call has an outcome or was abandoned."""
        return all(call.outcome.done() for call in self.calls)


def worker_function(pickled: bytes, name: str) -> Callable[..., Any]:
    """Return the function that a Ray worker runs: it calls `pickled` for each row of arguments.

    The returned function returns two objects. The first has the mean seconds of a call and the
    outcomes, each a kind with a small value or an error. The second has the large values, which
    stay on the node.
    """
    small, short = SMALL, SHORT
    function: Any = None

    def call(rows: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]]) -> tuple[Any, list[Any]]:
        nonlocal function
        if function is None:
            function = ray.cloudpickle.loads(pickled)
        began = time.monotonic()
        outcomes: list[tuple[str, Any]] = []
        values: list[Any] = []
        for args, kwargs in rows:
            value = None
            try:
                got = [ray.get(a) if isinstance(a, ray.ObjectRef) else a for a in args]
                named = {
                    k: ray.get(a) if isinstance(a, ray.ObjectRef) else a for k, a in kwargs.items()
                }
                value = function(*got, **named)
                if type(value) in small or (type(value) in (str, bytes) and len(value) < short):
                    outcome, value = ("small", value), None
                elif len(rows) > 1:  # one by one, so that an unpicklable value fails alone
                    outcome, value = ("packed", None), ray.cloudpickle.dumps(value)
                else:
                    outcome = ("stored", None)
            except Exception as fault:
                cause, text = getattr(fault, "cause", None), traceback.format_exc()
                origin = cause if isinstance(fault, exceptions.RayTaskError) and cause else fault
                outcome, value = ("fault", exceptions.RayTaskError(name, text, origin)), None
            outcomes.append(outcome)
            values.append(value)
        return ((time.monotonic() - began) / len(rows), outcomes), values

    return call


def cancelled_error(job: str) -> LostError:
    return LostError(f"job {job} was cancelled before this started")


def one_line(fault: BaseException) -> str:
    return f"{type(fault).__name__}: {(str(fault).strip() or ' ').splitlines()[0]}"[:200]


def ray_options(demand: Mapping[str, float]) -> dict[str, Any]:
    """Return the options by which Ray reserves the demand of a task."""
    more = {r: amount for r, amount in demand.items() if r not in ("cpu", "gpu", "memory")}
    options: dict[str, Any] = {"num_cpus": demand.get("cpu", 0), "num_gpus": demand.get("gpu", 0)}
    if demand.get("memory"):
        options["memory"] = -int(-demand["memory"] * GIB // 1)
    return options | ({"resources": more} if more else {})


def demand_of(request: Mapping[str, Any]) -> dict[str, float]:
    """Return the demand of a task of a job request, or of one of its bundles."""
    defaults: dict[str, float] = {"cpu": 1.0, "memory": 0.0, "gpu": 0}
    amounts = {name: request.get(name, default) for name, default in defaults.items()}
    return amounts | dict(request.get("resources", {}))
