"""Clients of a running service for programs: a blocking one, and one for asyncio.

Their answers are models of `fairlead.service.messages`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Self, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from fairlead.service.client import calls, plain_client
from fairlead.service.client.addresses import Address
from fairlead.service.client.calls import Call
from fairlead.service.client.connections import Connections
from fairlead.service.client.exchange import TIMEOUT, Channel, Exchange
from fairlead.service.client.plain_client import (
    BlockingClient,
    NoServiceError,
    RefusedError,
    Requests,
    blocking,
    sleep,
)
from fairlead.service.messages import (
    History,
    JobChange,
    JobRequest,
    JobView,
    LogsView,
    ServerState,
    ServersView,
    ServerView,
    ShareHoursView,
    SharesView,
    Usage,
    UsersView,
    UserView,
    WeightView,
    WhenView,
)

__all__ = ["AsyncClient", "Client", "NoServiceError", "RefusedError"]

LOG = logging.getLogger("fairlead.client")
View = TypeVar("View", bound=BaseModel)
Value = TypeVar("Value")


class TypedRequests:
    """The requests of `AsyncClient` and `Client`; answers are checked models."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def submit(self, jobs: Iterable[JobRequest]) -> list[str]:
        """Submit jobs; return their ids, in order.

        At most 10,000 jobs, 8 MiB in all, are accepted together or not at all.
        """
        rows = [job.model_dump(exclude_defaults=True) for job in jobs]
        return await self._checked(self._requests.submit(rows), list)

    async def jobs(self, user: str | None = None, is_all: bool = False) -> list[JobView]:
        """Return waiting and running jobs; if `is_all`, also the latest ended ones."""
        rows = self._requests.jobs(user, is_all)
        return await self._checked(rows, TypeAdapter(list[JobView]).validate_python)

    async def job(self, job: str) -> JobView:
        """Return a job."""
        return await self._ask(calls.job(job), JobView)

    async def wait(self, job: str, seconds: float | None = None) -> JobView:
        """Return a job when it ends, or its state after some seconds."""
        return await self._checked(self._requests.wait(job, seconds), JobView.model_validate)

    async def cancel(self, job: str) -> JobView:
        """Cancel a job: drop its waiting tasks, and stop its running ones."""
        return await self._ask(calls.act_on_job(job, "cancel"), JobView)

    async def hold(self, job: str) -> JobView:
        """Hold a job: start no more of its tasks."""
        return await self._ask(calls.act_on_job(job, "hold"), JobView)

    async def release(self, job: str) -> JobView:
        """Release a held job."""
        return await self._ask(calls.act_on_job(job, "release"), JobView)

    async def modify(self, job: str, change: JobChange) -> JobView:
        """Change the request of a job's waiting tasks."""
        return await self._ask(calls.modify(job, change.model_dump(exclude_defaults=True)), JobView)

    async def explain(self, job: str) -> dict[str, Any]:
        """Return why a job waits, and which changes would let it start."""
        why: dict[str, Any] = await self._requests.ask(calls.explain(job))
        return why

    async def when(self, job: str) -> WhenView:
        """Forecast the start of a job: by time limits, and by run times of ended tasks."""
        return await self._ask(calls.when(job), WhenView)

    async def logs(
        self,
        job: str,
        stream: str = "stdout",
        index: int = 0,
        attempt: int | None = None,
        offset: int = 0,
    ) -> LogsView:
        """Return a piece of a task's output, from a byte offset on."""
        return await self._ask(calls.logs(job, stream, index, attempt, offset), LogsView)

    async def users(self) -> list[UserView]:
        """Return all users."""
        return (await self._ask(calls.USERS, UsersView)).users

    async def set_user(self, name: str, weight: float) -> WeightView:
        """Set a user's weight."""
        return await self._ask(calls.set_user(name, weight), WeightView)

    async def servers(self) -> list[ServerView]:
        """Return all servers."""
        return (await self._ask(calls.SERVERS, ServersView)).servers

    async def drain(self, name: str) -> ServerState:
        """Drain a server: start no more tasks there."""
        return await self._ask(calls.drain(name), ServerState)

    async def undrain(self, name: str) -> ServerState:
        """End the drain of a server."""
        return await self._ask(calls.undrain(name), ServerState)

    async def remove(self, name: str) -> ServerState:
        """Remove a server as lost; its tasks run again elsewhere."""
        return await self._ask(calls.remove(name), ServerState)

    async def shares(self) -> SharesView:
        """Return each user's share and fair share, and the certificate of the fair shares."""
        return await self._ask(calls.SHARES, SharesView)

    async def shares_over(self, seconds: float) -> ShareHoursView:
        """Return the held, due and owed share hours of each user in the last `seconds`."""
        return await self._ask(calls.shares_over(seconds), ShareHoursView)

    async def history(self) -> list[Usage]:
        """Return core, GiB and GPU hours of ended tasks by month and user."""
        return (await self._ask(calls.HISTORY, History)).usage

    async def _ask(self, call: Call, view: type[View]) -> View:
        return await self._checked(self._requests.ask(call), view.model_validate)

    async def _checked(self, answer: Awaitable[Any], parse: Callable[[Any], Value]) -> Value:
        """Return a parsed answer; raise `RefusedError` if a field is missing or malformed."""
        try:
            return parse(await answer)
        except (ValidationError, KeyError, TypeError):
            raise plain_client.other_version(200, self._requests.url) from None


class AsyncClient(TypedRequests):
    """`Client`, for asyncio: the same methods, each to be awaited."""

    def __init__(self, server: str | None = None, token: str | None = None) -> None:
        self._connections = Connections(Address.of(server, token), TIMEOUT)
        super().__init__(Requests(self._connections, asyncio.sleep, LOG.info))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections."""
        self._connections.close()


class Client(BlockingClient[TypedRequests]):
    """Sends requests to a service and waits for each answer.

    Parameters
    ----------
    server : str, optional
        Address of the service, in a form of `addresses`; ``FAIRLEAD_SERVER``, or the Unix socket of
        the service on this machine, when absent.
    token : str, optional
        ``FAIRLEAD_TOKEN`` when absent.
    exchange : Exchange, optional
        Sends requests in place of a connection; then no address is looked up.

    Raises
    ------
    NoServiceError, RefusedError
        From every method: the service does not answer, or refuses.
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        exchange = exchange or Channel(Address.of(server, token))
        super().__init__(exchange, TypedRequests(Requests(exchange, sleep, LOG.info)))

    submit = blocking(TypedRequests.submit)
    jobs = blocking(TypedRequests.jobs)
    job = blocking(TypedRequests.job)
    wait = blocking(TypedRequests.wait)
    cancel = blocking(TypedRequests.cancel)
    hold = blocking(TypedRequests.hold)
    release = blocking(TypedRequests.release)
    modify = blocking(TypedRequests.modify)
    explain = blocking(TypedRequests.explain)
    when = blocking(TypedRequests.when)
    logs = blocking(TypedRequests.logs)
    users = blocking(TypedRequests.users)
    set_user = blocking(TypedRequests.set_user)
    servers = blocking(TypedRequests.servers)
    drain = blocking(TypedRequests.drain)
    undrain = blocking(TypedRequests.undrain)
    remove = blocking(TypedRequests.remove)
    shares = blocking(TypedRequests.shares)
    shares_over = blocking(TypedRequests.shares_over)
    history = blocking(TypedRequests.history)
