"""The event loop of a replay: it runs a workload under a policy from one event time to the next.

At each time, tasks end first, then servers change, jobs arrive, and jobs are withdrawn. Then tasks
are placed until no other task fits. Under a policy with preemption, rounds follow whose victims
stop at once. The log has a row for each start. Event times are also those at which declined
servers are offered again, and at which running tasks may become victims.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from heapq import heappop, heappush
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from fairlead.scheduler._cycle import Cycle
from fairlead.scheduler._entities import (
    UNLIMITED,
    ConstraintKey,
    Labels,
    Member,
    Server,
    Task,
    TaskGroup,
    Terms,
)
from fairlead.scheduler._explain import Explainer
from fairlead.scheduler._preemption import PreemptionRound
from fairlead.scheduler._rule_cycle import RuleCycle
from fairlead.scheduler.explanation import Explanation
from fairlead.scheduler.selection.round_robin import Offers

JOIN, LEAVE = 0, 1  # events of servers, as in `model.workload`, where 2 is `DRAIN`
PORTION: Final = 64  # tasks placed in one step, before the loop may return to Python


class JobArrivals:
    """J jobs in the order of arrival, with K sets of equal tasks, and T tasks in all."""

    def __init__(
        self,
        *,
        submit: Iterable[float],
        queue: list[str],
        is_gang: Iterable[bool],
        limit: Iterable[float],
        first_set: Iterable[int],
        demand: list[list[int]],
        where: list[ConstraintKey],
        tasks: list[int],
        first_task: Iterable[int],
        duration: Iterable[float],
    ) -> None:
        self.submit = vec[float](submit)  # (J,) time in seconds, ascending
        self.queue = queue  # (J,) name
        self.is_gang = vec[bool](is_gang)  # (J,)
        self.limit = vec[float](limit)  # (J,) longest run of a task in seconds, or infinite
        self.first_set = vec[i64](first_set)  # (J + 1,) index of the first set; at the end K
        self.demand = demand  # (K, R) of one task of each set, in quanta
        self.where = where  # (K,) the placement constraint of its tasks
        self.tasks = tasks  # (K,) number of tasks; 0 if they fit on no server
        self.first_task = vec[i64](first_task)  # (K,) index of the set's first task
        self.duration = vec[float](duration)  # (T,) seconds


class ServerEvents:
    """S servers, and X events of servers in the order of time."""

    def __init__(
        self,
        *,
        name: list[str],
        group: list[str],
        labels: list[Labels],
        capacity: list[list[int]],
        is_there: Iterable[bool],
        time: Iterable[float],
        event: Iterable[int],
        server: Iterable[int],
    ) -> None:
        self.name = name  # (S,)
        self.group = group  # (S,) name of its group
        self.labels = labels  # (S,) one object for all servers of a group
        self.capacity = capacity  # (S, R) in quanta; one object for all servers of a group
        self.is_there = vec[bool](is_there)  # (S,) whether present at the start
        self.time = vec[float](time)  # (X,) in seconds, ascending
        self.event = vec[i64](event)  # (X,) `JOIN`, `LEAVE`, or 2 for a drain
        self.server = vec[i64](server)  # (X,) index of the server


class Replay:
    """A replay in progress; the state of its cycle must have all queues, and no servers yet."""

    def __init__(
        self,
        cycle: Cycle,
        events: ServerEvents,
        jobs: JobArrivals,
        cancels: list[tuple[float, int]],
    ) -> None:
        self.cycle = cycle
        self.next_round = UNLIMITED  # when more tasks may become victims, in seconds
        self.state = cycle.state
        self.events = events
        self.jobs = jobs
        self.cancels = cancels  # times of withdrawals in seconds, ascending, and indices of jobs
        self.now = 0.0
        self.is_placing = False  # whether tasks may still fit after the last step
        self.makes_offers = isinstance(cycle, Offers)
        # Indices of the next server event, job, and withdrawal.
        self.next_change: i64 = 0
        self.next_job: i64 = 0
        self.next_cancel: i64 = 0
        # The log, a row for each start.
        self.task = vec[i64]()  # index of the task
        self.server = vec[i64]()  # index of the server
        self.start = vec[float]()  # in seconds
        self.end = vec[float]()  # when it ended or was lost, in seconds
        self.is_lost = vec[bool]()  # whether it was lost with its server, or preempted
        # A heap: the end in seconds, the id and the task; tasks that were lost before are skipped.
        self.ends: list[tuple[float, int, Task]] = []
        self.first_task: dict[int, int] = {}  # index of the first task of each group, by id
        # By job: the groups of jobs that will be withdrawn, or that are to be explained.
        self.groups: dict[int, list[TaskGroup]] = {job: [] for _, job in cancels}
        for server in range(len(events.group)):
            if events.is_there[server]:
                self._join(server)

    def advance(self, steps: i64, until: float = UNLIMITED) -> bool:
        """Make at most `steps` steps: each goes to the next event time, or places more tasks.

        Return whether all events up to the time `until`, in seconds, are over.
        """
        for _ in range(steps):
            if not self.is_placing:
                now = self._next_time()
                if now == UNLIMITED or now > until:
                    return True
                self.now = now
                self.state.set_time(now)
                self._end_tasks()
                self._change_servers()
                self._submit_jobs()
                self._cancel_jobs()
            self.is_placing = self._place_tasks()
            if self.cycle.preempts and not self.is_placing:
                self.is_placing = self._preempt()
        return False

    def explain(
        self, group: TaskGroup, resources: list[str], quanta: list[Fraction], now: float
    ) -> Explanation:
        """Return why a group waits at a time; `quanta` has a quantum of each resource, in units."""
        return Explainer(self.cycle, resources, quanta, group, now).explain()

    def _next_time(self) -> float:
        """Return the time of the next event in seconds; infinite if there is none."""
        now = UNLIMITED
        while self.ends and not self.ends[0][2].is_running:
            heappop(self.ends)
        if self.ends:
            now = self.ends[0][0]
        if self.next_change < len(self.events.time):
            now = min(now, self.events.time[self.next_change])
        if self.next_job < len(self.jobs.submit):
            now = min(now, self.jobs.submit[self.next_job])
        if self.next_cancel < len(self.cancels):
            now = min(now, self.cancels[self.next_cancel][0])
        if self.makes_offers:
            now = min(now, self.cycle.next_moment())
        return min(now, self.next_round)

    def _end_tasks(self) -> None:
        while self.ends and self.ends[0][0] == self.now:
            task = heappop(self.ends)[2]
            if task.is_running:
                self.state.stop(task, False)

    def _change_servers(self) -> None:
        """Apply the server events of this time; a server that leaves is drained first."""
        events = self.events
        while self.next_change < len(events.time) and events.time[self.next_change] == self.now:
            number = events.server[self.next_change]
            event = events.event[self.next_change]
            self.next_change += 1
            server = self.state.servers.get(events.name[number])
            if event == JOIN:
                self._join(number)
            elif server is not None and not server.is_draining:
                self.state.close(server)
            if event == LEAVE and server is not None:
                self._leave(server)

    def _join(self, number: i64) -> None:
        """Add a server, or open it again if it drains."""
        state, events = self.state, self.events
        name = events.name[number]
        server = state.servers.get(name)
        if server is None:
            capacity, group = events.capacity[number], events.group[number]
            state.add_server(name, int(number), capacity, events.labels[number], group)
        elif server.is_draining:
            state.open(server)

    def _leave(self, server: Server) -> None:
        """Remove a draining server; its tasks and the rest of their gangs wait again."""
        state = self.state
        for task in state.with_gangs(state.running_on(server)):
            self.end[task.row] = self.now
            self.is_lost[task.row] = True
            state.stop(task, True)
        state.leave(server)

    def _submit_jobs(self) -> None:
        jobs = self.jobs
        while self.next_job < len(jobs.submit) and jobs.submit[self.next_job] == self.now:
            self.submit(int(self.next_job), jobs.tasks)
            self.next_job += 1

    def submit(self, job: int, tasks: list[int]) -> None:
        """Submit a job: one group for a gang, else a group for each set of tasks.

        `tasks` (K,) are the numbers of tasks of all sets.
        """
        jobs = self.jobs
        is_gang = jobs.is_gang[job]
        members: list[Member] = []
        for number in range(jobs.first_set[job], jobs.first_set[job + 1]):
            if tasks[number] > 0:
                members.append(Member(jobs.demand[number], tasks[number], jobs.where[number]))
                if not is_gang:
                    self._submit_group(job, members, int(jobs.first_task[number]))
                    members = []
        if members:
            self._submit_group(job, members, int(jobs.first_task[jobs.first_set[job]]))

    def _submit_group(self, job: int, members: list[Member], first: int) -> None:
        """Submit a group of a job; `first` is the index of its first task in the workload."""
        jobs, state = self.jobs, self.state
        queue, is_gang, limit = state.queues[jobs.queue[job]], jobs.is_gang[job], jobs.limit[job]
        group = state.submit(queue, members, is_gang, Terms(jobs.submit[job], time_limit=limit))
        self.first_task[group.id] = first
        if isinstance(self.cycle, RuleCycle):
            self.cycle.job_of[group.id] = job
        if job in self.groups:
            self.groups[job].append(group)

    def _cancel_jobs(self) -> None:
        """Withdraw the jobs of this time: drop their waiting tasks, and let running ones end.

        A running task that is lost later does not wait again.
        """
        cancels = self.cancels
        while self.next_cancel < len(cancels) and cancels[self.next_cancel][0] == self.now:
            job = cancels[self.next_cancel][1]
            self.next_cancel += 1
            for group in self.groups.pop(job, []):
                if group.id in self.state.groups:  # else it has ended
                    self.state.withdraw(group)

    def _place_tasks(self) -> bool:
        """Place some tasks, and log their starts; return whether more may fit."""
        started = self.cycle.start_tasks(PORTION)
        self._log_starts(started)
        return len(started) >= PORTION

    def _preempt(self) -> bool:
        """Run a round of preemption, and log starts and lost tasks; return whether any started."""
        resources = [str(r) for r in range(self.state.counting.resources)]
        round = PreemptionRound(self.cycle, resources)
        found = round.run(PORTION)
        self.next_round = round.next_time
        for each in found:
            for task in each.victims:
                self.end[task.row] = self.now
                self.is_lost[task.row] = True
                self.state.stop(task, True)
            self._log_starts(each.starts)
        return len(found) > 0

    def _log_starts(self, started: list[Task]) -> None:
        """Log starts, each with the end that the task has if it is not lost before."""
        duration = self.jobs.duration
        for task in started:
            number = self.first_task[task.group.id] + task.index
            end = self.now + duration[number]
            task.row = len(self.task)
            self.task = append(self.task, number)
            self.server = append(self.server, task.server.order)
            self.start = append(self.start, self.now)
            self.end = append(self.end, end)
            self.is_lost = append(self.is_lost, False)
            heappush(self.ends, (end, task.id, task))
