"""Theorem 1 and Algorithm 1 of Li et al. 2019: ways to find dynamic DRF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from fairlead.certificates.dynamic_levels import certify_dynamic
from fairlead.model.cluster import FloatArray
from fairlead.report.numbers import percent
from fairlead_papers.dynamic import PAPER
from fairlead_papers.dynamic._agent_sequences import divide, draw_demands
from fairlead_papers.reproduction import Finding, PrintedClaim, Reproduction, TextTable
from fairlead_papers.setting import Parameter, Setting

OURS = "stack"
OTHERS = {
    "lp": "the linear programme (1)",
    "water": "water-filling",
    "halving": "Algorithm 1, put right",
}
SEQUENCES_OF_THEOREM_1 = Parameter("sequences", 400, quick=40)
AGENTS_OF_THEOREM_1 = 12
# The linear programme's own tolerance is not far below.
TOLERANCE_OF_THEOREM_1 = 1e-8
NOTE_OF_THEOREM_1 = (
    "That a step takes a number of operations linear in k is a statement on growth, which is "
    "measured by the benchmarks. Ours takes less: stairs of equal shares are kept and merged, "
    "which is constant in k on average. Of Algorithm 1 to the letter see dynamic/algorithm-1."
)


@PAPER.reproduces(
    "theorem-1",
    "Theorem 1",
    "ways to find dynamic DRF, on random sequences",
    "the linear programme, water-filling and an algorithm of O(k) a step find the same",
    "half a minute",
    parameters=(SEQUENCES_OF_THEOREM_1,),
)
def reproduce_theorem_1(setting: Setting) -> Reproduction:
    """Divide among random sequences in four ways; ten seconds or so."""
    sequences = setting.value(SEQUENCES_OF_THEOREM_1)
    each = setting.do_all("sequences, in four ways", _divide_in_ways, setting.generators(sequences))
    violation = [missed for missed, _ in each]
    farthest = {name: np.array([apart[name] for _, apart in each]) for name in OTHERS}
    return Reproduction(
        setting=(
            f"{sequences} random sequences of 2 to {AGENTS_OF_THEOREM_1} agents with 2 to 4 "
            f"resources and positive demands, {setting.seed_text}; shares of all agents after "
            "every step."
        ),
        claims=judge_ways(farthest, np.array(violation)),
        note=NOTE_OF_THEOREM_1,
        tables=(
            TextTable(
                "Against ours.",
                ["", "sequences", "farthest share"],
                [
                    [called, str(len(farthest[name])), f"{farthest[name].max():.2g}"]
                    for name, called in OTHERS.items()
                ],
            ),
        ),
        data={"apart": farthest, "violation": violation},
    )


def _divide_in_ways(random: np.random.Generator) -> tuple[float, dict[str, float]]:
    """Return by how much ours misses its condition, and how far the other ways are from it."""
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


def judge_ways(apart: Mapping[str, FloatArray], violation: FloatArray) -> tuple[PrintedClaim, ...]:
    """Check whether the ways agree, and whether ours meets the condition.

    `apart` has by solver (S,) how far its shares are from ours on each sequence, `violation` (S,)
    by how much ours misses its certificate.
    """
    agree = [
        PrintedClaim(
            f"{called} gives the same shares as ours, to {TOLERANCE_OF_THEOREM_1:g}",
            bool((apart[name] <= TOLERANCE_OF_THEOREM_1).all()),
            f"at most {float(apart[name].max()):.2g} apart",
        )
        for name, called in OTHERS.items()
    ]
    proved = PrintedClaim(
        "the shares are those that Lemma 1 and the budget of each step settle",
        bool((violation <= TOLERANCE_OF_THEOREM_1).all()),
        f"the condition is missed by at most {float(violation.max()):.2g}",
    )
    return (*agree, proved)


SEQUENCES_OF_ALGORITHM_1 = Parameter("sequences", 400, quick=60)
AGENTS_OF_ALGORITHM_1 = 10
# Of shares, against floating point.
TOLERANCE_OF_ALGORITHM_1 = 1e-9
# The smallest example known, two resources and three agents.
EXAMPLE = ((1.0, 0.25), (0.25, 1.0), (1.0, 1.0))
NOTE_OF_ALGORITHM_1 = (
    "Line 6 asks whether what everybody holds after the step before fits. It always does, the "
    "newcomer holding nothing yet. Line 7 then divides the whole budget as if nobody held "
    "anything, and who holds more than that keeps it on top. The text above the algorithm asks "
    "something else: whether everybody fits at the share of the first agent. With that test the "
    "rest of the algorithm, to the letter, is right."
)

Row = Sequence[Fraction]


def printed_algorithm_1(
    demand: Sequence[Sequence[float]], *, put_right: bool = False
) -> list[list[Fraction]]:
    """Return all shares after each step by Algorithm 1, in fractions.

    Rows of demand are in order of arrival, with a largest of 1. `put_right` makes line 6 ask if
    all agents fit at the largest share. Source: Li, Liu, Zhang and Zhang 2019, Algorithm
    1, lines 3 to 22. Sums are made anew where the paper keeps them up to date.
    """
    d = [[Fraction(v) for v in row] for row in demand]
    n, resources = len(d), range(len(d[0]))
    x = [Fraction(1, n)]
    history = [x]
    for k in range(2, n + 1):
        x, budget = [*x, Fraction(0)], Fraction(k, n)
        asked = [x[0]] * k if put_right else x
        if all(_total(d, 1, k, r, asked) <= budget for r in resources):
            alpha = [Fraction(0) for _ in resources]
            beta = [_total(d, 1, k, r) for r in resources]
        else:
            alpha, beta = _halved(d, x, budget)
        level = min((budget - alpha[r]) / beta[r] for r in resources)
        x = [max(level, share) for share in x]
        history.append(x)
    return history


@PAPER.reproduces(
    "algorithm-1",
    "Algorithm 1",
    "the algorithm to the letter, in fractions, on random sequences",
    "it finds the dynamic DRF solution",
    "ten seconds",
    known_to_differ=True,
    parameters=(SEQUENCES_OF_ALGORITHM_1,),
)
def reproduce_algorithm_1(setting: Setting) -> Reproduction:
    """Run the algorithm on random sequences beside ours; ten seconds or so."""
    sequences = setting.value(SEQUENCES_OF_ALGORITHM_1)
    each = setting.do_all(
        "sequences, by Algorithm 1", _follow_algorithm, setting.generators(sequences)
    )
    printed, corrected, most = map(list, zip(*each, strict=True))
    example = np.array(EXAMPLE)
    used = 1.0 + overuse(example, printed_algorithm_1(EXAMPLE))
    return Reproduction(
        setting=(
            f"{sequences} random sequences of at most {AGENTS_OF_ALGORITHM_1} agents with 2 to 4 "
            f"resources, {setting.seed_text}; the algorithm in fractions."
        ),
        claims=judge_algorithm(np.array(printed), np.array(corrected), np.array(most)),
        findings=(
            Finding(
                "Algorithm 1, lines 6 and 7, give the solution when what everybody had before the "
                "step still fits.",
                "As printed it overfills. With demands (1, 1/4), (1/4, 1), (1, 1) the last step "
                f"uses {percent(used)} of a resource. Line 6 has to ask whether everybody fits at "
                "the share of the first agent.",
                "pytest tests/mechanisms/test_dynamic_solvers.py -k overfills",
            ),
        ),
        note=NOTE_OF_ALGORITHM_1,
        tables=(_table(np.array(printed), np.array(corrected), np.array(most)),),
        data={"printed_off": printed, "put_right_off": corrected, "overuse": most},
    )


def _follow_algorithm(random: np.random.Generator) -> tuple[float, float, float]:
    """Return how far it is off on a random sequence as printed and put right, and its overuse."""
    demand = draw_demands(random, AGENTS_OF_ALGORITHM_1)
    return (
        _farthest(demand, put_right=False),
        _farthest(demand, put_right=True),
        overuse(demand, printed_algorithm_1(demand.tolist())),
    )


def overuse(demand: FloatArray, history: Sequence[Sequence[Fraction]]) -> float:
    """Return by how much of the budget the worst-filled resource of the worst step is overused."""
    n = len(demand)
    return max(
        float((np.array([float(x) for x in shares]) @ demand[:k]).max()) * n / k - 1.0
        for k, shares in enumerate(history, start=1)
    )


def judge_algorithm(
    printed: FloatArray, corrected: FloatArray, most: FloatArray
) -> tuple[PrintedClaim, ...]:
    """Check whether the algorithm finds dynamic DRF.

    `printed` and `corrected` (first test put right) have (S,) how far shares are off on each
    sequence, `most` what it uses beyond the budget as printed, relative.
    """
    wrong = int((printed > TOLERANCE_OF_ALGORITHM_1).sum())
    return (
        PrintedClaim(
            "Algorithm 1 as printed finds the dynamic DRF solution",
            wrong == 0,
            f"not on {wrong} of {len(printed)} sequences; it uses up to "
            f"{percent(float(most.max()))} more than there is to give",
        ),
        PrintedClaim(
            "with its first test put right it does",
            bool((corrected <= TOLERANCE_OF_ALGORITHM_1).all()),
            f"shares at most {float(corrected.max()):.2g} apart",
        ),
    )


def _farthest(demand: FloatArray, *, put_right: bool) -> float:
    agents, _ = divide(demand)
    history = printed_algorithm_1(demand.tolist(), put_right=put_right)
    return max(
        float(np.abs(agents.shares_at(k) - [float(x) for x in shares]).max())
        for k, shares in enumerate(history, start=1)
    )


def _total(d: Sequence[Row], first: int, last: int, r: int, x: Row | None = None) -> Fraction:
    """Sum over the agents first..last, counted from 1; of the demands alone without x."""
    agents = range(first - 1, last)
    return sum((d[i][r] * (x[i] if x else 1) for i in agents), Fraction(0))


def _halved(d: Sequence[Row], x: Row, budget: Fraction) -> tuple[list[Fraction], list[Fraction]]:
    """Return what alpha and beta are after lines 9 to 19."""
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
            ("first test put right", corrected, "nothing"),
        )
    ]
    headings = ["Algorithm 1", "sequences", "wrong", "farthest share", "used beyond the budget"]
    return TextTable("Against ours.", headings, rows)
