"""Envy: who would rather have what another has.

A user looks at another's bundle server by server and counts the tasks it could run with it, only
where it may run; weights scale what each is entitled to (Wang et al. 2015, III-C; Khamse-Ashari et
al. 2017, II-C).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.model.ties import first_largest
from fairlead.model.verdict import Verdict
from fairlead.properties.doubt import others_may_lack, unsettled_users, users_that_may_lack
from fairlead.properties.subject import Subject, at_least_whole, round_down, why_open
from fairlead.properties.wording import NEGLIGIBLE, counted, of_tasks, say_change, say_unasked

NAME = "envy-freeness"


@dataclass(frozen=True, eq=False)
class Envy:
    """How much each user would gain with the bundle of the user that it envies most."""

    # (N,): the relative gain, 0 for who envies nobody, infinite for who has nothing and envies.
    gain: FloatArray
    envied: IntArray  # (N,): whose bundle that is; the user itself for who envies nobody
    # (N,): the tasks that the user would run with that bundle; its own tasks for who envies nobody.
    could: FloatArray

    def count(self, tolerance: float) -> int:
        """Return how many users would gain more than `tolerance`, relative to what they have."""
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
    """Measure by how much each user prefers another's bundle to its own.

    User n could run, with the bundle of m scaled by ``phi[n] / phi[m]``, on each group where it may
    run, ``min over r with d[n,r] > 0 of x[m,g] d[m,r] / d[n,r]`` tasks under RDM, and
    ``x[m,g] gamma[n,g] / gamma[m,g]`` under TDM; no more than its task limit in all. Weights per
    resource scale each resource of the bundle by its own.

    Parameters
    ----------
    tasks : (N, G) float
        Tasks of each user on each whole group.
    time_shared : bool
        Whether a bundle is time of servers (TDM) instead of their resources (RDM).
    amounts : (N, G, R) float, optional
        What each user holds of each resource (RDM), where that is not tasks times demand.
    whole_tasks : bool
        Whether only whole tasks count, each on one server.
    for_certain : bool
        How many whole tasks a bundle on several identical servers holds depends on how it is
        spread: whether to count those that it holds for certain, or all that it may.
    limit : (N,) float, optional
        The most tasks that each user could run in all; its task limit when absent.

    Notes
    -----
    O(N^2 G R).
    """
    limit = problem.task_limit if limit is None else limit
    needs = use_per_task(problem, time_shared)
    pieces = tasks if amounts is None else None
    capacity = problem.group_capacity
    if time_shared:
        held = needs * tasks  # (R, N, G)
    else:
        if amounts is None:  # also where one may not run: what is held there is held
            amounts = tasks[:, :, None] * problem.demand[:, None, :]
        held = np.moveaxis(amounts / np.where(capacity > 0, capacity, 1.0), 2, 0)
    weight = problem.users.resource_weight
    scale = np.broadcast_to(problem.weight, (len(needs), problem.n_users))
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
                could = at_least_whole(could, here, problem.count[groups])
            elif whole_tasks:
                could = round_down(could)
            total = np.minimum(could.sum(axis=1), limit[n])
            if whole_tasks:
                total = round_down(total)
            total[n] = own[n]
            most = first_largest(total)
            if total[most] > own[n]:
                gain[n], envied[n], best[n] = total[most] / own[n] - 1.0, most, total[most]
    return Envy(gain, envied, best)


def measure_envy_of(subject: Subject, *, for_certain: bool = True) -> Envy:
    """Measure envy among the users of an audited subject; how, see `measure_envy`.

    For certain means also without waiting tasks under constraints that are not modelled.
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


def who_envies(subject: Subject, envy: Envy) -> BoolArray:
    """Return (N,) bool: whose envy is more than rounding.

    A gain relative to what one has grows without bounds as that vanishes; what counts is also that
    it is not nothing beside what one could run alone. Users with missing pods are left
    out: their tasks may be others.
    """
    alone = np.minimum(subject.problem.gamma.sum(axis=1), subject.problem.task_limit)
    own = subject.holdings.user_tasks
    gained = np.subtract(envy.could, own, out=np.zeros_like(own), where=envy.gain > 0)
    tells: BoolArray = (envy.gain > NEGLIGIBLE) & (gained > 1e-3 * NEGLIGIBLE * alone)
    return tells & ~unsettled_users(subject.holdings)


def who_may_envy(subject: Subject) -> BoolArray:
    """Return (N,) bool: users of which it is not certain that they envy no other."""
    holdings = subject.holdings
    may = np.zeros(holdings.problem.n_users, dtype=bool)
    waits = holdings.waiting_per_user > 0
    undecided = [task.user for task in holdings.waiting if task.undecided]
    if undecided:
        could = measure_envy_of(subject, for_certain=False).could
        may[undecided] = (could > holdings.user_tasks * (1 + NEGLIGIBLE))[undecided]
    if holdings.partial is not None:
        may |= holdings.partial & waits
    may |= users_that_may_lack(holdings)
    # The bundle of any other user may be larger, or of a user that is missing altogether.
    if holdings.doubts is not None and (holdings.doubts.users or holdings.doubts.holds.any()):
        may |= waits
    return may


def check_envy_freeness(subject: Subject, envy: Envy | None = None) -> Verdict:
    """Check that nobody would rather have what another has, adjusted by weight, in O(N^2 G R).

    Returns
    -------
    Verdict
        "fails" with the user that would gain most, the one that it envies, its tasks and those that
        it could run instead, and how many users envy; "unknown" where tasks are whole and it
        depends on how they are spread over identical servers, or where a user may envy, such as by
        waiting tasks under constraints that are not modelled. Users that run no whole task and
        would envy if parts of tasks counted, but find no bundle worth a whole one, are counted.
    """
    envy = measure_envy_of(subject) if envy is None else envy
    names = subject.problem.users.names
    pairs = subject.problem.n_users * (subject.problem.n_users - 1)
    own = subject.holdings.user_tasks
    tells = who_envies(subject, envy)
    passed_over = tuple(names[k] for k in np.flatnonzero(_envies_but_for_wholeness(subject, tells)))
    why = "as no bundle is worth a whole task to them"
    unasked = say_unasked(passed_over, subject.problem.n_users, why)
    if not tells.any():
        if subject.holdings.whole_tasks and (subject.problem.count > 1).any():
            perhaps = who_envies(subject, measure_envy_of(subject, for_certain=False))
            if perhaps.any():
                why = "how tasks are spread over identical servers is not known here"
                return Verdict(NAME, "unknown", sentence=f"not decided: {why}")
        may = who_may_envy(subject)
        if may.any():
            n = int(may.argmax())
            sentence = f"not decided: {names[n]} may envy another, but {why_open(subject, n)}"
            return Verdict(NAME, "unknown", {}, pairs, sentence=sentence)
        doubts = subject.holdings.doubts
        if doubts is not None and others_may_lack(subject.holdings):
            return Verdict(NAME, "unknown", {}, pairs, sentence=f"not decided: {doubts.why}")
        sentence = f"nobody would rather have what another has{unasked}"
        return Verdict(NAME, "holds", {}, pairs, sentence=sentence, vacuous=passed_over)
    n = first_largest(np.where(tells, 1 + envy.gain, 0.0))
    m = int(envy.envied[n])
    witness = {
        "user": names[n],
        "envies": names[m],
        "tasks": float(own[n]),
        "could": float(envy.could[n]),
        "envious": int(tells.sum()),
    }
    less, more = say_change(float(own[n]), float(envy.could[n]))
    fair = "" if _alike(subject.problem, n, m) else ", by weight"
    others = (
        f"; {counted(int(tells.sum()) - 1, 'other user')} envies too" if tells.sum() > 1 else ""
    )
    others = others.replace("users envies", "users envy")
    sentence = (
        f"{names[n]} would rather have what {names[m]} has{fair}: {of_tasks(more)} instead of "
        f"{less}{others}{unasked}"
    )
    return Verdict(
        NAME,
        "fails",
        witness,
        pairs,
        sentence=sentence,
        severity=float(envy.gain[n]),
        vacuous=passed_over,
    )


def _envies_but_for_wholeness(subject: Subject, tells: BoolArray) -> BoolArray:
    """Return (N,) bool: who runs nothing and envies nobody only since tasks are whole."""
    holdings = subject.holdings
    nothing = (holdings.user_tasks < 1 - NEGLIGIBLE) & ~tells
    if not (holdings.whole_tasks and nothing.any()):
        return np.zeros_like(tells)
    parts = replace(subject, holdings=replace(holdings, whole_tasks=False))
    return nothing & who_envies(parts, measure_envy_of(parts))


def _alike(problem: Problem, n: int, m: int) -> bool:
    per_resource = problem.users.resource_weight
    if per_resource is not None:
        return bool((per_resource[n] == per_resource[m]).all())
    return bool(problem.weight[n] == problem.weight[m])
