"""Wait for jobs with a progress bar; copy the output of a running job to this terminal."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf

from fairlead.cli._client import Row
from fairlead.cli.main import INTERRUPTED
from fairlead.cli.streams import ReaderGoneError, StoppedError, complain, progress_bar
from fairlead.service.client import calls
from fairlead.service.client.plain_client import (
    OUTAGE_PATIENCE,
    PlainClient,
    RefusedError,
    is_over,
)

BAR_SECONDS = 1.0  # between updates of the progress bar
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 1.0  # seconds between two requests for new output
FULL_PIECE = 2**18  # bytes of output; after such a piece the next is requested at once
QUIET_SECONDS = 2.0  # until the terminal shows that the job waits
STREAMS = ("stdout", "stderr")
# The terminal's Ctrl-C, `kill` of this command, and the end of its terminal.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def wait_for(
    service: PlainClient, jobs: Sequence[str], seconds: float | None = None
) -> tuple[int, list[Row]]:
    """Wait until jobs are over, but at most `seconds`; return an exit status and the jobs.

    The status is that of the last job in `jobs` with a status other than 0, else 0. A cancelled or
    unfinished job has status 1.
    Raises StoppedError on an interruption.
    """
    deadline = inf if seconds is None else time.monotonic() + seconds
    try:
        with progress_bar("tasks") as report:
            rows = _wait(service, jobs, deadline, report)
    except KeyboardInterrupt:
        more = " and others" if len(jobs) > 1 else ""
        raise StoppedError(f"interrupted; job {jobs[0]}{more} may go on") from None
    statuses = [report_end(row) for row in rows]
    return next((status for status in reversed(statuses) if status), 0), rows


def report_end(row: Row) -> int:
    """Return a job's exit status, 1 if it has none, and print the reason for its end."""
    state, reason = row["state"], row["reason"]
    if state not in ("finished", "failed"):
        complain(f"job {row['id']} is {state}{f': {reason}' if reason else ''}")
    elif reason:
        complain(f"job {row['id']}: {reason}")
    return 0 if state == "finished" else int(row["exit_status"] or 1)


def _wait(
    service: PlainClient,
    jobs: Sequence[str],
    deadline: float,
    report: Callable[[int, int], None] | None,
) -> list[Row]:
    """Return the jobs once they are over, or at the deadline, and report their ended tasks."""
    rows: dict[str, Row] = {job: service.ask(calls.job(job)) for job in jobs}
    total = sum(row["tasks"] for row in rows.values())
    for job in jobs:
        while True:
            if report is not None:
                report(sum(row["ended_tasks"] for row in rows.values()), total)
            now = time.monotonic()
            if is_over(rows[job]["state"]) or now >= deadline:
                break
            left = min(deadline - now, inf if report is None else BAR_SECONDS)
            rows[job] = service.wait(job, None if left == inf else left)
    return [rows[job] for job in jobs]


@contextmanager
def interruptions() -> Iterator[list[int]]:
    """Collect the first interrupting signal in a list; later ones raise `KeyboardInterrupt`.

    Ignored signals, as after ``nohup``, stay ignored.
    """
    received: list[int] = []

    def receive(number: int, _: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    before = {number: handler for number, handler in before.items() if handler != signal.SIG_IGN}
    try:
        for number in before:
            signal.signal(number, receive)
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stream_output(service: PlainClient, job: str, interrupted: Sequence[int]) -> int:
    """Copy the output of a job of one task until it ends; return its exit status.

    Sends the job SIGINT once `interrupted` has an entry.
    Raises StoppedError on a second interruption.
    """
    output = _Output(service, job)
    begun, pause = time.monotonic(), SHORTEST_PAUSE
    is_stopped = is_reported = False
    row: Row = service.ask(calls.wait(job, pause), OUTAGE_PATIENCE)
    try:
        while True:
            if interrupted and not is_stopped:
                is_stopped = True
                service.ask(calls.interrupt(job), OUTAGE_PATIENCE)
            ends = is_over(row["state"])
            copied = output.copy(row["attempts"], is_last=ends)
            if ends:
                break
            if row["state"] == "pending" and not is_reported:
                is_reported = time.monotonic() - begun > QUIET_SECONDS
                if is_reported and sys.stderr.isatty():
                    complain(f"job {job} waits; fairlead explain {job} says why")
            if copied:
                pause = 0.0 if copied >= FULL_PIECE else SHORTEST_PAUSE
            else:
                pause = min(max(1.5 * pause, SHORTEST_PAUSE), LONGEST_PAUSE)
            row = service.ask(calls.wait(job, pause), OUTAGE_PATIENCE)
    except KeyboardInterrupt:
        service.ask(calls.interrupt(job))
        raise StoppedError(f"interrupted twice; job {job} is being stopped") from None
    except (ReaderGoneError, OSError):
        service.ask(calls.interrupt(job), OUTAGE_PATIENCE)
        complain(f"job {job} is interrupted, as its output cannot be written")
        raise
    return INTERRUPTED if is_stopped and row["state"] == "cancelled" else report_end(row)


class _Output:
    """Copy the output of a job's only task, and count the copied bytes of each stream."""

    def __init__(self, service: PlainClient, job: str) -> None:
        self._service, self._job = service, job
        self._attempt = 0
        self._copied = dict.fromkeys(STREAMS, 0)  # bytes

    def copy(self, attempt: int, *, is_last: bool) -> int:
        """Copy new output, or with `is_last` all the rest; return the number of bytes."""
        if attempt > self._attempt:
            if self._attempt:
                complain(f"job {self._job} starts again: attempt {attempt}")
            self._attempt = attempt
            self._copied = dict.fromkeys(STREAMS, 0)
        if not attempt:
            return 0
        return sum(self._copy(stream, is_last=is_last) for stream in STREAMS)

    def _copy(self, stream: str, *, is_last: bool) -> int:
        begun = self._copied[stream]
        while True:
            offset = self._copied[stream]
            call = calls.logs(self._job, stream, 0, self._attempt, offset)
            try:
                piece = self._service.ask(call, OUTAGE_PATIENCE)
            except RefusedError as fault:
                if is_last:
                    complain(f"{stream} of job {self._job} is not complete: {fault}")
                return self._copied[stream] - begun
            self._copied[stream] = write_piece(piece, offset, stream)
            is_end = piece["is_over"] and self._copied[stream] >= piece["size"]
            if is_end or not is_last:  # return, so that the caller handles signals
                return self._copied[stream] - begun
            if not piece["data"]:
                time.sleep(SHORTEST_PAUSE)


def write_piece(piece: Row, offset: int, stream: str) -> int:
    """Write a piece of output that was requested from byte `offset` on; return its end."""
    from binascii import a2b_base64

    data = a2b_base64(piece["data"])
    if piece["offset"] > offset:
        complain(f"{piece['offset'] - offset:,} bytes before this are no longer kept")
    file = sys.stderr if stream == "stderr" else sys.stdout
    try:
        file.buffer.write(data)
        file.buffer.flush()
    except BrokenPipeError as gone:
        raise ReaderGoneError from gone
    end: int = piece["offset"] + len(data)
    return end
