"""Compare several mechanisms on one problem, or one mechanism on two problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fairlead.errors import CertificateError, FairleadError, InputError, ProblemError, RefusalError
from fairlead.formats.problem_file import document_of, problem_of
from fairlead.mechanisms.catalogue import CATALOGUE, COMPARED, all_mechanisms, find_mechanism, solve
from fairlead.model.allocation import Allocation
from fairlead.model.arguments import one_or_several
from fairlead.model.notebooks import Plottable, frame_of
from fairlead.model.problem import Problem, check_problem
from fairlead.model.problem_changes import format_servers


class Allocations(dict[str, Allocation], Plottable):
    """Allocations of one problem by mechanism.

    Attributes
    ----------
    refused : dict of str to str
        The reasons why mechanisms do not admit the problem.
    unproved : dict of str to CertificateError
        The error of each mechanism whose answer violated its condition.
    failed : dict of str to FairleadError
        The error of each user-defined mechanism that raised an exception or returned no allocation.
    """

    frames = ("users", "mechanisms")

    def __init__(self, answers: Mapping[str, Allocation]) -> None:
        super().__init__(answers)
        self.refused: dict[str, str] = {}
        self.unproved: dict[str, CertificateError] = {}
        self.failed: dict[str, FairleadError] = {}

    def __repr__(self) -> str:
        """Return a summary on one line."""
        missing = [f"{len(self.unproved)} not proved"] if self.unproved else []
        missing += [f"{len(self.failed)} failed"] if self.failed else []
        missing += [f"{len(self.refused)} refused"] if self.refused else []
        more = f" ({', '.join(missing)})" if missing else ""
        return f"<Allocations by {', '.join(self) or 'no mechanism'}{more}>"

    def _columns(self, what: str) -> Mapping[str, Any]:
        answers = list(self.values())
        if what == "users":
            users = answers[0].problem.users.names if answers else ()
            tasks = {name: answer.user_tasks for name, answer in self.items()}
            # A mechanism of the user's own may be named "user".
            return {"user" if "user" not in tasks else "user_": list(users)} | tasks
        resources = answers[0].problem.cluster.resources if answers else ()
        faults = {name: str(fault) for name, fault in (self.unproved | self.failed).items()}
        columns = {
            "tasks": [float(answer.tasks.sum()) for answer in answers],
            "least_share": [float(answer.dominant_share.min(initial=1.0)) for answer in answers],
            "violation": [answer.certificate.violation for answer in answers],
            **{f"used_{r}": [answer.utilization[r] for answer in answers] for r in resources},
        }
        nothing = [None] * len(faults)
        return {
            "mechanism": [*self, *faults],
            **{heading: [*values, *nothing] for heading, values in columns.items()},
            "fault": [*([None] * len(answers)), *faults.values()],
        }


def compare(
    problem: Problem, mechanisms: str | Sequence[str] | None = None, **options: Any
) -> Allocations:
    """Divide the cluster by several mechanisms.

    Parameters
    ----------
    problem : Problem
    mechanisms : str or sequence of str, optional
        One or several names from the catalogue, or of user-defined mechanisms. When absent: all
        mechanisms of this package for divisible tasks that admit the problem, without variants.
    **options
        Options of mechanisms, such as ``alpha``; each mechanism gets the options that it takes.

    Returns
    -------
    Allocations
        By mechanism, in the given order. ``refused`` has the mechanisms that do not admit the
        problem, ``unproved`` those without a certified answer, and ``failed`` the user-defined
        mechanisms that raised an exception.

    Raises
    ------
    InputError
        For an unknown mechanism, or an option that no compared mechanism takes.
    RefusalError
        When a mechanism in `mechanisms` does not admit the problem.

    Examples
    --------
    >>> import fairlead
    >>> problem = fairlead.Problem.from_arrays([[9, 18]], [[1, 4], [3, 1]])
    >>> found = fairlead.compare(problem, ["drf", "proportional"])
    >>> {name: allocation.user_tasks.round(3).tolist() for name, allocation in found.items()}
    {'drf': [3.0, 2.0], 'proportional': [4.091, 1.636]}
    """
    check_problem(problem)
    for given in mechanisms if isinstance(mechanisms, list | tuple) else ():
        if callable(given):
            find_mechanism(given)  # raises an InputError that shows how to name a function
    asked = None if mechanisms is None else one_or_several(mechanisms, "mechanisms")
    names = dict.fromkeys(COMPARED if asked is None else asked)
    rows = {name: find_mechanism(name) for name in names}
    for option in options:
        if not any(option in row.options for row in rows.values()):
            raise InputError("none of these mechanisms takes it", option)
    found = Allocations({})
    for name, row in rows.items():
        taken = {option: value for option, value in options.items() if option in row.options}
        try:
            found[name] = solve(problem, name, **taken)
        except RefusalError as refusal:
            if asked is not None:
                raise
            found.refused[name] = refusal.reason
        except CertificateError as failure:
            found.unproved[name] = failure
        except FairleadError as fault:
            if name in CATALOGUE:
                raise
            found.failed[name] = fault
    return found


def catalogue_frame() -> Any:
    """Return the mechanisms as a frame of names, summaries, papers and proved properties.

    >>> import fairlead
    >>> "ps-dsf" in fairlead.mechanisms()["name"]
    True
    """
    rows = all_mechanisms()
    return frame_of(
        {
            "name": [row.name for row in rows],
            "summary": [row.summary for row in rows],
            "paper": [row.paper for row in rows],
            "proved": [[claim.property for claim in row.proved] for row in rows],
            "accepts": [list(row.accepts) for row in rows],
            "whole_tasks": [row.whole_tasks for row in rows],
        }
    )


MAX_EFFECTS = 12  # with more differences, no effects are computed: each needs a solution
TABLES = ("servers", "queues", "users")  # of a problem file
UNCHANGED = 1e-6  # relative changes up to this are rounding

Row = dict[str, Any]  # of a problem file
Weight = float | dict[str, float]  # for all resources, or by resource


@dataclass(frozen=True)
class ProblemDifference:
    """A difference of two problems in one row of their files."""

    table: str  # "servers", "queues" or "users"
    name: str
    text: str  # the difference in words
    in_demand: bool = False  # whether a user's demand differs


class TwoProblems:
    """Two problems whose groups, queues and users are compared by name.

    Raises ProblemError when a resource has different units in them.
    """

    def __init__(self, before: Problem, after: Problem) -> None:
        self._units = dict(zip(before.cluster.resources, before.cluster.units, strict=True))
        for resource, unit in zip(after.cluster.resources, after.cluster.units, strict=True):
            if self._units.setdefault(resource, unit) != unit:
                both = f"{self._units[resource] or 'none'} and {unit or 'none'}"
                raise ProblemError(f"the problems have the units {both}", f"resources.{resource}")
        self._before, self._after = _rows_by_name(before), _rows_by_name(after)

    def differences(self) -> list[ProblemDifference]:
        """Return all differences of groups, then of queues and of users, in the order of names."""
        found = []
        for table, old in self._before.items():
            new = self._after[table]
            for name in dict.fromkeys([*old, *new]):
                rows = old.get(name), new.get(name)
                text = _describe_change(table, name, *rows)
                if text:
                    demands = [row.get("demand", {}) for row in rows if row is not None]
                    in_demand = len(demands) == 2 and bool(_describe_amounts("", *demands))
                    found.append(ProblemDifference(table, name, text, in_demand))
        return found

    def with_one(self, difference: ProblemDifference) -> Problem:
        """Return the first problem with one group or user as in the second one.

        Neither problem may have queues. Raises InputError if the result is no valid problem file.
        """
        tables = {table: dict(rows) for table, rows in self._before.items()}
        rows, name = tables[difference.table], difference.name
        if name in self._after[difference.table]:
            rows[name] = self._after[difference.table][name]
        else:
            del rows[name]
        groups = tables["servers"]
        users = []
        for row in tables["users"].values():
            users.append(row | {"servers": [g for g in groups if self._may_run(row, g)]})
            if "rates" in row:
                users[-1]["rates"] = {g: self._rate(row, g) for g in groups}
        resources = {resource: unit or None for resource, unit in self._units.items()}
        servers = list(groups.values())
        return problem_of(
            {"fairlead": 1, "resources": resources, "servers": servers, "users": users}
        )

    def _may_run(self, user: Row, group: str) -> bool:
        """Return whether a user may run on a group, which the user's problem may lack.

        Then the user of this name in the other problem decides; without one, the user may run on
        the group if it may run on all groups of its problem.
        """
        known = next(self._users_knowing(user, group), None)
        return all(user["servers"].values()) if known is None else bool(known["servers"][group])

    def _rate(self, user: Row, group: str) -> float:
        """Return the rate of a user on a group, as `_may_run`; 0 if neither problem has one."""
        rows = (row for row in self._users_knowing(user, group) if "rates" in row)
        return float(next((row["rates"].get(group, 0.0) for row in rows), 0.0))

    def _users_knowing(self, user: Row, group: str) -> Iterator[Row]:
        """Yield the rows of a user, its own first, from problems that have the group."""
        others = (side["users"].get(user["name"]) for side in (self._before, self._after))
        for row in (user, *others):
            if row is not None and group in row["servers"]:
                yield row


def _rows_by_name(problem: Problem) -> dict[str, dict[str, Row]]:
    """Return the rows of a problem's file by table and name.

    The entry ``servers`` of a user is a mapping: for each group, whether the user may run there.
    """
    document = document_of(problem)
    for row, eligible in zip(document["users"], problem.users.eligible.tolist(), strict=True):
        row["servers"] = dict(zip(problem.cluster.groups, eligible, strict=True))
    return {table: {row["name"]: row for row in document.get(table, [])} for table in TABLES}


def _describe_change(table: str, name: str, old: Row | None, new: Row | None) -> str:
    """Describe a difference; empty if there is none."""
    if new is None:
        return f"without {name}"
    if old is None and table == "servers":
        return f"{format_servers(new.get('count', 1))} {name}"
    if old is None:
        return f"new {table.removesuffix('s')} {name}"
    parts = []
    if table == "servers":
        counts = old.get("count", 1), new.get("count", 1)
        if counts[0] != counts[1]:
            parts.append(f"{counts[0]:,} to {format_servers(counts[1])}")
        parts += _describe_amounts("", old["capacity"], new["capacity"])
        if old.get("labels") != new.get("labels"):
            parts.append("labels")
    else:
        parts += _describe_weights(old.get("weight", 1), new.get("weight", 1))
        parts += [
            f"{key} {old.get(key, 'none')} to {new.get(key, 'none')}"
            for key in ("queue", "parent")
            if old.get(key) != new.get(key)
        ]
    if table == "users":
        parts += _describe_amounts("demand of ", old.get("demand", {}), new.get("demand", {}))
        if old.get("tasks") != new.get("tasks"):
            parts.append(f"{_describe_limit(old)} to {_describe_limit(new)} tasks")
        allowed = new["servers"]
        if any(may_run != allowed.get(g, may_run) for g, may_run in old["servers"].items()):
            parts.append("where it may run")
        common = [g for g in old["servers"] if g in allowed]
        if _rates_on(common, old) != _rates_on(common, new):
            parts.append("rates")
    return f"{name}: {', '.join(parts)}" if parts else ""


def _rates_on(groups: Sequence[str], user: Row) -> list[float] | None:
    """Return the rates of a user on these groups; None if rates are computed from its demand."""
    return [user["rates"].get(g, 0.0) for g in groups] if "rates" in user else None


def _describe_weights(old: Weight, new: Weight) -> list[str]:
    if old == new:
        return []
    if isinstance(old, dict) or isinstance(new, dict):
        return ["weights"]
    return [f"weight {old:g} to {new:g}"]


def _describe_amounts(what: str, old: Mapping[str, float], new: Mapping[str, float]) -> list[str]:
    changed = [(r, old.get(r, 0.0), new.get(r, 0.0)) for r in dict.fromkeys([*old, *new])]
    return [f"{what}{r} {a:g} to {b:g}" for r, a, b in changed if a != b]


def _describe_limit(user: Row) -> str:
    return f"{user['tasks']:g}" if "tasks" in user else "any number of"


@dataclass(frozen=True)
class Effect:
    """The effect of one difference, applied to the first problem without the others."""

    difference: ProblemDifference
    # The relative change of the tasks of each affected user, by name; infinite if it had 0 tasks.
    gains: Mapping[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class ProblemComparison(Plottable):
    """Allocations of two problems by one mechanism.

    Attributes
    ----------
    before, after : Allocation
    differences : tuple of ProblemDifference
    effects : tuple of Effect
        The effect of each difference that can be applied without the others. Empty for more than 12
        differences, and if users are in queues. The effects need not add up to the whole change.
    """

    before: Allocation
    after: Allocation
    differences: tuple[ProblemDifference, ...]
    effects: tuple[Effect, ...]
    frames = ("users",)

    @property
    def users(self) -> list[str]:
        """Names of the users of either problem."""
        return list(
            dict.fromkeys([*self.before.problem.users.names, *self.after.problem.users.names])
        )

    @property
    def gains(self) -> dict[str, float]:
        """The relative change of the tasks of each user that both problems have, by name.

        For a user with different demands, the change of its dominant share. Infinite if it was 0.
        """
        return _gains(self.before, self.after, _with_other_demands(self.differences))

    def reasons(self, user: str) -> list[tuple[ProblemDifference, float]]:
        """Return the differences that by themselves change a user's tasks, with their effects.

        The largest effect comes first.
        """
        found = [(e.difference, e.gains[user]) for e in self.effects if user in e.gains]
        return sorted(found, key=lambda reason: -abs(reason[1]))

    def __repr__(self) -> str:
        """Return a summary on one line."""
        more = sum(gain > UNCHANGED for gain in self.gains.values())
        less = sum(gain < -UNCHANGED for gain in self.gains.values())
        return (
            f"<{self.before.mechanism} on two problems with {len(self.differences)} differences: "
            f"{more} users gain, {less} lose>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values, for JSON; an infinite gain is None."""
        gains, tasks = self.gains, _by_user(self.before, self.after, "user_tasks")
        shares = _by_user(self.before, self.after, "dominant_share")
        return {
            "fairlead": 1,
            "mechanism": self.before.mechanism,
            "differences": [d.text for d in self.differences],
            "users": [
                {
                    "name": name,
                    "tasks": [_plain(part) for part in tasks[name]],
                    "dominant_share": [_plain(part) for part in shares[name]],
                    "gain": _plain(gains.get(name, np.nan)),
                    "reasons": [
                        {"difference": difference.text, "gain": _plain(gain)}
                        for difference, gain in self.reasons(name)
                    ],
                }
                for name in self.users
            ],
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
        }

    def _columns(self, what: str) -> Mapping[str, Any]:  # noqa: ARG002 (there is one table)
        names, gains = self.users, self.gains
        tasks = _by_user(self.before, self.after, "user_tasks")
        shares = _by_user(self.before, self.after, "dominant_share")
        return {
            "user": names,
            "tasks_before": [tasks[name][0] for name in names],
            "tasks_after": [tasks[name][1] for name in names],
            "share_before": [shares[name][0] for name in names],
            "share_after": [shares[name][1] for name in names],
            "gain": [gains.get(name, np.nan) for name in names],
        }


def compare_problems(
    before: Problem, after: Problem, mechanism: str = "ps-dsf", **options: Any
) -> ProblemComparison:
    """Divide two problems by one mechanism, and compute the effect of each difference.

    Raises ProblemError when a resource has different units, and all errors of `solve`. Costs two
    solutions, and one more for each difference if there are at most 12.

    Examples
    --------
    >>> import fairlead
    >>> one = fairlead.Problem.from_arrays([[4.0]], [[1.0], [1.0]], users=["ana", "bo"])
    >>> two = fairlead.Problem.from_arrays([[4.0]], [[1.0], [1.0]], users=["ana", "bo"],
    ...     weight=[1, 3])
    >>> found = compare_problems(one, two)
    >>> found.gains, [difference.text for difference, _ in found.reasons("ana")]
    ({'ana': -0.5, 'bo': 0.5}, ['bo: weight 1 to 3'])
    """
    both = TwoProblems(before, after)
    first, second = (solve(problem, mechanism, **options) for problem in (before, after))
    differences = tuple(both.differences())
    by_share = _with_other_demands(differences)
    effects: list[Effect] = []
    has_trees = before.users.queues is not None or after.users.queues is not None
    if len(differences) <= MAX_EFFECTS and not has_trees:
        for difference in differences:
            try:
                alone = solve(both.with_one(difference), mechanism, **options)
            except (InputError, RefusalError, CertificateError):
                continue  # this difference cannot be applied without the others
            gains = _gains(first, alone, by_share)
            changed = {name: gain for name, gain in gains.items() if abs(gain) > UNCHANGED}
            effects.append(Effect(difference, changed))
    return ProblemComparison(first, second, differences, tuple(effects))


def _with_other_demands(differences: Sequence[ProblemDifference]) -> set[str]:
    """Return the users with different demands; numbers of their tasks cannot be compared."""
    return {each.name for each in differences if each.in_demand}


def _gains(before: Allocation, after: Allocation, by_share: set[str]) -> dict[str, float]:
    """Return each user's relative change of tasks, or of dominant share for users `by_share`."""
    shares = _by_user(before, after, "dominant_share")
    found = {}
    for name, tasks in _by_user(before, after, "user_tasks").items():
        a, b = shares[name] if name in by_share else tasks
        if not (np.isnan(a) or np.isnan(b)):
            found[name] = b / a - 1.0 if a > 0 else np.inf if b > 0 else 0.0
    return found


def _by_user(
    before: Allocation, after: Allocation, column: Literal["user_tasks", "dominant_share"]
) -> dict[str, tuple[float, float]]:
    """Return a number of each user before and after; NaN where there is no such user."""
    old, new = (
        dict(zip(side.problem.users.names, getattr(side, column).tolist(), strict=True))
        for side in (before, after)
    )
    return {name: (old.get(name, np.nan), new.get(name, np.nan)) for name in old | new}


def _plain(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
