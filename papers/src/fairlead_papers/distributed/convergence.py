"""When it settled after each change, and on what, beside the exact answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairlead.errors import CertificateError, RefusalError
from fairlead.mechanisms.catalogue import solve
from fairlead.model.allocation import FORMAT_VERSION, Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.model.reductions import restrict
from fairlead.simulation.metrics.summary import plain
from fairlead_papers.distributed.network_setting import Phase
from fairlead_papers.distributed.simulated_run import AsynchronousRun

# Violations too small to notice.
CLOSE = 1e-3
CERTIFIED = 1e-6
COMPARED = ("tsf", "drfh")
# Names that a cell lists; of more it has the number.
NAMES_LISTED = 3


def settling_time(run: AsynchronousRun, phase: Phase, bound: float) -> float | None:
    """Return the seconds after a phase began until the violation stayed within a bound for good.

    None if the phase's last violation was larger, or there were no samples.
    """
    last = run.times[-1] if phase is run.phases[-1] else np.nextafter(phase.end, -np.inf)
    within = (run.times >= phase.begin) & (run.times <= last)
    times, larger = run.times[within], ~(run.violation[within] <= bound)
    if not len(times) or larger[-1]:
        return None
    first = int(np.flatnonzero(larger)[-1]) + 1 if larger.any() else 0
    return float(times[first] - phase.begin)


@dataclass(frozen=True)
class Settled:
    """Seconds until the violation stayed below 1e-3, and below 1e-6; None if it did not."""

    phase: Phase
    close: float | None
    certified: float | None


@dataclass(frozen=True, eq=False)
class Settlement:
    """How servers settled, beside the exact answers of mechanisms that know everything at once."""

    run: AsynchronousRun
    # By mechanism, the answer among those present in each phase; None where no user is present.
    exact: dict[str, tuple[Allocation | None, ...]]
    refused: dict[str, str]  # mechanisms without an answer, and why

    @cached_property
    def settled(self) -> tuple[Settled, ...]:
        """How long it took in each phase."""
        run = self.run
        return tuple(
            Settled(p, settling_time(run, p, CLOSE), settling_time(run, p, CERTIFIED))
            for p in run.phases
        )

    @property
    def converged(self) -> bool:
        """Whether the certificate holds in the end."""
        return self.run.certificate.holds

    def exact_tasks(self, mechanism: str, phase: int) -> FloatArray:
        """Return (N,) tasks of each user under a mechanism in a phase, 0 of those not there."""
        tasks: FloatArray = self._exact(mechanism, phase).sum(axis=1)
        return tasks

    def exact_utilisation(self, mechanism: str, phase: int) -> FloatArray:
        """Return (G, R) the fraction of each group's resources used under a mechanism."""
        problem = self.run.setting.problem
        used = self._exact(mechanism, phase).T @ problem.demand
        capacity = problem.group_capacity
        return np.divide(used, capacity, out=np.zeros_like(used), where=capacity > 0)

    def _actor_values(self) -> dict[str, Any]:
        """Return what real actors did, if there were any."""
        if not self.run.actors:
            return {}
        return {
            "seconds": float(self.run.times[-1]),
            "messages": sum(actor.messages for actor in self.run.actors),
            "actors": [asdict(actor) for actor in self.run.actors],
        }

    def _exact(self, mechanism: str, phase: int) -> FloatArray:
        problem = self.run.setting.problem
        tasks = np.zeros((problem.n_users, problem.n_groups))
        answer = self.exact[mechanism][phase]
        if answer is not None:
            tasks[self.run.phases[phase].active] = answer.tasks
        return tasks

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON; an infinite violation is None."""
        run, problem = self.run, self.run.setting.problem
        setting = run.setting
        last = len(run.phases) - 1
        share = run.dominant_share[-1]
        return {
            "fairlead": FORMAT_VERSION,
            "mechanism": setting.mechanism,
            "period": setting.clocks.period,
            "jitter": setting.clocks.jitter,
            "delay": [setting.delay.shortest, setting.delay.longest],
            "damping": setting.damping,
            "seed": setting.seed,
            "until": setting.until,
            "runs": run.runs,
            "largest_overuse": run.overuse,
            "converged": self.converged,
            "phases": [_phase_values(problem, s) for s in self.settled],
            "users": [
                {
                    "name": name,
                    "present": bool(run.phases[last].active[n]),
                    "tasks": float(run.user_tasks[-1, n]),
                    "dominant_share": float(share[n]),
                    "exact": {m: float(self.exact_tasks(m, last)[n]) for m in self.exact},
                }
                for n, name in enumerate(problem.users.names)
            ],
            "utilization": {
                group: dict(
                    zip(problem.cluster.resources, run.utilisation[-1, g].tolist(), strict=True)
                )
                for g, group in enumerate(problem.cluster.groups)
            },
            "certificate": plain(run.certificate.to_dict()),
            "times": run.times.tolist(),
            "violation": plain(run.violation),
            **({"refused": self.refused} if self.refused else {}),
            **self._actor_values(),
        }


def compare_with_exact(run: AsynchronousRun) -> Settlement:
    """Compare a run with exact answers of PS-DSF and `COMPARED`, one for each set of users."""
    exact: dict[str, tuple[Allocation | None, ...]] = {}
    refused: dict[str, str] = {}
    for name in (run.setting.mechanism, *COMPARED):
        try:
            exact[name] = _answers(run.setting.problem, run.phases, name)
        except (CertificateError, RefusalError) as reason:
            refused[name] = str(reason)
    return Settlement(run, exact, refused)


def changes_text(settlement: Settlement, phase: Phase) -> str:
    """List the users that come and go at the beginning of a phase."""
    names = settlement.run.setting.problem.users.names
    if not phase.changes:
        return "start"
    parts = []
    for joins, one, several in ((False, "leaves", "leave"), (True, "joins", "join")):
        users = [names[change.user] for change in phase.changes if change.joins == joins]
        if len(users) > NAMES_LISTED:
            parts.append(f"{len(users):,} users {several}")
        elif users:
            parts.append(f"{', '.join(users)} {one if len(users) == 1 else several}")
    return "; ".join(parts)


def _answers(problem: Problem, phases: Sequence[Phase], name: str) -> tuple[Allocation | None, ...]:
    known: dict[tuple[int, ...], Allocation | None] = {(): None}
    for phase in phases:
        if phase.users not in known:
            known[phase.users] = solve(restrict(problem, users=phase.users), name)
    return tuple(known[phase.users] for phase in phases)


def _phase_values(problem: Problem, settled: Settled) -> dict[str, Any]:
    phase, names = settled.phase, problem.users.names
    return {
        "begin": phase.begin,
        "end": phase.end,
        "joined": [names[c.user] for c in phase.changes if c.joins],
        "left": [names[c.user] for c in phase.changes if not c.joins],
        "seconds_to_1e-3": settled.close,
        "seconds_to_1e-6": settled.certified,
    }
