"""Random events told to a scheduler, for tests that need a state or a change of it."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

from fairlead.errors import InputError, RefusalError

RESOURCES = ["cpu", "memory"]


class RandomLife:
    """Tells random events to a scheduler; wrong ones, too, which it refuses."""

    def __init__(self, scheduler: Any, seed: int) -> None:
        self.s = scheduler
        self.random = Random(seed)
        self.tasks: list[int] = []
        self.groups: list[int] = []
        self.clock = 0.0
        self.kind = ("decimal", "inexact", "huge")[seed % 3]
        for name in "abc":
            scheduler.add_server(name, self.amounts(4))
        for name in "npq":
            scheduler.add_queue(name)

    def amounts(self, largest: float) -> dict[str, float]:
        """Return amounts: decimals, thirds and the like that are inexact, or huge ones."""
        if self.kind == "decimal":
            return {r: round(self.random.uniform(0, largest), 1) for r in RESOURCES}
        if self.kind == "inexact":
            return {r: self.random.randrange(9) / self.random.choice([3, 7, 9]) for r in RESOURCES}
        return {r: int(largest * self.random.randrange(9)) * 2**55 for r in RESOURCES}

    def name(self, letters: str) -> str:
        return self.random.choice(letters)

    def where(self) -> Any:
        return self.random.choice([None, None, {"zone": "x"}, ["a", "b"], ["c", "q"]])

    def tell(self) -> None:
        """Tell one random event."""
        events = [getattr(self, name) for name in dir(type(self)) if name[:3] == "on_"]
        with suppress(InputError, RefusalError):
            self.random.choice(events)()

    def on_add_server(self) -> None:
        labels = self.random.choice([None, {"zone": "x"}, {"zone": "y"}])
        self.s.add_server(self.name("abcdef"), self.amounts(4), labels)

    def on_set_server(self) -> None:
        name = self.name("abcdef")
        self.s.set_server(name, self.random.choice([None, self.amounts(4)]))
        self.s.set_server(name, labels={"zone": self.name("xy")})

    def on_drain(self) -> None:
        self.s.drain(self.name("abcdef"))

    def on_undrain(self) -> None:
        self.s.undrain(self.name("abcdef"))

    def on_remove_server(self) -> None:
        self.s.remove_server(self.name("abcdef"))

    def on_add_queue(self) -> None:
        weight = self.random.choice([0, 1, 1, 2, 0.5])
        parent = self.random.choice([None, None, self.name("npq")])
        self.s.add_queue(self.name("npqrst"), weight, parent)

    def on_set_weight(self) -> None:
        self.s.set_weight(self.name("npqrst"), self.random.choice([0, 1, 3]))

    def on_remove_queue(self) -> None:
        self.s.remove_queue(self.name("npqrst"))

    def on_submit(self) -> None:
        tasks = self.random.choice([1, 2, 5])
        group = self.s.submit(
            self.name("npqrst"),
            self.amounts(2),
            tasks,
            where=self.where(),
            priority=self.random.choice([0, 0, 1]),
            gang=self.random.random() < 0.3,
            attempts=self.random.choice([None, 1, 2]),
            time_limit=self.random.choice([None, 0.5, 1, 2.5, 4]),
            now=self.clock,
        )
        self.groups.append(group)

    on_submit_again = on_submit

    def on_submit_gang(self) -> None:
        members = [(self.amounts(2), 2), (self.amounts(3), 1, self.where())]
        limit = self.random.choice([None, 1, 3])
        queue = self.name("npqrst")
        self.groups.append(self.s.submit_gang(queue, members, time_limit=limit, now=self.clock))

    def a_task(self) -> int:
        return self.random.choice(self.tasks[-12:]) if self.tasks else -1

    def a_group(self) -> int:
        return self.random.choice(self.groups[-12:]) if self.groups else -1

    def on_finish(self) -> None:
        self.s.finish(self.a_task())

    def on_fail(self) -> None:
        self.s.fail(self.a_task())

    def on_evict(self) -> None:
        self.s.evict(self.a_task())

    def on_cancel(self) -> None:
        self.s.cancel(self.a_group())

    def on_set_priority(self) -> None:
        self.s.set_priority(self.a_group(), self.random.choice([-1, 0, 2**62]))

    def on_assume(self) -> None:
        self.tasks.append(self.s.assume(self.a_group(), self.name("abcdef")))

    def on_place(self) -> None:
        self.clock += self.random.choice([0, 0.5])
        placed = self.s.place(self.clock, self.random.choice([None, 1, 3]))
        self.tasks += [placement.task for placement in placed]

    on_place_again = on_place
    on_place_more = on_place


def quanta_of(seed: int) -> dict[str, float] | None:
    """Return quanta that suit the amounts of a life."""
    return dict.fromkeys(RESOURCES, 1) if seed % 3 == 2 else None
