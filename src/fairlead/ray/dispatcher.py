"""The dispatcher: one detached actor in a Ray cluster that decides whose task starts where.

It holds a service of its own, with its journal beside Ray's logs, or follows a `fairlead serve`
elsewhere. To that service it is a worker whose engine is the cluster; to the agents of drivers it
is who takes their jobs and tells them what starts. All it knows is in the service, so that an actor
that is started again goes on where it was.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import ray
from pydantic import ValidationError

from fairlead.errors import FairleadError, InputError
from fairlead.ray.cluster import AGENT, RayCluster
from fairlead.service.client import calls
from fairlead.service.client.addresses import Address
from fairlead.service.client.connections import Connections
from fairlead.service.client.exchange import AwaitedExchange, Reply
from fairlead.service.engines.links import InProcess, Link, OverHttp
from fairlead.service.engines.protocol import Ending
from fairlead.service.engines.worker_loop import WorkerLoop
from fairlead.service.http.access import ADMIN, Limits, inside
from fairlead.service.http.api import application
from fairlead.service.http.http_server import HttpServer
from fairlead.service.journal.event_journal import Journal
from fairlead.service.service import Service, Settings

VERSION = version("fairlead")
PROTOCOL = 1  # of what agents and dispatchers say to one another
POLL_SECONDS = 5.0  # for which an agent waits for news
AT_ONCE = 2000  # messages in an answer
LOOK_SECONDS = 2.0  # after which agents hear of jobs that somebody else cancelled
Answer = tuple[int, bytes]


class Dispatcher:
    """See the module; its methods are called by agents and clients, through Ray.

    Parameters
    ----------
    policy : str, optional
        As `Scheduler` has it; what the journal has, or ``drf/best-fit``, when absent.
    seed : int, optional
        Of what is random in it; what the journal has, or 0, when absent.
    service, token : str, optional
        Address of a service to follow, and what lets this cluster in; one of its own when absent.
    journal : str, optional
        The own service's file; one in the folder of Ray's session when absent.
    users : sequence of str, optional
        Who may submit, and whom `allow` adds; anybody when absent.
    """

    def __init__(
        self,
        policy: str | None,
        seed: int | None,
        service: str | None,
        token: str | None,
        journal: str | None,
        users: Sequence[str] | None = None,
    ) -> None:
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
        self._policy, self._seed = policy, seed
        self._remote, self._token, self._file = service, token, journal
        self._own: Service | None = None
        self._begun: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._users: set[str] | None = None  # who may submit; anybody when None
        self._kept = _folder() / "users.json"
        if ray.get_runtime_context().was_current_actor_reconstructed and self._kept.exists():
            self._users = set(json.loads(self._kept.read_text(encoding="utf-8")))
        else:
            self._keep_users(users)

    # What agents say

    async def join(
        self, name: str, user: str, protocol: int, jobs: Sequence[str], handle: Any
    ) -> dict[str, Any]:
        """Register an agent, also one that comes back; `handle` shows when its actor is gone."""
        await self._ready()
        fault = ""
        if protocol != PROTOCOL:
            fault = f"the dispatcher in this cluster is of fairlead {VERSION}; this is another"
        elif self._users is not None and user not in self._users:
            fault = f"there is no user {user!r:.60}"
        if fault:
            return {"fault": fault}
        if name not in self._engine.agents:
            self._tasks.append(asyncio.create_task(self._watch(name, handle)))
        return {"session": self._engine.join(name, user, jobs), "wait": POLL_SECONDS}

    async def submit(
        self, name: str, session: str, key: str, jobs: Sequence[dict[str, Any]]
    ) -> list[str] | None:
        """Take jobs of an agent; return their ids, or None where the agent has to join again.

        `key` is the same when the same is sent again.
        """
        await self._ready()
        agent = self._engine.agents.get(name)
        if agent is None or agent.session.id != session:
            return None
        asked = [job | {"command": [AGENT, name], "user": agent.user} for job in jobs]
        try:
            ids = await self._link.submit(asked, key)
        except (FairleadError, ValidationError) as fault:
            raise ValueError(str(fault)) from None
        agent.jobs.update(ids)
        return ids

    async def sync(
        self,
        name: str,
        session: str,
        seen: int,
        ended: Sequence[Ending] = (),
        skipped: Mapping[str, Sequence[int]] = {},
        cancelled: Sequence[str] = (),
        wait: float = 0.0,
    ) -> list[tuple[int, str, Any]] | None:
        """Take an agent's report; return numbered orders to start and stop tasks.

        None where the agent has to join again. What ended is on disk then.
        """
        await self._ready()
        agent = self._engine.agents.get(name)
        if agent is None or agent.session.id != session:
            return None
        agent.session.note_seen(seen)
        if any(status is None for _, status, _ in ended):
            await self._engine.look()  # else they run again on a node that is gone
        with suppress(FairleadError):  # jobs that are over
            await self._link.skip(skipped)
            await self._link.cancel(cancelled)
        await self._engine.hear(name, ended)
        if wait and not agent.session.messages:
            with suppress(TimeoutError):
                await asyncio.wait_for(agent.session.news.wait(), wait)
        if self._engine.agents.get(name) is not agent:
            return None
        told = islice(agent.session.messages, AT_ONCE)
        return [(message.number, message.kind, message.what) for message in told]

    async def leave(self, name: str) -> None:
        """Remove an agent: drop its waiting tasks, and end its running ones."""
        await self._ready()
        agent = self._engine.leave(name)
        with suppress(FairleadError):  # else what waits ends when it would start
            await self._link.cancel(sorted(agent.jobs) if agent is not None else ())
        self._engine.end_all(name)

    # What clients say

    async def ask(
        self, method: str, path: str, content: bytes = b"", headers: Mapping[str, str] = {}
    ) -> Answer:
        """Ask the service; return status and answer."""
        await self._ready()
        reply = await self._exchange.ask(method, path, headers, content)
        return reply.status, reply.content

    async def state(self) -> dict[str, Any]:
        """Return what this dispatcher is, and who is there."""
        await self._ready()
        ready = json.loads((await self.ask("GET", "/readyz"))[1])
        times = os.times()
        return {
            "version": VERSION,
            "policy": ready.get("policy", ""),
            "seed": None if self._own is None else self._own.engine.state.scheduler.seed,
            "service": str(self._address),
            "journal": None if self._journal is None else str(self._journal.path),
            "nodes": {name: found.id for name, found in self._engine.found.items()},
            "agents": [
                {"name": a.name, "user": a.user, "jobs": len(a.jobs)}
                for a in self._engine.agents.values()
            ],
            "running": self._engine.running,
            "cpu_seconds": times.user + times.system,
            "process": os.getpid(),
        }

    async def allow(self, users: Mapping[str, float]) -> None:
        """Restrict submission to these users, with these weights."""
        await self._ready()
        for name, weight in users.items():
            call = calls.set_user(name, weight)
            status, answer = await self.ask(
                call.method, call.target, call.body.encode(), call.headers
            )
            if status != 200:
                raise InputError(str(json.loads(answer)["detail"]), name)
        self._keep_users((self._users or set()) | set(users))

    # How it is done

    def _keep_users(self, users: Collection[str] | None) -> None:
        """Store the allowed users, also for a restart of this actor."""
        self._users = None if users is None else set(users)
        if self._users is None:
            self._kept.unlink(missing_ok=True)
        else:
            new = self._kept.with_suffix(".new")
            new.write_text(json.dumps(sorted(self._users)), encoding="utf-8")
            new.rename(self._kept)

    async def _ready(self) -> None:
        """Begin, if this is the first call of this process."""
        if self._begun is None:
            self._begun = asyncio.create_task(self._begin())
        await asyncio.shield(self._begun)

    async def _begin(self) -> None:
        self._engine = RayCluster()
        self._journal: Journal | None = None
        if self._remote is None:
            await self._serve()
        else:
            address = Address.of(self._remote, self._token)
            self._exchange: AwaitedExchange = Connections(address)
            self._link: Link = OverHttp(Connections(address))
            self._address = self._remote
        await self._engine.look()
        follower = WorkerLoop(self._link, self._engine)
        self._tasks.append(asyncio.create_task(self._follow(follower)))
        self._tasks.append(asyncio.create_task(self._tell_what_is_over()))

    async def _serve(self) -> None:
        """Start a service in this process, which this machine can reach over loopback, too."""
        path = Path(self._file) if self._file else _folder() / "journal.db"
        self._journal = Journal(path, outlives_machine=self._file is not None)
        service = self._own = Service(self._journal, Settings(self._policy, self._seed))
        app = application(service, Limits(), version=VERSION)
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        self._address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = HttpServer(app, [listening])
        self._tasks.append(asyncio.create_task(server.serve()))
        while not server.started:
            await asyncio.sleep(0.01)
        # The journal's policy may be another until the engine has had its first turn.
        await asyncio.wrap_future(service.engine.ask(lambda _turn: None))
        self._link = InProcess(service, ADMIN)
        self._exchange = _ToApplication(inside(app), self._address)

    async def _follow(self, follower: WorkerLoop) -> None:
        """Follow the service; end where that is no use, so that Ray begins anew."""
        try:
            await follower.run()
        except BaseException as fault:
            logging.getLogger("fairlead.ray").exception("the dispatcher ends: %r", fault)
            os._exit(1)

    async def _tell_what_is_over(self) -> None:
        """Notify agents of their ended jobs, whatever ended them."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            asked = {agent.name: set(agent.jobs) for agent in self._engine.agents.values()}
            if not any(asked.values()):
                continue
            with suppress(FairleadError):
                live = await self._link.live()
                for name, jobs in asked.items():
                    if (agent := self._engine.agents.get(name)) is not None:
                        for job in sorted(jobs - live):
                            agent.jobs.discard(job)
                            agent.session.tell("over", job)

    async def _watch(self, name: str, handle: Any) -> None:
        """Watch an agent's actor: a call that it never answers fails when the actor is gone."""
        with suppress(ray.exceptions.RayError):
            await handle.live.remote()
        await self.leave(name)


class _ToApplication:
    """Requests to an application in this process; see `AwaitedExchange`."""

    def __init__(self, application: Any, url: str) -> None:
        self.url = url
        transport = httpx.ASGITransport(application)
        self._http = httpx.AsyncClient(transport=transport, base_url=url)

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        answer = await self._http.request(method, target, content=body, headers=dict(headers))
        return Reply(answer.status_code, answer.headers, answer.content)


def _folder() -> Path:
    """Return the folder of Ray's session on this machine; it goes with the session."""
    folder = Path(ray._private.worker._global_node.get_session_dir_path()) / "fairlead"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
