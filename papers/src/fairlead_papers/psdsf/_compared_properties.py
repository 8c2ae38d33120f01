"""Table I of Khamse-Ashari et al. 2017: which mechanism has which property."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairlead.model.problem import Problem
from fairlead.properties.audit import audit
from fairlead.properties.lies import Lie, search_lies
from fairlead.properties.subject import subject_of
from fairlead.report.numbers import number, percent
from fairlead_papers.psdsf import PAPER
from fairlead_papers.psdsf._two_servers import example_of_figure_1
from fairlead_papers.reproduction import Finding, PrintedClaim, Reproduction, TextTable
from fairlead_papers.setting import Parameter, Setting
from fairlead_papers.surveys.random_problems import Distribution
from fairlead_papers.violations import Count, Place, count_violations, in_words

PROBLEMS = Parameter("problems", 300, quick=10)
LIES = Parameter("lies", 60, quick=10)
LOOK = Distribution(constrained=0.4)
# Mechanisms of the table's columns; the last one is PS-DSF's again, where its asterisks hold.
CALLED = {
    "drfh": "C-DRFH",
    "tsf": "TSF",
    "ps-dsf": "PS-DSF",
    "ps-dsf-tdm": "PS-DSF under TDM",
}
TABLE = (
    "sharing-incentive",
    "envy-freeness",
    "strategy-proofness",
    "pareto-optimality",
    "bottleneck-fairness",
)
# What Theorem 3 and the introduction add; time division of one server is not DRF.
ALSO_OF_PS_DSF = ("single-resource-fairness", "single-server-drf")
TICKS = {
    "drfh": TABLE[1:4],
    "tsf": TABLE[:4],
    "ps-dsf": (TABLE[0], TABLE[1], TABLE[4], *ALSO_OF_PS_DSF),
    "ps-dsf-tdm": (*TABLE, ALSO_OF_PS_DSF[0]),
}
# A difference that is no rounding.
NOTABLE = 1e-3
NOTE = (
    "TSF's tick for sharing incentive is refuted: it counts the tasks that a user could run were "
    "there no placement constraints, and so makes up to a user for servers that it may not use, at "
    "the expense of others. Every other tick stood up to the search, which proves nothing; every "
    "blank has a witness."
)


@PAPER.reproduces(
    "table-1",
    "Table I",
    "which properties C-DRFH, TSF and PS-DSF have under placement constraints",
    "TSF and PS-DSF have sharing incentive, all are envy-free, only PS-DSF is bottleneck fair; it "
    "is strategy-proof and Pareto optimal under TDM only, the others are always",
    "three minutes",
    known_to_differ=True,
    parameters=(
        PROBLEMS,
        LIES,
    ),
)
def reproduce(setting: Setting) -> Reproduction:
    """Search for violations on random problems, and show a witness of each blank; two minutes."""
    problems, lies = setting.value(PROBLEMS), setting.value(LIES)
    wanted = (*TABLE, *ALSO_OF_PS_DSF)
    counts = count_violations(setting, tuple(CALLED), wanted, LOOK, problems, lies)
    witnesses = severities(setting.seed)
    refuting = audit(tsf_witness(), "tsf", properties=(TABLE[0],))[0]
    return Reproduction(
        setting=(
            f"{problems} random problems of at most {LOOK.users} users, {LOOK.servers} servers and "
            f"{LOOK.resources} resources, positive demands, placement constraints; {lies} lies on "
            f"each, {setting.seed_text}."
        ),
        claims=judge_table(counts, witnesses, refuting.severity),
        findings=(
            Finding(
                "II-B and Table I: TSF gives sharing incentive under placement constraints.",
                "Refuted. Servers of (7, 7) and (21, 7); Ana's tasks take (7, 1), Bo's (1, 1), and "
                f"Bo may only run on the larger. Ana runs {number(refuting.witness['tasks'])} "
                f"tasks; half of every server would run {number(refuting.witness['slice'])}.",
                "fairlead audit examples/refuted/tsf-sharing-incentive.yaml -m tsf",
            ),
        ),
        note=NOTE,
        tables=(_table(counts),),
        data={
            name: {of: vars(counts[name, of]) for of in (*TABLE, *ALSO_OF_PS_DSF)}
            for name in CALLED
        },
    )


def tsf_witness() -> Problem:
    """Return the smallest problem known on which TSF gives less than a slice of every server."""
    return Problem.from_arrays(
        [[7, 7], [21, 7]], [[7, 1], [1, 1]], eligible=[[1, 1], [0, 1]], users=["ana", "bo"]
    )


def severities(seed: int) -> dict[Place, float]:
    """Return how far each blank of the table falls short on a problem that shows it.

    For strategy-proofness of PS-DSF, what a lie about servers brings.
    """
    one_bottleneck = example_of_figure_1()
    shown = {
        ("drfh", "sharing-incentive"): Problem.from_arrays([[7, 1], [1, 7]], [[1, 10], [1, 1]]),
        ("drfh", "bottleneck-fairness"): one_bottleneck,
        ("tsf", "bottleneck-fairness"): one_bottleneck,
        ("ps-dsf", "pareto-optimality"): Problem.from_arrays([[1, 5], [1, 8]], [[1, 1], [1, 9]]),
    }
    found = {
        (name, of): audit(problem, name, properties=(of,))[0].severity
        for (name, of), problem in shown.items()
    }
    problem = Problem.from_arrays([[6, 5], [6, 3]], [[1, 9], [7, 1], [9, 2]])
    lie = Lie(1, problem.demand[1], np.array([True, False]), None)
    verdict, _ = search_lies(subject_of(problem, "ps-dsf"), 1, seed, first=lie)
    found["ps-dsf", "strategy-proofness"] = verdict.severity
    return found


def judge_table(
    counts: Mapping[Place, Count], witnesses: Mapping[Place, float], tsf_short: float
) -> tuple[PrintedClaim, ...]:
    """Check for each tick whether a violation was found, and of each blank whether there is one.

    `witnesses` has how far the property is missed on a problem that shows a blank, `tsf_short` how
    far TSF misses sharing incentive on the problem that refutes its tick.
    """
    claims = []
    for name, ticks in TICKS.items():
        for of in ticks:
            count = counts[name, of]
            measured = count.sentence
            refuted = (name, of) == ("tsf", TABLE[0]) and tsf_short > NOTABLE
            if refuted:
                measured += f", and a small witness that misses it by {percent(tsf_short)}"
            sentence = f"{CALLED[name]} has {in_words(of)}"
            claims.append(PrintedClaim(sentence, count.none and not refuted, measured))
    for (name, of), severity in witnesses.items():
        claims.append(
            PrintedClaim(
                f"{CALLED[name]} lacks {in_words(of)}",
                severity > NOTABLE,
                f"a witness misses it by {percent(severity)}",
            )
        )
    return tuple(claims)


def _table(counts: Mapping[Place, Count]) -> TextTable:
    rows = [
        [
            in_words(of),
            *(f"{counts[name, of]}{' (tick)' if of in TICKS[name] else ''}" for name in CALLED),
        ]
        for of in (*TABLE, *ALSO_OF_PS_DSF)
    ]
    caption = "Violations found, of problems that ask; where the paper has a tick it is said."
    return TextTable(caption, ["", *CALLED.values()], rows)
