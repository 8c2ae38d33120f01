"""Jobs, their tasks, and the servers that they run on, as the service knows them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

ASIDE = ("stopping", "after", "held")
WAITS, RUNS, DONE, FAILED = range(4)  # what a task is, one byte each
MOST_STATUS = 255  # of a process, as a shell gives it

Indices = range | list[int]
Where = dict[str, str] | list[str] | None


class TaskKey(NamedTuple):
    """Which start of which task."""

    job: int
    index: int  # type: ignore[assignment]
    attempt: int

    def __str__(self) -> str:
        return f"{self.job}.{self.index}.{self.attempt}"


@dataclass(slots=True)
class JobGroup:
    """A group of the scheduler: which tasks of which job, and how many wait and run there."""

    group: int
    job: Job
    indices: Indices
    demand: dict[str, float]  # of one task; the job's may be another by now, and so its limit
    waiting: int
    running: int = 0
    withdrawn: bool = False
    time_limit: float | None = None

    @property
    def asked(self) -> tuple[dict[str, float], float | None]:
        """What its tasks asked for."""
        return self.demand, self.time_limit

    def demand_of(self, index: int) -> dict[str, float]:
        """Return what a task takes."""
        return self.job.demand_of(index) if self.job.members else self.demand


@dataclass(slots=True)
class Running:
    """A task that runs: on which server, since when, and why it is to stop, if it is."""

    key: TaskKey
    task: int
    entry: JobGroup
    server: str
    since: float
    stopping: str = ""
    is_over: bool = False  # it has ended, and waits for the rest of its gang

    @property
    def demand(self) -> dict[str, float]:
        """The amounts that it holds."""
        return self.entry.demand_of(self.key.index)


@dataclass(slots=True)
class Job:
    """A user's request: a number of alike tasks, or a gang."""

    id: int
    user: str
    demand: dict[str, float]
    tasks: int
    gang: bool
    where: Where
    priority: int
    time_limit: float | None
    submitted: float
    after: list[int]
    eligible: float
    held: bool = False
    cancelled: str = ""  # why, if it is
    started: float | None = None
    server: str | None = None  # where a task of it started last
    ended: int = 0
    exit_status: int = 0
    attempts: int = 0
    reason: str = ""
    status: bytearray = field(default_factory=bytearray)
    tries: dict[int, int] = field(default_factory=dict)  # starts that were lost, by index
    running: dict[int, Running] = field(default_factory=dict)  # by index
    entries: dict[int, JobGroup] = field(default_factory=dict)  # by the scheduler's group
    members: list[tuple[dict[str, float], int]] | None = None  # of a gang of unlike tasks
    name: str | None = None  # for people
    size: int = 0  # bytes of the request, which the journal keeps while the job is live
    over: int = 0  # tasks in `running` that ended and wait for the rest of their gang
    _ends: list[int] = field(init=False)  # of each member, the index after its last task

    def __post_init__(self) -> None:
        self._ends = list(accumulate(tasks for _, tasks in self.members or ()))

    def demand_of(self, index: int) -> dict[str, float]:
        """Return the demand of one task."""
        return self.members[bisect_right(self._ends, index)][0] if self.members else self.demand

    def members_of(self, indices: Indices) -> list[tuple[dict[str, float], int]]:
        """Return the demands of tasks, given in order, and the number of tasks of each demand.

        Neighbours of one demand are one entry. The cost grows with the members, not the tasks.
        """
        found: list[tuple[dict[str, float], int]] = []
        first = 0
        for (demand, _), end in zip(self.members or (), self._ends, strict=True):
            following = bisect_left(indices, end, first)
            tasks, first = following - first, following
            if found and found[-1][0] == demand:
                found[-1] = demand, found[-1][1] + tasks
            elif tasks:
                found.append((demand, tasks))
        return found

    @property
    def waiting(self) -> int:
        """Number of its tasks that wait, also where the scheduler does not have them."""
        return self.tasks - self.ended - len(self.running)

    @property
    def state(self) -> str:
        """Its state, in the words of the API."""
        if self.running:
            return "running"
        if self.cancelled:
            return "cancelled"
        if self.ended == self.tasks:
            return "failed" if self.exit_status else "finished"
        return "held" if self.held else "pending"

    @property
    def aside(self) -> str:
        """Why its waiting tasks are not in the scheduler: one of `ASIDE`, or empty."""
        if self.cancelled:
            return "stopping"
        if self.after:
            return "after"
        return "held" if self.held else ""

    @property
    def group(self) -> int | None:
        """The scheduler's group in which tasks of it wait, if any."""
        return next((e.group for e in self.entries.values() if e.waiting), None)


@dataclass(slots=True)
class Machine:
    """A server and its tasks."""

    name: str
    capacity: dict[str, float]
    labels: dict[str, str]
    identity: str
    reachable: bool = True
    drained: bool = False
    lost: bool = False  # it goes as soon as the gangs that ran on it have ended elsewhere
    running: dict[TaskKey, Running] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """Its state, in the words of the API."""
        if self.lost:
            return "lost"
        if not self.reachable:
            return "unreachable"
        return "drained" if self.drained else "ready"


class Past(NamedTuple):
    """An ended attempt of a task, for the history; the status is None where it is unknown."""

    key: TaskKey
    user: str
    server: str
    demand: dict[str, float]
    started: float
    ended: float
    status: int | None
    reason: str


class Foreseen(NamedTuple):
    """When a job starts, if that can be told; if not, before when it does not, as far as known.

    `endless` counts running tasks without a time limit, `ended` tasks that end before.
    """

    starts: float | None
    not_before: float
    endless: int
    ended: int


@dataclass(slots=True)
class Effects:
    """What follows from events: for workers to do, and for the history to keep."""

    starts: list[Running] = field(default_factory=list)
    stops: list[Running] = field(default_factory=list)
    past: list[Past] = field(default_factory=list)
    ended: list[Job] = field(default_factory=list)
