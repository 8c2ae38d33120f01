"""Limits and quotas: what the random lives do not show; these have both at random."""

from __future__ import annotations

from collections import Counter

import pytest

from fairlead.scheduler.scheduler import Scheduler


def cluster() -> Scheduler:
    s = Scheduler(["cpu", "gpu"], "drf/first-fit")
    s.add_server("new", {"cpu": 12, "gpu": 6}, {"type": "new"})
    s.add_server("old", {"cpu": 12, "gpu": 6})
    for name in ("ana", "bo"):
        s.add_queue(name)
    return s


def placed(s: Scheduler) -> Counter[str]:
    return Counter(start.queue for start in s.place())


def test_held_back_tasks_start_once_the_limit_is_raised() -> None:
    """The tasks were held back while servers were full, and then while tasks of others ended."""
    s = cluster()
    s.submit("bo", {"cpu": 6, "gpu": 3}, 4)
    full = s.place()
    s.set_limit("ana", {"cpu": 0})
    s.submit("ana", {"cpu": 6}, 2)
    assert s.place() == []
    s.finish(full[0].task)
    assert s.place() == []
    s.set_limit("ana", {"cpu": 6})
    assert placed(s) == {"ana": 1}


def test_an_unused_quota_is_lent_and_served_first_later() -> None:
    s = cluster()
    s.set_quota("bo", {"gpu": 8})
    s.submit("ana", {"gpu": 1}, 20)
    first = s.place()
    assert len(first) == 12
    s.submit("bo", {"gpu": 1}, 20)
    for start in first[:9]:
        s.finish(start.task)
    assert placed(s) == {"bo": 8, "ana": 1}


@pytest.mark.parametrize("guaranteed", ["team", "cy"])
def test_a_team_or_its_member_may_have_the_quota(guaranteed: str) -> None:
    s = cluster()
    s.add_queue("team", 0.1)
    s.add_queue("cy", parent="team")
    s.set_quota(guaranteed, {"gpu": 7})
    for name in ("ana", "cy"):
        s.submit(name, {"gpu": 1}, 20)
    assert placed(s) == {"ana": 5, "cy": 7}


def test_the_use_of_a_quota_is_what_its_servers_hold() -> None:
    s = cluster()
    s.set_quota("bo", {"gpu": 4}, {"type": "new"})
    for name in ("ana", "bo"):
        s.submit(name, {"gpu": 1}, 20)
    where = Counter((start.queue, start.server) for start in s.place())
    assert where["bo", "new"] == 4
    assert s.quotas()[0].held == {"gpu": 4}
    s.set_server("new", labels={"type": "renewed"})
    assert s.quotas()[0].held == {"gpu": 0}


def test_a_quota_is_replaced_and_removed() -> None:
    s = cluster()
    s.set_quota("bo", {"gpu": 8})
    s.set_quota("bo", {"gpu": 3})
    s.set_quota("bo", {"cpu": 3}, ["old"])
    assert [(use.queue, use.where, use.quota) for use in s.quotas()] == [
        ("bo", None, {"gpu": 3}),
        ("bo", ["old"], {"cpu": 3}),
    ]
    s.set_quota("bo")
    s.set_quota("bo", where=["old"])
    assert s.quotas() == []
    s.set_quota("bo", {"gpu": 8})
    s.remove_queue("bo")
    assert s.quotas() == []
    s.check()
