"""Section IV of Wang, Liang and Li 2014: the properties of DRFH, searched for counterexamples."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.model.problem import Problem
from fairlead.properties.audit import audit
from fairlead.report.numbers import number
from fairlead_papers.drfh import PAPER
from fairlead_papers.reproduction import Finding, Reproduction, TextTable
from fairlead_papers.setting import Setting
from fairlead_papers.surveys.drawing import Distribution
from fairlead_papers.verdict import PrintedClaim
from fairlead_papers.violations import Count, Place, count_violations, in_words

DRFH, SHARING = "drfh", "sharing-incentive"
PROVED = (
    "envy-freeness",
    "pareto-optimality",
    "strategy-proofness",
    "single-server-drf",
    "single-resource-fairness",
    "bottleneck-fairness",
    "population-monotonicity",
)
PROBLEMS, QUICK_PROBLEMS = 300, 20
LIES, QUICK_LIES = 60, 10
# The paper's premises: positive demands, and tasks that may run on any server.
LOOK = Distribution(constrained=0.0)


@PAPER.reproduces(
    "section-4",
    "Section IV",
    "properties of DRFH, searched for counterexamples",
    "envy-free, Pareto optimal, truthful; DRF on one server, fair on one resource and at one "
    "bottleneck; nobody loses when others leave",
    "half a minute",
)
def reproduce(setting: Setting) -> Reproduction:
    """Search random problems for violations of what is proved; half a minute."""
    problems, lies = (QUICK_PROBLEMS, QUICK_LIES) if setting.quick else (PROBLEMS, LIES)
    counts = count_violations(setting, (DRFH,), (*PROVED, SHARING), LOOK, problems, lies)
    unlike_servers = Problem.from_arrays([[1, 20], [30, 1]], [[1, 1], [1, 5]])
    short = audit(unlike_servers, DRFH, properties=(SHARING,))[0]
    rows = [[in_words(of), str(counts[DRFH, of])] for of in (*PROVED, SHARING)]
    return Reproduction(
        setting=(
            f"{problems} random problems of at most {LOOK.users} users, {LOOK.servers} servers and "
            f"{LOOK.resources} resources, positive demands, no placement constraints; {lies} lies "
            f"on each, seed {setting.seed}{' (quick)' if setting.quick else ''}."
        ),
        claims=judge_properties(counts),
        findings=(
            Finding(
                "IV-D: a user's equal slice of unlike servers can be cut in many ways, so sharing "
                "incentive is not proved or refuted, but measured on dedicated clouds (Fig. 8).",
                "Of an equal slice of every server it does not. Servers of (1, 20) and (30, 1); "
                f"Ana's tasks take (1, 1), Bo's (1, 5). Bo runs {number(short.witness['tasks'])} "
                f"tasks; half of each server would run {number(short.witness['slice'])}. It fails "
                f"on {counts[DRFH, SHARING]} of the random problems.",
                "fairlead audit examples/witnesses/drfh-sharing-incentive.yaml -m drfh",
            ),
        ),
        note="A search that finds nothing proves nothing; the proofs are the paper's.",
        tables=(TextTable("Violations found, of problems that ask.", ["property", "DRFH"], rows),),
        data={of: vars(counts[DRFH, of]) for of in (*PROVED, SHARING)},
    )


def judge_properties(counts: Mapping[Place, Count]) -> tuple[PrintedClaim, ...]:
    """Check for each property that is proved whether a violation was found."""
    claims = []
    for of in PROVED:
        count = counts[DRFH, of]
        claims.append(
            PrintedClaim(
                f"DRFH has {in_words(of)}",
                count.violations == 0 and count.asked > 0,
                f"{count.violations} violations in {count.asked} problems",
            )
        )
    return tuple(claims)
