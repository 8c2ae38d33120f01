"""Measure the rate of tiny tasks of ten users on four Ray nodes, by fairlead and by bare Ray.

    python benchmarks/ray_load.py --tasks 4000

Methods take turns on one cluster, on this machine. `bare` submits tasks pinned to nodes in turn, as
fast as Ray takes them; `one by one` uses `remote` of ten users, `map` uses their `map`. Prints also
the processor time of the dispatcher.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from typing import Annotated, Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
import typer
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import fairlead.ray
from fairlead.ray.connection import answer_of, running_dispatcher

STORE = 80 * 2**20


def tiny(x: int) -> int:
    return x


def main(
    tasks: Annotated[int, typer.Option(help="Tasks of all users together.")] = 4000,
    users: int = 10,
    nodes: int = 4,
    cpus: Annotated[int, typer.Option(help="Cores of a node.")] = 2,
    rounds: int = 3,
) -> None:
    """Run the methods in turn, and print medians."""
    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for n in range(nodes):
        cluster.add_node(num_cpus=cpus, object_store_memory=STORE, node_name=f"n{n}")
    ray.init(address=cluster.address, logging_level="error", log_to_driver=False)
    fairs = [fairlead.ray.connect(f"user-{n}") for n in range(users)]
    methods = {"bare": bare, "one by one": one_by_one, "map": by_map}
    took: dict[str, list[float]] = {name: [] for name in methods}
    used: dict[str, list[float]] = {name: [] for name in methods}
    for submit in methods.values():  # warms up
        submit(fairs, max(users, tasks // 20))
    for _ in range(rounds):
        for name, submit in methods.items():
            cpu, began = _cpu(), time.perf_counter()
            submit(fairs, tasks)
            seconds = time.perf_counter() - began
            took[name].append(tasks / seconds)
            used[name].append((_cpu() - cpu) / seconds)
    base = statistics.median(took["bare"])
    for name in methods:
        rate = statistics.median(took[name])
        print(
            f"{name}: {rate:,.0f} tasks a second, {rate / base:.2f} of bare; "
            f"the dispatcher takes {statistics.median(used[name]):.2f} of a core"
        )
    ray.shutdown()
    cluster.shutdown()


def bare(_: Any, tasks: int) -> None:
    """Run tasks by Ray alone, pinned to nodes in turn."""
    ids = [node["NodeID"] for node in ray.nodes() if node["Resources"].get("CPU")]
    call = ray.remote(tiny)
    pinned = [
        call.options(
            num_cpus=1,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(i, soft=False),
        )
        for i in ids
    ]
    ray.get([pinned[n % len(ids)].remote(n) for n in range(tasks)])


def one_by_one(fairs: list[Any], tasks: int) -> None:
    """Run tasks by the users' `remote`, in turn."""
    calls = [fair.remote(cpu=1)(tiny) for fair in fairs]
    refs = [calls[n % len(calls)].remote(n) for n in range(tasks)]
    assert ray.get(refs) == list(range(tasks))


def by_map(fairs: list[Any], tasks: int) -> None:
    """Run tasks by the users' `map`, in parallel."""
    each = tasks // len(fairs)

    def one(fair: Any) -> None:
        assert list(fair.map(tiny, range(each))) == list(range(each))

    threads = [threading.Thread(target=one, args=(fair,)) for fair in fairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _cpu() -> float:
    """Return the processor seconds of the dispatcher."""
    return float(answer_of(running_dispatcher().state.remote(), 60)["cpu_seconds"])


if __name__ == "__main__":
    typer.run(main)
