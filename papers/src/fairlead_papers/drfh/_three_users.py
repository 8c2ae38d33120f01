"""Reproduce Figure 4 of Wang, Liang and Li 2014: three users come and go on 100 servers."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import Cluster, FloatArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.report.numbers import percent
from fairlead.simulation.metrics.utilization import time_averages
from fairlead.simulation.replay import replay
from fairlead.traces.generator import cluster_in_proportion
from fairlead_papers.drfh import PAPER
from fairlead_papers.reproduction import PrintedClaim, Reading, Reproduction, TextTable
from fairlead_papers.setting import Parameter, Setting

# The 100 servers were drawn from Table I. The paper prints their totals (52.75 CPU, 51.32 memory)
# and users' shares of memory: 62 % for user 1 by itself, 44 % each for users 1 and 2, 26 % each
# for all three. Of the sets of servers with these totals, this is the one whose shares under
# best-fit come nearest: 61.9 %, then 43.2 and 42.7 %, then 27.4 to 28.0 %.
# papers/docs/reproducing.md explains why no such set gives 26 % if tasks are packed as well.
COUNTS = (72, 12, 8, 6, 1, 1, 0, 0, 0, 0)  # of servers, by row of Table I
# CPU and memory of a task of each user, and the user's arrival in seconds.
USERS = ((0.2, 0.3, 0.0), (0.5, 0.1, 200.0), (0.1, 0.3, 500.0))
LEAVES, ENDS = 1080.0, 1500.0  # seconds at which user 1 leaves, and at which the others leave
DURATION = (10.0, 50.0)  # range of the duration of a task, in seconds
TASKS = 12_000  # of a user, for 100 servers


def figure_4_park(servers: int = 100) -> Cluster:
    """Return the 100 servers of Fig. 4, or another number in the same proportions.

    The 100 servers have 52.75 CPU and 51.37 memory in total. Memory adds up to 51.32, as printed,
    with the sizes that the trace has (0.4995, 0.2493, 0.749 and 0.1241) instead of the two digits
    of Table I.
    """
    return cluster_in_proportion(np.array(COUNTS, dtype=np.int64), servers)


def figure_4(seed: int = 0, servers: int = 100) -> Workload:
    """Return the workload of Fig. 4: three users that come and go, on 100 servers by default.

    The servers are those of `figure_4_park`. User 1 arrives at 0 s, user 2 at 200 s, user 3 at
    500 s; user 1 leaves at 1080 s, the others at 1500 s. Each user has one job, with more tasks
    than can run until the user leaves. Then its waiting tasks are withdrawn, and its running ones
    end by themselves. The paper states no durations. Here they are drawn by `seed`, uniform from 10
    to 50 s, so that shares settle within 50 s of a change of users.

    Source: Wang, Liang and Li 2014, Section VI and Fig. 4.
    """
    rng = np.random.default_rng(seed)
    n_users = len(USERS)
    tasks = -(-TASKS * servers // 100)
    return Workload.from_arrays(
        figure_4_park(servers),
        [f"user-{n + 1}" for n in range(n_users)],
        job_names=[f"job of user-{n + 1}" for n in range(n_users)],
        job_user=np.arange(n_users),
        job_submit=[submit for _, _, submit in USERS],
        job_cancel=[LEAVES] + [ENDS] * (n_users - 1),
        set_job=np.arange(n_users),
        set_tasks=np.full(n_users, tasks),
        shapes=[(cpu, memory) for cpu, memory, _ in USERS],
        task_duration=rng.uniform(*DURATION, size=n_users * tasks),
        origin=f"script of Fig. 4 of Wang, Liang and Li 2014, seed {seed}",
    )


POLICY = "drf/best-fit"
CPU, MEMORY = 0, 1
SECONDS_PER_BIN = 5.0
# The longest task: this long after an arrival, all tasks that started before it have ended.
SECONDS_TO_SETTLE = DURATION[1]
INTERVAL = 0.02  # of dominant shares; one task of user 2 is 0.9 points
EQUALITY = 0.01  # largest difference of dominant shares that count as equal
# Start, end, present users, and their printed dominant share, which the last phase lacks.
PHASES = (
    (0.0, 200.0, (0,), 0.62),
    (200.0, 500.0, (0, 1), 0.44),
    (500.0, 1080.0, (0, 1, 2), 0.26),
    (1080.0, ENDS, (1, 2), None),
)
CPU_OF_USER_1_ALONE = 0.40
NOTE = (
    "The paper prints the total capacity of its 100 servers, not their classes. Ours have this "
    "total, but for rounding, and are fixed; they give the shares nearest to the three printed "
    "ones. At 26 % each some servers have usable capacity left: where users 1 and 2 have 44 % "
    "each, at least 120 tasks run, and 120 tasks of the three users are 26.8 % each "
    "(papers/docs/reproducing.md has the count). The paper does not print durations; here tasks "
    "run for 10 to 50 s."
)


def shares_over_time(workload: Workload, log: RunLog, edges: FloatArray) -> FloatArray:
    """Return users' mean shares of each resource between B + 1 edges in seconds, (N, B, R).

    The servers of the workload do not change, and all tasks of a user have the same demand.
    """
    number = np.repeat(np.arange(workload.n_sets), workload.set_tasks)[log.task]
    user = workload.job_user[workload.set_job][number]
    amount = workload.shapes[workload.set_shape][number] / workload.cluster.total_capacity
    series = [
        time_averages(log.start[mine], log.end[mine], amount[mine], edges)
        for mine in (user == n for n in range(workload.n_users))
    ]
    return np.stack(series)


SERVERS = Parameter("servers", 100, quick=100, most=10_000)


@PAPER.reproduces(
    "figure-4",
    "Figure 4",
    "shares of three users that come and go, 100 servers, Best-Fit",
    "user 1 alone holds 40 % of the CPU and 62 % of the memory; two users hold 44 % each of their "
    "dominant resources, three hold 26 %; after user 1 has left the others hold equal shares",
    "a second",
    parameters=(SERVERS,),
)
def reproduce(setting: Setting) -> Reproduction:
    """Replay the workload of Fig. 4 under Best-Fit."""
    servers = setting.value(SERVERS)
    workload = figure_4(setting.seed, servers)
    log = replay(workload, POLICY, seed=setting.seed)
    until = ENDS + 2 * SECONDS_TO_SETTLE
    edges = np.arange(0.0, until + 1e-9, SECONDS_PER_BIN)
    fine = shares_over_time(workload, log, edges)
    ends = np.array(
        [edge for begin, end, _, _ in PHASES for edge in (begin + SECONDS_TO_SETTLE, end)]
    )
    settled = shares_over_time(workload, log, ends)[:, ::2]
    capacity = workload.cluster.total_capacity
    return Reproduction(
        setting=(
            f"{servers:,} servers with {capacity[CPU]:.2f} CPU and {capacity[MEMORY]:.2f} memory, "
            f"policy {POLICY}, seed {setting.seed}; means from {SECONDS_TO_SETTLE:g} s after each "
            "change."
        ),
        readings=_readings(settled),
        claims=_claims(settled),
        note=NOTE,
        tables=(_table(settled),),
        data={
            "edges": edges,
            "users": {
                name: {"cpu": s[:, CPU], "memory": s[:, MEMORY], "dominant": s.max(axis=1)}
                for name, s in zip(workload.users, fine, strict=True)
            },
        },
    )


def _readings(settled: FloatArray) -> tuple[Reading, ...]:
    """Compare users' mean shares in each phase, (3, 4, R), with the printed ones."""
    dominant = settled.max(axis=2)
    alone = Reading(
        "CPU share of user 1 alone", float(settled[0, 0, CPU]), CPU_OF_USER_1_ALONE, 0.01, INTERVAL
    )
    others = [
        Reading(
            f"mean dominant share of the present users, {begin:g} to {end:g} s",
            float(dominant[list(users), k].mean()),
            printed,
            0.01,
            INTERVAL,
        )
        for k, (begin, end, users, printed) in enumerate(PHASES)
        if printed is not None
    ]
    return (alone, *others)


def _claims(settled: FloatArray) -> tuple[PrintedClaim, ...]:
    dominant = settled.max(axis=2)
    apart = [float(np.ptp(dominant[list(users), k])) for k, (_, _, users, _) in enumerate(PHASES)]
    return (
        PrintedClaim(
            f"present users hold equal dominant shares, within {100 * EQUALITY:g} point",
            max(apart) <= EQUALITY,
            f"at most {100 * max(apart):.2f} points apart",
        ),
    )


def _table(settled: FloatArray) -> TextTable:
    """Tabulate the shares of each present user in each phase."""
    rows = []
    for k, (begin, end, users, printed) in enumerate(PHASES):
        for user in users:
            cpu, memory = settled[user, k].tolist()
            rows.append(
                [
                    f"{begin:g} to {end:g} s, user {user + 1}",
                    percent(cpu),
                    percent(memory),
                    percent(max(cpu, memory)),
                    "equal for both" if printed is None else f"{100 * printed:.0f} %",
                ]
            )
    headings = [
        "time, user",
        "CPU share",
        "memory share",
        "dominant share",
        "paper's dominant share",
    ]
    return TextTable("Shares once they have settled.", headings, rows)
