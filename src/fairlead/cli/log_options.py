"""Options of verbs that read a log; read its workload."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fairlead.cli.options import Weights, parse_time
from fairlead.cli.parameters import Option
from fairlead.cli.streams import progress_bar
from fairlead.errors import InputError

if TYPE_CHECKING:
    from fairlead.model.workload import Workload


@dataclass(frozen=True)
class LogOptions:
    """Options on the machines and users of a log."""

    machines: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help=(
                "Machine file of a log that has its machines in another file; for a sacct table, "
                "the output of scontrol show node or sinfo -N. [default: the machine file in the "
                "log's folder]"
            ),
        ),
    ] = None
    servers: Annotated[
        int | None,
        Option(
            metavar="N",
            help="Number of servers, for a log that names none, such as an SWF log or a sacct "
            "table. Without it an SWF log has one pool of MaxProcs cores.",
        ),
    ] = None
    cores: Annotated[int | None, Option(metavar="K", help="Cores of each of the --servers.")] = None
    memory: Annotated[
        float | None,
        Option(
            metavar="GIB",
            help="Memory of each of the --servers, in GiB. Without it memory is ignored.",
        ),
    ] = None
    user_from: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="Column or label that names users, such as account in a sacct table. [default: "
            "user]",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        Option(metavar="USER", help="Leave out this user's jobs. May be repeated."),
    ] = None
    weights: Weights = None

    def read(self, trace: Path, *, unended: float | None = None) -> tuple[Workload, str]:
        """Read a trace of any format with a progress bar; return it and its format's name.

        With `unended` the workload includes unfinished jobs; see `MachineOptions`.
        """
        from fairlead.traces.readers import MachineOptions, read_workload

        given = MachineOptions(
            self.machines, self.servers, self.cores, self.memory, self.user_from, unended
        )
        with progress_bar(f"Reading {trace.name}") as report:
            workload, found = read_workload(trace, given, on_progress=report)
        if self.exclude or self.weights is not None:
            from fairlead.traces.what_if import with_weights, without_users

            workload = plain_trace(workload)
            if self.weights is not None:  # first, as the file may name excluded users
                workload = with_weights(workload, self.weights)
            if self.exclude:
                workload = without_users(workload, self.exclude)
        return workload, found


@dataclass(frozen=True)
class WindowOptions(LogOptions):
    """Options on a log and on the time window of its jobs."""

    begin: Annotated[
        str | None,
        Option(
            "--from",
            metavar="TIME",
            help="Keep only jobs submitted from this time of the trace on, which becomes time 0: "
            "2d, or 2025-01-31T12:00 where the trace has dates.",
        ),
    ] = None
    end: Annotated[
        str | None,
        Option(
            "--to",
            metavar="TIME",
            help="Keep only jobs submitted before this time of the trace, such as 36h or a date.",
        ),
    ] = None

    def read_window(self, trace: Path, *, compares_recorded: bool = False) -> tuple[Workload, str]:
        """Read a trace as `read` does, with only the jobs submitted between --from and --to."""
        begin = None if self.begin is None else parse_time(self.begin, "--from")
        end = None if self.end is None else parse_time(self.end, "--to")
        workload, found = self.read(trace)
        if begin is None and end is None:
            return workload, found
        from fairlead.traces.time_window import (
            has_unfinished_jobs_at,
            seconds_since_start,
            time_window,
        )

        plain = plain_trace(workload)
        first = 0.0 if begin is None else max(0.0, seconds_since_start(plain, begin, "--from"))
        last = inf if end is None else seconds_in(plain, end, "--to")
        window = time_window(plain, first, last)
        if compares_recorded and has_unfinished_jobs_at(plain, first):
            fault = (
                "earlier jobs ran or waited then, and are left out, so that no run compares with "
                "recorded; replay the whole trace with --warm-up, or leave recorded out"
            )
            raise InputError(fault, "--from")
        return window, found


def plain_trace(workload: Workload) -> Workload:
    """Return a workload as a plain trace: a service's journal is converted."""
    from fairlead.traces.journal_trace import JournalWorkload

    return workload.as_trace() if isinstance(workload, JournalWorkload) else workload


def in_queues(workload: Workload, path: Path | None) -> Workload:
    """Put users into the tree of the queue file at `path`; without a path change nothing."""
    if path is None:
        return workload
    from fairlead.simulation.simulate import with_queues

    return with_queues(workload, path)


def instant_in(workload: Workload, time: float | datetime, option: str) -> float:
    """Convert a time as `seconds_in` does, but midnight of the trace's first day to 0.

    So a date without a time may name the first day, although the trace begins after midnight.
    """
    begin = workload.date_of(0.0)
    if begin is not None and time == begin.replace(hour=0, minute=0, second=0, microsecond=0):
        return 0.0
    return seconds_in(workload, time, option)


def seconds_in(workload: Workload, time: float | datetime, option: str) -> float:
    """Convert a time of a trace to seconds since its start.

    Raises InputError for a date before the start, or for any date if the trace has no dates.
    """
    from fairlead.traces.time_window import seconds_since_start

    found = seconds_since_start(workload, time, option)
    if found < 0:
        begin = workload.date_of(0.0)
        raise InputError(f"is before the trace begins, {begin:%Y-%m-%d %H:%M:%S}", option)
    return found
