"""A service without sockets, for tests that ask its API."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any

import httpx

from fairlead.service.client.exchange import Reply
from fairlead.service.http.api import application
from fairlead.service.journal.event_journal import Journal
from fairlead.service.journal.tokens import Caller
from fairlead.service.rate_limits import Limits
from fairlead.service.service import Service, Settings


class OverHttpx:
    """Sends what a worker asks by a client of httpx, which needs no socket."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client, self.url = client, str(client.base_url)

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        answer = await self.client.request(
            method, target, headers=dict(headers), content=body, timeout=40.0
        )
        return Reply(answer.status_code, answer.headers, answer.content)


Test = Callable[["Asked"], Awaitable[None]]
COMMAND = {"command": ["true"], "user": "ana"}
ROLES = {"root": ("admin", ""), "ana": ("user", "ana"), "bo": ("user", "bo"), "w": ("worker", "a")}


class Asked:
    """A service without sockets, and who asks it."""

    def __init__(self, service: Service, http: httpx.AsyncClient) -> None:
        self.service, self.http = service, http

    async def __call__(self, method: str, path: str, *, status: int = 200, **more: Any) -> Any:
        answer = await self.http.request(method, path, **more)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def submit(self, *jobs: dict[str, Any], **more: Any) -> list[str]:
        asked = {"jobs": [COMMAND | job for job in jobs or ({},)]}
        ids: list[str] = (await self("POST", "/v1/jobs", json=asked, status=201, **more))["ids"]
        return ids

    async def refused(self, *jobs: dict[str, Any], status: int = 422, **more: Any) -> str:
        """Submit jobs that are not taken; return why."""
        asked = {"jobs": [COMMAND | job for job in jobs or ({},)]}
        return str((await self("POST", "/v1/jobs", json=asked, status=status, **more))["detail"])

    async def join(
        self, *names: str, identity: str = "1", cpu: float = 2, gpu: int = 0, **more: Any
    ) -> str:
        amounts = {"cpu": cpu, "memory": "8Gi", "gpu": gpu}
        servers = [{"name": name, **amounts} for name in names]
        asked = {"identity": identity, "servers": servers}
        answer = await self("POST", "/v1/workers/join", json=asked, **more)
        return str(answer["session"])

    async def sync(
        self, session: str, seen: int = 0, ended: Any = (), wait: float = 2.0, **more: Any
    ) -> Any:
        asked = {"session": session, "seen": seen, "ended": list(ended), "wait": wait}
        return await self("POST", "/v1/workers/sync", json=asked, **more)

    async def work(self, session: str, seen: int = 0, status: int = 0) -> Any:
        """End all tasks that a worker is to start; return the orders that it got."""
        orders = await self.sync(session, seen)
        ended = [[*start[1], status, ""] for start in orders["start"]]
        await self.sync(session, orders["seen"], ended)
        return orders


@asynccontextmanager
async def asked(folder: Path, settings: Settings, limits: Limits) -> AsyncIterator[Asked]:
    journal = Journal(folder / "j.db", survives_power_failure=False)  # no test cuts the power
    service = Service(journal, settings)
    app = application(service, limits)
    async with app.router.lifespan_context(app):
        await service.overview.latest()  # the first summary, which asks for shares
        transport = httpx.ASGITransport(as_root_on_tcp(app))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as http:
            yield Asked(service, http)
    journal.close()


class RootOnTcp:
    """The other end of a connection over loopback, opened by root."""

    is_unix, uid, name = False, 0, "127.0.0.1"


def as_root_on_tcp(app: Any) -> Any:
    async def call(scope: Any, receive: Any, send: Any) -> None:
        scope["state"] = {"peer": RootOnTcp()}
        await app(scope, receive, send)

    return call


def run(
    folder: Path, test: Test, settings: Settings | None = None, limits: Limits | None = None
) -> None:
    async def whole() -> None:
        async with asked(folder, settings or Settings(), limits or Limits()) as ask:
            await test(ask)

    asyncio.run(whole())


def as_(name: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer secret-{name}"}}


def change(path: Path, *statements: str) -> None:
    """Change the tables of a journal."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def served(
    test: Callable[..., Awaitable[None]] | None = None,
    settings: Settings | None = None,
    limits: Limits | None = None,
    tokens: bool = False,
) -> Any:
    """Run an async test with a service of its own: its first parameter."""
    if test is None:
        return partial(served, settings=settings, limits=limits, tokens=tokens)

    @wraps(test)
    def whole(tmp_path: Path, **fixtures: Any) -> None:
        if tokens:
            with closing(Journal(tmp_path / "j.db")) as journal:
                for name, (role, subject) in ROLES.items():
                    journal.tokens.add(Caller(name, role, subject), f"secret-{name}")
        if "tmp_path" in signature(test).parameters:
            fixtures["tmp_path"] = tmp_path
        run(tmp_path, partial(test, **fixtures), settings, limits)

    folder = Parameter("tmp_path", Parameter.POSITIONAL_OR_KEYWORD)
    others = [p for p in list(signature(test).parameters.values())[1:] if p.name != "tmp_path"]
    whole.__signature__ = Signature([folder, *others])  # type: ignore[attr-defined]
    return whole
