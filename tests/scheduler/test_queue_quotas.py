"""Quotas: worked examples; `random_life` and `test_trees` have random quotas."""

from __future__ import annotations

from collections import Counter

import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.scheduler.policies import ROWS
from fairlead.scheduler.scheduler import Scheduler
from scheduler.consistency import check


def cluster(policy: str = "drf/first-fit") -> Scheduler:
    s = Scheduler(["cpu", "gpu"], policy)
    s.add_server("new", {"cpu": 12, "gpu": 6}, {"type": "new"})
    s.add_server("old", {"cpu": 12, "gpu": 6})
    for name in ("ana", "bo"):
        s.add_queue(name)
    return s


def placed(s: Scheduler) -> Counter[str]:
    return Counter(start.queue for start in s.place())


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


def test_beyond_all_quotas_shares_decide() -> None:
    s = cluster()
    s.set_quota("bo", {"gpu": 2})
    for name in ("ana", "bo"):
        s.submit(name, {"gpu": 1}, 20)
    assert placed(s) == {"ana": 6, "bo": 6}
    assert [(u.queue, u.quota, u.held) for u in s.quotas()] == [("bo", {"gpu": 2}, {"gpu": 6})]


def test_a_quota_does_not_cover_other_resources() -> None:
    s = cluster()
    s.set_quota("bo", {"gpu": 8})
    for name in ("ana", "bo"):
        s.submit(name, {"cpu": 1}, 30)
    assert placed(s) == {"ana": 12, "bo": 12}


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


def test_a_team_or_its_member_may_have_the_quota() -> None:
    for guaranteed in ("team", "cy"):
        s = cluster()
        s.add_queue("team", 0.1)
        s.add_queue("cy", parent="team")
        s.set_quota(guaranteed, {"gpu": 7})
        for name in ("ana", "cy"):
            s.submit(name, {"gpu": 1}, 20)
        assert placed(s) == {"ana": 5, "cy": 7}


def test_a_gang_is_within_the_quota_as_a_whole() -> None:
    for quota, first in ((3, "ana"), (4, "bo")):
        s = cluster()
        s.set_quota("bo", {"gpu": quota})
        s.submit("ana", {"gpu": 1}, 1)
        s.submit("bo", {"gpu": 1}, 4, gang=True)
        assert s.place()[0].queue == first


def test_weight_0_is_first_within_its_quota_and_then_last() -> None:
    s = cluster()
    s.set_weight("bo", 0)
    s.set_quota("bo", {"gpu": 2})
    for name in ("ana", "bo"):
        s.submit(name, {"gpu": 1}, 11)
    assert [start.queue for start in s.place()] == ["bo"] * 2 + ["ana"] * 10


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


def test_wrong_quotas_are_refused() -> None:
    s = cluster()
    for wrong in ({"gpu": -1}, {"disk": 1}, 5):
        with pytest.raises(InputError):
            s.set_quota("ana", wrong)
    with pytest.raises(InputError):
        s.set_quota("ana", {"gpu": 1}, "new")
    for policy in {*ROWS, "slots:3"} - {"drf/first-fit", "drf/best-fit"}:
        with pytest.raises(RefusalError, match="quotas need"):
            cluster(policy).set_quota("ana", {"gpu": 1})
