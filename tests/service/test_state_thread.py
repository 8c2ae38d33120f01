"""The state's thread: it answers after events are on disk, and questions before requests."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import pytest
import sqlalchemy as sql

from asked_service import Asked, served
from fairlead.errors import FairleadError, InputError
from fairlead.formats.queue_file import QueueFile
from fairlead.scheduler.scheduler import Scheduler
from fairlead.service import _state_thread as state_thread
from fairlead.service._state_thread import StateThread, Transaction
from fairlead.service.jobs import Effects, Running
from fairlead.service.journal.event_journal import Batch, Journal, JournalError
from fairlead.service.messages import UnavailableError
from live_cluster import until
from service.test_state import a_job

A_JOB = a_job()
A_SERVER = {"name": "a", "capacity": {"cpu": 1.0}, "labels": {}, "identity": "1"}


def submit(tx: Transaction) -> list[int]:
    ids: list[int] = tx.apply("submit", jobs=[A_JOB])
    tx.batch.specs.update(dict.fromkeys(ids, ("ana", tx.now, b'{"command":["true"]}')))
    return ids


def join(tx: Transaction) -> None:
    tx.apply("server", **A_SERVER)


def end(tx: Transaction) -> None:
    tx.apply("end", tasks=[[1, 0, 1, 0, ""]])


class Writer:
    """A state thread on a journal, whose effects are kept."""

    def __init__(
        self,
        path: Path,
        policy: str | None = None,
        seed: int | None = None,
        queues: QueueFile | None = None,
    ) -> None:
        self.effects: list[Effects] = []
        self.rebuilt = 0
        self.journal = Journal(path)
        taken = self.effects.append
        try:
            self.state_thread = StateThread(self.journal, policy, seed, taken, self._note, queues)
        except FairleadError:
            self.journal.close()
            raise
        self.state_thread.start()

    def _note(self, _state: object) -> None:
        self.rebuilt += 1

    def ask(self, request: Any, key: str = "", digest: str = "") -> Any:
        return self.state_thread.enqueue(request, key, digest).result(10)

    @property
    def starts(self) -> list[Running]:
        return [run for effects in self.effects for run in effects.starts]

    def close(self) -> None:
        self.state_thread.stop()
        self.journal.close()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    started = Writer(tmp_path / "j.db")
    yield started
    started.close()


def test_no_answer_comes_before_its_event_is_on_disk(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.ask(join)
    may_go_on, commit = threading.Event(), Journal.commit
    seen: list[int] = []

    def slow(self: Journal, batch: Batch, effects: Effects) -> None:
        may_go_on.wait(10)
        commit(self, batch, effects)
        with Journal(self.path, shared=True)._engine.connect() as other:
            seen.append(other.exec_driver_sql("SELECT count(*) FROM events").scalar() or 0)

    monkeypatch.setattr(Journal, "commit", slow)
    count = len(writer.effects)
    outcome: Future[Any] = writer.state_thread.enqueue(submit)
    read: Future[Any] = writer.state_thread.enqueue(lambda tx: list(tx.state.jobs))
    with pytest.raises(TimeoutError):
        outcome.result(0.3)
    assert len(writer.effects) == count
    may_go_on.set()
    assert outcome.result(10) == [1]
    assert read.result(10) == [1]
    assert seen[0] == writer.journal.seq
    assert writer.effects[count].starts


def test_a_full_disk_is_said_and_forgotten(writer: Writer) -> None:
    for n in range(100):  # so that no page that is there has room for a snapshot
        writer.ask(lambda tx, name=f"s{n}": tx.apply("server", **A_SERVER | {"name": name}))

    def limit(pages: int) -> None:
        @sql.event.listens_for(writer.journal._engine, "connect")
        def _narrow(connection: Any, _record: object) -> None:
            connection.execute(f"PRAGMA max_page_count = {pages}")

        writer.journal._engine.dispose()

    limit(1)
    before = writer.state_thread.state.snapshot()

    def large(tx: Transaction) -> None:
        for _ in range(500):
            submit(tx)

    with pytest.raises(
        UnavailableError, match="the journal cannot be written: database or disk is full"
    ):
        writer.ask(large)
    assert not writer.state_thread.ready
    with pytest.raises(UnavailableError):
        writer.ask(large)
    limit(2**30)
    until(lambda: writer.state_thread.ready, 10)
    assert writer.rebuilt == 1
    assert writer.state_thread.state.snapshot() == before
    assert writer.ask(submit) == [1]


def test_a_defect_in_a_request_restores_the_state_on_disk(writer: Writer) -> None:
    writer.ask(join)
    before = writer.state_thread.state.snapshot()

    def defect(tx: Transaction) -> None:
        submit(tx)
        raise ZeroDivisionError

    with pytest.raises(UnavailableError, match="internal error"):
        writer.ask(defect)
    until(lambda: writer.state_thread.ready, 10)
    assert writer.state_thread.state.snapshot() == before


def test_a_key_is_answered_once(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "j.db")
    assert writer.ask(submit, "ana/1", "x") == [1]
    assert writer.ask(submit, "ana/1", "x") == [1]
    with pytest.raises(InputError, match="another request"):
        writer.ask(submit, "ana/1", "y")
    writer.close()
    writer = Writer(tmp_path / "j.db")
    assert writer.ask(submit, "ana/1", "x") == [1]
    assert writer.ask(submit, "ana/2", "x") == [2]
    writer.close()


def test_another_seed_from_now_on(tmp_path: Path) -> None:
    found = []
    for policy, seed in (("drf/rrr", 2**62), (None, None), (None, 7), (None, 7), ("tsf/rrr", None)):
        engine = Writer(tmp_path / "j.db", policy, seed)
        engine.state_thread.stop()
        core = engine.state_thread.state.scheduler
        kinds = [kind for _, _, kind, _ in engine.journal.events()]
        found += [(core.policy.name, core.seed), kinds.count("policy")]
        engine.journal.close()
    first, second = ("drf/rrr", 2**62), ("drf/rrr", 7)
    assert found == [first, 1, first, 1, second, 2, second, 2, ("tsf/rrr", 7), 3]
    with pytest.raises(InputError, match="seed"):
        Writer(tmp_path / "new.db", "drf/rrr", 2**62 + 1)


@pytest.mark.parametrize("policy", ["drf/rrr/oblivious", "drf/best-fit"])
def test_while_nothing_can_start_nothing_is_written(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.service._state_thread.LEAST_WAIT", 0.01)
    writer = Writer(tmp_path / "j.db", policy)
    for request in (join, submit, submit):
        writer.ask(request)
    until(lambda: any(effects.starts for effects in writer.effects), 10)
    writer.ask(lambda _tx: None)
    before = writer.journal.seq
    time.sleep(0.2)
    assert any(user.pending for user in writer.state_thread.state.users.values())
    assert writer.journal.seq == before
    writer.close()


def test_a_declined_offer_is_repeated_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time stands still until the test moves it."""
    wall, steady = [time.time()], [0.0]
    monkeypatch.setattr(state_thread.time, "time", lambda: wall[0])
    monkeypatch.setattr(state_thread, "monotonic", lambda: steady[0])
    monkeypatch.setattr("fairlead.service._state_thread.LEAST_WAIT", 0.01)
    core = partial(Scheduler, refuse_seconds=0.5)
    monkeypatch.setattr("fairlead.service.service_state.Scheduler", core)
    writer = Writer(tmp_path / "j.db", "drf/rrr/oblivious")
    writer.ask(lambda tx: tx.apply("server", **A_SERVER | {"capacity": {"cpu": 2.0}}))
    writer.ask(submit)
    writer.ask(lambda tx: tx.apply("submit", jobs=[A_JOB | {"demand": {"cpu": 2.0}}]))
    writer.ask(lambda _tx: None)
    writer.ask(end)  # the other core was declined just before
    writer.ask(lambda _tx: None)
    (first,) = writer.starts
    wall[0], steady[0] = wall[0] + 0.6, 0.6
    until(lambda: len(writer.starts) == 2)
    assert writer.starts[1].since - first.since == pytest.approx(0.6, abs=0.05)
    writer.close()


def test_only_the_request_that_fails_to_commit_is_refused(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Journal.commit

    def some(journal: Journal, batch: Batch, effects: Effects) -> None:
        if any(b"guilty" in body for _, _, body in batch.events):
            raise JournalError("no")
        commit(journal, batch, effects)

    monkeypatch.setattr(Journal, "commit", some)
    enqueue = writer.state_thread.enqueue
    stopped = enqueue(lambda _: sleep(0.3))  # so that the later requests form one batch
    names = ["a", "guilty", "b"]
    asked = [enqueue(lambda tx, n=n: tx.apply("user", name=n, weight=1.0)) for n in names]
    stopped.result(30)
    faults = [future.exception(30) for future in asked]
    assert [fault is None for fault in faults] == [True, False, True]
    assert list(writer.state_thread.state.users) == ["a", "b"]


def test_durations_go_on_when_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall, steady = [1e9 + 3e7], [0.0]
    monkeypatch.setattr(state_thread.time, "time", lambda: wall[0])
    monkeypatch.setattr(state_thread, "monotonic", lambda: steady[0])
    writer = Writer(tmp_path / "j.db")

    def moment(tx: Transaction) -> float:
        tx.apply("user", name="ana", weight=1.0)
        return tx.now

    first = writer.ask(moment)
    wall[0], steady[0] = 1e9, 100.0
    second = writer.ask(moment)
    steady[0] = 150.0
    third = writer.ask(moment)
    assert second - first == pytest.approx(100.0, abs=0.01)
    assert third - second == pytest.approx(50.0, abs=0.01)
    writer.close()


@served
async def test_a_question_passes_waiting_requests(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_thread, "REQUESTS_AT_ONCE", 2)
    (job,) = await ask.submit({"cpu": 5})
    thread, may_go_on = ask.service.state_thread, threading.Event()
    order: list[str] = []
    answer_question = thread._answer

    def noted(question: Any) -> None:
        order.append("question")
        answer_question(question)

    monkeypatch.setattr(thread, "_answer", noted)
    thread.enqueue(lambda _: may_go_on.wait(60))
    waiting = [thread.enqueue(lambda _: order.append("request")) for _ in range(60)]
    explaining = asyncio.create_task(ask("GET", f"/v1/jobs/{job}/explain"))
    while thread._questions.empty():
        await asyncio.sleep(0.001)
    may_go_on.set()
    assert (await explaining)["held_by"] == "where"  # that server does not exist yet
    await asyncio.wait_for(asyncio.wrap_future(waiting[-1]), 60)
    assert order.index("question") < 5


@served
async def test_many_questions_leave_time_for_requests(ask: Asked) -> None:
    thread, may_go_on = ask.service.state_thread, threading.Event()
    order: list[str] = []

    def question(_: Transaction) -> None:
        sleep(0.05)
        order.append("question")

    thread.enqueue(lambda _: may_go_on.wait(60))
    asked = [asyncio.create_task(thread.ask(question)) for _ in range(40)]
    await asyncio.sleep(0)
    request = thread.enqueue(lambda _: order.append("request"))
    may_go_on.set()
    await asyncio.wait_for(asyncio.wrap_future(request), 60)
    assert len(await asyncio.gather(*asked)) == 40
    assert order.index("request") < 30


@served
async def test_a_question_that_changes_the_state_is_undone(ask: Asked) -> None:
    (job,) = await ask.submit({})

    def cancel(tx: Transaction) -> None:
        tx.apply("cancel", job=int(job), reason="by a question")

    with pytest.raises(UnavailableError, match="internal error"):
        await ask.service.state_thread.ask(cancel)
    assert (await ask("GET", f"/v1/jobs/{job}"))["state"] == "pending"
    assert await ask.submit({})


@served
async def test_a_question_is_told_that_the_journal_is_gone(ask: Asked) -> None:
    thread: Any = ask.service.state_thread
    thread.ready, thread.fault = False, "the disk is full"
    thread._retry = lambda: None
    with pytest.raises(UnavailableError, match="the disk is full"):
        await thread.ask(lambda tx: tx.now)
    thread.ready = True
    assert await thread.ask(lambda tx: tx.now) > 0
