"""Theorem 1 of Li et al. 2019: ways to find dynamic DRF, which agree."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairlead.certificates.dynamic_levels import certify_dynamic
from fairlead.model.cluster import FloatArray
from fairlead_papers.dynamic import PAPER
from fairlead_papers.dynamic.sequences import divide, draw_demands
from fairlead_papers.reproduction import Reproduction, TextTable
from fairlead_papers.setting import Setting
from fairlead_papers.verdict import PrintedClaim

OURS = "stack"
OTHERS = {
    "lp": "the linear programme (1)",
    "water": "water-filling",
    "halving": "Algorithm 1, put right",
}
SEQUENCES, QUICK_SEQUENCES = 400, 40
AGENTS = 12
# The linear programme's own tolerance is not far below.
TOLERANCE = 1e-8
NOTE = (
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
)
def reproduce(setting: Setting) -> Reproduction:
    """Divide among random sequences in four ways; ten seconds or so."""
    sequences = QUICK_SEQUENCES if setting.quick else SEQUENCES
    each = setting.do_all("sequences, in four ways", _divide_in_ways, setting.generators(sequences))
    violation = [missed for missed, _ in each]
    farthest = {name: np.array([apart[name] for _, apart in each]) for name in OTHERS}
    return Reproduction(
        setting=(
            f"{sequences} random sequences of 2 to {AGENTS} agents with 2 to 4 resources and "
            f"positive demands, seed {setting.seed}{' (quick)' if setting.quick else ''}; shares "
            "of everybody after every step."
        ),
        claims=judge_ways(farthest, np.array(violation)),
        note=NOTE,
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
    demand = draw_demands(random, AGENTS)
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
            f"{called} gives the same shares as ours, to {TOLERANCE:g}",
            bool((apart[name] <= TOLERANCE).all()),
            f"at most {float(apart[name].max()):.2g} apart",
        )
        for name, called in OTHERS.items()
    ]
    proved = PrintedClaim(
        "the shares are those that Lemma 1 and the budget of each step settle",
        bool((violation <= TOLERANCE).all()),
        f"the condition is missed by at most {float(violation.max()):.2g}",
    )
    return (*agree, proved)
