"""Tables, figures and section IV of Wang, Liang and Li 2014 (DRFH)."""

from __future__ import annotations

from fairlead_papers.reproduction import Paper

PAPER = Paper(
    "drfh",
    "Wang, Liang and Li",
    "Dominant resource fairness in cloud computing systems with heterogeneous servers",
    "INFOCOM 2014",
    order=(
        "figure-3",
        "table-1",
        "section-4",
        "figure-4",
        "table-2",
        "figure-5",
        "figure-6",
        "figure-7",
        "figure-8",
    ),
)
