"""Audit an allocation, a mechanism or a rule of one's own: every property, with witnesses."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np

from fairlead.errors import InputError
from fairlead.mechanisms.catalogue import solve
from fairlead.model.allocation import FORMAT_VERSION, Allocation
from fairlead.model.arguments import text, whole_number
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.holdings import Holdings, IdleUser
from fairlead.model.problem import Problem, check_problem
from fairlead.model.reductions import active_part
from fairlead.model.verdict import Verdict
from fairlead.properties import (
    bottleneck,
    envy,
    feasibility,
    pareto,
    population,
    sharing,
    single_server,
    waste,
)
from fairlead.properties import lies as lying
from fairlead.properties.envy import Envy
from fairlead.properties.lies import Lie
from fairlead.properties.subject import Answer, Rule, Subject, subject_of, working_subject

LIES = 200
NOTHING_DUE = {"slice": 0.0, "margin": None}
SET_ASIDE = "what users of weight 0 hold counts as free"

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Search:
    """What checks are given beside what is audited."""

    subject: Subject
    seen: Envy
    tries: int
    departures: int
    seed: int
    on_progress: OnProgress | None

    def progress(self, what: str) -> Callable[[int, int], None] | None:
        """Return what a search calls to tell how far it is, or None."""
        tell = self.on_progress
        return None if tell is None else lambda done, total: tell(what, done, total)


@dataclass(frozen=True)
class Property:
    """A property that is audited."""

    name: str
    # Returns the verdict, and the lie that pays if that is what was looked for.
    check: Callable[[Search], tuple[Verdict, Lie | None]]
    looked_at: str = ""  # what its verdict counts, in the singular; empty where it counts nothing


def _plain(check: Callable[[Subject], Verdict]) -> Callable[[Search], tuple[Verdict, None]]:
    """Return a check that needs no more than what is audited."""
    return lambda search: (check(search.subject), None)


def _lies(search: Search) -> tuple[Verdict, Lie | None]:
    report = search.progress("lies")
    return lying.search_lies(search.subject, search.tries, search.seed, on_progress=report)


def _departures(search: Search) -> tuple[Verdict, None]:
    report = search.progress("departures")
    return population.check_population_monotonicity(
        search.subject, search.departures, search.seed, report
    ), None


# In the order in which they are shown.
AUDITED = {
    row.name: row
    for row in (
        Property(feasibility.NAME, _plain(feasibility.check_feasibility)),
        Property(waste.NAME, _plain(waste.check_non_wastefulness), "waiting task"),
        Property(sharing.NAME, _plain(sharing.check_sharing_incentive), "user"),
        Property(
            envy.NAME,
            lambda search: (envy.check_envy_freeness(search.subject, search.seen), None),
            "pair",
        ),
        Property(pareto.NAME, _plain(pareto.check_pareto_optimality)),
        Property(lying.NAME, _lies, "lie"),
        Property(bottleneck.BOTTLENECK, _plain(bottleneck.check_bottleneck_fairness), "user"),
        Property(
            bottleneck.SINGLE_RESOURCE, _plain(bottleneck.check_single_resource_fairness), "user"
        ),
        Property(population.NAME, _departures, "departure"),
        Property(single_server.NAME, _plain(single_server.check_single_server_drf), "user"),
    )
}
PROPERTIES = tuple(AUDITED)


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Sequence[Verdict]):
    """What an audit found: its verdicts, by position or by name of the property.

    Attributes
    ----------
    subject : Subject
        What was audited.
    verdicts : tuple of Verdict
        One for each property that was asked for.
    slices : (N,) float
        The tasks that each user could run with the uniform slice of every server.
    envy : Envy
        Which other each user envies, and by how much.
    fair : Allocation or None
        What a mechanism would give, beside which the holdings are shown.
    lie : Lie or None
        The lie that pays, if one was found.
    whole : Subject
        With users that are due nothing and groups without a server; `subject` is without them.
    """

    subject: Subject
    whole: Subject
    verdicts: tuple[Verdict, ...]
    slices: FloatArray
    envy: Envy
    fair: Allocation | None = None
    lie: Lie | None = None

    @cached_property
    def due_nothing(self) -> tuple[str, ...]:
        """Names of the users without tasks or of weight 0."""
        given = self.whole.given
        return tuple(given.users.names[n] for n in np.flatnonzero(given.due_nothing))

    @property
    def holds(self) -> bool:
        """Whether no property fails."""
        return all(verdict.verdict != "fails" for verdict in self.verdicts)

    @cached_property
    def waiting(self) -> list[int]:
        """Per user, how many tasks are known to wait."""
        counts: list[int] = self.subject.holdings.waiting_per_user.tolist()
        return counts

    @cached_property
    def envious(self) -> BoolArray:
        """(N,) bool: who envies somebody, by more than rounding."""
        return envy.who_envies(self.subject, self.envy)

    def __repr__(self) -> str:
        """Return the verdicts, one line each."""
        lines = (f"  {v.name}: {v.verdict}: {v.sentence}" for v in self.verdicts)
        return "\n".join((f"Audit of {self.subject.name}:", *lines))

    def __len__(self) -> int:
        return len(self.verdicts)

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    @overload
    def __getitem__(self, key: int | str) -> Verdict: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[Verdict, ...]: ...

    def __getitem__(self, key: int | str | slice) -> Verdict | tuple[Verdict, ...]:
        if isinstance(key, str):
            for verdict in self.verdicts:
                if verdict.name == key:
                    return verdict
            raise KeyError(key)
        return self.verdicts[key]

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as plain values, in the documented JSON layout."""
        values: dict[str, Any] = {"fairlead": FORMAT_VERSION, "audited": self.subject.name}
        source = self.subject.holdings.source
        if source and source != self.subject.name:
            values["made_by"] = source
        if self.fair is not None:
            values["fair_by"] = self.fair.mechanism
        values["properties"] = [verdict.to_dict() for verdict in self.verdicts]
        holdings = self.subject.holdings
        values["users"] = self._users()
        values["users"] += [
            _idle(user, self.subject.problem) | self._fair_row(None) for user in holdings.idle
        ]
        if holdings.unrunnable:
            values["unrunnable"] = [
                {"task": task.name, "user": task.user, "why": task.why}
                for task in holdings.unrunnable
            ]
        undecided = [task for task in holdings.waiting if task.undecided]
        if undecided:
            names = self.subject.problem.users.names
            values["undecided"] = [
                {"task": task.name, "user": names[task.user], "why": task.undecided}
                for task in undecided
            ]
        if holdings.not_modelled:
            values["not_modelled"] = list(holdings.not_modelled)
        if holdings.skipped:
            values["skipped"] = list(holdings.skipped)
        return values

    def to_json(self, indent: int | None = 2) -> str:
        """Return the audit as a JSON text in the documented layout."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def _users(self) -> list[dict[str, Any]]:
        due = map(self._user, range(self.subject.problem.n_users))
        return [
            _held(self.whole.holdings, n) | NOTHING_DUE | self._fair_row(None)
            if nothing
            else next(due)
            for n, nothing in enumerate(self.whole.given.due_nothing)
        ]

    def _user(self, n: int) -> dict[str, Any]:
        holdings, sliced = self.subject.holdings, float(self.slices[n])
        row = _held(holdings, n)
        if waiting := self.waiting[n]:
            row["waiting"] = waiting
        margin = _finite(float(holdings.user_tasks[n]) / sliced - 1.0) if sliced > 0 else None
        row |= {"slice": sliced, "margin": margin} | self._fair_row(n)
        if self.envious[n]:
            row["envies"] = holdings.problem.users.names[int(self.envy.envied[n])]
            row["envied_tasks"] = float(self.envy.could[n])
        return row

    def _fair_row(self, n: int | None) -> dict[str, float]:
        """Return what a user would have under the mechanism, if any; None is due nothing."""
        if self.fair is None:
            return {}
        tasks, share = (0.0, 0.0)
        if n is not None:
            tasks, share = float(self.fair.user_tasks[n]), float(self.fair.dominant_share[n])
        return {"fair_tasks": tasks, "fair_dominant_share": share}


def audit(
    problem: Problem,
    subject: str | Answer | Rule,
    *,
    fair: str | None = None,
    properties: Collection[str] | None = None,
    lies: int = LIES,
    departures: int = population.DEPARTURES,
    seed: int = 0,
    name: str | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> Audit:
    """Check which fairness properties hold, each with a witness where it does not.

    Parameters
    ----------
    problem : Problem
    subject : str, Allocation, Holdings, a filling, (N, G) array or frame, or callable
        A mechanism's name, an allocation by whomever, or a function from a problem to tasks
        ((N, G) array) or an allocation. Frames of tasks, of pandas or polars, are laid out by
        their labels: a column for each group, and users by the index or the one column of text.
    fair : str, optional
        The mechanism whose shares stand beside what everybody holds; none when absent.
    properties : collection of str, optional
        Those to check, of `PROPERTIES`; all when absent.
    lies : int
        How many lies to try in search of one that pays.
    departures : int
        How many departures of a user to try at most.
    seed : int
        The same seed tries the same lies and departures.
    name : str, optional
        What to call what is audited; the mechanism's or function's name, or what the allocation
        says, when absent.
    on_progress : callable, optional
        Called with what is being done, how much of it is done, and how much there is.
    **options
        Of the mechanism that is audited, such as ``alpha``, else of the one whose shares are fair.

    Returns
    -------
    Audit
        A sequence of verdicts, also indexed by the property's name.

    Raises
    ------
    InputError
        For an unknown mechanism, property or option, or an allocation of another problem.
    RefusalError
        When the mechanism does not admit the problem.
    CertificateError
        When the mechanism finds no certified answer.

    Notes
    -----
    Envy costs O(N^2 G R), Pareto optimality a linear programme of N G unknowns, and each lie and
    each departure a run of the mechanism.
    """
    check_problem(problem)
    wanted = check_properties(properties)
    for what, number in (("lies", lies), ("departures", departures), ("seed", seed)):
        whole_number(number, what)
    if name is not None:
        name = text(name, "name")
    for_fair = fair is not None and not isinstance(subject, str)
    of_subject, of_fair = ({}, options) if for_fair else (options, {})
    audited = subject_of(problem, subject, **of_subject)
    if name is not None:
        audited = replace(audited, name=name)
    return audit_subject(
        audited,
        fair=None if fair is None else solve(audited.problem, fair, **of_fair),
        properties=wanted,
        lies=lies,
        departures=departures,
        seed=seed,
        on_progress=on_progress,
    )


def audit_subject(
    subject: Subject,
    *,
    fair: Allocation | None = None,
    properties: Collection[str] = PROPERTIES,
    lies: int = LIES,
    departures: int = population.DEPARTURES,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Audit:
    """Audit what `subject_of` returned; everything else as in `audit`."""
    whole = subject
    subject, is_all = working_subject(whole)
    if fair is not None:
        fair = _working_part_of(fair)
    amounts = subject.holdings.amounts
    finite = bool(np.isfinite(subject.tasks).all())
    finite = finite and (amounts is None or bool(np.isfinite(amounts).all()))
    undecided = "" if finite else "a number is missing"
    if not is_all:
        undecided = "a user without tasks, or a group without servers, holds something"
    seen = envy.measure_envy_of(subject) if finite else _no_envy(subject)
    found: list[Verdict] = []
    lie: Lie | None = None
    search = Search(subject, seen, lies, departures, seed, on_progress)
    for name, row in AUDITED.items():
        if name not in properties:
            continue
        if name == feasibility.NAME:
            found.append(feasibility.check_feasibility(whole))
            continue
        if undecided:
            found.append(Verdict(name, "unknown", sentence=f"not decided: {undecided}"))
            continue
        verdict, liar = row.check(search)
        if subject.sets_aside and verdict.verdict == "fails" and name in (waste.NAME, pareto.NAME):
            verdict = replace(verdict, sentence=f"{verdict.sentence}; {SET_ASIDE}")
        found.append(verdict)
        lie = liar or lie
    slices = sharing.slices_of(subject)
    return Audit(subject, whole, tuple(found), slices, seen, fair, lie)


def _working_part_of(fair: Allocation) -> Allocation:
    """Return an allocation without users that are due nothing and groups without a server."""
    part, users, groups = active_part(fair.problem)
    return replace(fair, problem=part, tasks=fair.tasks[np.ix_(users, groups)])


def check_properties(properties: Collection[str] | None) -> tuple[str, ...]:
    """Return the properties to check, all of them for None; raise InputError for an unknown one."""
    if properties is None:
        return PROPERTIES
    if isinstance(properties, str):
        properties = (properties,)
    if not isinstance(properties, Collection):
        raise InputError(f"must be names of properties, not {properties!r:.60}", "properties")
    for name in properties:
        if name not in PROPERTIES:
            raise InputError(
                f"no property is named {name!r}; known: {', '.join(PROPERTIES)}", "properties"
            )
    return tuple(properties)


def _no_envy(subject: Subject) -> Envy:
    n_users = subject.problem.n_users
    return Envy(np.zeros(n_users), np.arange(n_users), subject.holdings.user_tasks)


def _held(holdings: Holdings, n: int) -> dict[str, Any]:
    """Return what a user holds."""
    problem = holdings.problem
    return {
        "name": problem.users.names[n],
        "weight": float(problem.weight[n]),
        "tasks": _finite(float(holdings.user_tasks[n])),
        "dominant_share": _finite(float(holdings.dominant_share[n])),
        "holds": {
            resource: _finite(float(amount))
            for resource, amount in zip(
                problem.cluster.resources, holdings.user_amounts[n], strict=True
            )
            if amount != 0
        },
    }


def _idle(user: IdleUser, problem: Problem) -> dict[str, Any]:
    """Return the row of a user outside of the problem, to which nothing is due."""
    row: dict[str, Any] = {"name": user.name, "weight": user.weight, "tasks": 0.0}
    total = dict(zip(problem.cluster.resources, problem.total_capacity.tolist(), strict=True))
    shares = [amount / total[name] for name, amount in user.holds.items() if total[name] > 0]
    row |= {"dominant_share": max(shares, default=0.0), "holds": dict(user.holds)}
    return row | NOTHING_DUE | {"idle": user.why}


def _finite(number: float) -> float | None:
    return number if np.isfinite(number) else None
