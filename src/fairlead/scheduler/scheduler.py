"""The scheduler: servers, queues and tasks come and go in any order, and tasks are placed.

A state machine without clock, files or threads: the same events give the same placements. A wrong
argument raises `InputError` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from numbers import Integral
from typing import Self, SupportsFloat

from fairlead.errors import InputError, RefusalError
from fairlead.garbage_collection import garbage_collection_paused
from fairlead.scheduler.arguments import (
    LARGEST,
    Amounts,
    labels_of,
    members_of,
    name_of,
    names_of,
    number,
    place_of,
    positive,
    real,
    truth,
    weight_of,
    whole,
)
from fairlead.scheduler.checking import check_state
from fairlead.scheduler.explain import Question
from fairlead.scheduler.explanation import Explanation
from fairlead.scheduler.placement import Placement
from fairlead.scheduler.policies import parse_policy
from fairlead.scheduler.random_order import RandomOrder
from fairlead.scheduler.rounds import Rounds
from fairlead.scheduler.shares import LiveShares, SharesQuestion, ask_shares
from fairlead.scheduler.snapshot import read, restore, written
from fairlead.scheduler.tables import (
    UNLIMITED,
    Gang,
    Member,
    PlaceKey,
    Queue,
    Server,
    Task,
    TaskGroup,
    larger,
)
from fairlead.scheduler.undo import WhatIf


class Scheduler:
    """Places tasks by a policy while servers, queues and tasks come and go.

    Parameters
    ----------
    resources : sequence of str
    policy : str
        A criterion and a selection: ``drf/best-fit``.
    quanta : mapping of str to number, optional
        The smallest amount of each resource; 1/1,024,000,000 of a unit by default. Demands and
        capacities are rounded down to it, and positive ones are at least one quantum.
    seed : int
        For round-robin.
    strict_fifo : bool
        Whether nothing passes over the first group of its queue.
    largest : mapping of str to number, optional
        The server that ``slots:N`` cuts into slots. By default it has the most of each resource
        that any server has, of those resources that all servers have.
    refuse_seconds : number
        Where demands are unknown: how long a queue is not offered a server again that it declined.
    """

    def __init__(
        self,
        resources: Sequence[str],
        policy: str,
        quanta: Mapping[str, SupportsFloat] | None = None,
        seed: int = 0,
        *,
        strict_fifo: bool = False,
        largest: Mapping[str, SupportsFloat] | None = None,
        refuse_seconds: SupportsFloat = 5.0,
    ) -> None:
        self.resources = names_of(resources, "resources")
        self.policy = parse_policy(policy)
        self.seed = whole(seed, "seed")
        is_strict = truth(strict_fifo, "strict_fifo")
        self._amounts = Amounts(self.resources, quanta)
        self._largest = None if largest is None else self._amounts.count(largest, "largest")
        counting = self.policy.make_counting(len(self.resources), self._largest)
        self._is_strict = is_strict
        rounds = Rounds(RandomOrder(self.seed), positive(refuse_seconds, "refuse_seconds"))
        self._placing = self.policy.make_placing(counting, rounds, is_strict)
        self._state = self._placing.state

    # Servers

    def add_server(
        self,
        name: str,
        capacity: Mapping[str, float],
        labels: Mapping[str, str] | None = None,
        order: int | None = None,
    ) -> None:
        """Add a server.

        Parameters
        ----------
        name : str
        capacity : mapping of str to number
            By resource; 0 of those that are not named.
        labels : mapping of str to str, optional
        order : int, optional
            Its place in the order of servers; the last one by default.

        Raises
        ------
        InputError
            When there is a server of that name, or an amount is malformed or overflows.
        """
        state = self._state
        if name_of(name, "server") in state.servers:
            raise InputError(f"there is a server {name!r:.60}", "server")
        place = state.joined if order is None else whole(order, "order", -LARGEST)
        amounts = self._amounts.count(capacity, "capacity")
        marks = labels_of(labels)
        state.use(self.resources, [0] * len(amounts), amounts)
        server = Server(name, place, state.joined, amounts, marks)
        state.joined += 1
        state.join(server)
        state.open(server)

    def set_server(
        self,
        name: str,
        capacity: Mapping[str, float] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Change a server's capacity or labels; its tasks go on, even where that overcommits it."""
        state = self._state
        server = self._server(name)
        given = server.given
        amounts = given if capacity is None else self._amounts.count(capacity, "capacity")
        marks = server.labels if labels is None else labels_of(labels)
        held = state.held_on(server)
        state.use(self.resources, larger(given, held), larger(amounts, held))
        is_more = any(amount > old for amount, old in zip(amounts, given, strict=True))
        is_news = is_more or marks != server.labels
        state.change(server, amounts, marks)
        if is_news:
            state.free_up(server)

    def drain(self, name: str) -> None:
        """Place no more tasks on a server; those that run there go on."""
        server = self._server(name)
        if not server.is_draining:
            self._state.close(server)

    def undrain(self, name: str) -> None:
        """Place tasks on a drained server again."""
        server = self._server(name)
        if server.is_draining:
            self._state.open(server)

    def remove_server(self, name: str) -> list[int]:
        """Remove a server; return the ids of its tasks and of the rest of their gangs.

        In order of starts. Those tasks wait again.
        """
        state = self._state
        server = self._server(name)
        if not server.is_draining:
            state.close(server)
        lost = self._lose(state.running_on(server), True)
        given = server.given
        state.use(self.resources, given, [0] * len(given))
        state.leave(server)
        return lost

    # Queues

    def add_queue(self, name: str, weight: float = 1, parent: str | None = None) -> None:
        """Add a queue, which is a user or a team.

        Parameters
        ----------
        name : str
        weight : number
            Its share is divided by it. A queue of weight 0 gets what no other one can use.
        parent : str, optional
            A queue without tasks of its own.

        Raises
        ------
        InputError
            When there is a queue of that name, no such parent, or the parent has tasks.
        RefusalError
            When the policy has no trees of queues.
        """
        state = self._state
        if name_of(name, "queue") in state.queues:
            raise InputError(f"there is a queue {name!r:.60}", "queue")
        ratio = weight_of(weight)
        above = state.root if parent is None else self._queue(parent, "parent")
        if parent is not None and not above.children and (above.waiting or above.running):
            raise InputError(f"tasks of {parent!r:.60} wait or run", "parent")
        if parent is not None and not self.policy.has_trees:
            fault = (
                "queues stand below queues only under drf, fifo and easy with first-fit or best-fit"
            )
            raise RefusalError(self.policy.name, fault)
        state.add_queue(Queue(name, state.added, ratio, above, state.width))
        state.added += 1

    def set_weight(self, name: str, weight: float) -> None:
        """Give a queue another weight."""
        self._state.set_weight(self._queue(name), weight_of(weight))

    def remove_queue(self, name: str) -> None:
        """Remove a queue without tasks and without queues below it."""
        queue = self._queue(name)
        if queue.children:
            raise InputError(f"there are queues below {name!r:.60}", "queue")
        if queue.waiting or queue.running:
            raise InputError(f"tasks of {name!r:.60} wait or run", "queue")
        self._state.remove_queue(queue)

    # Groups of tasks

    def submit(
        self,
        queue: str,
        demand: Mapping[str, float],
        tasks: int = 1,
        where: object = None,
        priority: int = 0,
        gang: bool = False,
        time_limit: float | None = None,
        attempts: int | None = None,
        now: float = 0.0,
    ) -> int:
        """Add a group of equal tasks; return its id.

        Parameters
        ----------
        queue : str
        demand : mapping of str to number
            What each task takes, by resource.
        tasks : int
        where : mapping of str to str, or sequence of str, optional
            Labels that a server must have, or names of servers.
        priority : int
            Higher ones go first in their queue.
        gang : bool
            Whether the tasks start together, and stop together as soon as one is lost.
        time_limit : float, optional
            Seconds that a task runs at most.
        attempts : int, optional
            How often a task may fail; for a gang, all of its tasks together.
        now : float
            The time of submission; earlier groups go first.

        Raises
        ------
        InputError
            When an argument is malformed, or there is no such queue.
        """
        is_gang = truth(gang, "gang")
        members = [self._member(demand, tasks, place_of(where))]
        return self._enter(queue, members, is_gang, priority, time_limit, attempts, now)

    def submit_gang(
        self,
        queue: str,
        members: Sequence[tuple[object, ...]],
        where: object = None,
        priority: int = 0,
        time_limit: float | None = None,
        attempts: int | None = None,
        now: float = 0.0,
    ) -> int:
        """Add a gang of several shapes; return its id.

        Parameters
        ----------
        queue : str
        members : sequence of (demand, tasks) or (demand, tasks, where)
            A condition of a member's own takes the place of `where`. Indices of tasks go through
            all members in their order.
        where, priority, time_limit, attempts, now
            As for `submit`.
        """
        place_of(where)  # to refuse what is malformed, even if all members have their own
        found: list[Member] = []
        for demand, tasks, own in members_of(members, where):
            found.append(self._member(demand, tasks, place_of(own)))
        return self._enter(queue, found, True, priority, time_limit, attempts, now)

    def set_priority(self, group: int, priority: int) -> None:
        """Give the waiting tasks of a group another priority in their queue."""
        found = self._group(group)
        self._state.set_priority(found, whole(priority, "priority", -LARGEST))

    def cancel(self, group: int) -> list[int]:
        """Drop the waiting tasks of a group; return the ids of its running tasks.

        Those hold their amounts until they are finished.
        """
        found = self._group(group)
        self._state.withdraw(found)
        return sorted(found.tasks or ())

    # Running tasks

    def finish(self, task: int) -> None:
        """End a task."""
        self._state.stop(self._task(task), False)

    def fail(self, task: int) -> list[int]:
        """End a task that is tried again unless its attempts are used up.

        Return the ids of tasks that stop: the task and the rest of its gang.
        """
        found = self._task(task)
        group = found.group
        is_last = False
        if group.attempts is not None:
            index = 0 if isinstance(group, Gang) else found.index
            is_last = self._state.fail(group, index) >= group.attempts
        if is_last and isinstance(group, Gang):
            self._state.drop(group)
        return self._lose([found], not is_last)

    def evict(self, task: int) -> list[int]:
        """Take a task back to wait; return the ids of tasks that stop: it and its gang."""
        return self._lose([self._task(task)], True)

    def assume(self, group: int, server: str, since: float | None = None) -> int:
        """Book a group's first waiting task on a server where it was found running.

        Parameters
        ----------
        group : int
        server : str
            It may be overcommitted by that.
        since : float, optional
            When the task started; the time of the last `place` by default.

        Returns
        -------
        int
            The task's id.
        """
        state = self._state
        found = self._group(group)
        place = self._server(server)
        if found.waiting == 0:
            raise InputError("no task of it waits", "group")
        started = state.now if since is None else real(since, "since")
        index = found.first_index()
        demand = [int(amount) for amount in found.shape_of(index).given]
        given = place.given
        held = state.held_on(place)
        more = [h + d for h, d in zip(held, demand, strict=True)]
        state.use(self.resources, larger(given, held), larger(given, more))
        task = state.start(found, index, place, started)
        if isinstance(found, Gang) and found.is_parked:
            state.unpark_gang(found)
        return task.id

    def place(self, now: float = 0.0, limit: int | None = None) -> list[Placement]:
        """Place tasks until nothing more has room, or `limit` are placed; gangs are placed whole.

        Parameters
        ----------
        now : float
            The time at which they start.
        limit : int, optional
        """
        moment = real(now, "now")
        most = LARGEST if limit is None else whole(limit, "limit")
        state = self._state
        state.now = moment
        if self.policy.is_oblivious:
            state.rounds.now = number(now, "now")  # the float may be rounded
        with garbage_collection_paused():
            return self._placing.place(most)

    def next_moment(self) -> float:
        """Return when to place again though no event came since; inf for never.

        It holds after a call of `place` without a limit, or one that did not reach its limit:
        before that moment nothing would start. Where demands are unknown it is when a server is
        next offered to a queue that declined it. Under ``easy`` it is when the next task should
        have ended after the time that is reserved: until then what is reserved stays the same.
        """
        return self._placing.next_moment()

    def what_if(self) -> WhatIf:
        """Take back, at the end of a ``with`` block, all events in it, also when it raises.

        Ids that it gave are given again. Blocks may stand in one another. It costs what the events
        in it cost, once more.

        Examples
        --------
        >>> s = Scheduler(["cpu"], "drf/first-fit")
        >>> s.add_queue("ana")
        >>> _ = s.submit("ana", {"cpu": 1})
        >>> with s.what_if():
        ...     s.add_server("a", {"cpu": 1})
        ...     len(s.place())
        1
        >>> s.place()
        []
        """
        return WhatIf(self._state)

    def explain(self, group: int, now: float | None = None) -> Explanation:
        """Return why tasks of a group wait, and what would let the first one start.

        Parameters
        ----------
        group : int
        now : float, optional
            The time of the question; that of the last `place` by default.

        Raises
        ------
        InputError
            When there is no such group.

        Notes
        -----
        Every change is made, tried and taken back. It costs a scan of all servers, and about twenty
        times what `place` costs after one event.

        Examples
        --------
        >>> s = Scheduler(["cpu"], "drf/first-fit")
        >>> s.add_server("a", {"cpu": 2})
        >>> s.add_queue("ana")
        >>> group = s.submit("ana", {"cpu": 3})
        >>> s.explain(group).held_by
        'size'
        """
        found = self._group(group)
        moment = self._state.now if now is None else real(now, "now")
        return Question(self._placing, self.resources, self._amounts.quanta, found, moment).answer()

    def shares(self, mechanism: str | None = None) -> LiveShares:
        """Return the shares of all queues and their fair shares, with a proof.

        Shares are of what can be used: the capacity of open servers, and on draining servers the
        amounts that still run there. Fair shares in a tree of queues are not defined.

        Parameters
        ----------
        mechanism : str, optional
            Of the catalogue, one that admits finite tasks and placement constraints: ``"drfh"``,
            ``"tsf"`` or ``"ps-dsf"``. That of the policy's criterion by default.

        Raises
        ------
        InputError, RefusalError
            When the mechanism is unknown, or its definition does not admit the tasks.
        CertificateError
            When no answer was found that could be proved.

        Examples
        --------
        >>> s = Scheduler(["cpu"], "drf/first-fit")
        >>> s.add_server("a", {"cpu": 4})
        >>> s.add_queue("ana")
        >>> _ = s.submit("ana", {"cpu": 1}, 2)
        >>> s.shares().queues[0].fair_share
        0.5
        """
        return self.shares_question(mechanism).answer()

    def shares_question(self, mechanism: str | None = None) -> SharesQuestion:
        """Return what `shares` follow from, copied: any thread may answer it later.

        Raises
        ------
        InputError, RefusalError
            As `shares` does.
        """
        state = self._state
        asked = state.criterion.mechanism if mechanism is None else mechanism
        return ask_shares(state, self._amounts.quanta, asked)

    def snapshot(self) -> bytes:
        """Return all that the scheduler knows, as bytes; the same events give the same bytes.

        O(servers, queues, groups and running tasks). See `restore`.
        """
        refuse = self._state.rounds.refuse_seconds
        return written(
            self._state,
            {
                "resources": self.resources,
                "policy": self.policy.name,
                "quanta": [(q.numerator, q.denominator) for q in self._amounts.quanta],
                "largest": self._largest,
                "seed": self.seed,
                "strict_fifo": self._is_strict,
                "refuse_seconds": (refuse.numerator, refuse.denominator),
            },
        )

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """Return the scheduler that a snapshot was taken of; it decides the same from there on.

        Parameters
        ----------
        data : bytes
            From `snapshot`. The digest in it tells what is damaged, not what is forged.

        Raises
        ------
        InputError
            When it is no snapshot, damaged, or of another version.
        """
        with garbage_collection_paused():
            body = read(data)
            settings = body["settings"]
            names = settings["resources"]
            quanta = [Fraction(over, under) for over, under in settings["quanta"]]
            cut = settings["largest"]
            largest: dict[str, Fraction] | None = None
            if cut is not None:
                amounts = [quantum * amount for quantum, amount in zip(quanta, cut, strict=True)]
                largest = dict(zip(names, amounts, strict=True))
            restored = cls(
                names,
                settings["policy"],
                dict(zip(names, quanta, strict=True)),
                settings["seed"],
                strict_fifo=settings["strict_fifo"],
                largest=largest,
                refuse_seconds=Fraction(*settings["refuse_seconds"]),
            )
            restore(restored._state, body)
            return restored

    def check(self) -> None:
        """Assert that all tables agree; slow, for tests."""
        check_state(self._state)

    # Lookups

    def _server(self, name: object) -> Server:
        found = self._state.servers.get(name) if isinstance(name, str) else None
        if found is None:
            raise InputError(f"there is no server {name!r:.60}", "server")
        return found

    def _queue(self, name: object, what: str = "queue") -> Queue:
        found = self._state.queues.get(name) if isinstance(name, str) else None
        if found is None:
            raise InputError(f"there is no {what} {name!r:.60}", what)
        return found

    def _group(self, group: object) -> TaskGroup:
        found = self._state.groups.get(id_of(group))
        if found is None:
            raise InputError(f"there is no group {group!r:.60}", "group")
        return found

    def _task(self, task: object) -> Task:
        found = self._state.running.get(id_of(task))
        if found is None:
            raise InputError(f"there is no task {task!r:.60}", "task")
        return found

    # Steps

    def _member(self, demand: object, tasks: object, where: PlaceKey) -> Member:
        amounts = self._amounts.count(demand, "demand")
        if not any(amounts):
            raise InputError("takes nothing", "demand")
        return Member(amounts, whole(tasks, "tasks", 1), where)

    def _enter(
        self,
        queue: str,
        members: list[Member],
        is_gang: bool,
        priority: int,
        time_limit: float | None,
        attempts: int | None,
        now: float,
    ) -> int:
        state = self._state
        leaf = self._queue(queue)
        if leaf.children:
            raise InputError("has queues below it, and only they take tasks", "queue")
        rank = whole(priority, "priority", -LARGEST)
        time = real(now, "now")
        limit = UNLIMITED
        if time_limit is not None:
            positive(time_limit, "time_limit")
            limit = real(time_limit, "time_limit")
        bound = None if attempts is None else whole(attempts, "attempts", 1)
        total = sum([member.tasks for member in members])
        if int(state.root.waiting) + total > LARGEST:
            raise InputError("more tasks would wait than can be counted", "tasks")
        return state.submit(leaf, members, is_gang, rank, time, bound, limit).id

    def _lose(self, tasks: list[Task], waits_again: bool) -> list[int]:
        """Stop tasks and the rest of their gangs; return their ids in order of starts."""
        lost = self._state.with_gangs(tasks)
        for task in lost:
            self._state.stop(task, waits_again)
        return [task.id for task in lost]


def id_of(value: object) -> int:
    """Return an id, or -1 for what is none."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return -1
    return int(value)
