"""What is reproduced of Kesidis et al. 2018."""

from __future__ import annotations

from fairlead.papers.reproduction import Entry, Paper

KESIDIS = Paper(
    "private-clouds",
    "Kesidis, Shan, Jain, Urgaonkar, Khamse-Ashari and Lambadaris",
    "Scheduling distributed resources in heterogeneous private clouds",
    "MASCOTS 2018",
)

ENTRIES: tuple[Entry, ...] = ()
