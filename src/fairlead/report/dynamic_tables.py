"""Tables of a division among users that arrive one by one."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from fairlead.mechanisms.dynamic_run import DynamicRun
from fairlead.model.ties import first_smallest
from fairlead.model.verdict import Verdict
from fairlead.report.numbers import counted, number, percent, precise_percent, printable
from fairlead.report.terminal import (
    ROWS_ON_TERMINAL,
    finished,
    open_console,
    plain_table,
    print_certificate,
    print_table,
)

# Beyond this many rows a table takes long to lay out, and nobody reads it.
ROWS_IN_PIPE = 2000

# What a verdict says when it holds, in a reader's words.
MEANING = {
    "sharing-incentive": "nobody ever has less than an equal split, by weight",
    "dynamic-envy-freeness": "nobody envies who came later, or was given more since it came",
    "dynamic-pareto-optimality": "nobody could ever have been given more at nobody's cost",
    "strategy-proofness": "no lie about demands pays",
}


def dynamic_tables(
    run: DynamicRun, verdicts: Sequence[Verdict], *, width: int | None, plain: bool
) -> str:
    """Say who got what when, beside DRF with full knowledge, and why this is the answer.

    The other arguments and what it returns are as in `fairlead.report.tables.allocation_tables`.
    """
    console, buffer = open_console(width, plain)
    arrived = counted(run.n_steps, "user")
    console.print(Text(f"dynamic DRF by {run.solver}: {arrived}, one by one", style="bold"))
    _print_users(console, run, width)
    _print_resources(console, run)
    for verdict in verdicts:
        console.print(Text(verdict_text(verdict)))
    print_certificate(console, run.certificate)
    return finished(buffer)


def verdict_text(verdict: Verdict) -> str:
    """Put a verdict into a line."""
    meaning = MEANING.get(verdict.name, verdict.name)
    if verdict.verdict == "fails":
        shown = ", ".join(f"{key} {value}" for key, value in verdict.witness.items())
        return printable(f"{verdict.name}: FAILS ({shown.replace('_', ' ')})")
    if verdict.verdict == "unknown":
        return f"{verdict.name}: not refuted ({verdict.detail} looked at): {meaning}"
    return f"{verdict.name}: holds ({verdict.detail}): {meaning}"


def _print_users(console: Console, run: DynamicRun, width: int | None) -> None:
    """List everybody, or of many the first and the last arrivals."""
    table = plain_table()
    table.add_column("user", overflow="fold", min_width=8)
    weighted = bool((run.problem.weight != run.problem.weight[0]).any())
    headings = ("step", "least level then", "share now", "if all were known", "ratio")
    for heading in ("weight", *headings) if weighted else headings:
        table.add_column(heading, justify="right", no_wrap=True)
    ratio = run.shares / run.full_knowledge_shares
    for n in _rows(run.n_steps, width):
        weight = (number(float(run.problem.weight[n])),) if weighted else ()
        table.add_row(
            Text(printable(run.problem.users.names[n])),
            *weight,
            f"{n + 1:,}",
            precise_percent(float(run.levels[n])),
            precise_percent(float(run.shares[n])),
            precise_percent(float(run.full_knowledge_shares[n])),
            number(float(ratio[n])),
        )
    print_table(console, table)
    omitted = run.n_steps - len(_rows(run.n_steps, width))
    if omitted:
        console.print(Text(f"{counted(omitted, 'user')} between them: --json --last", style="dim"))
    level = run.levels / run.full_knowledge_levels
    worst = first_smallest(level)
    console.print(
        Text(
            f"least level over DRF's: {number(float(level[-1]))} at the end, "
            f"{number(float(level[worst]))} at its least, after step {worst + 1:,}"
        )
    )


def _rows(n_users: int, width: int | None) -> list[int]:
    most = ROWS_IN_PIPE if width is None else ROWS_ON_TERMINAL
    if n_users <= most:
        return list(range(n_users))
    return [*range(most // 2), *range(n_users - most // 2, n_users)]


def _print_resources(console: Console, run: DynamicRun) -> None:
    table = plain_table()
    table.add_column("resource", overflow="fold")
    table.add_column("used", justify="right", no_wrap=True)
    for resource, used in zip(run.problem.cluster.resources, run.used.tolist(), strict=True):
        table.add_row(Text(printable(resource)), percent(used))
    print_table(console, table)
