"""Examples of the papers as problems, with their printed tasks where these are unique.

The files of examples/papers have printed totals under `expect`.
"""

from __future__ import annotations

from pathlib import Path

from fairlead import load
from fairlead.model.problem import Problem

PAPERS = Path(__file__).resolve().parents[2] / "examples" / "papers"


def drfh_figure_1() -> Problem:
    """Wang, Liang and Li 2015, Fig. 1: a high-memory and a high-CPU server."""
    return load(PAPERS / "drfh-figure-1.yaml")


def ps_dsf_figure_1() -> Problem:
    """Khamse-Ashari et al. 2017, Fig. 1: the second server has no bandwidth."""
    return load(PAPERS / "psdsf-figure-1.yaml")


def ps_dsf_figure_2() -> Problem:
    """Khamse-Ashari et al. 2017, Fig. 2: the same servers, four users."""
    return load(PAPERS / "psdsf-figure-2.yaml")


def ps_dsf_figure_4() -> Problem:
    """Khamse-Ashari et al. 2017, Fig. 4: two users share three channels, by their rates.

    The text does not give the rates of the figure. These give its results: channel 1 to user 1,
    channel 3 to user 2, half of channel 2 to each; 1.5 and 1 Mb/s.
    """
    return Problem.from_arrays(
        [[1], [1], [1]],
        [[1], [1]],
        rates=[[1, 1, 0.5], [0.5, 2 / 3, 2 / 3]],
        resources=["airtime"],
    )


def ps_dsf_section_v() -> Problem:
    """Khamse-Ashari et al. 2017, V: 120 servers in four classes; users 3 and 4 only on C and D."""
    return load(PAPERS / "psdsf-table-4.yaml")


# (N, G) printed tasks, where they are unique.
PRINTED_TASKS = {
    (drfh_figure_1, "drfh"): [[10, 0], [0, 10]],
    (drfh_figure_1, "drf-per-server"): [[5, 1], [1, 5]],
    (ps_dsf_figure_1, "ps-dsf"): [[3, 0], [3, 0], [0, 6]],
    (ps_dsf_figure_2, "ps-dsf"): [[3.6, 0], [3.6, 0], [0, 8], [0, 8]],
    (ps_dsf_figure_4, "ps-dsf-tdm"): [[1, 0.5, 0], [0, 1 / 3, 2 / 3]],
    (ps_dsf_section_v, "ps-dsf"): [
        [40, 170, 0, 0],
        [20, 85, 0, 0],
        [0, 0, 82.5, 0],
        [0, 0, 0, 27.5],
    ],
}
