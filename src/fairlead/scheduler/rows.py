"""A scheduler as rows: what is told by numbers of rows, unchecked, and how a policy is called.

`scheduler.Scheduler` gives rows names and checks what it is told; `loading.LoadedScheduler` has a
whole problem's rows from the start.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np

from fairlead.optimize.compiling import DirectCalls
from fairlead.scheduler import cycle, fifo, shape_units
from fairlead.scheduler.arguments import LARGEST
from fairlead.scheduler.at_hand import count_free, has_room, nothing_at_hand
from fairlead.scheduler.backlog import arrange, backlog_for, note_end, note_group, note_start
from fairlead.scheduler.fit_index import empty_index
from fairlead.scheduler.offering import next_offer, no_filters
from fairlead.scheduler.parked_lines import MANY_PARKED
from fairlead.scheduler.policies import CRITERIA, FIFO, SELECTIONS, SUMMED, Policy
from fairlead.scheduler.records import GROUP, NONE, NUMBERS, TASK, Switch, empty_core, with_room
from fairlead.scheduler.round_robin import begin_round, rest
from fairlead.scheduler.slot_amounts import Slot, recount
from fairlead.scheduler.undo import NotedTable

# Rows as Python reads them: five times faster than field by field.
_Numbers: Any = namedtuple("_Numbers", NUMBERS.names or ())  # type: ignore[misc]
GroupRow: Any = namedtuple("GroupRow", GROUP.names or ())  # type: ignore[misc]
TaskRow: Any = namedtuple("TaskRow", TASK.names or ())  # type: ignore[misc]


class Rows:
    """What a policy needs to place tasks, without names.

    Parameters
    ----------
    resources : int
        How many.
    policy : Policy
    strict : bool
        Whether nothing passes over the first group of its queue.
    seed : int or SeedSequence
    refuse_seconds : float
    portion : int
        How many tasks are placed by one call of a kernel.
    """

    def __init__(
        self,
        resources: int,
        policy: Policy,
        *,
        strict: bool,
        seed: int | np.random.SeedSequence,
        refuse_seconds: float,
        portion: int,
    ) -> None:
        self._policy = policy
        self._selection = SELECTIONS[policy.select]
        self._indexed = policy.indexed
        self._backfills, self._is_random = policy.backfills, policy.is_random
        self._scores_at_hand = policy.is_at_hand
        self._kernel = policy.kernel
        self._call = DirectCalls()
        self._random = np.random.default_rng(seed)
        self._slot = Slot(policy.slots) if policy.slots else None
        self._is_cut = False  # whether slots are those of a server that is given
        self._core = empty_core(resources + bool(self._slot))
        numbers = self._core.numbers[0]
        numbers.criterion, numbers.by_place = policy.key, CRITERIA[policy.criterion].by_place
        numbers.strict = strict and policy.key != FIFO
        self._index: Any = None
        self._at_hand: Any = None
        self._filters = no_filters(refuse_seconds) if policy.oblivious else None
        self._gangs: Switch = None
        self._empty: Any = None  # for gangs under fifo: the rows of empty servers, and their index
        self._trees: Switch = None
        self._backlog: Any = None  # for easy
        self._below = 0  # where the next heap of a queue's children begins
        self._out = np.empty(portion, dtype=np.int64)
        self._lacking = 0  # how many tasks of a gang there was no room for
        self._total = [0] * resources
        self._mapped: list[Any] = []  # where long arrays are, once somebody asked what if
        self._question: Any = None  # that which is open
        self._foreseen: dict[int, Any] = (
            NotedTable()
        )  # queues' totals once a server of a kind joins

    def _number(self, name: str) -> Any:
        """Return one of the core's numbers; ten of them take as long as all."""
        return self._core.numbers[name].item()

    def _numbers(self) -> Any:
        return _Numbers._make(self._core.numbers.item(0))

    def _group(self, g: int) -> Any:
        return GroupRow._make(self._core.groups.item(g))

    def _task(self, t: int) -> Any:
        return TaskRow._make(self._core.tasks.item(t))

    def _members(self, g: int) -> Iterator[int]:
        """Yield the groups of a gang, or a group."""
        while g != NONE:
            yield g
            g = int(self._group(g).member)

    def _group_of(self, t: int) -> int:
        """Return the group of a task, or its gang."""
        g = int(self._task(t).group)
        gang = int(self._group(g).gang)
        return g if gang == NONE else gang

    def _tasks_of(self, g: int) -> list[int]:
        found = []
        for member in self._members(g):
            t = int(self._core.groups[member].tasks)
            while t != NONE:
                found.append(t)
                t = int(self._core.tasks[t].newer)
        return sorted(found, key=lambda t: int(self._core.tasks[t].started))

    def _tasks_on(self, s: int) -> list[int]:
        """Return what runs on a server, in order of starts."""
        found, t = [], int(self._core.servers[s].tasks)
        while t != NONE:
            found.append(t)
            t = int(self._core.tasks[t].after)
        return sorted(found, key=lambda t: int(self._core.tasks[t].started))

    def _with_gangs(self, tasks: list[int]) -> list[int]:
        """Return tasks that will be lost and the rest of their gangs, in order of starts."""
        stopped = set(tasks)
        for t in tasks:
            if self._group(self._task(t).group).gang != NONE:
                stopped.update(self._tasks_of(self._group_of(t)))
                self._hear()
        return sorted(stopped, key=lambda t: int(self._task(t).started))

    def _place(self, limit: int) -> int:
        """Place tasks up to a limit; return how many, and note for what of a gang rows lack."""
        n = self._lacking = 0
        # Where nothing ever waited, what the kernel goes by may not be there yet.
        is_over = not self._number("shapes") or (self._scores_at_hand and self._at_hand is None)
        while n < limit and not is_over:
            if self._backfills:
                self._arrange()
            beside = self._beside()
            n += int(self._call(self._kernel, self._core, *beside, limit - n, self._out[n:]))
            numbers = self._numbers()
            if numbers.lacking:
                self._lacking = numbers.lacking
                break
            if numbers.asked != NONE:
                self._answer()
                continue
            if self._backlog is not None and self._backlog.state[0].stale:
                continue
            is_over = n < limit and not (self._is_random and begin_round(self._core, self._random))
        if is_over and self._is_random and self._filters is None:
            rest(self._core, self._gangs)
        return n

    def _beside(self) -> tuple[Any, ...]:
        """Return what the policy keeps beside the core."""
        if self._kernel is cycle.place:
            if self._number("parked") > MANY_PARKED and not self._number("strict"):
                self._trees = 1
            return self._index, self._gangs, self._trees
        if self._is_random:
            beside = (self._at_hand, self._filters, self._gangs)
            return tuple(part for part in beside[:2] if part is not None) + beside[2:]
        if self._scores_at_hand or self._kernel is self._policy.scan:
            return self._index, self._at_hand
        if self._backfills:
            return self._index, self._gangs, self._backlog
        if self._policy.key == FIFO:
            return self._index, self._gangs
        return (self._index,)

    def _arrange(self) -> None:
        """Have easy's backlog have room, and those that wait be in order."""
        core = self._core
        self._backlog = backlog = backlog_for(core, self._backlog)
        state, openings = backlog.state[0], core.numbers[0].openings
        if not state.stale and (not state.has_priorities or state.arranged == openings):
            return
        groups = core.groups[: core.numbers[0].groups]
        gangs = np.flatnonzero(groups["gang"] == np.arange(len(groups)))
        for gang in gangs[groups["known"][gangs] != openings].tolist():
            core.numbers[0].asked = gang
            self._answer()
        arrange(core, backlog)

    def _note_group(self, g: int) -> None:
        """Have easy know that a group waits, or a gang if that is its first group."""
        if self._backlog is not None:
            self._backlog = backlog_for(self._core, self._backlog)
            note_group(self._core, self._backlog, g)

    def _note_start(self, t: int) -> None:
        """Have easy know that a task was found running."""
        if self._backlog is not None:
            self._note_group(self._group_of(t))
            note_start(self._core, self._backlog, t)

    def _stop(self, t: int, *, again: bool) -> None:
        """Take a running task off its server; it waits again, or is gone."""
        g = NONE
        if self._backlog is not None:
            g = self._group_of(t)
            note_end(self._core, self._backlog, t)
        beside = (self._index, self._at_hand, self._gangs, self._trees)
        self._call(cycle.stop, self._core, *beside, t, again)
        if again:
            self._note_group(g)

    def _expect_gangs(self) -> None:
        """Have gangs be placed, too."""
        self._core.numbers[0].has_gangs, self._gangs = True, 1
        self._kernel = self._policy.scan or self._kernel

    def _answer(self) -> None:
        """Find whether the gang that fifo asks for could start on empty servers. O(S + K)."""
        core, numbers = self._core, self._core.numbers[0]
        if self._empty is None or self._empty[0] != (int(numbers.openings), int(numbers.shapes)):
            rows = ("numbers", "servers", "server_node", "shapes")
            empty = {name: getattr(core, name).copy() for name in rows}
            empty["free"] = core.capacity.copy()
            shapes = empty["shapes"]
            shapes["pointer"] = shapes["looked"] = shapes["woken_in"] = 0
            shapes["blocked"] = False
            index = self._index
            if index is not None:
                index = self._new_index()
                cycle.enter_all(core._replace(**empty), index)
            self._empty = (int(numbers.openings), int(numbers.shapes)), empty, index
        _, empty, index = self._empty
        gang = int(numbers.asked)
        able, emptied = False, core._replace(**empty)
        if fifo.may_have_room(emptied, gang):  # however many tasks it has
            tasks = sum(self._group(g).waiting for g in self._members(gang))
            able = fifo.could_start(emptied, index, gang, np.zeros(tasks, dtype=np.int64))
        core.groups[gang].able, core.groups[gang].known = able, numbers.openings
        numbers.asked = NONE

    def next_offer(self) -> float:
        """Return when to place again, as what was declined is offered again; infinite for never."""
        return inf if self._filters is None else next_offer(self._filters)

    def _hear(self) -> None:
        """Have gangs know what was freed, before it is taken otherwise or more of them waits."""
        if self._core.numbers[0].watched and self._policy.key != FIFO:
            cycle.hear(self._core)

    def _close(self, s: int) -> None:
        self._hear()
        self._change_server(s, False)

    def _open_again(self, s: int, *, is_news: bool) -> None:
        """Open a server that was closed for a moment, in which it may have got more to offer."""
        freed_at = self._core.servers[s].freed_at
        self._change_server(s, True)
        if not is_news:  # no gang is tried again
            self._core.servers[s].freed_at = freed_at

    def _change_server(self, s: int, opened: bool) -> None:
        """Have a server open, or close it; before that its capacity and labels stay as they are."""
        was_open = bool(self._core.servers[s].open)
        cycle.change_server(self._core, self._index, self._at_hand, s, opened)
        if self._policy.key == FIFO and was_open != opened:
            fifo.count_open(self._core, int(self._core.servers[s].kind), opened - was_open)

    def _put_in_order(self, s: int) -> None:
        core, numbers = self._core, self._core.numbers[0]
        n = int(numbers.servers)
        rank = core.server_node[s].rank
        numbers.servers = n + 1
        if n == 0 or core.server_node[core.sequence[n - 1]].rank <= rank:  # it joined last
            core.sequence[n], core.servers[s].position = s, n
            return
        p = int(np.searchsorted(core.server_node["rank"][core.sequence[:n]], rank, side="right"))
        core.sequence[p + 1 : n + 1] = core.sequence[p:n].copy()
        core.sequence[p] = s
        core.servers["position"][core.sequence[p : n + 1]] = np.arange(p, n + 1)
        core.shapes["pointer"] += core.shapes["pointer"] > p
        freed = core.freed[: numbers.freed]
        freed[freed >= p] += 1

    def _take_out_of_order(self, s: int) -> None:
        core, numbers = self._core, self._core.numbers[0]
        n, p = int(numbers.servers), int(core.servers[s].position)
        core.sequence[p : n - 1] = core.sequence[p + 1 : n].copy()
        core.servers["position"][core.sequence[p : n - 1]] = np.arange(p, n - 1)
        core.shapes["pointer"] -= core.shapes["pointer"] > p
        freed = core.freed[: numbers.freed]
        freed[freed > p] -= 1
        # What was freed at p speaks for what is behind it too.
        keep = np.append(freed[:-1] != freed[1:], True)[: numbers.freed]
        for name in ("freed", "freed_at"):
            kept = getattr(core, name)[: numbers.freed][keep]
            getattr(core, name)[: len(kept)] = kept
        numbers.freed = int(keep.sum())
        fresh = core.fresh[: numbers.fresh]
        kept = fresh[fresh != s]
        core.fresh[: len(kept)] = kept
        numbers.fresh = len(kept)
        numbers.servers = n - 1

    def _count_server(self, s: int, sign: int) -> None:
        """Take in that a server is there, or no more, of its kind and with its capacity of now."""
        core = self._core
        c = int(core.servers[s].kind)
        core.kinds[c].count += sign
        for r in range(len(self._total)):
            self._total[r] += sign * int(core.capacity[s, r])
        if self._slot:
            self._count_slots(self._slot, s)
        if core.numbers[0].criterion == SUMMED:
            shape_units.note_kind(core, c, sign)
            foreseen, self._foreseen = self._foreseen.get(c), NotedTable()
            if foreseen is None:
                shape_units.sum_all(core, self._question is not None)
            else:
                core.queues["total"], core.queues["total_low"] = foreseen
        if self._at_hand is not None:
            count_free(core, self._at_hand.shares, self._at_hand.rooms, s, sign)
        self._take_pool(np.flatnonzero(core.capacity[s, : len(self._total)]).tolist())
        cycle.rank_all(core)
        self._ensure_at_hand()

    def _count_slots(self, slot: Slot, s: int) -> None:
        """Take in that a server is there, or no more, which may have been the largest."""
        core, n_kinds = self._core, len(self._core.kinds)
        there = np.flatnonzero(core.kinds["count"])
        if not self._is_cut and slot.cut(core.kind_capacity[there, :-1].tolist()):
            recount(core, n_kinds, slot)
        else:
            more = core.kind_capacity[core.servers[s].kind, -1] - core.capacity[s, -1]
            core.capacity[s, -1] += more
            core.free[s, -1] += more
        total = int(core.kinds["count"][there] @ core.kind_capacity[there, -1])
        core.share["high"][-1], core.share["low"][-1] = pair_of(
            Fraction(1, total) if total else Fraction(0)
        )

    def _take_pool(self, changed: Sequence[int] | None = None) -> None:
        """Compute shares of the pool where totals changed; everywhere when `changed` is absent."""
        if self._slot:  # only slots are shared fairly, whatever else a task takes
            return
        core, total, n = self._core, self._total, len(self._total)
        if changed is None or 2 * len(changed) > n:
            changed = range(n)
        for r in changed:
            core.share["high"][r], core.share["low"][r] = _ratio_pair(1, total[r])
        if self._indexed and changed:
            pairs = np.array([[_ratio_pair(total[r], amount) for amount in total] for r in changed])
            for name, half in (("high", 0), ("low", 1)):
                core.scale[name][changed, :n] = pairs[..., half]
        if self._indexed and 0 < len(changed) < n:
            pairs = np.array([[_ratio_pair(over, total[r]) for r in changed] for over in total])
            for name, half in (("high", 0), ("low", 1)):
                core.scale[name][:n, changed] = pairs[..., half]

    def _hang(self, q: int, parent: int) -> None:
        """Have a new queue be below another one, or the root (NONE).

        Order of submission is the same in any tree: then only the root has a heap.
        """
        queue = self._core.queues[q]
        queue.parent = parent
        queue.above = NONE if self._policy.key == FIFO else parent
        if parent != NONE:
            node = self._core.queues[parent]
            node.children += 1
            self._core.numbers[0].has_depth = True
            if node.children > node.room:
                self._give_room(parent)

    def _give_room(self, parent: int) -> None:
        """Have the heap of a queue hold twice as many, behind all others."""
        node, below = self._core.queues[parent], self._core.below
        room, begin = max(2 * int(node.room), int(node.children), 4), self._below
        self._below += room
        if self._below > len(below):
            below = np.append(below, np.zeros(self._below, dtype=np.int64))
            self._core = self._core._replace(below=below)
        moved = below[node.segment : node.segment + node.standing].copy()
        below[begin : begin + node.standing] = moved
        node.segment, node.room = begin, room

    def _new_line(self) -> int:
        row = int(self._core.numbers[0].lines)
        self._core = with_room(self._core, "lines", row + 1)
        self._core.numbers[0].lines = row + 1
        return row

    def _room_for_group(self) -> None:
        if self._number("spare_group") == NONE:
            self._core = with_room(self._core, "groups", self._number("groups") + 1)

    def _room_for_tasks(self, more: int) -> None:
        rows = self._number("tasks") + more - self._number("spare_tasks")
        self._core = with_room(self._core, "tasks", rows)

    def _ensure_index(self) -> None:
        """Build the index of best-fit anew where it has no room, or leaves out what fits now."""
        core, n_shapes = self._core, int(self._core.numbers[0].shapes)
        is_joint, every_server = self._policy.select == "joint", self._indexed == "all"
        if not self._indexed or (len(self._total) == 1 and not (is_joint or every_server)):
            return
        demand, index = core.demand[:n_shapes], self._index
        if (
            index is not None
            and len(index.lot) >= len(core.servers)
            and (demand[n_shapes - 1 :] >= index.least).all()
        ):
            return
        self._index = self._new_index()
        cycle.enter_all(core, self._index)

    def _new_index(self) -> Any:
        """Return an index for the servers and shapes that there are, without servers."""
        core, n_shapes = self._core, int(self._core.numbers[0].shapes)
        demand = core.demand[:n_shapes]
        pair, least = (0, len(self._total) - 1), np.zeros(len(self._total), dtype=np.int64)
        if n_shapes:
            leads = np.bincount(core.shapes["lead"][:n_shapes], minlength=len(self._total))
            a = int(leads.argmax())
            beside = (demand[core.shapes["lead"][:n_shapes] == a] > 0).sum(axis=0)
            beside[a] = -1
            pair = (a, int(beside.argmax()))
            least = demand.min(axis=0) // 2
        if self._indexed == "all":
            least[:] = -LARGEST
        scale = float(core.scale["high"][pair]) or 1.0
        fine = 4 if self._policy.select == "joint" else 1
        return empty_index(len(core.servers), pair, scale, least, fine)

    def _ensure_at_hand(self) -> None:
        """Begin anew what is kept to find scores with a task at hand, where it has no room."""
        if self._scores_at_hand and not has_room(self._at_hand, self._core, self._index):
            policy = self._policy
            self._at_hand = nothing_at_hand(
                self._core, policy.criterion, policy.select, self._index
            )
            cycle.rank_all(self._core)


@lru_cache(maxsize=2**15)
def _ratio_pair(over: int, amount: int) -> tuple[float, float]:
    """Return a ratio of totals as a float, and the rest; 0 where there is nothing to divide by.

    Of many resources few totals change when a server joins, so most ratios are asked for again.
    """
    if not amount:
        return 0.0, 0.0
    high = over / amount  # of whole numbers, and so rounded once
    numerator, denominator = high.as_integer_ratio()
    return high, (over * denominator - numerator * amount) / (amount * denominator)


def pair_of(value: Fraction) -> tuple[float, float]:
    """Return a number as a float, and what that leaves."""
    high = float(value)
    return high, float(value - Fraction(high))
