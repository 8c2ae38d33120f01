"""Options about a log, and the workload that is read from it by them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fairlead.cli.options import Weights, time_of
from fairlead.cli.parameters import Option
from fairlead.cli.streams import progress_bar
from fairlead.errors import InputError

if TYPE_CHECKING:
    from fairlead.model.workload import Workload


@dataclass(frozen=True)
class LogOptions:
    """Options about the machines and users of a log."""

    machines: Annotated[
        Path | None,
        Option(
            "--machines",
            metavar="FILE",
            help=(
                "Machine file of a log of MetaCentrum or FIT, by default x.swf.machines beside "
                "x.swf.gz; openb's table of nodes, by default the one beside the pods; for a sacct "
                "table the output of scontrol show node, or of sinfo -N (docs/traces.md)."
            ),
        ),
    ] = None
    servers: Annotated[
        int | None,
        Option(
            "--servers",
            metavar="N",
            help="For a plain SWF log, else one pool of MaxProcs, or a sacct table: number of "
            "servers.",
        ),
    ] = None
    cores: Annotated[
        int | None, Option("--cores", metavar="K", help="For these: cores of each server.")
    ] = None
    memory: Annotated[
        float | None,
        Option(
            "--memory", metavar="GIB", help="For these: GiB of each server; else memory is ignored."
        ),
    ] = None
    user_from: Annotated[
        str | None,
        Option(
            "--user-from",
            metavar="COLUMN",
            help="For a sacct table: the column that names users, such as account. [default: user]",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        Option("--exclude", metavar="USER", help="Leave out this user's jobs. May be repeated."),
    ] = None
    weights: Weights = None

    def read(self, trace: Path, *, unended: float | None = None) -> tuple[Workload, str]:
        """Read a trace of any format under a progress bar; return it and its format's name.

        With `unended` it has the jobs that had not ended, too; see `MachineOptions`.
        """
        from fairlead.traces.readers import MachineOptions, read_workload

        given = MachineOptions(
            self.machines, self.servers, self.cores, self.memory, self.user_from, unended
        )
        with progress_bar(f"Reading {trace.name}") as report:
            workload, found = read_workload(trace, given, on_progress=report)
        if self.exclude or self.weights is not None:
            from fairlead.traces.chosen_users import with_weights, without_users

            workload = plain_trace(workload)
            if self.weights is not None:  # before users are excluded, whom the file may name
                workload = with_weights(workload, self.weights)
            if self.exclude:
                workload = without_users(workload, self.exclude)
        return workload, found


@dataclass(frozen=True)
class WindowOptions(LogOptions):
    """Options about a log, and about the time whose jobs are kept."""

    begin: Annotated[
        str | None,
        Option(
            "--from",
            metavar="TIME",
            help="Only jobs submitted from this time of the trace on, which becomes 0; such as 2d, "
            "or a date such as 2025-01-31T12:00 where the trace has dates.",
        ),
    ] = None
    end: Annotated[
        str | None,
        Option(
            "--to",
            metavar="TIME",
            help="Only jobs submitted before this time of the trace; 36h, or 1-12 as in Slurm.",
        ),
    ] = None

    def read_window(self, trace: Path, *, compares_recorded: bool = False) -> tuple[Workload, str]:
        """Read a trace as `read` does, with the jobs of the window alone."""
        begin = None if self.begin is None else time_of(self.begin, "--from")
        end = None if self.end is None else time_of(self.end, "--to")
        workload, found = self.read(trace)
        if begin is None and end is None:
            return workload, found
        from fairlead.traces.time_window import runs_over, seconds_since_start, time_window

        plain = plain_trace(workload)
        first = 0.0 if begin is None else max(0.0, seconds_since_start(plain, begin, "--from"))
        last = inf if end is None else seconds_in(plain, end, "--to")
        window = time_window(plain, first, last)
        if compares_recorded and runs_over(plain, first):
            fault = (
                "earlier jobs ran or waited then, and are left out, so that no run compares with "
                "recorded; replay the whole trace with --warm-up, or leave recorded out"
            )
            raise InputError(fault, "--from")
        return window, found


def plain_trace(workload: Workload) -> Workload:
    """Return the workload; of a recording of a service the plain trace."""
    from fairlead.traces.journal_trace import JournalWorkload

    return workload.as_trace() if isinstance(workload, JournalWorkload) else workload


def in_queues(workload: Workload, path: Path | None) -> Workload:
    """Return the workload with its users in the tree of a file, if one is given."""
    if path is None:
        return workload
    from fairlead.simulation.simulate import with_queues

    return with_queues(workload, path)


def instant_in(workload: Workload, time: float | datetime, option: str) -> float:
    """Return an instant as `seconds_in` does; the date of the first day is the trace's start."""
    begin = workload.date_of(0.0)
    if begin is not None and time == begin.replace(hour=0, minute=0, second=0, microsecond=0):
        return 0.0
    return seconds_in(workload, time, option)


def seconds_in(workload: Workload, time: float | datetime, option: str) -> float:
    """Return a time as seconds since the start of a trace.

    Raises InputError for a date that is earlier, or if the trace has none.
    """
    from fairlead.traces.time_window import seconds_since_start

    found = seconds_since_start(workload, time, option)
    if found < 0:
        begin = workload.date_of(0.0)
        raise InputError(f"is before the trace begins, {begin:%Y-%m-%d %H:%M:%S}", option)
    return found
