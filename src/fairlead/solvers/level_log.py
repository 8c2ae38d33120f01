"""Everybody's level after any step, kept as the least level of each kind after each step.

Of participants that demand the same resources (of one *kind*) all rise from the least level
together, so a participant's level is the largest that its kind's least level ever was since it
came. The levels of P participants over as many steps, P^2 / 2 numbers, thus fit into a log with an
entry for each kind that rose in a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class LevelLog:
    """What rose when."""

    # (P,): kind of each participant, in order of arrival; kinds are numbered by first arrival.
    kind: IntArray
    step: IntArray  # (L,): steps, counted from 1, in which a kind rose; never decreasing
    of_kind: IntArray  # (L,): the kind that rose
    level: FloatArray  # (L,): its least level after the step

    def levels_at(self, step: int) -> FloatArray:
        """Return (step,) the levels of those who had come, after a step.

        O(K P + L log L) for K kinds.
        """
        until = int(np.searchsorted(self.step, step, side="right"))
        of_kind, level = self.of_kind[:until], np.zeros(step)
        order = np.argsort(of_kind, kind="stable")
        bounds = np.searchsorted(of_kind[order], np.arange(int(self.kind.max(initial=-1)) + 2))
        for kind, (begin, end) in enumerate(pairwise(bounds)):
            rises = order[begin:end]
            # Participant i came in step i + 1: the first rise that counts is at or after it.
            came = np.flatnonzero(self.kind[:step] == kind)
            first = np.searchsorted(self.step[rises], came, side="right")
            highest = np.maximum.accumulate(self.level[rises][::-1])[::-1]
            level[came] = np.append(highest, 0.0)[first]
        return level


def number_kinds(demand: FloatArray) -> IntArray:
    """Return (P,) the kinds of the rows of a (P, R) table: which resources they demand."""
    packed = np.packbits(demand > 0, axis=1)
    rows = np.ascontiguousarray(packed).view(f"V{packed.shape[1]}").ravel()
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    numbered: IntArray = rank[inverse.ravel()]
    return numbered
