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
# Each of the next three amounts counts as one more request. Parsing takes up to 80 ms per MiB.
BODY_PER_REQUEST = 16 * 1024  # bytes of a request's body
ANSWER_PER_REQUEST = 64 * 1024  # bytes of an answer
STATE_SECONDS_PER_REQUEST = 0.001  # seconds of the state's thread, which all callers share
QUESTIONS_AT_ONCE = 1  # questions of a caller that hold, or wait for, a lock shared by all callers
WORKER_FACTOR = 4.0  # a worker's token may send this multiple of a user's requests
AT_ONCE = {"user": 4, "worker": 64, "admin": 1000}  # a caller's requests in the state's queue


@dataclass(frozen=True)
class Limits:
    """Limits for each caller."""

    body: int = LARGEST_BODY  # bytes of a request's body
    rate: float = 100.0  # requests per second of a user
    burst: float = 500.0  # requests that a user who sent none lately may send at once


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
        self._left -= body / BODY_PER_REQUEST + answer / ANSWER_PER_REQUEST
        self._left -= seconds / STATE_SECONDS_PER_REQUEST


@asynccontextmanager
async def in_turn(lock: asyncio.Lock) -> AsyncIterator[None]:
    """Hold a lock, shared by all callers, for a question of the current caller.

    Only one question of each caller waits for the lock. So many questions delay only their caller.
    """
    caller = CALLER.get()
    async with nullcontext() if caller is None else caller.questions, lock:
        if caller is not None:
            caller.check()
        yield


CALLER: ContextVar[Allowance | None] = ContextVar("CALLER", default=None)
"""The allowance of the caller whose request is being answered."""
