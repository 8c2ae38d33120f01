"""Run the online experiment of Kesidis et al. (VI, and its companion study) on a Ray cluster.

    python benchmarks/ray_online.py --rounds 3

Users with Pi jobs, bound by processors, and users with word counts, bound by memory, share nodes of
two kinds. Schedulers take turns; the measure is the time until all tasks are done. All users are
present at the start: placement groups hold all nodes until all users have submitted. The simulator
runs the same tasks.

All nodes are on this machine, and declare more processors than it has. So a task computes digits of
Pi, or counts words, for some milliseconds, and then holds its resources until its time is over, as
on a node with these processors. The figures measure decisions, and the way of tasks through driver,
dispatcher and nodes.
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
os.environ.setdefault(
    "RAY_num_workers_soft_limit", "64"
)  # else idle workers end between schedulers

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
from fairlead.ray.connection import stop
from fairlead.simulation.replay import replay

STORE, GIB = 80 * 2**20, 2**30
# Cores and GiB: the servers of the paper's (19) and (20) over 10, and the tasks over 5.
NODES = [(10.0, 3.0), (10.0, 3.0), (3.0, 10.0), (3.0, 10.0)]
DEMAND = {"pi": (1.0, 0.2), "words": (0.2, 1.0)}
SECONDS = 4.0  # of a task
VARIATION = 0.1  # of the seconds, relative
SEEDS = 20  # of simulations under a random policy
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "online.png"
WORDS = ("fair", "share", "of", "every", "server", "and", "no", "less")


class PrintedScheduler(NamedTuple):
    """A scheduler of the experiment, by the paper's name."""

    name: str
    policy: str
    mode: str = "characterised"


SCHEDULERS = [
    PrintedScheduler("DRF", "drf/rrr"),
    PrintedScheduler("TSF", "tsf/rrr"),
    PrintedScheduler("BF-DRF", "drf/best-fit"),
    PrintedScheduler("PS-DSF", "ps-dsf/rrr"),
    PrintedScheduler("rPS-DSF", "ps-dsf/rrr/residual"),
    PrintedScheduler("DRF", "drf/rrr/oblivious", "oblivious"),
    PrintedScheduler("PS-DSF", "ps-dsf/rrr/oblivious", "oblivious"),
]


class Outcome(NamedTuple):
    """The result of a run."""

    seconds: float  # until all tasks were done
    cpu: float  # mean fraction of the cores that tasks held
    memory: float


Outcomes = dict[str, list[Outcome]]  # by policy


def main(
    rounds: Annotated[int, typer.Option(help="How often each scheduler runs.")] = 3,
    users: Annotated[
        int, typer.Option(help="Users with Pi jobs, and as many with word counts.")
    ] = 2,
    tasks: Annotated[int, typer.Option(help="Tasks of each user.")] = 40,
    picture: Annotated[bool, typer.Option(help="Draw the picture of the docs.")] = False,
) -> None:
    """Run all schedulers in turn, and print the times until all tasks were done."""
    names = [f"{kind}-{n}" for kind in DEMAND for n in range(users)]
    random = np.random.default_rng(1)
    lasts = SECONDS * random.uniform(1 - VARIATION, 1 + VARIATION, (len(names), tasks))
    cluster = start_cluster()
    run("drf/first-fit", 0, names, np.full_like(lasts, 0.5))  # workers start
    took: Outcomes = {row.policy: [] for row in SCHEDULERS}
    simulated: Outcomes = {row.policy: [] for row in SCHEDULERS}
    turns = [(n, row) for n in range(rounds) for row in SCHEDULERS]
    for n, row in track(turns, "schedulers", console=Console(stderr=True)):
        order = np.roll(
            np.arange(len(names)), n
        )  # of users with equal shares the first is served first
        given = [names[k] for k in order], lasts[order]
        took[row.policy].append(run(row.policy, n, *given))
        simulated[row.policy] += simulate(row.policy, *given)
    ray.shutdown()
    cluster.shutdown()
    show(took, simulated)
    if picture:
        draw(took, simulated)


def start_cluster() -> Cluster:
    """Start a head without resources for tasks, and the nodes."""
    head = {"num_cpus": 0, "memory": 1, "object_store_memory": STORE, "include_dashboard": False}
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


def run(policy: str, seed: int, names: list[str], lasts: Any) -> Outcome:
    """Run tasks of these lengths for all users; again, if nodes were not all freed at once."""
    outcome = None
    while outcome is None:
        outcome = run_once(policy, seed, names, lasts)
    return outcome


def run_once(policy: str, seed: int, names: list[str], lasts: Any) -> Outcome | None:
    """Run the tasks once; return None if the placement groups did not end together."""
    fairlead.ray.start(policy, seed=seed)
    keeper = fairlead.ray.connect("keeper")
    gates = [
        keeper.placement_group([{"cpu": cpu, "memory": memory}], where=[f"server-{n}"])
        for n, (cpu, memory) in enumerate(NODES)
    ]
    fairs = {name: fairlead.ray.connect(name) for name in names}
    spans: list[tuple[str, float, float]] = []

    def one(name: str, seconds: Any) -> None:
        kind = _kind(name)
        cpu, memory = DEMAND[kind]
        work = pi if kind == "pi" else words
        each = list(enumerate(seconds.tolist()))
        demand = {"cpu": cpu, "memory": memory}
        for begin, end in fairs[name].map(work, each, demand=demand):
            spans.append((kind, begin, end))

    threads = [threading.Thread(target=one, args=pair) for pair in zip(names, lasts, strict=True)]
    for thread in threads:
        thread.start()
        time.sleep(0.1)  # in this order
    while sum(job["tasks"] for fair in fairs.values() for job in fair.jobs()) < lasts.size:
        time.sleep(0.1)
    for gate in gates:
        ray.util.remove_placement_group(gate)
    for thread in threads:
        thread.join()
    opened = {job.ended for job in keeper.client.jobs("keeper", is_all=True)[: len(NODES)]}
    for fair in (keeper, *fairs.values()):
        fair.close()
    stop()
    if len(opened) > 1:
        return None
    total = max(end for _, _, end in spans) - min(begin for _, begin, _ in spans)
    held = [sum(DEMAND[kind][r] * (end - begin) for kind, begin, end in spans) for r in range(2)]
    capacity = np.sum(NODES, axis=0) * total
    return Outcome(total, *(held / capacity).tolist())


def _kind(name: str) -> str:
    return name.partition("-")[0]


def pi(given: tuple[int, float]) -> tuple[float, float]:
    """Estimate Pi from random points in a square; return the start and the end."""
    begin = time.time()
    points = np.random.default_rng(given[0]).random((50_000, 2))
    assert abs(4 * ((points**2).sum(axis=1) < 1).mean() - np.pi) < 0.1
    return hold(begin, given[1])


def words(given: tuple[int, float]) -> tuple[float, float]:
    """Count the words of a random text; return the start and the end."""
    begin = time.time()
    text = " ".join(np.random.default_rng(given[0]).choice(WORDS, 20_000))
    assert sum(Counter(text.split()).values()) == 20_000
    return hold(begin, given[1])


def hold(begin: float, seconds: float) -> tuple[float, float]:
    """Sleep until `seconds` after the start `begin`; return the start and the end."""
    time.sleep(max(0.0, begin + seconds - time.time()))
    return begin, time.time()


def simulate(policy: str, names: list[str], lasts: Any) -> list[Outcome]:
    """Simulate the tasks; for several seeds if the policy is random."""
    shapes = [DEMAND[_kind(name)] for name in names]
    workload = Workload.from_arrays(
        Problem.from_arrays(NODES, shapes[:1]).cluster,
        names,
        job_user=np.arange(len(names)),
        job_submit=np.zeros(len(names)),
        set_job=np.arange(len(names)),
        set_tasks=np.full(len(names), lasts.shape[1]),
        shapes=shapes,
        task_duration=lasts.ravel(),
    )
    held = np.repeat(shapes, lasts.shape[1], axis=0).T @ workload.task_duration
    outcomes = []
    for seed in range(SEEDS if "/rrr" in policy else 1):
        total = float(replay(workload, policy, seed=seed).end.max())
        outcomes.append(Outcome(total, *(held / np.sum(NODES, axis=0) / total).tolist()))
    return outcomes


def show(took: Outcomes, simulated: Outcomes) -> None:
    """Print a table, shortest time first."""
    table = Table("scheduler", "policy", title="Seconds until all tasks are done")
    table.columns[1].no_wrap = True
    columns = ("on Ray", "range", "cores", "memory", "simulated", "range", "Ray/sim.")
    for name in columns:
        table.add_column(name, justify="right")
    for row in sorted(SCHEDULERS, key=lambda row: mean(o.seconds for o in took[row.policy])):
        real = took[row.policy]
        totals = [o.seconds for o in real]
        expected = [o.seconds for o in simulated[row.policy]]
        table.add_row(
            *(_said(row), row.policy, f"{mean(totals):.1f}"),
            f"{min(totals):.1f} to {max(totals):.1f}",
            f"{mean(o.cpu for o in real):.0%}",
            f"{mean(o.memory for o in real):.0%}",
            f"{mean(expected):.1f}",
            f"{min(expected):.1f} to {max(expected):.1f}",
            f"{mean(totals) / mean(expected):.2f}",
        )
    Console(width=130).print(table)


def _said(row: PrintedScheduler) -> str:
    return row.name if row.mode == "characterised" else f"{row.name}, {row.mode}"


def draw(took: Outcomes, simulated: Outcomes) -> None:
    """Draw a line for each scheduler: its rounds, and the range of its simulations."""
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
    axes.set_yticks(range(len(rows)), [_said(row) for row in rows])
    axes.set_xlabel("seconds until all is done")
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    typer.run(main)
