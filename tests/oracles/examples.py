"""Examples of the papers as problems, with their printed numbers."""

from __future__ import annotations

from fairlead.model.problem import Problem


def drfh_figure_1() -> Problem:
    """Wang, Liang and Li 2015, Fig. 1: a high-memory and a high-CPU server."""
    return Problem.from_arrays([[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]])


def ps_dsf_figure_1() -> Problem:
    """Khamse-Ashari et al. 2017, Fig. 1: the second server has no bandwidth."""
    return Problem.from_arrays(
        [[9, 12, 100], [12, 12, 0]], [[1, 2, 10], [1, 2, 1], [1, 2, 0]], weight=[1, 1, 2]
    )


def ps_dsf_figure_2() -> Problem:
    """Khamse-Ashari et al. 2017, Fig. 2: the same servers, four users."""
    return Problem.from_arrays(
        [[9, 12, 100], [12, 12, 0]], [[1.5, 1, 10], [1, 2, 10], [0.5, 1, 0], [1, 0.5, 0]]
    )


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
    return Problem.from_arrays(
        [[1, 1], [0.5, 0.5], [0.5, 0.25], [0.5, 0.75]],
        [[0.1, 0.1], [0.1, 0.2], [0.2, 0.1], [0.2, 0.3]],
        count=[8, 68, 33, 11],
        weight=[2, 2, 1, 1],
        eligible=[[1, 1, 1, 1], [1, 1, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]],
        groups=["A", "B", "C", "D"],
    )


def drf_original() -> Problem:
    """Metin et al., III-A: the example of DRF's authors, 9 CPU and 18 GB."""
    return Problem.from_arrays([[9, 18]], [[1, 4], [3, 1]])


# Printed totals by (example, mechanism): values, and the tolerance by their digits.
PRINTED_TOTALS = {
    (drfh_figure_1, "drfh"): ([10, 10], 1e-9),
    (drfh_figure_1, "drf-per-server"): ([6, 6], 1e-9),
    (ps_dsf_figure_1, "ps-dsf"): ([3, 3, 6], 1e-9),
    (ps_dsf_figure_1, "drfh"): ([2.609, 3.130, 6.261], 5e-4),
    (ps_dsf_figure_1, "tsf"): ([2, 2, 8], 1e-9),
    (ps_dsf_figure_2, "ps-dsf"): ([3.6, 3.6, 8, 8], 1e-9),
    (ps_dsf_section_v, "ps-dsf"): ([210, 105, 82.5, 27.5], 1e-9),
    (ps_dsf_section_v, "ps-dsf-tdm"): ([210, 105, 82.5, 27.5], 1e-9),
    # Printed per class as 58.33, and 8.05 + 27.5 for the fourth user.
    (ps_dsf_section_v, "tsf"): ([205, 107.5, 58.33, 35.55], 0.1),
    (drf_original, "drf"): ([3, 2], 1e-9),
    (ps_dsf_figure_4, "ps-dsf-tdm"): ([1.5, 1], 1e-9),
}

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
