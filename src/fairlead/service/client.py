"""Clients of a running service: the same words, waiting for each answer or awaiting it.

A request that changes something carries an idempotency key, so it is safe to send it again when
its answer was lost; that is done for a while.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from re import fullmatch
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from fairlead.errors import FairleadError, InputError
from fairlead.service.answers import OtherProgramError, send, send_async
from fairlead.service.connecting import Address
from fairlead.service.messages import (
    JOB_ID,
    MOST_JOBS,
    NAME,
    History,
    JobChange,
    JobIds,
    JobRequest,
    JobsRequest,
    JobsView,
    JobView,
    LogsView,
    ServerState,
    ServersView,
    ServerView,
    SharesView,
    Usage,
    UserRequest,
    UsersView,
    UserView,
    WeightView,
    WhenView,
)

TRIES = 6
OUTAGE_TRIES = 200  # to wait for a job: ten minutes without a service
STARTING_SECONDS = 10.0  # in which a service that is being started begins to listen
STARTING_PAUSE = 0.2
TOLD_AFTER = 2.0  # seconds of such a wait, after which it is logged
LOG = logging.getLogger("fairlead.client")
LARGEST_PART = 8 * 2**20  # bytes of jobs in a request
AGAIN = (429, 502, 503, 504)

View = TypeVar("View", bound=BaseModel)


class NoServiceError(FairleadError):
    """The service does not answer."""


class RefusedError(FairleadError):
    """The service refuses: ``status`` is that of HTTP."""

    def __init__(self, status: int, detail: str) -> None:
        self.status = status
        super().__init__(detail)


@dataclass(frozen=True)
class Call(Generic[View]):
    """A request, and what its answer is read as."""

    view: type[View]
    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    key: str = ""

    def options(self) -> dict[str, Any]:
        """Return what httpx takes beside method and path."""
        headers = {"Idempotency-Key": self.key} if self.key else {}
        return {"params": self.params, "json": self.body, "headers": headers}


def _change(
    view: type[View], method: str, path: str, body: Mapping[str, Any] | None = None
) -> Call[View]:
    return Call(view, method, path, body=body, key=secrets.token_hex(16))


class _Calls:
    """What can be asked; paths and answers stand here once for both clients."""

    @staticmethod
    def submit(jobs: Sequence[JobRequest]) -> Call[JobIds]:
        asked = JobsRequest(jobs=list(jobs)).model_dump(exclude_defaults=True)
        return _change(JobIds, "POST", "/v1/jobs", asked)

    @staticmethod
    def jobs(user: str | None, is_all: bool, beyond: str = "0") -> Call[JobsView]:
        params = {"all": is_all, "beyond": beyond} | ({} if user is None else {"user": user})
        return Call(JobsView, "GET", "/v1/jobs", params)

    @staticmethod
    def job(job: str) -> Call[JobView]:
        return Call(JobView, "GET", f"/v1/jobs/{_number(job)}")

    @staticmethod
    def wait(job: str, seconds: float) -> Call[JobView]:
        return Call(JobView, "GET", f"/v1/jobs/{_number(job)}/wait", {"seconds": seconds})

    @staticmethod
    def tell_job(job: str, what: str) -> Call[JobView]:
        return _change(JobView, "POST", f"/v1/jobs/{_number(job)}/{what}")

    @staticmethod
    def modify(job: str, change: JobChange) -> Call[JobView]:
        body = change.model_dump(exclude_defaults=True)
        return _change(JobView, "PATCH", f"/v1/jobs/{_number(job)}", body)

    @staticmethod
    def logs(job: str, stream: str, index: int, attempt: int | None, offset: int) -> Call[LogsView]:
        params: dict[str, Any] = {"stream": stream, "index": index, "offset": offset}
        if attempt is not None:
            params["attempt"] = attempt
        return Call(LogsView, "GET", f"/v1/jobs/{_number(job)}/logs", params)

    @staticmethod
    def set_user(name: str, weight: float) -> Call[WeightView]:
        body = UserRequest(weight=weight).model_dump()
        return _change(WeightView, "PUT", f"/v1/users/{_word(name)}", body)

    @staticmethod
    def tell_server(name: str, method: str, what: str) -> Call[ServerState]:
        return _change(ServerState, method, f"/v1/servers/{_word(name)}{what}")


class AnyAnswer(BaseModel):
    """An answer whose fields are documented elsewhere."""

    model_config = {"extra": "allow"}


class Client:
    """Asks a service and waits for each answer.

    Parameters
    ----------
    server : str, optional
        Its address, as `connecting` has them; ``FAIRLEAD_SERVER``, or the Unix socket of the
        service on this machine, when absent.
    token : str, optional
        ``FAIRLEAD_TOKEN`` when absent.
    transport : httpx.BaseTransport, optional
        Carries requests in place of the network; then no address is looked for.

    Raises
    ------
    NoServiceError, RefusedError
        From every method: the service does not answer, or says no.
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if transport is None:
            self._address = Address.of(server, token)
            self._http = self._address.client()
        else:
            self._address = Address(server or "http://localhost")
            self._http = httpx.Client(base_url=self._address.url, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections."""
        self._http.close()

    def submit(self, jobs: Iterable[JobRequest]) -> list[str]:
        """Submit jobs; return their ids, in order.

        Up to 10,000 of them, and 8 MiB, are taken together or not at all. Of more, the error says
        which were taken before.
        """
        ids: list[str] = []
        for part in _parts(jobs):
            with _naming(ids):
                ids += self._do(_Calls.submit(part)).ids
        return ids

    def jobs(self, user: str | None = None, is_all: bool = False) -> list[JobView]:
        """Return jobs that wait or run, and, if asked for, the latest that ended."""
        first = self._do(_Calls.jobs(user, is_all))
        live = [job for job in first.jobs if not is_over(job)]
        ended, beyond = [job for job in first.jobs if is_over(job)], first.next
        while beyond is not None:
            part = self._do(_Calls.jobs(user, False, beyond))
            live, beyond = live + part.jobs, part.next
        return live + ended

    def job(self, job: str) -> JobView:
        """Return a job."""
        return self._do(_Calls.job(job))

    def wait(self, job: str, seconds: float | None = None) -> JobView:
        """Return a job when it is over, or as it is after some seconds."""
        return self._do_wait(job, seconds)

    def cancel(self, job: str) -> JobView:
        """Drop what waits of a job, and stop what runs."""
        return self._do(_Calls.tell_job(job, "cancel"))

    def hold(self, job: str) -> JobView:
        """Start no more tasks of a job."""
        return self._do(_Calls.tell_job(job, "hold"))

    def release(self, job: str) -> JobView:
        """Start tasks of a held job again."""
        return self._do(_Calls.tell_job(job, "release"))

    def modify(self, job: str, change: JobChange) -> JobView:
        """Change what a job that waits asks for."""
        return self._do(_Calls.modify(job, change))

    def explain(self, job: str) -> dict[str, Any]:
        """Return why a job waits, and what would let it start."""
        return self._do(Call(AnyAnswer, "GET", f"/v1/jobs/{_number(job)}/explain")).model_dump()

    def when(self, job: str) -> WhenView:
        """Return when a job starts if nobody comes and what runs lasts until its time limit."""
        return self._do(Call(WhenView, "GET", f"/v1/jobs/{_number(job)}/when"))

    def logs(
        self,
        job: str,
        stream: str = "stdout",
        index: int = 0,
        attempt: int | None = None,
        offset: int = 0,
    ) -> LogsView:
        """Return a piece of a task's output, from a byte on."""
        return self._do(_Calls.logs(job, stream, index, attempt, offset))

    def users(self) -> list[UserView]:
        """Return all users."""
        return self._do(Call(UsersView, "GET", "/v1/users")).users

    def set_user(self, name: str, weight: float) -> WeightView:
        """Give a user a weight."""
        return self._do(_Calls.set_user(name, weight))

    def servers(self) -> list[ServerView]:
        """Return all servers."""
        return self._do(Call(ServersView, "GET", "/v1/servers")).servers

    def drain(self, name: str) -> ServerState:
        """Start no more tasks on a server."""
        return self._do(_Calls.tell_server(name, "POST", "/drain"))

    def undrain(self, name: str) -> ServerState:
        """Start tasks on a drained server again."""
        return self._do(_Calls.tell_server(name, "POST", "/undrain"))

    def remove(self, name: str) -> ServerState:
        """Give a server up; its tasks run again elsewhere."""
        return self._do(_Calls.tell_server(name, "DELETE", ""))

    def shares(self) -> SharesView:
        """Return what users hold and what is fair, with its proof."""
        return self._do(Call(SharesView, "GET", "/v1/shares"))

    def history(self) -> list[Usage]:
        """Return hours of each resource by month and user."""
        return self._do(Call(History, "GET", "/v1/history")).usage

    def _do(self, call: Call[View], tries: int = TRIES) -> View:
        repeated = _Repetition(tries)
        while True:
            try:
                asked = self._http.build_request(call.method, call.path, **call.options())
                answer = send(self._http, asked)
            except OtherProgramError as fault:
                raise _other_program(fault) from None
            except httpx.TransportError as fault:
                pause = repeated.pause_after(fault)
                if pause is None:
                    raise _no_service(fault, self._address.url) from None
                if (address := self._address.again()) != self._address:
                    self._http.close()
                    self._address, self._http = address, address.client()
            else:
                pause = repeated.pause_after(answer)
                if pause is None:
                    return _read(answer, call.view)
            time.sleep(pause)

    def _do_wait(self, job: str, seconds: float | None) -> JobView:
        deadline = None if seconds is None else time.monotonic() + seconds
        left, tries = 0.0, TRIES
        while True:
            view = self._do(_Calls.wait(job, left), tries)
            if is_over(view) or (deadline is not None and time.monotonic() >= deadline):
                return view
            left = _slice(deadline)
            tries = OUTAGE_TRIES if deadline is None else TRIES + int(left)


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
        for part in _parts(jobs):
            with _naming(ids):
                ids += (await self._do(_Calls.submit(part))).ids
        return ids

    async def jobs(self, user: str | None = None, is_all: bool = False) -> list[JobView]:
        """Return jobs that wait or run, and, if asked for, the latest that ended."""
        first = await self._do(_Calls.jobs(user, is_all))
        live = [job for job in first.jobs if not is_over(job)]
        ended, beyond = [job for job in first.jobs if is_over(job)], first.next
        while beyond is not None:
            part = await self._do(_Calls.jobs(user, False, beyond))
            live, beyond = live + part.jobs, part.next
        return live + ended

    async def job(self, job: str) -> JobView:
        """Return a job."""
        return await self._do(_Calls.job(job))

    async def wait(self, job: str, seconds: float | None = None) -> JobView:
        """Return a job when it is over, or as it is after some seconds."""
        deadline = None if seconds is None else time.monotonic() + seconds
        left, tries = 0.0, TRIES
        while True:
            view = await self._do(_Calls.wait(job, left), tries)
            if is_over(view) or (deadline is not None and time.monotonic() >= deadline):
                return view
            left = _slice(deadline)
            tries = OUTAGE_TRIES if deadline is None else TRIES + int(left)

    async def cancel(self, job: str) -> JobView:
        """Drop what waits of a job, and stop what runs."""
        return await self._do(_Calls.tell_job(job, "cancel"))

    async def hold(self, job: str) -> JobView:
        """Start no more tasks of a job."""
        return await self._do(_Calls.tell_job(job, "hold"))

    async def release(self, job: str) -> JobView:
        """Start tasks of a held job again."""
        return await self._do(_Calls.tell_job(job, "release"))

    async def modify(self, job: str, change: JobChange) -> JobView:
        """Change what a job that waits asks for."""
        return await self._do(_Calls.modify(job, change))

    async def explain(self, job: str) -> dict[str, Any]:
        """Return why a job waits, and what would let it start."""
        call = Call(AnyAnswer, "GET", f"/v1/jobs/{_number(job)}/explain")
        return (await self._do(call)).model_dump()

    async def when(self, job: str) -> WhenView:
        """Return when a job starts if nobody comes and what runs lasts until its time limit."""
        return await self._do(Call(WhenView, "GET", f"/v1/jobs/{_number(job)}/when"))

    async def logs(
        self,
        job: str,
        stream: str = "stdout",
        index: int = 0,
        attempt: int | None = None,
        offset: int = 0,
    ) -> LogsView:
        """Return a piece of a task's output, from a byte on."""
        return await self._do(_Calls.logs(job, stream, index, attempt, offset))

    async def users(self) -> list[UserView]:
        """Return all users."""
        return (await self._do(Call(UsersView, "GET", "/v1/users"))).users

    async def set_user(self, name: str, weight: float) -> WeightView:
        """Give a user a weight."""
        return await self._do(_Calls.set_user(name, weight))

    async def servers(self) -> list[ServerView]:
        """Return all servers."""
        return (await self._do(Call(ServersView, "GET", "/v1/servers"))).servers

    async def drain(self, name: str) -> ServerState:
        """Start no more tasks on a server."""
        return await self._do(_Calls.tell_server(name, "POST", "/drain"))

    async def undrain(self, name: str) -> ServerState:
        """Start tasks on a drained server again."""
        return await self._do(_Calls.tell_server(name, "POST", "/undrain"))

    async def remove(self, name: str) -> ServerState:
        """Give a server up; its tasks run again elsewhere."""
        return await self._do(_Calls.tell_server(name, "DELETE", ""))

    async def shares(self) -> SharesView:
        """Return what users hold and what is fair, with its proof."""
        return await self._do(Call(SharesView, "GET", "/v1/shares"))

    async def history(self) -> list[Usage]:
        """Return hours of each resource by month and user."""
        return (await self._do(Call(History, "GET", "/v1/history"))).usage

    async def _do(self, call: Call[View], tries: int = TRIES) -> View:
        repeated = _Repetition(tries)
        while True:
            try:
                asked = self._http.build_request(call.method, call.path, **call.options())
                answer = await send_async(self._http, asked)
            except OtherProgramError as fault:
                raise _other_program(fault) from None
            except httpx.TransportError as fault:
                pause = repeated.pause_after(fault)
                if pause is None:
                    raise _no_service(fault, self._address.url) from None
                if (address := self._address.again()) != self._address:
                    await self._http.aclose()
                    self._address, self._http = address, address.async_client()
            else:
                pause = repeated.pause_after(answer)
                if pause is None:
                    return _read(answer, call.view)
            await asyncio.sleep(pause)


def is_over(job: JobView) -> bool:
    """Return whether a job has ended."""
    return job.state in ("finished", "failed", "cancelled")


def _number(job: str) -> str:
    if not (isinstance(job, str) and fullmatch(JOB_ID, job)):
        raise InputError(f"{job!r:.60} is not a job's id", "JOB")
    return job


def _word(text: str) -> str:
    """Return a name as it stands in a path."""
    if not isinstance(text, str):
        raise InputError(f"must be text, not {text!r:.60}", "name or id")
    if not fullmatch(NAME, text) or text in (".", ".."):
        raise InputError(f"{text!r:.60} is no name that a user or server can have")
    return quote(text, safe="")


def _parts(jobs: Iterable[JobRequest]) -> Iterator[list[JobRequest]]:
    """Yield jobs in parts that one request may hold."""
    part: list[JobRequest] = []
    size = 0
    for job in jobs:
        long = len(job.model_dump_json(exclude_defaults=True))
        if part and (len(part) == MOST_JOBS or size + long > LARGEST_PART):
            yield part
            part, size = [], 0
        part.append(job)
        size += long
    if part:
        yield part


@contextmanager
def _naming(taken: Sequence[str]) -> Iterator[None]:
    """Have an error say which jobs were taken before it."""
    try:
        yield
    except FairleadError as fault:
        if taken:
            said = f"{fault}; before that, jobs {taken[0]} to {taken[-1]} were taken"
            if isinstance(fault, RefusedError):
                raise RefusedError(fault.status, said) from None
            raise NoServiceError(said) from None
        raise


def _slice(deadline: float | None) -> float:
    return 30.0 if deadline is None else min(30.0, max(0.0, deadline - time.monotonic()))


class _Repetition:
    """Decides whether a request is sent again, and after how many seconds."""

    def __init__(self, tries: int) -> None:
        self._tries, self._tried, self._began = tries, 0, time.monotonic()
        self._is_told = False

    def pause_after(self, outcome: httpx.Response | httpx.TransportError) -> float | None:
        """Return seconds until the request is sent again, or None where the outcome stands."""
        self._tried += 1
        longest = 0.1 * 2.0 ** min(self._tried - 1, TRIES - 1)
        if isinstance(outcome, httpx.Response):
            if outcome.status_code not in AGAIN:
                return None
            after = outcome.headers.get("Retry-After", "")
            longest = max(longest, min(float(after), 5.0) if after.isdigit() else 0.0)
        elif isinstance(outcome, httpx.ConnectError):
            if "certificate" in str(outcome).lower():
                return None
            if time.monotonic() - self._began < STARTING_SECONDS:
                return self._pause_while_starting()
        if self._tried >= self._tries:
            return None
        return longest * (0.75 + secrets.randbelow(500) / 1000)

    def _pause_while_starting(self) -> float:
        if not self._is_told and time.monotonic() - self._began > TOLD_AFTER:
            LOG.info("waiting for a service that may be starting")
            self._is_told = True
        return STARTING_PAUSE


def _no_service(fault: Exception, url: str) -> NoServiceError:
    why = str(fault) or type(fault).__name__
    return NoServiceError(f"no service at {url} ({why}); start one with fairlead serve")


def _other_program(fault: OtherProgramError) -> NoServiceError:
    return NoServiceError(f"{fault}, unlike a fairlead service; check --server")


def _read(answer: httpx.Response, view: type[View]) -> View:
    if not answer.is_success:
        try:
            detail = str(answer.json()["detail"])
        except (ValueError, KeyError, TypeError):
            detail = f"{answer.url} answers {answer.status_code}, not as a fairlead service"
        raise RefusedError(answer.status_code, detail)
    try:
        return view.model_validate_json(answer.content)
    except ValidationError:
        detail = f"{answer.url} does not answer as a fairlead service of this version"
        raise RefusedError(answer.status_code, detail) from None
