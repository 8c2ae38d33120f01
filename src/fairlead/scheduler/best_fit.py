"""Best-fit: the server whose free amounts are in proportions nearest to the task's; compiled.

A search goes outwards from the bucket of the task's own ratio (`ratio_index`) until the ratio alone
is further off than the best H met. Words of buckets in which nobody has enough free are passed
over. Of servers of a group that hold nothing, or that have equal free amounts, only the first is
looked at.
"""

from __future__ import annotations

import numpy as np

from fairlead.optimize.bits import highest_bit, lowest_bit
from fairlead.optimize.compiling import inner_kernel
from fairlead.scheduler.misfit import fits_better, rough_misfit
from fairlead.scheduler.ratio_index import RatioIndex, first_idle, tighten
from fairlead.scheduler.state import State, fits

# Errors of H in plain floats, relative to the sum of the ratios that it compares.
ROUGH = 4e-15
# The distance to a bucket's edge is believed up to this much.
EDGE = 1e-12

_WORD = 64
_ONE = np.uint64(1)


@inner_kernel
def _improve(
    state: State, index: RatioIndex, user: int, server: int, best: int, least: float, size: float
) -> tuple[int, float, float]:
    """Return the better of a server and the best one met: server, its H, the sum of its ratios."""
    misfit, its_size = rough_misfit(state, index.proportions, user, server)
    error = ROUGH * (size + its_size)
    if misfit == np.inf or misfit > least + error:
        return best, least, size
    if (
        best < 0
        or misfit < least - error
        or fits_better(state, index.proportions, user, server, best, size + its_size)
    ):
        return server, misfit, its_size
    return best, least, size


@inner_kernel
def is_better_fit(state: State, index: RatioIndex, user: int, server: int, other: int) -> bool:
    """Return whether a server is allowed and fits a task better than another one (-1 for none)."""
    if not state.eligible[user, state.group[server]]:
        return False
    if other < 0:
        return bool(state.free[server, index.proportions.lead[user]] > 0)
    least, size = rough_misfit(state, index.proportions, user, other)
    best, _, _ = _improve(state, index, user, server, other, least, size)
    return best == server


@inner_kernel
def find_best_fit(state: State, index: RatioIndex, user: int, must_fit: bool) -> int:
    """Return the server with the least H where the user may run, the earlier of equals, or -1.

    Parameters
    ----------
    state, index
        What is free, and the index of it.
    user : int
        Whose task.
    must_fit : bool
        Whether only servers count that one more task fits on.

    Notes
    -----
    O(G) and as many servers as are nearer in the indexed ratio than the one that is found.
    """
    best, least, size = int(-1), np.inf, 0.0  # noqa: RUF046, UP018 (a plain -1 is compiled for apart)
    for g in range(state.capacity.shape[0]):
        misfit = index.idle_fit[user, g]
        if misfit < np.inf and misfit <= least + ROUGH * (size + least):
            server = first_idle(state, index, g)
            if server >= 0:
                best, least, size = _improve(state, index, user, server, best, least, size)
    for step in (1, -1):
        best, least, size = _search(state, index, user, must_fit, step, best, least, size)
    return best


@inner_kernel
def _distance(index: RatioIndex, user: int, share: float, step: int) -> float:
    """Bound H from below for the servers beyond a share F[b] / (F[a] + F[b]), seen in direction."""
    a, b = index.pair[0], index.pair[1]
    if index.proportions.lead[user] == a:
        ratio, there, sign = index.proportions.ratio[user, b], share / (1.0 - share), step
    elif index.proportions.lead[user] == b:
        ratio, there, sign = index.proportions.ratio[user, a], (1.0 - share) / share, -step
    else:
        return 0.0
    if there == np.inf:
        return np.inf if sign > 0 else 0.0
    return float((there - ratio) * sign - EDGE * (there + ratio))


@inner_kernel
def _start_bucket(index: RatioIndex, user: int) -> int:
    a, b = index.pair[0], index.pair[1]
    share = 0.5
    if index.proportions.lead[user] == a:
        share = index.proportions.ratio[user, b] / (1.0 + index.proportions.ratio[user, b])
    elif index.proportions.lead[user] == b:
        share = 1.0 / (1.0 + index.proportions.ratio[user, a])
    return min(int(share * index.first.size), index.first.size - 1)


@inner_kernel
def _next_word(index: RatioIndex, word: int, step: int) -> int:
    """Return the next word with a bucket that is not empty, or -1."""
    word += step
    if word < 0 or word >= index.filled.size:
        return -1
    outer = word // _WORD
    if step > 0:
        bits = (index.filled_words[outer] >> np.uint64(word % _WORD)) << np.uint64(word % _WORD)
    else:
        unused = np.uint64(_WORD - 1 - word % _WORD)
        bits = (index.filled_words[outer] << unused) >> unused
    while not bits:
        outer += step
        if outer < 0 or outer >= index.filled_words.size:
            return -1
        bits = index.filled_words[outer]
    return outer * _WORD + (lowest_bit(bits) if step > 0 else highest_bit(bits))


@inner_kernel
def _search(
    state: State,
    index: RatioIndex,
    user: int,
    must_fit: bool,
    step: int,
    best: int,
    least: float,
    size: float,
) -> tuple[int, float, float]:
    """Go through the buckets from the user's own, up or down, until none can be better."""
    start = _start_bucket(index, user)
    word, shift = start // _WORD, np.uint64(start % _WORD)
    bits = index.filled[word]
    bits = (bits >> shift) << shift if step > 0 else bits & ((_ONE << shift) - _ONE)
    n_buckets = float(index.first.size)
    while word >= 0:
        edge = (word if step > 0 else word + 1) * float(_WORD) / n_buckets
        if _distance(index, user, edge, step) > least + ROUGH * size:
            break
        if bits and (not must_fit or _word_may_fit(state, index, user, word)):
            found = False
            while bits:
                bit = lowest_bit(bits) if step > 0 else highest_bit(bits)
                bits &= ~(_ONE << np.uint64(bit))
                bucket = word * _WORD + bit
                edge = (bucket if step > 0 else bucket + 1) / n_buckets
                if _distance(index, user, edge, step) > least + ROUGH * size:
                    return best, least, size
                lot = index.first[bucket]
                while lot >= 0:
                    server = index.lots.first[lot]
                    if not must_fit or fits(state, user, server):
                        found = True
                        if state.eligible[user, state.group[server]]:
                            best, least, size = _improve(
                                state, index, user, server, best, least, size
                            )
                    lot = index.following[lot]
            if must_fit and not found and index.loose[word]:
                tighten(state, index, word)
        word = _next_word(index, word, step)
        if word >= 0:
            bits = index.filled[word]
    return best, least, size


@inner_kernel
def _word_may_fit(state: State, index: RatioIndex, user: int, word: int) -> bool:
    for r in range(state.free.shape[1]):
        if index.most_free[r, word] < float(state.demand[user, r]):
            return False
    return True
