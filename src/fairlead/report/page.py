"""One self-contained page per answer or comparison: no part of it is fetched from anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fairlead.mechanisms.catalogue import CATALOGUE
from fairlead.model.allocation import Allocation, Certificate
from fairlead.model.problem import Problem
from fairlead.model.ties import largest_first
from fairlead.report.figures import (
    USERS_WITH_A_ROW_EACH,
    Style,
    comparison_figure,
    group_figure,
    holder_name,
    share_figure,
    user_styles,
)
from fairlead.report.holdings import LARGEST_HOLDERS, group_holdings, holds, where_text
from fairlead.report.numbers import (
    amount,
    counted,
    number,
    percent,
    precise_percent,
    resource_label,
    spread,
)

LONGEST_TABLE = 2000
GROUPS_LISTED = 12


def allocation_page(allocation: Allocation, title: str, left_out: Sequence[str] = ()) -> str:
    """Show one answer: who gets what and where, and why it is the answer.

    Parameters
    ----------
    allocation : Allocation
    title : str
        What was divided, such as the problem file's name.
    left_out : sequence of str
        Users that were left out because they fit no server, and why.

    Returns
    -------
    str
        A whole HTML document. Cost O(N (G + R)) time and characters.
    """
    return render_page(title, {allocation.mechanism: allocation}, {}, left_out)


def comparison_page(
    answers: Mapping[str, Allocation],
    refused: Mapping[str, str],
    title: str,
    left_out: Sequence[str] = (),
) -> str:
    """Show several answers to one problem, by mechanism, side by side, and each by itself.

    `refused` says why the other mechanisms have no answer; the other arguments are as in
    `allocation_page`.
    """
    return render_page(title, answers, refused, left_out, comparison=True)


def render_page(
    title: str,
    answers: Mapping[str, Allocation],
    refused: Mapping[str, str],
    left_out: Sequence[str],
    *,
    comparison: bool = False,
    about: Mapping[str, tuple[str, str]] | None = None,
    chance: Mapping[str, Any] | None = None,
) -> str:
    """Render a page of one answer or several, side by side if `comparison`; see `comparison_page`.

    `about` has idea and paper of each mechanism where the catalogue has no row of it; `chance` what
    the template ``chance.html`` shows of an answer that is a mean, and its ``figure``.
    """
    allocations = list(answers.values())
    largest_problem = max((a.problem for a in allocations), key=lambda p: p.n_groups)
    styles = user_styles(allocations)
    figures: dict[str, Any] = {}
    panels = [
        _panel(k, allocation, about or _catalogue_rows(), styles, figures)
        for k, allocation in enumerate(allocations)
    ]
    if comparison:
        figures["comparison"] = comparison_figure(answers)
    if chance is not None and chance["figure"] is not None:
        figures["chance"] = chance["figure"]
    return (
        environment()
        .get_template("page.html")
        .render(
            title=title,
            size=_size(largest_problem),
            comparison=_comparison(answers) if comparison else None,
            panels=panels,
            chance=chance,
            refused=refused,
            left_out=left_out,
            largest_holders=LARGEST_HOLDERS,
            figures=embedded_json(figures),
            plotly=Markup(get_plotlyjs()),
        )
    )


def _catalogue_rows() -> dict[str, tuple[str, str]]:
    return {row.name: (row.summary, row.paper) for row in CATALOGUE.values()}


def embedded_json(values: Any) -> Markup:
    """Write values as JSON that cannot end the script element that holds it."""
    text = json.dumps(values, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@cache
def environment() -> Environment:
    """Return the templates, with the filters that they use."""

    def read(name: str) -> str:
        return (files("fairlead.report") / "template" / name).read_text(encoding="utf-8")

    environment = Environment(
        loader=FunctionLoader(read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "percent": percent,
        "precise_percent": precise_percent,
        "spread": spread,
    }
    return environment


def _size(problem: Problem) -> str:
    return (
        f"{counted(int(problem.count.sum()), 'server')} in {counted(problem.n_groups, 'group')}, "
        f"{counted(problem.n_users, 'user')}, {counted(problem.n_resources, 'resource')}"
    )


def _panel(
    k: int,
    allocation: Allocation,
    about: Mapping[str, tuple[str, str]],
    styles: Sequence[Style],
    figures: dict[str, Any],
) -> dict[str, Any]:
    """Collect what the page shows of one answer, and put its pictures with the others."""
    problem = allocation.problem
    summary, paper = about.get(allocation.mechanism, ("", ""))
    weighted = bool((problem.weight != problem.weight[0]).any())
    figures[f"shares-{k}"] = share_figure(allocation, styles)
    groups = [_group(k, g, allocation, styles, figures) for g in range(problem.n_groups)]
    per_weight = allocation.dominant_share / problem.weight
    used = allocation.usage.sum(axis=0)
    return {
        "key": k,
        "mechanism": allocation.mechanism,
        "summary": summary,
        "paper": paper,
        "certificate": certificate_to_show(allocation.certificate),
        "resources": [
            {
                "label": resource_label(problem.cluster, r),
                "share": allocation.utilization[name],
                "used": number(float(used[r])),
                "total": amount(float(problem.total_capacity[r]), problem.cluster.units[r]),
            }
            for r, name in enumerate(problem.cluster.resources)
        ],
        "least": float(per_weight.min()),
        "largest": float(allocation.dominant_share.max()) or 1.0,
        "tasks": float(allocation.user_tasks.sum()),
        "weighted": weighted,
        "diamonds": weighted and problem.n_users <= USERS_WITH_A_ROW_EACH,
        "users": _users(allocation, styles),
        "n_users": problem.n_users,
        "groups": groups,
    }


def _users(allocation: Allocation, styles: Sequence[Style]) -> list[dict[str, Any]]:
    problem = allocation.problem
    where = holds(allocation)
    rows = []
    for n in _rows_to_list(allocation.dominant_share):
        limit = float(problem.task_limit[n])
        rows.append(
            {
                "name": problem.users.names[n],
                "colour": styles[n].colour,
                "weight": float(problem.weight[n]),
                "tasks": float(allocation.user_tasks[n]),
                "limit": limit if np.isfinite(limit) else None,
                "resource": allocation.dominant_resource[n],
                "share": float(allocation.dominant_share[n]),
                "where": where_text(allocation, n, where[n], GROUPS_LISTED),
            }
        )
    return rows


def _rows_to_list(size: np.ndarray[Any, Any]) -> list[int]:
    if len(size) <= LONGEST_TABLE:
        return list(range(len(size)))
    return sorted(largest_first(size)[:LONGEST_TABLE].tolist())


def _group(
    k: int, g: int, allocation: Allocation, styles: Sequence[Style], figures: dict[str, Any]
) -> dict[str, Any]:
    problem = allocation.problem
    cluster = problem.cluster
    picture = group_holdings(allocation, g)
    figures[f"group-{k}-{g}"] = group_figure(allocation, picture, styles)
    has = problem.group_capacity[g] > 0
    present = [r for r in range(problem.n_resources) if has[r]]
    pooled = cluster.groups == ("pool",)
    return {
        "key": f"group-{k}-{g}",
        "name": "all servers as one pool" if pooled else cluster.groups[g],
        "servers": None if pooled else counted(int(problem.count[g]), "server"),
        "each": ", ".join(
            f"{amount(float(cluster.capacity[g, r]), cluster.units[r])} {cluster.resources[r]}"
            for r in present
        ),
        "labels": [f"{key}: {value}" for key, value in cluster.labels[g].items()],
        "lacks": [cluster.resources[r] for r in range(problem.n_resources) if not has[r]],
        "resources": [resource_label(cluster, r) for r in present],
        "holders": sum(len(holding.users) for holding in picture.holdings),
        "holdings": [
            {
                "name": holder_name(allocation, holding),
                "tasks": holding.tasks,
                "held": [(holding.amounts[r], holding.shares[r]) for r in present],
            }
            for holding in picture.holdings
        ],
        "free": [
            (picture.free[r], picture.free[r] / float(problem.group_capacity[g, r]))
            for r in present
        ],
    }


def certificate_to_show(certificate: Certificate) -> dict[str, Any]:
    """Return what a page says of a certificate."""
    detail = {
        name.replace("_", " "): number(value) if isinstance(value, float) else str(value)
        for name, value in certificate.detail.items()
        if isinstance(value, str | int | float)
    }
    return {
        "condition": certificate.condition,
        "violation": f"{certificate.violation:.1e}",
        "tolerance": f"{certificate.tolerance:.0e}",
        "holds": certificate.holds,
        "detail": detail,
    }


def _comparison(answers: Mapping[str, Allocation]) -> dict[str, Any]:
    """Collect the table of users by mechanism, and what sums each mechanism up."""
    allocations = list(answers.values())
    problem = allocations[0].problem
    tasks = np.stack([allocation.user_tasks for allocation in allocations], axis=1)
    most = np.maximum(tasks.max(axis=1), np.finfo(float).tiny)
    largest = np.max([allocation.dominant_share for allocation in allocations], axis=0)
    per_weight = [allocation.dominant_share / problem.weight for allocation in allocations]
    return {
        "mechanisms": list(answers),
        "rows": [
            {
                "name": problem.users.names[n],
                "cells": list(zip(tasks[n].tolist(), (tasks[n] / most[n]).tolist(), strict=True)),
            }
            for n in _rows_to_list(largest)
        ],
        "n_users": problem.n_users,
        "used": [
            (f"{name} used", [allocation.utilization[name] for allocation in allocations])
            for name in problem.cluster.resources
        ],
        "shares": [
            ("least dominant share, per unit of weight", [float(s.min()) for s in per_weight]),
            ("mean dominant share, per unit of weight", [float(s.mean()) for s in per_weight]),
        ],
        "certificates": [certificate_to_show(allocation.certificate) for allocation in allocations],
    }
