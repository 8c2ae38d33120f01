"""Compare each user's holdings with its fair share and its slice: the numbers of an audit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.holdings import Holdings
from fairlead.model.reductions import restrict
from fairlead.model.ties import largest_first
from fairlead.properties.audit import Audit
from fairlead.properties.envy import measure_envy
from fairlead.properties.sharing import users_below_slice, users_with_tiny_slices
from fairlead.properties.subject import Subject, round_down
from fairlead.report.numbers import UNCHANGED


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
    below_tiny: BoolArray  # (N,): users below a slice of less than one whole task, not judged
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
        below_tiny=users_with_tiny_slices(subject, audit.slices),
        envies=audit.envious,
    )


def furthest_off(ratio: FloatArray, limit: int) -> list[int]:
    """Return the users with a known ratio, the largest ratio first.

    Of more than `limit` users, only those with the largest and the smallest ratios are returned.
    """
    order = [int(n) for n in largest_first(ratio) if not np.isnan(ratio[n])]
    half = limit // 2
    return order if len(order) <= limit else order[:half] + order[-half:]


def gains_with_bundles(subject: Subject, users: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return each user's tasks with each other user's bundle, and its relative gain.

    Both are (K, K) float for the K `users`: in row n and column m, user n has the bundle of user
    m, scaled by weight. The diagonal has the users' own tasks, and gains of 0. Costs O(K^3 G R), so
    it is for few users.
    """
    holdings = subject.holdings
    problem = restrict(subject.problem, users=users.tolist())
    own = holdings.user_tasks[users]
    could = np.diag(own)
    for m in range(len(users)):
        only_m = _only(holdings, users, m)
        # With all other bundles empty, each user envies m most.
        envy = measure_envy(
            problem,
            only_m.tasks,
            time_shared=subject.time_shared,
            amounts=only_m.amounts,
            whole_tasks=holdings.whole_tasks,
        )
        others = np.arange(len(users)) != m
        could[others, m] = envy.could[others]
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(could > own[:, None], could / own[:, None] - 1.0, 0.0)
    return could, gain


def _only(holdings: Holdings, users: IntArray, m: int) -> Holdings:
    """Return the holdings of `users`, with all bundles empty except the `m`-th user's."""
    tasks = np.zeros_like(holdings.tasks[users])
    tasks[m] = holdings.tasks[users[m]]
    amounts = None
    if holdings.amounts is not None:
        amounts = np.zeros_like(holdings.amounts[users])
        amounts[m] = holdings.amounts[users[m]]
    return Holdings(holdings.problem, tasks, amounts=amounts)


def _over(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Divide; return 1 where both numbers are 0, and NaN where `part` is not finite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((whole == 0) & (part == 0), 1.0, part / whole)
    return np.where(np.isfinite(part), ratio, np.nan)
