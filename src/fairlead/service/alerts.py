"""Alerts for operators of a service: raised once, and cleared once.

The five kinds: a user who has long been owed much, a job that can never run, a server on which
tasks fail, a lost server, and a disk that the journal fills.
"""

from __future__ import annotations

import shutil
from collections import Counter as Tally
from collections import defaultdict, deque
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pydantic_core import from_json, to_json

from fairlead.service.jobs import EndedAttempt, Where
from fairlead.service.journal.samples import ClusterSample, UserShare

OWED, NEVER_RUNS, FAILING, LOST = "owed", "never-runs", "failing-server", "lost-server"
JOURNAL = "journal"
KINDS = (JOURNAL, LOST, FAILING, OWED, NEVER_RUNS)  # in the order of lists
MOST_WITHOUT_USER, MOST_OF_A_USER = 100, 10  # most present alerts of a kind
OWED_HOURS, OWED_SECONDS = 24.0, 3600.0  # GPU-hours, or core-hours in a cluster without GPUs
LAST_TASKS = 20  # ended tasks that are kept for each server
# A server is reported if at least FEWEST_FAILURES of its last tasks failed, in at least FEWEST_JOBS
# jobs, and they are more than FAILED_FRACTION of its last tasks.
FEWEST_FAILURES, FEWEST_JOBS, FAILED_FRACTION = 5, 2, 0.5
FAILED_ELSEWHERE = 0.25  # largest fraction elsewhere; above it, the server is not the cause
TASKS_SECONDS = 3600.0  # age from which an ended task is ignored
LOST_SECONDS = 86400.0  # after which the alert of a lost server is cleared
MOST_NAMED = 4  # labels or servers in the text of an alert
LEAST_FREE = 0.05  # smallest free fraction of the disk without an alert
FULL_SECONDS = 7 * 86400.0  # an alert if the journal will fill the disk sooner
GROWTH_SECONDS = 3600.0  # shortest time of growth for a forecast
GIB = 2**30


class Alert(NamedTuple):
    """An alert about a user, job, server or file, raised at `since` (seconds since 1970).

    `user` is the user itself or the owner of the job, else empty.
    """

    kind: str
    about: str
    text: str
    since: float
    user: str = ""


class Finding(NamedTuple):
    """The text of an alert, and the user concerned, if any."""

    text: str
    user: str = ""


@dataclass(frozen=True)
class Thresholds:
    """Limits of the alert `owed`: more than `owed` GPU- or core-hours for `seconds`."""

    owed: float = OWED_HOURS
    seconds: float = OWED_SECONDS


class UserDebt(NamedTuple):
    """The debt to a user since it last held its fair share; times are seconds since 1970."""

    since: float
    hours: float  # of the whole cluster
    exceeded: float | None  # time since which `hours` has been above the threshold


class Debts:
    """Debts to users who have been below their fair shares without a break."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self.by_user: dict[str, UserDebt] = {}

    def add(
        self, short: Iterable[UserShare], seconds: float, capacity: Mapping[str, float], now: float
    ) -> dict[str, Finding]:
        """Add the debts of the last `seconds`; return findings by user.

        `short` are the users below their fair shares, `capacity` that of the cluster by resource.
        """
        unit = "gpu" if capacity.get("gpu") else "cpu"
        hours_of = "GPU-hours" if unit == "gpu" else "core-hours"
        units = capacity.get(unit, 0.0)  # GPU-hours or core-hours in an hour of the cluster
        before, self.by_user = self.by_user, {}
        found = {}
        for row in short:
            debt = before.get(row.user) or UserDebt(now - seconds, 0.0, None)
            hours = debt.hours + (row.fair - row.held) * seconds / 3600
            exceeded = debt.exceeded
            if hours * units <= self._thresholds.owed:
                exceeded = None
            elif exceeded is None:
                exceeded = now
            debt = self.by_user[row.user] = UserDebt(debt.since, hours, exceeded)
            if exceeded is not None and now - exceeded >= self._thresholds.seconds:
                text = (
                    f"user {row.user} is owed {hours * units:.3g} {hours_of}: it has held less "
                    f"than its fair share since {_clock(debt.since)}, and holds "
                    f"{100 * row.held:.3g} % of the cluster; {100 * row.fair:.3g} % is fair"
                )
                found[row.user] = Finding(text, row.user)
        return found


class Alerts:
    """The present alerts, and the debts to users.

    One thread updates them; others may iterate over them meanwhile.
    """

    def __init__(self, thresholds: Thresholds, kept: bytes = b"") -> None:
        """Start with the alerts and debts of an earlier `to_json`, if any."""
        self._present: dict[tuple[str, str], Alert] = {}
        self.debts = Debts(thresholds)
        # Ignore a text of an earlier version, or a damaged one.
        with suppress(ValueError, TypeError, LookupError, AttributeError):
            found = from_json(kept)
            self._present = {(row[0], row[1]): Alert(*row) for row in found["alerts"]}
            self.debts.by_user = {user: UserDebt(*row) for user, row in found["debts"].items()}

    def __iter__(self) -> Iterator[Alert]:
        return iter(self._present.values())

    def to_json(self) -> bytes:
        """Return the present alerts and debts."""
        return to_json({"alerts": list(self), "debts": self.debts.by_user})

    def update(
        self, kind: str, found: Mapping[str, Finding], now: float
    ) -> tuple[list[Alert], list[Alert]]:
        """Replace the alerts of a kind; return the raised and the cleared alerts.

        `found` has a finding for each subject. Findings beyond `MOST_OF_A_USER` for a user, or
        beyond `MOST_WITHOUT_USER`, are dropped.
        """
        others = {key: alert for key, alert in self._present.items() if key[0] != kind}
        before = {about: alert for (k, about), alert in self._present.items() if k == kind}
        cleared = [alert for about, alert in before.items() if about not in found]
        kept = {
            about: alert._replace(text=found[about].text)
            for about, alert in before.items()
            if about in found
        }
        of_user = Tally(alert.user for alert in kept.values())
        raised: list[Alert] = []
        for about, (text, user) in found.items():
            if about not in kept and of_user[user] < (
                MOST_OF_A_USER if user else MOST_WITHOUT_USER
            ):
                of_user[user] += 1
                raised.append(Alert(kind, about, text, now, user))
        present = [*kept.values(), *raised]
        # A new mapping, as others may iterate over the old one.
        self._present = others | {(kind, alert.about): alert for alert in present}
        return raised, cleared

    def counts(self) -> dict[str, int]:
        """Return the number of present alerts by kind."""
        return {kind: sum(k == kind for k, _ in self._present) for kind in KINDS}


class EndedTask(NamedTuple):
    """A task that ended on a server."""

    ended: float  # seconds since 1970
    job: int
    user: str
    failed: bool


class EndedTasks:
    """The last tasks that ended on each server."""

    def __init__(self) -> None:
        self._last: dict[str, deque[EndedTask]] = defaultdict(lambda: deque(maxlen=LAST_TASKS))

    def add(self, attempts: Iterable[EndedAttempt], stopped: Collection[str]) -> None:
        """Add ended attempts, except lost ones and those with an end reason in `stopped`."""
        for attempt in attempts:
            if attempt.status is not None and attempt.reason not in stopped:
                failed = attempt.status != 0
                task = EndedTask(attempt.ended, attempt.key.job, attempt.user, failed)
                self._last[attempt.server].append(task)

    def last_tasks(self, servers: Collection[str]) -> dict[str, list[EndedTask]]:
        """Return a copy of the tasks by present server; forget other servers."""
        for name in self._last.keys() - servers:
            del self._last[name]
        return {name: list(tasks) for name, tasks in self._last.items()}


def find_failing_servers(last: Mapping[str, list[EndedTask]], now: float) -> dict[str, Finding]:
    """Return findings by server, from the last tasks that ended on each.

    A server is not reported if more than `FAILED_ELSEWHERE` of the same users' tasks on other
    servers failed, or if all failed tasks are of one user without a success on another server.
    """
    since = now - TASKS_SECONDS
    recent = {name: [task for task in tasks if task.ended > since] for name, tasks in last.items()}
    failed_here = {name: [task for task in tasks if task.failed] for name, tasks in recent.items()}
    suspects = {
        name: failed
        for name, failed in failed_here.items()
        if len(failed) >= FEWEST_FAILURES and len({task.job for task in failed}) >= FEWEST_JOBS
    }
    if not suspects:
        return {}
    everywhere = Tally((t.user, t.failed) for tasks in recent.values() for t in tasks)
    found = {}
    for name, failed in suspects.items():
        tasks, users = recent[name], {task.user for task in failed}
        here = Tally((task.user, task.failed) for task in tasks)
        failed_elsewhere = sum(everywhere[u, True] - here[u, True] for u in users)
        succeeded_elsewhere = sum(everywhere[u, False] - here[u, False] for u in users)
        ended_elsewhere = failed_elsewhere + succeeded_elsewhere
        users_fail_anyway = failed_elsewhere > FAILED_ELSEWHERE * ended_elsewhere
        may_be_its_user = len(users) == 1 and not succeeded_elsewhere
        if len(failed) > FAILED_FRACTION * len(tasks) and not (
            users_fail_anyway or may_be_its_user
        ):
            found[name] = Finding(
                f"server {name}: {len(failed)} of the last {len(tasks)} tasks failed, in "
                f"{len({task.job for task in failed})} jobs"
            )
    return found


def unplaceable_job(job: int, user: str, unmatched: Where) -> Finding:
    """Return the finding for a job that can never run.

    `unmatched` is its constraint if no server satisfies that.
    """
    why = "no server that it may use is large enough, even when empty"
    if unmatched is not None:
        verb = "is named"
        if isinstance(unmatched, dict):
            verb = "has all of" if len(unmatched) > 1 else "has"
        why = f"no present server {verb} {_servers_in_words(unmatched)}"
    return Finding(f"job {job} of {user} can never run: {why} (fairlead explain {job})", user)


def _servers_in_words(where: dict[str, str] | list[str]) -> str:
    """Return labels or names of servers as text, at most `MOST_NAMED` of them."""
    words = where if isinstance(where, list) else [f"{k}={v}" for k, v in where.items()]
    return ", ".join(words[:MOST_NAMED]) + (", ..." if len(words) > MOST_NAMED else "")


def find_lost_servers(
    lost: Mapping[str, float], present: Container[str], now: float
) -> dict[str, Finding]:
    """Return findings for servers that were lost within a day and have not joined again."""
    return {
        name: Finding(f"server {name} was lost at {_clock(since)}: its worker stopped responding")
        for name, since in lost.items()
        if name not in present and now - since < LOST_SECONDS
    }


def find_full_disk(
    path: Path, journal_bytes: int, samples: Sequence[tuple[float, ClusterSample]], now: float
) -> dict[str, Finding]:
    """Return a finding if the journal's disk is almost full, or will be full within a week."""
    disk = shutil.disk_usage(path.parent)
    if disk.free < LEAST_FREE * disk.total:
        full = 100 * (1 - disk.free / disk.total)
        return {str(path): Finding(f"the disk of the journal is {full:.3g} % full")}
    if not samples or now - samples[0][0] < GROWTH_SECONDS:
        return {}
    since, first = samples[0]
    growth = (journal_bytes - first.journal) / (now - since)  # bytes a second
    if growth <= 0 or disk.free > growth * FULL_SECONDS:
        return {}
    text = (
        f"the journal grows by {growth * 86400 / GIB:.3g} GiB a day, and will fill its disk in "
        f"{disk.free / growth / 86400:.2g} days; fairlead serve --keep DAYS deletes old jobs"
    )
    return {str(path): Finding(text)}


def _clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M UTC")
