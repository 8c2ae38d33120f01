"""The state over time: alerts by their definitions, samples and share hours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from asked_service import Asked, as_, change, served
from effort import cases
from fairlead.service import alerts as rules
from fairlead.service.alerts import (
    Alerts,
    Debts,
    EndedTasks,
    Finding,
    Thresholds,
    find_failing_servers,
    find_full_disk,
    unplaceable_job,
)
from fairlead.service.http.http_server import RepeatFilter
from fairlead.service.jobs import EndedAttempt, TaskKey, Where
from fairlead.service.journal import samples as kept
from fairlead.service.journal.event_journal import Journal, JournalError
from fairlead.service.journal.samples import (
    KEPT_SECONDS,
    MOST_STEPS,
    SLOT_SECONDS,
    ClusterSample,
    ShareHours,
    UserShare,
)
from fairlead.service.service import Settings

HOUR, DAY, WEEK = 3600.0, 86400.0, 7 * 86400.0
GPUS = {"cpu": 100.0, "gpu": 10.0}
LESS = [UserShare("bo", 0.1, 0.3)]  # than is fair


def test_a_debt_counts_gpu_hours_over_time() -> None:
    """0.2 of 10 GPUs for an hour are 2 GPU-hours: above 5 after 3 h, and for 1 h after 4."""
    found = Debts(Thresholds(5, HOUR))
    hours = [found.add(LESS, HOUR, GPUS, hour * HOUR) for hour in range(1, 7)]
    assert [list(texts) for texts in hours] == [[], [], [], ["bo"], ["bo"], ["bo"]]
    text, user = hours[-1]["bo"]
    assert user == "bo"
    assert "bo is owed 12 GPU-hours" in text
    (cores,) = Debts(Thresholds(5, 0)).add(LESS, HOUR, {"cpu": 100.0, "gpu": 0.0}, HOUR).values()
    assert "20 core-hours" in cores.text
    assert found.add([], HOUR, GPUS, 7 * HOUR) == {}, "a fair share ends the debt"
    assert [found.add(LESS, HOUR, GPUS, hour * HOUR) for hour in (8, 9)] == [{}, {}]


def attempts(server: str, *ends: tuple[int, str, int], at: float = 0.0) -> list[EndedAttempt]:
    return [
        EndedAttempt(TaskKey(job, 0, 1), user, server, {}, at - 1, at, status, "")
        for job, user, status in ends
    ]


BAD, GOOD = [(job, "ana", 1) for job in range(1, 7)], [(job, "ana", 0) for job in range(1, 7)]


@pytest.mark.parametrize(
    ("here", "elsewhere", "is_failing"),
    [
        (BAD, GOOD, True),
        (BAD, [], False),  # of one user, without tasks on other servers
        ([(job, user, 1) for job, user, _ in zip(range(6), "ababab", BAD, strict=True)], [], True),
        (BAD, BAD, False),  # the user's tasks fail on every server
        (BAD + GOOD, GOOD, False),  # only half of the tasks failed
        ([*BAD, *GOOD[:5]], GOOD, True),
        (BAD[:4], GOOD, False),  # too few failures
        ([(1, "ana", 1)] * 9, GOOD, False),  # all of one job
        (BAD, [*GOOD, *[(9, "bo", 1)] * 9], True),  # tasks of another user fail on other servers
    ],
)
def test_a_server_that_fails_tasks(here: list[Any], elsewhere: list[Any], is_failing: bool) -> None:
    tasks = EndedTasks()
    tasks.add(attempts("a", *here) + attempts("b", *elsewhere), set())
    last = tasks.last_tasks({"a", "b"})
    assert ("a" in find_failing_servers(last, 1.0)) == is_failing
    assert find_failing_servers(last, HOUR + 1) == {}  # an hour later
    assert tasks.last_tasks(set()) == {}  # the servers are gone, and forgotten
    assert tasks.last_tasks({"a", "b"}) == {}


def test_stopped_tasks_fail_no_server() -> None:
    tasks = EndedTasks()
    stopped = [a._replace(reason="cancelled") for a in attempts("a", *BAD)]
    lost = [a._replace(status=None) for a in attempts("a", *BAD)]
    tasks.add(stopped + lost, {"cancelled"})
    assert tasks.last_tasks({"a"}) == {}


@pytest.fixture
def disk() -> Iterator[SimpleNamespace]:
    space = SimpleNamespace(total=1000 * rules.GIB, free=100 * rules.GIB)
    with mock.patch("shutil.disk_usage", return_value=space):
        yield space


@pytest.mark.parametrize(
    ("grown", "hours", "words"),
    [
        (10, 24, ""),  # 100 GiB are full in ten days
        (20, 24, "20 GiB a day, and will fill its disk in 5 days"),
        (20, 0.5, ""),  # the time is too short for a forecast
        (-20, 24, ""),
    ],
)
def test_a_journal_that_fills_its_disk(
    disk: SimpleNamespace, grown: int, hours: float, words: str
) -> None:
    size, now = 500 * rules.GIB, 10 * 86400.0
    first = ClusterSample(0, 0, {}, {}, size - grown * rules.GIB)
    samples = [(now - hours * HOUR, first), (now, first._replace(journal=size))]
    found = find_full_disk(Path("/j.db"), size, samples, now)
    assert bool(found) == bool(words)
    assert not words or words in found["/j.db"].text
    disk.free = 40 * rules.GIB
    assert "96 % full" in find_full_disk(Path("/j.db"), size, [], now)["/j.db"].text


@pytest.mark.parametrize("user", ["", "bo"])
def test_alerts_of_a_kind_are_bounded(monkeypatch: pytest.MonkeyPatch, user: str) -> None:
    """Present alerts stay, and new ones are raised below the bound; each user has its own bound."""
    monkeypatch.setattr(rules, "MOST_WITHOUT_USER" if not user else "MOST_OF_A_USER", 2)
    alerts = Alerts(Thresholds())
    alerts.update("owed", {"b": Finding("before", user)}, 1.0)
    found = {name: Finding("", user) for name in "abc"} | {"z": Finding("", "zoe")}
    assert [alert.about for alert in alerts.update("owed", found, 2.0)[0]] == ["a", "z"]
    assert {alert.about for alert in alerts} == {"a", "b", "z"}
    assert [(a.text, a.since) for a in alerts if a.about == "b"] == [("", 1.0)]
    assert alerts.update("journal", {}, 3.0) == ([], []), "of another kind"
    raised, cleared = alerts.update("owed", {name: Finding("", user) for name in "bc"}, 3.0)
    assert [alert.about for alert in raised] == ["c"]
    assert [alert.about for alert in cleared] == ["a", "z"]


def test_alerts_and_debts_outlive_a_restart() -> None:
    before = Alerts(Thresholds(5, 0))
    for hour in (1, 2, 3):
        found = before.debts.add(LESS, HOUR, GPUS, hour * HOUR)
    before.update(rules.OWED, found, 3 * HOUR)
    after = Alerts(Thresholds(5, 0), before.to_json())
    assert list(after) == list(before) != []
    found = after.debts.add(LESS, HOUR, GPUS, 9 * HOUR)
    assert "8 GPU-hours" in found["bo"].text
    assert after.update(rules.OWED, found, 9 * HOUR) == ([], [])
    for damaged in (b"", b"x", b"{}", b'{"alerts": [[1]], "debts": 3}'):
        assert list(Alerts(Thresholds(), damaged)) == []


@served
async def test_a_lost_server_is_an_alert_for_a_day(ask: Asked) -> None:
    history, now = ask.service.history, time.time()
    ask.service.workers.lost |= {"a": now, "old": now - 90000.0}
    await history.sample(60.0)
    assert [(alert.kind, alert.about) for alert in history.alerts] == [("lost-server", "a")]
    assert list(ask.service.workers.lost) == ["a"]
    ask.service.workers.lost.clear()  # as after a restart of the service
    await history.sample(60.0)
    assert [alert.about for alert in history.alerts] == ["a"]


@served
async def test_a_server_lost_during_a_sample_is_an_alert_later(ask: Asked) -> None:
    """The sample still has the server, as if it had joined again."""
    await ask.join("a", cpu=1)
    history, lost = ask.service.history, ask.service.workers.lost
    taken = await ask.service.state_thread.ask(history._take)
    lost["a"] = time.time()
    await asyncio.to_thread(history._record, taken, 60.0)
    assert list(lost) == ["a"]
    await ask("DELETE", "/v1/servers/a")
    await history.sample(60.0)
    assert [alert.kind for alert in history.alerts] == ["lost-server"]


@served
async def test_a_job_too_large_is_an_alert(ask: Asked, caplog: pytest.LogCaptureFixture) -> None:
    """It is in the summary, the metrics and the log, and is cleared when the job fits."""
    await ask.join("a", cpu=4)
    await ask.submit({"cpu": 2})
    await ask.submit({"cpu": 5}, {"tasks": 2, "gang": True, "cpu": 9}, {"where": ["zz"]})
    history = ask.service.history
    await history.sample(60.0)
    alerts = (await ask("GET", "/v1/overview"))["alerts"]
    assert {alert["kind"] for alert in alerts} == {"never-runs"}
    assert [alert["about"] for alert in alerts] == ["2", "3", "4"]
    once = RepeatFilter()
    logged = [record.getMessage() for record in caplog.records if once.filter(record)]
    raised = [text.split()[2] for text in logged if text.startswith("alert.raised: job ")]
    assert raised == ["2", "3", "4"]
    assert history.journal.notices.first_of_each() == [], "no webhook receives notices"
    metrics = (await ask.service.metrics.text()).decode()
    assert 'fairlead_alerts{kind="never-runs"} 3.0' in metrics
    assert 'fairlead_alerts{kind="owed"} 0.0' in metrics
    await ask("POST", "/v1/jobs/2/cancel")
    await ask("PATCH", "/v1/jobs/4", json={"anywhere": True})
    await history.sample(60.0)
    assert [alert.about for alert in history.alerts] == ["3"]


def test_an_alert_names_the_labels_that_no_server_has() -> None:
    cases: list[tuple[Where, str]] = [
        (None, "no server that it may use is large enough"),
        ({"gpu": "A100", "zone": "b"}, "no present server has all of gpu=A100, zone=b ("),
        ([f"s{k}" for k in range(9)], "no present server is named s0, s1, s2, s3, ... ("),
    ]
    for unmatched, says in cases:
        text = unplaceable_job(7, "ana", unmatched).text
        assert f"job 7 of ana can never run: {says}" in text


@served(settings=Settings(thresholds=Thresholds(0.5, 60.0)), tokens=True)
async def test_an_owed_user_is_an_alert(ask: Asked) -> None:
    """A user's token gets only the alerts about that user."""
    await ask.join("a", cpu=4, **as_("w"))
    await ask.submit({"tasks": 4}, **as_("ana"))
    await ask.submit({"user": "bo", "tasks": 4}, **as_("bo"))
    history = ask.service.history
    with mock.patch("fairlead.service._history.time", side_effect=[1e9, 1e9 + 900, 1e9 + 1800]):
        for _ in range(3):
            await history.sample(900.0)
    (alert,) = (await ask("GET", "/v1/overview", **as_("root")))["alerts"]
    assert (alert["kind"], alert["about"]) == ("owed", "bo")
    assert (await ask("GET", "/v1/overview", **as_("bo")))["alerts"] == [alert]
    assert (await ask("GET", "/v1/overview", **as_("ana")))["alerts"] == []


@served
async def test_a_full_disk_delays_notices_and_hides_no_alert(ask: Asked) -> None:
    await ask.join("a", cpu=4)
    await ask.submit({"cpu": 5})
    history, journal = ask.service.history, ask.service.journal
    journal.notices.has_receiver = True
    for written, name in ((journal, "add_alerts"), (journal.shares, "add")):
        with (
            mock.patch.object(written, name, side_effect=JournalError("full")),
            pytest.raises(JournalError),
        ):
            await history.sample(60.0)
        assert [alert.about for alert in history.alerts] == ["1"]
    (notice,) = journal.notices.first_of_each()
    assert (notice.user, b"alert.raised" in notice.body) == ("ana", True)


@served
async def test_a_damaged_sample_is_left_out(ask: Asked) -> None:
    history, journal = ask.service.history, ask.service.journal
    await history.sample(60.0)
    for damaged in ("x", "[1]", '{"waiting": 1}'):
        with journal._engine.begin() as connection:
            connection.exec_driver_sql("DELETE FROM cluster_samples")
            slot = int(time.time() // 300) - 1
            row = (slot, damaged.encode())
            connection.exec_driver_sql("INSERT INTO cluster_samples VALUES (?, ?)", row)
        await history.sample(60.0)
        assert len((await ask("GET", "/v1/cluster/over-time?seconds=3600"))["times"]) == 1


@served
async def test_sampling_goes_on_after_a_defect(ask: Asked, caplog: Any) -> None:
    history = ask.service.history
    history.pause = 0.01
    fails_once = [ValueError, *[None] * 1000]
    began = time.monotonic()
    with mock.patch.object(history, "sample", side_effect=fails_once) as sample:
        recording = asyncio.create_task(history.record())
        async with asyncio.timeout(10):
            while sample.call_count < 5:
                await asyncio.sleep(0.01)
        recording.cancel()
    assert "a sample failed unexpectedly" in caplog.text
    assert 0 < sum(call.args[0] for call in sample.call_args_list) < time.monotonic() - began


NOW = 1_000_000 * SLOT_SECONDS + 10.0


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
    for k, at in enumerate(times):  # a slot stands for its end, or the present if earlier
        begin = (at - SLOT_SECONDS / 2) // width * width if at < NOW else NOW // width * width
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


@served
async def test_ana_holds_what_bo_is_owed(ask: Asked) -> None:
    """Ana has the only two cores for an hour; then bo wants one of them, for half an hour.

    Held and fair shares are fractions of the cluster, not divided by weights.
    """
    await ask.join("a", cpu=2)
    await ask("PUT", "/v1/users/ana", json={"weight": 2})
    await ask.submit({"user": "ana", "cpu": 1, "tasks": 2})
    history = ask.service.history
    await history.sample(HOUR)
    await ask.submit({"user": "bo", "cpu": 1})
    await history.sample(HOUR / 2)
    found = await ask("GET", "/v1/shares/over?seconds=604800")
    ana, bo = found["users"]
    assert found["cluster"]["cpu"] == 2
    assert (ana["user"], bo["user"]) == ("ana", "bo")
    assert (ana["active"], ana["held"], ana["fair"]) == pytest.approx((1.5, 1.5, 4 / 3))
    assert (bo["active"], bo["held"], bo["fair"]) == pytest.approx((0.5, 0.0, 1 / 6))
    assert (ana["owed"], bo["owed"]) == pytest.approx((-1 / 6, 1 / 6))
    cluster = await ask("GET", "/v1/cluster/over-time?seconds=3600")
    assert (cluster["waiting"], cluster["running"]) == ([1], [2])
    assert (cluster["used"]["cpu"], cluster["capacity"]["cpu"]) == ([2], [2])
    ana = (await ask("GET", "/v1/shares/over-time?seconds=3600"))["users"][0]
    assert (ana["user"], ana["held"], ana["fair"]) == ("ana", [1], pytest.approx([2 / 3]))
    await ask.service.overview.latest()
    ask.service.overview._fresh_until = 0.0
    user = await ask("GET", "/v1/users/ana")
    assert (user["held"], user["fair"]) == (1, pytest.approx(2 / 3))


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
