"""A worker's attempts: no fault and no strange output of one delays the others."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import threading
from collections import UserDict
from pathlib import Path

import pytest

from fairlead.service.engines import worker_loop
from fairlead.service.engines.protocol import Start
from fairlead.service.messages import LogsPiece
from fairlead.service.worker import _attempts as attempts
from fairlead.service.worker import worker as worker_module
from fairlead.service.worker._attempts import Attempt
from live_cluster import until
from real_attempts import KEY, ended
from real_workers import a_job, full, run, worker_in


@pytest.mark.parametrize("name", ["_check_task", "_trim", "_remove", "_watch_memory"])
def test_no_fault_of_a_loop_ends_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    worker = worker_in(tmp_path)
    calls = []

    def fail(*_: object) -> None:
        calls.append(name)
        raise RuntimeError("a fault")

    monkeypatch.setattr(worker_loop, "FAULT_PAUSE", 0.0)
    monkeypatch.setattr(worker_module, "CLEAN_SECONDS", 0.0)
    monkeypatch.setattr(worker_module, "MEMORY_SECONDS", 0.0)
    monkeypatch.setattr(worker, name, fail)

    async def whole() -> None:
        await worker.start([Start(KEY, "a", {}, None, a_job("sleep", "300"))])
        attending = asyncio.create_task(worker.attend())
        while len(calls) < 3:
            await asyncio.sleep(0.01)
            assert not attending.done()
        attending.cancel()
        await asyncio.wait({attending})

    try:
        asyncio.run(whole())
        assert len([record for record in caplog.records if record.exc_info]) >= 2
    finally:
        worker._attempts[KEY].drop()


def test_one_bad_attempt_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = worker_in(tmp_path)
    run(worker, *(Start((1, k, 1), "a", {}, None, a_job("sleep", ".3", tasks=3)) for k in range(3)))
    first, *others = worker._attempts.values()
    monkeypatch.setattr(first, "poll", lambda: 1 / 0)

    async def look() -> None:
        with pytest.raises(ZeroDivisionError):
            await worker._check_tasks()

    until(lambda: asyncio.run(look()) or all(other.outcome for other in others))
    assert {ending.key for ending in worker.endings()} == {other.key for other in others}


def test_only_the_thread_of_the_loop_uses_the_table(tmp_path: Path) -> None:
    class Owned(UserDict):  # type: ignore[type-arg]
        """A table that notes which threads use it."""

        def __getattribute__(self, name: str) -> object:
            threads.add(threading.get_ident())
            return super().__getattribute__(name)

    threads: set[int] = set()
    worker = worker_in(tmp_path, output_age=0.0)
    worker._attempts = Owned()

    async def whole() -> None:
        for submitted in (1.0, 2.0):  # the second attempt drops the first
            job = a_job("true", submitted=submitted)
            await worker.start([Start(KEY, "a", {"gpu": 1}, None, job)])
        while not worker._attempts[KEY].poll():
            await asyncio.sleep(0.01)
        await worker.output(KEY, "stdout", 0)
        await worker._clean()
        worker.forget(worker.endings())
        while any((tmp_path / "attempts").glob("[!.]*")):
            await worker._clean()

    asyncio.run(whole())
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("way", ["stop", "keep_only"])
def test_a_task_stopped_as_it_starts_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(attempts, "KILL_AFTER", 0.5)
    worker = worker_in(tmp_path)

    async def whole() -> None:
        starting = asyncio.create_task(
            worker.start([Start(KEY, "a", {"gpu": 3}, None, a_job("sleep", "300"))])
        )
        while not worker._starting:
            await asyncio.sleep(0)
        if way == "stop":
            worker.stop(KEY, "cancelled")
        else:
            worker.keep_only([])
        await worker.start([Start((8, 0, 1), "a", {"gpu": 1}, None, a_job("true"))])
        await starting

    asyncio.run(whole())
    assert ended(worker._attempts[KEY]).status in (137, 143)  # SIGKILL if it ignored SIGTERM
    second = ended(worker._attempts[8, 0, 1])  # no other task gets the devices of a starting task
    assert (second.status, second.reason) == (None, "its GPUs are not free on a")


def test_a_task_that_cannot_start_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is reported after a pause, because the service starts it again at once."""
    worker = worker_in(tmp_path)
    now = 0.0
    monkeypatch.setattr(worker_module, "monotonic", lambda: now)
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        run(worker, Start((1, 0, 1), "a", {}, None, a_job("true")))
    assert worker.endings() == []
    run(worker, Start((2, 0, 1), "a", {}, None, a_job("true")))
    assert ended(worker._attempts[2, 0, 1]).status == 0
    now = worker_module.FAILURE_REPORT_SECONDS
    assert [ending.status for ending in worker.endings()] == [None, 0]
    assert "No space left" in worker.endings()[0].reason


def test_one_sync_serves_all_tasks_of_an_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, fsync = worker_in(tmp_path), os.fsync
    found: list[list[str]] = []

    def note(number: int) -> None:
        folders = sorted(tmp_path.glob("attempts/*"))
        begun = [attempt for attempt in map(Attempt.from_folder, folders) if attempt]
        found.append([path.name for path in folders])
        found.append([attempt.path.name for attempt in begun if attempt.record.leader])
        fsync(number)

    monkeypatch.setattr(os, "fsync", note)
    run(worker, *(Start((1, k, 1), "a", {}, None, a_job("true", tasks=3)) for k in range(3)))
    assert found == [["1.0.1", "1.1.1", "1.2.1"], []], "none has a process before all are on disk"
    assert {ended(attempt).status for attempt in worker._attempts.values()} == {0}


def test_an_end_is_noticed_without_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "LOOK_SECONDS", 1e6)
    worker = worker_in(tmp_path)

    async def whole() -> None:
        attending = asyncio.create_task(worker.attend())
        await asyncio.sleep(0)
        worker.changed.clear()
        await worker.start([Start(KEY, "a", {}, None, a_job("sleep", ".2"))])
        await asyncio.wait_for(worker.changed.wait(), 60)
        attending.cancel()
        await asyncio.wait({attending})

    asyncio.run(whole())
    assert [(ending.key, ending.status) for ending in worker.endings()] == [(KEY, 0)]


def test_an_attempt_with_a_damaged_record_never_starts(tmp_path: Path) -> None:
    """After a power failure, perhaps only the name of its folder is on disk."""
    worker, out = worker_in(tmp_path), tmp_path / "out"
    task = Start(KEY, "a", {}, None, a_job("/bin/sh", "-c", f"echo ran >>{out}"))
    run(worker, task)
    ended(worker._attempts[KEY])
    (tmp_path / "attempts" / "7.0.1" / "record").write_text("")
    os.close(worker._lock)
    again = worker_in(tmp_path)
    run(again, task)
    assert ended(again._attempts[KEY]).status is None, "the service starts another attempt"
    assert out.read_text() == "ran\n"


class Sparse(io.BytesIO):
    """A file without data that a task made as long as some file systems allow."""

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return 9 * 10**18 if whence == os.SEEK_END else offset

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        return b"\0" * size


def test_no_size_exceeds_that_of_the_service(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = worker_in(root)
    run(worker, Start(KEY, "a", {}, None, a_job("true")))
    ended(worker._attempts[KEY])
    monkeypatch.setattr(worker._attempts[KEY], "output", lambda _: Sparse())
    for offset, length in ((0, 2**18), (2**53 - 5, 5), (2**53, 0)):
        piece = asyncio.run(worker.output(KEY, "stdout", offset))
        taken = LogsPiece.model_validate({"session": "s", "request": "r", **piece})
        assert (taken.offset, taken.size) == (offset, 2**53)
        assert len(base64.b64decode(taken.data)) == length
