"""Run one workload under several policies at the same time; keep finished runs in a folder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from fairlead.errors import FairleadError, InputError
from fairlead.executors.executor import Executor, Processes, WorkerDiedError
from fairlead.formats.run_log_file import read_fingerprint, read_run_log, write_run_log
from fairlead.model.arguments import whole_number
from fairlead.model.run_log import RECORDED, RunLog
from fairlead.model.task_kinds import kinds_of
from fairlead.model.workload import Workload
from fairlead.scheduler.policies import parse_policy
from fairlead.simulation._dedicated import dedicated_caution, replay_dedicated
from fairlead.simulation._slots import slots_caution
from fairlead.simulation.journal_replay import can_replay_requests, replay_journal
from fairlead.simulation.planned_runs import (
    PlannedRun,
    Policies,
    fingerprint,
    is_kept,
    open_folder,
    plan_runs,
    workload_digest,
)
from fairlead.simulation.replay import replay
from fairlead.traces.journal_trace import JournalWorkload
from fairlead.traces.time_window import why_no_starts
from fairlead.traces.what_if import change_workload

# Called with the name of a run, its started tasks, all its tasks, and the replay's time in seconds.
Progress = Callable[[str, int, int, float], None]
_LOGGER = logging.getLogger("fairlead")


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run and its log."""

    run: PlannedRun
    workload: Workload  # with the change of the run
    log: RunLog
    path: Path | None = None  # file of the log, if it is kept
    found: bool = False  # whether the log of an earlier run was read from `path`


class RunsInterrupted(KeyboardInterrupt):
    """Runs were interrupted; finished runs are kept if there is a folder.

    `finished` has the names of the kept runs; `runs` is the number of planned runs.
    """

    def __init__(self, finished: tuple[str, ...], runs: int, folder: Path | None) -> None:
        self.finished, self.runs, self.folder = finished, runs, folder
        super().__init__(f"{len(finished)} of {runs} runs are finished and kept")


@dataclass(frozen=True, eq=False)
class ReplayJob:
    """A replay to do: a planned run, and the workload with its change."""

    run: PlannedRun
    workload: Workload
    seed: int = 0
    strict_fifo: bool = False

    def replay(self, on_progress: Callable[[int, float], None] | None = None) -> RunLog:
        """Replay in this process; report the starts so far and the time in seconds."""
        if can_replay_requests(self.workload, self.run.policy, self.strict_fifo):
            return replay_journal(self.workload, self.run.policy, self.seed, on_progress)
        once = partial(replay, strict_fifo=self.strict_fifo, seed=self.seed)
        if self.run.dedicated:
            return replay_dedicated(self.workload, self.run.chosen, once, on_progress=on_progress)
        return once(self.workload, self.run.chosen, on_progress=on_progress)


def run_policies(
    workload: Workload,
    policies: Policies,
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
    policies, seed, strict_fifo, what_if, dedicated, on_found, on_progress
        As for `fairlead.simulate`.
    folder : Path, optional
        Folder for the log of each finished run, as ``drf_best-fit.parquet``; created if missing.
        A run found there is read and not repeated, unless the workload, the options, the seed or
        the sources of this package differ. If a log cannot be written, a warning goes to the
        logger ``fairlead``.
    executor : Executor, optional
        Runs the replays; local processes when absent. The result is the same.

    Returns
    -------
    dict of str to FinishedRun
        By name of the run (``drf/best-fit``, ``drf/best-fit, weight:ana=3``,
        ``drf/best-fit, dedicated``), in the order of `plan_runs`.

    Raises
    ------
    InputError
        For a policy or change without meaning, a number out of range, a folder that cannot be
        used, or ``recorded`` where the trace does not record when tasks started.
    RefusalError
        When the parts of a policy cannot be combined.
    RunsInterrupted
        When interrupted; finished runs are in the folder.
    FairleadError
        When a process was killed, or a rule raised an exception or made an impossible start;
        finished runs are in the folder.
    """
    seed = whole_number(seed, "seed", most=2**64 - 1)
    runs = plan_runs(policies, what_if, dedicated)
    has_rules = any(run.rule is not None for run in runs)
    if isinstance(workload, JournalWorkload) and (what_if or dedicated or has_rules):
        # All runs replay tasks then: replayed requests are not comparable with them.
        workload = workload.as_trace()
    if any(run.policy == RECORDED for run in runs):
        check_recorded(workload)
    workloads = {
        run.name: change_workload(workload, run.what_if) if run.what_if else workload
        for run in runs
    }
    replayed = [run for run in runs if run.policy != RECORDED]
    _warn_of_policies(workload, [run.policy for run in replayed if run.rule is None])
    kept = None if folder is None else _KeptRuns(folder, workload, runs, seed, strict_fifo)
    finished: dict[str, FinishedRun] = {}
    jobs: list[ReplayJob] = []

    def finish(run: PlannedRun, log: RunLog) -> None:
        changed = workloads[run.name]
        path = None if kept is None else kept.write(run, changed, log)
        finished[run.name] = FinishedRun(run, changed, log, path)

    def finish_job(number: int, log: RunLog) -> None:
        finish(jobs[number].run, log)
        report(number, jobs[number].workload.n_tasks, log.makespan)

    def report(number: int, starts: int, time: float) -> None:
        if on_progress is not None:
            tasks = jobs[number].workload.n_tasks
            # Lost tasks start again, so there may be more starts than tasks.
            on_progress(jobs[number].run.name, min(starts, tasks), tasks, time)

    try:
        for run in runs:
            earlier = None if kept is None else kept.read(run, workloads[run.name])
            if earlier is not None:
                finished[run.name] = earlier
                if on_found is not None and earlier.path is not None:
                    on_found(run.name, earlier.path)
        jobs += [
            ReplayJob(run, workloads[run.name], seed, strict_fifo)
            for run in replayed
            if run.name not in finished
        ]
        for run in runs:
            if run.policy == RECORDED and run.name not in finished:
                finish(run, recorded_run(workload))
        listener = None if on_progress is None else report
        (executor or Processes()).do_all(ReplayJob.replay, jobs, finish_job, listener)
        if dedicated:
            shared, alone = finished[replayed[0].name], finished[runs[-1].name]
            warning = dedicated_caution(workload, shared.log, alone.log)
            if warning:
                _LOGGER.warning("%s: %s", alone.run.name, warning)
        return {run.name: finished[run.name] for run in runs}
    except KeyboardInterrupt:
        # The folder is read, because the interruption may have come before `finished` was updated.
        names = () if kept is None else kept.names(runs)
        raise RunsInterrupted(names, len(runs), folder) from None
    except WorkerDiedError as died:
        names = tuple(name for name, run in finished.items() if run.path is not None)
        name, then = jobs[died.number].run.name, resume_text(names, len(runs), folder)
        raise FairleadError(f"{name}: {died}; {then}") from None


class _KeptRuns:
    """The folder of finished runs, which marks each log with a fingerprint of its replay."""

    def __init__(
        self,
        folder: Path,
        workload: Workload,
        runs: Sequence[PlannedRun],
        seed: int,
        strict_fifo: bool,
    ) -> None:
        open_folder(folder)
        digest = workload_digest(workload)
        if isinstance(workload, JournalWorkload):
            digest += f" {workload.recording.begin} {workload.recording.end}"
        self._folder = folder
        self._fingerprints = {
            run.name: fingerprint(digest, run, seed=seed, strict_fifo=strict_fifo) for run in runs
        }

    def read(self, run: PlannedRun, workload: Workload) -> FinishedRun | None:
        """Return the earlier run of the same replay; None if there is none."""
        path = run.path(self._folder)
        if not path.exists() or read_fingerprint(path) != self._fingerprints[run.name]:
            return None
        return FinishedRun(run, workload, read_run_log(path), path, found=True)

    def write(self, run: PlannedRun, workload: Workload, log: RunLog) -> Path | None:
        """Write a log and return its file; if it cannot be written, warn and return None."""
        path = run.path(self._folder)
        try:
            write_run_log(workload, log, path, fingerprint=self._fingerprints[run.name])
        except InputError as fault:
            _LOGGER.warning("%s is finished, but not kept: %s", run.name, fault)
            return None
        return path

    def names(self, runs: Sequence[PlannedRun]) -> tuple[str, ...]:
        """Return the names of the runs in the folder."""
        return tuple(
            run.name for run in runs if is_kept(self._folder, run, self._fingerprints[run.name])
        )


def resume_text(finished: tuple[str, ...], runs: int, folder: Path | None) -> str:
    """Describe which of the `runs` planned runs are kept when stopped, and how to continue."""
    if folder is None:
        return "no run is kept; with --runs FOLDER, finished runs are kept"
    if not finished:
        return f"none of {runs} runs was finished"
    then = "goes on with the others" if len(finished) < runs else "reads them"
    return (
        f"{len(finished)} of {runs} runs are finished and kept in {folder}: {', '.join(finished)}; "
        f"the same command {then}"
    )


def recorded_run(workload: Workload) -> RunLog:
    """Return the run that the trace records, in order of starts; nothing is replayed.

    A started task runs for its duration. A task that never started has no row, and waits until its
    withdrawal, if any. A task with an unknown start has no row either, and is left out of all
    figures (`TaskOutcomes`). No set is unplaceable. If the cluster has several servers and the log
    does not name the server of a task, its number is -1.

    Raises InputError when the workload has no start times. O(T log T).
    """
    check_recorded(workload)
    started = np.flatnonzero(np.isfinite(workload.task_start))
    task = started[np.argsort(workload.task_start[started], kind="stable")].astype(np.int32)
    start = workload.task_start[task]
    return RunLog(
        policy=RECORDED,
        task=task,
        server=workload.task_server[task] if workload.n_servers > 1 else np.zeros_like(task),
        start=start,
        end=start + workload.task_duration[task],
        lost=np.zeros(len(task), dtype=bool),
        set_unplaceable=np.zeros(workload.n_sets, dtype=bool),
    )


def check_recorded(workload: Workload, source: str = "") -> None:
    """Raise `InputError` when a workload, read from a source, has no start times of tasks."""
    if not workload.has_starts:
        raise InputError(
            f"{why_no_starts(workload)}; name a policy to replay it under, such as drf/best-fit",
            f"policy {RECORDED}",
            source,
        )


def _warn_of_policies(workload: Workload, policies: Sequence[str]) -> None:
    """Warn of slots that misrepresent the amounts of tasks, and of missing time limits."""
    parsed = {name: parse_policy(name) for name in policies}
    for slots in dict.fromkeys(policy.slots for policy in parsed.values() if policy.slots):
        kinds = kinds_of(workload)
        tasks = np.bincount(kinds.of_set, workload.set_tasks, kinds.problem.n_users)
        caution = slots_caution(kinds.problem, tasks.astype(np.int64), slots)
        if caution:
            _LOGGER.warning(caution)
    without = int(np.isinf(workload.job_limit).sum())
    by_limits = [name for name, policy in parsed.items() if policy.criterion == "easy"]
    if without and by_limits:
        _LOGGER.warning(
            "%s: of %s jobs, %s without a time limit: nothing can be reserved behind a job that "
            "may run for ever; --perfect-estimates takes the true run times",
            by_limits[0],
            f"{workload.n_jobs:,}",
            f"{without:,}",
        )
