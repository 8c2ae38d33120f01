"""Run times of tasks, estimated from ended and running tasks (Kaplan and Meier 1958).

If a thousand tasks start together, the shortest end first, so ended tasks alone would give too
short an estimate. A running task is *censored*: only a lower bound of its run time is known, the
time for which it has run so far. Kaplan and Meier's estimator counts it as at risk up to that time.

Beyond the longest known run time, tasks are assumed to end at a constant rate: the number of ended
tasks over the sum of all run times, the maximum-likelihood estimate for an exponential
distribution.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import log
from posixpath import basename

from fairlead.service.bounds import STOPPED
from fairlead.service.jobs import EndedAttempt, JobGroup, Running

KEPT = 200  # latest run times of each kind of tasks
MOST_KINDS = 20_000  # kinds of tasks; the one without a new run time for longest is forgotten
LEAST = 3  # ended tasks that an estimate needs
LONGEST_NAME = 60  # characters of the name of a command
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
# Words before the name of the program.
STARTERS = frozenset({"env", "exec", "nice", "nohup", "time", "mpirun", "mpiexec", "torchrun"})
INTERPRETERS = ("python", "Rscript", "perl", "ruby", "julia", "java", "node", "octave", "matlab")


class Survival:
    """The distribution of run times of some tasks."""

    def __init__(
        self, ended: Iterable[float], running: Iterable[float], weight: float = 1.0
    ) -> None:
        """Estimate the distribution from run times of `ended` and `running` tasks, in seconds.

        Each running task counts as `weight` tasks: the fraction of all ended tasks whose run times
        are in `ended`, which is 1 if none was forgotten.
        """
        times, censored = sorted(ended), sorted(running)
        self.times: list[float] = []  # distinct run times, ascending
        self.ended_by: list[float] = []  # the fraction of tasks that has ended by each of `times`
        surviving, k = 1.0, 0
        while k < len(times):
            after = bisect_right(times, times[k])
            at_risk = len(times) - k + weight * (len(censored) - bisect_left(censored, times[k]))
            surviving *= 1.0 - (after - k) / at_risk
            self.times.append(times[k])
            self.ended_by.append(1.0 - surviving)
            k = after
        # The mean of the exponential distribution beyond the longest run time.
        self.mean = (sum(times) + weight * sum(censored)) / len(times)

    def median_beyond(self, elapsed: float) -> float:
        """Return the median run time of tasks that have run for `elapsed` seconds. O(log n)."""
        first = bisect_right(self.times, elapsed)
        left = 1.0 - (self.ended_by[first - 1] if first else 0.0)  # the fraction that runs longer
        k = bisect_left(self.ended_by, 1.0 - 0.5 * left, first)
        if k < len(self.times):
            return self.times[k]
        # In the exponential tail, or beyond all times: until half of the fraction `left` has ended.
        last = 1.0 - self.ended_by[-1]
        return max(elapsed, self.times[-1]) + self.mean * log(2.0 * last / left if left else 2.0)


@dataclass(slots=True)
class KindRunTimes:
    """The latest run times of a kind of tasks, in seconds; `ended` counts all ended tasks."""

    times: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    ended: int = 0


def command_name(command: Sequence[str]) -> str:
    r"""Return the program of a command, with an interpreter's script; empty if there is none.

    Of ``sh -c TEXT``, this is the program in the first line that is not a comment. Settings such as
    ``A=1``, options, numbers, and programs such as ``env`` and ``mpirun`` are skipped.

    Examples
    --------
    >>> command_name(["/usr/bin/python3", "-u", "jobs/train.py", "--rate", ".1"])
    'python3 train.py'
    >>> command_name(["/bin/sh", "-c", "#!/bin/sh\nSEED=7 exec ./simulate < input"])
    'simulate'
    """
    words = _program_words(command)
    program = next(words, "")
    if program.startswith(INTERPRETERS) or program in SHELLS:
        return f"{program} {next(words, '')}".rstrip()[:LONGEST_NAME]
    return program[:LONGEST_NAME]


def _program_words(command: Sequence[str]) -> Iterator[str]:
    """Yield the words that may name the program or its script, without their folders."""
    if len(command) > 2 and basename(command[0]) in SHELLS and command[1] == "-c":
        lines = (line.strip() for line in command[2].splitlines())
        command = next((line for line in lines if line and not line.startswith("#")), "").split()
    for word in command:
        name = basename(word)
        if not (word.startswith("-") or "=" in word or word.isdigit() or name in STARTERS):
            yield name


class RunTimes:
    """Run times of ended tasks, by each of the kinds that `_kinds` lists."""

    def __init__(self) -> None:
        self.ended = 0
        self._by_kind: OrderedDict[Hashable, KindRunTimes] = OrderedDict()

    def add(self, attempt: EndedAttempt) -> None:
        """Add an ended attempt, except a lost or stopped one, which might have run longer."""
        if attempt.status is None or attempt.reason in STOPPED:
            return
        self.ended += 1
        seconds = max(0.0, attempt.ended - attempt.started)
        for kind in _kinds(attempt.key.job, attempt.user, attempt.program, attempt.demand):
            of_kind = self._by_kind.setdefault(kind, KindRunTimes())
            of_kind.times.append(seconds)
            of_kind.ended += 1
            self._by_kind.move_to_end(kind)
        while len(self._by_kind) > MOST_KINDS:
            self._by_kind.popitem(last=False)

    def estimates(self, runs: Iterable[Running], now: float) -> Estimates:
        """Return estimates that count running tasks as censored. O(running tasks)."""
        return Estimates(self._by_kind, runs, now)


class Estimates:
    """Estimated run times at one time of the state."""

    def __init__(
        self, by_kind: Mapping[Hashable, KindRunTimes], runs: Iterable[Running], now: float
    ) -> None:
        self._by_kind = by_kind
        # By kind, for each group: the times for which its tasks have run so far.
        self._running: dict[Hashable, list[list[float]]] = {}
        self._survival: dict[Hashable, Survival] = {}  # by kind; a cache
        self._of_group: dict[int, Survival | None] = {}  # by number of a group; a cache
        groups: dict[int, tuple[JobGroup, list[float]]] = {}
        for run in runs:
            _, elapsed = groups.setdefault(run.job_group.group, (run.job_group, []))
            elapsed.append(max(0.0, now - run.since))
        for job_group, elapsed in groups.values():
            for kind in _kinds_of(job_group):
                self._running.setdefault(kind, []).append(elapsed)

    def run_time(self, job_group: JobGroup, elapsed: float = 0.0) -> float | None:
        """Return the median run time of a group's tasks that have run for `elapsed` seconds.

        It is taken from the most similar kind with `LEAST` ended tasks; None if no kind has them.
        """
        if job_group.group not in self._of_group:
            self._of_group[job_group.group] = self._find(job_group)
        found = self._of_group[job_group.group]
        return None if found is None else found.median_beyond(elapsed)

    def _find(self, job_group: JobGroup) -> Survival | None:
        """Return the distribution of the most similar kind that has enough ended tasks."""
        for kind in _kinds_of(job_group):
            known = self._by_kind.get(kind)
            if known is not None and known.ended >= LEAST:
                if kind not in self._survival:
                    weight = len(known.times) / known.ended
                    running = chain.from_iterable(self._running.get(kind, ()))
                    self._survival[kind] = Survival(known.times, running, weight)
                return self._survival[kind]
        return None


def _kinds_of(job_group: JobGroup) -> Iterator[Hashable]:
    job = job_group.job
    return _kinds(job.id, job.user, job.program, job_group.demand)


def _kinds(job: int, user: str, program: str, demand: Mapping[str, float]) -> Iterator[Hashable]:
    """Yield the kinds to which a task belongs, sets of comparable tasks, the narrowest first."""
    amounts = tuple(sorted((name, amount) for name, amount in demand.items() if amount))
    yield "job", job
    if program:  # not known of jobs in journals of earlier versions
        yield "user, command and demand", user, program, amounts
        yield "user and command", user, program
    yield "user and demand", user, amounts
    yield "user", user
    yield "demand", amounts
    yield "all"
