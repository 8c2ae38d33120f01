"""Verbs on submitted jobs: list, cancel, hold, release, wait, print output, forecast."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Annotated

from fairlead.cli._client import JobArgument, JobArguments, Row, Service, client
from fairlead.cli.options import AsJson, parse_time_limit
from fairlead.cli.parameters import Option
from fairlead.cli.streams import (
    WIDTH_OF_PIPE,
    complain,
    emit_json,
    emit_lines,
    show_table,
    terminal_width,
)
from fairlead.service.client import calls
from fairlead.service.client.plain_client import RefusedError, is_over

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
    from fairlead.cli._waiting import wait_for

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
    from fairlead.cli._waiting import write_piece

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
            emit_json(view)
            return
        from fairlead.report.live import forecast_text

        emit_lines([forecast_text(view, time.time())])


def explain_live(job: str, server: str | None, as_json: bool) -> None:
    """Explain why a job of a running service waits."""
    with client(server) as service:
        why = service.ask(calls.explain(job))
        if as_json:
            emit_json({"fairlead": 1, **why})
            return
        text = why.get("text") or f"job {job}: {why['reason']}."
    emit_lines(text.splitlines(), terminal_width() or WIDTH_OF_PIPE)


def _act_on_jobs(action: str, jobs: list[str], server: str | None, as_json: bool) -> None:
    """Cancel, hold or release jobs; print them as JSON if asked."""
    with client(server) as service:
        if len(jobs) > 1:
            for job in jobs:  # change none if one does not exist
                service.ask(calls.job(job))
        rows = [service.ask(calls.act_on_job(job, action)) for job in jobs]
        for row in rows:
            if action == "cancel" and row["state"] in ("finished", "failed"):
                complain(f"job {row['id']} is {row['state']} already")
        if as_json:
            show_jobs(rows, as_json)


def show_jobs(rows: Sequence[Row], as_json: bool) -> None:
    """Print a table of jobs, or JSON."""
    from fairlead.report.live import jobs_table

    show_table(jobs_table(rows), as_json)
