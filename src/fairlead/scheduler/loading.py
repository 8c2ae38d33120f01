"""A scheduler whose servers, users and shapes are known beforehand, for fills and replays.

It is the open scheduler, loaded at once: rows have the numbers of the problem, and what waits and
runs is told to its kernels by rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairlead.model.cluster import BoolArray, IntArray
from fairlead.model.exact import exact
from fairlead.model.problem import Problem
from fairlead.model.quanta import Quanta
from fairlead.optimize.double_double import to_pairs
from fairlead.scheduler import cycle, fifo, shape_units
from fairlead.scheduler.backlog import Backlog
from fairlead.scheduler.best_fitting import ratio_of
from fairlead.scheduler.choosing import Index, Kept
from fairlead.scheduler.offering import REFUSE_SECONDS, Filters, with_pairs
from fairlead.scheduler.policies import FIFO, SUMMED, parse_policy
from fairlead.scheduler.records import NONE, Core, Switch, with_room
from fairlead.scheduler.rows import Rows


class LoadedScheduler(Rows):
    """A scheduler of a problem's servers; nothing waits yet.

    Server s is server s of the problem, counted through all groups; line n is row n of the problem:
    the tasks of its shape in its owner's queue.

    Parameters
    ----------
    policy : str
    problem : Problem
        Servers, and a row for each shape of each user; rows of one user have one weight.
    quanta : Quanta
        Its amounts.
    owner : (N,) int, optional
        Whose each row is, numbered from 0; each row's own when absent.
    there : (S,) bool, optional
        Which servers are there; all when absent.
    strict_fifo : bool
    portion : int
        How many tasks are placed at once.
    keeps_tasks : bool
        Whether tasks that run have rows, by which they can be stopped.
    shared : int, optional
        How many resources, the first ones, are shared fairly; all when absent.
    seed : int or SeedSequence
    refuse_seconds : float

    Notes
    -----
    O(S R + N (G + R)).
    """

    def __init__(
        self,
        policy: str,
        problem: Problem,
        quanta: Quanta,
        owner: IntArray | None = None,
        there: BoolArray | None = None,
        *,
        portion: int,
        strict_fifo: bool = False,
        keeps_tasks: bool = True,
        shared: int | None = None,
        seed: int | np.random.SeedSequence = 0,
        refuse_seconds: float = REFUSE_SECONDS,
    ) -> None:
        super().__init__(
            len(problem.cluster.resources),
            parse_policy(policy),
            strict=strict_fifo,
            seed=seed,
            refuse_seconds=refuse_seconds,
            portion=portion,
        )
        self._shared = shared
        self._core.numbers[0].keeps_tasks = keeps_tasks
        servers = int(problem.count.sum())
        self._load_servers(problem, quanta, np.ones(servers, bool) if there is None else there)
        self._load_lines(problem, quanta, np.arange(problem.n_users) if owner is None else owner)
        for c in np.flatnonzero(self._core.kinds["count"]).tolist():
            count = int(self._core.kinds[c].count)
            if self._policy.key == SUMMED:
                shape_units.note_kind(self._core, c, count)
            elif self._policy.key == FIFO:
                fifo.count_open(self._core, c, count)
        self._take_pool()
        self._ensure_index()
        self._ensure_at_hand()
        if self._filters is not None:
            queues = int(self._core.numbers[0].queues)
            self._filters = with_pairs(self._filters, queues, servers)

    def place_portion(self) -> IntArray:
        """Place as many tasks as a portion has, or as fit; return their numbers."""
        return self._out[: self._place(len(self._out))]

    @property
    def core(self) -> Core:
        """The rows, until something more needs room."""
        return self._core

    @property
    def tables(self) -> tuple[Core, Index, Kept, Filters | None, Switch, Backlog | None]:
        """What kernels are called with, until something more needs room."""
        beside = (self._index, self._at_hand, self._filters, self._gangs, self._backlog)
        return self._core, *beside

    @property
    def kernel(self) -> Any:
        """The kernel that places."""
        return self._kernel

    @property
    def gangs(self) -> Switch:
        """Whether there may be gangs."""
        return self._gangs

    def expect_gangs(self) -> None:
        """Have gangs be placed, too."""
        self._expect_gangs()

    def answers(self) -> bool:
        """Answer what the kernel that places asks for, if it does; return whether it did."""
        asked = bool(self._core.numbers[0].asked != NONE)
        if asked:
            self._answer()
        return asked

    def make_room(self, groups: int, tasks: int) -> None:
        """Have room for a number of more groups, and of more tasks that run, at least."""
        numbers = self._core.numbers[0]
        self._core = with_room(self._core, "groups", int(numbers.groups) + groups)
        if self._gangs is not None:
            self._core = with_room(self._core, "lines", int(numbers.lines) + 1)
        self._room_for_tasks(tasks)
        if self._policy.backfills:
            self._arrange()

    def submit(self, line: int, tasks: int, serial: int) -> None:
        """Have tasks of a line wait, behind those with a lower number; there is room for them."""
        self._call(cycle.submit, self._core, self._trees, line, tasks, 0, 0.0, serial)

    def join(self, s: int) -> None:
        """Have a server be there that was gone, or place tasks on one again that is drained."""
        server = self._core.servers[s]
        if not server.there:
            server.there = True
            self._core.capacity[s] = self._core.free[s] = self._core.kind_capacity[server.kind]
            self._put_in_order(s)
            self._count_server(s, 1)
        server.draining = False
        self._change_server(s, True)

    def close(self, s: int) -> None:
        """Place no more tasks on a server; those that run there go on."""
        self._core.servers[s].draining = True
        self._close(s)

    def leave(self, s: int) -> list[int]:
        """Take a server away; return the tasks that ran there, and the rest of their gangs.

        In order of starts. They wait again, unless they were withdrawn.
        """
        core = self._core
        lost = self._tasks_on(s)
        self._close(s)
        lost = self._with_gangs(lost)
        for t in lost:
            again = not core.groups[core.tasks[t].group].over
            self._stop(t, again=again)
        self._count_server(s, -1)
        core.servers[s].there, core.servers[s].fresh_in = False, 0
        core.capacity[s] = core.free[s] = 0
        self._take_out_of_order(s)
        return lost

    def _take_pool(self, changed: Sequence[int] | None = None) -> None:
        super()._take_pool(changed)
        if self._shared is not None:
            self._core.share[self._shared :] = 0.0

    def _load_servers(self, problem: Problem, quanta: Quanta, there: BoolArray) -> None:
        group = np.repeat(np.arange(problem.n_groups), problem.count)
        n = len(group)
        core = with_room(with_room(self._core, "servers", n), "kinds", problem.n_groups)
        eligible = problem.users.eligible
        if eligible.all():  # mostly, and sorting rows takes a while
            eligible = eligible[:1]
        places, where = np.unique(eligible, axis=0, return_inverse=True)
        classes, klass = np.unique(places, axis=1, return_inverse=True)
        self._where = np.broadcast_to(where.reshape(-1), problem.n_users)
        self._core = core = core._replace(may=np.ascontiguousarray(classes))
        core.kinds["klass"][: problem.n_groups] = klass.reshape(-1)
        core.kinds["count"][: problem.n_groups] = np.bincount(
            group[there], minlength=problem.n_groups
        )
        core.kind_capacity[: problem.n_groups] = quanta.capacity
        servers = core.servers[:n]
        servers["kind"], servers["tasks"] = group, NONE
        servers["klass"] = np.repeat(klass.reshape(-1), problem.count)
        servers["there"], servers["open"] = there, there
        core.capacity[:n] = core.free[:n] = np.repeat(quanta.capacity, problem.count, axis=0)
        core.server_node["rank"][:n] = core.server_node["serial"][:n] = np.arange(n)
        sequence = np.flatnonzero(there)
        core.sequence[: len(sequence)] = sequence
        servers["position"] = np.where(there, np.cumsum(there) - 1, 0)
        core.numbers[0].servers = len(sequence)
        self._total = quanta.total(core.kinds["count"][: problem.n_groups])

    def _load_lines(self, problem: Problem, quanta: Quanta, owner: IntArray) -> None:
        rows = np.column_stack([self._where, quanta.demand])
        distinct, shape = np.unique(rows, axis=0, return_inverse=True)
        _, first = np.unique(owner, return_index=True)
        n_shapes, n_queues, n_lines = len(distinct), len(first), len(owner)
        core = with_room(with_room(self._core, "shapes", n_shapes), "queues", n_queues)
        self._core = core = with_room(core, "lines", n_lines)
        core.demand[:n_shapes] = demand = distinct[:, 1:]
        shapes = core.shapes[:n_shapes]
        shapes["where"], shapes["parked"], shapes["watchers"] = distinct[:, 0], NONE, NONE
        shapes["lead"] = (demand > 0).argmax(axis=1)
        if self._indexed:
            leads = zip(demand.tolist(), shapes["lead"].tolist(), strict=True)
            core.ratio[:n_shapes] = [[ratio_of(a, row[lead]) for a in row] for row, lead in leads]
        queues = core.queues[:n_queues]
        queues["parent"] = queues["above"] = queues["place"] = queues["first"] = NONE
        queues["serial"] = np.arange(n_queues) * (-1 if self._selection.last_of_equals else 1)
        weights, which = np.unique(problem.weight[first], return_inverse=True)
        high, low = to_pairs([exact(w) for w in weights.tolist()])
        queues["weight"], queues["weight_low"] = high[which], low[which]
        lines = core.lines[:n_lines]
        lines["queue"], lines["task_shape"], lines["first"] = owner, shape.reshape(-1), NONE
        numbers = core.numbers[0]
        numbers.shapes, numbers.queues, numbers.lines = n_shapes, n_queues, n_lines
