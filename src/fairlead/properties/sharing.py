"""Is everybody at least as well off as with a slice of every server? Sharing incentive."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.problem import Problem
from fairlead.model.ties import first_smallest
from fairlead.model.verdict import Verdict
from fairlead.properties.doubt import others_may_lack, unsettled_users, users_that_may_lack
from fairlead.properties.subject import Subject, round_down, why_open
from fairlead.properties.wording import NEGLIGIBLE, counted, of_tasks, say, say_change, say_unasked

NAME = "sharing-incentive"


def measure_slices(problem: Problem) -> FloatArray:
    """Return (N,) the tasks that each user could run with the uniform slice of every server.

    A slice is ``phi[n] / sum_m phi[m]`` of every resource of every server (with weights per
    resource, of each by its own), whether the user may run there or not, m over the users that are
    due something. Limits hold, and parts of tasks count. Khamse-Ashari et al. 2017, III-B; per
    resource, Parkes et al. 2012. O(N G R).
    """
    weight, busy = problem.users.resource_weight, ~problem.due_nothing
    if not busy.any():
        return np.zeros(problem.n_users)
    if weight is None:
        part = problem.weight / problem.weight[busy].sum()
        could = part[:, None] * problem.gamma
    else:
        part_of = weight / weight[busy].sum(axis=0)
        could = np.full((problem.n_users, problem.n_groups), np.inf)
        for r in range(problem.n_resources):
            asks = problem.demand[:, r] > 0
            per_unit = np.where(asks, part_of[:, r] / np.where(asks, problem.demand[:, r], 1), 0)
            ratio = per_unit[:, None] * problem.group_capacity[None, :, r]
            np.minimum(could, np.where(asks[:, None], ratio, np.inf), out=could)
        could = np.where(problem.runnable, could, 0.0)
    limited: FloatArray = np.minimum(could.sum(axis=1), problem.task_limit)
    return limited


def slices_of(subject: Subject) -> FloatArray:
    """Return (N,) the tasks, whole or not, that each user could run with its slice."""
    return measure_slices(subject.problem)


def who_is_short(subject: Subject, slices: FloatArray) -> BoolArray:
    """Return (N,) bool: users that run fewer tasks than their slice; whole tasks, by one or more.

    Only users of which that is certain: waiting tasks under constraints that are not modelled do
    not count, nor do users whose tasks or slice may differ by missing nodes and pods.
    """
    holdings = subject.holdings
    short = _runs_less(subject, np.minimum(slices, holdings.certain_limit))
    if holdings.doubts is not None:
        short &= ~unsettled_users(holdings) & (not holdings.doubts.users)
    return short


def who_may_be_short(subject: Subject, slices: FloatArray) -> BoolArray:
    """Return (N,) bool: users of which it is not certain that they run as much as their slice."""
    holdings = subject.holdings
    may = _runs_less(subject, slices)
    if holdings.partial is not None:
        may |= holdings.partial & (holdings.waiting_per_user > 0)
    may |= users_that_may_lack(holdings)
    return may


def _runs_less(subject: Subject, slices: FloatArray) -> BoolArray:
    has = subject.holdings.user_tasks
    short: BoolArray = has < slices * (1 - NEGLIGIBLE)
    if subject.holdings.whole_tasks:
        short &= round_down(slices - has) >= 1
    return short


def of_whom_nothing_is_asked(subject: Subject, slices: FloatArray) -> BoolArray:
    """Return (N,) bool: who runs less than its slice would, but no whole task fits into that."""
    less = subject.holdings.user_tasks < slices * (1 - NEGLIGIBLE)
    asked_nothing: BoolArray = less & (round_down(slices) < 1)
    return asked_nothing if subject.holdings.whole_tasks else np.zeros_like(less)


def check_sharing_incentive(subject: Subject) -> Verdict:
    """Check that every user runs at least the tasks of its uniform slice.

    Returns
    -------
    Verdict
        "fails" with the user that falls short most, its tasks and those of its slice, and all that
        fall short. Where tasks are whole, who lacks less than one task does not fall short; users
        whose slice is less than one task could not, and are counted. "unknown" where no user is
        certain to fall short and one may, such as by waiting tasks under constraints that are not
        modelled.

    Notes
    -----
    Cost O(N G R).
    """
    problem, whole = subject.problem, subject.holdings.whole_tasks
    slices = slices_of(subject)
    has = subject.holdings.user_tasks
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = np.where(slices > 0, has / slices - 1.0, np.inf)
    short = who_is_short(subject, slices)
    names = problem.users.names
    vacuous = of_whom_nothing_is_asked(subject, slices)
    passed_over = tuple(names[k] for k in np.flatnonzero(vacuous))
    unasked = say_unasked(passed_over, problem.n_users, "whose slice is less than one whole task")
    if short.any():
        n = first_smallest(np.where(short, 1 + margin, np.inf))
        less, more = say_change(float(has[n]), float(slices[n]))
        witness = {
            "user": names[n],
            "tasks": float(has[n]),
            "slice": float(slices[n]),
            "margin": float(margin[n]),
            "short": [names[k] for k in np.flatnonzero(short)],
        }
        n_others = int(short.sum()) - 1
        others = f"; {counted(n_others, 'other user')} too" if n_others else ""
        sentence = (
            f"{names[n]} runs {of_tasks(less)}; a slice of every server would run {more}{others}"
            f"{unasked}"
        )
        return Verdict(
            NAME,
            "fails",
            witness,
            problem.n_users,
            sentence=sentence,
            severity=-float(margin[n]),
            vacuous=passed_over,
        )
    perhaps = who_may_be_short(subject, slices)
    if perhaps.any():
        n = int(perhaps.argmax())
        sentence = (
            f"not decided: {names[n]} may run less than its slice, but {why_open(subject, n)}"
        )
        return Verdict(NAME, "unknown", {}, problem.n_users, sentence=sentence)
    doubts = subject.holdings.doubts
    if doubts is not None and others_may_lack(subject.holdings):
        sentence = f"not decided: {doubts.why}"
        return Verdict(NAME, "unknown", {}, problem.n_users, sentence=sentence)
    n = first_smallest(np.where(vacuous, np.inf, 1 + margin))
    sentence = "every slice of every server is less than one whole task"
    if not vacuous[n]:
        least = f"{names[n]}, {of_tasks(say(float(has[n])))} for {say(float(slices[n]))}"
        everybody = (
            "nobody runs a whole task less than a slice of every server would"
            if whole and margin[n] < -NEGLIGIBLE
            else "everybody runs at least what a slice of every server would"
        )
        sentence = f"{everybody} (least margin: {least})"
    return Verdict(
        NAME, "holds", {}, problem.n_users, sentence=f"{sentence}{unasked}", vacuous=passed_over
    )
