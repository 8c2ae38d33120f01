"""Per-server dominant-share fairness, under resource division (RDM) and time division (TDM).

Khamse-Ashari et al. 2017. `_starts` yields tasks that are close to an answer. Sweeps with the
paper's server procedure (III-C, Algorithm I) continue from these tasks: each server in turn divides
its capacity, given each user's tasks on other servers, until every user has a bottleneck on every
server.

A problem may have several PS-DSF allocations:

- Under RDM, the soft levels lead to one that does not depend on the order of users or groups, and
  treats equal users equally. Sweeps from zero tasks depend on the order of the groups.
- With finite tasks there may be several under TDM, too, because a user with all its tasks may run
  them anywhere. The result is the proportionally fair one, also under RDM if one resource binds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairlead.certificates.bottleneck_theorems import certify_bottleneck, certify_time_sharing
from fairlead.errors import NoConvergenceError, RefusalError
from fairlead.mechanisms.queue_trees import divide_among_queues
from fairlead.model.allocation import Allocation, Certificate
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.solvers.level_path import LevelProblem, follow_level_path
from fairlead.solvers.soft_max_newton import follow_soft_levels
from fairlead.solvers.water_filling import ServerSweeps, WaterFilling

# A lower temperature is more exact, until rounding errors dominate. The cluster of Google's trace
# needs only the first soft temperature, 3,000 users on 100 servers need the last.
SOFT_TEMPERATURES = (1e-6, 1e-7, 1e-8)
PATH_TEMPERATURES = (1e-5, 1e-6)
# Largest numbers of visits of entries (pairs of a server and a user): by the sweeps from each
# start, and by the last sweeps, which continue from the best answer if no start led to a good one.
VISITS = 100_000
LAST_VISITS = 1_000_000_000
GOOD = 1e-9  # if the violation is at most this, no other start is tried
GOOD_AT_LAST = 1e-8  # the largest violation at which the last sweeps end
SWEEPS_BETWEEN_CHECKS = 20
# The sweeps have converged when no entry changes by more than this fraction of its user's tasks.
CONVERGED = 1e-15


def solve_ps_dsf(problem: Problem) -> Allocation:
    """Divide by PS-DSF under resource division (Definition 5, Theorem 1).

    Raises RefusalError when rates are given and there is more than one resource: the paper defines
    PS-DSF with given rates for one resource, or for time division. For users in a tree of queues
    see `fairlead.mechanisms.queue_trees`.
    """
    if problem.users.queues is not None:
        return divide_among_queues(problem, "ps-dsf")
    return _solve(problem, "ps-dsf")


def solve_ps_dsf_tdm(problem: Problem) -> Allocation:
    """Divide by PS-DSF under time division (Theorem 2): weighted proportional fairness.

    Its conditions are those of the linear Fisher market, ``max sum_n phi[n] log x[n]`` subject to
    ``sum_n x[n,i] / gamma[n,i] <= 1``.
    """
    return _solve(problem, "ps-dsf-tdm")


def _solve(problem: Problem, mechanism: str) -> Allocation:
    sweeps = prepare_sweeps(problem, mechanism)
    for tasks, visits in _starts(sweeps):
        if sweeps.run(tasks, visits, GOOD):
            break
    else:
        sweeps.run(sweeps.best, LAST_VISITS, GOOD_AT_LAST)
    return Allocation(problem, mechanism, sweeps.best, sweeps.certificate)


def prepare_sweeps(problem: Problem, mechanism: str) -> Sweeps:
    """Return sweeps for ``ps-dsf`` or ``ps-dsf-tdm``, not yet started.

    Raises RefusalError for queues, and under RDM for given rates with several resources.
    """
    if problem.users.queues is not None:
        raise RefusalError(mechanism, "its sweeps do not admit queues")
    if mechanism == "ps-dsf" and problem.users.rates is None:
        return Sweeps(problem, use_per_task(problem), certify_bottleneck)
    if mechanism == "ps-dsf" and problem.n_resources > 1:
        raise RefusalError(
            mechanism, "with given rates it is defined for one resource only; use ps-dsf-tdm"
        )
    # With one resource and given rates, RDM and TDM are the same.
    return Sweeps(problem, use_per_task(problem, time_shared=True), certify_time_sharing)


@dataclass(frozen=True, eq=False)
class ServerEntries:
    """The K users that can run on a server."""

    users: IntArray  # (K,) ascending
    rate: FloatArray  # (K,): phi gamma, tasks per unit of level
    use: FloatArray  # (R, K): use by one task, relative to the server's capacity


def entries_by_server(problem: Problem, use: FloatArray) -> Iterator[ServerEntries]:
    """Yield the entries of each group; `use` is (R, N, G)."""
    for group in range(problem.n_groups):
        users = np.flatnonzero(problem.runnable[:, group])
        rate = problem.weight[users] * problem.gamma[users, group]
        yield ServerEntries(users, rate, use[:, users, group])


class Sweeps:
    """Sweeps of the server procedure over all servers, and the best tasks found so far.

    An entry is a group and a user that may run there; there are E entries.
    """

    def __init__(
        self,
        problem: Problem,
        use: FloatArray,
        certify: Callable[[Problem, FloatArray], Certificate],
    ) -> None:
        self.problem = problem
        self.use = use  # (R, N, G): use by one task, relative to each group's capacity
        self.certify = certify
        self.group, self.user = np.nonzero(problem.runnable.T)  # (E,) in order of groups
        self.best = np.zeros((problem.n_users, problem.n_groups))  # tasks of smallest violation
        self.last = self.best  # tasks after the last sweep
        self.certificate = certify(problem, self.best)  # of `best`

    @property
    def by_time(self) -> bool:
        """Whether the time of each server is divided (TDM)."""
        return self.certify is certify_time_sharing

    @cached_property
    def has_one_level(self) -> bool:
        """Whether on each server all users that can run there demand the same resources."""
        asks: BoolArray = self.use > 0
        some = np.any(asks, axis=1, keepdims=True)
        return bool(np.array_equal(asks, some & self.problem.runnable))

    @cached_property
    def _procedure(self) -> ServerSweeps:
        servers = [
            WaterFilling(server.rate.tolist(), server.use.tolist())
            for server in entries_by_server(self.problem, self.use)
        ]
        return ServerSweeps(servers, self.user.tolist(), self.problem.task_limit.tolist())

    def run(self, start: FloatArray, visits: int, enough: float) -> bool:
        """Sweep from tasks `start` (N, G); return whether the violation is at most `enough`.

        The sweeps end as soon as that is so, after about `visits` visits of entries, or on
        convergence.
        """
        entries = start[self.user, self.group].tolist()
        self._keep_better(start)
        checks = -(-visits // (max(self.user.size, 1) * SWEEPS_BETWEEN_CHECKS))
        worse = 0
        for _ in range(checks):
            if self.certificate.violation <= enough:
                return True
            before = self.certificate.violation
            entries, change = self._procedure.run(entries, SWEEPS_BETWEEN_CHECKS)
            self.last = np.zeros_like(start)
            self.last[self.user, self.group] = entries
            self._keep_better(self.last)
            worse = worse + 1 if self.certificate.violation >= before else 0
            if change < CONVERGED and worse >= 2:
                break
        return self.certificate.violation <= enough

    def _keep_better(self, tasks: FloatArray) -> None:
        certificate = self.certify(self.problem, tasks)
        if certificate.violation < self.certificate.violation:
            self.best, self.certificate = tasks, certificate


def _starts(sweeps: Sweeps) -> Iterator[tuple[FloatArray, int]]:
    """Yield tasks (N, G) from which the sweeps continue, and the visits to spend on each.

    They are tried in this order until an answer is good.
    """
    if sweeps.by_time or (sweeps.problem.has_limits and not sweeps.has_one_level):
        from fairlead.mechanisms.utility import (  # noqa: PLC0415 (scipy is slow to load)
            solve_proportional_tdm,
        )

        # Under TDM this is the answer. Under RDM with finite tasks, and users that demand different
        # resources, it may be one of several answers, or no answer.
        with suppress(NoConvergenceError):
            yield solve_proportional_tdm(sweeps.problem).tasks, 0
    if sweeps.has_one_level:
        # Soft levels have never failed here, and take few steps for any number of users.
        for tasks in level_tasks(sweeps, follow_soft_levels, SOFT_TEMPERATURES):
            yield tasks, VISITS
    else:
        # Sweeps from zero, the paper's own, solved 59 of 60 problems of 12 users in 4 ms each, and
        # none of 12 problems of 100 users. The curve of levels solved all 12, and failed in 2 of 50
        # small problems.
        yield np.zeros(sweeps.problem.runnable.shape), VISITS
        for tasks in level_tasks(sweeps, follow_level_path, PATH_TEMPERATURES):
            yield tasks, VISITS


def level_problem(sweeps: Sweeps) -> LevelProblem:
    """Return the problem of levels for the groups where some user can run."""
    problem = sweeps.problem
    open_groups = problem.runnable.any(axis=0)
    with np.errstate(divide="ignore"):
        return LevelProblem(
            log_rate=np.log(problem.gamma[:, open_groups]),
            log_weight=np.log(problem.weight),
            log_limit=np.log(problem.task_limit),
            use=np.ascontiguousarray(sweeps.use[:, :, open_groups]),
        )


def level_tasks(
    sweeps: Sweeps,
    follow: Callable[[LevelProblem, Sequence[float]], Iterator[FloatArray]],
    temperatures: Sequence[float],
) -> Iterator[FloatArray]:
    """Yield ever better tasks, (N, G), by a solver for levels."""
    problem = sweeps.problem
    open_groups = problem.runnable.any(axis=0)
    for close in follow(level_problem(sweeps), temperatures):
        tasks = np.zeros((problem.n_users, problem.n_groups))
        tasks[:, open_groups] = close
        yield tasks
