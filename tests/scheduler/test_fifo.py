"""First in, first out, and backfilling: what random lives do not always meet."""

from __future__ import annotations

import pytest

from fairlead.scheduler.scheduler import Scheduler


@pytest.mark.parametrize("policy", ["fifo/first-fit", "easy/first-fit", "fifo/best-fit"])
def test_a_group_that_was_tried_often_starts_on_a_new_server(policy: str) -> None:
    s = Scheduler(["cpu"], policy)
    s.add_server("a", {"cpu": 1})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 1}, 2)
    assert len(s.place()) == 1
    for _ in range(5):
        assert s.place() == []
    s.add_server("b", {"cpu": 1})
    assert [p.server for p in s.place()] == ["b"]


@pytest.mark.parametrize("select", ["first-fit", "best-fit"])
def test_a_short_task_passes_a_reservation(select: str) -> None:
    s = Scheduler(["cpu"], f"easy/{select}")
    s.add_server("a", {"cpu": 3})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 2}, time_limit=50)
    s.place()
    s.submit("ana", {"cpu": 3})
    s.submit("ana", {"cpu": 1}, time_limit=60)
    short = s.submit("ana", {"cpu": 1}, time_limit=50)
    assert [p.group for p in s.place()] == [short]
