"""What the service knows: servers, users, jobs and their tasks, changed by events alone.

Without clock, files or threads, as the scheduler below it: the same events give the same state, and
the same effects. What is wrong raises `InputError` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby
from math import isfinite
from typing import Any, Self

from fairlead.errors import InputError
from fairlead.scheduler.argument_checks import constraint_of
from fairlead.scheduler.scheduler import Placement, Scheduler
from fairlead.service import _state_snapshot as state_snapshot
from fairlead.service.bounds import MOST_TASKS
from fairlead.service.jobs import (
    ASIDE,
    DONE,
    FAILED,
    MOST_STATUS,
    RUNS,
    WAITS,
    Effects,
    Foreseen,
    Indices,
    Job,
    JobGroup,
    Machine,
    Past,
    Running,
    TaskKey,
    Where,
)
from fairlead.service.messages import MOST

RESOURCES = ("cpu", "memory", "gpu")  # cores, GiB, devices
QUANTA = {"cpu": 1 / 1000, "memory": 1 / 2**30, "gpu": 1}
OTHER_QUANTUM = 1 / 10_000  # of what else servers have
MOST_RESOURCES = 64  # names in all; the scheduler's tables have a column for each
MOST_DRAINED = 10_000  # names of drained servers that were lost; the oldest are forgotten
FORESEEN_ENDS = 5000  # tasks, which take 0.1 s


class ServiceState:
    """Servers, users and jobs, over a `Scheduler`.

    Parameters
    ----------
    policy : str
    seed : int
        As `Scheduler` has them.

    Attributes
    ----------
    resources : list of str
        cpu, memory, gpu, and others that servers have or live jobs demand, in order of appearance.
    live_bytes : dict of str to int
        Bytes of the requests of waiting and running jobs, by user.
    """

    def __init__(self, policy: str, seed: int = 0) -> None:
        self.resources = list(RESOURCES)
        self.scheduler = self._empty(policy, seed)
        self.jobs: dict[int, Job] = {}
        self.users: dict[str, float] = {}
        self.servers: dict[str, Machine] = {}
        self.drained: dict[str, None] = {}  # names of drained servers that were lost, oldest first
        self.next_job = 1
        self.pending: dict[str, int] = {}  # tasks that wait, by user, held ones too
        self.running: dict[str, int] = {}  # tasks, by user
        self.live_bytes: dict[str, int] = {}
        self.aside = dict.fromkeys(ASIDE, 0)  # of those, what the scheduler does not have, by why
        self.unplaced = False  # whether something changed since tasks were placed
        self.effects = Effects()
        self._groups: dict[int, JobGroup] = {}
        # The jobs that wait for a job, by its id, in order of their ids.
        self._dependents: dict[int, dict[int, None]] = {}

    # Events

    def apply(self, kind: str, body: Mapping[str, Any], now: float) -> Any:
        """Carry out one event of the journal; return what there is to answer.

        Raises
        ------
        InputError
            When it cannot be; then nothing has changed.
        """
        outcome = EVENTS[kind](self, now, **body)
        if kind != "place":
            self.unplaced = True
        return outcome

    def take_effects(self) -> Effects:
        """Return what followed from the events since this was asked last."""
        taken, self.effects = self.effects, Effects()
        return taken

    def on_policy(self, _now: float, policy: str, seed: int = 0) -> None:
        """Go on under another policy or seed, with what waits and runs."""
        self.scheduler = self._empty(policy, seed)
        self._groups = {}
        for machine in self.servers.values():
            self.scheduler.add_server(machine.name, machine.capacity, machine.labels)
        for user, weight in self.users.items():
            self.scheduler.add_queue(user, weight)
        for job in self.jobs.values():
            job.entries = {}
            runs = _by_index(job)
            waits = [] if job.held or job.cancelled or job.after else _indices(job, WAITS)
            for (demand, limit), alike in groupby(runs, lambda run: run.entry.asked):
                self._assume(job, demand, limit, list(alike))
            if waits:
                self._enter(job, waits, job.demand, job.time_limit)
        for machine in self.servers.values():
            self._open_or_close(machine)

    def on_server(
        self,
        _now: float,
        name: str,
        capacity: dict[str, float],
        labels: dict[str, str],
        identity: str,
        drained: bool = False,
    ) -> None:
        """Add a server, drained or not, change it, or mark it as reachable again.

        Whether it is drained is in the event, as journals of earlier versions forgot drains.
        """
        machine = self.servers.get(name)
        if machine is not None and (machine.lost or machine.identity != identity):
            raise InputError(f"{name!r:.60} is still held by another worker", "server")
        if any(resource not in self.resources for resource in capacity):
            before, self.resources = self.resources, self.resources_with(capacity, {name})
            try:  # on an empty scheduler, as a rebuild must not fail halfway
                self._empty(self.scheduler.policy.name, self.scheduler.seed).add_server(
                    name, capacity, labels
                )
            except InputError:
                self.resources = before
                raise
            if machine is not None:
                machine.capacity, machine.labels = capacity, labels
            self.on_policy(_now, self.scheduler.policy.name, self.scheduler.seed)
        if machine is None:
            self.scheduler.add_server(name, capacity, labels)
            machine = self.servers[name] = Machine(name, capacity, labels, identity)
            machine.drained = drained
            self.drained.pop(name, None)
            self._open_or_close(machine)
            return
        if (machine.capacity, machine.labels) != (capacity, labels):
            self.scheduler.set_server(name, capacity, labels)
            machine.capacity, machine.labels = capacity, labels
        machine.reachable = True
        self._open_or_close(machine)

    def on_unreachable(self, _now: float, name: str) -> None:
        """Place nothing on a server that has not been heard of for a while."""
        machine = self.machine(name)
        machine.reachable = False
        self._open_or_close(machine)

    def on_reached(self, _now: float, name: str) -> None:
        """Place on a server again that was silent."""
        machine = self.machine(name)
        machine.reachable = True
        self._open_or_close(machine)

    def on_drain(self, _now: float, name: str, drained: bool = True) -> None:
        """Place nothing more on a server, or again, also when it comes back."""
        if name in self.drained and not drained:
            del self.drained[name]
            return
        machine = self.machine(name)
        machine.drained = drained
        self._open_or_close(machine)

    def on_lost(self, now: float, name: str) -> None:
        """Give a server up: its tasks run again elsewhere, gangs when all of them have stopped."""
        machine = self.machine(name)
        machine.lost = True
        self._open_or_close(machine)
        gangs: dict[int, list[Running]] = {}
        for run in machine.running.values():
            if run.entry.job.gang and not run.is_over:
                gangs.setdefault(run.key.job, []).append(run)
        for run in list(machine.running.values()):
            if not run.is_over:
                mates = gangs[run.key.job] if run.entry.job.gang else []
                self._lose(run, now, "server lost", mates)
        self._take_away(machine)

    def on_user(self, _now: float, name: str, weight: float) -> None:
        """Give a user a weight."""
        if name in self.users:
            self.scheduler.set_weight(name, weight)
        else:
            self.scheduler.add_queue(name, weight)
            self.pending[name] = self.running[name] = self.live_bytes[name] = 0
        self.users[name] = weight

    def on_submit(self, now: float, jobs: Sequence[Mapping[str, Any]]) -> list[int]:
        """Submit jobs; return their ids."""
        for asked in jobs:
            self._check(**asked)
        return [self._submit(now, **asked) for asked in jobs]

    def on_cancel(self, now: float, job: int, why: str = "cancelled") -> None:
        """Drop the waiting tasks of a job, and stop the running ones."""
        found = self.job(job)
        self._cancel(found, why)
        self._end_job(found, now)

    def on_hold(self, _now: float, job: int) -> None:
        """Start no more tasks of a job."""
        found = self.job(job)
        if not found.held and not found.cancelled:
            self._withdraw(found)
            self._count_aside(found, -1)
            found.held = True
            self._count_aside(found)

    def on_release(self, _now: float, job: int) -> None:
        """Start tasks of a held job again, in its old place."""
        found = self.job(job)
        if found.held:
            self._count_aside(found, -1)
            found.held = False
            self._count_aside(found)
            self._enter_waiting(found)

    def on_modify(
        self, _now: float, job: int, changes: Mapping[str, Any], size: int | None = None
    ) -> None:
        """Change what a job's waiting tasks ask for, and the bytes of its request."""
        found = self.job(job)
        if found.cancelled:
            raise InputError("was cancelled", f"job {job}")
        if found.members and "demand" in changes:
            raise InputError("its tasks ask for unlike amounts; cancel it", f"job {job}")
        asked = {name: getattr(found, name) for name in CHANGEABLE} | dict(changes)
        if len(asked) > len(CHANGEABLE):
            raise InputError(f"only {', '.join(CHANGEABLE)} can be changed", f"job {job}")
        self._check(user=found.user, tasks=1, after=[], **asked)
        self._withdraw(found)
        for name, value in asked.items():
            setattr(found, name, value)
        if size is not None:
            self.live_bytes[found.user] += size - found.size
            found.size = size
        self._enter_waiting(found)

    def on_skip(self, now: float, job: int, tasks: Sequence[int]) -> None:
        """Count waiting tasks of a job as done; ignore other tasks among them."""
        found = self.job(job)
        if found.gang:
            raise InputError("is a gang: all of it runs, or nothing", f"job {job}")
        waits = [i for i in set(tasks) if i < found.tasks and found.status[i] == WAITS]
        if found.cancelled or not waits:
            return
        self._withdraw(found)
        self._count_aside(found, -1)
        for index in waits:
            found.status[index] = DONE
        found.ended += len(waits)
        self.pending[found.user] -= len(waits)
        self._count_aside(found)
        self._enter_waiting(found)
        self._end_job(found, now)

    def on_end(self, now: float, tasks: Sequence[Sequence[Any]]) -> None:
        """Note how tasks ended; those that do not run, or no more under that attempt, are old.

        Each is job, index, attempt, status and reason. The status is as a shell gives it: 128 and
        the signal's number where one ended it; None where nobody knows, as the machine went down,
        and then the task runs again.
        """
        for *_, status, _reason in tasks:
            if status is not None and not 0 <= status <= MOST_STATUS:
                raise InputError(f"must be from 0 to {MOST_STATUS}, not {status}", "status")
        for job, index, attempt, status, reason in tasks:
            run = self.find(TaskKey(job, index, attempt))
            if run is None or run.is_over:
                continue
            if status is None or run.stopping == GANG:
                self._lose(run, now, reason or run.stopping or "lost")
            else:
                self._finish(run, now, status, reason)

    def on_place(self, now: float, limit: int) -> list[Running]:
        """Start what can start, at most `limit` tasks."""
        placed = self.scheduler.place(now, limit)
        self.unplaced = len(placed) >= limit
        return self.start(placed, now)

    def start(self, placed: Sequence[Placement], now: float) -> list[Running]:
        """Note that the scheduler started tasks."""
        runs, groups = [], self._groups
        for start in placed:
            entry, server = groups[start.group], start.server
            job = entry.job
            index = entry.indices[start.index]
            key = TaskKey(job.id, index, job.tries.get(index, 0) + 1)
            run = Running(key, start.task, entry, server, now)
            runs.append(run)
            job.running[index] = run
            self.servers[server].running[key] = run
            job.status[index] = RUNS
            entry.waiting -= 1
            entry.running += 1
            self.pending[job.user] -= 1
            self.running[job.user] += 1
            job.server = server
            job.attempts = max(job.attempts, key.attempt)
            if job.started is None:
                job.started = now
        self.effects.starts += runs
        return runs

    # What is so

    def resources_with(self, coming: Iterable[str], changed: Collection[str]) -> list[str]:
        """Return the names of resources that are in use when servers change.

        Parameters
        ----------
        coming : iterable of str
            Resources that the changed servers have from now on.
        changed : collection of str
            Their names.
        """
        used = dict.fromkeys(coming)
        for machine in self.servers.values():
            if machine.name not in changed:
                used |= dict.fromkeys(machine.capacity)
        for job in self.jobs.values():
            used |= dict.fromkeys(job.demand)
            for run in job.running.values():
                used |= dict.fromkeys(run.demand)
        known = [name for name in self.resources if name in used or name in RESOURCES]
        return known + [name for name in used if name not in known]

    def find(self, key: TaskKey) -> Running | None:
        """Return the task that runs under a key, if one does."""
        job = self.jobs.get(key.job)
        run = None if job is None else job.running.get(key.index)
        return run if run is not None and run.key == key else None

    def machine(self, name: str) -> Machine:
        """Return a server.

        Raises
        ------
        InputError
            When there is none of that name.
        """
        if name not in self.servers:
            raise InputError(f"there is no server {name!r:.60}", "server")
        return self.servers[name]

    def job(self, job: int) -> Job:
        """Return a job that waits or runs.

        Raises
        ------
        InputError
            When there is none of that id.
        """
        if job not in self.jobs:
            raise InputError(f"there is no job {job!r:.60} that waits or runs", "job")
        return self.jobs[job]

    def foresee(self, job: int, now: float) -> Foreseen:
        """Return when the first waiting task of a job starts if nobody comes and nothing fails.

        Whatever runs lasts until its time limit; jobs that are held, or wait for others, stay so.
        The scheduler carries that out, and then undoes it: at most `FORESEEN_ENDS` ends.
        """
        mine, n = self.job(job).entries, 0
        ends = [
            (run.since + limit, run.task)
            for machine in self.servers.values()
            for run in machine.running.values()
            if (limit := run.entry.time_limit) is not None
        ]
        heapify(ends)
        running = sum(len(machine.running) for machine in self.servers.values())
        endless = running - len(ends)
        with self.scheduler.what_if():
            while True:
                for start in self.scheduler.place(now):
                    if start.group in mine:
                        return Foreseen(now, now, endless, n)
                    limit = self._groups[start.group].time_limit
                    endless += limit is None
                    if limit is not None:
                        heappush(ends, (now + limit, start.task))
                if not ends or n >= FORESEEN_ENDS:
                    return Foreseen(None, now, endless, n)
                now = max(now, ends[0][0])
                while ends and ends[0][0] <= now:
                    self.scheduler.finish(heappop(ends)[1])
                    n += 1

    def check(self) -> None:
        """Assert what always holds. Slow."""
        self.scheduler.check()
        for job in self.jobs.values():
            waits = job.status.count(WAITS)
            assert job.status.count(RUNS) == len(job.running)
            assert job.ended == len(job.status) - waits - len(job.running)
            assert sum(entry.running for entry in job.entries.values()) == len(job.running)
            entered = 0 if job.held or job.cancelled or job.after else waits
            assert sum(entry.waiting for entry in job.entries.values()) == entered
            assert not _is_over(job)
            assert job.over == sum(run.is_over for run in job.running.values())
            for run in job.running.values():
                assert self.servers[run.server].running[run.key] is run
        assert sum(len(m.running) for m in self.servers.values()) == sum(
            len(job.running) for job in self.jobs.values()
        )
        for user, size in self.live_bytes.items():
            theirs = [job for job in self.jobs.values() if job.user == user]
            assert size == sum(job.size for job in theirs)
            assert self.running[user] == sum(len(job.running) for job in theirs)
        for user, pending in self.pending.items():
            mine = (job.status.count(WAITS) for job in self.jobs.values() if job.user == user)
            assert pending == sum(mine)
        for why, aside in self.aside.items():
            these = (job.status.count(WAITS) for job in self.jobs.values() if job.aside == why)
            assert aside == sum(these)

    # Kept and given back

    def snapshot(self) -> bytes:
        """Return the state as bytes, the same for the same events. Effects are not in it."""
        return state_snapshot.written(self)

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """Return the state that a snapshot was taken of.

        Raises
        ------
        InputError
            When it is damaged, or of another version.
        """
        scheduler, part = state_snapshot.parts_of(data)
        state = cls(scheduler.policy.name)
        state.scheduler, state.resources = scheduler, scheduler.resources
        state_snapshot.fill(state, part)
        return state

    # How it is done

    def _check(
        self,
        user: str,
        demand: Mapping[str, float],
        tasks: int,
        where: Where,
        priority: int,
        time_limit: float | None,
        after: Sequence[int],
        members: Sequence[tuple[Mapping[str, float], int]] | None = None,
        **_: Any,
    ) -> None:
        """Refuse what the scheduler would, before anything of it is there."""
        if not isinstance(user, str) or not user:
            raise InputError("must be a name", "user")
        for asked, _n in members or [(demand, 1)]:
            self._check_demand(asked)
        if not 1 <= tasks <= MOST_TASKS:
            raise InputError(f"must be from 1 to {MOST_TASKS:,}, not {tasks}", "tasks")
        if not abs(priority) <= MOST_TASKS:
            raise InputError(f"must be from -{MOST_TASKS:,} to {MOST_TASKS:,}", "priority")
        if time_limit is not None and not (isfinite(time_limit) and time_limit > 0):
            raise InputError("must be positive", "time limit")
        constraint_of(where)
        for other in after:
            self.job(other)

    def _check_demand(self, demand: Mapping[str, float]) -> None:
        for name, amount in demand.items():
            if name not in self.resources:
                raise InputError(f"there is no resource {name!r:.60}", "demand")
            if not (isfinite(amount) and 0 <= amount <= MOST):
                raise InputError(f"must be from 0 to {MOST:,.0f}, not {amount}", name)
        if not any(demand.values()):
            raise InputError("takes nothing", "demand")
        if demand.get("gpu", 0) % 1:
            raise InputError("must be a whole number of devices", "gpu")

    def _empty(self, policy: str, seed: int) -> Scheduler:
        quanta = {name: QUANTA.get(name, OTHER_QUANTUM) for name in self.resources}
        return Scheduler(self.resources, policy, quanta, seed=seed)

    def _submit(self, now: float, user: str, tasks: int, after: list[int], **asked: Any) -> int:
        if user not in self.users:
            self.on_user(now, user, 1.0)
        job = Job(
            self.next_job,
            user,
            tasks=tasks,
            submitted=now,
            eligible=now,
            after=sorted(set(after)),
            status=bytearray(tasks),
            **asked,
        )
        self.next_job += 1
        self.jobs[job.id] = job
        self.pending[user] += tasks
        self.live_bytes[user] += job.size
        self._count_aside(job)
        for other in job.after:
            self._dependents.setdefault(other, {})[job.id] = None
        self._enter_waiting(job)
        return job.id

    def _count_aside(self, job: Job, sign: int = 1) -> None:
        """Count what waits of a job outside the scheduler, or take it off."""
        if why := job.aside:
            self.aside[why] += sign * job.waiting

    def _enter_waiting(self, job: Job) -> None:
        """Submit waiting tasks of a job to the scheduler, unless other jobs must end first."""
        if not (job.held or job.cancelled or job.after):
            waits = _indices(job, WAITS)
            if waits:
                self._enter(job, waits, job.demand, job.time_limit)

    def _enter(
        self, job: Job, indices: Indices, demand: dict[str, float], limit: float | None
    ) -> JobGroup:
        asked: dict[str, Any] = {
            "where": job.where,
            "priority": job.priority,
            "time_limit": limit,
            "now": job.eligible,
        }
        if job.members:
            group = self.scheduler.submit_gang(job.user, job.members_of(indices), **asked)
        else:
            n = len(indices)
            group = self.scheduler.submit(job.user, demand, tasks=n, gang=job.gang, **asked)
        entry = JobGroup(group, job, indices, demand, len(indices), time_limit=limit)
        self._groups[group] = job.entries[group] = entry
        return entry

    def _assume(
        self, job: Job, demand: dict[str, float], limit: float | None, runs: list[Running]
    ) -> None:
        """Enter running tasks into the scheduler."""
        entry = self._enter(job, [run.key.index for run in runs], demand, limit)
        for run in runs:
            run.task, run.entry = self.scheduler.assume(entry.group, run.server, run.since), entry
        entry.waiting, entry.running = 0, len(runs)
        if job.cancelled or job.held:
            self.scheduler.cancel(entry.group)
            entry.withdrawn, entry.indices = True, range(0)

    def _withdraw(self, job: Job) -> None:
        """Withdraw waiting tasks of a job from the scheduler; running ones go on."""
        for entry in list(job.entries.values()):
            if not entry.withdrawn:
                self.scheduler.cancel(entry.group)
                # Its indices would be a list as long as the job, once for each hold.
                entry.withdrawn, entry.waiting, entry.indices = True, 0, range(0)
                self._forget_if_over(entry)

    def _forget_if_over(self, entry: JobGroup) -> None:
        if not entry.waiting and not entry.running:
            del self._groups[entry.group], entry.job.entries[entry.group]

    def _forget(self, run: Running) -> None:
        del run.entry.job.running[run.key.index]
        run.entry.job.over -= run.is_over
        self.running[run.entry.job.user] -= 1
        del self.servers[run.server].running[run.key]
        run.entry.running -= 1

    def _stop(self, run: Running, why: str) -> None:
        if not run.is_over and run.stopping != why:
            run.stopping = why
            self.effects.stops.append(run)

    def _finish(self, run: Running, now: float, status: int, reason: str) -> None:
        job = run.entry.job
        self._forget(run)
        self.scheduler.finish(run.task)
        self._forget_if_over(run.entry)
        job.status[run.key.index] = FAILED if status else DONE
        job.ended += 1
        if status:
            job.exit_status, job.reason = max(job.exit_status, status), reason or job.reason
        self._note_past(run, now, status, reason or run.stopping)
        self._take_away(self.servers[run.server])
        if job.over and job.over == len(job.running):
            mates = _by_index(job)
            self._requeue(mates, mates[0], now, "lost")
        self._end_job(job, now)

    def _lose(
        self, run: Running, now: float, why: str, mates_there: Sequence[Running] = ()
    ) -> None:
        """Run a lost task again; of a gang, all tasks as soon as none of it runs.

        `mates_there` are other tasks of the gang on the same lost server. The rest of the gang is
        stopped at the first loss only: a walk over the gang at each loss would be quadratic.
        """
        job = run.entry.job
        is_known = run.stopping == GANG
        for lost in (*mates_there, run):
            lost.stopping = why
            if not lost.is_over:
                lost.is_over = True
                job.over += 1
        if job.gang and not (is_known or job.cancelled):
            for mate in _by_index(job):
                self._stop(mate, GANG)
        if not job.gang:
            self._requeue([run], run, now, why)
        elif job.over == len(job.running):
            self._requeue(_by_index(job), run, now, why)
        else:
            return
        self._end_job(job, now)

    def _requeue(self, mates: list[Running], first: Running, now: float, why: str) -> None:
        """Take tasks back of which nothing runs any more; they wait again, or are dropped."""
        job, entry = first.entry.job, first.entry
        self.scheduler.evict(first.task)
        for mate in mates:
            self._forget(mate)
            self._note_past(mate, now, None, why if mate is first else mate.stopping)
            job.tries[mate.key.index] = mate.key.attempt
            job.status[mate.key.index] = WAITS
            self.pending[job.user] += 1
        if job.aside:
            self.aside[job.aside] += len(mates)
        if not entry.withdrawn:
            entry.waiting += len(mates)
        self._forget_if_over(entry)
        if entry.withdrawn and not (job.cancelled or job.held):
            again = [mate.key.index for mate in mates]
            self._enter(job, again, job.demand, job.time_limit)
        for name in {mate.server: None for mate in mates}:
            self._take_away(self.servers[name])

    def _note_past(self, run: Running, now: float, status: int | None, reason: str) -> None:
        job = run.entry.job
        self.effects.past.append(
            Past(run.key, job.user, run.server, run.demand, run.since, now, status, reason)
        )

    def _cancel(self, job: Job, why: str) -> None:
        if job.cancelled:
            return
        self._withdraw(job)
        self._count_aside(job, -1)
        job.cancelled = why
        self._count_aside(job)
        for run in _by_index(job):
            self._stop(run, "cancelled")

    def _end_job(self, job: Job, now: float) -> None:
        """End a job that is over; cancel or release the jobs that wait for it.

        A cancelled job ends the jobs that wait for it in turn. A stack keeps the order of a
        recursion, depth first, as journals hold events that were carried out that way.
        """
        if not _is_over(job) or job.id not in self.jobs:
            return
        stack = [(job, other) for other in reversed(self._close(job))]
        while stack:
            ended, other = stack.pop()
            waiting = self.jobs.get(other)
            if waiting is None:
                continue
            self._count_aside(waiting, -1)
            waiting.after.remove(ended.id)
            self._count_aside(waiting)
            if ended.state != "finished":
                self._cancel(waiting, f"job {ended.id} {ended.state}")
                stack += [(waiting, following) for following in reversed(self._close(waiting))]
            elif not waiting.after:
                waiting.eligible = now
                self._enter_waiting(waiting)

    def _close(self, job: Job) -> list[int]:
        """Remove a job that is over; return the ids of the jobs that wait for it."""
        self.pending[job.user] -= job.waiting
        self.live_bytes[job.user] -= job.size
        self._count_aside(job, -1)
        del self.jobs[job.id]
        self.effects.ended.append(job)
        for other in job.after:  # that are live, where the job was cancelled before they ended
            if others := self._dependents.get(other):
                others.pop(job.id, None)
                if not others:
                    del self._dependents[other]
        return list(self._dependents.pop(job.id, ()))

    def _take_away(self, machine: Machine) -> None:
        if machine.lost and not machine.running and machine.name in self.servers:
            self.scheduler.remove_server(machine.name)
            del self.servers[machine.name]
            if machine.drained:
                self.drained[machine.name] = None
                if len(self.drained) > MOST_DRAINED:
                    del self.drained[next(iter(self.drained))]

    def _open_or_close(self, machine: Machine) -> None:
        if machine.drained or machine.lost or not machine.reachable:
            self.scheduler.drain(machine.name)
        else:
            self.scheduler.undrain(machine.name)


EVENTS = {
    name.removeprefix("on_"): carry_out
    for name, carry_out in vars(ServiceState).items()
    if name.startswith("on_")
}
GANG = "gang lost a task"
CHANGEABLE = ("demand", "where", "priority", "time_limit")


def _is_over(job: Job) -> bool:
    return not job.running and (bool(job.cancelled) or job.ended == job.tasks)


def _indices(job: Job, what: int) -> Indices:
    if job.status.count(what) == job.tasks:
        return range(job.tasks)
    return [i for i, status in enumerate(job.status) if status == what]


def _by_index(job: Job) -> list[Running]:
    return [job.running[index] for index in sorted(job.running)]
