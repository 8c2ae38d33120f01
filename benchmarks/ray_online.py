"""The online experiment of Kesidis et al. (VI, and its companion study), on a Ray cluster.

    python benchmarks/ray_online.py --rounds 3

Users with Pi jobs, bound by processors, and users with word counts, bound by memory, share nodes of
two kinds. Each scheduler divides them in turn; what counts is the time until all is done. The same
tasks go through the simulator, too.

All nodes are on this machine, and say that they have more processors than it has. So a task
computes a part of Pi, or counts words, for some milliseconds, and then holds what it asked for until
its time is over, as on a node that has these processors. What is measured are decisions, and the way
of tasks through driver, dispatcher and nodes.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import mean
from typing import Annotated, Any, NamedTuple

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_num_workers_soft_limit", "64")  # else idle ones end between schedulers

import numpy as np
import ray
import typer
from ray.cluster_utils import Cluster
from rich.console import Console
from rich.progress import track
from rich.table import Table

import fairlead.ray
from fairlead import Problem
from fairlead.model.workload import Workload
from fairlead.ray.reach import stop
from fairlead.simulation.replay import replay

STORE, GIB = 80 * 2**20, 2**30
# As the servers and tasks of the paper's (19) and (20), by tenths and fifths: cores and GiB.
NODES = [(10.0, 3.0), (10.0, 3.0), (3.0, 10.0), (3.0, 10.0)]
DEMAND = {"pi": (1.0, 0.2), "words": (0.2, 1.0)}
SECONDS = 4.0  # of a task; refused offers are not made again for 5 s
VARIES = 0.1
SEEDS = 20  # of simulations under a random policy
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "online.png"
WORDS = ("fair", "share", "of", "every", "server", "and", "no", "less")


class Scheduler(NamedTuple):
    """A scheduler of the experiment, by the paper's name."""

    name: str
    policy: str
    mode: str = "characterised"


SCHEDULERS = [
    Scheduler("DRF", "drf/rrr"),
    Scheduler("TSF", "tsf/rrr"),
    Scheduler("BF-DRF", "drf/best-fit"),
    Scheduler("PS-DSF", "ps-dsf/rrr"),
    Scheduler("rPS-DSF", "ps-dsf/rrr/residual"),
    Scheduler("DRF", "drf/rrr/oblivious", "oblivious"),
    Scheduler("PS-DSF", "ps-dsf/rrr/oblivious", "oblivious"),
]


class Outcome(NamedTuple):
    """How long everything took, in seconds, and the parts of cores and memory that were held."""

    seconds: float
    cpu: float
    memory: float


def main(
    rounds: Annotated[int, typer.Option(help="How often each scheduler has its turn.")] = 3,
    users: Annotated[int, typer.Option(help="Of each kind.")] = 2,
    tasks: Annotated[int, typer.Option(help="Of each user.")] = 40,
    picture: Annotated[bool, typer.Option(help="Draw it for the docs.")] = False,
) -> None:
    """Run all schedulers in turn, and print how long they took."""
    workload = the_workload(users, tasks)
    cluster = start_cluster()
    took: dict[str, list[Outcome]] = {row.policy: [] for row in SCHEDULERS}
    run("drf/first-fit", workload, seconds=0.5)  # workers start
    turns = [row for _ in range(rounds) for row in SCHEDULERS]
    for row in track(turns, "schedulers", console=Console(stderr=True)):
        took[row.policy].append(run(row.policy, workload))
    ray.shutdown()
    cluster.shutdown()
    simulated = {row.policy: simulate(row.policy, workload) for row in SCHEDULERS}
    show(took, simulated)
    if picture:
        draw(took, simulated)


def the_workload(users: int, tasks: int) -> Workload:
    """Return everybody's tasks, all submitted at once."""
    names = [f"{kind}-{n}" for kind in DEMAND for n in range(users)]
    capacity = np.array(NODES)
    cluster = Problem.from_arrays(capacity, [DEMAND["pi"]]).cluster
    varied = np.random.default_rng(1).uniform(1 - VARIES, 1 + VARIES, len(names) * tasks)
    return Workload.from_arrays(
        cluster,
        names,
        job_user=np.arange(len(names)),
        job_submit=np.zeros(len(names)),
        set_job=np.arange(len(names)),
        set_tasks=np.full(len(names), tasks),
        shapes=[DEMAND[_kind(name)] for name in names],
        task_duration=SECONDS * varied,
    )


def start_cluster() -> Cluster:
    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for n, (cpu, memory) in enumerate(NODES):
        cluster.add_node(
            num_cpus=int(cpu),
            memory=int(memory * GIB),
            object_store_memory=STORE,
            node_name=f"server-{n}",
        )
    ray.init(address=cluster.address, logging_level="error", log_to_driver=False)
    return cluster


def run(policy: str, workload: Workload, seconds: float | None = None) -> Outcome:
    """Have all users' tasks run under a policy; with `seconds` each task lasts so long."""
    fairlead.ray.start(policy)
    fairs = {name: fairlead.ray.connect(name) for name in workload.users}
    durations = np.split(workload.task_duration, len(workload.users))
    spans: list[tuple[str, float, float]] = []

    def one(name: str, lasts: Any) -> None:
        kind = _kind(name)
        cpu, memory = DEMAND[kind]
        work = pi if kind == "pi" else words
        each = [(n, seconds or float(d)) for n, d in enumerate(lasts)]
        demand = {"cpu": cpu, "memory": memory}
        for begin, end in fairs[name].map(work, each, demand=demand):
            spans.append((kind, begin, end))

    threads = [
        threading.Thread(target=one, args=pair) for pair in zip(fairs, durations, strict=True)
    ]
    began = time.time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for fair in fairs.values():
        fair.close()
    stop()
    total = max(end for _, _, end in spans) - began
    held = [sum(DEMAND[kind][r] * (end - begin) for kind, begin, end in spans) for r in range(2)]
    there = np.sum(NODES, axis=0) * total
    return Outcome(total, *(held / there).tolist())


def _kind(name: str) -> str:
    return name.partition("-")[0]


def pi(given: tuple[int, float]) -> tuple[float, float]:
    """Compute a part of Pi from points in a square."""
    begin = time.time()
    points = np.random.default_rng(given[0]).random((50_000, 2))
    assert abs(4 * ((points**2).sum(axis=1) < 1).mean() - np.pi) < 0.1
    return hold(begin, given[1])


def words(given: tuple[int, float]) -> tuple[float, float]:
    """Count the words of a text that is made up."""
    begin = time.time()
    text = " ".join(np.random.default_rng(given[0]).choice(WORDS, 20_000))
    assert sum(Counter(text.split()).values()) == 20_000
    return hold(begin, given[1])


def hold(begin: float, seconds: float) -> tuple[float, float]:
    """Hold what was asked for until the time is over; return from when until when."""
    time.sleep(max(0.0, begin + seconds - time.time()))
    return begin, time.time()


def simulate(policy: str, workload: Workload) -> list[Outcome]:
    """Return what the simulator says, for several seeds where the policy is random."""
    outcomes = []
    for seed in range(SEEDS if "/rrr" in policy else 1):
        log = replay(workload, policy, seed=seed)
        total = float(log.end.max())
        shape = workload.shapes[np.repeat(workload.set_shape, workload.set_tasks)]
        held = workload.task_duration @ shape / (np.sum(NODES, axis=0) * total)
        outcomes.append(Outcome(total, *held.tolist()))
    return outcomes


def show(took: dict[str, list[Outcome]], simulated: dict[str, list[Outcome]]) -> None:
    """Print a table, least time first."""
    table = Table("scheduler", "mode", "policy", title="Time until all is done, s")
    told = ("simulated", "least to most", "Ray/sim.")
    for name in ("on Ray", "least to most", "cores", "memory", *told):
        table.add_column(name, justify="right")
    for row in sorted(SCHEDULERS, key=lambda row: mean(o.seconds for o in took[row.policy])):
        real = took[row.policy]
        totals = [o.seconds for o in real]
        expected = [o.seconds for o in simulated[row.policy]]
        table.add_row(
            *(row.name, row.mode, row.policy, f"{mean(totals):.1f}"),
            f"{min(totals):.1f} to {max(totals):.1f}",
            f"{mean(o.cpu for o in real):.0%}",
            f"{mean(o.memory for o in real):.0%}",
            f"{mean(expected):.1f}",
            f"{min(expected):.1f} to {max(expected):.1f}",
            f"{mean(totals) / mean(expected):.2f}",
        )
    Console(width=130).print(table)


def draw(took: dict[str, list[Outcome]], simulated: dict[str, list[Outcome]]) -> None:
    """Draw a line of each scheduler: every round, and from where to where the simulator goes."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
    rows = sorted(SCHEDULERS, key=lambda row: -mean(o.seconds for o in took[row.policy]))
    for y, row in enumerate(rows):
        expected = [o.seconds for o in simulated[row.policy]]
        axes.plot([min(expected), max(expected)], [y, y], color="#bbbbbb", lw=6, zorder=1)
        axes.plot([mean(expected)], [y], "|", color="#777777", ms=14, zorder=2)
        real = [o.seconds for o in took[row.policy]]
        axes.plot(real, [y] * len(real), "o", color="#1f6fb4", zorder=3)
    axes.plot([], [], "o", color="#1f6fb4", label="on Ray, each round")
    axes.plot([], [], color="#bbbbbb", lw=6, label="simulated, least to most, and mean")
    axes.set_yticks(range(len(rows)), [f"{row.name}, {row.mode}" for row in rows])
    axes.set_xlabel("seconds until all is done")
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower left")
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    typer.run(main)
