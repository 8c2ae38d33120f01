"""``fairlead compare``: several mechanisms on one problem, side by side."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

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
from fairlead.cli.streams import check_report, complain, show
from fairlead.errors import CertificateError, FairleadError, InputError, RefusalError

if TYPE_CHECKING:
    from fairlead.model.allocation import Allocation
    from fairlead.model.problem import Problem


def compare(
    file: ProblemFile,
    mechanism: Annotated[
        list[str] | None,
        Option(
            "-m",
            "--mechanism",
            metavar="MECHANISM",
            help="Mechanism to compare; may be repeated. [default: all of divisible tasks that "
            "accept the problem]",
        ),
    ] = None,
    alpha: Alpha = None,
    score: Score = None,
    as_json: AsJson = False,
    report: ReportPath = None,
    skip_unplaceable: SkipUnplaceable = False,
) -> None:
    """Divide the cluster by several mechanisms and show the shares side by side.

    \b
    Example:
      fairlead compare cluster.yaml -m drfh -m tsf -m ps-dsf
    """
    from fairlead.mechanisms.catalogue import COMPARED, find_mechanism

    asked = list(dict.fromkeys(mechanism or ()))
    for name in asked:
        find_mechanism(name)
    options = given_options(alpha, score)
    names = asked or list(COMPARED)
    for option in options:
        if not any(option in find_mechanism(name).options for name in names):
            raise InputError("none of these mechanisms takes it", f"--{option}")
    check_report(report, file)
    problem, left_out = read_problem(file, skip_unplaceable)
    answers, refused, unproved = _solve_all(problem, names, options, explicit=bool(asked))
    if not answers:
        raise _no_answer(refused, unproved)
    from fairlead.report.allocation import comparison_document

    document = comparison_document(answers, refused | unproved, title_of(file), left_out)
    show(document, as_json, report)
    if unproved:
        for name, reason in unproved.items():
            complain(f"{name}: {reason}")
        sys.exit(1)


def _solve_all(
    problem: Problem, names: list[str], options: dict[str, float | str], *, explicit: bool
) -> tuple[dict[str, Allocation], dict[str, str], dict[str, str]]:
    """Return answers, reasons of refusals, and reasons of failed proofs, by mechanism."""
    from fairlead.mechanisms.catalogue import find_mechanism, solve

    answers: dict[str, Allocation] = {}
    refused: dict[str, str] = {}
    unproved: dict[str, str] = {}
    for name in names:
        try:
            taken = {o: v for o, v in options.items() if o in find_mechanism(name).options}
            answers[name] = solve(problem, name, **taken)
        except RefusalError as refusal:
            if explicit:
                raise
            refused[name] = refusal.reason
        except CertificateError as failure:
            unproved[name] = str(failure).removeprefix(f"{name}: ")
    return answers, refused, unproved


def _no_answer(refused: dict[str, str], unproved: dict[str, str]) -> FairleadError:
    if unproved:
        return CertificateError("; ".join(f"{name}: {fault}" for name, fault in unproved.items()))
    reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    return RefusalError("compare", f"no mechanism accepts this problem ({reasons})")
