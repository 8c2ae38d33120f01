"""The amounts that user-defined rules see: in units, and used amounts times seconds."""

from __future__ import annotations

from fractions import Fraction

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._entities import Queue, Shape, Task
from fairlead.scheduler.criteria.criterion import Criterion

Amounts = dict[str, float]  # by the name of the resource, in its unit


class Units:
    """The names of resources, and their quanta per unit."""

    def __init__(self) -> None:
        self.names: list[str] = []  # (R,)
        self.quanta: list[Fraction] = []  # (R,) number of quanta in one unit

    def amounts(self, quanta: vec[i64]) -> Amounts:
        """Return (R,) quanta as amounts in units."""
        found: Amounts = {}
        for r in range(len(self.names)):
            per_unit = self.quanta[r]
            found[self.names[r]] = int(quanta[r]) * per_unit.denominator / per_unit.numerator
        return found

    def sum_of(self, shapes: list[Shape]) -> Amounts:
        """Return the amounts of several tasks together, in units."""
        total = vec[i64]([0] * len(self.names))
        for shape in shapes:
            for r in range(len(total)):
                total[r] += shape.demand[r]
        return self.amounts(total)


class UsedTime:
    """Quanta times seconds of each resource (R,), of running and ended tasks.

    Running tasks have used ``held * now - since``, so no number changes while time passes.
    """

    def __init__(self, width: i64) -> None:
        self.held = [0] * int(width)  # the amounts of running tasks
        self.since = [0.0] * int(width)  # these, each times the start of its task in seconds
        self.ended = [0.0] * int(width)  # quanta times seconds of ended tasks

    def count(self, task: Task, sign: i64, now: float) -> None:
        """Count a task that starts (1) or ends (-1)."""
        for r in range(len(self.held)):
            amount = int(task.shape.demand[r])
            self.held[r] += int(sign) * amount
            self.since[r] += float(sign) * amount * task.since
            if sign < 0:
                self.ended[r] += amount * (now - task.since)

    def until(self, now: float) -> list[float]:
        """Return (R,) quanta times seconds until now."""
        return [
            ended + held * now - since
            for ended, held, since in zip(self.ended, self.held, self.since, strict=True)
        ]


class ServiceTime(Criterion):
    """Counts the amounts times seconds that groups and queues have used; all queues score 0."""

    measure = "a user-defined rule"

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        self.of_group: dict[int, UsedTime] = {}
        self.of_queue: dict[str, UsedTime] = {}

    def score(self, queue: Queue) -> int:  # noqa: ARG002 (there is no score)
        return 0

    def count_task(self, task: Task, sign: i64) -> None:
        super().count_task(task, sign)
        group = task.group
        self.time_of_group(group.id).count(task, sign, self.time)
        self.time_of_queue(group.waiting_list.queue.name).count(task, sign, self.time)

    def time_of_group(self, id: int) -> UsedTime:
        if id not in self.of_group:
            self.of_group[id] = UsedTime(self.width)
        return self.of_group[id]

    def time_of_queue(self, name: str) -> UsedTime:
        if name not in self.of_queue:
            self.of_queue[name] = UsedTime(self.width)
        return self.of_queue[name]


def used_amounts(used: UsedTime, criterion: ServiceTime, units: Units) -> Amounts:
    """Return amounts times seconds until now, by resource, in units."""
    found: Amounts = {}
    quanta = used.until(criterion.time)
    for r in range(len(quanta)):
        per_unit = units.quanta[r]
        found[units.names[r]] = quanta[r] * per_unit.denominator / per_unit.numerator
    return found
