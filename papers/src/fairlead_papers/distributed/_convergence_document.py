"""Document of `fairlead converge`: how soon the servers settled, and on which division."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from fairlead.report.allocation import size_of
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
from fairlead_papers.distributed.convergence import Settlement, changes_text
from fairlead_papers.distributed.network_setting import AsynchronousSetting
from fairlead_papers.distributed.simulated_run import ActorCount, AsynchronousRun

NAMES = {"ps-dsf": "PS-DSF", "ps-dsf-tdm": "PS-DSF (TDM)", "tsf": "TSF", "drfh": "C-DRFH"}
# Servers tend to overreact if more of them than this run while a message is under way.
CROWDED = 1.0


def convergence_document(settlement: Settlement, title: str) -> Document:
    """Show how soon the servers settle after users come and go, with the exact answers."""
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
    said = f"The servers have not settled on {name} ({missed} in the end): "
    if setting.crowd > CROWDED:
        said += (
            f"about {number(setting.crowd)} servers decide while a message is under way, and all "
            "of them react to the same messages. A longer --period or more --damping helps."
        )
    else:
        said += "it may only need more time (--until)."
    return Statement(FAILS, said)


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
