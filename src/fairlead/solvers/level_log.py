"""A log of levels: the lowest level of each kind of participant after each step.

Participants that demand the same resources are of one *kind*; they rise from the lowest level
together. So a participant's level is the maximum, since its arrival, of its kind's lowest level.
The levels of P participants over P steps, P^2 / 2 numbers, fit into a log with one entry for each
kind that rose in a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class LevelLog:
    """The levels of all participants after every step."""

    kind: IntArray  # (P,): kind of each participant; kinds are numbered by first arrival
    step: IntArray  # (L,): steps, counted from 1, in which a kind rose; never decreasing
    of_kind: IntArray  # (L,): the kind that rose
    level: FloatArray  # (L,): its lowest level after the step

    def levels_at(self, step: int) -> FloatArray:
        """Return the levels (step,) of the participants present after a step.

        O(K P + L log L) for K kinds.
        """
        until = int(np.searchsorted(self.step, step, side="right"))
        of_kind, level = self.of_kind[:until], np.zeros(step)
        order = np.argsort(of_kind, kind="stable")
        bounds = np.searchsorted(of_kind[order], np.arange(int(self.kind.max(initial=-1)) + 2))
        for kind, (start, end) in enumerate(pairwise(bounds)):
            rises = order[start:end]
            # Participant i arrived in step i + 1, and takes part in rises from that step on.
            arrived = np.flatnonzero(self.kind[:step] == kind)
            first = np.searchsorted(self.step[rises], arrived, side="right")
            highest = np.maximum.accumulate(self.level[rises][::-1])[::-1]
            level[arrived] = np.append(highest, 0.0)[first]
        return level


def number_kinds(demand: FloatArray) -> IntArray:
    """Return (P,) the kind of each row of demands (P, R), numbered by first appearance."""
    n_participants, n_resources = demand.shape
    n_bytes = -(-n_resources // 8)
    # NumPy packs one long row three times as fast as many short ones.
    demanded = np.zeros((n_participants, 8 * n_bytes), dtype=np.bool_)
    demanded[:, :n_resources] = demand > 0
    # NumPy sorts single bytes by counting, and raw bytes (V) by comparisons.
    rows = np.packbits(demanded).view("u1" if n_bytes == 1 else f"V{n_bytes}")
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    numbered: IntArray = rank[inverse.ravel()]
    return numbered
