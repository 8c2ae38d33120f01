"""Best-fit: the server with room whose free amounts are most alike in shape to the task.

That with the least H, see `misfit`. Of equal ones the earlier server is taken.

Lots of servers stand in bands by the ratio of their first two resources. A search looks at the
bands nearest to the task's ratio first. It ends where no further band can hold a lesser H, as
``|d[1]/d[0] - f[1]/f[0]| * (t[0]/t[1])`` is part of the sum.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from fairlead.scheduler.selection.lots import Band, Lot
from fairlead.scheduler.selection.misfit import INFINITE, Scales, misfit
from fairlead.scheduler.selection.selection import Selection
from fairlead.scheduler.tables import NOT_TAKEN, Server, Shape, has_room, most_of

BANDS: Final = 2048
BANDS_REAL: Final = 2048.0
BELOW: Final = 1.0 - 1e-12  # more than the relative error of a band's edge
ABOVE: Final = 1.0 + 1e-12


class Search:
    """The best lot so far for a task."""

    shape: Shape
    scale: vec[float]  # (W,) of H
    least: float = INFINITE  # H of the best lot
    lot: Lot | None = None

    def __init__(self, shape: Shape, scale: vec[float]) -> None:
        self.shape = shape
        self.scale = scale

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
        if best is None or h < self.least or lot.first() < best.first():
            self.least = h
            self.lot = lot


class BestFit(Selection):
    """Keeps open servers in lots, and lots in bands."""

    scales: Scales
    ratio: float  # of the pool's first two resources when the bands were made
    edges: vec[float]  # the ratio ``free[1] / free[0]`` at which each band begins, and infinity
    bands: list[Band]
    most: vec[i64]  # at least what any lot of each band has free, one band after the other

    def __init__(self, width: i64, total: vec[i64]) -> None:
        super().__init__(width, total)
        self.scales = Scales()
        self.make_bands(1.0)

    def make_bands(self, ratio: float) -> None:
        """Begin bands without lots."""
        self.ratio = ratio
        edges = vec[float]()
        for band in range(BANDS):
            edges = append(edges, float(band) / float(BANDS - band) / ratio)
        self.edges = append(edges, INFINITE)
        self.bands = [Band(number) for number in range(BANDS)]
        self.most = vec[i64]([NOT_TAKEN - 1] * int(BANDS * self.width))

    def band_of(self, free: vec[i64]) -> i64:
        """Return the band of some free amounts."""
        if self.width < 2 or (free[0] <= 0 and free[1] <= 0):
            return 0
        first = float(max(free[0], 0))
        other = float(max(free[1], 0)) * self.ratio
        band = i64(other / (first + other) * BANDS_REAL)
        return band if band < BANDS else BANDS - 1

    def open(self, server: Server) -> None:
        """Add a server that takes tasks from now on."""
        band = self.bands[self.band_of(server.free)]
        band.find(server).add(server)
        at = band.number * self.width
        for amount in server.free:
            self.most[at] = max(self.most[at], amount)
            at += 1

    def close(self, server: Server) -> None:
        """Remove a server that takes no more tasks."""
        lot = server.lot
        assert lot is not None
        lot.remove(server)
        if not lot.servers:
            lot.band.remove(lot)

    def change(self, server: Server) -> None:
        """Note that the free amounts of an open server changed."""
        self.close(server)
        self.open(server)

    def rescale(self) -> None:
        """Compute the scales, and perhaps make the bands anew, if the pool's total changed."""
        total = self.total
        if not self.scales.update(total) or self.width < 2 or total[0] <= 0 or total[1] <= 0:
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
        search = Search(shape, self.scales.rows[shape.lead])
        wanted = 0.0
        scale = 0.0  # no bound
        up: i64 = 0
        if self.width > 1 and shape.lead == 0 and self.total[1] > 0:
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
            if r == width and not search.look(self.bands[number]):
                self.tighten(self.bands[number])
        return None if search.lot is None else search.lot.first()

    def tighten(self, band: Band) -> None:
        """Find the most that any lot of a band has free."""
        at = band.number * self.width
        for amount in most_of(band.free, self.width):
            self.most[at] = amount
            at += 1

    def find_among(self, servers: list[Server], shape: Shape) -> Server | None:
        """Return that of some servers that fits best."""
        self.rescale()
        least = INFINITE
        best: Server | None = None
        for server in servers:
            if has_room(server, shape):
                h = self.scales.misfit(shape, server.free)
                if best is None or h < least or (h == least and server < best):
                    least = h
                    best = server
        return best
