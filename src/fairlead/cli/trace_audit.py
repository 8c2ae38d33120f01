"""``fairlead trace audit``: compare usage in a log with fair shares, and check limits."""

from __future__ import annotations

import sys
from datetime import datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fairlead.cli import options, streams
from fairlead.cli.log_options import LogOptions, in_queues, instant_in, plain_trace
from fairlead.cli.own_code import load_mechanism
from fairlead.cli.parameters import Argument, Option
from fairlead.errors import InputError

if TYPE_CHECKING:
    from fairlead.simulation.log_audit import AuditLimits


def audit(
    trace: Annotated[
        Path,
        Argument(metavar="TRACE", help="Trace of any known format that has the starts of tasks."),
    ],
    begin: Annotated[
        str | None,
        Option(
            "--from",
            metavar="TIME",
            help="Start of the audited period: 2d, or 2025-01-31T12:00 where the trace has dates. "
            "[default: the first job; for a sacct table the first end of a job, as jobs that ended "
            "earlier may be missing]",
        ),
    ] = None,
    end: Annotated[
        str | None,
        Option(
            "--to",
            metavar="TIME",
            help="End of the audited period. For a sacct table, a date after the last event is "
            "allowed: unfinished jobs count as running or waiting until then. [default: the last "
            "event]",
        ),
    ] = None,
    last: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="Length of the audited period, up to its end, such as 1d.",
        ),
    ] = None,
    max_under: Annotated[
        str | None,
        Option(
            metavar="20%",
            help="Fail if a user held less than its fair share by more than this fraction.",
        ),
    ] = None,
    min_due: Annotated[
        float,
        Option(
            min=0,
            metavar="HOURS",
            help="Apply --max-under only to users with a fair share of at least this many hours of "
            "the whole cluster.",
        ),
    ] = 0.0,
    max_owed: Annotated[
        float | None,
        Option(
            min=0,
            metavar="HOURS",
            help="Fail if a user is owed more than this many hours of the whole cluster.",
        ),
    ] = None,
    max_wait: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="Fail if a user's tasks waited longer than this, such as 12h, with none running.",
        ),
    ] = None,
    fair: options.FairMechanism = "drfh",
    queues: options.TreeFile = None,
    *,
    log_options: LogOptions,
    as_json: options.AsJson = False,
    report: options.ReportPath = None,
) -> None:
    """Compare what users held in a log with their fair shares, over a period.

    All jobs of the trace that ran or waited in the period count, in a sacct table also jobs that
    run or wait at its end. The exit status is 1 if a user is beyond a given limit.

    \b
    Example:
      fairlead trace audit sacct.txt --machines nodes.txt --last 1d --max-owed 5 --max-wait 12h
    """
    from fairlead.cli._limit_checks import start_of_complete_data, why_limits_uncheckable
    from fairlead.report.numbers import duration
    from fairlead.simulation.log_audit import audit_log
    from fairlead.simulation.simulate import check_fair
    from fairlead.traces.readers import SLURM
    from fairlead.traces.time_window import last_time, why_no_starts

    streams.check_report(report, str(trace), "trace")
    for file in (log_options.machines, log_options.weights, queues):
        if file is not None:
            streams.check_report(report, str(file), "input")
    if begin is not None and last is not None:
        raise InputError("cannot be given with --from", "--last")
    limits = _parse_limits(max_under, min_due, max_owed, max_wait)
    fair = load_mechanism(fair)
    check_fair(fair)
    from_time = None if begin is None else options.parse_time(begin, "--from")
    to_time = None if end is None else options.parse_time(end, "--to")
    length = None if last is None else _parse_with_unit(last, "--last")
    date = to_time.timestamp() if isinstance(to_time, datetime) else None
    workload, trace_format = log_options.read(trace, unended=date or 0.0)
    workload = in_queues(plain_trace(workload), queues)
    if not workload.has_starts:
        fault = f"{why_no_starts(workload)}; fairlead simulate replays it under a policy"
        raise InputError(fault, "", str(trace))
    # `since` and `until` bound the audited period, in seconds of the trace.
    until = last_time(workload)
    if to_time is not None:
        requested_end = instant_in(workload, to_time, "--to")
        if date is None and requested_end > until:
            fault = f"is after the last event, {duration(until)} after the start"
            raise InputError(f"{fault}; a date may be later", "--to")
        until = requested_end
    # Before `complete_since`, a sacct table lacks jobs that had ended before its --starttime.
    complete_since = start_of_complete_data(workload) if trace_format == SLURM else None
    default_since = complete_since if complete_since is not None and complete_since < until else 0.0
    if from_time is not None:
        since = instant_in(workload, from_time, "--from")
    else:
        since = default_since
        if length is not None:
            since = max(until - length, since)
    found = audit_log(workload, since, until, mechanism=fair, complete_from=default_since)
    if limits.has_limit:
        requested_since = since if length is None else max(until - length, 0.0)
        fault = why_limits_uncheckable(
            found,
            limits,
            requested_since,
            complete_since,
            has_machines=log_options.machines is not None,
        )
        if fault:
            raise InputError(f"no limit can be checked: {fault}", "", str(trace))
    from fairlead.report.log_audit_document import log_audit_document

    streams.show(log_audit_document(found, trace.name, limits, trace_format), as_json, report)
    if any(found.breaches(limits)):
        sys.exit(1)


def _parse_limits(
    max_under: str | None, min_due: float, max_owed: float | None, max_wait: str | None
) -> AuditLimits:
    """Return the limits that the options set; raise InputError for an unusable option."""
    from fairlead.simulation.log_audit import AuditLimits

    if min_due and max_under is None:
        raise InputError("needs --max-under", "--min-due")
    for option, hours in (("--min-due", min_due), ("--max-owed", max_owed)):
        if hours == inf:  # the answer repeats the limits, and JSON has no infinity
            raise InputError("must be a finite number of hours, not inf", option)
    return AuditLimits(
        None if max_under is None else options.parse_fraction(max_under, "--max-under"),
        min_due,
        max_owed,
        None if max_wait is None else _parse_with_unit(max_wait, "--max-wait"),
    )


def _parse_with_unit(text: str, option: str) -> float:
    """Return a positive duration as seconds.

    Raises InputError for a number without a unit, as the user might mean hours.
    """
    seconds = options.parse_seconds(text, option)
    if options.is_bare_number(text) or not seconds:
        raise InputError(
            f"must be a time above 0 with a unit, such as 12h, not {text!r:.60}", option
        )
    return seconds
