"""The public class: it records events and, when asked, places tasks on servers by a policy.

It has no clock, files or threads, so the same calls give the same placements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from math import inf
from numbers import Integral
from typing import NamedTuple, Self, SupportsFloat, TypeVar

from fairlead.errors import InputError, RefusalError
from fairlead.garbage_collection import garbage_collection_paused
from fairlead.model.arguments import switch, whole_number
from fairlead.model.quantity import MOST_DEVICES
from fairlead.scheduler._demands import unplaceable_groups
from fairlead.scheduler._entities import (
    ConstraintKey,
    Gang,
    Member,
    Placement,
    Queue,
    Server,
    Shape,
    Task,
    TaskGroup,
    Terms,
    devices_of,
    larger,
    placement_of,
)
from fairlead.scheduler._explain import Explainer
from fairlead.scheduler._preemption import PreemptionRound
from fairlead.scheduler._snapshot import Settings, read_snapshot, restore_state, write_snapshot
from fairlead.scheduler._state import what_if
from fairlead.scheduler.argument_checks import (
    LARGEST,
    Amounts,
    parse_constraint,
    parse_float,
    parse_labels,
    parse_members,
    parse_name,
    parse_names,
    parse_number,
    parse_positive,
    parse_weight,
)
from fairlead.scheduler.explanation import Explanation
from fairlead.scheduler.live_shares import LiveShares, SharesQuestion, copy_for_shares
from fairlead.scheduler.policies import parse_policy
from fairlead.scheduler.random_order import RandomOrder

__all__ = ["Placement", "Preemption", "QuotaUse", "Scheduler"]

Found = TypeVar("Found")


class Preemption(NamedTuple):
    """Tasks that start once their victims have stopped."""

    starts: list[Placement]  # one, or all of a gang
    victims: list[int]  # ids of the tasks to stop, in order of their starts


class QuotaUse(NamedTuple):
    """A quota, and the amounts that running tasks of its queue and of queues below it hold."""

    queue: str
    where: dict[str, str] | list[str] | None  # labels or names of its servers; None for all
    quota: dict[str, float]  # by resource, in units
    held: dict[str, float]  # of these resources, on these servers, in units


class Scheduler:
    """Places tasks by a policy while servers, queues and tasks are added and removed.

    Every method raises `InputError` for an invalid argument, and then changes nothing.

    Parameters
    ----------
    resources : sequence of str
    policy : str
        A criterion and a selection: ``drf/best-fit``.
    quanta : mapping of str to number, optional
        The smallest amount of each resource; 1/1,024,000,000 of a unit by default. Demands and
        capacities are rounded down to it, and positive ones are at least one quantum.
    seed : int
        Seed of the random orders of round-robin.
    strict_fifo : bool
        Whether a group waits until all earlier groups of its queue have started.
    largest : mapping of str to number, optional
        Under ``slots:N``: the capacity that is cut into N slots. By default, of each resource that
        all servers have, the largest capacity of any server.
    refuse_seconds : number
        Under ``/oblivious``: seconds for which a queue gets no further offer of a server that it
        declined.
    devices : sequence of str
        Resources that come in devices of one unit each, such as GPUs. A task takes a fraction of
        one device of its server, or whole devices. Ignored under slots.
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
        devices: Sequence[str] = (),
    ) -> None:
        self.resources = parse_names(resources, "resources")
        self.policy = parse_policy(policy)
        self.seed = whole_number(seed, "seed", 0, LARGEST)
        self._is_strict = switch(strict_fifo, "strict_fifo")
        self._amounts = Amounts(self.resources, quanta)
        self._largest = None if largest is None else self._amounts.count(largest, "largest")
        self._cycle = self.policy.make_cycle(
            self.resources,
            RandomOrder(self.seed),
            self._is_strict,
            parse_positive(refuse_seconds, "refuse_seconds"),
            self._largest,
            self._amounts.set_devices(devices),
        )
        self._state = self._cycle.state
        self._next_round = inf  # see `next_round`

    @property
    def counts_devices(self) -> bool:
        """Whether any resource comes in devices; under slots none does."""
        return bool(self._amounts.device_quanta) and not self.policy.slots

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
            Amounts by resource, 0 by default.
        labels : mapping of str to str, optional
        order : int, optional
            Its position in the order of servers; the last one by default.
        """
        state = self._state
        if parse_name(name, "server") in state.servers:
            raise InputError(f"there is a server {name!r:.60} already", "server")
        number = state.joined if order is None else whole_number(order, "order", -LARGEST, LARGEST)
        amounts = self._amounts.count_server(capacity)
        found = parse_labels(labels)
        state.replace_in_sums(self.resources, [0] * len(amounts), amounts)
        state.add_server(name, number, amounts, found)

    def set_server(
        self,
        name: str,
        capacity: Mapping[str, float] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Change a server's capacity or labels; its tasks continue, even beyond its capacity."""
        state = self._state
        server = self._server(name)
        before = server.given
        after = before if capacity is None else self._amounts.count_server(capacity)
        new_labels = server.labels if labels is None else parse_labels(labels)
        held = state.held_on(server)
        state.replace_in_sums(self.resources, larger(before, held), larger(after, held))
        has_grown = any(new > old for new, old in zip(after, before, strict=True))
        may_take_more = has_grown or new_labels != server.labels
        state.change(server, after, new_labels)
        if may_take_more:
            state.free_up(server)

    def drain(self, name: str) -> None:
        """Place no more tasks on a server; running ones continue."""
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

        The ids are in order of start. The tasks wait again unless their group was cancelled.
        """
        state = self._state
        server = self._server(name)
        if not server.is_draining:
            state.close(server)
        lost = self._stop_with_gangs(state.running_on(server), waits_again=True)
        given = server.given
        state.replace_in_sums(self.resources, given, [0] * len(given))
        state.leave(server)
        return lost

    # Queues

    def add_queue(self, name: str, weight: float = 1, parent: str | None = None) -> None:
        """Add a queue, which is a user or a team.

        Parameters
        ----------
        name : str
        weight : number
            The queue's share is divided by it. A queue of weight 0 is served after all others.
        parent : str, optional
            A queue without tasks of its own; the root by default.

        Raises
        ------
        InputError
            When there is a queue of that name, no such parent, or the parent has tasks.
        RefusalError
            When `parent` is given, and the policy has no trees of queues.
        """
        state = self._state
        if parse_name(name, "queue") in state.queues:
            raise InputError(f"there is a queue {name!r:.60} already", "queue")
        ratio = parse_weight(weight)
        above = state.root if parent is None else self._queue(parent, "parent")
        if parent is not None and not above.children and (above.waiting or above.running):
            raise InputError(
                f"tasks of {parent!r:.60} wait or run, so it can have no children", "parent"
            )
        if parent is not None:
            self.policy.require_trees()
        state.make_queue(name, ratio, above)

    def set_weight(self, name: str, weight: float) -> None:
        """Change the weight of a queue."""
        self._state.set_weight(self._queue(name), parse_weight(weight))

    def set_limit(
        self, name: str, amounts: Mapping[str, float] | None = None, tasks: int | None = None
    ) -> None:
        """Limit the amounts and the number of running tasks of a queue and of the queues below it.

        A task beyond a limit waits until other tasks of the queue end. Later groups may pass it,
        except with `strict_fifo`. Running tasks continue.

        Parameters
        ----------
        name : str
        amounts : mapping of str to number, optional
            Maximum of each resource; absent resources have no limit.
        tasks : int, optional
            Maximum number of running tasks.

        Raises
        ------
        InputError
            When there is no such queue or resource, or a number is negative.
        RefusalError
            For amounts under slots, where tasks take slots.

        Notes
        -----
        Each call replaces the limit; one without arguments removes it.

        Examples
        --------
        >>> s = Scheduler(["gpu"], "drf/first-fit")
        >>> s.add_server("a", {"gpu": 8})
        >>> s.add_queue("ana")
        >>> _ = s.submit("ana", {"gpu": 1}, 8)
        >>> s.set_limit("ana", {"gpu": 3})
        >>> len(s.place())
        3
        """
        queue = self._queue(name)
        rows = self._parse_amounts({} if amounts is None else amounts, "limit")
        most = -1 if tasks is None else whole_number(tasks, "tasks", 0, LARGEST)
        if any(amount >= 0 for amount in rows):
            self.policy.require_amounts()
        self._state.limit_queue(queue.name, rows, most)

    def set_quota(
        self, name: str, amounts: Mapping[str, float] | None = None, where: object = None
    ) -> None:
        """Guarantee amounts to the tasks of a queue and of the queues below it.

        Of the children of one queue, those whose next start stays within their quotas go first.
        Other queues may use the unused part of a quota.

        Parameters
        ----------
        name : str
        amounts : mapping of str to number, optional
            Only the given resources count; a task that takes none of them is beyond the quota.
        where : mapping of str to str, or sequence of str, optional
            The servers on which the quota holds, by labels or names; all by default.

        Raises
        ------
        InputError
            When there is no such queue or resource, or an amount is negative.
        RefusalError
            Unless the policy is ``drf/first-fit`` or ``drf/best-fit``, with or without preemption.

        Notes
        -----
        Each call replaces the queue's quota with the same `where`; without amounts, it removes it.
        A queue without quotas counts as within its quotas if its child to be served next does.

        Examples
        --------
        >>> s = Scheduler(["gpu"], "drf/first-fit")
        >>> s.add_server("a", {"gpu": 8})
        >>> for queue in ("ana", "bo"):
        ...     s.add_queue(queue)
        ...     _ = s.submit(queue, {"gpu": 1}, 8)
        >>> s.set_quota("bo", {"gpu": 6})
        >>> [start.queue for start in s.place()].count("bo")
        6
        """
        queue = self._queue(name)
        rows = self._parse_amounts({} if amounts is None else amounts, "quota")
        key = parse_constraint(where)
        self.policy.require_quotas()
        is_given = any(amount >= 0 for amount in rows)
        self._state.guarantee(queue, key, rows if is_given else None)

    def quotas(self) -> list[QuotaUse]:
        """Return all quotas, each with the amounts that running tasks hold of it."""
        found: list[QuotaUse] = []
        for queue in self._state.queues.values():
            for quota in queue.quotas:
                amounts, held = self._in_units(quota.amounts), self._in_units(quota.held)
                named = {name: most for name, most in amounts.items() if most >= 0}
                labels, names = quota.constraint.key
                where = dict(sorted(labels)) if names is None else sorted(names)
                held = {name: held[name] for name in named}
                found.append(QuotaUse(queue.name, where or None, named, held))
        return found

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
            Amounts of each task by resource.
        tasks : int
        where : mapping of str to str, or sequence of str, optional
            Labels that a server must have, or names of servers.
        priority : int
            Higher priorities go first in their queue.
        gang : bool
            Whether the tasks start together, and all stop when one is lost.
        time_limit : float, optional
            Longest run of a task in seconds.
        attempts : int, optional
            Failures after which a task does not wait again; of a gang, of all its tasks together.
        now : float
            The time of submission in seconds; of groups of equal priority, the earlier goes first.
        """
        is_gang = switch(gang, "gang")
        members = [self._parse_member(demand, tasks, parse_constraint(where))]
        return self._submit(queue, members, is_gang, priority, time_limit, attempts, now)

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
            A member's constraint replaces `where`. Indices of tasks continue from one member to
            the next.
        where, priority, time_limit, attempts, now
            As for `submit`.
        """
        parse_constraint(where)  # refuse a malformed one, even if no member uses it
        found: list[Member] = []
        for demand, tasks, own in parse_members(members, where):
            found.append(self._parse_member(demand, tasks, parse_constraint(own)))
        return self._submit(queue, found, True, priority, time_limit, attempts, now)

    def set_priority(self, group: int, priority: int) -> None:
        """Change the priority of a group: its place in its queue, and among possible victims."""
        found = self._group(group)
        self._state.set_priority(found, whole_number(priority, "priority", -LARGEST, LARGEST))

    def cancel(self, group: int) -> list[int]:
        """Drop the waiting tasks of a group; return the ids of its running tasks.

        The running tasks hold their amounts until `finish`.
        """
        found = self._group(group)
        self._state.withdraw(found)
        return sorted(found.tasks or ())

    # Running tasks

    def finish(self, task: int) -> None:
        """End a task."""
        self._state.stop(self._task(task), False)

    def fail(self, task: int) -> list[int]:
        """End a failed task; return the ids of the task and of the rest of its gang, which stops.

        They wait again unless the attempts are used up, or the group was cancelled.
        """
        found = self._task(task)
        group = found.group
        is_last = False
        if group.attempts is not None:
            index = 0 if isinstance(group, Gang) else found.index  # a gang counts all under 0
            is_last = self._state.count_failure(group, index) >= group.attempts
        if is_last and isinstance(group, Gang):
            self._state.drop(group)
        return self._stop_with_gangs([found], waits_again=not is_last)

    def evict(self, task: int) -> list[int]:
        """Stop a task; return the ids of the task and of the rest of its gang, which stops too.

        They wait again unless the group was cancelled.
        """
        return self._stop_with_gangs([self._task(task)], waits_again=True)

    def assume(
        self,
        group: int,
        server: str,
        since: float | None = None,
        *,
        stopping: bool = False,
        devices: Mapping[str, Sequence[int]] | None = None,
    ) -> int:
        """Record that a group's first waiting task runs on a server already.

        Parameters
        ----------
        group : int
        server : str
            The task may overcommit it.
        since : float, optional
            Its start in seconds; by default the time last given to `place`, `preempt` or `advance`.
        stopping : bool
            Whether it is a victim of `preempt` that has not stopped yet.
        devices : mapping of str to sequence of int, optional
            The numbers of its devices by resource, as `devices` returns them; by default the
            best-fitting ones.

        Returns
        -------
        int
            The task's id.
        """
        state = self._state
        found = self._group(group)
        host = self._server(server)
        if found.waiting == 0:
            raise InputError("has no waiting tasks", "group")
        started = state.now if since is None else parse_float(since, "since")
        is_stopping = switch(stopping, "stopping")
        index = found.first_index()
        shape = found.shape_of(index)
        numbers = None if devices is None else self._parse_device_numbers(devices, shape)
        columns = None if numbers is None else devices_of(shape, numbers)
        capacity = host.given
        held = state.held_on(host)
        held_after = [h + int(d) for h, d in zip(held, shape.given, strict=True)]
        state.replace_in_sums(self.resources, larger(capacity, held), larger(capacity, held_after))
        task = state.start(found, index, host, started, columns)
        state.note_outside_change()
        if is_stopping:
            state.mark_stopping(task)
        if isinstance(found, Gang) and found.is_parked:
            state.unpark_gang(found)
        return task.id

    def devices(self, task: int) -> dict[str, list[int]]:
        """Return the devices of a running task: their numbers on its server, by resource.

        Examples
        --------
        >>> s = Scheduler(["gpu"], "drf/first-fit", devices=["gpu"])
        >>> s.add_server("a", {"gpu": 4})
        >>> s.add_queue("ana")
        >>> _ = s.submit("ana", {"gpu": 0.5}), s.submit("ana", {"gpu": 2})
        >>> [s.devices(start.task) for start in s.place()]
        [{'gpu': [0]}, {'gpu': [1, 2]}]
        """
        found = self._task(task).device_numbers()
        return {self.resources[r]: numbers for r, numbers in found.items()}

    def place(self, now: float = 0.0, limit: int | None = None) -> list[Placement]:
        """Place tasks until no other task fits, or at least `limit` are placed.

        Parameters
        ----------
        now : float
            The time at which they start: seconds from any origin, so it may be negative.
        limit : int, optional
            A number of tasks; a gang that reaches it is placed whole, even beyond it.
        """
        time = parse_float(now, "now")
        most = LARGEST if limit is None else whole_number(limit, "limit", 0, LARGEST)
        state = self._state
        state.set_time(time)
        if self.policy.is_oblivious:
            state.rounds.now = parse_number(now, "now")  # the float may be rounded
        with garbage_collection_paused():
            return self._cycle.place(most)

    def preempt(self, now: float = 0.0, limit: int | None = None) -> list[Preemption]:
        """Start tasks in place of running ones, so that queues get their quotas or their shares.

        Call it after `place`, under a policy with preemption. Under ``drf/best-fit/over-quota``,
        tasks of a queue within its quotas may replace tasks of queues beyond theirs. Under
        ``drf/best-fit/over-share`` they may also replace tasks of a queue whose share then stays at
        least as large. With ``over-share:600`` only tasks that have run for 600 s are stopped.

        The tasks to stop, the victims, hold their amounts until the caller has stopped them and
        calls `evict` or `finish`. Run a started task only after all victims on its server stopped.

        Parameters
        ----------
        now : float
            The time of the starts, in seconds.
        limit : int, optional
            Number of starts after which no further task starts; a gang starts as a whole.

        Raises
        ------
        InputError
            For a time that is no number, or a negative limit.
        RefusalError
            Under a policy without preemption.

        Notes
        -----
        A task that started after the last event from outside, such as a submission or the end of a
        task, is not a victim, so repeated calls come to an end. No more victims are chosen than a
        start needs: first from the queue with the largest share; there by lowest priority, then by
        least lost work. Of each queue, only groups of the first four shapes are tried; each gang
        counts as a shape. O(servers and running tasks) for each start.

        Examples
        --------
        >>> s = Scheduler(["gpu"], "drf/first-fit/over-share")
        >>> s.add_server("a", {"gpu": 2})
        >>> for queue in ("ana", "bo"):
        ...     s.add_queue(queue)
        >>> _ = s.submit("ana", {"gpu": 1}, 9)
        >>> _ = s.place()
        >>> _ = s.submit("bo", {"gpu": 1}, 9)
        >>> s.place()
        []
        >>> ((starts, victims),) = s.preempt()
        >>> starts[0].queue, len(victims)
        ('bo', 1)
        >>> s.evict(victims[0]) == victims
        True
        """
        time = parse_float(now, "now")
        most = LARGEST if limit is None else whole_number(limit, "limit", 0, LARGEST)
        if not self.policy.preempts:
            message = "has no preemption; a policy such as drf/best-fit/over-share has"
            raise RefusalError(self.policy.name, message)
        self._state.set_time(time)
        with garbage_collection_paused():
            preempting = PreemptionRound(self._cycle, self.resources)
            preempted = preempting.run(most)
        self._next_round = preempting.next_time
        return [
            Preemption([placement_of(task) for task in each.starts], [t.id for t in each.victims])
            for each in preempted
        ]

    def advance(self, now: float) -> None:
        """Set the time of the events that follow, such as ends of tasks.

        Needed where past use counts (``/half-life:SECONDS``), and where run times are predicted
        (``/reserve``); elsewhere the time that `place` sets is enough.
        """
        self._state.set_time(parse_float(now, "now"))

    def past_use(self) -> dict[str, dict[str, float]]:
        """Return the past use of all queues by resource, in units, at the time of the last event.

        Past use approaches the held amounts while these do not change. Empty unless it counts.
        """
        state = self._state
        if not state.criterion.half_life:
            return {}
        found: dict[str, dict[str, float]] = {}
        with what_if(state):  # so that later past uses are not rounded at the time of the question
            for queue in state.queues.values():
                state.criterion.score(queue)  # updates its past use to the present time
                used = queue.past_use or [0.0] * len(self.resources)
                rows = zip(self.resources, used, self._amounts.quanta, strict=True)
                found[queue.name] = {name: amount * float(unit) for name, amount, unit in rows}
        return found

    def set_past_use(self, name: str, amounts: Mapping[str, float]) -> None:
        """Set the past use of a queue, for instance from `past_use`; absent resources get 0."""
        queue = self._queue(name)
        given = self._amounts.parse_amounts(amounts, "amounts")
        if not self._state.criterion.half_life:
            raise RefusalError(self.policy.name, "past use does not count")
        quanta = self._amounts.quanta
        used = [given.get(r, Fraction(0)) / quanta[r] for r in range(len(quanta))]
        if max(used) > LARGEST:  # held amounts, which past use approaches, are at most this
            raise InputError("is more than can be counted", "amounts")
        self._state.set_past_use(queue, [float(amount) for amount in used], self._state.now)

    def next_moment(self) -> float:
        """Return the time at which to place again if no event comes before; inf for never.

        Valid after a call of `place` that did not reach its limit: no task starts before that time.
        If demands are unknown, a declined server is offered again then. Under ``easy`` it is the
        next expected end of a task after the reserved time; until then the reservation is valid.
        Not valid under ``/reserve`` while tasks run longer than expected: reserved starts then
        become later with time, and other tasks may have room before them.
        """
        return self._cycle.next_moment()

    def next_round(self) -> float:
        """Return the time at which to preempt again if no event comes before; inf for never.

        Valid after a call of `preempt`: more tasks have then run for the minimum of the policy, as
        in ``/over-share:600``.
        """
        return self._next_round

    def what_if(self) -> AbstractContextManager[None]:
        """Undo all events of a ``with`` block at its end, also when it raises.

        Ids are reused afterwards. Blocks may be nested. The cost is twice that of the events.

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
        return what_if(self._state)

    def explain(self, group: int, now: float | None = None, most: int = LARGEST) -> Explanation:
        """Return why tasks of a group wait, and what would let the first one start.

        Parameters
        ----------
        group : int
        now : float, optional
            In seconds; by default the time last given to `place`, `preempt` or `advance`.
        most : int
            The largest number of other tasks that start in a trial. If it is reached before a task
            of the group starts, that is the explanation, and no change is tried.

        Notes
        -----
        Every change is tried on the scheduler and undone. The cost is a scan of all servers, and
        about twenty times that of `place` after one event.

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
        time = self._state.now if now is None else parse_float(now, "now")
        quanta = self._amounts.quanta
        max_others = whole_number(most, "most", 1, LARGEST)
        return Explainer(self._cycle, self.resources, quanta, found, time, max_others).explain()

    def shares(self, mechanism: str | None = None) -> LiveShares:
        """Return the shares of all queues and their fair shares, with a proof.

        Shares are of the usable capacity: that of open servers, and the amounts that tasks still
        hold on draining servers.

        Parameters
        ----------
        mechanism : str, optional
            It must admit finite tasks and placement constraints: ``"drfh"``, ``"tsf"`` or
            ``"ps-dsf"``. By default that of the policy's criterion.

        Raises
        ------
        InputError, RefusalError
            When the mechanism is unknown, or its definition does not admit the tasks.
        CertificateError, NoConvergenceError
            When no answer was found, or none could be proved.

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
        """Return a copy of the data from which `shares` computes; any thread may answer it later.

        Raises
        ------
        InputError, RefusalError
            As `shares` does.
        """
        state = self._state
        asked = state.criterion.mechanism if mechanism is None else mechanism
        return copy_for_shares(state, self._amounts.quanta, asked)

    def unplaceable_groups(self, most: int) -> dict[int, str]:
        """Return the ids of groups with waiting tasks that fit on no server, even an empty one.

        At most `most` groups of each queue are returned, each with the reason: ``"where"`` if no
        server satisfies its constraint, ``"size"`` if all allowed servers are too small. O(groups).

        Examples
        --------
        >>> s = Scheduler(["cpu"], "drf/first-fit")
        >>> s.add_server("a", {"cpu": 4})
        >>> s.add_queue("ana")
        >>> _ = s.submit("ana", {"cpu": 4})
        >>> group = s.submit("ana", {"cpu": 5})
        >>> s.unplaceable_groups(10) == {group: "size"}
        True
        """
        return unplaceable_groups(self._state, whole_number(most, "most", 1, LARGEST))

    def snapshot(self) -> bytes:
        """Return the whole state as bytes; the same events give the same bytes.

        O(servers, queues, groups and running tasks). See `restore`.
        """
        refuse = self._state.rounds.refuse_seconds
        settings: Settings = {
            "resources": self.resources,
            "policy": self.policy.name,
            "quanta": [(q.numerator, q.denominator) for q in self._amounts.quanta],
            "largest": self._largest,
            "seed": self.seed,
            "strict_fifo": self._is_strict,
            "refuse_seconds": (refuse.numerator, refuse.denominator),
        }
        if self._amounts.device_quanta:
            settings["devices"] = [self.resources[r] for r in self._amounts.device_quanta]
        return write_snapshot(self._state, settings)

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """Return the scheduler of a snapshot, which continues with the same placements.

        Parameters
        ----------
        data : bytes
            From `snapshot`. Its digest detects damage, not forgery.

        Raises
        ------
        InputError
            When the data is not a snapshot, is damaged, or has another version.
        """
        with garbage_collection_paused():
            body = read_snapshot(data)
            settings = body["settings"]
            names = settings["resources"]
            quanta = [Fraction(*ratio) for ratio in settings["quanta"]]
            counted = settings["largest"]
            largest: dict[str, Fraction] | None = None
            if counted is not None:
                amounts = [quantum * n for quantum, n in zip(quanta, counted, strict=True)]
                largest = dict(zip(names, amounts, strict=True))
            restored = cls(
                names,
                settings["policy"],
                dict(zip(names, quanta, strict=True)),
                settings["seed"],
                strict_fifo=settings["strict_fifo"],
                largest=largest,
                refuse_seconds=Fraction(*settings["refuse_seconds"]),
                devices=settings.get("devices", []),
            )
            restore_state(restored._state, body)
            return restored

    # Lookups

    def _server(self, name: object) -> Server:
        return require(self._state.servers.get(str_of(name)), "server", name)

    def _queue(self, name: object, what: str = "queue") -> Queue:
        return require(self._state.queues.get(str_of(name)), what, name)

    def _group(self, group: object) -> TaskGroup:
        return require(self._state.groups.get(id_of(group)), "group", group)

    def _task(self, task: object) -> Task:
        return require(self._state.running.get(id_of(task)), "task", task)

    # Shared steps

    def _in_units(self, amounts: Iterable[int]) -> dict[str, float]:
        """Return (R,) amounts in quanta as amounts in units, by resource."""
        rows = zip(self.resources, amounts, self._amounts.quanta, strict=True)
        return {name: float(int(amount) * quantum) for name, amount, quantum in rows}

    def _parse_amounts(self, amounts: object, what: str) -> list[int]:
        """Return (R,) amounts in quanta; -1 for resources that are not named."""
        given = self._amounts.parse_amounts(amounts, what)
        counted = self._amounts.count(amounts, what)
        return [counted[r] if r in given else -1 for r in range(len(counted))]

    def _parse_device_numbers(self, devices: object, shape: Shape) -> dict[int, list[int]]:
        """Return the numbers of a task's devices by the index of the resource."""
        error = InputError("must give numbers of devices by resource", "devices")
        if not isinstance(devices, Mapping):
            raise error
        found: dict[int, list[int]] = {}
        for columns in shape.taken_columns:
            name, demand = self.resources[columns.resource], int(shape.demand[columns.resource])
            numbers = devices.get(name, ())
            if isinstance(numbers, str | bytes) or not isinstance(numbers, Sequence):
                raise error
            given = [whole_number(number, "devices", 0, MOST_DEVICES - 1) for number in numbers]
            if not columns.are_enough(demand, given):
                message = f"must name as many different {name} devices as the task takes"
                raise InputError(message, "devices")
            found[int(columns.resource)] = given
        if len(devices) > len(found):
            raise InputError("names a resource of which the task takes no devices", "devices")
        return found

    def _parse_member(self, demand: object, tasks: object, where: ConstraintKey) -> Member:
        amounts = self._amounts.count_task(demand)
        if not any(amounts):
            raise InputError("takes nothing", "demand")
        return Member(amounts, whole_number(tasks, "tasks", 1, LARGEST), where)

    def _submit(
        self,
        queue: str,
        members: list[Member],
        is_gang: bool,
        priority: int,
        time_limit: float | None,
        attempts: int | None,
        now: float,
    ) -> int:
        """Check the terms of a group, and add it; return its id."""
        state = self._state
        leaf = self._queue(queue)
        if leaf.children:
            raise InputError("has queues below it; submit to one of these", "queue")
        terms = Terms(
            parse_float(now, "now"), whole_number(priority, "priority", -LARGEST, LARGEST)
        )
        if time_limit is not None:
            terms.time_limit = parse_float(time_limit, "time_limit")
            parse_positive(terms.time_limit, "time_limit")  # as a float it may be 0
        if attempts is not None:
            terms.attempts = whole_number(attempts, "attempts", 1, LARGEST)
        total = sum([member.tasks for member in members])
        if int(state.root.waiting) + total > LARGEST:
            raise InputError("more tasks would wait than can be counted", "tasks")
        return state.submit(leaf, members, is_gang, terms).id

    def _stop_with_gangs(self, tasks: list[Task], *, waits_again: bool) -> list[int]:
        """Stop tasks and the rest of their gangs; return their ids in order of starts."""
        stopped = self._state.with_gangs(tasks)
        for task in stopped:
            self._state.stop(task, waits_again)
        return [task.id for task in stopped]


def require(found: Found | None, what: str, key: object) -> Found:
    """Return the found entity; raise InputError, with the key that was given, if there is none."""
    if found is None:
        raise InputError(f"there is no {what} {key!r:.60}", what)
    return found


def str_of(value: object) -> str:
    """Return a text as it is; for any other value the empty text, which names nothing."""
    return value if isinstance(value, str) else ""


def id_of(value: object) -> int:
    """Return an id, or -1 for any other value."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return -1
    return int(value)
