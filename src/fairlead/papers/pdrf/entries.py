"""What is reproduced of Metin."""

from __future__ import annotations

from fairlead.papers.reproduction import Entry, Paper

METIN = Paper(
    "pdrf",
    "Metin",
    "Precomputed dominant resource fairness",
    "2025",
)

ENTRIES: tuple[Entry, ...] = ()
