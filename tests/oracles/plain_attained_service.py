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


class Plain:
    """Places tasks by sums that are computed anew for each placement."""

    def __init__(self) -> None:
        self.weight = dict(WEIGHTS)
        self.waiting: list[list[object]] = []  # queue, cpu, tasks; in order of submission
        self.running: dict[int, tuple[str, int, int, float]] = {}  # queue, cpu, server, since

    def rank(self, queue: str, now: float) -> tuple[bool, int]:
        """Return a queue's score, in units of 2**-64 task-seconds; weight 0 comes last."""
        runs = [
            floor(now * 2**20) - floor(t[3] * 2**20) for t in self.running.values() if t[0] == queue
        ]
        weight = self.weight[queue]
        return (weight == 0, floor(Fraction(sum(runs), 2**20) / (weight or 1) * 2**64))

    def next_start(self, now: float) -> tuple[list[object], int] | None:
        for queue in sorted(WEIGHTS, key=lambda queue: self.rank(queue, now)):
            for group in self.waiting:
                for server, cpu in enumerate(SERVERS):
                    used = sum(t[1] for t in self.running.values() if t[2] == server)
                    if group[0] == queue and group[2] and used + group[1] <= cpu:
                        return group, server
        return None


def live(seed: int) -> int:
    """Compare both in a random life; return the number of started tasks."""
    random, plain, now, started = Random(seed), Plain(), 0.0, 0
    real = Scheduler(["cpu"], "las/first-fit")
    for server, cpu in enumerate(SERVERS):
        real.add_server(str(server), {"cpu": cpu})
    for queue, weight in WEIGHTS.items():
        real.add_queue(queue, weight)
    for _ in range(60):
        event = random.choice(["submit", "place", "place", "finish", "weigh", "ask", "restore"])
        queue = random.choice(list(WEIGHTS))
        if event == "submit":
            cpu, tasks = random.randint(1, 2), random.randint(1, 3)
            real.submit(queue, {"cpu": cpu}, tasks, now=now)
            plain.waiting.append([queue, cpu, tasks])
        elif event == "finish" and plain.running:
            task = random.choice(list(plain.running))
            real.finish(task)
            del plain.running[task]
        elif event == "weigh":
            plain.weight[queue] = random.choice([0, 1, 2, 0.7])
            real.set_weight(queue, plain.weight[queue])
            plain.weight[queue] = Fraction(str(plain.weight[queue]))
        elif event == "ask":
            with real.what_if():
                for task in list(plain.running)[:1]:
                    real.finish(task)
                real.submit(queue, {"cpu": 1}, now=now)
                real.place(now + random.choice(SECONDS))
        elif event == "restore":
            real = Scheduler.restore(real.snapshot())
        elif event == "place":
            now += random.choice(SECONDS)
            for start in real.place(now):
                expected = plain.next_start(now)
                assert expected is not None, f"seed {seed}: nothing has room for {start}"
                group, server = expected
                assert (start.queue, start.server) == (group[0], str(server)), f"seed {seed}"
                group[2] -= 1
                plain.running[start.task] = (start.queue, group[1], server, now)
                started += 1
            assert plain.next_start(now) is None, f"seed {seed}"
        check(real)
    return started


if __name__ == "__main__":
    started = sum(live(seed) for seed in range(15))
    assert started > 100, started
