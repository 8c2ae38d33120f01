"""What is reproduced of Khamse-Ashari et al. 2017."""

from __future__ import annotations

from fairlead.papers.reproduction import Entry, Paper

KHAMSE = Paper(
    "psdsf",
    "Khamse-Ashari, Lambadaris, Kesidis, Urgaonkar and Zhao",
    "Per-server dominant-share fairness (PS-DSF): a multi-resource fair allocation mechanism for "
    "heterogeneous servers",
    "ICC 2017",
)

ENTRIES = (
    Entry(
        "psdsf/figure-6",
        KHAMSE,
        "Figure 6",
        "CPU used of two classes of servers while a user is away, servers deciding themselves",
        "PS-DSF uses more than TSF and C-DRFH, and settles quickly after each change",
        "fairlead.papers.psdsf.figure_6:reproduce",
        "two seconds",
    ),
)
