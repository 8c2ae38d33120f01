"""Could somebody have more without anybody having less? Pareto optimality, by linear programme."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.errors import NoConvergenceError
from fairlead.model.cluster import FloatArray
from fairlead.model.fitting import use_per_task
from fairlead.model.ties import first_largest
from fairlead.model.verdict import Verdict
from fairlead.properties.feasibility import check_feasibility
from fairlead.properties.subject import Subject, round_down
from fairlead.properties.waste import check_non_wastefulness, possible_extra
from fairlead.properties.wording import NEGLIGIBLE, counted, of_tasks, say, say_change
from fairlead.solvers.linear_programmes import improve, measure_progress

NAME = "pareto-optimality"
HOLDS = "nobody could have more without somebody having less"
# Beyond this many users on groups the programme takes minutes.
LARGEST_PROGRAMME = 400_000
SHOWN = 50


def check_pareto_optimality(subject: Subject) -> Verdict:
    """Check by linear programme that no feasible answer is better for somebody and worse for none.

    Gains are counted in shares of what each user could run alone, and what all together cannot gain
    more than a millionth of counts as nothing.

    Returns
    -------
    Verdict
        "fails" with a better answer: who gains most, and the tasks of everybody on every group;
        "unknown" where the holdings are infeasible, too large, of many shapes, or of whole tasks
        on several servers that fractions of tasks could better. Whole tasks that fit into free
        capacity prove a failure.

    Notes
    -----
    A linear programme of at most N G unknowns.
    """
    problem, tasks = subject.problem, subject.tasks
    feasible, doubts = check_feasibility(subject).verdict, subject.holdings.doubts
    if feasible == "fails":
        return _unknown("what is held is not feasible, so that better means nothing")
    if subject.holdings.whole_tasks and feasible == "holds":
        waste = check_non_wastefulness(subject)
        if waste.verdict == "fails":
            return _fails_by_waste(subject, waste)
    if doubts is not None:
        return _unknown(doubts.why)
    if subject.holdings.amounts is not None:
        return _unknown("tasks of several shapes have no one linear programme")
    if subject.holdings.whole_tasks and problem.count.sum() == 1:
        return _check_whole_tasks_in_pool(subject)
    if problem.n_users * problem.n_groups > LARGEST_PROGRAMME:
        return _unknown("too many users and groups for a linear programme")
    alone = np.minimum(problem.gamma.sum(axis=1), problem.task_limit)
    programme = _programme(subject, alone)
    have = tasks.sum(axis=1) / alone
    try:
        found = improve(**programme, have=have)
    except NoConvergenceError as failure:
        return _unknown(str(failure))
    if found.bound <= _least_gain(subject, alone):
        detail = f"all together gain at most {max(found.bound, 0.0):.1e}"
        return Verdict(NAME, "holds", {}, 1, detail, HOLDS)
    gain = found.split.sum(axis=1) - have
    n = first_largest(1 + gain)
    if subject.holdings.whole_tasks:
        most = float(gain[n] * alone[n])
        return _unknown(
            "fractions of tasks could be placed better "
            f"({problem.users.names[n]} {say(most)} more); whole ones may not"
        )
    if gain[n] <= NEGLIGIBLE / 10:
        return _unknown(f"the linear programme leaves a doubt of {max(found.bound, 0.0):.1e}")
    if not _is_confirmed(programme, tasks / alone[:, None]):
        return _unknown("who gains may do so by what others lose in rounding")
    better = found.split * alone[:, None]
    return _fails(subject, better, n, int((gain > NEGLIGIBLE / 10).sum()))


def _least_gain(subject: Subject, alone: FloatArray) -> float:
    """Return what the sum of gains must exceed: rounding, or one task where tasks are whole."""
    if not subject.holdings.whole_tasks:
        return NEGLIGIBLE * max(1.0, subject.problem.n_users / 1000)
    left = round_down(subject.problem.task_limit - subject.holdings.user_tasks)
    least = np.where(left >= 1, 1.0 / alone, np.inf).min()
    return float(least) * (1.0 - NEGLIGIBLE)


def _programme(subject: Subject, alone: FloatArray) -> dict[str, Any]:
    """Return what is feasible, counting the tasks of each user as shares of what it runs alone."""
    problem, tasks = subject.problem, subject.tasks
    use = use_per_task(problem, subject.time_shared) * alone[None, :, None]
    used = np.einsum("rng,ng->rg", use, tasks / alone[:, None])
    capacity = np.maximum(1.0, used)  # what overuse is within the tolerance stays possible
    if not subject.time_shared:
        capacity = np.where(problem.group_capacity.T > 0, capacity, 0.0)
    most = np.maximum(problem.task_limit / alone, tasks.sum(axis=1) / alone)
    return {"use": use, "allowed": problem.runnable, "most": most, "capacity": capacity}


def _is_confirmed(programme: dict[str, Any], split: FloatArray) -> bool:
    """Return whether all gain together when others' losses are looked at as closely."""
    try:
        return measure_progress(**programme, split=split) > 0.5
    except NoConvergenceError:
        return False


def _fails(subject: Subject, better: FloatArray, n: int, gainers: int) -> Verdict:
    problem = subject.problem
    names, groups = problem.users.names, problem.cluster.groups
    before, after = float(subject.tasks[n].sum()), float(better[n].sum())
    witness: dict[str, Any] = {"user": names[n], "tasks": before, "could": after}
    if problem.n_users <= SHOWN:
        witness["better"] = {
            names[m]: {groups[g]: float(better[m, g]) for g in np.flatnonzero(better[m] > 0)}
            for m in range(problem.n_users)
        }
    less, more = say_change(before, after)
    others = f", and {counted(gainers - 1, 'other user')} gain too" if gainers > 1 else ""
    others = others.replace("1 other user gain ", "1 other user gains ")
    sentence = (
        f"{names[n]} could run {of_tasks(more)} instead of {less} and nobody would lose{others}"
    )
    severity = after / before - 1.0 if before > 0 else np.inf
    return Verdict(NAME, "fails", witness, 1, sentence=sentence, severity=severity)


def _check_whole_tasks_in_pool(subject: Subject) -> Verdict:
    """Check whole tasks in one pool, where only a further task betters an answer without waste."""
    extra = np.floor(possible_extra(subject)[:, 0] + NEGLIGIBLE)
    if (extra >= 1).any():
        # Only waiting tasks get here, which something else keeps from the server.
        return _unknown("the tasks that would fit may be kept away by what does not count")
    sentence = "no user has one more task that fits into the pool"
    return Verdict(NAME, "holds", {}, 1, sentence=sentence)


def _fails_by_waste(subject: Subject, waste: Verdict) -> Verdict:
    """Return the verdict where whole tasks fit into free capacity, at no user's cost."""
    problem, tasks = subject.problem, subject.tasks
    user, group = waste.witness["user"], waste.witness["group"]
    n, g = problem.users.names.index(user), problem.cluster.groups.index(group)
    if subject.holdings.of_one_shape:
        better = tasks.copy()
        better[n, g] += waste.witness["tasks"]
        return _fails(subject, better, n, 1)
    name, has = waste.witness["task"], float(tasks[n].sum())
    witness = {"user": user, "group": group, "task": name}
    severity = 1.0 / has if has > 0 else np.inf
    sentence = f"{name} could run on {group} and nobody would lose"
    return Verdict(NAME, "fails", witness, 1, sentence=sentence, severity=severity)


def _unknown(why: str) -> Verdict:
    return Verdict(NAME, "unknown", {}, 0, why, f"not decided: {why}")
