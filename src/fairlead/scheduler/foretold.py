"""Submissions, calls of place and ends that were decided before, carried out by one call.

A call of a kernel and what is around it take longer than most kernels do. Who tells a scheduler
what it has done before, from a journal, knows the next thousand events, and saves that.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import islice
from math import inf
from typing import Any

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.optimize.compiling import entry_kernel, inner_kernel
from fairlead.scheduler import cycle
from fairlead.scheduler.arguments import predicate
from fairlead.scheduler.choosing import Index
from fairlead.scheduler.parked_lines import MANY_PARKED
from fairlead.scheduler.records import NONE, Core, Switch
from fairlead.scheduler.scheduler import PORTION, ROW_BITS, Placement, Scheduler, quanta_for

SUBMIT, PLACE, FINISH = range(3)
WIDTH = 5  # kind; line, tasks, rank and serial of a group, or a limit, or a task
TIMES = 2  # of submission and at most to run, or of placing
PLACED = 4 * PORTION  # tasks, before Python takes what there is


@entry_kernel
def carry_out(
    core: Core,
    index: Index,
    gangs: Switch,
    trees: Switch,
    steps: IntArray,
    times: FloatArray,
    out: IntArray,
    placed: IntArray,
    at: IntArray,
) -> None:
    """Carry out steps from `at[0]` on, as far as rows suffice; `at[1]` tasks are `placed` so far.

    The second column of `steps` receives groups, and how many tasks were placed.
    """
    numbers = core.numbers[0]
    while at[0] < len(steps):
        i = at[0]
        kind, n = steps[i, 0], steps[i, 1]
        if kind == SUBMIT:
            if numbers.spare_group == NONE and numbers.groups >= core.groups.size:
                break
            g = cycle.submit(core, trees, n, steps[i, 2], steps[i, 3], times[i, 0], steps[i, 4])
            core.groups[g].limit = times[i, 1]
            steps[i, 1] = core.groups[g].generation << ROW_BITS | g
        elif kind == PLACE:
            left = n - steps[i, 2]
            rows = numbers.tasks + max(left, numbers.lacking) - numbers.spare_tasks
            if rows > core.tasks.size or at[1] + len(out) > len(placed):
                break
            if trees is None and numbers.parked > MANY_PARKED and not numbers.strict:
                break
            numbers.now = times[i, 0]
            n = cycle.place(core, index, gangs, trees, left, out)
            _note_placed(core, out, n, placed, at[1])
            at[1] += n
            steps[i, 2] += n
            if numbers.lacking > 0 and n < left:
                break
            steps[i, 1] = steps[i, 2]
        else:
            cycle.stop(core, index, None, gangs, trees, n & ((1 << ROW_BITS) - 1), False)
        at[0] = i + 1


@inner_kernel
def _note_placed(core: Core, out: IntArray, n: int, placed: IntArray, begin: int) -> None:
    """Note task, group or gang, server and index of tasks that started."""
    for k in range(n):
        t = out[k]
        task = core.tasks[t]
        g = task.group
        if core.groups[g].gang != NONE:
            g = core.groups[g].gang
        row = placed[begin + k]
        row[0] = task.generation << ROW_BITS | t
        row[1] = core.groups[g].generation << ROW_BITS | g
        row[2], row[3] = task.server, task.index


class Foretold:
    """What a scheduler is told next, carried out in one go; then it answers as a scheduler does.

    Parameters
    ----------
    scheduler : Scheduler
        Nobody else may tell it anything from the first step until all are carried out.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler: Any = scheduler
        self._lines: dict[Any, int] = {}
        self._begin()

    def _begin(self) -> None:
        self._steps, self._times = array("q"), array("d")
        self.starts = False  # whether tasks may start in it
        self._answers: Iterator[list[int]] = iter(())
        self._placed: Iterator[list[int]] = iter(())

    @staticmethod
    def takes(scheduler: Scheduler) -> bool:
        """Return whether it can be: the plain cycle places, and no attempts are counted."""
        within: Any = scheduler
        return bool(within._kernel is cycle.place and not within._attempts)

    # What comes

    def line(self, queue: str, demand: dict[str, float], where: object) -> int | None:
        """Return where such tasks wait, if such were submitted before; queues stay."""
        key = (queue, *demand, *demand.values())
        if where is None and key in self._lines:
            return self._lines[key]
        s = self._scheduler
        p = s._predicates.get(predicate(where))
        k = s._shapes.get((tuple(s._count(demand, "demand", quanta_for)), p))
        line: int | None = s._lines.get((s._queues.get(queue), k))
        if where is None and line is not None:
            self._lines[key] = line
        return line

    def will_submit(
        self, line: int, tasks: int, priority: int, limit: float | None, now: float
    ) -> None:
        """Have a group of tasks wait."""
        s = self._scheduler
        self._steps.extend((SUBMIT, line, tasks, -priority, s._serial))
        self._times.extend((now, inf if limit is None else limit))
        s._serial += 1
        s._waiting += tasks

    def will_place(self, now: float, limit: int) -> None:
        """Place tasks, from 1 to `PORTION`."""
        self._steps.extend((PLACE, limit, 0, 0, 0))
        self._times.extend((now, 0.0))
        self.starts = True

    def will_finish(self, task: int) -> None:
        """End a task that runs, and did before the first step."""
        self._steps.extend((FINISH, task, 0, 0, 0))
        self._times.extend((0.0, 0.0))
        self._scheduler._running -= 1

    def carry_out(self) -> None:
        """Carry out what was said, to be asked for in the same order."""
        s, at = self._scheduler, np.zeros(2, dtype=np.int64)
        steps = np.array(self._steps, dtype=np.int64).reshape(-1, WIDTH)
        times = np.array(self._times).reshape(-1, TIMES)
        kinds, placed = steps[:, 0].tolist(), np.empty((PLACED, 4), dtype=np.int64)
        found: list[list[int]] = []
        while at[0] < len(steps):
            if kinds[at[0]] == SUBMIT:
                s._room_for_group()
            elif kinds[at[0]] == PLACE:
                found += placed[: at[1]].tolist()
                at[1], lacking = 0, s._number("lacking")
                s._room_for_tasks(max(int(steps[at[0], 1]), lacking))
                if lacking > len(s._out):
                    s._out = np.zeros(lacking, dtype=np.int64)
                if len(s._out) > len(placed):
                    placed = np.empty((len(s._out), 4), dtype=np.int64)
            s._call(carry_out, s._core, *s._beside(), steps, times, s._out, placed, at)
        found += placed[: at[1]].tolist()
        s._waiting -= len(found)
        s._running += len(found)
        self._begin()
        self._answers, self._placed = iter(steps[:, :2].tolist()), iter(found)

    # As a scheduler answers

    def submit(self, *_: Any, **__: Any) -> int:
        """Return the next group."""
        return self._next(SUBMIT)

    def place(self, _now: float, _limit: int) -> list[Placement]:
        """Return what was placed next."""
        names = self._scheduler._server_names
        return [
            Placement(task, group, "", names[s], 0, index)
            for task, group, s, index in islice(self._placed, self._next(PLACE))
        ]

    def finish(self, _task: int) -> None:
        """Have ended a task."""
        self._next(FINISH)

    def _next(self, kind: int) -> int:
        told, answer = next(self._answers, (NONE, NONE))
        if told != kind:
            raise InputError("is not what was foretold", "step")
        return answer
