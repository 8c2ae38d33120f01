"""Events of a journal told to a state again, the scheduler's part of many of them in one call.

A submission, a call of place and an end say by themselves what the scheduler will be told, unless
gangs or jobs that wait for others are involved. So that part of many events is carried out first,
in one go (`scheduler.foretold`), and then the events are told as they were, with its answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any
from zlib import crc32

from fairlead.errors import InputError
from fairlead.scheduler.foretold import Foretold
from fairlead.scheduler.scheduler import PORTION, Scheduler
from fairlead.service.jobs import Running, TaskKey
from fairlead.service.messages import MOST_TASKS
from fairlead.service.state import ServiceState

AT_ONCE = 250  # events, which stay in the processor's cache
FEW = 5000  # events, which take .1 s one by one


class Retelling:
    """Tells a state events of a journal again.

    Parameters
    ----------
    state : ServiceState
    path : Path
        The journal's, to name it in errors.
    events : int
        How many there are. For few it is not worth compiling a kernel, once per installation.
    """

    def __init__(self, state: ServiceState, path: Path, events: int) -> None:
        self.state, self._path, self._are_few = state, path, events < FEW
        self._core: Scheduler | None = None  # that of `_foretold`
        self._events: list[tuple[int, float, str, dict[str, Any]]] = []
        self._ended: set[TaskKey] = set()

    def tell(self, seq: int, now: float, kind: str, body: dict[str, Any]) -> None:
        """Tell one event, now or with those that follow.

        Raises
        ------
        InputError
            As `finish` does.
        """
        if not self._foresees(now, kind, body):
            self.finish()
            if not (kind == "end" and self._foresees(now, kind, body)):
                tell(self.state, kind, body, now, self._path, seq)
                self.state.take_effects()
                return
        self._events.append((seq, now, kind, body))
        if len(self._events) >= AT_ONCE:
            self.finish()

    def finish(self) -> None:
        """Tell what was not yet told.

        Raises
        ------
        InputError
            When an event cannot be carried out as it was.
        """
        if not self._events:
            return
        state, events, self._events = self.state, self._events, []
        self._ended = set()
        core, foretold = state.core, self._foretold
        foretold.carry_out()
        state.core = foretold  # type: ignore[assignment]
        try:
            for seq, now, kind, body in events:
                tell(state, kind, body, now, self._path, seq)
        finally:
            state.core = core
        state.take_effects()

    def _foresees(self, now: float, kind: str, body: dict[str, Any]) -> bool:
        """Return whether it is known what the scheduler will be told, and have that wait."""
        if self.state.core is not self._core and not self._events:
            self._core, self._foretold = self.state.core, Foretold(self.state.core)
        if self._are_few or (not self._events and not Foretold.takes(self.state.core)):
            return False
        try:
            if kind == "submit":
                return self._foresees_jobs(now, **body)
            if kind == "place":
                limit = body["limit"]
                if type(limit) is int and 0 < limit <= PORTION:
                    self._foretold.will_place(now, limit)
                    return True
            elif kind == "end":
                return self._foresees_ends(**body)
        except (InputError, KeyError, TypeError, ValueError):  # to be said when it is told
            pass
        return False

    def _foresees_jobs(self, now: float, jobs: Sequence[Mapping[str, Any]]) -> bool:
        groups = []
        for job in jobs:
            tasks, priority, limit = job["tasks"], job["priority"], job["time_limit"]
            if job["after"] or (job["gang"] and tasks > 1) or job.get("members"):
                return False
            if not (limit is None or (isfinite(limit) and limit > 0)):
                return False
            if not (_is_count(tasks) and _is_count(abs(priority) + 1)):
                return False
            line = self._foretold.line(job["user"], job["demand"], job["where"])
            if line is None:
                return False
            groups.append((line, tasks, priority, limit, now))
        for group in groups:
            self._foretold.will_submit(*group)
        return True

    def _foresees_ends(self, tasks: Sequence[Sequence[Any]]) -> bool:
        state, runs = self.state, {}
        for job, index, attempt, status, _ in tasks:
            key = TaskKey(job, index, attempt)
            run = state.find(key)
            if run is None and self._foretold.starts:  # it may have started since
                return False
            if run is None or key in self._ended:
                continue
            its = run.entry.job
            has_more = (
                (its.gang and its.tasks > 1)
                or its.id in state._dependents
                or state.servers[run.server].lost
            )
            if has_more or status is None:
                return False
            runs[key] = run.task
        for task in runs.values():
            self._foretold.will_finish(task)
        self._ended.update(runs)
        return True


def _is_count(number: object) -> bool:
    return type(number) is int and 0 < number <= MOST_TASKS


def tell(
    state: ServiceState, kind: str, body: dict[str, Any], now: float, path: Path, seq: int
) -> Any:
    """Tell a state an event of a journal again, by its number; it has to do just what it did."""
    digest = body.pop("placed", None)
    try:
        outcome = state.apply(kind, body, now)
    except (InputError, AttributeError, TypeError, KeyError, ValueError) as fault:
        why = f"cannot be carried out again: {fault}"
        raise InputError(why, "", f"{path}: event {seq}") from None
    if digest is not None and digest != digest_of_placements(outcome):
        why = "places other tasks than it did; another version of fairlead may have written it"
        raise InputError(why, "", f"{path}: event {seq}")
    return outcome


def digest_of_placements(runs: Sequence[Running]) -> int:
    """Return a number that tells one list of placements from others."""
    return crc32(" ".join([f"{run.key} {run.server}" for run in runs]).encode())
