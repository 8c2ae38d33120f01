"""The sentences and numbers of the live page, by its own functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from live_cluster import Cluster

Words = Callable[..., Any]
READY = {"ready": 2}
NO_REASON = {"held": 0, "after": 0, "stopping": 0, "too_large": 0, "room": 0}


@pytest.fixture(scope="module")
def words(cluster: Cluster, browser: Browser) -> Iterator[Words]:
    page = browser.new_page()
    page.goto(cluster.url)

    def call(function: str, *given: object) -> Any:
        script = "([name, given]) => import('/page/format.js').then(all => all[name](...given))"
        return page.evaluate(script, [function, list(given)])

    yield call
    page.close()


def user(name: str, held: float, fair: float, *, is_short: bool = False) -> dict[str, Any]:
    return {"name": name, "held": held, "fair": fair, "is_short": is_short}


def overview(*users: dict[str, Any], **more: Any) -> dict[str, Any]:
    short = sum(u["is_short"] for u in users)
    counts = {"short_users": short, "all_users": len(users), "waiting": 5, "running": 3}
    return {"users": users, "servers": READY, "reasons": NO_REASON, **counts, **more}


ANA, BO = user("ana", 0.1, 0.5, is_short=True), user("bo", 0.9, 0.5)


@pytest.mark.parametrize(
    ("given", "text", "kind"),
    [
        (overview(servers={}), "No servers yet", ""),
        (overview(), "No user has submitted a job yet.", ""),
        (overview(user("ana", 0.5, 0.5), BO), "Every waiting user holds its fair share.", "holds"),
        (overview(ANA, BO), "ana holds 10 % where 50 % is fair. bo holds 90 %", "fails"),
        (overview(ANA, BO, short_users=3), "2 more users wait below the fair share.", "fails"),
        (overview(BO, reasons=NO_REASON | {"too_large": 2}), "2 tasks can never run", "fails"),
        (overview(BO, servers={"drained": 1}, running=0), "no server is ready", "fails"),
        (overview(BO, reasons=NO_REASON | {"held": 5}, running=0), "jobs are held.", "holds"),
    ],
)
def test_the_verdict(words: Words, given: dict[str, Any], text: str, kind: str) -> None:
    found, found_kind = words("verdict", given)
    assert text in found
    assert found_kind == kind


@pytest.mark.parametrize(
    ("share", "fair", "shown"),
    [
        (0.0, 0.0005, "-0.05 %"),
        (1 / 3 - 1e-12, 1 / 3, "0 %"),
        (0.0002, 0.0001, "+0.01 %"),
    ],
)
def test_differences_have_their_digits(words: Words, share: float, fair: float, shown: str) -> None:
    assert words("difference", share, fair) == shown


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ({"starts": 1000.0}, "It started at"),
        ({"starts": 1000.0, "not_before": 0.0}, " at the latest, if tasks use"),
        ({"never": True, "reason": "No server"}, "It cannot start on the present servers: No"),
        ({"starts": None, "not_before": 5.0, "reason": "no limit"}, "Start time unknown: no"),
        ({"starts": None, "not_before": 5.0}, "It does not start before"),
        (
            {"starts": None, "not_before": 5.0, "expected": 9.0, "rests_on": 1, "server": "a"},
            ", on a, going by the run times of 1 ended task.",
        ),
        (
            {"starts": 9.0, "not_before": 5.0, "expected": 7.0, "earliest": 6.0, "latest": 8.0}
            | {"rests_on": 30},
            "four times in five from",
        ),
    ],
)
def test_a_start_in_words(words: Words, when: dict[str, Any], text: str) -> None:
    assert text in words("start", when)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(89, "89 s"), (90, "1.5 min"), (200000, "2.3 d")],
)
def test_durations(words: Words, seconds: float, text: str) -> None:
    assert words("duration", seconds) == text
