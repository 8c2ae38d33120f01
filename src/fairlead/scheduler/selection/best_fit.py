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

from typing import Final

from librt.vecs import append, pop, vec
from mypy_extensions import i64

from fairlead.scheduler.selection.selection import Selection
from fairlead.scheduler.tables import NOT_TAKEN, Server, Shape, fits, has_room, vec_of

BANDS: Final = 2048
BANDS_REAL: Final = 2048.0
BELOW: Final = 1.0 - 1e-12  # more than the relative error of a band's edge
ABOVE: Final = 1.0 + 1e-12
INFINITE: Final = float("inf")


class Lot:
    """Open servers of one kind with equal free amounts.

    Attributes
    ----------
    band : Band
    row : int
        Its row in the band.
    servers : list of Server
        From the last one in order to the first.
    """

    def __init__(self, band: Band) -> None:
        self.band = band
        self.row: i64 = 0
        self.servers: list[Server] = []

    def rank(self) -> int:
        """Return the rank of its first server."""
        return self.servers[-1].rank

    def after(self, server: Server) -> i64:
        """Return how many of its servers come after a server."""
        servers, rank = self.servers, server.rank
        high: i64 = len(servers)
        low: i64 = high - 1  # mostly it is the first one
        if high == 0 or servers[low].rank > rank:
            return high
        if servers[low].rank < rank:
            low = 0
        while low < high:
            middle = (low + high) // 2
            if servers[middle].rank > rank:
                low = middle + 1
            else:
                high = middle
        return low


class Band:
    """Lots with nearly the same ratio of the first two resources.

    Attributes
    ----------
    number : int
    lots : list of Lot
    kinds : vec
        The kind of each lot's servers.
    free : vec
        The free amounts of each lot, one after the other.
    """

    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        self.lots: list[Lot] = []
        self.kinds: vec[i64] = vec[i64]()
        self.free: vec[i64] = vec[i64]()

    def find(self, server: Server) -> Lot:
        """Return the lot of a server's kind and free amounts; a new one if there is none."""
        kinds, rows, kind, free = self.kinds, self.free, server.kind, server.free
        width: i64 = len(free)
        at: i64 = 0
        for row in range(len(kinds)):
            r: i64 = 0
            while r < width and rows[at + r] == free[r]:
                r += 1
            if r == width and kinds[row] == kind:
                return self.lots[row]
            at += width
        lot = Lot(self)
        lot.row = len(self.lots)
        self.lots.append(lot)
        self.kinds = append(kinds, kind)
        for amount in free:
            rows = append(rows, amount)
        self.free = rows
        return lot

    def remove(self, lot: Lot) -> None:
        """Remove a lot; the last one takes its row."""
        rows = self.free
        width: i64 = len(rows) // len(self.lots)
        for r in range(width):
            rows[(lot.row + 1) * width - 1 - r] = rows[len(rows) - 1]
            rows, _amount = pop(rows)
        self.free = rows
        self.kinds[lot.row] = self.kinds[len(self.kinds) - 1]
        self.kinds, _kind = pop(self.kinds)
        last = self.lots.pop()
        if last is not lot:
            self.lots[lot.row] = last
            last.row = lot.row


class Search:
    """The best lot so far for a task.

    Attributes
    ----------
    scale : vec of float
        ``t[q]/t[r]``, or 0 where the pool has nothing of the resource.
    least : float
        H of the best lot, infinite without one.
    """

    def __init__(self, shape: Shape, scale: vec[float]) -> None:
        self.shape = shape
        self.scale: vec[float] = scale
        self.least = INFINITE
        self.lot: Lot | None = None

    def look(self, band: Band) -> bool:
        """Look for a better lot in a band; return whether any of its lots has room."""
        shape = self.shape
        rows, need, allowed = band.free, shape.need, shape.place.allowed
        width: i64 = len(need)
        is_roomy = False
        at: i64 = 0
        for kind in band.kinds:
            r: i64 = 0
            while r < width and rows[at + r] >= need[r]:
                r += 1
            if r == width:
                is_roomy = True
                if allowed[kind]:
                    h = misfit(shape, self.scale, rows, at)
                    if h <= self.least:
                        self.take(band.lots[at // width], h)
            at += width
        return is_roomy

    def take(self, lot: Lot, h: float) -> None:
        """Take a lot that fits at least as well as the best one; of equal ones the earlier."""
        best = self.lot
        if best is None or h < self.least or lot.rank() < best.rank():
            self.least = h
            self.lot = lot


def misfit(shape: Shape, scale: vec[float], free: vec[i64], at: i64) -> float:
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


def scales_of(total: vec[i64]) -> list[vec[float]]:
    """Return ``t[q]/t[r]`` for each q and r; 0 where the pool has nothing of r."""
    scales: list[vec[float]] = []
    for pool in total:
        scale = vec[float]()
        for amount in total:
            scale = append(scale, float(pool) / float(amount) if amount > 0 else 0.0)
        scales.append(scale)
    return scales


class BestFit(Selection):
    """Keeps open servers in lots, and lots in bands.

    Attributes
    ----------
    counted : vec of W
        The total that the ratio and the scales are of.
    ratio : float
        Of the pool's first two resources when the bands were made.
    edges : vec of float
        The ratio at which each band begins, and infinity.
    scales : list of vec of float
        By the first resource of a task; see `Search`.
    bands : list of Band
    most : vec
        At least what any lot of each band has free, one band after the other.
    """

    def __init__(self, width: i64, total: vec[i64]) -> None:
        super().__init__(width, total)
        self.counted: vec[i64] = vec[i64]()
        self.scales: list[vec[float]] = []
        self.make_bands(1.0)

    def make_bands(self, ratio: float) -> None:
        """Begin bands without lots."""
        self.ratio = ratio
        edges = vec[float]()
        for band in range(BANDS):
            edges = append(edges, float(band) / float(BANDS - band) / ratio)
        self.edges: vec[float] = append(edges, INFINITE)
        self.bands = [Band(number) for number in range(BANDS)]
        self.most: vec[i64] = vec_of([NOT_TAKEN - 1] * int(BANDS * self.width))

    def open(self, server: Server) -> None:
        """Add a server that takes tasks from now on."""
        band = self.bands[self.band_of(server.free)]
        server.lot = lot = band.find(server)
        lot.servers.insert(lot.after(server), server)
        for r in range(self.width):
            at = band.number * self.width + r
            self.most[at] = max(self.most[at], server.free[r])

    def close(self, server: Server) -> None:
        """Remove a server that takes no more tasks."""
        lot = server.lot
        assert lot is not None
        server.lot = None
        del lot.servers[lot.after(server)]
        if not lot.servers:
            lot.band.remove(lot)

    def change(self, server: Server) -> None:
        """Note that the free amounts of an open server changed."""
        self.close(server)
        self.open(server)

    def band_of(self, free: vec[i64]) -> i64:
        """Return the band of some free amounts."""
        if self.width < 2 or (free[0] <= 0 and free[1] <= 0):
            return 0
        first = float(max(free[0], 0))
        other = float(max(free[1], 0)) * self.ratio
        band = i64(other / (first + other) * BANDS_REAL)
        return band if band < BANDS else BANDS - 1

    def tighten(self, band: Band) -> None:
        """Find the most that any lot of a band has free."""
        width, rows = self.width, band.free
        for r in range(width):
            most: i64 = NOT_TAKEN - 1
            for row in range(len(band.lots)):
                most = max(most, rows[row * width + r])
            self.most[band.number * width + r] = most

    def rescale(self) -> None:
        """Compute the scales, and perhaps make the bands anew, if the pool's total changed."""
        total = self.total
        if len(self.counted) > 0 and fits(self.counted, total) and fits(total, self.counted):
            return
        self.counted = total[:]
        self.scales = scales_of(total)
        if self.width < 2 or total[0] <= 0 or total[1] <= 0:
            return
        ratio = float(total[0]) / float(total[1])
        if not 0.5 * self.ratio <= ratio <= 2.0 * self.ratio:
            servers = [server for band in self.bands for lot in band.lots for server in lot.servers]
            self.make_bands(ratio)
            for server in servers:
                self.open(server)

    def find(self, shape: Shape) -> Server | None:
        """Return the server that fits best."""
        self.rescale()
        search = Search(shape, self.scales[shape.lead])
        wanted = 0.0
        scale = 0.0  # no bound
        up: i64 = 0
        if self.width > 1 and shape.lead == 0 and self.total[1] > 0:
            wanted = shape.wanted[1]
            scale = search.scale[1]
            up = self.band_of(shape.demand)
        down = up - 1
        edges, most, need = self.edges, self.most, shape.need
        while up < BANDS or down >= 0:
            above = edges[up] * BELOW - wanted
            below = INFINITE if down < 0 else wanted - edges[down + 1] * ABOVE
            if above <= below:
                number = up
                up += 1
            else:
                number = down
                down -= 1
            if min(above, below) * scale > search.least:
                break
            r: i64 = 0
            while r < self.width and most[number * self.width + r] >= need[r]:
                r += 1
            if r == self.width and not search.look(self.bands[number]):
                self.tighten(self.bands[number])
        return None if search.lot is None else search.lot.servers[-1]

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        """Return that of some servers that fits best."""
        self.rescale()
        scale = self.scales[shape.lead]
        least = INFINITE
        best: Server | None = None
        for server in servers:
            if has_room(server, shape):
                h = misfit(shape, scale, server.free, 0)
                if best is None or h < least or (h == least and server.rank < best.rank):
                    least = h
                    best = server
        return best
