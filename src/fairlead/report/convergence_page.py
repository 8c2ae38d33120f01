"""The page of a cluster whose servers divide themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fairlead.distributed.convergence import Comparison
from fairlead.model.ties import largest_first
from fairlead.report.convergence_figures import (
    NAMES,
    drawn_lines,
    shares_figure,
    shown_users,
    utilisation_figure,
    utilisation_pictures,
    violation_figure,
)
from fairlead.report.convergence_tables import (
    changes_text,
    hint_text,
    seconds_text,
    setting_text,
)
from fairlead.report.figures import COLOURS
from fairlead.report.page import LONGEST_TABLE, certificate_to_show, embedded_json, environment
from fairlead.report.terminal import size_of


def convergence_page(comparison: Comparison, title: str, left_out: Sequence[str] = ()) -> str:
    """Show how servers that divide themselves follow who comes and goes.

    The other arguments and what it returns are as in `fairlead.report.page.allocation_page`.
    """
    run = comparison.run
    problem = run.setting.problem
    figures: dict[str, Any] = {
        "violation": violation_figure(run),
        "shares": shares_figure(comparison),
    }
    pictures = []
    for g, r in utilisation_pictures(comparison):
        key = f"use-{g}-{r}"
        figures[key] = utilisation_figure(comparison, g, r)
        resource = problem.cluster.resources[r]
        pictures.append({"key": key, "group": problem.cluster.groups[g], "resource": resource})
    users = _users(comparison)
    return (
        environment()
        .get_template("convergence.html")
        .render(
            title=title,
            size=size_of(problem),
            left_out=left_out,
            setting=setting_text(run.setting),
            own=NAMES[run.setting.mechanism],
            hint=hint_text(comparison),
            refused=[f"{NAMES.get(m, m)}: {why}" for m, why in comparison.refused.items()],
            runs=run.runs,
            phases=_phases(comparison),
            certificate=certificate_to_show(run.certificate),
            legend=drawn_lines(comparison),
            pictures=pictures,
            all_pictures=int((problem.cluster.capacity > 0).sum()),
            users=users,
            n_users=problem.n_users,
            lines=len(shown_users(run)),
            exact=[NAMES.get(name, name) for name in comparison.exact],
            figures=embedded_json(figures),
            plotly=Markup(get_plotlyjs()),
        )
    )


def _phases(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "begin": f"{settled.phase.begin:g} s",
            "change": changes_text(comparison, settled.phase),
            "users": len(settled.phase.users),
            "close": seconds_text(settled.close),
            "certified": seconds_text(settled.certified),
        }
        for settled in comparison.settled
    ]


def _users(comparison: Comparison) -> list[dict[str, Any]]:
    """List who is there in the end, or of very many those with the largest shares."""
    run = comparison.run
    last = len(run.phases) - 1
    share = run.dominant_share[-1]
    there = np.flatnonzero(run.phases[last].active)
    largest = np.sort(there[largest_first(share[there])][:LONGEST_TABLE])
    exact = [comparison.exact_tasks(name, last) for name in comparison.exact]
    colour = {n: COLOURS[k % len(COLOURS)] for k, n in enumerate(shown_users(run))}
    return [
        {
            "name": run.setting.problem.users.names[n],
            "colour": colour.get(n),
            "share": float(share[n]),
            "tasks": float(run.user_tasks[-1, n]),
            "exact": [float(tasks[n]) for tasks in exact],
        }
        for n in largest.tolist()
    ]
