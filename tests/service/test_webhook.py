"""Notices to a webhook: signed, retried, kept over restarts, and fair among users."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pytest
import sqlalchemy as sql

from asked_service import Asked, run, served
from fairlead.errors import InputError
from fairlead.service import webhook as sending
from fairlead.service.alerts import Alert
from fairlead.service.journal import notices as kept
from fairlead.service.journal.event_journal import Journal
from fairlead.service.service import Settings
from fairlead.service.webhook import Receiver, check_url, read_secret, signature

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAAAAAAAAAAA="


class Listener:
    """A receiver of notices, which answers with statuses in turn, then with 204."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.taken: list[tuple[httpx.Headers, bytes]] = []
        self.asked = 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        status = self.statuses.pop(0) if self.statuses else 204
        if status < 300:
            self.taken.append((request.headers, request.content))
        return httpx.Response(status, headers={"Location": "/elsewhere"})

    async def has(self, number: int) -> None:
        async with asyncio.timeout(20):
            while len(self.taken) < number:
                await asyncio.sleep(0.02)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.taken]


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    """The receiver at the other end of each connection."""
    made = Listener()
    transport = httpx.MockTransport(made.answer)
    monkeypatch.setattr(httpx, "AsyncClient", partial(httpx.AsyncClient, transport=transport))
    monkeypatch.setattr(sending, "FIRST_PAUSE", 0.05)
    return made


SETTINGS = Settings(receiver=Receiver("https://example.org/hook", SECRET))


def test_the_signature_is_that_of_the_specification() -> None:
    """The example of https://github.com/standard-webhooks: its id, time, body and signature."""
    found = signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        b'{"test": 2432232314}',
    )
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@served(settings=SETTINGS)
async def test_ends_of_jobs_are_sent_if_asked_for(ask: Asked, listener: Listener) -> None:
    session = await ask.join("a", cpu=9)
    await ask.submit({"notify": True, "name": "n"}, {}, {"notify": True, "cpu": 20})
    await ask.work(session, status=3)
    await ask("POST", "/v1/jobs/3/cancel")
    await listener.has(2)
    assert [body["type"] for body in listener.bodies] == ["job.ended"] * 2
    ends = [body["job"] for body in listener.bodies]
    states = [(end["id"], end["state"], end["exit_status"]) for end in ends]
    assert states == [("1", "failed", 3), ("3", "cancelled", None)]
    assert ends[0]["name"] == "n"
    for headers, body in listener.taken:
        id_, at = headers["webhook-id"], headers["webhook-timestamp"]
        assert headers["webhook-signature"] == signature(SECRET, id_, at, body)
    async with asyncio.timeout(10):
        while ask.service.journal.notices.first_of_each():
            await asyncio.sleep(0.02)  # until the last one is deleted


@served(settings=SETTINGS)
async def test_a_refused_notice_is_sent_again(
    ask: Asked, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    listener.statuses = [500, 404, 302]
    await ask.submit({"notify": True})
    await ask("POST", "/v1/jobs/1/cancel")
    await listener.has(1)
    async with asyncio.timeout(10):
        while "accepts notices again" not in caplog.text:
            await asyncio.sleep(0.02)
    assert (listener.asked, len(listener.taken)) == (4, 1)


def test_a_notice_outlives_the_service(tmp_path: Path, listener: Listener) -> None:
    """The notice is in the journal with the end of its job, and the next service sends it."""

    async def unsent(ask: Asked) -> None:
        await ask.submit({"notify": True})
        await ask("POST", "/v1/jobs/1/cancel")

    async def sent(_: Asked) -> None:
        await listener.has(1)
        assert listener.bodies[0]["job"]["id"] == "1"

    listener.statuses = [503] * 1000
    run(tmp_path, unsent, SETTINGS)
    assert listener.taken == []
    listener.statuses = []
    run(tmp_path, sent, SETTINGS)


@served(settings=SETTINGS)
async def test_alerts_are_sent_as_they_come_and_go(ask: Asked, listener: Listener) -> None:
    await ask.join("a", cpu=1)
    await ask.submit({"cpu": 5})
    await ask.service.history.sample(60.0)
    await ask.service.history.sample(60.0)
    await ask("POST", "/v1/jobs/1/cancel")
    await ask.service.history.sample(60.0)
    await listener.has(2)
    assert [body["type"] for body in listener.bodies] == ["alert.raised", "alert.cleared"]
    assert listener.bodies[0]["alert"]["about"] == "1"


def test_one_user_does_not_delay_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each user has a queue of its own, which is bounded; more notices are dropped."""
    monkeypatch.setattr(kept, "MOST_NOTICES", 5)
    journal = Journal(tmp_path / "j.db")
    journal.notices.has_receiver = True
    alert = Alert("journal", "/j.db", "", 1.0)
    journal.add_alerts([("alert.raised", alert, 1.0)], b"{}")
    with journal._engine.begin() as connection:
        for k in range(3):
            kept._insert(connection, "ana", [b"%d" % n for n in range(4)], 2.0 + k)
        kept._insert(connection, "bo", [b"1"], 9.0)
    found = [(notice.user, notice.made) for notice in journal.notices.first_of_each()]
    assert found == [("", 1.0), ("ana", 2.0), ("bo", 9.0)]
    sent = 0
    while mine := [n for n in journal.notices.first_of_each() if n.user == "ana"]:
        journal.notices.delete(mine[0].id)
        sent += 1
    assert sent == 5
    assert journal.notices.delete_old(9.5 + kept.KEPT_SECONDS) == 2
    journal.close()


@served
async def test_a_job_cannot_notify_without_a_webhook(ask: Asked) -> None:
    assert "no webhook" in await ask.refused({"notify": True})
    assert ask.service.state_thread.state.jobs == {}


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made = read_secret(path)
    assert made.startswith("whsec_")
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_secret(path) == made
    for wrong in ("", "A" * 40, "whsec_short", f"whsec_{'A' * 28}", f"whsec_{'-' * 40}"):
        path.write_text(wrong)
        with pytest.raises(InputError, match="whsec_"):
            read_secret(path)
    with pytest.raises(InputError):
        read_secret(tmp_path / "missing" / "secret")


@pytest.mark.parametrize(
    "wrong",
    [
        *("host", "ftp://a/b", "http://", "http://a:99999/"),
        *(
            "http://[",
            "http://a b/",
            "http://a..b/",
            "http://./",
            "http://xn--/",
            "http://a/\udcff",
        ),
    ],
)
def test_a_url_is_one_of_http(wrong: str) -> None:
    with pytest.raises(InputError):
        check_url(wrong)
    check_url("https://example.org/hook?a=1")


@served(settings=SETTINGS)
async def test_an_accepted_notice_is_sent_once(ask: Asked, listener: Listener) -> None:
    """Also if the notice cannot be deleted; then it does not delay other notices."""

    notices = ask.service.journal.notices
    fault = sql.exc.OperationalError("", {}, OSError("full"))
    with mock.patch.object(notices, "delete", side_effect=fault):
        for user in ("ana", "bo"):
            await ask.submit({"user": user, "notify": True})
        for job in (1, 2):
            await ask("POST", f"/v1/jobs/{job}/cancel")
            await listener.has(job)
        ask.service.webhook.wake_up.set()
        await asyncio.sleep(0.3)
    ask.service.webhook.wake_up.set()
    async with asyncio.timeout(10):
        while notices.first_of_each():
            await asyncio.sleep(0.02)
    assert [body["job"]["user"] for body in listener.bodies] == ["ana", "bo"]
