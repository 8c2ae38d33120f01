"""``fairlead submit``, ``jobs`` and what else is asked of a running service about jobs."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.durations import is_bare_number, limit_of
from fairlead.cli.explain import WIDTH
from fairlead.cli.options import AsJson
from fairlead.cli.serve import _need, pairs_of
from fairlead.cli.streams import complain, emit, emit_lines, show, terminal_width
from fairlead.errors import InputError
from fairlead.model.quantity import typed_number

if TYPE_CHECKING:
    from fairlead.service.client import Client
    from fairlead.service.messages import JobRequest, JobView

Service = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help="The service. [default: FAIRLEAD_SERVER, or this machine]"
    ),
]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Its id, as submit prints it.")]
JobArguments = Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids.")]
Cpu = Annotated[
    str | None, typer.Option("--cpu", "-c", metavar="CORES", help="Of a task, such as 4 or 500m.")
]
Memory = Annotated[
    str | None, typer.Option("--memory", "-m", metavar="AMOUNT", help="GiB, or such as 512Mi.")
]
Gpu = Annotated[int | None, typer.Option("--gpu", "-g", min=0, metavar="N", help="Whole devices.")]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        "-t",
        metavar="T",
        help="It is ended after that: 90m, 2h, 1:30:00, 2-12, UNLIMITED; 90 is 90 seconds.",
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        "-w",
        metavar="KEY=VALUE",
        help="Only on servers with this label; all of several must match. Or a server's name.",
    ),
]
Priority = Annotated[
    int | None, typer.Option(metavar="N", help="Among your own jobs; higher starts earlier.")
]


IN_RAY = "ray:"  # before the address of a Ray cluster whose dispatcher is the service

NAMED = 20  # ids in a message
OPTIONS = {  # of submit and modify, by field
    "command": "COMMAND",
    "user": "--user",
    "name": "--name",
    "cpu": "--cpu",
    "memory": "--memory",
    "gpu": "--gpu",
    "tasks": "--count",
    "where": "--where",
    "priority": "--priority",
    "time_limit": "--time",
    "after": "--after",
    "directory": "--chdir",
    "environment": "--env",
}


def submit(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND ARG...", help="What a task runs.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="USER", help="[default: your account]")
    ] = None,
    cpu: Cpu = None,
    memory: Memory = None,
    gpu: Gpu = None,
    where: Where = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, metavar="N", help="Tasks; FAIRLEAD_INDEX tells.")
    ] = 1,
    gang: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Tasks that start together or not.")
    ] = None,
    time: Time = None,
    after: Annotated[
        list[str] | None, typer.Option(metavar="JOB", help="Start when this has ended well.")
    ] = None,
    priority: Priority = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="For people.")] = None,
    chdir: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Where to run, but under nobody. [default: here]"),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="In the environment, too.")
    ] = None,
    clean: Annotated[
        bool, typer.Option("--clean-env", help="Do not take your environment along.")
    ] = False,
    shell: Annotated[
        bool, typer.Option("--shell", help="COMMAND is one line for /bin/sh.")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Jobs as YAML: a list under jobs."),
    ] = None,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """Have a command run where there is room, when it is your turn; print the job's id.

    It runs in the folder and with the environment it was submitted from.

    \b
    Example:
      fairlead submit --cpu 4 --memory 16Gi --gpu 1 --where gpu=A100 -- python train.py
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    _need("httpx")
    import json

    from fairlead.service.messages import MOST_TASKS, JobRequest

    if file is None and not command:
        raise InputError("give a command after --, or --file", "COMMAND")
    of_one = (user, cpu, memory, gpu, where, gang, time, after, priority, name, chdir, env)
    is_given = command or count > 1 or clean or shell or any(one is not None for one in of_one)
    if file is not None and is_given:
        raise InputError("says all of its jobs; no command goes with it, and no option", "--file")
    if gang is not None and gang > MOST_TASKS:
        raise InputError(f"must be at most {MOST_TASKS:,}, not {gang:,}", "--gang")
    if gang is not None and count > 1:
        raise InputError("is given beside --count", "--gang")
    with client(server) as service:
        if file is not None:
            asked = jobs_of(file, server)
        else:
            words = list(command or [])
            if shell:
                words = ["/bin/sh", "-c", " ".join(words)]
            given: dict[str, Any] = {
                "command": words,
                "user": own_name() if user is None else user,
                "name": name,
                "cpu": 1.0 if cpu is None else amount_of(cpu),
                "memory": 0.0 if memory is None else amount_of(memory),
                "gpu": gpu or 0,
                "tasks": gang or count,
                "gang": gang is not None,
                "where": where_of(where),
                "priority": priority or 0,
                "time_limit": None if time is None else limit_of(time, "--time"),
                "after": after or [],
                "directory": str(Path(chdir or ".").absolute()),
                "environment": environment(clean) | pairs_of(env or [], "--env", may_be_empty=True),
            }
            asked = [_read_as(JobRequest, given, OPTIONS)]
            if user is None:
                _refuse_root("--user", server)
            if isinstance(given["where"], list):
                there = {found.name for found in service.servers()}
                for absent in sorted(set(given["where"]) - there):
                    complain(f"there is no server {absent!r:.60} now; of a label say KEY=VALUE")
        ids = service.submit(asked)
    _warn_of_seconds(time)
    try:
        if as_json:
            emit(json.dumps({"ids": ids}) + "\n")
        else:
            emit_lines(ids)
    except InputError as fault:
        more = f" and {len(ids) - NAMED:,} more" if len(ids) > NAMED else ""
        done = f"submitted, all the same: job {', '.join(ids[:NAMED])}{more}"
        raise InputError(f"{fault}; {done}") from None


def jobs(
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="USER", help="Only of this user.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Those that are over, too, the latest 1,000.")
    ] = False,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """List jobs that wait or run.

    \b
    Example:
      fairlead jobs --user ana
    """  # noqa: D301
    _need("httpx")
    from fairlead.report.live import jobs_document

    with client(server) as service:
        views = service.jobs(user, every)
    show(jobs_document([view.model_dump() for view in views]), as_json)


def cancel(jobs: JobArguments, server: Service = None, as_json: AsJson = False) -> None:
    """Drop jobs, and end what runs of them.

    \b
    Example:
      fairlead cancel 17 18
    """  # noqa: D301
    _tell("cancel", jobs, server, as_json)


def hold(jobs: JobArguments, server: Service = None, as_json: AsJson = False) -> None:
    """Start no more tasks of jobs; what runs goes on.

    \b
    Example:
      fairlead hold 17
    """  # noqa: D301
    _tell("hold", jobs, server, as_json)


def release(jobs: JobArguments, server: Service = None, as_json: AsJson = False) -> None:
    """Let held jobs start, in their old place.

    \b
    Example:
      fairlead release 17
    """  # noqa: D301
    _tell("release", jobs, server, as_json)


def modify(
    job: JobArgument,
    cpu: Cpu = None,
    memory: Memory = None,
    gpu: Gpu = None,
    where: Where = None,
    anywhere: Annotated[bool, typer.Option("--anywhere", help="On any server.")] = False,
    time: Time = None,
    priority: Priority = None,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """Change what a job asks for, as far as it waits; what runs stays as it is.

    \b
    Example:
      fairlead modify 17 --cpu 2 --priority 10
    """  # noqa: D301
    _need("httpx")
    from fairlead.service.messages import JobChange

    limit = None if time is None else limit_of(time, "--time")
    given = {
        "cpu": None if cpu is None else amount_of(cpu),
        "memory": None if memory is None else amount_of(memory),
        "gpu": gpu,
        "where": where_of(where),
        "anywhere": anywhere,
        "time_limit": limit,
        "unlimited": time is not None and limit is None,
        "priority": priority,
    }
    if anywhere and where:
        raise InputError("is given beside --where", "--anywhere")
    with client(server) as service:
        changed = service.modify(job, _read_as(JobChange, given, OPTIONS))
    _warn_of_seconds(time)
    _say([changed], as_json, quiet=True)


def wait(
    jobs: JobArguments,
    timeout: Annotated[
        str | None, typer.Option(metavar="T", help="Stop waiting after that: 90s, 2h, 1:30:00.")
    ] = None,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """Wait until jobs are over, and end with the status of the last that failed.

    A cancelled job counts as 1, and so does a job that is not over at --timeout.

    \b
    Example:
      fairlead wait 17 && echo well done
    """  # noqa: D301
    _need("httpx")
    seconds = None if timeout is None else limit_of(timeout, "--timeout")
    status, views = 0, []
    with client(server) as service:
        begun = time.monotonic()
        for job in jobs:
            left = None if seconds is None else max(0.0, begun + seconds - time.monotonic())
            view = service.wait(job, left)
            views.append(view)
            if view.state != "finished":
                status = view.exit_status or 1
            if view.state not in ("finished", "failed"):
                complain(f"job {job} is {view.state}{f': {view.reason}' if view.reason else ''}")
            elif view.reason:
                complain(f"job {job}: {view.reason}")
    _say(views, as_json, quiet=True)
    raise typer.Exit(status)


def logs(
    job: JobArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Until it is over.")] = False,
    stderr: Annotated[bool, typer.Option("--stderr", "-e", help="The other stream.")] = False,
    index: Annotated[int, typer.Option("--index", "-i", min=0, help="Of several tasks.")] = 0,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Of several starts. [default: the last]")
    ] = None,
    server: Service = None,
) -> None:
    """Print what a task of a job wrote.

    \b
    Example:
      fairlead logs -f 17
    """  # noqa: D301
    _need("httpx")
    import base64
    import time

    from fairlead.service.client import RefusedError

    stream, offset = "stderr" if stderr else "stdout", 0
    with client(server) as service:
        while True:
            try:
                piece = service.logs(job, stream, index, attempt, offset)
            except RefusedError as fault:
                if follow and fault.status == 404 and not _is_over(service, job):
                    time.sleep(1.0)  # it has not started
                    continue
                raise
            data = base64.b64decode(piece.data)
            if piece.offset > offset:
                complain(f"{piece.offset - offset:,} bytes before this are no longer kept")
            offset = piece.offset + len(data)
            _write(data)
            if piece.is_over or (not follow and offset >= piece.size):
                return
            if not data:
                time.sleep(0.5)


def when(job: JobArgument, server: Service = None, as_json: AsJson = False) -> None:
    """Say when a job starts, if nobody else comes and what runs lasts until its time limit.

    \b
    Example:
      fairlead when 17
    """  # noqa: D301
    _need("httpx")
    import json

    from fairlead.report.live import said_when

    with client(server) as service:
        view = service.when(job)
    if as_json:
        emit(json.dumps(view.model_dump()) + "\n")
    else:
        emit_lines([said_when(view.model_dump(), time.time())])


def explain_live(job: str, server: str | None, as_json: bool) -> None:
    """Say why a job of a running service waits."""
    _need("httpx")
    import json

    with client(server) as service:
        why = service.explain(job)
    if as_json:
        emit(json.dumps({"fairlead": 1, **why}, indent=2) + "\n")
        return
    width = terminal_width() or WIDTH
    text = why.get("text") or f"job {job}: {why['reason']}."
    emit_lines(text.splitlines(), width)


@contextmanager
def client(server: str | None) -> Iterator[Client]:
    """Give a client of a service for the length of a block."""
    if not sys.stderr.isatty():  # a failure is one line
        logging.getLogger("fairlead.client").setLevel(logging.WARNING)
    if server is not None and server.startswith(IN_RAY):
        from fairlead.ray.reach import client_of, found

        with client_of(found(server.removeprefix(IN_RAY) or None)) as service:
            yield service
        return
    from fairlead.service.client import Client

    with Client(server) as service:
        yield service


def where_of(texts: list[str] | None) -> dict[str, str] | list[str] | None:
    """Return labels, or names of servers.

    Raises
    ------
    InputError
        When both are given.
    """
    if not texts:
        return None
    if not any("=" in text for text in texts):
        return texts
    if not all("=" in text for text in texts):
        raise InputError("takes labels or names of servers, not both", "--where")
    return pairs_of(texts, "--where")


def environment(clean: bool) -> dict[str, str]:
    """Return the environment that a job takes along: no token, nothing that JSON cannot hold."""
    if clean:
        return {}
    return {
        name: value
        for name, value in os.environ.items()
        if name != "FAIRLEAD_TOKEN"
        and name.replace("_", "a").isalnum()
        and value.encode("utf-8", "replace").decode() == value
        and len(value) < 2**16
    }


def jobs_of(file: Path, server: str | None = None) -> list[JobRequest]:
    """Return the jobs of a file: a list, or one under ``jobs``; the folder is this one if none.

    Raises
    ------
    InputError
        When it cannot be read, or a job is not usable.
    """
    from fairlead.formats.text import read_document

    found = []
    try:
        document = read_document(file)
        listed = document.get("jobs") if isinstance(document, dict) else document
        if not isinstance(listed, list) or not listed:
            raise InputError("must be a list of jobs, or have one under jobs")
        for k, row in enumerate(listed):
            found.append(_job_of(row, f"jobs[{k}]"))
        for k, row in enumerate(listed):
            if "user" not in row:
                _refuse_root(f"jobs[{k}].user", server)
    except InputError as fault:
        raise fault.within(str(file)) from None
    return found


def _job_of(row: Any, place: str) -> JobRequest:
    from fairlead.service.messages import JobRequest

    if not isinstance(row, dict):
        raise InputError("must be a mapping", place)
    try:
        if isinstance(row.get("time_limit"), str):
            row["time_limit"] = limit_of(row["time_limit"], "time_limit")
        given = {"user": own_name(), "directory": str(Path.cwd())} | row
        found: JobRequest = _read_as(JobRequest, given, {})
    except InputError as fault:
        raise InputError(fault.fault, ".".join(p for p in (place, fault.place) if p)) from None
    return found


def _read_as(kind: Any, given: dict[str, Any], options: dict[str, str]) -> Any:
    """Return what is asked for; faults are told of options, where a field stands for one."""
    from pydantic import ValidationError

    try:
        return kind.model_validate(given)
    except ValidationError as faults:
        first = faults.errors()[0]
        field, *inner = (str(part) for part in first["loc"] if part != "[key]")
        is_item = options and inner[:1] and inner[0].isdigit()
        place = ".".join([options.get(field, field), *(inner[1:] if is_item else inner)])
        fault = first["msg"].removeprefix("Value error, ")
        if first["type"] == "string_pattern_mismatch":
            fault = _outside(str(first["input"]), first["ctx"]["pattern"])
        raise InputError(fault, place) from None


def _outside(text: str, pattern: str) -> str:
    """Return which character of a text a pattern does not allow, and what it allows."""
    from fairlead.service.messages import ALLOWED, JOB_ID

    if pattern == JOB_ID:
        return f"{text!r:.60} is not a job's id; {ALLOWED[pattern]}"
    wrong = next(c for c in text if not re.fullmatch(pattern, c))
    return f"{text!r:.60} holds {wrong!r}; {ALLOWED[pattern]}"


def _tell(what: str, jobs: list[str], server: str | None, as_json: bool) -> None:
    _need("httpx")
    with client(server) as service:
        if len(jobs) > 1:
            for job in jobs:  # before any of them is told
                service.job(job)
        views = [getattr(service, what)(job) for job in jobs]
    for view in views:
        if what == "cancel" and view.state in ("finished", "failed"):
            complain(f"job {view.id} is {view.state} already")
    _say(views, as_json, quiet=True)


def _say(views: list[JobView], as_json: bool, quiet: bool) -> None:
    if as_json or not quiet:
        from fairlead.report.live import jobs_document

        show(jobs_document([view.model_dump() for view in views]), as_json)


def _is_over(service: Client, job: str) -> bool:
    from fairlead.service.client import is_over

    return is_over(service.job(job))


def _refuse_root(place: str, server: str | None) -> None:
    """Refuse a job of root's that names no user: a worker that is root would fail it."""
    in_ray = server is not None and server.startswith(IN_RAY)
    if os.getuid() == 0 and not (in_ray or os.environ.get("FAIRLEAD_TOKEN")):
        raise InputError("must be given by root, as tasks never run as root", place)


def own_name() -> str | None:
    """Return the user of a job that names none; the service reads it off a token."""
    if os.environ.get("FAIRLEAD_TOKEN"):
        return None
    try:
        return getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def amount_of(text: str) -> float | str:
    """Return an amount as a number, or as it is where it has a unit."""
    try:
        return typed_number(text)
    except ValueError:
        return text


def _warn_of_seconds(time: str | None) -> None:
    """Warn that a bare number is seconds; Slurm takes it for minutes."""
    if time is not None and is_bare_number(time):
        complain(f"--time {time} is seconds; for minutes write {time}m")


def _write(data: bytes) -> None:
    from fairlead.cli.streams import ReaderGoneError

    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError as gone:
        raise ReaderGoneError from gone
