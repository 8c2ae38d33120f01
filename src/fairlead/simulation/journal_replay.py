"""Replay a service's journal under a policy: repeat its requests, and its calls to place tasks.

Under the service's own policy, every placement is the recorded one. Under another policy, a task
that starts elsewhere or at another time runs for its recorded duration.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Any, TypeGuard

import numpy as np

from fairlead.errors import InputError, RefusalError
from fairlead.model.run_log import RunLog
from fairlead.model.task_kinds import unplaceable_sets
from fairlead.model.workload import Workload
from fairlead.service.jobs import Running, TaskKey
from fairlead.service.service_state import ServiceState
from fairlead.traces.journal_trace import JournalWorkload

STOPPED = 137  # exit status of a task that SIGKILL ends
AT_ONCE = 1_000_000  # largest number of tasks in a call to place or preempt
SHOWN_EVERY = 1000  # events between two reports of progress


def can_replay_requests(
    workload: Workload, policy: str, strict_fifo: bool = False
) -> TypeGuard[JournalWorkload]:
    """Return whether `replay_journal` applies: to a journal, under a policy that services have."""
    if strict_fifo or not isinstance(workload, JournalWorkload):
        return False
    try:
        ServiceState(policy)
    except (InputError, RefusalError):
        return False
    return True


def replay_journal(
    workload: JournalWorkload,
    policy: str,
    seed: int = 0,
    on_progress: Callable[[int, float], None] | None = None,
) -> RunLog:
    """Repeat the requests to a service under a policy, until no task runs.

    Requests about a job that has already ended in the replay are left out. A task that starts as in
    the journal ends as recorded; any other task runs for its ``task_duration``. Stopped tasks count
    as lost. Seed 0 means the service's seed. Times count from the first event. Under another policy

    - a task that the service stopped, to run it again later, runs for its ``task_duration``, too;
    - preempted tasks and the tasks of a cancelled job end at once;
    - a modified job has its final request from the start.

    Raises InputError when the journal cannot be read, or a service cannot have the policy. Each
    event and each task takes about 60 us on one core.
    """
    return _JournalReplay(workload, policy, seed).run(on_progress)


def repeated_starts(workload: JournalWorkload, log: RunLog) -> tuple[int, int]:
    """Return the number of recorded starts that a replay repeats, and of all recorded starts."""
    recording = workload.recording
    recorded = {  # task, server and start
        (recording.numbers[key[:2]], recording.server(name, since), since - recording.begin)
        for key, (name, since) in recording.starts.items()
    }
    replayed = zip(log.task.tolist(), log.server.tolist(), log.start.tolist(), strict=True)
    return len(recorded.intersection(replayed)), len(recorded)


class _JournalReplay:
    """A replay under way: the state of the service, recorded events and planned ends."""

    def __init__(self, workload: JournalWorkload, policy: str, seed: int) -> None:
        self.workload, self.recording = workload, workload.recording
        self.state = self._first_state(policy, seed or self.recording.policies[0][1])
        self.now = -inf  # time of the last event
        self.placed = -inf  # time of the last call to place
        self.next_round = inf  # when more tasks may become victims of preemption
        # Planned ends, a heap: time, serial number (for equal times), task, exit status.
        self.planned: list[tuple[float, int, TaskKey, int]] = []
        self.n_planned = 0  # ends planned so far
        self.has_recorded_ends = True  # until the last event
        runs = (run for job in self.state.jobs.values() for run in job.running.values())
        sent = (run for run in runs if not run.awaits)  # the others start once their victims end
        self.starts: list[Running] = sorted(sent, key=lambda run: (run.since, run.key))
        self.ends: dict[TaskKey, tuple[float, bool]] = {}  # time, and whether the task was lost
        self.failed: set[int] = set()  # jobs that did not end well
        scheduler = self.state.scheduler
        self.is_own_policy = set(self.recording.policies) == {
            (scheduler.policy.name, scheduler.seed)
        }
        if not self.is_own_policy:
            self._modify_first_jobs()
            for run in self.starts:
                if run.key in self.recording.stopped:
                    self._plan_end(run.since + self._duration(run), run, self._status(run))

    def _first_state(self, policy: str, seed: int) -> ServiceState:
        """Return the state before the first event, under a policy."""
        state = self.recording.first_state()
        if state is None:
            return ServiceState(policy, seed)
        if (state.scheduler.policy.name, state.scheduler.seed) != (policy, seed):
            asked = {"policy": policy, "seed": seed}
            state.apply("policy", asked, self.recording.begin)
        return state

    def _modify_first_jobs(self) -> None:
        """Set the final requests of the modified jobs in the first state."""
        for job, final in self.recording.final_requests.items():
            if job in self.state.jobs:
                fixed = {"demand"} if self.state.jobs[job].members else set()
                changes = {name: final[name] for name in final.keys() - fixed}
                body = {"job": job, "changes": changes}
                self._on_other(self.recording.begin, "modify", body)

    def run(self, on_progress: Callable[[int, float], None] | None) -> RunLog:
        """Replay all events, then the ends of the tasks that still run."""
        begin = self.recording.begin
        for seq, now, kind, body in self.recording.events():
            self._end_before(now)
            getattr(self, f"_on_{kind}", self._on_other)(now, kind, body)
            self._take_effects(now)
            if on_progress is not None and seq % SHOWN_EVERY == 0:
                on_progress(len(self.starts), now - begin)
        # The journal lacks the ends of tasks that ran when it ended, or that start from now on.
        self.has_recorded_ends = False
        end = self.recording.end
        for job in self.state.jobs.values():
            for run in job.running.values():
                if self._is_as_recorded(run):
                    self._plan_end(max(run.since + self._duration(run), end), run, 0)
        self._end_before(inf)
        return self._log()

    # Recorded events

    def _on_if_own_policy(self, now: float, kind: str, body: dict[str, Any]) -> None:
        """Apply an event under the service's own policy only."""
        if self.is_own_policy:
            self._on_other(now, kind, body)

    _on_policy = _on_modify = _on_if_own_policy

    def _on_end(self, now: float, _kind: str, body: dict[str, Any]) -> None:
        """End the tasks that run as recorded."""
        ended = []
        for job, index, attempt, status, reason in body["tasks"]:
            run = self.state.find(TaskKey(job, index, attempt))
            if run is not None and self._is_as_recorded(run):
                ended.append([job, index, attempt, status, reason])
        if ended:
            self.state.apply("end", {"tasks": ended}, now)

    def _on_place(self, now: float, _kind: str, body: dict[str, Any]) -> None:
        """End the tasks that are due, then place tasks; under another policy also preempt."""
        self._end_due(now)
        self.state.apply("place", {"limit": body["limit"]}, now)
        self.placed = now
        if not self.is_own_policy:
            self._preempt(now)

    def _on_preempt(self, now: float, _kind: str, body: dict[str, Any]) -> None:
        if self.is_own_policy:
            self.state.apply("preempt", {"limit": body["limit"]}, now)

    def _preempt(self, now: float) -> None:
        """Run a round of preemption, if the policy has it."""
        if self.state.scheduler.policy.preempts and not self.state.unplaced:
            self.state.apply("preempt", {"limit": AT_ONCE}, now)
            self.next_round = self.state.scheduler.next_round()

    def _on_server(self, now: float, kind: str, body: dict[str, Any]) -> None:
        """End the due tasks, for which a lost server of this name may wait; then add the server."""
        while self.planned and self.planned[0][0] <= now:
            self._end_due(now)
            self._take_effects(now)  # an end may stop further tasks
        self._on_other(now, kind, body)

    def _on_submit(self, now: float, _kind: str, body: dict[str, Any]) -> None:
        """Submit jobs; cancel jobs that wait for a job which has failed in the replay."""
        after_failed, asked, first = [], [], self.state.next_job
        for number, job in enumerate(body["jobs"]):
            ended = [other for other in job["after"] if other not in self.state.jobs]
            if any(other in self.failed for other in ended):
                after_failed.append(number)
            has_final = not self.is_own_policy
            final = self.recording.final_requests.get(first + number, {}) if has_final else {}
            after = [other for other in job["after"] if other not in ended]
            asked.append({**job, **final, "after": after})
        ids = self.state.apply("submit", {"jobs": asked}, now)
        for number in after_failed:
            self.state.apply("cancel", {"job": ids[number], "why": "after"}, now)

    def _on_other(self, now: float, kind: str, body: dict[str, Any]) -> None:
        """Apply an event, unless its job has ended or its server has left."""
        try:
            self.state.apply(kind, body, now)
        except InputError:
            if kind in ("server", "user", "queues"):
                raise

    # Ends and starts that differ from the recorded ones

    def _end_before(self, time: float) -> None:
        """End tasks that are due before a time, and place tasks that can start then."""
        while (now := self._next_time(time)) < time:
            # Without an end, the scheduler asked for this time: tasks may start.
            self.state.unplaced |= not self.planned or now < self.planned[0][0]
            self._end_due(now)
            self._take_effects(now)
            self.placed = now
            while self.state.unplaced:
                self.state.apply("place", {"limit": AT_ONCE}, now)
                self._take_effects(now)
            self._preempt(now)
            self._take_effects(now)

    def _next_time(self, time: float) -> float:
        """Return the time at which a task ends, or may start or be preempted without an event."""
        end = self.planned[0][0] if self.planned else inf
        if self.is_own_policy and time < inf:
            return end  # calls to place are recorded
        start = self.state.scheduler.next_moment()
        start = start if start > self.placed else inf
        return min(end, max(min(start, self.next_round), self.now))

    def _end_due(self, now: float) -> None:
        """End the tasks whose planned end has come."""
        while self.planned and self.planned[0][0] <= now:
            _, _, key, status = heappop(self.planned)
            run = self.state.find(key)
            if run is not None and not run.is_over:
                self.state.apply("end", {"tasks": [[*key, status, ""]]}, now)

    def _plan_end(self, time: float, run: Running, status: int) -> None:
        self.n_planned += 1
        heappush(self.planned, (time, self.n_planned, run.key, status))

    def _take_effects(self, now: float) -> None:
        """Record the starts and ends since the last call; plan the ends that the journal lacks."""
        self.now = now
        effects = self.state.take_effects()
        for run in effects.starts:
            self.starts.append(run)
            if not (self.has_recorded_ends and self._is_as_recorded(run)):
                self._plan_end(now + self._duration(run), run, self._status(run))
        for run in effects.stops:
            # A task that waits for its victims' end has not started, and the state ends it then.
            # The recorded end of a task is that of its stop only under the service's own policy.
            is_stopped_later = self.is_own_policy and self._is_as_recorded(run)
            if not run.awaits and not is_stopped_later:
                self._plan_end(now, run, STOPPED)
        cancelled = {job.id for job in effects.ended if job.cancelled}
        for past in effects.attempts:
            job = self.state.jobs.get(past.key.job)
            is_cancelled = past.key.job in cancelled or (job is not None and bool(job.cancelled))
            is_lost = past.status is None or (is_cancelled and past.status != 0)
            self.ends[past.key] = past.ended, is_lost
        self.failed |= {job.id for job in effects.ended if job.state != "finished"}

    def _is_as_recorded(self, run: Running) -> bool:
        """Return whether the recorded end of an attempt holds: it has the same server and start.

        Another policy need not stop it as the service's own did.
        """
        if run.key in self.recording.stopped and not self.is_own_policy:
            return False
        return self.recording.starts.get(run.key) == (run.server, run.since)

    def _duration(self, run: Running) -> float:
        return self.recording.durations[self.recording.numbers[run.key[:2]]]

    def _status(self, run: Running) -> int:
        return self.recording.completed_runs.get(run.key[:2], (0.0, 0))[1]

    def _log(self) -> RunLog:
        recording, begin = self.recording, self.recording.begin
        servers = [recording.server(run.server, run.since) for run in self.starts]
        ends = [self.ends[run.key] for run in self.starts]
        return RunLog(
            policy=self.state.scheduler.policy.name,
            task=np.array([recording.numbers[r.key[:2]] for r in self.starts], dtype=np.int32),
            server=np.array(servers, dtype=np.int32),
            start=np.array([run.since - begin for run in self.starts]),
            end=np.array([end - begin for end, _ in ends]),
            lost=np.array([lost for _, lost in ends], dtype=bool),
            set_unplaceable=unplaceable_sets(self.workload),
        )
