"""Limits on the requests of a caller, and on the time that they keep the state's thread."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic

from fastapi import HTTPException

from fairlead.service.messages import FullError

LARGEST_BODY = 10 * 2**20
# What counts as one more request: bytes of a body, which may take 80 ms a MiB to understand, and of
# an answer.
BODY_A_REQUEST = 16 * 1024
ANSWER_A_REQUEST = 64 * 1024
STATE_SECONDS_A_REQUEST = 0.001  # of the thread that all callers share
WORKER_FACTOR = 4.0  # a worker's token may ask more often than a user's
AT_ONCE = {"user": 4, "worker": 64, "admin": 1000}  # requests of a caller in the state's queue


@dataclass(frozen=True)
class Limits:
    """Limits on callers."""

    body: int = LARGEST_BODY  # bytes of a request
    rate: float = 100.0  # requests of a user a second
    burst: float = 500.0  # requests of a user at once


class Allowance:
    """The remaining requests of a caller: a token bucket, refilled at a rate up to a burst."""

    def __init__(self, role: str, limits: Limits) -> None:
        factor = WORKER_FACTOR if role == "worker" else 1.0
        self._rate, self._burst = factor * limits.rate, factor * limits.burst
        self._is_limited = role != "admin"
        self._left, self._since = self._burst, monotonic()
        self.at_once = asyncio.Semaphore(AT_ONCE[role])

    def take(self) -> None:
        """Count a request; raise `HTTPException` until the rate admits it."""
        now = monotonic()
        self._left = min(self._burst, self._left + (now - self._since) * self._rate)
        self._since = now
        if self._is_limited and self._left < 1:
            wait = str(int((1 - self._left) / self._rate) + 1)
            raise HTTPException(429, "too many requests", {"Retry-After": wait})
        self._left -= 1

    def check(self) -> None:
        """Raise `FullError` if other requests have spent the allowance meanwhile."""
        if self._is_limited and self._left < 0:
            raise FullError("too many requests")

    def charge(self, body: int = 0, answer: int = 0, seconds: float = 0.0) -> None:
        """Count bytes of a request and of its answer, and time of the state's thread."""
        self._left -= body / BODY_A_REQUEST + answer / ANSWER_A_REQUEST
        self._left -= seconds / STATE_SECONDS_A_REQUEST


CALLER: ContextVar[Allowance | None] = ContextVar("CALLER", default=None)
"""The allowance of the caller whose request is being answered."""
