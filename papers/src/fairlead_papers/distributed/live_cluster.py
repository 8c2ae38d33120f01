"""The true state of a cluster whose servers divide themselves, and what each of them knows."""

from __future__ import annotations

import numpy as np

from fairlead.mechanisms.psdsf import prepare_sweeps
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.model.reductions import restrict
from fairlead_papers.distributed.messages import Messages
from fairlead_papers.distributed.presence import Phase
from fairlead_papers.distributed.server import servers_of
from fairlead_papers.distributed.setting import AsynchronousSetting


class LiveCluster:
    """All servers of a setting, from its start on.

    Parameters
    ----------
    start : (N, G) float or None
        Tasks at the start, which everybody knows.

    Attributes
    ----------
    tasks : (N, S) float
        What really runs on each of S servers.
    runs : int
        How often a server ran its procedure.
    overuse : float
        The most by which any server, after any run, used more than it has, relative to that.
    """

    def __init__(self, setting: AsynchronousSetting, start: FloatArray | None) -> None:
        self._setting = setting
        self._servers_problem, group_of = setting.watched
        problem = self._servers_problem
        self.tasks: FloatArray = np.zeros((problem.n_users, problem.n_groups))
        if start is not None:
            parts = setting.problem.count[group_of] / problem.count
            self.tasks = np.asarray(start, dtype=np.float64)[:, group_of] / parts
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

    def begin(self, phase: Phase) -> None:
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
        """Certify what really runs, among those who are there."""
        if self._present is None:
            nothing = self._certify(self._servers_problem, np.zeros_like(self.tasks))
            return Certificate(nothing.condition, 0.0, nothing.tolerance)
        return self._certify(self._present, self.tasks[self._active])

    def group_tasks(self) -> FloatArray:
        """Return (N, G) tasks on each whole group."""
        return self._setting.by_group(self.tasks)
