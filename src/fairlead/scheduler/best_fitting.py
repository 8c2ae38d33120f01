"""Best-fit: the server whose free amounts are in proportions nearest to the task's.

It has the least

    H(k, i) = sum over r of | D[k,r] / D[k,lead] - F[i,r] / F[i,lead] |

with demands D and free amounts F as shares of the pool of the servers that are there, and lead the
first resource that the shape takes (Wang, Liang and Li 2015, V-B, where it is resource 1). A search
goes outwards from the bucket of the shape's own ratio (`fit_index`) until the ratio alone is
further off than the best H met.
"""

from __future__ import annotations

import numpy as np

from fairlead.optimize.bits import highest_bit, lowest_bit
from fairlead.optimize.compiling import inner_kernel, separate_kernel
from fairlead.optimize.double_double import SAME, add, divide, of_whole, times
from fairlead.scheduler.fit_index import ONE, WORD, FitIndex, tighten
from fairlead.scheduler.order_heaps import precedes
from fairlead.scheduler.records import NONE, Core
from fairlead.scheduler.servers import fits, may_take

# Errors of H in plain floats, relative to the sum of the ratios that it compares.
ROUGH = 4e-15
# Of more servers that were freed than these the best is searched for, not scanned for.
MOST_SCANNED = 64
# The distance to a bucket's edge is believed up to this much.
EDGE = 1e-12


def ratio_of(amount: int, over: int) -> tuple[float, float]:
    """Return a ratio of quanta as a pair of floats."""
    high = amount / over
    above, below = high.as_integer_ratio()
    return high, (amount * below - above * over) / (below * over)


@inner_kernel
def rough_misfit(core: Core, k: int, s: int) -> tuple[float, float]:
    """Return H in plain floats, and the sum of the ratios in it, to which its error relates."""
    lead = core.shapes[k].lead
    over = float(max(core.free[s, lead], 0))
    if over == 0.0:
        return np.inf, 0.0
    misfit = size = 0.0
    for r in range(core.free.shape[1]):
        if r != lead:
            scale = core.scale[lead, r].high
            wanted, there = (
                core.ratio[k, r].high * scale,
                float(max(core.free[s, r], 0)) / over * scale,
            )
            misfit += abs(wanted - there)
            size += wanted + there
    return misfit, size


@inner_kernel
def may_be_nearer(core: Core, k: int, s: int, least: float, size: float) -> bool:
    """Return whether H may be as low as that; multiplied out, as dividing takes longer."""
    lead = core.shapes[k].lead
    over, misfit, its = float(core.free[s, lead]), 0.0, 0.0
    for r in range(core.free.shape[1]):
        if r != lead:
            scale = core.scale[lead, r].high
            wanted = core.ratio[k, r].high * scale * over
            there = float(max(core.free[s, r], 0)) * scale
            misfit += abs(wanted - there)
            its += wanted + there
    return misfit <= least * over + 2.0 * ROUGH * (size * over + its)


@inner_kernel
def _misfit(core: Core, k: int, s: int) -> tuple[float, float]:
    """Return H as a pair."""
    lead = core.shapes[k].lead
    over, over_low = of_whole(core.free[s, lead])
    total, total_low = 0.0, 0.0
    for r in range(core.free.shape[1]):
        if r != lead:
            scale, ratio = core.scale[lead, r], core.ratio[k, r]
            high, low = of_whole(max(core.free[s, r], 0))
            high, low = divide(high, low, over, over_low)
            high, low = add(high, low, -ratio.high, -ratio.low)
            high, low = times(high, low, scale.high, scale.low)
            if high < 0.0:
                high, low = -high, -low
            total, total_low = add(total, total_low, high, low)
    return total, total_low


@inner_kernel
def is_nearer(
    core: Core, k: int, s: int, misfit: float, its: float, other: int, least: float, size: float
) -> bool:
    """Return whether a server is a better fit than another one, or as good and earlier.

    Given H and the sum of the ratios of both, in plain floats; where these are close, H is computed
    as a pair. Equality relates to the sums: H itself may be 0.
    """
    error = ROUGH * (size + its)
    if misfit < least - error:
        return True
    if misfit > least + error:
        return False
    alike = True
    for r in range(core.free.shape[1]):
        alike &= core.free[s, r] == core.free[other, r]
    if not alike:
        a, a_low = _misfit(core, k, s)
        b, b_low = _misfit(core, k, other)
        difference = (a - b) + (a_low - b_low)
        if abs(difference) > SAME * (size + its):
            return difference < 0.0
    return precedes(core.server_node, s, other)


@inner_kernel
def _reach(core: Core, index: FitIndex, k: int, least: float, step: int) -> int:
    """Return how far, in buckets, servers may have an H of that at most, seen in a direction."""
    a, b, lead = index.pair[0], index.pair[1], core.shapes[k].lead
    ratio, sign, unit = np.inf, step, 0.0
    if lead == a:  # F[b] / F[a] grows with the bucket
        ratio = core.ratio[k, b].high * index.scale[0]
        unit = core.scale[a, b].high / index.scale[0]
    elif lead == b:
        ratio, sign = core.ratio[k, a].high / index.scale[0], -step
        unit = core.scale[b, a].high * index.scale[0]
    if max(least, ratio) == np.inf or unit == 0.0:
        return step * 2 * index.first.size
    least /= unit
    if sign > 0:
        ratio = (ratio * (1.0 + EDGE) + least) / (1.0 - EDGE)
    else:
        ratio = max(ratio * (1.0 - EDGE) - least, 0.0) / (1.0 + EDGE)
    if lead == a:  # which may be 0, and may be infinite
        share = ratio / (1.0 + ratio) if ratio < 1.0 else 1.0 / (1.0 + 1.0 / ratio)
    else:
        share = 1.0 / (1.0 + ratio)
    reach = share * index.first.size
    return int(reach) if step > 0 else int(np.ceil(reach))


@inner_kernel
def start_bucket(core: Core, index: FitIndex, k: int) -> int:
    """Return the bucket of a shape's own ratio."""
    a, b, lead = index.pair[0], index.pair[1], core.shapes[k].lead
    share = 0.5
    if lead == a:
        ratio = core.ratio[k, b].high * index.scale[0]
        share = ratio / (1.0 + ratio)
    elif lead == b:
        share = 1.0 / (1.0 + core.ratio[k, a].high / index.scale[0])
    return min(int(share * index.first.size), index.first.size - 1)


@inner_kernel
def best_fit(core: Core, index: FitIndex, k: int) -> int:
    """Return the server with the least H that takes a task, the first of equals, or NONE.

    As many servers are looked at as are nearer in the indexed ratio than the one that is found.
    """
    best, least, size = NONE, np.inf, 0.0
    is_woken = core.shapes[k].woken_in == core.numbers[0].epoch  # it fits on fresh servers only
    if is_woken and core.numbers[0].fresh <= MOST_SCANNED:
        for f in range(core.numbers[0].fresh):
            s = core.fresh[f]
            if may_take(core, k, s):
                misfit, its = rough_misfit(core, k, s)
                if best == NONE or is_nearer(core, k, s, misfit, its, best, least, size):
                    best, least, size = s, misfit, its
        return best
    where, start = core.shapes[k].where, start_bucket(core, index, k)
    for step in (1, -1):
        reach = _reach(core, index, k, least + ROUGH * size, step)
        first, outer = start // WORD, start // WORD // WORD
        words = _beyond(_words_with_room(core, index, k, outer), first % WORD, step)
        while 0 <= outer < index.filled_words.size:
            if words == 0:
                outer += step
                if 0 <= outer < index.filled_words.size:
                    words = _words_with_room(core, index, k, outer)
                continue
            bit = lowest_bit(words) if step > 0 else highest_bit(words)
            words &= ~(ONE << np.uint64(bit))
            word = outer * WORD + bit
            edge = (word if step > 0 else word + 1) * WORD
            if (edge - reach) * step > 0:
                break
            bits, found = index.filled[word], False
            if word == first:
                bits = _beyond(bits, start % WORD, step)
                if step < 0:
                    bits &= ~(ONE << np.uint64(start % WORD))
                    found = bits == 0
            while bits:
                bit = lowest_bit(bits) if step > 0 else highest_bit(bits)
                bits &= ~(ONE << np.uint64(bit))
                bucket = word * WORD + bit
                edge = bucket if step > 0 else bucket + 1
                if (edge - reach) * step > 0:
                    outer = NONE
                    break
                number = index.first[bucket]
                while number != NONE:
                    s = index.lots[number].first
                    number = index.lots[number].after
                    if not fits(core, k, s):
                        continue
                    found = True
                    if not may_be_nearer(core, k, s, least, size):
                        continue
                    if core.may[where, core.servers[s].klass]:
                        misfit, its = rough_misfit(core, k, s)
                        if best == NONE or is_nearer(core, k, s, misfit, its, best, least, size):
                            best, least, size = s, misfit, its
                            reach = _reach(core, index, k, least + ROUGH * size, step)
            if outer != NONE and not found and index.loose[word]:
                tighten(core, index, word)
    return best


@inner_kernel
def _beyond(bits: np.uint64, bit: int, step: int) -> np.uint64:
    """Return the bits from one on, in a direction."""
    unused = np.uint64(bit if step > 0 else WORD - 1 - bit)
    return (bits >> unused) << unused if step > 0 else (bits << unused) >> unused


@inner_kernel
def _words_with_room(core: Core, index: FitIndex, k: int, outer: int) -> np.uint64:
    """Return which of 64 words may have a server that a task fits on: loops without a branch."""
    words, base = index.filled_words[outer], np.uint64(outer * WORD)
    # Unsigned, and of a length that the compiler does not know: it takes several at once.
    length = np.uint64(min(index.filled.size - outer * WORD, WORD))
    for r in range(core.free.shape[1]):
        wanted, enough = core.demand[k, r], np.uint64(0)
        for bit in range(length):
            if index.most_free[r, base + bit] >= wanted:
                enough |= ONE << bit
        words &= enough
    return np.uint64(words)


@inner_kernel
def next_word(index: FitIndex, word: int, step: int) -> int:
    """Return the next word with a bucket that is not empty, or NONE."""
    word += step
    if word < 0 or word >= index.filled.size:
        return NONE
    outer = word // WORD
    if step > 0:
        bits = (index.filled_words[outer] >> np.uint64(word % WORD)) << np.uint64(word % WORD)
    else:
        unused = np.uint64(WORD - 1 - word % WORD)
        bits = (index.filled_words[outer] << unused) >> unused
    while not bits:
        outer += step
        if outer < 0 or outer >= index.filled_words.size:
            return NONE
        bits = index.filled_words[outer]
    return outer * WORD + (lowest_bit(bits) if step > 0 else highest_bit(bits))


@separate_kernel
def nearest(core: Core, index: FitIndex, k: int) -> int:
    """Return the server with the least H where a task may run, full or not, or NONE."""
    best, least, size = NONE, np.inf, 0.0
    where, first = core.shapes[k].where, start_bucket(core, index, k)
    for step in (1, -1):
        reach = _reach(core, index, k, least + ROUGH * size, step)
        word, shift = first // WORD, np.uint64(first % WORD)
        bits = index.filled[word]
        bits = (bits >> shift) << shift if step > 0 else bits & ((ONE << shift) - ONE)
        while word != NONE:
            bucket = word * WORD
            while bits:
                bit = lowest_bit(bits) if step > 0 else highest_bit(bits)
                bits &= ~(ONE << np.uint64(bit))
                bucket = word * WORD + bit
                edge = bucket if step > 0 else bucket + 1
                if (edge - reach) * step > 0:
                    word = NONE
                    break
                number = index.first[bucket]
                while number != NONE:
                    s = index.lots[number].first
                    number = index.lots[number].after
                    if core.may[where, core.servers[s].klass]:
                        misfit, its = rough_misfit(core, k, s)
                        is_near = misfit < np.inf and misfit <= least + ROUGH * (size + its)
                        if is_near and is_nearer(core, k, s, misfit, its, best, least, size):
                            best, least, size = s, misfit, its
                            reach = _reach(core, index, k, least + ROUGH * size, step)
            if word != NONE:
                word = next_word(index, word, step)
                if word != NONE:
                    bits = index.filled[word]
    return best
