"""Requests of a worker or a dispatcher to its service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

from fairlead.errors import FairleadError, InputError
from fairlead.service.client.exchange import Exchange, OtherProgramError
from fairlead.service.engines.protocol import one_line
from fairlead.service.messages import StaleSessionError, UnavailableError

LONGEST_EXCHANGE = 130.0  # seconds for a request and its answer
REFUSED = (401, 403, 404, 421, 422)
Body = Mapping[str, Any]


class Link:
    """A worker's requests to its service.

    Each raises `InputError` if refused, `StaleSessionError` if the worker has to join again, and
    `UnavailableError` if a later try may succeed.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def join(self, body: Body) -> object:
        """Register a worker's servers; return the unchecked `JoinAnswer`."""
        return await self._ask("POST", "/v1/workers/join", body)

    async def sync(self, body: Body) -> object:
        """Report ended tasks; return the next orders, unchecked."""
        return await self._ask("POST", "/v1/workers/sync", body)

    async def logs(self, body: Body) -> None:
        """Send a piece of output."""
        await self._ask("POST", "/v1/workers/logs", body)

    async def submit(self, jobs: Sequence[Body], key: str) -> list[str]:
        """Submit jobs; return their ids. Repeated requests carry the same key."""
        answer = await self._ask("POST", "/v1/jobs", {"jobs": list(jobs)}, key=key)
        return list(answer["ids"])

    async def skip(self, tasks: Mapping[str, Sequence[int]]) -> None:
        """Count waiting tasks as done; `tasks` has their indices by job."""
        await _send_all(
            self._ask("POST", f"/v1/jobs/{job}/skip", {"tasks": list(indices)})
            for job, indices in tasks.items()
        )

    async def cancel(self, jobs: Iterable[str]) -> None:
        """Cancel jobs; ignore ended ones."""
        await _send_all(self._ask("POST", f"/v1/jobs/{job}/cancel") for job in jobs)

    async def live(self) -> set[str]:
        """Return the ids of the waiting and running jobs."""
        ids: set[str] = set()
        beyond = "0"
        while beyond is not None:
            answer = await self._ask("GET", f"/v1/jobs?beyond={beyond}")
            ids |= {row["id"] for row in answer["jobs"]}
            beyond = answer["next"]
        return ids

    async def _ask(self, method: str, path: str, body: Body | None = None, key: str = "") -> Any:
        """Send a request; return the JSON values of its answer, or raise the errors of `Link`."""
        headers = {"Idempotency-Key": key} if key else {}
        content = b"" if body is None else json.dumps(body).encode()
        if content:
            headers["Content-Type"] = "application/json"
        url = self._exchange.url
        try:
            async with asyncio.timeout(LONGEST_EXCHANGE):
                answer = await self._exchange.ask(method, path, headers, content)
        except OtherProgramError as fault:
            raise UnavailableError(str(fault)) from None
        except OSError as fault:  # TimeoutError is one
            raise UnavailableError(f"no answer from {url}: {fault!r}") from None
        if 200 <= answer.status < 300:
            try:
                return json.loads(answer.content) if answer.content else None
            except (ValueError, RecursionError):
                raise UnavailableError(f"{url} does not answer as a fairlead service") from None
        try:
            detail = one_line(str(json.loads(answer.content)["detail"]))
        except (ValueError, RecursionError, KeyError, TypeError):
            detail = f"status {answer.status}"
        if answer.status == 409:
            raise StaleSessionError(detail)
        if answer.status in REFUSED:
            raise InputError(detail, "", url)
        raise UnavailableError(f"{answer.status}: {detail}")


async def _send_all(requests: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Send requests together, so that one disk sync serves all; ignore each `FairleadError`."""
    for outcome in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, FairleadError):
            raise outcome
