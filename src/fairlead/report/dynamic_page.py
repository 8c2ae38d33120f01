"""The page of a division among users that arrive one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fairlead.mechanisms.dynamic_run import DynamicRun
from fairlead.model.ties import first_smallest
from fairlead.model.verdict import Verdict
from fairlead.report.dynamic_figures import (
    is_weighted,
    resource_labels,
    shares_figure,
    shown_users,
    staircase_figure,
    use_figure,
)
from fairlead.report.dynamic_tables import verdict_text
from fairlead.report.figures import COLOURS
from fairlead.report.numbers import counted
from fairlead.report.page import (
    LONGEST_TABLE,
    certificate_to_show,
    embedded_json,
    environment,
)


def dynamic_page(
    run: DynamicRun, verdicts: Sequence[Verdict], title: str, left_out: Sequence[str] = ()
) -> str:
    """Show who got what when, beside DRF that knows everybody, and why this is the answer.

    The other arguments and what it returns are as in `fairlead.report.page.allocation_page`.
    """
    ratio = run.levels / run.full_knowledge_levels
    worst = first_smallest(ratio)
    rows = _rows(run)
    shown = shown_users(run)
    return (
        environment()
        .get_template("dynamic.html")
        .render(
            title=title,
            size=f"{counted(run.n_steps, 'user')}, one after another; "
            f"{counted(len(run.used), 'resource')}, all servers as one pool",
            solver=run.solver,
            left_out=left_out,
            resources=list(zip(resource_labels(run), run.used.tolist(), strict=True)),
            ratio=float(ratio[-1]),
            worst=float(ratio[worst]),
            worst_step=worst + 1,
            certificate=certificate_to_show(run.certificate),
            verdicts=[(v.verdict, verdict_text(v)) for v in verdicts],
            weighted=is_weighted(run),
            sample=f"{len(shown)} of {run.n_steps:,} users, evenly spaced"
            if len(shown) < run.n_steps
            else "",
            rows=rows,
            n_users=run.n_steps,
            figures=embedded_json(
                {
                    "staircase": staircase_figure(run),
                    "shares": shares_figure(run),
                    "use": use_figure(run),
                }
            ),
            plotly=Markup(get_plotlyjs()),
        )
    )


def _rows(run: DynamicRun) -> list[dict[str, Any]]:
    """List everybody, or of very many those who came first."""
    known = run.full_knowledge_shares
    largest = float(max(run.shares.max(), known.max()))
    colour = {n: COLOURS[k % len(COLOURS)] for k, n in enumerate(shown_users(run))}
    return [
        {
            "name": run.problem.users.names[n],
            "colour": colour.get(n),
            "weight": float(run.problem.weight[n]),
            "step": n + 1,
            "level": float(run.levels[n]),
            "share": float(run.shares[n]),
            "part": float(run.shares[n]) / largest,
            "known": float(known[n]),
            "ratio": float(run.shares[n] / known[n]),
        }
        for n in range(min(run.n_steps, LONGEST_TABLE))
    ]
