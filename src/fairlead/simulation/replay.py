"""Replay a workload under a policy.

The compiled loop returns regularly, to handle interruptions and report progress.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import inf
from time import monotonic

import numpy as np

from fairlead.garbage_collection import garbage_collection_paused
from fairlead.model.arguments import switch
from fairlead.model.cluster import BoolArray, IntArray
from fairlead.model.quanta import Quanta, to_quanta
from fairlead.model.quantity import exact, ratio
from fairlead.model.queues import amounts_and_tasks
from fairlead.model.quotas import Quota, groups_of, quotas_of
from fairlead.model.run_log import RunLog
from fairlead.model.task_kinds import WorkloadKinds, kinds_of, unplaceable_sets
from fairlead.model.workload import Workload
from fairlead.scheduler.argument_checks import LARGEST, parse_positive
from fairlead.scheduler.event_loop import JobArrivals, Replay, ServerEvents
from fairlead.scheduler.policies import REFUSE_SECONDS, OwnPolicy, Policy, parse_policy
from fairlead.scheduler.random_order import RandomOrder
from fairlead.simulation._slots import in_slots

STEPS = 16  # steps of the event loop between two readings of the clock
SECONDS_BETWEEN_REPORTS = 0.1
NAMED = 3  # largest number of groups in the name of a placement constraint

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
    """Replay a workload until no task runs any more and no event is left.

    At equal times tasks end first, then servers change, then jobs arrive, then jobs are withdrawn,
    and then tasks are placed until nothing more fits. When a server leaves, its running tasks are
    lost, with all running tasks of their gangs, and wait again. The same holds for tasks stopped by
    a policy with preemption. Running tasks of a withdrawn job run to their end.

    Parameters
    ----------
    workload : Workload
    policy : str or Policy
        Such as ``drf/best-fit`` or ``slots:14``; see `fairlead.scheduler.policies`.
    strict_fifo : bool
        Whether no task of a user starts before those of its first waiting set.
    seed : int
        Seed of random policies.
    refuse_seconds : float
        Under ``/oblivious``: seconds for which a user gets no further offer of a server that it
        declined.
    on_progress : callable, optional
        Called regularly with the number of starts so far and the time of the replay, in seconds.

    Raises
    ------
    InputError
        When the policy is not known.
    RefusalError
        When the parts of the policy cannot be combined, or it does not support the queues, limits
        or quotas.

    Notes
    -----
    O(T log T) and the cost of the scheduler. About 500 bytes of memory for each running task and
    40 for each start, in addition to the workload.
    """
    started = StartedReplay(workload, policy, strict_fifo, seed, refuse_seconds)
    started.run(on_progress)
    loop, n = started.loop, len(started.loop.task)
    return RunLog(
        policy=started.policy.name,
        task=np.fromiter(loop.task, dtype=np.int32, count=n),
        server=np.fromiter(loop.server, dtype=np.int32, count=n),
        start=np.fromiter(loop.start, dtype=np.float64, count=n),
        end=np.fromiter(loop.end, dtype=np.float64, count=n),
        lost=np.fromiter(loop.is_lost, dtype=np.bool_, count=n),
        set_unplaceable=started.unplaceable,
    )


class StartedReplay:
    """A replay that can be stopped at a given time; parameters and errors are those of `replay`."""

    def __init__(
        self,
        workload: Workload,
        policy: str | Policy,
        strict_fifo: bool = False,
        seed: int = 0,
        refuse_seconds: float = float(REFUSE_SECONDS),
    ) -> None:
        chosen = parse_policy(policy) if isinstance(policy, str) else policy
        if workload.queues is not None:
            chosen.require_trees()
        kinds = kinds_of(workload)
        sliced = in_slots(kinds.problem, chosen.slots) if chosen.slots else kinds.problem
        unplaceable = unplaceable_sets(workload, kinds, sliced)
        quanta = to_quanta(kinds.problem)
        largest = _largest_server(workload, quanta) if chosen.slots else None
        cycle = chosen.make_cycle(
            list(workload.cluster.resources),
            RandomOrder(seed),
            switch(strict_fifo, "strict_fifo"),
            parse_positive(refuse_seconds, "refuse_seconds"),
            largest,
            quanta.device,
        )
        if isinstance(chosen, OwnPolicy):
            cluster = workload.cluster
            groups = np.repeat(np.array(cluster.groups, dtype=object), cluster.count).tolist()
            jobs = workload.job_names.tolist()
            chosen.set_names(cycle, cluster.resources, quanta.per_unit, jobs, groups)
        state = cycle.state
        for name, weight, parent in _queues_of(workload):
            state.make_queue(name, ratio(weight), None if parent is None else state.queues[parent])
        for name, limit in workload.limits.items():
            if name in state.queues:
                state.limit_queue(name, *_limit_of(workload, limit, quanta, chosen))
        for name, rows in workload.quotas.items():
            chosen.require_quotas()
            for quota in quotas_of(rows) if name in state.queues else ():
                amounts = _amounts_in_quanta(quota.amounts, workload, quanta)
                state.add_quota(state.queues[name], _servers_of(quota, workload), amounts)
        jobs = _jobs_of(workload, kinds, quanta, np.where(unplaceable, 0, workload.set_tasks))
        events, cancels = _server_events_of(workload, quanta), _cancels_of(workload)
        self.loop = Replay(cycle, events, jobs, cancels)
        self.policy, self.quanta = chosen, quanta
        self.unplaceable: BoolArray = unplaceable  # (K,) the sets that are left out

    def run(self, on_progress: Progress | None = None, until: float = inf) -> None:
        """Replay all events up to a time, with regular reports of progress."""
        loop, reported, is_over = self.loop, monotonic(), False
        with garbage_collection_paused():
            while not is_over:
                is_over = loop.advance(STEPS, until)
                now = monotonic()
                is_due = is_over or now > reported + SECONDS_BETWEEN_REPORTS
                if on_progress is not None and is_due:
                    reported = now
                    on_progress(len(loop.task), loop.now)


def _limit_of(
    workload: Workload, limit: Mapping[str, float], quanta: Quanta, policy: Policy
) -> tuple[list[int], int]:
    """Return the limit of each resource (R,) in quanta, and that of tasks; -1 is no limit."""
    resources = workload.cluster.resources
    amounts, tasks = amounts_and_tasks(limit, resources)
    if amounts:
        policy.require_amounts()
    return _amounts_in_quanta(amounts, workload, quanta), -1 if tasks is None else tasks


def _amounts_in_quanta(
    amounts: Mapping[str, float], workload: Workload, quanta: Quanta
) -> list[int]:
    """Return amounts (R,) in quanta; -1 for a resource without an amount."""
    return [
        min(int(exact(amounts[name]) * per_unit), LARGEST) if name in amounts else -1
        for name, per_unit in zip(workload.cluster.resources, quanta.per_unit, strict=True)
    ]


def _servers_of(
    quota: Quota, workload: Workload
) -> tuple[frozenset[tuple[str, str]], frozenset[str] | None]:
    """Return the constraint that admits the servers of a quota: labels, and groups or None."""
    groups = groups_of(quota, workload.cluster)
    is_all = len(groups) == len(workload.cluster.groups)
    return frozenset(), None if is_all else frozenset(_group_name(g) for g in groups)


def _queues_of(workload: Workload) -> Iterator[tuple[str, float, str | None]]:
    """Yield name, weight and parent of each queue: those of the tree, then users with jobs."""
    tree, weight = workload.queues, workload.weight.tolist()
    if tree is not None:
        for q, name in enumerate(tree.names):
            yield name, float(tree.weight[q]), tree.name_of(tree.parent[q])
    for user in np.unique(workload.job_user).tolist():
        parent = None if tree is None else tree.name_of(tree.of_user[user])
        yield workload.users[user], weight[user], parent


def _largest_server(workload: Workload, quanta: Quanta) -> list[int]:
    """Return (R,) the largest capacity of each resource, in quanta; 0 if some servers lack it."""
    is_on_all = (workload.cluster.capacity > 0).all(axis=0)
    largest: list[int] = np.where(is_on_all, quanta.capacity.max(axis=0), 0).tolist()
    return largest


def _jobs_of(
    workload: Workload, kinds: WorkloadKinds, quanta: Quanta, set_tasks: IntArray
) -> JobArrivals:
    """Return the arrivals of jobs; `set_tasks` (K,) is 0 for sets that fit on no server."""
    where = [(labels, None) for labels in _labels_of_places(workload)]
    demands = quanta.demand.tolist()
    return JobArrivals(
        submit=workload.job_submit,
        queue=[workload.users[user] for user in workload.job_user.tolist()],
        is_gang=(workload.job_gang & (workload.job_tasks > 1)).tolist(),
        limit=workload.job_limit,
        first_set=workload.first_set.astype(np.int64),
        demand=[demands[kind] for kind in kinds.of_set.tolist()],
        where=[where[place] for place in workload.set_place.tolist()],
        tasks=set_tasks.tolist(),
        first_task=workload.first_task[:-1].astype(np.int64),
        duration=workload.task_duration,
    )


def _server_events_of(workload: Workload, quanta: Quanta) -> ServerEvents:
    """Return the servers, and their events."""
    capacity, cluster = quanta.capacity.tolist(), workload.cluster
    groups = np.repeat(np.arange(len(cluster.groups)), cluster.count).tolist()
    names = zip(cluster.groups, cluster.count.tolist(), strict=True)
    places = np.array(_labels_of_places(workload), dtype=object)
    labels = [frozenset().union(*places[allowed]) for allowed in workload.places.T]
    return ServerEvents(
        name=[f"{group}/{k}" for group, count in names for k in range(count)],
        group=[_group_name(g) for g in groups],
        labels=[labels[g] for g in groups],
        capacity=[capacity[g] for g in groups],
        is_there=workload.there_at_start.tolist(),
        time=workload.server_time,
        event=workload.server_event.astype(np.int64),
        server=workload.server.astype(np.int64),
    )


def _labels_of_places(workload: Workload) -> list[frozenset[tuple[str, str]]]:
    """Return the label of each placement constraint, named after its groups; none if it has all."""
    groups, uses = workload.cluster.groups, Counter[str]()
    found: list[frozenset[tuple[str, str]]] = []
    for row in workload.places:
        allowed = [groups[g] for g in np.flatnonzero(row).tolist()]
        more = f" and {len(allowed) - NAMED} groups more" if len(allowed) > NAMED else ""
        label = f"servers of {', '.join(allowed[:NAMED])}{more}"
        uses[label] += 1
        if uses[label] > 1:  # another constraint with the same first groups
            label += f" ({uses[label]})"
        found.append(frozenset() if row.all() else frozenset({(label, "yes")}))
    return found


def _group_name(group: int) -> str:
    """Return a name for a group of servers that differs from all names of servers."""
    return f"group {group}"


def _cancels_of(workload: Workload) -> list[tuple[float, int]]:
    """Return time and job of each withdrawal, in order of time."""
    cancelled = np.flatnonzero(workload.job_cancel < np.inf)
    cancelled = cancelled[np.argsort(workload.job_cancel[cancelled], kind="stable")]
    return list(zip(workload.job_cancel[cancelled].tolist(), cancelled.tolist(), strict=True))
