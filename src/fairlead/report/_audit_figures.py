"""The picture of an audit: held and due shares."""

from __future__ import annotations

import numpy as np

from fairlead.properties.audit import Audit
from fairlead.report._fair_comparison import FairComparison, furthest_off
from fairlead.report.charts import (
    EVEN,
    INK,
    LESS,
    MORE,
    USERS_DRAWN,
    Figure,
    Trace,
    between,
    dots,
    hover,
    listed,
    texts_in_rows,
)
from fairlead.report.numbers import UNCHANGED, change, number, percent, tasks_text


def shares_figure(audit: Audit, comparison: FairComparison) -> Figure:
    """Draw held and due dominant shares of the users furthest from their due share."""
    users = furthest_off(comparison.ratio, USERS_DRAWN)
    names = [audit.subject.problem.users.names[n] for n in users]
    row = np.arange(len(users))
    held, due, off = comparison.held[users], comparison.due[users], comparison.off[users]
    texts = [_user_hover(audit, comparison, n) for n in users]
    data: list[Trace] = []
    for label, colour, chosen in (
        ("holds more", MORE, off >= UNCHANGED),
        ("holds less", LESS, off <= -UNCHANGED),
        ("holds as much", EVEN, np.abs(off) < UNCHANGED),
    ):
        mine = np.flatnonzero(chosen)
        if len(mine):
            lines = between(held[mine].tolist(), due[mine].tolist(), row[mine].tolist())
            data.append(lines | {"line": {"color": colour, "width": 3}})
            data.append(dots(label, held[mine], row[mine], [texts[k] for k in mine], colour=colour))
    data.append(dots(comparison.due_name, due, row, texts, colour=INK, size=9, symbol="diamond"))
    ends = np.maximum(held, due).tolist()
    data.append(texts_in_rows([change(o, "as due") for o in off.tolist()], ends, row.tolist()))
    widest = max(ends, default=0.0) or 1.0
    drawn = listed(names, "dominant share", legend=True)
    drawn["xaxis"] |= {"range": [-0.01 * widest, 1.14 * widest]}
    return {"data": data, "layout": drawn}


def _user_hover(audit: Audit, comparison: FairComparison, n: int) -> str:
    """Describe a user's holdings, fair share and margin in the text under the pointer."""
    problem, fair = audit.subject.problem, audit.fair
    tasks = tasks_text(float(audit.subject.holdings.user_tasks[n]))
    due, margin, envies = "", "", ""
    if fair is not None:
        fair_tasks = tasks_text(float(fair.user_tasks[n]))
        due = f"{comparison.due_name}: {fair_tasks}, {percent(float(comparison.due[n]))}"
    if not np.isnan(comparison.margin[n]):
        margin = f", margin: {change(float(comparison.margin[n]), 'as due')}"
    if comparison.envies[n]:
        envied = problem.users.names[int(audit.envy.envied[n])]
        envies = f"envies {envied}: {tasks_text(float(audit.envy.could[n]))} with its bundle"
    return hover(
        problem.users.names[n],
        f"{tasks}, dominant share {percent(float(comparison.held[n]))}",
        due,
        f"a slice of every server: {tasks_text(float(audit.slices[n]))}{margin}",
        f"weight {number(float(problem.weight[n]))}",
        envies,
    )
