"""``fairlead submit``, ``run`` and ``modify``: submit jobs, and change them while they wait."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fairlead.cli.clients.jobs import interruptions, show_jobs, stream_output, wait_for
from fairlead.cli.clients.service_connection import (
    RAY_PREFIX,
    JobArgument,
    Row,
    Service,
    client,
    environment,
    parse_amount,
    parse_where,
)
from fairlead.cli.options import AsJson, is_bare_number, parse_pairs, parse_time_limit
from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import complain, emit_json, emit_lines
from fairlead.errors import InputError
from fairlead.service.bounds import MOST_TASKS
from fairlead.service.client import calls
from fairlead.service.client.plain_client import PlainClient, RefusedError

IDS_NAMED = 20  # in an error message
SubmittingUser = Annotated[
    str | None,
    Option("--user", "-u", metavar="USER", help="Submit as this user. [default: your account]"),
]


@dataclass(frozen=True)
class TaskOptions:
    """Options on the resources and servers of a task."""

    cpu: Annotated[
        str | None, Option("--cpu", "-c", metavar="CORES", help="Cores of each task: 4, or 500m.")
    ] = None
    memory: Annotated[
        str | None,
        Option(
            "--memory",
            "-m",
            metavar="AMOUNT",
            help="Memory of each task: a number of GiB, or with a unit, such as 512Mi.",
        ),
    ] = None
    gpu: Annotated[
        float | None,
        Option(
            "--gpu",
            "-g",
            min=0,
            max=100_000,
            metavar="N",
            help="GPUs of each task: a whole number, or a fraction of one.",
        ),
    ] = None
    where: Annotated[
        list[str] | None,
        Option(
            "--where",
            "-w",
            metavar="KEY=VALUE",
            help="Run only on servers with this label, or on the server with this name. "
            "Repeatable: a server needs all the labels, or one of the names.",
        ),
    ] = None

    def amounts(self) -> Row:
        """Return the requested amount of each resource; None if absent."""
        return {
            "cpu": None if self.cpu is None else parse_amount(self.cpu),
            "memory": None if self.memory is None else parse_amount(self.memory),
            "gpu": self.gpu,
        }


@dataclass(frozen=True)
class RequestOptions(TaskOptions):
    """Options that `modify` can change while the job waits."""

    time: Annotated[
        str | None,
        Option(
            "--time",
            "-t",
            metavar="T",
            help="Time limit of each task: 90m, 2h, 1:30:00, 2-12 (2 days and 12 hours) or "
            "UNLIMITED; 90 is 90 seconds.",
        ),
    ] = None
    priority: Annotated[
        int | None,
        Option(metavar="N", help="Priority among your own jobs; higher ones start earlier."),
    ] = None

    def request(self) -> Row:
        """Return the fields of a request; None if absent."""
        return {
            **self.amounts(),
            "where": parse_where(self.where),
            "priority": self.priority,
            "time_limit": None if self.time is None else parse_time_limit(self.time, "--time"),
        }


@dataclass(frozen=True)
class JobOptions(RequestOptions):
    """Options of a job of one command."""

    user: SubmittingUser = None
    after: Annotated[
        list[str] | None,
        Option(
            metavar="JOB",
            help="Start only after this job has succeeded; if it does not, cancel the new job. "
            "Repeatable.",
        ),
    ] = None
    name: Annotated[str | None, Option(metavar="NAME", help="Name of the job in lists.")] = None
    chdir: Annotated[
        str | None,
        Option(
            metavar="FOLDER",
            help="Working folder. Tasks under the account nobody run in a folder of their user "
            "instead. [default: this folder]",
        ),
    ] = None
    env: Annotated[
        list[str] | None,
        Option(metavar="NAME=VALUE", help="Also set this environment variable; repeatable."),
    ] = None
    clean: Annotated[bool, Option("--clean-env", help="Do not pass on your environment.")] = False
    checkpoint_signal: Annotated[
        str | None,
        Option(
            metavar="SIGNAL",
            help="Signal that asks a preempted task to save its state: TERM, INT, HUP, USR1 or "
            "USR2. The task then runs again, whatever its exit status is.",
        ),
    ] = None
    shell: Annotated[bool, Option(help="Run COMMAND as one line of /bin/sh.")] = False

    def request_of(self, command: Sequence[str], **others: object) -> Row:
        """Return the request of a job, without absent fields."""
        variables = parse_pairs(self.env or [], "--env", may_be_empty=True)
        given: Row = {
            "command": ["/bin/sh", "-c", " ".join(command)] if self.shell else list(command),
            "user": self.user,
            "name": self.name,
            **self.request(),
            "after": self.after,
            "directory": str(Path(self.chdir or ".").absolute()),
            "environment": ({} if self.clean else environment()) | variables,
            "checkpoint_signal": self.checkpoint_signal,
            **others,
        }
        return {field: value for field, value in given.items() if value is not None}


def submit_jobs(
    service: PlainClient, rows: list[Row], server: str | None, file: Path | None = None
) -> list[str]:
    """Submit jobs and return their ids; a job without a user gets this account's name.

    Raises InputError for unusable jobs.
    """
    _name_users(rows, file, server)
    source = "" if file is None else str(file)
    try:
        return service.submit(rows)
    except TypeError:  # YAML has values that JSON lacks
        raise InputError("holds a value that JSON lacks", "", source) from None
    except InputError as fault:
        raise fault.within(source) from None
    except RefusedError as refused:
        fault_text = re.sub(r"^jobs\.([0-9]+)", r"jobs[\1]", str(refused))  # as in other messages
        place = "" if file else "jobs[0]."
        raise InputError(fault_text.removeprefix(place), "", source) from None


def absent_servers(service: PlainClient, row: Row) -> list[str]:
    """Return the servers that a job names but the service does not have."""
    if not isinstance(row.get("where"), list):
        return []
    present = {found["name"] for found in service.ask(calls.SERVERS)["servers"]}
    return sorted(set(row["where"]) - present)


def warn(absent: Sequence[str], time: str | None) -> None:
    """Warn of absent servers, and of a --time without a unit: seconds here, minutes in Slurm."""
    for missing in absent:
        complain(f"there is no server {missing!r:.60} now; write a label as KEY=VALUE")
    if time is not None and is_bare_number(time):
        complain(f"--time {time} is seconds; for minutes write {time}m")


def _name_users(rows: Sequence[Row], file: Path | None, server: str | None) -> None:
    """Fill in the account's name for jobs without a user; refuse root, which no worker runs."""
    nameless = [k for k, row in enumerate(rows) if "user" not in row]
    in_ray = server is not None and server.startswith(RAY_PREFIX)
    has_token = bool(os.environ.get("FAIRLEAD_TOKEN"))  # the token determines the user
    if nameless and os.getuid() == 0 and not (in_ray or has_token):
        place = "--user" if file is None else f"jobs[{nameless[0]}].user"
        source = "" if file is None else str(file)
        raise InputError("must be given by root, as tasks never run as root", place, source)
    if not has_token:
        for k in nameless:
            rows[k]["user"] = _own_name()


def _own_name() -> str:
    """Return the name of this account."""
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):
        return str(os.getuid())


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
        from fairlead.cli.clients.job_script import command_of

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
