"""``fairlead submit``, ``jobs`` and what else is asked of a running service about jobs."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fairlead.cli.durations import is_bare_number, limit_of
from fairlead.cli.options import AsJson, pairs_of
from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import (
    WIDTH_OF_PIPE,
    complain,
    emit,
    emit_lines,
    log_on_standard_error,
    show_table,
    terminal_width,
)
from fairlead.errors import FairleadError, InputError
from fairlead.model.quantity import typed_number
from fairlead.service.bounds import JOB_ID, MOST_TASKS
from fairlead.service.client import calls
from fairlead.service.client.plain_client import PlainClient, RefusedError, is_over, other_version

if TYPE_CHECKING:
    from pydantic import BaseModel

Row = dict[str, Any]
Service = Annotated[
    str | None,
    Option(
        "--server", metavar="URL", help="The service. [default: FAIRLEAD_SERVER, or this machine]"
    ),
]
JobArgument = Annotated[str, Argument(metavar="JOB", help="Its id, as submit prints it.")]
JobArguments = Annotated[list[str], Argument(metavar="JOB...", help="Ids.")]
Cpu = Annotated[
    str | None, Option("--cpu", "-c", metavar="CORES", help="Of a task, such as 4 or 500m.")
]
Memory = Annotated[
    str | None, Option("--memory", "-m", metavar="AMOUNT", help="GiB, or such as 512Mi.")
]
Gpu = Annotated[int | None, Option("--gpu", "-g", min=0, metavar="N", help="Whole devices.")]
Time = Annotated[
    str | None,
    Option(
        "--time",
        "-t",
        metavar="T",
        help="It is ended after that: 90m, 2h, 1:30:00, 2-12, UNLIMITED; 90 is 90 seconds.",
    ),
]
Where = Annotated[
    list[str] | None,
    Option(
        "--where",
        "-w",
        metavar="KEY=VALUE",
        help="Only on servers with this label; all of several must match. Or a server's name.",
    ),
]
Priority = Annotated[
    int | None, Option(metavar="N", help="Among your own jobs; higher starts earlier.")
]


IN_RAY = "ray:"  # before the address of a Ray cluster whose dispatcher is the service

NAMED = 20  # ids in a message
# Fields that not all answers have, and what their absence means.
OF_SOME_JOBS: Row = {"command": None, "shortened": []}
OF_SOME_FORECASTS: Row = {"starts": None, "not_before": None, "reason": ""}
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
        list[str] | None, Argument(metavar="-- COMMAND ARG...", help="What a task runs.")
    ] = None,
    user: Annotated[
        str | None, Option("--user", "-u", metavar="USER", help="[default: your account]")
    ] = None,
    cpu: Cpu = None,
    memory: Memory = None,
    gpu: Gpu = None,
    where: Where = None,
    count: Annotated[
        int, Option("--count", "-n", min=1, metavar="N", help="Tasks; FAIRLEAD_INDEX tells.")
    ] = 1,
    gang: Annotated[
        int | None, Option(min=1, metavar="N", help="Tasks that start together or not.")
    ] = None,
    time: Time = None,
    after: Annotated[
        list[str] | None, Option(metavar="JOB", help="Start when this has ended well.")
    ] = None,
    priority: Priority = None,
    name: Annotated[str | None, Option(metavar="NAME", help="For people.")] = None,
    chdir: Annotated[
        str | None,
        Option(metavar="FOLDER", help="Where to run, but under nobody. [default: here]"),
    ] = None,
    env: Annotated[
        list[str] | None, Option(metavar="KEY=VALUE", help="In the environment, too.")
    ] = None,
    clean: Annotated[
        bool, Option("--clean-env", help="Do not take your environment along.")
    ] = False,
    shell: Annotated[bool, Option("--shell", help="COMMAND is one line for /bin/sh.")] = False,
    file: Annotated[
        Path | None,
        Option("--file", "-f", metavar="FILE", help="Jobs as YAML: a list under jobs."),
    ] = None,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """Submit a command, which starts on a free server in its user's turn; print the job's id.

    It runs in the folder and with the environment it was submitted from.

    \b
    Example:
      fairlead submit --cpu 4 --memory 16Gi --gpu 1 --where gpu=A100 -- python train.py
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
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
    absent: list[str] = []
    with client(server) as service:
        if file is not None:
            rows = jobs_of(file)
        else:
            words = list(command or [])
            if shell:
                words = ["/bin/sh", "-c", " ".join(words)]
            given: Row = {
                "command": words,
                "user": user,
                "name": name,
                "cpu": None if cpu is None else amount_of(cpu),
                "memory": None if memory is None else amount_of(memory),
                "gpu": gpu,
                "tasks": gang or count,
                "gang": gang is not None,
                "where": where_of(where),
                "priority": priority,
                "time_limit": None if time is None else limit_of(time, "--time"),
                "after": after,
                "directory": str(Path(chdir or ".").absolute()),
                "environment": environment(clean) | pairs_of(env or [], "--env", may_be_empty=True),
            }
            rows = [{field: value for field, value in given.items() if value is not None}]
            if isinstance(given["where"], list):
                there = {found["name"] for found in service.ask(calls.SERVERS)["servers"]}
                absent = sorted(set(given["where"]) - there)
        _name_users(rows, file, server)
        ids = _submit(service, rows, file)
    for missing in absent:
        complain(f"there is no server {missing!r:.60} now; of a label say KEY=VALUE")
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
        str | None, Option("--user", "-u", metavar="USER", help="Only of this user.")
    ] = None,
    every: Annotated[
        bool, Option("--all", "-a", help="Those that are over, too, the latest 1,000.")
    ] = False,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """List jobs that wait or run.

    \b
    Example:
      fairlead jobs --user ana
    """  # noqa: D301
    with client(server) as service:
        _show(service.jobs(user, every), as_json)


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
    """Release held jobs, in their old place.

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
    anywhere: Annotated[bool, Option("--anywhere", help="On any server.")] = False,
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
    change = {field: value for field, value in given.items() if value is not None}
    with client(server) as service:
        try:
            changed = service.ask(calls.modify(job, change))
        except FairleadError:
            from fairlead.service.messages import JobChange

            check_as(JobChange, change, OPTIONS)
            raise
        _warn_of_seconds(time)
        if as_json:
            _show([changed], as_json)


def wait(
    jobs: JobArguments,
    timeout: Annotated[
        str | None, Option(metavar="T", help="Stop waiting after that: 90s, 2h, 1:30:00.")
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
    seconds = None if timeout is None else limit_of(timeout, "--timeout")
    status, rows = 0, []
    with client(server) as service:
        begun = time.monotonic()
        for job in jobs:
            left = None if seconds is None else max(0.0, begun + seconds - time.monotonic())
            row = service.wait(job, left)
            rows.append(row)
            state, reason = row["state"], row["reason"]
            if state != "finished":
                status = row["exit_status"] or 1
            if state not in ("finished", "failed"):
                complain(f"job {job} is {state}{f': {reason}' if reason else ''}")
            elif reason:
                complain(f"job {job}: {reason}")
        if as_json:
            _show(rows, as_json)
    sys.exit(status)


def logs(
    job: JobArgument,
    follow: Annotated[bool, Option("--follow", "-f", help="Until it is over.")] = False,
    stderr: Annotated[bool, Option("--stderr", "-e", help="The other stream.")] = False,
    index: Annotated[int, Option("--index", "-i", min=0, help="Of several tasks.")] = 0,
    attempt: Annotated[
        int | None, Option(min=1, help="Of several starts. [default: the last]")
    ] = None,
    server: Service = None,
) -> None:
    """Print what a task of a job wrote.

    \b
    Example:
      fairlead logs -f 17
    """  # noqa: D301
    from binascii import a2b_base64

    stream, offset = "stderr" if stderr else "stdout", 0
    with client(server) as service:
        while True:
            try:
                piece = service.ask(calls.logs(job, stream, index, attempt, offset))
            except RefusedError as fault:
                if follow and fault.status == 404 and not _is_over(service, job):
                    time.sleep(1.0)  # it has not started
                    continue
                raise
            data = a2b_base64(piece["data"])
            if piece["offset"] > offset:
                complain(f"{piece['offset'] - offset:,} bytes before this are no longer kept")
            offset = piece["offset"] + len(data)
            _write(data)
            if piece["is_over"] or (not follow and offset >= piece["size"]):
                return
            if not data:
                time.sleep(0.5)


def when(job: JobArgument, server: Service = None, as_json: AsJson = False) -> None:
    """Show when a job starts, if no job comes and running tasks use their whole time limit.

    \b
    Example:
      fairlead when 17
    """  # noqa: D301
    with client(server) as service:
        view = _complete(service.ask(calls.when(job)), OF_SOME_FORECASTS)
        if as_json:
            emit(json.dumps(view) + "\n")
            return
        from fairlead.report.live import said_when

        emit_lines([said_when(view, time.time())])


def explain_live(job: str, server: str | None, as_json: bool) -> None:
    """Explain why a job of a running service waits."""
    with client(server) as service:
        why = service.ask(calls.explain(job))
        if as_json:
            emit(json.dumps({"fairlead": 1, **why}, indent=2) + "\n")
            return
        text = why.get("text") or f"job {job}: {why['reason']}."
    emit_lines(text.splitlines(), terminal_width() or WIDTH_OF_PIPE)


@contextmanager
def client(server: str | None) -> Iterator[PlainClient]:
    """Open a client of a service for a block; an answer that lacks a field ends the command."""
    exchange = None
    if server is not None and server.startswith(IN_RAY):
        log_on_standard_error()
        from fairlead.ray.connection import RayExchange, running_dispatcher

        exchange = RayExchange(running_dispatcher(server.removeprefix(IN_RAY) or None))
        server = None
    report = complain if sys.stderr.isatty() else lambda _: None  # elsewhere a failure is one line
    with PlainClient(server, None, exchange, report) as service:
        try:
            yield service
        except (KeyError, TypeError) as fault:  # a field is missing in the answer
            raise other_version(200, service.url) from fault


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


def jobs_of(file: Path) -> list[Row]:
    """Return the jobs of a file: a list, or one under ``jobs``; the folder is this one if none.

    Raises
    ------
    InputError
        When it cannot be read, or has no such list.
    """
    from fairlead.formats.documents import read_document

    found = []
    try:
        document = read_document(file)
        listed = document.get("jobs") if isinstance(document, dict) else document
        if not isinstance(listed, list) or not listed:
            raise InputError("must be a list of jobs, or have one under jobs")
        for k, row in enumerate(listed):
            if not isinstance(row, dict):
                raise InputError("must be a mapping", f"jobs[{k}]")
            if isinstance(row.get("time_limit"), str):
                row["time_limit"] = limit_of(row["time_limit"], f"jobs[{k}].time_limit")
            found.append({"directory": str(Path.cwd())} | row)
    except InputError as fault:
        raise fault.within(str(file)) from None
    return found


def _name_users(rows: Sequence[Row], file: Path | None, server: str | None) -> None:
    """Fill in the account's name for jobs without a user; refuse root, which no worker runs."""
    nameless = [k for k, row in enumerate(rows) if "user" not in row]
    in_ray = server is not None and server.startswith(IN_RAY)
    has_token = bool(os.environ.get("FAIRLEAD_TOKEN"))  # the service reads the user off it
    if nameless and os.getuid() == 0 and not (in_ray or has_token):
        _check(rows, file)
        place = "--user" if file is None else f"jobs[{nameless[0]}].user"
        source = "" if file is None else str(file)
        raise InputError("must be given by root, as tasks never run as root", place, source)
    if not has_token:
        for k in nameless:
            rows[k]["user"] = own_name()


def _submit(service: PlainClient, rows: list[Row], file: Path | None) -> list[str]:
    """Submit jobs; return their ids.

    The service checks them, as that takes less time here. They are checked here where a refusal
    should name the option, or the place in a file, and before the first of several requests.
    """
    try:
        parts = list(calls.parts_of(rows))
        if len(parts) > 1 or [json.loads(text) for part in parts for text in part] != rows:
            _check(rows, file)  # JSON may not hold all that YAML does
        return service.submit(parts)
    except FairleadError:
        _check(rows, file)
        raise
    except TypeError:
        _check(rows, file)
        raise InputError("holds a value that JSON has not", "", str(file)) from None


def _check(rows: Sequence[Row], file: Path | None) -> None:
    """Raise `InputError` for the first job that is not usable."""
    from fairlead.service.messages import JobRequest

    for k, row in enumerate(rows):
        if file is None:
            check_as(JobRequest, row, OPTIONS)
            continue
        try:
            check_as(JobRequest, row, {})
        except InputError as fault:
            place = ".".join(part for part in (f"jobs[{k}]", fault.place) if part)
            raise InputError(fault.fault, place, str(file)) from None


def check_as(kind: type[BaseModel], given: Row, options: Mapping[str, str]) -> None:
    """Raise `InputError` for values that a message does not admit.

    Parameters
    ----------
    kind : type
        The message.
    given : dict
        Its fields.
    options : mapping of str to str
        Options that faults name in place of fields.
    """
    from pydantic import ValidationError

    try:
        kind.model_validate(given)
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
    from fairlead.service.messages import ALLOWED

    if pattern == JOB_ID:
        return f"{text!r:.60} is not a job's id; {ALLOWED[pattern]}"
    wrong = next(c for c in text if not re.fullmatch(pattern, c))
    return f"{text!r:.60} holds {wrong!r}; {ALLOWED[pattern]}"


def _tell(what: str, jobs: list[str], server: str | None, as_json: bool) -> None:
    with client(server) as service:
        if len(jobs) > 1:
            for job in jobs:  # before any of them is told
                service.ask(calls.job(job))
        rows = [service.ask(calls.act_on_job(job, what)) for job in jobs]
        for row in rows:
            if what == "cancel" and row["state"] in ("finished", "failed"):
                complain(f"job {row['id']} is {row['state']} already")
        if as_json:
            _show(rows, as_json)


def _show(rows: Sequence[Row], as_json: bool) -> None:
    from fairlead.report.live import jobs_table

    show_table(jobs_table([_complete(row, OF_SOME_JOBS) for row in rows]), as_json)


def _complete(row: Row, absent: Row) -> Row:
    """Return an answer with the fields that it may lack."""
    return row | {field: value for field, value in absent.items() if field not in row}


def _is_over(service: PlainClient, job: str) -> bool:
    return is_over(service.ask(calls.job(job))["state"])


def own_name() -> str:
    """Return the name of this account."""
    from getpass import getuser

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
