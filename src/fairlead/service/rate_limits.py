"""Limits on a caller's requests, and on the time of the state's thread that they take.

A question is a request that only reads the state; other threads answer some of the questions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic

from fastapi import HTTPException

from fairlead.service.messages import FullError

LARGEST_BODY = 10 * 2**20  # bytes
# The next three amounts each count as one more request. To parse a body takes up to 80 ms a MiB.
BODY_A_REQUEST = 16 * 1024  # bytes of a request's body
ANSWER_A_REQUEST = 64 * 1024  # bytes of an answer
STATE_SECONDS_A_REQUEST = 0.001  # seconds of the state's thread, which all callers share
QUESTIONS_AT_ONCE = 1  # questions of a caller that may wait for a lock of all callers
WORKER_FACTOR = 4.0  # a worker's token may send more requests than a user's
AT_ONCE = {"user": 4, "worker": 64, "admin": 1000}  # requests of a caller in the state's queue


@dataclass(frozen=True)
class Limits:
    """Limits for each caller."""

    body: int = LARGEST_BODY  # bytes of a request's body
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
        self.questions = asyncio.Semaphore(QUESTIONS_AT_ONCE)

    def take(self) -> None:
        """Count a request; raise `HTTPException` 429 if the allowance is spent."""
        self._refill()
        if self._is_limited and self._left < 1:
            wait = str(int((1 - self._left) / self._rate) + 1)
            raise HTTPException(429, "too many requests", {"Retry-After": wait})
        self._left -= 1

    def _refill(self) -> None:
        now = monotonic()
        self._left = min(self._burst, self._left + (now - self._since) * self._rate)
        self._since = now

    @property
    def is_spent(self) -> bool:
        """Whether the caller has to wait."""
        self._refill()
        return self._is_limited and self._left < 0

    def check(self) -> None:
        """Raise `FullError` if other requests have spent the allowance since `take`."""
        if self._is_limited and self._left < 0:
            raise FullError("too many requests")

    def charge(self, body: int = 0, answer: int = 0, seconds: float = 0.0) -> None:
        """Count bytes of a request and its answer, and `seconds` of the state's thread."""
        self._left -= body / BODY_A_REQUEST + answer / ANSWER_A_REQUEST
        self._left -= seconds / STATE_SECONDS_A_REQUEST


@asynccontextmanager
async def in_turn(lock: asyncio.Lock) -> AsyncIterator[None]:
    """Hold a lock for a question of the current caller.

    Only one question of each caller waits for the lock, so a caller with many delays only its own.
    """
    caller = CALLER.get()
    async with nullcontext() if caller is None else caller.questions, lock:
        if caller is not None:
            caller.check()
        yield


CALLER: ContextVar[Allowance | None] = ContextVar("CALLER", default=None)
"""The allowance of the caller whose request is being answered."""
