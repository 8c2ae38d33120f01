"""Replays: what a policy would have made of a workload, one moment after the other.

At one moment tasks end first, then servers change, then jobs arrive, then jobs are withdrawn, and
then tasks are placed until nothing more has room. The log has a row for each start. Nothing is
placed between two moments, except where offers that were declined are made again.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from fairlead.scheduler.placing import Placing
from fairlead.scheduler.selection.offers import Offers
from fairlead.scheduler.state import State
from fairlead.scheduler.tables import UNLIMITED, Member, Task, TaskGroup

JOIN, LEAVE, DRAIN = 0, 1, 2  # as `model.workload` has them
PORTION: Final = 64  # placements of a step


class Jobs:
    """What arrives: J jobs of K sets of equal tasks, T tasks."""

    submit: vec[float]  # (J,) time in seconds, ascending
    queue: list[str]  # (J,)
    is_gang: vec[bool]  # (J,)
    limit: vec[float]  # (J,) seconds that each of its tasks runs at most, infinite for any time
    first_set: vec[i64]  # (J + 1,)
    demand: list[list[int]]  # (K,) what a task of each set takes, in quanta
    place: list[frozenset[str] | None]  # (K,) groups of servers where it may run; None for all
    tasks: vec[i64]  # (K,) 0 for a set that fits on no server
    first_task: vec[i64]  # (K,)
    duration: vec[float]  # (T,) seconds

    def __init__(
        self,
        *,
        submit: Iterable[float],
        queue: list[str],
        is_gang: Iterable[bool],
        limit: Iterable[float],
        first_set: Iterable[int],
        demand: list[list[int]],
        place: list[frozenset[str] | None],
        tasks: Iterable[int],
        first_task: Iterable[int],
        duration: Iterable[float],
    ) -> None:
        self.submit = vec[float](submit)
        self.queue = queue
        self.is_gang = vec[bool](is_gang)
        self.limit = vec[float](limit)
        self.first_set = vec[i64](first_set)
        self.demand = demand
        self.place = place
        self.tasks = vec[i64](tasks)
        self.first_task = vec[i64](first_task)
        self.duration = vec[float](duration)


class Park:
    """Servers, and when they come and go: S servers, X events."""

    group: list[str]  # (S,)
    capacity: list[list[int]]  # (S,) in quanta; servers of a group share a list
    is_there: vec[bool]  # (S,) at the start
    time: vec[float]  # (X,) in seconds, ascending
    event: vec[i64]  # (X,) `JOIN`, `LEAVE` or `DRAIN`
    server: vec[i64]  # (X,)

    def __init__(
        self,
        *,
        group: list[str],
        capacity: list[list[int]],
        is_there: Iterable[bool],
        time: Iterable[float],
        event: Iterable[int],
        server: Iterable[int],
    ) -> None:
        self.group = group
        self.capacity = capacity
        self.is_there = vec[bool](is_there)
        self.time = vec[float](time)
        self.event = vec[i64](event)
        self.server = vec[i64](server)


class Replay:
    """A replay under way."""

    placing: Placing  # of a scheduler that knows the queues, and no servers at first
    state: State
    park: Park
    jobs: Jobs
    cancels: list[tuple[float, int]]  # when which jobs are withdrawn, ascending
    now: float = 0.0
    is_placing: bool = False
    makes_offers: bool
    next_change: i64 = 0
    next_job: i64 = 0
    next_cancel: i64 = 0
    task: vec[i64]  # the log: which task started
    server: vec[i64]  # on which server
    start: vec[float]  # when, in seconds
    end: vec[float]  # when it ended or was lost, in seconds
    is_lost: vec[bool]
    ends: list[float]  # a heap
    ending: dict[float, list[Task]]  # lost tasks are skipped
    id: vec[i64]  # of each row: ascending, so that the row of a lost task is found
    first_task: dict[int, int]  # of groups, by id
    groups: dict[int, list[TaskGroup]]  # of jobs that may be withdrawn

    def __init__(
        self, placing: Placing, park: Park, jobs: Jobs, cancels: list[tuple[float, int]]
    ) -> None:
        self.placing = placing
        self.state = placing.state
        self.park = park
        self.jobs = jobs
        self.cancels = cancels
        self.makes_offers = isinstance(placing, Offers)
        self.task = vec[i64]()
        self.server = vec[i64]()
        self.start = vec[float]()
        self.end = vec[float]()
        self.is_lost = vec[bool]()
        self.ends = []
        self.ending = {}
        self.id = vec[i64]()
        self.first_task = {}
        self.groups = {job: [] for _, job in cancels}
        for server in range(len(park.group)):
            if park.is_there[server]:
                self.join(server)

    def advance(self, steps: i64) -> bool:
        """Replay some more moments, or parts of them; return whether nothing is to come."""
        for _ in range(steps):
            if not self.is_placing:
                now = self.next_moment()
                if now == UNLIMITED:
                    return True
                self.now = now
                self.state.now = now
                self.end_tasks()
                self.change_servers()
                self.submit_jobs()
                self.cancel_jobs()
            self.is_placing = self.place_tasks()
        return False

    def next_moment(self) -> float:
        """Return when something happens next; infinite for never."""
        now = UNLIMITED
        while self.ends and not self.is_anything_left(self.ends[0]):
            del self.ending[heappop(self.ends)]
        if self.ends:
            now = self.ends[0]
        if self.next_change < len(self.park.time):
            now = min(now, self.park.time[self.next_change])
        if self.next_job < len(self.jobs.submit):
            now = min(now, self.jobs.submit[self.next_job])
        if self.next_cancel < len(self.cancels):
            now = min(now, self.cancels[self.next_cancel][0])
        if self.makes_offers:
            now = min(now, self.placing.next_moment())
        return now

    def is_anything_left(self, end: float) -> bool:
        """Return whether a task still runs that is to end at some time."""
        for task in self.ending[end]:  # noqa: SIM110 (a loop that is compiled)
            if task.is_running:
                return True
        return False

    def end_tasks(self) -> None:
        """End tasks, in the order of their starts."""
        if not self.ends or self.ends[0] != self.now:
            return
        heappop(self.ends)
        for task in self.ending.pop(self.now):
            if task.is_running:
                self.state.stop(task, False)

    def change_servers(self) -> None:
        """Apply joins, drains and removals of servers."""
        park = self.park
        while self.next_change < len(park.time) and park.time[self.next_change] == self.now:
            server = park.server[self.next_change]
            event = park.event[self.next_change]
            self.next_change += 1
            if event == JOIN:
                self.join(server)
            elif event == DRAIN:
                self.drain(str(int(server)))
            else:
                self.leave(str(int(server)))

    def join(self, number: i64) -> None:
        """Add a server, or let tasks start again on one that drains."""
        state, name = self.state, str(int(number))
        server = state.servers.get(name)
        if server is None:
            park = self.park
            server = state.add_server(int(number), park.capacity[number], park.group[number])
        if server.is_draining:
            state.open(server)

    def drain(self, name: str) -> None:
        """Close a server to new tasks."""
        server = self.state.servers.get(name)
        if server is not None and not server.is_draining:
            self.state.close(server)

    def leave(self, name: str) -> None:
        """Remove a server; its tasks and the rest of their gangs are lost, and wait again."""
        state = self.state
        server = state.servers.get(name)
        if server is None:
            return
        if not server.is_draining:
            state.close(server)
        for task in state.with_gangs(state.running_on(server)):
            row = self.row_of(task)
            self.end[row] = self.now
            self.is_lost[row] = True
            state.stop(task, True)
        state.leave(server)

    def row_of(self, task: Task) -> i64:
        """Return the row of the start of a task in the log."""
        low: i64 = 0
        high: i64 = len(self.id) - 1
        while low < high:
            middle = (low + high) // 2
            if self.id[middle] < task.id:
                low = middle + 1
            else:
                high = middle
        return low

    def submit_jobs(self) -> None:
        """Submit the jobs that arrive now."""
        jobs = self.jobs
        while self.next_job < len(jobs.submit) and jobs.submit[self.next_job] == self.now:
            self.submit(int(self.next_job))
            self.next_job += 1

    def submit(self, job: int) -> None:
        """Submit a job: a group for each of its sets, or one gang."""
        jobs = self.jobs
        is_gang = jobs.is_gang[job]
        members: list[Member] = []
        for number in range(jobs.first_set[job], jobs.first_set[job + 1]):
            if jobs.tasks[number] > 0:
                where = (frozenset[tuple[str, str]](), jobs.place[number])
                members.append(Member(jobs.demand[number], int(jobs.tasks[number]), where))
                if not is_gang:
                    self.enter(job, members, int(jobs.first_task[number]))
                    members = []
        if members:
            self.enter(job, members, int(jobs.first_task[jobs.first_set[job]]))

    def enter(self, job: int, members: list[Member], first: int) -> None:
        """Submit a group whose tasks are numbered from the first one on."""
        jobs, state = self.jobs, self.state
        queue, is_gang, limit = state.queues[jobs.queue[job]], jobs.is_gang[job], jobs.limit[job]
        group = state.submit(queue, members, is_gang, 0, self.now, None, limit)
        self.first_task[group.id] = first
        if job in self.groups:
            self.groups[job].append(group)

    def cancel_jobs(self) -> None:
        """Withdraw the jobs of this moment: what waits is given up, what runs may end."""
        cancels = self.cancels
        while self.next_cancel < len(cancels) and cancels[self.next_cancel][0] == self.now:
            job = cancels[self.next_cancel][1]
            self.next_cancel += 1
            for group in self.groups.pop(job, []):
                if group.waiting > 0:
                    self.state.withdraw(group)

    def place_tasks(self) -> bool:
        """Place some tasks, and note their starts in the log; return whether more may have room."""
        duration = self.jobs.duration
        started = self.placing.start_tasks(PORTION)
        for task in started:
            number = self.first_task[task.group.id] + task.index
            end = self.now + duration[number]
            self.task = append(self.task, number)
            self.server = append(self.server, task.server.order)
            self.start = append(self.start, self.now)
            self.end = append(self.end, end)
            self.is_lost = append(self.is_lost, False)
            self.id = append(self.id, task.id)
            together = self.ending.get(end)
            if together is None:
                self.ending[end] = [task]
                heappush(self.ends, end)
            else:
                together.append(task)
        return len(started) >= PORTION
