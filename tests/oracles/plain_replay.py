"""Every policy replayed plainly, called as the library's own replay is."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from oracles.plain_offers import PlainOffers
from oracles.plain_simulation import PlainSimulation


def plain_replay(
    workload: Workload,
    policy: str,
    *,
    strict_fifo: bool = False,
    seed: int = 0,
    on_progress: Callable[[int, float], None] | None = None,
) -> RunLog:
    offers = "/rrr" in policy
    log = (
        PlainOffers(workload, policy, strict=strict_fifo, seed=seed)
        if offers
        else PlainSimulation(workload, policy, strict=strict_fifo)
    ).as_log()
    if on_progress is not None:
        on_progress(len(log.task), log.makespan)
    return log
