"""Samples of the cluster and of shares over time, and sums of share hours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from asked_service import Asked, as_, change, served
from effort import cases
from fairlead.service.journal import samples as kept
from fairlead.service.journal.event_journal import Journal
from fairlead.service.journal.samples import (
    KEPT_SECONDS,
    MOST_STEPS,
    SLOT_SECONDS,
    ClusterSample,
    ShareHours,
    UserShare,
)

NOW = 1_000_000 * SLOT_SECONDS + 10.0
HOUR, DAY, WEEK = 3600.0, 86400.0, 7 * 86400.0


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "j.db", survives_power_failure=False)
    yield made
    made.close()


def sample(waiting: int, cpu: float = 1.0) -> ClusterSample:
    return ClusterSample(waiting, 2, {"cpu": cpu}, {"cpu": 4.0}, 5)


def test_samples_are_kept_for_eight_days(journal: Journal) -> None:
    journal.samples.add(NOW, sample(1), [UserShare("ana", 1, 1)])
    journal.samples.add(NOW + KEPT_SECONDS, sample(2), [UserShare("ana", 1, 1)])
    assert len(journal.samples.cluster(0)) == 2
    journal.samples.add(NOW + KEPT_SECONDS + SLOT_SECONDS, sample(3), [])
    assert [s.waiting for _, s in journal.samples.cluster(0)] == [2, 3]
    found = journal.samples.shares_over_time(0, NOW + KEPT_SECONDS + SLOT_SECONDS, "ana")
    assert sum(value is not None and value > 0 for value in found["users"][0]["held"]) == 1


def test_a_slot_keeps_the_largest_shares(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "KEPT_USERS", 2)
    rows = [UserShare("a", 0.1, 0.1), UserShare("b", 0.0, 0.5), UserShare("c", 0.3, 0.2)]
    journal.samples.add(NOW, sample(1), rows)
    found = journal.samples.shares_over_time(NOW - DAY, NOW, None)
    assert [row["user"] for row in found["users"]] == ["b", "c"]


@pytest.mark.parametrize("seed", range(cases(1)))
def test_steps_have_the_means_of_their_samples(journal: Journal, seed: int) -> None:
    """By the definition, each step has the mean of its samples; a user without a row holds 0."""
    rng = Random(seed)
    rows: list[tuple[int, int, float | None]] = []
    for slot in range(int(NOW // SLOT_SECONDS) - 2100, int(NOW // SLOT_SECONDS) + 1):
        if rng.random() < 0.08:
            held = rng.choice([None, rng.random()])
            rows.append((slot, rng.randrange(100), held))
            shares = [] if held is None else [UserShare("ana", held, 0.5)]
            if rng.random() < 0.2:  # of a slot, the last sample is kept
                journal.samples.add(slot * SLOT_SECONDS, sample(1000), [UserShare("ana", 1, 1)])
            journal.samples.add(slot * SLOT_SECONDS + 1.0, sample(rows[-1][1]), shares)
    for period in (DAY, WEEK, 3600.0, 400.0):
        check_steps(journal, period, [r for r in rows if r[0] >= (NOW - period) // SLOT_SECONDS])


def check_steps(journal: Journal, period: float, rows: list[tuple[int, int, float | None]]) -> None:
    """Check the steps of a period with these samples: slot, waiting tasks and held share."""
    found = journal.samples.cluster_over_time(NOW - period, NOW)
    shares = journal.samples.shares_over_time(NOW - period, NOW, "ana")
    times = found["times"]
    assert len(times) <= MOST_STEPS + 1
    assert shares["times"] == times
    widths = {b - a for a, b in pairwise(times[:-1])}
    assert len(widths) <= 1
    width = widths.pop() if widths else SLOT_SECONDS
    assert width % SLOT_SECONDS == 0
    assert max(times, default=NOW) <= NOW
    for k, time in enumerate(times):  # a slot stands for its end, or the present if earlier
        begin = (time - SLOT_SECONDS / 2) // width * width if time < NOW else NOW // width * width
        inside = [row for row in rows if begin <= row[0] * SLOT_SECONDS < begin + width]
        if not inside:
            assert found["waiting"][k] is shares["users"][0]["held"][k] is None
            continue
        mean = sum(row[1] for row in inside) / len(inside)
        assert found["waiting"][k] == pytest.approx(mean)
        mean = sum(row[2] or 0.0 for row in inside) / len(inside)
        assert shares["users"][0]["held"][k] == pytest.approx(mean)


def test_samples_of_a_wrong_clock_are_dropped(journal: Journal) -> None:
    journal.samples.add(NOW + DAY, sample(9), [UserShare("ana", 1, 1)])
    journal.samples.add(NOW, sample(1), [])
    assert [s.waiting for _, s in journal.samples.cluster(0)] == [1]


def test_without_samples_there_are_no_times(journal: Journal) -> None:
    assert journal.samples.cluster_over_time(NOW - DAY, NOW)["times"] == []
    found = journal.samples.shares_over_time(NOW - DAY, NOW, "ana")
    assert found == {"times": [], "users": [{"user": "ana", "held": [], "fair": []}]}


@served
async def test_a_service_samples_what_runs(ask: Asked) -> None:
    """Held and fair shares are fractions of the cluster, not divided by weights."""
    await ask.join("a", cpu=4)
    await ask("PUT", "/v1/users/ana", json={"weight": 2})
    await ask.submit({"tasks": 4})
    await ask.submit({"user": "bo", "tasks": 4})
    await ask.service.history.sample(60.0)
    cluster = await ask("GET", "/v1/cluster/over-time?seconds=3600")
    assert (cluster["waiting"], cluster["running"]) == ([4], [4])
    assert (cluster["used"]["cpu"], cluster["capacity"]["cpu"]) == ([4], [4])
    shares = await ask("GET", "/v1/shares/over-time?seconds=3600")
    ana = next(row for row in shares["users"] if row["user"] == "ana")
    assert ana["held"] == [1]
    assert ana["fair"] == pytest.approx([2 / 3])
    await ask.service.overview.latest()
    ask.service.overview._fresh_until = 0.0
    user = await ask("GET", "/v1/users/ana")
    assert (user["held"], user["fair"]) == (1, pytest.approx(2 / 3))


@served(tokens=True)
async def test_wrong_periods_are_refused(ask: Asked) -> None:
    for path, most in (
        ("cluster/over-time", KEPT_SECONDS),
        ("shares/over-time", KEPT_SECONDS),
        ("shares/over", 1e10),
    ):
        for wrong in ("", "?seconds=0", "?seconds=nan", f"?seconds={most + 1}"):
            await ask("GET", f"/v1/{path}{wrong}", status=422, **as_("ana"))
        await ask("GET", f"/v1/{path}?seconds=60", status=401)


# Share hours that users held and were due


@served
async def test_ana_holds_what_bo_is_owed(ask: Asked) -> None:
    """Ana has the only two cores for an hour; then bo wants one of them, for half an hour."""
    await ask.join("a", cpu=2)
    await ask.submit({"user": "ana", "cpu": 1, "tasks": 2})
    history = ask.service.history
    await history.sample(HOUR)
    await ask.submit({"user": "bo", "cpu": 1})
    await history.sample(HOUR / 2)
    found = await ask("GET", "/v1/shares/over?seconds=604800")
    ana, bo = found["users"]
    assert found["cluster"]["cpu"] == 2
    assert (ana["user"], bo["user"]) == ("ana", "bo")
    assert (ana["active"], ana["held"], ana["fair"]) == pytest.approx((1.5, 1.5, 1.25))
    assert (bo["active"], bo["held"], bo["fair"]) == pytest.approx((0.5, 0.0, 0.25))
    assert (ana["owed"], bo["owed"]) == pytest.approx((-0.25, 0.25))


@served
async def test_shares_are_recorded_every_few_minutes(ask: Asked) -> None:
    await ask.join("a", cpu=2)
    await ask.submit({"user": "ana", "cpu": 1})
    assert (await ask("GET", "/v1/shares/over?seconds=60"))["users"] == []
    history = ask.service.history
    history.pause = 0.01
    task = asyncio.create_task(history.record())
    await asyncio.sleep(0.5)
    task.cancel()
    (ana,) = (await ask("GET", "/v1/shares/over?seconds=60"))["users"]
    assert 0 < ana["active"] * HOUR <= 0.6
    assert ana["held"] == pytest.approx(ana["active"] / 2)


def test_hours_are_added_up_and_old_ones_deleted(journal: Journal) -> None:
    for hour, held in ((10, 1.0), (10, 0.5), (11, 2.0), (40, 4.0)):
        journal.shares.add(hour * HOUR + 7, [ShareHours("ana", 1.0, held, 2.0)])
    journal.shares.add(11 * HOUR, [ShareHours("bo", 1.0, 0.0, 0.25)])
    shares = journal.shares
    assert shares.since(0) == [ShareHours("ana", 4, 7.5, 8), ShareHours("bo", 1, 0, 0.25)]
    assert shares.since(11.9 * HOUR)[0] == ShareHours("ana", 2, 6, 4)
    journal.delete_old(12 * HOUR)
    assert shares.since(0) == [ShareHours("ana", 1, 4, 2)]


def test_a_journal_without_share_hours_gets_their_table(tmp_path: Path) -> None:
    Journal(tmp_path / "j.db").close()
    change(tmp_path / "j.db", "DROP TABLE share_hours")
    journal = Journal(tmp_path / "j.db")
    assert journal.shares.since(0) == []
    journal.close()
