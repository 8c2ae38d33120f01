"""Arguments that several verbs share, and reading the problem they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import complain
from fairlead.errors import InputError

if TYPE_CHECKING:
    from fairlead.model.problem import Problem

MOST_REPEATS = 1_000_000  # of trials, lies and random problems

ProblemFile = Annotated[
    str, Argument(metavar="FILE", help="Problem file, YAML or JSON; - reads standard input.")
]
AsJson = Annotated[bool, Option("--json", help="Print one JSON object instead of tables.")]
ReportPath = Annotated[
    Path | None,
    Option("--report", metavar="OUT.html", help="Also write a page to look at, offline."),
]
Alpha = Annotated[
    float | None,
    Option(
        "--alpha", metavar="A", help="For alpha-fair: 0 is most tasks, large is even. [default: 2]"
    ),
]
Score = Annotated[
    str | None,
    Option("--score", metavar="SCORE", help="For max-min: drf, tsf or ps-dsf. [default: drf]"),
]
TimeShared = Annotated[
    bool, Option("--tdm", help="Share servers by time, not divide them by resource.")
]
SkipUnplaceable = Annotated[
    bool,
    Option("--skip-unplaceable", help="Leave out users that fit no server, and say so."),
]


def read_problem(
    file: str, skip_unplaceable: bool, *, needs_due: bool = False
) -> tuple[Problem, list[str]]:
    """Read the problem file and say on standard error who was left out.

    Raises InputError when the file is not a usable problem, or, with `needs_due`, when all of its
    users are due nothing.
    """
    from fairlead.formats.problem_file import load_with_report
    from fairlead.model.reductions import NO_USER_IS_DUE

    problem, left_out = load_with_report(file, skip_unplaceable=skip_unplaceable)
    for omission in left_out:
        complain(f"left out: {omission}")
    if needs_due and problem.due_nothing.all():
        raise InputError(NO_USER_IS_DUE, "users", title_of(file) if file == "-" else file)
    return problem, left_out


def given_options(alpha: float | None, score: str | None) -> dict[str, float | str]:
    """Return the options of mechanisms that were given on the command line."""
    options: dict[str, float | str] = {}
    if alpha is not None:
        options["alpha"] = alpha
    if score is not None:
        options["score"] = score
    return options


def title_of(file: str) -> str:
    """Return the problem's name as a page or table shows it."""
    return "standard input" if file == "-" else Path(file).name


def pairs_of(texts: list[str], option: str, *, may_be_empty: bool = False) -> dict[str, str]:
    """Return pairs of KEY=VALUE as a mapping.

    Raises
    ------
    InputError
        When something else was given.
    """
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals and (value or may_be_empty)):
            raise InputError(f"must be KEY=VALUE, not {text!r:.60}", option)
        if key in pairs:
            raise InputError(f"gives {key!r:.60} twice", option)
        pairs[key] = value
    return pairs
