"""The interface of an engine, and the service's orders to it.

An engine starts and stops tasks on its nodes, and reports ended tasks until the reports are
acknowledged. It decides nothing: `worker_loop.py` applies the service's orders to it. There are two
engines: processes of this machine (`service/worker/`) and a Ray cluster (`fairlead/ray/`).

All orders of an answer are checked before any is applied. A worker may be root, and the answer may
come from another program or version. So every number has bounds, and every text a largest length.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fairlead.service.bounds import JOB_ID, MOST_TASKS
from fairlead.service.messages import (
    MOST_AMOUNT,
    MOST_GPUS,
    CheckpointSignal,
    Count,
    Label,
    Name,
    TaskKey,
    Text,
)

MOST_AT_ONCE = 100_000  # orders of a kind in an answer
LONGEST_FAULT = 200  # characters of an error in the log

Amount = Annotated[float, Field(ge=0, le=MOST_AMOUNT, strict=True)]
Demand = Annotated[dict[Label, Amount], Field(max_length=200)]
TimeLimit = Annotated[float, Field(gt=0, le=1e9, strict=True)]
Reason = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00]*$")]
Stream = Literal["stdout", "stderr"]
# id of the request, server, task, stream, offset in bytes
OutputRequest = tuple[Name, Name, TaskKey, Stream, Count]
Key = tuple[int, int, int]  # job, index, attempt


class ServiceAnswer(BaseModel):
    """An answer, or a part of one; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class JobSpec(ServiceAnswer):
    """The fields of a submitted job that a worker needs."""

    user: Name
    command: Annotated[list[Text], Field(min_length=1, max_length=10_000)]  # run without a shell
    environment: Annotated[dict[Name, Text], Field(max_length=10_000)]
    directory: Text | None = None  # the folder that it was submitted from
    tasks: Annotated[int, Field(ge=1, le=MOST_TASKS, strict=True)] = 1
    # Seconds since 1970; identifies the job among jobs of other journals with the same number.
    submitted: Annotated[float, Field(strict=True)] | None = None
    checkpoint_signal: CheckpointSignal | None = None  # for preempted tasks, in place of SIGTERM


class Orders(ServiceAnswer):
    """The service's orders to a worker."""

    seen: Count  # the number of the last order in this answer
    # server, task, demand, time limit in seconds
    start: Annotated[
        list[tuple[Name, TaskKey, Demand, TimeLimit | None]], Field(max_length=MOST_AT_ONCE)
    ]
    # For each start: the numbers of its GPUs. Services of earlier versions send none.
    devices: Annotated[
        list[Annotated[list[Count], Field(max_length=MOST_GPUS)]], Field(max_length=MOST_AT_ONCE)
    ] = []
    # server, task, reason
    stop: Annotated[list[tuple[Name, TaskKey, Reason]], Field(max_length=MOST_AT_ONCE)]
    logs: Annotated[list[OutputRequest], Field(max_length=MOST_AT_ONCE)]
    # The jobs of the tasks to start; absent if its spec in the journal is damaged.
    jobs: Annotated[
        dict[Annotated[str, Field(pattern=JOB_ID)], JobSpec], Field(max_length=MOST_AT_ONCE)
    ]


def first_fault(fault: ValidationError) -> str:
    """Return the field and the message of an answer's first error, in one line."""
    error = fault.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in error["loc"])
    return one_line(f"{place}: {error['msg']}")


def one_line(text: str) -> str:
    """Return a text of the service for the log: shortened, without control characters."""
    return "".join(c if c.isprintable() else " " for c in text[:LONGEST_FAULT])


class EngineNode(NamedTuple):
    """A server of an engine: capacity by resource (cores, GiB, devices), and labels."""

    name: str
    capacity: Mapping[str, float]
    labels: Mapping[str, str]


class Start(NamedTuple):
    """An order to start a task on a node."""

    key: Key
    node: str
    demand: Mapping[str, float]  # by resource; also the limits of its use
    time_limit: float | None  # seconds after which it is stopped
    job: JobSpec | None  # None if the service could not send it
    devices: Sequence[int] = ()  # the numbers of its GPUs on the node


class Ending(NamedTuple):
    """How a task ended."""

    key: Key
    status: int | None  # as in a shell; None if the task has to run again
    reason: str


class TaskEngine(Protocol):
    """Nodes that run tasks; its methods are called in the thread of one event loop.

    Attributes
    ----------
    identity : str
        Distinguishes engines with nodes of the same names; does not change at a restart.
    changed : asyncio.Event
        Set when nodes were added, removed or changed, or a task ended.
    """

    identity: str
    changed: asyncio.Event

    def nodes(self) -> Sequence[EngineNode]:
        """Return the current nodes.

        The tasks of a lost node have ended without a status, even if the node is back before the
        service learns of the loss.
        """
        ...

    async def start(self, tasks: Sequence[Start]) -> None:
        """Start tasks, but no attempt twice.

        A failed start does not prevent others; the first error is raised after the last task.
        """
        ...

    def stop(self, key: Key, why: str) -> None:
        """Stop a task, if it runs."""
        ...

    def keep_only(self, keys: Collection[Key]) -> None:
        """Stop all tasks but these, and do not report their ends."""
        ...

    def endings(self) -> Sequence[Ending]:
        """Return ended tasks that `forget` has not acknowledged."""
        ...

    def forget(self, endings: Sequence[Ending]) -> None:
        """Acknowledge reported endings."""
        ...

    async def output(self, key: Key, stream: str, offset: int) -> Mapping[str, Any]:
        """Return a piece of output from a byte offset: `data` in base64, `size`, `is_over`.

        If there is no output, return only `fault`, the reason.
        """
        ...

    async def attend(self) -> None:
        """Watch nodes and tasks until cancelled."""
        ...
