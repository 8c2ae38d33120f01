"""The dispatcher: a detached actor in a Ray cluster through which a service starts tasks there.

The service decides which task starts where. The dispatcher runs its own service, with the journal
next to Ray's logs, or follows a `fairlead serve` elsewhere. For the service it is a worker whose
engine is the cluster. The agents of drivers submit jobs to the dispatcher, and it orders agents to
start tasks. Its state is in the service, and outlives restarts.
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

from fairlead.errors import FairleadError, InputError
from fairlead.ray._ray_calls import AGENT, PROTOCOL
from fairlead.ray._ray_engine import RayEngine
from fairlead.service.client import calls
from fairlead.service.client.addresses import Address
from fairlead.service.client.calls import Call
from fairlead.service.client.connections import Connections
from fairlead.service.client.exchange import Exchange, Reply
from fairlead.service.engines.protocol import Ending
from fairlead.service.engines.worker_loop import Link, WorkerLoop
from fairlead.service.http.access import called_in_process
from fairlead.service.http.api import application
from fairlead.service.http.http_server import HttpServer
from fairlead.service.journal.event_journal import Journal
from fairlead.service.rate_limits import Limits
from fairlead.service.service import Service, Settings

LOG = logging.getLogger("fairlead.ray")
VERSION = version("fairlead")
KILL_AFTER = 10.0  # default seconds until a preempted call is killed
POLL_SECONDS = 5.0  # for which an agent's request waits for orders
MOST_ORDERS = 2000  # largest number of orders in an answer
CHECK_SECONDS = 2.0  # between checks for jobs of agents that have ended
Answer = tuple[int, bytes]  # status, content


class Dispatcher:
    """Divides a Ray cluster among its users; agents and clients call its methods through Ray.

    `fairlead.ray.connection.start` documents the arguments. For the policy and the seed, None means
    those of the journal, or the defaults in a new journal.
    """

    def __init__(
        self,
        policy: str | None,
        seed: int | None,
        service: str | None,
        token: str | None,
        journal: str | None,
        users: Sequence[str] | None = None,
        grace: float | None = None,
    ) -> None:
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
        self._policy, self._seed = policy, seed
        self._service_address, self._token, self._journal_file = service, token, journal
        self._grace = KILL_AFTER if grace is None else grace
        self._own_service: Service | None = None
        self._start_task: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._users: set[str] | None = None  # users that may submit; None for all
        self._users_file = _folder() / "users.json"
        if ray.get_runtime_context().was_current_actor_reconstructed and self._users_file.exists():
            self._users = set(json.loads(self._users_file.read_text(encoding="utf-8")))
        else:
            self._store_users(users)

    # Calls by agents

    async def join(
        self, name: str, user: str, protocol: int, jobs: Sequence[str], handle: Any
    ) -> dict[str, Any]:
        """Register an agent, perhaps again; `handle` is its actor, whose end is detected.

        Returns `session`, its id; `wait`, the seconds for which a `sync` should wait; and `grace`,
        the seconds until a preempted call is killed. A refusal has only `fault`, the reason.
        """
        await self._ready()
        fault = ""
        if protocol != PROTOCOL:
            fault = f"the dispatcher in this cluster is of fairlead {VERSION}, not of this version"
        elif self._users is not None and user not in self._users:
            fault = f"there is no user {user!r:.60}"
        if fault:
            return {"fault": fault}
        if name not in self._engine.agents:
            self._tasks.append(asyncio.create_task(self._watch(name, handle)))
        session = self._engine.join(name, user, jobs)
        return {"session": session, "wait": POLL_SECONDS, "grace": self._grace}

    async def submit(
        self, name: str, session: str, key: str, jobs: Sequence[dict[str, Any]]
    ) -> list[str] | None:
        """Submit jobs of an agent; return their ids, or None if the agent has to join again.

        Repeated requests carry the same `key`.
        """
        await self._ready()
        agent = self._engine.agents.get(name)
        if agent is None or agent.session.id != session:
            return None
        requests = [job | {"command": [AGENT, name], "user": agent.user} for job in jobs]
        call = Call("POST", "/v1/jobs", json.dumps({"jobs": requests}), key)
        try:
            ids: list[str] = (await self._link.ask(call))["ids"]
        except FairleadError as fault:
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
        """Record an agent's report; return numbered orders: start or stop a task, or end a job.

        Returns None if the agent has to join again; else the service has recorded the ends.
        `skipped` has, by job, tasks that need no start, because another start ran their calls. If
        there is no order after number `seen`, one is awaited for `wait` seconds.
        """
        await self._ready()
        agent = self._engine.agents.get(name)
        if agent is None or agent.session.id != session:
            return None
        agent.session.note_seen(seen)
        if any(status is None for _, status, _ in ended):
            await self._engine.update_nodes()  # so that the tasks do not restart on a lost node
        skips = [calls.skip(job, indices) for job, indices in skipped.items()]
        await self._try_all(*skips, *(calls.act_on_job(job, "cancel") for job in cancelled))
        await self._engine.report(name, ended)
        if wait and not agent.session.messages:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await agent.session.wake_up.wait()
        if self._engine.agents.get(name) is not agent:
            return None
        orders = islice(agent.session.messages, MOST_ORDERS)
        return [(message.number, message.kind, message.content) for message in orders]

    async def leave(self, name: str) -> None:
        """Remove an agent: drop its waiting tasks, and end its running ones."""
        await self._ready()
        agent = self._engine.leave(name)
        if agent is not None:  # if a request fails, its waiting tasks end when they start
            await self._try_all(*(calls.act_on_job(job, "cancel") for job in sorted(agent.jobs)))
        self._engine.end_all(name)

    # Calls by clients

    async def ask(
        self, method: str, path: str, content: bytes = b"", headers: Mapping[str, str] = {}
    ) -> Answer:
        """Send a request to the service; return its status and its content."""
        await self._ready()
        reply = await self._exchange.ask(method, path, headers, content)
        return reply.status, reply.content

    async def state(self) -> dict[str, Any]:
        """Return the options and the usage of this dispatcher, the nodes and the agents."""
        await self._ready()
        ready = json.loads((await self.ask("GET", "/readyz"))[1])
        times = os.times()
        return {
            "version": VERSION,
            "policy": ready.get("policy", ""),
            "seed": None
            if self._own_service is None
            else self._own_service.state_thread.state.scheduler.seed,
            "service": str(self._address),
            "grace": self._grace,
            "journal": None if self._journal is None else str(self._journal.path),
            "nodes": {name: found.id for name, found in self._engine.ray_nodes.items()},
            "agents": [
                {"name": a.name, "user": a.user, "jobs": len(a.jobs)}
                for a in self._engine.agents.values()
            ],
            "running": self._engine.running,
            "cpu_seconds": times.user + times.system,
            "process": os.getpid(),
        }

    async def allow(self, users: Mapping[str, float]) -> None:
        """Allow these users, with these weights, to submit; from then on, only allowed ones may."""
        await self._ready()
        for name, weight in users.items():
            try:
                await self._link.ask(calls.set_user(name, weight))
            except InputError as fault:
                raise InputError(fault.fault, name) from None
        self._store_users((self._users or set()) | set(users))

    def _store_users(self, users: Collection[str] | None) -> None:
        """Store the allowed users for this actor and its restarts."""
        self._users = None if users is None else set(users)
        if self._users is None:
            self._users_file.unlink(missing_ok=True)
        else:
            new = self._users_file.with_suffix(".new")
            new.write_text(json.dumps(sorted(self._users)), encoding="utf-8")
            new.rename(self._users_file)

    async def _try_all(self, *changes: Call) -> None:
        """Send requests together, so that one disk sync serves all; ignore failures.

        The jobs may have ended meanwhile. No request is repeated, so the journal keeps no answers.
        """
        answers = (self._link.ask(change._replace(key="")) for change in changes)
        for outcome in await asyncio.gather(*answers, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, FairleadError):
                raise outcome

    async def _ready(self) -> None:
        """Start the dispatcher at the first call in this process; wait until it is ready."""
        if self._start_task is None:
            self._start_task = asyncio.create_task(self._start())
        await asyncio.shield(self._start_task)

    async def _start(self) -> None:
        """Start or reach the service; then start the worker's loop and the notices to agents."""
        self._engine = RayEngine()
        self._journal: Journal | None = None
        if self._service_address is None:
            await self._serve()
        else:
            address = Address.of(self._service_address, self._token)
            self._exchange: Exchange = Connections(address)
            self._address = self._service_address
        self._link = Link(self._exchange)
        await self._engine.update_nodes()
        loop = WorkerLoop(self._link, self._engine)
        self._tasks.append(asyncio.create_task(self._run_worker(loop)))
        self._tasks.append(asyncio.create_task(self._report_ended_jobs()))

    async def _serve(self) -> None:
        """Start a service in this process, which also listens on loopback."""
        path = Path(self._journal_file) if self._journal_file else _folder() / "journal.db"
        self._journal = Journal(path, survives_power_failure=self._journal_file is not None)
        service = self._own_service = Service(self._journal, Settings(self._policy, self._seed))
        app = application(service, Limits(), version=VERSION)
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        self._address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = HttpServer(app, [listening])
        self._tasks.append(asyncio.create_task(server.serve()))
        while not server.started:
            await asyncio.sleep(0.01)
        # Before the first batch of the state's thread, the policy is that of the journal.
        await asyncio.wrap_future(service.state_thread.enqueue(lambda _tx: None))
        self._exchange = _ToApplication(called_in_process(app), self._address)

    async def _run_worker(self, loop: WorkerLoop) -> None:
        """Run the worker's loop; exit on a failure, so that Ray restarts this actor."""
        try:
            await loop.run()
        except BaseException as fault:
            LOG.exception("the dispatcher ends: %r", fault)
            os._exit(1)

    async def _report_ended_jobs(self) -> None:
        """Notify agents of ended jobs, at regular times, without end."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            jobs_of = {agent.name: set(agent.jobs) for agent in self._engine.agents.values()}
            if not any(jobs_of.values()):
                continue
            with suppress(FairleadError):
                live, after = set[str](), "0"
                while after is not None:
                    part = await self._link.ask(calls.list_jobs(None, False, after))
                    live, after = live | {row["id"] for row in part["jobs"]}, part["next"]
                for name, jobs in jobs_of.items():
                    if (agent := self._engine.agents.get(name)) is not None:
                        for job in sorted(jobs - live):
                            agent.jobs.discard(job)
                            agent.session.queue("over", job)

    async def _watch(self, name: str, handle: Any) -> None:
        """Remove an agent when its actor is gone; the call of `live` fails then."""
        with suppress(ray.exceptions.RayError):
            await handle.live.remote()
        await self.leave(name)


class _ToApplication:
    """Sends requests to an application in this process; see `Exchange`."""

    def __init__(self, application: Any, url: str) -> None:
        self.url = url
        transport = httpx.ASGITransport(application)
        self._http = httpx.AsyncClient(transport=transport, base_url=url)

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        answer = await self._http.request(method, target, content=body, headers=dict(headers))
        return Reply(answer.status_code, answer.headers, answer.content)

    def close(self) -> None:
        """Do nothing: there is no connection."""


def _folder() -> Path:
    """Return the folder of Ray's current session on this machine."""
    folder = Path(ray._private.worker._global_node.get_session_dir_path()) / "fairlead"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
