"""Where one resource is what everybody wants most, it is shared max-min fairly.

Two premises, one consequence. Single-resource fairness: only one resource is demanded at all.
Bottleneck fairness: one resource is demanded dominantly by every user of every server on which it
may run (Khamse-Ashari et al. 2017, III-B). Where the premise is met, what users hold of that
resource must be max-min fair, by weight, given where they may run and what tasks they have.

Wang et al. 2015 (III-C) ask whether it is dominant in the sum of all servers instead; without
placement constraints that is met more often.
"""

from __future__ import annotations

import numpy as np

from fairlead.errors import CertificateError
from fairlead.mechanisms.max_min import solve_max_min
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.model.ties import first_largest, first_smallest
from fairlead.model.verdict import Verdict
from fairlead.properties.subject import Subject
from fairlead.properties.wording import say_change

BOTTLENECK = "bottleneck-fairness"
SINGLE_RESOURCE = "single-resource-fairness"
# Amounts closer than this (relative) count as equal; certified answers are that close.
EQUAL = 1e-5
# Shares closer than this (relative) are equally dominant.
EQUALLY_DOMINANT = 1e-12


def find_bottleneck(problem: Problem) -> int | None:
    """Return the first resource that every user demands dominantly of each server where it may run.

    None where there is none, or rates are given instead of demands. Khamse-Ashari et al. 2017,
    III-B. O(N G R).
    """
    if problem.users.rates is not None:
        return None
    dominant = np.ones(problem.n_resources, dtype=bool)
    fitting = problem.fitting
    for r in range(problem.n_resources):
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = problem.group_capacity[None, :, r] / problem.demand[:, r, None]
        binds = alone <= fitting * (1 + EQUALLY_DOMINANT)
        dominant[r] = bool((binds | ~problem.runnable).all())
    found = np.flatnonzero(dominant & (problem.demand > 0).all(axis=0))
    return int(found[0]) if found.size else None


def find_single_resource(problem: Problem) -> int | None:
    """Return the only resource that anybody demands, None where there are several, or rates."""
    if problem.users.rates is not None:
        return None
    wanted = np.flatnonzero((problem.demand > 0).any(axis=0))
    return int(wanted[0]) if wanted.size == 1 else None


def check_bottleneck_fairness(subject: Subject) -> Verdict:
    """Check that a resource which is everybody's bottleneck, if any, is shared max-min fairly."""
    resource = find_bottleneck(subject.problem)
    if resource is None:
        why = "no one resource is what everybody needs most of every server where it may run"
        return _nothing_to_ask(subject, BOTTLENECK, why)
    return check_max_min(subject, resource, BOTTLENECK)


def check_single_resource_fairness(subject: Subject) -> Verdict:
    """Check that a resource which alone is demanded, if any, is shared max-min fairly."""
    resource = find_single_resource(subject.problem)
    if resource is None:
        rates = subject.problem.users.rates is not None
        why = "rates are given" if rates else "several resources are demanded"
        return _nothing_to_ask(subject, SINGLE_RESOURCE, why)
    return check_max_min(subject, resource, SINGLE_RESOURCE)


def _nothing_to_ask(subject: Subject, name: str, why: str) -> Verdict:
    """Return the verdict of an unmet premise; missing nodes or pods may meet it."""
    doubts = subject.holdings.doubts
    if doubts is not None:
        return Verdict(name, "unknown", sentence=f"not decided: {doubts.why}")
    return Verdict(name, "holds", sentence=f"nothing to ask: {why}", applies=False)


def check_max_min(subject: Subject, resource: int, name: str) -> Verdict:
    """Check that what users hold of a resource is max-min fair, by weight.

    Returns
    -------
    Verdict
        "fails" with the user that falls short most of its max-min fair amount (amounts are unique),
        and both amounts; "unknown" where tasks are whole or of several shapes, or no fair amounts
        are found.
    """
    if subject.holdings.whole_tasks or not subject.holdings.of_one_shape:
        why = "not decided: whole tasks cannot be shared evenly"
        return Verdict(name, "unknown", sentence=why)
    if subject.problem.users.resource_weight is not None:
        return Verdict(name, "unknown", sentence="not decided: weights differ by resource")
    problem = subject.problem
    try:
        fair = fair_amounts(problem, resource)
    except CertificateError as failure:
        return Verdict(name, "unknown", {}, 0, str(failure), f"not decided: {failure}")
    held = subject.holdings.held[:, :, resource].sum(axis=1)
    off = (held - fair) / fair
    what = problem.cluster.resources[resource]
    if np.abs(off).max() <= EQUAL:
        sentence = f"{what} is what everybody needs most, and it is shared max-min fairly"
        return Verdict(name, "holds", {"resource": what}, problem.n_users, sentence=sentence)
    n = first_smallest(1 + off) if off.min() < -EQUAL else first_largest(1 + off)
    user = problem.users.names[n]
    witness = {
        "resource": what,
        "user": user,
        "held": float(held[n]),
        "fair": float(fair[n]),
        "tasks": float(subject.tasks[n].sum()),
        "fair_tasks": float(fair[n] / problem.demand[n, resource]),
    }
    has, should = say_change(float(held[n]), float(fair[n]))
    unit = f" {problem.cluster.units[resource]}".rstrip()
    sentence = (
        f"{what} is what everybody needs most, and {user} has {has}{unit} of it where max-min "
        f"fairness gives {should}{unit}"
    )
    return Verdict(
        name, "fails", witness, problem.n_users, sentence=sentence, severity=abs(float(off[n]))
    )


def fair_amounts(problem: Problem, resource: int) -> FloatArray:
    """Return (N,) what each user has of a resource when that is max-min fair, by weight.

    Raises CertificateError when no proved answer is found.
    """
    total = problem.total_capacity[resource]
    score = problem.demand[:, resource] / total
    allocation = solve_max_min(problem, "max-min", score)
    if not allocation.certificate.holds:
        raise CertificateError("no proof of max-min fair amounts was found")
    fair: FloatArray = allocation.user_tasks * problem.demand[:, resource]
    return fair
