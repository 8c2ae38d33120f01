"""On one server, is it dominant resource fairness? Wang et al. 2015, III-C."""

from __future__ import annotations

import numpy as np

from fairlead.mechanisms.drf import solve_drf
from fairlead.model.ties import first_largest
from fairlead.model.verdict import Verdict
from fairlead.properties.subject import Subject
from fairlead.properties.wording import of_tasks, say_change

NAME = "single-server-drf"
# Tasks closer than this (relative) count as equal; certified answers are that close.
EQUAL = 1e-5


def check_single_server_drf(subject: Subject) -> Verdict:
    """Check that on one server everybody has what dominant resource fairness gives.

    Returns
    -------
    Verdict
        "fails" with the user furthest from its tasks under DRF, and both numbers; "holds" where
        there are several servers, or time is shared, or tasks are whole: then nothing is asked.
    """
    problem = subject.problem
    if problem.n_groups > 1 or problem.users.rates is not None or problem.has_constraints:
        return _nothing_to_ask("there are several servers")
    if subject.time_shared:
        return _nothing_to_ask("servers are shared by time")
    if subject.holdings.whole_tasks or not subject.holdings.of_one_shape:
        return _nothing_to_ask("tasks are whole")
    fair = solve_drf(problem).user_tasks
    has = subject.holdings.user_tasks
    off = np.abs(has - fair) / fair
    n = first_largest(1 + off)
    if off[n] <= EQUAL:
        here = "on this one server" if subject.given.n_groups == 1 else "in this one pool"
        sentence = f"{here} it is dominant resource fairness"
        return Verdict(NAME, "holds", {}, problem.n_users, sentence=sentence)
    user = problem.users.names[n]
    witness = {"user": user, "tasks": float(has[n]), "drf": float(fair[n])}
    here, there = say_change(float(has[n]), float(fair[n]))
    where = "on one server" if subject.given.n_groups == 1 else "in one pool"
    sentence = f"{where} DRF gives {user} {of_tasks(there)}, not {here}"
    return Verdict(
        NAME, "fails", witness, problem.n_users, sentence=sentence, severity=float(off[n])
    )


def _nothing_to_ask(why: str) -> Verdict:
    return Verdict(NAME, "holds", sentence=f"nothing to ask: {why}", applies=False)
