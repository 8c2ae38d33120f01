"""The HTTP API, under ``/v1``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from hashlib import sha256
from typing import Annotated, Any

from fastapi import (
    APIRouter,
    Depends,
    FastAPI,
    Header,
    HTTPException,
    Path,
    Query,
    Request,
    Response,
)
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from pydantic_core import to_json
from starlette.staticfiles import StaticFiles

from fairlead.errors import CertificateError, FairleadError, InputError, RefusalError
from fairlead.service import messages
from fairlead.service._metrics_page import CONTENT_TYPE
from fairlead.service._views import server_views, user_views
from fairlead.service.bounds import INTERRUPTED
from fairlead.service.http._pages import PAGE_FILES, pages
from fairlead.service.http.access import Access, Admission, Receive, Scope, Send
from fairlead.service.journal.samples import KEPT_SECONDS
from fairlead.service.journal.tokens import Caller
from fairlead.service.messages import MOST_INTEGER, Name
from fairlead.service.rate_limits import Limits
from fairlead.service.service import VIEWS_AT_ONCE, Service

LONGEST_WAIT = 60.0
ABOUT: dict[str, Any] = {
    "title": "fairlead",
    "description": "Fair shares for heterogeneous clusters.",
}
STATUS: dict[type[FairleadError], int] = {
    messages.StaleSessionError: 409,
    messages.DeniedError: 403,
    messages.MissingError: 404,
    messages.FullError: 429,
    messages.UnavailableError: 503,
    InputError: 422,
    RefusalError: 422,
    CertificateError: 500,
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": messages.Refusal, "description": why}
    for status, why in {
        400: "The request is not JSON.",
        401: "The token is missing or unknown.",
        403: "The token's role may not do this.",
        404: "The job, server or page is missing, or belongs to another user.",
        408: "The request took too long to arrive.",
        409: "The worker has to join again.",
        413: "The request is too large.",
        421: "A request without a token names a host other than this machine.",
        422: "The request is malformed, or cannot be carried out.",
        429: "The caller reached a limit, as on requests or waiting tasks; try again later.",
        503: "The service cannot carry out the request at present; nothing has changed.",
    }.items()
}


def application(service: Service, limits: Limits, *, version: str = "0") -> FastAPI:
    """Return the API of a service, which starts and stops with the application."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    api = FastAPI(
        **ABOUT,
        version=version,
        lifespan=lifespan,
        docs_url=None,  # `pages` has its own
        redoc_url=None,
    )
    api.state.service, api.state.access = service, Access(service, limits)
    api.add_middleware(Admission, access=api.state.access)
    api.add_exception_handler(FairleadError, _refused)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.router.routes += [*router.routes, *pages.routes]  # `include_router` would rebuild them
    api.openapi = partial(_description, version)  # type: ignore[method-assign]
    api.mount("/page", StaticFiles(directory=PAGE_FILES))
    api.mount("/docs-files", StaticFiles(packages=[("fastapi_offline", "static")]))
    return api


@cache
def _description(version: str) -> dict[str, Any]:
    """Return the OpenAPI description, which is built at the first request for it."""
    described = get_openapi(**ABOUT, version=version, routes=router.routes)
    described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    described["security"] = [{"token": []}, {}]  # the Unix socket needs no token
    return described


# Parameters of requests


def _caller_of(*roles: str) -> Callable[[Request], Caller]:
    """Return a FastAPI dependency that returns the caller, or answers 403 to other roles."""

    async def caller(request: Request) -> Caller:
        found: Caller = request.state.caller
        if found.role not in roles:
            raise HTTPException(403, f"a token of role {found.role} may not do this")
        return found

    return caller  # type: ignore[return-value]


async def _service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


async def _idempotency(
    request: Request,
    key: Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)] = None,
) -> tuple[str, str]:
    """Return the idempotency key for the journal, and the digest of the request."""
    if key is None:
        return "", ""
    if not key:
        raise HTTPException(422, "Idempotency-Key: must not be empty")
    query = f"?{request.url.query}" if request.url.query else ""
    asked = f"{request.method} {request.url.path}{query}\n".encode()
    content = asked + await request.body()
    return f"{request.state.caller.name}/{key}", sha256(content).hexdigest()


JobNumber = Annotated[int, Path(ge=1, lt=10**18)]
Served = Annotated[Service, Depends(_service)]
User = Annotated[Caller, Depends(_caller_of("admin", "user"))]
Admin = Annotated[Caller, Depends(_caller_of("admin"))]
Worker = Annotated[Caller, Depends(_caller_of("admin", "worker"))]
KeyDigest = Annotated[tuple[str, str], Depends(_idempotency)]
MOST_SECONDS = 1e10  # longest period in the past
RecentSeconds = Annotated[float, Query(gt=0, le=KEPT_SECONDS)]
router = APIRouter(responses=REFUSALS)

# Jobs


@router.post("/v1/jobs", status_code=201, response_model=dict[str, list[str]], tags=["jobs"])
async def submit(
    service: Served, body: messages.JobsRequest, caller: User, key: KeyDigest
) -> Response:
    """Accept all of the jobs or none; answer once they are on disk."""
    return _json({"ids": await service.submit(body.jobs, caller, *key)}, 201)


@router.get("/v1/jobs", response_model=messages.JobsView, tags=["jobs"])
async def jobs(
    service: Served,
    caller: User,
    user: Name | None = None,
    all_: Annotated[bool, Query(alias="all")] = False,
    beyond: Annotated[int, Query(ge=0, lt=10**18)] = 0,
    limit: Annotated[int, Query(ge=1, le=VIEWS_AT_ONCE)] = VIEWS_AT_ONCE,
) -> Response:
    """List waiting and running jobs by id; with ``all`` also the latest ended ones.

    If the list was cut at ``limit`` jobs or 2 MiB, ``next`` is its last id; send this id as
    ``beyond`` to get the next jobs.
    """
    return _json(await service.jobs(caller, user, all_, beyond, limit))


@router.get("/v1/jobs/search", response_model=dict[str, Any], tags=["jobs"])
async def search_jobs(
    service: Served,
    caller: User,
    query: Annotated[messages.JobQuery, Query()],
) -> Response:
    """Search waiting and running jobs, or the latest 100,000 ended ones, in pages.

    ``found`` counts the jobs of all pages.
    """
    return _json(await service.search(caller, query))


@router.get("/v1/jobs/{job}", response_model=messages.JobView, tags=["jobs"])
async def show_job(service: Served, job: JobNumber, caller: User) -> Response:
    """Show a job."""
    return _json(await service.job(job, caller))


@router.get("/v1/jobs/{job}/wait", response_model=messages.JobView, tags=["jobs"])
async def wait(
    service: Served,
    job: JobNumber,
    caller: User,
    seconds: Annotated[float, Query(ge=0, le=LONGEST_WAIT)] = 30.0,
) -> Response:
    """Wait until a job ends, or for ``seconds``; show the job."""
    return _json(await service.wait(job, caller, seconds))


@router.patch("/v1/jobs/{job}", response_model=messages.JobView, tags=["jobs"])
async def modify(
    service: Served, job: JobNumber, body: messages.JobChange, caller: User, key: KeyDigest
) -> Response:
    """Change the waiting tasks of a job."""
    return _json(await service.change(job, caller, "modify", *key, request=body))


@router.post("/v1/jobs/{job}/cancel", response_model=messages.JobView, tags=["jobs"])
async def cancel(
    service: Served, job: JobNumber, caller: User, key: KeyDigest, interrupt: bool = False
) -> Response:
    """Drop the waiting tasks of a job, and stop its running ones.

    Running tasks get SIGTERM, or SIGINT with ``interrupt``.
    """
    why = {"why": INTERRUPTED} if interrupt else {}
    return _json(await service.change(job, caller, "cancel", *key, **why))


@router.post("/v1/jobs/{job}/hold", response_model=messages.JobView, tags=["jobs"])
async def hold(service: Served, job: JobNumber, caller: User, key: KeyDigest) -> Response:
    """Hold a job: start no more of its tasks."""
    return _json(await service.change(job, caller, "hold", *key))


@router.post("/v1/jobs/{job}/release", response_model=messages.JobView, tags=["jobs"])
async def release(service: Served, job: JobNumber, caller: User, key: KeyDigest) -> Response:
    """Release a held job to its old position in its queue."""
    return _json(await service.change(job, caller, "release", *key))


@router.post("/v1/jobs/{job}/skip", response_model=messages.JobView, tags=["jobs"])
async def skip(
    service: Served, job: JobNumber, body: messages.SkipRequest, caller: User, key: KeyDigest
) -> Response:
    """Count the given tasks as done, if they wait."""
    return _json(await service.change(job, caller, "skip", *key, tasks=sorted(set(body.tasks))))


@router.get("/v1/jobs/{job}/explain", response_model=dict[str, Any], tags=["jobs"])
async def explain(service: Served, job: JobNumber, caller: User) -> Response:
    """Explain why a job waits, and which changes would let its first task start."""
    return _json(await service.explain(job, caller))


@router.get("/v1/jobs/{job}/when", response_model=messages.WhenView, tags=["jobs"])
async def when(service: Served, job: JobNumber, caller: User) -> Response:
    """Forecast the start of a job: by time limits, and by run times of ended tasks."""
    return _json(await service.when(job, caller))


@router.get("/v1/jobs/{job}/attempts", response_model=dict[str, Any], tags=["jobs"])
async def attempts(service: Served, job: JobNumber, caller: User) -> Response:
    """List the running attempts of a job, then the latest ended ones; at most 100 of each."""
    return _json(await service.attempts(job, caller))


@router.get("/v1/jobs/{job}/logs", response_model=messages.LogsView, tags=["jobs"])
async def logs(
    service: Served,
    job: JobNumber,
    caller: User,
    index: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    attempt: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
    stream: Annotated[str, Query(pattern="^(stdout|stderr)$")] = "stdout",
    offset: Annotated[int, Query(ge=0, le=MOST_INTEGER)] = 0,
) -> Response:
    """Show a piece of a task's output, from a byte offset."""
    return _json(await service.logs(job, caller, index, attempt, stream, offset))


# Users, servers, shares


@router.get("/v1/users", response_model=messages.UsersView, tags=["users"])
async def users(service: Served, _: User) -> Response:
    """List users."""
    return _json({"users": await service.state_thread.ask(user_views)})


@router.put("/v1/users/{name}", response_model=messages.WeightView, tags=["users"])
async def set_user(
    service: Served, name: Name, body: messages.UserRequest, _: Admin, key: KeyDigest
) -> Response:
    """Set a user's weight."""
    return _json(await service.set_user(name, body.weight, *key))


@router.get("/v1/users/{name}", response_model=dict[str, Any], tags=["users"])
async def show_user(service: Served, name: Name, _: User) -> Response:
    """Show a user's weight and tasks, and its held and fair shares of the cluster."""
    return _json(await service.user(name))


@router.get("/v1/whoami", response_model=dict[str, Any], tags=["users"])
async def whoami(
    caller: Annotated[Caller, Depends(_caller_of("admin", "user", "worker"))],
) -> Response:
    """Show the caller's role, and the user or server of its token."""
    return _json({"role": caller.role, "subject": caller.subject})


@router.get("/v1/servers/search", response_model=dict[str, Any], tags=["servers"])
async def search_servers(
    service: Served,
    caller: User,
    text: Annotated[str, Query(max_length=200)] = "",
    state: messages.StateOfServer | None = None,
    offset: Annotated[int, Query(ge=0, le=MOST_INTEGER)] = 0,
    limit: Annotated[int, Query(ge=1, le=50)] = 20,
) -> Response:
    """Search servers by a text in their name; show the first 100 tasks on each.

    ``found`` counts the servers of all pages. A user's token gets ``job``, ``index`` and ``name``
    only of the user's own tasks.
    """
    return _json(await service.find_servers(caller, text, state, offset, limit))


@router.get("/v1/servers", response_model=messages.ServersView, tags=["servers"])
async def servers(service: Served, _: User) -> Response:
    """List servers with capacity and used amounts."""
    return _json({"servers": await service.state_thread.ask(server_views)})


@router.post("/v1/servers/{name}/drain", response_model=messages.ServerState, tags=["servers"])
async def drain(service: Served, name: Name, _: Admin, key: KeyDigest) -> Response:
    """Start no more tasks on a server; running ones continue."""
    return _json(await service.change_server(name, "drain", *key, drained=True))


@router.post("/v1/servers/{name}/undrain", response_model=messages.ServerState, tags=["servers"])
async def undrain(service: Served, name: Name, _: Admin, key: KeyDigest) -> Response:
    """Start tasks on a drained server again."""
    return _json(await service.change_server(name, "drain", *key, drained=False))


@router.delete("/v1/servers/{name}", response_model=messages.ServerState, tags=["servers"])
async def remove(service: Served, name: Name, _: Admin, key: KeyDigest) -> Response:
    """Remove a server as lost: its tasks run again elsewhere."""
    return _json(await service.change_server(name, "lost", *key))


@router.get("/v1/shares", response_model=messages.SharesView, tags=["shares"])
async def shares(service: Served, _: User) -> Response:
    """Show users' shares and fair shares, and the certificate of the fair shares."""
    return _json((await service.shares.now()).to_dict())


@router.get("/v1/shares/over", response_model=messages.ShareHoursView, tags=["shares"])
async def shares_over(
    service: Served, _: User, seconds: Annotated[float, Query(gt=0, le=MOST_SECONDS)]
) -> Response:
    """Show the share hours that users held, were due and were owed in the last ``seconds``."""
    return _json(await service.history.share_hours(seconds))


@router.get("/v1/shares/over-time", response_model=dict[str, Any], tags=["shares"])
async def shares_over_time(
    service: Served, _: User, seconds: RecentSeconds, user: Name | None = None
) -> Response:
    """Show held and fair shares over time, of one user or of the 8 with the largest shares.

    ``times`` are the mean times of the samples of a step; steps without a sample have null.
    """
    read = partial(service.journal.samples.shares_over_time, user=user)
    return _json(await service.history.over_time(read, seconds))


@router.get("/v1/cluster/over-time", response_model=dict[str, Any], tags=["shares"])
async def cluster_over_time(service: Served, _: User, seconds: RecentSeconds) -> Response:
    """Show numbers of tasks, used amounts and capacity over time."""
    read = service.journal.samples.cluster_over_time
    return _json(await service.history.over_time(read, seconds))


@router.get("/v1/overview", response_model=dict[str, Any], tags=["shares"])
async def overview(service: Served, caller: User) -> Response:
    """Show a summary of the cluster, at most a few seconds old, and the caller's alerts."""
    alerts = {"alerts": service.alerts_for(caller)}
    return _json(await service.overview.latest() | alerts)


class _Stream(StreamingResponse):
    """A stream of server-sent events; `on_closed` is called when it ends."""

    def __init__(self, events: AsyncIterator[bytes], on_closed: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._on_closed = on_closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_closed()


@router.get("/v1/live", response_class=StreamingResponse, tags=["shares"])
async def live(request: Request, service: Served, caller: User) -> Response:
    """Stream the overview as server-sent events, one for each change."""
    access: Access = request.app.state.access
    overview = service.overview

    def admit(sent: int) -> bool:
        try:
            access.identify(request.scope)  # raises if the token was removed meanwhile
        except HTTPException as fault:
            raise messages.DeniedError(str(fault.detail)) from None
        allowance = access.allowance(caller)
        allowance.charge(answer=sent)
        return not allowance.is_spent

    overview.open_stream(caller.name)
    request.state.is_charged_elsewhere = True  # `admit` charges for each event instead
    events = overview.events(lambda: {"alerts": service.alerts_for(caller)}, admit)
    return _Stream(events, partial(overview.close_stream, caller.name))


@router.post("/v1/what-if", response_model=dict[str, Any], tags=["shares"])
async def what_if(service: Served, body: messages.WhatIfRequest, _: User) -> Response:
    """Show users' shares under another policy, weights, servers or quotas; change nothing.

    ``stays`` counts the tasks that would go on running on the drained servers; shares include
    them. If ``is_cut``, more tasks may start than the trial tried.
    """
    return _json(await service.what_if(body))


@router.get("/v1/history", response_model=messages.History, tags=["shares"])
async def history(service: Served, caller: User) -> Response:
    """Show core, GiB and GPU hours of ended tasks by month and user."""
    rows = await asyncio.to_thread(service.journal.jobs.usage)
    if caller.role == "user":
        rows = [row for row in rows if row["user"] == caller.subject]
    return _json({"usage": rows})


@router.get("/metrics", response_class=PlainTextResponse, tags=["health"])
async def metrics(service: Served, _: User) -> Response:
    """Show metrics of the service for Prometheus."""
    return Response(await service.metrics.text(), headers={"Content-Type": CONTENT_TYPE})


# Workers


@router.post("/v1/workers/join", response_model=messages.JoinAnswer, tags=["workers"])
async def join(service: Served, body: messages.JoinRequest, caller: Worker) -> Response:
    """Register the servers of a new or returning worker."""
    return _json(await service.workers.join(body, caller))


@router.post("/v1/workers/sync", response_model=dict[str, Any], tags=["workers"])
async def sync(service: Served, body: messages.SyncRequest, caller: Worker) -> Response:
    """Accept a worker's report; answer with orders, after at most ``wait`` seconds."""
    return _json(await service.workers.sync(body, caller))


@router.post("/v1/workers/logs", status_code=204, tags=["workers"])
async def hand_over_logs(
    request: Request, service: Served, body: messages.LogsPiece, caller: Worker
) -> Response:
    """Accept a piece of output that the service requested from the worker."""
    # The caller that requested the output is charged for it, not the worker.
    request.state.is_charged_elsewhere = service.workers.take_logs(body, caller)
    return Response(status_code=204)


# Health


@router.get("/healthz", tags=["health"])
async def healthz() -> dict[str, str]:
    """Report that the process is alive."""
    return {"status": "ok"}


@router.get("/readyz", response_model=dict[str, str], tags=["health"])
async def readyz(service: Served) -> Response:
    """Report whether the service carries out requests."""
    thread = service.state_thread
    if thread.ready:
        return _json({"status": "ready", "policy": thread.state.scheduler.policy.name})
    return _json({"status": "not ready", "detail": thread.fault}, 503)


def _json(answer: Any, status: int = 200) -> Response:
    return Response(to_json(answer), status, media_type="application/json")


# Refusals: each is one line of JSON


async def _refused(_: Request, fault: Exception) -> JSONResponse:
    status = next((STATUS[kind] for kind in type(fault).__mro__ if kind in STATUS), 500)
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    return JSONResponse({"detail": str(fault)}, status, headers)


async def _invalid(_: Request, fault: Exception) -> JSONResponse:
    assert isinstance(fault, RequestValidationError)
    first = fault.errors()[0]
    # Pydantic adds the names of alternative types, with brackets, to the location.
    place = ".".join(str(part) for part in first["loc"][1:] if "[" not in str(part))
    message = first["msg"].removeprefix("Value error, ")
    message = messages.ALLOWED.get(first.get("ctx", {}).get("pattern", ""), message)
    return JSONResponse({"detail": f"{place}: {message}" if place else message}, 422)
