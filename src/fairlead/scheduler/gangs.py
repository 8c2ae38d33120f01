"""Gangs: jobs of which all tasks start together or none; compiled.

Each set of a gang is a kind of its own. Its first kind, the head, stands for all of it in the
backlog, with its first set as long as anything of the gang waits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import BoolArray, IntArray


class Gangs(NamedTuple):
    """Which of N kinds belong to gangs.

    Attributes
    ----------
    is_head : (N,) bool
        Kinds that stand for a gang.
    head : (N,) int
        The head of each kind's gang; the kind itself without a gang.
    next_member : (N,) int
        The gang's next kind, or -1.
    set_of : (N,) int
        The set that each kind of a gang is; -1 without a gang.
    has_failed : (N,) bool
        Heads of gangs that did not fit, and for which no server was freed since that takes one of
        their tasks.
    failed : (heads,) int
        The same, in any order.
    n_failed : (1,) int
        How many there are.
    """

    is_head: BoolArray
    head: IntArray
    next_member: IntArray
    set_of: IntArray
    has_failed: BoolArray
    failed: IntArray
    n_failed: IntArray


def no_gangs(n_kinds: int) -> Gangs:
    """Return N kinds without gangs."""
    return Gangs(
        is_head=np.zeros(n_kinds, dtype=bool),
        head=np.arange(n_kinds),
        next_member=np.full(n_kinds, -1, dtype=np.int64),
        set_of=np.full(n_kinds, -1, dtype=np.int64),
        has_failed=np.zeros(n_kinds, dtype=bool),
        failed=np.zeros(0, dtype=np.int64),
        n_failed=np.zeros(1, dtype=np.int64),
    )


def gangs_of(set_kinds: IntArray, set_gang: IntArray, n_kinds: int) -> Gangs:
    """Return the gangs of sets.

    Parameters
    ----------
    set_kinds : (K,) int
        The kind of each set; the kinds of gangs' sets occur once.
    set_gang : (K,) int
        Which gang each set belongs to, adjacent for one gang; -1 without a gang.
    n_kinds : int
        N.
    """
    gangs = no_gangs(n_kinds)
    members = np.flatnonzero(set_gang >= 0)
    kinds = set_kinds[members]
    gangs.set_of[kinds] = members
    gang = set_gang[members]
    is_first = np.diff(gang, prepend=-1) != 0
    heads = kinds[is_first]
    gangs.is_head[heads] = True
    gangs.head[kinds] = heads[np.cumsum(is_first) - 1]
    follows = ~is_first
    gangs.next_member[kinds[:-1][follows[1:]]] = kinds[follows]
    return gangs._replace(failed=np.zeros(len(heads), dtype=np.int64))
