"""The problem of fair division: a cluster and its users, as validated arrays."""

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
    check_devices,
    device_names,
    find_unplaceable,
    sealed,
)
from fairlead.model.frames import name_axis, read_numbers, read_switches, read_table
from fairlead.model.quantity import show
from fairlead.model.queues import Queues, read_queues
from fairlead.model.workload_checks import (
    check_amounts,
    check_unlike_names,
    fail_at,
    read_vector,
    usable_amounts,
)

# The largest count that is the float of no other whole number: 2**53 is also that of 2**53 + 1.
LARGEST_COUNT = 2**53 - 1

_Array = TypeVar("_Array", FloatArray, BoolArray)


@dataclass(frozen=True, eq=False, repr=False)
class Problem(ReadOnlyArrays):
    """A cluster and the users who share it; arrays are read-only.

    Letters: N users, G groups of identical servers, R resources. Build a problem with
    `Problem.from_arrays` or `fairlead.load`, which validate it.

    Attributes
    ----------
    cluster : Cluster
        ``capacity`` (G, R) of one server of each group, ``count`` (G,), ``groups``, ``resources``,
        ``units``, ``labels``.
    users : Users
        ``names``, ``demand`` (N, R) of one task, ``weight`` (N,), ``eligible`` (N, G),
        ``task_limit`` (N,), ``rates`` (N, G) or None, ``queues`` or None.

    Examples
    --------
    >>> problem = Problem.from_arrays([[9, 18]], [[1, 4], [3, 1]], users=["ana", "bo"])
    >>> problem
    <Problem: N=2 users, G=1 groups of 1 servers, R=2 resources>
    >>> problem.gamma.tolist()
    [[4.5], [3.0]]
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
        devices: Sequence[str] = (),
    ) -> Problem:
        """Build and validate a problem; O(N G R).

        Parameters
        ----------
        capacity : (G, R) array, or (R,) for one group
            Amount of each resource on one server of each group.
        demand : (N, R) array, or (R,) for one user
            Amount of each resource that one task of each user takes.
        count : (G,) array of int, optional
            Servers in each group, by default 1; it may be 0, but not in all groups.
        weight : (N,) or (N, R) array, optional
            Weight of each user, or of each user for each resource; by default 1. A user of weight 0
            is due nothing.
        eligible : (N, G) array of bool, optional
            Groups where each user may run, by default all.
        task_limit : (N,) array, optional
            Tasks that each user has in all, by default infinite. A user with 0 gets nothing, and
            need not fit a server.
        rates : (N, G) array, optional
            Tasks that each user completes per unit of time with one server of the group to itself.
            They replace gamma computed from demands. NaN rows for users without given rates.
        resources, units, groups, users : sequences of str, optional
            Names, by default ``r1, r2, ...``, no units, ``g1, ...`` and ``u1, ...``.
        labels : sequence of mappings, optional
            Labels of each group.
        devices : sequence of str
            Resources that come in devices, such as GPUs: servers have whole devices; a task takes a
            part of one device, or several whole devices. This matters only where whole tasks are
            placed.

        Raises
        ------
        ProblemError
            With the entry, for

            - a wrong shape, a duplicate name, or labels that differ between tables;
            - a negative, NaN, infinite or extreme amount;
            - a user without demand, or a user with tasks that no server can run;
            - a cluster without servers.

        Notes
        -----
        Frames and series of pandas or polars are arranged by their labels. Resources, groups and
        users without given names are named by the first table that has labels; a table with other
        labels is refused. The only column of text of a polars frame names its rows.

        Examples
        --------
        Three large servers and one old one; the second user may run on the large ones only:

        >>> problem = Problem.from_arrays(
        ...     capacity=[[64, 512], [16, 64]],
        ...     count=[3, 1],
        ...     demand=[[1, 2], [4, 1]],
        ...     eligible=[[True, True], [True, False]],
        ...     resources=["cpu", "memory"],
        ... )
        >>> problem.total_capacity.tolist()
        [208.0, 1600.0]
        >>> problem.gamma.tolist()
        [[192.0, 16.0], [48.0, 0.0]]
        """
        resources, groups, users = (
            None if names is None else texts(names, what, ".name")
            for names, what in ((resources, "resources"), (groups, "groups"), (users, "users"))
        )
        capacities, demands = read_table(capacity, "capacity"), read_table(demand, "demand")
        counts = read_table(count, "count", vector=True)
        weights = read_table(weight, "weight", vector=True)
        limits = read_table(task_limit, "task_limit", vector=True)
        allowed, speeds = read_table(eligible, "eligible"), read_table(rates, "rates")
        resources = name_axis(resources, ((capacities, 1), (demands, 1), (weights, 1)))
        groups = name_axis(groups, ((capacities, 0), (counts, 0), (allowed, 1), (speeds, 1)))
        users = name_axis(
            users, ((demands, 0), (weights, 0), (allowed, 0), (limits, 0), (speeds, 0))
        )
        capacity_array = _read_matrix(capacities.laid_out(groups, resources), "capacity")
        demand_array = _read_matrix(demands.laid_out(users, resources), "demand")
        weight = weights.laid_out(users, resources)
        n_groups, n_resources = capacity_array.shape
        n_users = demand_array.shape[0]
        if demand_array.shape[1] != n_resources:
            raise ProblemError(
                f"has {demand_array.shape[1]} resources where capacity has {n_resources}", "demand"
            )
        resource_names = _read_names(resources, n_resources, "r", "resources")
        cluster = Cluster(
            groups=_read_names(groups, n_groups, "g", "groups"),
            resources=resource_names,
            capacity=capacity_array,
            count=read_count(counts.laid_out(groups), n_groups),
            units=_read_units(units, n_resources),
            labels=_read_labels(labels, n_groups),
            devices=device_names(texts(devices, "devices"), resource_names),
        )
        weight_array, resource_weight = _read_weight(weight, n_users, n_resources)
        members = Users(
            names=_read_names(users, n_users, "u", "users"),
            demand=demand_array,
            weight=weight_array,
            eligible=_read_eligible(allowed.laid_out(users, groups), n_users, n_groups),
            task_limit=_read_task_limit(limits.laid_out(users), n_users),
            rates=_read_rates(speeds.laid_out(users, groups), n_users, n_groups),
            resource_weight=resource_weight,
        )
        problem = cls(cluster, members)
        _check_amounts(problem)
        check_devices(cluster, demand_array, "servers[{}].capacity", "users[{}].demand")
        _check_placeable(problem)
        return problem

    def with_queues(
        self, rows: Sequence[Mapping[str, Any]], user_queue: Sequence[str | None]
    ) -> Problem:
        """Return the problem with its users in a tree of queues; O(N + Q).

        Parameters
        ----------
        rows : sequence of Q mappings
            A queue each: its ``name``, its ``weight`` (by default 1) and the name of its
            ``parent``, which is an earlier queue (by default the root).
        user_queue : (N,) sequence of str or None
            The name of each user's queue; None for a user directly below the root.

        Raises
        ------
        ProblemError
            For an unknown or duplicate name, a weight that is not positive, or weights per
            resource.

        Notes
        -----
        Weights are relative to those of siblings, the queues and users with the same parent.

        Examples
        --------
        >>> problem = Problem.from_arrays([[12, 12]], [[1, 0], [0, 1], [0, 1]])
        >>> teams = [{"name": "team", "weight": 3}]
        >>> problem.with_queues(teams, ["team", "team", None]).part.tolist()
        [0.375, 0.375, 0.25]
        """
        return self.in_tree(read_queues(rows, user_queue, self.users.names))

    def in_tree(self, queues: Queues) -> Problem:
        """Return the problem with its users in this tree; ProblemError for weights per resource."""
        if self.users.resource_weight is not None:
            raise ProblemError("have no meaning with weights per resource", "queues")
        return replace(self, users=replace(self.users, queues=queues))

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
    def task_shares(self) -> FloatArray:
        """(N, R) float: share of the cluster's total of each resource that one task takes."""
        total = self.total_capacity
        return sealed(self.demand / np.where(total > 0, total, np.inf))

    @cached_property
    def fitting(self) -> FloatArray:
        """(N, G) float: tasks that fit on all servers of each group, by capacity alone."""
        fitting = tasks_within(self.group_capacity, self.demand)
        fitting[~(self.demand > 0).any(axis=1)] = 0.0
        return sealed(fitting)

    @cached_property
    def unconstrained_gamma(self) -> FloatArray:
        """(N, G) float: gamma without placement constraints; given rates replace demands."""
        if self.users.rates is None:
            return self.fitting
        by_rates = self.users.rates * self.count[None, :]
        return sealed(np.where(np.isnan(by_rates), self.fitting, by_rates))

    @cached_property
    def gamma(self) -> FloatArray:
        """(N, G) float: tasks that each user could run alone on all servers of each group.

        It is 0 where the user may not run.
        """
        return sealed(np.where(self.users.eligible, self.unconstrained_gamma, 0.0))

    @cached_property
    def runnable(self) -> BoolArray:
        """(N, G) bool: whether the user may run on the group and completes tasks (gamma > 0)."""
        return sealed(self.gamma > 0)

    @property
    def due_nothing(self) -> BoolArray:
        """(N,) bool: whether the user has no task to run, or weight 0."""
        due_nothing: BoolArray = (self.task_limit == 0) | (self.weight == 0)
        return due_nothing

    @cached_property
    def part(self) -> FloatArray:
        """(N,) float: each user's part of the cluster by weights, its own and those of its queues.

        Parts add up to 1; users that are due nothing have part 0.
        """
        due = ~self.due_nothing
        if self.users.queues is not None:
            return sealed(self.users.queues.parts(self.weight, due)[1])
        weight = np.where(due, self.weight, 0.0)
        return sealed(np.divide(weight, weight.sum(), np.zeros(len(due)), where=due))

    @property
    def has_constraints(self) -> bool:
        """Whether any placement constraint excludes a user from a group."""
        return not bool(self.users.eligible.all())

    @property
    def has_limits(self) -> bool:
        """Whether any user has finitely many tasks."""
        return bool(np.isfinite(self.task_limit).any())

    def pooled(self) -> Problem:
        """Return the problem with all servers as one group, without constraints and rates."""
        only = self.cluster.groups[int(self.count.argmax())]
        cluster = Cluster(
            groups=("pool" if self.count.sum() > 1 else only,),
            resources=self.cluster.resources,
            capacity=self.total_capacity[None, :],
            count=np.ones(1, dtype=np.int64),
            units=self.cluster.units,
            labels=({},),
        )
        eligible = np.ones((self.n_users, 1), dtype=bool)
        return Problem(cluster, replace(self.users, eligible=eligible, rates=None))


def tasks_within(amounts: FloatArray, demand: FloatArray) -> FloatArray:
    """Return (N, G) how many tasks of each demand (N, R) fit into each row of amounts (G, R).

    Tasks are divisible. The number is infinite for a demand of nothing.
    """
    tasks = np.full((len(demand), len(amounts)), np.inf)
    for amount, wanted in zip(amounts.T, demand.T, strict=True):
        asks = wanted > 0
        ratio = amount[None, :] / np.where(asks, wanted, 1.0)[:, None]
        np.minimum(tasks, np.where(asks[:, None], ratio, np.inf), out=tasks)
    return tasks


def _read_matrix(values: ArrayLike | None, name: str) -> FloatArray:
    if values is None:
        raise ProblemError("must be a table of numbers, not None", name)
    matrix = np.atleast_2d(read_numbers(values, name))
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ProblemError(f"must be a non-empty matrix, not of shape {matrix.shape}", name)
    return matrix


def _check_shape(table: _Array, shape: tuple[int, ...], name: str) -> _Array:
    if table.shape != shape:
        raise ProblemError(f"must have shape {shape}, not {table.shape}", name)
    return table


def _read_names(
    names: Sequence[str] | None, length: int, prefix: str, what: str
) -> tuple[str, ...]:
    if names is None:
        return tuple(f"{prefix}{k + 1}" for k in range(length))
    if len(names) != length:
        raise ProblemError(f"{len(names)} names for {length} rows", what)
    check_unlike_names(names, what)
    return tuple(names)


def _read_units(units: Sequence[str] | None, n_resources: int) -> tuple[str, ...]:
    if units is None:
        return ("",) * n_resources
    given = texts(units, "units")
    if len(given) != n_resources:
        raise ProblemError(f"{len(given)} units for {n_resources} rows", "units")
    return given


def _read_labels(
    labels: Sequence[Mapping[str, str]] | None, n_groups: int
) -> tuple[Mapping[str, str], ...]:
    """Return the labels of each group as text; bools become ``true`` and ``false``."""
    if labels is None:
        return ({},) * n_groups
    given = several(labels, "labels", "mappings")
    if len(given) != n_groups:
        raise ProblemError(f"{len(given)} labels for {n_groups} rows", "labels")
    rows = []
    for g, row in enumerate(given):
        if not isinstance(row, Mapping):
            raise ProblemError(f"must be a mapping, not {show(row)}", f"labels[{g}]")
        named = {}
        for key, value in row.items():
            label = show(value) if isinstance(value, bool) else value
            named[text(key, f"labels[{g}]")] = text(label, f"labels[{g}].{key}")
        rows.append(named)
    return tuple(rows)


def read_count(count: ArrayLike | None, n_groups: int) -> IntArray:
    """Return the servers of each group (G,), by default 1; ProblemError for invalid numbers."""
    if count is None:
        return np.ones(n_groups, dtype=np.int64)
    given = _check_shape(read_numbers(count, "count"), (n_groups,), "count")
    whole = (given >= 0) & (given == np.floor(given)) & np.isfinite(given)
    for g in np.flatnonzero(~whole):
        fault = f"must be a whole number from 0, not {given[g]:g}"
        raise ProblemError(fault, f"servers[{g}].count")
    for g in np.flatnonzero(given > LARGEST_COUNT):
        fault = f"must be at most {LARGEST_COUNT:,}, not {given[g]:g}"
        raise ProblemError(fault, f"servers[{g}].count")
    if not given.any():
        raise ProblemError("there is no server: every group has a count of 0", "servers")
    return given.astype(np.int64)


def _read_weight(
    weight: ArrayLike | None, n_users: int, n_resources: int
) -> tuple[FloatArray, FloatArray | None]:
    """Return the weights (N,); and weights per resource (N, R), or None if a user has one weight.

    With weights per resource, (N,) has 0 for users of weight 0, and 1 for others.
    """
    if weight is None:
        return np.ones(n_users), None
    given = read_numbers(weight, "weight")
    if given.shape not in ((n_users,), (n_users, n_resources)):
        shapes = f"({n_users},) or ({n_users}, {n_resources})"
        raise ProblemError(f"must have shape {shapes}, not {given.shape}", "weight")
    for index in np.argwhere(~usable_amounts(given)):
        fault = f"must be a number from 0, not {given[tuple(index)]}"
        raise ProblemError(fault, f"users[{index[0]}].weight")
    if given.ndim == 1:
        return given, None
    if (given == given[:, :1]).all():
        return given[:, 0].copy(), None
    is_zero = (given == 0).all(axis=1)
    for n in np.flatnonzero((given == 0).any(axis=1) & ~is_zero):
        raise ProblemError("must be 0 for all resources or for none", f"users[{n}].weight")
    return np.where(is_zero, 0.0, 1.0), given


def _read_eligible(eligible: ArrayLike | None, n_users: int, n_groups: int) -> BoolArray:
    if eligible is None:
        return np.ones((n_users, n_groups), dtype=bool)
    return _check_shape(read_switches(eligible, "eligible"), (n_users, n_groups), "eligible")


def _read_task_limit(task_limit: ArrayLike | None, n_users: int) -> FloatArray:
    limit = read_vector(task_limit, n_users, "task_limit", np.inf)
    fail_at(~(limit >= 0), limit, "users", "tasks", "must be a number from 0, not")
    return limit


def _read_rates(rates: ArrayLike | None, n_users: int, n_groups: int) -> FloatArray | None:
    if rates is None:
        return None
    given = _check_shape(read_numbers(rates, "rates"), (n_users, n_groups), "rates")
    absent = np.isnan(given)
    wrong = np.isinf(given) | (given < 0) | (absent & ~absent.all(axis=1, keepdims=True))
    for n, g in np.argwhere(wrong):
        raise ProblemError(f"must be a finite number >= 0, not {given[n, g]}", f"users[{n}].rates")
    return None if absent.all() else given


def _check_amounts(problem: Problem) -> None:
    """Raise ProblemError for unusable amounts, and for a user that demands nothing."""
    resources = problem.cluster.resources
    check_amounts(problem.cluster.capacity, resources, "servers[{}].capacity")
    check_amounts(problem.demand, resources, "users[{}].demand")
    without = ~(problem.demand > 0).any(axis=1)
    if problem.users.rates is not None:
        without &= np.isnan(problem.users.rates).all(axis=1)
    for n in np.flatnonzero(without):
        raise ProblemError(f"user {problem.users.names[n]!r} demands nothing", f"users[{n}].demand")


def check_problem(problem: object) -> None:
    """Raise InputError for anything but a Problem, such as the name of a file."""
    if not isinstance(problem, Problem):
        fault = f"must be a Problem, such as fairlead.load(file) gives, not {problem!r:.60}"
        raise InputError(fault, "problem")


def _check_placeable(problem: Problem) -> None:
    """Raise ProblemError, with the reason, for users that fit no server."""
    # `runnable` is gamma > 0, but the large table gamma is not computed and cached.
    asks, lacks = problem.demand > 0, ~(problem.cluster.capacity > 0)
    open_to = problem.users.eligible & (problem.count > 0)
    runnable = open_to & ~(asks.astype(np.float32) @ lacks.T.astype(np.float32) > 0)
    if problem.users.rates is not None:
        has_rates = ~np.isnan(problem.users.rates[:, 0])
        runnable[has_rates] = open_to[has_rates] & (problem.users.rates[has_rates] > 0)
    for n in np.flatnonzero(~runnable.any(axis=1) & (problem.task_limit > 0)):
        rates = None if problem.users.rates is None else problem.users.rates[[n]]
        eligible = problem.users.eligible[[n]]
        # Tasks are divisible: a task fits unless a resource is missing, however large it is.
        largest = problem.cluster.capacity[open_to[n]].max(axis=0, initial=0.0)
        demand = np.where(
            largest > 0, np.minimum(problem.demand[[n]], largest), problem.demand[[n]]
        )
        why = find_unplaceable(problem.cluster, demand, eligible, rates)[0]
        fault = f"user {problem.users.names[n]!r} fits no server: {why}"
        raise ProblemError(fault, f"users[{n}]")
