"""Population monotonicity: no user runs fewer tasks when another user leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fairlead.errors import FairleadError
from fairlead.model.arguments import whole_number
from fairlead.model.cluster import FloatArray
from fairlead.model.reductions import restrict
from fairlead.model.ties import first_largest
from fairlead.model.verdict import Verdict
from fairlead.properties.feasibility import check_feasibility
from fairlead.properties.subject import Subject
from fairlead.properties.verdict_text import counted, format_change, format_tasks

NAME = "population-monotonicity"
# Losses below this, relative to the tasks before, are rounding errors of certified answers.
TOLERANCE = 1e-5
# Smallest divisor of a loss, relative to the tasks that the user could run alone.
SMALLEST_TASKS = 1e-3
# The largest number of departures that are tried by default.
DEPARTURES = 40


def check_population_monotonicity(
    subject: Subject,
    departures: int = DEPARTURES,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Verdict:
    """Check that when one user leaves, no remaining user runs fewer tasks.

    Runs the mechanism without each of at most `departures` users, drawn without repetition. The
    verdict is "unknown" if no user loses by these departures, but not all were tried. Wang et al.
    2015, III-C.
    """
    departures, seed = whole_number(departures, "departures"), whole_number(seed, "seed")
    if subject.divide is None:
        why = "departures need a mechanism that answers them, not an allocation"
        return Verdict.undecided(NAME, why)
    problem = subject.given
    leavers = _leavers(problem.n_users, departures, seed)
    before = subject.holdings.user_tasks
    alone = np.minimum(subject.problem.gamma.sum(axis=1), subject.problem.task_limit)
    scale = np.maximum(before, 0.0 if subject.holdings.whole_tasks else SMALLEST_TASKS * alone)
    tolerance = 0.0 if subject.holdings.whole_tasks else TOLERANCE
    losses: list[float] = []
    witnesses: list[dict[str, Any]] = []
    faults: list[str] = []  # of departures without an answer
    for done, leaver in enumerate(leavers, start=1):
        stay = [n for n in range(problem.n_users) if n != leaver]
        after, fault = _tasks_of(subject, stay)
        if after is None:
            faults.append(f"without {problem.users.names[leaver]}: {fault:.200}")
        else:
            had = before[stay]
            loss = np.where(had > 0, (had - after) / np.maximum(scale[stay], 1e-300), 0.0)
            loses = loss > tolerance
            if loses.any():
                k = first_largest(np.where(loses, 1 + loss, 0.0))
                losses.append(1 + float(loss[k]))
                witnesses.append(
                    {
                        "leaves": problem.users.names[leaver],
                        "loses": problem.users.names[stay[k]],
                        "before": float(had[k]),
                        "after": float(after[k]),
                    }
                )
        if on_progress is not None:
            on_progress(done, len(leavers))
    witness = witnesses[first_largest(np.array(losses))] if witnesses else {}
    return _verdict(witness, len(leavers), faults, problem.n_users)


def _tasks_of(subject: Subject, stay: list[int]) -> tuple[FloatArray | None, str]:
    """Return the tasks of the remaining users; without an answer, None and the reason."""
    assert subject.divide is not None
    problem = restrict(subject.given, users=stay)
    try:
        answer = subject.divide(problem)
    except FairleadError as error:  # a user-defined mechanism may raise any
        return None, str(error).removeprefix(f"{subject.name}: ")
    after = answer.user_tasks
    if not np.isfinite(after).all():
        return None, "a number of tasks is not finite"
    if not subject.certified:
        feasible = check_feasibility(replace(subject, holdings=answer, given=problem))
        if feasible.verdict == "fails":
            return None, feasible.sentence
    return after, ""


def _leavers(n_users: int, departures: int, seed: int) -> list[int]:
    if n_users == 1:
        return []
    if n_users <= departures:
        return list(range(n_users))
    drawn = np.random.default_rng(seed).choice(n_users, departures, replace=False)
    return [int(n) for n in np.sort(drawn)]


def _verdict(witness: dict[str, Any], departures: int, faults: list[str], n_users: int) -> Verdict:
    tried = departures - len(faults)
    if witness:
        had, has = format_change(witness["before"], witness["after"])
        sentence = (
            f"if {witness['leaves']} left, {witness['loses']} would run {format_tasks(has)} "
            f"instead of {had}"
        )
        severity = 1.0 - witness["after"] / witness["before"]
        return Verdict(NAME, "fails", witness, tried, sentence=sentence, severity=severity)
    if n_users == 1:
        return Verdict(NAME, "holds", sentence="there is only one user", applies=False)
    if tried == n_users:
        sentence = "no remaining user loses, whichever user leaves"
        return Verdict(NAME, "holds", {}, tried, sentence=sentence)
    if departures == 0:
        return Verdict(NAME, "unknown", sentence="not searched")
    if tried == 0:
        why = f"{counted(departures, 'departure')} tried, none answered"
        return Verdict.undecided(NAME, f"{why} ({faults[0]})")
    sentence = f"no remaining user loses when any of {counted(tried, 'user')} leaves"
    if faults:
        number = counted(len(faults), "departure")
        sentence += f"; {number} without an answer ({faults[0]})"
    return Verdict(NAME, "unknown", {}, tried, counted(tried, "departure"), sentence)
