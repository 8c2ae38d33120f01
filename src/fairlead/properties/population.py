"""Does anybody lose when somebody else leaves? Population monotonicity."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairlead.errors import CertificateError, ProblemError, RefusalError
from fairlead.model.arguments import whole_number
from fairlead.model.cluster import FloatArray
from fairlead.model.reductions import restrict
from fairlead.model.ties import first_largest
from fairlead.model.verdict import Verdict
from fairlead.properties.subject import Subject
from fairlead.properties.wording import counted, of_tasks, say_change

NAME = "population-monotonicity"
# Losses below this, relative to what one had, are rounding: certified answers are that close.
TOLERANCE = 1e-5
# What one had counts as no less than this part of what one could run alone.
LITTLE = 1e-3
# So many departures are tried when there are more users.
DEPARTURES = 40


def check_population_monotonicity(
    subject: Subject,
    departures: int = DEPARTURES,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Verdict:
    """Check that when one user leaves, nobody who stays runs fewer tasks.

    Parameters
    ----------
    departures : int
        Of how many users to try the departure, drawn without repetition; of all if there are no
        more.
    seed : int
        The same seed draws the same users.
    on_progress : callable, optional
        Called with the departures that were tried and all that will be.

    Returns
    -------
    Verdict
        "fails" with who leaves, who loses most, and its tasks before and after; "holds" when every
        departure was tried; else "unknown".

    Raises
    ------
    InputError
        When the number of departures or the seed is negative.

    Notes
    -----
    Wang et al. 2015, III-C. A run of the mechanism for each departure.
    """
    departures, seed = whole_number(departures, "departures"), whole_number(seed, "seed")
    if subject.divide is None:
        why = "an allocation does not say what would be if somebody left; ask of a mechanism"
        return Verdict(NAME, "unknown", sentence=f"not decided: {why}")
    problem = subject.given
    leavers = _leavers(problem.n_users, departures, seed)
    before = subject.holdings.user_tasks
    # Relative to what one had, or else to what one could run alone: crumbs come and go. A whole
    # task is none.
    alone = np.minimum(subject.problem.gamma.sum(axis=1), subject.problem.task_limit)
    scale = np.maximum(before, 0.0 if subject.holdings.whole_tasks else LITTLE * alone)
    tolerance = 0.0 if subject.holdings.whole_tasks else TOLERANCE
    losses: list[float] = []
    witnesses: list[dict[str, object]] = []
    unanswered = 0
    for done, leaver in enumerate(leavers, start=1):
        stay = [n for n in range(problem.n_users) if n != leaver]
        after = _tasks_of(subject, stay)
        if after is None:
            unanswered += 1
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
    return _verdict(witness, len(leavers), unanswered, problem.n_users)


def _tasks_of(subject: Subject, stay: list[int]) -> FloatArray | None:
    """Return the tasks of those who stay, None where there is no answer."""
    assert subject.divide is not None
    try:
        after = subject.divide(restrict(subject.given, users=stay)).user_tasks
    except (CertificateError, RefusalError, ProblemError):
        return None
    return after if np.isfinite(after).all() else None


def _leavers(n_users: int, departures: int, seed: int) -> list[int]:
    if n_users == 1:
        return []
    if n_users <= departures:
        return list(range(n_users))
    drawn = np.random.default_rng(seed).choice(n_users, departures, replace=False)
    return [int(n) for n in np.sort(drawn)]


def _verdict(witness: dict[str, object], departures: int, unanswered: int, n_users: int) -> Verdict:
    tried = departures - unanswered
    if witness:
        had, has = say_change(float(str(witness["before"])), float(str(witness["after"])))
        sentence = (
            f"if {witness['leaves']} left, {witness['loses']} would run {of_tasks(has)} "
            f"instead of {had}"
        )
        severity = 1.0 - float(str(witness["after"])) / float(str(witness["before"]))
        return Verdict(NAME, "fails", dict(witness), tried, sentence=sentence, severity=severity)
    if n_users == 1:
        return Verdict(NAME, "holds", sentence="nobody is left to lose", applies=False)
    if tried == n_users:
        sentence = "whoever leaves, nobody who stays loses"
        return Verdict(NAME, "holds", {}, tried, sentence=sentence)
    if departures == 0:
        return Verdict(NAME, "unknown", sentence="not searched")
    if tried == 0:
        why = f"{counted(departures, 'departure')} tried, and none of them answered"
        return Verdict(NAME, "unknown", sentence=f"not decided: {why}")
    sentence = f"nobody who stays loses when any of {counted(tried, 'user')} leaves"
    return Verdict(NAME, "unknown", {}, tried, counted(tried, "departure"), sentence)
