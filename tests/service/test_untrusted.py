"""Tasks may write anything into their folders: workers are not deceived or led elsewhere."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from fairlead.service.worker import _attempts as attempts
from fairlead.service.worker import _files as files
from fairlead.service.worker._attempts import (
    KILLED,
    Attempt,
    AttemptEnd,
    Leader,
    Record,
    append_field,
)
from fairlead.service.worker.machine import members, state_of
from live_cluster import until
from real_attempts import (
    IS_ROOT,
    KEY,
    ended,
    found_again,
    runs,
    shell,
    sleeping,
    started,
    text,
)
from real_workers import full

# Changes by a task to the directory that it can write


def test_a_status_is_a_small_number_or_none(root: Path) -> None:
    attempt = sleeping(root)
    for written in ("-1", "99999", "²", "1 2", "", "x" * 10**6):
        (attempt.path / "task" / "exit").write_text(written)
        assert attempt.poll() is None, written


def test_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0" * 4 * 2**20)
    attempt = sleeping(root)
    task = attempt.path / "task"
    for name in ("exit", "stdout", "stderr"):
        (task / name).unlink(missing_ok=True)
        (task / name).symlink_to(secret)
    assert attempt.poll() is None
    assert attempt.output("stdout") is None
    attempts.trim_output(attempt.path, "stdout", 10)
    (task / "stdout").unlink()
    os.link(secret, task / "stdout")
    assert attempt.output("stdout") is None
    attempts.trim_output(attempt.path, "stdout", 10)
    assert secret.read_text() == "0" * 4 * 2**20


def test_a_pipe_blocks_no_worker(root: Path) -> None:
    attempt = sleeping(root)
    task = attempt.path / "task"
    for name in ("exit", "stdout"):
        (task / name).unlink(missing_ok=True)
        os.mkfifo(task / name)
    assert attempt.poll() is None
    assert attempt.output("stdout") is None


def test_the_number_of_another_process_is_not_believed(root: Path) -> None:
    other = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        attempt = Attempt.make(root, Record(key=KEY))
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


@pytest.mark.parametrize("name", ["stdout", "exit"])
def test_a_file_of_another_account_is_not_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A user may move a file of root's into its task's folder, if it can write both folders."""
    attempt = shell(root, "kill -KILL 0")
    assert ended(attempt).status == KILLED
    append_field(attempt.path, attempt.record.model_copy(update={"ended": None}), "ended")
    secret, owner = root / "secret", os.geteuid()
    secret.write_text("0" * 4 * 2**20 if name == "stdout" else "0")
    if IS_ROOT:
        os.chown(attempt.path / "task", 65534, 65534)
    else:
        monkeypatch.setattr(files.os, "fstat", _other_owner(os.fstat, secret.stat().st_ino))
    secret.rename(attempt.path / "task" / name)
    again = found_again(attempt)
    assert again.output("stdout") is None or name != "stdout"
    attempts.trim_output(again.path, "stdout", 10)
    assert ended(again).status is None
    moved = (attempt.path / "task" / name).stat()
    assert moved.st_uid == owner
    assert moved.st_blocks * 512 >= moved.st_size


def _other_owner(fstat: object, inode: int) -> object:
    def other(number: int) -> os.stat_result:
        found: os.stat_result = fstat(number)  # type: ignore[operator]
        fields = list(found)
        fields[4] += 1
        return os.stat_result(fields) if found.st_ino == inode else found

    return other


# An end is reported when no process is left


def test_a_task_that_writes_its_own_end_runs_on(root: Path) -> None:
    attempt = shell(root, "echo 0 >/proc/$PPID/cwd/exit; echo written; exec sleep 300")
    until(lambda: text(attempt))
    assert (attempt.path / "task" / "exit").read_text().strip() == "0"
    again = found_again(attempt)
    for each in (attempt, again):
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
    child = int(until(lambda: text(attempt)))
    leader = attempt.record.leader
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
    child = int(until(lambda: text(attempt)))
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
    number = int(until(lambda: text(attempt)))
    state = until(lambda: (s := state_of(number)) and s.state == "Z" and s)
    assert not state.is_over
    assert number in [process.pid for process in members(attempt.process.pid)]  # type: ignore[union-attr]
    os.kill(attempt.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
    ended(attempt)
    left = state_of(number)
    assert left is None or left.is_over


# A full disk


def fill(task: Path, small: Path) -> str:
    """Return a shell command after which a folder takes no new files, and files cannot grow."""
    if task.is_relative_to(small) and os.path.ismount(small):
        return f"cat /dev/zero >{small}/full 2>/dev/null"
    return f"chmod 500 {task}"


@pytest.mark.parametrize("is_found", [False, True])
def test_a_status_survives_a_full_disk(root: Path, is_found: bool) -> None:
    small = root / "small"
    small.mkdir(mode=0o711)
    words = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "none", str(small)]
    is_mounted = IS_ROOT and subprocess.run(words, check=False, capture_output=True).returncode == 0
    try:
        task = small / "7.0.1" / "task"
        attempt = shell(
            small, f"{fill(task, small)}; until [ -e {root}/go ]; do sleep .05; done; exit 3"
        )
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


def test_a_status_that_cannot_be_written_is_heard(root: Path) -> None:
    attempt = shell(root, f"until [ -e {root}/go ]; do sleep .05; done; exit 3")
    assert attempt.process is not None
    resource.prlimit(attempt.process.pid, resource.RLIMIT_FSIZE, (0, 0))
    (root / "go").touch()
    assert ended(attempt) == AttemptEnd(3, "")


def test_nothing_runs_that_cannot_be_written_down(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = Attempt.make(root, Record(key=KEY))
    with monkeypatch.context() as disk:
        disk.setattr(attempts, "append_field", full)
        attempt.start(["touch", str(root / "ran")], "/tmp", {"PATH": "/usr/bin:/bin"}, None)
    outcome = ended(attempt)
    assert outcome.status is None
    assert "No space left" in outcome.reason
    assert attempt.process is not None
    assert attempt.process.returncode is not None
    assert ended(found_again(attempt)).status is None
    assert not (root / "ran").exists()


def test_without_its_workers_word_nothing_runs(root: Path) -> None:
    """A worker that is killed while it starts a task leaves no running task."""
    attempt = Attempt.make(root, Record(key=KEY))
    words = ["/bin/sh", "-c", attempts.SHIM, "task", "/tmp", "touch", str(root / "ran")]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, cwd=attempt.path / "task", check=False)
    assert done.returncode == 0
    assert not (root / "ran").exists()
