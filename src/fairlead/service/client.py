"""Clients of a running service for programs: waiting for each answer, or awaiting it.

Their answers are models of `fairlead.service.messages`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from fairlead.service import calls
from fairlead.service.answers import send_async
from fairlead.service.calls import Call
from fairlead.service.connecting import Address
from fairlead.service.exchange import Exchange, NotReachedError, OtherProgramError, Reply
from fairlead.service.messages import (
    History,
    JobChange,
    JobRequest,
    JobsView,
    JobView,
    LogsView,
    ServerState,
    ServersView,
    ServerView,
    SharesView,
    Usage,
    UsersView,
    UserView,
    WeightView,
    WhenView,
)
from fairlead.service.plain_client import (
    TRIES,
    NoServiceError,
    PlainClient,
    RefusedError,
    Repetition,
    content_of,
    is_over,
    naming,
    next_wait,
    other_program,
    unlike,
)

__all__ = ["AsyncClient", "Client", "NoServiceError", "RefusedError"]

LOG = logging.getLogger("fairlead.client")
View = TypeVar("View", bound=BaseModel)


class Client:
    """Asks a service and waits for each answer.

    Parameters
    ----------
    server : str, optional
        Its address, as `connecting` has them; ``FAIRLEAD_SERVER``, or the Unix socket of the
        service on this machine, when absent.
    token : str, optional
        ``FAIRLEAD_TOKEN`` when absent.
    exchange : Exchange, optional
        Carries requests in place of a connection; then no address is looked for.

    Raises
    ------
    NoServiceError, RefusedError
        From every method: the service does not answer, or says no.
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        self._plain = PlainClient(server, token, exchange, LOG.info)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._plain.close()

    def submit(self, jobs: Iterable[JobRequest]) -> list[str]:
        """Submit jobs; return their ids, in order.

        Up to 10,000 of them, and 8 MiB, are taken together or not at all. Of more, the error says
        which were taken before.
        """
        return self._plain.submit(calls.parts_of(_rows(jobs)))

    def jobs(self, user: str | None = None, is_all: bool = False) -> list[JobView]:
        """Return jobs that wait or run, and, if asked for, the latest that ended."""
        return [self._read(row, JobView) for row in self._plain.jobs(user, is_all)]

    def job(self, job: str) -> JobView:
        """Return a job."""
        return self._ask(calls.job(job), JobView)

    def wait(self, job: str, seconds: float | None = None) -> JobView:
        """Return a job when it is over, or as it is after some seconds."""
        return self._read(self._plain.wait(job, seconds), JobView)

    def cancel(self, job: str) -> JobView:
        """Drop what waits of a job, and stop what runs."""
        return self._ask(calls.tell_job(job, "cancel"), JobView)

    def hold(self, job: str) -> JobView:
        """Start no more tasks of a job."""
        return self._ask(calls.tell_job(job, "hold"), JobView)

    def release(self, job: str) -> JobView:
        """Start tasks of a held job again."""
        return self._ask(calls.tell_job(job, "release"), JobView)

    def modify(self, job: str, change: JobChange) -> JobView:
        """Change what a job that waits asks for."""
        return self._ask(calls.modify(job, change.model_dump(exclude_defaults=True)), JobView)

    def explain(self, job: str) -> dict[str, Any]:
        """Return why a job waits, and what would let it start."""
        why: dict[str, Any] = self._plain.ask(calls.explain(job))
        return why

    def when(self, job: str) -> WhenView:
        """Return when a job starts if nobody comes and what runs lasts until its time limit."""
        return self._ask(calls.when(job), WhenView)

    def logs(
        self,
        job: str,
        stream: str = "stdout",
        index: int = 0,
        attempt: int | None = None,
        offset: int = 0,
    ) -> LogsView:
        """Return a piece of a task's output, from a byte on."""
        return self._ask(calls.logs(job, stream, index, attempt, offset), LogsView)

    def users(self) -> list[UserView]:
        """Return all users."""
        return self._ask(calls.USERS, UsersView).users

    def set_user(self, name: str, weight: float) -> WeightView:
        """Give a user a weight."""
        return self._ask(calls.set_user(name, weight), WeightView)

    def servers(self) -> list[ServerView]:
        """Return all servers."""
        return self._ask(calls.SERVERS, ServersView).servers

    def drain(self, name: str) -> ServerState:
        """Start no more tasks on a server."""
        return self._ask(calls.drain(name), ServerState)

    def undrain(self, name: str) -> ServerState:
        """Start tasks on a drained server again."""
        return self._ask(calls.undrain(name), ServerState)

    def remove(self, name: str) -> ServerState:
        """Give a server up; its tasks run again elsewhere."""
        return self._ask(calls.remove(name), ServerState)

    def shares(self) -> SharesView:
        """Return what users hold and what is fair, with its proof."""
        return self._ask(calls.SHARES, SharesView)

    def history(self) -> list[Usage]:
        """Return hours of each resource by month and user."""
        return self._ask(calls.HISTORY, History).usage

    def _ask(self, call: Call, view: type[View]) -> View:
        return self._read(self._plain.ask(call), view)

    def _read(self, values: Any, view: type[View]) -> View:
        return _view(values, view, self._plain.address.url)


class AsyncClient:
    """`Client`, for asyncio: the same words, each to be awaited."""

    def __init__(self, server: str | None = None, token: str | None = None) -> None:
        self._address = Address.of(server, token)
        self._http = self._address.async_client()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections."""
        await self._http.aclose()

    async def submit(self, jobs: Iterable[JobRequest]) -> list[str]:
        """Submit jobs; return their ids, in order; see `Client.submit`."""
        ids: list[str] = []
        for part in calls.parts_of(_rows(jobs)):
            with naming(ids):
                ids += (await self._values(calls.submit(part)))["ids"]
        return ids

    async def jobs(self, user: str | None = None, is_all: bool = False) -> list[JobView]:
        """Return jobs that wait or run, and, if asked for, the latest that ended."""
        first = await self._ask(calls.list_jobs(user, is_all), JobsView)
        live = [job for job in first.jobs if not is_over(job.state)]
        ended, beyond = [job for job in first.jobs if is_over(job.state)], first.next
        while beyond is not None:
            part = await self._ask(calls.list_jobs(user, False, beyond), JobsView)
            live, beyond = live + part.jobs, part.next
        return live + ended

    async def job(self, job: str) -> JobView:
        """Return a job."""
        return await self._ask(calls.job(job), JobView)

    async def wait(self, job: str, seconds: float | None = None) -> JobView:
        """Return a job when it is over, or as it is after some seconds."""
        deadline = None if seconds is None else time.monotonic() + seconds
        left, tries = 0.0, TRIES
        while True:
            view = await self._ask(calls.wait(job, left), JobView, tries)
            if is_over(view.state) or (deadline is not None and time.monotonic() >= deadline):
                return view
            left, tries = next_wait(deadline)

    async def cancel(self, job: str) -> JobView:
        """Drop what waits of a job, and stop what runs."""
        return await self._ask(calls.tell_job(job, "cancel"), JobView)

    async def hold(self, job: str) -> JobView:
        """Start no more tasks of a job."""
        return await self._ask(calls.tell_job(job, "hold"), JobView)

    async def release(self, job: str) -> JobView:
        """Start tasks of a held job again."""
        return await self._ask(calls.tell_job(job, "release"), JobView)

    async def modify(self, job: str, change: JobChange) -> JobView:
        """Change what a job that waits asks for."""
        return await self._ask(calls.modify(job, change.model_dump(exclude_defaults=True)), JobView)

    async def explain(self, job: str) -> dict[str, Any]:
        """Return why a job waits, and what would let it start."""
        why: dict[str, Any] = await self._values(calls.explain(job))
        return why

    async def when(self, job: str) -> WhenView:
        """Return when a job starts if nobody comes and what runs lasts until its time limit."""
        return await self._ask(calls.when(job), WhenView)

    async def logs(
        self,
        job: str,
        stream: str = "stdout",
        index: int = 0,
        attempt: int | None = None,
        offset: int = 0,
    ) -> LogsView:
        """Return a piece of a task's output, from a byte on."""
        return await self._ask(calls.logs(job, stream, index, attempt, offset), LogsView)

    async def users(self) -> list[UserView]:
        """Return all users."""
        return (await self._ask(calls.USERS, UsersView)).users

    async def set_user(self, name: str, weight: float) -> WeightView:
        """Give a user a weight."""
        return await self._ask(calls.set_user(name, weight), WeightView)

    async def servers(self) -> list[ServerView]:
        """Return all servers."""
        return (await self._ask(calls.SERVERS, ServersView)).servers

    async def drain(self, name: str) -> ServerState:
        """Start no more tasks on a server."""
        return await self._ask(calls.drain(name), ServerState)

    async def undrain(self, name: str) -> ServerState:
        """Start tasks on a drained server again."""
        return await self._ask(calls.undrain(name), ServerState)

    async def remove(self, name: str) -> ServerState:
        """Give a server up; its tasks run again elsewhere."""
        return await self._ask(calls.remove(name), ServerState)

    async def shares(self) -> SharesView:
        """Return what users hold and what is fair, with its proof."""
        return await self._ask(calls.SHARES, SharesView)

    async def history(self) -> list[Usage]:
        """Return hours of each resource by month and user."""
        return (await self._ask(calls.HISTORY, History)).usage

    async def _ask(self, call: Call, view: type[View], tries: int = TRIES) -> View:
        return _view(await self._values(call, tries), view, self._address.url)

    async def _values(self, call: Call, tries: int = TRIES) -> Any:
        repetition = Repetition(tries, LOG.info)
        while True:
            outcome = await self._send(call)
            pause = repetition.pause_after(outcome)
            if pause is None:
                return content_of(outcome, self._address.url)
            if isinstance(outcome, OSError) and (other := self._address.again()) != self._address:
                await self._http.aclose()
                self._address, self._http = other, other.async_client()
            await asyncio.sleep(pause)

    async def _send(self, call: Call) -> Reply | OSError:
        body = call.body.encode()
        asked = self._http.build_request(
            call.method, call.target, content=body, headers=call.headers
        )
        try:
            answer = await send_async(self._http, asked)
        except OtherProgramError as fault:
            raise other_program(fault) from None
        except httpx.ConnectError as fault:
            return NotReachedError(str(fault))
        except httpx.TransportError as fault:
            return OSError(str(fault) or type(fault).__name__)
        return Reply(answer.status_code, answer.headers, answer.content)


def _rows(jobs: Iterable[JobRequest]) -> Iterator[dict[str, Any]]:
    return (job.model_dump(exclude_defaults=True) for job in jobs)


def _view(values: Any, view: type[View], url: str) -> View:
    try:
        return view.model_validate(values)
    except ValidationError:
        raise unlike(200, url) from None
