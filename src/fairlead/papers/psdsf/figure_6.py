"""Figure 6 of Khamse-Ashari et al. 2017: servers that divide themselves while a user is away."""

from __future__ import annotations

import numpy as np

from fairlead.papers.psdsf import PAPER
from fairlead.papers.psdsf.servers_of_figure_6 import CLASSES_SHOWN, CPU, Figure6, figure_6
from fairlead.papers.reproduction import Picture, Reproduction, Table
from fairlead.papers.setting import Setting
from fairlead.papers.verdict import Claim
from fairlead.report.convergence_figures import utilisation_figure
from fairlead.report.convergence_tables import changes_text
from fairlead.report.numbers import number, percent

# Quick to settle: within so many runs of each server's procedure.
SECONDS_TO_SETTLE = 5.0
# What is used before it has settled is not what is compared.
SETTLES = 10.0
ROUNDING = 1e-6
NOTE = (
    "The paper prints gamma, not demands, and gamma leaves open how much CPU a task of user 2 "
    "takes; here 2/15, the most it allows (docs/distributed.md). TSF and C-DRFH fix how many tasks "
    "a user has, not where: what they use of a class can be chosen within a range, whose upper end "
    "is taken for the comparison."
)


@PAPER.reproduces(
    "figure-6",
    "Figure 6",
    "CPU used of two classes of servers while a user is away, servers deciding themselves",
    "PS-DSF uses more than TSF and C-DRFH, and settles quickly after each change",
    "two seconds",
)
def reproduce(setting: Setting) -> Reproduction:
    """Let 120 servers divide themselves, beside exact answers at each second; two seconds."""
    figure = figure_6(seed=setting.seed)
    comparison = figure.comparison
    names = ("C", "D")
    pictures = tuple(
        Picture(
            f"Class {name}, CPU used.",
            utilisation_figure(comparison, group, CPU),
            f"Use of CPU on class {name} over time; means are in the table",
        )
        for name, group in zip(names, CLASSES_SHOWN, strict=True)
    )
    return Reproduction(
        setting=(
            "120 servers in classes A to D, each by itself, once a second; user 4 away from 100 to "
            f"250 s; seed {setting.seed}. Blue PS-DSF by the servers; dashed TSF, dotted C-DRFH."
        ),
        claims=_claims(figure),
        note=NOTE,
        tables=(_table(figure),),
        pictures=pictures,
        data={
            "times": figure.times,
            "ps_dsf": figure.ps_dsf.T,
            "tsf": figure.tsf.T,
            "c_drfh": figure.c_drfh.T,
        },
    )


def _claims(figure: Figure6) -> tuple[Claim, ...]:
    settled = figure.comparison.settled
    slowest = max(np.inf if s.certified is None else s.certified for s in settled)
    begins = np.array([s.phase.begin for s in settled])
    since = figure.times - begins[np.searchsorted(begins, figure.times, side="right") - 1]
    steady = since >= SETTLES
    others = np.maximum(figure.tsf_range[:, :, 1], figure.c_drfh_range[:, :, 1])
    behind = float((others - figure.ps_dsf)[steady].max())
    return (
        Claim(
            "PS-DSF uses at least as much CPU of both classes as TSF and C-DRFH can, once settled",
            behind <= ROUNDING,
            "never less" if behind <= ROUNDING else f"up to {percent(behind)} less",
        ),
        Claim(
            f"the servers settle within {SECONDS_TO_SETTLE:g} s of every change, to 1e-6",
            bool(slowest <= SECONDS_TO_SETTLE),
            f"{number(float(slowest))} s at most",
        ),
    )


def _table(figure: Figure6) -> Table:
    comparison, rows = figure.comparison, []
    for settled in comparison.settled:
        phase = settled.phase
        last = np.flatnonzero(figure.times < phase.end)[-1]
        for k, name in enumerate(("C", "D")):
            rows.append(
                [
                    f"{name}, until {phase.end:g} s ({changes_text(comparison, phase)})",
                    percent(float(figure.ps_dsf[last, k])),
                    _range(figure.tsf_range[last, k].tolist()),
                    _range(figure.c_drfh_range[last, k].tolist()),
                ]
            )
    return Table("CPU used once settled.", ["class, when", "PS-DSF", "TSF", "C-DRFH"], rows)


def _range(ends: list[float]) -> str:
    low, high = (percent(end) for end in ends)
    return low if low == high else f"{low} to {high}"
