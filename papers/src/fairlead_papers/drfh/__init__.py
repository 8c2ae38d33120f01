"""Wang, Liang and Li 2014."""

from __future__ import annotations

from fairlead.report.charts import COLOURS
from fairlead_papers.reproduction import Paper

# How policies are drawn in all pictures of this paper.
BEST, FIRST, SLOTS = COLOURS[0], COLOURS[1], COLOURS[5]

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
