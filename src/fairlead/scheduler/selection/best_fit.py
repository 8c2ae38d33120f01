"""Best-fit: the server with room whose free amounts are most alike in shape to the task.

That with the least ``H = sum over r of |d[r]/d[q] - f[r]/f[q]| * (t[q]/t[r])``, where q is the
first resource that the task takes, f what is free (at least 0) and t the pool's total, over the
resources that the pool has. H is a double, computed in just this order. Of equal ones the earlier
server is taken.

Servers of one kind with equal free amounts are one lot. Lots stand in bands by the ratio of their
first two resources. A search looks at the bands nearest to the task's ratio first. It ends where no
further band can hold a lesser H, as ``|d[1]/d[0] - f[1]/f[0]| * (t[0]/t[1])`` is part of the sum.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from librt.vecs import append, pop, vec
from mypy_extensions import i64

from fairlead.scheduler.selection.selection import Selection
from fairlead.scheduler.tables import NOT_TAKEN, Server, Shape, fits, has_room, vec_of

BANDS: Final = 512
BANDS_REAL: Final = 512.0
BELOW: Final = 1.0 - 1e-12  # more than the relative error of a band's edge
ABOVE: Final = 1.0 + 1e-12
INFINITE: Final = float("inf")


class Lot:
    """Open servers of one kind with equal free amounts.

    Attributes
    ----------
    key : tuple of int
        The kind of the servers, and their free amounts.
    band : int
    row : int
        Its row in the band.
    heap : list of int
        Ranks of servers, a heap; servers that are in another lot by now are skipped.
    size : int
    """

    def __init__(self, key: tuple[object, ...], band: i64) -> None:
        self.key = key
        self.band: i64 = band
        self.row: i64 = 0
        self.heap: list[int] = []
        self.size: i64 = 0


class Band:
    """Lots with nearly the same ratio of the first two resources.

    Attributes
    ----------
    lots : list of Lot
    kinds : vec
        The kind of each lot's servers.
    free : vec
        The free amounts of each lot, one after the other.
    real : vec of float
        The same as doubles, at least 0.
    most : vec of W
        At least what any lot has free.
    """

    def __init__(self, width: i64) -> None:
        self.width: i64 = width
        self.lots: list[Lot] = []
        self.kinds: vec[i64] = vec[i64]()
        self.free: vec[i64] = vec[i64]()
        self.real: vec[float] = vec[float]()
        self.most: vec[i64] = vec_of([NOT_TAKEN - 1] * int(width))

    def add(self, lot: Lot, free: vec[i64], kind: i64) -> None:
        """Add a lot with these free amounts."""
        lot.row = len(self.lots)
        self.lots.append(lot)
        self.kinds = append(self.kinds, kind)
        rows = self.free
        real = self.real
        for r in range(self.width):
            rows = append(rows, free[r])
            real = append(real, float(free[r]) if free[r] > 0 else 0.0)
            self.most[r] = max(self.most[r], free[r])
        self.free = rows
        self.real = real

    def remove(self, lot: Lot) -> None:
        """Remove a lot; the last one takes its row."""
        width = self.width
        last = self.lots.pop()
        rows = self.free
        real = self.real
        at: i64 = len(self.lots) * width
        self.kinds, kind = pop(self.kinds)
        if last is not lot:
            self.lots[lot.row] = last
            self.kinds[lot.row] = kind
            last.row = lot.row
            for r in range(width):
                rows[lot.row * width + r] = rows[at + r]
                real[lot.row * width + r] = real[at + r]
        for _ in range(width):
            rows, _amount = pop(rows)
            real, _double = pop(real)
        self.free = rows
        self.real = real

    def tighten(self) -> None:
        """Find the most that any lot has free."""
        width, rows = self.width, self.free
        most = vec_of([NOT_TAKEN - 1] * int(width))
        for i in range(len(self.lots)):
            for r in range(width):
                most[r] = max(most[r], rows[i * width + r])
        self.most = most


class Search:
    """The best lot so far for a task.

    Attributes
    ----------
    scale : vec of float
        ``t[q]/t[r]``, or 0 where the pool has nothing of the resource.
    least : float
        H of the best lot, infinite without one.
    """

    def __init__(self, index: BestFit, shape: Shape, scale: vec[float]) -> None:
        self.index = index
        self.shape = shape
        self.scale: vec[float] = scale
        self.least = INFINITE
        self.lot: Lot | None = None

    def look(self, band: Band) -> None:
        """Look for a better lot in a band."""
        shape = self.shape
        width, rows, need = band.width, band.free, shape.need
        if not fits(need, band.most):
            return
        wanted, scale, lead, allowed = shape.wanted, self.scale, shape.lead, shape.place.allowed
        kinds, real, least = band.kinds, band.real, self.least
        is_roomy = False
        at: i64 = 0
        for row in range(len(kinds)):
            r: i64 = 0
            while r < width and rows[at + r] >= need[r]:
                r += 1
            if r == width:
                is_roomy = True
                if allowed[kinds[row]]:
                    h = misfit(wanted, scale, lead, real, at)
                    if h < least or self.comes_first(band.lots[row], h):
                        least = h
                        self.least = h
                        self.lot = band.lots[row]
            at += width
        if not is_roomy:
            band.tighten()

    def comes_first(self, lot: Lot, h: float) -> bool:
        """Return whether a lot that fits as well as the best one has an earlier server."""
        best = self.lot
        if best is None or h > self.least:
            return best is None
        return self.index.first_rank(lot) < self.index.first_rank(best)


def misfit(wanted: vec[float], scale: vec[float], lead: i64, free: vec[float], at: i64) -> float:
    """Return H of the free amounts from an index on; infinite without the task's first resource."""
    over = free[at + lead]
    if over <= 0.0:
        return INFINITE
    total = 0.0
    for r in range(len(wanted)):
        if r != lead:
            total += abs(wanted[r] - free[at + r] / over) * scale[r]
    return total


def scales_of(total: vec[i64]) -> list[vec[float]]:
    """Return ``t[q]/t[r]`` for each q and r; 0 where the pool has nothing of r."""
    scales: list[vec[float]] = []
    for pool in total:
        scale = vec[float]()
        for amount in total:
            scale = append(scale, float(pool) / float(amount) if amount > 0 else 0.0)
        scales.append(scale)
    return scales


def real_amounts(amounts: vec[i64]) -> vec[float]:
    """Return free amounts as doubles, at least 0."""
    real = vec[float]()
    for amount in amounts:
        real = append(real, float(amount) if amount > 0 else 0.0)
    return real


class BestFit(Selection):
    """Keeps open servers in lots, and lots in bands."""

    def __init__(self, width: i64, total: vec[i64]) -> None:
        super().__init__(width, total)
        self.bands = [Band(width) for _ in range(BANDS)]
        self.lots: dict[tuple[object, ...], Lot] = {}
        self.by_rank: dict[int, Server] = {}
        self.counted: vec[i64] = vec[i64]()  # the total that ratio and scales are of
        self.ratio = 1.0  # of the pool's first two resources when the bands were made
        self.edges: vec[float] = vec[float]()  # of the bands, and after the last one
        self.find_edges()
        self.scales: list[vec[float]] = []  # by the task's first resource: see `Search`

    def open(self, server: Server) -> None:
        """Add a server that takes tasks from now on."""
        self.by_rank[server.rank] = server
        self.enter_lot(server)

    def close(self, server: Server) -> None:
        """Remove a server that takes no more tasks."""
        self.leave_lot(server)
        del self.by_rank[server.rank]

    def change(self, server: Server) -> None:
        """Note that the free amounts of an open server changed."""
        self.leave_lot(server)
        self.enter_lot(server)

    def enter_lot(self, server: Server) -> None:
        """Add a server to the lot of its free amounts."""
        free = server.free
        amounts: list[object] = [int(server.kind)]
        for amount in free:
            amounts.append(int(amount))
        key = tuple(amounts)
        lot = self.lots.get(key)
        if lot is None:
            band = self.band_of(free)
            lot = Lot(key, band)
            self.lots[key] = lot
            self.bands[band].add(lot, free, server.kind)
        server.lot = lot
        lot.size += 1
        heappush(lot.heap, server.rank)

    def leave_lot(self, server: Server) -> None:
        """Remove a server from its lot."""
        lot = server.lot
        assert lot is not None
        server.lot = None
        lot.size -= 1
        if lot.size == 0:
            self.bands[lot.band].remove(lot)
            del self.lots[lot.key]
        elif len(lot.heap) > 2 * int(lot.size) + 64:
            lot.heap = sorted({rank for rank in lot.heap if self.is_in(rank, lot)})

    def is_in(self, rank: int, lot: Lot) -> bool:
        """Return whether the server of a rank is in a lot now."""
        server = self.by_rank.get(rank)
        return server is not None and server.lot is lot

    def first_rank(self, lot: Lot) -> int:
        """Return the rank of the first server of a lot."""
        heap = lot.heap
        while not self.is_in(heap[0], lot):
            heappop(heap)
        return heap[0]

    def band_of(self, free: vec[i64]) -> i64:
        """Return the band of some free amounts."""
        if self.width < 2 or (free[0] <= 0 and free[1] <= 0):
            return 0
        first = float(max(free[0], 0))
        other = float(max(free[1], 0)) * self.ratio
        band = i64(other / (first + other) * BANDS_REAL)
        return band if band < BANDS else BANDS - 1

    def rescale(self) -> None:
        """Compute the scales, and perhaps make the bands anew, if the pool's total changed."""
        total = self.total
        if len(self.counted) > 0 and fits(self.counted, total) and fits(total, self.counted):
            return
        self.counted = total[:]
        self.scales = scales_of(total)
        if self.width < 2 or self.total[0] <= 0 or self.total[1] <= 0:
            return
        ratio = float(self.total[0]) / float(self.total[1])
        if 0.5 * self.ratio <= ratio <= 2.0 * self.ratio:
            return
        self.ratio = ratio
        self.find_edges()
        self.bands = [Band(self.width) for _ in range(BANDS)]
        for lot in self.lots.values():
            server = self.by_rank[self.first_rank(lot)]
            lot.band = self.band_of(server.free)
            self.bands[lot.band].add(lot, server.free, server.kind)

    def find_edges(self) -> None:
        """Compute the ratio ``free[1] / free[0]`` at which each band begins."""
        edges = vec[float]()
        for band in range(BANDS):
            edges = append(edges, float(band) / float(BANDS - band) / self.ratio)
        self.edges = append(edges, INFINITE)

    def find(self, shape: Shape) -> Server | None:
        """Return the server that fits best."""
        self.rescale()
        search = Search(self, shape, self.scales[shape.lead])
        start: i64 = 0
        wanted = 0.0
        scale = 0.0  # no bound
        if self.width > 1 and shape.lead == 0 and self.total[1] > 0:
            start = self.band_of(shape.demand)
            wanted = shape.wanted[1]
            scale = search.scale[1]
        bands = self.bands
        edges = self.edges
        band = start
        while band < BANDS and (edges[band] * BELOW - wanted) * scale <= search.least:
            if bands[band].lots:
                search.look(bands[band])
            band += 1
        band = start - 1
        while band >= 0 and (wanted - edges[band + 1] * ABOVE) * scale <= search.least:
            if bands[band].lots:
                search.look(bands[band])
            band -= 1
        return None if search.lot is None else self.by_rank[self.first_rank(search.lot)]

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        """Return that of some servers that fits best."""
        self.rescale()
        scale = self.scales[shape.lead]
        least = INFINITE
        best: Server | None = None
        for server in servers:
            if has_room(server, shape):
                h = misfit(shape.wanted, scale, shape.lead, real_amounts(server.free), 0)
                if best is None or h < least or (h == least and server.rank < best.rank):
                    least = h
                    best = server
        return best
