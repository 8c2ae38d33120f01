"""A client of a running service whose answers are plain values, as they come in JSON.

It imports little, so that commands answer at once; `fairlead.service.client` has clients for
programs. A request that changes something carries an idempotency key, so it is safe to send it
again when its answer was lost; that is done for a while.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from fairlead.errors import FairleadError
from fairlead.service import calls
from fairlead.service.calls import Call
from fairlead.service.connecting import Address
from fairlead.service.exchange import (
    Channel,
    Exchange,
    NotReachedError,
    OtherProgramError,
    Reply,
)

TRIES = 6
OUTAGE_TRIES = 200  # to wait for a job: ten minutes without a service
STARTING_SECONDS = 10.0  # in which a service that is being started begins to listen
STARTING_PAUSE = 0.2
TOLD_AFTER = 2.0  # seconds of such a wait, after which it is reported
AGAIN = (429, 502, 503, 504)
Report = Callable[[str], None]


class NoServiceError(FairleadError):
    """The service does not answer."""


class RefusedError(FairleadError):
    """The service refuses: ``status`` is that of HTTP."""

    def __init__(self, status: int, detail: str) -> None:
        self.status = status
        super().__init__(detail)


class PlainClient:
    """Asks a service and waits for each answer.

    Parameters
    ----------
    server, token : str, optional
        See `fairlead.service.client.Client`.
    exchange : Exchange, optional
        Carries requests in place of a connection; then no address is looked for.
    report : callable
        Called once with a line where a request waits for a service that may be starting.

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
        report: Report = lambda _: None,
    ) -> None:
        if exchange is None:
            self.address = Address.of(server, token)
        else:
            self.address = Address(server or "http://localhost")
        self._exchange = exchange or Channel(self.address)
        self._report = report

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._exchange.close()

    def ask(self, call: Call, tries: int = TRIES) -> Any:
        """Make a request and return its answer."""
        repetition = Repetition(tries, self._report)
        while True:
            outcome = self._send(call)
            pause = repetition.pause_after(outcome)
            if pause is None:
                return content_of(outcome, self.address.url)
            if isinstance(outcome, OSError) and (other := self.address.again()) != self.address:
                self._exchange.close()
                self.address, self._exchange = other, Channel(other)
            time.sleep(pause)

    def submit(self, parts: Iterable[Sequence[str]]) -> list[str]:
        """Submit jobs, in parts as `calls.parts_of` makes them; return their ids, in order.

        A part is taken as a whole or not at all. An error names the jobs that were taken before.
        """
        ids: list[str] = []
        for part in parts:
            with naming(ids):
                ids += self.ask(calls.submit(part))["ids"]
        return ids

    def jobs(self, user: str | None, is_all: bool) -> list[dict[str, Any]]:
        """Return jobs that wait or run, and, if asked for, the latest that ended."""
        first = self.ask(calls.list_jobs(user, is_all))
        live = [row for row in first["jobs"] if not is_over(row["state"])]
        ended, beyond = [row for row in first["jobs"] if is_over(row["state"])], first["next"]
        while beyond is not None:
            part = self.ask(calls.list_jobs(user, False, beyond))
            live, beyond = live + part["jobs"], part["next"]
        return live + ended

    def wait(self, job: str, seconds: float | None) -> dict[str, Any]:
        """Return a job when it is over, or as it is after some seconds."""
        deadline = None if seconds is None else time.monotonic() + seconds
        left, tries = 0.0, TRIES
        while True:
            row: dict[str, Any] = self.ask(calls.wait(job, left), tries)
            if is_over(row["state"]) or (deadline is not None and time.monotonic() >= deadline):
                return row
            left, tries = next_wait(deadline)

    def _send(self, call: Call) -> Reply | OSError:
        try:
            body = call.body.encode()
            return self._exchange.ask(call.method, call.target, call.headers, body)
        except OtherProgramError as fault:
            raise other_program(fault) from None
        except OSError as fault:
            return fault


def is_over(state: str) -> bool:
    """Return whether a job in this state has ended."""
    return state not in ("pending", "held", "running")


def next_wait(deadline: float | None) -> tuple[float, int]:
    """Return for how many seconds to wait next for a job, and how often to try."""
    if deadline is None:
        return 30.0, OUTAGE_TRIES
    left = min(30.0, max(0.0, deadline - time.monotonic()))
    return left, TRIES + int(left)


def content_of(outcome: Reply | OSError, url: str) -> Any:
    """Return the values of an answer.

    Raises
    ------
    NoServiceError, RefusedError
        Where there is none, or a refusal.
    """
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
            raise unlike(outcome.status, url) from None
        detail = f"{url} answers {outcome.status}, not as a fairlead service"
    raise RefusedError(outcome.status, detail)


def unlike(status: int, url: str) -> RefusedError:
    """Return the error for an answer that this version does not know."""
    return RefusedError(status, f"{url} does not answer as a fairlead service of this version")


def other_program(fault: OtherProgramError) -> NoServiceError:
    """Return the error for an answer of another program."""
    return NoServiceError(f"{fault}, unlike a fairlead service; check --server")


@contextmanager
def naming(taken: Sequence[str]) -> Iterator[None]:
    """Add the jobs that were taken before it to an error."""
    try:
        yield
    except FairleadError as fault:
        if not taken:
            raise
        said = f"{fault}; before that, jobs {taken[0]} to {taken[-1]} were taken"
        if isinstance(fault, RefusedError):
            raise RefusedError(fault.status, said) from None
        raise NoServiceError(said) from None


class Repetition:
    """Decides whether a request is sent again, and after how many seconds."""

    def __init__(self, tries: int, report: Report) -> None:
        self._tries, self._tried, self._began = tries, 0, time.monotonic()
        self._report: Report | None = report

    def pause_after(self, outcome: Reply | OSError) -> float | None:
        """Return seconds until the request is sent again, or None where the outcome stands."""
        self._tried += 1
        longest = 0.1 * 2.0 ** min(self._tried - 1, TRIES - 1)
        if isinstance(outcome, Reply):
            if outcome.status not in AGAIN:
                return None
            after = outcome.headers.get("retry-after", "")
            longest = max(longest, min(float(after), 5.0) if after.isdigit() else 0.0)
        elif isinstance(outcome, NotReachedError):
            if "certificate" in str(outcome).lower():
                return None
            if time.monotonic() - self._began < STARTING_SECONDS:
                return self._pause_while_starting()
        if self._tried >= self._tries:
            return None
        return longest * (0.75 + os.urandom(1)[0] / 512)  # clients do not ask at the same moment

    def _pause_while_starting(self) -> float:
        if self._report is not None and time.monotonic() - self._began > TOLD_AFTER:
            self._report("waiting for a service that may be starting")
            self._report = None
        return STARTING_PAUSE
