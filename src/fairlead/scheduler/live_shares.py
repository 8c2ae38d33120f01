"""The current shares of queues, and their fair shares by a mechanism.

Shares are of the usable capacity: that of open servers, and the amounts that tasks still hold on
draining servers. The fair share of a queue of weight 0 is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.mechanisms.catalogue import find_mechanism
from fairlead.mechanisms.fair_share import FairDivider
from fairlead.model.allocation import Allocation, Certificate
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.queues import TOP, Queues
from fairlead.model.task_kinds import dominant_share
from fairlead.scheduler._demands import Demands, UsableServers
from fairlead.scheduler._entities import Queue, path_of, sorted_by_serial
from fairlead.scheduler._state import State

# A queue with at least this fraction of its fair share is not short, because of rounding and whole
# tasks.
FAIR_ENOUGH = 0.999


class QueueShare(NamedTuple):
    """A queue's dominant share by weight, its fair share, and the difference.

    Attributes
    ----------
    name : str
    share, fair_share : float
        Dominant shares of the usable capacity, divided by the weight unless it is 0; a queue of
        weight 0 has a fair share of 0.
    difference : float
        `share` minus `fair_share`.
    waiting, running : int
        Numbers of tasks.
    weight : float
        0 for a leaf that has weight 0 or is below a queue of weight 0; 1 for such an inner queue.
    """

    name: str
    share: float
    fair_share: float
    difference: float
    waiting: int
    running: int
    weight: float = 1.0

    @property
    def held(self) -> float:
        """The dominant share that it holds, not divided by the weight."""
        return self.share * (self.weight or 1.0)

    @property
    def fair(self) -> float:
        """The fair dominant share, not divided by the weight."""
        return self.fair_share * (self.weight or 1.0)

    @property
    def is_short(self) -> bool:
        """Whether tasks wait while the queue holds less than its fair share."""
        return self.waiting > 0 and self.share < FAIR_ENOUGH * self.fair_share


@dataclass(frozen=True)
class LiveShares:
    """The shares of all queues, and their fair shares with a proof.

    Waiting tasks that fit on no open server, not even on an empty one, do not count.

    Attributes
    ----------
    mechanism : str
    queues : tuple of QueueShare
        In the order in which they were added.
    allocation : Allocation or None
        The mechanism's answer, with a row for each kind of tasks of a queue; None if no tasks
        count.
    """

    mechanism: str
    queues: tuple[QueueShare, ...]
    allocation: Allocation | None

    @property
    def certificate(self) -> Certificate | None:
        """The proof that the fair shares are the mechanism's answer."""
        return None if self.allocation is None else self.allocation.certificate

    def to_dict(self) -> dict[str, object]:
        """Return all fields but the allocation as plain values, for JSON."""
        proof = self.certificate
        return {
            "mechanism": self.mechanism,
            "users": [queue._asdict() | {"is_short": queue.is_short} for queue in self.queues],
            "certificate": None if proof is None else proof.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class SharesQuestion:
    """A copy of the data from which `LiveShares` are computed, perhaps by another thread.

    There are N leaf queues, K kinds of tasks (`TaskKind`), G groups of equal servers, and P sets of
    groups where tasks may run. Amounts are in units.
    """

    mechanism: str
    names: tuple[str, ...]  # (N,) leaf queues in the order in which they were added
    weight: FloatArray  # (N,)
    waiting: IntArray  # (N,) numbers of tasks
    running: IntArray  # (N,) numbers of tasks
    user: IntArray  # (K,) the queue of each kind
    server_set: IntArray  # (K,) the row of `server_sets` where tasks of each kind may run
    server_sets: BoolArray  # (P, G)
    demand: FloatArray  # (K, R) the mean demand of the tasks of each kind
    active: IntArray  # (K,) the number of tasks of each kind
    active_running: IntArray  # (K,) the same if they run, else 0
    capacity: FloatArray  # (G, R) usable amounts of one server of each group
    servers: IntArray  # (G,) number of servers
    total_capacity: FloatArray  # (R,) capacity of all servers
    usable: FloatArray  # (R,) usable amounts of all servers
    used: FloatArray  # (R,) amounts of running tasks
    # Waiting tasks that fit on no server, not even on an empty one; each task of a gang counts.
    too_large: int
    tree: Queues | None  # the tree of the inner queues; None if all queues are leaves
    # The positions, in the order of adding, of the inner queues, then of the N leaves.
    order: IntArray

    def answer(self) -> LiveShares:
        """Compute the shares; raises as `Scheduler.shares` does."""
        shares = FairDivider(
            self.user,
            self.server_set,
            self.demand,
            self.server_sets,
            self.weight,
            self.mechanism,
            self.tree,
        )
        held = shares.held(self.active_running, self.usable)
        fair = shares.fair(self.active, self.capacity, self.servers)
        columns: list[NDArray[Any]] = [
            held,
            fair.share,
            self.waiting,
            self.running,
            self.weight,
        ]
        names = self.names
        if self.tree is not None:
            tree = self.tree
            names = (*tree.names, *names)
            # (inner queues, N): whether a leaf is below an inner queue.
            below = np.array([tree.users_below(q) for q in range(len(tree.names))])
            of_queues = [
                dominant_share(below @ amounts, self.usable) / tree.weight
                for amounts in (shares.amounts(self.active_running), fair.amounts)
            ]
            of_queues += [below @ self.waiting, below @ self.running, tree.weight]
            columns = [np.concatenate(pair) for pair in zip(of_queues, columns, strict=True)]
        share, fair_share, waiting, running, weight = columns
        columns = [share, fair_share, share - fair_share, waiting, running, weight]
        rows = list(zip(names, *(column.tolist() for column in columns), strict=True))
        ordered = [QueueShare(*rows[k]) for k in np.argsort(self.order)]
        return LiveShares(self.mechanism, tuple(ordered), fair.allocation)


def copy_for_shares(state: State, quanta: list[Fraction], mechanism: str) -> SharesQuestion:
    """Copy the data from which shares are computed. O(groups, servers and running tasks)."""
    find_mechanism(mechanism)
    all_queues = sorted_by_serial(state.queues.values())
    inner = [queue for queue in all_queues if queue.children]
    queues = [queue for queue in all_queues if not queue.children]
    position = {queue: k for k, queue in enumerate(all_queues)}
    demands = Demands(state)
    unit = np.array([float(quantum) for quantum in quanta])
    number = {queue: n for n, queue in enumerate(queues)}
    # Where tasks may run, by constraint; constraints that admit the same servers are one row.
    where = list(dict.fromkeys(kind.constraint for kind in demands.kinds))
    allowed = np.array(
        [[constraint.admits[row.kind] for row in demands.usable] for constraint in where],
        dtype=np.bool_,
    ).reshape(len(where), len(demands.usable))
    server_sets, row_of = np.unique(allowed, axis=0, return_inverse=True)
    row = dict(zip(where, row_of.reshape(-1).tolist(), strict=True))
    kinds = demands.kinds
    amounts = matrix([kind.amounts for kind in kinds], len(quanta)) * unit
    active = np.array([kind.tasks for kind in kinds], dtype=np.int64)
    is_running = np.array([kind.is_running for kind in kinds], dtype=np.bool_)
    capacity, servers = capacities(demands.usable, unit)
    all_capacity, all_servers = capacities(demands.all_servers, unit)
    return SharesQuestion(
        mechanism,
        tuple(queue.name for queue in queues),
        np.array([weight_below(queue) for queue in queues]),
        np.array([int(queue.waiting) for queue in queues], dtype=np.int64),
        np.array([int(queue.running) for queue in queues], dtype=np.int64),
        np.array([number[kind.queue] for kind in kinds], dtype=np.int64),
        np.array([row[kind.constraint] for kind in kinds], dtype=np.int64),
        server_sets,
        amounts / active[:, None],
        active,
        np.where(is_running, active, 0),
        capacity,
        servers,
        all_servers @ all_capacity,
        servers @ capacity,
        amounts[is_running].sum(axis=0),
        demands.too_large,
        tree_of(inner, queues) if inner else None,
        np.array([position[queue] for queue in [*inner, *queues]], dtype=np.int64),
    )


def weight_below(queue: Queue) -> float:
    """Return the weight of a queue, or 0 if a queue above it has weight 0."""
    if any(above.weight[0] == 0 for above in path_of(queue)):
        return 0.0
    return queue.weight[0] / queue.weight[1]


def tree_of(inner: list[Queue], leaves: list[Queue]) -> Queues:
    """Return the tree of the inner queues above the leaves.

    Its weights must be positive, so inner queues of weight 0 get 1; the leaves below them have 0.
    """
    number = {queue: q for q, queue in enumerate(inner)}

    def parents(queues: list[Queue]) -> IntArray:
        above = [None if queue.parent is None else number.get(queue.parent) for queue in queues]
        return np.array([TOP if q is None else q for q in above], dtype=np.int64)

    weight = [weight_below(queue) or 1.0 for queue in inner]
    names = tuple(queue.name for queue in inner)
    return Queues(names, np.array(weight), parents(inner), parents(leaves))


def capacities(rows: list[UsableServers], unit: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return (G, R) the amounts of one server of each group in units, and (G,) their numbers."""
    amounts = matrix([row.amounts for row in rows], len(unit)) * unit
    return amounts, np.array([row.servers for row in rows], dtype=np.int64)


def matrix(rows: Sequence[Sequence[Any]], width: int) -> FloatArray:
    """Return rows as an array (rows, width); there may be no rows."""
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)
