"""Explain why a group of tasks waits, and which changes would let it start.

1. Count the amounts that servers lack, in one scan.
2. Compare the group's queue with the others.
3. Place tasks on the live state, inside `what_if`: does a task of the group start?
4. Try each change on the live state in the same way, and undo it.

The criterion gives the order of queues (`service_order`), the cycle the reason (`why_waits`).
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from math import inf
from typing import Final

from fairlead.errors import InputError
from fairlead.scheduler._cycle import Cycle
from fairlead.scheduler._entities import (
    NO_LIMIT,
    ConstraintKey,
    Gang,
    Labels,
    Member,
    Queue,
    Server,
    Shape,
    TaskGroup,
    Terms,
    fits,
    is_beyond_limits,
    limit_reached,
    path_of,
)
from fairlead.scheduler._preemption import PreemptionRound
from fairlead.scheduler._reserving import seconds_until
from fairlead.scheduler._shortage import Shortage, fit_together, lacks
from fairlead.scheduler._state import State, what_if
from fairlead.scheduler._waiting import lists_of
from fairlead.scheduler.argument_checks import LARGEST
from fairlead.scheduler.criteria.criterion import next_shape
from fairlead.scheduler.explanation import (
    NAMED,
    Change,
    Explanation,
    QueueScore,
    Reservation,
    ServerShortage,
    WaitReason,
    list_in_words,
    tasks_in_words,
)

MAX_CLASSES: Final = 32  # number of server classes that are tried, the most common ones
PORTION: Final = 256  # tasks that are placed between checks whether the group has started


class Explainer:
    """One explanation of a waiting group, computed on the live state and undone."""

    def __init__(
        self,
        cycle: Cycle,
        resources: list[str],
        quanta: list[Fraction],
        group: TaskGroup,
        now: float,
        max_others: int = LARGEST,
    ) -> None:
        state = cycle.state
        self.cycle = cycle
        self.state = state
        self.group = group
        self.now = now  # the time of the question, in seconds
        self.max_others = max_others  # starts of other groups after which a trial ends
        self.is_cut = False  # whether the last trial ended at that number
        self.resources = resources  # (R,)
        self.quanta = quanta  # (R,) one quantum of each resource, in its unit
        self.names = state.counting.names(resources)  # (C,)
        self.units = state.counting.units(quanta)  # (C,)
        # The shape of the first waiting task, and its demand (R,) in quanta.
        self.shape = next_shape(group)
        self.demand = [int(amount) for amount in self.shape.given]
        self.shortage = Shortage(state.servers.values(), self.shape, state.counting)
        self.reservation: Reservation | None = None
        self.changes: list[Change] = []
        self.fitting: dict[Shape, bool] = {}  # whether a task fits on some emptied server

    def explain(self) -> Explanation:
        """Return the explanation; of several reasons, never precedes preemption, then a limit."""
        state, group, shortage = self.state, self.group, self.shortage
        with what_if(state):  # because `prepare` may set the time of offers
            self.cycle.prepare()
            queue = group.waiting_list.queue
            order = state.criterion.service_order(state.root, group)
            path = [queue] if order.is_flat else path_of(queue)
            score, *above = [QueueScore(q.name, order.share(q)) for q in reversed(path)]
            ahead = [
                QueueScore(q.name, order.share(q)) for q in order.ahead(path) if self.may_start(q)
            ]
        reason = WaitReason("nothing", "All of its tasks run.")
        too_small: dict[str, tuple[float, float]] = {}
        is_never = starts = False
        if group.waiting > 0:
            too_small = self.too_small()
            never = self.why_never(too_small)
            reason = self.place()
            starts = reason.held_by == "nothing"
            if self.is_cut:
                sentence = f"At least {self.max_others:,} other tasks start before it."
                reason = WaitReason("order", sentence)
            elif not starts:
                reason = self.why_limited() or reason
                is_never = is_beyond_limits(group)
                self.try_changes()
                reason = self.why_preempting() or reason
            if never is not None:
                reason = never
                is_never = True
        lacking = self.named_columns([r for r in range(len(self.names)) if shortage.lacking[r] > 0])
        return Explanation(
            group=group.id,
            queue=queue.name,
            waiting=int(group.waiting),
            running=len(group.tasks or ()),
            starts=starts,
            now=self.now,
            held_by=reason.held_by,
            reason=reason.reason,
            servers=len(state.servers),
            allowed=len(shortage.allowed_servers),
            open=shortage.open,
            fitting=shortage.fitting,
            lacking={self.names[r]: int(shortage.lacking[r]) for r in lacking},
            nearest=tuple([self.lacking_on(server) for server in shortage.nearest]),
            score=score.score,
            measure=order.measure,
            ahead=tuple(ahead[:NAMED]),
            n_ahead=len(ahead),
            above=tuple(reversed(above)),
            would_change=tuple(self.changes),
            never=is_never,
            short=too_small,
            reservation=self.reservation,
            is_time=state.criterion.ranks_groups,
        )

    def amount(self, r: int, quanta: int) -> float:
        """Return an amount of a column in its unit."""
        return float(quanta * self.units[r])

    def named_columns(self, lacking: list[int]) -> list[int]:
        """Return the columns to name: without a resource if its device columns are lacking."""
        found = lacking[:]
        for columns in self.shape.taken_columns:
            if columns.largest_at in lacking or columns.whole_at in lacking:
                found = [r for r in found if r != columns.resource]
        return found

    def lacking_on(self, server: Server) -> ServerShortage:
        """Return the amounts that a server lacks for the first waiting task."""
        shape = self.shape
        lacking: dict[str, float] = {}
        for r in self.named_columns(lacks(shape, server.free)):
            lacking[self.names[r]] = self.amount(r, int(shape.need[r]) - int(server.free[r]))
        return ServerShortage(server.name, lacking)

    def too_small(self) -> dict[str, tuple[float, float]]:
        """Return the demand and the largest capacity of each resource of `Shortage.too_small`.

        Empty if an allowed server is large enough.
        """
        demand = self.shape.demand
        return {
            self.names[r]: (self.amount(r, int(demand[r])), self.amount(r, largest))
            for r, largest in self.shortage.too_small().items()
        }

    def why_never(self, too_small: dict[str, tuple[float, float]]) -> WaitReason | None:
        """Return why the group can never start, even on empty open servers; None if it can."""
        if not self.state.servers:
            return WaitReason("where", "There is no server.")
        if not self.shortage.allowed_servers:
            return WaitReason("where", self.why_unmatched())
        if too_small:
            amounts = [
                f"{asked:.6g} {name} of at most {largest:.6g}"
                for name, (asked, largest) in too_small.items()
            ]
            reason = f"No allowed server is large enough: it asks for {list_in_words(amounts)}."
            return WaitReason("size", reason)
        for shape, tasks in self.group.tasks_together().items():
            if not fit_together(self.state.servers.values(), shape, tasks):
                reason = "Its tasks of one shape do not fit together, even on empty servers."
                return WaitReason("gang", reason)
        return self.cycle.why_never(self.group) if isinstance(self.group, Gang) else None

    def why_unmatched(self) -> str:
        """Return why the constraint allows no server: the labels or names that are absent.

        A constraint has either labels or names.
        """
        labels = self.shape.constraint.labels
        if not labels:
            return "None of the servers that it names is present."
        present = {label for server in self.state.servers.values() for label in server.labels}
        absent = labels - present
        wanted = list_in_words([label_in_words(label) for label in sorted(absent or labels)])
        return f"No server has {wanted}."

    def may_start(self, queue: Queue) -> bool:
        """Return whether a waiting task of a queue, or of one below it, fits on an empty server."""
        if queue.children:
            return any(self.may_start(child) for child in queue.ranked)
        for waiting_list in lists_of(queue):
            group = waiting_list.first()
            if group is not None and self.fits_somewhere(group):
                return True
        return any(self.fits_somewhere(gang) for gang in queue.gangs_parked.values())

    def fits_somewhere(self, group: TaskGroup) -> bool:
        """Return whether the next task of a group, or each of a gang, fits on an empty server."""
        for shape in group.tasks_together():
            if shape not in self.fitting:
                self.fitting[shape] = fit_together(self.state.servers.values(), shape, 1)
            if not self.fitting[shape]:
                return False
        return True

    def place(self) -> WaitReason:
        """Place tasks on trial; return why the group still waits, or "nothing" if it starts."""
        shortage, group, cycle = self.shortage, self.group, self.cycle
        had_room = shortage.fitting > 0 and cycle.has_room_now(group)
        reason: WaitReason | None = None
        with what_if(self.state):
            # Placing frees no amounts, so a task that fits nowhere now is not tried. But the trial
            # also makes reservations.
            is_tried = shortage.fitting > 0 or cycle.makes_reservations
            if is_tried and self.starts(group):
                return WaitReason("nothing", "It starts when tasks are placed next.")
            self.reservation = cycle.reservation(group)
            if shortage.fitting > 0:
                reason = self.why_limited() or cycle.why_waits(group, had_room)
        if reason is not None:
            return reason
        if shortage.open == 0:
            return WaitReason("drained", "All allowed servers are drained.")
        return self.why_spared() or WaitReason("room", "No allowed server has room for a task now.")

    def why_spared(self) -> WaitReason | None:
        """Return the reason if the only servers with room are kept for the spared resource."""
        kinds, constraint = self.state.server_kinds, self.shape.constraint
        if not constraint.is_kept_off:
            return None
        name = self.resources[kinds.spared]
        for server in self.state.servers.values():
            is_open = is_allowed(constraint.key, server, server.name) and not server.is_draining
            if is_open and kinds.has_spared(server) and fits(self.shape.need, server.free):
                kept = f"they are kept for tasks that ask for {name}"
                return WaitReason("spare", f"Only servers with {name} have room; {kept}.")
        return None

    def why_limited(self) -> WaitReason | None:
        """Return the reason if a limit of a queue keeps the group from starting."""
        queue = limit_reached(self.group)
        if queue is None or queue.limit is None:
            return None
        limit, clauses = queue.limit, list[str]()
        demand = self.group.demand_together()
        for r in range(len(limit.amounts)):
            asked = demand[r]
            maximum, held = int(limit.amounts[r]), int(queue.held[r])
            if limit.amounts[r] != NO_LIMIT and asked > 0 and asked > maximum - held:
                amounts = [f"{self.amount(r, amount):.6g}" for amount in (held, maximum, asked)]
                clauses.append(
                    f"{amounts[0]} of at most {amounts[1]} {self.names[r]} are held, and it asks "
                    f"for {amounts[2]}"
                )
        tasks = sum(self.group.tasks_together().values())
        if tasks > limit.tasks - queue.running:
            start = "one more" if tasks == 1 else f"{tasks} together"
            clauses.append(
                f"{queue.running} of at most {limit.tasks} tasks run, and it needs {start}"
            )
        return WaitReason("limit", f"Queue {queue.name} is limited: {'; '.join(clauses)}.")

    def why_preempting(self) -> WaitReason | None:
        """Return the reason if a round of preemption, after a placement, would start the group."""
        if not self.cycle.preempts:
            return None
        with what_if(self.state):
            self.starts(self.group)  # places all other tasks
            for each in PreemptionRound(self.cycle, self.resources).run(PORTION):
                if each.starts[0].group is self.group:
                    queues = {task.group.waiting_list.queue.name: True for task in each.victims}
                    victims = tasks_in_words(len(each.victims))
                    names = list_in_words(list(queues))
                    reason = f"It starts in place of {victims} of {names}, once stopped."
                    if not queues:
                        reason = "It starts once tasks that are being stopped have ended."
                    return WaitReason("preemption", reason)
        return None

    def starts(self, group: TaskGroup) -> bool:
        """Place tasks until a group or `max_others` others start; return whether the group does."""
        self.state.set_time(self.now)
        waiting = group.waiting
        placed = PORTION
        others = 0
        while group.waiting == waiting and placed >= PORTION and others < self.max_others:
            placed = len(self.cycle.start_tasks(PORTION))
            others += placed
        self.is_cut = group.waiting == waiting and placed >= PORTION
        return group.waiting < waiting

    # Changes

    def starts_after(self, change: partial[None]) -> bool:
        """Return whether a task of the group starts after a change; undo the change."""
        if self.has_no_room:
            return False
        with what_if(self.state):
            change()
            return self.starts(self.group)

    def try_changes(self) -> None:
        """Try all kinds of changes, and note for each whether the group would start."""
        self.try_smaller_demands()
        self.try_wider_constraints()
        self.try_shorter_limit()
        self.try_queue_limits()
        self.try_weights()
        self.try_priority()
        self.try_drained()
        self.try_more_servers()

    def note(self, starts: bool, words: str, kind: str, of: str, to: float | None = None) -> None:
        """Note a tried change; see `Change` for the meaning of its fields."""
        self.changes.append(Change(words, kind, of, to, starts))

    @property
    def has_no_room(self) -> bool:
        """Whether no allowed open server has room, so that the order of tasks does not matter."""
        return self.shortage.fitting == 0

    def try_smaller_demands(self) -> None:
        """Try for each resource the largest demand that fits where no other one is lacking."""
        for r, smaller in enumerate(self.shortage.smaller_demand):
            if smaller == 0:
                continue
            demand = [*self.demand[:r], smaller, *self.demand[r + 1 :]]
            name, amount = self.resources[r], float(smaller * self.quanta[r])
            asked = float(self.demand[r] * self.quanta[r])
            words = f"it asked for {amount:.6g} {name} instead of {asked:.6g}"
            starts = self.starts_as(demand, self.shape.constraint.key)
            self.note(starts, words, "resource", name, amount)

    def try_wider_constraints(self) -> None:
        """Try the constraint without its names, and without each of its labels."""
        labels, names = self.shape.constraint.key
        if names is not None:
            starts = self.starts_as(self.demand, (labels, None))
            self.note(starts, "it might run on any server", "where", "names")
        for label in sorted(labels):
            words = f"it did not ask for {label_in_words(label)}"
            starts = self.starts_as(self.demand, (labels - {label}, names))
            self.note(starts, words, "where", label[0])

    def try_shorter_limit(self) -> None:
        """Try the longest time limit with which the group would end before a reserved start."""
        reserved = self.reservation
        if reserved is None or reserved.group == self.group.id or reserved.at == inf:
            return
        limit = seconds_until(reserved.at, self.now)
        if not 0 < limit < self.group.time_limit:
            return
        key = self.shape.constraint.key
        starts = not self.has_no_room and self.starts_as(self.demand, key, limit)
        words = f"its time limit were at most {rounded_down(limit)} s"
        self.note(starts, words, "limit", "time_limit", limit)

    def starts_as(
        self, demand: list[int], where: ConstraintKey, limit: float | None = None
    ) -> bool:
        """Return whether a task starts if waiting tasks have another demand, constraint or limit.

        The waiting tasks are submitted again at their old position. Only tasks of the first one's
        shape get the new demand and constraint.
        """
        group, state = self.group, self.state
        is_gang = isinstance(group, Gang)
        members: list[Member] = []
        parts = {group.shape: int(group.waiting)}
        for shape, tasks in (group.tasks_together() if is_gang else parts).items():
            if shape is self.shape:
                members.append(Member(demand, tasks, where))
            else:
                given = [int(amount) for amount in shape.given]
                members.append(Member(given, tasks, shape.constraint.key))
        limit = group.time_limit if limit is None else limit
        terms = Terms(group.time, group.priority, time_limit=limit)
        with what_if(state):
            state.withdraw(group)
            queue = group.waiting_list.queue
            return self.starts(state.submit(queue, members, is_gang, terms, group.order))

    def try_queue_limits(self) -> None:
        """Try no limit for the group's queue, then for each queue above it."""
        for queue in reversed(path_of(self.group.waiting_list.queue)):
            if queue.limit is not None:
                starts = self.starts_after(partial(self.state.set_limit, queue, None))
                words = f"{queue.name} had no limit"
                self.note(starts, words, "queue limit", queue.name)

    def try_weights(self) -> None:
        """Try twice the weight (1 for 0) of the group's queue, then of each queue above it."""
        for queue in reversed(path_of(self.group.waiting_list.queue)):
            numerator, denominator = queue.weight
            weight = (2 * numerator, denominator) if numerator > 0 else (1, 1)
            starts = self.starts_after(partial(self.state.set_weight, queue, weight))
            to = float(Fraction(weight[0], weight[1]))
            words = f"the weight of {queue.name} were {to:.6g}"
            self.note(starts, words, "weight", queue.name, to)

    def try_priority(self) -> None:
        starts = self.starts_after(partial(self.state.set_priority, self.group, LARGEST))
        words = "it had the highest priority in its queue"
        self.note(starts, words, "priority", self.group.waiting_list.queue.name)

    def try_drained(self) -> None:
        """Try to open the first allowed draining server that has room."""
        need = self.shape.need
        servers = self.shortage.allowed_servers
        with_room = [s for s in servers if s.is_draining and fits(need, s.free)]
        if with_room:
            server = min(with_room)
            with what_if(self.state):
                self.state.open(server)
                starts = self.starts(self.group)
            self.note(starts, f"{server.name} were not drained", "drain", server.name)

    def try_more_servers(self) -> None:
        """Try one more server of each class, the most common classes first."""
        for like in server_classes(self.state)[:MAX_CLASSES]:
            name = self.unused_name(like)
            starts = False
            if not self.has_no_room or self.would_fit(like, name):
                with what_if(self.state):
                    starts = self.add_server(like, name) and self.starts(self.group)
            self.note(starts, f"there were one more server like {like.name}", "server", like.name)

    def unused_name(self, like: Server) -> str:
        """Return a name for a copy of a server."""
        name, number = f"{like.name} again", 2
        while name in self.state.servers:
            name, number = f"{like.name} again {number}", number + 1
        return name

    def would_fit(self, like: Server, name: str) -> bool:
        """Return whether the first task fits on an empty copy of a server under a new name."""
        is_admitted = is_allowed(self.shape.constraint.key, like, name)
        return is_admitted and fits(self.shape.need, like.capacity)

    def add_server(self, like: Server, name: str) -> bool:
        """Add a copy of a server; return False, without it, if a sum of amounts would overflow."""
        state = self.state
        try:
            state.replace_in_sums(self.resources, [0] * len(like.given), like.given)
        except InputError:
            return False
        state.add_server(name, state.joined, like.given, like.labels, like.group)
        return True


def is_allowed(key: ConstraintKey, server: Server, name: str) -> bool:
    """Return whether a constraint admits a server, or a copy of it under another name."""
    labels, names = key
    is_named = names is None or name in names or server.group in names
    return is_named and labels <= server.labels


def label_in_words(label: tuple[str, str]) -> str:
    """Return a label as text: ``gpu=T4``, or the key if the value is ``yes``."""
    key, value = label
    return key if value == "yes" else f"{key}={value}"


def server_classes(state: State) -> list[Server]:
    """Return the first server of each capacity and labels, the most common class first."""
    counts: dict[tuple[tuple[int, ...], Labels], int] = {}
    firsts: dict[tuple[tuple[int, ...], Labels], Server] = {}
    for server in state.servers.values():
        key = (tuple(server.given), server.labels)
        counts[key] = counts.get(key, 0) + 1
        first = firsts.get(key)
        if first is None or server < first:
            firsts[key] = server
    rows = [(-counts[key], server) for key, server in firsts.items()]
    return [server for _, server in sorted(rows)]


def rounded_down(seconds: float) -> str:
    """Return seconds as text, rounded down to milliseconds unless they are tiny or huge."""
    thousandths = Fraction(seconds) * 1000 // 1
    return f"{thousandths / 1000:.15g}" if 0 < thousandths < 10**15 else repr(seconds)
