"""An attempt runs once, ends, and is found after a restart, whatever its task writes or kills."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from fairlead.service.worker import _attempts as attempts
from fairlead.service.worker._attempts import (
    CANNOT_START,
    KILLED,
    RECORD,
    Attempt,
    AttemptEnd,
    Leader,
    append_field,
)
from fairlead.service.worker.machine import members, state_of
from live_cluster import NOBODY, until
from real_attempts import (
    IS_ROOT,
    PATH,
    ended,
    found_again,
    full,
    made,
    printed,
    runs,
    shell,
    sleeping,
    started,
    text,
)

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
    ("command", "directory"), [("no-such-command", "/tmp"), ("true", "/no/such/place")]
)
def test_a_failed_start_has_a_reason(command: str, directory: str, root: Path) -> None:
    attempt = started(root, command, directory=directory)
    assert ended(attempt).status not in (0, None)
    assert "/no/such/place" in text(attempt, "stderr") or command in text(attempt, "stderr")


def test_no_shell_reads_the_words_of_a_command(root: Path) -> None:
    words = ["$(echo no)", "a b", "*", "; exit 9", "'"]
    code = "import json, sys; print(json.dumps(sys.argv[1:]))"
    attempt = started(root, sys.executable, "-c", code, *words)
    assert ended(attempt).status == 0
    assert json.loads(text(attempt)) == words


def test_a_refusal_is_an_end_that_is_found_again(root: Path) -> None:
    attempt = made(root)
    attempt.refuse("there is no account 'ana'")
    expected = AttemptEnd(CANNOT_START, "there is no account 'ana'")
    again = found_again(attempt)
    assert attempt.poll() == again.poll() == expected
    assert text(again, "stderr") == "fairlead: there is no account 'ana'\n"


# Limits, and stopping


@pytest.mark.parametrize(
    ("reason", "name"), [("cancelled", "TERM"), ("preempted", "USR1"), ("interrupted", "INT")]
)
def test_a_stopped_task_gets_its_signal_once(root: Path, reason: str, name: str) -> None:
    wait = f"until [ -e {root}/go ]; do sleep .05; done"
    line = f"trap 'echo asked' {name}; echo ready; {wait}; exit 5"
    attempt = shell(root, line, checkpoint_signal="USR1")
    printed(attempt)
    attempt.stop(reason)
    printed(attempt, "asked")
    for _ in range(9):
        assert attempt.poll() is None
    (root / "go").touch()
    assert ended(attempt) == AttemptEnd(5, reason)
    assert text(attempt) == "ready\nasked\n"


@pytest.mark.parametrize("is_found", [False, True])
def test_a_task_that_ignores_the_signal_is_killed(root: Path, is_found: bool) -> None:
    attempt = shell(root, "trap '' TERM; echo ready; sleep 300 & sleep 300; sleep 300")
    printed(attempt)
    children = [process.pid for process in attempt.processes()]
    before = time.monotonic()
    attempt.stop("cancelled")
    stopped = found_again(attempt) if is_found else attempt  # a restarted worker goes on
    stopped.grace = 0.5  # that of its worker
    assert ended(stopped) == AttemptEnd(KILLED, "cancelled")
    assert time.monotonic() - before >= 0.5
    attempt.poll()  # so that no zombie is left
    until(lambda: not any(map(runs, children)))


def test_a_time_limit_ends_it_whatever_the_clock_says(root: Path) -> None:
    within = shell(root, "sleep .2; echo done", time_limit=30.0, key=(7, 1, 1))
    long_ago = time.time() - 10 * 86400
    for path in (within.path, *within.path.rglob("*")):
        os.utime(path, (long_ago, long_ago))
    before = time.monotonic()
    attempt = shell(root, "sleep 300", time_limit=0.5)
    end = ended(attempt)
    assert end.reason == "time limit"
    assert end.status in (KILLED, 143)  # SIGKILL if the command had not begun
    assert 0.4 < time.monotonic() - before < 15
    assert ended(within) == AttemptEnd(0, "")


def test_a_memory_limit_ends_it_with_its_children(root: Path) -> None:
    code = "import sys, time; held = b'x' * (80 * 2**20); print('held', flush=True); time.sleep(99)"
    attempt = shell(root, f'{sys.executable} -c "{code}"; true', memory=2**26)
    printed(attempt)
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
    until(lambda: text(attempt).count("held") == 4)
    mapped = sum(process.memory_info().rss for process in attempt.processes())
    assert mapped > 200 * 2**20
    assert not attempt.exceeds_memory()


# Attempts that outlive the worker


def test_after_a_boot_only_a_written_status_counts(root: Path) -> None:
    written = shell(root, "exit 6", key=(9, 0, 1))
    ended(written)
    written.record.boot, written.record.ended = "another", None
    for field in ("boot", "ended"):
        append_field(written.path, written.record, field)
    assert found_again(written).poll() == AttemptEnd(6, "")
    attempt = sleeping(root)
    append_field(attempt.path, attempt.record.model_copy(update={"boot": "another"}), "boot")
    assert ended(found_again(attempt)).status is None
    assert attempt.poll() is None, "the number may be another process's now"
    assert ended(found_again(made(root, key=(8, 0, 1)))).status is None


@pytest.mark.parametrize("cut", ["\n", '\n{"sto', "\n[]", '\n{"key": 5}'])
def test_a_damaged_line_hides_no_other(root: Path, cut: str) -> None:
    """A full disk may cut a line off anywhere."""
    attempt = made(root, devices=[2], time_limit=9.5, memory=2e9, submitted=1.5)
    with (attempt.path / RECORD).open("a") as file:
        file.write(cut)
    attempt.record.leader = Leader(31, 7)
    append_field(attempt.path, attempt.record, "leader")
    assert found_again(attempt).record == attempt.record


def test_a_damaged_directory_is_passed_over(root: Path) -> None:
    attempt = made(root)
    for damage in ("", "{", "[]", '{"key": [1]}'):
        (attempt.path / RECORD).write_text(damage)
        assert Attempt.from_folder(attempt.path) is None, damage


# Changes by a task to the directory that it can write


def test_a_status_is_a_small_number_or_none(root: Path) -> None:
    attempt = sleeping(root)
    for written in ("-1", "99999", "²", "1 2", "", "x" * 10**6):
        (attempt.path / "task" / "exit").write_text(written)
        assert attempt.poll() is None, written


def test_no_link_is_followed_and_no_pipe_blocks(root: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0" * 4 * 2**20)
    attempt = sleeping(root)
    task = attempt.path / "task"
    for place in (os.symlink, os.link, lambda _, path: os.mkfifo(path)):
        for name in ("exit", "stdout"):
            (task / name).unlink()
            place(secret, task / name)
        assert attempt.poll() is None
        assert attempt.output("stdout") is None
        attempts.trim_output(attempt.path, "stdout", 10)
    assert secret.read_text() == "0" * 4 * 2**20


def test_the_number_of_another_process_is_not_believed(root: Path) -> None:
    other = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        attempt = made(root)
        state = state_of(other.pid)
        assert state is not None
        attempt.record.leader = Leader(other.pid, state.began - 1)
        append_field(attempt.path, attempt.record, "leader")
        again = found_again(attempt)
        assert again.record.leader is not None
        assert again.processes() == []
        again.stop("cancelled")
        ended(again)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.skipif(not IS_ROOT, reason="only root could read a file of another account")
@pytest.mark.parametrize("name", ["stdout", "exit"])
def test_a_file_of_another_account_is_not_read(root: Path, name: str) -> None:
    """A user may move a file of root's into its task's folder, if it can write both folders."""
    attempt = shell(root, "kill -KILL 0")
    assert ended(attempt).status == KILLED
    append_field(attempt.path, attempt.record.model_copy(update={"ended": None}), "ended")
    secret = root / "secret"
    secret.write_text("0" * 4 * 2**20 if name == "stdout" else "0")
    os.chown(attempt.path / "task", NOBODY, NOBODY)
    secret.rename(attempt.path / "task" / name)
    again = found_again(attempt)
    assert again.output("stdout") is None or name != "stdout"
    attempts.trim_output(again.path, "stdout", 10)
    assert ended(again).status is None
    moved = (attempt.path / "task" / name).stat()
    assert moved.st_uid == 0
    assert moved.st_blocks * 512 >= moved.st_size


# An end is reported when no process is left


def test_a_task_that_writes_its_own_end_runs_on(root: Path) -> None:
    attempt = shell(root, "echo 0 >/proc/$PPID/cwd/exit; echo written; exec sleep 300")
    printed(attempt)
    assert (attempt.path / "task" / "exit").read_text().strip() == "0"
    for each in (attempt, found_again(attempt)):
        assert each.poll() is None
    assert attempt.record.leader is not None
    assert members(attempt.record.leader.number)


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("sleep 300 & echo $!", True),
        (
            "timeout 99 sleep 99 & echo $!; until kill -0 -$! 2>/dev/null; do sleep .01; done",
            False,
        ),
        ("trap '' TERM HUP; sleep 300 & echo $!; kill -KILL $PPID; wait", False),
        ("echo 0 >/proc/$PPID/cwd/exit; sleep 300 & echo $!; kill -KILL $PPID; wait", True),
    ],
    ids=["a child", "a group of its own", "its shell killed", "its shell killed and a lie"],
)
def test_an_ended_attempt_has_no_process_left(root: Path, line: str, is_found: bool) -> None:
    attempt = shell(root, line)
    child, leader = int(printed(attempt)), attempt.record.leader
    assert leader is not None
    if is_found:
        assert attempt.process is not None
        attempt.process.wait(20)
        attempt = found_again(attempt)
    ended(attempt)
    assert members(leader.number) == []
    assert not runs(child)


def test_an_unkillable_process_delays_the_end(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempt = shell(root, "(trap '' TERM; sleep 300) & echo $!; kill -KILL $PPID; wait")
    child = int(printed(attempt))
    with monkeypatch.context() as kernel:
        kernel.setattr(os, "killpg", lambda *_: None)
        kernel.setattr(psutil.Process, "kill", lambda _: None)
        kernel.setattr(attempts, "KILL_AFTER", 0.0)
        assert attempt.process is not None
        attempt.process.wait(20)
        for _ in range(4):
            assert attempt.poll() is None
        assert runs(child)
        assert len(caplog.records) == 1
    assert ended(attempt) == AttemptEnd(KILLED, "all of its processes were killed")
    assert not runs(child)


def test_a_zombie_whose_threads_run_is_not_over(root: Path) -> None:
    code = (
        "import ctypes, os, threading, time; print(os.getpid(), flush=True); "
        "threading.Thread(target=time.sleep, args=(300,)).start(); "
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    attempt = started(root, sys.executable, "-c", code)
    number = int(printed(attempt))
    state = until(lambda: (s := state_of(number)) and s.state == "Z" and s)
    assert not state.is_over
    assert attempt.process is not None
    assert number in [process.pid for process in members(attempt.process.pid)]
    os.kill(attempt.process.pid, signal.SIGKILL)
    ended(attempt)
    left = state_of(number)
    assert left is None or left.is_over


# A full disk


@pytest.mark.parametrize("is_found", [False, True])
def test_a_status_survives_a_full_disk(root: Path, is_found: bool) -> None:
    """Without the right to mount a small disk, the folder at least takes no new files."""
    small = root / "small"
    small.mkdir(mode=0o711)
    words = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "none", str(small)]
    is_mounted = IS_ROOT and subprocess.run(words, check=False, capture_output=True).returncode == 0
    task = small / "7.0.1" / "task"
    fill = f"cat /dev/zero >{small}/full 2>/dev/null" if is_mounted else f"chmod 500 {task}"
    try:
        attempt = shell(small, f"{fill}; until [ -e {root}/go ]; do sleep .05; done; exit 3")
        if is_found:
            again = found_again(attempt)
            assert again.poll() is None
        (root / "go").touch()
        assert attempt.process is not None
        attempt.process.wait(20)
        assert ended(again if is_found else attempt) == AttemptEnd(3, "")
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(small)], check=True)
        else:
            task.chmod(0o700)


def test_a_full_disk_keeps_no_task_from_its_end(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = sleeping(root)
    monkeypatch.setattr(attempts, "append", full)
    attempt.stop("cancelled")
    assert ended(attempt) == AttemptEnd(143, "cancelled")
    attempt.note_reported()
    assert attempt.is_reported


def test_a_status_that_cannot_be_written_is_heard(root: Path) -> None:
    attempt = shell(root, f"until [ -e {root}/go ]; do sleep .05; done; exit 3")
    assert attempt.process is not None
    resource.prlimit(attempt.process.pid, resource.RLIMIT_FSIZE, (0, 0))
    (root / "go").touch()
    assert ended(attempt) == AttemptEnd(3, "")


def test_nothing_runs_that_cannot_be_written_down(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = made(root)
    with monkeypatch.context() as disk:
        disk.setattr(attempts, "append_field", full)
        attempt.start(["touch", str(root / "ran")], "/tmp", {"PATH": PATH}, None)
    outcome = ended(attempt)
    assert outcome.status is None
    assert "No space left" in outcome.reason
    assert attempt.process is not None
    assert attempt.process.returncode is not None
    assert ended(found_again(attempt)).status is None
    assert not (root / "ran").exists()


def test_without_its_workers_word_nothing_runs(root: Path) -> None:
    """A worker that is killed while it starts a task leaves no running task."""
    words = ["/bin/sh", "-c", attempts.SHIM, "task", "/tmp", "touch", str(root / "ran")]
    folder = made(root).path / "task"
    done = subprocess.run(words, stdin=subprocess.DEVNULL, cwd=folder, check=False)
    assert done.returncode == 0
    assert not (root / "ran").exists()
