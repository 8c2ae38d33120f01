"""User-defined policies: a rule in plain Python chooses the next start and its server.

The rule sees the state through views of users, groups of waiting tasks, and servers. At each event
time of a replay it is called until it returns None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fairlead.scheduler._entities import Gang, Queue, Server, TaskGroup
from fairlead.scheduler.criteria.service_time import Amounts, ServiceTime, Units, used_amounts

if TYPE_CHECKING:
    from fairlead.scheduler._rule_cycle import RuleCycle


class ServerView:
    """An open server.

    Attributes
    ----------
    number : int
        Its index in the trace.
    group : str
        Name of its group of identical servers.
    """

    def __init__(self, server: Server, units: Units, group: str) -> None:
        self._server = server
        self._units = units
        self.number = server.order
        self.group = group

    @property
    def capacity(self) -> Amounts:
        """Its capacity by resource, in units."""
        return self._units.amounts(self._server.capacity)

    @property
    def free(self) -> Amounts:
        """The amounts that no task holds; inside `ClusterView.plan`, minus those planned so far."""
        return self._units.amounts(self._server.free)

    @property
    def running(self) -> int:
        """The number of its running tasks."""
        return self._server.running

    def __repr__(self) -> str:
        return f"<server {self.number} of {self.group}>"


class UserView:
    """A user with jobs in the trace.

    Attributes
    ----------
    name : str
    weight : float
    """

    def __init__(self, queue: Queue, criterion: ServiceTime, units: Units) -> None:
        self._queue = queue
        self._criterion = criterion
        self._units = units
        self.name = queue.name
        self.weight = queue.weight[0] / queue.weight[1]

    @property
    def running(self) -> int:
        """The number of running tasks."""
        return self._queue.running

    @property
    def waiting(self) -> int:
        """The number of waiting tasks."""
        return self._queue.waiting

    @property
    def held(self) -> Amounts:
        """The amounts that its running tasks hold."""
        return self._units.amounts(self._queue.held)

    @property
    def used(self) -> Amounts:
        """Amounts times seconds so far, such as core-seconds; lost runs count."""
        return used_amounts(self._criterion.time_of_queue(self.name), self._criterion, self._units)

    def __repr__(self) -> str:
        return f"<user {self.name}: {self.running:,} tasks run, {self.waiting:,} wait>"


class GroupView:
    """Equal tasks of a job, or all tasks of a gang.

    Attributes
    ----------
    job : str
        Name of the job.
    user : UserView
    submitted : float
        Time of submission, in seconds.
    time_limit : float
        Declared longest run of a task in seconds; infinite where the trace has none.
    is_gang : bool
        Whether all its tasks start together.
    demand : dict of str to float
        Amounts of one task; of a gang, of all its tasks together.
    """

    def __init__(
        self, group: TaskGroup, job: str, user: UserView, criterion: ServiceTime, units: Units
    ) -> None:
        self._group = group
        self._criterion = criterion
        self._units = units
        self.job = job
        self.user = user
        self.submitted = group.time
        self.time_limit = group.time_limit
        self.is_gang = isinstance(group, Gang)
        tasks = group.end if isinstance(group, Gang) else 1
        self.demand = units.sum_of([group.shape_of(index) for index in range(tasks)])

    @property
    def waiting(self) -> int:
        """The number of waiting tasks."""
        return self._group.waiting

    @property
    def running(self) -> int:
        """The number of running tasks."""
        return 0 if self._group.tasks is None else len(self._group.tasks)

    @property
    def used(self) -> Amounts:
        """Amounts times seconds of its tasks so far, such as core-seconds; lost runs count."""
        time = self._criterion.time_of_group(self._group.id)
        return used_amounts(time, self._criterion, self._units)

    def __repr__(self) -> str:
        tasks = "task" if self.waiting == 1 else "tasks"
        return f"<{self.waiting:,} waiting {tasks} of job {self.job} of {self.user.name}>"


# Chooses one of the servers with room for a task with these amounts.
Choose = Callable[[list[ServerView], Amounts], object]


class ClusterView:
    """The state as a rule sees it.

    Attributes
    ----------
    users : dict of str to UserView
        In the order of the trace.
    """

    def __init__(self, cycle: RuleCycle) -> None:
        self._cycle = cycle
        self.users: dict[str, UserView] = {}

    @property
    def now(self) -> float:
        """The time in seconds."""
        return self._cycle.state.now

    @property
    def waiting(self) -> list[GroupView]:
        """Groups with waiting tasks, in the order of submission. O(groups).

        Groups beyond a limit of their user are left out. With `strict_fifo`, so are all groups but
        the first of each user.
        """
        return self._cycle.waiting_groups()

    @property
    def servers(self) -> list[ServerView]:
        """Open servers in the order of the trace. O(servers)."""
        return self._cycle.open_servers()

    @property
    def total(self) -> Amounts:
        """Capacity of all present servers together, draining ones included."""
        return self._cycle.units.amounts(self._cycle.state.criterion.total)

    def fits(self, group: GroupView) -> bool:
        """Return whether the next task of a group, or a whole gang, has room now."""
        return self._cycle.has_room_now(group._group)

    def fits_idle(self, group: GroupView) -> bool:
        """Return whether a group's next task, or a whole gang, fits if all open servers are empty.

        O(servers).
        """
        return self._cycle.fits_empty(group._group)

    def plan(
        self,
        group: GroupView,
        choose: Choose | None = None,
    ) -> list[ServerView] | None:
        """Return servers for the next task of a group or a whole gang; None if it does not fit.

        `choose` gets the servers with room for a task, in order, and the task's amounts, and
        returns one of these servers; by default the first. It is called for each task of a gang,
        the largest task first.
        """
        return self._cycle.plan(group, choose)


# Returns a group to start, or a tuple of a group and its server or servers, or None.
Rule = Callable[[ClusterView], object]
