"""Algorithm 1 of Li et al. 2019, to the letter and with its first test put right."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.report.numbers import percent
from fairlead_papers.dynamic import PAPER
from fairlead_papers.dynamic.sequences import divide, draw_demands
from fairlead_papers.reproduction import Finding, Reproduction, TextTable
from fairlead_papers.setting import Setting
from fairlead_papers.verdict import PrintedClaim

SEQUENCES, QUICK_SEQUENCES = 400, 60
AGENTS = 10
# Of shares, against floating point.
TOLERANCE = 1e-9
# The smallest example known, two resources and three agents.
EXAMPLE = ((1.0, 0.25), (0.25, 1.0), (1.0, 1.0))
NOTE = (
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
    """Return everybody's share after each step by Algorithm 1, in fractions.

    Rows of demand are in order of arrival, with a largest of 1. `put_right` makes line 6 ask if
    everybody fits at the largest share there is. Source: Li, Liu, Zhang and Zhang 2019, Algorithm
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
)
def reproduce(setting: Setting) -> Reproduction:
    """Run the algorithm on random sequences beside ours; ten seconds or so."""
    sequences = QUICK_SEQUENCES if setting.quick else SEQUENCES
    each = setting.do_all(
        "sequences, by Algorithm 1", _follow_algorithm, setting.generators(sequences)
    )
    printed, corrected, most = map(list, zip(*each, strict=True))
    example = np.array(EXAMPLE)
    used = 1.0 + overuse(example, printed_algorithm_1(EXAMPLE))
    return Reproduction(
        setting=(
            f"{sequences} random sequences of at most {AGENTS} agents with 2 to 4 resources, seed "
            f"{setting.seed}{' (quick)' if setting.quick else ''}; the algorithm in fractions."
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
        note=NOTE,
        tables=(_table(np.array(printed), np.array(corrected), np.array(most)),),
        data={"printed_off": printed, "put_right_off": corrected, "overuse": most},
    )


def _follow_algorithm(random: np.random.Generator) -> tuple[float, float, float]:
    """Return how far it is off on a random sequence as printed and put right, and its overuse."""
    demand = draw_demands(random, AGENTS)
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
    wrong = int((printed > TOLERANCE).sum())
    return (
        PrintedClaim(
            "Algorithm 1 as printed finds the dynamic DRF solution",
            wrong == 0,
            f"not on {wrong} of {len(printed)} sequences; it uses up to "
            f"{percent(float(most.max()))} more than there is to give",
        ),
        PrintedClaim(
            "with its first test put right it does",
            bool((corrected <= TOLERANCE).all()),
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
            str(int((off > TOLERANCE).sum())),
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
