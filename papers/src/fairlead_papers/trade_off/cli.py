"""``fairlead trade-off``: measure the cost of alpha-fairness."""

from __future__ import annotations

import sys
from typing import Annotated

from fairlead.cli import options, streams
from fairlead.cli.parameters import Option
from fairlead.errors import CertificateError, InputError
from fairlead.model.quantity import number_from_text


def trade_off(
    file: options.ProblemFile,
    alphas: Annotated[
        str | None,
        Option(
            metavar="A,B,...",
            help="Values of alpha, such as 0,1,2. [default: 15 values from 0 to 8]",
        ),
    ] = None,
    tdm: options.TimeShared = False,
    as_json: options.AsJson = False,
    skip_unplaceable: options.SkipUnplaceable = False,
) -> None:
    """Measure the cost of alpha-fairness.

    Shows tasks, the least share and envy for each alpha.

    \b
    Example:
      fairlead trade-off cluster.yaml --alphas 0,1,2
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    from fairlead_papers.trade_off.alpha_fairness import ALPHAS, measure_trade_off

    values = ALPHAS if alphas is None else _parse_alphas(alphas)
    problem, left_out = options.read_problem(file, skip_unplaceable)
    options.check_due(problem, file)
    with streams.progress_bar("Dividing for each alpha") as on_progress:
        answer = measure_trade_off(problem, values, time_shared=tdm, on_progress=on_progress)
    unproved = [f"alpha {alpha:g}: {reason}" for alpha, reason in answer.unproved.items()]
    if not answer.points:
        raise CertificateError("; ".join(unproved))
    from fairlead_papers.trade_off.alpha_fairness import trade_off_document

    streams.show(trade_off_document(answer, options.title_of(file)), as_json, left_out=left_out)
    for problem_text in unproved:
        streams.complain(problem_text)
    if unproved:
        sys.exit(1)


def _parse_alphas(text: str) -> list[float]:
    """Parse alphas separated by commas; raise InputError for other texts."""
    from fairlead.mechanisms.utility import check_alpha

    try:
        return [check_alpha(number_from_text(part.strip())) for part in text.split(",")]
    except ValueError:
        raise InputError(f"must be numbers separated by commas, not {text!r}", "--alphas") from None
