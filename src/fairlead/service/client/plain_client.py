"""A client of a running service whose answers are plain JSON values, for commands.

`Requests` is the core of all three clients: each request is written once, as a coroutine.
`AsyncClient` awaits it. The other two use an exchange that blocks, so that the coroutine never
suspends and `blocking` runs it to its end.

A request that changes something can be repeated if its answer was lost: it has an idempotency key,
or a repetition changes nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from fairlead.errors import FairleadError
from fairlead.service.client import calls
from fairlead.service.client.addresses import Address
from fairlead.service.client.calls import Call
from fairlead.service.client.exchange import (
    Channel,
    Exchange,
    NotReachedError,
    OtherProgramError,
    Reply,
)

PATIENCE = 10.0  # seconds for which a failing request is repeated: the service may be starting
OUTAGE_PATIENCE = 600.0  # the same while a client waits for a job
LONGEST_PAUSE = 2.0  # seconds between repetitions
REPORT_AFTER = 2.0  # seconds without a connection until this is reported
REPEATED = (429, 502, 503, 504)  # HTTP statuses
Report = Callable[[str], None]
Steps = ParamSpec("Steps")
Value = TypeVar("Value")
Owner = TypeVar("Owner")


class NoServiceError(FairleadError):
    """The service does not answer."""


class RefusedError(FairleadError):
    """The service refuses the request; ``status`` is the HTTP status."""

    def __init__(self, status: int, detail: str) -> None:
        self.status = status
        super().__init__(detail)


class Requests:
    """Sends requests to a service, and repeats them while it may be starting."""

    def __init__(
        self,
        exchange: Exchange,
        sleep: Callable[[float], Awaitable[None]],
        report: Report,
    ) -> None:
        self._exchange, self._sleep, self._report = exchange, sleep, report

    @property
    def url(self) -> str:
        return self._exchange.url

    async def ask(self, call: Call, patience: float = 0.0) -> Any:
        """Send a request; return the JSON values of the answer.

        While the service does not answer or is busy, the request is repeated for `PATIENCE`
        seconds, or for `patience` if that is more.
        """
        began, body, pause = time.monotonic(), call.body.encode(), 0.1
        report: Report | None = self._report
        while True:
            outcome: Reply | OSError
            try:
                outcome = await self._exchange.ask(call.method, call.target, call.headers, body)
            except OtherProgramError as fault:
                fault_text = f"{fault}, unlike a fairlead service; check --server"
                raise NoServiceError(fault_text) from None
            except OSError as fault:
                outcome = fault
            waited = time.monotonic() - began
            if waited >= max(patience, PATIENCE) or not _is_repeated(outcome):
                return _content_of(outcome, self.url)
            if isinstance(outcome, NotReachedError) and waited > REPORT_AFTER and report:
                report("waiting for a service that may be starting")
                report = None
            asked = outcome.headers.get("retry-after", "") if isinstance(outcome, Reply) else ""
            shortest = min(float(asked), 5.0) if asked.isdigit() else 0.0
            # A random factor from 0.75 to 1.25, so that not all clients retry at once.
            await self._sleep(max(pause, shortest) * (0.75 + os.urandom(1)[0] / 512))
            pause = min(2.0 * pause, LONGEST_PAUSE)

    async def submit(self, jobs: Sequence[calls.Row]) -> list[str]:
        """Submit jobs, all of them or none; return their ids, in order."""
        ids: list[str] = (await self.ask(calls.submit(jobs)))["ids"]
        return ids

    async def jobs(self, user: str | None, is_all: bool) -> list[dict[str, Any]]:
        """Return waiting and running jobs; if `is_all`, also the latest ended ones."""
        first = await self.ask(calls.list_jobs(user, is_all))
        live = [row for row in first["jobs"] if not is_over(row["state"])]
        ended, beyond = [row for row in first["jobs"] if is_over(row["state"])], first["next"]
        while beyond is not None:
            part = await self.ask(calls.list_jobs(user, False, beyond))
            live, beyond = live + part["jobs"], part["next"]
        return live + ended

    async def wait(self, job: str, seconds: float | None) -> dict[str, Any]:
        """Return a job when it ends, or its state after some seconds."""
        deadline = None if seconds is None else time.monotonic() + seconds
        left, patience = 0.0, 0.0  # the first request is answered at once, or fails soon
        while True:
            row: dict[str, Any] = await self.ask(calls.wait(job, left), patience)
            if is_over(row["state"]) or (deadline is not None and time.monotonic() >= deadline):
                return row
            left, patience = 30.0, OUTAGE_PATIENCE
            if deadline is not None:
                left = min(30.0, max(0.0, deadline - time.monotonic()))
                patience = left


class BlockingClient(Generic[Owner]):
    """A client that runs the coroutines of its `requests` to their end."""

    def __init__(self, exchange: Exchange, requests: Owner) -> None:
        self._exchange, self.requests = exchange, requests

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        return self._exchange.url

    def close(self) -> None:
        self._exchange.close()


def blocking(
    method: Callable[Concatenate[Owner, Steps], Coroutine[Any, Any, Value]],
) -> Callable[Concatenate[BlockingClient[Owner], Steps], Value]:
    """Return a method that runs a coroutine of `requests` to its end."""

    @wraps(method)
    def call(self: BlockingClient[Owner], /, *args: Steps.args, **kwargs: Steps.kwargs) -> Value:
        try:
            method(self.requests, *args, **kwargs).send(None)
        except StopIteration as end:
            value: Value = end.value
            return value
        raise RuntimeError("a blocking exchange has suspended")

    return call


async def sleep(seconds: float) -> None:
    """Sleep without suspending, for a `BlockingClient`."""
    time.sleep(seconds)


class PlainClient(BlockingClient[Requests]):
    """Sends requests to a service and waits for each answer; see `Client` for its arguments."""

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        exchange: Exchange | None = None,
        report: Report = lambda _: None,
    ) -> None:
        exchange = exchange or Channel(Address.of(server, token))
        super().__init__(exchange, Requests(exchange, sleep, report))

    ask = blocking(Requests.ask)
    submit = blocking(Requests.submit)
    jobs = blocking(Requests.jobs)
    wait = blocking(Requests.wait)


def is_over(state: str) -> bool:
    return state not in ("pending", "held", "running")


def _content_of(outcome: Reply | OSError, url: str) -> Any:
    """Return the JSON values of an answer; raise an error for a refusal or no answer."""
    if isinstance(outcome, OSError):
        why = str(outcome) or type(outcome).__name__
        raise NoServiceError(f"no service at {url} ({why}); start one with fairlead serve")
    is_success = 200 <= outcome.status < 300
    try:
        found = json.loads(outcome.content)
        if is_success and isinstance(found, dict):
            return found
        detail = str(found["detail"])
    except (ValueError, RecursionError, KeyError, TypeError):
        if is_success:
            raise other_version(outcome.status, url) from None
        detail = f"{url} answers {outcome.status}, not as a fairlead service"
    raise RefusedError(outcome.status, detail)


def other_version(status: int, url: str) -> RefusedError:
    """Return the error for an answer that this version does not know."""
    return RefusedError(status, f"{url} does not answer as a fairlead service of this version")


def _is_repeated(outcome: Reply | OSError) -> bool:
    """Return whether a later try may succeed, unlike after a refusal or a wrong certificate."""
    if isinstance(outcome, Reply):
        return outcome.status in REPEATED
    return "certificate" not in str(outcome).lower()
