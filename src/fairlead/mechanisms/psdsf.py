"""Per-server dominant-share fairness, under resource division (RDM) and time division (TDM).

Khamse-Ashari et al. 2017. `STRATEGIES` lists the ways to an answer, in order. Each finds tasks that
are close to one, or begins from nothing; sweeps over the servers with the paper's own server
procedure finish from there.

Under RDM a problem may have several PS-DSF allocations. The one found is that which the soft levels
lead to. They are unique and do not depend on the order of users or groups, and they treat alike
what is alike; where the sweeps begin from nothing, the order of the groups decides. With finite
tasks there may be several under TDM too, for who has all its tasks may run them anywhere; there the
proportionally fair one is given, and under RDM too where one resource binds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairlead.certificates.bottleneck import certify_bottleneck, certify_time_sharing
from fairlead.errors import NoConvergenceError, RefusalError
from fairlead.mechanisms.sweeps import Certify, Sweeps
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.solvers.level_path import LevelProblem, follow_level_path
from fairlead.solvers.soft_levels import SoftProblem, follow_soft_levels

SOFT_TEMPERATURES = (1e-6, 1e-7, 1e-8)  # colder is closer, until rounding errors take over
PATH_TEMPERATURES = (1e-5, 3e-6, 1e-6, 3e-7)
# Sweeps visit an entry (a user on a server) this often from each start, and from the last one.
VISITS = 1_000_000
LAST_VISITS = 1_000_000_000
GOOD = 1e-9  # a violation with which no other strategy is tried
# What is close enough to see whether it is worth a closer look.
CLOSE = 1e-7


def solve_ps_dsf(problem: Problem) -> Allocation:
    """Divide by PS-DSF under resource division.

    Raises
    ------
    RefusalError
        When rates are given and there is more than one resource: the paper defines PS-DSF with
        given rates for one resource, or for time division.

    Notes
    -----
    Khamse-Ashari et al. 2017, Definition 5, Theorem 1 and III-C. Each sweep costs O(N G R), each
    step of the soft levels O(N G (G + R)).
    """
    return _solve(problem, "ps-dsf")


def solve_ps_dsf_tdm(problem: Problem) -> Allocation:
    """Divide by PS-DSF under time division, the weighted proportionally fair allocation.

    Khamse-Ashari et al. 2017, Theorem 2. Its conditions are those of the linear Fisher market,
    ``max sum_n phi[n] log x[n]`` subject to ``sum_n x[n,i] / gamma[n,i] <= 1``.
    """
    return _solve(problem, "ps-dsf-tdm")


def continue_ps_dsf_tdm(problem: Problem, start: FloatArray) -> Allocation:
    """Divide by PS-DSF under time division, from the answer `start` (N, G) to a like problem.

    The certificate need not hold: it is close. Without finite tasks totals are unique, whatever the
    start. A few milliseconds for 1,000 users on 10 groups.
    """
    sweeps = Division.of(problem, "ps-dsf-tdm").sweeps()
    sweeps.run(np.where(problem.runnable, start, 0.0), VISITS, CLOSE)
    return Allocation(problem, "ps-dsf-tdm", sweeps.best, sweeps.certificate)


def prepare_sweeps(problem: Problem, mechanism: str) -> Sweeps:
    """Return the paper's own way to either form of PS-DSF, not yet begun."""
    return Division.of(problem, mechanism).sweeps()


@dataclass(frozen=True, eq=False)
class Division:
    """What PS-DSF divides, and by which theorem it is certified."""

    problem: Problem
    use: FloatArray  # (R, N, G): what a task takes of each group, relative to its capacity
    certify: Certify

    @classmethod
    def of(cls, problem: Problem, mechanism: str) -> Division:
        """Return the division under ``ps-dsf`` or ``ps-dsf-tdm``."""
        by_resource = mechanism == "ps-dsf"
        if by_resource and problem.users.rates is None:
            return cls(problem, use_per_task(problem), certify_bottleneck)
        if by_resource and problem.n_resources > 1:
            raise RefusalError(
                mechanism, "with given rates it is defined for one resource only; use ps-dsf-tdm"
            )
        # With one resource and given rates, a server is divided as its time is.
        return cls(problem, use_per_task(problem, time_shared=True), certify_time_sharing)

    def sweeps(self) -> Sweeps:
        """Return the paper's own way to an answer, not yet begun."""
        return Sweeps.over(self.problem, self.use, self.certify)

    @property
    def by_time(self) -> bool:
        """Whether the time of each server is divided (TDM)."""
        return self.certify is certify_time_sharing

    @cached_property
    def has_one_level(self) -> bool:
        """Whether on each server all users that can run there take of the same resources."""
        asks: BoolArray = self.use > 0
        some = np.any(asks, axis=1, keepdims=True)
        return bool(np.array_equal(asks, some & self.problem.runnable))


@dataclass(frozen=True)
class Strategy:
    """A way to find tasks from which sweeps of the server procedure go on."""

    applies: Callable[[Division], bool]
    starts: Callable[[Division], Iterable[FloatArray]]  # of (N, G)
    visits: int = VISITS  # of an entry, a user on a server, by sweeps from each start


def _solve(problem: Problem, mechanism: str) -> Allocation:
    division = Division.of(problem, mechanism)
    sweeps = division.sweeps()
    for strategy in STRATEGIES:
        if strategy.applies(division) and any(
            sweeps.run(tasks, strategy.visits, GOOD) for tasks in strategy.starts(division)
        ):
            break
    else:
        sweeps.run(sweeps.best, LAST_VISITS, GOOD)
    return Allocation(problem, mechanism, sweeps.best, sweeps.certificate)


def _path_tasks(division: Division) -> Iterator[FloatArray]:
    """Yield tasks by the curve of soft levels, one for each resource of a server."""
    problem, use = division.problem, division.use
    with np.errstate(divide="ignore"):
        levels = LevelProblem(
            log_rate=np.log(problem.gamma),
            log_weight=np.log(problem.weight),
            log_limit=np.log(problem.task_limit),
            use=np.ascontiguousarray(np.moveaxis(use, 0, 2)),
        )
    yield from follow_level_path(levels, PATH_TEMPERATURES)


def _proportional_tasks(division: Division) -> Iterator[FloatArray]:
    """Yield the proportionally fair allocation under TDM, if it is found."""
    from fairlead.mechanisms.proportional import (  # noqa: PLC0415 (scipy is slow to load)
        solve_proportional_tdm,
    )

    with suppress(NoConvergenceError):
        yield solve_proportional_tdm(division.problem).tasks


def _soft_tasks(division: Division) -> Iterator[FloatArray]:
    """Yield tasks by soft levels, ever closer, servers that no user can run on left out."""
    problem, use = division.problem, division.use
    open_groups = problem.runnable.any(axis=0)
    with np.errstate(divide="ignore"):
        log_rate = np.log(problem.gamma[:, open_groups])
    soft = SoftProblem(
        log_rate=log_rate,
        log_weight=np.log(problem.weight),
        log_limit=np.log(problem.task_limit),
        use=np.ascontiguousarray(use[:, :, open_groups]),
    )
    for close in follow_soft_levels(soft, SOFT_TEMPERATURES):
        tasks = np.zeros((problem.n_users, problem.n_groups))
        tasks[:, open_groups] = close
        yield tasks


def _nothing(division: Division) -> list[FloatArray]:
    """Return the start of the paper's own sweeps."""
    return [np.zeros(division.problem.runnable.shape)]


# Tried in this order until an answer is good. With finite tasks Theorems 1 and 2 leave several
# allocations, for users with all their tasks may run them anywhere. The proportionally fair one
# under TDM is PS-DSF there, and under RDM where one resource binds. It comes first where it is
# quickest, under TDM, and where soft levels, which lead to the same one, cannot be had.
STRATEGIES = (
    Strategy(
        lambda d: d.by_time or (d.problem.has_limits and not d.has_one_level),
        _proportional_tasks,
        visits=0,
    ),
    Strategy(lambda d: d.has_one_level, _soft_tasks),
    Strategy(lambda d: not d.has_one_level, _nothing),
    Strategy(lambda d: not d.has_one_level, _path_tasks),
)
