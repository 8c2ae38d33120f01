"""An explanation of a waiting group of tasks, as fields and in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

NAMED = 10  # largest number of servers or queues in a list; counts are of all of them
PRINTED = 3  # largest number of servers or queues in a sentence
UNITS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0))


class ServerShortage(NamedTuple):
    """The amount of each resource that a server lacks for a task now."""

    server: str
    lacks: dict[str, float]


class QueueScore(NamedTuple):
    """A queue and its score as a share; under fifo and easy, its time of submission in seconds."""

    queue: str
    score: float

    def in_words(self, now: float | None) -> str:
        """Return the score as text; if `now` is given, a time of submission as the time since."""
        return f"{self.score:.4g}" if now is None else f"{duration(now - self.score)} ago"


class WaitReason(NamedTuple):
    """Why a group waits: a word for `Explanation.held_by`, and a sentence."""

    held_by: str
    reason: str


class Reservation(NamedTuple):
    """The reserved start of the explained group, or else of the first group on its servers.

    It is for all tasks of a gang, or for the next task of a group that is not a gang.

    Attributes
    ----------
    queue, group : str, int
        The group with the reservation, and its queue.
    at : float
        Time in seconds if running tasks end at their limits; infinite if it fits at no such
        time.
    servers : tuple of str
    sure : bool
        Whether all tasks that must end before it have time limits; if not, it may start later.
    """

    queue: str
    group: int
    at: float
    servers: tuple[str, ...]
    sure: bool = True


class Change(NamedTuple):
    """A change, and whether it would start the group's first task at once.

    Attributes
    ----------
    change : str
        As text that follows "if".
    kind : str
        ``"resource"``, ``"where"``, ``"limit"`` (of time), ``"queue limit"``, ``"weight"``,
        ``"priority"``, ``"drain"`` or ``"server"``.
    of : str
        By kind: the resource; the label's key, or ``"names"``; ``"time_limit"``; the queue; the
        drained server; or a server like the new one.
    to : float or None
        The new amount, seconds or weight; None for other kinds.
    starts : bool
        Whether the first task would then start at once.
    """

    change: str
    kind: str
    of: str
    to: float | None
    starts: bool


@dataclass(frozen=True)
class Explanation:
    """Why tasks of a group wait.

    Attributes
    ----------
    group : int
    queue : str
    waiting, running : int
        Numbers of tasks.
    starts : bool
        Whether the next call of `place` would place its first task.
    now : float
        The time of the question, in seconds.
    held_by : str
        The reason in a word: ``"nothing"``, ``"where"``, ``"size"``, ``"drained"``, ``"room"``,
        ``"gang"``, ``"limit"``, ``"strict order"``, ``"fifo"``, ``"reservation"``, ``"declined"``,
        ``"best server"``, ``"preemption"``, ``"spare"`` or ``"order"``.
    reason : str
        The reason in a sentence.
    servers, allowed, open, fitting : int
        Numbers of servers: all; those allowed for its first task; of these the open ones; and of
        the open ones those with room for it now.
    lacking : dict of str to int
        For each resource: how many allowed open servers have too little of it for the task.
    nearest : tuple of ServerShortage
        Allowed open servers without room, by the largest lacking fraction of the demand, ascending.
    score, measure : float, str
        The queue's score, and its meaning.
    ahead, n_ahead : tuple of QueueScore, int
        The first queues before the group's own with waiting tasks that fit on some empty server, in
        order; and the number of all such queues.
    above : tuple of QueueScore
        The queues above the group's own, from the root down; none under fifo and easy.
    would_change : tuple of Change
        The tried changes; empty if it starts anyway.
    never : bool
        Whether it could not start even on empty open servers, or alone exceeds a queue's limit.
    short : dict of str to (float, float)
        If no allowed server is large enough: by resource, the demand and the largest capacity.
    reservation : Reservation or None
        See `Reservation`; None if there is none.
    is_time : bool
        Whether scores are times of submission.
    """

    group: int
    queue: str
    waiting: int
    running: int
    starts: bool
    now: float
    held_by: str
    reason: str
    servers: int
    allowed: int
    open: int
    fitting: int
    lacking: dict[str, int]
    nearest: tuple[ServerShortage, ...]
    score: float
    measure: str
    ahead: tuple[QueueScore, ...]
    n_ahead: int
    above: tuple[QueueScore, ...] = ()
    would_change: tuple[Change, ...] = ()
    never: bool = False
    short: dict[str, tuple[float, float]] | None = None
    reservation: Reservation | None = None
    is_time: bool = False

    @property
    def state(self) -> str:
        """``"pending"`` while any of its tasks waits, else ``"running"``."""
        return "pending" if self.waiting else "running"

    def to_dict(self) -> dict[str, object]:
        """Return the main fields as plain values, for JSON."""
        return {
            "group": self.group,
            "queue": self.queue,
            "state": self.state,
            "waiting": self.waiting,
            "running": self.running,
            "starts": self.starts,
            "held_by": self.held_by,
            "reason": self.reason,
            "lacking": self.lacking,
            "servers": [{"name": near.server, "lacks": near.lacks} for near in self.nearest],
            "measure": self.measure,
            "share": self.score,
            "ahead": users_of(self.ahead),
            "above": users_of(self.above),
            "would_change": [change._asdict() for change in self.would_change],
            "never": self.never,
            "short": {
                name: {"asked": asked, "most": most}
                for name, (asked, most) in (self.short or {}).items()
            },
            "reservation": None if self.reservation is None else as_values(self.reservation),
        }

    def __str__(self) -> str:
        return "\n".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        """Yield the lines of the explanation as text."""
        tasks = "This task" if self.waiting + self.running == 1 else "These tasks"
        yield f"{tasks} of {self.queue}: {self.waiting:,} waiting, {self.running:,} running."
        yield self.reason
        if not self.waiting:
            return
        drained = self.allowed - self.open
        yield (
            f"Servers: {self.servers:,} present, {self.allowed:,} allowed"
            + (f", {drained:,} of these drained" if drained else "")
            + f"; {self.fitting:,} with room now."
        )
        if self.lacking and not self.short:  # otherwise the reason names the lacking resources
            counts = ", ".join(
                f"{servers:,} ha{'s' if servers == 1 else 've'} too little {name}"
                for name, servers in self.lacking.items()
            )
            yield f"Of the allowed open servers, {counts}."
        for near in () if self.short else self.nearest[:PRINTED]:
            yield f"Nearest: {near.server} lacks {amounts_in_words(near.lacks)}."
        if self.n_ahead:
            yield self._describe_order()
        if self.reservation is not None:
            yield self._describe_reservation(self.reservation)
        for starts, words in ((True, "It would start now"), (False, "It would still wait")):
            changes = [change.change for change in self.would_change if change.starts == starts]
            if changes:
                yield f"{words} if {'; or if '.join(changes)}."

    def _describe_order(self) -> str:
        """Return the queues ahead, and those on the path to the group's, with scores, in words."""
        now = self.now if self.is_time else None
        first = ", ".join(f"{row.queue} ({row.in_words(now)})" for row in self.ahead[:PRINTED])
        more = f" and {self.n_ahead - PRINTED:,} more" if self.n_ahead > PRINTED else ""
        verb = "came" if self.is_time else "has"
        path = [*self.above, QueueScore(self.queue, self.score)]
        own = " / ".join(f"{row.queue} {verb} {row.in_words(now)}" for row in path)
        return f"Ahead by {self.measure}: {first}{more}; {own}."

    def _describe_reservation(self, reserved: Reservation) -> str:
        """Return a reservation as a sentence."""
        is_own = reserved.group == self.group
        subject = "It" if is_own else f"The first waiting group, of {reserved.queue},"
        if reserved.at == inf:
            return f"{subject} can start at no known time: tasks in its way have no time limit."
        names, more = ", ".join(reserved.servers[:NAMED]), len(reserved.servers) - NAMED
        names += f" and {more:,} more" if more > 0 else ""
        is_later = reserved.at > self.now
        when = f"in {duration(reserved.at - self.now)}" if is_later else "at any moment"
        if not reserved.sure:
            return f"{subject} may start {when} on {names}, if tasks run as long as earlier ones."
        return f"{subject} is to start {when} on {names}, or before if tasks end early."


def users_of(queues: tuple[QueueScore, ...]) -> list[dict[str, object]]:
    """Return queues and their scores as plain values."""
    return [{"user": queue, "share": score} for queue, score in queues]


def as_values(reserved: Reservation) -> dict[str, object]:
    """Return a reservation as plain values; an infinite time is None."""
    return {
        "user": reserved.queue,
        "group": reserved.group,
        "at": reserved.at if reserved.at < inf else None,
        "servers": list(reserved.servers),
        "sure": reserved.sure,
    }


def duration(seconds: float, digits: int = 4) -> str:
    """Return seconds as text with a unit and at most some significant digits: ``3.5 h``."""
    for unit, least in UNITS:
        if seconds >= least:
            return f"{seconds / least:.{digits}g} {unit}"
    return f"{seconds:.{digits}g} s"


def tasks_in_words(tasks: int) -> str:
    """Return a number of tasks as text: ``1,200 tasks``."""
    return f"{tasks:,} task{'s' * (tasks != 1)}"


def amounts_in_words(amounts: dict[str, float]) -> str:
    """Return amounts by resource as text: ``2 cpu and 4 memory``."""
    return list_in_words([f"{amount:.6g} {name}" for name, amount in amounts.items()])


def list_in_words(words: list[str]) -> str:
    """Return a list as text: ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
