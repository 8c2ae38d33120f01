"""The API of drivers: connect, and schedule functions, actors and placement groups fairly."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from types import BuiltinFunctionType, FunctionType
from typing import Any, Self

import ray
from pydantic import ValidationError
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fairlead.errors import InputError
from fairlead.ray._agent import Agent
from fairlead.ray._ray_calls import AGENT, CallOptions, demand_of
from fairlead.ray._ray_engine import live_nodes
from fairlead.ray.connection import (
    BEGIN_SECONDS,
    MOST_CALLS,
    RayExchange,
    answer_of,
    check_user,
    running_dispatcher,
    start,
)
from fairlead.service.client import Client
from fairlead.service.engines.protocol import EngineNode
from fairlead.service.messages import Amounts, JobRequest

ATTEMPTS = 4  # default of `attempts`
AMOUNTS = ("cpu", "memory", "gpu")
OPTIONS = ("where", "priority", "time_limit", "attempts", "name", "resources")
# Options of Ray, and what to use here instead.
RAY_OPTIONS = {
    "num_cpus": "use cpu",
    "num_gpus": "use gpu",
    "max_retries": "use attempts, which is one more",
    "num_returns": "calls return one object",
    "runtime_env": "tasks have that of the driver",
    "scheduling_strategy": "use where",
}
SMALLEST_AMOUNT = 0.0001  # the smallest amount that Ray counts
Options = Mapping[str, Any]


def connect(
    user: str, address: str | None = None, policy: str | None = None, weight: float | None = None
) -> Fair:
    """Connect to a Ray cluster, whose users have fair shares, as one of its users.

    The first connection starts the dispatcher; `fairlead.ray.start` has more options.

    Parameters
    ----------
    user : str
        The user whose share the calls take.
    address : str, optional
        The address of the Ray cluster, if this process is in none; when absent, ``RAY_ADDRESS``,
        else the cluster on this machine.
    policy : str, optional
        The policy of a dispatcher that this call starts; ``drf/best-fit`` when absent.
    weight : float, optional
        The user's weight from now on.

    Raises
    ------
    InputError
        When there is no cluster, or the dispatcher has another version or does not admit the user.
    """
    check_user(user, weight)
    dispatcher = start(policy, address=address)
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    name = f"{user}-{secrets.token_hex(8)}"
    made = ray.remote(Agent).options(
        num_cpus=0, max_concurrency=MOST_CALLS, scheduling_strategy=here, name=f"fairlead {name}"
    )
    agent = made.remote(name, user, dispatcher)
    fault = answer_of(agent.begin.remote(), BEGIN_SECONDS)
    if fault:
        ray.kill(agent)
        raise InputError(fault)
    fair = Fair(user, agent)
    if weight is not None:
        fair.set_weight(weight)
    return fair


class Fair:
    """The connection of a user, from `connect`; a task that gets it as an argument may submit, too.

    Options of calls, actors and bundles:

    - `cpu` in cores, `memory` in GiB or as a quantity such as ``"2Gi"``, `gpu` as whole GPUs or a
      fraction of one GPU; `resources`: other amounts by Ray's names.
    - `where`: labels that a node must have, or names of nodes.
    - `attempts`: the maximum number of starts of a call, which starts again if it is lost with its
      node or worker. An exception of the function is raised, and the call does not start again.
    """

    def __init__(self, user: str, agent: Any) -> None:
        self.user = user
        self._agent = agent
        # The agent's numbers of functions and classes; of callables that may change, by digest.
        self._numbers: dict[Any, int] = {}
        self._nodes: list[EngineNode] = []  # as of the last look-up

    def __reduce__(self) -> tuple[Any, ...]:
        return Fair, (self.user, self._agent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def remote(self, *given: Any, **options: Any) -> Any:
        """Schedule the calls of a function, or the actors of a class, fairly.

        Use it as a decorator, without options or with `cpu`, `memory`, `gpu`, `resources`, `where`,
        `priority`, `time_limit`, `attempts`, `name`: ``@fair.remote(cpu=1, memory="2Gi")``.
        """
        if len(given) == 1 and not options and callable(given[0]):
            return self._scheduled(given[0], {})
        if given:
            raise InputError("takes options by name", "remote")
        self._request(options)
        return lambda what: self._scheduled(what, options)

    def submit(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        demand: Options | None = None,
        where: object = None,
        **kwargs: Any,
    ) -> Any:
        """Schedule a call of a function; return an ObjectRef of its result."""
        options = _with_where(demand, where)
        return FairFunction(self, function, options).remote(*args, **kwargs)

    def map(
        self,
        function: Callable[..., Any],
        items: Iterable[Any],
        *,
        demand: Options | None = None,
        where: object = None,
    ) -> Iterator[Any]:
        """Schedule a call of a function for each item; yield the results in order.

        Calls that take less than 25 ms share tasks of Ray, in which they run one after another.
        """
        options = _with_where(demand, where)
        return FairFunction(self, function, options).map(items)

    def placement_group(
        self,
        bundles: Sequence[Options],
        where: object = None,
        timeout: float | None = None,
        **options: Any,
    ) -> Any:
        """Return a placement group once the scheduler has placed all of its bundles.

        A bundle is a mapping such as ``{"cpu": 1, "memory": "2Gi"}``; Ray puts it on the node that
        the scheduler chose. `ray.util.remove_placement_group`, or the end of the driver, frees the
        amounts.

        Raises
        ------
        InputError
            When no node could ever hold one of the bundles.
        ray.exceptions.GetTimeoutError
            When the group is not ready after `timeout` seconds.
        """
        if isinstance(bundles, Mapping | str) or not bundles:
            raise InputError("must be a list of amounts", "bundles")
        rows = [_amounts(bundle) for bundle in bundles]
        asked = {"bundles": rows} | ({} if where is None else {"where": where}) | options
        made = self._run("group", 0, asked, (), {})
        try:
            return ray.get(made, timeout=timeout)
        except exceptions.GetTimeoutError:
            ray.cancel(made)
            raise

    @property
    def client(self) -> Client:
        """A client of the dispatcher's service."""
        return Client(exchange=RayExchange(running_dispatcher()))

    def shares(self) -> dict[str, Any]:
        """Return each user's share and fair share, and the certificate of the fair shares."""
        return self.client.shares().model_dump()

    def explain(self, job: str) -> dict[str, Any]:
        """Return why a job waits, and which changes would let it start."""
        return self.client.explain(job)

    def jobs(self) -> list[dict[str, Any]]:
        """Return the waiting and running jobs of this user."""
        return [job.model_dump() for job in self.client.jobs(self.user)]

    def set_weight(self, weight: float) -> None:
        """Set this user's weight."""
        check_user(self.user, weight)
        self.client.set_user(self.user, weight)

    def close(self) -> None:
        """Stop running calls, and drop waiting ones."""
        with suppress(exceptions.RayActorError):
            ray.get(self._agent.close.remote(), timeout=BEGIN_SECONDS)
        ray.kill(self._agent)  # it would not end by itself, as some of its calls never return

    def _scheduled(self, what: Any, options: Options) -> Any:
        """Return a function or class whose calls or actors are scheduled fairly."""
        kind = FairClass if isinstance(what, type) else FairFunction
        return kind(self, what, options)

    def _number(self, what: Any) -> int:
        """Return the agent's number of a function or a class."""
        # Methods and other objects may have changed since the last call.
        is_fixed = isinstance(what, FunctionType | BuiltinFunctionType | type)
        if is_fixed and what in self._numbers:
            return self._numbers[what]
        name = getattr(what, "__name__", repr(what)[:60])
        try:
            pickled = ray.cloudpickle.dumps(what)
        except Exception as fault:
            why = str(fault).strip().splitlines()
            raise InputError(f"cannot be pickled: {why[0] if why else fault!r}", name) from None
        key = what if is_fixed else sha256(pickled).digest()
        if key not in self._numbers:
            self._numbers[key] = secrets.randbits(62)
            self._agent.define.remote(self._numbers[key], pickled, name)
        return self._numbers[key]

    def _request(self, options: Options) -> dict[str, Any]:
        """Return the job request of options; raise `InputError` if no node can ever hold it."""
        bundles = {"bundles": options["bundles"]} if "bundles" in options else _amounts(options)
        more = {k: options[k] for k in ("where", "priority", "time_limit", "name") if k in options}
        try:
            asked = JobRequest(command=[AGENT], **bundles, **more)
        except ValidationError as fault:
            first = fault.errors()[0]
            option = ".".join(map(str, first["loc"]))
            if first["loc"][:1] == ("where",):
                fault_text = "must be labels by name, or a list of names of nodes"
                raise InputError(fault_text, "where") from None
            raise InputError(first["msg"].removeprefix("Value error, "), option) from None
        rows: Sequence[Amounts] = asked.bundles or [asked]
        for row in rows:
            _check_amounts(row.demand())
        request = asked.model_dump(exclude_defaults=True, exclude={"command"})
        if why_never_fits(self._nodes, request) or not self._nodes:
            self._nodes = [row.node for row in live_nodes(ray.nodes()).values()]
            if why := why_never_fits(self._nodes, request):
                raise InputError(why)
        return request

    def _options(self, kind: str, number: int, options: Options) -> CallOptions:
        """Check and return options; `number` is the agent's number of the function or class."""
        attempts = options.get("attempts", ATTEMPTS)
        if type(attempts) is not int or attempts < 1:
            raise InputError("must be a whole number of at least 1", "attempts")
        request = json.dumps(self._request(options), sort_keys=True)
        return CallOptions(kind, number, request, attempts)

    def _run(
        self, kind: str, number: int, options: Options, args: tuple[Any, ...], kwargs: Options
    ) -> Any:
        return self._agent.run.remote(self._options(kind, number, options), args, kwargs)


class _FairCallable:
    """A function or class with options; base of `FairFunction` and `FairClass`."""

    def __init__(self, fair: Fair, what: Any, options: Options) -> None:
        if not callable(what):
            raise InputError("must be a function", "function")
        self._fair, self._what, self._options = fair, what, dict(options)
        self._checked_options: CallOptions | None = None  # of all calls; None before the first one

    def options(self, **more: Any) -> Self:
        """Return the same function or class with other options."""
        return type(self)(self._fair, self._what, self._options | more)


class FairFunction(_FairCallable):
    """A function whose calls are scheduled fairly; from `Fair.remote`."""

    def __call__(self, *_: object, **__: object) -> None:
        """Refuse a direct call, as Ray does, because it would not be scheduled."""
        raise TypeError("this function runs in the cluster: call its .remote()")

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Schedule a call; return an ObjectRef of its result."""
        return self._fair._agent.run.remote(self._call_options(), args, kwargs)

    def map(self, items: Iterable[Any]) -> Iterator[Any]:
        """Schedule a call for each item; yield the results in order."""
        rows = [(item,) for item in items]
        options = self._call_options()
        parts = self._fair._agent.map.options(num_returns="streaming").remote(options, rows)
        results = _results(parts)
        next(results)  # enters the generator's `try`, so that closing it drops the remaining calls
        return results

    def _call_options(self) -> CallOptions:
        if self._checked_options is None:
            number = self._fair._number(self._what)
            self._checked_options = self._fair._options("tasks", number, self._options)
        return self._checked_options


class FairClass(_FairCallable):
    """A class whose actors are scheduled fairly; from `Fair.remote`."""

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Make an actor; return its handle as soon as it has started."""
        return ray.get(self.submit(*args, **kwargs))

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        """Schedule an actor; return an ObjectRef of its handle."""
        number = self._fair._number(self._what)
        return self._fair._run("actor", number, self._options, args, kwargs)


def _with_where(demand: Options | None, where: object) -> dict[str, Any]:
    if not isinstance(demand or {}, Mapping):
        raise InputError("must give amounts by resource", "demand")
    return dict(demand or {}) | ({} if where is None else {"where": where})


def why_never_fits(nodes: Sequence[EngineNode], request: Mapping[str, Any]) -> str:
    """Return why no node can ever hold a task of a request, or an empty text.

    The nearest node, which the text names, has the least sum over resources of the lacking amount
    divided by the demand.
    """
    where = request.get("where") or {}
    for bundle in request.get("bundles") or [request]:
        demand = demand_of(bundle)
        may = [node for node in nodes if _is_allowed(where, node)]
        if not may and nodes:
            names = ", ".join(node.name for node in nodes[:5])
            return f"no node is {_describe(where)}; there are {names}"
        lacks = [{r: a - node.capacity.get(r, 0.0) for r, a in demand.items()} for node in may]
        shortages = [sum(max(0.0, s) / demand[r] for r, s in row.items() if s > 0) for row in lacks]
        if not any(shortages) or min(shortages) == 0:
            continue
        nearest = shortages.index(min(shortages))
        texts = [f"{short:.6g} more {r}" for r, short in lacks[nearest].items() if short > 0]
        asked = ", ".join(f"{r} {a:.6g}" for r, a in demand.items() if a)
        return (
            f"no node can ever hold {asked}: {may[nearest].name} is nearest, "
            f"and lacks {' and '.join(texts)}"
        )
    return ""


def _is_allowed(where: Any, node: EngineNode) -> bool:
    if isinstance(where, Mapping):
        return all(node.labels.get(key) == value for key, value in where.items())
    return node.name in where


def _describe(where: Any) -> str:
    if isinstance(where, Mapping):
        return " and ".join(f"{key}={value}" for key, value in where.items())
    return "among " + ", ".join(where)


def _amounts(options: Options) -> dict[str, Any]:
    """Return the amounts of options for a job request; unknown options are other resources."""
    if not isinstance(options, Mapping):
        raise InputError("must give amounts by resource", "demand")
    if not isinstance(options.get("resources") or {}, Mapping):
        raise InputError("must give amounts by resource", "resources")
    for name in options:
        if name in RAY_OPTIONS:
            raise InputError(f"is an option of Ray; {RAY_OPTIONS[name]}", name)
    others = {k: v for k, v in options.items() if k not in (*AMOUNTS, *OPTIONS)}
    resources = dict(options.get("resources") or {}) | others
    given = {k: options[k] for k in AMOUNTS if k in options}
    return given | ({"resources": resources} if resources else {})


def _check_amounts(demand: Mapping[str, float]) -> None:
    """Refuse an empty demand, and amounts too small for Ray."""
    if not any(demand.values()):
        raise InputError("takes nothing", "demand")
    for resource, amount in demand.items():
        if resource != "memory" and 0 < amount < SMALLEST_AMOUNT:
            raise InputError(f"must be at least {SMALLEST_AMOUNT}, not {amount:g}", resource)


def _results(parts: Any) -> Generator[Any]:
    """Yield results that come in parts; cancel the rest when closed early."""
    is_over = False
    try:
        yield None
        for part in parts:
            yield from ray.get(part)
        is_over = True
    except exceptions.RayTaskError:
        is_over = True
        raise
    finally:
        if not is_over:
            ray.cancel(parts)
