"""Guarantees of queues: their parts of the cluster by weight, and their quotas.

- Hierarchical share guarantee: if some user below a queue has tasks left, the queue holds its part
  by weight of at least one resource of the cluster (Bhattacharya et al., SoCC 2013).
- Quota guarantee: every queue with tasks left holds its quotas. A queue may hold less than its
  quota of a resource only if no user below it has a task left that takes that resource on the
  servers of the quota; or if more of the task, with whole tasks the next one, would exceed the
  quota, of this resource or of another one that the task takes, or another quota of the queue on
  the same server; or a limit of the user or of a queue above it. Where waiting tasks are known, as
  in Kubernetes, only these are left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.holdings import Holdings
from fairlead.model.problem import Problem
from fairlead.model.queues import amounts_and_tasks
from fairlead.model.quotas import groups_of, in_words, quotas_of
from fairlead.model.ties import first_smallest
from fairlead.model.verdict import Verdict
from fairlead.properties.subject import Subject, why_undecided
from fairlead.properties.verdict_text import NEGLIGIBLE, format_change

SHARES = "hierarchical-share-guarantee"


def check_queue_shares(subject: Subject) -> Verdict:
    """Check the guarantee of every queue; O(N Q R).

    If tasks are whole, a queue may lack one task of each of its users.
    """
    problem, holdings = subject.problem, subject.holdings
    queues = problem.users.queues
    if queues is None:
        return Verdict.not_applicable(SHARES, "there are no queues")
    part, _ = queues.parts(problem.weight, ~problem.due_nothing)
    total = np.where(problem.total_capacity > 0, problem.total_capacity, 1.0)
    wants = ~problem.due_nothing & (holdings.user_tasks < problem.task_limit * (1 - NEGLIGIBLE))
    checked = np.flatnonzero(queues.queues_above(wants))
    if not checked.size:
        return Verdict.not_applicable(SHARES, "no queue has a user with tasks left")
    below = [queues.users_below(int(q)) for q in checked]
    share = np.array([(holdings.user_amounts[b].sum(axis=0) / total).max() for b in below])
    if holdings.whole_tasks:
        share += [problem.task_shares[b].sum(axis=0).max() for b in below]
    margin = share / part[checked] - 1.0
    k = first_smallest(1.0 + margin)
    name = queues.names[int(checked[k])]
    has, due = f"{share[k]:.4g}", f"{part[checked[k]]:.4g}"
    if margin[k] >= -NEGLIGIBLE:
        sentence = f"every queue holds its part (least margin: {name}, {has} for {due})"
        return Verdict(SHARES, "holds", {}, len(checked), sentence=sentence)
    witness = {
        "queue": name,
        "dominant_share": float(share[k]),
        "part": float(part[checked[k]]),
        "short": [queues.names[int(q)] for q in checked[margin < -NEGLIGIBLE]],
    }
    less, more = format_change(float(share[k]), float(part[checked[k]]))
    return Verdict(
        SHARES,
        "fails",
        witness,
        len(checked),
        sentence=f"{name} holds at most {less} of a resource; its part is {more}",
        severity=-float(margin[k]),
    )


QUOTAS = "quota-guarantee"


def check_queue_quotas(subject: Subject) -> Verdict:
    """Check each resource of each quota; O(quotas N G R).

    Quotas on some servers are skipped for mechanisms that see all servers as one pool.
    """
    problem, holdings = subject.problem, subject.holdings
    if not subject.quotas:
        return Verdict.not_applicable(QUOTAS, "there are no quotas")
    tasks = _next_tasks(holdings)
    may_start = _is_below_limits(subject, tasks)
    checked = 0
    worst, witness, sentence, doubt = NEGLIGIBLE, {}, "", ""
    for name, rows in subject.quotas.items():
        below = _users_of(problem, name)
        wants = (may_start & below[tasks.user])[:, None] & tasks.allowed  # (K, G)
        fits = wants.copy()  # on servers where the queue would stay within all of its quotas
        uses = []  # for each quota: its groups, columns of its resources, and their held amounts
        for quota in quotas_of(rows):
            if quota.where is not None and problem is not subject.given:
                continue
            groups = groups_of(quota, problem.cluster)
            columns = [problem.cluster.resources.index(name) for name in quota.amounts]
            has = holdings.held[below][:, groups].sum(axis=(0, 1))[columns]
            uses.append((quota, groups, columns, has))
            most = np.array(list(quota.amounts.values()))
            stays = _stays_within(has, tasks.takes[:, columns], most, holdings.whole_tasks)
            fits[:, groups] &= stays[:, None]
        for quota, groups, columns, has in uses:
            takes = tasks.takes[:, columns]
            may_run = wants[:, groups].any(axis=1)
            stays_within = fits[:, groups].any(axis=1)
            for k, (resource, amount) in enumerate(quota.amounts.items()):
                asks = takes[:, k] > 0
                if not (may_run & asks).any() or amount <= 0:
                    continue
                checked += 1
                short = 1.0 - float(has[k]) / amount
                if short <= NEGLIGIBLE or not (stays_within & asks).any():
                    continue
                if not (stays_within & asks & tasks.certain).any():
                    why = why_undecided(subject, int(tasks.user[(stays_within & asks).argmax()]))
                    doubt = doubt or f"{name} may be short of {resource}, but {why}"
                elif short > worst:
                    worst = short
                    less, more = format_change(float(has[k]), amount)
                    sentence = (
                        f"{name} holds {less} {resource}{in_words(quota.where)} while its tasks "
                        f"wait; {more} are guaranteed"
                    )
                    witness = {
                        "queue": name,
                        "resource": resource,
                        "held": float(has[k]),
                        "quota": amount,
                    }
    if not checked:
        return Verdict.not_applicable(QUOTAS, "no queue with a quota has tasks left")
    if witness:
        return Verdict(QUOTAS, "fails", witness, checked, sentence=sentence, severity=worst)
    if doubt:
        return Verdict.undecided(QUOTAS, doubt, checked)
    return Verdict(QUOTAS, "holds", {}, checked, sentence="every queue holds its quota")


@dataclass(frozen=True, eq=False)
class _NextTasks:
    """K tasks that could start next: one of each user with tasks left, or all that wait."""

    user: IntArray  # (K,)
    takes: FloatArray  # (K, R)
    allowed: BoolArray  # (K, G): whether the task may run on a group
    certain: BoolArray  # (K,): whether all its constraints are modelled


def _next_tasks(holdings: Holdings) -> _NextTasks:
    problem, waiting = holdings.problem, holdings.waiting
    if holdings.amounts is not None or waiting:  # only the waiting tasks are left
        return _NextTasks(
            np.array([task.user for task in waiting], dtype=np.int64),
            np.array([task.request for task in waiting]).reshape(-1, problem.n_resources),
            np.array([task.allowed for task in waiting], dtype=bool).reshape(-1, problem.n_groups),
            np.array([not task.undecided for task in waiting], dtype=bool),
        )
    left = holdings.user_tasks < problem.task_limit * (1 - NEGLIGIBLE)
    if holdings.whole_tasks:
        left = holdings.user_tasks <= problem.task_limit - 1 + NEGLIGIBLE
    users = np.flatnonzero(left)
    certain = np.ones(len(users), dtype=bool)
    return _NextTasks(users, problem.demand[users], problem.users.eligible[users], certain)


def _is_below_limits(subject: Subject, tasks: _NextTasks) -> BoolArray:
    """Return (K,) bool: whether a next task stays within all limits; O(limits (N + K) R)."""
    problem, holdings = subject.problem, subject.holdings
    resources = problem.cluster.resources
    below_limits = np.ones(len(tasks.user), dtype=bool)
    for name, row in subject.limits.items():
        below = _users_of(problem, name)
        amounts, most_tasks = amounts_and_tasks(row, resources)
        columns = [resources.index(resource) for resource in amounts]
        limit = np.array([*amounts.values(), np.inf if most_tasks is None else most_tasks])
        has = np.append(
            holdings.user_amounts[below].sum(axis=0)[columns], holdings.user_tasks[below].sum()
        )
        takes = np.column_stack((tasks.takes[:, columns], np.ones(len(tasks.user))))
        stays = _stays_within(has, takes, limit, holdings.whole_tasks)
        below_limits &= ~below[tasks.user] | stays
    return below_limits


def _stays_within(
    has: FloatArray, takes: FloatArray, most: FloatArray, whole_tasks: bool
) -> BoolArray:
    """Return (K,) bool: whether more of a task (K, R), if whole all of it, keeps `has` in `most`.

    Resources that the task does not take do not matter.
    """
    if whole_tasks:
        stays = has + takes <= most * (1 + NEGLIGIBLE)
    else:
        stays = np.broadcast_to(has < most * (1 - NEGLIGIBLE), takes.shape)
    within: BoolArray = (stays | (takes == 0)).all(axis=1)
    return within


def _users_of(problem: Problem, name: str) -> BoolArray:
    """Return (N,) bool: the users below a queue, or the user of that name."""
    queues = problem.users.queues
    if queues is not None and name in queues.names:
        return queues.users_below(queues.names.index(name))
    return np.array([user == name for user in problem.users.names], dtype=bool)
