"""Verbs that replay a trace: simulate, and explain, which also asks a running service."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fairlead.cli import options, streams
from fairlead.cli.clients.service_connection import Service
from fairlead.cli.log_options import LogOptions, WindowOptions, in_queues, instant_in
from fairlead.cli.own_code import load_mechanism, load_policies, refuse_rules_on_ray
from fairlead.cli.parameters import Argument, Option
from fairlead.errors import InputError, RefusalError

if TYPE_CHECKING:
    from fairlead.simulation.planned_runs import PlannedRun


def simulate(
    traces: Annotated[
        list[Path],
        Argument(
            metavar="TRACE...",
            help="Traces of any formats in `trace info --help`; several traces make a study.",
        ),
    ],
    policy: Annotated[
        list[str],
        Option(
            "--policy",
            "-p",
            metavar="POLICY",
            help=(
                "Policy to replay: CRITERION/SELECTION, such as drf/best-fit, ps-dsf/joint or "
                "easy/first-fit, perhaps with /residual, /oblivious, /over-share or /over-quota; "
                "slots:S; FILE.py:NAME for a rule of your own; or recorded, the starts in the "
                "trace. May be repeated."
            ),
        ),
    ],
    *,
    output: options.OutputOptions,
    runs: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="Keep the run of each policy in this folder, as Parquet. A kept run is read and "
            "not repeated, except that of a rule of your own.",
        ),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        Option(
            metavar="CHANGE",
            help=(
                "Run the first policy again with a change: weight:USER=NUMBER (or a queue), "
                "quota:QUEUE.RESOURCE=NUMBER, limit:QUEUE.RESOURCE=NUMBER, servers:GROUP+NUMBER, "
                "servers:GROUP-NUMBER or preempt:MODE. May be repeated."
            ),
        ),
    ] = None,
    dedicated: Annotated[
        bool,
        Option(
            help="Run the first policy again with each user on its own slice of the servers.",
        ),
    ] = False,
    strict_fifo: options.StrictFifo = False,
    perfect_estimates: options.PerfectEstimates = False,
    warm_up: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="Run the jobs submitted before this time, but do not measure them: 6h, or "
            "2025-01-31T12:00 where the trace has dates.",
        ),
    ] = None,
    load: Annotated[
        float | None,
        Option(
            metavar="NUMBER",
            help="Submit jobs this many times faster than in the trace, such as 1.5.",
        ),
    ] = None,
    fair: options.FairMechanism = "drfh",
    suffixes: options.PolicySuffixes,
    queues: options.TreeFile = None,
    seed: options.SeedOfPolicy = 0,
    seeds: Annotated[
        int | None,
        Option(
            metavar="N",
            min=2,
            help=(
                "Make a study: replay N variations of each trace, in which each user's jobs are "
                "shifted by a random time, and compare each policy with the first one."
            ),
        ),
    ] = None,
    processes: Annotated[
        int | None,
        Option(
            metavar="N", min=1, help="Number of policies replayed at a time. [default: processors]"
        ),
    ] = None,
    ray: options.RayAddress = None,
    explain: Annotated[
        str | None,
        Option(
            metavar="USER",
            help="Explain why this user's longest-waiting job waited, under each policy.",
        ),
    ] = None,
    log_options: WindowOptions,
) -> None:
    """Replay a trace under several policies, and compare the outcomes.

    Tasks run as long as in the trace; the policy chooses the next user and the server. Jobs with
    tasks too large for every server are listed.

    \b
    Example:
      fairlead simulate day.parquet --policy slots:14 --policy drf/best-fit --report what-if.html
    """
    from fairlead.cli._replays import ReplayOptions, Replays, run_study, run_trace
    from fairlead.model.run_log import RECORDED
    from fairlead.simulation.planned_runs import check_folder, plan_runs
    from fairlead.simulation.simulate import check_fair

    # All that can be checked is checked before a long trace is read.
    others = [log_options.machines, log_options.weights, queues]
    output.check(*traces, what="trace", others=others)
    if suffixes.is_any and any(".py:" in name for name in policy):
        fault = "a user-defined rule takes no --preempt, --half-life, --reserve or --spare"
        raise InputError(f"{fault}; put these into the names of the other policies", "--policy")
    policies = [
        suffixes.added_to(each) if isinstance(each, str) else each for each in load_policies(policy)
    ]
    refuse_rules_on_ray(policies, ray)
    planned = plan_runs(policies, what_if or (), dedicated)
    fair = load_mechanism(fair)
    check_fair(fair)
    warm = 0.0 if warm_up is None else options.parse_time(warm_up, "--warm-up")
    if isinstance(warm, datetime) and len(traces) > 1:
        raise InputError("is a date; give a time such as 6h for several traces", "--warm-up")
    if runs is not None:
        check_folder(runs)
    compares_recorded = RECORDED in [run.name for run in planned]
    replays = Replays(
        traces=traces,
        policies=policies,
        planned=planned,
        read_trace=partial(log_options.read_window, compares_recorded=compares_recorded),
        warm_up=warm,
        load=load,
        queues=queues,
        open_executor=partial(options.executor_on, ray, processes),
        options=ReplayOptions(
            seed=seed,
            strict_fifo=strict_fifo,
            what_if=what_if or (),
            dedicated=dedicated,
            perfect_estimates=perfect_estimates,
            fair=fair,
        ),
        output=output,
    )
    if len(traces) > 1 or seeds is not None:
        for option, value in {"--runs": runs, "--explain": explain}.items():
            if value is not None:
                raise InputError("is for one trace without --seeds", option)
        run_study(replays, seeds)
        return
    if explain is not None:
        _check_explained([run for run in planned if not run.dedicated])
    run_trace(replays, runs, explain)


def _check_explained(runs: list[PlannedRun]) -> None:
    """Raise an error before the replays if a policy cannot be explained."""
    from fairlead.model.run_log import RECORDED

    replayed = [run for run in runs if run.policy != RECORDED]
    if not replayed:
        raise InputError("needs a policy that is replayed", "--explain")
    for run in replayed:
        if run.rule is not None:
            raise RefusalError(run.policy, "a user-defined rule does not say why tasks wait")


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
    as_json: options.AsJson = False,
    strict_fifo: options.StrictFifo = False,
    perfect_estimates: options.PerfectEstimates = False,
    queues: options.TreeFile = None,
    seed: options.SeedOfPolicy = 0,
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
        from fairlead.cli.clients.jobs import explain_live

        explain_live(str(trace), server, as_json)
        return
    streams.log_on_standard_error()
    from fairlead.cli._replays import explain_at, lines_of
    from fairlead.simulation.waiting_job import check_explained, middle_of_wait

    time = None if at is None else options.parse_time(at, "--at")
    if ".py:" in policy:
        raise RefusalError(policy, "a user-defined rule does not say why tasks wait")
    check_explained(policy)
    workload, _ = log_options.read(trace)
    workload = in_queues(workload, queues)
    from fairlead.simulation.replay import replay

    if perfect_estimates:
        from fairlead.traces.what_if import with_perfect_estimates

        workload = with_perfect_estimates(workload)
    with streams.progress_bar(f"Replaying {policy}") as report:
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
        streams.emit_json({"fairlead": 1, "policy": log.policy, **why.to_dict()})
    else:
        width = streams.terminal_width() or streams.WIDTH_OF_PIPE
        streams.emit_lines(lines_of(why, log.policy), width)
