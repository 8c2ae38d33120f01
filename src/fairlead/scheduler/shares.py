"""What queues hold, and what a fair mechanism would give them, at this moment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fairlead.errors import RefusalError
from fairlead.mechanisms.catalogue import find_mechanism
from fairlead.mechanisms.fair_share import FairShares
from fairlead.model.allocation import Allocation, Certificate
from fairlead.model.cluster import BoolArray, FloatArray, IntArray

# What is fair under each criterion, unless another mechanism is asked for.
MECHANISMS = {"drf": "drfh", "tsf": "tsf", "ps-dsf": "ps-dsf", "fifo": "drfh", "easy": "drfh"}
# A share above this part of the fair one is fair: rounding and whole tasks are no unfairness.
FAIR_ENOUGH = 0.999


class QueueShare(NamedTuple):
    """A queue's dominant share by weight: what it holds, what is fair, and how far that is apart.

    Attributes
    ----------
    name : str
    share, fair_share : float
        Parts of all servers that are there, over the weight.
    difference : float
        `share` less `fair_share`.
    waiting, running : int
        Tasks.
    """

    name: str
    share: float
    fair_share: float
    difference: float
    waiting: int
    running: int

    @property
    def is_short(self) -> bool:
        """Whether tasks wait while the queue holds less than its fair share."""
        return self.waiting > 0 and self.share < FAIR_ENOUGH * self.fair_share


@dataclass(frozen=True)
class LiveShares:
    """What everybody holds and what is fair, with the proof of that.

    Tasks that wait and fit on no server, not even an empty one, are due nothing.

    Attributes
    ----------
    mechanism : str
    queues : tuple of QueueShare
        In the order in which they were added.
    allocation : Allocation or None
        The mechanism's answer, a row for each kind of a queue's tasks (`LiveShares`); None where
        nobody wants anything that is there.
    """

    mechanism: str
    queues: tuple[QueueShare, ...]
    allocation: Allocation | None

    @property
    def certificate(self) -> Certificate | None:
        """Why the fair shares are the mechanism's answer."""
        return None if self.allocation is None else self.allocation.certificate

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        proof = self.certificate
        return {
            "mechanism": self.mechanism,
            "users": [queue._asdict() | {"is_short": queue.is_short} for queue in self.queues],
            "certificate": None if proof is None else proof.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class SharesQuestion:
    """What shares follow from: copies, which another thread may answer while the scheduler goes on.

    L kinds of a queue's tasks that wait or run, on G groups of alike servers.

    Attributes
    ----------
    mechanism : str
    names : tuple of str
        Queues in the order in which they were added.
    order : (Q,) int
        Their rows.
    weight, waiting, running : (N,) float, int and int
        By row.
    line_queue, line_waiting, line_running : (L,) int
        Row of the queue, and tasks.
    where : (L,) int
        Where the tasks may run: a row of `may`.
    may : (P, G) bool
    demand : (L, R) float
        Of a task.
    capacity, count : (G, R) float, (G,) int
        Of one server of the group, and how many are there.
    """

    mechanism: str
    names: tuple[str, ...]
    order: IntArray
    weight: FloatArray
    waiting: IntArray
    running: IntArray
    line_queue: IntArray
    line_waiting: IntArray
    line_running: IntArray
    where: IntArray
    may: BoolArray
    demand: FloatArray
    capacity: FloatArray
    count: IntArray

    @property
    def amount(self) -> FloatArray:
        """(R,) float: what all servers have that are there."""
        amount: FloatArray = self.count @ self.capacity
        return amount

    @property
    def used(self) -> FloatArray:
        """(R,) float: what running tasks take."""
        used: FloatArray = self.line_running @ self.demand
        return used

    @cached_property
    def fits(self) -> BoolArray:
        """(L,) bool: whether a server that is there could take such a task if it were empty.

        O(L G R).
        """
        fits = np.zeros(len(self.demand), dtype=np.bool_)
        for capacity, may in zip(self.capacity, self.may.T, strict=True):
            rest = np.flatnonzero(~fits)
            if not len(rest):
                break
            fits[rest] = may[self.where[rest]] & (self.demand[rest] <= capacity).all(axis=1)
        return fits

    @property
    def too_large(self) -> int:
        """Waiting tasks that fit on no server. Tasks of a gang count one by one."""
        return int(self.line_waiting[~self.fits].sum())

    def answer(self) -> LiveShares:
        """Return the shares; raises as `Scheduler.shares` does."""
        # Predicates that hold for the same servers are one place.
        places, place = np.unique(self.may, axis=0, return_inverse=True)
        place = place.reshape(-1)[self.where]
        shares = FairShares(
            self.line_queue, place, self.demand, places, self.weight, self.mechanism
        )
        held = shares.held(self.line_running, self.amount)
        active = np.where(self.fits, self.line_waiting, 0) + self.line_running
        fair = shares.fair(active, self.capacity, self.count)
        by_row = (held, fair.share, held - fair.share, self.waiting, self.running)
        columns = (column[self.order].tolist() for column in by_row)
        queues = tuple(map(QueueShare, self.names, *columns))
        return LiveShares(self.mechanism, queues, fair.allocation)


def shares_question(scheduler: Any, mechanism: str) -> SharesQuestion:
    """Return what the shares of a scheduler's queues follow from. O(L R) and little of it."""
    find_mechanism(mechanism)
    core, n = scheduler._core, len(scheduler.resources)
    if core.queues["children"].any():
        raise RefusalError(mechanism, "is not defined for queues that have queues below them")
    units = np.array([float(q) for q in scheduler._quanta])
    lines = core.lines[: core.numbers[0].lines]
    lines = lines[(lines["task_shape"] >= 0) & (lines["waiting"] + lines["running"] > 0)]
    shape = lines["task_shape"]
    kinds = np.flatnonzero(core.kinds["count"] > 0)
    asked, where = np.unique(core.shapes["where"][shape], return_inverse=True)
    queues = core.queues[: len(scheduler._queue_names)]
    return SharesQuestion(
        mechanism,
        tuple(scheduler._queues),
        np.fromiter(scheduler._queues.values(), np.int64, len(scheduler._queues)),
        queues["weight"].copy(),
        queues["waiting"].copy(),
        queues["running"].copy(),
        lines["queue"],
        lines["waiting"],
        lines["running"],
        where.reshape(-1),
        core.may[asked][:, core.kinds["klass"][kinds]],
        core.demand[shape][:, :n] * units,
        core.kind_capacity[kinds][:, :n] * units,
        core.kinds["count"][kinds],
    )
