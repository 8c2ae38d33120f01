"""Properties, algorithms and competitive ratios of Li, Liu, Zhang and Zhang 2019 (dynamic DRF)."""

from __future__ import annotations

from fairlead_papers.reproduction import Paper

PAPER = Paper(
    "dynamic",
    "Li, Liu, Zhang and Zhang",
    "A note on dynamic fair division of multiple resources",
    "2019",
    order=("section-2", "theorem-1", "algorithm-1", "section-4", "theorem-2"),
)
