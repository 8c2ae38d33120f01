"""What is reproduced of Li, Liu, Zhang and Zhang 2019."""

from __future__ import annotations

from fairlead.papers.reproduction import Entry, Paper

LI = Paper(
    "dynamic",
    "Li, Liu, Zhang and Zhang",
    "A note on dynamic fair division of multiple resources",
    "2019",
)

ENTRIES = (
    Entry(
        "dynamic/section-2",
        LI,
        "Section 2 and Lemmas 1 to 3",
        "four properties of dynamic DRF, and three lemmas, on random sequences",
        "it gives sharing incentive, dynamic envy-freeness and dynamic Pareto optimality, and is "
        "strategy-proof",
        "fairlead.papers.dynamic.section_2:reproduce",
        "half a minute",
    ),
    Entry(
        "dynamic/theorem-1",
        LI,
        "Theorem 1",
        "ways to find dynamic DRF, on random sequences",
        "the linear programme, water-filling and an algorithm of O(k) a step find the same",
        "fairlead.papers.dynamic.theorem_1:reproduce",
        "half a minute",
    ),
    Entry(
        "dynamic/algorithm-1",
        LI,
        "Algorithm 1",
        "the algorithm to the letter, in fractions, on random sequences",
        "it finds the dynamic DRF solution",
        "fairlead.papers.dynamic.algorithm_1:reproduce",
        "ten seconds",
        known_to_differ=True,
    ),
    Entry(
        "dynamic/section-4",
        LI,
        "Section 4",
        "sums of dominant shares beside those of DRF with full knowledge",
        "all but the last agent have m/(m+1), the last 1/(m+1), under DRF all 1/2: the sum can be "
        "larger than DRF's",
        "fairlead.papers.dynamic.section_4:reproduce",
        "at once",
    ),
    Entry(
        "dynamic/theorem-2",
        LI,
        "Theorem 2",
        "the least share beside that of DRF with full knowledge, at the worst step",
        "at least ceil(k/m)/k of it, and at most (m+1)/(m²+1) in the worst case: nearly 1/m",
        "fairlead.papers.dynamic.theorem_2:reproduce",
        "half a minute",
    ),
)
