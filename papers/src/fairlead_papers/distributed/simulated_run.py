"""Simulate servers that divide themselves, each by the server procedure.

Khamse-Ashari et al. 2017, III-C and III-D.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import floor, isfinite
from typing import Protocol

import numpy as np

from fairlead.errors import InputError
from fairlead.mechanisms.max_min import score_drf
from fairlead.mechanisms.psdsf import entries_by_server, prepare_sweeps
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.model.reductions import restrict
from fairlead.solvers.water_filling import WaterFilling
from fairlead_papers.distributed.network_setting import AsynchronousSetting, Messages, Phase


@dataclass(eq=False)
class Server:
    """A server, or a group of identical servers that decides as one."""

    users: IntArray  # (K,): users that can run here
    rate: FloatArray  # (K,): phi gamma, tasks per unit of level
    # (R, K): fraction of each resource that one task takes; under TDM (1, K), of the time.
    use: FloatArray
    limit: FloatArray  # (K,): each user's number of tasks; infinite if it has no limit
    believed: FloatArray  # (K,): tasks that users run on other servers, as this one believes

    @cached_property
    def _filling(self) -> WaterFilling:
        return WaterFilling(self.rate.tolist(), self.use.tolist())

    def run(self, heard: FloatArray, active: BoolArray, damping: float) -> FloatArray:
        """Update the belief by (K,) `heard` tasks elsewhere, and return (K,) tasks by `divide`.

        The old belief keeps the weight `damping`. `active` (K,) are the present users.
        """
        # Beliefs about absent users are replaced at once: no decision depends on them.
        weight = np.where(active, 1.0 - damping, 1.0)
        self.believed += weight * (heard - self.believed)
        return self.divide(self.believed, active)

    def divide(self, elsewhere: FloatArray, active: BoolArray) -> FloatArray:
        """Return (K,) tasks of each user after the server procedure, run to its end.

        `elsewhere` (K,) are users' tasks on other servers; the division is feasible whatever they
        are. Khamse-Ashari et al. 2017, III-C. O(K R^2) times the few pieces that the search visits.
        """
        width = np.where(active, np.maximum(self.limit - elsewhere, 0.0) / self.rate, 0.0)
        start = elsewhere / self.rate
        return np.array(self._filling.divide(start.tolist(), width.tolist()))

    def overuse(self, tasks: FloatArray) -> float:
        """Return the largest relative overuse of a resource by (K,) tasks; 0 without overuse."""
        return max(0.0, float((self.use @ tasks).max(initial=0.0)) - 1.0)


def servers_of(problem: Problem, mechanism: str) -> list[Server]:
    """Return the servers of a problem, one for each group, under ``ps-dsf`` or ``ps-dsf-tdm``.

    O(N G R). Raises RefusalError for given rates if servers are divided by several resources.
    """
    sweeps = prepare_sweeps(problem, mechanism)
    return [
        Server(
            users=entries.users,
            rate=entries.rate,
            use=entries.use,
            limit=problem.task_limit[entries.users],
            believed=np.zeros(len(entries.users)),
        )
        for entries in entries_by_server(problem, sweeps.use)
    ]


class LiveCluster:
    """All servers of a setting, on a simulated clock.

    `start` (N, G) are tasks at the start, known to all servers. `tasks` (N, S) are the running
    tasks on each of S servers, `runs` counts runs of the procedure, `overuse` is the largest
    relative overuse of a server after any run.
    """

    def __init__(self, setting: AsynchronousSetting, start: FloatArray | None) -> None:
        self._setting = setting
        self._servers_problem, group_of = setting.servers_as_groups
        problem = self._servers_problem
        self.tasks: FloatArray = np.zeros((problem.n_users, problem.n_groups))
        if start is not None:
            servers_of_group = setting.problem.count[group_of] / problem.count
            self.tasks = np.asarray(start, dtype=np.float64)[:, group_of] / servers_of_group
        clock_random, message_random = np.random.default_rng(setting.seed).spawn(2)
        self._servers = servers_of(problem, setting.mechanism)
        self._due = setting.clocks.runs(problem.n_groups, clock_random)
        self._next = next(self._due)
        self._messages = Messages(
            self.tasks, setting.delay, setting.clocks.shortest, message_random
        )
        self._certify = prepare_sweeps(problem, setting.mechanism).certify
        everywhere = self.tasks.sum(axis=1)
        for index, server in enumerate(self._servers):
            server.believed = (everywhere - self.tasks[:, index])[server.users]
        self._present: Problem | None = None
        self._active = np.ones(problem.n_users, dtype=bool)
        self.runs = 0
        self.overuse = 0.0

    def start_phase(self, phase: Phase) -> None:
        """Apply arrivals and departures of users; tasks of departing users end."""
        self._active = phase.active
        self._present = None
        if phase.users:
            self._present = restrict(self._servers_problem, users=phase.users)
        self.tasks[~phase.active] = 0.0

    def run_before(self, time: float) -> None:
        """Run the servers that are due before `time`."""
        while self._next[0] < time:
            self._run(*self._next)

    def run_until(self, time: float) -> None:
        """Run the servers that are due until `time`, inclusive."""
        while self._next[0] <= time:
            self._run(*self._next)

    def _run(self, time: float, index: int) -> None:
        """Run one server's procedure, and send its tasks to the others."""
        server = self._servers[index]
        users = server.users
        heard = self._messages.known_elsewhere(index, time)[users]
        tasks = server.run(heard, self._active[users], self._setting.damping)
        self.tasks[users, index] = tasks
        self._messages.send(index, time, self.tasks[:, index])
        self.runs += 1
        self.overuse = max(self.overuse, server.overuse(tasks))
        self._next = next(self._due)

    def certificate(self) -> Certificate:
        """Certify the running tasks of the present users."""
        if self._present is None:
            nothing = self._certify(self._servers_problem, np.zeros_like(self.tasks))
            return Certificate(nothing.condition, 0.0, nothing.tolerance)
        return self._certify(self._present, self.tasks[self._active])

    def group_tasks(self) -> FloatArray:
        """Return (N, G) tasks on each whole group."""
        return self._setting.by_group(self.tasks)


# Most numbers in all samples together: 400 MB.
LARGEST_RECORD = 50_000_000


class ClusterState(Protocol):
    """The cluster at the time of a sample."""

    def group_tasks(self) -> FloatArray:
        """Return (N, G) tasks on each whole group."""

    def certificate(self) -> Certificate:
        """Certify the running tasks of the present users."""


class Samples:
    """Samples of a run: one each `every` seconds, from 0 on, and one at the end, `until`.

    `keep_tasks` keeps the tasks of every sample. Raises InputError for an interval that is not
    positive, and for more samples than fit in memory.
    """

    def __init__(self, problem: Problem, every: float, until: float, keep_tasks: bool) -> None:
        if not (isfinite(every) and every > 0):
            raise InputError(f"must be a positive number of seconds, not {every}", "sample")
        shape = (problem.n_groups, problem.n_resources)
        each = problem.n_users + shape[0] * shape[1] + 1
        if keep_tasks:
            each += problem.n_users * problem.n_groups
        if not (until / every + 2) * each < LARGEST_RECORD:
            raise InputError(
                f"{until / every:,.0f} samples of {each:,} numbers each are too many to keep; at "
                f"most {LARGEST_RECORD // each:,}",
                "sample",
            )
        steps = floor(until / every * (1 + 1e-12))
        times = every * np.arange(steps + 1, dtype=np.float64)
        self.times: FloatArray = np.append(times[times < until - 1e-9 * every], until)
        self._problem = problem
        length = len(self.times)
        self.user_tasks = np.zeros((length, problem.n_users))
        self.utilisation = np.zeros((length, *shape))
        self.violation = np.zeros(length)
        self.tasks_over_time: FloatArray | None = None
        if keep_tasks:
            self.tasks_over_time = np.zeros((length, problem.n_users, problem.n_groups))

    def samples_of(self, phase: Phase) -> range:
        """Return the samples of a phase, the one at its end only if the phase is the last."""
        first, after = np.searchsorted(self.times, [phase.start, phase.end]).tolist()
        return range(first, len(self.times) if phase.end == self.times[-1] else after)

    def record(self, k: int, cluster: ClusterState) -> None:
        """Record the state of the cluster as sample `k`."""
        tasks = cluster.group_tasks()
        capacity = self._problem.group_capacity
        self.user_tasks[k] = tasks.sum(axis=1)
        used = tasks.T @ self._problem.demand
        np.divide(used, capacity, out=self.utilisation[k], where=capacity > 0)
        self.violation[k] = cluster.certificate().violation
        if self.tasks_over_time is not None:
            self.tasks_over_time[k] = tasks


@dataclass(frozen=True)
class ActorCount:
    """Counts of an actor in a run on Ray; those of a lost actor are as it reported last."""

    node: str  # the name of its node
    servers: int  # in the end
    rounds: int  # of all its servers
    messages: int  # sent
    lost: bool


@dataclass(frozen=True, eq=False)
class AsynchronousRun:
    """A run of servers that divide themselves; T samples, N users, G groups, R resources."""

    setting: AsynchronousSetting
    phases: tuple[Phase, ...]
    times: FloatArray  # (T,): of the samples, in seconds; each after all events of that time
    user_tasks: FloatArray  # (T, N): running tasks
    utilisation: FloatArray  # (T, G, R): used fraction of each group's resources; 0 without any
    # (T,): violation of Theorem 1 (Theorem 2 under TDM) by the tasks of the present users;
    # infinite where a user has no task.
    violation: FloatArray
    tasks: FloatArray  # (N, G): in the end
    tasks_over_time: FloatArray | None  # (T, N, G): at each sample, if they are kept
    certificate: Certificate  # of the end
    runs: int  # of the procedure, of all servers together
    overuse: float  # largest relative overuse of a server after any run, by rounding
    actors: tuple[ActorCount, ...] = ()  # of a run on Ray, whose times are real seconds

    @property
    def dominant_share(self) -> FloatArray:
        """(T, N) float: users' shares of the cluster's total of their dominant resources."""
        return self.share_of(self.user_tasks)

    def share_of(self, user_tasks: FloatArray) -> FloatArray:
        """Return the dominant shares of (..., N) tasks."""
        return user_tasks * score_drf(self.setting.problem)


def run_asynchronously(
    setting: AsynchronousSetting,
    *,
    start: FloatArray | None = None,
    sample: float | None = None,
    keep_tasks: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> AsynchronousRun:
    """Run the servers of a setting on a simulated clock, and sample their tasks.

    Parameters
    ----------
    setting : AsynchronousSetting
        The same setting gives the same run.
    start : (N, G) float, optional
        Tasks at the start, known to all servers; none when absent. If servers of a group decide by
        themselves, each has an equal share of the group's tasks.
    sample : float, optional
        Seconds between samples; the period of the clocks when absent.
    keep_tasks : bool
        Whether to keep all tasks of every sample.
    on_progress : callable, optional
        Called with the samples taken and the samples to take.

    Raises
    ------
    InputError
        For invalid changes, and for more samples or messages than fit in memory.

    Notes
    -----
    Each run of a server costs O(S N + N R^2) with S servers, each sample O(S N R).
    """
    phases = setting.phases()
    every = setting.clocks.period if sample is None else sample
    samples = Samples(setting.problem, every, setting.until, keep_tasks)
    cluster = LiveCluster(setting, start)
    for phase in phases:
        cluster.run_before(phase.start)
        cluster.start_phase(phase)
        for k in samples.samples_of(phase):
            cluster.run_until(float(samples.times[k]))
            samples.record(k, cluster)
            if on_progress is not None:
                on_progress(k + 1, len(samples.times))
    return AsynchronousRun(
        setting=setting,
        phases=phases,
        times=samples.times,
        user_tasks=samples.user_tasks,
        utilisation=samples.utilisation,
        violation=samples.violation,
        tasks=cluster.group_tasks(),
        tasks_over_time=samples.tasks_over_time,
        certificate=cluster.certificate(),
        runs=cluster.runs,
        overuse=cluster.overuse,
    )
