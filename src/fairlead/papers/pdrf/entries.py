"""What is reproduced of Metin."""

from __future__ import annotations

from fairlead.papers.reproduction import Entry, Paper

METIN = Paper(
    "pdrf",
    "Metin",
    "Precomputed dominant resource fairness",
    "preprint",
)

ENTRIES = (
    Entry(
        "pdrf/section-3",
        METIN,
        "Section 3",
        "turns of two users on a pool of 9 CPU and 18 GB, and their cycle",
        "dominant shares of 2/9 and 1/3; A has 3 tasks and B 2, each 2/3 of its dominant resource",
        "fairlead.papers.pdrf.examples:reproduce_section_3",
        "a second",
    ),
    Entry(
        "pdrf/table-1",
        METIN,
        "Table 1",
        "users whom PDRF gives less or more than DRF does, 10 resources, three ranges of demands",
        "47 % of 1,000 users have one task too few; at most 0.7 have too many, by at most 2",
        "fairlead.papers.pdrf.tables:reproduce_table_1",
        "ten seconds",
    ),
    Entry(
        "pdrf/table-2",
        METIN,
        "Table 2",
        "users whom PDRF gives less or more than DRF does, 2 resources, two ranges of demands",
        "41 or 42 % of 1,000 users have one task too few; 50 and 84 have too many, by at most 3 "
        "and 32",
        "fairlead.papers.pdrf.tables:reproduce_table_2",
        "ten seconds",
        known_to_differ=True,
    ),
    Entry(
        "pdrf/section-6.1",
        METIN,
        "Section 6.1",
        "cycles of three users on one resource, and of two when the third does not fit",
        "4, 2 and 1 tasks take 26 of 35 units; 9 are left, of which 2 and 1 tasks take 8",
        "fairlead.papers.pdrf.examples:reproduce_section_6_1",
        "a second",
    ),
    Entry(
        "pdrf/section-6.2",
        METIN,
        "Section 6.2",
        "a pool on which DRF's Algorithm 1 stops early",
        "it stops with 2 and 8 tasks and (33, 3) left, where 3 more tasks of B fit",
        "fairlead.papers.pdrf.examples:reproduce_section_6_2",
        "a second",
    ),
)
