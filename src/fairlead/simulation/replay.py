"""Replay a workload under a policy, to know what it would have done.

It returns from what is compiled now and then, so that an interruption is heard and progress told.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import numpy as np

from fairlead.garbage_collection import garbage_collection_paused
from fairlead.model.cluster import IntArray
from fairlead.model.quanta import Quanta, to_quanta
from fairlead.model.quantity import ratio
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.scheduler.argument_checks import positive, truth
from fairlead.scheduler.event_loop import JobArrivals, Replay, ServerEvents
from fairlead.scheduler.policies import REFUSE_SECONDS, Policy, parse_policy
from fairlead.simulation.kinds import Kinds, kinds_of, unplaceable_sets

STEPS = 16  # of at most `PORTION` placements, before the clock is looked at
SECONDS_BETWEEN_REPORTS = 0.1

Progress = Callable[[int, float], None]


def replay(
    workload: Workload,
    policy: str | Policy,
    *,
    strict_fifo: bool = False,
    seed: int = 0,
    refuse_seconds: float = float(REFUSE_SECONDS),
    on_progress: Progress | None = None,
) -> RunLog:
    """Replay a workload until nothing runs any more and nothing is to come.

    At one moment tasks end first, then servers change, then jobs arrive, then jobs are withdrawn,
    and then tasks are placed until nothing more fits. A task that runs is never taken back; it is
    lost when its server leaves, with all that runs of its gang, and waits again. Of a job that is
    withdrawn, what runs may end.

    Parameters
    ----------
    workload : Workload
    policy : str or Policy
        Such as ``drf/best-fit`` or ``slots:14``; see `fairlead.scheduler.policies`.
    strict_fifo : bool
        Whether nothing of a user passes over its first waiting set of tasks.
    seed : int
        For policies that are random.
    refuse_seconds : float
        How long an offer that was declined is not made again, where offers are oblivious.
    on_progress : callable, optional
        Called now and then with the starts so far and the moment in seconds.

    Raises
    ------
    InputError
        When the policy is none.
    RefusalError
        When the policy has no meaning.

    Notes
    -----
    O(T log T) and what the scheduler costs; memory for about 500 bytes a task that runs, and 40
    bytes a start, beside the workload.
    """
    chosen = parse_policy(policy) if isinstance(policy, str) else policy
    kinds = kinds_of(workload)
    unplaceable = unplaceable_sets(workload, kinds, chosen.slots)
    quanta = to_quanta(kinds.problem)
    largest = largest_server(workload, quanta) if chosen.slots else None
    cycle = chosen.make_cycle(
        len(workload.cluster.resources),
        seed,
        truth(strict_fifo, "strict_fifo"),
        positive(refuse_seconds, "refuse_seconds"),
        largest,
    )
    for user in np.unique(workload.job_user).tolist():
        cycle.state.make_queue(workload.users[user], ratio(float(workload.weight[user])))
    jobs = _jobs_of(workload, kinds, quanta, np.where(unplaceable, 0, workload.set_tasks))
    under_way = Replay(cycle, _server_events_of(workload, quanta), jobs, _cancels_of(workload))
    with garbage_collection_paused():
        _run(under_way, on_progress)
    n = len(under_way.task)
    return RunLog(
        policy=chosen.name,
        task=np.fromiter(under_way.task, dtype=np.int32, count=n),
        server=np.fromiter(under_way.server, dtype=np.int32, count=n),
        start=np.fromiter(under_way.start, dtype=np.float64, count=n),
        end=np.fromiter(under_way.end, dtype=np.float64, count=n),
        lost=np.fromiter(under_way.is_lost, dtype=np.bool_, count=n),
        set_unplaceable=unplaceable,
    )


def _run(under_way: Replay, on_progress: Progress | None) -> None:
    """Replay to the end, with a report every now and then and one at the end."""
    reported, is_over = monotonic(), False
    while not is_over:
        is_over = under_way.advance(STEPS)
        now = monotonic()
        if on_progress is not None and (is_over or now > reported + SECONDS_BETWEEN_REPORTS):
            reported = now
            on_progress(len(under_way.task), under_way.now)


def largest_server(workload: Workload, quanta: Quanta) -> list[int]:
    """Return what is cut into slots: the most of each resource that all servers have, else 0."""
    is_on_all = (workload.cluster.capacity > 0).all(axis=0)
    largest: list[int] = np.where(is_on_all, quanta.capacity.max(axis=0), 0).tolist()
    return largest


def _jobs_of(workload: Workload, kinds: Kinds, quanta: Quanta, set_tasks: IntArray) -> JobArrivals:
    """Return the arrivals of jobs; sets of 0 tasks fit on no server."""
    groups = np.array([_group_name(g) for g in range(len(workload.cluster.groups))], dtype=object)
    places = [None if row.all() else frozenset(groups[row].tolist()) for row in workload.places]
    demands = quanta.demand.tolist()
    return JobArrivals(
        submit=workload.job_submit,
        queue=[workload.users[user] for user in workload.job_user.tolist()],
        is_gang=(workload.job_gang & (workload.job_tasks > 1)).tolist(),
        limit=workload.job_limit,
        first_set=workload.first_set.astype(np.int64),
        demand=[demands[kind] for kind in kinds.of_set.tolist()],
        groups=[places[place] for place in workload.set_place.tolist()],
        tasks=set_tasks.astype(np.int64),
        first_task=workload.first_task[:-1].astype(np.int64),
        duration=workload.task_duration,
    )


def _server_events_of(workload: Workload, quanta: Quanta) -> ServerEvents:
    """Return the servers, and when they come and go."""
    capacity, count = quanta.capacity.tolist(), workload.cluster.count
    groups = np.repeat(np.arange(len(workload.cluster.groups)), count).tolist()
    return ServerEvents(
        group=[_group_name(g) for g in groups],
        capacity=[capacity[g] for g in groups],
        is_there=workload.there_at_start.tolist(),
        time=workload.server_time,
        event=workload.server_event.astype(np.int64),
        server=workload.server.astype(np.int64),
    )


def _group_name(group: int) -> str:
    """Return a name of a group of servers that no server has."""
    return f"group {group}"


def _cancels_of(workload: Workload) -> list[tuple[float, int]]:
    """Return when which jobs are withdrawn, in order."""
    cancelled = np.flatnonzero(workload.job_cancel < np.inf)
    cancelled = cancelled[np.argsort(workload.job_cancel[cancelled], kind="stable")]
    return list(zip(workload.job_cancel[cancelled].tolist(), cancelled.tolist(), strict=True))
