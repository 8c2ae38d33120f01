"""The table of mechanisms and properties that a survey found, and the smallest witnesses."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.text import Text

from fairlead.model.problem import Problem
from fairlead.properties.audit import AUDITED
from fairlead.properties.survey import Survey
from fairlead.properties.survey_cell import Cell
from fairlead.report.numbers import counted, number, printable
from fairlead.report.terminal import finished, open_console, plain_table, print_table


def survey_tables(survey: Survey, *, width: int | None, plain: bool) -> str:
    """Say which mechanism has which property, and show what speaks against it.

    The other arguments and what it returns are as in `fairlead.report.tables.allocation_tables`.
    """
    console, buffer = open_console(width, plain)
    number_of = f"{counted(len(survey.mechanisms), 'mechanism')} on {survey.problems:,} random"
    console.print(Text(f"{number_of} problems (seed {survey.seed})", style="bold"))
    table = plain_table()
    table.add_column("mechanism", no_wrap=True)
    for of in survey.properties:
        table.add_column(AUDITED[of].heading, justify="right", no_wrap=True)
    for name in survey.mechanisms:
        table.add_row(name, *(_cell_text(survey.cells[name, of]) for of in survey.properties))
    print_table(console, table)
    prose = (
        "violations / problems that ask. ✓ claimed and not refuted; ✓* claimed under the "
        "conditions below, and not refuted there; REFUTED: claimed, and here is a witness; no "
        "mark: not claimed"
    )
    console.print(Text(prose, style="dim"))
    for cell in survey.cells.values():
        if cell.claim is not None and cell.claim.without:
            without = f"claimed without {' or '.join(cell.claim.without)}"
            console.print(Text(f"* {cell.mechanism}, {cell.property}: {without}", style="dim"))
    for name in survey.mechanisms:
        for of in survey.properties:
            _print_witness(console, survey.cells[name, of])
    for name in survey.mechanisms:
        for count, what in (
            (survey.refused[name], "not admitted by its definition"),
            (survey.unproved[name], "without a certified answer"),
        ):
            if count:
                console.print(Text(f"{name}: {counted(count, 'problem')} {what}", style="yellow"))
    return finished(buffer)


def _cell_text(cell: Cell) -> Text:
    count = f"{cell.violations}/{cell.asked}"
    if cell.claim is None:
        return Text(count, style="" if cell.violations else "dim")
    if cell.refutations:
        return Text(f"REFUTED {cell.refutations}/{cell.covered}", style="red")
    return Text(f"✓{'*' if cell.claim.without else ''} {count}", style="green")


def _print_witness(console: Console, cell: Cell) -> None:
    if cell.witness is None:
        return
    verdict = cell.witness.verdict
    console.print(
        Text.assemble(
            (f"{cell.mechanism}, {cell.property}: ", "bold"), printable(verdict.sentence)
        ),
        soft_wrap=True,
    )
    console.print(
        Text(f"    {printable(describe_problem(cell.witness.problem))}", style="dim"),
        soft_wrap=True,
    )


def describe_problem(problem: Problem) -> str:
    """Put a small problem into a line: servers, tasks, and what else there is."""
    cluster, users = problem.cluster, problem.users
    servers = ", ".join(
        f"{name} {_vector(cluster.capacity[g])}{_times(int(cluster.count[g]))}"
        for g, name in enumerate(cluster.groups)
    )
    rows = []
    for n, name in enumerate(users.names):
        row = f"{name} {_vector(users.demand[n])}"
        if users.weight[n] != 1:
            row += f" weight {number(float(users.weight[n]))}"
        if not users.eligible[n].all():
            allowed = [cluster.groups[g] for g in np.flatnonzero(users.eligible[n])]
            row += f" only on {' and '.join(allowed)}"
        if np.isfinite(users.task_limit[n]):
            row += f" with {number(float(users.task_limit[n]))} tasks"
        rows.append(row)
    return f"servers {servers}; tasks {', '.join(rows)}"


def _vector(amounts: np.ndarray) -> str:
    return f"({', '.join(number(float(amount)) for amount in amounts)})"


def _times(count: int) -> str:
    return f" x {count:,}" if count > 1 else ""
