"""Options, checks and the connection of the verbs that ask a running service."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from fairlead.cli.options import pairs_of
from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import complain, log_on_standard_error
from fairlead.errors import InputError
from fairlead.model.quantity import typed_number
from fairlead.service.bounds import JOB_ID
from fairlead.service.client.plain_client import PlainClient, other_version

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
# Fields that not all answers have, and their values then.
OF_SOME_JOBS: Row = {"command": None, "shortened": []}
OF_SOME_FORECASTS: Row = {"starts": None, "not_before": None, "reason": ""}


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
    """Return labels, or names of servers; raise InputError for both."""
    if not texts:
        return None
    if not any("=" in text for text in texts):
        return texts
    if not all("=" in text for text in texts):
        raise InputError("takes labels or names of servers, not both", "--where")
    return pairs_of(texts, "--where")


def amount_of(text: str) -> float | str:
    """Return an amount as a number, or as it is where it has a unit."""
    try:
        return typed_number(text)
    except ValueError:
        return text


def environment(clean: bool) -> dict[str, str]:
    """Return this environment for a job, without the token and values that JSON cannot hold."""
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


def check_as(kind: type[BaseModel], given: Row, options: Mapping[str, str]) -> None:
    """Raise InputError for the first field that a message does not admit.

    `options` has the options that faults name in place of fields.
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
    """Name the character of a text that a pattern does not allow, and the allowed ones."""
    from fairlead.service.messages import ALLOWED

    if pattern == JOB_ID:
        return f"{text!r:.60} is not a job's id; {ALLOWED[pattern]}"
    wrong = next(c for c in text if not re.fullmatch(pattern, c))
    return f"{text!r:.60} holds {wrong!r}; {ALLOWED[pattern]}"


def complete(row: Row, absent: Row) -> Row:
    """Return an answer with the fields that it may lack."""
    return row | {field: value for field, value in absent.items() if field not in row}
