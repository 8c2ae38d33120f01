"""Fill servers many times by a random policy: mean figures, their deviations and margins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from fairlead.errors import CertificateError
from fairlead.executors.executor import Executor, Processes, do_in_order
from fairlead.model.allocation import Allocation, Certificate
from fairlead.model.arguments import whole_number
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.scheduler.policies import Policy
from fairlead.simulation.filling import Filling, fill_by
from fairlead.simulation.metrics.distribution import CONFIDENCE, margin_of_mean

TRIALS_OF_JOB = 10  # trials in each job of an executor
MOST_TRIALS = 1_000_000
# Figures of a trial: tasks by user and group, by user, and in all; unused amounts; certificate.
_Figures: TypeAlias = "tuple[tuple[FloatArray, FloatArray, FloatArray, FloatArray], Certificate]"


@dataclass(frozen=True, eq=False)
class TrialSummary:
    """A quantity over the trials; all arrays have its shape."""

    mean: FloatArray
    # Sample standard deviation of one trial; None after a single trial of a random policy.
    sd: FloatArray | None
    margin: FloatArray | None  # half the width of the 95 % confidence interval of the mean


@dataclass(frozen=True, eq=False)
class Trials:
    """Several fillings of one problem by one policy."""

    first: Filling  # that of `fill` with the same seed
    trials: int  # requested; a policy that is not random runs only one
    seed: int  # of the trials' generators
    tasks: TrialSummary  # (N, G): of each user on each group
    user_tasks: TrialSummary  # (N,): of each user
    total: TrialSummary  # (): of all users
    unused: TrialSummary  # (G, R): unused amount of each resource on all servers of each group
    certificate: Certificate  # of the trial with the largest violation

    @property
    def problem(self) -> Problem:
        """The problem that was filled."""
        return self.first.problem

    @property
    def policy(self) -> Policy:
        """The policy of the fillings."""
        return self.first.policy

    @property
    def varies(self) -> bool:
        """Whether there is more than one filling to take a mean of."""
        return self.trials > 1 and self.policy.is_random

    @cached_property
    def allocation(self) -> Allocation:
        """The mean tasks as an allocation, with the policy's name and the certificate."""
        return Allocation(self.problem, self.policy.name, self.tasks.mean, self.certificate)

    def to_dict(self) -> dict[str, Any]:
        """Return the trials as plain values: the layout of an allocation, and more.

        ``users[].tasks`` and ``users[].servers`` are means; ``users[].sd`` and ``users[].margin``
        have the keys ``tasks`` and ``servers``, too. After a single trial of a random policy all
        deviations and margins are None.
        """
        answer = self.allocation.to_dict()
        for n, user in enumerate(answer["users"]):
            user["sd"] = self._by_server(n, self.user_tasks.sd, self.tasks.sd)
            user["margin"] = self._by_server(n, self.user_tasks.margin, self.tasks.margin)
        certificate = answer.pop("certificate")
        return answer | {
            "trials": self.trials,
            "random": self.policy.is_random,
            "seed": self.seed,
            "mean_total": float(self.total.mean),
            "total_sd": None if self.total.sd is None else float(self.total.sd),
            "total_margin": None if self.total.margin is None else float(self.total.margin),
            "confidence": CONFIDENCE,
            "unused": self._by_group(self.unused.mean),
            "unused_sd": self._by_group(self.unused.sd),
            "unused_margin": self._by_group(self.unused.margin),
            "certificate": certificate,
        }

    def _by_server(
        self, n: int, in_all: FloatArray | None, on_group: FloatArray | None
    ) -> dict[str, Any] | None:
        """Return deviations or margins of user `n`, in all and by group; None if there are none."""
        if in_all is None or on_group is None:
            return None
        groups = self.problem.cluster.groups
        held = np.flatnonzero(self.tasks.mean[n] > 0)
        servers = {groups[g]: float(on_group[n, g]) for g in held}
        return {"tasks": float(in_all[n]), "servers": servers}

    def _by_group(self, values: FloatArray | None) -> dict[str, dict[str, float]] | None:
        """Lay out amounts by group and resource; None where there are none."""
        if values is None:
            return None
        cluster = self.problem.cluster
        return {
            group: dict(zip(cluster.resources, row.tolist(), strict=True))
            for group, row in zip(cluster.groups, values, strict=True)
        }


def run_trials(
    problem: Problem,
    policy: Policy,
    trials: int = 1,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
    executor: Executor | None = None,
) -> Trials:
    """Fill several times, and measure means and deviations.

    Parameters
    ----------
    problem : Problem
    policy : Policy
    trials : int
        Number of fillings, 1 to 1,000,000.
    seed : int
        At least 0. The first trial takes the generator of this seed, as `fill` does. The others
        take generators spawned from it, so a larger number of trials repeats the same first ones.
    on_progress : callable, optional
        Called with the number of finished trials and of all; for a single filling, with the number
        of placed tasks and of all.
    executor : Executor, optional
        Runs the trials after the first; this process when absent. The result is the same.

    Raises
    ------
    InputError
        When the number of trials or the seed is out of range.
    RefusalError
        When the policy does not admit the problem.
    CertificateError
        When a filling violates its own condition by more than the tolerance.

    Notes
    -----
    The 95 % interval of a mean is Student's, with ``trials - 1`` degrees of freedom: counts are
    not normal, but their mean over some tens of trials nearly is. Fillings are not kept, so memory
    grows by O(N G + G R) only. Kesidis et al., VI, Tables II-V, take 200 trials.
    """
    trials, seed = whole_number(trials, "trials", 1, MOST_TRIALS), whole_number(seed, "seed")
    wanted = trials if policy.is_random else 1
    root = np.random.SeedSequence(seed)
    first = fill_by(problem, policy, root, on_progress if wanted == 1 else None)
    moments = (_Moments(), _Moments(), _Moments(), _Moments())
    worst = first.certificate
    done = 0

    def take(answers: list[_Figures]) -> None:
        nonlocal done, worst
        for amounts, certificate in answers:
            done += 1
            worst = max(worst, certificate, key=lambda proof: proof.violation)
            for moment, value in zip(moments, amounts, strict=True):
                moment.add(value)
            if on_progress is not None and wanted > 1:
                on_progress(done, wanted)

    take([_figures(first, 1)])
    size = 1 if executor is None else TRIALS_OF_JOB
    fill_some = partial(_fill_some, problem, policy, seed, size, wanted)
    do_in_order(executor or Processes(1), fill_some, range(1, wanted, size), take)
    if wanted > 1:
        condition = f"in every trial {worst.condition}"
        worst = Certificate(condition, worst.violation, worst.tolerance, worst.detail)
    tasks, user_tasks, total, unused = (m.summary(policy.is_random) for m in moments)
    return Trials(first, trials, seed, tasks, user_tasks, total, unused, worst)


def _fill_some(
    problem: Problem, policy: Policy, seed: int, size: int, wanted: int, first: int
) -> list[_Figures]:
    """Run `size` trials from number `first` on, of `wanted` in all, each with its own generator."""
    found = []
    for trial in range(first, min(first + size, wanted)):
        child = np.random.SeedSequence(seed, spawn_key=(trial - 1,))
        found.append(_figures(fill_by(problem, policy, child), trial + 1))
    return found


def _figures(filling: Filling, trial: int) -> _Figures:
    """Return the figures of a filling; raise CertificateError if it violates its condition."""
    proof, totals = filling.certificate, filling.user_tasks
    if not proof.holds:
        raise CertificateError(
            f"{filling.policy.name}: trial {trial} misses its condition by {proof.violation:.3g}, "
            f"more than the tolerance of {proof.tolerance:g} ({proof.condition})"
        )
    tasks, each, total = (a.astype(np.float64) for a in (filling.tasks, totals, totals.sum()))
    return (tasks, each, total, filling.unused), proof


class _Moments:
    """Sums of deviations from the first value and of their squares; exact for integer values."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, value: FloatArray) -> None:
        if self.count == 0:
            self.origin = value.copy()
            self.sum = np.zeros_like(value)
            self.squares = np.zeros_like(value)
        deviation = value - self.origin
        self.sum += deviation
        self.squares += deviation * deviation
        self.count += 1

    def summary(self, is_random: bool) -> TrialSummary:
        """Return mean, sample standard deviation and margin of the values."""
        mean: FloatArray = np.asarray(self.origin + self.sum / self.count)
        if not is_random:
            return TrialSummary(mean, np.zeros_like(mean), np.zeros_like(mean))
        if self.count == 1:
            return TrialSummary(mean, None, None)
        left = self.squares - self.sum * self.sum / self.count
        sd: FloatArray = np.asarray(np.sqrt(np.maximum(left, 0.0) / (self.count - 1)))
        return TrialSummary(mean, sd, margin_of_mean(sd, self.count))
