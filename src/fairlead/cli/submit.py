"""``fairlead submit`` and ``modify``: submit jobs, and change them while they wait."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from fairlead.cli._client import (
    RAY_PREFIX,
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
    check_fields,
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

IDS_NAMED = 20  # in a message
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
    "checkpoint_signal": "--checkpoint-signal",
    "at_most": "--at-most",
}


def submit(
    command: Annotated[
        list[str] | None, Argument(metavar="-- COMMAND ARG...", help="Command of each task.")
    ] = None,
    user: Annotated[
        str | None, Option("--user", "-u", metavar="USER", help="[default: your account]")
    ] = None,
    cpu: Cpu = None,
    memory: Memory = None,
    gpu: Gpu = None,
    where: Where = None,
    count: Annotated[
        int,
        Option(
            "--count",
            "-n",
            min=1,
            metavar="N",
            help="Tasks; each finds its index in FAIRLEAD_INDEX.",
        ),
    ] = 1,
    at_most: Annotated[
        int | None,
        Option("--at-most", min=1, metavar="N", help="Tasks of it that run at a time."),
    ] = None,
    gang: Annotated[
        int | None, Option(min=1, metavar="N", help="Tasks that start together or not at all.")
    ] = None,
    time: Time = None,
    after: Annotated[
        list[str] | None, Option(metavar="JOB", help="Start after this job has finished.")
    ] = None,
    priority: Priority = None,
    name: Annotated[str | None, Option(metavar="NAME", help="Name in lists.")] = None,
    chdir: Annotated[
        str | None,
        Option(metavar="FOLDER", help="Working folder, except as nobody. [default: here]"),
    ] = None,
    env: Annotated[
        list[str] | None, Option(metavar="KEY=VALUE", help="Also set this variable.")
    ] = None,
    clean: Annotated[bool, Option("--clean-env", help="Do not pass on your environment.")] = False,
    checkpoint_signal: Annotated[
        str | None,
        Option(
            "--checkpoint-signal",
            metavar="SIGNAL",
            help="TERM, INT, HUP, USR1 or USR2: for a preempted task, which runs again.",
        ),
    ] = None,
    shell: Annotated[bool, Option("--shell", help="COMMAND is one line for /bin/sh.")] = False,
    file: Annotated[
        Path | None,
        Option("--file", "-f", metavar="FILE", help="YAML file of jobs: a list under jobs."),
    ] = None,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """Submit a command as a job, and print the job's id.

    It starts in its user's turn, in this folder and with this environment.

    \b
    Example:
      fairlead submit --cpu 4 --memory 16Gi --gpu 1 --where gpu=A100 -- python train.py
    """
    if file is None and not command:
        raise InputError("give a command after --, or --file", "COMMAND")
    job_options = (user, cpu, memory, gpu, where, gang, time, after, priority, name, chdir, env)
    others = (*job_options, checkpoint_signal, at_most)
    is_given = command or count > 1 or clean or shell or any(one is not None for one in others)
    if file is not None and is_given:
        raise InputError("cannot be combined with a command or an option of a job", "--file")
    if gang is not None and gang > MOST_TASKS:
        raise InputError(f"must be at most {MOST_TASKS:,}, not {gang:,}", "--gang")
    if gang is not None and count > 1:
        raise InputError("cannot be combined with --count", "--gang")
    if gang is not None and at_most is not None:
        raise InputError("cannot be combined with --gang", "--at-most")
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
                "checkpoint_signal": checkpoint_signal,
                "at_most": at_most,
            }
            rows = [{field: value for field, value in given.items() if value is not None}]
            if isinstance(given["where"], list):
                there = {found["name"] for found in service.ask(calls.SERVERS)["servers"]}
                absent = sorted(set(given["where"]) - there)
        _name_users(rows, file, server)
        ids = _submit(service, rows, file)
    for missing in absent:
        complain(f"there is no server {missing!r:.60} now; write a label as KEY=VALUE")
    _warn_of_seconds(time)
    try:
        if as_json:
            emit(json.dumps({"ids": ids}) + "\n")
        else:
            emit_lines(ids)
    except InputError as fault:
        more = f" and {len(ids) - IDS_NAMED:,} more" if len(ids) > IDS_NAMED else ""
        done = f"but submitted: job {', '.join(ids[:IDS_NAMED])}{more}"
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
    """Change the request of a job's waiting tasks; running tasks keep theirs.

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
        raise InputError("cannot be combined with --where", "--anywhere")
    change = {field: value for field, value in given.items() if value is not None}
    with client(server) as service:
        try:
            changed = service.ask(calls.modify(job, change))
        except FairleadError:
            from fairlead.service.messages import JobChange

            check_fields(JobChange, change, OPTIONS)
            raise
        _warn_of_seconds(time)
        if as_json:
            from fairlead.cli.jobs import show_jobs

            show_jobs([changed], as_json)


def jobs_of(file: Path) -> list[Row]:
    """Read the jobs of a file, a list or one under ``jobs``; they run in this folder by default."""
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
    in_ray = server is not None and server.startswith(RAY_PREFIX)
    has_token = bool(os.environ.get("FAIRLEAD_TOKEN"))  # it names the user
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

    The service checks them, as importing the checks is slow. They are checked here before several
    requests, and after a refusal, to name the option or the place in a file.
    """
    try:
        parts = list(calls.parts_of(rows))
        if len(parts) > 1 or [json.loads(text) for part in parts for text in part] != rows:
            _check(rows, file)  # YAML has values that JSON lacks
        return service.submit(parts)
    except FairleadError:
        _check(rows, file)
        raise
    except TypeError:
        _check(rows, file)
        raise InputError("holds a value that JSON lacks", "", str(file)) from None


def _check(rows: Sequence[Row], file: Path | None) -> None:
    """Raise `InputError` for the first job that is not usable."""
    from fairlead.service.messages import JobRequest

    for k, row in enumerate(rows):
        if file is None:
            check_fields(JobRequest, row, OPTIONS)
            continue
        try:
            check_fields(JobRequest, row, {})
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
