"""Draw docs/pictures/mechanisms.svg: two servers divided between two users by three mechanisms.

    python benchmarks/mechanisms_picture.py

Each bar is a resource of a server, with the amount that each user holds.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import fairlead
from growth_pictures import STYLE

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "mechanisms.svg"
CAPACITY = np.array([[12.0, 6.0], [6.0, 12.0]])  # (servers, resources)
DEMAND = np.array([[1.0, 1.0], [1.0, 2.0]])  # (users, resources)
USERS, COLOURS = ("ana", "bo"), ("#2a78b8", "#e39c37")
BARS = ("a\ncores", "a\nGiB", "b\ncores", "b\nGiB")
MECHANISMS = {"drf-per-server": "DRF on each server", "drfh": "DRFH", "ps-dsf": "PS-DSF"}


def main() -> None:
    """Solve by each mechanism, and write the picture."""
    problem = fairlead.Problem.from_arrays(CAPACITY, DEMAND)
    figure = Figure((9.6, 3.0), layout="constrained", facecolor="white")
    axes = figure.subplots(1, len(MECHANISMS), sharey=True)
    for axis, (mechanism, title) in zip(axes, MECHANISMS.items(), strict=True):
        tasks = fairlead.solve(problem, mechanism).tasks  # (users, servers)
        held = tasks[:, :, None] * DEMAND[:, None, :]  # (users, servers, resources)
        axis.bar(BARS, CAPACITY.ravel(), color="none", edgecolor="#888888", width=0.7)
        bottom = np.zeros(CAPACITY.size)
        for user, colour, amounts in zip(USERS, COLOURS, held, strict=True):
            axis.bar(BARS, amounts.ravel(), bottom=bottom, color=colour, width=0.7, label=user)
            bottom += amounts.ravel()
        runs = ", ".join(
            f"{u} {n:g}" for u, n in zip(USERS, tasks.sum(axis=1).round(1), strict=True)
        )
        axis.set_title(f"{title}: {runs} tasks", fontsize=10)
        axis.tick_params(labelsize=8)
    axes[0].set_ylabel("amount of a server", fontsize=9)
    axes[0].legend(frameon=False, fontsize=9, loc="upper center")
    figure.savefig(PICTURE, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    with mpl.rc_context(STYLE):
        main()
