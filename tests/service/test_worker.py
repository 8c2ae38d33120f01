"""A worker and real processes: each attempt runs once, ends, and is found after a restart."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from fairlead.errors import InputError
from fairlead.service.engines.protocol import Start
from fairlead.service.worker import _attempts as attempts
from fairlead.service.worker import machine
from fairlead.service.worker._attempts import (
    KILLED,
    Attempt,
    AttemptEnd,
    Leader,
    Record,
    append_field,
)
from fairlead.service.worker._files import DISCARDED
from live_cluster import until
from real_attempts import (
    KEY,
    PATH,
    ended,
    found_again,
    runs,
    shell,
    sleeping,
    started,
    text,
)
from real_workers import a_job, full, run, worker_in

# How a command ends


@pytest.mark.parametrize(("line", "status"), [("exit 3", 3), ("kill -SEGV $$", 139)])
def test_a_status_is_what_a_shell_says(line: str, status: int, root: Path) -> None:
    assert ended(shell(root, line)) == AttemptEnd(status, "")


def test_streams_are_apart_and_the_input_is_empty(root: Path) -> None:
    attempt = shell(root, "cat; pwd; echo wrong >&2")
    assert ended(attempt).status == 0
    assert text(attempt) == "/tmp\n"
    assert text(attempt, "stderr") == "wrong\n"


@pytest.mark.parametrize(
    ("command", "directory", "says"),
    [
        (["no-such-command"], "/tmp", "no-such-command"),
        (["true"], "/no/such/place", "/no/such/place"),
    ],
)
def test_a_failed_start_has_a_reason(
    command: list[str], directory: str, says: str, root: Path
) -> None:
    attempt = Attempt.make(root, Record(key=KEY))
    attempt.start(command, directory, {"PATH": PATH}, None)
    status = ended(attempt).status
    assert status not in (0, None)
    assert says in text(attempt, "stderr")


def test_no_shell_reads_the_words_of_a_command(root: Path) -> None:
    words = ["$(echo no)", "a b", "*", "; exit 9", "'"]
    code = "import json, sys; print(json.dumps(sys.argv[1:]))"
    attempt = started(root, sys.executable, "-c", code, *words)
    assert ended(attempt).status == 0
    assert json.loads(text(attempt)) == words


def test_a_refusal_is_an_end_that_is_found_again(root: Path) -> None:
    attempt = Attempt.make(root, Record(key=KEY))
    attempt.refuse("there is no account 'ana'")
    expected = AttemptEnd(attempts.CANNOT_START, "there is no account 'ana'")
    assert attempt.poll() == expected
    again = found_again(attempt)
    assert again.poll() == expected
    assert text(again, "stderr") == "fairlead: there is no account 'ana'\n"


# Once, and in a group of its own


@pytest.mark.parametrize("line", ["sleep 300", "true"])
def test_a_number_of_another_journal_is_another_job(tmp_path: Path, line: str) -> None:
    worker = worker_in(tmp_path)
    old = a_job("/bin/sh", "-c", f"echo old; {line}", submitted=1.5)
    new = a_job("/bin/sh", "-c", "echo new", submitted=2.5)
    key = (1, 0, 1)
    for job, said in ((old, "old\n"), (old, "old\n"), (new, "new\n"), (new, "new\n")):
        run(worker, Start(key, "a", {"cpu": 1.0}, None, job))
        attempt = worker._attempts[key]
        until(lambda a=attempt, said=said: a.output("stdout") and text(a) == said)
        if job is old:
            held = attempt
    assert ended(attempt) == AttemptEnd(0, "")
    assert not held.processes()
    assert sorted(os.listdir(tmp_path / "attempts")) == [DISCARDED, "1.0.1"]
    again = Attempt.from_folder(tmp_path / "attempts" / "1.0.1")
    assert again is not None
    assert again.record.submitted == 2.5


# Limits, and stopping


def test_each_process_is_asked_once(root: Path) -> None:
    line = "trap 'echo asked' TERM; echo ready; for i in 1 2 3 4 5; do sleep .1; done; exit 5"
    attempt = shell(root, line)
    until(lambda: attempt.output("stdout") and "ready" in text(attempt))
    attempt.stop("cancelled")
    assert ended(attempt) == AttemptEnd(5, "cancelled")
    assert text(attempt) == "ready\nasked\n"


def test_a_task_that_ignores_the_signal_is_killed(root: Path) -> None:
    attempt = shell(root, "trap '' TERM; echo ready; sleep 300 & sleep 300; sleep 300")
    attempt.grace = 0.5  # the grace of its worker
    until(lambda: attempt.output("stdout") and "ready" in text(attempt))
    children = [process.pid for process in attempt.processes()]
    before = time.monotonic()
    attempt.stop("cancelled")
    assert ended(attempt) == AttemptEnd(KILLED, "cancelled")
    assert time.monotonic() - before >= 0.5
    until(lambda: not any(map(runs, children)))


def test_a_preempted_task_gets_the_signal_that_it_asked_for(root: Path) -> None:
    line = "trap 'echo saved; exit 4' USR1; echo ready; while :; do sleep .05; done"
    attempt = Attempt.make(root, Record(key=KEY, checkpoint_signal="USR1"))
    attempt.start(["/bin/sh", "-c", line], "/tmp", {"PATH": PATH}, None)
    until(lambda: attempt.output("stdout") and "ready" in text(attempt))
    attempt.stop("preempted")
    assert ended(attempt) == AttemptEnd(4, "preempted")
    assert text(attempt) == "ready\nsaved\n"


def test_a_stop_goes_on_under_another_worker(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "KILL_AFTER", 0.5)
    attempt = shell(root, "trap '' TERM; echo ready; while :; do sleep .05; done")
    until(lambda: attempt.output("stdout") and "ready" in text(attempt))
    attempt.stop("cancelled")
    again = found_again(attempt)
    assert ended(again).reason == "cancelled"
    assert attempt.process is not None
    attempt.process.wait(20)


def test_a_time_limit_ends_it(root: Path) -> None:
    within = shell(root, "sleep .2; echo done", time_limit=30.0, key=(7, 1, 1))
    before = time.monotonic()
    attempt = shell(root, "sleep 300", time_limit=0.5)
    assert ended(attempt) == AttemptEnd(143, "time limit")
    assert 0.4 < time.monotonic() - before < 15
    assert ended(within) == AttemptEnd(0, "")


def test_a_clock_that_jumps_ends_nothing(root: Path) -> None:
    attempt = sleeping(root, time_limit=60.0)
    long_ago = time.time() - 10 * 86400
    for path in (attempt.path, *attempt.path.rglob("*")):
        os.utime(path, (long_ago, long_ago))
    assert attempt.poll() is None
    assert attempt.stopped_at is None


def test_a_memory_limit_ends_it_with_its_children(root: Path) -> None:
    code = "import sys, time; held = b'x' * (80 * 2**20); print('held', flush=True); time.sleep(99)"
    attempt = started(root, "/bin/sh", "-c", f'{sys.executable} -c "{code}"; true', memory=2**26)
    until(lambda: attempt.output("stdout") and text(attempt))
    assert attempt.poll() is None
    assert attempt.exceeds_memory()
    attempt.kill("memory")
    assert ended(attempt).reason == "memory"
    until(lambda: not attempt.processes())


def test_memory_that_processes_share_counts_once(root: Path) -> None:
    code = (
        "import os, time; held = b'x' * (60 * 2**20); forks = [os.fork() for _ in range(2)]; "
        "print('held', flush=True); time.sleep(99)"
    )
    attempt = started(root, sys.executable, "-c", code, memory=120 * 2**20)
    until(lambda: attempt.output("stdout") and text(attempt).count("held") == 4)
    mapped = sum(process.memory_info().rss for process in attempt.processes())
    assert mapped > 200 * 2**20
    assert not attempt.exceeds_memory()
    assert attempt.poll() is None
    assert attempt.stopped_at is None


# Attempts that outlive the worker


def test_after_a_boot_an_attempt_without_status_is_lost(root: Path) -> None:
    attempt = sleeping(root)
    append_field(attempt.path, attempt.record.model_copy(update={"boot": "another"}), "boot")
    assert ended(found_again(attempt)).status is None
    assert attempt.poll() is None, "the number may be another process's now"
    assert ended(found_again(Attempt.make(root, Record(key=(8, 0, 1))))).status is None


def test_after_a_boot_a_written_status_counts(root: Path) -> None:
    attempt = shell(root, "exit 6")
    ended(attempt)
    attempt.record.boot, attempt.record.ended = "another", None
    for field in ("boot", "ended"):
        append_field(attempt.path, attempt.record, field)
    assert found_again(attempt).poll() == AttemptEnd(6, "")


@pytest.mark.parametrize("cut", ["\n", '\n{"sto', "\n[]", '\n{"key": 5}'])
def test_a_damaged_line_hides_no_other(root: Path, cut: str) -> None:
    """A full disk may cut a line off anywhere."""
    record = Record(key=KEY, devices=[2], time_limit=9.5, memory=2e9, submitted=1.5)
    attempt = Attempt.make(root, record)
    with (attempt.path / attempts.RECORD).open("a") as file:
        file.write(cut)
    attempt.record.leader = Leader(31, 7)
    append_field(attempt.path, attempt.record, "leader")
    assert found_again(attempt).record == attempt.record


def test_a_damaged_directory_is_passed_over(root: Path) -> None:
    attempt = Attempt.make(root, Record(key=KEY))
    for damage in ("", "{", "[]", '{"key": [1]}'):
        (attempt.path / attempts.RECORD).write_text(damage)
        assert Attempt.from_folder(attempt.path) is None, damage


# Output


@pytest.mark.parametrize("is_reported", [False, True])
def test_output_that_is_no_longer_kept_is_skipped(tmp_path: Path, is_reported: bool) -> None:
    worker = worker_in(tmp_path, largest_output=10**6)
    job = a_job("/bin/sh", "-c", "yes 0123456789 | head -c 8000000")
    run(worker, Start(KEY, "a", {"cpu": 1.0}, None, job))
    ended(worker._attempts[KEY])
    if is_reported:
        worker.forget(worker.endings())
    asyncio.run(worker._clean())
    piece = asyncio.run(worker.output(KEY, "stdout", 0))
    data = base64.b64decode(piece["data"])
    if piece["offset"] == 0:
        pytest.skip("this file system makes no holes")
    assert 6_900_000 < piece["offset"] <= 7_000_000
    assert b"\0" not in data
    assert data[:11] in b"0123456789\n" * 2
    assert asyncio.run(worker.output(KEY, "stdout", 7_999_990))["offset"] == 7_999_990


# Machines and accounts


def test_a_machine_says_what_it_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert 0 < machine.cores() <= (os.cpu_count() or 1)
    assert 0 < machine.memory() <= psutil.virtual_memory().total / 2**30
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
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
    monkeypatch.setattr(machine, "FOLDERS", str(tmp_path))
    assert machine.gpus() == ["NVIDIA A100", "NVIDIA A100"]
    fake.write_text("#!/bin/sh\nexit 9\n")
    assert machine.gpus() == []


# Several tasks at once


def test_devices_are_whole_and_free_again(tmp_path: Path) -> None:
    worker = worker_in(tmp_path)
    environment = {"CUDA_VISIBLE_DEVICES": "7"}
    line = "echo $CUDA_VISIBLE_DEVICES; sleep 300"
    spec = a_job("/bin/sh", "-c", line, environment=environment, tasks=3)
    try:
        for index, gpus in enumerate((2, 0, 1)):
            run(worker, Start((1, index, 1), "a", {"cpu": 1.0, "gpu": gpus}, None, spec))
        shown = [
            until(lambda a=a: a.output("stdout") and text(a)) for a in worker._attempts.values()
        ]
        assert shown == ["0,1\n", "\n", "2\n"]
        first = worker._attempts[1, 0, 1]
        first.stop("cancelled")
        ended(first)
        run(worker, Start((1, 3, 1), "a", {"cpu": 1.0, "gpu": 1}, None, spec))
        assert worker._attempts[1, 3, 1].record.devices == [0]
    finally:
        for attempt in worker._attempts.values():
            attempt._signal(signal.SIGKILL)


def test_the_environment_of_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_TOKEN", "of the worker")
    monkeypatch.setenv("FAIRLEAD_TOKEN_FILE", "of the worker")
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "1")
    worker = worker_in(tmp_path)
    sent = {"SEED": "3", "HOME": "/h", "FAIRLEAD_TOKEN": "x", "FAIRLEAD_TOKEN_FILE": "x"}
    run(worker, Start((4, 2, 5), "a", {"cpu": 1.0}, None, a_job("env", environment=sent, tasks=9)))
    attempt = worker._attempts[4, 2, 5]
    ended(attempt)
    told = dict(line.split("=", 1) for line in text(attempt).splitlines() if "=" in line)
    expected = {"FAIRLEAD_JOB": "4", "FAIRLEAD_INDEX": "2", "FAIRLEAD_ATTEMPT": "5"}
    expected |= {"FAIRLEAD_TASKS": "9", "FAIRLEAD_NODE": "a", "FAIRLEAD_USER": "ana"}
    expected |= {"SEED": "3", "HOME": "/h", "CUDA_VISIBLE_DEVICES": ""}
    assert {name: told.get(name) for name in expected} == expected
    assert not {"FAIRLEAD_TOKEN", "FAIRLEAD_TOKEN_FILE", "SECRET_OF_THE_WORKER"} & told.keys()


def test_a_folder_has_one_worker(tmp_path: Path) -> None:
    first = worker_in(tmp_path)
    with pytest.raises(InputError, match="another worker uses this folder"):
        worker_in(tmp_path)
    identity = first.identity
    os.close(first._lock)
    assert worker_in(tmp_path).identity == identity


def test_reported_attempts_are_only_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, out = worker_in(tmp_path), tmp_path / "out"
    script = f"echo ran >>{out}; echo said"
    task = Start(KEY, "a", {}, None, a_job("/bin/sh", "-c", script, submitted=1.5))
    run(worker, task)
    ended(worker._attempts[KEY])
    with monkeypatch.context() as disk:  # so the record on disk misses that the end is known
        disk.setattr(attempts, "append", full)
        worker.forget(worker.endings())
    assert worker._attempts == {}
    piece = asyncio.run(worker.output(KEY, "stdout", 0))
    assert (base64.b64decode(piece["data"]), piece["is_over"]) == (b"said\n", True)
    run(worker, task)  # a repeated order
    assert worker._attempts == {}
    assert out.read_text() == "ran\n"
    other = Start(KEY, "a", {}, None, a_job("echo", "other", submitted=2.5))
    run(worker, other)
    assert ended(worker._attempts[KEY]) == AttemptEnd(0, "")
    assert text(worker._attempts[KEY]) == "other\n"


def test_only_old_reported_output_is_dropped_after_a_restart(tmp_path: Path) -> None:
    worker = worker_in(tmp_path)
    for index in range(2):
        run(worker, Start((1, index, 1), "a", {}, None, a_job("echo", "said", tasks=2)))
        ended(worker._attempts[1, index, 1])
    reported, unreported = worker.endings()
    worker.forget([reported])
    os.close(worker._lock)
    again = worker_in(tmp_path, output_age=3600.0)
    asyncio.run(again._check_tasks())
    assert again.endings() == [unreported]
    piece = asyncio.run(again.output(reported.key, "stdout", 0))
    assert (base64.b64decode(piece["data"]), piece["is_over"]) == (b"said\n", True)
    folders = [tmp_path / "attempts" / f"1.{index}.1" for index in range(2)]
    asyncio.run(again._clean())
    assert [folder.exists() for folder in folders] == [True, True]
    long_ago = time.time() - 7200
    for folder in folders:
        os.utime(folder / attempts.RECORD, (long_ago, long_ago))
    asyncio.run(again._clean())
    assert [folder.exists() for folder in folders] == [False, True]
    assert asyncio.run(again.output(reported.key, "stdout", 0)).keys() == {"fault"}


def test_a_full_disk_keeps_no_task_from_its_end(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = sleeping(root)
    with monkeypatch.context() as disk:
        disk.setattr(attempts, "create", full)
        attempt.stop("cancelled")
        assert ended(attempt) == AttemptEnd(143, "cancelled")
        attempt.note_reported()
    assert attempt.is_reported
