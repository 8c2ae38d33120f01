"""Compare the holdings of users with their fair shares and slices: numbers and picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.ties import largest_first
from fairlead.properties.audit import Audit
from fairlead.properties.sharing import users_below_slice
from fairlead.properties.subject import round_down
from fairlead.report.charts import (
    EVEN,
    LESS,
    MORE,
    USERS_DRAWN,
    Dots,
    Figure,
    Texts,
    Trace,
    between,
    hover,
    listed,
)
from fairlead.report.numbers import UNCHANGED, change, number, percent, tasks_text


@dataclass(frozen=True, eq=False)
class FairComparison:
    """Held and due shares of N users; NaN where a given number is missing."""

    held: FloatArray  # (N,): dominant shares
    due: FloatArray  # (N,): dominant shares of the fair answer, or of the slices
    due_name: str  # name of the due shares
    ratio: FloatArray  # (N,): held / due, infinite where nothing is due
    below: BoolArray  # (N,): users below their due share; with whole tasks, by at least one
    margin: FloatArray  # (N,): tasks / tasks of the slice - 1; NaN if the slice has none
    short: BoolArray  # (N,): users below their slice; with whole tasks, by at least one
    envies: BoolArray  # (N,): users that envy another by more than rounding

    @property
    def off(self) -> FloatArray:
        """(N,) float: (held - due) / due."""
        return self.ratio - 1.0


def compare_with_fair(audit: Audit) -> FairComparison:
    """Compare holdings with the fair shares, or with the slices if the audit has no fair shares."""
    subject = audit.subject
    tasks, held = subject.holdings.user_tasks, subject.holdings.dominant_share
    if audit.fair is None:
        due_name = "share of its slice of every server"
        total = subject.problem.total_capacity
        shares = np.where(total > 0, subject.problem.demand / np.where(total > 0, total, 1.0), 0.0)
        tasks_due, due = audit.slices, audit.slices * shares.max(axis=1)
    else:
        due_name = f"fair share by {audit.fair.mechanism}"
        tasks_due, due = audit.fair.user_tasks, audit.fair.dominant_share
    # Users with given rates may demand nothing; then tasks are compared.
    by_tasks = ~(due > 0) & ~(held > 0)
    ratio = _over(np.where(by_tasks, tasks, held), np.where(by_tasks, tasks_due, due))
    below = ratio - 1.0 <= -UNCHANGED
    if subject.holdings.whole_tasks:
        below &= round_down(tasks_due - tasks) >= 1
    return FairComparison(
        held=held,
        due=due,
        due_name=due_name,
        ratio=ratio,
        below=below,
        margin=np.where(audit.slices > 0, _over(tasks, audit.slices) - 1.0, np.nan),
        short=users_below_slice(subject, audit.slices),
        envies=audit.envious,
    )


def furthest_off(ratio: FloatArray, limit: int) -> list[int]:
    """Return the users with a known ratio, the largest ratio first.

    Of more than `limit` users, only those with the largest and the smallest ratios are returned.
    """
    order = [int(n) for n in largest_first(ratio) if not np.isnan(ratio[n])]
    half = limit // 2
    return order if len(order) <= limit else order[:half] + order[-half:]


def _over(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Divide; return 1 where both numbers are 0, and NaN where `part` is not finite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((whole == 0) & (part == 0), 1.0, part / whole)
    return np.where(np.isfinite(part), ratio, np.nan)


def shares_figure(audit: Audit, comparison: FairComparison) -> Figure:
    """Draw held and due dominant shares of the users furthest from their due share."""
    users = furthest_off(comparison.ratio, USERS_DRAWN)
    names = [audit.subject.problem.users.names[n] for n in users]
    row = np.arange(len(users))
    held, due, off = comparison.held[users], comparison.due[users], comparison.off[users]
    texts = [_user_hover(audit, comparison, n) for n in users]
    traces: list[Trace] = []
    for label, colour, chosen in (
        ("holds more", MORE, off >= UNCHANGED),
        ("holds less", LESS, off <= -UNCHANGED),
        ("holds as much", EVEN, np.abs(off) < UNCHANGED),
    ):
        mine = np.flatnonzero(chosen)
        if len(mine):
            traces.append(between(held[mine], due[mine], row[mine], colour))
            traces.append(Dots(label, held[mine], row[mine], [texts[k] for k in mine], colour))
    traces.append(Dots(comparison.due_name, due, row, texts, size=9, symbol="diamond"))
    ends = np.maximum(held, due)
    traces.append(Texts([change(o, "as due") for o in off.tolist()], ends, row))
    widest = ends.max(initial=0.0) or 1.0
    ends_of_axis = -0.01 * widest, 1.14 * widest
    return listed(names, traces, "dominant share", ends=ends_of_axis, has_legend=True)


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
