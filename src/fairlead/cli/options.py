"""Options shared by several verbs; parse their values and read the problems they name."""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf, isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import check_report, complain, redirected, show
from fairlead.errors import InputError
from fairlead.model.quantity import number_from_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from polars import DataFrame

    from fairlead.executors.executor import Executor
    from fairlead.model.problem import Problem
    from fairlead.report.document import Document

MOST_REPEATS = 1_000_000  # of trials, lies and random problems
LOCAL_RAY = "local"
FORMATS = ("csv", "latex")

ProblemFile = Annotated[
    str, Argument(metavar="FILE", help="Problem file, YAML or JSON; - reads standard input.")
]
AsJson = Annotated[bool, Option("--json", help="Print one JSON object instead of tables.")]
ReportPath = Annotated[
    Path | None,
    Option("--report", metavar="OUT.html", help="Also write an HTML page that works offline."),
]
TimeShared = Annotated[
    bool, Option("--tdm", help="Divide the time of each server, not its resources.")
]
SkipUnplaceable = Annotated[
    bool,
    Option("--skip-unplaceable", help="Leave out users whose tasks fit no server, and list them."),
]
StrictFifo = Annotated[
    bool, Option("--strict-fifo", help="Start each user's tasks in the order of submission.")
]
SeedOfPolicy = Annotated[int, Option(metavar="N", min=0, help="Random seed of the policy.")]
FairMechanism = Annotated[
    str,
    Option(
        metavar="MECHANISM",
        help="Mechanism that defines fair shares: drfh, tsf, ps-dsf, or FILE.py:NAME.",
    ),
]
PerfectEstimates = Annotated[
    bool,
    Option(
        "--perfect-estimates", help="Let the policy easy use real durations, not users' estimates."
    ),
]
TreeFile = Annotated[
    Path | None,
    Option(
        "--queues",
        metavar="FILE",
        help="YAML file of the tree of queues: each user's queue, limits and quotas.",
    ),
]
Weights = Annotated[
    Path | None,
    Option(
        "--weights", metavar="FILE", help="YAML or JSON file of users' weights, such as {ana: 2}."
    ),
]
RayAddress = Annotated[
    str | None,
    Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Run on the Ray cluster at HOST:PORT, or auto for the one on this machine. Without an "
        "address, or with local, start Ray here.",
    ),
]


def read_problem(file: str, skip_unplaceable: bool) -> tuple[Problem, list[str]]:
    """Return a file's problem, and the reasons for users left out, which are also printed."""
    from fairlead.formats.problem_file import load_with_report

    problem, left_out = load_with_report(file, skip_unplaceable=skip_unplaceable)
    for omission in left_out:
        complain(f"left out: {omission}")
    return problem, left_out


def check_due(problem: Problem, file: str | Path) -> None:
    """Raise InputError, naming the file, when no user of a problem is due anything."""
    from fairlead.formats.documents import source_name
    from fairlead.model.reductions import NO_USER_IS_DUE

    if problem.due_nothing.all():
        raise InputError(NO_USER_IS_DUE, "users", source_name(file))


def with_weights_of(problem: Problem, path: Path | None) -> Problem:
    """Return the problem with the weights of the file at `path`, or unchanged without one."""
    if path is None:
        return problem
    from fairlead.formats.documents import source_name
    from fairlead.formats.queue_file import read_weights
    from fairlead.model.problem_changes import with_weights

    weights = read_weights(path)
    try:
        return with_weights(problem, weights)
    except InputError as error:
        raise error.within(source_name(path)) from None


@dataclass(frozen=True)
class PolicySuffixes:
    """Options that append suffixes to a policy's name, such as ``/reserve:4``."""

    preempt: Annotated[
        str,
        Option(
            metavar="MODE",
            help=(
                "Preempt tasks for queues below their quota (over-quota), or below their quota or "
                "share (over-share). over-share:600 spares tasks in their first 600 s."
            ),
        ),
    ] = "never"
    half_life: Annotated[
        float | None,
        Option(
            metavar="SECONDS",
            help=(
                "Add a queue's past use to its share, halved after each period of this length. "
                "Same as a policy such as drf/best-fit/half-life:604800."
            ),
        ),
    ] = None
    reserve: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            help=(
                "Reserve starts for the first N waiting jobs of each set of servers, so that small "
                "jobs do not delay them. Same as a policy such as drf/best-fit/reserve:4."
            ),
        ),
    ] = None
    spare: Annotated[
        str | None,
        Option(
            metavar="RESOURCE",
            help=(
                "Keep servers with this resource, such as gpu, for tasks that request it; other "
                "tasks use these servers only if they fit on no others, even empty."
            ),
        ),
    ] = None

    @property
    def is_any(self) -> bool:
        """Whether any of these options was given."""
        return self != PolicySuffixes()

    def added_to(self, policy: str) -> str:
        """Return a policy's name with the suffixes; raise InputError for an unknown `preempt`."""
        if policy == "recorded":
            return policy
        if self.half_life is not None:
            policy = f"{policy}/half-life:{self.half_life!r}"
        if self.reserve is not None:
            policy = f"{policy}/reserve" + (f":{self.reserve}" if self.reserve != 1 else "")
        if self.preempt != "never":
            from fairlead.scheduler.policies import PREEMPTION

            if self.preempt.partition(":")[0] not in PREEMPTION:
                known = f"must be never, {' or '.join(PREEMPTION)}, perhaps with :SECONDS"
                raise InputError(f"{known}, not {self.preempt!r:.60}", "--preempt")
            policy = f"{policy}/{self.preempt}"
        return policy if self.spare is None else f"{policy}/spare:{self.spare}"


@dataclass(frozen=True)
class MechanismOptions:
    """Options of mechanisms."""

    alpha: Annotated[
        float | None,
        Option(
            metavar="A",
            help="Alpha of the mechanism alpha-fair: 0 runs the most tasks, large values make the "
            "users' tasks more equal. [default: 2]",
        ),
    ] = None
    score: Annotated[
        str | None,
        Option(
            metavar="SCORE",
            help="Score that the mechanism max-min equalises: drf, tsf or ps-dsf. [default: drf]",
        ),
    ] = None

    @property
    def given(self) -> dict[str, float | str]:
        """The given options, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class OutputOptions:
    """Options on the form of an answer."""

    as_json: AsJson = False
    table_format: Annotated[
        str | None,
        Option("--format", metavar="|".join(FORMATS), help="Print the main table in this format."),
    ] = None
    report: ReportPath = None

    def check(
        self,
        *sources: str | Path,
        what: str = "problem file",
        others: Iterable[str | Path | None] = (),
    ) -> None:
        """Raise InputError for an unusable --format, or a page that would replace an input.

        `what` names the `sources` in errors; `others` are files of options, None if not given.
        """
        if self.table_format is not None and self.table_format not in FORMATS:
            fault = f"must be {' or '.join(FORMATS)}, not {self.table_format!r:.60}"
            raise InputError(fault, "--format")
        if self.table_format is not None and self.as_json:
            raise InputError("cannot be given with --json", "--format")
        for source in sources:
            check_report(self.report, str(source), what)
        for other in others:
            if other is not None:
                check_report(self.report, str(other), "input")

    def show(
        self,
        document: Document,
        frame: Callable[[], DataFrame],
        headings: Callable[[DataFrame], Sequence[str]] = lambda _: (),
        left_out: Sequence[str] = (),
    ) -> None:
        """Show a document by `streams.show`, or with --format only the frame of its main table."""
        table = None
        if self.table_format is not None:
            from fairlead.report.numbers import frame_text

            found = frame()
            table = frame_text(found, self.table_format, headings(found))
        show(document, self.as_json, self.report, table=table, left_out=left_out)


def title_of(file: str) -> str:
    """Return a file's name for the title of a page or a table."""
    return "standard input" if file == "-" else Path(file).name


def parse_pairs(texts: list[str], option: str, *, may_be_empty: bool = False) -> dict[str, str]:
    """Parse KEY=VALUE texts into a mapping; raise InputError for another text or a repeated key."""
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals and (value or may_be_empty)):
            raise InputError(f"must be KEY=VALUE, not {text!r:.60}", option)
        if key in pairs:
            raise InputError(f"gives {key!r:.60} twice", option)
        pairs[key] = value
    return pairs


def parse_number(text: str, option: str) -> float:
    """Parse a finite number, a whole one as an integer; raise InputError for another text."""
    try:
        value = number_from_text(text)
    except ValueError:
        value = nan
    if not isfinite(value):
        raise InputError(f"must be a number, not {text!r:.60}", option)
    return int(value) if value == int(value) else value


def parse_numbers(texts: list[str] | None, option: str) -> dict[str, float]:
    """Parse NAME=NUMBER texts into a mapping; raise InputError for another text."""
    return {
        name: parse_number(text, option) for name, text in parse_pairs(texts or [], option).items()
    }


def with_ray_address(words: list[str]) -> list[str]:
    """Insert the address ``local`` after a `--ray` without one, as the parser needs a value."""
    end = words.index("--") if "--" in words else len(words)
    found: list[str] = []
    for word, after in zip(words, [*words[1:], ""], strict=False):
        found.append(word)
        is_address = after in ("auto", LOCAL_RAY) or (":" in after and after[0] != "-")
        if word == "--ray" and len(found) <= end and not is_address:
            found.append(LOCAL_RAY)
            end += 1
    return found


@contextmanager
def executor_on(ray: str | None, processes: int | None = None) -> Iterator[Executor]:
    """Open an executor: local processes or a Ray cluster.

    Raises InputError when Ray is not installed, or the cluster is missing or runs another version
    of fairlead.
    """
    from fairlead.executors.executor import Processes

    if ray is None:
        yield Processes(processes)
        return
    if processes is not None:
        raise InputError("is for this machine; a Ray cluster has its own", "--processes")
    from contextlib import redirect_stdout

    from fairlead.executors.ray_tasks import ray_executor

    # Discard messages of Ray about nodes and workers, also those of its compiled code.
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing), ExitStack() as stack:
        sys.stderr.flush()
        with redirected(2, nothing.fileno()):
            executor = stack.enter_context(ray_executor(ray))
        yield executor


DURATIONS = (
    "seconds, a number with s, m, h or d or several such as 2d12h, minutes:seconds, "
    "hours:minutes:seconds, or days-hours[:minutes[:seconds]]"
)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNLIMITED = ("unlimited", "infinite")
_CLOCK = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,6}(?::[0-5][0-9]){0,2})")
_WITH_UNITS = re.compile(
    r"(?:([0-9]{1,6})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?"
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?")
# Stricter than `float`, which takes 1_0, digits of other scripts and blanks around the number.
_NUMBER = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?P<unit>[smhd]?)"
)


def parse_seconds(text: str, option: str = "--at") -> float:
    """Parse a duration into seconds; raise InputError for another text.

    ``1:30`` is a minute and a half, as in Slurm. A bare number is seconds; in Slurm, minutes.
    """
    clock = _CLOCK.fullmatch(text)
    if clock is not None and ("-" in text or ":" in text):
        parts = [float(part) for part in clock[2].split(":")]
        if clock[1] is None:  # the last part is seconds, else the first is hours
            parts = [0.0] * (3 - len(parts)) + parts
        seconds = sum(n * size for n, size in zip(parts, (3600.0, 60.0, 1.0), strict=False))
        return 86400.0 * int(clock[1] or 0) + seconds
    several = _WITH_UNITS.fullmatch(text)
    if text and several is not None:
        amounts = (int(digits or 0) for digits in several.groups())
        return sum(n * size for n, size in zip(amounts, (86400.0, 3600.0, 60.0, 1.0), strict=True))
    number = _NUMBER.fullmatch(text)
    found = inf if number is None else float(number["number"]) * _SECONDS[number["unit"] or "s"]
    if not isfinite(found):
        raise InputError(f"must be {DURATIONS}, not {text!r:.60}", option)
    return found


def parse_time(text: str, option: str) -> float | datetime:
    """Parse a time of a trace: seconds since its start, or a date.

    A date has no time zone and is returned as UTC. Raises InputError for another text.
    """
    if _DATE.fullmatch(text):
        try:
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        except ValueError:
            raise InputError(f"{text} is not a date", option) from None
    try:
        return parse_seconds(text, option)
    except InputError as error:
        fault = f"{error.fault}; or a date such as 2025-01-31T12:00, without a time zone"
        raise InputError(fault, option) from None


def parse_fraction(text: str, option: str) -> float:
    """Parse ``20%`` or ``0.2`` into a fraction from 0 to 1; raise InputError for another text."""
    try:
        fraction = number_from_text(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        fraction = -1.0
    if not 0.0 <= fraction <= 1.0:
        raise InputError(f"must be a fraction such as 20% or 0.2, not {text!r:.60}", option)
    return fraction


def parse_time_limit(text: str, option: str) -> float | None:
    """Parse a positive duration into seconds, or ``UNLIMITED`` and ``INFINITE`` into None."""
    if text.lower() in _UNLIMITED:
        return None
    found = parse_seconds(text, option)
    if not found:
        raise InputError("must be more than 0", option)
    return found


def is_bare_number(text: str) -> bool:
    """Return whether a duration is a number without a unit."""
    number = _NUMBER.fullmatch(text)
    return number is not None and not number["unit"]
