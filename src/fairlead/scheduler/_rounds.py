"""The round under way, and declined offers: the memory of round-robin between calls of `place`."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter
from typing import TYPE_CHECKING

from fairlead.model.quantity import exact
from fairlead.scheduler._entities import Server
from fairlead.scheduler.random_order import RandomOrder

if TYPE_CHECKING:
    from fairlead.scheduler._snapshot import RoundsRow


class Declines:
    """The queues that declined a server, and when it may be offered to them again."""

    def __init__(self) -> None:
        # Queues that declined all its free amounts; the server is offered again when more is freed.
        self.firm: dict[str, Fraction] = {}
        self.freed: dict[str, Fraction] = {}  # queues that declined before more was freed

    def is_over(self, queue: str, now: Fraction) -> bool:
        """Return whether the server may be offered to a queue."""
        if queue in self.firm:
            return False
        until = self.freed.get(queue)
        return until is None or until <= now


class Rounds:
    """A round visits every server once, in a fresh random order, over several calls of `place`."""

    def __init__(self, random: RandomOrder, refuse_seconds: Fraction) -> None:
        self.refuse_seconds = refuse_seconds  # seconds until a declined server is offered again
        self.random = random
        self.left: list[str] = []  # servers that the round has still to visit, the next one last
        self.is_idle = False  # whether the round has placed no task, or made no offer, so far
        self.current_offer: tuple[str, str] | None = None  # its queue and server
        self.declines: dict[str, Declines] = {}  # by server
        self.now = Fraction(0)  # the time of the last call of `place`, where demands are unknown
        self.order: list[str] | None = None  # all servers, in their order; None if unknown

    def next_server(self, servers: dict[str, Server]) -> Server | None:
        """Return the server to visit next; None once, after a round that placed no task."""
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

    def decline(self, queue: str, server: str) -> None:
        """End the current offer: the queue declines the rest of the server for a while."""
        self.current_offer = None
        declines = self.declines.setdefault(server, Declines())
        declines.freed.pop(queue, None)
        declines.firm[queue] = self.now + self.refuse_seconds

    def free_up(self, server: str) -> None:
        """Allow offers of a server again after a while, because more of it is free."""
        declines = self.declines.get(server)
        if declines is not None:
            declines.freed.update(declines.firm)
            declines.firm = {}

    def forget_declines(self, queue: str) -> None:
        """Forget the declines of a queue with more tasks to place. O(servers)."""
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

    def change_servers(self) -> None:
        """Sort servers again for the next round; the current round visits no new server."""
        self.order = None

    def remove_server(self, server: str) -> None:
        self.order = None
        if server in self.left:
            self.left.remove(server)
        if self.current_offer is not None and self.current_offer[1] == server:
            self.current_offer = None
        self.declines.pop(server, None)

    def remove_queue(self, queue: str) -> None:
        if self.current_offer is not None and self.current_offer[0] == queue:
            self.current_offer = None
        self.forget_declines(queue)

    def save(self) -> RoundsRow:
        """Return all of it as plain values, for undo and snapshots."""
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
            "taker": self.current_offer,
            "declined": declined,
            "now": (self.now.numerator, self.now.denominator),
        }

    def restore(self, row: RoundsRow) -> None:
        self.random.restore(row["random"])
        self.left = list(row["left"])
        self.is_idle = row["idle"]
        self.current_offer = row["taker"]
        self.declines = {}
        for server, queue, over, under, is_freed in row["declined"]:
            declines = self.declines.setdefault(server, Declines())
            (declines.freed if is_freed else declines.firm)[queue] = Fraction(over, under)
        self.now = Fraction(row["now"][0], row["now"][1])


def not_before(time: Fraction) -> float:
    """Return the float of a time, or the next one if that float is earlier."""
    found = float(time)
    return nextafter(found, inf) if exact(found) < time else found
