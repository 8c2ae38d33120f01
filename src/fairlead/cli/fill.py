"""``fairlead fill``: whole tasks by progressive filling."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

from fairlead.cli.options import (
    MOST_REPEATS,
    AsJson,
    ProblemFile,
    RayAddress,
    ReportPath,
    SkipUnplaceable,
    TableFormat,
    check_format,
    executor_on,
    read_problem,
    table_text,
    title_of,
)
from fairlead.cli.parameters import Option
from fairlead.cli.streams import check_report, progress_bar, show
from fairlead.errors import InputError


def fill(
    file: ProblemFile,
    criterion: Annotated[
        str,
        Option(
            metavar="CRITERION",
            help="Score of users: drf, tsf or ps-dsf. The user with the lowest gets the next task.",
        ),
    ] = "drf",
    select: Annotated[
        str,
        Option(
            metavar="SELECTION",
            help="Choice of the server: first-fit, best-fit, best-fit-first, rrr or joint.",
        ),
    ] = "best-fit",
    residual: Annotated[
        bool, Option(help="Compute scores from free instead of total capacity.")
    ] = False,
    seed: Annotated[int, Option(metavar="N", min=0, help="Random seed of the selection rrr.")] = 0,
    trials: Annotated[
        int,
        Option(
            metavar="T",
            min=1,
            max=MOST_REPEATS,
            help="Fill T times with rrr, and print means with margins of error.",
        ),
    ] = 1,
    ray: RayAddress = None,
    as_json: AsJson = False,
    table_format: TableFormat = None,
    report: ReportPath = None,
    skip_unplaceable: SkipUnplaceable = False,
) -> None:
    """Fill the servers with whole tasks, one by one, until nothing more fits.

    The user with the lowest score gets the next task. With rrr the order of servers is random, and
    several trials show how much the answer depends on the order.

    \b
    Example:
      fairlead fill cluster.yaml --criterion ps-dsf --select rrr --trials 200 --seed 1
    """
    from fairlead.scheduler.policies import find_policy

    check_format(table_format, as_json)
    policy = find_policy(criterion, select, residual)
    if trials > 1 and not policy.is_random:
        raise InputError(
            f"{policy.name} gives the same answer each time; only rrr is random", "--trials"
        )
    check_report(report, file)
    problem, left_out = read_problem(file, skip_unplaceable)
    from fairlead.simulation.trials import run_trials

    with ExitStack() as stack:
        # Without Ray all trials run in this process.
        executor = None if ray is None else stack.enter_context(executor_on(ray))
        on_progress = stack.enter_context(progress_bar(f"Filling by {policy.name}"))
        answer = run_trials(problem, policy, trials, seed, on_progress, executor)
    from fairlead.report.filling import filling_document

    document = filling_document(answer, title_of(file))
    table = table_text(answer.allocation, table_format)
    show(document, as_json, report, table=table, left_out=left_out)
