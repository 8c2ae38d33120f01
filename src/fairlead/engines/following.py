"""Run a worker: apply the service's orders and report ended tasks until they are acknowledged."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from fairlead.engines.links import Link
from fairlead.engines.orders import Joined, Orders, first_fault
from fairlead.engines.protocol import EngineNode, Key, Start, TaskEngine
from fairlead.errors import FairleadError, InputError
from fairlead.service.messages import StaleSessionError

LOG = logging.getLogger("fairlead.worker")
LONGEST_PAUSE = 5.0
LONGEST_REASON = 1000  # of an ending, as the service takes it
NODES_SECONDS = 0.1  # until an engine without nodes is asked again
BASE = {"cpu": 0.0, "memory": 0.0, "gpu": 0}
ServiceAnswer = TypeVar("ServiceAnswer")


class Follower:
    """A worker's loop: its engine does what the service decides.

    Parameters
    ----------
    link : Link
        To the service.
    engine : TaskEngine
    """

    def __init__(self, link: Link, engine: TaskEngine) -> None:
        self.engine = engine
        self._link = link
        self._session, self._wait, self._seen = "", 0.0, 0
        self._declared: list[EngineNode] = []
        self._in_flight: dict[object, int] = {}  # what requests said they had seen
        self._started: dict[Key, int] = {}  # tasks that an answer to one of these may name again
        self._failures = 0
        self._joined = asyncio.Event()
        self._one_joins, self._one_carries_out = asyncio.Lock(), asyncio.Lock()

    async def run(self) -> None:
        """Follow until cancelled; tasks go on then.

        Raises
        ------
        InputError
            When the service refuses this worker.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._hear())
            group.create_task(self._report())
            group.create_task(self.engine.attend())

    async def _hear(self) -> None:
        """Join, and hear what is to do, for ever."""
        while True:
            await self._join()
            await self._sync({"wait": self._wait})

    async def _report(self) -> None:
        """Tell of nodes that came and went, and how tasks ended, until it was heard."""
        while True:
            await self.engine.news.wait()
            await self._joined.wait()
            self.engine.news.clear()
            if list(self.engine.nodes()) != self._declared:
                await self._join()
            endings = self.engine.endings()
            if not endings:
                continue
            ended = [[*e.key, e.status, e.reason[:LONGEST_REASON]] for e in endings]
            async with self._one_joins:  # else a join might tell what has ended meanwhile
                is_heard = await self._sync({"ended": ended})
                if is_heard:
                    self.engine.forget(endings)
            if not is_heard:
                self.engine.news.set()

    async def _sync(self, told: Mapping[str, Any]) -> bool:
        """Tell something, and carry out what the service answers; return whether it was heard."""
        session, mark = self._session, object()
        asked = {"session": session, "seen": self._seen, **told}
        self._in_flight[mark] = self._seen
        orders = await self._ask(self._link.sync(asked), Orders.model_validate)
        if orders is not None:
            await self._carry_out(session, orders)
        del self._in_flight[mark]
        oldest = min(self._in_flight.values(), default=self._seen)
        self._started = {key: n for key, n in self._started.items() if n > oldest}
        return orders is not None

    async def _join(self) -> None:
        """Come to the service, or come back, or with other nodes; end what it knows nothing of."""
        async with self._one_joins:
            while True:
                while not (nodes := list(self.engine.nodes())):
                    await asyncio.sleep(NODES_SECONDS)
                if self._session and nodes == self._declared:
                    return
                rows = [_declared(node) for node in nodes]
                body = {"identity": self.engine.identity, "servers": rows}
                joined = self._link.join(body)
                answer = await self._ask(joined, Joined.model_validate, is_join=True)
                if answer is not None:
                    break
            self.engine.keep_only({key for _, key in answer.tasks})
            self._session, self._wait, self._seen = answer.session, answer.wait, 0
            self._declared, self._started = nodes, {}
            self._joined.set()
            self.engine.news.set()
        names = ", ".join(node.name for node in nodes[:3]) + (", ..." if len(nodes) > 3 else "")
        LOG.info("joined as %s, %d tasks here", names, len(answer.tasks))

    async def _ask(
        self, call: Awaitable[Any], read: Callable[[Any], ServiceAnswer], *, is_join: bool = False
    ) -> ServiceAnswer | None:
        """Return the service's answer as it is read, or None, after a pause, without one."""
        session = self._session
        try:
            answer = await call
        except StaleSessionError:
            self._leave(session)
            return None
        except FairleadError as fault:
            if is_join and isinstance(fault, InputError) and "held by another" not in str(fault):
                raise
            LOG.warning("%s", fault)
            await self._pause()
            return None
        try:
            checked = read(answer)
        except ValidationError as fault:
            LOG.error("malformed answer of the service, ignored: %s", first_fault(fault))
            self._leave(session)
            await _about(LONGEST_PAUSE)
            return None
        self._failures = 0
        return checked

    def _leave(self, session: str) -> None:
        """Join again before anything else is asked, unless that was done since."""
        if self._session == session:
            self._session = ""
            self._joined.clear()

    async def _pause(self) -> None:
        self._failures += 1
        await _about(min(LONGEST_PAUSE, 0.1 * 2.0 ** min(self._failures, 10)))

    async def _carry_out(self, session: str, orders: Orders) -> None:
        async with self._one_carries_out:  # the same order may be in two answers
            if session != self._session:
                return  # all of it was told again since
            for node, key, demand, limit in orders.start:
                if key not in self._started:
                    self._started[key] = orders.seen
                    job = orders.jobs.get(str(key[0]))
                    await self.engine.start(Start(key, node, demand, limit, job))
            for _, key, why in orders.stop:
                self.engine.stop(key, why)
            self._seen = max(self._seen, orders.seen)
            for name, _, key, stream, offset in orders.logs:
                piece = await self.engine.output(key, stream, offset)
                body = {"session": self._session, "request": name, **piece}
                await self._ask(self._link.logs(body), lambda _: True)


async def _about(seconds: float) -> None:
    """Pause for that long or up to half as long, so that workers do not come all at once."""
    await asyncio.sleep(seconds * (0.5 + secrets.randbelow(500) / 1000))


def _declared(node: EngineNode) -> dict[str, Any]:
    """Return a node as a join request has it."""
    more = {name: amount for name, amount in node.capacity.items() if name not in BASE}
    amounts = BASE | {name: node.capacity[name] for name in BASE if name in node.capacity}
    row: dict[str, Any] = {"name": node.name, **amounts, "labels": dict(node.labels)}
    return row | ({"resources": more} if more else {})
