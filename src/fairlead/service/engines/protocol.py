"""What an engine must do: nodes come and go, tasks start and stop, and it says how they ended.

An engine decides nothing. It is told which task starts on which node, under which attempt, and
tells what became of it until that was heard. `following.py` has it do what a service says. There
are three: processes of this machine (`worker/`), tasks that only last (`memory.py`), and a Ray
cluster (`ray/`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from fairlead.service.engines.orders import JobSpec

Key = tuple[int, int, int]  # job, index, attempt


class EngineNode(NamedTuple):
    """A server, as its engine sees it: amounts by resource (cores, GiB, devices), and labels."""

    name: str
    capacity: Mapping[str, float]
    labels: Mapping[str, str]


class Start(NamedTuple):
    """A task that is to run.

    Attributes
    ----------
    key : tuple of int
        Job, index in the job, and which start of this task it is.
    node : str
    demand : mapping of str to float
        What it may use, by resource.
    time_limit : float or None
        Seconds after which it is to be ended.
    job : JobSpec or None
        The job as it was submitted; None where the service does not know it any more.
    """

    key: Key
    node: str
    demand: Mapping[str, float]
    time_limit: float | None
    job: JobSpec | None


class Ending(NamedTuple):
    """How a task ended: a status as a shell gives it, or None where it is to run again."""

    key: Key
    status: int | None
    reason: str


class TaskEngine(Protocol):
    """Nodes that run tasks; all of it is called in the thread of one event loop.

    Attributes
    ----------
    identity : str
        Tells it from other engines that have nodes of the same names; the same after a restart.
    news : asyncio.Event
        Set when nodes came, went or changed, or a task ended.
    """

    identity: str
    news: asyncio.Event

    def nodes(self) -> Sequence[EngineNode]:
        """Return the nodes that are there now.

        What runs on a node that goes has ended, with no status: it may come back before the
        service hears that it was away.
        """
        ...

    async def start(self, tasks: Sequence[Start]) -> None:
        """Run tasks; one that was started before under its attempt is left as it is.

        A task that fails to start holds up no other; the first fault is raised after the last task.
        """
        ...

    def stop(self, key: Key, why: str) -> None:
        """Stop a task; ignore one that does not run."""
        ...

    def keep_only(self, keys: Collection[Key]) -> None:
        """Stop all other tasks, and tell nothing more of them: nobody wants them."""
        ...

    def endings(self) -> Sequence[Ending]:
        """Return how tasks ended that `forget` was not told of yet."""
        ...

    def forget(self, endings: Sequence[Ending]) -> None:
        """Acknowledge reported endings."""
        ...

    async def output(self, key: Key, stream: str, offset: int) -> Mapping[str, Any]:
        """Return a piece of what a task wrote, from a byte on: `data` in base64, `size`, `is_over`.

        Or a `fault`, where there is none.
        """
        ...

    async def attend(self) -> None:
        """Look after nodes and tasks until cancelled."""
        ...
