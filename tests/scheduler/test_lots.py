"""Many servers with few different free amounts: lots of servers that are alike."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.model.problem import Problem
from fairlead.model.quanta import to_quanta
from fairlead.scheduler import entries
from fairlead.scheduler.criteria import prepare_scores
from fairlead.scheduler.policy import find_policy
from fairlead.scheduler.ratio_index import build_ratio_index, check_ratio_index
from fairlead.scheduler.state import empty_state

SERVERS = 40


@pytest.mark.parametrize("seed", range(10))
def test_every_lot_has_its_servers_and_knows_the_first(seed: int) -> None:
    problem = Problem.from_arrays(
        capacity=[[4.0, 4.0], [4.0, 8.0]],
        demand=[[1.0, 1.0], [1.0, 2.0]],
        count=[SERVERS // 2, SERVERS // 2],
    )
    quanta = to_quanta(problem)
    state = empty_state(
        problem, quanta, prepare_scores(problem, quanta, find_policy("drf", "best-fit"))
    )
    index = build_ratio_index(problem, quanta, state)
    random = np.random.default_rng(seed)
    for step in range(1000):
        server = int(random.integers(SERVERS))
        entries.leave(state, index, server)
        state.free[server] = random.integers(2, size=2) + 1
        entries.enter(state, index, server)
        if step % 10 == 0:
            check_ratio_index(state, index)
