"""What servers lack after a filling: counted in fractions from its order, and a known answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from fairlead.model.problem import Problem
from fairlead.model.quantity import exact
from fairlead.simulation.filling import RoomLeft, fill
from filling_problems import filling_problems


@settings(deadline=None, max_examples=30)
@given(problem=filling_problems())
def test_lacks_are_those_of_fractions(problem: Problem) -> None:
    filling = fill(problem)
    room = RoomLeft(filling)
    group = np.repeat(np.arange(problem.n_groups), problem.count)
    free = [[exact(a) for a in problem.cluster.capacity[g].tolist()] for g in group]
    demand = [[exact(a) for a in row] for row in problem.demand.tolist()]
    for user, server in filling.order.tolist():
        free[server] = [a - b for a, b in zip(free[server], demand[user], strict=True)]
    left = np.floor(problem.task_limit) - filling.user_tasks
    assert sorted(room.unfinished) == np.flatnonzero(left > 0).tolist()
    for n in room.unfinished:
        lack = room.lack(n)
        where = [s for s, g in enumerate(group) if problem.users.eligible[n, g]]
        short = [[a < b for a, b in zip(free[s], demand[n], strict=True)] for s in where]
        counts = dict(
            zip(problem.cluster.resources, map(sum, zip(*short, strict=True)), strict=True)
        )
        assert (lack.left, lack.servers) == (left[n], len(where))
        assert lack.lacking == {name: count for name, count in counts.items() if count}
        assert all(map(any, short))  # no further task fits
        parts = (
            min(a / b for a, b in zip(free[s], demand[n], strict=True) if b > 0) for s in where
        )
        nearest = min(there / asked for there, asked in lack.amounts.values())
        assert nearest == pytest.approx(float(max(parts)), rel=1e-9)


def test_parts_of_devices_are_left_that_no_task_can_take() -> None:
    """Each of two servers runs two tasks of .6 of a GPU, and .4 is left of each GPU."""
    problem = Problem.from_arrays(
        [[8, 2]],
        [[1, 0.6], [1, 2]],
        count=[2],
        task_limit=[4, 3],
        resources=["cpu", "gpu"],
        users=["ana", "bo"],
        groups=["a"],
        weight=[100, 1],
        devices=["gpu"],
    )
    filling = fill(problem, select="first-fit")
    room = RoomLeft(filling)
    assert filling.order.tolist() == [[0, 0], [1, 1], [0, 0]]
    assert room.unfinished == [0, 1]
    ana, bo = room.lack(0), room.lack(1)
    assert (ana.left, ana.servers, ana.lacking) == (2, 2, {"gpu": 2})
    assert (ana.nearest, ana.amounts) == ("a-0", {1: (0.4, 0.6)})
    assert (bo.left, bo.lacking, bo.amounts) == (2, {"gpu": 2}, {1: (0, 2)})


def test_a_task_may_have_room_where_its_server_is_not_the_best() -> None:
    """The second task goes on no server: the best one, with as much of both, has only 1."""
    problem = Problem.from_arrays(
        [[3, 3], [9, 3]], [[2, 2]], task_limit=[9], groups=["even", "wide"]
    )
    filling = fill(problem, select="best-fit-first")
    lack = RoomLeft(filling).lack(0)
    assert filling.tasks.tolist() == [[1, 0]]
    assert (lack.nearest, lack.amounts, lack.lacking) == ("wide", {}, {"r1": 1, "r2": 1})
