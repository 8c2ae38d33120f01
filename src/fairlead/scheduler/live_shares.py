"""The current shares of queues, and their fair shares by a mechanism.

Shares are of the usable capacity: that of open servers, and on draining servers the amounts that
still run there. The fair share of a queue of weight 0 is 0.

This module is never compiled: its types are NumPy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.mechanisms.catalogue import find_mechanism
from fairlead.mechanisms.fair_share import FairShares
from fairlead.model.allocation import Allocation, Certificate
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.queues import TOP, Queues
from fairlead.model.task_kinds import dominant_share
from fairlead.scheduler._demands import Demands, UsableServers
from fairlead.scheduler._entities import Queue, path_of, sorted_by_serial
from fairlead.scheduler._state import State

# A share above this part of the fair one counts as fair: rounding and whole tasks cost a little.
FAIR_ENOUGH = 0.999


class QueueShare(NamedTuple):
    """A queue's dominant share by weight, its fair share, and the difference.

    Attributes
    ----------
    name : str
    share, fair_share : float
        Shares of the usable capacity, over the weight; for a queue of weight 0, its share and 0.
    difference : float
        `share` less `fair_share`.
    waiting, running : int
        Tasks.
    weight : float
        Shares times it are parts of the usable capacity; of a queue of weight 0 they are already.
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
        """The part of the usable capacity that it holds."""
        return self.share * (self.weight or 1.0)

    @property
    def fair(self) -> float:
        """The part of the usable capacity that is fair."""
        return self.fair_share * (self.weight or 1.0)

    @property
    def is_short(self) -> bool:
        """Whether tasks wait while the queue holds less than its fair share."""
        return self.waiting > 0 and self.share < FAIR_ENOUGH * self.fair_share


@dataclass(frozen=True)
class LiveShares:
    """The shares of all queues and their fair shares, with a proof.

    Waiting tasks that fit on no open server, not even an empty one, do not count.

    Attributes
    ----------
    mechanism : str
    queues : tuple of QueueShare
        In the order in which they were added.
    allocation : Allocation or None
        The mechanism's answer, with a row for each kind of a queue's tasks; None if no tasks
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
        """Return all of it as plain values, for JSON."""
        proof = self.certificate
        return {
            "mechanism": self.mechanism,
            "users": [queue._asdict() | {"is_short": queue.is_short} for queue in self.queues],
            "certificate": None if proof is None else proof.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class SharesQuestion:
    """A copy of the data of `LiveShares`, which another thread can answer.

    There are N queues, K kinds of a queue's tasks, G groups of equal servers, and P sets of groups
    where tasks may run.
    """

    mechanism: str
    names: tuple[str, ...]  # queues in the order in which they were added
    weight: FloatArray  # (N,)
    waiting: IntArray  # (N,) tasks
    running: IntArray  # (N,) tasks
    user: IntArray  # (K,) the queue of a kind
    place: IntArray  # (K,) where its tasks may run: a row of `places`
    places: BoolArray  # (P, G)
    demand: FloatArray  # (K, R) the mean of its tasks
    active: IntArray  # (K,) tasks that count
    active_running: IntArray  # (K,) those of them that run
    capacity: FloatArray  # (G, R) usable of one server of a group
    servers: IntArray  # (G,)
    amount: FloatArray  # (R,) of all servers
    usable: FloatArray  # (R,) the usable part of it
    used: FloatArray  # (R,) of running tasks
    # Waiting tasks that fit on no server, not even an empty one; tasks of a gang count one by one.
    too_large: int
    tree: Queues | None  # the queues with queues below them, as the tree of the N others
    order: IntArray  # the position, in order of adding, of these queues and then of the others

    def answer(self) -> LiveShares:
        """Return the shares; raises as `Scheduler.shares` does."""
        shares = FairShares(
            self.user,
            self.place,
            self.demand,
            self.places,
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
            below = np.array([tree.with_queue_above(q) for q in range(len(tree.names))])
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


def ask_shares(state: State, quanta: list[Fraction], mechanism: str) -> SharesQuestion:
    """Return the data of the shares of all queues. O(groups, servers and running tasks)."""
    find_mechanism(mechanism)
    all_queues = sorted_by_serial(state.queues.values())
    inner = [queue for queue in all_queues if queue.children]
    queues = [queue for queue in all_queues if not queue.children]
    position = {queue: k for k, queue in enumerate(all_queues)}
    demands = Demands(state)
    unit = np.array([float(quantum) for quantum in quanta])
    number = {queue: n for n, queue in enumerate(queues)}
    where = list(dict.fromkeys(kind.constraint for kind in demands.kinds))
    allowed = np.array(
        [[constraint.admits[row.kind] for row in demands.usable] for constraint in where],
        dtype=np.bool_,
    ).reshape(len(where), len(demands.usable))
    # Constraints that admit the same servers are one row.
    places, row_of = np.unique(allowed, axis=0, return_inverse=True)
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
        places,
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
    """Return the weight of a queue, 0 if one above it has weight 0."""
    if any(above.weight[0] == 0 for above in path_of(queue)):
        return 0.0
    return queue.weight[0] / queue.weight[1]


def tree_of(inner: list[Queue], leaves: list[Queue]) -> Queues:
    """Return the tree of the leaves. Queues of weight 0 get 1, as leaves below them get 0."""
    number = {queue: q for q, queue in enumerate(inner)}

    def parents(queues: list[Queue]) -> IntArray:
        above = [None if queue.parent is None else number.get(queue.parent) for queue in queues]
        return np.array([TOP if q is None else q for q in above], dtype=np.int64)

    weight = [weight_below(queue) or 1.0 for queue in inner]
    names = tuple(queue.name for queue in inner)
    return Queues(names, np.array(weight), parents(inner), parents(leaves))


def capacities(rows: list[UsableServers], unit: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return (G, R) the amounts of one server of each group, and (G,) the numbers of servers."""
    amounts = matrix([row.amounts for row in rows], len(unit)) * unit
    return amounts, np.array([row.servers for row in rows], dtype=np.int64)


def matrix(rows: Sequence[Sequence[Any]], width: int) -> FloatArray:
    """Return rows as an array, also without any."""
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)
