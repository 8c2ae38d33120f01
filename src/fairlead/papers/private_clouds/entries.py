"""What is reproduced of Kesidis et al. 2018."""

from __future__ import annotations

from fairlead.papers.reproduction import Entry, Paper

KESIDIS = Paper(
    "private-clouds",
    "Kesidis, Shan, Jain, Urgaonkar, Khamse-Ashari and Lambadaris",
    "Scheduling distributed resources in heterogeneous private clouds",
    "MASCOTS 2018",
)

ENTRIES = tuple(
    Entry(
        f"private-clouds/table-{number}",
        KESIDIS,
        f"Table {roman}",
        shows,
        printed,
        f"fairlead.papers.private_clouds.tables:reproduce_table_{number}",
        "two seconds",
    )
    for number, roman, shows, printed in (
        (
            2,
            "II",
            "tasks of two users on two servers under six schedulers, and their totals",
            "DRF and TSF in rounds run 22.48 and 22.4 tasks, PS-DSF 41.08 in rounds and 41 "
            "jointly, rPS-DSF 42",
        ),
        (
            3,
            "III",
            "how far those tasks vary over 200 trials",
            "sample deviations are up to 2.31 under DRF and TSF, and at most 1 under PS-DSF",
        ),
        (
            4,
            "IV",
            "what is left unused of two resources on two servers under six schedulers",
            "DRF and TSF leave 62.6 and 62.8 of 100 units, the others at most 10",
        ),
        (
            5,
            "V",
            "how far what is unused varies over 200 trials",
            "sample deviations are 11.09 and 10.99 under DRF and TSF; PS-DSF's are Table III's",
        ),
    )
)
