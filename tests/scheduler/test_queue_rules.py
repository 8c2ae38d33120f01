"""Limits, quotas and past use of queues: worked examples; random lives have the definitions."""

from __future__ import annotations

from collections import Counter

import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.scheduler.scheduler import Scheduler
from scheduler.consistency import check


def cluster(policy: str = "drf/first-fit", *, strict_fifo: bool = False) -> Scheduler:
    """Return two servers of 12 CPUs and 6 GPUs, and queues ana and bo."""
    s = Scheduler(["cpu", "gpu"], policy, strict_fifo=strict_fifo)
    s.add_server("new", {"cpu": 12, "gpu": 6}, {"type": "new"})
    s.add_server("old", {"cpu": 12, "gpu": 6})
    for name in ("ana", "bo"):
        s.add_queue(name)
    return s


def placed(s: Scheduler, now: float = 0.0) -> Counter[str]:
    return Counter(start.queue for start in s.place(now))


# Limits


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
    s.set_limit("team", {"cpu": 9})
    assert sum(placed(s).values()) == 4
    s.set_limit("team")
    assert sum(placed(s).values()) == 8


# Quotas


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


def test_a_quota_on_some_servers_counts_only_there() -> None:
    s = cluster()
    s.set_quota("bo", {"gpu": 4}, {"type": "new"})
    s.submit("ana", {"gpu": 1}, 20)
    s.submit("bo", {"gpu": 1}, 20)
    where = Counter((start.queue, start.server) for start in s.place())
    assert where["bo", "new"] == 4
    assert where["ana", "new"] == 2
    s.set_server("new", labels={"type": "renewed"})
    assert s.quotas()[0].held == {"gpu": 0}


def test_a_quota_is_replaced_and_removed() -> None:
    s = cluster()
    s.set_quota("bo", {"gpu": 8})
    s.set_quota("bo", {"gpu": 3})
    s.set_quota("bo", {"cpu": 3}, ["old"])
    assert [(use.where, use.quota) for use in s.quotas()] == [
        (None, {"gpu": 3}),
        (["old"], {"cpu": 3}),
    ]
    s.set_quota("bo")
    s.set_quota("bo", where=["old"])
    assert s.quotas() == []
    s.set_quota("bo", {"gpu": 8})
    s.remove_queue("bo")
    assert s.quotas() == []
    check(s)


# Past use with a half-life


def lab(half_life: float = 100.0) -> Scheduler:
    s = Scheduler(["gpu"], f"drf/first-fit/half-life:{half_life}")
    s.add_server("a", {"gpu": 8})
    for name in ("ana", "bo"):
        s.add_queue(name)
    return s


def test_past_use_nears_the_holdings_by_half_lives() -> None:
    s = lab()
    s.submit("ana", {"gpu": 8})
    (start,) = s.place(0.0)
    for half_lives, use in ((1, 4.0), (2, 6.0), (3, 7.0)):
        s.advance(100.0 * half_lives)
        assert s.past_use()["ana"] == {"gpu": pytest.approx(use)}
    s.finish(start.task)
    s.advance(400.0)
    assert s.past_use() == {"ana": {"gpu": pytest.approx(3.5)}, "bo": {"gpu": 0.0}}


def test_past_use_is_kept_and_undone() -> None:
    s = lab()
    s.submit("ana", {"gpu": 4}, 2)
    s.place(0.0)
    s.place(50.0)
    again = Scheduler.restore(s.snapshot())
    assert again.snapshot() == s.snapshot()
    before = s.snapshot()
    with s.what_if():
        s.advance(300.0)
        s.finish(2)
        s.submit("bo", {"gpu": 1})
        s.place(400.0)
    assert s.snapshot() == before
    check(s)
    for held in (s, again):
        held.advance(100.0)
        before = held.snapshot()
        assert held.past_use()["ana"]["gpu"] == pytest.approx(4.0)
        assert held.snapshot() == before
    other = lab()
    other.set_past_use("ana", s.past_use()["ana"])
    assert other.past_use()["ana"]["gpu"] == pytest.approx(4.0)


def test_wrong_past_use_is_refused() -> None:
    s = lab()
    for amounts in ({"gpu": -1}, {"disk": 1}):
        with pytest.raises(InputError):
            s.set_past_use("ana", amounts)
    plain = cluster()
    assert plain.past_use() == {}
    with pytest.raises(RefusalError, match="past use does not count"):
        plain.set_past_use("ana", {"gpu": 1})
