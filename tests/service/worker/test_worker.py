"""A worker's tasks: each starts once and gets its devices; none delays the others."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import threading
import time
from collections import UserDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from fairlead.errors import InputError
from fairlead.service.engines import worker_loop
from fairlead.service.messages import LogsPiece
from fairlead.service.worker import _attempts as attempts
from fairlead.service.worker import machine
from fairlead.service.worker import worker as worker_module
from fairlead.service.worker._attempts import RECORD, Attempt, AttemptEnd
from fairlead.service.worker._discarded_folders import DISCARDED
from fairlead.service.worker.worker import LocalProcesses
from live_cluster import until
from real_attempts import KEY, ended, found_again, full, printed, run, task, text, worker_in


def output(worker: LocalProcesses, offset: int = 0) -> tuple[bytes, Any]:
    """Return the data and all fields of a piece of the output of `KEY`."""
    piece = asyncio.run(worker.output(KEY, "stdout", offset))
    return base64.b64decode(piece.get("data", "")), piece


def attended(worker: LocalProcesses, test: Callable[[], Awaitable[None]]) -> None:
    """Run a test while a worker attends to its tasks."""

    async def whole() -> None:
        attending = asyncio.create_task(worker.attend())
        await test()
        assert not attending.done()
        attending.cancel()
        await asyncio.wait({attending})

    asyncio.run(whole())


# Starts


@pytest.mark.parametrize("line", ["sleep 300", "true"])
def test_a_number_of_another_journal_is_another_job(tmp_path: Path, line: str) -> None:
    worker = worker_in(tmp_path)
    old = task("/bin/sh", "-c", f"echo old; {line}", submitted=1.5)
    new = task("/bin/sh", "-c", "echo new", submitted=2.5)
    held = run(worker, old)
    assert printed(held) == "old\n"
    assert run(worker, old) is held
    attempt = run(worker, new)
    assert run(worker, new) is attempt
    assert ended(attempt) == AttemptEnd(0, "")
    assert text(attempt) == "new\n"
    assert not held.processes()
    assert sorted(os.listdir(tmp_path / "attempts")) == [DISCARDED, "7.0.1"]
    assert found_again(attempt).record.submitted == 2.5


def test_the_environment_of_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_TOKEN", "of the worker")
    monkeypatch.setenv("FAIRLEAD_TOKEN_FILE", "of the worker")
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "1")
    sent = {"SEED": "3", "HOME": "/h", "FAIRLEAD_TOKEN": "x", "FAIRLEAD_TOKEN_FILE": "x"}
    sent["CUDA_VISIBLE_DEVICES"] = "7"
    attempt = run(worker_in(tmp_path), task("env", key=(4, 2, 5), environment=sent, tasks=9))
    ended(attempt)
    told = dict(line.split("=", 1) for line in text(attempt).splitlines() if "=" in line)
    expected = {"FAIRLEAD_JOB": "4", "FAIRLEAD_INDEX": "2", "FAIRLEAD_ATTEMPT": "5"}
    expected |= {"FAIRLEAD_TASKS": "9", "FAIRLEAD_NODE": "a", "FAIRLEAD_USER": "ana"}
    expected |= {"SEED": "3", "HOME": "/h", "CUDA_VISIBLE_DEVICES": ""}
    assert {name: told.get(name) for name in expected} == expected
    assert not {"FAIRLEAD_TOKEN", "FAIRLEAD_TOKEN_FILE", "SECRET_OF_THE_WORKER"} & told.keys()


def test_a_worker_gives_the_gpus_of_the_order(root: Path) -> None:
    worker = worker_in(root)

    def shown(job: int, gpu: float, *devices: int) -> str:
        line = 'echo "$CUDA_VISIBLE_DEVICES of $FAIRLEAD_GPU"; exec sleep 300'
        order = task("/bin/sh", "-c", line, key=(job, 0, 1), gpu=gpu, devices=devices)
        return printed(run(worker, order)).strip()

    try:
        assert shown(1, 0.5, 2) == "2 of 0.5"
        assert shown(2, 0.25, 2) == "2 of 0.25"
        assert shown(3, 1, 1) == "1 of 1"
        # The ordered GPU has no room, but another one is free.
        assert shown(4, 0.5, 2) == "0 of 0.5"
        # Under slots, the service names none: the fullest GPU with room is taken.
        assert shown(5, 0.25) == "2 of 0.25"
        for job in (1, 2, 3, 5):
            worker.stop((job, 0, 1), "cancelled")
            ended(worker._attempts[job, 0, 1])
        assert shown(6, 2) == "1,2 of 2"
    finally:
        for attempt in worker._attempts.values():
            attempt.kill("cancelled")


@pytest.mark.parametrize("way", ["stop", "keep_only"])
def test_a_task_stopped_as_it_starts_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(attempts, "KILL_AFTER", 0.5)
    worker = worker_in(tmp_path)

    async def whole() -> None:
        starting = asyncio.create_task(worker.start([task("sleep", "300", gpu=3)]))
        while not worker._starting:
            await asyncio.sleep(0)
        if way == "stop":
            worker.stop(KEY, "cancelled")
        else:
            worker.keep_only([])
        await worker.start([task("true", key=(8, 0, 1), gpu=1)])
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
        run(worker, task("true"))
    assert worker.endings() == []
    assert ended(run(worker, task("true", key=(8, 0, 1)))).status == 0
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
    run(worker, *(task("true", key=(1, k, 1), tasks=3) for k in range(3)))
    assert found == [["1.0.1", "1.1.1", "1.2.1"], []], "none has a process before all are on disk"
    assert {ended(attempt).status for attempt in worker._attempts.values()} == {0}


def test_an_attempt_with_a_damaged_record_never_starts(tmp_path: Path) -> None:
    """After a power failure, perhaps only the name of its folder is on disk."""
    worker, out = worker_in(tmp_path), tmp_path / "out"
    order = task("/bin/sh", "-c", f"echo ran >>{out}")
    ended(run(worker, order))
    (tmp_path / "attempts" / "7.0.1" / RECORD).write_text("")
    os.close(worker._lock)
    again = run(worker_in(tmp_path), order)
    assert ended(again).status is None, "the service starts another attempt"
    assert out.read_text() == "ran\n"


# Faults and ends


@pytest.mark.parametrize("name", ["_check_task", "_trim", "_remove", "_watch_memory"])
def test_no_fault_of_a_loop_ends_the_worker(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    worker = worker_in(root)
    calls = []

    def fail(*_: object) -> None:
        calls.append(name)
        raise RuntimeError("a fault")

    monkeypatch.setattr(worker_loop, "FAULT_PAUSE", 0.0)
    monkeypatch.setattr(worker_module, "CLEAN_SECONDS", 0.0)
    monkeypatch.setattr(worker_module, "MEMORY_SECONDS", 0.0)
    monkeypatch.setattr(worker, name, fail)

    async def three_faults() -> None:
        await worker.start([task("sleep", "300")])
        while len(calls) < 3:
            await asyncio.sleep(0.01)

    attended(worker, three_faults)
    assert len([record for record in caplog.records if record.exc_info]) >= 2


def test_one_bad_attempt_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = worker_in(tmp_path)
    run(worker, *(task("sleep", ".3", key=(1, k, 1), tasks=3) for k in range(3)))
    first, *others = worker._attempts.values()
    monkeypatch.setattr(first, "poll", lambda: 1 / 0)

    def look() -> bool:
        with suppress(ZeroDivisionError):
            asyncio.run(worker._check_tasks())
        return len(worker.endings()) == 2

    until(look)
    assert {ending.key for ending in worker.endings()} == {other.key for other in others}


def test_an_end_is_noticed_without_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "CHECK_SECONDS", 1e6)
    worker = worker_in(tmp_path)

    async def end() -> None:
        await asyncio.sleep(0)
        worker.changed.clear()
        await worker.start([task("sleep", ".2")])
        await asyncio.wait_for(worker.changed.wait(), 60)

    attended(worker, end)
    assert [(ending.key, ending.status) for ending in worker.endings()] == [(KEY, 0)]


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
            await worker.start([task("true", gpu=1, submitted=submitted)])
        while not worker._attempts[KEY].poll():
            await asyncio.sleep(0.01)
        await worker.output(KEY, "stdout", 0)
        await worker._clean()
        worker.forget(worker.endings())
        while any((tmp_path / "attempts").glob("[!.]*")):
            await worker._clean()

    asyncio.run(whole())
    assert threads == {threading.get_ident()}


# Output, and attempts that are only on disk


@pytest.mark.parametrize("is_reported", [False, True])
def test_output_that_is_no_longer_kept_is_skipped(tmp_path: Path, is_reported: bool) -> None:
    worker = worker_in(tmp_path, largest_output=10**6)
    ended(run(worker, task("/bin/sh", "-c", "yes 0123456789 | head -c 8000000")))
    if is_reported:
        worker.forget(worker.endings())
    asyncio.run(worker._clean())
    data, piece = output(worker)
    if piece["offset"] == 0:
        pytest.skip("this file system makes no holes")
    assert 6_900_000 < piece["offset"] <= 7_000_000
    assert b"\0" not in data
    assert data[:11] in b"0123456789\n" * 2
    assert output(worker, 7_999_990)[1]["offset"] == 7_999_990


class Sparse(io.BytesIO):
    """A file without data that a task made as long as some file systems allow."""

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return 9 * 10**18 if whence == os.SEEK_END else offset

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        return b"\0" * size


def test_no_size_exceeds_that_of_the_service(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = worker_in(root)
    attempt = run(worker, task("true"))
    ended(attempt)
    monkeypatch.setattr(attempt, "output", lambda _: Sparse())
    for offset, length in ((0, 2**18), (2**53 - 5, 5), (2**53, 0)):
        data, piece = output(worker, offset)
        taken = LogsPiece.model_validate({"session": "s", "request": "r", **piece})
        assert (taken.offset, taken.size, len(data)) == (offset, 2**53, length)


def test_reported_attempts_are_only_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, out = worker_in(tmp_path), tmp_path / "out"
    order = task("/bin/sh", "-c", f"echo ran >>{out}; echo said", submitted=1.5)
    ended(run(worker, order))
    with monkeypatch.context() as disk:  # so the record on disk misses that the end is known
        disk.setattr(attempts, "append", full)
        worker.forget(worker.endings())
    assert worker._attempts == {}
    data, piece = output(worker)
    assert (data, piece["is_over"]) == (b"said\n", True)
    asyncio.run(worker.start([order]))  # a repeated order
    assert worker._attempts == {}
    assert out.read_text() == "ran\n"
    other = run(worker, task("echo", "other", submitted=2.5))
    assert ended(other) == AttemptEnd(0, "")
    assert text(other) == "other\n"


def test_only_old_reported_output_is_dropped_after_a_restart(tmp_path: Path) -> None:
    worker = worker_in(tmp_path)
    for key in (KEY, (7, 1, 1)):
        ended(run(worker, task("echo", "said", key=key, tasks=2)))
    reported, unreported = worker.endings()
    worker.forget([reported])
    os.close(worker._lock)
    again = worker_in(tmp_path, output_age=3600.0)
    asyncio.run(again._check_tasks())
    assert again.endings() == [unreported]
    data, piece = output(again)
    assert (data, piece["is_over"]) == (b"said\n", True)
    folders = [tmp_path / "attempts" / f"7.{index}.1" for index in range(2)]
    asyncio.run(again._clean())
    assert [folder.exists() for folder in folders] == [True, True]
    long_ago = time.time() - 7200
    for folder in folders:
        os.utime(folder / RECORD, (long_ago, long_ago))
    asyncio.run(again._clean())
    assert [folder.exists() for folder in folders] == [False, True]
    assert output(again)[1].keys() == {"fault"}


# The machine


def test_a_machine_says_what_it_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    assert machine.cores() == len(os.sched_getaffinity(0))
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "memory.max").write_text(f"{2**29}\n")
    assert (machine.cores(), machine.memory()) == (0.5, 0.5)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.cores() == len(os.sched_getaffinity(0))
    assert machine.memory() == psutil.virtual_memory().total / 2**30
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\necho NVIDIA A100; echo NVIDIA A100\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert machine.gpus() == [], "a folder that a user may write is not looked at"
    monkeypatch.setattr(machine, "SYSTEM_PATH", str(tmp_path))
    assert machine.gpus() == ["NVIDIA A100", "NVIDIA A100"]
    fake.write_text("#!/bin/sh\nexit 9\n")
    assert machine.gpus() == []


def test_a_folder_has_one_worker(tmp_path: Path) -> None:
    first = worker_in(tmp_path)
    with pytest.raises(InputError, match="another worker uses this folder"):
        worker_in(tmp_path)
    identity = first.identity
    os.close(first._lock)
    assert worker_in(tmp_path).identity == identity
