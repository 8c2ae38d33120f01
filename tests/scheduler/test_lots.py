"""Many servers with few different free amounts: lots of servers that are alike."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.scheduler.scheduler import Scheduler

SERVERS = 30


@pytest.mark.parametrize("seed", range(3))
def test_every_lot_has_its_servers_and_knows_the_first(seed: int) -> None:
    scheduler = Scheduler(["cpu", "memory"], "drf/best-fit")
    scheduler.add_queue("ana")
    scheduler.submit("ana", {"cpu": 9, "memory": 9})
    for s in range(SERVERS):
        scheduler.add_server(str(s), {"cpu": 4, "memory": 4 + 4 * (s % 2)}, {"odd": str(s % 2)})
    random = np.random.default_rng(seed)
    for step in range(150):
        cpu, memory = (random.integers(2, size=2) + 1).tolist()
        scheduler.set_server(str(random.integers(SERVERS)), {"cpu": cpu, "memory": memory})
        if step % 10 == 0:
            scheduler.check()
