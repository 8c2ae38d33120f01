"""Envy-freeness: no user prefers another's bundle to its own.

A user values another's bundle by the tasks that it could run with it, server by server and only
where it may run; weights scale the bundles (Wang et al. 2015, III-C; Khamse-Ashari et al. 2017,
II-C).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.model.ties import first_largest
from fairlead.model.verdict import Verdict
from fairlead.properties.subject import Subject, certain_whole_tasks, round_down, why_undecided
from fairlead.properties.verdict_text import (
    NEGLIGIBLE,
    counted,
    format_change,
    format_tasks,
    format_vacuous,
)

NAME = "envy-freeness"


@dataclass(frozen=True, eq=False)
class Envy:
    """The gain of each user from the bundle of the user that it envies most."""

    gain: FloatArray  # (N,): relative gain; 0 without envy, infinite for an envious user of 0 tasks
    envied: IntArray  # (N,): the envied user; the user itself without envy
    could: FloatArray  # (N,): tasks with that bundle; the user's own tasks without envy

    def count(self, tolerance: float) -> int:
        """Return the number of users with a relative gain of more than `tolerance`."""
        return int((self.gain > tolerance).sum())


def measure_envy(
    problem: Problem,
    tasks: FloatArray,
    *,
    time_shared: bool = False,
    amounts: FloatArray | None = None,
    whole_tasks: bool = False,
    for_certain: bool = True,
    limit: FloatArray | None = None,
) -> Envy:
    """Measure the gain of each user from the bundle that it envies most; O(N^2 G R).

    The bundle of user m is scaled by ``phi[n] / phi[m]`` (in queues, phi are the users' parts of
    the cluster; with weights per resource, each resource has its phi). With the bundle, user n
    could run on each group where it may run, and in all at most its task limit:

    - under RDM, ``min over r with d[n,r] > 0 of x[m,g] d[m,r] / d[n,r]`` tasks,
    - under TDM, ``x[m,g] gamma[n,g] / gamma[m,g]`` tasks.

    Parameters
    ----------
    tasks : (N, G) float
        Tasks of each user on each whole group.
    time_shared : bool
        Whether a bundle is time of servers (TDM) instead of their resources (RDM).
    amounts : (N, G, R) float, optional
        Held amounts (RDM), if they are not tasks times demand.
    whole_tasks : bool
        Whether only whole tasks count, each on one server.
    for_certain : bool
        Whether to count only the whole tasks that a bundle certainly holds, however it is spread
        over identical servers.
    limit : (N,) float, optional
        Largest number of tasks of each user, by default its task limit.
    """
    limit = problem.task_limit if limit is None else limit
    needs = use_per_task(problem, time_shared)
    pieces = tasks if amounts is None else None
    capacity = problem.group_capacity
    if time_shared:
        held = needs * tasks  # (R, N, G)
    else:
        if amounts is None:  # also where the user may not run
            amounts = tasks[:, :, None] * problem.demand[:, None, :]
        held = np.moveaxis(amounts / np.where(capacity > 0, capacity, 1.0), 2, 0)
    weight = problem.users.resource_weight
    flat = problem.weight if problem.users.queues is None else problem.part
    scale = np.broadcast_to(flat, (len(needs), problem.n_users))
    if weight is not None:
        scale = weight.T
    own = tasks.sum(axis=1)
    n_users = problem.n_users
    gain, envied, best = np.zeros(n_users), np.arange(n_users), own.copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        for n in range(n_users):
            groups = np.flatnonzero(problem.runnable[n])
            could = np.full((n_users, len(groups)), np.inf)
            for bundle, need, phi in zip(held, needs[:, n, groups], scale, strict=True):
                asks = need > 0
                ratio = bundle[:, groups] / np.where(asks, need, 1.0)
                ratio *= (phi[n] / phi)[:, None]
                np.minimum(could, np.where(asks, ratio, np.inf), out=could)
            if whole_tasks and for_certain:
                here = None if pieces is None else pieces[:, groups]
                could = certain_whole_tasks(could, here, problem.count[groups])
            elif whole_tasks:
                could = round_down(could)
            total = np.minimum(could.sum(axis=1), limit[n])
            if whole_tasks:
                total = round_down(total)
            total[n] = own[n]
            m = first_largest(total)
            if total[m] > own[n]:
                gain[n], envied[n], best[n] = total[m] / own[n] - 1.0, m, total[m]
    return Envy(gain, envied, best)


def measure_envy_of(subject: Subject, *, for_certain: bool = True) -> Envy:
    """Measure envy among the users of an audited subject; see `measure_envy`.

    With `for_certain`, waiting tasks under constraints that are not modelled do not count.
    """
    holdings = subject.holdings
    return measure_envy(
        holdings.problem,
        holdings.tasks,
        time_shared=subject.time_shared,
        amounts=holdings.amounts,
        whole_tasks=holdings.whole_tasks,
        for_certain=for_certain,
        limit=holdings.certain_limit if for_certain else None,
    )


def envious_users(subject: Subject, envy: Envy) -> BoolArray:
    """Return (N,) bool: users whose envy is more than rounding; none if holdings are incomplete.

    A gain relative to very few tasks may be huge, so the gain must also be more than rounding
    relative to the tasks that the user could run alone.
    """
    alone = np.minimum(subject.problem.gamma.sum(axis=1), subject.problem.task_limit)
    own = subject.holdings.user_tasks
    gained = np.subtract(envy.could, own, out=np.zeros_like(own), where=envy.gain > 0)
    counts: BoolArray = (envy.gain > NEGLIGIBLE) & (gained > 1e-3 * NEGLIGIBLE * alone)
    return counts & (not subject.holdings.incomplete)


def _maybe_envious_users(subject: Subject) -> BoolArray:
    """Return (N,) bool: users that may envy another, depending on unknown holdings."""
    holdings = subject.holdings
    may = np.zeros(holdings.problem.n_users, dtype=bool)
    undecided = [task.user for task in holdings.waiting if task.undecided]
    if undecided:
        could = measure_envy_of(subject, for_certain=False).could
        may[undecided] = (could > holdings.user_tasks * (1 + NEGLIGIBLE))[undecided]
    if holdings.partial is not None:
        may |= holdings.partial & (holdings.waiting_per_user > 0)
    return may


def check_envy_freeness(subject: Subject, envy: Envy | None = None) -> Verdict:
    """Check that no user prefers another's bundle, adjusted by weight; O(N^2 G R).

    The verdict is "unknown" if it depends on how whole tasks are spread over identical servers. A
    user without a whole task is not judged if bundles of others would give it only a fraction of a
    task.
    """
    envy = measure_envy_of(subject) if envy is None else envy
    names = subject.problem.users.names
    pairs = subject.problem.n_users * (subject.problem.n_users - 1)
    own = subject.holdings.user_tasks
    envious = envious_users(subject, envy)
    vacuous = tuple(names[k] for k in np.flatnonzero(_would_envy_for_parts(subject, envious)))
    why = "as no bundle is worth a whole task to them"
    ending = format_vacuous(vacuous, subject.problem.n_users, why)
    if not envious.any():
        if subject.holdings.whole_tasks and (subject.problem.count > 1).any():
            perhaps = envious_users(subject, measure_envy_of(subject, for_certain=False))
            if perhaps.any():
                why = "how tasks are spread over identical servers is not known here"
                return Verdict.undecided(NAME, why)
        may = _maybe_envious_users(subject)
        if may.any():
            n = int(may.argmax())
            why = f"{names[n]} may envy another, but {why_undecided(subject, n)}"
            return Verdict.undecided(NAME, why, pairs)
        sentence = f"no user prefers another's bundle{ending}"
        return Verdict(NAME, "holds", {}, pairs, sentence=sentence, vacuous=vacuous)
    n, n_others = first_largest(np.where(envious, 1 + envy.gain, 0.0)), int(envious.sum()) - 1
    m = int(envy.envied[n])
    witness = {
        "user": names[n],
        "envies": names[m],
        "tasks": float(own[n]),
        "could": float(envy.could[n]),
        "envious": n_others + 1,
    }
    less, more = format_change(float(own[n]), float(envy.could[n]))
    by_weight = "" if _equal_weights(subject.problem, n, m) else ", by weight"
    others = f"; so would {counted(n_others, 'other user')}" if n_others else ""
    sentence = (
        f"{names[n]} would rather have what {names[m]} has{by_weight}: {format_tasks(more)} "
        f"instead of {less}{others}{ending}"
    )
    return Verdict(
        NAME,
        "fails",
        witness,
        pairs,
        sentence=sentence,
        severity=float(envy.gain[n]),
        vacuous=vacuous,
    )


def _would_envy_for_parts(subject: Subject, envious: BoolArray) -> BoolArray:
    """Return (N,) bool: users without tasks that would envy if parts of tasks counted."""
    holdings = subject.holdings
    nothing = (holdings.user_tasks < 1 - NEGLIGIBLE) & ~envious
    if not (holdings.whole_tasks and nothing.any()):
        return np.zeros_like(envious)
    parts = replace(subject, holdings=replace(holdings, whole_tasks=False))
    return nothing & envious_users(parts, measure_envy_of(parts))


def _equal_weights(problem: Problem, n: int, m: int) -> bool:
    per_resource = problem.users.resource_weight
    if per_resource is not None:
        return bool((per_resource[n] == per_resource[m]).all())
    return bool(problem.part[n] == problem.part[m])
