"""What is kept wrongly is noticed."""

from __future__ import annotations

import pytest

from fairlead.scheduler.scheduler import Scheduler

WRONG = [
    ("free", None),
    ("held", None),
    ("groups", "waiting"),
    ("lines", "waiting"),
    ("lines", "running"),
    ("queues", "waiting"),
    ("queues", "running"),
    ("servers", "running"),
]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(("array", "field"), WRONG)
@pytest.mark.parametrize("by", [1, -1, 2**33, 2**62])
def test_amounts_that_are_wrong_are_noticed(array: str, field: str | None, by: int) -> None:
    scheduler = Scheduler(["cpu", "memory"], "drf/first-fit")
    for name in "ab":
        scheduler.add_server(name, {"cpu": 4, "memory": 3})
    scheduler.add_queue("ana")
    scheduler.submit("ana", {"cpu": 2, "memory": 1}, tasks=9)
    assert len(scheduler.place()) == 4
    scheduler.check()
    rows = getattr(scheduler._core, array)
    (rows if field is None else rows[field]).flat[0] += by
    with pytest.raises(AssertionError):
        scheduler.check()
