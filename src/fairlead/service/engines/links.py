"""Requests of a worker or a dispatcher to its service: over HTTP, or in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from fairlead.errors import FairleadError, InputError
from fairlead.service.client.exchange import AwaitedExchange, OtherProgramError
from fairlead.service.engines.protocol import one_line
from fairlead.service.messages import (
    JobsRequest,
    JoinRequest,
    LogsPiece,
    StaleSessionError,
    SyncRequest,
    UnavailableError,
)

if TYPE_CHECKING:
    from fairlead.service.journal.tokens import Token
    from fairlead.service.service import Service

LONGEST_EXCHANGE = 130.0  # seconds for a request and its answer
REFUSED = (401, 403, 404, 421, 422)
Body = Mapping[str, Any]


class Link(Protocol):
    """A worker's requests to its service.

    Each raises `InputError` when refused, `StaleSessionError` when the worker has to join again,
    and `UnavailableError` when a later try may succeed.
    """

    async def join(self, body: Body) -> object:
        """Register a worker's servers."""
        ...

    async def sync(self, body: Body) -> object:
        """Report ended tasks, and return the next orders."""
        ...

    async def logs(self, body: Body) -> None:
        """Send a piece of output."""
        ...

    async def submit(self, jobs: Sequence[Body], key: str) -> list[str]:
        """Submit jobs; return their ids. Repeated requests carry the same key."""
        ...

    async def skip(self, tasks: Mapping[str, Sequence[int]]) -> None:
        """Count waiting tasks of jobs as done."""
        ...

    async def cancel(self, jobs: Sequence[str]) -> None:
        """Cancel jobs; ignore ended ones."""
        ...

    async def live(self) -> set[str]:
        """Return the ids of jobs that wait or run."""
        ...


class OverHttp:
    """Requests to a service in another process."""

    def __init__(self, exchange: AwaitedExchange) -> None:
        self._exchange = exchange

    async def join(self, body: Body) -> object:
        return await self._ask("POST", "/v1/workers/join", body)

    async def sync(self, body: Body) -> object:
        return await self._ask("POST", "/v1/workers/sync", body)

    async def logs(self, body: Body) -> None:
        await self._ask("POST", "/v1/workers/logs", body)

    async def submit(self, jobs: Sequence[Body], key: str) -> list[str]:
        answer = await self._ask("POST", "/v1/jobs", {"jobs": list(jobs)}, key=key)
        return list(answer["ids"])

    async def skip(self, tasks: Mapping[str, Sequence[int]]) -> None:
        for job, indices in tasks.items():
            await self._ask("POST", f"/v1/jobs/{job}/skip", {"tasks": list(indices)})

    async def cancel(self, jobs: Sequence[str]) -> None:
        for job in jobs:
            await self._ask("POST", f"/v1/jobs/{job}/cancel")

    async def live(self) -> set[str]:
        ids: set[str] = set()
        beyond = "0"
        while beyond is not None:
            answer = await self._ask("GET", f"/v1/jobs?beyond={beyond}")
            ids |= {row["id"] for row in answer["jobs"]}
            beyond = answer["next"]
        return ids

    async def _ask(self, method: str, path: str, body: Body | None = None, key: str = "") -> Any:
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


class InProcess:
    """Requests to a service in this process, in the thread of its event loop."""

    def __init__(self, service: Service, caller: Token) -> None:
        self._service, self._caller = service, caller

    async def join(self, body: Body) -> dict[str, Any]:
        return await self._service.workers.join(JoinRequest.model_validate(body), self._caller)

    async def sync(self, body: Body) -> dict[str, Any]:
        orders = await self._service.workers.sync(SyncRequest.model_validate(body), self._caller)
        return orders | {"jobs": {str(job): spec for job, spec in orders["jobs"].items()}}

    async def logs(self, body: Body) -> None:
        self._service.workers.take_logs(LogsPiece.model_validate(body), self._caller)

    async def submit(self, jobs: Sequence[Body], key: str) -> list[str]:
        asked = JobsRequest.model_validate({"jobs": jobs}).jobs
        return await self._service.submit(asked, self._caller, key, key)

    async def skip(self, tasks: Mapping[str, Sequence[int]]) -> None:
        skip = self._service.skip
        await _all(*(skip(int(job), self._caller, these) for job, these in tasks.items()))

    async def cancel(self, jobs: Sequence[str]) -> None:
        change = self._service.change
        await _all(*(change(int(job), self._caller, "cancel") for job in jobs))

    async def live(self) -> set[str]:
        return await self._service.live_ids()


async def _all(*requests: Any) -> None:
    """Await requests together, so that one disk sync serves all; ignore ended jobs."""
    for outcome in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, FairleadError):
            raise outcome
