"""One workload under several policies: replayed side by side, kept, and not repeated."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairlead.errors import FairleadError, InputError
from fairlead.executors.executor import Executor, WorkerDiedError
from fairlead.executors.local_processes import Processes
from fairlead.model.arguments import whole_number
from fairlead.model.run_log import RECORDED, RunLog
from fairlead.model.workload import Workload
from fairlead.scheduler.policies import parse_policy
from fairlead.simulation.dedicated import hardly_anything_fits
from fairlead.simulation.kinds import kinds_of
from fairlead.simulation.planned_run import PlannedRun, fingerprint, plan_runs, workload_digest
from fairlead.simulation.recorded import check_recorded, recorded_run
from fairlead.simulation.run_folder import (
    find_finished,
    keep_finished,
    kept_runs,
    open_folder,
    path_of,
)
from fairlead.simulation.run_processes import ReplayJob, replay_all
from fairlead.simulation.slots import slots_caution
from fairlead.traces.journal import JournalWorkload
from fairlead.traces.what_if import change_workload

# Called with the name of a run, tasks started, tasks in all, and the moment in seconds.
Progress = Callable[[str, int, int, float], None]
_LOGGER = logging.getLogger("fairlead")


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run and its log.

    Attributes
    ----------
    workload : Workload
        What was replayed, with the change that the run asks for.
    path : Path or None
        Where it is kept, if it is.
    found : bool
        Whether it had finished before, and was read from there.
    """

    run: PlannedRun
    workload: Workload
    log: RunLog
    path: Path | None = None
    found: bool = False


class RunsInterrupted(KeyboardInterrupt):
    """Somebody interrupted runs; those that had finished are kept where there is a folder.

    `finished` are the names of those that are kept, `runs` is how many there were to be.
    """

    def __init__(self, finished: tuple[str, ...], runs: int, folder: Path | None) -> None:
        self.finished, self.runs, self.folder = finished, runs, folder
        super().__init__(f"{len(finished)} of {runs} runs are finished and kept")


def run_policies(
    workload: Workload,
    policies: Sequence[str],
    *,
    folder: Path | None = None,
    executor: Executor | None = None,
    seed: int = 0,
    strict_fifo: bool = False,
    what_if: Sequence[str] = (),
    dedicated: bool = False,
    on_found: Callable[[str, Path], None] | None = None,
    on_progress: Progress | None = None,
) -> dict[str, FinishedRun]:
    """Replay a workload under several policies.

    Parameters
    ----------
    workload : Workload
    policies : sequence of str
        Such as ``drf/best-fit`` or ``slots:14``, or ``recorded`` for what the trace says happened;
        at least one.
    folder : Path, optional
        Where the log of every run that finishes is kept, as ``drf_best-fit.parquet``; it is made if
        it is not there. A run that is there already is read and not repeated, unless the workload,
        the options, the seed or the sources of this package are others. A log that cannot be
        written is returned all the same, and a warning goes to the logger ``fairlead``.
    executor : Executor, optional
        What does the runs, several at a time; the processors of this machine when absent. The
        result is the same.
    seed : int
        Of what is random in a policy.
    strict_fifo : bool
        Whether each user's tasks start in the order of their submission.
    what_if : sequence of str
        Changes such as ``weight:ana=3`` or ``servers:big+10``: one more run of the first policy for
        each.
    dedicated : bool
        Whether to run each user alone on its own part of the servers, too, by the first policy.
        A warning goes to the logger ``fairlead`` where hardly anything fits there.
    on_found : callable, optional
        Called with the name and the file of each run that has finished before.
    on_progress : callable, optional
        Called now and then with the name of a run, how many of its tasks have started, how many
        there are, and the moment in seconds; when it is finished, with all of them.

    Returns
    -------
    dict of str to FinishedRun
        By name of the run (``drf/best-fit``, ``drf/best-fit, weight:ana=3``,
        ``drf/best-fit, dedicated``), in the order asked for.

    Raises
    ------
    InputError
        For a policy or change without meaning, a number out of range, a folder that cannot be
        used, or ``recorded`` where the trace does not say when tasks started.
    RefusalError
        When the parts of a policy have no meaning together.
    RunsInterrupted
        When interrupted; what had finished is in the folder.
    FairleadError
        When a process was killed; what had finished is in the folder.
    """
    seed = whole_number(seed, "seed", most=2**64 - 1)
    runs = plan_runs(policies, what_if, dedicated)
    if isinstance(workload, JournalWorkload) and (what_if or dedicated):
        workload = workload.as_trace()  # so that all runs are of one kind
    if any(run.policy == RECORDED for run in runs):
        check_recorded(workload)
    workloads = {
        run.name: change_workload(workload, run.what_if) if run.what_if else workload
        for run in runs
    }
    replayed = [run for run in runs if run.policy != RECORDED]
    for slots in dict.fromkeys(parse_policy(run.policy).slots for run in replayed):
        if slots:
            _caution(workload, slots)
    _caution_without_limits(workload, [run.policy for run in replayed])
    finished: dict[str, FinishedRun] = {}
    marks: dict[str, str] = {}
    jobs: list[ReplayJob] = []
    if folder is not None:
        open_folder(folder)
        digest = workload_digest(workload)
        if isinstance(workload, JournalWorkload):
            digest += f" {workload.recording.begin} {workload.recording.end}"
        marks = {
            run.name: fingerprint(digest, run, seed=seed, strict_fifo=strict_fifo) for run in runs
        }

    def find(folder: Path) -> None:
        for run in runs:
            mark, path = marks[run.name], path_of(folder, run)
            log = find_finished(folder, run, workloads[run.name], mark)
            if log is not None:
                finished[run.name] = FinishedRun(run, workloads[run.name], log, path, found=True)
                if on_found is not None:
                    on_found(run.name, path)

    def finish(run: PlannedRun, log: RunLog) -> None:
        changed, path = workloads[run.name], None
        if folder is not None:
            try:
                keep_finished(folder, run, changed, log, marks[run.name])
                path = path_of(folder, run)
            except InputError as fault:  # a full disk takes nothing from what was found
                _LOGGER.warning("%s is finished, but not kept: %s", run.name, fault)
        finished[run.name] = FinishedRun(run, changed, log, path)

    def keep(number: int, log: RunLog) -> None:
        finish(jobs[number].run, log)
        report(number, jobs[number].workload.n_tasks, log.makespan)

    def report(number: int, starts: int, moment: float) -> None:
        if on_progress is not None:
            tasks = jobs[number].workload.n_tasks
            # Tasks that are lost start again.
            on_progress(jobs[number].run.name, min(starts, tasks), tasks, moment)

    try:
        if folder is not None:
            find(folder)
        jobs += [
            ReplayJob(run, workloads[run.name], seed, strict_fifo)
            for run in replayed
            if run.name not in finished
        ]
        for run in runs:
            if run.policy == RECORDED and run.name not in finished:
                finish(run, recorded_run(workload))
        listener = None if on_progress is None else report
        replay_all(jobs, executor or Processes(), on_finished=keep, on_progress=listener)
        if dedicated:
            shared, alone = finished[replayed[0].name], finished[runs[-1].name]
            remark = hardly_anything_fits(workload, shared.log, alone.log)
            if remark:
                _LOGGER.warning("%s: %s", alone.run.name, remark)
        return {run.name: finished[run.name] for run in runs}
    except KeyboardInterrupt:
        # The folder knows, whatever this was about to note.
        kept = () if folder is None else kept_runs(folder, runs, marks)
        raise RunsInterrupted(kept, len(runs), folder) from None
    except WorkerDiedError as died:
        kept = tuple(name for name, run in finished.items() if run.path is not None)
        name, then = jobs[died.number].run.name, how_to_go_on(kept, len(runs), folder)
        raise FairleadError(f"{name}: {died}; {then}") from None


def how_to_go_on(finished: tuple[str, ...], runs: int, folder: Path | None) -> str:
    """Describe the kept runs when `runs` of them are stopped, and how to continue."""
    if folder is None:
        return "nothing is kept (what is finished is with --runs FOLDER)"
    if not finished:
        return f"none of {runs} runs was finished"
    then = "goes on with the others" if len(finished) < runs else "reads them"
    return (
        f"{len(finished)} of {runs} runs are finished and kept in {folder}: {', '.join(finished)}; "
        f"the same command {then}"
    )


def _caution_without_limits(workload: Workload, policies: Sequence[str]) -> None:
    """Warn where a policy goes by time limits that the trace lacks."""
    without = int(np.isinf(workload.job_limit).sum())
    by_limits = [policy for policy in policies if parse_policy(policy).makes_reservations]
    if without and by_limits:
        _LOGGER.warning(
            "%s: of %s jobs, %s without a time limit: nothing can be reserved behind what may run "
            "for ever; --perfect-estimates takes the times that jobs run",
            by_limits[0],
            f"{workload.n_jobs:,}",
            f"{without:,}",
        )


def _caution(workload: Workload, slots: int) -> None:
    """Warn where slots do not stand for what tasks take."""
    kinds = kinds_of(workload)
    tasks = np.bincount(kinds.of_set, workload.set_tasks, kinds.problem.n_users).astype(np.int64)
    caution = slots_caution(kinds.problem, tasks, slots)
    if caution:
        _LOGGER.warning(caution)
