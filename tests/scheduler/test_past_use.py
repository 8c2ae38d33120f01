"""Past use with a half-life: amounts and refusals; `test_random_lives` has the starts."""

from __future__ import annotations

import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.scheduler.policies import ROWS, parse_policy
from fairlead.scheduler.scheduler import Scheduler


def lab() -> Scheduler:
    s = Scheduler(["gpu"], "drf/first-fit/half-life:100")
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


def test_past_use_is_kept_and_can_be_given() -> None:
    s = lab()
    s.submit("ana", {"gpu": 4}, 2)
    s.place(50.0)
    again = Scheduler.restore(s.snapshot())
    again.advance(150.0)
    assert again.past_use()["ana"]["gpu"] == pytest.approx(4.0)
    other = lab()
    other.set_past_use("ana", again.past_use()["ana"])
    assert other.past_use()["ana"]["gpu"] == pytest.approx(4.0)


def test_past_use_without_meaning_is_refused() -> None:
    for wrong in ("0", "-1", "x", "", "inf"):
        with pytest.raises(InputError):
            parse_policy(f"drf/best-fit/half-life:{wrong}")
    for policy in [*(set(ROWS) - {"drf/first-fit", "drf/best-fit"}), "slots:3"]:
        with pytest.raises(RefusalError, match="half-life of past use needs"):
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
