"""Strategy-proofness: search for a user that gains by lying about its demand or its servers.

Users declare their demand and their eligible servers; a mechanism is strategy-proof if no user can
run more of its true tasks by a false declaration (Wang et al. 2015, III-C; Khamse-Ashari et al.
2017, III-B). If a lying user gets x'[g] declared tasks of demand d' on server g, it can run
``min over r of x'[g] d'[r] / d[r]`` tasks of its true demand d there, provided that it truly may
run there. A user with given rates gets time of servers, in which it runs at its true rates.

A search cannot prove that no lie pays: a verdict is "fails" or "unknown".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairlead.errors import CertificateError, FairleadError, RefusalError
from fairlead.model.arguments import whole_number
from fairlead.model.cluster import ROUNDING, BoolArray, FloatArray
from fairlead.model.fitting import tasks_on_one_server
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.properties.feasibility import check_feasibility
from fairlead.properties.subject import Subject, certain_whole_tasks
from fairlead.properties.verdict_text import (
    counted,
    format_change,
    format_percent,
    format_tasks,
)
from fairlead.solvers.hill_climbing import climb

NAME = "strategy-proofness"
# A smaller relative gain may come from the tolerance of certified answers.
TOLERANCE = 1e-5
PATIENCE = 15  # restart after this many lies without progress
EXTREME_PART = 0.5  # fraction of the lies that are extreme; the search starts from the best of them
SMALLEST = 1e-3  # smallest declared amount, relative to the true one or to a server's capacity
LARGEST_RATE_FACTOR = 10.0  # between declared and true rates
ONLY_GROUPS = 4  # largest number of groups that are each tried as the only eligible one
STEPS = (0.02, 0.1, 0.4)  # standard deviations of the logarithm of a small change


@dataclass(frozen=True, eq=False)
class Lie:
    """A false declaration of a user, and its gain."""

    user: int
    demand: FloatArray  # (R,): declared amounts per task
    eligible: BoolArray  # (G,): declared eligibility
    rates: FloatArray | None  # (G,): declared rates; None for a user with demands
    honest: float = 0.0  # true tasks without the lie
    gained: float = 0.0  # true tasks with the lie
    # (gained - honest) / honest; the divisor is at least a thousandth of the tasks that the user
    # could run alone. Minus infinity if the mechanism has no answer to the lie.
    gain: float = -np.inf


def search_lies(
    subject: Subject,
    lies: int,
    seed: int = 0,
    *,
    first: Lie | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[Verdict, Lie | None]:
    """Search for a lie that pays: try extreme lies, then small changes to the best, and restart.

    Parameters
    ----------
    subject : Subject
    lies : int
        Number of lies to try; each runs the mechanism.
    seed : int
        The same seed tries the same lies.
    first : Lie, optional
        The lie to start from, instead of the extreme ones; then only its user lies.
    on_progress : callable, optional
        Called with the number of lies tried and their total.

    Returns
    -------
    verdict : Verdict
    lie : Lie or None
        The lie that pays, if one was found.
    """
    lies, seed = whole_number(lies, "lies"), whole_number(seed, "seed")
    if subject.divide is None:
        why = "lies need a mechanism that answers them, not an allocation"
        return Verdict.undecided(NAME, why), None
    if lies == 0:
        return Verdict(NAME, "unknown", sentence="not searched"), None
    search = _LieSearch(subject, np.random.default_rng(seed), first)
    best = climb(
        search.draw,
        lambda lie: lie.gain,
        lies,
        PATIENCE,
        on_progress,
        openings=search.openings(lies),
    )
    tried, failures = counted(lies, "lie"), search.describe_failures()
    if search.answered == 0:
        return Verdict.undecided(NAME, f"{tried} tried, none answered{failures}"), None
    if best.gain <= TOLERANCE:
        topics = "demands and servers" if search.lies_about_servers else "demands"
        sentence = f"none of {tried} about {topics} pays{failures}"
        return Verdict(NAME, "unknown", {}, lies, tried, sentence), None
    return _fails(subject, best, lies), best


def declared_problem(problem: Problem, lie: Lie) -> Problem:
    """Return the problem as a mechanism sees it when one user lies."""
    users = problem.users
    demand, eligible, rates = users.demand.copy(), users.eligible.copy(), users.rates
    demand[lie.user], eligible[lie.user] = lie.demand, lie.eligible
    if rates is not None and lie.rates is not None:
        rates = rates.copy()
        rates[lie.user] = lie.rates
    # A lie may demand one device and a half, which is invalid only where tasks are placed.
    cluster = replace(problem.cluster, devices=())
    return Problem(cluster, replace(users, demand=demand, eligible=eligible, rates=rates))


def usable_tasks(
    truth: Problem,
    declared: Problem,
    user: int,
    tasks: FloatArray,
    *,
    by_time: bool = False,
    whole_tasks: bool = False,
) -> float:
    """Return the true tasks that a lying user can run with its declared `tasks` (G,); O(G R).

    `truth` is the true problem, `declared` the problem with the lie; both are pooled if the
    mechanism pools. With `by_time` the user has whole servers during its time; with `whole_tasks`
    only whole tasks count, each on one server.
    """
    runs = truth.runnable[user] & declared.runnable[user] & (tasks > 0)
    if by_time:
        could = tasks[runs] / declared.gamma[user, runs] * truth.gamma[user, runs]
    else:
        asks = truth.demand[user] > 0
        worth = float((declared.demand[user, asks] / truth.demand[user, asks]).min())
        could = tasks[runs] * worth
    if whole_tasks:
        could = certain_whole_tasks(could, tasks[runs], truth.count[runs])
    return min(float(could.sum()), float(truth.task_limit[user]))


class _LieSearch:
    """Draws lies and measures their gains."""

    def __init__(self, subject: Subject, random: np.random.Generator, first: Lie | None) -> None:
        self.first = first
        self.answered = 0  # lies with a feasible answer
        self.infeasible: list[str] = []  # why an answer is infeasible, for each such lie
        self.faults: list[str] = []  # error messages of the mechanism
        self.on_one_server = tasks_on_one_server(subject.given)
        self.fits = self.on_one_server >= 1 - ROUNDING  # (N,): whether a true task fits
        self.subject = subject
        self.random = random
        self.problem = subject.given
        self.lies_about_servers = subject.knows_constraints and self.problem.n_groups > 1
        self.alone = np.minimum(subject.problem.gamma.sum(axis=1), subject.problem.task_limit)

    def openings(self, lies: int) -> Iterator[Lie]:
        """Yield extreme lies in random order, measured; or only `first`, if it was given."""
        if self.first is not None:
            yield self._measure(self.first)
            return
        n_users = self.problem.n_users
        kinds = 2 + self.problem.n_resources
        if self.lies_about_servers:
            kinds += min(self.problem.n_groups, ONLY_GROUPS)
        n_openings = min(int(EXTREME_PART * lies), n_users * kinds)
        for k in self.random.choice(n_users * kinds, n_openings, replace=False).tolist():
            yield self._measure(self._extreme(*divmod(k, kinds)))

    def draw(self, best: Lie | None) -> Lie:
        """Draw a random lie, near `best` if given, and measure it."""
        if best is not None:
            return self._measure(self._draw_near(best))
        if self.first is not None:
            return self._measure(self._draw_anywhere(self.first.user))
        return self._measure(self._draw_anywhere(int(self.random.integers(self.problem.n_users))))

    def _truth(self, user: int) -> Lie:
        users = self.problem.users
        rates = users.rates[user] if users.rates is not None else None
        rates = None if rates is None or np.isnan(rates).any() else rates
        return Lie(user, users.demand[user], users.eligible[user], rates)

    def _extreme(self, user: int, kind: int) -> Lie:
        """Return the extreme lie of a kind.

        Kind 0 declares tasks that fill a server, kind 1 tasks that take next to nothing. The next R
        kinds demand a server's whole capacity of a resource. Each further kind declares one group
        as the only one where the user may run. A user with given rates multiplies all or some of
        them by a large or small factor instead.
        """
        truth, random = self._truth(user), self.random
        resource, group = kind - 2, kind - 2 - self.problem.n_resources
        if group >= 0:
            if self.problem.n_groups > ONLY_GROUPS:
                group = int(random.integers(self.problem.n_groups))
            return replace(truth, eligible=np.arange(self.problem.n_groups) == group)
        if truth.rates is not None:
            some = (random.random(len(truth.rates)) < 0.5) | (resource < 0)
            factor = LARGEST_RATE_FACTOR if kind % 2 else 1 / LARGEST_RATE_FACTOR
            return replace(truth, rates=np.where(some, factor, 1.0) * truth.rates)
        if resource < 0:
            factor = (max(float(self.on_one_server[user]), 1.0), SMALLEST)[kind]
            return replace(truth, demand=truth.demand * factor)
        return self._demanding(truth, resource, self._largest_capacity(user, resource))

    def _largest_capacity(self, user: int, r: int) -> float:
        """Return the largest capacity, of resource `r`, of a server where the user may run."""
        runs = self.problem.runnable[user]
        return float(self.problem.cluster.capacity[runs, r].max(initial=0.0))

    @staticmethod
    def _demanding(truth: Lie, r: int, amount: float) -> Lie:
        """Return the lie with a demand of `amount` of resource `r`."""
        demand = truth.demand.copy()
        demand[r] = amount
        return replace(truth, demand=demand)

    def _draw_anywhere(self, user: int) -> Lie:
        """Draw a lie about one resource, about all amounts, or about servers."""
        truth, random = self._truth(user), self.random
        if self.lies_about_servers and random.random() < 0.4:
            flips = random.random(self.problem.n_groups) < 1.5 / self.problem.n_groups
            flips[random.integers(self.problem.n_groups)] = True
            truth = replace(truth, eligible=truth.eligible ^ flips)
            if random.random() < 0.5:
                return truth
        if truth.rates is not None:
            factor = np.exp(random.normal(0.0, random.choice([0.1, 0.5, 1.5]), len(truth.rates)))
            return replace(truth, rates=truth.rates * factor)
        if random.random() < 0.3:  # smaller or larger tasks of the same proportions
            largest = max(float(self.on_one_server[user]), 1.0)
            factor = np.exp(random.uniform(np.log(SMALLEST), np.log(largest)))
            return replace(truth, demand=truth.demand * factor)
        if random.random() < 0.6:
            # Most lies that pay demand more of one resource than the tasks need.
            r = int(random.integers(self.problem.n_resources))
            largest = self._largest_capacity(user, r)
            smallest = max(float(truth.demand[r]), SMALLEST * largest)
            if smallest < largest:
                amount = float(np.exp(random.uniform(np.log(smallest), np.log(largest))))
                return self._demanding(truth, r, amount)
        factor = np.exp(random.normal(0.0, random.choice(STEPS), self.problem.n_resources))
        return replace(truth, demand=truth.demand * factor)

    def _draw_near(self, best: Lie) -> Lie:
        """Draw a small change of a lie."""
        random = self.random
        eligible = best.eligible
        if self.lies_about_servers and random.random() < 0.25:
            eligible = eligible.copy()
            eligible[random.integers(len(eligible))] ^= True
        step = random.choice(STEPS)
        if best.rates is not None:
            some = random.random(len(best.rates)) < 0.5
            rates = best.rates * np.exp(random.normal(0.0, step, len(some)) * some)
            return replace(best, eligible=eligible, rates=rates)
        some = random.random(len(best.demand)) < 0.5
        demand = best.demand * np.exp(random.normal(0.0, step, len(some)) * some)
        return replace(best, eligible=eligible, demand=demand)

    def _measure(self, lie: Lie) -> Lie:
        """Return the lie with its gain."""
        assert self.subject.divide is not None
        lie = replace(self._scaled_to_fit(lie), gain=-np.inf)
        declared = declared_problem(self.problem, lie)
        if not declared.runnable[lie.user].any():
            return lie
        try:
            got = self.subject.divide(declared)
        except FairleadError as error:  # a user-defined mechanism may raise any
            if not isinstance(error, CertificateError | RefusalError):
                self.faults.append(str(error).removeprefix(f"{self.subject.name}: "))
            return lie
        if not np.isfinite(got.tasks[lie.user]).all():
            return lie
        if not self.subject.certified:
            answer = check_feasibility(replace(self.subject, holdings=got, given=declared))
            if answer.verdict == "fails":
                self.infeasible.append(answer.sentence)
                return lie
        truth = self.subject.problem
        gained = usable_tasks(
            truth,
            got.problem,
            lie.user,
            got.tasks[lie.user],
            by_time=lie.rates is not None,
            whole_tasks=got.whole_tasks,
        )
        self.answered += 1
        honest = float(self.subject.holdings.user_tasks[lie.user])
        gain = (gained - honest) / max(honest, 1e-3 * float(self.alone[lie.user]))
        return replace(lie, honest=honest, gained=gained, gain=gain)

    def describe_failures(self) -> str:
        """Return the end of a sentence on lies that got no answer, or an infeasible one."""
        found = ""
        for faults, what in ((self.infeasible, "infeasible answer"), (self.faults, "failure")):
            if faults:
                found += f"; {counted(len(faults), what)} ({faults[0]:.200})"
        return found

    def _scaled_to_fit(self, lie: Lie) -> Lie:
        """Return the lie scaled so that its tasks fit a server, as systems reject other tasks."""
        asks = lie.demand > 0
        if lie.rates is not None or not self.fits[lie.user] or not asks.any():
            return lie
        capacity = self.problem.cluster.capacity[lie.eligible][:, asks]
        fitting = float((capacity / lie.demand[asks]).min(axis=1).max(initial=0.0))
        return replace(lie, demand=lie.demand * fitting) if 0 < fitting < 1 else lie


def _fails(subject: Subject, lie: Lie, lies: int) -> Verdict:
    problem = subject.given
    resources, groups = problem.cluster.resources, problem.cluster.groups
    user = problem.users.names[lie.user]
    witness: dict[str, Any] = {
        "user": user,
        "demand": dict(zip(resources, lie.demand.tolist(), strict=True)),
        "truth": dict(zip(resources, problem.demand[lie.user].tolist(), strict=True)),
        "honest": lie.honest,
        "gained": lie.gained,
    }
    topics = []
    if lie.rates is not None:
        witness["rates"] = dict(zip(groups, lie.rates.tolist(), strict=True))
        true_rates = problem.users.rates
        if true_rates is not None and (lie.rates != true_rates[lie.user]).any():
            topics.append("rates")
    elif (lie.demand != problem.demand[lie.user]).any():
        amounts = zip(resources, lie.demand, problem.demand[lie.user], strict=True)
        changes = [f"{r} {' for '.join(format_change(a, b))}" for r, a, b in amounts if a != b]
        topics.append(f"demands ({', '.join(changes)})")
    changed = lie.eligible != problem.users.eligible[lie.user]
    if changed.any():
        witness["servers"] = [groups[g] for g in np.flatnonzero(lie.eligible)]
        topics.append("servers")
    less, more = format_change(lie.honest, lie.gained)
    gain = f" {format_percent(lie.gained / lie.honest - 1)}" if lie.honest > 0 else ""
    sentence = (
        f"{user} gains{gain} by lying about its {' and '.join(topics)}: {format_tasks(more)} "
        f"instead of {less}"
    )
    severity = lie.gained / lie.honest - 1.0 if lie.honest > 0 else np.inf
    return Verdict(NAME, "fails", witness, lies, sentence=sentence, severity=severity)
