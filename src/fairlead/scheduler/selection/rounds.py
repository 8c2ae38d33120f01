"""The state of round-robin between calls of `place`: the current round, and declined offers."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter
from typing import TYPE_CHECKING

from fairlead.model.quantity import exact
from fairlead.scheduler._entities import Server
from fairlead.scheduler.random_order import RandomOrder

if TYPE_CHECKING:
    from fairlead.scheduler._snapshot import RoundsRow


class Decline:
    """A queue's refusal of the free amounts of a server."""

    def __init__(self, until: Fraction, is_freed: bool = False) -> None:
        self.until = until  # the earliest time of the next offer, in seconds
        self.is_freed = is_freed  # whether the server was freed since; if not, there is no offer


class Rounds:
    """A round visits every server once, in a fresh random order, over several calls of `place`."""

    def __init__(self, random: RandomOrder, refuse_seconds: Fraction) -> None:
        self.refuse_seconds = refuse_seconds  # until a queue is offered a declined server again
        self.random = random
        self.left: list[str] = []  # servers that the round has still to visit, the next one last
        self.is_idle = False  # whether this round has placed no task (`/oblivious`: made no offer)
        self.current_offer: tuple[str, str] | None = None  # a queue and a server
        self.declines: dict[str, dict[str, Decline]] = {}  # by server and queue
        self.now = Fraction(0)  # under `/oblivious`: the time of the last call of `place`
        self.order: list[str] | None = None  # all servers, in their order; None if it may be stale

    def next_server(self, servers: dict[str, Server]) -> Server | None:
        """Return the server to visit next; start a new round after the last one.

        Return None once after a round that placed no task.
        """
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
        by_queue = self.declines.setdefault(server, {})
        by_queue[queue] = Decline(self.now + self.refuse_seconds)

    def is_declined(self, queue: str, server: str) -> bool:
        """Return whether a server may not be offered to a queue now."""
        decline = self.declines.get(server, {}).get(queue)
        return decline is not None and (not decline.is_freed or decline.until > self.now)

    def free_up(self, server: str) -> None:
        """Allow offers of a freed server to queues that declined it, each from `until` on."""
        for decline in self.declines.get(server, {}).values():
            decline.is_freed = True

    def forget_declines(self, queue: str) -> None:
        """Forget the declines of a queue with more tasks to place. O(servers)."""
        for by_queue in self.declines.values():
            by_queue.pop(queue, None)

    def time_of_next_offer(self, queues: set[str], servers: set[str]) -> float:
        """Return the first time at which one of some servers may be offered to one of some queues.

        Only servers count that the queue declined, and that were freed since; infinite if none.
        """
        least: Fraction | None = None
        for server in servers & set(self.declines):
            for queue, decline in self.declines[server].items():
                until = decline.until
                if decline.is_freed and until > self.now and queue in queues:
                    least = until if least is None else min(least, until)
        return inf if least is None else not_before(least)

    def note_new_servers(self) -> None:
        """Sort the servers again before the next round; this round visits no new server."""
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
        """Return the whole state as plain values, for undo and snapshots."""
        declined: list[tuple[str, str, int, int, bool]] = []
        for server in self.declines:
            for queue, decline in self.declines[server].items():
                until = decline.until
                row = (server, queue, until.numerator, until.denominator, decline.is_freed)
                declined.append(row)
        return {
            "random": self.random.save(),
            "left": list(self.left),
            "idle": self.is_idle,
            "taker": self.current_offer,
            "declined": sorted(declined),
            "now": (self.now.numerator, self.now.denominator),
        }

    def restore(self, row: RoundsRow) -> None:
        """Set the state from `save`."""
        self.random.restore(row["random"])
        self.left = list(row["left"])
        self.is_idle = row["idle"]
        self.current_offer = row["taker"]
        self.declines = {}
        for server, queue, numerator, denominator, is_freed in row["declined"]:
            decline = Decline(Fraction(numerator, denominator), is_freed)
            self.declines.setdefault(server, {})[queue] = decline
        self.now = Fraction(row["now"][0], row["now"][1])


def not_before(time: Fraction) -> float:
    """Return the smallest float that is not before a time."""
    found = float(time)
    return nextafter(found, inf) if exact(found) < time else found
