"""A day like one of Google's cluster of 2011, and the scripted minutes of a published figure.

Sources of each distribution. *Measured*: on the first 40 of 500 parts of the trace's table of job
events (clusterdata-2011-2; 55.7 hours, 50,057 jobs submitted by 251 users), which the project has.
*Published*: by the paper named. *Chosen*: no number was found that could be checked.

- Servers, published: Wang, Liang and Li 2014, Table I (`fairlead.traces.google_park`).
- Arrivals, measured: 903 jobs an hour, with a daily wave of 9 % that is highest 21 hours after the
  start, and bursts: the variance of the jobs in 5 minutes is 9 times their mean, here a gamma
  distributed rate with a coefficient of variation of 0.33. Given the number of jobs, their times
  follow that rate.
- Users, measured: the user of rank r submits in proportion to (r + 20)^-3, the likeliest
  Zipf-Mandelbrot law (the first of 250 submits 9 % of the jobs; of the trace's, 12 %).
- Tasks of a job: "over 25 million tasks" in 29 days (published: Di, Kondo and Cirne,
  "Characterization and comparison of cloud versus grid workloads", CLUSTER 2012) are some 40 for
  each of the jobs that the measured rate gives. Chosen: a Pareto law cut at 10,000 with exponent
  0.68, whose mean is 38; 38 % of the jobs have one task, 7 % more than 50, 0.7 % more than 1,000.
  Chosen: the owners of the large ones, half by chance of the user and half by chance of the job
  (see *chosen by results*).
- Durations, measured: the run time of jobs has logarithms of mean 5.43 and standard deviation 1.76
  (a median of 228 s; an eighth is longer than half an hour). Chosen: the tasks of one job differ
  by a factor of log-normal 0.3; none is longer than the day, before they are scaled to the load.
- Demands, chosen: log-normal with medians 0.030 CPU and 0.018 memory of the largest server and
  standard deviations 0.5 and 0.6 of the logarithms, half of the variance between users and half
  between jobs of one user, with correlation 0.5 of CPU and memory; rounded up to a 32nd and a
  128th, at most 0.5. Their means are 0.048 and 0.025. That demands and durations vary widely is
  published: Reiss et al., "Heterogeneity and dynamicity of clouds at scale", SoCC 2012.
- Load, chosen: the demand of all tasks over the day equals the capacity of the scarcer resource.
  Wang, Liang and Li put the demand of 12,000 servers on 2,000 "so that fairness becomes relevant".

*Chosen by results*: three choices make days resemble the evaluation of Wang, Liang and Li, which is
therefore no independent evidence for them. (1) CPU in steps of a 32nd, and deviations of 0.5 and
0.6: with steps of a 160th, or with wide deviations, ever smaller slots use ever more, while their
Table II has a best size of 14 or 16; many tasks of a 16th, which need two slots of a 20th, bring
that about. (2) Job sizes that differ between users: where all users have equally large jobs, small
ones wait behind large ones of the same user, and jobs of 1 to 50 tasks gain 29 % from Best-Fit over
slots; this way 4 %, and their Fig. 6b says nothing. (3) The load: with 0.8, Best-Fit has room for
nearly everything at once.
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
from fairlead.traces.google_park import draw_park, figure_4_park, scale_park

SECONDS_PER_HOUR = 3600.0
DAILY_WAVE, HOUR_OF_PEAK = 0.09, 21.0
BURST_SECONDS, BURST_SHAPE = 300.0, 9.4
RANK_EXPONENT, RANK_SHIFT = 3.0, 20.0
TASKS_EXPONENT, MOST_TASKS = 0.68, 10_000
LOG_DURATION = (5.43, 1.76)
DURATION_WITHIN_JOB, SHORTEST = 0.3, 1.0
LOG_DEMAND_MEDIAN = np.log([0.030, 0.018])
LOG_DEMAND_DEVIATION = np.array([0.5, 0.6])
DEMAND_CORRELATION = 0.5
DEMAND_STEP = np.array([1 / 32, 1 / 128])
LARGEST_DEMAND = 0.5
DEFAULT_LOAD = 1.0
# More would not fit into memory as arrays of tasks.
MOST_JOBS = 5_000_000


class Arrivals(NamedTuple):
    """Submissions of jobs: (J,) times, seconds from the start, ascending, and (J,) users' names."""

    times: FloatArray
    users: NDArray[np.str_]
    notes: Mapping[str, int] = MappingProxyType({})  # counts of left out or filled in records


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
    """Generate a workload like that of Google's cluster; the module names all sources.

    Parameters
    ----------
    servers : int
        Servers drawn from Table I.
    users : int
        Users, when no arrivals are given.
    jobs : int, optional
        Number of jobs. When absent: enough to reach the load, or all given arrivals.
    load : float, optional
        Demand of all tasks (amount times duration, summed) over the capacity in those hours, in the
        scarcest resource. Durations are scaled to meet it. When absent: 1.0 without `jobs`, and not
        scaled with `jobs` or arrivals.
    hours : float
        Over which jobs are submitted.
    seed : int
        The same arguments give the same workload.
    exact : bool
        Take servers in the proportions of Table I instead of drawing them (12,583 are the table).
    arrivals : Arrivals, optional
        Real submissions (`fairlead.traces.logs.google.read_job_arrivals`): those of the first
        hours, or a random sample of `jobs` of them.

    Returns
    -------
    Workload
        Users in order of their rank, or of their first job; jobs ``job-0``, ``job-1``, ...

    Raises
    ------
    InputError
        When a number is out of range, or the arrivals are fewer than the jobs asked for.

    Notes
    -----
    Cost O(T); 0.3 s for a million tasks.
    """
    _check(users, jobs, load, hours, seed)
    rng = np.random.default_rng(seed)
    cluster = scale_park(servers) if exact else draw_park(servers, rng)
    span = hours * SECONDS_PER_HOUR
    if arrivals is None:
        target = DEFAULT_LOAD if load is None and jobs is None else load
        n_jobs = jobs if jobs is not None else _jobs_for(target or DEFAULT_LOAD, cluster, span)
        _check(users, n_jobs, load, hours, seed)
        submit = _arrival_times(n_jobs, span, rng)
        names, user = [f"user-{n + 1}" for n in range(users)], _users(n_jobs, users, rng)
    else:
        target = load
        submit, names, user = _of_arrivals(arrivals, jobs, span, rng)
    demand = _demands(user, len(names), cluster, rng)
    tasks = _tasks_per_job(user, len(names), rng)
    duration = _durations(tasks, span, rng)
    if target is not None:
        duration *= target / _load(cluster, demand, tasks, duration, span)
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


def _check(users: int, jobs: int | None, load: float | None, hours: float, seed: int) -> None:
    # A user without a job is none.
    for name, number in (("users", users), ("jobs", jobs)):
        if number is not None and not 1 <= number <= MOST_JOBS:
            raise InputError(f"must be from 1 to {MOST_JOBS:,}, not {show(number)}", name)
    for name, amount, least, example in (("load", load, 1e-6, "0.8"), ("hours", hours, 1e-3, "24")):
        if amount is not None and not least <= amount <= 1e6:
            fault = f"must be a positive number such as {example}, not {amount}"
            raise InputError(fault, name)
    whole_number(seed, "seed")


def _jobs_for(load: float, cluster: Cluster, span: float) -> int:
    """Return the number of jobs whose mean work brings the load."""
    tasks = float(_sizes(100_000).mean())
    duration = float(np.exp(LOG_DURATION[0] + (LOG_DURATION[1] ** 2 + DURATION_WITHIN_JOB**2) / 2))
    demand = np.exp(LOG_DEMAND_MEDIAN + LOG_DEMAND_DEVIATION**2 / 2) + DEMAND_STEP / 2
    work = tasks * duration * (demand / cluster.total_capacity).max()
    return max(1, round(load * span / float(work)))


def _arrival_times(n_jobs: int, span: float, rng: np.random.Generator) -> FloatArray:
    """Draw times whose rate has the daily wave and the bursts."""
    edges = np.append(np.arange(0, span, BURST_SECONDS), span)
    hour = (edges[:-1] + edges[1:]) / 2 / SECONDS_PER_HOUR
    wave = 1 + DAILY_WAVE * np.cos(2 * np.pi * (hour - HOUR_OF_PEAK) / 24)
    rate = wave * rng.gamma(BURST_SHAPE, size=len(hour)) * np.diff(edges)
    jobs_until = np.concatenate([[0.0], np.cumsum(rate)])
    drawn = np.sort(rng.random(n_jobs)) * jobs_until[-1]
    times: FloatArray = np.interp(drawn, jobs_until, edges)
    return times


def _users(n_jobs: int, users: int, rng: np.random.Generator) -> IntArray:
    """Draw the user of each job; every user submits one if there are enough."""
    share = (np.arange(1, users + 1) + RANK_SHIFT) ** -RANK_EXPONENT
    drawn = rng.choice(users, size=n_jobs, p=share / share.sum())
    if n_jobs >= 2 * users:
        drawn[rng.choice(n_jobs, size=users, replace=False)] = np.arange(users)
    return drawn.astype(np.int64)


def _of_arrivals(
    arrivals: Arrivals, jobs: int | None, span: float, rng: np.random.Generator
) -> tuple[FloatArray, list[str], IntArray]:
    """Return times, names of users and each job's user of the real submissions."""
    within = np.flatnonzero(arrivals.times < span)
    wanted = len(within) if jobs is None else jobs
    if not len(within) or wanted > len(within):
        fault = f"the arrivals hold {len(within):,} in {span / SECONDS_PER_HOUR:g} hours"
        raise InputError(f"{fault}, not {wanted:,}" if len(within) else fault, "jobs")
    if wanted < len(within):
        within = np.sort(rng.choice(within, size=wanted, replace=False))
    names, first, user = np.unique(arrivals.users[within], return_index=True, return_inverse=True)
    order = np.argsort(first)
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    return arrivals.times[within], names[order].tolist(), position[user]


def _sizes(n_jobs: int) -> IntArray:
    """Return numbers of tasks at even steps of the distribution, ascending.

    Not drawn, since chance in the few largest jobs would decide the load of the day; every size
    class of the paper's Fig. 6 is met from 200 jobs on.
    """
    quantile = (np.arange(n_jobs) + 0.5) / n_jobs
    cut = 1 - float(MOST_TASKS) ** -TASKS_EXPONENT
    sizes: IntArray = np.floor((1 - quantile * cut) ** (-1 / TASKS_EXPONENT)).astype(np.int64)
    return sizes


def _tasks_per_job(user: IntArray, n_users: int, rng: np.random.Generator) -> IntArray:
    """Assign the sizes to jobs, larger ones to users with a tendency for them."""
    tendency = rng.standard_normal(n_users)[user] + rng.standard_normal(len(user))
    tasks = np.empty(len(user), dtype=np.int64)
    tasks[np.argsort(tendency, kind="stable")] = _sizes(len(user))
    return tasks


def _durations(tasks: IntArray, span: float, rng: np.random.Generator) -> FloatArray:
    of_job = rng.lognormal(*LOG_DURATION, size=len(tasks))
    within = rng.lognormal(0.0, DURATION_WITHIN_JOB, size=int(tasks.sum()))
    duration: FloatArray = np.clip(np.repeat(of_job, tasks) * within, SHORTEST, span)
    return duration


def _demands(
    user: IntArray, n_users: int, cluster: Cluster, rng: np.random.Generator
) -> FloatArray:
    """Draw the demand of a task of each job, (J, 2), at most that of the roomiest server."""
    spread = np.linalg.cholesky([[1, DEMAND_CORRELATION], [DEMAND_CORRELATION, 1]]).T
    of_user = rng.standard_normal((n_users, 2)) @ spread
    of_job = rng.standard_normal((len(user), 2)) @ spread
    standard = (of_user[user] + of_job) / np.sqrt(2)
    demand = np.exp(LOG_DEMAND_MEDIAN + LOG_DEMAND_DEVIATION * standard)
    roomiest = cluster.capacity[np.argmax(cluster.capacity.min(axis=1))]
    stepped = np.ceil(demand / DEMAND_STEP) * DEMAND_STEP
    limited: FloatArray = np.minimum(stepped, np.minimum(roomiest, LARGEST_DEMAND))
    return limited


def _load(
    cluster: Cluster, demand: FloatArray, tasks: IntArray, duration: FloatArray, span: float
) -> float:
    """Return demand over capacity in the scarcest resource."""
    starts = np.concatenate([[0], np.cumsum(tasks)[:-1]])
    work = demand.T @ np.add.reduceat(duration, starts)
    return float((work / (cluster.total_capacity * span)).max())


# CPU and memory of one task of each user of Fig. 4, and its arrival.
FIGURE_4_USERS = ((0.2, 0.3, 0.0), (0.5, 0.1, 200.0), (0.1, 0.3, 500.0))
FIGURE_4_LEAVES, FIGURE_4_ENDS = 1080.0, 1500.0
FIGURE_4_DURATION = (10.0, 50.0)
_FIGURE_4_TASKS = 12_000


def figure_4(seed: int = 0, servers: int = 100) -> Workload:
    """Return the script of Fig. 4: three users who come and go, on 100 servers or others alike.

    The servers are `fairlead.traces.google_park.figure_4_park`; the seed is that of the durations.
    User 1 comes at 0 s, user 2 at 200 s, user 3 at 500 s; user 1 leaves at 1080 s, the others at
    1500 s. A user is one job of more tasks than can run until it leaves; leaving withdraws its
    waiting tasks and lets running ones end. The paper does not state durations: here evenly
    distributed from 10 to 50 s, so that after a change of users the shares settle within 50 s.

    Source: Wang, Liang and Li 2014, Section VI and Fig. 4.
    """
    rng = np.random.default_rng(seed)
    n_users = len(FIGURE_4_USERS)
    tasks = -(-_FIGURE_4_TASKS * servers // 100)
    return Workload.from_arrays(
        figure_4_park(servers),
        [f"user-{n + 1}" for n in range(n_users)],
        job_names=[f"job of user-{n + 1}" for n in range(n_users)],
        job_user=np.arange(n_users),
        job_submit=[submit for _, _, submit in FIGURE_4_USERS],
        job_cancel=[FIGURE_4_LEAVES] + [FIGURE_4_ENDS] * (n_users - 1),
        set_job=np.arange(n_users),
        set_tasks=np.full(n_users, tasks),
        shapes=[(cpu, memory) for cpu, memory, _ in FIGURE_4_USERS],
        task_duration=rng.uniform(*FIGURE_4_DURATION, size=n_users * tasks),
        origin=f"script of Fig. 4 of Wang, Liang and Li 2014, seed {seed}",
    )
