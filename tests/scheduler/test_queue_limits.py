"""Limits of running tasks and amounts: worked examples; `random_life` has random limits."""

from __future__ import annotations

from collections import Counter

import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.scheduler.scheduler import Scheduler


def cluster(policy: str = "drf/first-fit", **options: bool) -> Scheduler:
    s = Scheduler(["cpu", "gpu"], policy, **options)
    s.add_server("a", {"cpu": 12, "gpu": 12})
    for name in ("ana", "bo"):
        s.add_queue(name)
    return s


def placed(s: Scheduler) -> Counter[str]:
    return Counter(start.queue for start in s.place())


@pytest.mark.parametrize("policy", ["drf/best-fit", "tsf/rrr", "ps-dsf/joint", "fifo/first-fit"])
def test_a_queue_holds_at_most_its_limit(policy: str) -> None:
    s = cluster(policy)
    s.set_limit("ana", {"gpu": 3})
    s.submit("ana", {"cpu": 1, "gpu": 1}, 20)
    s.submit("bo", {"cpu": 1}, 5)
    assert placed(s) == {"ana": 3, "bo": 5}


def test_other_tasks_of_the_queue_pass_a_limited_one() -> None:
    s = cluster()
    s.set_limit("ana", {"gpu": 1})
    s.submit("ana", {"gpu": 2}, 1)
    s.submit("ana", {"gpu": 1}, 2)
    s.submit("ana", {"cpu": 1}, 2)
    assert len(s.place()) == 3


STRICT = ["drf/first-fit", "tsf/best-fit/residual", "drf/best-fit-first", "ps-dsf/best-fit-first"]
STRICT += ["ps-dsf/joint", "drf/rrr", "drf/rrr/oblivious", "drf/best-fit/half-life:9"]


@pytest.mark.parametrize("policy", STRICT)
def test_strict_order_holds_behind_a_limited_group(policy: str) -> None:
    s = cluster(policy, strict_fifo=True)
    s.set_limit("ana", {"gpu": 1})
    first = s.submit("ana", {"gpu": 2}, 1)
    s.submit("ana", {"cpu": 1}, 2)
    assert s.place() == []
    s.cancel(first)
    assert len(s.place()) == 2


def test_a_team_shares_its_limit() -> None:
    s = cluster()
    s.add_queue("team")
    for name in ("cy", "di"):
        s.add_queue(name, parent="team")
        s.submit(name, {"cpu": 1}, 9)
    s.set_limit("team", tasks=5)
    first = s.place()
    assert len(first) == 5
    s.finish(first[0].task)
    assert len(s.place()) == 1
    s.set_limit("team")
    assert sum(placed(s).values()) == 7


def test_a_gang_counts_as_a_whole() -> None:
    s = cluster()
    s.set_limit("ana", tasks=3)
    gang = s.submit_gang("ana", [({"cpu": 1}, 2), ({"gpu": 1}, 2)])
    single = s.submit("ana", {"cpu": 1})
    assert [start.group for start in s.place()] == [single]
    why = s.explain(gang)
    assert (why.held_by, why.never) == ("limit", True)
    s.set_limit("ana", tasks=4)
    assert (s.explain(gang).held_by, s.explain(gang).never) == ("limit", False)
    s.set_limit("ana", tasks=5)
    assert len(s.place()) == 4


def test_a_gang_is_added_to_what_its_queue_holds() -> None:
    s = cluster()
    s.set_limit("ana", {"cpu": 3})
    s.submit("ana", {"cpu": 2})
    assert len(s.place()) == 1
    s.submit("ana", {"cpu": 1}, 2, gang=True)
    assert s.place() == []
    s.set_limit("ana", {"cpu": 4})
    assert len(s.place()) == 2


def test_a_lowered_limit_stops_nothing() -> None:
    s = cluster()
    s.submit("ana", {"cpu": 1}, 20)
    assert len(s.place(limit=8)) == 8
    s.set_limit("ana", {"cpu": 2})
    assert s.place() == []
    again = Scheduler.restore(s.snapshot())
    assert again.place() == []
    again.set_limit("ana", {"cpu": 9})
    assert len(again.place()) == 1


def test_held_back_tasks_start_once_the_limit_is_raised() -> None:
    """The tasks were held back while servers were full, and then while tasks of others ended."""
    s = cluster()
    s.submit("bo", {"cpu": 6, "gpu": 6}, 2)
    full = s.place()
    s.set_limit("ana", {"cpu": 0})
    s.submit("ana", {"cpu": 6}, 2)
    assert s.place() == []
    s.finish(full[0].task)
    assert s.place() == []
    s.set_limit("ana", {"cpu": 6})
    assert placed(s) == {"ana": 1}


def test_slots_have_limits_of_tasks_only() -> None:
    s = cluster("slots:4")
    with pytest.raises(RefusalError):
        s.set_limit("ana", {"cpu": 1})
    s.set_limit("ana", tasks=1)
    s.submit("ana", {"cpu": 1}, 9)
    assert len(s.place()) == 1


def test_wrong_limits_are_refused() -> None:
    s = cluster()
    for wrong in (
        {"amounts": {"cpu": -1}},
        {"amounts": {"disk": 1}},
        {"tasks": -1},
        {"tasks": 1.5},
    ):
        with pytest.raises(InputError):
            s.set_limit("ana", **wrong)
    with pytest.raises(InputError):
        s.set_limit("nobody", {"cpu": 1})
