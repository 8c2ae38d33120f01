"""Best-fit: of the servers with room, the one with the least H; ties by order.

H measures how much the proportions of a task's demand d and of a server's free amounts f (at least
0) differ: ``H = sum over r of |d[r]/d[q] - f[r]/f[q]| * (t[q]/t[r])``. Here q is the first resource
that the task takes, and t the total of the pool; the sum is over the resources of which the pool
has any. H is a double, computed in exactly this order. (Wang, Liang and Li 2015.)

Open servers of one kind with equal free amounts form a lot. Lots with similar ratios of the first
two free amounts form a band. A search goes from the band of the task's ratio up and down. It ends
at bands where the term ``|d[1]/d[0] - f[1]/f[0]| * (t[0]/t[1])`` of H alone exceeds the best H.
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
    less_than_any_need,
)
from fairlead.scheduler.selection.first_fit import Selection

INFINITE: Final = float("inf")
BANDS: Final = 2048
BANDS_REAL: Final = 2048.0  # the same as a float
# Factors that allow for the relative error of a band's edge.
BELOW: Final = 1.0 - 1e-12
ABOVE: Final = 1.0 + 1e-12


class Scales:
    """The factors ``t[q]/t[r]`` of H; the total t changes when servers join, change or leave."""

    def __init__(self) -> None:
        self.total = vec[i64]()  # (W,) the total t for which they were computed
        self.rows: list[vec[float]] = []  # (W, W) by q and r; 0 where the pool has nothing of r

    def update(self, total: vec[i64]) -> bool:
        """Compute the factors if the total changed; return whether it did."""
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
        """Return H for a task and the free amounts of a server."""
        return shape_difference(shape, self.rows[shape.lead], server.free, 0)

    def best(self, servers: list[Server], shape: Shape) -> Server | None:
        """Return the server with the least H; ties by order."""
        best: Server | None = None
        least = INFINITE
        for server in servers:
            h = self.shape_difference(shape, server)
            if best is None or h < least or (h == least and server < best):
                best = server
                least = h
        return best


def shape_difference(shape: Shape, scale: vec[float], free: vec[i64], at: i64) -> float:
    """Return H for the free amounts that begin at `at`; infinite if none of resource q is free."""
    proportions, lead = shape.proportions, shape.lead
    free_lead = float(free[at + lead])
    if free_lead <= 0.0:
        return INFINITE
    h = 0.0
    for r in range(len(proportions)):
        if r != lead:
            h += abs(proportions[r] - float(max(free[at + r], 0)) / free_lead) * scale[r]
    return h


class Lot:
    """Open servers of one kind with equal free amounts."""

    def __init__(self, band: Band, row: i64) -> None:
        self.band = band
        self.row = row  # its index in the lists of the band
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
    """Lots with similar ratios; their free amounts are packed for searches to read in order."""

    def __init__(self, number: i64, width: i64) -> None:
        self.number = number
        self.width = width
        self.lots: list[Lot] = []
        self.kinds = vec[i64]()  # the kind of each lot's servers
        self.free = vec[i64]()  # the free amounts of each lot, one after the other

    def find_or_add(self, server: Server) -> Lot:
        """Return the lot of a server's kind and free amounts; add a missing one."""
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
        """Remove a lot; the last lot takes its row."""
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
    """A search for the best lot for a task of a shape."""

    def __init__(self, shape: Shape, scale: vec[float]) -> None:
        self.shape = shape
        self.scale = scale  # (W,) the factors of H
        self.least = INFINITE  # H of the best lot
        self.lot: Lot | None = None  # the best one so far

    def visit(self, band: Band) -> bool:
        """Search a band for a better lot; return whether any lot has room, even if not admitted."""
        shape = self.shape
        rows, need, admits = band.free, shape.need, shape.constraint.admits
        width: i64 = len(need)
        found_room = False
        at: i64 = 0
        for kind in band.kinds:
            r: i64 = 0
            while r < width and rows[at + r] >= need[r]:
                r += 1
            if r == width:
                found_room = True
                if admits[kind]:
                    h = shape_difference(shape, self.scale, rows, at)
                    if h <= self.least:
                        self.keep(band.lots[at // width], h)
            at += width
        return found_room

    def keep(self, lot: Lot, h: float) -> None:
        """Keep a lot with an H of at most `least`; of equal H, that with the first server."""
        best = self.lot
        if best is None or h < self.least or lot.first() < best.first():
            self.least = h
            self.lot = lot


class BestFit(Selection):
    """Keeps open servers in lots, and lots in bands."""

    def __init__(self, width: i64, total: vec[i64]) -> None:
        super().__init__(width, total)
        self.scales = Scales()
        self.has_new_scales = False  # whether the scales changed since the bands were checked
        self.make_bands(1.0)

    def make_bands(self, ratio: float) -> None:
        """Make empty bands for a ratio ``t[0] / t[1]`` of the total."""
        self.ratio = ratio
        edges = vec[float]()  # the ratio free[1] / free[0] at which each band starts, and infinity
        for band in range(BANDS):
            edges = append(edges, float(band) / float(BANDS - band) / ratio)
        self.edges = append(edges, INFINITE)
        self.bands = [Band(number, self.width) for number in range(BANDS)]
        # Of each band, upper bounds of the free amounts of its lots, one band after the other.
        self.bounds = less_than_any_need(BANDS * self.width)

    def band_of(self, free: vec[i64]) -> i64:
        """Return the number of the band for some free amounts, or for a demand."""
        if len(self.total) < 2 or (free[0] <= 0 and free[1] <= 0):
            return 0
        first = float(max(free[0], 0))
        other = float(max(free[1], 0)) * self.ratio
        band = i64(other / (first + other) * BANDS_REAL)
        return band if band < BANDS else BANDS - 1

    def open(self, server: Server) -> None:
        band = self.bands[self.band_of(server.free)]
        band.find_or_add(server).add(server)
        at = band.number * self.width
        bounds, free = self.bounds, server.free
        for r in range(self.width):
            bounds[at] = max(bounds[at], free[r])
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
        if self.scales.update(self.total):
            self.has_new_scales = True

    def rescale(self) -> None:
        """Update the scales; make new bands if the ratio of the total halved or doubled since."""
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
        """Return the open server with the least H of those with room.

        Bands are visited by their distance from the task's ratio, upwards and downwards.
        """
        self.rescale()
        search = Search(shape, self.scales.rows[shape.lead])
        # If the task does not take the first resource, bands do not bound H, and all are visited.
        proportion = 0.0
        scale = 0.0
        up: i64 = 0
        if len(self.total) > 1 and shape.lead == 0 and self.total[1] > 0:
            proportion = shape.proportions[1]
            scale = search.scale[1]
            up = self.band_of(shape.demand)
        down = up - 1
        edges, bounds, need, width = self.edges, self.bounds, shape.need, self.width
        while up < BANDS or down >= 0:
            # The least distances of `proportion` from the ratios in the next band up, and down.
            above = edges[up] * BELOW - proportion
            below = INFINITE if down < 0 else proportion - edges[down + 1] * ABOVE
            if min(above, below) * scale > search.least:
                break
            if above <= below:
                number = up
                up += 1
            else:
                number = down
                down -= 1
            r: i64 = 0
            while r < width and bounds[number * width + r] >= need[r]:
                r += 1
            if r == width and not search.visit(self.bands[number]):
                self.tighten(self.bands[number])
        return None if search.lot is None else search.lot.first()

    def tighten(self, band: Band) -> None:
        """Lower the bounds of a band to its largest free amounts."""
        at = band.number * self.width
        for amount in largest_of(band.free, self.width):
            self.bounds[at] = amount
            at += 1

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        self.update_scales()  # without the bands, as free amounts may be of another time
        return self.scales.best([server for server in servers if has_room(server, shape)], shape)
