"""What round-robin and offers keep between calls of `place`: the round under way, and declines."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter
from typing import Final

from fairlead.model.quantity import exact
from fairlead.scheduler.random_order import RandomOrder
from fairlead.scheduler.snapshot_rows import RoundsRow
from fairlead.scheduler.tables import Server

REFUSE_SECONDS: Final = Fraction(5)


class Declines:
    """The queues that declined a server, and until when they are not offered it again."""

    # Queues that declined all its free amounts; offered again when more is freed.
    firm: dict[str, Fraction]
    freed: dict[str, Fraction]  # queues that declined it before more was freed

    def __init__(self) -> None:
        self.firm = {}
        self.freed = {}

    def is_over(self, queue: str, now: Fraction) -> bool:
        """Return whether the server may be offered to a queue."""
        if queue in self.firm:
            return False
        until = self.freed.get(queue)
        return until is None or until <= now


class Rounds:
    """A round visits every server once, in a fresh random order, over several calls of `place`."""

    refuse_seconds: Fraction  # until a server is offered again that was declined
    random: RandomOrder
    left: list[str]  # servers that the round still visits, the next one last
    is_idle: bool = False  # a round is under way that has placed nothing yet, or offered nothing
    taker: tuple[str, str] | None = None  # the queue and the server of the offer under way
    declines: dict[str, Declines]  # by server
    now: Fraction  # the time of the last call of `place`, where demands are unknown
    order: list[str] | None = None  # all servers, in their order; None if unknown

    def __init__(self, random: RandomOrder, refuse_seconds: Fraction = REFUSE_SECONDS) -> None:
        self.refuse_seconds = refuse_seconds
        self.random = random
        self.left = []
        self.declines = {}
        self.now = Fraction(0)

    # The round under way

    def next_server(self, servers: dict[str, Server]) -> Server | None:
        """Return the server that is visited next; None once after a round that placed nothing."""
        while not self.left:
            if self.is_idle:
                self.is_idle = False
                return None
            self.is_idle = True
            if self.order is None:
                self.order = [server.name for server in sorted(servers.values())]
            order = self.order
            self.left = [order[number] for number in self.random.permutation(len(order))]
            self.left.reverse()
        return servers[self.left.pop()]

    # Offers

    def decline(self, queue: str, server: str) -> None:
        """End the offer under way: the queue takes no more of the server for a while."""
        self.taker = None
        declines = self.declines.get(server)
        if declines is None:
            declines = Declines()
            self.declines[server] = declines
        declines.freed.pop(queue, None)
        declines.firm[queue] = self.now + self.refuse_seconds

    def free_up(self, server: str) -> None:
        """Note that a server has more to offer."""
        declines = self.declines.get(server)
        if declines is not None:
            declines.freed.update(declines.firm)
            declines.firm = {}

    def revive(self, queue: str) -> None:
        """Forget what a queue declined, as it has more tasks to place. O(servers)."""
        for declines in self.declines.values():
            declines.firm.pop(queue, None)
            declines.freed.pop(queue, None)

    def next_offer(self, queues: set[str], servers: set[str]) -> float:
        """Return when one of some servers is next offered to a queue that declined it."""
        least: Fraction | None = None
        for server, declines in self.declines.items():
            for queue, until in declines.freed.items():
                if until > self.now and queue in queues and server in servers:
                    least = until if least is None else min(least, until)
        return inf if least is None else not_before(least)

    # Servers and queues

    def add_server(self) -> None:
        """Note that there is another server; the round under way does not visit it."""
        self.order = None

    def remove_server(self, server: str) -> None:
        """Forget a server."""
        self.order = None
        if server in self.left:
            self.left.remove(server)
        if self.taker is not None and self.taker[1] == server:
            self.taker = None
        self.declines.pop(server, None)

    def remove_queue(self, queue: str) -> None:
        """Forget a queue."""
        if self.taker is not None and self.taker[0] == queue:
            self.taker = None
        self.revive(queue)

    # Undo and snapshots

    def save(self) -> RoundsRow:
        """Return all of it in plain values."""
        declined: list[tuple[str, str, int, int, bool]] = []
        for server in sorted(self.declines):
            declines = self.declines[server]
            for queue, until in sorted(declines.firm.items()):
                declined.append((server, queue, until.numerator, until.denominator, False))
            for queue, until in sorted(declines.freed.items()):
                declined.append((server, queue, until.numerator, until.denominator, True))
        return {
            "random": self.random.save(),
            "left": list(self.left),
            "idle": self.is_idle,
            "taker": self.taker,
            "declined": declined,
            "now": (self.now.numerator, self.now.denominator),
        }

    def restore(self, row: RoundsRow) -> None:
        """Restore saved values."""
        self.random.restore(row["random"])
        self.left = list(row["left"])
        self.is_idle = row["idle"]
        self.taker = row["taker"]
        self.declines = {}
        for server, queue, over, under, is_freed in row["declined"]:
            declines = self.declines.setdefault(server, Declines())
            (declines.freed if is_freed else declines.firm)[queue] = Fraction(over, under)
        self.now = Fraction(row["now"][0], row["now"][1])


def not_before(moment: Fraction) -> float:
    """Return the float of a moment, or the next one if that is an earlier moment."""
    found = float(moment)
    return nextafter(found, inf) if exact(found) < moment else found
