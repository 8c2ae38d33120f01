"""How soon servers settled after each change, and how far they are from the exact answers."""

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

CLOSE, CERTIFIED = 1e-3, 1e-6  # bounds of the violation
COMPARED = ("tsf", "drfh")
# Largest number of names in a cell of a table; of more users the cell has the number.
NAMES_LISTED = 3


def settling_time(run: AsynchronousRun, phase: Phase, bound: float) -> float | None:
    """Return the seconds from a phase's start until the violation stayed within a bound.

    None if the phase's last violation was larger, or the phase had no samples.
    """
    last = run.times[-1] if phase is run.phases[-1] else np.nextafter(phase.end, -np.inf)
    within = (run.times >= phase.start) & (run.times <= last)
    times, larger = run.times[within], ~(run.violation[within] <= bound)
    if not len(times) or larger[-1]:
        return None
    first = int(np.flatnonzero(larger)[-1]) + 1 if larger.any() else 0
    return float(times[first] - phase.start)


@dataclass(frozen=True)
class Settled:
    """Seconds until the violation stayed below 1e-3, and below 1e-6; None if it did not."""

    phase: Phase
    close: float | None
    certified: float | None


@dataclass(frozen=True, eq=False)
class Settlement:
    """How servers settled, with the exact answers of mechanisms that know all servers at once."""

    run: AsynchronousRun
    # By mechanism, the answer for the users present in each phase; None without users.
    exact: dict[str, tuple[Allocation | None, ...]]
    refused: dict[str, str]  # by mechanism without an answer, the reason

    @cached_property
    def settled(self) -> tuple[Settled, ...]:
        """The times to settle, one for each phase."""
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
        """Return (N,) exact tasks of each user in a phase, 0 for absent users."""
        tasks: FloatArray = self._exact_by_group(mechanism, phase).sum(axis=1)
        return tasks

    def exact_utilisation(self, mechanism: str, phase: int) -> FloatArray:
        """Return the exact used fraction of each group's resources in a phase, (G, R)."""
        problem = self.run.setting.problem
        used = self._exact_by_group(mechanism, phase).T @ problem.demand
        capacity = problem.group_capacity
        return np.divide(used, capacity, out=np.zeros_like(used), where=capacity > 0)

    def _actor_values(self) -> dict[str, Any]:
        """Return the counts of a run on Ray for JSON; empty for a simulated run."""
        if not self.run.actors:
            return {}
        return {
            "seconds": float(self.run.times[-1]),
            "messages": sum(actor.messages for actor in self.run.actors),
            "actors": [asdict(actor) for actor in self.run.actors],
        }

    def _exact_by_group(self, mechanism: str, phase: int) -> FloatArray:
        """Return the exact tasks in a phase, (N, G); rows of absent users are 0."""
        problem = self.run.setting.problem
        tasks = np.zeros((problem.n_users, problem.n_groups))
        answer = self.exact[mechanism][phase]
        if answer is not None:
            tasks[self.run.phases[phase].active] = answer.tasks
        return tasks

    def to_dict(self) -> dict[str, Any]:
        """Return the settlement as plain values, for JSON; an infinite violation is None."""
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
    """Compare a run with the exact answers of PS-DSF, TSF and C-DRFH in each phase."""
    exact: dict[str, tuple[Allocation | None, ...]] = {}
    refused: dict[str, str] = {}
    for name in (run.setting.mechanism, *COMPARED):
        try:
            exact[name] = _solve_phases(run.setting.problem, run.phases, name)
        except (CertificateError, RefusalError) as reason:
            refused[name] = str(reason)
    return Settlement(run, exact, refused)


def changes_text(settlement: Settlement, phase: Phase) -> str:
    """Name the users that come and go at the start of a phase."""
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


def _solve_phases(
    problem: Problem, phases: Sequence[Phase], name: str
) -> tuple[Allocation | None, ...]:
    """Solve by a mechanism for each phase, once for each set of present users."""
    known: dict[tuple[int, ...], Allocation | None] = {(): None}
    for phase in phases:
        if phase.users not in known:
            known[phase.users] = solve(restrict(problem, users=phase.users), name)
    return tuple(known[phase.users] for phase in phases)


def _phase_values(problem: Problem, settled: Settled) -> dict[str, Any]:
    phase, names = settled.phase, problem.users.names
    return {
        "begin": phase.start,
        "end": phase.end,
        "joined": [names[c.user] for c in phase.changes if c.joins],
        "left": [names[c.user] for c in phase.changes if not c.joins],
        "seconds_to_1e-3": settled.close,
        "seconds_to_1e-6": settled.certified,
    }
