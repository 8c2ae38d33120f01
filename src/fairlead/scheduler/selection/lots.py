"""Lots: open servers that no task can tell apart, as kind and free amounts are equal."""

from __future__ import annotations

from librt.vecs import append, pop, vec
from mypy_extensions import i64

from fairlead.scheduler.tables import Server


class Lot:
    """Open servers of one kind with equal free amounts."""

    band: Band
    row: i64  # in the band
    servers: list[Server]  # from the last one in order to the first

    def __init__(self, band: Band, row: i64) -> None:
        self.band = band
        self.row = row
        self.servers = []

    def first(self) -> Server:
        """Return its first server."""
        return self.servers[-1]

    def add(self, server: Server) -> None:
        """Add a server."""
        self.servers.insert(self.place_of(server), server)
        server.lot = self

    def remove(self, server: Server) -> None:
        """Remove a server."""
        del self.servers[self.place_of(server)]
        server.lot = None

    def place_of(self, server: Server) -> i64:
        """Return how many of its servers come after a server."""
        servers = self.servers
        high: i64 = len(servers)
        low: i64 = high - 1  # mostly it is the first one
        if high == 0 or server < servers[low]:
            return high
        if servers[low] < server:
            low = 0
        while low < high:
            middle = (low + high) // 2
            if server < servers[middle]:
                low = middle + 1
            else:
                high = middle
        return low


class Band:
    """Lots whose amounts are packed one after the other, so that a search reads them in turn."""

    number: i64
    lots: list[Lot]
    kinds: vec[i64]  # the kind of each lot's servers
    free: vec[i64]  # the free amounts of each lot

    def __init__(self, number: i64) -> None:
        self.number = number
        self.lots = []
        self.kinds = vec[i64]()
        self.free = vec[i64]()

    def find(self, server: Server) -> Lot:
        """Return the lot for a server's kind and free amounts; a new one if there is none."""
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
        lot = Lot(self, len(kinds))
        self.lots.append(lot)
        self.kinds = append(kinds, kind)
        for amount in free:
            rows = append(rows, amount)
        self.free = rows
        return lot

    def remove(self, lot: Lot) -> None:
        """Remove a lot; the last one takes its row."""
        last = self.lots.pop()
        rows = self.free
        width: i64 = len(rows) // len(self.kinds)
        for r in range(width):
            rows[(lot.row + 1) * width - 1 - r] = rows[len(rows) - 1]
            rows, _amount = pop(rows)
        self.free = rows
        self.kinds[lot.row] = self.kinds[len(self.kinds) - 1]
        self.kinds, _kind = pop(self.kinds)
        if last is not lot:
            self.lots[lot.row] = last
            last.row = lot.row
