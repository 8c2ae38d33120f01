"""How many whole tasks are in what is held, where tasks run as a whole or not at all."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray

# Quotients of whole numbers are whole within this.
ROUNDING = 1e-9


def round_down(tasks: FloatArray) -> FloatArray:
    """Return the whole tasks in fractions of tasks, a rounding error below a whole one being it."""
    whole: FloatArray = np.floor(tasks * (1 + ROUNDING))
    return whole


def at_least_whole(tasks: FloatArray, pieces: FloatArray | None, count: IntArray) -> FloatArray:
    """Return (..., G) how many whole tasks surely fit into what is spread over identical servers.

    `tasks` would fit if each group were one server; they are held in equal `pieces`, each on one
    server (None: not equal). Every server that holds a piece loses less than one task to rounding,
    and a piece holds whole tasks of its own.
    """
    whole = round_down(tasks)
    if pieces is None:
        return np.maximum(whole - count + 1.0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(pieces > 0, pieces * round_down(tasks / pieces), 0.0)
    used = np.minimum(np.maximum(np.ceil(pieces), 1.0), count)
    return np.where(count > 1, np.maximum(each, whole - used + 1.0), whole)
