"""The setting of a reproduction: seed, parameters, and the runs that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fairlead.executors.executor import Answer, Executor, Processes, do_in_order
from fairlead.model.workload import Workload
from fairlead.simulation.metrics.summary import Summary, summarise
from fairlead.simulation.planned_runs import open_folder
from fairlead.simulation.runs import FinishedRun, Progress, run_policies
from fairlead.traces.generator import generate_day

DAY = 86_400.0
# The cluster of drfh/figure-5 to figure-8, and a small one that takes seconds.
SERVERS, USERS = 2_000, 250
QUICK_SERVERS, QUICK_USERS = 200, 30
BINS_OF_FIVE_MINUTES = 288  # in 24 hours

Shared = TypeVar("Shared")


class Parameter(NamedTuple):
    """A number of an experiment that --set may change."""

    name: str
    default: int
    quick: int  # the default under `Setting.quick`
    most: int = 1_000_000  # the largest value; the smallest is 1


SERVERS_OF_DAY = Parameter("servers", SERVERS, QUICK_SERVERS, 100_000)
USERS_OF_DAY = Parameter("users", USERS, QUICK_USERS, 10_000)
OF_DAY = (SERVERS_OF_DAY, USERS_OF_DAY)


@dataclass(frozen=True, eq=False)
class Setting:
    """The options of one command and the runs that its reproductions share."""

    seed: int = 0  # of all randomness
    quick: bool = False  # whether small days and few trials replace the paper's
    given: Mapping[str, int] = field(default_factory=dict)  # values of --set, by parameter
    folder: Path | None = None  # keeps results and runs, to continue after an interruption
    executor: Executor = field(default_factory=Processes)  # runs jobs in parallel
    # Called with the name and the file of each run that an earlier command finished.
    on_found: Callable[[str, Path], None] | None = None
    # Called from time to time with a run's name, its started tasks, all its tasks, and its time.
    on_progress: Progress | None = None
    # Called from time to time with the name of the activity, the finished jobs, and all jobs.
    on_step: Callable[[str, int, int], None] | None = None
    _summaries: dict[str, Summary] = field(default_factory=dict)
    _shared: dict[Callable[..., Any], Any] = field(default_factory=dict)

    def value(self, parameter: Parameter) -> int:
        """Return the value of a parameter: that of --set, or else the default."""
        usual = parameter.quick if self.quick else parameter.default
        return self.given.get(parameter.name, usual)

    @cached_property
    def day(self) -> Workload:
        """The generated day that stands in for the 24 hours of Google's trace."""
        servers, users = self.value(SERVERS_OF_DAY), self.value(USERS_OF_DAY)
        return generate_day(servers, users=users, seed=self.seed)

    @property
    def day_text(self) -> str:
        """Describe the day."""
        day = self.day
        return (
            f"A generated day of {day.n_jobs:,} jobs with {day.n_tasks:,} tasks of {day.n_users:,} "
            f"users on {day.n_servers:,} servers drawn from Table I, seed {self.seed}"
            f"{'' if day.n_servers == SERVERS else ' (not the 2,000 servers of the paper)'}."
        )

    @property
    def seed_text(self) -> str:
        """Describe the seed, whether runs are quick, and given parameters."""
        changed = "".join(f", {name} {number:,}" for name, number in self.given.items())
        return f"seed {self.seed}{' (quick)' if self.quick else ''}{changed}"

    def generators(self, count: int) -> list[np.random.Generator]:
        """Return one generator per job, so that a job's numbers do not depend on other jobs."""
        return [np.random.default_rng([self.seed, k]) for k in range(count)]

    def do_all(self, what: str, work: Callable[[Any], Answer], jobs: Sequence[Any]) -> list[Answer]:
        """Run `work` on each job, several in parallel; return the answers in the order of jobs.

        `what` names the activity in reports of progress.
        """
        answers: list[Answer] = []

        def take(answer: Answer) -> None:
            answers.append(answer)
            if self.on_step is not None:
                self.on_step(what, len(answers), len(jobs))

        if self.on_step is not None:
            self.on_step(what, 0, len(jobs))
        do_in_order(self.executor, work, jobs, take)
        return answers

    def compute_once(self, compute: Callable[[Setting], Shared]) -> Shared:
        """Return `compute(self)`, computed once; several tables or figures use its answer."""
        if compute not in self._shared:
            self._shared[compute] = compute(self)
        answer: Shared = self._shared[compute]
        return answer

    def replay_day(self, *policies: str, dedicated: bool = False) -> dict[str, Summary]:
        """Replay the day under each policy, once, and return the summaries of its 24 hours by name.

        `dedicated` adds, as the last, the first policy with each user alone on servers of its own.
        """
        alone = f"{policies[0]}, dedicated"
        names = [*policies, alone] if dedicated else list(policies)
        missing = [name for name in policies if name not in self._summaries]
        runs_alone = dedicated and alone not in self._summaries
        if runs_alone and policies[0] not in missing:
            missing.insert(0, policies[0])
        if missing:
            for name, run in self._run(missing, runs_alone).items():
                self._summaries[name] = summarise(
                    run.workload,
                    run.log,
                    until=DAY,
                    horizon=DAY,
                    bins=BINS_OF_FIVE_MINUTES,
                    instants=0,
                )
        return {name: self._summaries[name] for name in names}

    def _run(self, policies: list[str], dedicated: bool) -> dict[str, FinishedRun]:
        """Replay the day under policies, or read finished runs from the folder."""
        folder = None
        if self.folder is not None:
            # Each day has its own folder, so that runs of different days do not replace each other.
            open_folder(self.folder)
            day = self.day
            users = f"-users-{day.n_users}" if USERS_OF_DAY.name in self.given else ""
            folder = self.folder / f"day-{day.n_servers}{users}-seed-{self.seed}"
        return run_policies(
            self.day,
            policies,
            folder=folder,
            executor=self.executor,
            seed=self.seed,
            dedicated=dedicated,
            on_found=self._report_kept,
            on_progress=self.on_progress,
        )

    def _report_kept(self, name: str, path: Path) -> None:
        # Runs that this command made itself, for another figure, are not reported.
        if self.on_found is not None and name not in self._summaries:
            self.on_found(name, path)
