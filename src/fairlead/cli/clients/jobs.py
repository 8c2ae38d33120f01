"""Commands on submitted jobs: list, cancel, hold, release, wait, print output, forecast."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Annotated

from fairlead.cli import streams
from fairlead.cli.clients.service_connection import JobArgument, JobArguments, Row, Service, client
from fairlead.cli.main import INTERRUPTED
from fairlead.cli.options import AsJson, parse_time_limit
from fairlead.cli.parameters import Option
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
OnlyUser = Annotated[
    str | None, Option("--user", "-u", metavar="USER", help="List only this user's jobs.")
]
UNKNOWN: Row = {  # fields that the forecast of a held, started or ended job lacks
    "not_before": None,
    "expected": None,
    "earliest": None,
    "latest": None,
    "rests_on": 0,
    "never": False,
    "reason": "",
}
EveryJob = Annotated[
    bool, Option("--all", "-a", help="Also list the latest ended jobs, at most 1,000.")
]


def jobs(
    user: OnlyUser = None,
    every: EveryJob = False,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """List jobs that wait or run.

    \b
    Example:
      fairlead jobs --user ana
    """
    with client(server) as service:
        show_jobs(service.jobs(user, every), as_json)


def cancel(jobs: JobArguments, server: Service = None, as_json: AsJson = False) -> None:
    """Cancel jobs, and end their running tasks.

    \b
    Example:
      fairlead cancel 17 18
    """
    _act_on_jobs("cancel", jobs, server, as_json)


def hold(jobs: JobArguments, server: Service = None, as_json: AsJson = False) -> None:
    """Hold jobs: start no more of their tasks; running tasks go on.

    \b
    Example:
      fairlead hold 17
    """
    _act_on_jobs("hold", jobs, server, as_json)


def release(jobs: JobArguments, server: Service = None, as_json: AsJson = False) -> None:
    """Release held jobs; they keep their place in the queue.

    \b
    Example:
      fairlead release 17
    """
    _act_on_jobs("release", jobs, server, as_json)


def wait(
    jobs: JobArguments,
    timeout: Annotated[
        str | None, Option(metavar="T", help="Stop waiting after this time: 90s, 2h, 1:30:00.")
    ] = None,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """Wait until jobs are over; exit with 0 if all succeeded, else with a failed job's status.

    If several failed, the status is that of the last one on the command line. A job that is
    cancelled, or not over at --timeout, has status 1.

    \b
    Example:
      fairlead wait 17 && echo well done
    """
    seconds = None if timeout is None else parse_time_limit(timeout, "--timeout")
    with client(server) as service:
        status, rows = wait_for(service, jobs, seconds)
        if as_json:
            show_jobs(rows, as_json)
    sys.exit(status)


def logs(
    job: JobArgument,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Print new output until the task ends.")
    ] = False,
    stderr: Annotated[
        bool, Option("--stderr", "-e", help="Print standard error instead of standard output.")
    ] = False,
    index: Annotated[
        int, Option("--index", "-i", min=0, help="Index of the task in its job, from 0.")
    ] = 0,
    attempt: Annotated[
        int | None, Option(min=1, help="Number of the attempt. [default: the last]")
    ] = None,
    server: Service = None,
) -> None:
    """Print the output of a task of a job.

    \b
    Example:
      fairlead logs -f 17
    """
    stream, offset = "stderr" if stderr else "stdout", 0
    with client(server) as service:
        while True:
            try:
                piece = service.ask(calls.logs(job, stream, index, attempt, offset))
            except RefusedError as fault:
                if (
                    follow
                    and fault.status == 404
                    and not is_over(service.ask(calls.job(job))["state"])
                ):
                    time.sleep(1.0)  # it has not started
                    continue
                raise
            offset = write_piece(piece, offset, "stdout")
            if piece["is_over"] or (not follow and offset >= piece["size"]):
                return
            if not piece["data"]:
                time.sleep(0.5)


def when(job: JobArgument, server: Service = None, as_json: AsJson = False) -> None:
    """Forecast when a job starts.

    The forecast rests on run times of ended tasks and on time limits, as if no further job were
    submitted.

    \b
    Example:
      fairlead when 17
    """
    with client(server) as service:
        view = UNKNOWN | service.ask(calls.when(job))
        if as_json:
            streams.emit_json(view)
            return
        from fairlead.report.live import forecast_text

        streams.emit_lines([forecast_text(view, time.time())])


def explain_live(job: str, server: str | None, as_json: bool) -> None:
    """Explain why a job of a running service waits."""
    with client(server) as service:
        why = service.ask(calls.explain(job))
        if as_json:
            streams.emit_json({"fairlead": 1, **why})
            return
        text = why.get("text") or f"job {job}: {why['reason']}."
    streams.emit_lines(text.splitlines(), streams.terminal_width() or streams.WIDTH_OF_PIPE)


def _act_on_jobs(action: str, jobs: list[str], server: str | None, as_json: bool) -> None:
    """Cancel, hold or release jobs; print them as JSON if asked."""
    with client(server) as service:
        if len(jobs) > 1:
            for job in jobs:  # change none if one does not exist
                service.ask(calls.job(job))
        rows = [service.ask(calls.act_on_job(job, action)) for job in jobs]
        for row in rows:
            if action == "cancel" and row["state"] in ("finished", "failed"):
                streams.complain(f"job {row['id']} is {row['state']} already")
        if as_json:
            show_jobs(rows, as_json)


def show_jobs(rows: Sequence[Row], as_json: bool) -> None:
    """Print a table of jobs, or JSON."""
    from fairlead.report.live import jobs_table

    streams.show_table(jobs_table(rows), as_json)


def wait_for(
    service: PlainClient, jobs: Sequence[str], seconds: float | None = None
) -> tuple[int, list[Row]]:
    """Wait until jobs are over, but at most `seconds`; return an exit status and the jobs.

    The status is that of the last job in `jobs` with a status other than 0, else 0. A cancelled or
    unfinished job has status 1. Raises StoppedError on an interruption.
    """
    deadline = inf if seconds is None else time.monotonic() + seconds
    try:
        with streams.progress_bar("tasks") as report:
            rows = _wait(service, jobs, deadline, report)
    except KeyboardInterrupt:
        more = " and others" if len(jobs) > 1 else ""
        raise streams.StoppedError(f"interrupted; job {jobs[0]}{more} may go on") from None
    statuses = [report_end(row) for row in rows]
    return next((status for status in reversed(statuses) if status), 0), rows


def report_end(row: Row) -> int:
    """Print why a job failed or was stopped, if known; return its exit status, 1 if unknown."""
    state, reason = row["state"], row["reason"]
    if state not in ("finished", "failed"):
        streams.complain(f"job {row['id']} is {state}{f': {reason}' if reason else ''}")
    elif reason:
        streams.complain(f"job {row['id']}: {reason}")
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
    """Print the output of a job of one task until it ends; return its exit status.

    Sends the job SIGINT once `interrupted` has an entry. Raises StoppedError on one more signal.
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
                    streams.complain(f"job {job} waits; fairlead explain {job} says why")
            if copied:
                pause = 0.0 if copied >= FULL_PIECE else SHORTEST_PAUSE
            else:
                pause = min(max(1.5 * pause, SHORTEST_PAUSE), LONGEST_PAUSE)
            row = service.ask(calls.wait(job, pause), OUTAGE_PATIENCE)
    except KeyboardInterrupt:
        service.ask(calls.interrupt(job))
        raise streams.StoppedError(f"interrupted twice; job {job} is being stopped") from None
    except (streams.ReaderGoneError, OSError):
        service.ask(calls.interrupt(job), OUTAGE_PATIENCE)
        streams.complain(f"job {job} is interrupted, as its output cannot be written")
        raise
    return INTERRUPTED if is_stopped and row["state"] == "cancelled" else report_end(row)


class _Output:
    """Prints the output of a job's only task, and counts the printed bytes of each stream."""

    def __init__(self, service: PlainClient, job: str) -> None:
        self._service, self._job = service, job
        self._attempt = 0
        self._copied = dict.fromkeys(STREAMS, 0)  # bytes

    def copy(self, attempt: int, *, is_last: bool) -> int:
        """Print new output, or with `is_last` all the rest; return the number of bytes."""
        if attempt > self._attempt:
            if self._attempt:
                streams.complain(f"job {self._job} starts again: attempt {attempt}")
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
                    streams.complain(f"{stream} of job {self._job} is not complete: {fault}")
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
        streams.complain(f"{piece['offset'] - offset:,} bytes before this are no longer kept")
    file = sys.stderr if stream == "stderr" else sys.stdout
    try:
        file.buffer.write(data)
        file.buffer.flush()
    except BrokenPipeError as gone:
        raise streams.ReaderGoneError from gone
    end: int = piece["offset"] + len(data)
    return end
