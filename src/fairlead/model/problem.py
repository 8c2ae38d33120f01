"""A cluster and its users as arrays: all validation, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fairlead.errors import InputError, ProblemError
from fairlead.model.arguments import several, text, texts
from fairlead.model.cluster import (
    BoolArray,
    Cluster,
    FloatArray,
    IntArray,
    ReadOnlyArrays,
    Users,
    sealed,
)
from fairlead.model.frames import name_axis, read_numbers, read_switches, read_table
from fairlead.model.quantity import LARGEST_AMOUNT, show
from fairlead.model.workload_checks import usable_amounts

# Servers beyond this are no longer counted exactly by a float.
LARGEST_COUNT = 2**53

_Given = TypeVar("_Given")


@dataclass(frozen=True, eq=False, repr=False)
class Problem(ReadOnlyArrays):
    """Who shares what: a cluster, its users, and everything derived from the two.

    Letters used everywhere: N users, G groups of identical servers, R resources.

    Build one with `Problem.from_arrays` or `fairlead.load`; both validate, so that no mechanism
    has to.

    Attributes
    ----------
    cluster : Cluster
        ``capacity`` (G, R) of one server of each group, ``count`` (G,), names of ``groups`` and
        ``resources``, ``units``, ``labels``.
    users : Users
        ``demand`` (N, R) of one task, ``weight`` (N,), ``eligible`` (N, G), ``task_limit`` (N,),
        ``rates`` (N, G) or None, ``names``.
    n_users, n_groups, n_resources : int
    demand, weight, task_limit, count
        Those of the users and of the cluster.
    group_capacity : (G, R) float
        Of all servers of each group.
    total_capacity : (R,) float
    gamma : (N, G) float
        Tasks that each user could run alone on all servers of each group; 0 where it may not run.
    """

    cluster: Cluster
    users: Users

    @classmethod
    def from_arrays(
        cls,
        capacity: ArrayLike,
        demand: ArrayLike,
        *,
        count: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        eligible: ArrayLike | None = None,
        task_limit: ArrayLike | None = None,
        rates: ArrayLike | None = None,
        resources: Sequence[str] | None = None,
        units: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
        users: Sequence[str] | None = None,
        labels: Sequence[Mapping[str, str]] | None = None,
    ) -> Problem:
        """Build and validate a problem.

        Parameters
        ----------
        capacity : (G, R) array
            Amount of each resource on one server of each group.
        demand : (N, R) array
            Amount of each resource that one task of each user takes.
        count : (G,) array of int, optional
            Servers in each group; 1 when absent. A group of 0 has no capacity; one group at least
            has a server.
        weight : (N,) or (N, R) array, optional
            Weight of each user, or of each user per resource; 1 when absent. A user of weight 0
            is due nothing.
        eligible : (N, G) array of bool, optional
            Where each user may run; everywhere when absent.
        task_limit : (N,) array, optional
            Tasks each user has in all; infinite when absent. A user with 0 is idle: it gets
            nothing, and need fit no server.
        rates : (N, G) array, optional
            Tasks each user completes when it has one server of the group to itself, given
            directly instead of through demands; NaN rows for users that give none.
        resources, units, groups, users : sequences of str, optional
            Names; ``r1, r2, ...``, no units, ``g1, ...`` and ``u1, ...`` when absent.
        labels : sequence of mappings, optional
            Labels of each group.

        Raises
        ------
        ProblemError
            For labels that differ between tables, a wrong shape, a negative, NaN, infinite or
            absurdly large amount, a negative weight, a duplicate name, a user without any demand, a
            user with tasks that no server can serve, or when there is no server.

        Notes
        -----
        Frames and series of pandas or polars are laid out by their labels: the resources, groups
        and users are those given by name, or else those of the first table that names them, and
        every other table is put in that order. A table that names others is refused; one without
        labels, or with labels that merely count, is taken in order. The rows of a polars frame go
        by its only column of text. Cost O(N G R).
        """
        resources, groups, users = (
            None if names is None else texts(names, what, ".name")
            for names, what in ((resources, "resources"), (groups, "groups"), (users, "users"))
        )
        capacities, demands = read_table(capacity, "capacity"), read_table(demand, "demand")
        counts = read_table(count, "count", vector=True)
        weights = read_table(weight, "weight", vector=True)
        limits = read_table(task_limit, "task_limit", vector=True)
        places, speeds = read_table(eligible, "eligible"), read_table(rates, "rates")
        resources = name_axis(resources, ((capacities, 1), (demands, 1), (weights, 1)))
        groups = name_axis(groups, ((capacities, 0), (counts, 0), (places, 1), (speeds, 1)))
        users = name_axis(
            users, ((demands, 0), (weights, 0), (places, 0), (limits, 0), (speeds, 0))
        )
        capacity_array = _matrix(capacities.laid_out(groups, resources), "capacity")
        demand_array = _matrix(demands.laid_out(users, resources), "demand")
        weight = weights.laid_out(users, resources)
        n_groups, n_resources = capacity_array.shape
        n_users = demand_array.shape[0]
        if demand_array.shape[1] != n_resources:
            raise ProblemError(
                f"has {demand_array.shape[1]} resources where capacity has {n_resources}", "demand"
            )
        cluster = Cluster(
            groups=_names(groups, n_groups, "g", "groups"),
            resources=_names(resources, n_resources, "r", "resources"),
            capacity=capacity_array,
            count=_count(counts.laid_out(groups), n_groups),
            units=_units(units, n_resources),
            labels=_labels(labels, n_groups),
        )
        weight_array, resource_weight = _weight(weight, n_users, n_resources)
        members = Users(
            names=_names(users, n_users, "u", "users"),
            demand=demand_array,
            weight=weight_array,
            eligible=_eligible(places.laid_out(users, groups), n_users, n_groups),
            task_limit=_task_limit(limits.laid_out(users), n_users),
            rates=_rates(speeds.laid_out(users, groups), n_users, n_groups),
            resource_weight=resource_weight,
        )
        problem = cls(cluster, members)
        _check_amounts(problem)
        _check_placeable(problem)
        return problem

    def __repr__(self) -> str:
        """Return a summary on one line; the arrays are in the fields."""
        servers = int(self.count.sum())
        return (
            f"<Problem: N={self.n_users} users, G={self.n_groups} groups of {servers:,} servers, "
            f"R={self.n_resources} resources>"
        )

    @property
    def n_users(self) -> int:
        """Number of users, N."""
        return len(self.users.names)

    @property
    def n_groups(self) -> int:
        """Number of groups of identical servers, G."""
        return len(self.cluster.groups)

    @property
    def n_resources(self) -> int:
        """Number of resources, R."""
        return len(self.cluster.resources)

    @property
    def demand(self) -> FloatArray:
        """(N, R) float: amount of each resource that one task takes."""
        return self.users.demand

    @property
    def weight(self) -> FloatArray:
        """(N,) float: weight phi of each user."""
        return self.users.weight

    @property
    def task_limit(self) -> FloatArray:
        """(N,) float: tasks each user has in all, infinite where unlimited."""
        return self.users.task_limit

    @property
    def count(self) -> IntArray:
        """(G,) int: servers in each group."""
        return self.cluster.count

    @cached_property
    def group_capacity(self) -> FloatArray:
        """(G, R) float: amount of each resource on all servers of each group together."""
        return sealed(self.cluster.group_capacity)

    @cached_property
    def total_capacity(self) -> FloatArray:
        """(R,) float: amount of each resource in the whole cluster."""
        return sealed(self.group_capacity.sum(axis=0))

    @cached_property
    def fitting(self) -> FloatArray:
        """(N, G) float: tasks that would fit on each whole group by capacity alone.

        Placement constraints and given rates are ignored.
        """
        fitting = np.full((self.n_users, self.n_groups), np.inf)
        for r in range(self.n_resources):
            demand = self.demand[:, r]
            asks = demand > 0
            ratio = self.group_capacity[None, :, r] / np.where(asks, demand, 1.0)[:, None]
            np.minimum(fitting, np.where(asks[:, None], ratio, np.inf), out=fitting)
        fitting[~(self.demand > 0).any(axis=1)] = 0.0
        return sealed(fitting)

    @cached_property
    def unconstrained_gamma(self) -> FloatArray:
        """(N, G) float: tasks each user could run alone on each whole group, were it allowed to.

        Given rates replace what capacity and demand would say.
        """
        if self.users.rates is None:
            return self.fitting
        given = self.users.rates * self.count[None, :]
        return sealed(np.where(np.isnan(given), self.fitting, given))

    @cached_property
    def gamma(self) -> FloatArray:
        """(N, G) float: tasks each user could run alone on each whole group; 0 where it may not."""
        return sealed(np.where(self.users.eligible, self.unconstrained_gamma, 0.0))

    @cached_property
    def runnable(self) -> BoolArray:
        """(N, G) bool: where each user is allowed and has what it needs (gamma > 0)."""
        return sealed(self.gamma > 0)

    @property
    def due_nothing(self) -> BoolArray:
        """(N,) bool: users without a task to run, and users of weight 0."""
        due_nothing: BoolArray = (self.task_limit == 0) | (self.weight == 0)
        return due_nothing

    @property
    def has_constraints(self) -> bool:
        """Whether any user is kept from any group by a placement constraint."""
        return not bool(self.users.eligible.all())

    @property
    def has_limits(self) -> bool:
        """Whether any user has finitely many tasks."""
        return bool(np.isfinite(self.task_limit).any())

    def pooled(self) -> Problem:
        """Return the problem with all servers as one pool: one group, no constraints, no rates."""
        cluster = Cluster(
            groups=("pool",) if self.n_groups > 1 else self.cluster.groups,
            resources=self.cluster.resources,
            capacity=self.total_capacity[None, :],
            count=np.ones(1, dtype=np.int64),
            units=self.cluster.units,
            labels=({},),
        )
        eligible = np.ones((self.n_users, 1), dtype=bool)
        return Problem(cluster, replace(self.users, eligible=eligible, rates=None))


def _matrix(values: ArrayLike, name: str) -> FloatArray:
    matrix = np.atleast_2d(read_numbers(values, name))
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ProblemError(f"must be a non-empty matrix, not of shape {matrix.shape}", name)
    return matrix


def _names(names: Sequence[str] | None, length: int, prefix: str, what: str) -> tuple[str, ...]:
    if names is None:
        return tuple(f"{prefix}{k + 1}" for k in range(length))
    if len(names) != length:
        raise ProblemError(f"{len(names)} names for {length} rows", what)
    if len(set(names)) != length:
        seen: set[str] = set()
        for k, name in enumerate(names):
            if name in seen:
                raise ProblemError(f"duplicate name {name!r}", f"{what}[{k}].name")
            seen.add(name)
    return tuple(names)


def _units(units: Sequence[str] | None, n_resources: int) -> tuple[str, ...]:
    if units is None:
        return ("",) * n_resources
    return _as_many(texts(units, "units"), n_resources, "units")


def _labels(
    labels: Sequence[Mapping[str, str]] | None, n_groups: int
) -> tuple[Mapping[str, str], ...]:
    if labels is None:
        return ({},) * n_groups
    given = _as_many(several(labels, "labels", "mappings"), n_groups, "labels")
    for g, row in enumerate(given):
        if not isinstance(row, Mapping):
            raise ProblemError(f"must be a mapping, not {show(row)}", f"labels[{g}]")
    return tuple(
        {
            text(key, f"labels[{g}]"): show(value)
            if isinstance(value, bool)
            else text(value, f"labels[{g}].{key}")
            for key, value in row.items()
        }
        for g, row in enumerate(given)
    )


def _as_many(given: tuple[_Given, ...], length: int, name: str) -> tuple[_Given, ...]:
    if len(given) != length:
        raise ProblemError(f"{len(given)} {name} for {length} rows", name)
    return given


def _vector(values: ArrayLike, length: int, name: str) -> FloatArray:
    vector = read_numbers(values, name)
    if vector.shape != (length,):
        raise ProblemError(f"must have shape ({length},), not {vector.shape}", name)
    return vector


def _count(count: ArrayLike | None, n_groups: int) -> IntArray:
    if count is None:
        return np.ones(n_groups, dtype=np.int64)
    given = _vector(count, n_groups, "count")
    for g in np.flatnonzero(~((given >= 0) & (given == np.floor(given)) & np.isfinite(given))):
        raise ProblemError(
            f"must be a whole number from 0, not {given[g]:g}", f"servers[{g}].count"
        )
    for g in np.flatnonzero(given > LARGEST_COUNT):
        raise ProblemError(
            f"must be at most {LARGEST_COUNT:,}, not {given[g]:g}", f"servers[{g}].count"
        )
    if not given.any():
        raise ProblemError("there is no server: every group has a count of 0", "servers")
    return given.astype(np.int64)


def _weight(
    weight: ArrayLike | None, n_users: int, n_resources: int
) -> tuple[FloatArray, FloatArray | None]:
    if weight is None:
        return np.ones(n_users), None
    given = read_numbers(weight, "weight")
    if given.shape not in ((n_users,), (n_users, n_resources)):
        raise ProblemError(
            f"must have shape ({n_users},) or ({n_users}, {n_resources}), not {given.shape}",
            "weight",
        )
    for index in np.argwhere(~usable_amounts(given)):
        value = given[tuple(index)]
        fault = f"must be a number from 0, not {value}"
        raise ProblemError(fault, f"users[{index[0]}].weight")
    if given.ndim == 1:
        return given, None
    if (given == given[:, :1]).all():
        return given[:, 0].copy(), None
    is_zero = (given == 0).all(axis=1)
    for n in np.flatnonzero((given == 0).any(axis=1) & ~is_zero):
        raise ProblemError("must be 0 of all resources or of none", f"users[{n}].weight")
    return np.where(is_zero, 0.0, 1.0), given


def _eligible(eligible: ArrayLike | None, n_users: int, n_groups: int) -> BoolArray:
    if eligible is None:
        return np.ones((n_users, n_groups), dtype=bool)
    given = read_switches(eligible, "eligible")
    if given.shape != (n_users, n_groups):
        raise ProblemError(
            f"must have shape ({n_users}, {n_groups}), not {given.shape}", "eligible"
        )
    return given


def _task_limit(task_limit: ArrayLike | None, n_users: int) -> FloatArray:
    if task_limit is None:
        return np.full(n_users, np.inf)
    given = _vector(task_limit, n_users, "task_limit")
    for n in np.flatnonzero(~(given >= 0)):
        raise ProblemError(f"must be a number from 0, not {given[n]}", f"users[{n}].tasks")
    return given


def _rates(rates: ArrayLike | None, n_users: int, n_groups: int) -> FloatArray | None:
    if rates is None:
        return None
    given = read_numbers(rates, "rates")
    if given.shape != (n_users, n_groups):
        raise ProblemError(f"must have shape ({n_users}, {n_groups}), not {given.shape}", "rates")
    absent = np.isnan(given)
    wrong = np.isinf(given) | (given < 0) | (absent & ~absent.all(axis=1, keepdims=True))
    for n, g in np.argwhere(wrong):
        raise ProblemError(f"must be a finite number >= 0, not {given[n, g]}", f"users[{n}].rates")
    return None if absent.all() else given


def _check_amounts(problem: Problem) -> None:
    """Refuse negative, NaN, infinite and absurdly large or small amounts."""
    tables: tuple[tuple[str, str, Any], ...] = (
        ("servers", "capacity", problem.cluster.capacity),
        ("users", "demand", problem.demand),
    )
    for what, kind, amounts in tables:
        for row, r in np.argwhere(~usable_amounts(amounts)):
            raise ProblemError(
                f"must be 0 or a number between {1 / LARGEST_AMOUNT:g} and {LARGEST_AMOUNT:g}, "
                f"not {amounts[row, r]:g}",
                f"{what}[{row}].{kind}.{problem.cluster.resources[r]}",
            )
    without = ~(problem.demand > 0).any(axis=1)
    if problem.users.rates is not None:
        without &= np.isnan(problem.users.rates).all(axis=1)
    for n in np.flatnonzero(without):
        raise ProblemError(f"user {problem.users.names[n]!r} demands nothing", f"users[{n}].demand")


def check_problem(problem: object) -> None:
    """Raise InputError for what is no problem, such as a file's name, and say what would be one."""
    if not isinstance(problem, Problem):
        fault = f"must be a Problem, such as fairlead.load(file) gives, not {problem!r:.60}"
        raise InputError(fault, "problem")


def _check_placeable(problem: Problem) -> None:
    """Refuse users that no server can serve, and say what excludes them."""
    # The same as gamma > 0, without the large tables that gamma would leave behind.
    asks, lacks = problem.demand > 0, ~(problem.cluster.capacity > 0)
    open_to = problem.users.eligible & (problem.count > 0)
    runnable = open_to & ~(asks.astype(np.float32) @ lacks.T.astype(np.float32) > 0)
    if problem.users.rates is not None:
        given = ~np.isnan(problem.users.rates[:, 0])
        runnable[given] = open_to[given] & (problem.users.rates[given] > 0)
    for n in np.flatnonzero(~runnable.any(axis=1) & (problem.task_limit > 0)):
        raise ProblemError(
            f"user {problem.users.names[n]!r} fits no server: {why_excluded(problem, int(n))}",
            f"users[{n}]",
        )


def why_excluded(problem: Problem, n: int) -> str:
    """Describe the resource or constraint that keeps user `n` from every server."""
    eligible = problem.users.eligible[n]
    if not eligible.any():
        return "its placement constraint allows no group"
    if not problem.count[eligible].any():
        return "the groups that its placement constraint allows have no server"
    eligible = eligible & (problem.count > 0)
    if not (problem.unconstrained_gamma[n] > 0).any():
        return f"no server has {_missing(problem, n, problem.count > 0)}"
    allowed = ", ".join(np.array(problem.cluster.groups, dtype=object)[eligible][:5])
    return (
        f"its placement constraint allows only {allowed}, without {_missing(problem, n, eligible)}"
    )


def _missing(problem: Problem, n: int, groups: BoolArray) -> str:
    """Name the resources that user `n` demands and these groups lack."""
    if problem.users.rates is not None and not np.isnan(problem.users.rates[n]).any():
        return "a positive rate for it"
    lacking = (problem.demand[n] > 0) & ~(problem.cluster.capacity[groups] > 0).any(axis=0)
    names = [problem.cluster.resources[r] for r in np.flatnonzero(lacking)]
    return " and ".join(names) if names else "all that it demands together"
