"""``fairlead allocate``: fair shares under one mechanism."""

from __future__ import annotations

from typing import Annotated

from fairlead.cli.options import (
    Alpha,
    AsJson,
    ProblemFile,
    ReportPath,
    Score,
    SkipUnplaceable,
    given_options,
    read_problem,
    title_of,
)
from fairlead.cli.parameters import Option
from fairlead.cli.streams import check_report, show

DEFAULT_MECHANISM = "ps-dsf"


def allocate(
    file: ProblemFile,
    mechanism: Annotated[
        str,
        Option("-m", "--mechanism", metavar="MECHANISM", help="One of `fairlead mechanisms`."),
    ] = DEFAULT_MECHANISM,
    alpha: Alpha = None,
    score: Score = None,
    as_json: AsJson = False,
    report: ReportPath = None,
    skip_unplaceable: SkipUnplaceable = False,
) -> None:
    """Divide the cluster by one mechanism: each user's tasks and servers, and the proof.

    \b
    Example:
      fairlead allocate cluster.yaml -m ps-dsf --report shares.html
    """
    from fairlead.mechanisms.catalogue import find_mechanism, solve

    options = given_options(alpha, score)
    find_mechanism(mechanism).refuse_unknown_options(options)
    check_report(report, file)
    problem, left_out = read_problem(file, skip_unplaceable)
    allocation = solve(problem, mechanism, **options)
    from fairlead.report.allocation import allocation_document

    show(allocation_document(allocation, title_of(file), left_out), as_json, report)
