"""What queues hold, and what a fair mechanism would give them, at this moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fairlead.errors import RefusalError
from fairlead.mechanisms.catalogue import find_mechanism
from fairlead.mechanisms.fair_share import FairShares
from fairlead.model.allocation import Allocation, Certificate
from fairlead.model.cluster import FloatArray

# What is fair under each criterion, unless another mechanism is asked for.
MECHANISMS = {"drf": "drfh", "tsf": "tsf", "ps-dsf": "ps-dsf", "fifo": "drfh", "easy": "drfh"}


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


@dataclass(frozen=True)
class LiveShares:
    """What everybody holds and what is fair, with the proof of that.

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
            "users": [queue._asdict() for queue in self.queues],
            "certificate": None if proof is None else proof.to_dict(),
        }


def shares_of(scheduler: Any, mechanism: str) -> LiveShares:
    """Return what the queues of a scheduler hold and should hold."""
    find_mechanism(mechanism)
    core, n = scheduler._core, len(scheduler.resources)
    if core.queues["children"].any():
        raise RefusalError(mechanism, "is not defined for queues that have queues below them")
    units = np.array([float(q) for q in scheduler._quanta])
    lines = core.lines[: core.numbers[0].lines]
    lines = lines[(lines["task_shape"] >= 0) & (lines["waiting"] + lines["running"] > 0)]
    shape = lines["task_shape"]
    kinds = np.flatnonzero(core.kinds["count"] > 0)
    # Predicates that hold for the same servers are one place.
    asked, of = np.unique(core.shapes["where"][shape], return_inverse=True)
    may = core.may[asked][:, core.kinds["klass"][kinds]]
    places, place = np.unique(may, axis=0, return_inverse=True)
    order = list(scheduler._queues.values())
    weight = core.queues["weight"][: len(scheduler._queue_names)].copy()
    shares = FairShares(
        lines["queue"],
        place.reshape(-1)[of],
        core.demand[shape][:, :n] * units,
        places,
        weight,
        mechanism,
    )
    capacity = core.kind_capacity[kinds][:, :n] * units
    count = core.kinds["count"][kinds]
    amount: FloatArray = count @ capacity
    held = shares.held(lines["running"], amount)
    fair = shares.fair(lines["waiting"] + lines["running"], capacity, count)
    rows = zip(order, held[order].tolist(), fair.share[order].tolist(), strict=True)
    return LiveShares(
        mechanism,
        tuple(
            QueueShare(
                scheduler._queue_names[q],
                has,
                due,
                has - due,
                int(core.queues[q].waiting),
                int(core.queues[q].running),
            )
            for q, has, due in rows
        ),
        fair.allocation,
    )
