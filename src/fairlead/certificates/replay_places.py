"""Replay placements, and check where each of them went: on the server that the selection says.

See `replay`. Whose turn it was is not asked here. Who is served on which server depends on what is
free, so each user's placements are gone through once, with the servers in a tree by how good they
are for that user. Servers that seem equally good in plain floats are told apart in pairs of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.certificates.replay import Servers, occupy, takes
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import inner_kernel, kernel
from fairlead.optimize.double_double import SAME, add, compare, divide, of_whole, times

# What makes a server better than another; of equal ones the earlier is.
NOTHING = 0  # first-fit
SHAPE = 1  # free amounts in proportions like the task's: best-fit
SHARE = 2  # the task takes a lesser part of the capacity: joint
FREE_SHARE = 3  # the task takes a lesser part of what is free: joint, residual

# Plain floats this close, relative, may be equal in truth.
NEAR = 1e-12


@by_address
class ReplayedSelection(NamedTuple):
    """By what a server is chosen for a task."""

    # `NOTHING`, `SHAPE`, `SHARE` or `FREE_SHARE`; of the shares, the first task of a user has none
    # yet, and all servers are equal.
    by: int
    must_take: bool  # whether only servers count that take the task
    capacity: IntArray  # (G, R): quanta of one server of each group
    # (R, R): pool quanta of the row's resource over those of the column's, as pairs; 0 for none.
    scale: FloatArray
    scale_low: FloatArray


@by_address
class Tree(NamedTuple):
    """Servers by how good they are for one user; S of them."""

    key: FloatArray  # (S,): how bad each is, in plain floats; infinite if it does not count
    # (2 S,): the best server below each node; those of node k are 2 k and 2 k + 1, server i is at S
    # + i.
    best: IntArray
    changed: IntArray  # (S,): servers to be brought up to date
    is_changed: BoolArray  # (S,): whether each is among them


def empty_tree(n_servers: int) -> Tree:
    """Return room for a tree."""
    return Tree(
        np.zeros(n_servers),
        np.zeros(2 * n_servers, dtype=np.int64),
        np.zeros(n_servers, dtype=np.int64),
        np.zeros(n_servers, dtype=bool),
    )


@kernel
def are_placed_best(
    servers: Servers,
    users: IntArray,
    places: IntArray,
    selection: ReplayedSelection,
    free: IntArray,
    last: IntArray,
    tree: Tree,
) -> bool:
    """Return whether each task went to the best server for it, as far as floats can tell.

    Parameters
    ----------
    servers : Servers
        Its free amounts are changed.
    users, places : (P,) int
        Placements that are possible.
    free : (S, R) int
        What is free before the first of them.
    last : (N,) int
        The last placement of each user, or -1.
    tree : Tree
        Workspace.

    Notes
    -----
    O(P R) for each user that is served, O(S R) to begin with, and O(R + log S) for each server that
    changed between two of the user's placements.
    """
    n_servers = servers.group.size
    for n in range(last.size):
        if last[n] < 0:
            continue
        tree.is_changed[:] = False
        for i in range(n_servers):
            for r in range(free.shape[1]):
                servers.free[i, r] = free[i, r]
            tree.key[i], _ = badness(servers, selection, n, i)
            tree.best[n_servers + i] = i
        for node in range(n_servers - 1, 0, -1):
            _choose(tree, node)
        n_changed, placed = int(0), int(0)  # noqa: RUF046, UP018 (a plain 0 is compiled for apart)
        for k in range(last[n] + 1):
            server = places[k]
            if users[k] == n:
                _refresh(servers, selection, tree, n, n_changed)
                n_changed = 0
                if placed == 0 and selection.by >= SHARE:
                    if _takes_before(servers, n, server):
                        return False
                elif _is_misplaced(servers, selection, tree, n, server):
                    return False
                placed += 1
            occupy(servers, users[k], server, 1)
            if not tree.is_changed[server] and tree.key[server] < np.inf:
                tree.is_changed[server] = True
                tree.changed[n_changed] = server
                n_changed += 1
    return True


@inner_kernel
def badness(servers: Servers, selection: ReplayedSelection, n: int, i: int) -> tuple[float, float]:
    """Return how bad a server is for a user, and to what the error of that relates."""
    if not servers.eligible[n, servers.group[i]]:
        return np.inf, 0.0
    if selection.must_take and not takes(servers, n, i):
        return np.inf, 0.0
    if selection.by == NOTHING:
        return 0.0, 0.0
    if selection.by != SHAPE:
        largest = 0.0
        for r in range(servers.free.shape[1]):
            if servers.demand[n, r] > 0:
                over = float(_whole(servers, selection, i, r))
                largest = max(largest, float(servers.demand[n, r]) / over)
        return largest, largest
    q = _lead(servers, n)
    over = float(servers.free[i, q])
    if over == 0.0:
        return np.inf, 0.0
    misfit = size = 0.0
    for r in range(servers.free.shape[1]):
        if r != q:
            scale = selection.scale[q, r]
            wanted = float(servers.demand[n, r]) / float(servers.demand[n, q]) * scale
            there = float(servers.free[i, r]) / over * scale
            misfit += abs(wanted - there)
            size += wanted + there
    return misfit, size


@inner_kernel
def _whole(servers: Servers, selection: ReplayedSelection, i: int, r: int) -> int:
    if selection.by == SHARE:
        return int(selection.capacity[servers.group[i], r])
    return int(servers.free[i, r])


@inner_kernel
def _lead(servers: Servers, n: int) -> int:
    """Return the first resource that the user demands."""
    q = 0
    while servers.demand[n, q] == 0:
        q += 1
    return q


@inner_kernel
def _choose(tree: Tree, node: int) -> None:
    a, b = tree.best[2 * node], tree.best[2 * node + 1]
    if tree.key[b] < tree.key[a] or (tree.key[b] == tree.key[a] and b < a):
        a = b
    tree.best[node] = a


@inner_kernel
def _refresh(
    servers: Servers, selection: ReplayedSelection, tree: Tree, n: int, n_changed: int
) -> None:
    """Bring the servers up to date that changed."""
    for j in range(n_changed):
        i = tree.changed[j]
        tree.is_changed[i] = False
        key, _ = badness(servers, selection, n, i)
        if key == tree.key[i]:
            continue
        tree.key[i] = key
        node = (tree.key.size + i) // 2
        while node > 0:
            before = tree.best[node]
            _choose(tree, node)
            if before != i and tree.best[node] == before:
                break
            node //= 2


@inner_kernel
def _takes_before(servers: Servers, n: int, server: int) -> bool:
    """Return whether a server before the given one takes a task of the user."""
    for i in range(server):  # noqa: SIM110 (numba knows no generators)
        if takes(servers, n, i):
            return True
    return False


@inner_kernel
def _is_misplaced(
    servers: Servers, selection: ReplayedSelection, tree: Tree, n: int, server: int
) -> bool:
    """Return whether there is a better server for a task of the user than where it went."""
    best = tree.best[1]
    if best == server:
        return False
    here, size = badness(servers, selection, n, server)
    least, its_size = badness(servers, selection, n, best)
    if here > least + NEAR * (size + its_size):
        return True
    # H and the ratios in it differ by no more than the ratios of the task and H itself.
    bound = here + NEAR * (3.0 * size + here)
    n_servers, node = tree.key.size, int(1)  # noqa: RUF046, UP018 (a plain 1 is compiled for apart)
    while node > 0:
        if tree.key[tree.best[node]] <= bound:
            if node < n_servers:
                node *= 2
                continue
            i = node - n_servers
            if i != server and is_better(servers, selection, n, i, server):
                return True
        while node % 2 == 1:
            node //= 2
        if node > 0:
            node += 1
    return False


@inner_kernel
def is_better(servers: Servers, selection: ReplayedSelection, n: int, i: int, server: int) -> bool:
    """Return whether a server is better than another one, or as good and earlier, in pairs."""
    if selection.by == NOTHING:
        return i < server
    if selection.by == SHAPE:
        a, a_low, size = _misfit(servers, selection, n, i)
        b, b_low, its_size = _misfit(servers, selection, n, server)
        difference = (a - b) + (a_low - b_low)
        if abs(difference) > SAME * (size + its_size):
            return difference < 0.0
        return i < server
    a, a_low = _share(servers, selection, n, i)
    b, b_low = _share(servers, selection, n, server)
    order = compare(a, a_low, b, b_low)
    return order < 0 or (order == 0 and i < server)


@inner_kernel
def _share(servers: Servers, selection: ReplayedSelection, n: int, i: int) -> tuple[float, float]:
    largest, largest_low = 0.0, 0.0
    for r in range(servers.free.shape[1]):
        if servers.demand[n, r] > 0:
            high, low = of_whole(servers.demand[n, r])
            over, over_low = of_whole(_whole(servers, selection, i, r))
            high, low = divide(high, low, over, over_low)
            if compare(high, low, largest, largest_low) > 0:
                largest, largest_low = high, low
    return largest, largest_low


@inner_kernel
def _misfit(
    servers: Servers, selection: ReplayedSelection, n: int, i: int
) -> tuple[float, float, float]:
    """Return H as a pair, and the sum of the ratios in it."""
    q = _lead(servers, n)
    total, total_low, size = 0.0, 0.0, 0.0
    over, over_low = of_whole(servers.free[i, q])
    task, task_low = of_whole(servers.demand[n, q])
    for r in range(servers.free.shape[1]):
        if r != q:
            there, there_low = of_whole(servers.free[i, r])
            there, there_low = divide(there, there_low, over, over_low)
            wanted, wanted_low = of_whole(servers.demand[n, r])
            wanted, wanted_low = divide(wanted, wanted_low, task, task_low)
            scale, scale_low = selection.scale[q, r], selection.scale_low[q, r]
            size += (there + wanted) * scale
            high, low = add(there, there_low, -wanted, -wanted_low)
            high, low = times(high, low, scale, scale_low)
            if high < 0.0:
                high, low = -high, -low
            total, total_low = add(total, total_low, high, low)
    return total, total_low, size


@kernel
def are_rounds(
    servers: Servers,
    users: IntArray,
    places: IntArray,
    placed: IntArray,
    round_of: IntArray,
    open_: IntArray,
) -> bool:
    """Return whether the placements are rounds in which each server is visited once.

    A round ends where a server comes again. Who was not served in it must have been passed over
    because nobody fitted there; as less and less fits, then nobody fits there when the round ends.

    `servers` is as before the first of the possible placements, after which nothing more fits;
    `placed` (N,) and `round_of` (S,) come as zeros, `open_` (S,) lists all servers. O(R) for each
    placement, and O(N R) for each server that is passed over for the first time.
    """
    number, n_open = int(1), open_.size  # noqa: RUF046, UP018 (a plain 1 is compiled for apart)
    for k in range(users.size):
        server = places[k]
        if round_of[server] == number:
            j = 0
            while j < n_open:
                i = open_[j]
                if round_of[i] == number:
                    j += 1
                elif _anybody_fits(servers, placed, i):
                    return False
                else:
                    n_open -= 1
                    open_[j], open_[n_open] = open_[n_open], i
            number += 1
        round_of[server] = number
        occupy(servers, users[k], server, 1)
        placed[users[k]] += 1
    return True


@inner_kernel
def _anybody_fits(servers: Servers, placed: IntArray, server: int) -> bool:
    for n in range(placed.size):
        if placed[n] < servers.limit[n] and takes(servers, n, server):
            return True
    return False
