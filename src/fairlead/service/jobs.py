"""The records of the service's state: jobs, their tasks, servers and users."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

WITHHELD = ("stopping", "after", "held")  # why waiting tasks are kept from the scheduler
WAITS, RUNS, DONE, FAILED = range(4)  # the status of a task, one byte each

Indices = range | list[int]
Where = dict[str, str] | list[str] | None


class TaskKey(NamedTuple):
    """Identifies an attempt of a task."""

    job: int
    index: int  # type: ignore[assignment]
    attempt: int

    def __str__(self) -> str:
        return f"{self.job}.{self.index}.{self.attempt}"


@dataclass(slots=True)
class JobGroup:
    """A task group of the scheduler, and the tasks of a job that are in it."""

    group: int  # the scheduler's number
    job: Job
    indices: Indices  # of its tasks in the job
    demand: dict[str, float]  # of one task at its submission; the job may have changed since
    waiting: int  # number of waiting tasks
    running: int = 0  # number of running tasks
    withdrawn: bool = False  # whether it keeps only running tasks; a lost one waits in a new group
    time_limit: float | None = None


@dataclass(slots=True)
class Running:
    """A task that the scheduler started."""

    key: TaskKey
    task: int  # the scheduler's number of this start
    job_group: JobGroup
    server: str
    since: float  # seconds since 1970
    stopping: str = ""  # why it was asked to stop
    is_over: bool = False  # whether it has ended, and waits for the rest of its gang
    # Tasks that must end before it is sent to its worker.
    awaits: dict[TaskKey, None] = field(default_factory=dict)  # an ordered set
    devices: tuple[int, ...] = ()  # the numbers of its GPUs on its server

    @property
    def demand(self) -> dict[str, float]:
        job = self.job_group.job
        return job.demand_of(self.key.index) if job.members else self.job_group.demand


@dataclass(slots=True)
class Job:
    """A user's job: independent tasks with the same demand, or a gang."""

    id: int
    user: str
    demand: dict[str, float]  # of one task; with `members`, the largest amount of each resource
    tasks: int
    gang: bool
    where: Where
    priority: int
    time_limit: float | None  # seconds
    submitted: float  # seconds since 1970
    after: list[int]  # jobs that must still succeed before it starts
    eligible: float  # its submission, or the end of its last job in `after`; orders a user's jobs
    held: bool = False
    cancelled: str = ""  # the reason, if it is cancelled
    started: float | None = None  # time of the first start
    server: str | None = None  # the server of its last started task
    ended: int = 0  # number of ended tasks
    exit_status: int = 0  # the largest exit status of its tasks
    attempts: int = 0  # the largest attempt number of its tasks
    reason: str = ""  # of the last task that failed with a reason
    status: bytearray = field(default_factory=bytearray)  # WAITS, RUNS, DONE or FAILED by index
    lost_attempts: dict[int, int] = field(default_factory=dict)  # their number, by index
    running: dict[int, Running] = field(default_factory=dict)  # by index
    groups: dict[int, JobGroup] = field(default_factory=dict)  # by the scheduler's group
    # Of a gang of unlike tasks, in order of index: a demand, and the number of tasks with it.
    members: list[tuple[dict[str, float], int]] | None = None
    name: str | None = None  # for display
    program: str = ""  # the name of its command
    size: int = 0  # bytes of the request in the journal while the job is live
    checkpoint_signal: str = ""  # for preempted tasks, in place of SIGTERM
    notify: bool = False  # whether its end is sent to the service's webhook
    at_most: int = 0  # tasks in the scheduler at a time; 0 for all
    next_index: int = 0  # with `at_most`: the first candidate for its next submission
    awaiting_gang: int = 0  # tasks in `running` that ended and wait for the rest of their gang
    _ends: list[int] = field(init=False)  # for each member, the index after its last task

    def __post_init__(self) -> None:
        self._ends = list(accumulate(tasks for _, tasks in self.members or ()))

    def demand_of(self, index: int) -> dict[str, float]:
        return self.members[bisect_right(self._ends, index)][0] if self.members else self.demand

    def members_of(self, indices: Indices) -> list[tuple[dict[str, float], int]]:
        """Return the `members` of the tasks at sorted indices; equal neighbours are merged."""
        found: list[tuple[dict[str, float], int]] = []
        first = 0
        for (demand, _), end in zip(self.members or (), self._ends, strict=True):
            last = bisect_left(indices, end, first)
            tasks, first = last - first, last
            if found and found[-1][0] == demand:
                found[-1] = demand, found[-1][1] + tasks
            elif tasks:
                found.append((demand, tasks))
        return found

    @property
    def waiting(self) -> int:
        return self.tasks - self.ended - len(self.running)

    @property
    def is_finished(self) -> bool:
        """Whether all tasks have ended, or it is cancelled and none runs."""
        return not self.running and (bool(self.cancelled) or self.ended == self.tasks)

    @property
    def state(self) -> str:
        if self.running:
            return "running"
        if self.cancelled:
            return "cancelled"
        if self.ended == self.tasks:
            return "failed" if self.exit_status else "finished"
        return "held" if self.held else "pending"

    @property
    def withheld(self) -> str:
        """Why its waiting tasks are kept from the scheduler: one of `WITHHELD`, or empty."""
        if self.cancelled:
            return "stopping"
        if self.after:
            return "after"
        return "held" if self.held else ""

    @property
    def group(self) -> int | None:
        """The scheduler's group of its first waiting tasks; None if none waits there."""
        return next((e.group for e in self.groups.values() if e.waiting), None)

    def indices_of(self, status: int) -> Indices:
        """Return the tasks of a status; a range if all tasks have it."""
        if self.status.count(status) == self.tasks:
            return range(self.tasks)
        return [i for i, found in enumerate(self.status) if found == status]

    def running_by_index(self) -> list[Running]:
        return [self.running[index] for index in sorted(self.running)]


@dataclass(slots=True)
class Server:
    """A server that a worker registered, and the tasks on it."""

    name: str
    capacity: dict[str, float]
    labels: dict[str, str]
    identity: str  # of its worker
    reachable: bool = True
    drained: bool = False
    lost: bool = False  # removed once the gangs with tasks on it have stopped elsewhere
    running: dict[TaskKey, Running] = field(default_factory=dict)

    @property
    def state(self) -> str:
        if self.lost:
            return "lost"
        if not self.reachable:
            return "unreachable"
        return "drained" if self.drained else "ready"


@dataclass(slots=True)
class User:
    """A user, and the sums over its live jobs."""

    weight: float
    pending: int = 0  # waiting tasks, including held ones
    running: int = 0  # running tasks
    live_bytes: int = 0  # bytes of the requests in the journal
    live_jobs: int = 0


class EndedAttempt(NamedTuple):
    """An ended attempt of a task, for the history; the status is None if unknown."""

    key: TaskKey
    user: str
    server: str
    demand: dict[str, float]
    started: float
    ended: float
    status: int | None
    reason: str
    program: str = ""  # the name of its command


@dataclass(slots=True)
class Effects:
    """Consequences of events: orders for workers, and history to store."""

    starts: list[Running] = field(default_factory=list)
    stops: list[Running] = field(default_factory=list)
    attempts: list[EndedAttempt] = field(default_factory=list)
    ended: list[Job] = field(default_factory=list)
