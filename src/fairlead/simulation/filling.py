"""Progressive filling: submit all tasks at once, place them, and explain why no more fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairlead.certificates.filling_replay import certify_filling
from fairlead.errors import RefusalError
from fairlead.garbage_collection import garbage_collection_paused
from fairlead.model.allocation import Allocation, Certificate
from fairlead.model.arguments import switch, whole_number
from fairlead.model.cluster import FloatArray, IntArray, choose_devices
from fairlead.model.notebooks import Plottable, labelled
from fairlead.model.problem import Problem, check_problem
from fairlead.model.quanta import to_quanta
from fairlead.model.quantity import ratio
from fairlead.model.workload_checks import MOST_SERVERS
from fairlead.scheduler.argument_checks import LARGEST
from fairlead.scheduler.policies import Policy, find_policy
from fairlead.scheduler.random_order import RandomOrder
from fairlead.solvers.water_filling import WaterFilling

PORTION = 2**16  # placements between two reports of progress and chances to interrupt
MOST_TASKS = 50_000_000  # these take 2.5 GB, and some seconds
LATE = 1e-12  # replaces a weight of 0: users of weight 0 are served after all others


@dataclass(frozen=True, eq=False, repr=False)
class Filling(Plottable):
    """Whole tasks on servers, in the order in which they were placed.

    `to_frame` has a row for each user; ``to_frame("tasks")`` the tasks of users by groups, and
    ``to_frame("unused")`` the unused amounts of groups by resources.

    Attributes
    ----------
    problem : Problem
        The problem that was filled.
    policy : Policy
        Criterion and selection.
    tasks : (N, G) int
        Tasks of each user on each group.
    order : (P, 2) int
        User and server of each placement. Servers are numbered through all groups, in the
        problem's order.
    """

    problem: Problem
    policy: Policy
    tasks: IntArray
    order: IntArray
    frames = ("users", "tasks", "unused")

    def __repr__(self) -> str:
        """Return a summary on one line."""
        return (
            f"<Filling by {self.policy.name}: {len(self.order):,} tasks, "
            f"N={self.problem.n_users} users, G={self.problem.n_groups} groups>"
        )

    @cached_property
    def user_tasks(self) -> IntArray:
        """(N,) int: tasks of each user on all servers."""
        total: IntArray = self.tasks.sum(axis=1)
        return total

    @cached_property
    def unused(self) -> FloatArray:
        """(G, R) float: unused amount of each resource on all servers of each group.

        It is counted in quanta, so that a full group has 0 and not a rounding error.
        """
        quanta = to_quanta(self.problem)
        unused = np.empty((self.problem.n_groups, self.problem.n_resources))
        tasks = self.tasks.astype(object)
        for r, per_unit in enumerate(quanta.per_unit):
            used = tasks.T @ quanta.demand[:, r].astype(object)
            total = quanta.capacity[:, r].astype(object) * self.problem.count.astype(object)
            unused[:, r] = [float((a - b) / per_unit) for a, b in zip(total, used, strict=True)]
        return unused

    @cached_property
    def certificate(self) -> Certificate:
        """Proof by replaying the order; see `certify_filling`."""
        return certify_filling(
            self.problem,
            self.policy.criterion,
            self.policy.select,
            self.policy.residual,
            self.order,
        )

    def _columns(self, what: str) -> Mapping[str, Any]:
        cluster, users = self.problem.cluster, self.problem.users.names
        if what == "tasks":
            return labelled(users, cluster.groups, self.tasks)
        if what == "unused":
            return labelled(cluster.groups, cluster.resources, self.unused, "group")
        share = self.to_allocation().dominant_share
        return {"user": list(users), "tasks": self.user_tasks, "dominant_share": share}

    def to_allocation(self) -> Allocation:
        """Return the tasks as an allocation, with the policy's name and the certificate."""
        tasks = self.tasks.astype(np.float64)
        return Allocation(self.problem, self.policy.name, tasks, self.certificate)


def fill(
    problem: Problem,
    criterion: str = "drf",
    select: str = "best-fit",
    *,
    residual: bool = False,
    seed: int | np.random.SeedSequence = 0,
) -> Filling:
    """Fill the servers with whole tasks, one by one, until nothing more fits.

    Parameters
    ----------
    problem : Problem
        Users' task limits are rounded down to whole tasks.
    criterion : str
        Score of users: ``"drf"``, ``"tsf"`` or ``"ps-dsf"``. The next task goes to the user with
        the lowest score.
    select : str
        Selection of the server of that task: ``"first-fit"``, ``"best-fit"``,
        ``"best-fit-first"``, ``"rrr"`` or ``"joint"``.
    residual : bool
        Whether the score uses free amounts instead of capacities.
    seed : int or SeedSequence
        Seed of ``"rrr"``, which is random; the same seed gives the same answer.

    Returns
    -------
    Filling

    Raises
    ------
    InputError
        When the criterion or the selection is not known.
    RefusalError
        When criterion and selection cannot be combined, when a user with tasks has rates, when the
        problem has queues or weights per resource, or when more than fifty million tasks would be
        placed.

    Notes
    -----
    Wang, Liang and Li 2015, V-B; Kesidis et al., IV and VI. Ties go to the earlier user
    (``best-fit-first``: the later), then to the earlier server. Amounts are whole quanta, so
    scores have no rounding errors.

    Examples
    --------
    >>> import fairlead
    >>> problem = fairlead.Problem.from_arrays([[9, 18]], [[1, 4], [3, 1]])
    >>> filled = fairlead.fill(problem, criterion="drf", select="best-fit")
    >>> filled.tasks.tolist()
    [[3], [2]]
    """
    policy = find_policy(criterion, select, switch(residual, "residual"))
    return fill_by(problem, policy, seed)


def fill_by(
    problem: Problem,
    policy: Policy,
    seed: int | np.random.SeedSequence = 0,
    on_portion: Callable[[int, int], None] | None = None,
) -> Filling:
    """Fill the servers by a policy; see `fill`.

    `on_portion` is called regularly with the number of placed tasks and their expected total.
    """
    check_problem(problem)
    if not isinstance(seed, np.random.SeedSequence):
        whole_number(seed, "seed")
    _refuse_undefined(problem, policy)
    _refuse_too_many(problem, policy)
    expected = 0 if on_portion is None else round(_expected_tasks(problem))
    portions, placed = [], 0
    for portion in _placements(problem, policy, seed):
        portions.append(np.stack(portion, axis=1))
        placed += len(portions[-1])
        if on_portion is not None:
            on_portion(placed, max(placed, expected))
    order = np.concatenate(portions) if portions else np.zeros((0, 2), dtype=np.int64)
    n_users, n_groups = problem.n_users, problem.n_groups
    group = np.repeat(np.arange(n_groups), problem.count)
    cells = order[:, 0] * n_groups + group[order[:, 1]]
    tasks = np.bincount(cells, minlength=n_users * n_groups).reshape(n_users, n_groups)
    return Filling(problem, policy, tasks, order)


def _placements(
    problem: Problem, policy: Policy, seed: int | np.random.SeedSequence
) -> Iterator[tuple[list[int], list[int]]]:
    """Submit all tasks and place them; yield portions: the users and the servers of placements."""
    quanta = to_quanta(problem)
    resources, order = list(problem.cluster.resources), RandomOrder(seed)
    cycle = policy.make_cycle(resources, order, devices=quanta.device)
    state = cycle.state
    rows = zip(quanta.capacity.tolist(), problem.count.tolist(), strict=True)
    for group, (capacity, count) in enumerate(rows):
        for _ in range(count):
            number = len(state.servers)
            state.add_server(str(number), number, capacity, frozenset(), f"group {group}")
    limit = np.minimum(np.floor(problem.task_limit), LARGEST // problem.n_users).astype(np.int64)
    for n, weight in enumerate(problem.weight.tolist()):
        name = problem.users.names[n]
        state.make_queue(name, ratio(weight))
        if limit[n] > 0:
            groups = np.flatnonzero(problem.users.eligible[n])
            admitted = frozenset(f"group {group}" for group in groups)
            state.submit_tasks(name, quanta.demand[n].tolist(), int(limit[n]), admitted)
    with garbage_collection_paused():
        while started := cycle.start_tasks(PORTION):
            users = [task.group.waiting_list.queue.serial for task in started]
            yield users, [task.server.order for task in started]


def _refuse_undefined(problem: Problem, policy: Policy) -> None:
    """Raise `RefusalError` for a policy or problem for which filling is not defined."""
    rates = problem.users.rates
    if rates is not None and not np.isnan(rates[problem.task_limit >= 1]).all():
        raise RefusalError(policy.name, "given rates divide a server's time; tasks take amounts")
    if problem.users.resource_weight is not None:
        raise RefusalError(policy.name, "weights per resource are defined on one pool only")
    if problem.users.queues is not None:
        raise RefusalError(policy.name, "queues are not filled at once; use allocate or simulate")
    if policy.criterion in ("fifo", "easy"):
        raise RefusalError(policy.name, "orders jobs by arrival; here all arrive at once")
    if policy.is_oblivious or policy.slots:
        raise RefusalError(policy.name, "is defined for jobs that come and go; use simulate")


def _refuse_too_many(problem: Problem, policy: Policy) -> None:
    """Raise `RefusalError` for too many servers or tasks."""
    servers = int(problem.count.sum())
    if servers > MOST_SERVERS:
        raise RefusalError(
            policy.name, f"there are {servers:,} servers, more than {MOST_SERVERS:,} to place on"
        )
    if _tasks_alone(problem).sum() <= MOST_TASKS:
        return
    expected = _expected_tasks(problem)
    if expected > MOST_TASKS:
        raise RefusalError(
            policy.name,
            f"would place about {float(f'{expected:.6g}'):,.0f} tasks, more than {MOST_TASKS:,}",
        )


def _tasks_alone(problem: Problem) -> FloatArray:
    """Return (N,) the number of tasks that each user would have if it were alone."""
    fitting = np.where(problem.users.eligible, problem.fitting, 0.0).sum(axis=1)
    tasks: FloatArray = np.minimum(problem.task_limit, fitting)
    return tasks


def _expected_tasks(problem: Problem) -> float:
    """Return the number of divisible tasks that DRF would place on one pool of all servers."""
    total = np.where(problem.total_capacity > 0, problem.total_capacity, 1.0)
    use = problem.demand / total
    weight = np.where(problem.weight > 0, problem.weight, LATE)
    largest = use.max(axis=1)  # 0 for an idle user with rates
    rate = weight / np.where(largest > 0, largest, 1.0)
    width = _tasks_alone(problem) / rate
    start = np.zeros(problem.n_users)
    filling = WaterFilling(rate.tolist(), use.T.tolist())
    return sum(filling.divide(start.tolist(), width.tolist()))


@dataclass(frozen=True)
class Lack:
    """Why no further task of a user fits."""

    user: str
    left: float  # tasks without a server; infinite for a user without a limit
    servers: int  # number of servers that the user may use
    lacking: dict[str, int]  # number of these servers that lack each resource
    # The server with the largest free fraction of the demand, in the scarcest resource there.
    nearest: str
    # Free and demanded amount on `nearest`, by column of each resource that it lacks; empty if the
    # task fits. Of a resource in devices, the free amount is what the task could use: the largest
    # free part of one device, or the wholly free devices.
    amounts: dict[int, tuple[float, float]]


class RoomLeft:
    """Finds the free amounts of S servers after a filling, and why no further task fits."""

    def __init__(self, filling: Filling) -> None:
        problem = self._problem = filling.problem
        self._left = np.floor(problem.task_limit) - filling.user_tasks
        self._quanta = to_quanta(problem)
        self._group = np.repeat(np.arange(problem.n_groups), problem.count)  # (S,)
        self._first = np.cumsum(problem.count) - problem.count
        self._order = filling.order

    @cached_property
    def _free(self) -> IntArray:
        """(S, R): free amounts in quanta."""
        free = self._quanta.capacity[self._group]
        np.subtract.at(free, self._order[:, 1], self._quanta.demand[self._order[:, 0]])
        return free

    @cached_property
    def _free_devices(self) -> dict[int, list[list[int]]]:
        """By column of a resource in devices: the free quanta of each device of each server."""
        quanta, found = self._quanta, {}
        for r, unit in quanta.device.items():
            free = [[unit] * (k // unit) for k in quanta.capacity[self._group, r].tolist()]
            for user, server in self._order.tolist():
                asked = int(quanta.demand[user, r])
                numbers = choose_devices(free[server], asked, unit) if asked else []
                for number in numbers:
                    free[server][number] -= min(asked, unit)
            found[r] = free
        return found

    @property
    def unfinished(self) -> list[int]:
        """Users with tasks left, those with the most tasks left first."""
        return [int(n) for n in np.argsort(-self._left, kind="stable") if self._left[n] > 0]

    def lack(self, n: int) -> Lack:
        """Return why no server can take another task of a user; O(S R)."""
        problem, quanta = self._problem, self._quanta
        where = np.flatnonzero(problem.users.eligible[n][self._group])
        asked = quanta.demand[n]
        free = self._usable(asked)[where]
        lacks = free < asked
        columns = np.flatnonzero(lacks.any(axis=0))
        fraction = np.where(lacks, free / np.maximum(asked, 1), 1.0).min(axis=1)
        best = int(fraction.argmax())
        names, units = problem.cluster.resources, quanta.per_unit
        return Lack(
            problem.users.names[n],
            float(self._left[n]),
            len(where),
            {names[r]: int(lacks[:, r].sum()) for r in columns},
            self._server_name(int(where[best])),
            {
                int(r): (float(int(free[best, r]) / units[r]), float(int(asked[r]) / units[r]))
                for r in np.flatnonzero(lacks[best])
            },
        )

    def _usable(self, asked: IntArray) -> IntArray:
        """Return (S, R) free amounts that a task with this demand could take, in quanta."""
        usable = self._free.copy()
        for r, free in self._free_devices.items():
            unit = self._quanta.device[r]
            is_part = 0 < asked[r] < unit  # of one device
            for server, amounts in enumerate(free):
                usable[server, r] = (
                    max(amounts, default=0) if is_part else unit * amounts.count(unit)
                )
        return usable

    def _server_name(self, server: int) -> str:
        g = int(self._group[server])
        name = self._problem.cluster.groups[g]
        return name if self._problem.count[g] == 1 else f"{name}-{server - self._first[g]}"
