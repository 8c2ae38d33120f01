"""Has an engine do what a service says, and tells how tasks ended until it was heard."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from typing import Any

import httpx

from fairlead.engines.protocol import Engine, Node, Start
from fairlead.errors import InputError

LOG = logging.getLogger("fairlead.worker")
LONGEST_PAUSE = 5.0
OTHER_TIME = 30.0  # seconds for a request beyond its wait
NODES_SECONDS = 0.1  # until an engine without nodes is asked again
REFUSED = (401, 403, 404, 421, 422)
BASE = {"cpu": 0.0, "memory": 0.0, "gpu": 0}


class Follower:
    """A worker's loop: its engine does what the service decides.

    Parameters
    ----------
    client : httpx.AsyncClient
        It knows the service's address, and shows what lets this worker in.
    engine : Engine
    """

    def __init__(self, client: httpx.AsyncClient, engine: Engine) -> None:
        self.engine = engine
        self._client = client
        self._session, self._wait, self._seen = "", 0.0, 0
        self._declared: list[Node] = []
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
        async with self._client, asyncio.TaskGroup() as group:
            group.create_task(self._hear())
            group.create_task(self._report())
            group.create_task(self.engine.attend())

    async def _hear(self) -> None:
        """Join, and hear what is to do, for ever."""
        while True:
            await self._join()
            orders = await self._post(
                "/v1/workers/sync",
                {"session": self._session, "seen": self._seen, "wait": self._wait},
            )
            if orders is not None:
                await self._carry_out(orders)

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
            body = {
                "session": self._session,
                "seen": self._seen,
                "ended": [[*e.key, e.status, e.reason] for e in endings],
            }
            orders = await self._post("/v1/workers/sync", body)
            if orders is None:
                self.engine.news.set()
                continue
            self.engine.forget(endings)
            await self._carry_out(orders)

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
                answer = await self._post("/v1/workers/join", body)
                if answer is not None:
                    break
            self.engine.keep_only({tuple(key) for _, key in answer["tasks"]})
            self._session, self._wait, self._seen = answer["session"], answer["wait"], 0
            self._declared = nodes
            self._joined.set()
            self.engine.news.set()
        names = ", ".join(node.name for node in nodes[:3]) + (", ..." if len(nodes) > 3 else "")
        LOG.info("joined as %s, %d tasks here", names, len(answer["tasks"]))

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return what the service answers, or None, after a pause, where it does not."""
        try:
            wait = OTHER_TIME + float(body.get("wait", 0.0))
            answer = await self._client.post(path, json=body, timeout=wait)
        except httpx.HTTPError as fault:
            LOG.warning("no answer from %s: %r", self._client.base_url, fault)
            await self._pause()
            return None
        if answer.status_code == 409:
            if self._session == body.get("session"):
                self._session = ""
                self._joined.clear()
            return None
        if answer.is_success:
            self._failures = 0
            return answer.json() if answer.content else None
        detail = _detail(answer)
        is_final = answer.status_code in REFUSED and "held by another" not in detail
        if is_final and path.endswith("join"):
            raise InputError(detail, "", str(self._client.base_url))
        LOG.warning("%s: %s", answer.status_code, detail)
        await self._pause()
        return None

    async def _pause(self) -> None:
        self._failures += 1
        longest = min(LONGEST_PAUSE, 0.1 * 2.0 ** min(self._failures, 10))
        await asyncio.sleep(longest * (0.5 + secrets.randbelow(500) / 1000))

    async def _carry_out(self, orders: Mapping[str, Any]) -> None:
        async with self._one_carries_out:  # the same order may be in two answers
            for node, key, demand, limit in orders["start"]:
                job = orders["jobs"].get(str(key[0]))
                await self.engine.start(Start(tuple(key), node, demand, limit, job))
            for _, key, why in orders["stop"]:
                self.engine.stop(tuple(key), why)
            self._seen = max(self._seen, orders["seen"])
            for name, _, key, stream, offset in orders["logs"]:
                piece = await self.engine.output(tuple(key), stream, offset)
                body = {"session": self._session, "request": name, **piece}
                await self._post("/v1/workers/logs", body)


def _declared(node: Node) -> dict[str, Any]:
    """Return a node as a join request has it."""
    more = {name: amount for name, amount in node.capacity.items() if name not in BASE}
    amounts = BASE | {name: node.capacity[name] for name in BASE if name in node.capacity}
    row: dict[str, Any] = {"name": node.name, **amounts, "labels": dict(node.labels)}
    return row | ({"resources": more} if more else {})


def _detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code}"
