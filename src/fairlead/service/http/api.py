"""The HTTP API, under ``/v1``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic_core import to_json
from starlette.staticfiles import StaticFiles

from fairlead.errors import CertificateError, FairleadError, InputError, RefusalError
from fairlead.service._metrics_page import CONTENT_TYPE
from fairlead.service.http._pages import pages
from fairlead.service.http.access import Access, Gate, Limits
from fairlead.service.journal.tokens import Token
from fairlead.service.messages import (
    MOST_INTEGER,
    DeniedError,
    FullError,
    History,
    JobChange,
    JobIds,
    JobsRequest,
    JobsView,
    JobView,
    JoinAnswer,
    JoinRequest,
    LogsPiece,
    LogsView,
    MissingError,
    Name,
    Refusal,
    ServerState,
    ServersView,
    SharesView,
    SkipRequest,
    StaleSessionError,
    SyncRequest,
    UnavailableError,
    UserRequest,
    UsersView,
    WeightView,
    WhenView,
)
from fairlead.service.service import VIEWS_AT_ONCE, Service

LONGEST_WAIT = 60.0
router = APIRouter()
STATUS: dict[type[FairleadError], int] = {
    StaleSessionError: 409,
    DeniedError: 403,
    MissingError: 404,
    FullError: 429,
    UnavailableError: 503,
    InputError: 422,
    RefusalError: 422,
    CertificateError: 500,
}

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refusal, "description": why}
    for status, why in {
        400: "The request is not JSON.",
        401: "No token, or one that is not known.",
        403: "Not with this token.",
        404: "There is no such thing, or it is not yours.",
        408: "The request took too long to come.",
        409: "The worker has to join again.",
        413: "The request is too large.",
        421: "The request is for another host.",
        422: "The request cannot be carried out as it is.",
        429: "Too many requests, or too many tasks that wait; later it may be taken.",
        503: "The journal cannot be written just now; nothing has changed.",
    }.items()
}
JobNumber = Annotated[int, Path(ge=1, lt=10**18)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]


def application(service: Service, limits: Limits, *, version: str = "0") -> FastAPI:
    """Return the API of a service.

    Parameters
    ----------
    service : Service
        It starts and stops with the application.
    limits : Limits
    version : str
        Shown in the API's description.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    api = FastAPI(
        title="fairlead",
        version=version,
        description="Fair shares for heterogeneous clusters.",
        lifespan=lifespan,
        docs_url=None,  # see `pages`
        redoc_url=None,
    )
    api.state.service = service
    api.add_middleware(Gate, access=Access(service, limits))
    _format_errors(api)
    for part in (router, people, admins):
        api.include_router(part, responses=REFUSALS)
    api.include_router(pages)
    described = api.openapi()  # kept by `api`; its page asks for a token then
    described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    described["security"] = [{"token": []}, {}]  # none on the Unix socket
    api.mount("/docs-files", StaticFiles(packages=[("fastapi_offline", "static")]))
    return api


def _service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


def _let_in(request: Request, *roles: str) -> Token:
    """Return the caller, if its role may do that."""
    found: Token = request.state.who
    if found.role not in roles:
        raise HTTPException(403, f"this is not for a token of role {found.role}")
    return found


async def _anybody(request: Request) -> Token:
    return _let_in(request, "admin", "user")


async def _admin(request: Request) -> Token:
    return _let_in(request, "admin")


async def _worker(request: Request) -> Token:
    return _let_in(request, "admin", "worker")


Served = Annotated[Service, Depends(_service)]
Anybody = Annotated[Token, Depends(_anybody)]
ToldWorker = Annotated[Token, Depends(_worker)]
people = APIRouter(dependencies=[Depends(_anybody)])
admins = APIRouter(dependencies=[Depends(_admin)])


async def _named(request: Request, key: Key = None) -> tuple[str, str]:
    """Return an idempotency key as it is kept, and what tells the request from others."""
    if key is None:
        return "", ""
    if not key:
        raise HTTPException(422, "Idempotency-Key: must not be empty")
    what = f"{request.method} {request.url.path}\n".encode() + await request.body()
    return f"{request.state.who.name}/{key}", sha256(what).hexdigest()


Once = Annotated[tuple[str, str], Depends(_named)]

# Jobs


@router.post("/v1/jobs", status_code=201, response_model=JobIds, tags=["jobs"])
async def submit(service: Served, asked: JobsRequest, who: Anybody, once: Once) -> Response:
    """Take jobs, all of them or none; answered when they are on disk."""
    return _json({"ids": await service.submit(asked.jobs, who, *once)}, 201)


@router.get("/v1/jobs", response_model=JobsView, tags=["jobs"])
async def jobs(
    service: Served,
    who: Anybody,
    user: Name | None = None,
    all_: Annotated[bool, Query(alias="all")] = False,
    beyond: Annotated[int, Query(ge=0, lt=10**18)] = 0,
    limit: Annotated[int, Query(ge=1, le=VIEWS_AT_ONCE)] = VIEWS_AT_ONCE,
) -> Response:
    """List jobs that wait or run by id; with ``all`` the latest that ended, too.

    Where there are more waiting or running jobs than ``limit``, or than 2 MiB of them, ``next`` is
    the id to go on from: ask again with ``beyond``.
    """
    return _json((await service.jobs(who, user, all_, beyond, limit))._asdict())


@router.get("/v1/jobs/{job}", response_model=JobView, tags=["jobs"])
async def show_job(service: Served, job: JobNumber, who: Anybody) -> Response:
    """Show a job."""
    return _json(await service.job(job, who))


@router.get("/v1/jobs/{job}/wait", response_model=JobView, tags=["jobs"])
async def wait(
    service: Served,
    job: JobNumber,
    who: Anybody,
    seconds: Annotated[float, Query(ge=0, le=LONGEST_WAIT)] = 30.0,
) -> Response:
    """Show a job as soon as it is over, or after some seconds."""
    return _json(await service.wait(job, who, seconds))


@router.patch("/v1/jobs/{job}", response_model=JobView, tags=["jobs"])
async def modify(
    service: Served, job: JobNumber, asked: JobChange, who: Anybody, once: Once
) -> Response:
    """Change what a job asks for, as far as it waits."""
    return _json(await service.change(job, who, "modify", *once, asked=asked))


@router.post("/v1/jobs/{job}/cancel", response_model=JobView, tags=["jobs"])
async def cancel(service: Served, job: JobNumber, who: Anybody, once: Once) -> Response:
    """Drop what waits of a job, and stop what runs."""
    return _json(await service.change(job, who, "cancel", *once))


@router.post("/v1/jobs/{job}/hold", response_model=JobView, tags=["jobs"])
async def hold(service: Served, job: JobNumber, who: Anybody, once: Once) -> Response:
    """Start no more tasks of a job."""
    return _json(await service.change(job, who, "hold", *once))


@router.post("/v1/jobs/{job}/release", response_model=JobView, tags=["jobs"])
async def release(service: Served, job: JobNumber, who: Anybody, once: Once) -> Response:
    """Start tasks of a held job again, in its old place."""
    return _json(await service.change(job, who, "release", *once))


@router.post("/v1/jobs/{job}/skip", response_model=JobView, tags=["jobs"])
async def skip(
    service: Served, job: JobNumber, asked: SkipRequest, who: Anybody, once: Once
) -> Response:
    """Count waiting tasks of a job as done."""
    return _json(await service.skip(job, who, asked.tasks, *once))


@router.get("/v1/jobs/{job}/explain", response_model=dict[str, Any], tags=["jobs"])
async def explain(service: Served, job: JobNumber, who: Anybody) -> Response:
    """Explain why a job waits, and what would let its first task start."""
    return _json(await service.explain(job, who))


@router.get("/v1/jobs/{job}/when", response_model=WhenView, tags=["jobs"])
async def when(service: Served, job: JobNumber, who: Anybody) -> Response:
    """Return when a job starts if no job comes and running tasks use their whole time limit."""
    return _json(await service.when(job, who))


@router.get("/v1/jobs/{job}/logs", response_model=LogsView, tags=["jobs"])
async def logs(
    service: Served,
    job: JobNumber,
    who: Anybody,
    index: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    attempt: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
    stream: Annotated[str, Query(pattern="^(stdout|stderr)$")] = "stdout",
    offset: Annotated[int, Query(ge=0, le=MOST_INTEGER)] = 0,
) -> Response:
    """Show a piece of what a task wrote, from a byte on."""
    return _json(await service.logs(job, who, index, attempt, stream, offset))


# Users, servers, shares


@people.get("/v1/users", response_model=UsersView, tags=["users"])
async def users(service: Served) -> Response:
    """List users."""
    return _json({"users": await service.users()})


@admins.put("/v1/users/{name}", response_model=WeightView, tags=["users"])
async def set_user(service: Served, name: Name, asked: UserRequest, once: Once) -> Response:
    """Give a user a weight."""
    return _json(await service.set_user(name, asked.weight, *once))


@people.get("/v1/servers", response_model=ServersView, tags=["servers"])
async def servers(service: Served) -> Response:
    """List servers, what they have and what is used."""
    return _json({"servers": await service.servers()})


@admins.post("/v1/servers/{name}/drain", response_model=ServerState, tags=["servers"])
async def drain(service: Served, name: Name, once: Once) -> Response:
    """Start no more tasks on a server; those that run go on."""
    return _json(await service.change_server(name, "drain", *once, drained=True))


@admins.post("/v1/servers/{name}/undrain", response_model=ServerState, tags=["servers"])
async def undrain(service: Served, name: Name, once: Once) -> Response:
    """Start tasks on a drained server again."""
    return _json(await service.change_server(name, "drain", *once, drained=False))


@admins.delete("/v1/servers/{name}", response_model=ServerState, tags=["servers"])
async def remove(service: Served, name: Name, once: Once) -> Response:
    """Give a server up: its tasks run again elsewhere."""
    return _json(await service.change_server(name, "lost", *once))


@people.get("/v1/shares", response_model=SharesView, tags=["shares"])
async def shares(service: Served) -> Response:
    """Show what users hold and what is fair, with its proof."""
    return _json(await service.shares())


@router.get("/v1/history", response_model=History, tags=["shares"])
async def history(service: Served, who: Anybody) -> Response:
    """Show hours of each resource by month and user."""
    rows = await asyncio.to_thread(service.journal.jobs.usage)
    if who.role == "user":
        rows = [row for row in rows if row["user"] == who.subject]
    return _json({"usage": rows})


@people.get("/metrics", response_class=PlainTextResponse, tags=["health"])
async def metrics(service: Served) -> Response:
    """Show figures of the service, for Prometheus."""
    return Response(await service.metrics.text(), headers={"Content-Type": CONTENT_TYPE})


# Workers


@router.post("/v1/workers/join", response_model=JoinAnswer, tags=["workers"])
async def join(
    service: Served, asked: JoinRequest, who: Annotated[Token, Depends(_worker)]
) -> Response:
    """Register servers, also ones that come back."""
    return _json(await service.workers.join(asked, who))


@router.post("/v1/workers/sync", response_model=dict[str, Any], tags=["workers"])
async def sync(service: Served, asked: SyncRequest, who: ToldWorker) -> Response:
    """Take a worker's report, and answer with orders; wait for news for a while."""
    return _json(await service.workers.sync(asked, who))


@router.post("/v1/workers/logs", status_code=204, tags=["workers"])
async def hand_over_logs(
    request: Request, service: Served, piece: LogsPiece, who: ToldWorker
) -> Response:
    """Hand over a piece of a task's output that was asked for."""
    # The caller who asked for the output is charged for it, not the worker.
    request.state.is_free = service.workers.take_logs(piece, who)
    return Response(status_code=204)


# Health


@router.get("/healthz", tags=["health"])
async def healthz() -> dict[str, str]:
    """Answer that the process is alive."""
    return {"status": "ok"}


@router.get("/readyz", response_model=dict[str, str], tags=["health"])
async def readyz(service: Served) -> Response:
    """Answer whether requests are carried out."""
    engine = service.engine
    if engine.ready:
        return _json({"status": "ready", "policy": engine.state.scheduler.policy.name})
    return _json({"status": "not ready", "detail": engine.fault}, 503)


def _json(answer: Any, status: int = 200) -> Response:
    return Response(to_json(answer), status, media_type="application/json")


def _format_errors(api: FastAPI) -> None:
    """Answer every refusal with ``{"detail": one line}``."""

    @api.exception_handler(FairleadError)
    async def refuse(_: Request, fault: FairleadError) -> JSONResponse:
        status = next((STATUS[kind] for kind in type(fault).__mro__ if kind in STATUS), 500)
        headers = {"Retry-After": "1"} if status in (429, 503) else None
        return JSONResponse({"detail": str(fault)}, status, headers)

    @api.exception_handler(RequestValidationError)
    async def invalid(_: Request, fault: RequestValidationError) -> JSONResponse:
        first = fault.errors()[0]
        # Without the names of alternative types.
        place = ".".join(str(part) for part in first["loc"][1:] if "[" not in str(part))
        message = first["msg"].removeprefix("Value error, ")
        return JSONResponse({"detail": f"{place}: {message}" if place else message}, 422)
