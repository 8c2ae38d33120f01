"""Run a worker: apply the service's orders and report ended tasks until they are acknowledged."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import ValidationError

from fairlead.errors import FairleadError, InputError
from fairlead.service.engines.links import Link
from fairlead.service.engines.loops import do_all, repeat
from fairlead.service.engines.orders import Joined, Orders, Question, first_fault
from fairlead.service.engines.protocol import EngineNode, Key, Start, TaskEngine
from fairlead.service.messages import StaleSessionError

LOG = logging.getLogger("fairlead.service.worker")
LONGEST_PAUSE = 5.0
LONGEST_REASON = 1000  # of an ending, as the service takes it
MOST_QUESTIONS = 1000  # for output, that wait for an answer
ANSWERS_AT_ONCE = 4
GATHER_SECONDS = 0.003  # in which ends come together; a request takes about as long
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
        self._has_joined_once = False
        self._joined = asyncio.Event()
        self._questions: asyncio.Queue[tuple[str, Question]] = asyncio.Queue(MOST_QUESTIONS)
        self._one_joins, self._one_carries_out = asyncio.Lock(), asyncio.Lock()

    async def run(self) -> None:
        """Follow until cancelled; tasks go on then.

        Raises
        ------
        InputError
            When the service refuses this worker.
        """
        async with asyncio.TaskGroup() as group:
            for step in (self._hear, self._report):
                group.create_task(repeat(step, last=InputError))
            for _ in range(ANSWERS_AT_ONCE):
                group.create_task(repeat(self._answer_question))
            group.create_task(self.engine.attend())

    async def _hear(self) -> None:
        """Join if need be, and apply the next orders."""
        await self._join()
        await self._sync({"wait": self._wait})

    async def _report(self) -> None:
        """Report nodes that came and went and tasks that ended, until they are acknowledged."""
        await self.engine.news.wait()
        await self._joined.wait()
        await asyncio.sleep(GATHER_SECONDS)
        self.engine.news.clear()
        is_heard = False
        try:
            if list(self.engine.nodes()) != self._declared:
                await self._join()
            endings = self.engine.endings()
            ended = [[*e.key, e.status, e.reason[:LONGEST_REASON]] for e in endings]
            async with self._one_joins:  # else a join might tell what has ended meanwhile
                is_heard = not ended or await self._sync({"ended": ended})
                if is_heard:
                    self.engine.forget(endings)
        finally:
            if not is_heard:
                self.engine.news.set()

    async def _answer_question(self) -> None:
        """Send a piece of output; a failure holds up no start and no end.

        The service asks again where a reader still waits, so there is no second try.
        """
        session, (name, _, key, stream, offset) = await self._questions.get()
        piece = await self.engine.output(key, stream, offset)
        try:
            await self._link.logs({"session": session, "request": name, **piece})
        except FairleadError as fault:
            LOG.warning("output of %s is not sent: %s", ".".join(map(str, key)), fault)

    async def _sync(self, told: Mapping[str, Any]) -> bool:
        """Send a report, and carry out the service's orders; return whether it answered."""
        session, mark = self._session, object()
        asked = {"session": session, "seen": self._seen, **told}
        self._in_flight[mark] = self._seen
        try:
            orders = await self._ask(self._link.sync(asked), Orders.model_validate)
            if orders is not None:
                await self._carry_out(session, orders)
        finally:
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
            try:
                self.engine.keep_only({key for _, key in answer.tasks})
            except Exception:  # of one task, which is looked at again at the next join
                LOG.exception("some tasks that the service does not know may run on")
            self._has_joined_once = True
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
            if is_join and isinstance(fault, InputError) and not self._may_join_later(fault):
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

    def _may_join_later(self, fault: InputError) -> bool:
        """Return whether a refused worker tries again.

        A worker that has joined before always does: another program may answer at the address
        while the service is away.
        """
        return self._has_joined_once or "held by another" in str(fault)

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
            for question in orders.logs:
                with suppress(asyncio.QueueFull):  # the service tells the reader to ask again
                    self._questions.put_nowait((session, question))
            try:
                await self._apply(orders)
            except Exception:
                self._leave(session)  # the service tells all of it again
                raise
            self._seen = max(self._seen, orders.seen)

    async def _apply(self, orders: Orders) -> None:
        """Start and stop tasks; one that fails holds up no other."""
        tasks = []
        for node, key, demand, limit in orders.start:
            if key not in self._started:
                self._started[key] = orders.seen
                tasks.append(Start(key, node, demand, limit, orders.jobs.get(str(key[0]))))
        try:
            if tasks:
                await self.engine.start(tasks)
        finally:
            do_all(lambda stop: self.engine.stop(stop[1], stop[2]), orders.stop)


async def _about(seconds: float) -> None:
    """Pause for that long or up to half as long, so that workers do not come all at once."""
    await asyncio.sleep(seconds * (0.5 + secrets.randbelow(500) / 1000))


def _declared(node: EngineNode) -> dict[str, Any]:
    """Return a node as a join request has it."""
    more = {name: amount for name, amount in node.capacity.items() if name not in BASE}
    amounts = BASE | {name: node.capacity[name] for name in BASE if name in node.capacity}
    row: dict[str, Any] = {"name": node.name, **amounts, "labels": dict(node.labels)}
    return row | ({"resources": more} if more else {})
