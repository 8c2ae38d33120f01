"""Options of the verbs that submit jobs, and the requests made from them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fairlead.cli._client import (
    RAY_PREFIX,
    Row,
    environment,
    parse_amount,
    parse_where,
)
from fairlead.cli.options import is_bare_number, parse_pairs, parse_time_limit
from fairlead.cli.parameters import Option
from fairlead.cli.streams import complain
from fairlead.errors import InputError
from fairlead.service.client import calls
from fairlead.service.client.plain_client import PlainClient, RefusedError

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
            "environment": environment(self.clean) | variables,
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
