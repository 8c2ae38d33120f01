"""The service's state: servers, users, jobs and their tasks, changed only by events.

Like its scheduler, it has no clock, files or threads: the same events give the same state and the
same effects. An invalid event raises `InputError` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from typing import Any, Self

from fairlead.errors import InputError, ProblemError
from fairlead.model.queues import Limits, amounts_and_tasks, parents_of, read_limits, read_queues
from fairlead.model.quotas import WHERE, Quotas, ServerKind, check_servers, quotas_of, read_quotas
from fairlead.scheduler.argument_checks import parse_constraint
from fairlead.scheduler.policies import parse_policy
from fairlead.scheduler.scheduler import Placement, Scheduler
from fairlead.service import _state_snapshot as state_snapshot
from fairlead.service.bounds import GPU_PARTS, INTERRUPTED, PREEMPTED
from fairlead.service.jobs import (
    DONE,
    FAILED,
    RUNS,
    WAITS,
    WITHHELD,
    Effects,
    EndedAttempt,
    Indices,
    Job,
    JobGroup,
    Running,
    Server,
    TaskKey,
    User,
    Where,
)

RESOURCES = ("cpu", "memory", "gpu")  # cores, GiB, devices
# The quantum of GPUs is a power of two. So scores and fit scores are rounded as before devices were
# counted, and journals from then give the same placements.
QUANTA = {"cpu": 1 / 1000, "memory": 1 / 2**30, "gpu": 1 / GPU_PARTS}
DEVICES = ("gpu",)
OTHER_QUANTUM = 1 / 10_000  # of other resources
MOST_QUANTA = 2**61  # largest amount of a limit or quota, in quanta
MOST_RESOURCES = 64  # names of resources; the scheduler's tables have a column for each
MOST_DRAINED = 10_000  # names of drained servers that were lost; the oldest are forgotten
GANG = "gang lost a task"  # the reason to stop the other tasks of a gang
CHANGEABLE = ("demand", "where", "priority", "time_limit")


class ServiceState:
    """Servers, users and jobs, over a `Scheduler`."""

    def __init__(self, policy: str, seed: int = 0) -> None:
        self.resources = list(RESOURCES)  # followed by those of servers and live jobs
        self.scheduler = self._empty_scheduler(policy, seed)
        self.jobs: dict[int, Job] = {}
        self.users: dict[str, User] = {}
        self.queue_rows: list[dict[str, Any]] = []  # the tree of queues above users, if any
        self.queue_of: dict[str, str] = {}  # the queue of each user that is in one
        self.limits: Limits = {}  # of queues and users, including users that are not known yet
        self.quotas: Quotas = {}  # of queues and users, too
        self.servers: dict[str, Server] = {}
        self.drained: dict[str, None] = {}  # names of drained servers that were lost, oldest first
        self.next_job = 1
        self.groups: dict[int, JobGroup] = {}  # by the scheduler's number of a group
        self.withheld = dict.fromkeys(WITHHELD, 0)  # tasks kept from the scheduler, by reason
        self.unplaced = False  # whether tasks may start: after a change, or a limited placement
        self.effects = Effects()
        self._dependents: dict[int, dict[int, None]] = {}  # by job: jobs that wait for its end
        self._awaiting: dict[TaskKey, list[Running]] = {}  # by task: tasks that start after its end

    def apply(self, kind: str, body: Mapping[str, Any], now: float) -> Any:
        """Carry out an event; return its outcome. `InputError` means that nothing changed."""
        if self.scheduler.policy.needs_time:
            self.scheduler.advance(now)
        outcome = EVENTS[kind](self, now, **body)
        if kind not in ("place", "preempt"):
            self.unplaced = True
        return outcome

    def take_effects(self) -> Effects:
        """Return the effects of the events since the last call."""
        taken, self.effects = self.effects, Effects()
        return taken

    # Events of servers and users

    def on_policy(self, now: float, policy: str, seed: int = 0) -> None:
        """Switch to another policy or seed; keep waiting and running tasks."""
        scheduler = self._empty_scheduler(policy, seed)
        self._check_tree(self.queue_rows, self.queue_of, scheduler)
        if self.quotas:
            scheduler.policy.require_quotas()
        past_use = self.scheduler.past_use()
        self.scheduler = scheduler
        self.scheduler.advance(now)
        self.groups = {}
        for server in self.servers.values():
            self.scheduler.add_server(server.name, server.capacity, server.labels)
        for row in self.queue_rows:
            self._add_queue(row["name"], row.get("weight", 1), row.get("parent"))
        for name, user in self.users.items():
            self._add_queue(name, user.weight, self.queue_of.get(name))
        for job in self.jobs.values():
            job.groups = {}
            runs = job.running_by_index()
            terms = attrgetter("job_group.demand", "job_group.time_limit")
            for (demand, limit), alike in groupby(runs, terms):
                self._assume(job, demand, limit, list(alike))
            self._submit_waiting(job)
        for server in self.servers.values():
            self._open_or_close(server)
        if scheduler.policy.half_life:
            for name, used in past_use.items():
                if name in self.users or any(row["name"] == name for row in self.queue_rows):
                    known = {r: amount for r, amount in used.items() if r in self.resources}
                    scheduler.set_past_use(name, known)

    def on_server(
        self,
        now: float,
        name: str,
        capacity: dict[str, float],
        labels: dict[str, str],
        identity: str,
        drained: bool = False,
    ) -> None:
        """Add a server, change it, or mark it as reachable again.

        A server that was lost while drained returns `drained`. Earlier versions forgot the drain,
        and wrote no such field; so their journals give the same placements again.
        """
        server = self.servers.get(name)
        if server is not None and (server.lost or server.identity != identity):
            raise InputError(f"{name!r:.60} is still held by another worker", "server")
        if any(resource not in self.resources for resource in capacity):
            before, self.resources = self.resources, self.resources_with(capacity, {name})
            policy, seed = self.scheduler.policy.name, self.scheduler.seed
            try:  # on an empty scheduler, as a rebuild must not fail halfway
                self._empty_scheduler(policy, seed).add_server(name, capacity, labels)
            except InputError:
                self.resources = before
                raise
            if server is not None:
                server.capacity, server.labels = capacity, labels
            self.on_policy(now, policy, seed)
        if server is None:
            self.scheduler.add_server(name, capacity, labels)
            server = self.servers[name] = Server(name, capacity, labels, identity, drained=drained)
            self.drained.pop(name, None)
        elif (server.capacity, server.labels) != (capacity, labels):
            self.scheduler.set_server(name, capacity, labels)
            server.capacity, server.labels = capacity, labels
        server.reachable = True
        self._open_or_close(server)

    def on_unreachable(self, _now: float, name: str, reachable: bool = False) -> None:
        """Place nothing on a server whose worker stopped responding."""
        server = self.server(name)
        server.reachable = reachable
        self._open_or_close(server)

    def on_reached(self, now: float, name: str) -> None:
        """Place tasks again on a server whose worker responds again."""
        self.on_unreachable(now, name, reachable=True)

    def on_drain(self, _now: float, name: str, drained: bool = True) -> None:
        """Drain a server or end its drain; a lost server keeps the setting for its return."""
        if name in self.drained and not drained:
            del self.drained[name]
            return
        server = self.server(name)
        server.drained = drained
        self._open_or_close(server)

    def on_lost(self, now: float, name: str) -> None:
        """Remove a lost server. Its tasks run again; a gang once all of its tasks have stopped."""
        server = self.server(name)
        server.lost = True
        self._open_or_close(server)
        runs = [run for run in server.running.values() if not run.is_over]
        gangs: dict[int, list[Running]] = {}
        for run in runs:
            if run.job_group.job.gang:
                gangs.setdefault(run.key.job, []).append(run)
        for run in runs:
            if not run.is_over:  # it may have been lost with an earlier task of its gang
                self._lose(run, now, "server lost", gangs.get(run.key.job, ()))
        self._remove_if_empty(server)

    def on_user(self, _now: float, name: str, weight: float) -> None:
        """Add a user, or change its weight."""
        if name in self.users:
            self.scheduler.set_weight(name, weight)
            self.users[name].weight = weight
        else:
            self._add_queue(name, weight, self.queue_of.get(name))
            self.users[name] = User(weight)

    def on_queues(
        self,
        now: float,
        rows: list[dict[str, Any]],
        users: dict[str, str],
        limits: Limits,
        quotas: Quotas | None = None,
    ) -> None:
        """Put present and later users in a tree of queues; keep waiting and running tasks."""
        self._check_tree(rows, users, self.scheduler)
        checked = read_quotas(quotas or {})
        if checked:
            self.scheduler.policy.require_quotas()
        self.queue_rows, self.queue_of, self.limits = rows, users, read_limits(limits)
        self.quotas = checked
        self.on_policy(now, self.scheduler.policy.name, self.scheduler.seed)

    # Events of jobs

    def on_submit(self, now: float, jobs: Sequence[Mapping[str, Any]]) -> list[int]:
        """Accept all of the jobs or none; return their ids."""
        for request in jobs:
            self._check(**request)
        return [self._submit(now, **request) for request in jobs]

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
            with self._withheld_recounted(found):
                found.held = True

    def on_release(self, _now: float, job: int) -> None:
        """Start tasks of a held job again, at its old position in the queue."""
        found = self.job(job)
        if found.held:
            with self._withheld_recounted(found):
                found.held = False
            self._submit_waiting(found)

    def on_modify(
        self, _now: float, job: int, changes: Mapping[str, Any], size: int | None = None
    ) -> None:
        """Change the demand, constraint, priority or limit of waiting tasks; `size` is in bytes."""
        found = self.job(job)
        if found.cancelled:
            raise InputError("was cancelled", f"job {job}")
        if found.members and "demand" in changes:
            raise InputError(
                "its tasks have different demands; cancel it and submit a new one", f"job {job}"
            )
        request = {name: getattr(found, name) for name in CHANGEABLE} | dict(changes)
        self._check(**request)
        self._withdraw(found)
        for name, value in request.items():
            setattr(found, name, value)
        if size is not None:
            self.users[found.user].live_bytes += size - found.size
            found.size = size
        self._submit_waiting(found)

    def on_skip(self, now: float, job: int, tasks: Sequence[int]) -> None:
        """Count waiting tasks of a job as done; ignore other tasks among them."""
        found = self.job(job)
        if found.gang:
            raise InputError("is a gang, whose tasks cannot be skipped one by one", f"job {job}")
        waiting = [i for i in set(tasks) if i < found.tasks and found.status[i] == WAITS]
        if found.cancelled or not waiting:
            return
        self._withdraw(found)
        with self._withheld_recounted(found):
            for index in waiting:
                found.status[index] = DONE
            found.ended += len(waiting)
        self.users[found.user].pending -= len(waiting)
        self._submit_waiting(found)
        self._end_job(found, now)

    def on_end(self, now: float, tasks: Sequence[Sequence[Any]]) -> None:
        """Record how tasks ended; ignore attempts that no longer run.

        Each row has job, index, attempt, status and reason. The status is as in a shell: 128 plus
        the number of a signal that ended the task; None if the machine went down. A task without a
        status runs again. So does a preempted task that failed, or whose job has a checkpoint
        signal.
        """
        for job, index, attempt, status, reason in tasks:
            run = self.find(TaskKey(job, index, attempt))
            if run is None or run.is_over:
                continue
            was_preempted = run.stopping == PREEMPTED and (
                status != 0 or bool(run.job_group.job.checkpoint_signal)
            )
            if status is None or run.stopping == GANG or was_preempted:
                self._lose(run, now, reason or run.stopping or "lost")
            else:
                self._finish(run, now, status, reason)

    def on_place(self, now: float, limit: int) -> list[Running]:
        """Start at most `limit` tasks."""
        placed = self.scheduler.place(now, limit)
        self.unplaced = len(placed) >= limit
        return self.start(placed, now)

    def on_preempt(self, now: float, limit: int) -> list[Running]:
        """Start at most `limit` tasks in place of victims.

        A worker gets such a task once all stopping tasks on the task's servers have ended.
        """
        by_task: dict[int, Running] = {}
        runs: list[Running] = []
        for starts, victims in self.scheduler.preempt(now, limit):
            if not by_task:  # filled only if tasks start, because it takes O(running tasks)
                for server in self.servers.values():
                    by_task |= {run.task: run for run in server.running.values()}
            for task in victims:
                if not by_task[task].stopping:
                    self._stop(by_task[task], PREEMPTED)
            servers = {start.server: None for start in starts}
            stopping = [
                run
                for name in servers
                for run in self.servers[name].running.values()
                if run.stopping and not run.is_over
            ]
            started = self.start(starts, now, stopping)
            by_task |= {run.task: run for run in started}
            runs += started
        return runs

    def start(
        self, placed: Sequence[Placement], now: float, stopping: Sequence[Running] = ()
    ) -> list[Running]:
        """Record tasks that the scheduler started; send them once all of `stopping` have ended."""
        runs = []
        for start in placed:
            job_group, server = self.groups[start.group], start.server
            job = job_group.job
            index = job_group.indices[start.index]
            key = TaskKey(job.id, index, job.lost_attempts.get(index, 0) + 1)
            run = Running(key, start.task, job_group, server, now)
            run.devices = self.devices_of(run)
            runs.append(run)
            job.running[index] = run
            self.servers[server].running[key] = run
            job.status[index] = RUNS
            job_group.waiting -= 1
            job_group.running += 1
            user = self.users[job.user]
            user.pending -= 1
            user.running += 1
            job.server = server
            job.attempts = max(job.attempts, key.attempt)
            for other in stopping:
                run.awaits[other.key] = None
                self._awaiting.setdefault(other.key, []).append(run)
            if not stopping:
                self._release(run, now)
        return runs

    def _release(self, run: Running, now: float) -> None:
        """Send a started task to its worker after all tasks that it waited for have stopped."""
        job = run.job_group.job
        if self.servers[run.server].lost:
            return  # `on_lost` lets the task run again
        if run.stopping:  # it was stopped before it could start
            self._lose(run, now, run.stopping)
            return
        run.since = now
        if job.started is None:
            job.started = now
        self.effects.starts.append(run)

    # Reading

    def devices_of(self, run: Running) -> tuple[int, ...]:
        """Return the numbers of a running task's GPUs."""
        return tuple(self.scheduler.devices(run.task).get("gpu", ()))

    def resources_with(self, added: Iterable[str], changed: Collection[str]) -> list[str]:
        """Return the resources in use once servers `changed` have only the resources `added`."""
        used = dict.fromkeys(added)
        for server in self.servers.values():
            if server.name not in changed:
                used |= dict.fromkeys(server.capacity)
        for job in self.jobs.values():
            used |= dict.fromkeys(job.demand)
            for run in job.running.values():
                used |= dict.fromkeys(run.demand)
        if self.scheduler.policy.spares:
            used[self.scheduler.policy.spares] = None
        known = [name for name in self.resources if name in used or name in RESOURCES]
        return known + [name for name in used if name not in known]

    def queues_above(self, user: str) -> list[str]:
        """Return the queues that a user is in, the lowest first."""
        parents = {row["name"]: row.get("parent") for row in self.queue_rows}
        found: list[str] = []
        name = self.queue_of.get(user)
        while name is not None:
            found.append(name)
            name = parents[name]
        return found

    def find(self, key: TaskKey) -> Running | None:
        """Return a running attempt, or None if it does not run."""
        job = self.jobs.get(key.job)
        run = None if job is None else job.running.get(key.index)
        return run if run is not None and run.key == key else None

    @property
    def running(self) -> int:
        """The number of running tasks."""
        return sum(user.running for user in self.users.values())

    def user(self, name: str) -> User:
        """Return a user; without jobs if it is not known yet."""
        return self.users.get(name) or User(1.0)

    def server(self, name: str) -> Server:
        if name not in self.servers:
            raise InputError(f"there is no server {name!r:.60}", "server")
        return self.servers[name]

    def job(self, job: int) -> Job:
        """Return a waiting or running job; raise `InputError` if there is none of that id."""
        if job not in self.jobs:
            raise InputError(f"there is no job {job!r:.60} that waits or runs", "job")
        return self.jobs[job]

    def unmet_quotas(
        self,
        changed: Mapping[str, dict[str, float]] | None = None,
        like: Mapping[str, int] | None = None,
        removed: Collection[str] = (),
    ) -> str:
        """Describe quotas that the present servers cannot satisfy together; empty if they can.

        For a trial, `changed` replaces the quotas of some queues and users on all servers, `like`
        gives the number of equal servers to add, by server, and `removed` names servers to leave
        out.
        """
        quotas: Quotas = dict(self.quotas)
        for name, row in (changed or {}).items():
            quotas[name] = [row, *[other for other in quotas.get(name, ()) if other.get(WHERE)]]
        if not quotas:
            return ""
        kinds = []
        for server in self.servers.values():
            if not server.lost and server.name not in removed:
                kinds.append(ServerKind(server.labels, [server.name], server.capacity))
                if number := (like or {}).get(server.name, 0):  # the new ones have other names
                    total = {name: number * amount for name, amount in server.capacity.items()}
                    kinds.append(ServerKind(server.labels, [], total))
        try:
            check_servers(quotas, parents_of(self.queue_rows, self.queue_of), kinds)
        except ProblemError as unmet:
            return unmet.fault
        return ""

    # Snapshots

    def snapshot(self) -> bytes:
        """Return the state without effects as bytes; the same events give the same bytes."""
        return state_snapshot.state_bytes(self)

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """Restore a snapshot; raise `InputError` if it is damaged or of another version."""
        part, scheduler = state_snapshot.split_snapshot(data)
        if part["version"] != state_snapshot.VERSION:
            fault = f"is of version {part['version']}, not {state_snapshot.VERSION}"
            raise InputError(fault, "snapshot")
        restored = Scheduler.restore(scheduler)
        state = cls(restored.policy.name)
        state.scheduler, state.resources = restored, restored.resources
        state_snapshot.restore_records(state, part)
        return state

    # Checks of requests; `messages` has checked their numbers

    def _check(
        self,
        demand: Mapping[str, float],
        where: Where,
        after: Sequence[int] = (),
        members: Sequence[tuple[Mapping[str, float], int]] | None = None,
        user: str = "",
        **_: Any,
    ) -> None:
        """Refuse a request that the scheduler would refuse, before anything has changed."""
        if user not in self.users and any(row["name"] == user for row in self.queue_rows):
            raise InputError(f"there is a queue {user!r:.60} already", "user")
        for amounts, _n in members or [(demand, 1)]:
            for name in amounts:
                if name not in self.resources:
                    raise InputError(f"there is no resource {name!r:.60}", "demand")
            if not any(amounts.values()):
                raise InputError("takes nothing", "demand")
        parse_constraint(where)
        for other in after:
            self.job(other)

    # Jobs and the scheduler's groups

    def _empty_scheduler(self, policy: str, seed: int) -> Scheduler:
        spared = parse_policy(policy).spares
        if spared and spared not in self.resources:
            self.resources = [*self.resources, spared]  # perhaps no server has it yet
        quanta = {name: QUANTA.get(name, OTHER_QUANTUM) for name in self.resources}
        return Scheduler(self.resources, policy, quanta, seed=seed, devices=DEVICES)

    def _add_queue(self, name: str, weight: float, parent: str | None) -> None:
        """Add a queue or user with its limit and quotas; under slots, amounts have no limit."""
        self.scheduler.add_queue(name, weight, parent)
        if name in self.limits:
            amounts, tasks = amounts_and_tasks(self.limits[name], self.resources)
            amounts = self._countable(amounts)
            self.scheduler.set_limit(name, {} if self.scheduler.policy.slots else amounts, tasks)
        for quota in quotas_of(self.quotas.get(name, ())):
            self.scheduler.set_quota(name, self._countable(quota.amounts), quota.where)

    def _countable(self, amounts: Mapping[str, float]) -> dict[str, float]:
        """Return the amounts of the resources in use, each reduced to at most `MOST_QUANTA`."""
        return {
            name: min(amount, MOST_QUANTA * QUANTA.get(name, OTHER_QUANTUM))
            for name, amount in amounts.items()
            if name in self.resources
        }

    def _check_tree(
        self, rows: list[dict[str, Any]], users: dict[str, str], scheduler: Scheduler
    ) -> None:
        """Raise `InputError` for an invalid tree, or a policy that does not serve trees."""
        names = list(dict.fromkeys([*self.users, *users]))
        read_queues(rows, [users.get(name) for name in names], names)
        if rows and not scheduler.policy.has_trees:
            raise InputError(f"{scheduler.policy.name}: does not serve trees of queues", "policy")

    def _submit(self, now: float, user: str, tasks: int, after: list[int], **request: Any) -> int:
        """Add a checked job, and its user if new; return the job's id."""
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
            **request,
        )
        self.next_job += 1
        self.jobs[job.id] = job
        owner = self.users[user]
        owner.pending += tasks
        owner.live_bytes += job.size
        owner.live_jobs += 1
        self._count_withheld(job)
        for other in job.after:
            self._dependents.setdefault(other, {})[job.id] = None
        self._submit_waiting(job)
        return job.id

    def _count_withheld(self, job: Job, sign: int = 1) -> None:
        """Add the waiting tasks of a job to `withheld`; subtract them if `sign` is -1."""
        if why := job.withheld:
            self.withheld[why] += sign * job.waiting

    @contextmanager
    def _withheld_recounted(self, job: Job) -> Iterator[None]:
        """Update the numbers of withheld tasks after a block that changes a job."""
        self._count_withheld(job, -1)
        yield
        self._count_withheld(job)

    def _submit_waiting(self, job: Job) -> None:
        """Submit the waiting tasks of a job to the scheduler, unless they are withheld.

        A job with `at_most` submits no more than may run now.
        """
        if job.withheld:
            return
        waiting = job.indices_of(WAITS)
        if job.at_most:
            waiting = waiting[: max(job.at_most - len(job.running), 0)]
            job.next_index = waiting[-1] + 1 if waiting else 0
        if waiting:
            self._submit_group(job, waiting, job.demand, job.time_limit)

    def _submit_next(self, job: Job) -> None:
        """Submit the next task of a job with `at_most` to the scheduler, after one ended."""
        if not job.at_most or job.withheld:
            return
        while job.next_index < job.tasks and job.status[job.next_index] != WAITS:
            job.next_index += 1
        if job.next_index < job.tasks:
            self._submit_group(job, [job.next_index], job.demand, job.time_limit)
            job.next_index += 1

    def _submit_group(
        self, job: Job, indices: Indices, demand: dict[str, float], limit: float | None
    ) -> JobGroup:
        """Submit tasks of a job to the scheduler as one group."""
        terms: dict[str, Any] = {
            "where": job.where,
            "priority": job.priority,
            "time_limit": limit,
            "now": job.eligible,
        }
        if job.members:
            group = self.scheduler.submit_gang(job.user, job.members_of(indices), **terms)
        else:
            n = len(indices)
            group = self.scheduler.submit(job.user, demand, tasks=n, gang=job.gang, **terms)
        job_group = JobGroup(group, job, indices, demand, len(indices), time_limit=limit)
        self.groups[group] = job.groups[group] = job_group
        return job_group

    def _assume(
        self, job: Job, demand: dict[str, float], limit: float | None, runs: list[Running]
    ) -> None:
        """Submit running tasks with equal demand and limit to a new scheduler, as running."""
        job_group = self._submit_group(job, [run.key.index for run in runs], demand, limit)
        for run in runs:
            is_victim = bool(self._awaiting.get(run.key))
            has_devices = run.devices and self.scheduler.counts_devices
            devices = {"gpu": run.devices} if has_devices else None
            run.task = self.scheduler.assume(
                job_group.group, run.server, run.since, stopping=is_victim, devices=devices
            )
            run.job_group, run.devices = job_group, self.devices_of(run) or run.devices
        job_group.waiting, job_group.running = 0, len(runs)
        if job.cancelled or job.held:
            self.scheduler.cancel(job_group.group)
            job_group.withdrawn, job_group.indices = True, range(0)

    def _withdraw(self, job: Job) -> None:
        """Withdraw the waiting tasks of a job from the scheduler; running ones continue."""
        for job_group in list(job.groups.values()):
            if not job_group.withdrawn:
                self.scheduler.cancel(job_group.group)
                # Without `range(0)`, each hold would keep a list of indices as long as the job.
                job_group.withdrawn, job_group.waiting, job_group.indices = True, 0, range(0)
                self._forget_if_empty(job_group)

    def _forget_if_empty(self, job_group: JobGroup) -> None:
        if not job_group.waiting and not job_group.running:
            del self.groups[job_group.group], job_group.job.groups[job_group.group]

    # Ends of tasks and jobs

    def _forget(self, run: Running, now: float) -> None:
        """Remove an ended task; start the tasks that waited only for its end."""
        del run.job_group.job.running[run.key.index]
        run.job_group.job.awaiting_gang -= run.is_over
        self.users[run.job_group.job.user].running -= 1
        del self.servers[run.server].running[run.key]
        run.job_group.running -= 1
        for key in run.awaits:
            self._awaiting[key].remove(run)
        waiting = self._awaiting.pop(run.key, [])
        for other in waiting:
            del other.awaits[run.key]
        for other in [other for other in waiting if not other.awaits]:
            # The release of a stopped task may have ended the rest of its gang.
            if self.find(other.key) is other:
                self._release(other, now)

    def _stop(self, run: Running, why: str) -> None:
        if not run.is_over and run.stopping != why:
            run.stopping = why
            self.effects.stops.append(run)

    def _finish(self, run: Running, now: float, status: int, reason: str) -> None:
        """Record the end of a task with a status, which does not run again."""
        job = run.job_group.job
        self.scheduler.finish(run.task)
        self._forget(run, now)
        self._forget_if_empty(run.job_group)
        job.status[run.key.index] = FAILED if status else DONE
        job.ended += 1
        if status:
            job.exit_status, job.reason = max(job.exit_status, status), reason or job.reason
        self._record_attempt(run, now, status, reason or run.stopping)
        self._remove_if_empty(self.servers[run.server])
        if job.awaiting_gang and job.awaiting_gang == len(job.running):
            # It was the last running task of a gang whose other tasks were lost or stopped.
            mates = job.running_by_index()
            self._requeue(mates, mates[0], now, "lost")
        self._submit_next(job)
        self._end_job(job, now)

    def _lose(self, run: Running, now: float, why: str, mates: Sequence[Running] = ()) -> None:
        """Run a lost task again; a gang runs again once all of its tasks have stopped.

        `mates` are the tasks of its gang on the same lost server. Only the first loss stops the
        rest of the gang, because a scan of the gang at each loss would take quadratic time.
        """
        job = run.job_group.job
        is_first = run.stopping != GANG
        for lost in (*mates, run):
            lost.stopping = why
            if not lost.is_over:
                lost.is_over = True
                job.awaiting_gang += 1
        if job.gang and is_first and not job.cancelled:
            for mate in job.running_by_index():
                self._stop(mate, GANG)
        if not job.gang:
            self._requeue([run], run, now, why)
        elif job.awaiting_gang == len(job.running):
            self._requeue(job.running_by_index(), run, now, why)
        else:
            return
        self._end_job(job, now)

    def _requeue(self, mates: list[Running], first: Running, now: float, why: str) -> None:
        """Let stopped tasks wait again unless their job is cancelled; `first` ended by `why`."""
        job, job_group = first.job_group.job, first.job_group
        self.scheduler.evict(first.task)  # with the rest of its gang
        for mate in mates:
            self._forget(mate, now)
            self._record_attempt(mate, now, None, why if mate is first else mate.stopping)
            job.lost_attempts[mate.key.index] = mate.key.attempt
            job.status[mate.key.index] = WAITS
            self.users[job.user].pending += 1
        if job.withheld:
            self.withheld[job.withheld] += len(mates)
        if not job_group.withdrawn:
            job_group.waiting += len(mates)
        self._forget_if_empty(job_group)
        if job.at_most:
            self._withdraw(job)
            self._submit_waiting(job)
        elif job_group.withdrawn and not (job.cancelled or job.held):
            indices = [mate.key.index for mate in mates]
            self._submit_group(job, indices, job.demand, job.time_limit)
        for name in {mate.server: None for mate in mates}:
            self._remove_if_empty(self.servers[name])

    def _record_attempt(self, run: Running, now: float, status: int | None, reason: str) -> None:
        job, times = run.job_group.job, (run.since, now)
        self.effects.attempts.append(
            EndedAttempt(
                run.key, job.user, run.server, run.demand, *times, status, reason, job.program
            )
        )

    def _cancel(self, job: Job, why: str) -> None:
        if job.cancelled:
            return
        self._withdraw(job)
        with self._withheld_recounted(job):
            job.cancelled = why
        for run in job.running_by_index():
            self._stop(run, why if why == INTERRUPTED else "cancelled")

    def _end_job(self, job: Job, now: float) -> None:
        """Remove a finished job; cancel or release the jobs that wait for it.

        The cancelled jobs cancel further ones. The stack gives the order of a depth-first
        recursion, on which the events in journals rely.
        """
        if not job.is_finished or job.id not in self.jobs:
            return
        stack = [(job, other) for other in reversed(self._remove(job))]
        while stack:
            ended, other = stack.pop()
            waiting = self.jobs.get(other)
            if waiting is None:
                continue
            with self._withheld_recounted(waiting):
                waiting.after.remove(ended.id)
            if ended.state != "finished":
                self._cancel(waiting, f"job {ended.id} {ended.state}")
                stack += [(waiting, later) for later in reversed(self._remove(waiting))]
            elif not waiting.after:
                waiting.eligible = now
                self._submit_waiting(waiting)

    def _remove(self, job: Job) -> list[int]:
        """Remove a finished job; return the ids of the jobs that wait for it."""
        user = self.users[job.user]
        user.pending -= job.waiting
        user.live_bytes -= job.size
        user.live_jobs -= 1
        self._count_withheld(job, -1)
        del self.jobs[job.id]
        self.effects.ended.append(job)
        for other in job.after:  # only the live jobs that it still waited for
            if others := self._dependents.get(other):
                others.pop(job.id, None)
                if not others:
                    del self._dependents[other]
        return list(self._dependents.pop(job.id, ()))

    # Servers

    def _remove_if_empty(self, server: Server) -> None:
        """Remove a lost server when no task is left on it."""
        if server.lost and not server.running and server.name in self.servers:
            self.scheduler.remove_server(server.name)
            del self.servers[server.name]
            if server.drained:
                self.drained[server.name] = None
                if len(self.drained) > MOST_DRAINED:
                    del self.drained[next(iter(self.drained))]

    def _open_or_close(self, server: Server) -> None:
        if server.drained or server.lost or not server.reachable:
            self.scheduler.drain(server.name)
        else:
            self.scheduler.undrain(server.name)


EVENTS = {
    name.removeprefix("on_"): carry_out
    for name, carry_out in vars(ServiceState).items()
    if name.startswith("on_")
}
