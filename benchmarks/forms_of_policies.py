"""Measure the cost of features of queues and policies: microseconds of an event with each.

On a full cluster of servers with 8 GPUs, 4,000 tasks run and 2,000 wait, 40 of them for a whole
server. At each event one task ends, one is submitted, and tasks are placed. Settings take turns.

    python benchmarks/forms_of_policies.py [--servers 500] [--rounds 3]
"""

from __future__ import annotations

import argparse
from random import Random
from statistics import median
from time import process_time

from fairlead.scheduler.scheduler import Scheduler

QUEUES = 50
EVENTS = 1000
SETTINGS = (
    "plain",
    "limits",
    "quotas",
    "tree",
    "half-life:604800",
    "spare:gpu",
    "reserve",
    "reserve:10",
    "ps-dsf/rrr",
    "ps-dsf/rrr tree",
)


def full_cluster(setting: str, servers: int) -> tuple[Scheduler, list[int]]:
    """Return a full scheduler with a feature, and its running tasks."""
    suffix = f"/{setting}" if setting.partition(":")[0] in ("half-life", "spare", "reserve") else ""
    policy = "ps-dsf/rrr" if setting.startswith("ps-dsf/rrr") else f"drf/best-fit{suffix}"
    resources = ["cpu", "memory", "gpu"]
    has_tree = setting.endswith("tree")
    s = Scheduler(resources, policy, dict.fromkeys(resources, 1))
    random = Random(1)
    for k in range(servers):
        s.add_server(f"node{k}", {"cpu": 64, "memory": 512, "gpu": 8})
    for k in range(10 if has_tree else 0):
        s.add_queue(f"team{k}")
    for k in range(QUEUES):
        s.add_queue(f"queue{k}", parent=f"team{k % 10}" if has_tree else None)
        if setting == "limits":
            s.set_limit(f"queue{k}", {"gpu": servers})
        if setting == "quotas":
            s.set_quota(f"queue{k}", {"gpu": servers / 10})
    for k in range(12 * servers):
        demand = {"cpu": random.choice([4, 8]), "memory": 32, "gpu": 1}
        limit = random.choice([600, 3600, 86400])
        s.submit(f"queue{k % QUEUES}", demand, time_limit=limit, now=float(k))
    running = [start.task for start in s.place(12.0 * servers)]
    for k in range(20):
        whole = {"cpu": 64, "memory": 100, "gpu": 8}
        s.submit(f"queue{k}", whole, 2, time_limit=3600, now=12.0 * servers)
    s.place(12.0 * servers)
    return s, running


def seconds_of_events(s: Scheduler, running: list[int], servers: int) -> float:
    """Return the processor seconds of `EVENTS` events."""
    random = Random(2)
    began = process_time()
    for k in range(EVENTS):
        now = 12.0 * servers + k
        s.advance(now)
        s.finish(running.pop(random.randrange(len(running))))
        demand = {"cpu": 4, "memory": 32, "gpu": 1}
        s.submit(f"queue{k % QUEUES}", demand, time_limit=600, now=now)
        running += [start.task for start in s.place(now)]
    return process_time() - began


def main() -> None:
    """Print the time of an event with each feature, and its ratio to the plain policy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    times: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
    for _ in range(options.rounds):
        for setting in SETTINGS:
            s, running = full_cluster(setting, options.servers)
            times[setting].append(seconds_of_events(s, running, options.servers))
    plain = median(times["plain"])
    for setting, rows in times.items():
        micro = median(rows) / EVENTS * 1e6
        print(f"{setting:18} {micro:9,.0f} us an event {median(rows) / plain:7.1f} times")


if __name__ == "__main__":
    main()
