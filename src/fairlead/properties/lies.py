"""Search for a user that gains by misreporting its demands or where it may run.

Users declare their demand and their eligible servers; a mechanism is strategy-proof if no user can
run more of its true tasks by declaring others (Wang et al. 2015, III-C; Khamse-Ashari et al. 2017,
III-B). What a liar can do with what it gets is counted server by server, where it truly may run:
``min over r of x'[g] d'[r] / d[r]`` tasks, from the resources that its x'[g] declared tasks of
demand d' take. Who gives rates instead of demands gets time, and runs its true rate in it.

No search proves that no lie pays: a verdict is "fails" or "unknown".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairlead.errors import CertificateError, RefusalError
from fairlead.model.arguments import whole_number
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.fitting import ROUNDING, tasks_on_one_server
from fairlead.model.holdings import Holdings
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.properties.feasibility import check_feasibility
from fairlead.properties.subject import Subject, at_least_whole
from fairlead.properties.wording import counted, of_tasks, say_change, say_percent
from fairlead.solvers.hill_climbing import climb

NAME = "strategy-proofness"
# A gain of less than this, relative, may be what a certified answer misses.
TOLERANCE = 1e-5
# After this many lies that gain no more than the best one near them, start anew.
PATIENCE = 15
# Of lies that seem to pay, at most this many are looked at exactly.
CONFIRMED = 30
# This part of the lies are plain ones, of all users: they need no luck, and climbs start from them.
OPENINGS = 0.5
# Amounts are said to be down to this part of what they are, or of what a server has.
SMALLEST = 1e-3
# Rates have no server to fill: they are said to be up to this many times larger or smaller.
OTHER_RATES = 10.0
# On how many groups alone a user says that it may run, where there are more.
ONLY = 4
# Lies that are small changes of a better one: by such factors (standard deviations of logarithms).
STEPS = (0.02, 0.1, 0.4)


@dataclass(frozen=True, eq=False)
class Lie:
    """What a user declares instead of the truth, and what that brings."""

    user: int  # who lies
    demand: FloatArray  # (R,): the declared amounts per task
    eligible: BoolArray  # (G,): the groups on which it declares that it may run
    rates: FloatArray | None  # (G,): the declared rates, of a user that gives them
    # Its true tasks when it tells the truth, and with what it gets for the lie.
    honest: float = 0.0
    gained: float = 0.0
    # The gain relative to the honest tasks, or to a thousandth of what it could run alone if that
    # is more; minus infinity where the lie could not be told.
    height: float = -np.inf


def search_lies(
    subject: Subject,
    lies: int,
    seed: int = 0,
    *,
    user: int | None = None,
    whole_server: bool = False,
    first: Lie | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[Verdict, Lie | None]:
    """Search for a lie that pays: plain ones first, then small changes to the best, and restarts.

    Parameters
    ----------
    lies : int
        How many lies to try; 0 for none.
    seed : int
        The same seed tries the same lies.
    user : int, optional
        Who lies; anybody, drawn for each restart, when absent.
    whole_server : bool
        Under TDM, whether a liar may use all that a server has during its time, instead of the
        resources only that its declared tasks take, as Khamse-Ashari et al. count it.
    first : Lie, optional
        One to begin with.
    on_progress : callable, optional
        Called with the lies that were tried and all there will be.

    Returns
    -------
    verdict : Verdict
        "fails" with the user, its lie, and its true tasks with and without.
    lie : Lie or None
        The lie that pays; None when none was found.

    Raises
    ------
    InputError
        When the number of lies or the seed is negative.

    Notes
    -----
    A run of the mechanism for each lie.
    """
    lies, seed = whole_number(lies, "lies"), whole_number(seed, "seed")
    if subject.divide is None:
        why = "an allocation does not say what a lie would have brought; ask of a mechanism"
        return Verdict(NAME, "unknown", sentence=f"not decided: {why}"), None
    if lies == 0:
        return Verdict(NAME, "unknown", sentence="not searched"), None
    search = _Search(subject, np.random.default_rng(seed), user, whole_server, first)
    best = climb(
        search.draw,
        lambda lie: lie.height,
        lies,
        PATIENCE,
        on_progress,
        openings=search.openings(lies),
    )
    best = search.confirmed(best)
    if search.answered == 0:
        why = f"{counted(lies, 'lie')} told, and none of them answered{search.say_impossible()}"
        return Verdict(NAME, "unknown", sentence=f"not decided: {why}"), None
    if best.height <= TOLERANCE:
        told = counted(lies, "lie")
        sentence = f"none of {told} about demands{search.and_servers} pays{search.say_impossible()}"
        return Verdict(NAME, "unknown", {}, lies, told, sentence), None
    return _fails(subject, best, lies), best


def tell(problem: Problem, lie: Lie) -> Problem:
    """Return the problem as it looks when one user lies."""
    users = problem.users
    demand, eligible, rates = users.demand.copy(), users.eligible.copy(), users.rates
    demand[lie.user], eligible[lie.user] = lie.demand, lie.eligible
    if rates is not None and lie.rates is not None:
        rates = rates.copy()
        rates[lie.user] = lie.rates
    return Problem(problem.cluster, replace(users, demand=demand, eligible=eligible, rates=rates))


def usable_tasks(
    truth: Problem,
    told: Problem,
    user: int,
    tasks: FloatArray,
    *,
    by_time: bool = False,
    whole_tasks: bool = False,
) -> float:
    """Return the true tasks that a liar can run with the declared ones that it got, (G,); O(G R).

    Both problems are pooled where the mechanism pools. `by_time` lets it use all that a server has
    in its time; with `whole_tasks` only whole tasks count, each on one server.
    """
    runs = truth.runnable[user] & told.runnable[user] & (tasks > 0)
    if by_time:
        could = tasks[runs] / told.gamma[user, runs] * truth.gamma[user, runs]
    else:
        asks = truth.demand[user] > 0
        worth = float((told.demand[user, asks] / truth.demand[user, asks]).min())
        could = tasks[runs] * worth
    if whole_tasks:
        could = at_least_whole(could, tasks[runs], truth.count[runs])
    return min(float(could.sum()), float(truth.task_limit[user]))


class _Search:
    """Draws lies and sees what they bring."""

    def __init__(
        self,
        subject: Subject,
        random: np.random.Generator,
        user: int | None,
        whole_server: bool,
        first: Lie | None,
    ) -> None:
        self.first = first
        self.answered = 0
        self.impossible: list[str] = []
        self.promising: list[Lie] = []
        self.on_one_server = tasks_on_one_server(subject.given)
        self.fits = self.on_one_server >= 1 - ROUNDING
        self.subject = subject
        self.random = random
        self.user = user
        self.problem = subject.given
        self.by_time = subject.time_shared and whole_server
        self.places = subject.knows_constraints and self.problem.n_groups > 1
        self.and_servers = " and servers" if self.places else ""
        self.alone = np.minimum(subject.problem.gamma.sum(axis=1), subject.problem.task_limit)

    def openings(self, lies: int) -> Iterator[Lie]:
        """Try plain lies in random order; the first lie alone, if one was given."""
        if self.first is not None:
            yield self._seen(self.first)
            return
        users = range(self.problem.n_users) if self.user is None else [self.user]
        kinds = 2 + self.problem.n_resources
        if self.places:
            kinds += min(self.problem.n_groups, ONLY)
        n_openings = min(int(OPENINGS * lies), len(users) * kinds)
        for k in self.random.choice(len(users) * kinds, n_openings, replace=False).tolist():
            yield self._seen(self._plain(users[k // kinds], k % kinds))

    def draw(self, best: Lie | None) -> Lie:
        """Draw a lie and try it: anywhere, or near the best one."""
        if best is None:
            user = self.user
            if user is None:
                user = int(self.random.integers(self.problem.n_users))
            lie = self._anywhere(user)
        else:
            lie = self._near(best)
        return self._seen(lie)

    def _seen(self, lie: Lie) -> Lie:
        """Try a lie, and keep in mind whether it seems to pay."""
        tried = self._tried(lie)
        if tried.height > TOLERANCE:
            self.promising.append(tried)
        return tried

    def _truth(self, user: int) -> Lie:
        users = self.problem.users
        rates = users.rates[user] if users.rates is not None else None
        rates = None if rates is None or np.isnan(rates).any() else rates
        return Lie(user, users.demand[user], users.eligible[user], rates)

    def _plain(self, user: int, kind: int) -> Lie:
        """Return a lie as large as lies are.

        Tasks that fill a server, tasks that take next to nothing, all that a server has of each
        resource in turn, or each group as the only one where it may run.
        """
        truth, random = self._truth(user), self.random
        resource, group = kind - 2, kind - 2 - self.problem.n_resources
        if group >= 0:
            if self.problem.n_groups > ONLY:
                group = int(random.integers(self.problem.n_groups))
            return replace(truth, eligible=np.arange(self.problem.n_groups) == group)
        if truth.rates is not None:
            some = (random.random(len(truth.rates)) < 0.5) | (resource < 0)
            factor = OTHER_RATES if kind % 2 else 1 / OTHER_RATES
            return replace(truth, rates=np.where(some, factor, 1.0) * truth.rates)
        if resource < 0:
            factor = (max(float(self.on_one_server[user]), 1.0), SMALLEST)[kind]
            return replace(truth, demand=truth.demand * factor)
        return self._asking(truth, resource, self._most(user, resource))

    def _most(self, user: int, r: int) -> float:
        """Return the most that a user may ask for of a resource: what a server has of it."""
        runs = self.problem.runnable[user]
        return float(self.problem.cluster.capacity[runs, r].max(initial=0.0))

    @staticmethod
    def _asking(truth: Lie, r: int, amount: float) -> Lie:
        demand = truth.demand.copy()
        demand[r] = amount
        return replace(truth, demand=demand)

    def _anywhere(self, user: int) -> Lie:
        """Draw a lie about one resource, about all amounts, or about servers."""
        truth, random = self._truth(user), self.random
        if self.places and random.random() < 0.4:
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
            # Most lies that pay ask for more of one resource than the tasks need.
            r = int(random.integers(self.problem.n_resources))
            most = self._most(user, r)
            least = max(float(truth.demand[r]), SMALLEST * most)
            if least < most:
                amount = float(np.exp(random.uniform(np.log(least), np.log(most))))
                return self._asking(truth, r, amount)
        factor = np.exp(random.normal(0.0, random.choice(STEPS), self.problem.n_resources))
        return replace(truth, demand=truth.demand * factor)

    def _near(self, best: Lie) -> Lie:
        random = self.random
        eligible = best.eligible
        if self.places and random.random() < 0.25:
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

    def confirmed(self, best: Lie) -> Lie:
        """Return the best lie that pays exactly, where lies were tried in haste.

        What pays most is often on the edge of a tie, where a hair decides who gets what.
        """
        if self.subject.divide_near is None:
            return best
        promising = sorted(self.promising, key=lambda lie: -lie.height)
        step = max(1, len(promising) // CONFIRMED)
        for lie in promising[::step]:
            exact = self._tried(lie, exactly=True)
            if exact.height > TOLERANCE:
                return exact
        return replace(best, height=0.0)

    def _tried(self, lie: Lie, *, exactly: bool = False) -> Lie:
        """Return the lie with what it brings."""
        lie = self._fitting(lie)
        told = tell(self.problem, lie)
        if not told.runnable[lie.user].any():
            return replace(lie, height=-np.inf)
        try:
            got = self._divided(told, exactly)
        except (CertificateError, RefusalError):
            return replace(lie, height=-np.inf)
        if not np.isfinite(got.tasks[lie.user]).all():
            return replace(lie, height=-np.inf)
        if not self.subject.certified:
            answer = check_feasibility(replace(self.subject, holdings=got, given=told))
            if answer.verdict == "fails":
                self.impossible.append(answer.sentence)
                return replace(lie, height=-np.inf)
        truth = self.subject.problem
        by_time = self.by_time or lie.rates is not None
        gained = usable_tasks(
            truth,
            got.problem,
            lie.user,
            got.tasks[lie.user],
            by_time=by_time,
            whole_tasks=got.whole_tasks,
        )
        self.answered += 1
        honest = float(self.subject.holdings.user_tasks[lie.user])
        height = (gained - honest) / max(honest, 1e-3 * float(self.alone[lie.user]))
        return replace(lie, honest=honest, gained=gained, height=height)

    def say_impossible(self) -> str:
        """Describe lies that got an infeasible answer."""
        if not self.impossible:
            return ""
        times, first = len(self.impossible), self.impossible[0]
        were = "was" if times == 1 else "were"
        return f"; {times:,} {were} answered with what is infeasible (the first: {first})"

    def _fitting(self, lie: Lie) -> Lie:
        """Return the lie with tasks that fit on a server, since no system takes others."""
        asks = lie.demand > 0
        if lie.rates is not None or not self.fits[lie.user] or not asks.any():
            return lie
        capacity = self.problem.cluster.capacity[lie.eligible][:, asks]
        fitting = float((capacity / lie.demand[asks]).min(axis=1).max(initial=0.0))
        return replace(lie, demand=lie.demand * fitting) if 0 < fitting < 1 else lie

    def _divided(self, told: Problem, exactly: bool) -> Holdings:
        near, divide = self.subject.divide_near, self.subject.divide
        if near is not None and not exactly:
            close = near(told, self.subject.tasks)
            return Holdings(close.problem, close.tasks)
        assert divide is not None
        return divide(told)


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
    tales = []
    if lie.rates is not None:
        witness["rates"] = dict(zip(groups, lie.rates.tolist(), strict=True))
        true_rates = problem.users.rates
        if true_rates is not None and (lie.rates != true_rates[lie.user]).any():
            tales.append("rates")
    elif (lie.demand != problem.demand[lie.user]).any():
        amounts = zip(resources, lie.demand, problem.demand[lie.user], strict=True)
        told = [f"{r} {' for '.join(say_change(a, b))}" for r, a, b in amounts if a != b]
        tales.append(f"demands ({', '.join(told)})")
    changed = lie.eligible != problem.users.eligible[lie.user]
    if changed.any():
        witness["servers"] = [groups[g] for g in np.flatnonzero(lie.eligible)]
        tales.append("servers")
    less, more = say_change(lie.honest, lie.gained)
    gain = f" {say_percent(lie.gained / lie.honest - 1)}" if lie.honest > 0 else ""
    sentence = (
        f"{user} gains{gain} by lying about its {' and '.join(tales)}: {of_tasks(more)} "
        f"instead of {less}"
    )
    severity = lie.gained / lie.honest - 1.0 if lie.honest > 0 else np.inf
    return Verdict(NAME, "fails", witness, lies, sentence=sentence, severity=severity)
