"""Run the replays of ``fairlead simulate``: of one trace, and of a study of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from fairlead.cli.log_options import in_queues, plain_trace, seconds_in
from fairlead.cli.options import OutputOptions
from fairlead.cli.streams import StoppedError, complain, progress_bar, stages_bar
from fairlead.errors import InputError
from fairlead.executors.executor import Executor
from fairlead.model.run_log import RECORDED, RunLog
from fairlead.model.task_kinds import unplaceable_sets
from fairlead.model.workload import Workload
from fairlead.report.document import Block, Listing, Section
from fairlead.scheduler.explanation import duration
from fairlead.simulation.journal_replay import repeated_starts
from fairlead.simulation.metrics.comparison import compare
from fairlead.simulation.planned_runs import NamedRule, PlannedRun
from fairlead.simulation.runs import RunsInterrupted, check_recorded, resume_text
from fairlead.simulation.simulate import (
    TIME_FIGURES,
    Outcome,
    Outcomes,
    simulate,
    with_recorded,
)
from fairlead.simulation.studies import study
from fairlead.simulation.waiting_job import WaitingJob, explain_job, longest_wait
from fairlead.traces.journal_trace import JournalWorkload
from fairlead.traces.what_if import with_load

if TYPE_CHECKING:
    from polars import DataFrame


class ReplayOptions(TypedDict):
    """Options that `fairlead.simulate` and `fairlead.study` share."""

    seed: int
    strict_fifo: bool
    what_if: Sequence[str]
    dedicated: bool
    perfect_estimates: bool
    fair: str


@dataclass(frozen=True)
class Replays:
    """The traces, policies and options of a call; all that needs no trace has been checked."""

    traces: list[Path]
    policies: list[str | NamedRule]
    planned: tuple[PlannedRun, ...]  # the runs of the policies, also with changes
    read_trace: Callable[[Path], tuple[Workload, str]]  # returns the format, too
    warm_up: float | datetime
    load: float | None
    queues: Path | None
    open_executor: Callable[[], AbstractContextManager[Executor]]
    options: ReplayOptions
    output: OutputOptions

    @property
    def shared_and_dedicated(self) -> tuple[str, str] | None:
        """The names of the two runs that --dedicated compares."""
        return (self.first_replayed, self.planned[-1].name) if self.options["dedicated"] else None

    @property
    def first_replayed(self) -> str:
        """The first policy that is replayed, or an empty name."""
        return next((run.policy for run in self.planned if run.policy != RECORDED), "")

    def end_of_warm_up(self, workload: Workload) -> float:
        """Return the end of the warm-up in seconds of the replay.

        The replay submits jobs `load` times faster, so the time of a date is divided by the load.
        """
        found = seconds_in(workload, self.warm_up, "--warm-up")
        if not isinstance(self.warm_up, datetime):
            return found
        last = float(workload.job_submit[-1])
        if found >= last:
            given, end = workload.time_text(found), workload.time_text(last)
            raise InputError(f"must be before the last submission, {end}, not {given}", "--warm-up")
        return found / (self.load or 1.0)  # a load of 0 is refused later, by `with_load`


def run_study(replays: Replays, seeds: int | None) -> None:
    """Replay several traces, or random variations of them, and show the comparison."""
    from fairlead.report.study_document import study_document

    workloads: dict[str, Workload] = {}
    for trace in replays.traces:
        if str(trace) in workloads:
            raise InputError("is given twice", "", str(trace))
        workloads[str(trace)] = replays.read_trace(trace)[0]
    since = replays.end_of_warm_up(workloads[str(replays.traces[0])])
    with (
        replays.open_executor() as executor,
        progress_bar("Replaying variations") as on_variation,
    ):
        found = study(
            workloads,
            replays.policies,
            seeds=seeds,
            load=1.0 if replays.load is None else replays.load,
            queues=replays.queues,
            warm_up=since,
            executor=executor,
            on_progress=on_variation,
            **replays.options,
        )
    values = {"fairlead": 1, "seeds": seeds, "measured_since": since, **found.to_dict()}

    def frame() -> DataFrame:
        for caution in found.cautions:
            complain(f"warning: {caution}")
        return found.to_frame("differences" if len(found.policies) > 1 else "means")

    title = ", ".join(Path(name).name for name in workloads)
    replays.output.show(study_document(found, title, lambda: values), frame)


def run_trace(replays: Replays, folder: Path | None, explained: str | None) -> None:
    """Replay one trace under the policies, and show the outcomes.

    `folder` keeps the runs; the longest wait of the user `explained` is explained.
    Raises StoppedError after an interruption; the message says how to resume. Raises InputError
    also after the outcomes are shown, if runs could not be kept.
    """
    trace = replays.traces[0]
    workload, trace_format = replays.read_trace(trace)
    since = replays.end_of_warm_up(workload)
    load = 1.0 if replays.load is None else replays.load
    if load != 1 or explained is not None:
        workload = plain_trace(workload)
    if load != 1:  # a load of 1 keeps dates and recorded starts
        workload = with_load(workload, load)
    workload = in_queues(workload, replays.queues)
    if explained is not None and explained not in workload.users:
        raise InputError(f"there is no user {explained!r:.60} in the trace", "--explain")
    if RECORDED in [run.name for run in replays.planned]:
        check_recorded(workload, str(trace))
    outcomes = Outcomes()
    try:
        outcomes = _replay(replays, workload, since, folder)
        _report_repeated(workload, outcomes)
        reasons = {}
        if explained is not None:
            shared = {run.name: outcomes[run.name] for run in replays.planned if not run.dedicated}
            reasons = _explain(shared, explained, replays.options)
        _show(replays, workload, trace_format, outcomes, explained, reasons, since)
    except RunsInterrupted as interrupted:
        stopped = resume_text(interrupted.finished, interrupted.runs, interrupted.folder)
        raise StoppedError(f"interrupted; {stopped}") from None
    except KeyboardInterrupt:
        if not outcomes:
            raise
        kept = tuple(name for name, outcome in outcomes.items() if outcome.path is not None)
        stopped = resume_text(kept, len(outcomes), folder)
        raise StoppedError(f"interrupted; {stopped}") from None
    unkept = sum(outcome.path is None for outcome in outcomes.values())
    if folder is not None and unkept:
        raise InputError(f"{unkept} of {len(outcomes)} runs could not be kept", "", str(folder))


def _replay(replays: Replays, workload: Workload, since: float, folder: Path | None) -> Outcomes:
    """Replay the workload with progress bars; return the outcomes."""
    with replays.open_executor() as executor, stages_bar() as on_progress:
        return simulate(
            workload,
            replays.policies,
            folder=folder,
            executor=executor,
            warm_up=since,
            on_found=lambda name, path: complain(f"{name}: finished before, read from {path}"),
            on_progress=on_progress,
            **replays.options,
        )


def _show(
    replays: Replays,
    workload: Workload,
    trace_format: str,
    outcomes: Outcomes,
    explained: str | None,
    reasons: Mapping[str, WaitingJob | None],
    since: float,
) -> None:
    """Show the outcomes; a page also shows the schedule recorded in the trace.

    `reasons` explain the longest wait of the user `explained`, by run.
    """
    from fairlead.report.simulation_document import simulation_document

    options, shown, reference = replays.options, outcomes, None
    if options["what_if"]:
        reference = replays.first_replayed
    elif replays.output.report and workload.has_starts:
        shown = with_recorded(shown, workload, options["fair"], since)

    def values() -> dict[str, Any]:
        too_large = unplaceable_sets(workload)
        jobs = list(dict.fromkeys(workload.set_job[too_large].tolist()))
        found: dict[str, Any] = {
            "fairlead": 1,
            "trace": str(replays.traces[0]),
            "format": trace_format,
            "seed": options["seed"],
            "strict_fifo": options["strict_fifo"],
            "perfect_estimates": options["perfect_estimates"],
            "notes": dict(workload.notes),
            "policies": {name: outcome.to_dict() for name, outcome in outcomes.items()},
            "too_large": {
                "tasks": int(workload.set_tasks[too_large].sum()),
                "jobs": workload.job_names[jobs].tolist(),
            },
        }
        if replays.shared_and_dedicated is not None:
            shared, dedicated = replays.shared_and_dedicated
            sharing = compare(outcomes[shared].summary, outcomes[dedicated].summary)
            found["sharing"] = sharing.to_dict() | {"baseline": dedicated}
        if explained is not None:
            whys = {name: why and why.to_dict() for name, why in reasons.items()}
            found["explained"] = {"user": explained, "policies": whys}
        return found

    document = simulation_document(
        shown,
        replays.traces[0].name,
        format_=trace_format,
        reference=reference,
        changed=[run.name for run in replays.planned if run.what_if],
        dedicated=replays.shared_and_dedicated,
        reasons=[_reason_block(why, run, explained) for run, why in reasons.items()],
        values=values,
    )

    def frame() -> DataFrame:
        for name, outcome in shown.items():
            fairness = outcome.summary.fairness
            if fairness is not None and fairness.unsolved_text:  # the table does not show it
                complain(f"warning: under {name}, {fairness.unsolved_text}")
        return shown.to_frame()

    def headings(table: DataFrame) -> list[str]:
        from fairlead.report.numbers import in_words

        return [f"{in_words(n)}{' (s)' * (n in TIME_FIGURES)}" for n in table.columns]

    replays.output.show(document, frame, headings)


def _reason_block(why: WaitingJob | None, policy: str, user: str | None) -> Block:
    lines = [f"No job of {user} waits under {policy}."] if why is None else lines_of(why, policy)
    return Section(f"Why {user} waits longest under {policy}", [Listing(lines)])


def _explain(
    outcomes: Mapping[str, Outcome], user: str, options: ReplayOptions
) -> dict[str, WaitingJob | None]:
    """Explain why a user's longest-waiting job waited, by the name of the replayed policy."""
    found: dict[str, WaitingJob | None] = {}
    for name, outcome in outcomes.items():
        if outcome.log.is_recorded:
            continue
        longest = longest_wait(outcome.workload, outcome.log, user, outcome.since)
        found[name] = longest and explain_at(
            outcome.workload, outcome.log, *longest, options["strict_fifo"], options["seed"]
        )
    return found


def _report_repeated(workload: Workload, outcomes: Mapping[str, Outcome]) -> None:
    """Report how many placements of a service's journal its own policy repeats in the replay."""
    if not isinstance(workload, JournalWorkload):
        return
    for name, outcome in outcomes.items():
        if name in {policy for policy, _ in workload.recording.policies}:
            same, made = repeated_starts(workload, outcome.log)
            complain(f"{name}: {same} of {made} placements are as the service made them")


def explain_at(
    workload: Workload, log: RunLog, job: str, time: float, strict_fifo: bool, seed: int
) -> WaitingJob:
    """Explain why a job waits at a time of a replay, with a progress bar."""
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
    after = f"starts {duration(why.starts - why.time)} later, at {duration(why.starts)}"
    if why.starts == float("inf"):
        after = "never starts"
    which = f" (set {why.set} of {why.sets})" if why.sets > 1 else ""
    head = (
        f"{why.job} of {why.user}{which} under {policy}, at {duration(why.time)}: "
        f"it has waited for {duration(why.time - why.submitted)}, and {after}."
    )
    return [head, *str(why.explanation).splitlines()]
