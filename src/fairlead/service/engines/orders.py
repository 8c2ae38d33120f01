"""Answers of a service to a worker, checked whole before anything of them is carried out.

A worker may be root. The service may be false, or of another version. So every number has bounds,
and every text a length.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fairlead.service.bounds import JOB_ID, MOST_TASKS
from fairlead.service.messages import MOST, Label, Name, Text

MOST_AT_ONCE = 100_000  # orders of a kind in an answer
MOST_RUNNING = 10**7  # tasks on the servers of one worker
LARGEST = 2**53  # above it, JSON of some programs is not exact
LONGEST_FAULT = 200

JobNumber = Annotated[int, Field(ge=1, le=LARGEST, strict=True)]
Index = Annotated[int, Field(ge=0, le=MOST_TASKS, strict=True)]
AttemptNumber = Annotated[int, Field(ge=1, le=2**31, strict=True)]
TaskKey = tuple[JobNumber, Index, AttemptNumber]
Count = Annotated[int, Field(ge=0, le=LARGEST, strict=True)]
Amount = Annotated[float, Field(ge=0, le=MOST, strict=True)]
Demand = Annotated[dict[Label, Amount], Field(max_length=200)]
TimeLimit = Annotated[float, Field(gt=0, le=1e9, strict=True)]
Reason = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00]*$")]
Stream = Literal["stdout", "stderr"]
Question = tuple[Name, Name, TaskKey, Stream, Count]  # request, server, task, stream, offset


class ServiceAnswer(BaseModel):
    """An answer, or a part of one; fields that a worker does not need are passed over."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class JobSpec(ServiceAnswer):
    """A job as it was submitted, as far as a worker needs it.

    Attributes
    ----------
    user : str
    command : list of str
        Words; no shell reads them.
    environment : dict of str to str
    directory : str or None
        The folder that it was submitted from.
    tasks : int
        How many tasks the job has.
    submitted : float or None
        Seconds since 1970; tells the job from one of another journal with the same number.
    """

    user: Name
    command: Annotated[list[Text], Field(min_length=1, max_length=10_000)]
    environment: Annotated[dict[Name, Text], Field(max_length=10_000)]
    directory: Text | None = None
    tasks: Annotated[int, Field(ge=1, le=MOST_TASKS, strict=True)] = 1
    submitted: Annotated[float, Field(strict=True)] | None = None


class Joined(ServiceAnswer):
    """The name of the session, how long to wait for news, and the running tasks by server."""

    session: Name
    wait: Annotated[float, Field(ge=0, le=10, strict=True)]
    tasks: Annotated[list[tuple[Name, TaskKey]], Field(max_length=MOST_RUNNING)]


class Orders(ServiceAnswer):
    """Orders to a worker.

    Attributes
    ----------
    seen : int
        The number of the last order here.
    start : list of (server, task, demand, time limit)
    stop : list of (server, task, reason)
    logs : list of (request, server, task, stream, offset)
        Questions for output.
    jobs : dict of str to JobSpec
        The jobs of the tasks to start, by id; a job that the service does not know is absent.
    """

    seen: Count
    start: Annotated[
        list[tuple[Name, TaskKey, Demand, TimeLimit | None]], Field(max_length=MOST_AT_ONCE)
    ]
    stop: Annotated[list[tuple[Name, TaskKey, Reason]], Field(max_length=MOST_AT_ONCE)]
    logs: Annotated[list[Question], Field(max_length=MOST_AT_ONCE)]
    jobs: Annotated[
        dict[Annotated[str, Field(pattern=JOB_ID)], JobSpec], Field(max_length=MOST_AT_ONCE)
    ]


def first_fault(fault: ValidationError) -> str:
    """Return the place and the kind of an answer's first fault, in one line."""
    error = fault.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in error["loc"])
    return one_line(f"{place}: {error['msg']}")


def one_line(text: str) -> str:
    """Return text of a service as a log can show it: short, without control characters."""
    return "".join(c if c.isprintable() else " " for c in text[:LONGEST_FAULT])
