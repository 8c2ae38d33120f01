"""Check the properties of dynamic DRF (Li et al. 2019, section 2) and Lemmas 1 to 3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from itertools import chain

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.properties.dynamic import DynamicShares, check_dynamic, dynamic_drf, search_lies
from fairlead.report.numbers import number
from fairlead_papers.dynamic import PAPER
from fairlead_papers.dynamic.competitive_ratio import divide, draw_demands
from fairlead_papers.reproduction import Finding, PrintedClaim, Reproduction, TextTable
from fairlead_papers.setting import Parameter, Setting

SEQUENCES = Parameter("sequences", 300, quick=25)
LIES = Parameter("lies", 100, quick=30)
AGENTS = 9
TOLERANCE = 1e-12
# In the order of the paper, with its names.
PROPERTIES = {
    "sharing-incentive": "sharing incentive",
    "dynamic-envy-freeness": "dynamic envy-freeness",
    "dynamic-pareto-optimality": "dynamic Pareto optimality",
    "strategy-proofness": "strategy-proofness",
}
LEMMAS = {
    "lemma 1": "Lemma 1: each agent has the larger of the least share and its share before",
    "lemma 2": "Lemma 2: earlier agents have at least the shares of later ones",
    "lemma 3": "Lemma 3: an agent with more than another came first and has got nothing since then",
}
# Four agents, two of them with a zero demand; and a lie of the first that pays.
WITH_ZEROS = ((1.0, 0.5, 0.5), (1.0, 0.0, 0.5), (0.0, 1.0, 0.5), (0.5, 0.5, 1.0))
LIE = (1.0, 1.0, 0.5)
NOTE = (
    "All are proved in the papers; a search that finds nothing proves nothing. The first three "
    "properties are checked exactly, after every step. Strategy-proofness is a search for a lie "
    "that pays."
)


@PAPER.reproduces(
    "section-2",
    "Section 2 and Lemmas 1 to 3",
    "four properties of dynamic DRF, and three lemmas, on random sequences",
    "it gives sharing incentive, dynamic envy-freeness and dynamic Pareto optimality, and is "
    "strategy-proof",
    "half a minute",
    parameters=(
        SEQUENCES,
        LIES,
    ),
)
def reproduce(setting: Setting) -> Reproduction:
    """Check properties and lemmas on random sequences."""
    sequences, lies = setting.value(SEQUENCES), setting.value(LIES)
    failing = partial(_find_failures, lies, setting.seed)
    each = setting.do_all("sequences, each with its lies", failing, range(sequences))
    fails = Counter(chain.from_iterable(each))
    return Reproduction(
        setting=(
            f"{sequences} random sequences of 2 to {AGENTS} agents with 2 to 4 resources and "
            f"positive demands, {lies} lies on each, {setting.seed_text}."
        ),
        claims=judge_failures(fails, sequences, lies),
        findings=(find_lie_with_zero_demands(),),
        note=NOTE,
        tables=(
            TextTable(
                "Sequences on which a property or lemma fails.",
                ["", "fails", "of"],
                [
                    [words, str(fails[name]), str(sequences)]
                    for name, words in (PROPERTIES | LEMMAS).items()
                ],
            ),
        ),
        data={"sequences": sequences, "lies": lies, "fails": {n: fails[n] for n in PROPERTIES}},
    )


def _find_failures(lies: int, seed: int, k: int) -> list[str]:
    """Name the properties and lemmas that fail on random sequence `k`."""
    demand = draw_demands(np.random.default_rng([seed, k]), AGENTS)
    agents, least = divide(demand)
    shares = [agents.shares_at(step) for step in range(1, len(least) + 1)]
    return [*failing_properties(demand, lies, seed + k), *lemmas_missed(shares, least)]


def failing_properties(demand: FloatArray, lies: int, seed: int) -> list[str]:
    """Name the properties that dynamic DRF violates on a sequence."""
    n = len(demand)
    mechanism = dynamic_drf(float(n))
    shares = DynamicShares(demand, np.ones(n), float(n), mechanism(demand, np.ones(n)))
    verdicts = [*check_dynamic(shares), search_lies(shares, mechanism, lies, seed)]
    return [v.name for v in verdicts if v.name in PROPERTIES and v.verdict == "fails"]


def lemmas_missed(shares: list[FloatArray], least: FloatArray) -> list[str]:
    """Name the lemmas that fail; `shares[k - 1]` (k,) are the shares after step k.

    `least[k - 1]` is the lowest of these.
    """
    missed = set()
    before = np.zeros(0)
    for k, now in enumerate(shares, start=1):
        held = np.append(before, 0.0)
        if np.abs(now - np.maximum(held, least[k - 1])).max() > TOLERANCE:
            missed.add("lemma 1")
        if (np.diff(now) > TOLERANCE).any():
            missed.add("lemma 2")
        for i in range(k):
            more = np.flatnonzero(now > now[i] + TOLERANCE)
            # Before i came, the first i agents had the shares of shares[i - 1].
            earlier = shares[i - 1] if i else np.zeros(0)
            if any(j >= i or abs(now[j] - earlier[j]) > TOLERANCE for j in more.tolist()):
                missed.add("lemma 3")
        before = now
    return sorted(missed)


def judge_failures(fails: Mapping[str, int], sequences: int, lies: int) -> tuple[PrintedClaim, ...]:
    """Judge each property and lemma by the number of sequences on which it fails."""
    claims = []
    for name, words in (PROPERTIES | LEMMAS).items():
        sentence = f"it gives {words}" if name in PROPERTIES else words
        searched = f", {lies} lies each" if name == "strategy-proofness" else ""
        count = fails.get(name, 0)
        claims.append(
            PrintedClaim(
                sentence, count == 0, f"fails on {count} of {sequences} sequences{searched}"
            )
        )
    return tuple(claims)


def find_lie_with_zero_demands() -> Finding:
    """Return the finding that a lie can pay if some demands are zero."""
    declared = np.array([LIE, *WITH_ZEROS[1:]])
    honest, lied = (divide(demand)[0].shares[0] for demand in (np.array(WITH_ZEROS), declared))
    worth = float(lied) * float((declared[0] / np.array(WITH_ZEROS[0])).min())
    return Finding(
        "Section 2 assumes positive demands, and does not say which properties need them.",
        "With zero demands a lie can pay, if agents that demand no used-up resource rise on. "
        "Demands (1, 1/2, 1/2), (1, 0, 1/2), (0, 1, 1/2), (1/2, 1/2, 1): the first agent "
        f"ends with {number(float(honest))}, and with {number(worth)} if it declares (1, 1, 1/2).",
        "pytest papers/tests/test_dynamic_claims.py -k lie_that_pays",
    )
