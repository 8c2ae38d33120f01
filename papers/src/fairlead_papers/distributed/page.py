"""The document of a cluster whose servers divide themselves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, isfinite

import numpy as np

from fairlead.report.allocation import size_of
from fairlead.report.charts import COLOURS, css_dash
from fairlead.report.document import (
    FAILS,
    HOLDS,
    PAGE,
    Block,
    Cell,
    Column,
    Content,
    Document,
    Legend,
    Listing,
    Picture,
    Prose,
    Section,
    Statement,
    Table,
    proof,
    table_of,
    words,
)
from fairlead.report.numbers import counted, number, percent, precise_percent
from fairlead_papers.distributed.asynchronous import ActorCount, AsynchronousRun
from fairlead_papers.distributed.convergence import Settlement
from fairlead_papers.distributed.figures import (
    NAMES,
    drawn_lines,
    shares_figure,
    shown_users,
    utilisation_figure,
    utilisation_pictures,
    violation_figure,
)
from fairlead_papers.distributed.presence import Phase

# Names that a cell lists; of more it says how many.
NAMES_LISTED = 3
# With more servers than this running while a message is under way they tend to overreact.
CROWDED = 1.0


def convergence_document(
    settlement: Settlement, title: str, left_out: Sequence[str] = ()
) -> Document:
    """Show how servers that divide themselves follow who comes and goes, beside exact answers.

    The other arguments are as in `fairlead.report.allocation.allocation_document`.
    """
    run = settlement.run
    setting = run.setting
    refused = [
        f"{_name(mechanism)}: {reason.removeprefix(f'{mechanism}: ')}"
        for mechanism, reason in settlement.refused.items()
    ]
    return Document(
        title,
        "servers on their own",
        f"{size_of(setting.problem)}; the servers divide themselves, by {NAMES[setting.mechanism]}",
        _verdict(settlement),
        [
            Picture(
                "By how much what really runs misses the condition, for those who are there. "
                "Upright dotted lines: somebody comes or goes. Level ones: 1e-3 and 1e-6.",
                lambda: violation_figure(run),
                "Violation of the condition over time, on a logarithmic scale; when it became "
                "small is in the table below",
            ),
            Section(
                "How soon it settles",
                [
                    Prose(
                        f"Nobody is in charge: {setting_text(run)}. Settled is where the "
                        "violation stays below a bound until the next change. Servers ran their "
                        f"procedure {run.runs:,} times in all."
                    ),
                    _phases(settlement),
                    *([_actors(run.actors)] if run.actors else []),
                ],
            ),
            Section("Who has what", _shares(settlement)),
            *([Listing(refused, "no exact answer from", "warning")] if refused else []),
            Section("What is used", lambda: _use(settlement)),
            proof(run.certificate, "any server, as none knows all"),
        ],
        settlement.to_dict,
        left_out,
    )


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
    missed = f"violation {violation:.1e}" if isfinite(violation) else "somebody has nothing"
    said = f"The servers have not settled on {name} ({missed} in the end): "
    if setting.crowd > CROWDED:
        said += (
            f"about {number(setting.crowd)} servers decide while a message is under way, and all "
            "of them answer the same news. A longer --period or more --damping calms them."
        )
    else:
        said += "it may only need longer (--until)."
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
    who = "each server" if setting.apart else "each group, as one server,"
    return f"{who} divides itself every {clocks.period:g} s{varies}; {messages}{damping}"


def _actors(actors: Sequence[ActorCount]) -> Table:
    rows: list[list[Content]] = [
        [
            f"{n}, lost" if actor.lost else str(n),
            actor.node,
            Cell(f"{actor.servers:,}", actor.servers),
            Cell(f"{actor.rounds:,}", actor.rounds),
            Cell(f"{actor.messages:,}", actor.messages),
        ]
        for n, actor in enumerate(actors)
    ]
    return table_of(
        "Actors on Ray",
        (
            words("actor"),
            words("node"),
            Column("servers"),
            Column("rounds"),
            Column("messages sent"),
        ),
        rows,
        each="actor",
    )


def changes_text(settlement: Settlement, phase: Phase) -> str:
    """List users that came and went at the beginning of a phase."""
    names = settlement.run.setting.problem.users.names
    if not phase.changes:
        return "start"
    said = []
    for joins, one, several in ((False, "leaves", "leave"), (True, "joins", "join")):
        who = [names[change.user] for change in phase.changes if change.joins == joins]
        if len(who) > NAMES_LISTED:
            said.append(f"{counted(len(who), 'user')} {several}")
        elif who:
            said.append(f"{', '.join(who)} {one if len(who) == 1 else several}")
    return "; ".join(said)


def _phases(settlement: Settlement) -> Table:
    rows: list[list[Content]] = [
        [
            Cell(f"{settled.phase.begin:g} s", settled.phase.begin),
            changes_text(settlement, settled.phase),
            Cell(f"{len(settled.phase.users):,}", len(settled.phase.users)),
            _seconds(settled.close),
            _seconds(settled.certified),
        ]
        for settled in settlement.settled
    ]
    return table_of(
        "How soon it settled after each change",
        (
            Column("from"),
            words("what changes"),
            Column("users there"),
            Column("below 1e-3 after"),
            Column("below 1e-6 after"),
        ),
        rows,
        each="change",
        rest="after them",
        keys=2,
    )


def _seconds(seconds: float | None) -> Cell:
    """Write how long it took to settle."""
    return Cell("not by then", inf) if seconds is None else Cell(f"{number(seconds)} s", seconds)


def _shares(settlement: Settlement) -> list[Block]:
    """List who is there in the end, and draw what they had before."""
    run = settlement.run
    own, lines, users = run.setting.mechanism, len(shown_users(run)), run.user_tasks.shape[1]
    some = f" of the {lines} users whose are ever largest, of {users:,}" if lines < users else ""
    return [
        _users(settlement),
        Prose(
            "Exact is the answer of a mechanism that knows all at once, for those present. Under "
            f"{NAMES[own]} several answers can be right, and servers need not come to the same.",
            "small",
        ),
        Picture(
            f"Dominant shares{some}; dotted, those of the exact answer. Colours are those of the "
            "table.",
            lambda: shares_figure(settlement),
            "Dominant shares over time; those of the end are in the table above",
        ),
    ]


def _users(settlement: Settlement) -> Table:
    run = settlement.run
    last = len(run.phases) - 1
    share = run.dominant_share[-1]
    there = np.flatnonzero(run.phases[last].active)
    largest = float(share.max(initial=0.0)) or 1.0
    exact = [settlement.exact_tasks(name, last) for name in settlement.exact]
    colour = {n: COLOURS[k % len(COLOURS)] for k, n in enumerate(shown_users(run))}

    def row(k: int) -> list[Content]:
        n = int(there[k])
        tasks = [float(answer[n]) for answer in (run.user_tasks[-1], *exact)]
        return [
            Cell(run.setting.problem.users.names[n], swatch=colour.get(n, "")),
            Cell(precise_percent(float(share[n])), float(share[n]), part=float(share[n]) / largest),
            *(Cell(number(t), t) for t in tasks),
        ]

    headings = ("dominant share", "tasks", *(f"exact {_name(name)}" for name in settlement.exact))
    return Table(
        "Users in the end",
        (words("user"), *map(Column, headings)),
        len(there),
        row,
        size=share[there],
        each="user",
    )


def _use(settlement: Settlement) -> list[Block]:
    """Draw what is used of each group, and list it in the end."""
    run = settlement.run
    cluster = run.setting.problem.cluster
    pairs, everything = utilisation_pictures(settlement), int((cluster.capacity > 0).sum())
    some = f" {len(pairs)} of {everything} pictures, where they differ most."
    pictures = [
        Picture(
            "",
            partial(utilisation_figure, settlement, g, r),
            f"Use of {cluster.resources[r]} on {cluster.groups[g]} over time",
            f"{cluster.groups[g]}: {cluster.resources[r]}",
            small=True,
        )
        for g, r in pairs
    ]
    lines = [
        (key, name, colour, css_dash(dash), "line")
        for key, name, colour, dash in drawn_lines(settlement)
    ]

    def row(g: int) -> list[Content]:
        return [
            cluster.groups[g],
            *(
                Cell(percent(used), used) if has else ""
                for used, has in zip(
                    run.utilisation[-1, g].tolist(), cluster.capacity[g] > 0, strict=True
                )
            ),
        ]

    return [
        Prose(
            "Beside answers that are exact at every moment. Where a mechanism fixes only how many "
            "tasks a user has in all, who runs where is one choice of several."
            + (some if len(pairs) < everything else ""),
            only=PAGE,
        ),
        Legend(lines),
        *pictures,
        Table(
            "What is used of each group in the end",
            (words("group"), *(Column(f"{name} used") for name in cluster.resources)),
            len(cluster.groups),
            row,
            size=run.setting.problem.count.astype(float),
            each="group",
            rest="of fewer servers",
            folded="in the end, as a table",
        ),
    ]


def _name(mechanism: str) -> str:
    return NAMES.get(mechanism, mechanism)
