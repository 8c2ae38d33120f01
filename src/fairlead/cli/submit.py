"""``fairlead submit`` and ``modify``: request that commands run."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from fairlead.cli._client import (
    IN_RAY,
    Cpu,
    Gpu,
    JobArgument,
    Memory,
    Priority,
    Row,
    Service,
    Time,
    Where,
    amount_of,
    check_as,
    client,
    environment,
    where_of,
)
from fairlead.cli.options import AsJson, is_bare_number, limit_of, pairs_of
from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import complain, emit, emit_lines
from fairlead.errors import FairleadError, InputError
from fairlead.service.bounds import MOST_TASKS
from fairlead.service.client import calls
from fairlead.service.client.plain_client import PlainClient

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
    """
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
    """
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
            from fairlead.cli.jobs import show_jobs

            show_jobs([changed], as_json)


def jobs_of(file: Path) -> list[Row]:
    """Return the jobs of a file: a list, or one under ``jobs``; this folder is the default."""
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

    The service checks them, as importing the checks takes long. They are checked here where a
    refusal should name the option or the place in a file, and before several requests.
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


def own_name() -> str:
    """Return the name of this account."""
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _warn_of_seconds(time: str | None) -> None:
    """Warn that a bare number is seconds; Slurm takes it for minutes."""
    if time is not None and is_bare_number(time):
        complain(f"--time {time} is seconds; for minutes write {time}m")
