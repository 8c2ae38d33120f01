"""Run a worker: apply the service's orders and report ended tasks until they are acknowledged."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from pydantic import ValidationError

from fairlead.errors import FairleadError, InputError
from fairlead.service.client.calls import Call
from fairlead.service.client.exchange import Exchange, OtherProgramError
from fairlead.service.engines.protocol import (
    EngineNode,
    Key,
    Orders,
    OutputRequest,
    Start,
    TaskEngine,
    first_fault,
    one_line,
)
from fairlead.service.messages import JoinAnswer, StaleSessionError, UnavailableError

LOG = logging.getLogger("fairlead.service.worker")
LONGEST_PAUSE = 5.0  # seconds between failed requests
LONGEST_EXCHANGE = 130.0  # seconds for a request and its answer
REFUSED = (401, 403, 404, 421, 422)  # HTTP statuses that a repeated request would get again
FAULT_PAUSE = 5.0  # seconds after an error, which may recur at once
LONGEST_REASON = 1000  # characters of an ending, as the service accepts it
MOST_OUTPUT_REQUESTS = 1000  # waiting requests for output
ANSWERS_AT_ONCE = 4  # pieces of output being sent
GATHER_SECONDS = 0.003  # to gather ended tasks into one report; a request takes as long
NODES_SECONDS = 0.1  # between checks of an engine that has no nodes yet
BASE = {"cpu": 0.0, "memory": 0.0, "gpu": 0}
ServiceAnswer = TypeVar("ServiceAnswer")
Item = TypeVar("Item")
Body = Mapping[str, Any]


class Link:
    """Requests to a service by a worker, or by a dispatcher of Ray.

    Each method raises `InputError` if the request is refused, `StaleSessionError` if the worker has
    to join again, and `UnavailableError` if a later try may succeed.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def join(self, body: Body) -> object:
        """Register a worker's servers; return the unchecked `JoinAnswer`."""
        return await self.ask(Call("POST", "/v1/workers/join", json.dumps(body)))

    async def sync(self, body: Body) -> object:
        """Report ended tasks; return the next orders, unchecked."""
        return await self.ask(Call("POST", "/v1/workers/sync", json.dumps(body)))

    async def logs(self, body: Body) -> None:
        """Send a piece of output."""
        await self.ask(Call("POST", "/v1/workers/logs", json.dumps(body)))

    async def ask(self, call: Call) -> Any:
        """Send a request; return the JSON values of its answer."""
        url, body = self._exchange.url, call.body.encode()
        try:
            async with asyncio.timeout(LONGEST_EXCHANGE):
                answer = await self._exchange.ask(call.method, call.target, call.headers, body)
        except OtherProgramError as fault:
            raise UnavailableError(str(fault)) from None
        except OSError as fault:  # TimeoutError is one
            raise UnavailableError(f"no answer from {url}: {fault!r}") from None
        if 200 <= answer.status < 300:
            try:
                return json.loads(answer.content) if answer.content else None
            except (ValueError, RecursionError):
                raise UnavailableError(f"{url} does not answer as a fairlead service") from None
        try:
            detail = one_line(str(json.loads(answer.content)["detail"]))
        except (ValueError, RecursionError, KeyError, TypeError):
            detail = f"status {answer.status}"
        if answer.status == 409:
            raise StaleSessionError(detail)
        if answer.status in REFUSED:
            raise InputError(detail, "", url)
        raise UnavailableError(f"{answer.status}: {detail}")


class WorkerLoop:
    """The loop of a worker: applies orders to an engine, and reports its ended tasks."""

    def __init__(self, link: Link, engine: TaskEngine) -> None:
        self.engine = engine
        self._link = link
        self._session = ""  # its id; empty without a session
        self._wait = 0.0  # seconds for which a request waits for orders
        self._seen = 0  # number of the last order received
        self._declared: list[EngineNode] = []  # the nodes at the last join
        self._in_flight: dict[object, int] = {}  # by request: the last order seen when it was sent
        # By started task: number of the last order in the answer. The answer to a request in flight
        # may repeat the start, unless the request was sent with this number or a larger one.
        self._started: dict[Key, int] = {}
        self._failures = 0
        self._has_ever_joined = False
        self._joined = asyncio.Event()
        self._output_requests: asyncio.Queue[tuple[str, OutputRequest]] = asyncio.Queue(
            MOST_OUTPUT_REQUESTS
        )
        self._join_lock, self._apply_lock = asyncio.Lock(), asyncio.Lock()

    async def run(self) -> None:
        """Run until cancelled; tasks continue then. Raises `InputError` if the join is refused."""
        async with asyncio.TaskGroup() as group:
            for step in (self._receive, self._report):
                group.create_task(repeat(step, fatal=InputError))
            for _ in range(ANSWERS_AT_ONCE):
                group.create_task(repeat(self._send_output))
            group.create_task(self.engine.attend())

    async def _receive(self) -> None:
        """Wait for orders, and apply them."""
        await self._join()
        await self._sync({"wait": self._wait})

    async def _report(self) -> None:
        """Report changed nodes and ended tasks until they are acknowledged."""
        await self.engine.changed.wait()
        await self._joined.wait()
        await asyncio.sleep(GATHER_SECONDS)
        self.engine.changed.clear()
        is_acknowledged = False
        try:
            if list(self.engine.nodes()) != self._declared:
                await self._join()
            endings = self.engine.endings()
            ended = [[*e.key, e.status, e.reason[:LONGEST_REASON]] for e in endings]
            async with self._join_lock:  # so that no join reports ended tasks as running
                is_acknowledged = not ended or await self._sync({"ended": ended})
                if is_acknowledged:
                    self.engine.forget(endings)
        finally:
            if not is_acknowledged:
                self.engine.changed.set()

    async def _send_output(self) -> None:
        """Send the output for one request, independently of starts and ends of tasks."""
        session, (name, _, key, stream, offset) = await self._output_requests.get()
        piece = await self.engine.output(key, stream, offset)
        try:
            await self._link.logs({"session": session, "request": name, **piece})
        except FairleadError as fault:
            LOG.warning("output of %s is not sent: %s", ".".join(map(str, key)), fault)

    async def _sync(self, report: Mapping[str, Any]) -> bool:
        """Send a report, and apply the orders in the answer; return whether an answer came."""
        session, request = self._session, object()
        body = {"session": session, "seen": self._seen, **report}
        self._in_flight[request] = self._seen
        try:
            orders = await self._ask(self._link.sync(body), Orders.model_validate)
            if orders is not None:
                await self._apply_once(session, orders)
        finally:
            del self._in_flight[request]
        oldest = min(self._in_flight.values(), default=self._seen)
        self._started = {key: n for key, n in self._started.items() if n > oldest}
        return orders is not None

    async def _join(self) -> None:
        """Join the service, also after a change of nodes; stop tasks that it does not know."""
        async with self._join_lock:
            while True:
                while not (nodes := list(self.engine.nodes())):
                    await asyncio.sleep(NODES_SECONDS)
                if self._session and nodes == self._declared:
                    return
                rows = [_join_row(node) for node in nodes]
                body = {"identity": self.engine.identity, "servers": rows}
                joined = self._link.join(body)
                answer = await self._ask(joined, JoinAnswer.model_validate, is_join=True)
                if answer is not None:
                    break
            try:
                self.engine.keep_only({key for _, key in answer.tasks})
            except Exception:  # a stop failed; the next join tries it again
                LOG.exception("some tasks that the service does not know may still run")
            self._has_ever_joined = True
            self._session, self._wait, self._seen = answer.session, answer.wait, 0
            self._declared, self._started = nodes, {}
            self._joined.set()
            self.engine.changed.set()
        names = ", ".join(node.name for node in nodes[:3]) + (", ..." if len(nodes) > 3 else "")
        LOG.info("joined as %s, %d tasks here", names, len(answer.tasks))

    async def _ask(
        self, call: Awaitable[Any], parse: Callable[[Any], ServiceAnswer], *, is_join: bool = False
    ) -> ServiceAnswer | None:
        """Return the parsed answer of the service, or None after a failure."""
        session = self._session
        try:
            answer = await call
        except StaleSessionError:
            self._leave(session)
            return None
        except FairleadError as fault:
            if is_join and isinstance(fault, InputError):
                # Another worker may hold a server until that is lost. After the first join, another
                # program may answer while the service is down.
                may_join_later = self._has_ever_joined or "held by another" in str(fault)
                if not may_join_later:
                    raise
            LOG.warning("%s", fault)
            self._failures += 1
            await _sleep_about(min(LONGEST_PAUSE, 0.1 * 2.0 ** min(self._failures, 10)))
            return None
        try:
            parsed = parse(answer)
        except ValidationError as fault:
            LOG.error("malformed answer of the service, ignored: %s", first_fault(fault))
            self._leave(session)
            await _sleep_about(LONGEST_PAUSE)
            return None
        self._failures = 0
        return parsed

    def _leave(self, session: str) -> None:
        """End a session that is still the current one, so that the worker joins again."""
        if self._session == session:
            self._session = ""
            self._joined.clear()

    async def _apply_once(self, session: str, orders: Orders) -> None:
        """Apply the orders of a session, unless the worker has joined again meanwhile."""
        async with self._apply_lock:  # two answers may hold the same order
            if session != self._session:
                return  # the new session repeats these orders
            for request in orders.logs:
                # If the queue is full, the service's caller gets 503 and may repeat the request.
                with suppress(asyncio.QueueFull):
                    self._output_requests.put_nowait((session, request))
            try:
                await self._apply(orders)
            except Exception:
                self._leave(session)  # the next session repeats these orders
                raise
            self._seen = max(self._seen, orders.seen)

    async def _apply(self, orders: Orders) -> None:
        """Start and stop tasks; a failure does not prevent the others."""
        tasks = []
        for k, (node, key, demand, limit) in enumerate(orders.start):
            if key not in self._started:
                self._started[key] = orders.seen
                job = orders.jobs.get(str(key[0]))
                devices = orders.devices[k] if k < len(orders.devices) else ()
                tasks.append(Start(key, node, demand, limit, job, devices))
        try:
            if tasks:
                await self.engine.start(tasks)
        finally:
            do_all(lambda stop: self.engine.stop(stop[1], stop[2]), orders.stop)


async def _sleep_about(seconds: float) -> None:
    """Sleep for 50 to 100 % of a time, so that not all workers return at once."""
    await asyncio.sleep(seconds * (0.5 + secrets.randbelow(500) / 1000))


def _join_row(node: EngineNode) -> dict[str, Any]:
    """Return a node in the format of a join request."""
    others = {name: amount for name, amount in node.capacity.items() if name not in BASE}
    amounts = BASE | {name: node.capacity[name] for name in BASE if name in node.capacity}
    row: dict[str, Any] = {"name": node.name, **amounts, "labels": dict(node.labels)}
    return row | ({"resources": others} if others else {})


async def repeat(
    step: Callable[[], Awaitable[None]], pause: float = 0.0, fatal: type[Exception] | None = None
) -> NoReturn:
    """Repeat a step for ever; log its errors and continue, but raise errors of type `fatal`."""
    while True:
        try:
            await step()
        except Exception as fault:
            if fatal is not None and isinstance(fault, fatal):
                raise
            LOG.exception("%s failed and is repeated", getattr(step, "__name__", step))
            await asyncio.sleep(FAULT_PAUSE)
        await asyncio.sleep(pause)


def do_all(act: Callable[[Item], None], items: Iterable[Item]) -> None:
    """Act on all items; raise the first error after the last item."""
    errors = []
    for item in items:
        try:
            act(item)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
