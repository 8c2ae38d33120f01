"""Audit an allocation, a mechanism or a function: every property, with witnesses."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, overload

import numpy as np

from fairlead.errors import InputError
from fairlead.mechanisms.catalogue import solve
from fairlead.model.allocation import FORMAT_VERSION, Allocation
from fairlead.model.arguments import text, whole_number
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.holdings import Holdings, IdleUser
from fairlead.model.notebooks import Plottable
from fairlead.model.problem import Problem, check_problem
from fairlead.model.queues import Limits, read_limits
from fairlead.model.quotas import Quotas, check_cluster, check_quotas, read_quotas
from fairlead.model.reductions import active_part
from fairlead.model.verdict import Verdict
from fairlead.properties import (
    efficiency,
    envy,
    feasibility,
    population,
    queue_guarantees,
    sharing,
    special_cases,
)
from fairlead.properties import lies as lie_search
from fairlead.properties.envy import Envy
from fairlead.properties.lies import Lie
from fairlead.properties.subject import Answer, Rule, Subject, active_subject, subject_of

LIES = 200
MOST_TRIALS = 10**9  # of lies or departures
NOTHING_DUE = {"slice": 0.0, "margin": None}
ZERO_WEIGHTS = "the holdings of users of weight 0 count as free"

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Property:
    """A property that an audit checks."""

    cases: str = ""  # singular noun of the cases that its verdict counts; empty for none
    check: Callable[[Subject], Verdict] | None = None  # None: the check needs more arguments


# In the order of reports.
AUDITED = {
    feasibility.NAME: Property(),
    efficiency.WASTE: Property("waiting task", efficiency.check_non_wastefulness),
    sharing.NAME: Property("user", sharing.check_sharing_incentive),
    envy.NAME: Property("pair"),
    efficiency.PARETO: Property("", efficiency.check_pareto_optimality),
    lie_search.NAME: Property("lie"),
    special_cases.BOTTLENECK: Property("user", special_cases.check_bottleneck_fairness),
    special_cases.SINGLE_RESOURCE: Property("user", special_cases.check_single_resource_fairness),
    population.NAME: Property("departure"),
    special_cases.SINGLE_SERVER: Property("user", special_cases.check_single_server_drf),
    queue_guarantees.SHARES: Property("queue", queue_guarantees.check_queue_shares),
    queue_guarantees.QUOTAS: Property("quota", queue_guarantees.check_queue_quotas),
}
PROPERTIES = tuple(AUDITED)


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Sequence[Verdict], Plottable):
    """The verdicts of an audit, by position or by name of the property.

    `to_frame` has a row for each property; `plot` draws held and due shares.
    """

    frames = ("properties",)

    subject: Subject  # without users that are due nothing and groups without a server
    whole: Subject  # with them
    verdicts: tuple[Verdict, ...]  # one for each checked property
    slices: FloatArray  # (N,): tasks that each user could run with its slice of every server
    envy: Envy
    fair: Allocation | None = None  # the allocation of the mechanism `fair`, for comparison
    lie: Lie | None = None  # the lie that pays, if one was found

    @cached_property
    def due_nothing(self) -> tuple[str, ...]:
        """Names of users without tasks or of weight 0."""
        given = self.whole.given
        return tuple(given.users.names[n] for n in np.flatnonzero(given.due_nothing))

    @property
    def holds(self) -> bool:
        """Whether no property fails."""
        return all(verdict.verdict != "fails" for verdict in self.verdicts)

    @cached_property
    def waiting(self) -> list[int]:
        """Waiting tasks of each user."""
        counts: list[int] = self.subject.holdings.waiting_per_user.tolist()
        return counts

    @cached_property
    def envious(self) -> BoolArray:
        """(N,) bool: users whose envy is more than rounding."""
        return envy.envious_users(self.subject, self.envy)

    def __repr__(self) -> str:
        """Return the verdicts, one line each."""
        lines = (f"  {v.name}: {v.verdict}: {v.sentence}" for v in self.verdicts)
        return "\n".join((f"Audit of {self.subject.name}:", *lines))

    def _columns(self, what: str) -> Mapping[str, Any]:  # noqa: ARG002 (there is one table)
        rows = self.verdicts
        return {
            "property": [row.name for row in rows],
            "verdict": [row.verdict for row in rows],
            "applies": [row.applies for row in rows],
            "searched": [row.searched for row in rows],
            "sentence": [row.sentence for row in rows],
        }

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
        values["users"] = self._user_rows()
        values["users"] += [
            _idle_row(user, self.subject.problem) | self._fair_row(None) for user in holdings.idle
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

    def _user_rows(self) -> list[dict[str, Any]]:
        rows = map(self._user_row, range(self.subject.problem.n_users))
        return [
            _held_row(self.whole.holdings, n) | NOTHING_DUE | self._fair_row(None)
            if nothing
            else next(rows)
            for n, nothing in enumerate(self.whole.given.due_nothing)
        ]

    def _user_row(self, n: int) -> dict[str, Any]:
        holdings, sliced = self.subject.holdings, float(self.slices[n])
        row = _held_row(holdings, n)
        if waiting := self.waiting[n]:
            row["waiting"] = waiting
        margin = _finite(float(holdings.user_tasks[n]) / sliced - 1.0) if sliced > 0 else None
        row |= {"slice": sliced, "margin": margin} | self._fair_row(n)
        if self.envious[n]:
            row["envies"] = holdings.problem.users.names[int(self.envy.envied[n])]
            row["envied_tasks"] = float(self.envy.could[n])
        return row

    def _fair_row(self, n: int | None) -> dict[str, float]:
        """Return user `n`'s tasks under the mechanism `fair`, if any; None: a user due nothing."""
        if self.fair is None:
            return {}
        tasks = share = 0.0
        if n is not None:
            tasks, share = float(self.fair.user_tasks[n]), float(self.fair.dominant_share[n])
        return {"fair_tasks": tasks, "fair_dominant_share": share}


def audit(
    problem: Problem,
    subject: str | Answer | Rule,
    *,
    fair: str | None = None,
    properties: Collection[str] | None = None,
    quotas: Quotas | None = None,
    limits: Limits | None = None,
    lies: int = LIES,
    departures: int = population.DEPARTURES,
    seed: int = 0,
    name: str | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> Audit:
    """Check fairness properties; each property that fails has a witness.

    Parameters
    ----------
    problem : Problem
    subject : str, Allocation, Holdings, a filling, (N, G) array or frame, or callable
        A mechanism's name, an allocation, or a function from a problem to tasks or an allocation.
        Frames of tasks (pandas or polars) are arranged by their labels: a column for each group,
        and users by the index or the only column of text.
    fair : str, optional
        Mechanism of the fair shares for comparison, by default none.
    properties : collection of str, optional
        Names of the properties to check, by default all.
    quotas : mapping, optional
        Guaranteed amounts of queues or users: ``{"ana": [{"gpu": 4}]}``, as `load_queues` reads.
    limits : mapping, optional
        Largest amounts of queues or users, ``{"ana": {"gpu": 4, "tasks": 2}}``. A queue at its
        limit is not short of its quota.
    lies : int
        Number of lies to try in the search for one that pays.
    departures : int
        Largest number of departures to try; in each one user leaves.
    seed : int
        The same seed tries the same lies and departures.
    name : str, optional
        Name of the subject, by default that of the mechanism, function or allocation.
    on_progress : callable, optional
        Called with the name of a search, the number of cases done, and their total.
    **options
        Options of the audited mechanism, such as ``alpha``. If an allocation or function is
        audited, options of the mechanism `fair`.

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

    Examples
    --------
    >>> import fairlead
    >>> problem = fairlead.Problem.from_arrays([[9, 18]], [[1, 4], [3, 1]], users=["ana", "bo"])
    >>> verdicts = fairlead.audit(problem, [[4], [1]], properties=["envy-freeness"])
    >>> verdicts["envy-freeness"].verdict
    'fails'
    >>> witness = verdicts["envy-freeness"].witness
    >>> witness["user"], witness["envies"], witness["tasks"], witness["could"]
    ('bo', 'ana', 1.0, 1.3333333333333333)
    """
    check_problem(problem)
    wanted = check_properties(properties)
    guaranteed = read_quotas(quotas or {})
    parents = problem.users.parents()
    bounded = read_limits(limits or {})
    check_quotas(guaranteed, parents, bounded)
    check_cluster(guaranteed, parents, problem.cluster)
    for what, number in (("lies", lies), ("departures", departures)):
        whole_number(number, what, most=MOST_TRIALS)
    whole_number(seed, "seed")
    if name is not None:
        name = text(name, "name")
    are_for_fair = fair is not None and not isinstance(subject, str)
    subject_options, fair_options = ({}, options) if are_for_fair else (options, {})
    audited = subject_of(problem, subject, **subject_options)
    audited = replace(audited, quotas=guaranteed, limits=bounded)
    if name is not None:
        audited = replace(audited, name=name)
    return audit_subject(
        audited,
        fair=None if fair is None else solve(audited.problem, fair, **fair_options),
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
    """Audit a subject that `subject_of` returned; for the arguments see `audit`."""
    whole = subject
    subject, others_hold_nothing = active_subject(whole)
    if fair is not None:
        part, users, groups = active_part(fair.problem)
        fair = replace(fair, problem=part, tasks=fair.tasks[np.ix_(users, groups)])
    amounts = subject.holdings.amounts
    finite = bool(np.isfinite(subject.tasks).all())
    finite = finite and (amounts is None or bool(np.isfinite(amounts).all()))
    incomplete = whole.holdings.incomplete
    undecided = "" if finite else "a number of tasks or an amount is not finite"
    if not others_hold_nothing:
        undecided = "a user without tasks, or a group without servers, holds something"
    measured = envy.measure_envy_of(subject) if finite else _no_envy(subject)
    lie: Lie | None = None

    def progress_of(search: str) -> Callable[[int, int], None] | None:
        return None if on_progress is None else partial(on_progress, search)

    def check(name: str) -> Verdict:
        nonlocal lie
        if name == feasibility.NAME:
            verdict = feasibility.check_feasibility(whole)
            # An overused server stays overused even if the skipped rows hold nothing.
            if verdict.verdict == "fails" or not incomplete:
                return verdict
        if incomplete:
            return Verdict.undecided(name, incomplete)
        if undecided:
            return Verdict.undecided(name, undecided)
        if name == envy.NAME:
            return envy.check_envy_freeness(subject, measured)
        if name == lie_search.NAME:
            report = progress_of("lies")
            verdict, lie = lie_search.search_lies(subject, lies, seed, on_progress=report)
            return verdict
        if name == population.NAME:
            report = progress_of("departures")
            return population.check_population_monotonicity(subject, departures, seed, report)
        plain_check = AUDITED[name].check
        assert plain_check is not None
        verdict = plain_check(subject)
        is_about_free_capacity = name in (efficiency.WASTE, efficiency.PARETO)
        if is_about_free_capacity and subject.zero_weights_hold and verdict.verdict == "fails":
            verdict = replace(verdict, sentence=f"{verdict.sentence}; {ZERO_WEIGHTS}")
        return verdict

    found = tuple(check(name) for name in PROPERTIES if name in properties)
    slices = sharing.measure_slices(subject.problem)
    return Audit(subject, whole, found, slices, measured, fair, lie)


def check_properties(properties: Collection[str] | None) -> tuple[str, ...]:
    """Return the properties to check, all for None; raise InputError for an unknown property."""
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


def _held_row(holdings: Holdings, n: int) -> dict[str, Any]:
    """Return the row of a user's holdings."""
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


def _idle_row(user: IdleUser, problem: Problem) -> dict[str, Any]:
    """Return the row of a user outside of the problem, which is due nothing."""
    row: dict[str, Any] = {"name": user.name, "weight": user.weight, "tasks": 0.0}
    total = dict(zip(problem.cluster.resources, problem.total_capacity.tolist(), strict=True))
    shares = [amount / total[name] for name, amount in user.holds.items() if total[name] > 0]
    row |= {"dominant_share": max(shares, default=0.0), "holds": dict(user.holds)}
    return row | NOTHING_DUE | {"idle": user.why}


def _finite(number: float) -> float | None:
    return number if np.isfinite(number) else None
