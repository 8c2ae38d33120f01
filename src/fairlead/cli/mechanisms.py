"""Verbs that divide a cluster: allocate, compare, dynamic, fill; and the list of mechanisms."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

from fairlead.cli import options, streams
from fairlead.cli.own_code import load_mechanism
from fairlead.cli.parameters import Argument, Option
from fairlead.errors import CertificateError, FairleadError, InputError, RefusalError

if TYPE_CHECKING:
    from polars import DataFrame

    from fairlead.mechanisms.comparison import Allocations, ProblemComparison
    from fairlead.mechanisms.dynamic_run import DynamicRun
    from fairlead.model.verdict import Verdict
    from fairlead.report.document import Document

DEFAULT_MECHANISM = "ps-dsf"

# With more users, JSON of all steps, a number for each user at each step, exceeds some 100 MB.
MOST_STEPS_IN_JSON = 3_000


def allocate(
    file: options.ProblemFile,
    mechanism: Annotated[
        str,
        Option(
            "-m",
            "--mechanism",
            metavar="MECHANISM",
            help="Mechanism that `fairlead mechanisms` lists, or FILE.py:NAME for your own.",
        ),
    ] = DEFAULT_MECHANISM,
    *,
    mechanism_options: options.MechanismOptions,
    output: options.OutputOptions,
    what_if: Annotated[
        list[str] | None,
        Option(
            metavar="CHANGE",
            help="Also divide the cluster with this change: servers:GROUP+NUMBER, "
            "servers:GROUP-NUMBER, weight:USER=NUMBER (or a queue) or tasks:USER=NUMBER. May be "
            "repeated; each change is tried separately.",
        ),
    ] = None,
    weights: options.Weights = None,
    skip_unplaceable: options.SkipUnplaceable = False,
) -> None:
    """Divide the cluster by one mechanism: each user's tasks and servers, and the proof.

    \b
    Examples:
      fairlead allocate cluster.yaml -m ps-dsf --report shares.html
      fairlead allocate cluster.yaml --what-if servers:big+8 --what-if weight:ana=3
    """
    from fairlead.mechanisms.catalogue import solve
    from fairlead.model.problem_changes import change_problem

    output.check(file, others=[weights])
    given = mechanism_options.given
    mechanism = load_mechanism(mechanism)
    problem, left_out = options.read_problem(file, skip_unplaceable)
    problem = options.with_weights_of(problem, weights)
    changed = {text: change_problem(problem, text) for text in what_if or ()}
    allocation = solve(problem, mechanism, **given)
    if not changed:
        from fairlead.report.allocation_document import allocation_document

        document = allocation_document(allocation, options.title_of(file))
        output.show(document, allocation.to_frame, left_out=left_out)
        return
    from fairlead.report.changes import what_if_document

    def headings(frame: DataFrame) -> list[str]:
        from fairlead.report.numbers import in_words

        return [name if name in answers else in_words(name) for name in frame.columns]

    answers = {text: solve(other, mechanism, **given) for text, other in changed.items()}
    columns = {text: answer.user_tasks for text, answer in answers.items()}
    output.show(
        what_if_document(allocation, answers, options.title_of(file)),
        lambda: allocation.to_frame().with_columns(**columns),
        headings,
        left_out,
    )


def compare(
    files: Annotated[
        list[str],
        Argument(
            metavar="FILE [AFTER]",
            help="Problem file, YAML or JSON; - reads standard input. With a second file, show "
            "which users gain and lose.",
        ),
    ],
    mechanism: Annotated[
        list[str] | None,
        Option(
            "-m",
            "--mechanism",
            metavar="MECHANISM",
            help="Mechanism to compare, or FILE.py:NAME; may be repeated. [default: all "
            "mechanisms of fairlead for divisible tasks that accept the problem]",
        ),
    ] = None,
    *,
    mechanism_options: options.MechanismOptions,
    output: options.OutputOptions,
    weights: options.Weights = None,
    skip_unplaceable: options.SkipUnplaceable = False,
) -> None:
    """Divide one cluster by several mechanisms, or two clusters by one mechanism.

    With two files, the answer shows which users gain and lose by the changes in the second file.

    \b
    Examples:
      fairlead compare cluster.yaml -m drfh -m tsf -m ps-dsf
      fairlead compare before.yaml after.yaml -m ps-dsf
    """
    from fairlead.mechanisms.catalogue import COMPARED, find_mechanism
    from fairlead.mechanisms.comparison import compare as compare_mechanisms

    output.check(*files, others=[weights])
    asked = list(dict.fromkeys(map(load_mechanism, mechanism or ())))
    rows = [find_mechanism(name) for name in asked or COMPARED]
    given = mechanism_options.given
    for option in given:
        if not any(option in row.options for row in rows):
            raise InputError("none of these mechanisms takes it", f"--{option}")
    if len(files) > 1:
        if weights is not None:
            raise InputError(
                "is for one problem file; two files name their own weights", "--weights"
            )
        found = _compare_files(files, asked, given, skip_unplaceable)
        titles = options.title_of(files[0]), options.title_of(files[1])
        from fairlead.report.changes import comparison_of_problems

        output.show(comparison_of_problems(found, titles), found.to_frame)
        return
    file = files[0]
    problem, left_out = options.read_problem(file, skip_unplaceable)
    problem = options.with_weights_of(problem, weights)
    answers = compare_mechanisms(problem, asked or None, **given)
    faults: dict[str, FairleadError] = {**answers.unproved, **answers.failed}
    failed = {name: str(fault).removeprefix(f"{name}: ") for name, fault in faults.items()}
    if not answers:
        raise _no_answer(answers, failed)
    from fairlead.report.allocation_document import comparison_document

    refused = answers.refused | failed
    document = comparison_document(answers, refused, options.title_of(file))
    # The headings are names of mechanisms.
    output.show(document, answers.to_frame, lambda frame: frame.columns, left_out)
    for name, reason in failed.items():
        streams.complain(f"{name}: {reason}")
    if failed:
        sys.exit(2 if answers.failed else 1)


def _compare_files(
    files: list[str],
    mechanisms: list[str],
    given: dict[str, float | str],
    skip_unplaceable: bool,
) -> ProblemComparison:
    """Divide the problems of two files by one mechanism."""
    from fairlead.mechanisms.comparison import compare_problems

    if len(files) > 2:
        raise InputError(f"takes one file or two, not {len(files):,}", "compare")
    if len(mechanisms) > 1:
        raise InputError("with two files, name one mechanism only", "-m")
    if files.count("-") > 1:
        raise InputError("standard input can be read once only", "-")
    before, after = (options.read_problem(file, skip_unplaceable)[0] for file in files)
    mechanism = mechanisms[0] if mechanisms else DEFAULT_MECHANISM
    try:
        return compare_problems(before, after, mechanism, **given)
    except InputError as error:
        raise error.within(error.source or files[1]) from None


def _no_answer(answers: Allocations, failed: dict[str, str]) -> FairleadError:
    """Return the error of a comparison in which every mechanism failed or refused."""
    if failed:
        kind = FairleadError if answers.failed else CertificateError
        return kind("; ".join(f"{name}: {fault}" for name, fault in failed.items()))
    reasons = "; ".join(f"{name}: {reason}" for name, reason in answers.refused.items())
    return RefusalError("compare", f"no mechanism accepts this problem ({reasons})")


def dynamic(
    file: options.ProblemFile,
    solver: Annotated[
        str,
        Option(
            metavar="SOLVER",
            help="Solver: stack, halving, water or lp; all give the same result.",
        ),
    ] = "stack",
    as_json: options.AsJson = False,
    last: Annotated[bool, Option(help="Print only the last step as JSON.")] = False,
    lies: Annotated[
        int,
        Option(
            metavar="N",
            min=0,
            max=options.MOST_REPEATS,
            help="Try N false demands of users, to find one by which its user gains.",
        ),
    ] = 0,
    seed: Annotated[int, Option(metavar="N", min=0, help="Random seed of the false demands.")] = 0,
    skip_unplaceable: options.SkipUnplaceable = False,
) -> None:
    """Divide the pool among users that arrive in the file's order, by dynamic DRF.

    After each arrival, the users present divide a fraction of every resource: their weight over
    the weight of all users in the file. No user returns anything. The result is compared with DRF
    for all users at once.

    \b
    Example:
      fairlead dynamic cluster.yaml --lies 1000
    """
    problem, left_out = options.read_problem(file, skip_unplaceable)
    options.check_due(problem, file)
    if as_json and not last and problem.n_users > MOST_STEPS_IN_JSON:
        raise InputError(
            f"the shares of {problem.n_users:,} users after each of {problem.n_users:,} arrivals "
            "are too much for one JSON object; ask for the last step with --last",
            "--json",
        )
    from fairlead.mechanisms.dynamic_run import run_dynamic

    with streams.progress_bar(f"Arrivals, by {solver}") as on_progress:
        run = run_dynamic(problem, solver, on_progress)
    verdicts = _check_properties(run, lies, seed)
    from fairlead.report.dynamic_document import dynamic_document

    document = dynamic_document(run, verdicts, options.title_of(file), all_steps=not last)
    streams.show(document, as_json, left_out=left_out)


def _check_properties(run: DynamicRun, lies: int, seed: int) -> list[Verdict]:
    """Check the proved properties, and try `lies` false demands to find one that pays."""
    from fairlead.properties.dynamic import DynamicShares, check_dynamic

    shares = DynamicShares.from_run(run)
    verdicts = check_dynamic(shares)
    if lies:
        from fairlead.properties.dynamic import dynamic_drf, search_lies

        divide = dynamic_drf(shares.total_weight)
        with streams.progress_bar("Lies") as on_progress:
            verdicts.append(search_lies(shares, divide, lies, seed, on_progress))
    return verdicts


def mechanisms(as_json: options.AsJson = False) -> None:
    """List the mechanisms: idea, paper, proved properties and accepted problems.

    \b
    Example:
      fairlead mechanisms --json
    """
    streams.show(_catalogue_document(), as_json)


def _catalogue_document() -> Document:
    """Return the document of the catalogue of mechanisms."""
    from fairlead.mechanisms.catalogue import all_mechanisms
    from fairlead.report.document import Block, Document, Prose, pairs_table
    from fairlead.report.numbers import counted

    blocks: list[Block] = []
    values = {}
    rows = all_mechanisms()
    for row in rows:
        pairs = [("paper", row.paper), ("proved", "; ".join(map(str, row.proved)) or "nothing")]
        if row.refuted:
            pairs.append(("refuted", "; ".join(map(str, row.refuted))))
        pairs += [
            ("accepts", ", ".join(("weights", "zero demands", *row.accepts))),
            ("tasks", "whole" if row.whole_tasks else "divisible"),
        ]
        blocks += [Prose(f"{row.name}: {row.summary}", "strong"), pairs_table(row.name, pairs)]
        values[row.name] = {
            "summary": row.summary,
            "paper": row.paper,
            "proved": [claim.property for claim in row.proved],
            "proved_without": {
                claim.property: list(claim.without) for claim in row.proved if claim.without
            },
            "refuted": {
                refutation.property: f"{refutation.where}, though {refutation.statement}"
                for refutation in row.refuted
            },
            "accepts": list(row.accepts),
            "whole_tasks": row.whole_tasks,
        }
    lead = f"{counted(len(rows), 'mechanism')}, and their proved properties"
    answer = {"fairlead": 1, "mechanisms": values}
    return Document("mechanisms", "mechanisms", lead, None, blocks, lambda: answer)


def fill(
    file: options.ProblemFile,
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
            max=options.MOST_REPEATS,
            help="Fill T times with rrr, and print means with margins of error.",
        ),
    ] = 1,
    ray: options.RayAddress = None,
    *,
    output: options.OutputOptions,
    skip_unplaceable: options.SkipUnplaceable = False,
) -> None:
    """Fill the servers with whole tasks, one by one, until nothing more fits.

    The user with the lowest score gets the next task. With rrr the order of servers is random, and
    several trials show how much the answer depends on the order.

    \b
    Example:
      fairlead fill cluster.yaml --criterion ps-dsf --select rrr --trials 200 --seed 1
    """
    from fairlead.scheduler.policies import find_policy

    output.check(file)
    policy = find_policy(criterion, select, residual)
    if trials > 1 and not policy.is_random:
        raise InputError(
            f"{policy.name} gives the same answer each time; only rrr is random", "--trials"
        )
    problem, left_out = options.read_problem(file, skip_unplaceable)
    from fairlead.simulation.trials import run_trials

    with ExitStack() as stack:
        # Without Ray all trials run in this process.
        executor = None if ray is None else stack.enter_context(options.executor_on(ray))
        on_progress = stack.enter_context(streams.progress_bar(f"Filling by {policy.name}"))
        answer = run_trials(problem, policy, trials, seed, on_progress, executor)
    from fairlead.report.filling_document import filling_document

    document = filling_document(answer, options.title_of(file))
    output.show(document, answer.allocation.to_frame, left_out=left_out)
