"""``fairlead explain``: why a job waits, and which changes would let it start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fairlead.cli._client import Service
from fairlead.cli.log_options import LogOptions, in_queues, instant_in
from fairlead.cli.options import (
    AsJson,
    PerfectEstimates,
    SeedOfPolicy,
    StrictFifo,
    TreeFile,
    parse_time,
)
from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import (
    WIDTH_OF_PIPE,
    emit_json,
    emit_lines,
    log_on_standard_error,
    progress_bar,
    terminal_width,
)
from fairlead.errors import InputError, RefusalError

if TYPE_CHECKING:
    from fairlead.model.run_log import RunLog
    from fairlead.model.workload import Workload
    from fairlead.simulation.waiting_job import WaitingJob


def explain(
    trace: Annotated[
        Path | None,
        Argument(
            metavar="TRACE",
            help="Trace of any format in `trace info --help`. Without one, ask a running service.",
        ),
    ] = None,
    job: Annotated[
        str | None,
        Argument(metavar="JOB", help="Name of the job in the trace, or its id in the service."),
    ] = None,
    policy: Annotated[
        str,
        Option(
            "--policy",
            "-p",
            metavar="POLICY",
            help="Policy of the replay, CRITERION/SELECTION; not recorded.",
        ),
    ] = "drf/best-fit",
    at: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help=(
                "Time of the trace to explain: seconds, 90m or 2.5d, or 2025-01-31T12:00 where the "
                "trace has dates. [default: the middle of the job's wait]"
            ),
        ),
    ] = None,
    *,
    as_json: AsJson = False,
    strict_fifo: StrictFifo = False,
    perfect_estimates: PerfectEstimates = False,
    queues: TreeFile = None,
    seed: SeedOfPolicy = 0,
    log_options: LogOptions,
    server: Service = None,
) -> None:
    """Explain why a job of a replayed trace, or of a running service, waits.

    A trace is replayed under a policy. The explanation counts servers by the resource of which
    they have too little free, and lists changes that would let the job start.

    \b
    Example:
      fairlead explain examples/logs/metacentrum.swf.gz 42 --policy drf/best-fit
    """
    if trace is None:
        raise InputError("name a job: fairlead explain JOB, or fairlead explain TRACE JOB")
    if job is None:
        from fairlead.cli.jobs import explain_live

        explain_live(str(trace), server, as_json)
        return
    log_on_standard_error()
    from fairlead.simulation.waiting_job import check_explained, middle_of_wait

    time = None if at is None else parse_time(at, "--at")
    if ".py:" in policy:
        raise RefusalError(policy, "a user-defined rule does not say why tasks wait")
    check_explained(policy)
    workload, _ = log_options.read(trace)
    workload = in_queues(workload, queues)
    from fairlead.simulation.replay import replay

    if perfect_estimates:
        from fairlead.traces.what_if import with_perfect_estimates

        workload = with_perfect_estimates(workload)
    with progress_bar(f"Replaying {policy}") as report:
        log = replay(
            workload,
            policy,
            strict_fifo=strict_fifo,
            seed=seed,
            on_progress=report and (lambda starts, _: report(starts, workload.n_tasks)),
        )
    if time is None:
        seconds = middle_of_wait(workload, log, job)
    else:
        seconds = instant_in(workload, time, "--at")
    why = explain_at(workload, log, job, seconds, strict_fifo, seed)
    if as_json:
        emit_json({"fairlead": 1, "policy": log.policy, **why.to_dict()})
    else:
        width = terminal_width() or WIDTH_OF_PIPE
        emit_lines(lines_of(why, log.policy), width)


def explain_at(
    workload: Workload, log: RunLog, job: str, time: float, strict_fifo: bool, seed: int
) -> WaitingJob:
    """Explain why a job waits at a time of a replay, with a progress bar."""
    from fairlead.simulation.waiting_job import explain_job

    with progress_bar(f"Replaying {log.policy} up to the wait") as report:
        return explain_job(
            workload,
            log,
            job,
            time,
            strict_fifo=strict_fifo,
            seed=seed,
            on_progress=report and (lambda starts, _: report(starts, workload.n_tasks)),
        )


def lines_of(why: WaitingJob, policy: str) -> list[str]:
    """Format the explanation of a waiting job as lines."""
    from fairlead.scheduler.explanation import duration

    after = f"starts {duration(why.starts - why.time)} later, at {duration(why.starts)}"
    if why.starts == float("inf"):
        after = "never starts"
    which = f" (set {why.set} of {why.sets})" if why.sets > 1 else ""
    head = (
        f"{why.job} of {why.user}{which} under {policy}, at {duration(why.time)}: "
        f"it has waited for {duration(why.time - why.submitted)}, and {after}."
    )
    return [head, *str(why.explanation).splitlines()]
