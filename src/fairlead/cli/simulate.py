"""``fairlead simulate``: replay a trace under several policies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fairlead.cli.log_options import WindowOptions, in_queues, plain_trace, seconds_in
from fairlead.cli.options import (
    AsJson,
    Columns,
    PerfectEstimates,
    PolicySuffixes,
    RayAddress,
    ReportPath,
    SeedOfPolicy,
    StrictFifo,
    TableFormat,
    TreeFile,
    check_format,
    executor_on,
    parse_time,
)
from fairlead.cli.own_code import load_mechanism, load_policies, refuse_on_ray
from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import (
    StoppedError,
    check_report,
    complain,
    progress_bar,
    replay_bars,
    show,
)
from fairlead.errors import FairleadError, InputError, RefusalError

if TYPE_CHECKING:
    from fairlead.model.workload import Workload
    from fairlead.report.document import Block
    from fairlead.simulation.planned_runs import PlannedRun
    from fairlead.simulation.simulate import Outcome
    from fairlead.simulation.waiting_job import WaitingJob

SECONDS_PER_HOUR = 3600.0


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
    as_json: AsJson = False,
    table_format: TableFormat = None,
    columns: Columns = None,
    report: ReportPath = None,
    today: Annotated[
        str | None,
        Option(
            metavar="POLICY",
            help=(
                "Compare the other policies with this one. [default: with --what-if the changed "
                "policy; with --report recorded, if the trace has start times; else the first]"
            ),
        ),
    ] = None,
    runs: Annotated[
        Path | None,
        Option(
            "--runs",
            metavar="FOLDER",
            help="Keep the run of each policy in this folder, as Parquet. A kept run is read and "
            "not repeated, except that of a rule of your own.",
        ),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        Option(
            "--what-if",
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
            "--dedicated",
            help="Run the first policy again with each user on its own slice of the servers.",
        ),
    ] = False,
    strict_fifo: StrictFifo = False,
    perfect_estimates: PerfectEstimates = False,
    until: Annotated[
        float | None,
        Option(metavar="HOURS", help="Replay only jobs submitted in the first HOURS."),
    ] = None,
    warm_up: Annotated[
        str | None,
        Option(
            "--warm-up",
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
    fair: Annotated[
        str,
        Option(
            metavar="MECHANISM",
            help="Mechanism that defines fair shares, for the fairness error: drfh, tsf, ps-dsf, "
            "or FILE.py:NAME.",
        ),
    ] = "drfh",
    suffixes: PolicySuffixes,
    queues: TreeFile = None,
    seed: SeedOfPolicy = 0,
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
    ray: RayAddress = None,
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
    from fairlead.model.run_log import RECORDED
    from fairlead.simulation.planned_runs import check_folder, plan_runs
    from fairlead.simulation.runs import check_recorded
    from fairlead.simulation.simulate import check_fair

    # The steps: check names and files before a long trace is read; replay a study of several
    # traces or variations, or else one trace; then show the outcomes and report failed runs.
    check_format(table_format, as_json, columns)
    if suffixes.is_any and any(".py:" in name for name in policy):
        fault = "a user-defined rule takes no --preempt, --half-life, --reserve or --spare"
        raise InputError(f"{fault}; put these into the names of the other policies", "--policy")
    policies = [
        suffixes.added_to(each) if isinstance(each, str) else each for each in load_policies(policy)
    ]
    refuse_on_ray(policies, ray)
    planned = plan_runs(policies, what_if or (), dedicated)
    fair = load_mechanism(fair)
    check_fair(fair)
    if until is not None and not 0 < until < inf:
        raise InputError(f"must be a positive number, not {until:g}", "--until")
    warm = 0.0 if warm_up is None else parse_time(warm_up, "--warm-up")
    if isinstance(warm, datetime) and len(traces) > 1:
        raise InputError("is a date; give a time such as 6h for several traces", "--warm-up")
    names = [run.name for run in planned]
    reference = _reference_policy(today, [run.name for run in planned if not run.dedicated])
    replayed = next((run.policy for run in planned if run.policy != RECORDED), "")
    changed = [run.name for run in planned[len(plan_runs(policies)) :] if not run.dedicated]
    trace = traces[0]
    for each in traces:
        check_report(report, str(each), "trace")
    if log_options.machines is not None:
        check_report(report, str(log_options.machines), "file of machines")
    if runs is not None:
        check_folder(runs)
    compares_recorded = RECORDED in (*names, reference)
    read_trace = partial(log_options.read_window, compares_recorded=compares_recorded)
    options: dict[str, Any] = {
        "seed": seed,
        "strict_fifo": strict_fifo,
        "what_if": what_if or (),
        "dedicated": dedicated,
        "perfect_estimates": perfect_estimates,
        "until": None if until is None else until * SECONDS_PER_HOUR,
        "fair": fair,
    }
    if len(traces) > 1 or seeds is not None:
        _refuse_for_studies(runs, explain, today)
        from fairlead.report.study import study_document
        from fairlead.simulation.studies import MEASURES, TIMES, study

        measures = None
        if columns is not None:
            from fairlead.report.run_tables import parse_columns

            measures = parse_columns(columns, MEASURES, TIMES, "--columns")
        workloads: dict[str, Workload] = {}
        for each in traces:
            if str(each) in workloads:
                raise InputError("is given twice", "", str(each))
            workloads[str(each)] = read_trace(each)[0]
        since = _end_of_warm_up(workloads[str(trace)], warm, load)
        with (
            executor_on(ray, processes) as executor,
            progress_bar("Replaying variations") as on_variation,
        ):
            varied_runs = study(
                workloads,
                policies,
                seeds=seeds,
                loads=None if load is None else [load],
                queues=queues,
                warm_up=since,
                executor=executor,
                on_progress=on_variation,
                **options,
            )
        values = {"fairlead": 1, "seeds": seeds, "measured_since": since, **varied_runs.to_dict()}
        values |= {"failed": list(varied_runs.faults)} if varied_runs.faults else {}
        title = ", ".join(Path(name).name for name in workloads)
        table = None
        if table_format is not None:
            from fairlead.report.run_tables import study_text

            table = study_text(varied_runs, table_format, measures)
            for caution in varied_runs.cautions:
                complain(f"warning: {caution}")
        show(study_document(varied_runs, title, lambda: values), as_json, report, table=table)
        if varied_runs.faults:
            raise FairleadError("; ".join(varied_runs.faults))
        return
    if explain is not None:
        _check_explained([run for run in planned if not run.dedicated])
    workload, trace_format = read_trace(trace)
    since = _end_of_warm_up(workload, warm, load)
    if load is not None:
        from fairlead.traces.what_if import with_load

        workload = with_load(plain_trace(workload), load)
    workload = in_queues(workload, queues)
    chosen = None
    if columns is not None:  # before hours of replays
        from fairlead.report.run_tables import parse_columns
        from fairlead.simulation.simulate import ALL_FIGURES, TIME_FIGURES

        used = (f"used_{resource}" for resource in workload.cluster.resources)
        known = ("policy", *ALL_FIGURES, *used)
        chosen = parse_columns(columns, known, TIME_FIGURES, "--columns")
    if explain is not None and explain not in workload.users:
        raise InputError(f"there is no user {explain!r:.60} in the trace", "--explain")
    if RECORDED in names or reference == RECORDED:
        check_recorded(workload, str(trace))
    from fairlead.model.workload import first_seconds
    from fairlead.simulation.runs import RunsInterrupted, resume_text
    from fairlead.simulation.simulate import Outcomes, RunsFailedError
    from fairlead.simulation.simulate import simulate as simulate_policies

    if until is not None:
        # Tasks and jobs of later hours appear in no count.
        workload = first_seconds(workload, options["until"])
    outcomes, failed = Outcomes(), None
    sharing_runs = (replayed, names[-1]) if dedicated else None
    try:
        with executor_on(ray, processes) as executor, replay_bars() as (on_progress, _):
            try:
                outcomes = simulate_policies(
                    workload,
                    policies,
                    folder=runs,
                    executor=executor,
                    warm_up=since,
                    on_found=_report_kept,
                    on_progress=on_progress,
                    **options,
                )
            except RunsFailedError as fault:
                needed = {*(sharing_runs or ()), reference} - {None, RECORDED}
                if not fault.finished or not needed <= fault.finished.keys():
                    raise
                failed, outcomes = fault, fault.finished
        _report_repeated(workload, outcomes)
        reasons = {}
        if explain is not None:
            shared = {run.name: outcomes[run.name] for run in planned if not run.dedicated}
            reasons = _explained(shared, explain, strict_fifo)
        shown = outcomes
        # A page compares with the schedule in the trace, unless another reference was asked for.
        wants_recorded = bool(report) and reference is None and not what_if
        if workload.has_starts and (reference == RECORDED or wants_recorded):
            from fairlead.simulation.simulate import with_recorded

            shown = with_recorded(outcomes, workload, options["until"], fair, since)
        given = {
            "trace": str(trace),
            "format": trace_format,
            "seed": seed,
            "strict_fifo": strict_fifo,
            "perfect_estimates": perfect_estimates,
        }
        from fairlead.report.simulation import simulation_document

        if reference is None and what_if and replayed in shown:
            reference = replayed
        document = simulation_document(
            shown,
            trace.name,
            format_=trace_format,
            today=reference,
            changed=changed,
            dedicated=sharing_runs,
            reasons=[_reason_block(why, name, explain) for name, why in reasons.items()],
            values=lambda: (
                {"fairlead": 1, **given, **_figures(workload, outcomes, sharing_runs)}
                | (
                    {}
                    if failed is None
                    else {"failed": list(dict.fromkeys(failed.faults.values()))}
                )
                | _reasons(explain, reasons)
            ),
        )
        table = None
        if table_format is not None:
            from fairlead.report.run_tables import outcomes_text

            _warn_of_unsolved(shown)
            table = outcomes_text(shown, table_format, chosen)
        show(document, as_json, report, table=table)
    except RunsInterrupted as interrupted:
        stopped = resume_text(interrupted.finished, interrupted.runs, interrupted.folder)
        raise StoppedError(f"interrupted; {stopped}") from None
    except KeyboardInterrupt:
        if not outcomes:
            raise
        kept = tuple(name for name, outcome in outcomes.items() if outcome.path is not None)
        stopped = resume_text(kept, len(outcomes), runs)
        raise StoppedError(f"interrupted; {stopped}") from None
    unkept = sum(outcome.path is None for outcome in outcomes.values())
    if runs is not None and unkept:
        raise InputError(f"{unkept} of {len(outcomes)} runs could not be kept", "", str(runs))
    if failed is not None:
        raise failed


def _end_of_warm_up(workload: Workload, time: float | datetime, load: float | None) -> float:
    """Return the end of the warm-up in seconds of the replay; a date is scaled by `load`."""
    found = seconds_in(workload, time, "--warm-up")
    last = float(workload.job_submit[-1])
    if isinstance(time, datetime) and found >= last:
        given, end = workload.time_text(found), workload.time_text(last)
        raise InputError(f"must be before the last submission, {end}, not {given}", "--warm-up")
    # A load of 0 is refused later, by `with_load`.
    return found / (load or 1.0) if isinstance(time, datetime) else found


def _refuse_for_studies(runs: Path | None, explain: str | None, today: str | None) -> None:
    """Raise InputError for options that a study does not take."""
    given = {"--runs": runs, "--explain": explain, "--today": today}
    for option, value in given.items():
        if value is not None:
            raise InputError("is for one trace without --seeds", option)


def _reference_policy(today: str | None, names: list[str]) -> str | None:
    """Return the name of the --today policy; raise InputError if it is not simulated."""
    if today is None:
        return None
    from fairlead.model.run_log import RECORDED
    from fairlead.simulation.planned_runs import policy_name

    name = today if today in names else policy_name(today)
    if name not in (*names, RECORDED):
        known = ", ".join(names)
        raise InputError(
            f"must be one of the policies simulated ({known}), not {today!r}", "--today"
        )
    return name


def _figures(
    workload: Workload, outcomes: Mapping[str, Outcome], sharing_runs: tuple[str, str] | None
) -> dict[str, Any]:
    """Return the outcomes as plain values, for JSON."""
    from fairlead.model.unplaceable import unplaceable_sets

    too_large = unplaceable_sets(workload)
    jobs = list(dict.fromkeys(workload.set_job[too_large].tolist()))
    figures: dict[str, Any] = {
        "notes": dict(workload.notes),
        "policies": {name: outcome.to_dict() for name, outcome in outcomes.items()},
        "too_large": {
            "tasks": int(workload.set_tasks[too_large].sum()),
            "jobs": workload.job_names[jobs].tolist(),
        },
    }
    if sharing_runs is not None:
        from fairlead.simulation.metrics.comparison import compare

        sharing = compare(outcomes[sharing_runs[0]].summary, outcomes[sharing_runs[1]].summary)
        figures["sharing"] = sharing.to_dict() | {"baseline": sharing_runs[1]}
    return figures


def _warn_of_unsolved(outcomes: Mapping[str, Outcome]) -> None:
    """Warn of runs without fair shares at some instants, as the table does not show it."""
    for name, outcome in outcomes.items():
        fairness = outcome.summary.fairness
        if fairness is not None and fairness.unsolved_instants is not None:
            complain(f"warning: under {name}, {fairness.unsolved_instants}")


def _reasons(user: str | None, reasons: Mapping[str, WaitingJob | None]) -> dict[str, Any]:
    if user is None:
        return {}
    found = {name: why and why.to_dict() for name, why in reasons.items()}
    return {"explained": {"user": user, "policies": found}}


def _reason_block(why: WaitingJob | None, policy: str, user: str | None) -> Block:
    from fairlead.cli.explain import lines_of
    from fairlead.report.document import Listing, Section

    lines = [f"No job of {user} waits under {policy}."] if why is None else lines_of(why, policy)
    return Section(f"Why {user} waits longest under {policy}", [Listing(lines)])


def _check_explained(runs: list[PlannedRun]) -> None:
    """Raise an error before the replays if a policy cannot be explained."""
    from fairlead.model.run_log import RECORDED
    from fairlead.simulation.waiting_job import check_explained

    replayed = [run for run in runs if run.policy != RECORDED]
    if not replayed:
        raise InputError("needs a policy that is replayed", "--explain")
    for run in replayed:
        if run.rule is not None:
            raise RefusalError(run.policy, "a user-defined rule does not say why tasks wait")
        check_explained(run.policy)


def _explained(
    outcomes: Mapping[str, Outcome], user: str, strict_fifo: bool
) -> dict[str, WaitingJob | None]:
    """Explain why a user's longest-waiting job waited, by the name of the replayed policy."""
    from fairlead.simulation.waiting_job import explain_job, longest_wait

    found: dict[str, WaitingJob | None] = {}
    for name, outcome in outcomes.items():
        if outcome.log.is_recorded:
            continue
        longest = longest_wait(outcome.workload, outcome.log, user, outcome.since)
        found[name] = None
        if longest is not None:
            with progress_bar(f"Explaining {name}") as report:
                found[name] = explain_job(
                    outcome.workload,
                    outcome.log,
                    *longest,
                    strict_fifo=strict_fifo,
                    on_progress=report,
                )
    return found


def _report_repeated(workload: Workload, outcomes: Mapping[str, Outcome]) -> None:
    """Report how many placements of a service's journal its own policy repeats in the replay."""
    from fairlead.simulation.journal_replay import repeated_starts
    from fairlead.traces.journal_trace import JournalWorkload

    if not isinstance(workload, JournalWorkload):
        return
    for name, outcome in outcomes.items():
        if name in {policy for policy, _ in workload.recording.policies}:
            same, made = repeated_starts(workload, outcome.log)
            complain(f"{name}: {same} of {made} placements are as the service made them")


def _report_kept(name: str, path: Path) -> None:
    complain(f"{name}: finished before, read from {path}")
