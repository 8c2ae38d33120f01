"""``fairlead run`` and waiting: live output, Ctrl-C, exit statuses, the progress bar."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from typing import IO

from live_cluster import Cluster, until

JOB = ("--user", "ana", "--chdir", "/tmp", "--cpu", "100m")
PATIENT = "trap 'echo interrupted; exit 5' INT; echo begun; while :; do sleep 0.05; done"


def started(
    cluster: Cluster, *words: str, stdout: int | IO[str] = subprocess.PIPE
) -> subprocess.Popen[str]:
    program = ["env", "--default-signal=INT,HUP", sys.executable, "-m", "fairlead", "run"]
    return subprocess.Popen(
        [*program, *JOB, *words],
        env=cluster.environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def in_terminal(cluster: Cluster, *words: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start a command in a terminal; return its process and the terminal's other end."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fairlead", *words],
        env={**cluster.environment, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    return process, controller


def shown_until_the_end(controller: int) -> bytes:
    """Return what a terminal shows until its command has ended; close its other end."""
    shown = b""
    with suppress(OSError):  # the command's end of the terminal was closed
        while piece := os.read(controller, 2**16):
            shown += piece
    os.close(controller)
    return shown


def test_output_and_status_are_those_of_the_command(one: Cluster) -> None:
    line = "echo out; echo err >&2; sleep 0.5; echo more; exit 3"
    done = one.run("run", *JOB, "--", "sh", "-c", line)
    assert done.stdout == "out\nmore\n"
    assert done.stderr == "err\n"
    assert done.returncode == 3


def test_all_of_long_output_is_printed(one: Cluster) -> None:
    done = one.run("run", *JOB, "--", "head", "-c", "1000000", "/dev/zero")
    assert done.stdout == "\0" * 1_000_000
    assert done.returncode == 0


def test_ctrl_c_interrupts_the_command(one: Cluster) -> None:
    process = started(one, "--", "sh", "-c", PATIENT)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert out == "interrupted\n"
    assert err == ""
    assert process.returncode == 130
    with one.client() as client:
        job = max(client.jobs(is_all=True), key=lambda found: int(found.id))
    assert (job.state, job.reason) == ("cancelled", "interrupted")


def test_sigterm_cancels_a_job_that_waits(one: Cluster) -> None:
    process = started(one, "--where", "nowhere-else", "--", "true")
    with one.client() as client:
        (job,) = until(client.jobs)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 130
        assert client.job(job.id).state == "cancelled"


def test_a_reader_that_leaves_stops_the_command(one: Cluster) -> None:
    process = started(one, "--", "sh", "-c", "while echo x; do sleep 0.01; done")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(30) == 141
    with one.client() as client:
        until(lambda: not client.jobs())


def test_a_job_cancelled_elsewhere_is_reported(one: Cluster) -> None:
    process = started(one, "--", "sleep", "60")
    with one.client() as client:
        (job,) = until(client.jobs)
        client.cancel(job.id)
    _, err = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "is cancelled" in err


def test_submit_waits_for_all_of_its_jobs(one: Cluster) -> None:
    line = 'exit "$FAIRLEAD_INDEX"'
    done = one.run("submit", *JOB, "--count", "3", "--wait", "--", "sh", "-c", line)
    assert done.stdout.strip().isdigit()
    assert done.returncode == 2


def test_a_terminal_shows_a_bar_of_tasks(one: Cluster) -> None:
    words = ("submit", *JOB, "--count", "4", "--wait", "--", "sleep", "1.5")
    process, controller = in_terminal(one, *words)
    shown = shown_until_the_end(controller)
    assert process.wait(30) == 0
    assert b"tasks" in shown
    assert b"%" in shown


def test_top_is_kept_up_to_date_until_q(one: Cluster) -> None:
    assert one.run("submit", *JOB, "--wait", "--", "true").returncode == 0  # a first user
    assert "No waiting user is below its fair share" in one.run("top").stdout
    process, controller = in_terminal(one, "top", "--every", "0.5")
    held = one.run("submit", *JOB, "--name", "newcomer", "--where", "nowhere-else", "--", "true")
    shown = b""
    while b"newcomer" not in shown:
        shown += os.read(controller, 2**16)
    os.write(controller, b"q")
    shown_until_the_end(controller)
    assert process.wait(30) == 0
    one.run("cancel", held.stdout.strip())


def test_a_hang_up_is_passed_on_while_output_comes_fast(one: Cluster) -> None:
    """The command writes faster than its output is read."""
    line = "while :; do head -c 3000000 /dev/zero; sleep 0.02; done"
    process = started(one, "--", "sh", "-c", line)
    assert process.stdout is not None
    process.stdout.read(100_000)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=30)
    assert process.returncode == 130
    with one.client() as client:
        until(lambda: not client.jobs())


def test_output_that_cannot_be_written_stops_the_command(one: Cluster) -> None:
    with open("/dev/full", "w") as full:
        process = started(one, "--", "sh", "-c", "echo out; sleep 60", stdout=full)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "is interrupted, as its output cannot be written" in err
    with one.client() as client:
        until(lambda: not client.jobs())
