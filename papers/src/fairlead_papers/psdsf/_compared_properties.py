"""Reproduce Table I of Khamse-Ashari et al. 2017: which mechanism has which property."""

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
from fairlead_papers.surveys.survey import Count, MechanismProperty, count_violations, in_words

PROBLEMS = Parameter("problems", 300, quick=10)
LIES = Parameter("lies", 60, quick=10)
DISTRIBUTION = Distribution(constrained=0.4)
# The table's names of mechanisms. PS-DSF under TDM also has the ticks with an asterisk.
PRINTED_NAMES = {
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
# Properties that Theorem 3 and the introduction add. PS-DSF under TDM on one server is not DRF.
MORE_OF_PS_DSF = ("single-resource-fairness", "single-server-drf")
TICKS = {
    "drfh": TABLE[1:4],
    "tsf": TABLE[:4],
    "ps-dsf": (TABLE[0], TABLE[1], TABLE[4], *MORE_OF_PS_DSF),
    "ps-dsf-tdm": (*TABLE, MORE_OF_PS_DSF[0]),
}
# A violation of at most this severity may be due to rounding.
NOTABLE = 1e-3
NOTE = (
    "TSF's tick for sharing incentive is refuted: TSF counts the tasks that a user could run "
    "without placement constraints, and so compensates a user for servers that it may not use, at "
    "the expense of others. The search refutes no other tick, which is no proof; every blank has a "
    "witness."
)


@PAPER.reproduces(
    "table-1",
    "Table I",
    "which properties C-DRFH, TSF and PS-DSF have under placement constraints",
    "TSF and PS-DSF have sharing incentive, all are envy-free, only PS-DSF is bottleneck fair; it "
    "is strategy-proof and Pareto optimal under TDM only, the others always",
    "three minutes",
    known_to_differ=True,
    parameters=(
        PROBLEMS,
        LIES,
    ),
)
def reproduce(setting: Setting) -> Reproduction:
    """Search for violations on random problems, and show a witness for each blank."""
    problems, lies = setting.value(PROBLEMS), setting.value(LIES)
    wanted = (*TABLE, *MORE_OF_PS_DSF)
    counts = count_violations(setting, tuple(PRINTED_NAMES), wanted, DISTRIBUTION, problems, lies)
    witnesses = measure_blanks(setting.seed)
    refuting = audit(tsf_witness(), "tsf", properties=(TABLE[0],))[0]
    return Reproduction(
        setting=(
            f"{problems} random problems of at most {DISTRIBUTION.users} users, "
            f"{DISTRIBUTION.servers} servers and {DISTRIBUTION.resources} resources, positive "
            f"demands, placement constraints; {lies} lies on each, {setting.seed_text}."
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
            name: {property_name: vars(counts[name, property_name]) for property_name in wanted}
            for name in PRINTED_NAMES
        },
    )


def tsf_witness() -> Problem:
    """Return the smallest known problem on which TSF violates sharing incentive."""
    return Problem.from_arrays(
        [[7, 7], [21, 7]], [[7, 1], [1, 1]], eligible=[[1, 1], [0, 1]], users=["ana", "bo"]
    )


def measure_blanks(seed: int) -> dict[MechanismProperty, float]:
    """Return, for each blank of the table, the severity of the violation by a witness.

    For strategy-proofness of PS-DSF it is the gain by a lie about servers.
    """
    one_bottleneck = example_of_figure_1()
    witness_of_blank = {
        ("drfh", "sharing-incentive"): Problem.from_arrays([[7, 1], [1, 7]], [[1, 10], [1, 1]]),
        ("drfh", "bottleneck-fairness"): one_bottleneck,
        ("tsf", "bottleneck-fairness"): one_bottleneck,
        ("ps-dsf", "pareto-optimality"): Problem.from_arrays([[1, 5], [1, 8]], [[1, 1], [1, 9]]),
    }
    found = {
        (name, property_name): audit(problem, name, properties=(property_name,))[0].severity
        for (name, property_name), problem in witness_of_blank.items()
    }
    problem = Problem.from_arrays([[6, 5], [6, 3]], [[1, 9], [7, 1], [9, 2]])
    lie = Lie(1, problem.demand[1], np.array([True, False]), None)
    verdict, _ = search_lies(subject_of(problem, "ps-dsf"), 1, seed, first=lie)
    found["ps-dsf", "strategy-proofness"] = verdict.severity
    return found


def judge_table(
    counts: Mapping[MechanismProperty, Count],
    witnesses: Mapping[MechanismProperty, float],
    tsf_severity: float,
) -> tuple[PrintedClaim, ...]:
    """Judge whether each tick stands and each blank has a witness.

    `counts` has the violations found on random problems, `witnesses` the severity of each blank's
    witness, `tsf_severity` that of TSF's violation of sharing incentive.
    """
    claims = []
    for name, ticks in TICKS.items():
        for property_name in ticks:
            count = counts[name, property_name]
            measured = count.sentence
            refuted = (name, property_name) == ("tsf", TABLE[0]) and tsf_severity > NOTABLE
            if refuted:
                measured += f", and a small witness that misses it by {percent(tsf_severity)}"
            sentence = f"{PRINTED_NAMES[name]} has {in_words(property_name)}"
            claims.append(PrintedClaim(sentence, count.holds and not refuted, measured))
    for (name, property_name), severity in witnesses.items():
        claims.append(
            PrintedClaim(
                f"{PRINTED_NAMES[name]} lacks {in_words(property_name)}",
                severity > NOTABLE,
                f"a witness misses it by {percent(severity)}",
            )
        )
    return tuple(claims)


def _table(counts: Mapping[MechanismProperty, Count]) -> TextTable:
    rows = [
        [
            in_words(property_name),
            *(
                f"{counts[name, property_name]}{' (tick)' if property_name in TICKS[name] else ''}"
                for name in PRINTED_NAMES
            ),
        ]
        for property_name in (*TABLE, *MORE_OF_PS_DSF)
    ]
    caption = "Violations / problems that meet the premises; the paper's ticks are marked."
    return TextTable(caption, ["", *PRINTED_NAMES.values()], rows)
