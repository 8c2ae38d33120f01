"""Tables 1 and 2, and the printed examples, of Metin (PDRF)."""

from __future__ import annotations

from fairlead_papers.reproduction import Paper

PAPER = Paper(
    "pdrf",
    "Metin",
    "Precomputed dominant resource fairness",
    "preprint",
    order=("section-3", "table-1", "table-2", "section-6.1", "section-6.2"),
)
