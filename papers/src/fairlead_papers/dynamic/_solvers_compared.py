"""Check Theorem 1 and Algorithm 1 of Li et al. 2019 on random sequences.

Theorem 1 gives the answer of dynamic DRF, so other solvers must find the shares of ours. Algorithm
1, as printed, does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from fairlead.certificates.dynamic_levels import certify_dynamic
from fairlead.model.cluster import FloatArray
from fairlead.report.numbers import percent
from fairlead_papers.dynamic import PAPER
from fairlead_papers.dynamic.competitive_ratio import divide, draw_demands
from fairlead_papers.reproduction import Finding, PrintedClaim, Reproduction, TextTable
from fairlead_papers.setting import Parameter, Setting

OTHERS = {
    "lp": "the linear programme (1)",
    "water": "water-filling",
    "halving": "Algorithm 1, corrected",
}
SEQUENCES_OF_THEOREM_1 = Parameter("sequences", 400, quick=40)
AGENTS_OF_THEOREM_1 = 12
# The tolerance of the linear programme is not much smaller.
TOLERANCE_OF_THEOREM_1 = 1e-8
NOTE_OF_THEOREM_1 = (
    "The claim of O(k) operations a step is about growth, which benchmarks measure. Our solver "
    "keeps groups of agents with equal shares, and merges them: its steps are constant in k on "
    "average. For Algorithm 1 as printed see dynamic/algorithm-1."
)


@PAPER.reproduces(
    "theorem-1",
    "Theorem 1",
    "solvers of dynamic DRF, on random sequences",
    "the linear programme, water-filling and an algorithm of O(k) a step find the same",
    "half a minute",
    parameters=(SEQUENCES_OF_THEOREM_1,),
)
def reproduce_theorem_1(setting: Setting) -> Reproduction:
    """Divide among agents of random sequences by four solvers."""
    sequences = setting.value(SEQUENCES_OF_THEOREM_1)
    each = setting.do_all(
        "sequences, by four solvers", _divide_by_solvers, setting.generators(sequences)
    )
    violation = [missed for missed, _ in each]
    farthest = {name: np.array([apart[name] for _, apart in each]) for name in OTHERS}
    return Reproduction(
        setting=(
            f"{sequences} random sequences of 2 to {AGENTS_OF_THEOREM_1} agents with 2 to 4 "
            f"resources and positive demands, {setting.seed_text}; shares of all agents after "
            "every step."
        ),
        claims=judge_solvers(farthest, np.array(violation)),
        note=NOTE_OF_THEOREM_1,
        tables=(
            TextTable(
                "Largest differences from our solver.",
                ["solver", "sequences", "difference of a share"],
                [
                    [called, str(len(farthest[name])), f"{farthest[name].max():.2g}"]
                    for name, called in OTHERS.items()
                ],
            ),
        ),
        data={"apart": farthest, "violation": violation},
    )


def _divide_by_solvers(random: np.random.Generator) -> tuple[float, dict[str, float]]:
    """Return the violation by our solver, and the other solvers' largest differences from it."""
    demand = draw_demands(random, AGENTS_OF_THEOREM_1)
    ours, least = divide(demand)
    n = len(demand)
    apart = {}
    for name in OTHERS:
        other, _ = divide(demand, name)
        steps = range(1, n + 1)
        off = (np.abs(ours.shares_at(step) - other.shares_at(step)).max() for step in steps)
        apart[name] = float(max(off))
    return certify_dynamic(demand, np.ones(n), n, ours.log, least).violation, apart


def judge_solvers(
    apart: Mapping[str, FloatArray], violation: FloatArray
) -> tuple[PrintedClaim, ...]:
    """Judge whether the solvers agree, and whether ours is certified.

    `apart` has, by solver, the largest difference from our shares on each of S sequences, (S,).
    `violation` (S,) is the violation of our certificate.
    """
    agree = [
        PrintedClaim(
            f"{called} gives the same shares as ours, within {TOLERANCE_OF_THEOREM_1:g}",
            bool((apart[name] <= TOLERANCE_OF_THEOREM_1).all()),
            f"at most {float(apart[name].max()):.2g} apart",
        )
        for name, called in OTHERS.items()
    ]
    proved = PrintedClaim(
        "our shares meet Lemma 1, and use up the budget of each step",
        bool((violation <= TOLERANCE_OF_THEOREM_1).all()),
        f"violation at most {float(violation.max()):.2g}",
    )
    return (*agree, proved)


SEQUENCES_OF_ALGORITHM_1 = Parameter("sequences", 400, quick=60)
AGENTS_OF_ALGORITHM_1 = 10
# Of shares, for rounding errors.
TOLERANCE_OF_ALGORITHM_1 = 1e-9
# The smallest known example on which the printed algorithm is wrong: three agents, two resources.
EXAMPLE = ((1.0, 0.25), (0.25, 1.0), (1.0, 1.0))
NOTE_OF_ALGORITHM_1 = (
    "Line 6 tests whether all shares of the step before fit, with 0 for the newcomer. They always "
    "do. Line 7 then divides the whole budget as if no agent held anything, but agents with larger "
    "shares keep them. The text above the algorithm tests another condition: whether all agents "
    "fit at the share of the first agent. With this test in line 6 the rest is right as printed."
)

Row = Sequence[Fraction]


def printed_algorithm_1(
    demand: Sequence[Sequence[float]], *, corrected: bool = False
) -> list[list[Fraction]]:
    """Return all shares after each step by Algorithm 1, in fractions.

    Rows of demand are in order of arrival, each with a maximum of 1. If `corrected`, line 6 tests
    whether all agents fit at the share of the first agent, the largest. Source: Li, Liu, Zhang and
    Zhang 2019, Algorithm 1, lines 3 to 22, but sums are computed anew where the paper updates them.
    """
    d = [[Fraction(v) for v in row] for row in demand]
    n, resources = len(d), range(len(d[0]))
    x = [Fraction(1, n)]
    history = [x]
    for k in range(2, n + 1):
        x, budget = [*x, Fraction(0)], Fraction(k, n)
        asked = [x[0]] * k if corrected else x
        if all(_total(d, 1, k, r, asked) <= budget for r in resources):
            alpha = [Fraction(0) for _ in resources]
            beta = [_total(d, 1, k, r) for r in resources]
        else:
            alpha, beta = _find_alpha_beta(d, x, budget)
        level = min((budget - alpha[r]) / beta[r] for r in resources)
        x = [max(level, share) for share in x]
        history.append(x)
    return history


@PAPER.reproduces(
    "algorithm-1",
    "Algorithm 1",
    "the algorithm as printed, in exact fractions, on random sequences",
    "it finds the dynamic DRF solution",
    "ten seconds",
    known_to_differ=True,
    parameters=(SEQUENCES_OF_ALGORITHM_1,),
)
def reproduce_algorithm_1(setting: Setting) -> Reproduction:
    """Run the algorithm on random sequences, and compare with ours."""
    sequences = setting.value(SEQUENCES_OF_ALGORITHM_1)
    each = setting.do_all(
        "sequences, by Algorithm 1", _run_algorithm, setting.generators(sequences)
    )
    printed, corrected, most = map(list, zip(*each, strict=True))
    example = np.array(EXAMPLE)
    used = 1.0 + overuse(example, printed_algorithm_1(EXAMPLE))
    return Reproduction(
        setting=(
            f"{sequences} random sequences of at most {AGENTS_OF_ALGORITHM_1} agents with 2 to 4 "
            f"resources, {setting.seed_text}; the algorithm in exact fractions."
        ),
        claims=judge_algorithm(np.array(printed), np.array(corrected), np.array(most)),
        findings=(
            Finding(
                "Algorithm 1, lines 6 and 7, give the solution if all shares of the step before "
                "still fit.",
                "As printed it uses more than there is. With demands (1, 1/4), (1/4, 1), (1, 1) "
                f"the last step uses {percent(used)} of a resource. Line 6 has to test whether all "
                "agents fit at the share of the first agent.",
                "pytest papers/tests/test_dynamic_claims.py -k overuse",
            ),
        ),
        note=NOTE_OF_ALGORITHM_1,
        tables=(_table(np.array(printed), np.array(corrected), np.array(most)),),
        data={"printed_off": printed, "put_right_off": corrected, "overuse": most},
    )


def _run_algorithm(random: np.random.Generator) -> tuple[float, float, float]:
    """Return the errors on a random sequence, as printed and corrected, and the overuse."""
    demand = draw_demands(random, AGENTS_OF_ALGORITHM_1)
    return (
        _largest_error(demand, corrected=False),
        _largest_error(demand, corrected=True),
        overuse(demand, printed_algorithm_1(demand.tolist())),
    )


def overuse(demand: FloatArray, history: Sequence[Sequence[Fraction]]) -> float:
    """Return the largest overuse of a resource at any step, relative to the step's budget."""
    n = len(demand)
    return max(
        float((np.array([float(x) for x in shares]) @ demand[:k]).max()) * n / k - 1.0
        for k, shares in enumerate(history, start=1)
    )


def judge_algorithm(
    printed: FloatArray, corrected: FloatArray, most: FloatArray
) -> tuple[PrintedClaim, ...]:
    """Judge whether the algorithm finds dynamic DRF.

    `printed` and `corrected` are the largest errors of shares on each of S sequences, (S,); `most`
    is the overuse of the printed algorithm, relative to the budget, (S,).
    """
    wrong = int((printed > TOLERANCE_OF_ALGORITHM_1).sum())
    return (
        PrintedClaim(
            "Algorithm 1 as printed finds the dynamic DRF solution",
            wrong == 0,
            f"not on {wrong} of {len(printed)} sequences; it uses up to "
            f"{percent(float(most.max()))} more than the budget",
        ),
        PrintedClaim(
            "with line 6 corrected it does",
            bool((corrected <= TOLERANCE_OF_ALGORITHM_1).all()),
            f"shares at most {float(corrected.max()):.2g} apart",
        ),
    )


def _largest_error(demand: FloatArray, *, corrected: bool) -> float:
    """Return the largest difference of a share between Algorithm 1 and ours, at any step."""
    agents, _ = divide(demand)
    history = printed_algorithm_1(demand.tolist(), corrected=corrected)
    return max(
        float(np.abs(agents.shares_at(k) - [float(x) for x in shares]).max())
        for k, shares in enumerate(history, start=1)
    )


def _total(d: Sequence[Row], first: int, last: int, r: int, x: Row | None = None) -> Fraction:
    """Return the sum of demand times share over agents first..last, or of demand without `x`."""
    agents = range(first - 1, last)
    return sum((d[i][r] * (x[i] if x else 1) for i in agents), Fraction(0))


def _find_alpha_beta(
    d: Sequence[Row], x: Row, budget: Fraction
) -> tuple[list[Fraction], list[Fraction]]:
    """Return alpha and beta after lines 9 to 19: halve the range of tau until it is found.

    Agents before tau keep their shares, which use `alpha` of each resource. The others rise to one
    level, and use `beta` per unit of it. tau is the first agent at whose share all of these fit.
    """
    k, resources = len(x), range(len(d[0]))
    low, high = 1, k
    while True:
        tau = -(-(low + high) // 2)
        alpha = [_total(d, 1, tau - 1, r, x) for r in resources]
        beta = [_total(d, tau, k, r) for r in resources]
        if high - low <= 1:
            return alpha, beta
        if all(alpha[r] + beta[r] * x[tau - 1] <= budget for r in resources):
            high = tau
        else:
            low = tau


def _table(printed: FloatArray, corrected: FloatArray, most: FloatArray) -> TextTable:
    rows = [
        [
            name,
            str(len(off)),
            str(int((off > TOLERANCE_OF_ALGORITHM_1).sum())),
            f"{float(off.max()):.2g}",
            uses,
        ]
        for name, off, uses in (
            ("as printed", printed, percent(float(most.max()))),
            ("line 6 corrected", corrected, "nothing"),
        )
    ]
    headings = ["Algorithm 1", "sequences", "wrong", "error of a share", "used beyond the budget"]
    return TextTable("Largest differences from our solver.", headings, rows)
