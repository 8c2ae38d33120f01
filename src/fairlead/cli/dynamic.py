"""``fairlead dynamic``: users that arrive one by one and keep their shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fairlead.cli.options import (
    MOST_REPEATS,
    AsJson,
    ProblemFile,
    SkipUnplaceable,
    read_problem,
    title_of,
)
from fairlead.cli.parameters import Option
from fairlead.cli.streams import progress_bar, show
from fairlead.errors import InputError

if TYPE_CHECKING:
    from fairlead.mechanisms.dynamic_run import DynamicRun
    from fairlead.model.verdict import Verdict

# JSON of all steps has a number for each user at each step: some 100 MB for this many users.
MOST_STEPS_IN_JSON = 3_000


def dynamic(
    file: ProblemFile,
    solver: Annotated[
        str,
        Option(
            metavar="SOLVER",
            help="Solver: stack, halving, water or lp; all give the same result.",
        ),
    ] = "stack",
    as_json: AsJson = False,
    last: Annotated[bool, Option("--last", help="Print only the last step as JSON.")] = False,
    lies: Annotated[
        int,
        Option(
            metavar="N",
            min=0,
            max=MOST_REPEATS,
            help="Lies about demands to try, in search of one that pays.",
        ),
    ] = 0,
    seed: Annotated[int, Option(metavar="N", min=0, help="Random seed of the lies.")] = 0,
    skip_unplaceable: SkipUnplaceable = False,
) -> None:
    """Divide the pool among users that arrive in the file's order, by dynamic DRF.

    After each arrival the present users divide their part of every resource: their weight over
    that of all users in the file. No user gives anything back. The result is compared with DRF
    that knows all users from the start.

    \b
    Example:
      fairlead dynamic cluster.yaml --lies 1000
    """
    problem, left_out = read_problem(file, skip_unplaceable, needs_due=True)
    if as_json and not last and problem.n_users > MOST_STEPS_IN_JSON:
        raise InputError(
            f"{problem.n_users:,} users at as many steps are too much for one JSON; ask for the "
            "last step with --last",
            "--json",
        )
    from fairlead.mechanisms.dynamic_run import run_dynamic

    with progress_bar(f"Arrivals, by {solver}") as on_progress:
        run = run_dynamic(problem, solver, on_progress)
    verdicts = _check_properties(run, lies, seed)
    from fairlead.report.dynamic import dynamic_document

    document = dynamic_document(run, verdicts, title_of(file), left_out, all_steps=not last)
    show(document, as_json)


def _check_properties(run: DynamicRun, lies: int, seed: int) -> list[Verdict]:
    """Check the properties that the theory promises; with `lies`, search for lies that pay."""
    from fairlead.properties.dynamic import (
        DynamicShares,
        check_envy_freeness,
        check_pareto_optimality,
        check_sharing_incentive,
    )

    course = DynamicShares.from_run(run)
    verdicts = [
        check_sharing_incentive(course),
        check_envy_freeness(course),
        check_pareto_optimality(course),
    ]
    if lies:
        from fairlead.properties.dynamic_lies import dynamic_drf, search_lies

        divide = dynamic_drf(course.total_weight)
        with progress_bar("Lies") as on_progress:
            verdicts.append(search_lies(course, divide, lies, seed, on_progress))
    return verdicts
