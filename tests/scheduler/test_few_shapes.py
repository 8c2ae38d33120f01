"""Random lives where many groups are alike, so that what is known of one is used for others."""

from __future__ import annotations

import pytest

from effort import cases
from scheduler.beside_plain import Both
from scheduler.random_life import RESOURCES, RandomLife
from scheduler.test_events import POLICIES


class FewShapes(RandomLife):
    """Demands of three shapes, more groups, and gangs of all sizes."""

    def amounts(self, largest: float) -> dict[str, float]:
        """Return whole amounts."""
        if largest > 3:  # of a server
            return {r: self.random.choice([2, 4, 6]) for r in RESOURCES}
        return dict(zip(RESOURCES, self.random.choice([(1, 1), (2, 1), (1, 0)]), strict=True))

    def on_submit_alike(self) -> None:
        """Submit a gang of alike tasks."""
        self.groups.append(
            self.s.submit(
                self.name("npq"),
                self.amounts(2),
                self.random.choice([1, 2, 3, 4, 6, 9, 20]),
                gang=True,
                time_limit=self.random.choice([None, 1, 2, 4]),
                now=self.clock,
            )
        )


@pytest.mark.parametrize("policy", POLICIES)
def test_lives_of_few_shapes_are_as_defined(policy: str) -> None:
    placed, lives = 0, cases(10)
    for seed in range(lives):
        life = FewShapes(Both(RESOURCES, policy, strict_fifo=seed % 2 == 0), seed)
        for _ in range(100):
            life.tell()
        placed += len(life.tasks)
    assert placed > 6 * lives


@pytest.mark.parametrize("policy", ["drf/first-fit", "drf/rrr", "fifo/best-fit", "easy/first-fit"])
def test_a_queue_of_many_shapes_is_as_defined(policy: str) -> None:
    s = Both(RESOURCES, policy)
    s.add_queue("ana")
    s.add_server("a", dict.fromkeys(RESOURCES, 60))
    placed = 0
    for turn in range(3):
        groups = []
        for k in range(80):
            amounts = 1 + (turn * k) % 23, 1 + (turn * k * k) % 19
            groups.append(s.submit("ana", dict(zip(RESOURCES, amounts, strict=True)), now=turn))
        for group in groups[::2]:
            s.cancel(group)
        tasks = [p.task for p in s.place(now=turn)]
        placed += len(tasks)
        for task in tasks:
            s.finish(task)
            placed += len(s.place(now=turn))
    assert placed > 30
