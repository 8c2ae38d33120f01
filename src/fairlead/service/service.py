"""The service behind the API: its operations on jobs, users, servers and shares."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from time import time
from typing import Any
from weakref import WeakValueDictionary

from pydantic_core import to_json

from fairlead.errors import InputError
from fairlead.formats.queue_file import QueueFile
from fairlead.model.queues import JOBS
from fairlead.service._history import StateHistory
from fairlead.service._metrics_page import MetricsPage
from fairlead.service._overview import CurrentShares, Overview
from fairlead.service._state_thread import StateThread, Transaction
from fairlead.service._submissions import changes_of, event_and_spec
from fairlead.service._views import server_with_tasks, user_view
from fairlead.service._what_if import trial_in_fork, try_changes
from fairlead.service._workers import Workers
from fairlead.service.alerts import KINDS, Thresholds
from fairlead.service.jobs import Effects, Job, TaskKey
from fairlead.service.journal.event_journal import Journal, JournalError
from fairlead.service.journal.job_records import (
    DAMAGED,
    ENDED_STATES,
    LISTED_BYTES,
    find_live,
    job_view,
)
from fairlead.service.journal.tokens import Caller
from fairlead.service.messages import (
    FullError,
    JobChange,
    JobQuery,
    JobRequest,
    MissingError,
    UnavailableError,
    WhatIfRequest,
)
from fairlead.service.rate_limits import in_turn
from fairlead.service.service_state import ServiceState
from fairlead.service.start_forecasts import (
    LEARN_SECONDS,
    StartForecasts,
    StartOutlook,
    expected_in_words,
)
from fairlead.service.webhook import Receiver, Webhook

LOG = logging.getLogger("fairlead.service")
GRACE_SECONDS = 60.0  # after the last request of a worker; then its tasks run again elsewhere
# An explanation has a forecast if at most this many tasks run; the forecast takes 0.1 s then.
MOST_RUNNING = 20_000
MOST_BEFORE = 1000  # tasks that an explanation may start on trial before the explained one
SHARES_PATIENCE = 0.15  # seconds that an explanation waits for shares
DELETE_SECONDS = 3600.0  # between deletions of old jobs
LISTED = 1000  # ended jobs in one answer
ATTEMPTS_LISTED = 100
VIEWS_AT_ONCE = 2000  # waiting and running jobs in an answer, described in one transaction
PENDING_TASKS = 1_000_000  # limit on the waiting tasks of one user
LIVE_BYTES = 256 * 2**20  # limit on the size of one user's waiting and running jobs


@dataclass(frozen=True)
class Settings:
    """The options of a service; see also the constants of the same names."""

    policy: str | None = None  # None: that of the journal, or drf/best-fit in a new journal
    seed: int | None = None  # None: that of the journal, or 0 in a new journal
    queues: QueueFile | None = None  # None: the tree of the journal, if any
    grace: float = GRACE_SECONDS
    pending_tasks: int = PENDING_TASKS
    live_bytes: int = LIVE_BYTES
    keep: float = 0.0  # seconds for which ended jobs are kept; 0 keeps them for ever
    receiver: Receiver | None = None  # the webhook that receives notices
    thresholds: Thresholds = field(default_factory=Thresholds)  # of alerts


class Service:
    """The operations behind the API; its methods are for the event loop's thread."""

    def __init__(self, journal: Journal, settings: Settings) -> None:
        self.journal, self.settings = journal, settings
        policy, seed, queues = settings.policy, settings.seed, settings.queues
        self.state_thread = StateThread(journal, policy, seed, self._publish, self._rebuilt, queues)
        self.shares = CurrentShares(self.state_thread)
        self.metrics = MetricsPage(self.state_thread, self.shares)
        self.workers = Workers(self.state_thread, journal, settings.grace)
        self.sessions = self.workers.sessions
        journal.notices.has_receiver = settings.receiver is not None
        self.webhook = Webhook(journal.notices, settings.receiver)
        wake = self.webhook.wake_up.set
        self.history = StateHistory(
            self.state_thread, journal, settings.thresholds, self.workers.lost, wake
        )
        self.start_forecasts = StartForecasts(journal)
        self.overview = Overview(self.state_thread, self.shares)
        self._what_if_lock, self._search_lock = asyncio.Lock(), asyncio.Lock()
        # By job: an event that is set when the job ends, kept while a request waits for it.
        self._waiting = WeakValueDictionary[int, asyncio.Event]()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._background: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.sessions.expect(self.state_thread.state.servers)
        self.state_thread.start()
        self._background = [
            asyncio.create_task(self.workers.watch_responses()),
            asyncio.create_task(self.history.record()),
            asyncio.create_task(self.webhook.run()),
            asyncio.create_task(self.overview.keep_warm()),
            asyncio.create_task(self._forecast_starts()),
        ]
        if self.settings.keep:
            self._background.append(asyncio.create_task(self._delete_old_jobs()))

    def wake(self) -> None:
        """Answer all waiting requests, because the service is about to stop."""
        self.workers.is_closing = True
        self.overview.close()
        for session in self.sessions.by_id.values():
            session.wake_up.set()
        for ended in self._waiting.values():
            ended.set()

    async def stop(self) -> None:
        self.wake()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await asyncio.to_thread(self.state_thread.stop)

    # Jobs

    async def submit(
        self, jobs: Sequence[JobRequest], caller: Caller, key: str = "", digest: str = ""
    ) -> list[str]:
        """Accept jobs; return their ids when they are on disk."""
        if self.settings.receiver is None and any(request.notify for request in jobs):
            raise InputError("this service has no webhook: fairlead serve --notify URL", "notify")
        requests = [(request, *event_and_spec(request, caller)) for request in jobs]
        others = {int(job) for request in jobs for job in request.after}
        # Looked up outside the state's thread, once for all jobs of the request.
        ended = await asyncio.to_thread(self.journal.jobs.outcomes, others) if others else {}

        def submit(tx: Transaction) -> list[str]:
            state, events, specs = tx.state, [], []
            self._check_limits(state, [event for _, event, _ in requests])
            # Jobs that ended after the look-up are in neither.
            missing = others - ended.keys() - state.jobs.keys()
            just_ended = {job for job in missing if job < state.next_job}
            outcomes = ended | self.journal.jobs.outcomes(just_ended)
            for request, event, spec in requests:
                ids = map(int, request.after)
                after = [job for job in ids if not _has_succeeded(state, outcomes, job, caller)]
                events.append({**event, "after": after})
                spec["submitted"] = tx.now  # differs from a job with this id in another journal
                specs.append((spec["user"], tx.now, to_json(spec)))
            new = tx.apply("submit", jobs=events)
            tx.batch.specs.update(zip(new, specs, strict=True))
            return [str(job) for job in new]

        return await self.state_thread.run(submit, key, digest)

    def _check_limits(self, state: ServiceState, events: Sequence[Mapping[str, Any]]) -> None:
        """Raise `FullError` for jobs that exceed a limit of their user."""
        tasks, sizes = Counter[str](), Counter[str]()
        for event in events:
            tasks[event["user"]] += event["tasks"]
            sizes[event["user"]] += event["size"]
        for user, more in tasks.items():
            waiting, most = state.user(user).pending, self.settings.pending_tasks
            if waiting + more > most:
                raise FullError(
                    f"{waiting:,} tasks of {user!r} wait; {more:,} more exceed the limit of "
                    f"{most:,}"
                )
        for user, more in sizes.items():
            self._check_live_bytes(state, user, more)
        _check_live_jobs(state, Counter(event["user"] for event in events))

    def _check_live_bytes(self, state: ServiceState, user: str, more: int) -> None:
        live, most = state.user(user).live_bytes, self.settings.live_bytes
        if more and live + more > most:
            raise FullError(
                f"the live jobs of {user!r} take {live:,} bytes; {more:,} more exceed the "
                f"limit of {most:,}"
            )

    async def change(
        self, job: int, caller: Caller, kind: str, key: str = "", digest: str = "", **body: Any
    ) -> dict[str, Any]:
        """Apply ``cancel``, ``hold``, ``release``, ``modify`` or ``skip``; return the job."""

        def change(tx: Transaction) -> dict[str, Any]:
            found = _own_job(tx.state, job, caller)
            if found is None:
                return self._ended_job(job, caller, must_be_live=kind not in ("cancel", "skip"))
            terms = self._modification(tx.state, found, **body) if kind == "modify" else body
            tx.apply(kind, job=job, **terms)
            return job_view(found)

        return await self.state_thread.run(change, key, digest)

    def _modification(self, state: ServiceState, job: Job, request: JobChange) -> dict[str, Any]:
        """Return the fields of the event that modifies a job; refuse to exceed a limit."""
        changes, size = changes_of(job, request), job.size
        if "where" in changes:
            longer = len(to_json(changes["where"])) - len(to_json(job.where))
            self._check_live_bytes(state, job.user, max(longer, 0))
            size += longer
        if not (job.cancelled or job.waiting):
            raise InputError("all of its tasks have started", f"job {job.id}")
        return {"changes": changes, "size": size}

    async def job(self, job: int, caller: Caller) -> dict[str, Any]:
        """Return a live or ended job with its command."""
        view = await self._view(job, caller)
        specs = await asyncio.to_thread(self.journal.jobs.specs, [job])
        if job not in specs:
            return view | {"command": None, "reason": view["reason"] or DAMAGED}
        return view | {"command": specs[job]["command"]}

    async def _view(self, job: int, caller: Caller) -> dict[str, Any]:
        def read(tx: Transaction) -> dict[str, Any] | None:
            found = _own_job(tx.state, job, caller)
            return None if found is None else job_view(found)

        view = await self.state_thread.ask(read)
        if view is None:
            view = await asyncio.to_thread(self._ended_job, job, caller)
        return view

    async def jobs(
        self,
        caller: Caller,
        user: str | None,
        is_all: bool,
        beyond: int = 0,
        limit: int = VIEWS_AT_ONCE,
    ) -> dict[str, Any]:
        """Return live jobs with ids above `beyond`; if `is_all`, also the latest 1,000 ended jobs.

        Each list is cut at 2 MiB, after at least one job. A user's token lists its jobs only.
        """
        if caller.role == "user":
            user = caller.subject

        def read(tx: Transaction) -> dict[str, Any]:
            live = tx.state.jobs.values()
            chosen = (j for j in live if j.id > beyond and (user is None or j.user == user))
            return _page(chosen, limit)

        page = await self.state_thread.ask(read)
        if is_all:
            ended = await asyncio.to_thread(self.journal.jobs.ended_jobs, user, None, LISTED)
            ended_ids = {view["id"] for view in ended}  # some ended after `read`
            live_jobs = [view for view in page["jobs"] if view["id"] not in ended_ids]
            page["jobs"] = live_jobs + ended
        return page

    async def search(self, caller: Caller, wanted: JobQuery) -> dict[str, Any]:
        """Return a page of the wanted jobs in order, and the number of all wanted jobs."""
        if caller.role == "user":
            wanted = wanted.model_copy(update={"user": caller.subject})
        async with in_turn(self._search_lock):
            if wanted.state in ENDED_STATES:
                rows, found = await asyncio.to_thread(self.journal.jobs.search_ended, wanted)
                return {"jobs": rows, "found": found}
            live = await self.state_thread.ask(lambda tx: list(tx.state.jobs.values()))
            ids = await asyncio.to_thread(find_live, live, wanted)

        def read(tx: Transaction) -> list[dict[str, Any]]:
            first = wanted.offset
            page = (tx.state.jobs.get(job) for job in ids[first : first + wanted.limit])
            return [job_view(job) for job in page if job is not None]

        return {"jobs": await self.state_thread.ask(read), "found": len(ids)}

    async def wait(self, job: int, caller: Caller, seconds: float) -> dict[str, Any]:
        """Return a job when it ends, or its state after `seconds`."""
        ended = self._waiting.setdefault(job, asyncio.Event())
        view = await self._view(job, caller)
        is_over = view["state"] in ("finished", "failed", "cancelled")
        if is_over or seconds <= 0 or self.workers.is_closing:
            return view
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ended.wait()
        return await self._view(job, caller)

    async def explain(self, job: int, caller: Caller) -> dict[str, Any]:
        """Return why a job waits, and which changes would let its first task start."""

        def explain(tx: Transaction) -> dict[str, Any]:
            found = _own_job(tx.state, job, caller)
            if found is None:
                view = self._ended_job(job, caller)
                more = view["reason"] if view["reason"] != view["state"] else ""
                return _explanation(view, f"it is {view['state']}", more)
            view = job_view(found)
            if found.cancelled:
                return _explanation(view, "its tasks are being stopped", found.cancelled)
            group = found.group
            if found.withheld and found.waiting:
                return _explanation(view, _why_withheld(found))
            if group is None and found.waiting:
                return _explanation(view, f"at most {found.at_most} of its tasks run at a time")
            if awaited := {key for run in found.running.values() for key in run.awaits}:
                return _explanation(view, f"it waits until stopping tasks end: {len(awaited):,}")
            if group is None:
                return _explanation(view, "all of its tasks have started")
            why = tx.state.scheduler.explain(group, tx.now, MOST_BEFORE)
            forecast: dict[str, Any] = {}
            # A forecast is quick only if placing is not behind, and few tasks run.
            is_quick = not tx.state.unplaced and tx.state.running <= MOST_RUNNING
            if is_quick and not why.starts:
                forecast = self.start_forecasts.expect(tx.state, job, tx.now)
            text = str(why)
            if silent := [s.name for s in tx.state.servers.values() if not s.reachable]:
                names = ", ".join(silent[:3]) + (", ..." if len(silent) > 3 else "")
                text += f"\nUnresponsive servers count as drained: {len(silent):,} ({names})."
            if forecast:
                text = f"{expected_in_words(forecast, tx.now)}\n{text}"
            answer = {"job": str(job), **why.to_dict(), "state": view["state"]}
            return answer | {"forecast": forecast, "text": text}

        answer = await self.state_thread.ask(explain)
        if "forecast" in answer and (recent := await self.shares.recent(SHARES_PATIENCE)):
            for user in recent.shares.queues:
                if user.name == answer["queue"]:
                    answer |= {"held": user.held, "fair": user.fair}
                    of_all = f"{100 * user.held:.3g} % of the cluster"
                    share = f"{user.name} holds {of_all}; {100 * user.fair:.3g} % is fair."
                    answer["text"] = f"{share}\n{answer['text']}"
        return answer

    async def when(self, job: int, caller: Caller) -> dict[str, Any]:
        """Return a `WhenView`: the forecast of the start of a job's first waiting task."""

        def forecast(tx: Transaction) -> dict[str, Any] | Future[StartOutlook]:
            found = _own_job(tx.state, job, caller)
            view = self._ended_job(job, caller) if found is None else job_view(found)
            answer = {"job": view["id"], "state": view["state"], "starts": view["started"]}
            if found is None or found.started is not None:
                return answer
            if found.withheld:
                others = ", ".join(map(str, found.after))
                waits = "and it waits" if found.held else "it waits"  # clients write "held" before
                return answer | {"reason": f"{waits} for job {others}" if others else ""}
            times = self.start_forecasts.forecast(tx.state, job, tx.now)
            if times is None:
                return self.start_forecasts.simulation(tx.state, tx.now)
            return answer | times

        found = await self.state_thread.ask(forecast)
        while isinstance(found, Future):
            # One simulation answers all callers, so none may cancel it.
            await asyncio.shield(asyncio.wrap_future(found))
            found = await self.state_thread.ask(forecast)
        return found

    async def _forecast_starts(self) -> None:
        """Each minute, note the forecast of a waiting job, to compare it with the later start."""
        forecasts = self.start_forecasts

        def note(tx: Transaction) -> Future[StartOutlook] | None:
            return forecasts.note_one(tx.state, tx.now)

        while True:
            await asyncio.sleep(LEARN_SECONDS)
            with suppress(UnavailableError):
                simulation = await self.state_thread.run(note)
                if simulation is not None:  # the forecast can be noted once it has ended
                    await asyncio.shield(asyncio.wrap_future(simulation))
                    await self.state_thread.run(note)

    async def logs(
        self, job: int, caller: Caller, index: int, attempt: int | None, stream: str, offset: int
    ) -> dict[str, Any]:
        """Return a piece of a task's output, which its worker sends."""

        def find(tx: Transaction) -> tuple[TaskKey, str] | None:
            found = _own_job(tx.state, job, caller)
            run = None if found is None else found.running.get(index)
            if run is not None and attempt in (None, run.key.attempt):
                return run.key, run.server
            return None

        found = await self.state_thread.ask(find)
        if found is None:
            await self._view(job, caller)  # raises unless the job exists and is the caller's
            last = await asyncio.to_thread(self.journal.jobs.last_attempt, job, index, attempt)
            if last is None:
                what = f"task {index}" if attempt is None else f"attempt {attempt} of task {index}"
                raise MissingError(f"{what} of job {job} has not started")
            found = TaskKey(job, index, last[0]), last[1]
        key, server = found
        session = self.sessions.by_server.get(server)
        if session is None:
            raise UnavailableError(f"server {server!r}, which has the output, is not connected")
        piece = await self.workers.logs(session, server, key, stream, offset)
        if piece.fault:
            raise MissingError(piece.fault)
        first = offset if piece.offset is None else piece.offset
        return {"data": piece.data, "offset": first, "size": piece.size, "is_over": piece.is_over}

    async def attempts(self, job: int, caller: Caller) -> dict[str, Any]:
        """Return the running attempts of a job, and the latest ended ones; at most 100 of each."""

        def read(tx: Transaction) -> list[dict[str, Any]]:
            found = _own_job(tx.state, job, caller)
            runs = [] if found is None else islice(found.running.values(), ATTEMPTS_LISTED)
            nothing = {"ended": None, "status": None}
            return [
                {"task": run.key.index, "attempt": run.key.attempt, "server": run.server}
                | {"devices": list(run.devices)}
                | {"started": run.since, "reason": run.stopping, **nothing}
                for run in runs
            ]

        await self._view(job, caller)  # raises unless the job exists and is the caller's
        runs = await self.state_thread.ask(read)
        async with in_turn(self._search_lock):
            read_ended = self.journal.jobs.last_attempts_of
            ended = await asyncio.to_thread(read_ended, job, ATTEMPTS_LISTED)
        return {"attempts": runs + ended}

    def _ended_job(self, job: int, caller: Caller, must_be_live: bool = False) -> dict[str, Any]:
        """Return the view of an ended job; raise `InputError` for it if `must_be_live`."""
        ended = self.journal.jobs.ended_jobs(ids=[job])
        if not ended or (caller.role == "user" and ended[0]["user"] != caller.subject):
            raise MissingError(f"there is no job {job}")
        if must_be_live:
            raise InputError(f"is {ended[0]['state']} already", f"job {job}")
        return ended[0]

    # Users, servers, shares

    async def set_user(
        self, name: str, weight: float, key: str = "", digest: str = ""
    ) -> dict[str, Any]:
        """Add a user, or change its weight."""

        def change(tx: Transaction) -> dict[str, Any]:
            tx.apply("user", name=name, weight=weight)
            return {"name": name, "weight": weight}

        return await self.state_thread.run(change, key, digest)

    async def change_server(
        self, name: str, kind: str, key: str = "", digest: str = "", **body: Any
    ) -> dict[str, Any]:
        """Apply ``drain`` or ``lost`` to a server; return a `ServerState`."""

        def change(tx: Transaction) -> dict[str, Any]:
            # A lost server is still known by name if it was drained; its drain can be ended.
            ends_old_drain = name in tx.state.drained and body.get("drained") is False
            if name not in tx.state.servers and not ends_old_drain:
                raise MissingError(f"there is no server {name!r:.60}")
            tx.apply(kind, name=name, **body)
            server = tx.state.servers.get(name)
            return {"name": name, "state": "gone" if server is None else server.state}

        answer = await self.state_thread.run(change, key, digest)
        if kind == "lost":
            self.sessions.forget(name)
        return answer

    async def user(self, name: str) -> dict[str, Any]:
        """Return a user's weight and tasks, and its held and fair shares of the cluster."""

        def read(tx: Transaction) -> dict[str, Any]:
            if name not in tx.state.users:
                raise MissingError(f"there is no user {name!r:.60}")
            return user_view(tx.state, name)

        found = await self.state_thread.ask(read)
        await self.overview.latest()
        shares = self.overview.users.get(name, {"held": 0.0, "fair": 0.0, "is_short": False})
        return found | {name: shares[name] for name in ("held", "fair", "is_short")}

    async def find_servers(
        self, caller: Caller, text: str, state: str | None, offset: int, limit: int
    ) -> dict[str, Any]:
        """Return a page of the servers with a text in their name, and the tasks on them.

        A user's token does not get jobs and names of other users' tasks.
        """

        def read(tx: Transaction) -> dict[str, Any]:
            found = [
                server
                for server in tx.state.servers.values()
                if text in server.name and state in (None, server.state)
            ]
            page = found[offset : offset + limit]
            return {"servers": [server_with_tasks(s, caller) for s in page], "found": len(found)}

        return await self.state_thread.ask(read)

    def alerts_for(self, caller: Caller) -> list[dict[str, Any]]:
        """Return the present alerts: all for an admin, else only those that concern the caller."""
        return [
            alert._asdict()
            for alert in sorted(self.history.alerts, key=lambda alert: KINDS.index(alert.kind))
            if caller.role == "admin" or alert.user == caller.subject
        ]

    async def what_if(self, request: WhatIfRequest) -> dict[str, Any]:
        """Try changes of the state and undo them; return users' shares, starts and stops."""
        async with in_turn(self._what_if_lock):
            if request.policy is None:
                trial = await self.state_thread.ask(
                    lambda tx: try_changes(tx.state, request, tx.now)
                )
            else:
                fork = await self.state_thread.ask(
                    lambda tx: trial_in_fork(tx.state, request, tx.now)
                )
                trial = await asyncio.to_thread(fork.answer)
            return await asyncio.to_thread(trial.answer)

    async def _delete_old_jobs(self) -> None:
        """Delete old jobs and events from the journal, once an hour."""
        while True:
            try:
                await asyncio.to_thread(self.journal.delete_old, time() - self.settings.keep)
            except JournalError as fault:
                LOG.warning("old jobs and events cannot be deleted", extra={"fault": str(fault)})
            await asyncio.sleep(DELETE_SECONDS)

    # Called in the state's thread

    def _publish(self, effects: Effects) -> None:
        """Learn run times and starts; notify workers, and callers that wait for jobs."""
        self.start_forecasts.learn(effects)
        self.history.learn(effects)
        if self._loop is not None and (effects.starts or effects.stops or effects.ended):
            ended = [job.id for job in effects.ended]
            self._loop.call_soon_threadsafe(self._deliver, effects, ended)

    def _deliver(self, effects: Effects, ended: Sequence[int]) -> None:
        self.sessions.deliver(effects.starts, effects.stops)
        if any(job.notify for job in effects.ended):
            self.webhook.wake_up.set()
        for job in ended:
            if (event := self._waiting.get(job)) is not None:
                event.set()

    def _rebuilt(self, state: ServiceState) -> None:
        """End all sessions after the state was read again, so that workers join again."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.sessions.forget_all, list(state.servers))


def _check_live_jobs(state: ServiceState, more: Mapping[str, int]) -> None:
    """Raise `FullError` for jobs beyond the limit of a user, or of a queue above it."""
    limited = [name for name, limit in state.limits.items() if JOBS in limit]
    if not limited:
        return
    path_of_user = {user: {user, *state.queues_above(user)} for user in {*state.users, *more}}
    for name in limited:
        users = [user for user, path in path_of_user.items() if name in path]
        asked = sum(more.get(user, 0) for user in users)
        live, most = sum(state.user(user).live_jobs for user in users), state.limits[name][JOBS]
        if asked and live + asked > most:
            raise FullError(
                f"{name!r} has {live:,} unfinished {'job' if live == 1 else 'jobs'}; {asked:,} "
                f"more would exceed the limit of {most:,.0f}"
            )


def _has_succeeded(
    state: ServiceState, outcomes: Mapping[int, tuple[str, str]], job: int, caller: Caller
) -> bool:
    """Return whether a job succeeded; raise `InputError` if it failed, or is not the caller's."""
    live = state.jobs.get(job)
    user, ended = outcomes.get(job, ("", "")) if live is None else (live.user, "")
    if not user or (caller.role == "user" and user != caller.subject):
        raise InputError(f"there is no job {job}", "after")
    if ended not in ("", "finished"):
        raise InputError(f"job {job} is {ended}", "after")
    return bool(ended)


def _page(jobs: Iterable[Job], limit: int) -> dict[str, Any]:
    """Return the first jobs as a `JobsView`: at most `limit` and `LISTED_BYTES`, at least one."""
    views: list[dict[str, Any]] = []
    size = 0
    for job in jobs:
        view = job_view(job)
        size += len(to_json(view))
        if views and (len(views) == limit or size > LISTED_BYTES):
            return {"jobs": views, "next": views[-1]["id"]}
        views.append(view)
    return {"jobs": views, "next": None}


def _own_job(state: ServiceState, job: int, caller: Caller) -> Job | None:
    """Return a live job, or None; raise `MissingError` if it is another user's."""
    found = state.jobs.get(job)
    if found is not None and caller.role == "user" and found.user != caller.subject:
        raise MissingError(f"there is no job {job}")
    return found


def _why_withheld(job: Job) -> str:
    """Return why the waiting tasks of a job are kept from the scheduler."""
    others = ", ".join(map(str, job.after))
    why = [f"it waits until these jobs succeed: {others}"] if others else []
    why += [f"it is held; fairlead release {job.id} lets it start"] if job.held else []
    return ", and ".join(why)


def _explanation(view: Mapping[str, Any], reason: str, more: str = "") -> dict[str, Any]:
    """Return an answer to `explain` that has only a reason."""
    return {
        "job": view["id"],
        "state": view["state"],
        "reason": f"{reason}: {more}" if more else reason,
        "ahead": [],
        "servers": [],
        "would_change": [],
        "never": False,
    }
