"""What everybody holds beside what is due to it: the numbers that an audit shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.holdings import Holdings
from fairlead.model.problem import Problem
from fairlead.model.reductions import restrict
from fairlead.model.ties import largest_first
from fairlead.properties.audit import Audit
from fairlead.properties.envy import measure_envy
from fairlead.properties.sharing import users_below_slice, users_with_tiny_slices
from fairlead.properties.subject import Subject
from fairlead.report.numbers import UNCHANGED


@dataclass(frozen=True, eq=False)
class AgainstFair:
    """What everybody holds, beside what is due."""

    held: FloatArray  # (N,): dominant shares; NaN where a number is missing
    due: FloatArray  # (N,): the dominant shares that are due
    what: str  # what those are
    # (N,): held over due: 1 is as due, infinite is where nothing is due; NaN where a number is
    # missing.
    ratio: FloatArray
    # (N,): tasks over those of one's uniform slice, less 1; NaN where the slice holds none.
    margin: FloatArray
    # (N,): who runs fewer tasks than its uniform slice would; of whole tasks, by one or more.
    short: BoolArray
    # (N,): who runs fewer than its slice would, which is less than one whole task.
    unasked: BoolArray
    envies: BoolArray  # (N,): who envies somebody by more than rounding

    @property
    def off(self) -> FloatArray:
        """(N,) float: by how much of what is due each holds more, or less."""
        return self.ratio - 1.0

    @property
    def below(self) -> BoolArray:
        """(N,) bool: who holds less than is due."""
        less: BoolArray = self.off <= -UNCHANGED
        return less


def against_fair(audit: Audit) -> AgainstFair:
    """Set what everybody holds beside its fair share, or beside its slice where none is given."""
    subject = audit.subject
    tasks, held = subject.holdings.user_tasks, subject.holdings.dominant_share
    if audit.fair is None:
        what = "share of its slice of every server"
        tasks_due, due = audit.slices, audit.slices * _share_per_task(subject.problem)
    else:
        what = f"fair share by {audit.fair.mechanism}"
        tasks_due, due = audit.fair.user_tasks, audit.fair.dominant_share
    # Who gives rates may demand nothing; its tasks are compared then.
    by_tasks = ~(due > 0) & ~(held > 0)
    return AgainstFair(
        held=held,
        due=due,
        what=what,
        ratio=_over(np.where(by_tasks, tasks, held), np.where(by_tasks, tasks_due, due)),
        margin=np.where(audit.slices > 0, _over(tasks, audit.slices) - 1.0, np.nan),
        short=users_below_slice(subject, audit.slices),
        unasked=users_with_tiny_slices(subject, audit.slices),
        envies=audit.envious,
    )


def least_and_most(ratio: FloatArray, most: int) -> tuple[list[int], int]:
    """Choose users to show: everybody, or of more than `most` those furthest over and under.

    Returns users, the largest ratio of held over due first, without those whose ratio is
    unknown; and how many of them come before those left out.
    """
    order = [int(n) for n in largest_first(ratio) if not np.isnan(ratio[n])]
    if len(order) <= most:
        return order, len(order)
    half = most // 2
    return order[:half] + order[-half:], half


def tasks_with_bundles(subject: Subject, users: IntArray) -> FloatArray:
    """Return (K, K) tasks that row user n could run with m's bundle by weight; own on the diagonal.

    Cost O(K^3 G R): for few users.
    """
    holdings = subject.holdings
    problem = restrict(subject.problem, users=users.tolist())
    own = holdings.user_tasks[users]
    could = np.diag(own)
    for m in range(len(users)):
        alone = _only(holdings, users, m)
        # With all other bundles empty, what anybody envies most is this one.
        envy = measure_envy(
            problem,
            alone.tasks,
            time_shared=subject.time_shared,
            amounts=alone.amounts,
            whole_tasks=holdings.whole_tasks,
        )
        others = np.arange(len(users)) != m
        could[others, m] = envy.could[others]
    return could


def _only(holdings: Holdings, users: IntArray, m: int) -> Holdings:
    """Return what some users hold, everything taken from all of them but one."""
    tasks = np.zeros_like(holdings.tasks[users])
    tasks[m] = holdings.tasks[users[m]]
    amounts = None
    if holdings.amounts is not None:
        amounts = np.zeros_like(holdings.amounts[users])
        amounts[m] = holdings.amounts[users[m]]
    return Holdings(holdings.problem, tasks, amounts=amounts)


def _share_per_task(problem: Problem) -> FloatArray:
    """Return (N,) the dominant share of one task."""
    total = problem.total_capacity
    share = np.where(total > 0, problem.demand / np.where(total > 0, total, 1.0), 0.0)
    largest: FloatArray = share.max(axis=1)
    return largest


def _over(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Divide; infinite where there is nothing to divide by, and 1 where both are nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((whole == 0) & (part == 0), 1.0, part / whole)
    return np.where(np.isfinite(part), ratio, np.nan)
