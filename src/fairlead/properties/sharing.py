"""Sharing incentive: every user runs at least as much as with its slice of every server."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.problem import Problem, tasks_within
from fairlead.model.ties import first_smallest
from fairlead.model.verdict import Verdict
from fairlead.properties.subject import Subject, round_down, why_undecided
from fairlead.properties.verdict_text import (
    NEGLIGIBLE,
    counted,
    format_change,
    format_number,
    format_tasks,
    format_vacuous,
)

NAME = "sharing-incentive"


def measure_slices(problem: Problem) -> FloatArray:
    """Return (N,) the tasks that each user could run with the uniform slice of every server.

    Some user must be due something.

    A slice is the user's part by weight of every resource of every server, whether or not it may
    run there. The part is ``phi[n] / sum_m phi[m]`` over the users m that are due something; in
    queues it is `Problem.part`; with weights per resource, each resource has its own part. Task
    limits apply, and fractions of tasks count. Khamse-Ashari et al. 2017, III-B; per resource,
    Parkes et al. 2012. O(N G R).
    """
    weight, due = problem.users.resource_weight, ~problem.due_nothing
    if weight is None:
        could = problem.part[:, None] * problem.gamma
    else:
        part = weight / weight[due].sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            demand = np.where(problem.demand > 0, problem.demand / part, 0.0)
        could = np.where(problem.runnable, tasks_within(problem.group_capacity, demand), 0.0)
    limited: FloatArray = np.minimum(could.sum(axis=1), problem.task_limit)
    return limited


def users_below_slice(subject: Subject, slices: FloatArray) -> BoolArray:
    """Return (N,) bool: users that certainly run less than their slice.

    If tasks are whole, they run at least one task less. Waiting tasks under constraints that are
    not modelled do not count. If holdings are incomplete, no user certainly runs less.
    """
    holdings = subject.holdings
    short = _runs_less(subject, np.minimum(slices, holdings.certain_limit))
    return short & (not holdings.incomplete)


def _users_maybe_below_slice(subject: Subject, slices: FloatArray) -> BoolArray:
    """Return (N,) bool: users that may run less than their slice, as holdings are uncertain."""
    holdings = subject.holdings
    may = _runs_less(subject, slices)
    if holdings.partial is not None:
        may |= holdings.partial & (holdings.waiting_per_user > 0)
    return may


def _runs_less(subject: Subject, slices: FloatArray) -> BoolArray:
    has = subject.holdings.user_tasks
    short: BoolArray = has < slices * (1 - NEGLIGIBLE)
    if subject.holdings.whole_tasks:
        short &= round_down(slices - has) >= 1
    return short


def users_with_tiny_slices(subject: Subject, slices: FloatArray) -> BoolArray:
    """Return (N,) bool: users that run less than a slice which is smaller than a whole task."""
    less = subject.holdings.user_tasks < slices * (1 - NEGLIGIBLE)
    tiny: BoolArray = less & (round_down(slices) < 1)
    return tiny if subject.holdings.whole_tasks else np.zeros_like(less)


def check_sharing_incentive(subject: Subject) -> Verdict:
    """Check that every user runs at least the tasks of its uniform slice; O(N G R).

    If tasks are whole, a user must lack at least one task to fail. The verdict is "unknown" if a
    user may run less, but none certainly does.
    """
    problem, whole = subject.problem, subject.holdings.whole_tasks
    slices = measure_slices(problem)
    has = subject.holdings.user_tasks
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = np.where(slices > 0, has / slices - 1.0, np.inf)
    short = users_below_slice(subject, slices)
    names, n_users = problem.users.names, problem.n_users
    tiny = users_with_tiny_slices(subject, slices)
    vacuous = tuple(names[k] for k in np.flatnonzero(tiny))
    ending = format_vacuous(vacuous, n_users, "whose slice is less than one whole task")
    if short.any():
        n = first_smallest(np.where(short, 1 + margin, np.inf))
        less, more = format_change(float(has[n]), float(slices[n]))
        witness = {
            "user": names[n],
            "tasks": float(has[n]),
            "slice": float(slices[n]),
            "margin": float(margin[n]),
            "short": [names[k] for k in np.flatnonzero(short)],
        }
        n_others = int(short.sum()) - 1
        others = f"; {counted(n_others, 'other user')} too" if n_others else ""
        return Verdict(
            NAME,
            "fails",
            witness,
            n_users,
            sentence=f"{names[n]} runs {format_tasks(less)}; a slice of every server would run "
            f"{more}{others}{ending}",
            severity=-float(margin[n]),
            vacuous=vacuous,
        )
    perhaps = _users_maybe_below_slice(subject, slices)
    if perhaps.any():
        n = int(perhaps.argmax())
        why = f"{names[n]} may run less than its slice, but {why_undecided(subject, n)}"
        return Verdict.undecided(NAME, why, n_users)
    n = first_smallest(np.where(tiny, np.inf, 1 + margin))
    sentence = "every slice of every server is less than one whole task"
    if not tiny[n]:
        least = (
            f"{format_tasks(format_number(float(has[n])))} for {format_number(float(slices[n]))}"
        )
        sentence = "every user runs at least what a slice of every server would"
        if whole and margin[n] < -NEGLIGIBLE:
            sentence = "no user runs a whole task less than a slice of every server would"
        sentence += f" (least margin: {names[n]}, {least})"
    return Verdict(NAME, "holds", {}, n_users, sentence=sentence + ending, vacuous=vacuous)
