"""Best-fit: of the servers with room, the one with the least H; ties by order.

H measures how much the proportions of a task and of a server's free amounts differ:
``H = sum over r of |d[r]/d[q] - f[r]/f[q]| * (t[q]/t[r])``, where q is the first resource that the
task takes, f are the free amounts (at least 0) and t the pool's total. The sum is over the
resources of which the pool has any. H is a double, computed in just this order. (Wang, Liang and
Li 2015.)

A lot is the open servers of one kind with equal free amounts. A band is the lots with similar
ratios of their first two resources. A search starts at the bands nearest to the task's ratio. It
ends when no other band can hold a lower H: ``|d[1]/d[0] - f[1]/f[0]| * (t[0]/t[1])`` is part of H.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from librt.vecs import append, pop, vec
from mypy_extensions import i64

from fairlead.scheduler._entities import (
    Server,
    Shape,
    fits,
    has_room,
    largest_of,
    less_than_any,
)
from fairlead.scheduler.selection.selection import Selection

INFINITE: Final = float("inf")
BANDS: Final = 2048
BANDS_REAL: Final = 2048.0
BELOW: Final = 1.0 - 1e-12  # allows for the relative error of a band's edge
ABOVE: Final = 1.0 + 1e-12


class Scales:
    """The factors ``t[q]/t[r]`` of H; t, the total capacity, changes as servers come and go."""

    def __init__(self) -> None:
        self.total = vec[i64]()  # (W,) of the factors
        self.rows: list[vec[float]] = []  # by q; 0 where the pool has nothing of r

    def update(self, total: vec[i64]) -> bool:
        """Compute the factors for a total; return whether the total changed."""
        if len(self.total) > 0 and fits(self.total, total) and fits(total, self.total):
            return False
        self.total = total[:]
        self.rows = []
        for pool in total:
            scale = vec[float]()
            for amount in total:
                scale = append(scale, float(pool) / float(amount) if amount > 0 else 0.0)
            self.rows.append(scale)
        return True

    def shape_difference(self, shape: Shape, server: Server) -> float:
        """Return H of the free amounts of a server."""
        return shape_difference(shape, self.rows[shape.lead], server.free, 0)

    def best(self, servers: list[Server], shape: Shape) -> Server | None:
        """Return the server with the least H, the first of equals."""
        best: Server | None = None
        least = INFINITE
        for server in servers:
            h = self.shape_difference(shape, server)
            if best is None or h < least or (h == least and server < best):
                best = server
                least = h
        return best


def shape_difference(shape: Shape, scale: vec[float], free: vec[i64], at: i64) -> float:
    """Return H of the free amounts from an index on; infinite without the task's first resource."""
    wanted, lead = shape.wanted, shape.lead
    over = float(free[at + lead])
    if over <= 0.0:
        return INFINITE
    total = 0.0
    for r in range(len(wanted)):
        if r != lead:
            total += abs(wanted[r] - float(max(free[at + r], 0)) / over) * scale[r]
    return total


class Lot:
    """Open servers of one kind with equal free amounts."""

    def __init__(self, band: Band, row: i64) -> None:
        self.band = band
        self.row = row  # in the band
        self.size: i64 = 0  # number of servers
        self.heap: list[Server] = []  # by order; servers that left the lot are stale entries

    def first(self) -> Server:
        while self.heap[0].lot is not self:
            heappop(self.heap)
        return self.heap[0]

    def add(self, server: Server) -> None:
        self.size += 1
        server.lot = self
        heappush(self.heap, server)
        if len(self.heap) > 2 * self.size + 64:
            self.heap = sorted(self.servers())

    def remove(self, server: Server) -> None:
        self.size -= 1
        server.lot = None

    def servers(self) -> list[Server]:
        by_name = {server.name: server for server in self.heap if server.lot is self}
        return list(by_name.values())


class Band:
    """Lots with similar ratios; their amounts are packed, so that a search reads them in order."""

    def __init__(self, number: i64, width: i64) -> None:
        self.number = number
        self.width = width
        self.lots: list[Lot] = []
        self.kinds = vec[i64]()  # the kind of each lot's servers
        self.free = vec[i64]()  # the free amounts of each lot

    def find(self, server: Server) -> Lot:
        """Return the lot of a server's kind and free amounts; create a missing one."""
        kinds, rows, kind, free = self.kinds, self.free, server.kind, server.free
        width = self.width
        at: i64 = 0
        for row in range(len(kinds)):
            r: i64 = 0
            while r < width and rows[at + r] == free[r]:
                r += 1
            if r == width and kinds[row] == kind:
                return self.lots[row]
            at += width
        lot = Lot(self, len(kinds))
        self.lots.append(lot)
        self.kinds = append(kinds, kind)
        for r in range(width):
            rows = append(rows, free[r])
        self.free = rows
        return lot

    def remove(self, lot: Lot) -> None:
        """Remove a lot; the last one takes its row."""
        last = self.lots.pop()
        rows, width = self.free, self.width
        for r in range(width):
            rows[(lot.row + 1) * width - 1 - r] = rows[len(rows) - 1]
            rows, _amount = pop(rows)
        self.free = rows
        self.kinds[lot.row] = self.kinds[len(self.kinds) - 1]
        self.kinds, _kind = pop(self.kinds)
        if last is not lot:
            self.lots[lot.row] = last
            last.row = lot.row


class Search:
    """The best lot so far for a task."""

    def __init__(self, shape: Shape, scale: vec[float]) -> None:
        self.shape = shape
        self.scale = scale  # (W,) of H
        self.least = INFINITE  # H of the best lot
        self.lot: Lot | None = None

    def visit(self, band: Band) -> bool:
        """Search a band for a better lot; return whether any of its lots has room."""
        shape = self.shape
        rows, need, admits = band.free, shape.need, shape.constraint.admits
        width: i64 = len(need)
        is_roomy = False
        at: i64 = 0
        for kind in band.kinds:
            r: i64 = 0
            while r < width and rows[at + r] >= need[r]:
                r += 1
            if r == width:
                is_roomy = True
                if admits[kind]:
                    h = shape_difference(shape, self.scale, rows, at)
                    if h <= self.least:
                        self.take(band.lots[at // width], h)
            at += width
        return is_roomy

    def take(self, lot: Lot, h: float) -> None:
        """Take a lot that fits at least as well as the best one; of equal ones the earlier."""
        best = self.lot
        if best is None or h < self.least or lot.first() < best.first():
            self.least = h
            self.lot = lot


class BestFit(Selection):
    """Keeps open servers in lots, and lots in bands."""

    def __init__(self, width: i64, total: vec[i64]) -> None:
        super().__init__(width, total)
        self.scales = Scales()
        self.has_new_scales = False  # since bands were last checked
        self.make_bands(1.0)

    def make_bands(self, ratio: float) -> None:
        """Create empty bands around the ratio of the pool's first two resources."""
        self.ratio = ratio
        edges = vec[float]()  # the ratio free[1] / free[0] at which each band begins, and infinity
        for band in range(BANDS):
            edges = append(edges, float(band) / float(BANDS - band) / ratio)
        self.edges = append(edges, INFINITE)
        self.bands = [Band(number, self.width) for number in range(BANDS)]
        # For each band, an upper bound of the free amounts of its lots, packed.
        self.most = less_than_any(BANDS * self.width)

    def band_of(self, free: vec[i64]) -> i64:
        """Return the number of the band of some free amounts."""
        if len(self.total) < 2 or (free[0] <= 0 and free[1] <= 0):
            return 0
        first = float(max(free[0], 0))
        other = float(max(free[1], 0)) * self.ratio
        band = i64(other / (first + other) * BANDS_REAL)
        return band if band < BANDS else BANDS - 1

    def open(self, server: Server) -> None:
        band = self.bands[self.band_of(server.free)]
        band.find(server).add(server)
        at = band.number * self.width
        most, free = self.most, server.free
        for r in range(self.width):
            most[at] = max(most[at], free[r])
            at += 1

    def close(self, server: Server) -> None:
        lot = server.lot
        assert lot is not None
        lot.remove(server)
        if lot.size == 0:
            lot.band.remove(lot)

    def change(self, server: Server) -> None:
        self.close(server)
        self.open(server)

    def update_scales(self) -> None:
        """Compute the scales if the pool's total changed."""
        if self.scales.update(self.total):
            self.has_new_scales = True

    def rescale(self) -> None:
        """Compute the scales, and perhaps make the bands anew, if the pool's total changed."""
        self.update_scales()
        total = self.total
        if not self.has_new_scales or len(total) < 2 or total[0] <= 0 or total[1] <= 0:
            return
        self.has_new_scales = False
        ratio = float(total[0]) / float(total[1])
        if not 0.5 * self.ratio <= ratio <= 2.0 * self.ratio:
            servers = [
                server for band in self.bands for lot in band.lots for server in lot.servers()
            ]
            self.make_bands(ratio)
            for server in servers:
                self.open(server)

    def find(self, shape: Shape) -> Server | None:
        self.rescale()
        search = Search(shape, self.scales.rows[shape.lead])
        wanted = 0.0
        scale = 0.0  # no bound
        up: i64 = 0
        if len(self.total) > 1 and shape.lead == 0 and self.total[1] > 0:
            wanted = shape.wanted[1]
            scale = search.scale[1]
            up = self.band_of(shape.demand)
        down = up - 1
        edges, most, need, width = self.edges, self.most, shape.need, self.width
        while up < BANDS or down >= 0:
            above = edges[up] * BELOW - wanted
            below = INFINITE if down < 0 else wanted - edges[down + 1] * ABOVE
            if min(above, below) * scale > search.least:
                break
            if above <= below:
                number = up
                up += 1
            else:
                number = down
                down -= 1
            r: i64 = 0
            while r < width and most[number * width + r] >= need[r]:
                r += 1
            if r == width and not search.visit(self.bands[number]):
                self.tighten(self.bands[number])
        return None if search.lot is None else search.lot.first()

    def tighten(self, band: Band) -> None:
        """Compute the largest free amount of each resource in a band."""
        at = band.number * self.width
        for amount in largest_of(band.free, self.width):
            self.most[at] = amount
            at += 1

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        self.update_scales()  # without the bands: free amounts may be those of another time
        return self.scales.best([server for server in servers if has_room(server, shape)], shape)
