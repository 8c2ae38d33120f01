"""Many servers with few different free amounts: of those that are alike the first is taken."""

from __future__ import annotations

import random

import pytest

from fairlead.scheduler.scheduler import Scheduler
from scheduler.test_nearest_fits import plain_best

SERVERS = 30


@pytest.mark.parametrize("seed", range(3))
def test_the_first_of_the_servers_that_fit_best_is_taken(seed: int) -> None:
    chance = random.Random(seed)
    scheduler = Scheduler(["cpu", "memory"], "drf/best-fit")
    scheduler.add_queue("ana")
    free = [[4, 4] for _ in range(SERVERS)]
    for s in range(SERVERS):
        scheduler.add_server(str(s), {"cpu": 4, "memory": 4})
    taken = set()
    for _ in range(300):
        s = chance.randrange(SERVERS)
        free[s] = [chance.choice([1, 2, 4, 8]), chance.choice([1, 2, 4, 8])]
        scheduler.set_server(str(s), {"cpu": free[s][0], "memory": free[s][1]})
        demand = [chance.choice([1, 2, 4, 8]), chance.choice([1, 2, 4, 8])]
        group = scheduler.submit("ana", {"cpu": demand[0], "memory": demand[1]})
        pool = [sum(row[r] for row in free) for r in range(2)]
        best = plain_best(demand, free, pool)
        placements = scheduler.place()
        assert [placed.server for placed in placements] == ([] if best is None else [str(best)])
        for placed in placements:
            taken.add(placed.server)
            scheduler.finish(placed.task)
        if best is None:
            scheduler.cancel(group)
    assert len(taken) > 5
