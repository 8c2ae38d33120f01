"""The scheduler: servers, queues and tasks come and go, in any order, and tasks are placed.

A state machine without clock, files or threads. Same events, same placements. What is malformed,
unknown or gone, or overflows, raises `InputError` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from fractions import Fraction
from functools import lru_cache
from math import inf
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np

from fairlead.errors import InputError, RefusalError
from fairlead.model.arguments import switch, whole_number
from fairlead.model.cluster import IntArray
from fairlead.scheduler import cycle, fifo, shape_units
from fairlead.scheduler.arguments import (
    LARGEST,
    Predicate,
    labels_of,
    name_of,
    number,
    positive,
    predicate,
    real,
    weight_of,
)
from fairlead.scheduler.backlog import note_over
from fairlead.scheduler.best_fitting import ratio_of
from fairlead.scheduler.checking import check_backlog, check_core
from fairlead.scheduler.checking_at_hand import check_at_hand
from fairlead.scheduler.explain import Explanation, explained
from fairlead.scheduler.offering import (
    REFUSE_SECONDS,
    forget_pairs,
    with_pairs,
)
from fairlead.scheduler.policies import FIFO, SUMMED, parse_policy
from fairlead.scheduler.records import NONE, with_room
from fairlead.scheduler.round_robin import forget_server
from fairlead.scheduler.rows import GroupRow, Rows, TaskRow, pair_of
from fairlead.scheduler.shares import MECHANISMS, LiveShares, SharesQuestion, shares_question
from fairlead.scheduler.snapshot import read, written
from fairlead.scheduler.undo import NotedTable, undone

COUNTED = 2**16  # amounts that are remembered in quanta
QUANTUM = Fraction(1, 1_024_000_000)
Rounding = Callable[[Fraction, Fraction], int]
NOTHING = Fraction(0)
PORTION = 2**12
ROW_BITS = 32  # bits of the row in an id, which has a generation above it


class Placement(NamedTuple):
    """A task that starts.

    Attributes
    ----------
    task, group : int
        Ids; a task gets another one each time it starts.
    queue, server : str
    attempt : int
        1 for the first start of this task.
    index : int
        Which of the group's tasks.
    """

    task: int
    group: int
    queue: str
    server: str
    attempt: int
    index: int  # type: ignore[assignment]


class Scheduler(Rows):
    """Places tasks by a policy, in a decided order, while servers, queues and tasks come and go.

    Parameters
    ----------
    resources : sequence of str
    policy : str
        A name that `policies` knows: ``drf/best-fit``, ``fifo/first-fit``, ``slots:14``.
    quanta : mapping of str to number, optional
        The smallest amount that is told from none, per resource; 1/1,024,000,000 of a unit when
        absent. Demands are rounded up to it, capacities down.
    seed : int
        For round-robin.
    strict_fifo : bool
        Whether nothing passes over the first group of its queue.
    largest : mapping of str to number, optional
        The server that ``slots:S`` cuts into slots. When absent it has the most of each resource
        that any server has that is there, of those resources that all of them have.
    refuse_seconds : float
        For how long a queue declines what a server has free, where demands are unknown.
    """

    def __init__(
        self,
        resources: Sequence[str],
        policy: str,
        quanta: Mapping[str, float] | None = None,
        seed: int = 0,
        *,
        strict_fifo: bool = False,
        largest: Mapping[str, float] | None = None,
        refuse_seconds: float = REFUSE_SECONDS,
    ) -> None:
        if isinstance(resources, str) or not isinstance(resources, Sequence) or not resources:
            raise InputError("must be a list of names", "resources")
        self.resources = [name_of(r, "resources") for r in resources]
        if len(set(self.resources)) < len(self.resources):
            raise InputError("names a resource twice", "resources")
        seconds = real(refuse_seconds, "refuse_seconds")
        positive(refuse_seconds, "refuse_seconds")
        self.policy, self.seed = policy, whole_number(seed, "seed", 0, LARGEST)
        super().__init__(
            len(self.resources),
            parse_policy(policy),
            strict=switch(strict_fifo, "strict_fifo"),
            seed=self.seed,
            refuse_seconds=seconds,
            portion=PORTION,
        )
        self._counted = lru_cache(COUNTED)(
            lambda names, values, _, *asked: self._count_anew(
                dict(zip(names, values, strict=True)), *asked
            )
        )
        given = self._amounts({} if quanta is None else quanta, "quanta")
        if any(r in (quanta or {}) and not q for r, q in zip(self.resources, given, strict=True)):
            raise InputError("must be positive", "quanta")
        self._quanta = [q or QUANTUM for q in given]
        if largest is not None:
            limits, self._is_cut = self._count(largest, "largest", _quanta_in), True
            if self._slot:
                self._slot.cut([limits])
        self._servers: dict[str, int] = NotedTable()
        self._server_names: list[str] = []
        self._labels: list[dict[str, str]] = []
        self._spare_servers: list[int] = []
        self._queues: dict[str, int] = NotedTable()
        self._queue_names: list[str] = []
        self._spare_queues: list[int] = []
        self._kinds: dict[tuple[int, bytes], int] = NotedTable()
        self._classes: dict[Any, int] = NotedTable()
        self._class_of: list[dict[str, str]] = []
        self._predicates: dict[Any, int] = NotedTable()
        self._naming: dict[str, tuple[int, ...]] = NotedTable()
        self._shapes: dict[tuple[tuple[int, ...], int], int] = NotedTable()
        self._lines: dict[tuple[int, int], int] = NotedTable()
        self._overfull: set[int] = set()  # servers that may hold more than they have
        self._joined = self._added = self._serial = 0
        self._waiting = self._running = 0
        self._attempts: dict[int, int] = NotedTable()
        self._failures: dict[int, dict[int, int]] = NotedTable()

    # Servers

    def add_server(
        self,
        name: str,
        capacity: Mapping[str, float],
        labels: Mapping[str, str] | None = None,
        order: int | None = None,
    ) -> None:
        """Have a server join; see `Scheduler`.

        Raises
        ------
        InputError
            When there is one of that name, or the amounts add up to more than can be counted.
        """
        if name_of(name, "server") in self._servers:
            raise InputError(f"there is a server {name!r}", "server")
        place = self._joined if order is None else whole_number(order, "order", -LARGEST, LARGEST)
        amounts = self._count(capacity, "capacity", _quanta_in)
        marks = labels_of(labels)
        self._refuse_overflow(np.array(amounts, dtype=object))
        self._room_for_pairs(0, 1)
        s = self._row_for_server()
        self._servers[name], self._server_names[s], self._labels[s] = s, name, marks
        core = self._core
        server, node = core.servers[s], core.server_node[s]
        server.tasks, server.running, server.fresh_in = NONE, 0, 0
        server.open, server.there, server.draining = False, True, False
        node.rank, node.time, node.serial = place, 0.0, self._joined
        self._joined += 1
        core.capacity[s] = core.free[s] = self._wide(amounts)
        self._put_in_order(s)
        self._assign_kind(s)
        self._count_server(s, 1)
        self._ensure_index()
        self._ensure_at_hand()
        self._change_server(s, True)

    def set_server(
        self,
        name: str,
        capacity: Mapping[str, float] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Change what is given; tasks that run there go on, though it may be overcommitted then."""
        s = self._found(self._servers, name, "server")
        core = self._core
        old = core.capacity[s].copy()
        amounts = old
        if capacity is not None:
            amounts = self._wide(self._count(capacity, "capacity", _quanta_in))
        marks = self._labels[s] if labels is None else labels_of(labels)
        held = old - core.free[s]
        n = len(self.resources)
        self._refuse_overflow(np.maximum(amounts, held)[:n].astype(object), instead_of=s)
        is_open, is_news = bool(core.servers[s].open), (amounts > old).any()
        is_news |= marks != self._labels[s]
        self._close(s)
        self._count_server(s, -1)
        held[n:] = (core.capacity[s] - core.free[s])[n:]  # slots may be others without it
        self._labels[s] = marks
        core.capacity[s], core.free[s] = amounts, amounts - held
        self._overfull.add(s)
        self._assign_kind(s)
        self._count_server(s, 1)
        if is_open:
            self._open_again(s, is_news=bool(is_news))

    def drain(self, name: str) -> None:
        """Place no more tasks on a server; those that run there go on."""
        s = self._found(self._servers, name, "server")
        self._core.servers[s].draining = True
        self._close(s)

    def undrain(self, name: str) -> None:
        """Place tasks on a drained server again."""
        s = self._found(self._servers, name, "server")
        if self._core.servers[s].draining:
            self._core.servers[s].draining = False
            self._change_server(s, True)

    def remove_server(self, name: str) -> list[int]:
        """Take a server away; return the ids of what ran there, and of the rest of its gangs.

        In order of starts. Those tasks wait again.
        """
        s = self._found(self._servers, name, "server")
        core = self._core
        lost = self._tasks_on(s)
        self._close(s)
        ids = self._lose(lost)
        self._count_server(s, -1)
        core.capacity[s] = core.free[s] = 0
        self._take_out_of_order(s)
        forget_server(core, s)
        if self._filters:
            forget_pairs(self._filters, s)
        generation = int(core.servers[s].generation) + 1
        core.servers[s] = core.server_node[s] = 0
        core.servers[s].generation = generation
        del self._servers[name]
        self._server_names[s], self._labels[s] = "", {}
        self._spare_servers.append(s)
        return ids

    # Queues

    def add_queue(self, name: str, weight: float = 1, parent: str | None = None) -> None:
        """Have a user, or team, share the servers by a weight, or what its parent has.

        Parameters
        ----------
        name : str
        weight : number
        parent : str, optional
            A queue where nothing waits or runs; only queues with none below them take tasks.

        Raises
        ------
        InputError
            When there is one of that name, no such parent, or tasks of the parent wait or run.
        RefusalError
            When the policy has no trees: these are for drf, fifo and easy with first-fit or
            best-fit, and slots:S.

        Notes
        -----
        From the root down, the child is served that has the least share by weight of those below
        which anything can be placed. A queue's share is that of the sum of what is held below it.
        """
        if name_of(name, "queue") in self._queues:
            raise InputError(f"there is a queue {name!r}", "queue")
        above = self._parent(parent)
        share = pair_of(weight_of(weight))
        self._room_for_pairs(1, 0)
        if self._spare_queues:
            q = self._spare_queues.pop()
        else:
            q = len(self._queue_names)
            self._core = with_room(self._core, "queues", q + 1)
            self._queue_names.append("")
            self._core.numbers[0].queues = q + 1
        self._queues[name], self._queue_names[q] = q, name
        queue = self._core.queues[q]
        queue.place = queue.first = queue.tree = NONE
        queue.waiting = queue.running = 0
        queue.serial = -self._added if self._selection.last_of_equals else self._added
        queue.weight, queue.weight_low = share
        queue.key = queue.key_low = queue.total = queue.total_low = 0.0
        self._core.held[q] = 0
        queue.children = queue.standing = 0
        self._hang(q, above)
        self._added += 1
        self._ensure_at_hand()

    def set_weight(self, name: str, weight: float) -> None:
        """Give a queue another weight from now on."""
        q = self._found(self._queues, name, "queue")
        queue = self._core.queues[q]
        queue.weight, queue.weight_low = pair_of(weight_of(weight))
        cycle.rank_one(self._core, q)

    def remove_queue(self, name: str) -> None:
        """Take a queue away that has nothing that waits or runs."""
        q = self._found(self._queues, name, "queue")
        queue = self._core.queues[q]
        if queue.waiting or queue.running:
            raise InputError(f"tasks of {name!r} wait or run", "queue")
        if queue.children:
            raise InputError(f"there are queues below {name!r}", "queue")
        if self._core.numbers[0].taker == q:
            self._core.numbers[0].taker = NONE
            self._core.numbers[0].round_at += 1
        if self._filters:
            self._filters.moment[q] = NONE
        if queue.parent != NONE:
            self._core.queues[queue.parent].children -= 1
        kept = int(queue.generation) + 1, int(queue.segment), int(queue.room)
        self._core.queues[q] = 0
        queue.generation, queue.segment, queue.room = kept
        queue.weight = 1.0
        queue.parent = queue.above = queue.place = queue.first = queue.tree = NONE
        self._queue_names[q] = ""
        del self._queues[name]
        self._spare_queues.append(q)

    def _parent(self, name: str | None) -> int:
        """Return the row of a queue that may have queues below it."""
        if name is None:
            return NONE
        p = self._found(self._queues, name, "parent")
        if self._core.queues[p].waiting or self._core.queues[p].running:
            raise InputError(f"tasks of {name!r} wait or run", "parent")
        if not self._policy.has_trees:
            fault = "a queue has queues below it only under drf, fifo and easy, by first-fit or "
            raise RefusalError(self._policy.name, fault + "best-fit, and under slots:S")
        return p

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
        """Have a group of alike tasks wait; return its id.

        The tasks of a gang start together, and as soon as one of them is lost all of them stop.
        """
        order = (priority, time_limit, attempts, now)
        return self._enter(queue, [(demand, tasks)], switch(gang, "gang"), where, *order)

    def submit_gang(
        self,
        queue: str,
        members: Sequence[tuple[Any, ...]],
        where: object = None,
        priority: int = 0,
        time_limit: float | None = None,
        attempts: int | None = None,
        now: float = 0.0,
    ) -> int:
        """Have a gang of several shapes wait; return its id.

        Each is (demand, tasks), or (demand, tasks, where) with a condition of its own. The tasks'
        indices go through all shapes, in their order.
        """
        if isinstance(members, str) or not isinstance(members, Sequence) or not members:
            raise InputError("must be a list of (demand, tasks)", "members")
        if any(not isinstance(m, Sequence) or len(m) not in (2, 3) for m in members):
            raise InputError("must be a list of (demand, tasks)", "members")
        return self._enter(queue, members, True, where, priority, time_limit, attempts, now)

    def _enter(
        self,
        queue: str,
        members: Sequence[tuple[Any, ...]],
        gang: bool,
        where: object,
        priority: int,
        time_limit: float | None,
        attempts: int | None,
        now: float,
    ) -> int:
        q = self._found(self._queues, queue, "queue")
        if self._below and self._core.queues["children"][q]:  # mostly none is below another
            raise InputError("has queues below it, and only they take tasks", "queue")
        condition, shapes = predicate(where), []
        for demand, tasks, *own in members:
            amounts = self._count(demand, "demand", quanta_for)
            if not any(amounts):
                raise InputError("takes nothing", "demand")
            n = whole_number(tasks, "tasks", 1, LARGEST)
            shapes.append((amounts, n, predicate(own[0]) if own else condition))
        rank = -whole_number(priority, "priority", -LARGEST, LARGEST)
        time = real(now, "now")
        limit = inf
        if time_limit is not None:
            positive(time_limit, "time_limit")
            limit = real(time_limit, "time_limit")
        bound = None if attempts is None else whole_number(attempts, "attempts", 1, LARGEST)
        if self._waiting + sum(n for _, n, _ in shapes) > LARGEST:
            raise InputError("more tasks would wait than can be counted", "tasks")
        g = self._enter_rows(q, shapes, gang, (rank, time, self._serial), limit)
        self._serial += 1
        if bound is not None:
            self._attempts[self._group_id(g)] = bound
        return self._group_id(g)

    def _enter_rows(
        self,
        q: int,
        shapes: Sequence[tuple[list[int], int, Predicate]],
        gang: bool,
        key: tuple[int, float, int],
        limit: float,
    ) -> int:
        """Have tasks of each shape wait, by an order key; return the group's row."""
        total = sum(n for _, n, _ in shapes)
        lines = [self._line(q, self._shape(amounts, p)) for amounts, _, p in shapes]
        self._room_for_group()
        self._waiting += total
        if gang and total > 1:
            members = [(line, n) for line, (_, n, _) in zip(lines, shapes, strict=True)]
            g = self._enter_gang(q, members, key)
        else:
            g = int(self._call(cycle.submit, self._core, self._trees, lines[0], total, *key))
        self._core.groups["limit"][list(self._members(g)) if len(shapes) > 1 else g] = limit
        self._note_group(g)
        return g

    def _enter_gang(
        self, q: int, members: list[tuple[int, int]], key: tuple[int, float, int]
    ) -> int:
        """Have lines' groups of tasks wait as a gang; return its row."""
        own, numbers = int(self._core.numbers[0].spare_line), self._core.numbers[0]
        self._expect_gangs()
        if own == NONE:
            own = self._new_line()
        else:
            numbers.spare_line = self._core.lines[own].queue
        line = self._core.lines[own]
        line.queue, line.task_shape, line.first, line.parked = q, NONE, NONE, False
        gang, fresh = NONE, 0
        for number_, n in members:
            self._room_for_group()
            g = cycle.submit_member(self._core, self._trees, number_, n, gang, own, fresh, key)
            gang, fresh = g if gang == NONE else gang, fresh + n
        return gang

    def set_priority(self, group: int, priority: int) -> None:
        """Give what waits of a group, and waits again, another priority in its queue."""
        g = self._found_group(group)
        rank = -whole_number(priority, "priority", -LARGEST, LARGEST)
        cycle.reorder(self._core, self._gangs, self._trees, g, rank)
        if self._backlog is not None:
            self._backlog.state[0].stale = True

    def cancel(self, group: int) -> list[int]:
        """Drop what waits of a group; return the ids of what runs, which holds its amounts."""
        g = self._found_group(group)
        running = self._tasks_of(g)
        self._attempts.pop(group, None)
        self._failures.pop(group, None)
        self._drop(g)
        return [self._task_id(t) for t in running]

    # Tasks that run

    def finish(self, task: int) -> None:
        """End a task."""
        self._stop(self._found_task(task), again=False)

    def fail(self, task: int) -> list[int]:
        """End a task that is tried again, unless its group's attempts are used up.

        Return what stops: the task, and the rest of its gang, whose failures add up.
        """
        t = self._found_task(task)
        g = self._group_of(t)
        row, group = self._task(t), self._group_id(g)
        is_gang, bound = self._group(g).gang != NONE, self._attempts.get(group)
        again = True
        if bound is not None:
            index = 0 if is_gang else row.index
            failures = dict(self._failures.get(group, {}))
            failures[index] = failures.get(index, 0) + 1
            self._failures[group] = failures
            again = failures[index] < bound
        if is_gang and not again:
            self._drop(g)
        return self._lose([t], again=again)

    def evict(self, task: int) -> list[int]:
        """Take a task back; it waits again. Return what stops: it, and the rest of its gang."""
        return self._lose([self._found_task(task)])

    def assume(self, group: int, server: str, since: float | None = None) -> int:
        """Have a waiting task of a group run on a server where it was found; return its id.

        It has run `since` then; since tasks were placed last when that is absent.
        """
        g = self._found_group(group)
        s = self._found(self._servers, server, "server")
        started = None if since is None else real(since, "since")
        core = self._core
        g = next((member for member in self._members(g) if self._group(member).waiting), NONE)
        if g == NONE:
            raise InputError("no task of it waits", "group")
        k = core.lines[core.groups[g].line].task_shape
        held = (core.capacity[s] - core.free[s]).astype(object) + core.demand[k]
        most = np.maximum(core.capacity[s].astype(object), held)[: len(self.resources)]
        self._refuse_overflow(most, instead_of=s)
        self._room_for_tasks(1)
        self._hear()
        if core.groups[g].gang == NONE:
            t = cycle.assume(self._core, self._index, self._at_hand, self._trees, g, s)
        else:
            t = cycle.assume_of_gang(self._core, self._index, self._at_hand, self._trees, g, s)
        if started is not None:
            self._core.tasks[t].since = started
        self._note_start(t)
        self._overfull.add(s)
        self._waiting -= 1
        self._running += 1
        return self._task_id(t)

    def place(self, now: float = 0.0, limit: int | None = None) -> list[Placement]:
        """Place tasks until nothing more fits, or `limit` are placed."""
        moment = real(now, "now")
        left = LARGEST if limit is None else whole_number(limit, "limit", 0, LARGEST)
        self._core.numbers["now"] = moment
        placed: list[Placement] = []
        self._lacking = 0
        while left > 0:
            portion = min(left, PORTION)
            self._room_for_tasks(max(portion, self._lacking))
            if self._lacking > len(self._out):
                self._out = np.zeros(self._lacking, dtype=np.int64)
            n = self._place(portion)
            if n:
                placed += [self._placement(t) for t in self._out[:n].tolist()]
            self._waiting -= n
            self._running += n
            left -= n
            if n < portion and not self._lacking:
                break
        return placed

    def next_moment(self) -> float:
        """Return when to place again though no event came since the last time.

        Before it nothing would start. That is when something declined is offered again. Under
        ``easy`` it is when the next task should have ended after the time that is reserved: until
        then what is reserved stays the same. It is infinite for never, and ``-inf`` for at once.
        """
        if not self._waiting:
            return inf
        if not self._policy.backfills:
            return self.next_offer()
        if self._backlog is None or self._backlog.state[0].stale:
            return -inf
        state = self._backlog.state[0]
        if state.held_for == NONE:
            return inf
        ends = self._backlog.ends["end"][: state.ends]
        later = ends.searchsorted(state.at, side="right")
        return float(ends[later]) if later < len(ends) else inf

    # What is so, kept and given back

    def snapshot(self) -> bytes:
        """Return what is so as bytes, the same for the same events; see `restore`. O(rows)."""
        return written(self)

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """Return the scheduler that a snapshot was taken of; it decides the same from there on.

        Parameters
        ----------
        data : bytes
            From `snapshot`. A digest in it tells what is damaged, not what is forged.

        Raises
        ------
        InputError
            When it is damaged, or of another version.
        """
        restored: Self = read(cls, data)
        return restored

    def what_if(self) -> AbstractContextManager[None]:
        """Undo, at the end of a ``with`` block, whatever events are in it, also when it raises.

        The ids that it gave are given again. Blocks may stand in one another. It costs what is
        touched in it, by pages of 4,096 bytes; the first block also moves all rows (0.1 s or so for
        100,000 shapes and groups), and so does the first one inside another. Whatever is told
        before the block ends is undone, so no block should be left open in a generator.
        """
        return undone(self)

    def explain(self, group: int, now: float | None = None) -> Explanation:
        """Return why tasks of a group wait, and what would let the first one start.

        Parameters
        ----------
        group : int
        now : float, optional
            When; that of the last `place` when absent.

        Notes
        -----
        Every change is tried and undone. O(S R + Q) and what placing costs, some twenty times.
        """
        g = self._found_group(group)
        moment = float(self._core.numbers[0].now) if now is None else real(now, "now")
        return explained(self, g, group, moment)

    def shares(self, mechanism: str | None = None) -> LiveShares:
        """Return what queues hold, and what is fair by what waits and runs, with its proof.

        Not of a tree: which shares are fair where queues are below queues is not defined.

        Parameters
        ----------
        mechanism : str, optional
            Of the catalogue, one that admits finite tasks and placement constraints: ``"drfh"``,
            ``"tsf"`` or ``"ps-dsf"``. That of the policy's criterion when absent (fifo: drfh).

        Raises
        ------
        InputError, RefusalError
            When the mechanism is unknown, or its definition does not admit the tasks.
        CertificateError
            When no answer was found that could be proved.
        """
        return self.shares_question(mechanism).answer()

    def shares_question(self, mechanism: str | None = None) -> SharesQuestion:
        """Return what `shares` follow from, copied: its answer may be had later, in any thread.

        Raises
        ------
        InputError, RefusalError
            As `shares` does.
        """
        asked = MECHANISMS[self._policy.criterion] if mechanism is None else mechanism
        return shares_question(self, asked)

    def check(self) -> None:
        """Assert what always holds. Slow."""
        check_core(self._core, self._index)
        if self._at_hand is not None:
            check_at_hand(self._core, self._index, self._at_hand)
        if self._backlog is not None:
            check_backlog(self._core, self._backlog)
        assert self._waiting == self._core.queues["waiting"][list(self._queues.values())].sum()
        assert self._running == self._core.queues["running"][list(self._queues.values())].sum()

    # What is found and counted

    def _found(self, table: dict[str, int], key: object, what: str) -> int:
        if not isinstance(key, str) or key not in table:
            raise InputError(f"there is no {what} {key!r:.60}", what)
        return table[key]

    def _found_group(self, group: object) -> int:
        g, found = self._row(group, self._core.groups, GroupRow)
        is_there = found is not None and found.gang in (NONE, g) and g < self._numbers().groups
        if not is_there or not any(
            row.waiting or row.running for row in map(self._group, self._members(g))
        ):
            raise InputError(f"there is no group {group!r:.60}", "group")
        return g

    def _found_task(self, task: object) -> int:
        t, found = self._row(task, self._core.tasks, TaskRow)
        if found is None or not found.runs:
            raise InputError(f"there is no task {task!r:.60}", "task")
        return t

    def _row(self, key: object, rows: Any, kind: Any) -> tuple[int, Any]:
        """Return the row that an id names, and what is in it, or None."""
        if isinstance(key, Integral) and not isinstance(key, bool):
            generation, row = divmod(int(key), 1 << ROW_BITS)
            if row < len(rows):
                found = kind._make(rows.item(row))
                if found.generation == generation:
                    return row, found
        return NONE, None

    def _task_id(self, t: int) -> int:
        return int(self._task(t).generation) << ROW_BITS | t

    def _group_id(self, g: int) -> int:
        return int(self._group(g).generation) << ROW_BITS | g

    def _placement(self, t: int) -> Placement:
        task = self._task(t)
        g, group = task.group, self._group(task.group)
        if group.gang != NONE:
            g, group = group.gang, self._group(group.gang)
        return Placement(
            task.generation << ROW_BITS | t,
            group.generation << ROW_BITS | g,
            self._queue_names[self._core.lines["queue"].item(group.line)],
            self._server_names[task.server],
            task.attempt,
            task.index,
        )

    def _drop(self, g: int) -> None:
        self._waiting -= sum(self._group(member).waiting for member in self._members(g))
        if self._backlog is not None:
            note_over(self._backlog, g)
        cycle.drop(self._core, self._gangs, self._trees, g)

    def _lose(self, tasks: list[int], *, again: bool = True) -> list[int]:
        """Stop tasks and the rest of their gangs; return their ids, in order of starts."""
        lost = self._with_gangs(tasks)
        ids = [self._task_id(t) for t in lost]
        for t in lost:
            self._stop(t, again=again)
        return ids

    def _stop(self, t: int, *, again: bool) -> None:
        g = self._group_of(t)
        row = self._group(g)
        again = again and not row.over
        super()._stop(t, again=again)
        self._running -= 1
        self._waiting += again
        if self._core.groups["generation"].item(g) != row.generation:
            group = row.generation << ROW_BITS | g
            self._attempts.pop(group, None)
            self._failures.pop(group, None)

    # Amounts

    def _amounts(self, amounts: object, what: str) -> list[Fraction]:
        if not isinstance(amounts, Mapping):
            raise InputError("must give amounts by resource", what)
        for name in amounts:
            if name not in self.resources:
                raise InputError(f"there is no resource {name!r:.60}", what)
        numbers = {name: number(amount, f"{what} {name}") for name, amount in amounts.items()}
        if any(amount.numerator < 0 for amount in numbers.values()):
            raise InputError("must not be negative", what)
        return [numbers.get(name, NOTHING) for name in self.resources]

    def _count(self, amounts: object, what: str, rounded: Rounding) -> list[int]:
        """Return amounts in quanta: capacities rounded down, demands up."""
        if type(amounts) is dict:
            values = amounts.values()
            with suppress(TypeError):  # what cannot be looked up is looked at
                types = tuple(map(type, values))  # True is 1 otherwise
                return self._counted(tuple(amounts), tuple(values), types, what, rounded)
        return self._count_anew(amounts, what, rounded)

    def _count_anew(self, amounts: object, what: str, rounded: Rounding) -> list[int]:
        rows = zip(self._amounts(amounts, what), self._quanta, strict=True)
        counted = [rounded(amount, quantum) for amount, quantum in rows]
        if max(counted) > LARGEST:
            raise InputError("is more than can be counted", what)
        return counted

    def _wide(self, amounts: list[int]) -> IntArray:
        """Return amounts, with a column for slots where there are any."""
        return np.array([*amounts, 0] if self._slot else amounts, dtype=np.int64)

    def _refuse_overflow(self, amounts: Any, instead_of: int | None = None) -> None:
        """Refuse what, of all that servers have or hold, whichever is more, exceeds a word."""
        n = len(self.resources)
        core, total = self._core, np.array(self._total, dtype=object) + amounts
        for s in list(self._overfull):
            if (core.free[s] < 0).any():
                total = total - np.minimum(core.free[s, : len(self.resources)], 0)
            else:
                self._overfull.discard(s)
        if instead_of is not None:
            capacity = core.capacity[instead_of, :n]
            total = total - np.maximum(capacity, capacity - core.free[instead_of, :n])
        for name, amount in zip(self.resources, total.tolist(), strict=True):
            if amount > LARGEST:
                raise InputError("adds up to more than can be counted", name)

    # Order of servers, kinds, shapes

    def _row_for_server(self) -> int:
        if self._spare_servers:
            return self._spare_servers.pop()
        s = len(self._server_names)
        self._core = with_room(self._core, "servers", s + 1)
        self._server_names.append("")
        self._labels.append({})
        return s

    def _room_for_pairs(self, queues: int, servers: int) -> None:
        """Have room for what more queues may decline, and of more servers."""
        if self._filters is not None:
            q, s = len(self._queue_names) + queues, len(self._server_names) + servers
            self._filters = with_pairs(self._filters, q, s)

    def _assign_kind(self, s: int) -> None:
        """Find the class and the kind of a server by its labels and capacity of now."""
        klass = self._class(self._server_names[s], self._labels[s])
        key = (klass, self._core.capacity[s, : len(self.resources)].tobytes())
        if key not in self._kinds:
            c = self._kinds[key] = len(self._kinds)
            self._core = core = with_room(self._core, "kinds", c + 1)
            core.kinds[c].klass = klass
            core.kind_capacity[c] = core.capacity[s]
            if self._slot:
                core.kind_capacity[c, -1] = self._slot.of_server(core.capacity[s, :-1].tolist())
        self._core.servers[s].klass, self._core.servers[s].kind = klass, self._kinds[key]

    def _class(self, name: str, labels: dict[str, str]) -> int:
        """Return the class of servers for which the same predicates hold."""
        key = (tuple(sorted(labels.items())), self._naming.get(name, ()))
        if key not in self._classes:
            c = self._classes[key] = len(self._classes)
            self._class_of.append(labels)
            self._widen()
            for where, p in self._predicates.items():
                self._core.may[p, c] = p in key[1] or _holds(where, labels)
        return self._classes[key]

    def _predicate(self, where: Predicate) -> int:
        if where not in self._predicates:
            p = self._predicates[where] = len(self._predicates)
            self._widen()
            if isinstance(where, frozenset):
                for name in where:
                    self._naming[name] = (*self._naming.get(name, ()), p)
            for c, labels in enumerate(self._class_of):
                self._core.may[p, c] = _holds(where, labels)
            if isinstance(where, frozenset):
                for name in sorted(where & self._servers.keys()):
                    self._reclass(self._servers[name])
        return self._predicates[where]

    def _reclass(self, s: int) -> None:
        """Move a server, alone, to a class whose predicates know its name."""
        is_open = bool(self._core.servers[s].open)
        self._close(s)
        self._count_server(s, -1)
        self._assign_kind(s)
        self._count_server(s, 1)
        if is_open:
            self._open_again(s, is_news=False)

    def _widen(self) -> None:
        have, need = self._core.may.shape, (len(self._predicates), len(self._classes))
        if need[0] > have[0] or need[1] > have[1]:
            wider = [max(h, 2 * n) if n > h else h for h, n in zip(have, need, strict=True)]
            may = np.zeros(wider, dtype=bool)
            may[: have[0], : have[1]] = self._core.may
            self._core = self._core._replace(may=may)

    def _shape(self, amounts: list[int], where: Predicate) -> int:
        p = self._predicate(where)
        key = (tuple(amounts), p)
        if key in self._shapes:
            return self._shapes[key]
        k = self._shapes[key] = len(self._shapes)
        self._core = core = with_room(self._core, "shapes", k + 1)
        core.demand[k] = self._wide(amounts)
        if self._slot:
            core.demand[k, -1] = self._slot.of_task(amounts)
        shape = core.shapes[k]
        shape.where, shape.parked, shape.watchers = p, NONE, NONE
        shape.lead = next(r for r, amount in enumerate(amounts) if amount)
        if self._indexed:
            lead = amounts[shape.lead]
            core.ratio[k] = [ratio_of(amount, lead) for amount in self._wide(amounts).tolist()]
        core.numbers[0].shapes = k + 1
        if core.numbers[0].criterion == SUMMED:
            shape_units.count_kinds(core, k, len(self._kinds))
        if core.numbers[0].criterion == FIFO:
            fifo.note_shape(core, k)
        self._ensure_index()
        self._ensure_at_hand()
        return k

    def _line(self, q: int, k: int) -> int:
        key = (q, k)
        if key not in self._lines:
            row = self._lines[key] = self._new_line()
            line = self._core.lines[row]
            line.queue, line.task_shape, line.first = q, k, NONE
        return self._lines[key]


def _quanta_in(amount: Fraction, quantum: Fraction) -> int:
    """Return how many quanta there are in an amount, rounded down."""
    return amount.numerator * quantum.denominator // (amount.denominator * quantum.numerator)


def quanta_for(amount: Fraction, quantum: Fraction) -> int:
    """Return how many quanta an amount takes, rounded up."""
    return -(-amount.numerator * quantum.denominator // (amount.denominator * quantum.numerator))


def _holds(where: Predicate, labels: dict[str, str]) -> bool:
    """Return whether a condition holds for servers that no condition names."""
    if where is None:
        return True
    if isinstance(where, frozenset):
        return False
    return all(labels.get(key) == value for key, value in where)
