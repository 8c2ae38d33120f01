"""What waits: each kind of task's jobs in order of arrival, each owner's kinds by their first job.

A job's tasks of one kind are a set. Sets are numbered in order of arrival, so that of two the lower
one came first. Compiled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import BoolArray, IntArray
from fairlead.optimize.compiling import inner_kernel

NONE = -1


class Backlog(NamedTuple):
    """Sets of tasks that wait; N kinds of tasks of U owners, K sets.

    Attributes
    ----------
    left : (K,) int
        Tasks of each set that wait.
    kind : (K,) int
        The kind of its tasks.
    next_set, previous_set : (K,) int
        Neighbours in the list of the kind's sets that wait, in order of arrival; or -1.
    first_set, last_set : (N,) int
        The ends of those lists.
    waiting : (N,) bool
        Kinds of which a task waits and may fit somewhere.
    next_kind, previous_kind : (N,) int
        Neighbours in the list of the owner's waiting kinds, by their first sets; or -1.
    first_kind, last_kind : (U,) int
        The ends of those lists.
    is_blocked : (N,) bool
        Kinds of which a task waits and fits nowhere.
    next_blocked, previous_blocked : (N,) int
        Neighbours in the list of the owner's blocked kinds, in any order; or -1.
    first_blocked, last_blocked : (U,) int
        The ends of those lists.
    blocked_owner, place_in_owners : (U,) int
        Owners with a blocked kind, in any order, and where each is in it, or -1.
    n_blocked_owners : (1,) int
        How many there are.
    least_blocked : (U, R) int
        Of each resource, no blocked kind of the owner takes less.
    """

    left: IntArray
    kind: IntArray
    next_set: IntArray
    previous_set: IntArray
    first_set: IntArray
    last_set: IntArray
    waiting: BoolArray
    next_kind: IntArray
    previous_kind: IntArray
    first_kind: IntArray
    last_kind: IntArray
    is_blocked: BoolArray
    next_blocked: IntArray
    previous_blocked: IntArray
    first_blocked: IntArray
    last_blocked: IntArray
    blocked_owner: IntArray
    place_in_owners: IntArray
    n_blocked_owners: IntArray
    least_blocked: IntArray


def empty_backlog(set_kinds: IntArray, n_kinds: int, n_owners: int, n_resources: int) -> Backlog:
    """Return the backlog in which nothing waits.

    Parameters
    ----------
    set_kinds : (K,) int
        The kind of each set's tasks, in order of arrival.
    n_kinds, n_owners, n_resources : int
        N, U and R.
    """

    def none(length: int) -> IntArray:
        return np.full(length, NONE, dtype=np.int64)

    n_sets = len(set_kinds)
    return Backlog(
        left=np.zeros(n_sets, dtype=np.int64),
        kind=np.asarray(set_kinds, dtype=np.int64),
        next_set=none(n_sets),
        previous_set=none(n_sets),
        first_set=none(n_kinds),
        last_set=none(n_kinds),
        waiting=np.zeros(n_kinds, dtype=bool),
        next_kind=none(n_kinds),
        previous_kind=none(n_kinds),
        first_kind=none(n_owners),
        last_kind=none(n_owners),
        is_blocked=np.zeros(n_kinds, dtype=bool),
        next_blocked=none(n_kinds),
        previous_blocked=none(n_kinds),
        first_blocked=none(n_owners),
        last_blocked=none(n_owners),
        blocked_owner=none(n_owners),
        place_in_owners=none(n_owners),
        n_blocked_owners=np.zeros(1, dtype=np.int64),
        least_blocked=np.zeros((n_owners, n_resources), dtype=np.int64),
    )


@inner_kernel
def _link(
    first: IntArray,
    last: IntArray,
    following: IntArray,
    preceding: IntArray,
    line: int,
    item: int,
    before: int,
) -> None:
    """Put an item into a line right after another one, or in front of all after -1."""
    after = first[line] if before == NONE else following[before]
    preceding[item], following[item] = before, after
    if before == NONE:
        first[line] = item
    else:
        following[before] = item
    if after == NONE:
        last[line] = item
    else:
        preceding[after] = item


@inner_kernel
def _unlink(
    first: IntArray,
    last: IntArray,
    following: IntArray,
    preceding: IntArray,
    line: int,
    item: int,
) -> None:
    """Take an item out of a line."""
    before, after = preceding[item], following[item]
    if before == NONE:
        first[line] = after
    else:
        following[before] = after
    if after == NONE:
        last[line] = before
    else:
        preceding[after] = before


@inner_kernel
def add_to_set(backlog: Backlog, number: int, tasks: int) -> None:
    """Have so many more tasks of a set wait. O(sets of the kind that came after it)."""
    backlog.left[number] += tasks
    if backlog.left[number] > tasks:
        return
    kind = backlog.kind[number]
    before = backlog.last_set[kind]
    while before > number:
        before = backlog.previous_set[before]
    _link(
        backlog.first_set,
        backlog.last_set,
        backlog.next_set,
        backlog.previous_set,
        kind,
        number,
        before,
    )


@inner_kernel
def take_from_set(backlog: Backlog, number: int, tasks: int) -> None:
    """Have so many tasks of a set wait no longer."""
    backlog.left[number] -= tasks
    if backlog.left[number] == 0:
        _unlink(
            backlog.first_set,
            backlog.last_set,
            backlog.next_set,
            backlog.previous_set,
            backlog.kind[number],
            number,
        )


@inner_kernel
def line_up(backlog: Backlog, owner: int, kind: int) -> None:
    """Put a kind among its owner's waiting ones, where its first set belongs."""
    before = backlog.last_kind[owner]
    while before != NONE and backlog.first_set[before] > backlog.first_set[kind]:
        before = backlog.previous_kind[before]
    _link(
        backlog.first_kind,
        backlog.last_kind,
        backlog.next_kind,
        backlog.previous_kind,
        owner,
        kind,
        before,
    )
    backlog.waiting[kind] = True


@inner_kernel
def step_out(backlog: Backlog, owner: int, kind: int) -> None:
    """Take a kind out of its owner's waiting ones."""
    _unlink(
        backlog.first_kind,
        backlog.last_kind,
        backlog.next_kind,
        backlog.previous_kind,
        owner,
        kind,
    )
    backlog.waiting[kind] = False


@inner_kernel
def block(backlog: Backlog, owner: int, kind: int) -> None:
    """Note that a kind's tasks fit nowhere."""
    if backlog.first_blocked[owner] == NONE:
        place = backlog.n_blocked_owners[0]
        backlog.blocked_owner[place], backlog.place_in_owners[owner] = owner, place
        backlog.n_blocked_owners[0] = place + 1
    _link(
        backlog.first_blocked,
        backlog.last_blocked,
        backlog.next_blocked,
        backlog.previous_blocked,
        owner,
        kind,
        backlog.last_blocked[owner],
    )
    backlog.is_blocked[kind] = True


@inner_kernel
def unblock(backlog: Backlog, owner: int, kind: int) -> None:
    """Note that a kind's tasks may fit somewhere, if it was blocked."""
    if not backlog.is_blocked[kind]:
        return
    _unlink(
        backlog.first_blocked,
        backlog.last_blocked,
        backlog.next_blocked,
        backlog.previous_blocked,
        owner,
        kind,
    )
    backlog.is_blocked[kind] = False
    if backlog.first_blocked[owner] == NONE:
        backlog.n_blocked_owners[0] -= 1
        last = backlog.blocked_owner[backlog.n_blocked_owners[0]]
        place = backlog.place_in_owners[owner]
        backlog.blocked_owner[place], backlog.place_in_owners[last] = last, place
        backlog.place_in_owners[owner] = NONE
