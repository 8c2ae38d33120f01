"""Per-server dominant-share fairness, under resource division (RDM) and time division (TDM).

Khamse-Ashari et al. 2017. Two ways lead there. The paper's own, sweeping over the servers with the
server procedure, ends exactly wherever it ends soon. Where totals keep creeping, soft levels (one
unknown per server) come close at once, and sweeps from there finish.

Under RDM a problem may have several PS-DSF allocations. Which one is found is fixed by the order of
the groups in the problem and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairlead.certificates.bottleneck import certify_bottleneck, relative_use
from fairlead.certificates.time_sharing import certify_time_sharing
from fairlead.errors import RefusalError
from fairlead.model.allocation import Allocation, Certificate
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.optimize.server_filling import sweep_servers
from fairlead.optimize.soft_levels import SoftProblem, follow_soft_levels

# Violations below this are rounding errors.
GOOD = 1e-11
# Entries (a user on a server, once) to visit in sweeps: at first, and in all.
FIRST_VISITS = 10_000_000
ALL_VISITS = 1_000_000_000
LEAST_SWEEPS = 60
SWEEPS_BETWEEN_LOOKS = 20
FINAL_TEMPERATURE = 1e-8

Certify = Callable[[Problem, FloatArray], Certificate]


@dataclass(eq=False)
class _Sweeps:
    """Sweeps over the servers of one problem, with the best allocation seen."""

    problem: Problem
    use: FloatArray
    certify: Certify
    first_entry: IntArray
    group: IntArray
    user: IntArray
    rate: FloatArray
    entry_use: FloatArray
    level: FloatArray
    best: FloatArray
    certificate: Certificate

    @classmethod
    def over(cls, problem: Problem, use: FloatArray, certify: Certify) -> _Sweeps:
        """Prepare sweeps; `use` is (R, N, G), relative to each group's capacity."""
        group, user = np.nonzero(problem.runnable.T)
        nothing = np.zeros((problem.n_users, problem.n_groups))
        return cls(
            problem=problem,
            use=use,
            certify=certify,
            first_entry=np.searchsorted(group, np.arange(problem.n_groups + 1)),
            group=group,
            user=user,
            rate=problem.weight[user] * problem.gamma[user, group],
            entry_use=np.ascontiguousarray(use[:, user, group].T),
            level=np.full((problem.n_groups, len(use)), np.inf),
            best=nothing,
            certificate=certify(problem, nothing),
        )

    def run(self, start: FloatArray, visits: int) -> bool:
        """Sweep from `start` (N, G) and return whether the best answer is good to rounding."""
        entries = start[self.user, self.group]
        self._look(start)
        looks = max(visits // max(self.user.size, 1), LEAST_SWEEPS) // SWEEPS_BETWEEN_LOOKS
        worse = 0
        for _ in range(looks):
            if self.certificate.violation <= GOOD:
                return True
            before = self.certificate.violation
            change = sweep_servers(
                self.first_entry,
                self.user,
                self.rate,
                self.entry_use,
                self.problem.task_limit,
                self.level,
                entries,
                SWEEPS_BETWEEN_LOOKS,
            )
            tasks = np.zeros_like(start)
            tasks[self.user, self.group] = entries
            self._look(tasks)
            # Sweeps that no longer move anything have nothing more to give.
            worse = worse + 1 if self.certificate.violation >= before else 0
            if change < 1e-15 and worse >= 2:
                break
        return self.certificate.violation <= GOOD

    def _look(self, tasks: FloatArray) -> None:
        certificate = self.certify(self.problem, tasks)
        if certificate.violation < self.certificate.violation:
            self.best, self.certificate = tasks, certificate


def solve_ps_dsf(problem: Problem) -> Allocation:
    """Divide by PS-DSF under resource division.

    Raises
    ------
    RefusalError
        When rates are given and there is more than one resource: the paper defines PS-DSF with
        given rates for one resource, or for time division.

    Notes
    -----
    Khamse-Ashari et al. 2017, Definition 5, Theorem 1 and III-C. Each sweep costs O(N G R).
    """
    if problem.users.rates is not None:
        if problem.n_resources > 1:
            raise RefusalError(
                "ps-dsf", "with given rates it is defined for one resource only; use ps-dsf-tdm"
            )
        # With one resource a server is divided as its time is.
        return _solve(problem, "ps-dsf", _time_use(problem), certify_time_sharing)
    return _solve(problem, "ps-dsf", np.stack(relative_use(problem)), certify_bottleneck)


def solve_ps_dsf_tdm(problem: Problem) -> Allocation:
    """Divide by PS-DSF under time division, the weighted proportionally fair allocation.

    Notes
    -----
    Khamse-Ashari et al. 2017, Theorem 2. Its conditions are those of the linear Fisher market,
    ``max sum_n phi[n] log x[n]`` subject to ``sum_n x[n,i] / gamma[n,i] <= 1``.
    """
    return _solve(problem, "ps-dsf-tdm", _time_use(problem), certify_time_sharing)


def _time_use(problem: Problem) -> FloatArray:
    """Return (1, N, G): the fraction of a group's time that one task takes."""
    gamma = problem.gamma
    return np.divide(1.0, gamma, out=np.zeros_like(gamma), where=gamma > 0)[None]


def _solve(problem: Problem, mechanism: str, use: FloatArray, certify: Certify) -> Allocation:
    sweeps = _Sweeps.over(problem, use, certify)
    nothing = np.zeros((problem.n_users, problem.n_groups))
    done = sweeps.run(nothing, FIRST_VISITS)
    if not done and _one_level_per_server(problem, use):
        sweeps.run(_soft_tasks(problem, use), FIRST_VISITS)
    if not sweeps.certificate.holds:
        sweeps.run(sweeps.best, ALL_VISITS)
    return Allocation(problem, mechanism, sweeps.best, sweeps.certificate)


def _one_level_per_server(problem: Problem, use: FloatArray) -> bool:
    """Whether on each server all users that can run there take of the same resources."""
    asks = use > 0
    some = (asks & problem.runnable).any(axis=1)
    return bool((asks == (some[:, None, :] & problem.runnable)).all())


def _soft_tasks(problem: Problem, use: FloatArray) -> FloatArray:
    """Return tasks by soft levels, servers that no user can run on left out."""
    open_groups = problem.runnable.any(axis=0)
    with np.errstate(divide="ignore"):
        log_rate = np.log(problem.gamma[:, open_groups])
    soft = SoftProblem(
        log_rate=log_rate,
        log_weight=np.log(problem.weight),
        log_limit=np.log(problem.task_limit),
        use=np.ascontiguousarray(use[:, :, open_groups]),
    )
    tasks = np.zeros((problem.n_users, problem.n_groups))
    tasks[:, open_groups] = follow_soft_levels(soft, FINAL_TEMPERATURE)
    return tasks
