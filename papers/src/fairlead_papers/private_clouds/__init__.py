"""Tables II to V of Kesidis et al. 2018 (progressive filling)."""

from __future__ import annotations

from fairlead_papers.reproduction import Paper

PAPER = Paper(
    "private-clouds",
    "Kesidis, Shan, Jain, Urgaonkar, Khamse-Ashari and Lambadaris",
    "Scheduling distributed resources in heterogeneous private clouds",
    "MASCOTS 2018",
    order=("table-2", "table-3", "table-4", "table-5"),
)
