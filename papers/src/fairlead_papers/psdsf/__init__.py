"""Tables, figures and theorems of Khamse-Ashari et al. 2017 (PS-DSF)."""

from __future__ import annotations

from fairlead_papers.reproduction import Paper

PAPER = Paper(
    "psdsf",
    "Khamse-Ashari, Lambadaris, Kesidis, Urgaonkar and Zhao",
    "Per-server dominant-share fairness (PS-DSF): a multi-resource fair allocation mechanism for "
    "heterogeneous servers",
    "ICC 2017",
    order=(
        "figure-1",
        "table-1",
        "figure-3",
        "theorem-1",
        "lemma-1",
        "figure-4",
        "table-3",
        "table-4",
        "figure-6",
    ),
)
