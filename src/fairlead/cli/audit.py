"""``fairlead audit``: is it fair? Proofs, or the victims by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.options import (
    Alpha,
    AsJson,
    ReportPath,
    Score,
    SkipUnplaceable,
    given_options,
    read_problem,
    title_of,
)
from fairlead.cli.progress import stages_bar
from fairlead.cli.streams import complain, emit_and_write, terminal_width, wants_plain_text
from fairlead.errors import InputError

if TYPE_CHECKING:
    from fairlead.properties.audit import Audit
    from fairlead.properties.survey import Survey

DEFAULT_MECHANISM = "ps-dsf"
# Those of Khamse-Ashari et al. 2017, Table I.
SURVEYED = ("drfh", "tsf", "ps-dsf", "ps-dsf-tdm")
LIES, LIES_IN_SURVEY = 200, 60


def audit(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="Problem file, YAML or JSON; - reads standard input."
        ),
    ] = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            "-m",
            "--mechanism",
            metavar="MECHANISM",
            help="What to audit; with an allocation, whose shares are the fair ones; ps-dsf. "
            "With --random it may be repeated.",
        ),
    ] = None,
    allocation: Annotated[
        str | None,
        typer.Option(
            metavar="ALLOC.json", help="Audit what this file says everybody holds of FILE."
        ),
    ] = None,
    kubernetes: Annotated[
        str | None,
        typer.Option(
            metavar="DUMP.json",
            help="Audit a cluster as `kubectl get nodes,pods -A -o json` prints it.",
        ),
    ] = None,
    random: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Audit mechanisms on so many random problems."),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="PROPERTY", help="Only this one; may be repeated. All if absent."
        ),
    ] = None,
    lies: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help=f"Lies to try in search of one that pays; {LIES}, and {LIES_IN_SURVEY} on each "
            "random problem.",
        ),
    ] = None,
    departures: Annotated[
        int, typer.Option(metavar="N", min=1, help="Departures of a user to try, at most.")
    ] = 40,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of all that is random.")] = 0,
    lenient: Annotated[
        bool,
        typer.Option("--lenient", help="Skip rows of an allocation or dump that cannot be used."),
    ] = False,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMESPACE=W", help="Weight of a namespace of the dump; may be repeated."
        ),
    ] = None,
    users: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Random problems: users at most; 4.")
    ] = None,
    servers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Random problems: servers at most; 3.")
    ] = None,
    resources: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Random problems: resources at most; 3."),
    ] = None,
    heterogeneity: Annotated[
        float | None,
        typer.Option(
            metavar="D",
            min=0,
            max=6,
            help="Random problems: decades over which amounts spread; 1.",
        ),
    ] = None,
    constrained: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            min=0,
            max=1,
            help="Random problems: users with placement constraints; 0.3.",
        ),
    ] = None,
    zero_demand: Annotated[
        float | None,
        typer.Option(metavar="P", min=0, max=1, help="Random problems: amounts that are zero; 0."),
    ] = None,
    limited: Annotated[
        float | None,
        typer.Option(
            metavar="P", min=0, max=1, help="Random problems: users with finite tasks; 0."
        ),
    ] = None,
    weighted: Annotated[
        float | None,
        typer.Option(metavar="P", min=0, max=1, help="Random problems: those with weights; 0.3."),
    ] = None,
    rated: Annotated[
        float | None,
        typer.Option(
            metavar="P", min=0, max=1, help="Random problems: those with rates, not demands; 0."
        ),
    ] = None,
    alpha: Alpha = None,
    score: Score = None,
    as_json: AsJson = False,
    report: ReportPath = None,
    save_witness: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write problem files into a new folder: the truth and a lie that pays; with "
            "--random, the smallest witness of each violation.",
        ),
    ] = None,
    skip_unplaceable: SkipUnplaceable = False,
) -> None:
    """Check which fairness properties hold, and show a witness where one does not.

    Of a mechanism on a problem; of an allocation that somebody else's scheduler made; of a
    Kubernetes cluster; or of mechanisms on random problems. The exit status is 1 if a property
    fails (on random problems: one that is claimed).

    \b
    Examples:
      fairlead audit cluster.yaml -m drfh --save-witness witness
      fairlead audit cluster.yaml --allocation theirs.json -m ps-dsf --report audit.html
      fairlead audit --kubernetes dump.json --lenient
      fairlead audit --random 200 -m drfh -m tsf -m ps-dsf
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    _one_source(file, allocation, kubernetes, random)
    outputs = _Outputs(as_json, report, save_witness, source=file or kubernetes or "-")
    outputs.check()
    names = list(dict.fromkeys(mechanism or ()))
    options = given_options(alpha, score)
    _check_names(names, properties, options, several=random is not None)
    look = {
        "users": users,
        "servers": servers,
        "resources": resources,
        "heterogeneity": heterogeneity,
        "constrained": constrained,
        "zero_demand": zero_demand,
        "limited": limited,
        "weighted": weighted,
        "rated": rated,
    }
    look = {name: value for name, value in look.items() if value is not None}
    if lenient and allocation is None and kubernetes is None:
        raise InputError("is for --allocation and --kubernetes", "--lenient")
    if weight and kubernetes is None:
        raise InputError("is for --kubernetes; a problem file says the weights", "--weight")
    if random is not None:
        _survey(names or SURVEYED, random, look, properties, seed, lies, outputs)
        return
    for name in look:
        raise InputError("is for --random", f"--{name.replace('_', '-')}")
    left_out: list[str] = []
    if kubernetes is not None:
        from fairlead.formats.kubernetes import read_kubernetes

        subject: Any = read_kubernetes(kubernetes, lenient=lenient, weights=_weights(weight))
        problem = subject.problem
    else:
        assert file is not None
        problem, left_out = read_problem(file, skip_unplaceable)
        subject = names[0] if names else DEFAULT_MECHANISM
        if allocation is not None:
            from fairlead.formats.allocation_file import read_allocation

            subject = read_allocation(allocation, problem, lenient=lenient)
    fair = None
    if not isinstance(subject, str):
        for omission in subject.skipped:
            complain(f"skipped: {omission}")
        fair = names[0] if names else DEFAULT_MECHANISM
    from fairlead.properties.audit import audit as find_verdicts

    with stages_bar() as on_progress:
        found = find_verdicts(
            problem,
            subject,
            fair=fair,
            properties=properties,
            lies=LIES if lies is None else lies,
            departures=departures,
            seed=seed,
            name=None if isinstance(subject, str) else title_of(allocation or kubernetes or "-"),
            on_progress=on_progress,
            **options,
        )
    outputs.show_audit(found, title_of(file or kubernetes or "-"), left_out)


@dataclass(frozen=True)
class _Outputs:
    """Where results go."""

    as_json: bool
    report: Path | None
    witness: Path | None
    source: str

    def check(self) -> None:
        """Refuse what cannot be written, before any work is done for it."""
        if self.report is not None:
            from fairlead.formats.text_file import check_writable

            check_writable(self.report, source=self.source)
        if self.witness is not None:
            from fairlead.properties.witness_files import check_folder

            check_folder(self.witness)

    def show_audit(self, found: Audit, title: str, left_out: list[str]) -> None:
        """Show an audit, and exit with 1 if a property fails."""
        page = None
        if self.report is not None:
            from fairlead.report.audit_page import audit_page

            page = audit_page(found, title, left_out)
        if self.as_json:
            values = found.to_dict() | ({"left_out": left_out} if left_out else {})
            text = _json(values)
        else:
            from fairlead.report.audit_tables import audit_tables

            text = audit_tables(found, width=terminal_width(), plain=wants_plain_text())
        try:
            emit_and_write(text, (self.report, page))
        finally:
            if self.witness is not None:
                from fairlead.properties.witness_files import save_audit_witnesses

                _say_written(
                    save_audit_witnesses(found, self.witness), "no lie that pays was found"
                )
        if not found.holds:
            raise typer.Exit(1)

    def show_survey(self, found: Survey) -> None:
        """Show a survey, and exit with 1 if a claim is refuted."""
        page = None
        if self.report is not None:
            from fairlead.report.survey_page import survey_page

            page = survey_page(found, f"{found.problems:,} random problems")
        if self.as_json:
            text = _json(found.to_dict())
        else:
            from fairlead.report.survey_tables import survey_tables

            text = survey_tables(found, width=terminal_width(), plain=wants_plain_text())
        try:
            emit_and_write(text, (self.report, page))
        finally:
            if self.witness is not None:
                from fairlead.properties.witness_files import save_survey_witnesses

                _say_written(save_survey_witnesses(found, self.witness), "there is no witness")
        if not found.holds:
            raise typer.Exit(1)


def _survey(
    names: Sequence[str],
    problems: int,
    look: Mapping[str, Any],
    properties: list[str] | None,
    seed: int,
    lies: int | None,
    outputs: _Outputs,
) -> None:
    from fairlead.properties.audit import PROPERTIES
    from fairlead.properties.drawing import Distribution
    from fairlead.properties.survey import survey

    with stages_bar() as on_progress:
        found = survey(
            names,
            problems,
            distribution=Distribution(**look),
            properties=properties or PROPERTIES,
            seed=seed,
            lies=LIES_IN_SURVEY if lies is None else lies,
            on_progress=on_progress,
        )
    outputs.show_survey(found)


def _one_source(
    file: str | None, allocation: str | None, kubernetes: str | None, random: int | None
) -> None:
    """Refuse anything but one thing to audit."""
    given = [
        name
        for name, value in (("FILE", file), ("--kubernetes", kubernetes), ("--random", random))
        if value is not None
    ]
    if not given:
        raise InputError("name a problem file, or --kubernetes DUMP.json, or --random N", "audit")
    if len(given) > 1:
        raise InputError(f"cannot audit {' and '.join(given)} at once", "audit")
    if allocation is not None and file is None:
        raise InputError("needs the problem file that it divides", "--allocation")


def _check_names(
    names: list[str],
    properties: list[str] | None,
    options: Mapping[str, float | str],
    *,
    several: bool,
) -> None:
    from fairlead.mechanisms.catalogue import find_mechanism
    from fairlead.properties.audit import check_properties

    for name in names:
        find_mechanism(name)
    check_properties(properties)
    if len(names) > 1 and not several:
        raise InputError("one mechanism at a time, except with --random", "-m")
    if several:
        for option in options:
            raise InputError("not with --random", f"--{option}")
    elif options:
        find_mechanism(names[0] if names else DEFAULT_MECHANISM).refuse_unknown_options(
            dict(options)
        )


def _weights(given: list[str] | None) -> dict[str, float]:
    """Read NAMESPACE=W pairs."""
    weights = {}
    for pair in given or ():
        name, _, number = pair.rpartition("=")
        try:
            weights[name] = float(number)
        except ValueError:
            weights[name] = 0.0
        if not name or not 0 < weights[name] < float("inf"):
            raise InputError(
                f"must be a namespace, = and a positive number, not {pair!r}", "--weight"
            )
    return weights


def _say_written(paths: Sequence[Path], why_none: str) -> None:
    for path in paths:
        complain(f"written: {path}")
    if not paths:
        complain(f"nothing written: {why_none}")


def _json(values: Mapping[str, Any]) -> str:
    import json

    return json.dumps(values, indent=2, allow_nan=False) + "\n"
