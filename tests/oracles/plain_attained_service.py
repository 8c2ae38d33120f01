"""Least attained service by its definition, compared with the scheduler in random lives.

The policy is the example of docs/contributing/add-a-policy.md, so this runs in a process with it.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor
from random import Random

from fairlead.scheduler.scheduler import Scheduler
from scheduler.consistency import check

SERVERS = (3, 2)  # cpu, in the order of servers
WEIGHTS = {"ana": 1, "bo": 2, "cy": Fraction(1, 3), "last": 0}
SECONDS = (0.0, 0.25, 1 / 3, 1.0, 7.0)


Group = tuple[str, int]  # a queue, and the cpu of each task


def rank(queue: str, runs: list[tuple[Group, int, float]], now: float) -> tuple[bool, int]:
    """Return a queue's score, in units of 2**-64 task-seconds; weight 0 comes last."""
    own = [
        floor(now * 2**20) - floor(since * 2**20) for (name, _), _, since in runs if name == queue
    ]
    weight = WEIGHTS[queue]
    return weight == 0, floor(Fraction(sum(own), 2**20) / (weight or 1) * 2**64)


def live(seed: int) -> int:
    """Compare the scheduler with the definition in a random life; return the number of starts."""
    random, now, started = Random(seed), 0.0, 0
    waiting: list[Group] = []  # of each task, in order of submission
    running: dict[int, tuple[Group, int, float]] = {}  # the group, the server, and the start

    def next_start() -> tuple[Group, int] | None:
        runs = list(running.values())
        free = [cpu - sum(g[1] for g, on, _ in runs if on == s) for s, cpu in enumerate(SERVERS)]
        for queue in sorted(WEIGHTS, key=lambda queue: rank(queue, runs, now)):
            for group in waiting:
                for server, cpu in enumerate(free):
                    if group[0] == queue and group[1] <= cpu:
                        return group, server
        return None

    real = Scheduler(["cpu"], "las/first-fit")
    for server, cpu in enumerate(SERVERS):
        real.add_server(str(server), {"cpu": cpu})
    for queue, weight in WEIGHTS.items():
        real.add_queue(queue, weight)
    for _ in range(60):
        event = random.choice(["submit", "place", "place", "finish", "ask", "restore"])
        group = random.choice(list(WEIGHTS)), random.randint(1, 2)
        if event == "submit":
            real.submit(group[0], {"cpu": group[1]}, tasks := random.randint(1, 3), now=now)
            waiting += [group] * tasks
        elif event == "finish" and running:
            task = random.choice(list(running))
            real.finish(task)
            del running[task]
        elif event == "ask":
            with real.what_if():
                for task in list(running)[:1]:
                    real.finish(task)
                real.place(now + random.choice(SECONDS))
        elif event == "restore":
            real = Scheduler.restore(real.snapshot())
        elif event == "place":
            now += random.choice(SECONDS)
            for start in real.place(now):
                expected = next_start()
                assert expected is not None, f"seed {seed}: nothing has room for {start}"
                group, server = expected
                assert (start.queue, start.server) == (group[0], str(server)), f"seed {seed}"
                waiting.remove(group)
                running[start.task] = (group, server, now)
                started += 1
            assert next_start() is None, f"seed {seed}"
        check(real)
    return started


if __name__ == "__main__":
    started = sum(live(seed) for seed in range(15))
    assert started > 100, started
