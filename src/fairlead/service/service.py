"""The service: an engine, its workers, and what people may ask of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from time import monotonic, time
from typing import Any, NamedTuple

from pydantic_core import to_json

from fairlead.errors import InputError
from fairlead.service._metrics_page import MetricsPage
from fairlead.service._state_thread import Engine, Turn
from fairlead.service._workers import Workers
from fairlead.service.jobs import Effects, Job, TaskKey
from fairlead.service.journal.event_journal import Journal
from fairlead.service.journal.job_records import DAMAGED, LISTED_BYTES, job_view
from fairlead.service.journal.journal_tables import JournalError
from fairlead.service.journal.tokens import Token
from fairlead.service.messages import (
    DeniedError,
    FullError,
    JobChange,
    JobRequest,
    MissingError,
    UnavailableError,
)
from fairlead.service.service_state import FORESEEN_ENDS, RESOURCES, ServiceState

LOG = logging.getLogger("fairlead.service")
SILENT_SECONDS = 15.0  # after which nothing is placed on a server
GRACE_SECONDS = 60.0  # after which its tasks run elsewhere
FORGET_SECONDS = 3600.0
LISTED = 1000  # jobs that are over
VIEWS_AT_ONCE = 2000  # waiting and running jobs in an answer, described in one turn of the engine
PENDING_TASKS = 1_000_000  # of one user
LIVE_BYTES = 256 * 2**20  # of the requests of one user's waiting and running jobs


@dataclass(frozen=True)
class Settings:
    """What an operator may set.

    Attributes
    ----------
    policy : str or None
    seed : int or None
        None to keep that of the journal.
    silent, grace : float
        Seconds without a word from a worker: after the first nothing is placed on its servers,
        after the second its tasks run again elsewhere.
    pending_tasks : int
        Tasks of one user that may wait.
    live_bytes : int
        Bytes of the requests of one user's waiting and running jobs.
    keep : float
        Seconds for which jobs that ended are kept; 0 for ever.
    """

    policy: str | None = None
    seed: int | None = None
    silent: float = SILENT_SECONDS
    grace: float = GRACE_SECONDS
    pending_tasks: int = PENDING_TASKS
    live_bytes: int = LIVE_BYTES
    keep: float = 0.0


class JobsPage(NamedTuple):
    """A part of a list of jobs, and the id to go on from, if there are more."""

    jobs: list[dict[str, Any]]
    next: str | None


class Service:
    """Everything behind the API; its methods are for the event loop's thread.

    Parameters
    ----------
    journal : Journal
    settings : Settings
    """

    def __init__(self, journal: Journal, settings: Settings) -> None:
        self.journal, self.settings = journal, settings
        self.engine = Engine(journal, settings.policy, settings.seed, self._publish, self._rebuilt)
        self.metrics = MetricsPage(self.engine)
        self.workers = Workers(self.engine, journal, settings.silent, settings.grace)
        self.sessions = self.workers.sessions
        self._one_shares = asyncio.Lock()
        self._shares: dict[str, Any] = {}
        self._shares_asked = -inf  # when the state was asked for these
        self._waiting: dict[int, set[asyncio.Future[None]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watching: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin."""
        self._loop = asyncio.get_running_loop()
        self.sessions.expect(self.engine.state.servers)
        self.engine.start()
        self._watching = [asyncio.create_task(self.workers.watch_silence())]
        if self.settings.keep:
            self._watching.append(asyncio.create_task(self._forget_old_jobs()))

    def wake(self) -> None:
        """Answer all who wait for news, as the service is about to end."""
        self.workers.is_closing = True
        for session in self.sessions.by_id.values():
            session.news.set()
        for waiting in self._waiting.values():
            for over in waiting:
                if not over.done():
                    over.set_result(None)

    async def stop(self) -> None:
        """Carry out what has come in, and end."""
        self.wake()
        for task in self._watching:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await asyncio.to_thread(self.engine.stop)

    # Jobs

    async def submit(
        self, jobs: Sequence[JobRequest], who: Token, key: str = "", digest: str = ""
    ) -> list[str]:
        """Accept jobs; return their ids when they are on disk."""
        requests = []
        others = {int(job) for asked in jobs for job in asked.after}
        for asked in jobs:
            user = asked.user or (who.subject if who.role == "user" else None)
            if user is None:
                raise InputError("must be given, as the token belongs to no user", "user")
            if who.role == "user" and user != who.subject:
                raise DeniedError(f"you are {who.subject!r}, and may not submit for {user!r}")
            spec = asked.model_dump(
                include={"command", "name", "directory", "environment", "tasks"}
            )
            spec["user"] = user
            event = {
                "user": user,
                **_amounts(asked),
                "where": asked.where,
                "priority": asked.priority,
                "time_limit": asked.time_limit,
                **({} if asked.name is None else {"name": asked.name}),
            }
            event["size"] = len(to_json(spec)) + len(to_json(event))
            requests.append((asked, event, spec))
        # Looked up beside the engine's thread, and once for all jobs of the request.
        ended = await asyncio.to_thread(self.journal.jobs.outcomes, others) if others else {}

        def take(turn: Turn) -> list[str]:
            state, events, specs = turn.state, [], []
            self._check_limits(state, [event for _, event, _ in requests])
            just_ended = {
                job
                for job in others - ended.keys()
                if job not in state.jobs and job < state.next_job
            }
            outcomes = ended | self.journal.jobs.outcomes(just_ended)
            for asked, event, spec in requests:
                after = [
                    job for job in map(int, asked.after) if not _is_done(state, outcomes, job, who)
                ]
                events.append({**event, "after": after})
                spec["submitted"] = turn.now  # tells it from a job of another journal
                specs.append((spec["user"], turn.now, to_json(spec)))
            ids = turn.tell("submit", jobs=events)
            turn.batch.specs.update(zip(ids, specs, strict=True))
            return [str(job) for job in ids]

        return await self.engine.answer(take, key, digest)

    def _check_limits(self, state: ServiceState, events: Sequence[Mapping[str, Any]]) -> None:
        """Refuse jobs that exceed a limit of their user."""
        tasks: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for event in events:
            user = event["user"]
            tasks[user] = tasks.get(user, 0) + event["tasks"]
            sizes[user] = sizes.get(user, 0) + event["size"]
        for user, coming in tasks.items():
            waiting, most = state.pending.get(user, 0), self.settings.pending_tasks
            if waiting + coming > most:
                raise FullError(
                    f"{waiting:,} tasks of {user!r} wait; {coming:,} more exceed the limit of "
                    f"{most:,}"
                )
        for user, coming in sizes.items():
            self._check_live_bytes(state, user, coming)

    def _check_live_bytes(self, state: ServiceState, user: str, coming: int) -> None:
        live, most = state.live_bytes.get(user, 0), self.settings.live_bytes
        if coming and live + coming > most:
            raise FullError(
                f"the live jobs of {user!r} take {live:,} bytes; {coming:,} more exceed the "
                f"limit of {most:,}"
            )

    async def change(
        self, job: int, who: Token, kind: str, key: str = "", digest: str = "", **body: Any
    ) -> dict[str, Any]:
        """Apply ``cancel``, ``hold``, ``release`` or ``modify`` to a job; return the job."""

        def take(turn: Turn) -> dict[str, Any]:
            found = _own_job(turn.state, job, who)
            if found is None:
                return self._ended_job(job, who, must_be_live=kind != "cancel")
            asked = body
            if kind == "modify":
                changes = changes_of(found, body["asked"])
                asked = {"changes": changes, "size": found.size}
                if "where" in changes:
                    longer = len(to_json(changes["where"])) - len(to_json(found.where))
                    self._check_live_bytes(turn.state, found.user, max(longer, 0))
                    asked["size"] += longer
                if not (found.cancelled or found.waiting):
                    raise InputError("all of its tasks have started", f"job {job}")
            turn.tell(kind, job=job, **asked)
            return job_view(found)

        return await self.engine.answer(take, key, digest)

    async def skip(
        self, job: int, who: Token, tasks: Sequence[int], key: str = "", digest: str = ""
    ) -> dict[str, Any]:
        """Count waiting tasks of a job as done; return the job."""

        def take(turn: Turn) -> dict[str, Any]:
            found = _own_job(turn.state, job, who)
            if found is None:
                return self._ended_job(job, who)
            turn.tell("skip", job=job, tasks=sorted(set(tasks)))
            return job_view(found)

        return await self.engine.answer(take, key, digest)

    async def job(self, job: int, who: Token) -> dict[str, Any]:
        """Return a job, with its command."""
        view = await self._view(job, who)
        specs = await asyncio.to_thread(self.journal.jobs.specs, [job])
        if job not in specs:
            return view | {"command": None, "reason": view["reason"] or DAMAGED}
        return view | {"command": specs[job]["command"]}

    async def _view(self, job: int, who: Token) -> dict[str, Any]:
        def look(turn: Turn) -> dict[str, Any] | None:
            found = _own_job(turn.state, job, who)
            return None if found is None else job_view(found)

        view = await self.engine.answer(look)
        if view is None:
            view = await asyncio.to_thread(self._ended_job, job, who)
        return view

    async def jobs(
        self,
        who: Token,
        user: str | None,
        is_all: bool,
        beyond: int = 0,
        limit: int = VIEWS_AT_ONCE,
    ) -> JobsPage:
        """Return waiting and running jobs by id, and, if asked for, the latest that ended.

        Of either at most 2 MiB, but one at least.

        Parameters
        ----------
        who : Token
            A user's token lists that user's jobs alone.
        user : str or None
            Only jobs of this user.
        is_all : bool
            Include the latest 1,000 jobs that ended.
        beyond : int
            Only jobs with a higher id.
        limit : int
            At most as many waiting and running jobs.
        """
        if who.role == "user":
            user = who.subject

        def find(turn: Turn) -> JobsPage:
            live = turn.state.jobs.values()
            chosen = (j for j in live if j.id > beyond and (user is None or j.user == user))
            return _page(chosen, limit)

        live, following = await self.engine.answer(find)
        if is_all:
            ended = await asyncio.to_thread(self.journal.jobs.ended_jobs, user, None, LISTED)
            seen = {view["id"] for view in ended}
            live = [view for view in live if view["id"] not in seen] + ended
        return JobsPage(live, following)

    async def live_ids(self) -> set[str]:
        """Return the ids of all waiting and running jobs."""
        return await self.engine.answer(lambda turn: {str(job) for job in turn.state.jobs})

    async def wait(self, job: int, who: Token, seconds: float) -> dict[str, Any]:
        """Return a job as soon as it is over, or as it is after a time."""
        deadline = monotonic() + seconds
        while True:
            over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting = self._waiting.setdefault(job, set())
            waiting.add(over)
            try:
                view = await self._view(job, who)
                left = deadline - monotonic()
                if (
                    view["state"] in ("finished", "failed", "cancelled")
                    or left <= 0
                    or self.workers.is_closing
                ):
                    return view
                with suppress(TimeoutError):
                    await asyncio.wait_for(over, left)
            finally:
                waiting.discard(over)
                if not waiting:
                    self._waiting.pop(job, None)

    async def explain(self, job: int, who: Token) -> dict[str, Any]:
        """Return why a job waits, and what would let its first task start."""

        def look(turn: Turn) -> dict[str, Any]:
            found = _own_job(turn.state, job, who)
            if found is None:
                view = self._ended_job(job, who)
                more = view["reason"] if view["reason"] != view["state"] else ""
                return _explained(view, f"it is {view['state']}", more)
            view = job_view(found)
            if found.cancelled:
                return _explained(view, "its tasks are being stopped", found.cancelled)
            group = found.group
            if found.aside and found.waiting:
                return _explained(view, _why_aside(found))
            if group is None:
                return _explained(view, "all of its tasks have started")
            why = turn.state.scheduler.explain(group, turn.now)
            text = str(why)
            if silent := [m.name for m in turn.state.servers.values() if not m.reachable]:
                names = ", ".join(silent[:3]) + (", ..." if len(silent) > 3 else "")
                text += f"\nServers that are silent count as drained: {len(silent):,} ({names})."
            return {"job": str(job), **why.to_dict(), "state": view["state"], "text": text}

        return await self.engine.answer(look)

    async def when(self, job: int, who: Token) -> dict[str, Any]:
        """Return when the first waiting task of a job starts, as far as that can be told."""

        def look(turn: Turn) -> dict[str, Any]:
            found = _own_job(turn.state, job, who)
            view = self._ended_job(job, who) if found is None else job_view(found)
            told = {"job": view["id"], "state": view["state"], "starts": view["started"]}
            if found is None or found.started is not None:
                return told
            if found.aside:
                others = ", ".join(map(str, found.after))
                and_so = "and it waits" if found.held else "it waits"
                return told | {"reason": f"{and_so} for job {others}" if others else ""}
            starts, not_before, endless, ended = turn.state.foresee(job, turn.now)
            told |= {"starts": starts, "not_before": not_before}
            if starts is None:
                group = found.group
                never = group is not None and turn.state.scheduler.explain(group).never
                if never or not (endless or ended >= FORESEEN_ENDS):
                    told["reason"] = "it fits on no server as it is"
                elif ended >= FORESEEN_ENDS:
                    told["reason"] = f"{ended:,} tasks end before"
                else:
                    told["reason"] = f"tasks that run without a time limit: {endless:,}"
            return told

        return await self.engine.answer(look)

    async def logs(
        self, job: int, who: Token, index: int, attempt: int | None, stream: str, offset: int
    ) -> dict[str, Any]:
        """Return a piece of a task's output, from its worker."""

        def look(turn: Turn) -> tuple[TaskKey, str] | None:
            found = _own_job(turn.state, job, who)
            run = None if found is None else found.running.get(index)
            if run is not None and attempt in (None, run.key.attempt):
                return run.key, run.server
            return None

        found = await self.engine.answer(look)
        if found is None:
            await self._view(job, who)
            found = await asyncio.to_thread(self._past, job, index, attempt)
        key, server = found
        session = self.sessions.by_server.get(server)
        if session is None:
            raise UnavailableError(f"server {server!r}, which has the output, is not here")
        piece = await self.workers.logs(session, (server, key, stream, offset))
        if piece.fault:
            raise MissingError(piece.fault)
        begin = offset if piece.offset is None else piece.offset
        return {"data": piece.data, "offset": begin, "size": piece.size, "is_over": piece.is_over}

    def _past(self, job: int, index: int, attempt: int | None) -> tuple[TaskKey, str]:
        rows = [r for r in self.journal.jobs.attempts_of(job) if r["task"] == index]
        rows = [r for r in rows if attempt in (None, r["attempt"])]
        if not rows:
            raise MissingError(f"no such task of job {job} has started")
        return TaskKey(job, index, rows[-1]["attempt"]), rows[-1]["server"]

    def _ended_job(self, job: int, who: Token, must_be_live: bool = False) -> dict[str, Any]:
        ended = self.journal.jobs.ended_jobs(ids=[job])
        if not ended or (who.role == "user" and ended[0]["user"] != who.subject):
            raise MissingError(f"there is no job {job}")
        if must_be_live:
            raise InputError(f"is {ended[0]['state']} already", f"job {job}")
        return ended[0]

    # Users, servers, shares

    async def users(self) -> list[dict[str, Any]]:
        """Return all users."""

        def look(turn: Turn) -> list[dict[str, Any]]:
            return [
                {
                    "name": name,
                    "weight": weight,
                    "pending": turn.state.pending[name],
                    "running": turn.state.running[name],
                }
                for name, weight in turn.state.users.items()
            ]

        return await self.engine.answer(look)

    async def set_user(
        self, name: str, weight: float, key: str = "", digest: str = ""
    ) -> dict[str, Any]:
        """Give a user a weight."""

        def take(turn: Turn) -> dict[str, Any]:
            turn.tell("user", name=name, weight=weight)
            return {"name": name, "weight": weight}

        return await self.engine.answer(take, key, digest)

    async def servers(self) -> list[dict[str, Any]]:
        """Return all servers, and drained ones that are gone."""

        def look(turn: Turn) -> list[dict[str, Any]]:
            views: list[dict[str, Any]] = []
            for machine in turn.state.servers.values():
                used = dict.fromkeys(machine.capacity, 0.0)
                for run in machine.running.values():
                    for resource, amount in run.demand.items():
                        used[resource] = used.get(resource, 0.0) + amount
                views.append(
                    {
                        "name": machine.name,
                        "state": machine.state,
                        "capacity": machine.capacity,
                        "used": used,
                        "labels": machine.labels,
                        "tasks": len(machine.running),
                    }
                )
            nothing: dict[str, Any] = {"capacity": {}, "used": {}, "labels": {}, "tasks": 0}
            return views + [{"name": n, "state": "gone", **nothing} for n in turn.state.drained]

        return await self.engine.answer(look)

    async def change_server(
        self, name: str, kind: str, key: str = "", digest: str = "", **body: Any
    ) -> dict[str, Any]:
        """Apply ``drain`` or ``lost`` to a server."""

        def take(turn: Turn) -> dict[str, Any]:
            is_kept = name in turn.state.drained and body.get("drained") is False
            if name not in turn.state.servers and not is_kept:
                raise MissingError(f"there is no server {name!r:.60}")
            turn.tell(kind, name=name, **body)
            machine = turn.state.servers.get(name)
            return {"name": name, "state": "gone" if machine is None else machine.state}

        answer = await self.engine.answer(take, key, digest)
        if kind == "lost":
            self.sessions.forget(name)
        return answer

    async def shares(self) -> dict[str, Any]:
        """Return users' shares and the fair ones, with the proof; computed aside, one at a time.

        Requests that wait for a computation share the next one.
        """
        came = monotonic()
        async with self._one_shares:
            if self._shares_asked < came:
                asked = monotonic()
                question = await self.engine.answer(
                    lambda turn: turn.state.scheduler.shares_question()
                )
                self._shares = (await asyncio.to_thread(question.answer)).to_dict()
                self._shares_asked = asked
            return self._shares

    async def _forget_old_jobs(self) -> None:
        """Delete old jobs and events from the journal, once an hour."""
        while True:
            try:
                await asyncio.to_thread(self.journal.forget, time() - self.settings.keep)
            except JournalError as fault:
                LOG.warning("old jobs and events cannot be deleted", extra={"fault": str(fault)})
            await asyncio.sleep(FORGET_SECONDS)

    # How it is done

    def _publish(self, effects: Effects) -> None:
        """Notify workers and callers that wait for jobs; called in the engine's thread."""
        if self._loop is not None and (effects.starts or effects.stops or effects.ended):
            ended = [job.id for job in effects.ended]
            self._loop.call_soon_threadsafe(self._deliver, effects, ended)

    def _deliver(self, effects: Effects, ended: Sequence[int]) -> None:
        self.sessions.deliver(effects.starts, effects.stops)
        for job in ended:
            for over in self._waiting.get(job, ()):
                if not over.done():
                    over.set_result(None)

    def _rebuilt(self, state: ServiceState) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.sessions.forget_all, list(state.servers))


def _amounts(asked: JobRequest) -> dict[str, Any]:
    """Return how many tasks a job has and what they ask for, as the state takes it."""
    if not asked.bundles:
        return {
            "demand": asked.demand(),
            "tasks": asked.tasks,
            "gang": asked.gang and asked.tasks > 1,
        }
    members = [(bundle.demand(), bundle.tasks) for bundle in asked.bundles]
    most = {r: max(demand.get(r, 0.0) for demand, _ in members) for d, _ in members for r in d}
    return {"demand": most, "tasks": asked.tasks_of_all, "gang": True, "members": members}


def changes_of(job: Job, asked: JobChange) -> dict[str, Any]:
    """Return what of a job is to be changed, as the state takes it."""
    given = asked.model_dump(exclude_none=True)
    changes: dict[str, Any] = {
        name: given[name] for name in ("where", "priority", "time_limit") if name in given
    }
    if asked.anywhere:
        changes["where"] = None
    if asked.unlimited:
        changes["time_limit"] = None
    if amounts := {r: given[r] for r in RESOURCES if r in given}:
        changes["demand"] = job.demand | amounts
    if not changes:
        raise InputError("nothing to change was given")
    return changes


def _is_done(
    state: ServiceState, outcomes: Mapping[int, tuple[str, str]], job: int, who: Token
) -> bool:
    """Return whether a job ended well; raise where it did not, or is not the caller's."""
    live = state.jobs.get(job)
    user, ended = outcomes.get(job, ("", "")) if live is None else (live.user, "")
    if not user or (who.role == "user" and user != who.subject):
        raise InputError(f"there is no job {job}", "after")
    if ended not in ("", "finished"):
        raise InputError(f"job {job} is {ended}", "after")
    return bool(ended)


def _page(jobs: Iterable[Job], limit: int) -> JobsPage:
    """Describe the first jobs, at most `limit` and `LISTED_BYTES` of them, but one at least."""
    shown: list[dict[str, Any]] = []
    size = 0
    for job in jobs:
        view = job_view(job)
        size += len(to_json(view))
        if shown and (len(shown) == limit or size > LISTED_BYTES):
            return JobsPage(shown, shown[-1]["id"])
        shown.append(view)
    return JobsPage(shown, None)


def _own_job(state: ServiceState, job: int, who: Token) -> Job | None:
    """Return a job that waits or runs, if there is one, and it is theirs."""
    found = state.jobs.get(job)
    if found is not None and who.role == "user" and found.user != who.subject:
        raise MissingError(f"there is no job {job}")
    return found


def _why_aside(job: Job) -> str:
    """Return why the scheduler does not have what waits of a job."""
    others = ", ".join(map(str, job.after))
    why = [f"it waits until these end well: job {others}"] if others else []
    why += [f"it is held; fairlead release {job.id} lets it start"] if job.held else []
    return ", and ".join(why)


def _explained(view: Mapping[str, Any], reason: str, more: str = "") -> dict[str, Any]:
    return {
        "job": view["id"],
        "state": view["state"],
        "reason": f"{reason}: {more}" if more else reason,
        "ahead": [],
        "servers": [],
        "would_change": [],
        "never": False,
    }
