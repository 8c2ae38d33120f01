"""Generate a day like one of Google's cluster of 2011.

Each distribution is *measured*, *published* in the named paper, or *chosen* because no number was
found that could be checked. Measured means: in the first 40 of 500 parts of the trace's job events
(clusterdata-2011-2; 55.7 hours, 50,057 jobs submitted by 251 users).

- Servers, published: Wang, Liang and Li 2014, Table I (`TABLE_I`).
- Arrivals, measured: 903 jobs an hour, with a daily wave of 9 % whose peak is 21 hours after the
  start. The variance of the number of jobs in 5 minutes is 9 times its mean; so the rate of each
  5 minutes is gamma distributed with a coefficient of variation of 0.33.
- Users, measured: the user of rank r submits in proportion to (r + 20)^-3, a Zipf-Mandelbrot law
  fitted by maximum likelihood. The first of 250 submits 9 % of the jobs; in the trace, 12 %.
- Tasks of a job, published: "over 25 million tasks" in 29 days (Di, Kondo and Cirne,
  "Characterization and comparison of cloud versus grid workloads", CLUSTER 2012), which is some 40
  a job at the measured rate. Chosen: a Pareto law with exponent 0.68, cut at 10,000, of mean 38.
  Then 38 % of the jobs have one task, 7 % more than 50, 0.7 % more than 1,000. Chosen: jobs are
  sized in the order of a normal score, half of whose variance is between users, half between jobs
  of a user.
- Durations, measured: the logarithm of a job's run time has mean 5.43 and standard deviation 1.76
  (a median of 228 s; an eighth is longer than half an hour). Chosen: the tasks of a job differ by a
  log-normal factor of deviation 0.3. Durations are cut at the length of the day, and then scaled.
- Demands, chosen: log-normal with medians 0.030 CPU and 0.018 memory of the largest server, and
  standard deviations 0.5 and 0.6 of the logarithms. Half of the variance is between users, half
  between jobs of a user; CPU and memory correlate by 0.5. Demands are rounded up to a 32nd and a
  128th, at most 0.5; their means are 0.048 and 0.025. Published: demands and durations vary widely
  (Reiss et al., "Heterogeneity and dynamicity of clouds at scale", SoCC 2012).
- Load, chosen: the demand of all tasks over the day equals the capacity of the scarcer resource.
  Wang, Liang and Li put the demand of 12,000 servers on 2,000 "so that fairness becomes relevant".

Three choices were made so that days resemble the evaluation of Wang, Liang and Li. That evaluation
is therefore no independent evidence for these choices:

1. CPU in steps of a 32nd, and deviations of 0.5 and 0.6. Their Table II has a best slot size, 14 or
   16 slots a server; here many tasks of a 16th, which need two slots of a 20th, cause such a best
   size. With steps of a 160th, or wider deviations, smaller slots are always better.
2. Job sizes that differ between users. If all users have equally large jobs, small jobs wait behind
   large ones of the same user, and jobs of 1 to 50 tasks complete 29 % sooner under Best-Fit than
   under slots. With this choice they complete 4 % sooner; in the paper's Fig. 6b, no sooner.
3. The load. With a load of 0.8, Best-Fit has room for nearly all tasks at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.errors import InputError
from fairlead.model.arguments import whole_number
from fairlead.model.cluster import Cluster, FloatArray, IntArray
from fairlead.model.quantity import show
from fairlead.model.workload import Workload
from fairlead.model.workload_checks import MOST_SERVERS

RESOURCES = ("cpu", "memory")
UNITS = ("of the largest server", "of the largest server")

# Table I: number of servers, CPU, memory; capacities are shares of the largest server.
TABLE_I = (
    (6732, 0.50, 0.50),
    (3863, 0.50, 0.25),
    (1001, 0.50, 0.75),
    (795, 1.00, 1.00),
    (126, 0.25, 0.25),
    (52, 0.50, 0.12),
    (5, 0.50, 0.03),
    (5, 0.50, 0.97),
    (3, 1.00, 0.50),
    (1, 0.50, 0.06),
)
COUNTS = np.array([count for count, _, _ in TABLE_I], dtype=np.int64)
SERVERS = int(COUNTS.sum())

SECONDS_PER_HOUR = 3600.0
DAILY_WAVE, HOUR_OF_PEAK = 0.09, 21.0
BURST_SECONDS, BURST_SHAPE = 300.0, 9.4  # length of an interval, and shape of its gamma law
RANK_EXPONENT, RANK_SHIFT = 3.0, 20.0
TASKS_EXPONENT, MOST_TASKS = 0.68, 10_000
LOG_DURATION = (5.43, 1.76)
DURATION_WITHIN_JOB, SHORTEST = 0.3, 1.0  # deviation of the logarithm; seconds
LOG_DEMAND_MEDIAN = np.log([0.030, 0.018])
LOG_DEMAND_DEVIATION = np.array([0.5, 0.6])
DEMAND_CORRELATION = 0.5
DEMAND_STEP = np.array([1 / 32, 1 / 128])
LARGEST_DEMAND = 0.5
DEFAULT_LOAD = 1.0
# The arrays of the tasks of more jobs would not fit into memory.
MOST_JOBS = 5_000_000


class Arrivals(NamedTuple):
    """Submissions of jobs."""

    times: FloatArray  # (J,): seconds from the start, ascending
    users: NDArray[np.str_]  # (J,): names
    notes: Mapping[str, int] = MappingProxyType({})  # counts of dropped or repaired records


def generate_day(
    servers: int = 2000,
    *,
    users: int = 250,
    jobs: int | None = None,
    load: float | None = None,
    hours: float = 24.0,
    seed: int = 0,
    exact: bool = False,
    arrivals: Arrivals | None = None,
) -> Workload:
    """Generate a workload like that of Google's cluster; see the module for all distributions.

    Parameters
    ----------
    servers : int
        Number of servers, drawn from Table I.
    users : int
        Number of users, if no arrivals are given.
    jobs : int, optional
        Number of jobs. When absent: enough to reach the load, or all given arrivals.
    load : float, optional
        Sum over tasks of amount times duration, divided by the capacity times `hours`, in the
        scarcest resource. Durations are scaled to meet the load. When absent: 1.0 if neither `jobs`
        nor `arrivals` is given, else durations are not scaled.
    hours : float
        Length of the time in which jobs are submitted.
    seed : int
        Seed of all random numbers; the same arguments give the same workload.
    exact : bool
        Take servers in the exact proportions of Table I, whose total is 12,583, instead of drawing
        them.
    arrivals : Arrivals, optional
        Real submissions (`fairlead.traces.logs.google.read_job_arrivals`). Those of the first
        `hours` are used; with `jobs`, a random sample of that number of them.

    Returns
    -------
    Workload
        Users in order of their rank, or of their first job; jobs ``job-0``, ``job-1``, ...

    Raises
    ------
    InputError
        When a number is out of range, or `jobs` exceeds the number of arrivals.

    Notes
    -----
    Cost O(tasks); 0.3 s for a million tasks.
    """
    _check_arguments(users, jobs, load, hours, seed)
    rng = np.random.default_rng(seed)
    cluster = cluster_in_proportion(COUNTS, servers) if exact else draw_cluster(servers, rng)
    span = hours * SECONDS_PER_HOUR
    if arrivals is None:
        target = DEFAULT_LOAD if load is None and jobs is None else load
        n_jobs = jobs if jobs is not None else _jobs_for_load(target or DEFAULT_LOAD, cluster, span)
        _check_arguments(users, n_jobs, load, hours, seed)
        submit = _draw_arrival_times(n_jobs, span, rng)
        names, user = [f"user-{n + 1}" for n in range(users)], _draw_users(n_jobs, users, rng)
    else:
        target = load
        submit, names, user = _select_arrivals(arrivals, jobs, span, rng)
    demand = _draw_demands(user, len(names), cluster, rng)
    tasks = _assign_sizes(user, len(names), rng)
    duration = _draw_durations(tasks, span, rng)
    if target is not None:
        duration *= target / _compute_load(cluster, demand, tasks, duration, span)
    return Workload.from_arrays(
        cluster,
        names,
        job_user=user,
        job_submit=submit,
        set_job=np.arange(len(submit), dtype=np.int32),
        set_tasks=tasks,
        shapes=demand,
        task_duration=np.maximum(duration, SHORTEST),
        origin=(
            f"generated, Google-like: {servers} servers {'as in' if exact else 'drawn from'} "
            f"Table I, {hours:g} h, "
            + (f"load {target:g}, " if target is not None else "")
            + ("real arrivals, " if arrivals is not None else "")
            + f"seed {seed}"
        ),
        notes={} if arrivals is None else dict(arrivals.notes),
    )


def _check_arguments(
    users: int, jobs: int | None, load: float | None, hours: float, seed: int
) -> None:
    # Users without a job have no use, so the largest number of jobs bounds the users, too.
    for name, number in (("users", users), ("jobs", jobs)):
        if number is not None and not 1 <= number <= MOST_JOBS:
            raise InputError(f"must be from 1 to {MOST_JOBS:,}, not {show(number)}", name)
    for name, amount, minimum, example in (
        ("load", load, 1e-6, "0.8"),
        ("hours", hours, 1e-3, "24"),
    ):
        if amount is not None and not minimum <= amount <= 1e6:
            fault = f"must be from {minimum:g} to 1000000, such as {example}, not {amount}"
            raise InputError(fault, name)
    whole_number(seed, "seed")


def _jobs_for_load(load: float, cluster: Cluster, span: float) -> int:
    """Return the number of jobs that make up the load if each has the mean work."""
    tasks = float(_job_sizes(100_000).mean())
    duration = float(np.exp(LOG_DURATION[0] + (LOG_DURATION[1] ** 2 + DURATION_WITHIN_JOB**2) / 2))
    # Means of log-normal amounts; rounding up adds half a step on average.
    demand = np.exp(LOG_DEMAND_MEDIAN + LOG_DEMAND_DEVIATION**2 / 2) + DEMAND_STEP / 2
    work = tasks * duration * (demand / cluster.total_capacity).max()
    return max(1, round(load * span / float(work)))


def _draw_arrival_times(n_jobs: int, span: float, rng: np.random.Generator) -> FloatArray:
    """Draw ascending times of submission, with the daily wave and bursts in their rate."""
    edges = np.append(np.arange(0, span, BURST_SECONDS), span)
    hour = (edges[:-1] + edges[1:]) / 2 / SECONDS_PER_HOUR
    wave = 1 + DAILY_WAVE * np.cos(2 * np.pi * (hour - HOUR_OF_PEAK) / 24)
    # Expected jobs in each interval, up to a common factor.
    expected = wave * rng.gamma(BURST_SHAPE, size=len(hour)) * np.diff(edges)
    expected_until = np.concatenate([[0.0], np.cumsum(expected)])
    drawn = np.sort(rng.random(n_jobs)) * expected_until[-1]
    times: FloatArray = np.interp(drawn, expected_until, edges)
    return times


def _draw_users(n_jobs: int, users: int, rng: np.random.Generator) -> IntArray:
    """Draw the user of each job; with two jobs a user or more, each user has at least one job."""
    share = (np.arange(1, users + 1) + RANK_SHIFT) ** -RANK_EXPONENT
    drawn = rng.choice(users, size=n_jobs, p=share / share.sum())
    if n_jobs >= 2 * users:
        drawn[rng.choice(n_jobs, size=users, replace=False)] = np.arange(users)
    return drawn.astype(np.int64)


def _select_arrivals(
    arrivals: Arrivals, jobs: int | None, span: float, rng: np.random.Generator
) -> tuple[FloatArray, list[str], IntArray]:
    """Select real submissions; return their times, the names of users, and each job's user."""
    within = np.flatnonzero(arrivals.times < span)
    wanted = len(within) if jobs is None else jobs
    if not len(within) or wanted > len(within):
        fault = f"the arrivals hold {len(within):,} in {span / SECONDS_PER_HOUR:g} hours"
        raise InputError(f"{fault}, not {wanted:,}" if len(within) else fault, "jobs")
    if wanted < len(within):
        within = np.sort(rng.choice(within, size=wanted, replace=False))
    users = arrivals.users[within].tolist()
    number = {name: n for n, name in enumerate(dict.fromkeys(users))}
    user = np.array([number[name] for name in users], dtype=np.int64)
    return arrivals.times[within], list(number), user


def _job_sizes(n_jobs: int) -> IntArray:
    """Return (n_jobs,) the number of tasks of each job, ascending: quantiles of the Pareto law.

    Random sizes would let the load of the day depend on a few large jobs. From 200 jobs on, every
    size class of the paper's Fig. 6 occurs.
    """
    quantile = (np.arange(n_jobs) + 0.5) / n_jobs
    cut = 1 - float(MOST_TASKS) ** -TASKS_EXPONENT
    sizes: IntArray = np.floor((1 - quantile * cut) ** (-1 / TASKS_EXPONENT)).astype(np.int64)
    return sizes


def _assign_sizes(user: IntArray, n_users: int, rng: np.random.Generator) -> IntArray:
    """Assign sizes to jobs in the order of a random score; some users tend to get larger ones."""
    score = rng.standard_normal(n_users)[user] + rng.standard_normal(len(user))
    tasks = np.empty(len(user), dtype=np.int64)
    tasks[np.argsort(score, kind="stable")] = _job_sizes(len(user))
    return tasks


def _draw_durations(tasks: IntArray, span: float, rng: np.random.Generator) -> FloatArray:
    """Draw the duration of each task: its job's, times a factor of its own; at most `span`."""
    of_job = rng.lognormal(*LOG_DURATION, size=len(tasks))
    factor = rng.lognormal(0.0, DURATION_WITHIN_JOB, size=int(tasks.sum()))
    duration: FloatArray = np.clip(np.repeat(of_job, tasks) * factor, SHORTEST, span)
    return duration


def _draw_demands(
    user: IntArray, n_users: int, cluster: Cluster, rng: np.random.Generator
) -> FloatArray:
    """Draw (J, 2) the demand of one task of each job.

    Demands are limited to the server with the largest minimum of CPU and memory.
    """
    spread = np.linalg.cholesky([[1, DEMAND_CORRELATION], [DEMAND_CORRELATION, 1]]).T
    of_user = rng.standard_normal((n_users, 2)) @ spread
    of_job = rng.standard_normal((len(user), 2)) @ spread
    standard = (of_user[user] + of_job) / np.sqrt(2)
    demand = np.exp(LOG_DEMAND_MEDIAN + LOG_DEMAND_DEVIATION * standard)
    roomiest = cluster.capacity[np.argmax(cluster.capacity.min(axis=1))]
    stepped = np.ceil(demand / DEMAND_STEP) * DEMAND_STEP
    limited: FloatArray = np.minimum(stepped, np.minimum(roomiest, LARGEST_DEMAND))
    return limited


def _compute_load(
    cluster: Cluster, demand: FloatArray, tasks: IntArray, duration: FloatArray, span: float
) -> float:
    """Return the demand of all tasks divided by the capacity, in the scarcest resource."""
    first_task = np.concatenate([[0], np.cumsum(tasks)[:-1]])  # of each job
    work = demand.T @ np.add.reduceat(duration, first_task)
    return float((work / (cluster.total_capacity * span)).max())


def draw_cluster(servers: int, rng: np.random.Generator) -> Cluster:
    """Draw servers at random from Table I; groups are in the order of the table."""
    _check_servers(servers)
    return _cluster_of_counts(rng.multinomial(servers, COUNTS / SERVERS))


def cluster_in_proportion(counts: IntArray, servers: int) -> Cluster:
    """Return a cluster of this many servers, in proportion to counts by row of Table I.

    The largest remainders round up.
    """
    _check_servers(servers)
    exact, total = counts * servers, counts.sum()
    divided: IntArray = exact // total
    missing = servers - divided.sum()
    divided[np.argsort(-(exact % total), kind="stable")[:missing]] += 1
    return _cluster_of_counts(divided)


def _check_servers(servers: int) -> None:
    if not 1 <= servers <= MOST_SERVERS:
        raise InputError(f"must be from 1 to {MOST_SERVERS:,}, not {show(servers)}", "servers")


def _cluster_of_counts(counts: IntArray) -> Cluster:
    kept = [(int(count), row) for count, row in zip(counts, TABLE_I, strict=True) if count]
    return Cluster(
        groups=tuple(f"cpu-{cpu:.2f}-memory-{memory:.2f}" for _, (_, cpu, memory) in kept),
        resources=RESOURCES,
        capacity=np.array([row[1:] for _, row in kept]),
        count=np.array([count for count, _ in kept], dtype=np.int64),
        units=UNITS,
        labels=({},) * len(kept),
    )
