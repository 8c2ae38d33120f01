"""``fairlead audit``: check fairness properties, each with a proof or a witness."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fairlead.cli import options, streams
from fairlead.cli.own_code import load_mechanism
from fairlead.cli.parameters import Argument, Option
from fairlead.errors import InputError

if TYPE_CHECKING:
    from polars import DataFrame

    from fairlead.formats.queue_file import QueueFile
    from fairlead.model.problem import Problem
    from fairlead.model.queues import Limits
    from fairlead.model.quotas import Quotas
    from fairlead.properties.audit import Audit

DEFAULT_MECHANISM = "ps-dsf"
LIES = 200


def audit(
    file: Annotated[
        str | None,
        Argument(metavar="FILE", help="Problem file, YAML or JSON; - reads standard input."),
    ] = None,
    mechanism: Annotated[
        list[str] | None,
        Option(
            "-m",
            "--mechanism",
            metavar="MECHANISM",
            help="Mechanism to audit, or FILE.py:NAME; for an allocation or a Kubernetes dump, the "
            "mechanism that defines fair shares. [default: ps-dsf]",
        ),
    ] = None,
    allocation: Annotated[
        str | None,
        Option(
            metavar="ALLOC.json",
            help="Audit this allocation, made elsewhere, of the problem in FILE.",
        ),
    ] = None,
    kubernetes: Annotated[
        list[str] | None,
        Option(
            metavar="DUMP",
            help="Audit the output of `kubectl get nodes,pods -A -o json` (or yaml); - reads "
            "standard input. May be repeated, for separate nodes and pods.",
        ),
    ] = None,
    properties: Annotated[
        list[str] | None,
        Option(
            "--property",
            metavar="PROPERTY",
            help="Check only this property, such as envy-freeness; may be repeated.",
        ),
    ] = None,
    max_under: Annotated[
        str | None,
        Option(
            metavar="20%",
            help="Fail if a user is below its fair share by more than this fraction of it. A "
            "mechanism's users are compared with their slices of every server. Without --property, "
            "only this and feasibility are checked.",
        ),
    ] = None,
    queues: options.TreeFile = None,
    lies: Annotated[
        int | None,
        Option(
            metavar="N",
            min=0,
            max=options.MOST_REPEATS,
            help="Try N lies of users about their demands, rates or servers, to find a lie by "
            f"which its user gains. [default: {LIES}]",
        ),
    ] = None,
    seed: Annotated[
        int, Option(metavar="N", min=0, help="Random seed of the tried lies and departures.")
    ] = 0,
    lenient: Annotated[
        bool,
        Option(help="Skip unusable rows of an allocation or a Kubernetes dump."),
    ] = False,
    weight: Annotated[
        list[str] | None,
        Option(
            metavar="USER=W",
            help="Weight of a user of a Kubernetes dump, such as a namespace; repeatable.",
        ),
    ] = None,
    weights: options.Weights = None,
    resource: Annotated[
        list[str] | None,
        Option(
            metavar="NAME", help="Count only this resource of a Kubernetes dump; may be repeated."
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="Ignore this resource of a Kubernetes dump, such as pods; may be repeated.",
        ),
    ] = None,
    user_from: Annotated[
        str | None,
        Option(
            metavar="namespace|label:KEY",
            help="User of each pod of a Kubernetes dump: its namespace, or the value of its label "
            "KEY. Pods without the label belong to namespace:NAME. [default: namespace]",
        ),
    ] = None,
    *,
    mechanism_options: options.MechanismOptions,
    output: options.OutputOptions,
    save_witness: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Write the true problem and one with a profitable lie into a new folder.",
        ),
    ] = None,
    skip_unplaceable: options.SkipUnplaceable = False,
) -> None:
    """Check which fairness properties hold, and show a witness of each failure.

    The subject is a mechanism on a problem, an allocation by another scheduler, or a Kubernetes
    cluster. The exit status is 1 if a property fails.

    \b
    Examples:
      fairlead audit cluster.yaml -m drfh --save-witness witness
      fairlead audit cluster.yaml --allocation theirs.json -m ps-dsf --report audit.html
      fairlead audit --kubernetes nodes.json --kubernetes pods.json --ignore pods
    """
    _check_sources(file, allocation, kubernetes)
    sources = kubernetes or [file or "-"]
    what = "dump" if kubernetes else "problem file"
    output.check(*sources, what=what, others=[allocation, queues, weights])
    if save_witness is not None:
        from fairlead.properties.witness_files import check_folder

        check_folder(save_witness)
    largest_shortfall = (
        None if max_under is None else options.parse_fraction(max_under, "--max-under")
    )
    if largest_shortfall is not None and properties is None:
        properties = ["feasibility"]
    names = list(dict.fromkeys(map(load_mechanism, mechanism or ())))
    given: dict[str, Any] = mechanism_options.given
    if len(names) > 1:
        raise InputError("must be one mechanism", "-m")
    if lenient and allocation is None and not kubernetes:
        raise InputError("is for --allocation and --kubernetes", "--lenient")
    if weights is not None and kubernetes:
        raise InputError("is for a problem file; for a dump name --weight USER=W", "--weights")
    left_out: list[str] = []
    subject: Any = names[0] if names else DEFAULT_MECHANISM
    if kubernetes:
        from fairlead.formats.kubernetes import read_kubernetes

        subject = read_kubernetes(
            kubernetes,
            lenient=lenient,
            weights=options.parse_numbers(weight, "--weight"),
            resources=resource or None,
            ignore=ignore or (),
            user_from="namespace" if user_from is None else user_from,
        )
        problem = subject.problem
    else:
        assert file is not None
        _refuse_options_of_dumps(weight, resource, ignore, user_from)
        problem, left_out = options.read_problem(file, skip_unplaceable)
        if weights is None:
            options.check_due(problem, file)
        if allocation is not None:
            from fairlead.formats.allocation_file import read_allocation

            subject = read_allocation(allocation, problem, lenient=lenient)
    is_mechanism = isinstance(subject, str)
    for omission in () if is_mechanism else subject.skipped:
        streams.complain(f"skipped: {omission}")
    for note in () if is_mechanism else subject.not_modelled:
        streams.complain(f"not modelled: {note}")
    quotas: Quotas = {}
    limits: Limits = {}
    if queues is not None:
        problem, subject, file_of_queues = _in_queues(problem, subject, queues)
        quotas, limits = file_of_queues.quotas, file_of_queues.limits
    if weights is not None:
        # Only now: the holdings, read above, repeat the weights of the problem file.
        problem = options.with_weights_of(problem, weights)
        options.check_due(problem, weights)
        if not isinstance(subject, str):
            subject = replace(subject, problem=problem)
    from fairlead.properties.audit import audit as find_verdicts
    from fairlead.report.audit_document import audit_document, share_limit_of

    title = ", ".join(map(options.title_of, sources))
    with streams.stages_bar() as on_progress:
        found = find_verdicts(
            problem,
            subject,
            fair=None if is_mechanism else (names[0] if names else DEFAULT_MECHANISM),
            properties=properties,
            quotas=quotas,
            limits=limits,
            lies=LIES if lies is None else lies,
            seed=seed,
            name=None if is_mechanism else options.title_of(allocation) if allocation else title,
            on_progress=on_progress,
            **given,
        )
    share_limit = None if largest_shortfall is None else share_limit_of(found, largest_shortfall)
    document = audit_document(found, title, share_limit)

    def frame() -> DataFrame:
        rows = found.to_frame()
        if share_limit is None:
            return rows
        row = ("max-under", share_limit.finding, True, 0, share_limit.sentence)
        return rows.vstack(type(rows)([row], schema=rows.schema, orient="row"))

    try:
        output.show(document, frame, left_out=left_out)
    finally:
        if save_witness is not None:
            _save_witnesses(found, save_witness)
    if not found.holds or (share_limit is not None and not share_limit.holds):
        sys.exit(1)


def _refuse_options_of_dumps(
    weight: list[str] | None,
    resource: list[str] | None,
    ignore: list[str] | None,
    user_from: str | None,
) -> None:
    """Raise InputError for options that a problem file does not take."""
    if weight:
        raise InputError("is for --kubernetes; for a problem file name --weights FILE", "--weight")
    for_dumps = {"--resource": resource, "--ignore": ignore, "--user-from": user_from}
    for option, given in for_dumps.items():
        if given is not None:
            raise InputError("is for --kubernetes", option)


def _in_queues(problem: Problem, subject: Any, path: Path) -> tuple[Problem, Any, QueueFile]:
    """Return problem and subject with their users in a file's tree of queues, and the file."""
    from fairlead.errors import ProblemError
    from fairlead.formats.queue_file import load_queues
    from fairlead.model.quotas import check_cluster

    file = load_queues(path)
    try:
        tree = file.of(problem.users.names)
        if tree is not None:
            problem = problem.in_tree(tree)
        check_cluster(file.quotas, problem.users.parents(), problem.cluster)
    except ProblemError as error:
        raise error.within(str(path)) from None
    if not isinstance(subject, str):
        subject = replace(subject, problem=problem)
    return problem, subject, file


def _save_witnesses(found: Audit, folder: Path) -> None:
    """Write the true problem and one with a lie that pays, and list the written files."""
    from fairlead.properties.witness_files import save_audit_witnesses

    paths = save_audit_witnesses(found, folder)
    for path in paths:
        streams.complain(f"written: {path}")
    if not paths:
        streams.complain("nothing written: no lie that pays was found")


def _check_sources(file: str | None, allocation: str | None, kubernetes: list[str] | None) -> None:
    """Raise InputError unless there is exactly one subject to audit."""
    if file is None and not kubernetes:
        raise InputError("name a problem file, or --kubernetes DUMP.json", "audit")
    if file is not None and kubernetes:
        raise InputError("cannot audit FILE and --kubernetes at once", "audit")
    if allocation is not None and file is None:
        raise InputError("needs the problem file that it divides", "--allocation")
