"""Everybody's level after any step, kept as the least level of each kind after each step.

Of participants that demand the same resources (of one *kind*) all rise from the least level
together, so a participant's level is the largest that its kind's least level ever was since it
came. The levels of P participants over as many steps, P^2 / 2 numbers, thus fit into a log with an
entry for each kind that rose in a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.optimize.compiling import kernel


@dataclass(frozen=True, eq=False)
class LevelLog:
    """What rose when."""

    # (P,): kind of each participant, in order of arrival; kinds are numbered by first arrival.
    kind: IntArray
    step: IntArray  # (L,): steps, counted from 1, in which a kind rose; never decreasing
    of_kind: IntArray  # (L,): the kind that rose
    level: FloatArray  # (L,): its least level after the step

    def levels_at(self, step: int) -> FloatArray:
        """Return (step,) the levels of those who had come, after a step. O(P + L)."""
        kind = self.kind[:step]
        until = int(np.searchsorted(self.step, step, side="right"))
        level = np.zeros(step)
        n_kinds = int(self.kind.max(initial=-1)) + 1
        read_levels(
            kind,
            self.step[:until],
            self.of_kind[:until],
            self.level[:until],
            np.zeros(n_kinds),
            level,
        )
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


@kernel
def read_levels(
    kind: IntArray,
    log_step: IntArray,
    log_kind: IntArray,
    log_level: FloatArray,
    highest: FloatArray,
    level: FloatArray,
) -> None:
    """Set `level` (P,) to the largest of a kind's least levels since each came: O(P + L).

    The log reaches up to the step asked for; `kind` is (P,), `highest` (K,) zeros, as scratch.
    """
    entry = log_step.size - 1
    for i in range(kind.size - 1, -1, -1):
        while entry >= 0 and log_step[entry] > i:
            highest[log_kind[entry]] = max(highest[log_kind[entry]], log_level[entry])
            entry -= 1
        level[i] = highest[kind[i]]
