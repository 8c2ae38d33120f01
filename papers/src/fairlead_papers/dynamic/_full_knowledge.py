"""Reproduce section 4 and Theorem 2 of Li et al. 2019: dynamic DRF and full knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from fairlead.errors import NoConvergenceError
from fairlead.mechanisms.dynamic_run import full_knowledge_levels
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.report.numbers import number
from fairlead_papers.dynamic import PAPER
from fairlead_papers.dynamic.competitive_ratio import (
    bound_of_ratios,
    competitive_ratios,
    divide,
    draw_demands,
    worst_case_max_min,
    worst_case_max_sum,
)
from fairlead_papers.reproduction import (
    Finding,
    PrintedClaim,
    Reading,
    Reproduction,
    TextTable,
    compare_amount,
)
from fairlead_papers.setting import Parameter, Setting

RESOURCES_OF_SUMS = range(2, 9)
# Epsilon, the demand for all resources but one; the paper's numbers are limits as it goes to 0.
SMALL = 1e-6
DIGIT = 1e-9
NOTE_OF_SECTION_4 = (
    f"The paper's numbers are limits as epsilon goes to 0; here it is {SMALL:g}, so the interval "
    "of a share is 2 m epsilon. The limits m/(m+1) and 1/(m+1) agree with the paper's x_1 = m x_n."
)


class FinalShares(NamedTuple):
    """Final dominant shares on the instance of section 4 with m resources."""

    first: FloatArray  # (m,): of the agents that demand one resource each
    last: float  # of the agent that demands all
    known: float  # of all agents under DRF with full knowledge

    @property
    def sums(self) -> tuple[float, float]:
        """The sums of shares under dynamic DRF and under DRF with full knowledge."""
        return float(self.first.sum()) + self.last, self.known * (len(self.first) + 1)


@PAPER.reproduces(
    "section-4",
    "Section 4",
    "sums of dominant shares, compared with DRF with full knowledge",
    "all but the last agent have m/(m+1), the last 1/(m+1), under DRF all 1/2: the sum can be "
    "larger than DRF's",
    "at once",
)
def reproduce_section_4(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
    """Divide among the agents of the instance, for 2 to 8 resources."""
    found = {m: final_shares(m, SMALL) for m in RESOURCES_OF_SUMS}
    return Reproduction(
        setting=f"m resources, m + 1 agents as printed, epsilon {SMALL:g}, m from 2 to 8.",
        readings=tuple(
            reading for m, shares in found.items() for reading in _sum_readings(m, shares)
        ),
        claims=judge_sums({m: shares.sums for m, shares in found.items()}),
        note=NOTE_OF_SECTION_4,
        tables=(_sums_table(found),),
        data={
            str(m): {"first": s.first, "last": s.last, "full_knowledge": s.known}
            for m, s in found.items()
        },
    )


def final_shares(resources: int, small: float) -> FinalShares:
    """Return the shares after the last step of the instance with epsilon `small`."""
    demand = worst_case_max_sum(resources, small)
    agents, _ = divide(demand)
    n = len(demand)
    known = full_knowledge_levels(demand, np.ones(n), float(n))[-1]
    return FinalShares(agents.shares[:-1], float(agents.shares[-1]), float(known))


def judge_sums(sums: dict[int, tuple[float, float]]) -> tuple[PrintedClaim, ...]:
    """Judge whether the sum of shares exceeds that of DRF, for every number of resources m."""
    excess = {m: dynamic / known for m, (dynamic, known) in sums.items()}
    least = min(excess.values())
    return (
        PrintedClaim(
            "the sum of dominant shares is larger than under DRF with full knowledge for every "
            "m from 2 on",
            least > 1,
            f"{number(least)} to {number(max(excess.values()))} times as large",
        ),
    )


def _sum_readings(m: int, shares: FinalShares) -> tuple[Reading, ...]:
    off = 2 * m * SMALL
    dynamic, known = shares.sums
    # The share of agents 1 to m that is farthest from the limit.
    limit = m / (m + 1)
    first = float(shares.first[np.abs(shares.first - limit).argmax()])
    return (
        Reading(f"m = {m}: shares of agents 1 to {m}", first, limit, DIGIT, off),
        Reading(f"m = {m}: share of the last", shares.last, 1 / (m + 1), DIGIT, off),
        Reading(f"m = {m}: all shares under DRF", shares.known, 1 / 2, DIGIT, off),
        compare_amount(
            f"m = {m}: sum of shares", dynamic, (m * m + 1) / (m + 1), DIGIT, off * (m + 1)
        ),
        compare_amount(f"m = {m}: sum under DRF", known, (m + 1) / 2, DIGIT, off * (m + 1)),
    )


def _sums_table(found: dict[int, FinalShares]) -> TextTable:
    rows = []
    for m, shares in found.items():
        dynamic, known = shares.sums
        limit = 2 * (m * m + 1) / (m + 1) ** 2
        rows.append(
            [str(m), number(dynamic), number(known), number(dynamic / known), number(limit)]
        )
    headings = ["m", "sum of shares", "under DRF", "ratio", "2 (m² + 1) / (m + 1)²"]
    return TextTable("Sums of dominant shares in the end.", headings, rows)


def best_shares(demand: FloatArray, used_up: Sequence[int]) -> tuple[float, FloatArray]:
    """Return the largest possible competitive ratio on a sequence, and (N, N) shares that have it.

    The ratio is the least share over that of DRF with full knowledge, at the worst step. Row k - 1
    holds the shares after step k: they never shrink, are at least 1 / N from arrival on, and stay
    within the budget k / N. Solves a linear programme of N (N + 1) / 2 + 1 unknowns, the last of
    which is the ratio; raises NoConvergenceError without a solution.

    A mechanism can give these shares while agents arrive as in `demand`, and otherwise go on as
    dynamic DRF, which can continue from any feasible shares.

    Parameters
    ----------
    demand : (N, R) array
        In order of arrival, each row with a maximum of 1.
    used_up : sequence of int
        The resource whose whole budget is used after each step, so that the shares are dynamic
        Pareto optimal.
    """
    n, n_resources = demand.shape
    # One unknown for each agent after each step.
    steps: IntArray
    agents: IntArray
    steps, agents = (index.astype(np.int64) for index in np.tril_indices(n))
    index = np.zeros((n, n), dtype=np.int64)
    index[steps, agents] = np.arange(len(steps))
    level = full_knowledge_levels(demand, np.ones(n), float(n))
    unknowns = len(steps) + 1
    old = np.flatnonzero(agents < steps)
    # Each share is at least the ratio times DRF's (rises), none shrinks (keeps), and the use of
    # each resource is within the budget (use).
    rises = _rows(
        [np.arange(len(steps)), np.arange(len(steps))],
        [np.full(len(steps), unknowns - 1), np.arange(len(steps))],
        [level[steps], np.full(len(steps), -1.0)],
        (len(steps), unknowns),
    )
    before = index[steps[old] - 1, agents[old]]
    count = np.arange(len(old))
    keeps = _rows(
        [count, count],
        [before, old],
        [np.ones(len(old)), np.full(len(old), -1.0)],
        (len(old), unknowns),
    )
    use = [
        _rows([steps], [np.arange(len(steps))], [demand[agents, r]], (n, unknowns))
        for r in range(n_resources)
    ]
    budget = np.arange(1, n + 1) / n
    limits = np.vstack([rises, keeps, *use])
    room = np.concatenate([np.zeros(len(rises) + len(keeps)), np.tile(budget, n_resources)])
    full = np.stack([use[r][k] for k, r in enumerate(used_up)])
    objective = np.zeros(unknowns)
    objective[-1] = -1.0
    bounds = [(1.0 / n, 1.0)] * len(steps) + [(0.0, 1.0)]
    answer = linprog(objective, limits, room, full, budget, bounds)
    if answer.status != 0:
        raise NoConvergenceError(f"the linear programme ended with: {answer.message}")
    shares = np.zeros((n, n))
    shares[steps, agents] = answer.x[:-1]
    return float(answer.x[-1]), shares


def _rows(
    row: list[IntArray], column: list[IntArray], value: list[FloatArray], shape: tuple[int, int]
) -> FloatArray:
    """Return a dense matrix from lists of arrays of row indices, column indices and values."""
    entries = (np.concatenate(value), (np.concatenate(row), np.concatenate(column)))
    filled: FloatArray = coo_array(entries, shape=shape).toarray()
    return filled


RESOURCES = range(2, 11)
ROUNDING = 1e-9
# Random sequences for each number of resources, and the most agents in one.
SEQUENCES = Parameter("sequences", 150, quick=20)
AGENTS = 40
# Length of the longer sequences, in multiples of the paper's m agents for each resource.
LONGER = 20
# Numbers of resources for which the ratio of another mechanism is computed.
COMPARED_RESOURCES = (2, 3, 4)
NOTE_OF_THEOREM_2 = (
    f"The paper's numbers are limits as epsilon goes to 0; here it is {SMALL:g}, so the interval "
    "is 2 m epsilon. The theorem says that the ratio is nearly 1/m. With longer sequences it goes "
    "to 1/m, so both bounds are 1/m. No sequence with positive demands attains it: DRF's share at "
    "step k is below m/n, and the newcomer has at least 1/n."
)


@dataclass(frozen=True)
class WorstCase:
    """Shares and competitive ratios with m resources."""

    before: float  # the least share after m^2 agents of the paper's instance
    last: float  # the share of its last agent
    known: float  # the final share of all its agents under DRF with full knowledge
    ratio: float  # the least ratio at any of its steps
    longer: float  # the same with `LONGER` times as many agents before the last
    random: float  # the least ratio on random sequences
    above: float  # the largest ratio on random sequences
    slack: float  # the least difference of these ratios from their bound, ceil(k/m)/k


@PAPER.reproduces(
    "theorem-2",
    "Theorem 2",
    "the least share over that of DRF with full knowledge, at the worst step",
    "at least ceil(k/m)/k of it, and at most (m+1)/(m²+1) in the worst case: nearly 1/m",
    "half a minute",
    parameters=(SEQUENCES,),
)
def reproduce_theorem_2(setting: Setting) -> Reproduction:
    """Divide among the instance, longer ones and random sequences."""
    sequences = setting.value(SEQUENCES)
    worst_of = partial(_measure_worst_case, setting.seed, sequences)
    each = setting.do_all("numbers of resources", worst_of, RESOURCES)
    found = dict(zip(RESOURCES, each, strict=True))
    return Reproduction(
        setting=(
            f"m from {RESOURCES[0]} to {RESOURCES[-1]} resources: m² + 1 agents as printed, "
            f"epsilon {SMALL:g}; {LONGER} m² + 1 agents; and {sequences} random sequences of at "
            f"most {AGENTS} agents each, {setting.seed_text}."
        ),
        readings=tuple(
            reading for m, worst in found.items() for reading in _ratio_readings(m, worst)
        ),
        claims=judge_ratios(found),
        findings=(_tighter(found), _other_mechanism()),
        note=NOTE_OF_THEOREM_2,
        tables=(_ratios_table(found),),
        data={str(m): vars(worst) for m, worst in found.items()},
    )


def judge_ratios(found: dict[int, WorstCase]) -> tuple[PrintedClaim, ...]:
    """Judge whether the bounds hold, for every number of resources m."""
    slack = min(worst.slack for worst in found.values())
    above = max(worst.above for worst in found.values())
    over = max((w.ratio - (m + 1) / (m * m + 1)) / (2 * m * SMALL) for m, w in found.items())
    under = min(min(w.ratio, w.longer, w.random) * m for m, w in found.items())
    return (
        PrintedClaim(
            "after step k the least share is at least ceil(k/m)/k of DRF's, on random sequences",
            slack >= -ROUNDING,
            f"at least {number(slack)} above the bound",
        ),
        PrintedClaim(
            "it is never more than DRF's",
            above <= 1 + ROUNDING,
            f"at most {number(above)} times DRF's",
        ),
        PrintedClaim(
            "the competitive ratio is at most (m+1)/(m²+1), but for 2 m epsilon",
            over <= 1,
            f"on the instance it is above by at most {over:.2g} times 2 m epsilon",
        ),
        PrintedClaim(
            "and at least 1/m",
            under >= 1 - ROUNDING,
            f"the least ratio is {number(under)} times that",
        ),
    )


def _measure_worst_case(seed: int, sequences: int, m: int) -> WorstCase:
    """Measure shares and ratios with m resources."""
    randoms = (np.random.default_rng([seed, m, k]) for k in range(sequences))
    drawn = [competitive_ratios(draw_demands(random, AGENTS, m)) for random in randoms]
    demand = worst_case_max_min(m, SMALL)
    agents, least = divide(demand)
    n = len(demand)
    known = full_knowledge_levels(demand, np.ones(n), float(n))
    longer = worst_case_max_min(m, SMALL / LONGER, LONGER * m)
    return WorstCase(
        before=float(least[-2]),
        last=float(agents.shares[-1]),
        known=float(known[-1]),
        ratio=float((least / known).min()),
        longer=float(competitive_ratios(longer).min()),
        random=min(float(ratios.min()) for ratios in drawn),
        above=max(float(ratios.max()) for ratios in drawn),
        slack=min(float((ratios - bound_of_ratios(len(ratios), m)).min()) for ratios in drawn),
    )


def _ratio_readings(m: int, worst: WorstCase) -> tuple[Reading, ...]:
    n, off = m * m + 1, 2 * m * SMALL
    return (
        Reading(f"m = {m}: shares after m² agents", worst.before, m / n, DIGIT, off),
        Reading(f"m = {m}: share of the last", worst.last, 1 / n, DIGIT, off),
        Reading(f"m = {m}: all shares under DRF", worst.known, 1 / (m + 1), DIGIT, off),
        Reading(f"m = {m}: competitive ratio", worst.ratio, (m + 1) / n, DIGIT, off),
    )


def _tighter(found: dict[int, WorstCase]) -> Finding:
    """Return the finding that longer sequences bring the ratio to 1/m."""
    m = RESOURCES[0]
    worst = found[m]
    return Finding(
        "Theorem 2: the competitive ratio is nearly 1/m, and at most (m+1)/(m²+1) for any dynamic "
        "Pareto optimal mechanism.",
        "It is 1/m. The proof's instance has m agents for each resource before the last; with q "
        "for each the last has 1/(qm+1) where DRF gives 1/(q+1), a ratio of (q+1)/(qm+1), which "
        f"goes to 1/m. With m = {m} and q = {LONGER * m} it is {worst.longer:.5f} instead of "
        f"{worst.ratio:.5f}. So no dynamic Pareto optimal mechanism does better than dynamic DRF.",
        "fairlead reproduce dynamic/theorem-2",
    )


def _other_mechanism() -> Finding:
    """Return the finding that other Pareto optimal shares beat the bound on the instance."""
    ratios = {}
    for m in COMPARED_RESOURCES:
        demand = worst_case_max_min(m, SMALL)
        ratios[m], _ = best_shares(demand, newest_resources(m))
    ours = ", ".join(f"{ratio:.3f} for m = {m}" for m, ratio in ratios.items())
    limits = ", ".join(f"{(m + 1) / (m * m + 1):.3f}" for m in COMPARED_RESOURCES)
    return Finding(
        "Proof of Theorem 2: any dynamic Pareto optimal mechanism gives all resources to the first "
        "m² agents.",
        "Dynamic Pareto optimality, as defined, requires that one resource is used up, not all. On "
        "the proof's instance there are dynamic Pareto optimal shares with sharing incentive whose "
        f"ratio at the worst step is {ours}, where the proof has {limits}. The bound itself stands "
        "if the last agent demands the resource that the mechanism has used up.",
        "pytest papers/tests/test_dynamic_theorem_2.py -k pareto_optimal_shares",
    )


def newest_resources(resources: int) -> list[int]:
    """Return the resource used up after each step of the paper's instance: the newest agent's.

    After the last step but one it is not the resource that the last agent demands.
    """
    return [k % resources for k in range(resources * resources + 1)]


def _ratios_table(found: dict[int, WorstCase]) -> TextTable:
    rows = [
        [
            str(m),
            f"{1 / m:.5f}",
            f"{worst.longer:.5f}",
            f"{worst.ratio:.5f}",
            f"{(m + 1) / (m * m + 1):.5f}",
            f"{worst.random:.5f}",
        ]
        for m, worst in found.items()
    ]
    headings = ["m", "1/m", "longer", "instance", "(m+1)/(m²+1)", "least random"]
    return TextTable("Least share over DRF's, at the worst step.", headings, rows)
