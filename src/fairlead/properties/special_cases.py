"""Special cases with a unique fair answer: one contested resource, or one server.

- Single-resource fairness: only one resource is demanded.
- Bottleneck fairness: the same resource is dominant for every user on every server where the user
  may run (Khamse-Ashari et al. 2017, III-B). In Wang et al. 2015 (III-C) the resource must be
  dominant only in the sum of all servers; without placement constraints that holds more often.
- Single-server DRF: on one server the answer is dominant resource fairness (Wang et al. 2015,
  III-C).

In the first two cases, the amounts of the resource must be max-min fair by weight, subject to
placement constraints and task limits.
"""

from __future__ import annotations

import numpy as np

from fairlead.errors import CertificateError
from fairlead.mechanisms.drf import solve_drf
from fairlead.mechanisms.max_min import solve_max_min
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.model.ties import first_largest, first_smallest
from fairlead.model.verdict import Verdict
from fairlead.properties.subject import Subject
from fairlead.properties.verdict_text import format_change, format_tasks

BOTTLENECK = "bottleneck-fairness"
SINGLE_RESOURCE = "single-resource-fairness"
SINGLE_SERVER = "single-server-drf"
# Amounts closer than this (relative) count as equal; certified answers have such errors.
EQUAL = 1e-5
# Shares closer than this (relative) are equally dominant.
EQUALLY_DOMINANT = 1e-12


def find_bottleneck(problem: Problem) -> int | None:
    """Return the first resource that is dominant for all users wherever they may run; O(N G R).

    None if there is none, or if rates are given instead of demands.
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
    """Return the only demanded resource; None if there are several, or if rates are given."""
    if problem.users.rates is not None:
        return None
    wanted = np.flatnonzero((problem.demand > 0).any(axis=0))
    return int(wanted[0]) if wanted.size == 1 else None


def check_bottleneck_fairness(subject: Subject) -> Verdict:
    """Check that the bottleneck resource of all users, if there is one, is shared fairly."""
    resource = find_bottleneck(subject.problem)
    if resource is None:
        why = "no single resource is the bottleneck of every user on every server"
        return Verdict.not_applicable(BOTTLENECK, why)
    return _check_max_min(subject, resource, BOTTLENECK)


def check_single_resource_fairness(subject: Subject) -> Verdict:
    """Check that the only demanded resource, if there is one, is shared max-min fairly."""
    resource = find_single_resource(subject.problem)
    if resource is None:
        rates = subject.problem.users.rates is not None
        why = "rates are given" if rates else "several resources are demanded"
        return Verdict.not_applicable(SINGLE_RESOURCE, why)
    return _check_max_min(subject, resource, SINGLE_RESOURCE)


def _check_max_min(subject: Subject, resource: int, name: str) -> Verdict:
    """Check that the held amounts of a resource are the max-min fair ones, which are unique."""
    problem = subject.problem
    if subject.holdings.whole_tasks or not subject.holdings.of_one_shape:
        return Verdict.undecided(name, "whole tasks cannot be shared evenly")
    if problem.users.resource_weight is not None:
        return Verdict.undecided(name, "weights differ by resource")
    if problem.users.queues is not None:
        return Verdict.not_applicable(name, "shares depend on queues, too")
    try:
        fair = fair_amounts(problem, resource)
    except CertificateError as failure:
        return Verdict.undecided(name, str(failure), detail=str(failure))
    held = subject.holdings.held[:, :, resource].sum(axis=1)
    off = (held - fair) / fair
    what, n_users = problem.cluster.resources[resource], problem.n_users
    if np.abs(off).max() <= EQUAL:
        sentence = f"{what} is every user's bottleneck and is shared max-min fairly"
        return Verdict(name, "holds", {"resource": what}, n_users, sentence=sentence)
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
    has, due = format_change(float(held[n]), float(fair[n]))
    unit = f" {problem.cluster.units[resource]}".rstrip()
    sentence = (
        f"{what} is every user's bottleneck, and {user} has {has}{unit} of it where max-min "
        f"fairness gives {due}{unit}"
    )
    severity = abs(float(off[n]))
    return Verdict(name, "fails", witness, n_users, sentence=sentence, severity=severity)


def fair_amounts(problem: Problem, resource: int) -> FloatArray:
    """Return (N,) the max-min fair amounts of a resource, by weight."""
    score = problem.demand[:, resource] / problem.total_capacity[resource]
    allocation = solve_max_min(problem, "max-min", score)
    if not allocation.certificate.holds:
        raise CertificateError("no proof of max-min fair amounts was found")
    fair: FloatArray = allocation.user_tasks * problem.demand[:, resource]
    return fair


def check_single_server_drf(subject: Subject) -> Verdict:
    """Check that users have the same tasks as under DRF, on a single server of divisible tasks."""
    problem, n_users = subject.problem, subject.problem.n_users
    if problem.n_groups > 1:
        return Verdict.not_applicable(SINGLE_SERVER, "there are several groups of servers")
    if problem.users.rates is not None:
        return Verdict.not_applicable(SINGLE_SERVER, "rates are given")
    if problem.has_constraints:
        return Verdict.not_applicable(SINGLE_SERVER, "there are placement constraints")
    if subject.time_shared:
        return Verdict.not_applicable(SINGLE_SERVER, "servers are shared by time")
    if subject.holdings.whole_tasks or not subject.holdings.of_one_shape:
        return Verdict.not_applicable(SINGLE_SERVER, "tasks are whole")
    fair = solve_drf(problem).user_tasks
    held = subject.holdings.user_tasks
    off = np.abs(held - fair) / fair
    n = first_largest(1 + off)
    place = "on one server" if subject.given.count.sum() == 1 else "in one pool"
    if off[n] <= EQUAL:
        sentence = f"{place} it is dominant resource fairness"
        return Verdict(SINGLE_SERVER, "holds", {}, n_users, sentence=sentence)
    user = problem.users.names[n]
    witness = {"user": user, "tasks": float(held[n]), "drf": float(fair[n])}
    has, due = format_change(float(held[n]), float(fair[n]))
    sentence = f"{place} DRF gives {user} {format_tasks(due)}, not {has}"
    severity = float(off[n])
    return Verdict(SINGLE_SERVER, "fails", witness, n_users, sentence=sentence, severity=severity)
