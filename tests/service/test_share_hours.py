"""Share hours that users held and were due, recorded by the service."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from asked_service import Asked, change, served
from fairlead.service.journal.event_journal import Journal
from fairlead.service.journal.samples import ShareHours

HOUR = 3600.0


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


def test_hours_are_added_up_and_old_ones_deleted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    for hour, held in ((10, 1.0), (10, 0.5), (11, 2.0), (40, 4.0)):
        journal.shares.add(hour * HOUR + 7, [ShareHours("ana", 1.0, held, 2.0)])
    journal.shares.add(11 * HOUR, [ShareHours("bo", 1.0, 0.0, 0.25)])
    shares = journal.shares
    assert shares.since(0) == [ShareHours("ana", 4, 7.5, 8), ShareHours("bo", 1, 0, 0.25)]
    assert shares.since(11.9 * HOUR)[0] == ShareHours("ana", 2, 6, 4)
    journal.delete_old(12 * HOUR)
    assert shares.since(0) == [ShareHours("ana", 1, 4, 2)]
    journal.close()


def test_a_journal_without_the_table_gets_it(tmp_path: Path) -> None:
    Journal(tmp_path / "j.db").close()
    change(tmp_path / "j.db", "DROP TABLE share_hours")
    journal = Journal(tmp_path / "j.db")
    assert journal.shares.since(0) == []
    journal.close()
