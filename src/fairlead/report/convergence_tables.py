"""Tables of a cluster whose servers divide themselves."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.text import Text

from fairlead.distributed.convergence import Comparison
from fairlead.distributed.presence import Phase
from fairlead.distributed.setting import Setting
from fairlead.report.numbers import counted, number, percent, precise_percent, printable
from fairlead.report.terminal import (
    finished,
    open_console,
    plain_table,
    print_certificate,
    print_omission,
    print_table,
    rows_to_show,
    size_of,
)

# Names that a cell lists; of more it says how many.
NAMES_LISTED = 3
# With so many servers running while a message is under way they tend to overreact.
CROWDED = 1.0


def convergence_tables(comparison: Comparison, *, width: int | None, plain: bool) -> str:
    """Say how long it took after each change, and who has what in the end beside exact answers.

    The other arguments and what it returns are as in `fairlead.report.tables.allocation_tables`.
    """
    console, buffer = open_console(width, plain)
    setting = comparison.run.setting
    console.print(
        Text(f"{setting.mechanism}, divided by the servers: {size_of(setting.problem)}"),
        style="bold",
    )
    console.print(Text(setting_text(setting)))
    _print_phases(console, comparison)
    _print_users(console, comparison, width)
    _print_groups(console, comparison, width)
    for mechanism, reason in comparison.refused.items():
        console.print(Text(printable(f"without {mechanism}: {reason}"), style="dim"))
    print_certificate(console, comparison.run.certificate)
    hint = hint_text(comparison)
    if hint:
        console.print(Text(hint))
    return finished(buffer)


def setting_text(setting: Setting) -> str:
    """Say how the servers run and hear of each other."""
    clocks, delay = setting.clocks, setting.delay
    varies = f" (up to {percent(clocks.jitter)} more or less)" if clocks.jitter else ""
    if not delay.longest:
        messages = "messages arrive at once"
    elif delay.varies:
        messages = f"messages take {delay.shortest:g} s to {delay.longest:g} s"
    else:
        messages = f"messages take {delay.longest:g} s"
    damping = f"; damping {setting.damping:g}" if setting.damping else ""
    who = "each server" if setting.apart else "each group, as one server,"
    return f"{who} divides itself every {clocks.period:g} s{varies}; {messages}{damping}"


def changes_text(comparison: Comparison, phase: Phase) -> str:
    """Say who came and went at the beginning of a phase."""
    names = comparison.run.setting.problem.users.names
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


def seconds_text(seconds: float | None) -> str:
    """Write how long it took to settle."""
    return "not by then" if seconds is None else f"{number(seconds)} s"


def hint_text(comparison: Comparison) -> str:
    """Say what may keep it from settling, where it has not."""
    setting = comparison.run.setting
    if comparison.converged:
        return ""
    if setting.crowd > CROWDED:
        return (
            f"Not settled: about {number(setting.crowd)} servers decide while a message is under "
            "way, and all of them answer the same news. A longer --period or more --damping calms "
            "them."
        )
    return "Not settled: it may only need longer (--until)."


def _print_phases(console: Console, comparison: Comparison) -> None:
    table = plain_table()
    table.add_column("from", justify="right", no_wrap=True)
    table.add_column("what changes", overflow="fold")
    for heading in ("users there", "within 1e-3 after", "within 1e-6 after"):
        table.add_column(heading, justify="right", no_wrap=True)
    for settled in comparison.settled:
        phase = settled.phase
        table.add_row(
            f"{phase.begin:g} s",
            Text(printable(changes_text(comparison, phase))),
            f"{len(phase.users):,}",
            seconds_text(settled.close),
            seconds_text(settled.certified),
        )
    print_table(console, table)


def _print_users(console: Console, comparison: Comparison, width: int | None) -> None:
    """List who is there in the end, of many those with the largest shares."""
    run = comparison.run
    names = run.setting.problem.users.names
    last = len(run.phases) - 1
    there = np.flatnonzero(run.phases[last].active)
    share = run.dominant_share[-1]
    table = plain_table()
    table.add_column("user", overflow="fold", min_width=8)
    exact = {name: comparison.exact_tasks(name, last) for name in comparison.exact}
    for heading in ("dominant share", "tasks", *(f"exact {name}" for name in exact)):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = rows_to_show(len(there), share[there], width)
    for n in there[rows].tolist():
        table.add_row(
            Text(printable(names[n])),
            precise_percent(float(share[n])),
            number(float(run.user_tasks[-1, n])),
            *(number(float(tasks[n])) for tasks in exact.values()),
        )
    print_table(console, table)
    print_omission(console, len(there), len(rows))


def _print_groups(console: Console, comparison: Comparison, width: int | None) -> None:
    cluster = comparison.run.setting.problem.cluster
    used = comparison.run.utilisation[-1]
    table = plain_table()
    table.add_column("group", overflow="fold", min_width=8)
    for resource in cluster.resources:
        table.add_column(Text(f"{printable(resource)} used"), justify="right", no_wrap=True)
    rows = rows_to_show(len(cluster.groups), comparison.run.setting.problem.count, width)
    for g in rows:
        has = cluster.capacity[g] > 0
        table.add_row(
            Text(printable(cluster.groups[g])),
            *(percent(float(u)) if h else "" for u, h in zip(used[g], has, strict=True)),
        )
    print_table(console, table)
    if len(rows) < len(cluster.groups):
        rest = counted(len(cluster.groups) - len(rows), "smaller group")
        console.print(Text(f"... and {rest} (all of them: --json)", style="dim"))
