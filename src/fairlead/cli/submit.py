"""``fairlead submit``, ``run`` and ``modify``: submit jobs, and change them while they wait."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from fairlead.cli._client import JobArgument, Row, Service, client
from fairlead.cli._job_request import (
    JobOptions,
    RequestOptions,
    absent_servers,
    submit_jobs,
    warn,
)
from fairlead.cli.options import AsJson, parse_time_limit
from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import emit_json, emit_lines
from fairlead.errors import InputError
from fairlead.service.bounds import MOST_TASKS
from fairlead.service.client import calls

IDS_NAMED = 20  # in an error message


def submit(
    command: Annotated[
        list[str] | None, Argument(metavar="-- COMMAND ARG...", help="Command that each task runs.")
    ] = None,
    *,
    options: JobOptions,
    count: Annotated[
        int,
        Option(
            "--count",
            "-n",
            min=1,
            metavar="N",
            help="Number of tasks. Each finds its index, from 0, in FAIRLEAD_INDEX.",
        ),
    ] = 1,
    at_most: Annotated[
        int | None,
        Option(
            min=1,
            metavar="N",
            help="Limit on the tasks of the job that run at a time.",
        ),
    ] = None,
    gang: Annotated[
        int | None,
        Option(
            min=1,
            max=MOST_TASKS,
            metavar="N",
            help="Submit N tasks that start together or not at all, instead of --count.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Submit the jobs that this YAML file lists, perhaps under the key jobs.",
        ),
    ] = None,
    script: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Run this script, with options from its lines #FAIRLEAD and #SBATCH.",
        ),
    ] = None,
    notify: Annotated[
        bool, Option(help="Send the end of the job to the service's webhook.")
    ] = False,
    waits: Annotated[
        bool, Option("--wait", help="Wait until the jobs are over, and exit with their status.")
    ] = False,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """Submit a command as a job, and print the job's id.

    The command starts when its user's turn comes, in this folder and with this environment.

    \b
    Example:
      fairlead submit --cpu 4 --memory 16Gi --gpu 1 --where gpu=A100 -- python train.py
    """
    if script is not None:
        from fairlead.cli._script import command_of

        if options.shell:
            raise InputError("cannot be combined with --script", "--shell")
        command = [*command_of(script), *(command or [])]
    if file is None and not command:
        raise InputError("give a command after --, --script or --file", "COMMAND")
    tasks = (count, gang, at_most, notify)
    if file is not None and (command or options != JobOptions() or tasks != (1, None, None, False)):
        raise InputError("cannot be combined with a command or an option of a job", "--file")
    if gang is not None and count > 1:
        raise InputError("cannot be combined with --count", "--gang")
    if gang is not None and at_most is not None:
        raise InputError("cannot be combined with --gang", "--at-most")
    absent: list[str] = []
    with client(server) as service:
        if file is not None:
            rows = jobs_of(file)
        else:
            row = options.request_of(
                command or [],
                tasks=gang or count,
                gang=gang is not None,
                at_most=at_most,
                notify=notify or None,
            )
            absent, rows = absent_servers(service, row), [row]
        ids = submit_jobs(service, rows, server, file)
        warn(absent, options.time)
        try:
            if as_json:
                emit_json({"ids": ids})
            else:
                emit_lines(ids)
        except InputError as fault:
            more = f" and {len(ids) - IDS_NAMED:,} more" if len(ids) > IDS_NAMED else ""
            done = f"but submitted: job {', '.join(ids[:IDS_NAMED])}{more}"
            raise InputError(f"{fault}; {done}") from None
        if waits:
            from fairlead.cli._waiting import wait_for

            sys.exit(wait_for(service, ids)[0])


def run(
    command: Annotated[list[str], Argument(metavar="-- COMMAND ARG...", help="Command to run.")],
    options: JobOptions,
    server: Service = None,
) -> None:
    """Run a command on the cluster, print its output, and exit with its status.

    The command starts when its user's turn comes, in this folder and with this environment. Ctrl-C
    interrupts it.

    \b
    Example:
      fairlead run --gpu 1 -- python train.py
    """
    from fairlead.cli._waiting import interruptions, stream_output

    with client(server) as service, interruptions() as interrupted:
        row = options.request_of(command)
        absent = absent_servers(service, row)
        (job,) = submit_jobs(service, [row], server)
        warn(absent, options.time)
        status = stream_output(service, job, interrupted)
    sys.exit(status)


def modify(
    job: JobArgument,
    options: RequestOptions,
    anywhere: Annotated[bool, Option(help="Remove --where: run on any server.")] = False,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """Change the request of a job's waiting tasks; running tasks keep theirs.

    \b
    Example:
      fairlead modify 17 --cpu 2 --priority 10
    """
    given = options.request() | {"anywhere": anywhere}
    given["unlimited"] = options.time is not None and given["time_limit"] is None
    if anywhere and options.where:
        raise InputError("cannot be combined with --where", "--anywhere")
    change = {field: value for field, value in given.items() if value is not None}
    with client(server) as service:
        changed = service.ask(calls.modify(job, change))
        warn([], options.time)
        if as_json:
            from fairlead.cli.jobs import show_jobs

            show_jobs([changed], as_json)


def jobs_of(file: Path) -> list[Row]:
    """Read a file's list of jobs, perhaps under ``jobs``; their default folder is this one."""
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
                row["time_limit"] = parse_time_limit(row["time_limit"], f"jobs[{k}].time_limit")
            found.append({"directory": str(Path.cwd())} | row)
    except InputError as fault:
        raise fault.within(str(file)) from None
    return found
