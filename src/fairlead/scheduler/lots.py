"""Lots: servers of one group with equal free amounts, and the first server of each lot; compiled.

Where jobs have thousands of equal tasks, thousands of servers have the same free amounts, and no
selection tells more of them apart than the first. A lot is found by hashing its free amounts. Its
servers form a pairing heap (Fredman, Sedgewick, Sleator, Tarjan, 1986), which needs no room beyond
three links a server, and from which any server may be taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.optimize.compiling import inner_kernel, kernel
from fairlead.scheduler.state import State

_NONE = -1
# Odd, from the golden ratio: products spread over the high bits (Knuth, volume 3, section 6.4).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Lots(NamedTuple):
    """Servers in lots; at most as many lots as S servers.

    Attributes
    ----------
    lot : (S,) int
        The lot of each server, or -1.
    first : (S,) int
        First server of each lot, or -1 for a number without a lot.
    spare : (S,) int
        Numbers without a lot; the first `n_spare` count.
    n_spare : (1,) int
    hashed : (slots,) int
        First lot with each hash, or -1; the number of slots is a power of 2.
    next_hashed : (S,) int
        Next lot with the same hash, or -1.
    child, sibling, before : (S,) int
        The heaps: the first child of each server, its next sibling, and its sibling or parent
        before; or -1.
    """

    lot: IntArray
    first: IntArray
    spare: IntArray
    n_spare: IntArray
    hashed: IntArray
    next_hashed: IntArray
    child: IntArray
    sibling: IntArray
    before: IntArray


def no_lots(n_servers: int) -> Lots:
    """Return room for the servers, all of which are in no lot."""
    lot, first, next_hashed, child, sibling, before = np.full((6, n_servers), _NONE)
    return Lots(
        lot,
        first,
        spare=np.arange(n_servers)[::-1].copy(),
        n_spare=np.array([n_servers]),
        hashed=np.full(2 ** max(n_servers - 1, 1).bit_length(), _NONE),
        next_hashed=next_hashed,
        child=child,
        sibling=sibling,
        before=before,
    )


@inner_kernel
def join_lot(state: State, lots: Lots, server: int) -> bool:
    """Put a server into the lot of its free amounts; return whether the lot is new.

    Expected O(R).
    """
    slot = _slot_of(state, lots, server)
    lot = lots.hashed[slot]
    while lot != _NONE and not _are_alike(state, server, lots.first[lot]):
        lot = lots.next_hashed[lot]
    if lot != _NONE:
        lots.lot[server] = lot
        lots.first[lot] = _meld(lots, lots.first[lot], server)
        return False
    lots.n_spare[0] -= 1
    lot = lots.spare[lots.n_spare[0]]
    lots.lot[server] = lot
    lots.first[lot] = server
    lots.next_hashed[lot] = lots.hashed[slot]
    lots.hashed[slot] = lot
    return True


@inner_kernel
def leave_lot(state: State, lots: Lots, server: int) -> bool:
    """Take a server out of its lot, before its free amounts change; return whether the lot ends.

    Amortised O(log S).
    """
    lot = lots.lot[server]
    lots.lot[server] = _NONE
    rest = _meld_children(lots, server)
    if server != lots.first[lot]:
        _unlink(lots, server)
        if rest != _NONE:
            lots.first[lot] = _meld(lots, lots.first[lot], rest)
        return False
    lots.first[lot] = rest
    if rest != _NONE:
        return False
    slot = _slot_of(state, lots, server)
    if lots.hashed[slot] == lot:
        lots.hashed[slot] = lots.next_hashed[lot]
    else:
        other = lots.hashed[slot]
        while lots.next_hashed[other] != lot:
            other = lots.next_hashed[other]
        lots.next_hashed[other] = lots.next_hashed[lot]
    lots.spare[lots.n_spare[0]] = lot
    lots.n_spare[0] += 1
    return True


@inner_kernel
def _are_alike(state: State, server: int, other: int) -> bool:
    """Return whether two servers are of one group and have equal free amounts."""
    alike = state.group[server] == state.group[other]
    for r in range(state.free.shape[1]):
        alike &= state.free[server, r] == state.free[other, r]
    return bool(alike)


@kernel
def _slot_of(state: State, lots: Lots, server: int) -> int:
    word = np.uint64(state.group[server])
    for r in range(state.free.shape[1]):
        word = (word ^ np.uint64(state.free[server, r])) * _SPREAD
        word ^= word >> np.uint64(32)
    return int(word & np.uint64(lots.hashed.size - 1))


@inner_kernel
def _meld(lots: Lots, root: int, other: int) -> int:
    """Join two heaps and return the root: the later root becomes the first child of the earlier."""
    if other < root:
        root, other = other, root
    child = lots.child[root]
    lots.sibling[other] = child
    if child != _NONE:
        lots.before[child] = other
    lots.before[other] = root
    lots.child[root] = other
    return root


@inner_kernel
def _meld_children(lots: Lots, server: int) -> int:
    """Join the heaps below a server to one, pair by pair and back, and return its root, or -1."""
    pairs, child = _NONE, lots.child[server]
    lots.child[server] = _NONE
    while child != _NONE:
        other = lots.sibling[child]
        follower = _NONE
        if other != _NONE:
            follower = lots.sibling[other]
            child = _meld(lots, child, other)
        lots.sibling[child] = pairs
        pairs, child = child, follower
    root = pairs
    if root != _NONE:
        pairs = lots.sibling[root]
        while pairs != _NONE:
            follower = lots.sibling[pairs]
            root = _meld(lots, root, pairs)
            pairs = follower
        lots.sibling[root] = lots.before[root] = _NONE
    return root


@inner_kernel
def _unlink(lots: Lots, server: int) -> None:
    """Take a server without children out of a heap of which it is not the root."""
    before, follower = lots.before[server], lots.sibling[server]
    if lots.child[before] == server:
        lots.child[before] = follower
    else:
        lots.sibling[before] = follower
    if follower != _NONE:
        lots.before[follower] = before
    lots.sibling[server] = lots.before[server] = _NONE


def check_lots(state: State, lots: Lots) -> None:
    """Assert that servers that are alike share a lot, and that each lot knows its first server."""
    members: dict[int, list[int]] = {}
    for server, lot in enumerate(lots.lot.tolist()):
        members.setdefault(lot, []).append(server)
    members.pop(_NONE, None)
    alike = np.column_stack([state.group, state.free])
    assert len({tuple(alike[m[0]]) for m in members.values()}) == len(members), "lots are alike"
    for lot, servers in members.items():
        assert (alike[servers] == alike[servers[0]]).all(), "a lot is mixed"
        assert lots.first[lot] == servers[0], "the first server of a lot is wrong"
        assert sorted(_descend(lots, servers[0])) == servers, "a heap has lost servers"
    unused = sorted(lots.spare[: int(lots.n_spare[0])].tolist())
    assert unused == sorted(set(range(len(lots.first))) - set(members)), "lots are left over"


def _descend(lots: Lots, root: int) -> list[int]:
    found, ahead = [], [root]
    while ahead:
        server = ahead.pop()
        found.append(server)
        child = int(lots.child[server])
        while child != _NONE:
            assert child > server, "a heap is out of order"
            ahead.append(child)
            child = int(lots.sibling[child])
    return found
