"""Measure how soon servers settle after changes, and how far they are from the exact answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from fairlead.errors import CertificateError, RefusalError
from fairlead.mechanisms.catalogue import solve
from fairlead.model.allocation import FORMAT_VERSION, Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.model.reductions import restrict
from fairlead.report.allocation_document import size_of
from fairlead.report.document import (
    FAILS,
    HOLDS,
    Content,
    Document,
    Listing,
    Prose,
    Statement,
    Table,
    numbers,
    proof,
    table_of,
    words,
)
from fairlead.report.numbers import counted, number, percent, precise_percent
from fairlead.simulation.metrics.summary import plain
from fairlead_papers.distributed.network_setting import AsynchronousSetting, Phase
from fairlead_papers.distributed.simulated_run import ActorCount, AsynchronousRun

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
    """Name the users that join and leave at the start of a phase."""
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


NAMES = {"ps-dsf": "PS-DSF", "ps-dsf-tdm": "PS-DSF (TDM)", "tsf": "TSF", "drfh": "C-DRFH"}
# Servers tend to overreact if more of them than this run while a message is under way.
CROWDED = 1.0


def convergence_document(settlement: Settlement, title: str) -> Document:
    """Return the document of a settlement: times after each change, and the exact answers."""
    run = settlement.run
    setting = run.setting
    refused = [
        f"{_name(mechanism)}: {reason.removeprefix(f'{mechanism}: ')}"
        for mechanism, reason in settlement.refused.items()
    ]
    return Document(
        title,
        "servers that divide themselves",
        f"{size_of(setting.problem)}; the servers divide themselves, by {NAMES[setting.mechanism]}",
        _verdict(settlement),
        [
            Prose(
                f"No server is in charge: {setting_text(run)}. Settled means that the violation "
                "stays below a bound until the next change. The servers ran their procedure "
                f"{run.runs:,} times in all."
            ),
            _phases(settlement),
            *([_actors(run.actors)] if run.actors else []),
            _users(settlement),
            Prose(
                "Exact is the answer of a mechanism that knows all servers at once, for the users "
                f"present. {_uniqueness(setting)}",
                "small",
            ),
            *([Listing(refused, "no exact answer from", "warning")] if refused else []),
            _use(settlement),
            proof(run.certificate, "a server, because none knows all tasks"),
        ],
        settlement.to_dict,
    )


def _uniqueness(setting: AsynchronousSetting) -> str:
    """Describe whether users' tasks have to agree with the exact ones."""
    if setting.time_shared:
        return "Under PS-DSF (TDM) users' total tasks are unique."
    return "Several allocations can be PS-DSF; the servers may settle on a different one."


def _verdict(settlement: Settlement) -> Statement:
    """Describe whether and when the servers settled, and if not, what may help."""
    setting, last = settlement.run.setting, settlement.settled[-1]
    name = NAMES[setting.mechanism]
    if settlement.converged:
        when = ""
        if last.certified is not None:
            since = "the last change" if last.phase.changes else "the start"
            when = f" {number(last.certified)} s after {since}"
        return Statement(HOLDS, f"The servers settled on {name}{when} (violation below 1e-6).")
    violation = settlement.run.certificate.violation
    missed = f"violation {violation:.1e}" if isfinite(violation) else "a user has no tasks"
    text = f"The servers have not settled on {name} ({missed} in the end): "
    if setting.crowd > CROWDED:
        text += (
            f"about {number(setting.crowd)} servers decide while a message is under way, and all "
            "of them react to the same messages. A longer --period or more --damping helps."
        )
    else:
        text += "it may only need more time (--until)."
    return Statement(FAILS, text)


def setting_text(run: AsynchronousRun) -> str:
    """Describe how the servers run and exchange messages."""
    setting = run.setting
    clocks, delay = setting.clocks, setting.delay
    varies = f" (up to {percent(clocks.jitter)} more or less)" if clocks.jitter else ""
    if run.actors:
        sent = sum(actor.messages for actor in run.actors)
        messages = f"{counted(len(run.actors), 'actor')} sent each other {counted(sent, 'message')}"
    elif not delay.longest:
        messages = "messages arrive at once"
    elif delay.varies:
        messages = f"messages take {delay.shortest:g} s to {delay.longest:g} s"
    else:
        messages = f"messages take {delay.longest:g} s"
    damping = f"; damping {setting.damping:g}" if setting.damping else ""
    divided = "each server" if setting.apart else "each group, as one server,"
    return f"{divided} divides itself every {clocks.period:g} s{varies}; {messages}{damping}"


def _actors(actors: Sequence[ActorCount]) -> Table:
    """Tabulate the counts of actors on Ray."""
    rows: list[list[Content]] = [
        [
            f"{n}, lost" if actor.lost else str(n),
            actor.node,
            f"{actor.servers:,}",
            f"{actor.rounds:,}",
            f"{actor.messages:,}",
        ]
        for n, actor in enumerate(actors)
    ]
    return table_of(
        "Actors on Ray",
        [*words("actor", "node"), *numbers("servers", "rounds", "messages sent")],
        rows,
        each="actor",
    )


def _phases(settlement: Settlement) -> Table:
    """Tabulate the changes of users, and the seconds to settle after each."""
    rows: list[list[Content]] = [
        [
            f"{settled.phase.start:g} s",
            changes_text(settlement, settled.phase),
            f"{len(settled.phase.users):,}",
            _seconds(settled.close),
            _seconds(settled.certified),
        ]
        for settled in settlement.settled
    ]
    return table_of(
        "How soon it settled after each change",
        [
            *numbers("from"),
            *words("what changes"),
            *numbers("users present", "below 1e-3 after", "below 1e-6 after"),
        ],
        rows,
        each="change",
        rest="after them",
    )


def _seconds(seconds: float | None) -> str:
    return "not settled" if seconds is None else f"{number(seconds)} s"


def _users(settlement: Settlement) -> Table:
    """Tabulate the final shares and tasks of present users, with the exact tasks."""
    run = settlement.run
    last = len(run.phases) - 1
    share = run.dominant_share[-1]
    present = np.flatnonzero(run.phases[last].active)
    exact = [settlement.exact_tasks(name, last) for name in settlement.exact]

    def row(k: int) -> list[Content]:
        n = int(present[k])
        tasks = [float(answer[n]) for answer in (run.user_tasks[-1], *exact)]
        return [
            run.setting.problem.users.names[n],
            precise_percent(float(share[n])),
            *map(number, tasks),
        ]

    headings = ("dominant share", "tasks", *(f"exact {_name(name)}" for name in settlement.exact))
    return Table(
        "Users in the end",
        [*words("user"), *numbers(*headings)],
        len(present),
        row,
        size=share[present],
        each="user",
    )


def _use(settlement: Settlement) -> Table:
    """Tabulate the final utilisation of each group."""
    run = settlement.run
    cluster = run.setting.problem.cluster

    def row(g: int) -> list[Content]:
        used, has = run.utilisation[-1, g].tolist(), cluster.capacity[g] > 0
        return [
            cluster.groups[g],
            *(percent(u) if h else "" for u, h in zip(used, has, strict=True)),
        ]

    return Table(
        "Use of each group in the end",
        [*words("group"), *numbers(*(f"{name} used" for name in cluster.resources))],
        len(cluster.groups),
        row,
        size=run.setting.problem.count.astype(float),
        each="group",
        rest="of fewer servers",
    )


def _name(mechanism: str) -> str:
    return NAMES.get(mechanism, mechanism)
