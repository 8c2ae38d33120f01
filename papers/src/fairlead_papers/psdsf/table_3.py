"""Table III of Khamse-Ashari et al. 2017: tasks that each user may run alone on each class."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.report.numbers import number
from fairlead_papers.psdsf import PAPER
from fairlead_papers.psdsf.examples import EXACT
from fairlead_papers.psdsf.figure_6 import CPU_OF_USER_2, cluster_of_section_5
from fairlead_papers.psdsf.section_5 import CLASSES, PRINTED_GAMMA, USERS
from fairlead_papers.reproduction import Finding, Reproduction, TextTable
from fairlead_papers.setting import Setting
from fairlead_papers.verdict import PrintedClaim, Reading

# CPU of one task of user 2: three of those that gamma leaves open.
TRIED = (0.05, 0.1, CPU_OF_USER_2)
NOTE = (
    "The paper prints no demands. Those here were found from gamma and the classes: (0.1, 0.1), "
    "(2/15, 0.2), (0.2, 0.1) and (0.2, 0.3) of CPU and memory. User 2's CPU is open up to 2/15, "
    "since its memory binds on every class; with all of these gamma is the same, and so is every "
    "number of this table."
)


@PAPER.reproduces(
    "table-3",
    "Table III",
    "tasks that each user may run alone on each of four classes of servers",
    "80, 340, 82.5 and 55 for user 1, and so on",
    "at once",
)
def reproduce(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
    """Count tasks by capacity over demand; at once."""
    gamma = cluster_of_section_5().gamma
    others = [cluster_of_section_5(cpu).gamma for cpu in TRIED]
    beyond = cluster_of_section_5(1.01 * CPU_OF_USER_2).gamma
    rows = [
        [
            user,
            *(
                f"{number(ours)} ({number(paper)})"
                for ours, paper in zip(gamma[n].tolist(), PRINTED_GAMMA[n], strict=True)
            ),
        ]
        for n, user in enumerate(USERS)
    ]
    return Reproduction(
        setting="120 servers in four classes as printed; demands of ours (see below).",
        readings=tuple(
            Reading(
                f"{user}, class {name}", float(gamma[n, g]), PRINTED_GAMMA[n][g], EXACT, None, False
            )
            for n, user in enumerate(USERS)
            for g, name in enumerate(CLASSES)
        ),
        claims=judge_freedom(others, beyond),
        findings=(
            Finding(
                "V prints gamma, not demands.",
                "Gamma settles all demands but the CPU of user 2, which may be anything up to "
                f"{number(CPU_OF_USER_2)} a task; above that gamma is another. Fig. 6 depends on "
                "it, the tables do not.",
                "fairlead reproduce psdsf/table-3",
            ),
        ),
        note=NOTE,
        tables=(
            TextTable("Ours, and in brackets the paper's.", ["tasks alone on", *CLASSES], rows),
        ),
        data={"gamma": gamma},
    )


def judge_freedom(gammas: list[FloatArray], beyond: FloatArray) -> tuple[PrintedClaim, ...]:
    """Describe what gamma, (4, 4), leaves open.

    The last of `gammas` has the largest CPU demand of user 2 said to be open; `beyond` has a larger
    one.
    """
    apart = max(float(np.abs(one - other).max()) for one, other in pairwise(gammas))
    changed = float(np.abs(beyond - gammas[-1]).max())
    return (
        PrintedClaim(
            "gamma is the same for any CPU demand of user 2 up to 2/15, and another above that",
            apart <= EXACT < changed,
            f"{apart:.2g} apart; {number(changed)} with one hundredth more",
        ),
    )
