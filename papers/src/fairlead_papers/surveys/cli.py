"""``fairlead audit --random``: audit mechanisms on random problems."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from fairlead.cli.options import MOST_REPEATS, AsJson, RayAddress, executor_on
from fairlead.cli.own_code import load_mechanism, refuse_mechanisms_on_ray
from fairlead.cli.parameters import Option
from fairlead.cli.streams import complain, show, stages_bar

# The mechanisms of Khamse-Ashari et al. 2017, Table I.
SURVEYED = ("drfh", "tsf", "ps-dsf", "ps-dsf-tdm")
LIES = 60


def _probability(help_text: str) -> Any:
    """Return an option for a probability, from 0 to 1."""
    return Option(metavar="P", min=0, max=1, help=help_text)


def survey_random_problems(
    random: Annotated[
        int,
        Option(metavar="N", min=1, max=MOST_REPEATS, help="Number of random problems."),
    ],
    mechanism: Annotated[
        list[str] | None,
        Option(
            "-m",
            "--mechanism",
            metavar="MECHANISM",
            help="Mechanism to audit, or FILE.py:NAME; may be repeated. "
            f"[default: {', '.join(SURVEYED)}]",
        ),
    ] = None,
    properties: Annotated[
        list[str] | None,
        Option(
            "--property",
            metavar="PROPERTY",
            help="Property to check; may be repeated. All if absent.",
        ),
    ] = None,
    lies: Annotated[
        int,
        Option(
            metavar="N",
            min=0,
            max=MOST_REPEATS,
            help="Lies to try on each problem, for strategy-proofness.",
        ),
    ] = LIES,
    seed: Annotated[int, Option(metavar="N", min=0, help="Seed of all randomness.")] = 0,
    users: Annotated[
        int | None,
        Option(metavar="N", min=2, help="Largest number of users. [default: 4]"),
    ] = None,
    servers: Annotated[
        int | None,
        Option(metavar="N", min=1, help="Largest number of servers. [default: 3]"),
    ] = None,
    resources: Annotated[
        int | None,
        Option(metavar="N", min=1, help="Largest number of resources. [default: 3]"),
    ] = None,
    heterogeneity: Annotated[
        float | None,
        Option(
            metavar="D",
            min=0,
            max=6,
            help="Orders of magnitude over which amounts spread. [default: 1]",
        ),
    ] = None,
    constrained: Annotated[
        float | None,
        _probability("Probability that a user has a placement constraint. [default: 0.3]"),
    ] = None,
    zero_demand: Annotated[
        float | None, _probability("Probability that an amount is zero. [default: 0]")
    ] = None,
    limited: Annotated[
        float | None, _probability("Probability that a user has finite tasks. [default: 0]")
    ] = None,
    weighted: Annotated[
        float | None, _probability("Probability that a problem has weights. [default: 0.3]")
    ] = None,
    rated: Annotated[
        float | None, _probability("Probability that a problem has given rates. [default: 0]")
    ] = None,
    ray: RayAddress = None,
    as_json: AsJson = False,
    save_witness: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Write the smallest witness against each property into a new folder.",
        ),
    ] = None,
) -> None:
    """Audit mechanisms on random problems.

    Draws problems, audits each mechanism on all of them, and shrinks the smallest witness against
    each property. The exit status is 1 if a property fails that a paper claims.

    \b
    Example:
      fairlead audit --random 200 -m drfh -m tsf -m ps-dsf
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    from fairlead.mechanisms.catalogue import find_mechanism
    from fairlead.properties.audit import PROPERTIES, check_properties
    from fairlead.properties.witness_files import check_folder

    if save_witness is not None:
        check_folder(save_witness)
    names = list(dict.fromkeys(map(load_mechanism, mechanism or SURVEYED)))
    for name in names:
        find_mechanism(name)
    refuse_mechanisms_on_ray(names, ray)
    check_properties(properties)
    given = {
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
    from fairlead.report.numbers import counted
    from fairlead_papers.surveys._survey_document import survey_document
    from fairlead_papers.surveys.random_problems import Distribution
    from fairlead_papers.surveys.survey import save_survey_witnesses, survey

    drawn: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    with executor_on(ray) as executor, stages_bar() as on_progress:
        found = survey(
            names,
            random,
            distribution=Distribution(**drawn),
            properties=properties or PROPERTIES,
            seed=seed,
            lies=lies,
            executor=executor,
            on_progress=on_progress,
        )
    try:
        show(survey_document(found, counted(random, "random problem")), as_json)
    finally:
        if save_witness is not None:
            paths = save_survey_witnesses(found, save_witness)
            for path in paths:
                complain(f"written: {path}")
            if not paths:
                complain("nothing written: there is no witness")
    if not found.holds:
        sys.exit(1)
