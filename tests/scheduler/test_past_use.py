"""Past use with a half-life: worked examples; `test_random_lives` has the definition."""

from __future__ import annotations

from collections import Counter

import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.scheduler.policies import ROWS, parse_policy
from fairlead.scheduler.scheduler import Scheduler
from scheduler.consistency import check


def lab(half_life: float = 100.0, gpus: int = 8) -> Scheduler:
    s = Scheduler(["gpu"], f"drf/first-fit/half-life:{half_life}")
    s.add_server("a", {"gpu": gpus})
    for name in ("ana", "bo"):
        s.add_queue(name)
    return s


def starts(s: Scheduler, now: float) -> Counter[str]:
    return Counter(start.queue for start in s.place(now))


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


def test_a_queue_that_used_much_lately_is_served_later() -> None:
    s = lab()
    s.submit("ana", {"gpu": 4})
    (start,) = s.place(0.0)
    s.advance(100.0)
    s.finish(start.task)  # ana has used 2 GPUs of 8
    for name in ("ana", "bo"):
        s.submit(name, {"gpu": 1}, 9)
    assert starts(s, 100.0) == {"bo": 5, "ana": 3}
    assert lab(1e9).past_use() == {"ana": {"gpu": 0.0}, "bo": {"gpu": 0.0}}


def test_teams_are_ranked_level_by_level() -> None:
    s = lab()
    s.add_queue("team")
    s.add_queue("cy", parent="team")
    s.submit("cy", {"gpu": 8})
    (start,) = s.place(0.0)
    s.advance(100.0)
    s.finish(start.task)
    s.add_queue("di", parent="team")
    for name in ("ana", "di", "cy"):
        s.submit(name, {"gpu": 1}, 9)
    assert starts(s, 100.0) == {"ana": 6, "di": 2}


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
        assert held.past_use()["ana"]["gpu"] == pytest.approx(4.0)
    other = lab()
    other.set_past_use("ana", s.past_use()["ana"])
    assert other.past_use()["ana"]["gpu"] == pytest.approx(4.0)


def test_past_use_without_meaning_is_refused() -> None:
    for wrong in ("0", "-1", "x", "", "inf"):
        with pytest.raises(InputError):
            parse_policy(f"drf/best-fit/half-life:{wrong}")
    for policy in [*(set(ROWS) - {"drf/first-fit", "drf/best-fit"}), "slots:3"]:
        with pytest.raises(RefusalError, match="half-life needs"):
            parse_policy(f"{policy}/half-life:10")
    for both in ("half-life:9/over-share", "over-share/half-life:9"):
        with pytest.raises(RefusalError):
            parse_policy(f"drf/best-fit/{both}")
    s = lab()
    for amounts in ({"gpu": -1}, {"disk": 1}):
        with pytest.raises(InputError):
            s.set_past_use("ana", amounts)
    plain = Scheduler(["gpu"], "drf/best-fit")
    plain.add_queue("ana")
    assert plain.past_use() == {}
    with pytest.raises(RefusalError, match="past use does not count"):
        plain.set_past_use("ana", {"gpu": 1})
