"""The page of an audit: which properties hold, who holds what beside what it should, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fairlead.model.cluster import BoolArray
from fairlead.model.ties import first_largest, first_smallest, largest_first
from fairlead.model.verdict import Verdict
from fairlead.properties.audit import AUDITED, Audit
from fairlead.report.audit_figures import (
    ENVY_SHOWN,
    LARGEST_MARGIN,
    ROWS,
    audit_figures,
    largest_envies,
)
from fairlead.report.audit_standing import Standing, change, standing_of
from fairlead.report.numbers import counted
from fairlead.report.page import LONGEST_TABLE, embedded_json, environment
from fairlead.report.terminal import size_of
from fairlead.report.witness_tables import witness_blocks

SKIPPED_LISTED = 200


def audit_page(audit: Audit, title: str, left_out: Sequence[str] = ()) -> str:
    """Show which properties hold, each with its witness, and everybody beside its fair share.

    The other arguments and what it returns are as in `fairlead.report.page.allocation_page`.
    """
    subject = audit.subject
    given, standing = subject.given, standing_of(audit)
    verdicts = [_verdict_to_show(audit, verdict) for verdict in audit]
    figures = audit_figures(audit, standing)
    skipped = subject.holdings.skipped
    return (
        environment()
        .get_template("audit.html")
        .render(
            title=title,
            audited=subject.name,
            size=f"{size_of(given)}, {counted(given.n_resources, 'resource')}",
            pooled=subject.problem.n_groups == 1 and given.n_groups > 1,
            left_out=left_out,
            skipped=skipped[:SKIPPED_LISTED],
            n_skipped=len(skipped),
            summary=_summary(audit),
            holds=audit.holds,
            verdicts=verdicts,
            tiles=_tiles(audit, standing),
            what=standing.what,
            by=None if audit.fair is None else audit.fair.mechanism,
            weighted=bool((subject.problem.weight != subject.problem.weight[0]).any()),
            n_users=given.n_users,
            rows_drawn=ROWS,
            many="ratios" in figures,
            n_unknown=int(np.isnan(standing.ratio).sum()),
            largest_gain=LARGEST_MARGIN
            if (audit.envy.gain[standing.envies] > LARGEST_MARGIN).any()
            else None,
            n_envious=int(standing.envies.sum()),
            envies=largest_envies(audit, standing)
            if standing.envies.any() and "envy" not in figures
            else [],
            envies_listed=ENVY_SHOWN,
            n_short=int(standing.short.sum()),
            n_unasked=int(standing.unasked.sum()),
            whole_tasks=subject.holdings.whole_tasks,
            capped=LARGEST_MARGIN
            if float(np.nanmax(standing.margin, initial=0.0)) > LARGEST_MARGIN
            else None,
            rows=_rows(audit, standing),
            figures=embedded_json(figures),
            plotly=Markup(get_plotlyjs()),
        )
    )


def _summary(audit: Audit) -> str:
    fail = sum(verdict.verdict == "fails" for verdict in audit)
    if not fail:
        return "no property fails"
    return f"{fail} of {len(audit)} properties fail{'s' if fail == 1 else ''}"


def _verdict_to_show(audit: Audit, verdict: Verdict) -> dict[str, Any]:
    mark, words = {
        "holds": ("✓", "holds"),
        "fails": ("✗", "fails"),
        "unknown": ("?", "not decided"),
    }[verdict.verdict]
    if not verdict.applies:
        mark, words = "–", "nothing to ask"
    unit = AUDITED[verdict.name].looked_at
    searched = ""
    if verdict.detail and verdict.detail not in verdict.sentence:
        searched = verdict.detail
    elif verdict.searched and unit and not verdict.detail:
        searched = f"looked at: {counted(verdict.searched, unit)}"
    sentence = verdict.sentence
    for start in ("not decided: ", "nothing to ask: "):
        sentence = sentence.removeprefix(start)
    tasks = audit.subject.holdings.user_tasks
    return {
        "name": verdict.name,
        "kind": verdict.verdict if verdict.applies else "muted",
        "mark": mark,
        "words": words,
        "sentence": sentence,
        "searched": searched,
        "blocks": witness_blocks(verdict, audit.subject.given, tasks)
        if verdict.verdict == "fails"
        else [],
    }


def _tiles(audit: Audit, standing: Standing) -> list[tuple[str, str, str]]:
    """Sum up in a few numbers, each with who is worst off."""
    names = audit.subject.problem.users.names

    def count(whose: BoolArray) -> str:
        return f"{int(whose.sum()):,} of {len(names):,}"

    tiles = []
    if audit.fair is not None:
        worst = ""
        if standing.below.any():
            n = first_smallest(standing.ratio)
            worst = f"furthest: {names[n]}, {change(float(standing.ratio[n]) - 1)}"
        by = audit.fair.mechanism
        tiles.append((f"users below their fair share by {by}", count(standing.below), worst))
    worst = ""
    if standing.short.any():
        n = first_smallest(np.where(standing.short, 1 + standing.margin, np.inf))
        worst = f"furthest: {names[n]}, {change(float(standing.margin[n]))}"
    if standing.unasked.any():
        worst += f"{'; ' if worst else ''}{count(standing.unasked)} not asked: slice under one task"
    tiles.append(("users below their slice of every server", count(standing.short), worst))
    worst = ""
    if standing.envies.any():
        gain = np.where(standing.envies, audit.envy.gain, 0.0)
        n = first_largest(1 + gain)
        by_how_much = f"would gain {change(float(gain[n])).lstrip('+')}"
        has = by_how_much if np.isfinite(gain[n]) else "has nothing"
        worst = f"most: {names[n]}, {has}"
    tiles.append(("users that envy", count(standing.envies), worst))
    return tiles


def _rows(audit: Audit, standing: Standing) -> list[dict[str, Any]]:
    """List everybody, or of very many those with the largest shares."""
    problem, fair = audit.subject.problem, audit.fair
    n_users = problem.n_users
    chosen = range(n_users)
    if n_users > LONGEST_TABLE:
        largest = largest_first(np.nan_to_num(standing.held))[:LONGEST_TABLE]
        chosen = np.sort(largest).tolist()
    widest = float(np.nanmax(standing.held, initial=0.0)) or 1.0
    rows = []
    for n in chosen:
        row = {
            "name": problem.users.names[n],
            "weight": float(problem.weight[n]),
            "tasks": _known(audit.subject.holdings.user_tasks[n]),
            "share": _known(standing.held[n]),
            "part": 0.0 if np.isnan(standing.held[n]) else float(standing.held[n]) / widest,
            "slice": float(audit.slices[n]),
            "margin": _known(standing.margin[n]),
            "margin_text": change(float(standing.margin[n])),
            "short": bool(standing.short[n]),
            "fair_tasks": None,
            "fair_share": None,
            "ratio": None,
            "below": bool(standing.below[n]),
            "envies": "",
            "could": None,
        }
        if fair is not None:
            row |= {"fair_tasks": float(fair.user_tasks[n])}
            row |= {"fair_share": float(standing.reference[n]), "ratio": _known(standing.ratio[n])}
        if standing.envies[n]:
            row["envies"] = problem.users.names[int(audit.envy.envied[n])]
            row["could"] = float(audit.envy.could[n])
        rows.append(row)
    return rows


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
