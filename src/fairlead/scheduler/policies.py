"""The table of policies: each has a criterion for queues, a selection of servers, and a cycle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from fractions import Fraction
from typing import Final

from fairlead.errors import InputError, RefusalError
from fairlead.formats.file_faults import did_you_mean
from fairlead.scheduler._cycle import Cycle, QueueCycle, TaskCycle
from fairlead.scheduler._entities import Counting
from fairlead.scheduler._preemption import OVER_QUOTA, OVER_SHARE
from fairlead.scheduler._reserving import ReservingCycle
from fairlead.scheduler._rule_cycle import RuleCycle
from fairlead.scheduler._state import State
from fairlead.scheduler.criteria.criterion import Criterion
from fairlead.scheduler.criteria.drf import DominantShare, PastUse
from fairlead.scheduler.criteria.easy import BackfillingCycle, BackfillingTime
from fairlead.scheduler.criteria.fifo import SubmissionCycle, SubmissionTime
from fairlead.scheduler.criteria.hierarchy import ServerTreeCycle, TreeCycle, TreeServerShare
from fairlead.scheduler.criteria.residual import ResidualDominantShare, ResidualTaskShare
from fairlead.scheduler.criteria.service_time import ServiceTime
from fairlead.scheduler.criteria.slots import Slots, SlotShare
from fairlead.scheduler.criteria.tsf_and_ps_dsf import (
    ObliviousServerShare,
    PerServerShare,
    ResidualServerShare,
    ServerShare,
    TaskShare,
)
from fairlead.scheduler.own_rules import Rule
from fairlead.scheduler.random_order import RandomOrder
from fairlead.scheduler.selection.best_fit import BestFit
from fairlead.scheduler.selection.best_fit_first import BestFitFirst, BestFitFirstCycle
from fairlead.scheduler.selection.first_fit import FirstFit, Selection
from fairlead.scheduler.selection.joint import Joint
from fairlead.scheduler.selection.round_robin import Offers, RoundRobin
from fairlead.scheduler.selection.rounds import Rounds

REFUSE_SECONDS: Final = Fraction(5)  # until a queue is offered a declined server again

Row = tuple[type[Criterion], type[Selection], type[Cycle]]
ROWS: dict[str, Row] = {
    "drf/first-fit": (DominantShare, FirstFit, TreeCycle),
    "drf/first-fit/residual": (ResidualDominantShare, FirstFit, TaskCycle),
    "drf/best-fit": (DominantShare, BestFit, TreeCycle),
    "drf/best-fit/residual": (ResidualDominantShare, BestFit, TaskCycle),
    "drf/best-fit-first": (DominantShare, BestFitFirst, BestFitFirstCycle),
    "drf/best-fit-first/residual": (ResidualDominantShare, BestFitFirst, BestFitFirstCycle),
    "drf/rrr": (DominantShare, FirstFit, RoundRobin),
    "drf/rrr/residual": (ResidualDominantShare, FirstFit, RoundRobin),
    "drf/rrr/oblivious": (DominantShare, FirstFit, Offers),
    "tsf/first-fit": (TaskShare, FirstFit, QueueCycle),
    "tsf/first-fit/residual": (ResidualTaskShare, FirstFit, TaskCycle),
    "tsf/best-fit": (TaskShare, BestFit, QueueCycle),
    "tsf/best-fit/residual": (ResidualTaskShare, BestFit, TaskCycle),
    "tsf/best-fit-first": (TaskShare, BestFitFirst, BestFitFirstCycle),
    "tsf/best-fit-first/residual": (ResidualTaskShare, BestFitFirst, BestFitFirstCycle),
    "tsf/rrr": (TaskShare, FirstFit, RoundRobin),
    "tsf/rrr/residual": (ResidualTaskShare, FirstFit, RoundRobin),
    "ps-dsf/first-fit": (PerServerShare, FirstFit, QueueCycle),
    "ps-dsf/best-fit": (PerServerShare, BestFit, QueueCycle),
    "ps-dsf/best-fit-first": (PerServerShare, BestFitFirst, BestFitFirstCycle),
    "ps-dsf/joint": (ServerShare, FirstFit, Joint),
    "ps-dsf/joint/residual": (ResidualServerShare, FirstFit, Joint),
    "ps-dsf/rrr": (TreeServerShare, FirstFit, ServerTreeCycle),
    "ps-dsf/rrr/residual": (ResidualServerShare, FirstFit, RoundRobin),
    "ps-dsf/rrr/oblivious": (ObliviousServerShare, FirstFit, Offers),
    "fifo/first-fit": (SubmissionTime, FirstFit, SubmissionCycle),
    "fifo/best-fit": (SubmissionTime, BestFit, SubmissionCycle),
    "easy/first-fit": (BackfillingTime, FirstFit, BackfillingCycle),
    "easy/best-fit": (BackfillingTime, BestFit, BackfillingCycle),
}
WITH_PAST_USE: dict[str, Row] = {  # rows under `/half-life`
    "drf/first-fit": (PastUse, FirstFit, QueueCycle),
    "drf/best-fit": (PastUse, BestFit, QueueCycle),
}
SLOTS_ROW: Row = (SlotShare, FirstFit, TreeCycle)
CRITERIA = list({name.split("/")[0]: None for name in ROWS})
SELECTIONS = list({name.split("/")[1]: None for name in ROWS})
VARIANTS = ("residual", "oblivious")
MAX_SLOTS = 1_000_000
MAX_SECONDS = 1e15
MAX_RESERVED = 10_000
HALF_LIFE = "half-life"
WITH_TREES = (TreeCycle, SubmissionCycle, ServerTreeCycle)  # cycles with inner queues
WITH_QUOTAS = "drf/first-fit or drf/best-fit"  # in error messages
RESERVE = "reserve"
SPARE = "/spare:"
PREEMPTION = (OVER_QUOTA, OVER_SHARE)
# Suffixes of names except `SPARE`, each with the policies that may have it, for error messages.
SUFFIXES = {
    OVER_QUOTA: WITH_QUOTAS,
    OVER_SHARE: f"{WITH_QUOTAS}, or slots:S",
    HALF_LIFE: f"{WITH_QUOTAS}, once",
    RESERVE: "known demands and a criterion of shares, such as drf",
}


class Policy:
    """A defined combination of criterion, selection and cycle, with its options.

    Attributes
    ----------
    name : str
    criterion, select : str
        Names of the criterion and the selection.
    residual : bool
        Whether the score uses free amounts in place of capacities.
    is_oblivious : bool
        Whether demands are unknown.
    is_random : bool
        Whether another seed may give other placements.
    slots : int
        Number of slots of the largest server; 0 if tasks take amounts.
    preempts : str
        The queues whose running tasks may be preempted: ``over-quota`` or ``over-share``; empty
        without preemption.
    min_run : float
        Seconds that a task has run before it may be preempted.
    half_life : float
        Half-life of past use in seconds; 0 if past use does not count.
    reserves : int
        Maximum number of groups with reserved starts that may run on one server; 0 for none.
    spares : str
        The resource whose servers are kept for tasks that ask for it; empty for none.
    """

    def __init__(self, name: str, criterion: str, select: str, row: Row, slots: int = 0) -> None:
        self.name = name
        self.preempts = ""
        self.min_run = 0.0
        self.half_life = 0.0
        self.reserves = 0
        self.spares = ""
        self.criterion = criterion
        self.select = select
        self.residual = "residual" in name.split("/")
        self.is_random = select == "rrr"
        self.row = row
        self.slots = slots
        self.is_oblivious = row[2] is Offers

    def __reduce__(self) -> tuple[Callable[[object], Policy], tuple[str]]:
        """Pickle by name, so that another process finds the same policy."""
        return parse_policy, (self.name,)

    @property
    def needs_time(self) -> bool:
        """Whether the scheduler must know the time of every event, even of ends of tasks."""
        return self.half_life > 0.0 or self.reserves > 0

    @property
    def has_trees(self) -> bool:
        """Whether queues may have parents."""
        is_per_server = issubclass(self.row[2], ServerTreeCycle)
        has_cycle = self.half_life > 0.0 or issubclass(self.row[2], WITH_TREES)
        return has_cycle and not (is_per_server and self.reserves)

    def require_trees(self) -> None:
        """Raise RefusalError unless queues may have parents."""
        if not self.has_trees:
            message = "parents of queues need drf, fifo or easy, with first-fit or best-fit"
            if not self.reserves:
                message += ", or ps-dsf/rrr"
            raise RefusalError(self.name, message)

    def require_amounts(self) -> None:
        """Raise RefusalError if tasks take slots, which have no limits of amounts."""
        if self.slots:
            raise RefusalError(self.name, "tasks take slots; limit their number instead")

    def require_quotas(self) -> None:
        """Raise RefusalError unless queues may have quotas."""
        if self.row[2] is not TreeCycle or self.slots:
            raise RefusalError(self.name, f"quotas need {WITH_QUOTAS}")

    def add_suffix(self, option: str, value: str | None) -> None:
        """Set an option, and add its suffix to the name; raise RefusalError if not defined."""
        cycle = self.row[2]
        if option == RESERVE:
            is_defined = not self.is_oblivious and not issubclass(cycle, SubmissionCycle)
        elif option == HALF_LIFE:
            is_defined = self.name in WITH_PAST_USE
        else:
            is_defined = cycle is TreeCycle and not (option == OVER_QUOTA and self.slots)
        if option != HALF_LIFE and (self.preempts or self.reserves):
            message = "give preemption or reserve once, not both: preemption breaks reservations"
            raise RefusalError(self.name, message)
        if not is_defined:
            raise RefusalError(self.name, f"{option} needs {SUFFIXES[option]}")
        if option == RESERVE:
            number = 1 if value is None else parse_number_of(value, RESERVE, MAX_RESERVED)
            self.reserves = number
            shown = f":{number}" if number > 1 else ""
        else:
            seconds = 0.0 if value is None else parse_seconds(value)
            shown = f":{seconds:.15g}" if seconds else ""
            if option == HALF_LIFE:
                if seconds == 0.0:
                    raise InputError("the half-life must be positive", "policy")
                self.half_life, self.row = seconds, WITH_PAST_USE[self.name]
            else:
                self.preempts, self.min_run = option, seconds
        self.name += f"/{option}{shown}"

    def make_cycle(
        self,
        resources: Sequence[str],
        order: RandomOrder,
        is_strict: bool = False,
        refuse_seconds: Fraction = REFUSE_SECONDS,
        largest: list[int] | None = None,
        devices: dict[int, int] | None = None,
    ) -> Cycle:
        """Make the cycle of a new scheduler, with a state without servers and queues.

        `order` gives orders for round-robin. `largest` (R,), in quanta, is the server that is
        cut into slots. `devices` has the quanta of one device by the index of the resource; slots
        ignore it. Raise InputError if there is no resource of the name in ``/spare``.
        """
        make_criterion, make_selection, make_cycle = self.row
        if self.spares and self.spares not in resources:
            known = ", ".join(resources)
            message = f"spare: no resource is named {self.spares!r:.60}; known: {known}"
            raise InputError(message, "policy")
        spared = resources.index(self.spares) if self.spares else -1
        n = len(resources)
        counting = Slots(n, self.slots, largest) if self.slots else Counting(n, devices)
        criterion = make_criterion(counting.width)
        criterion.half_life = self.half_life
        if self.reserves:
            criterion.splits_by_limit = True
            criterion.keeps_ends = True
            criterion.predicts_runs = True
        selection = make_selection(counting.compared, criterion.total)
        if isinstance(criterion, SubmissionTime):
            criterion.selection = selection
        rounds = Rounds(order, refuse_seconds)
        later_wins_ties = make_selection is BestFitFirst
        state = State(counting, criterion, selection, later_wins_ties, rounds, spared)
        cycle = make_cycle(state, is_strict)
        cycle.preempts, cycle.min_run = self.preempts, self.min_run
        return ReservingCycle(cycle, self.reserves) if self.reserves else cycle


class OwnPolicy(Policy):
    """A user-defined rule, with a name."""

    def __init__(self, name: str, rule: Rule) -> None:
        super().__init__(name, "own", "first-fit", (ServiceTime, FirstFit, RuleCycle))
        self.rule = rule

    def set_names(
        self,
        cycle: Cycle,
        resources: Sequence[str],
        quanta: Sequence[Fraction],
        jobs: list[str],
        servers: list[str],
    ) -> None:
        """Give a cycle a copy of the rule, and the names that its views show.

        These are the resources, with quanta per unit; the jobs; and the group of each server. The
        rule is copied so that no run depends on the state that another run left in it.
        """
        assert isinstance(cycle, RuleCycle)
        try:
            rule = deepcopy(self.rule)
        except Exception as error:
            message = f"cannot be copied for a run: {type(error).__name__}: {error}"
            raise InputError(message.replace("\n", " "), self.name) from None
        cycle.set_rule(rule, self.name, resources, quanta, jobs, servers)


def parse_policy(name: object) -> Policy:
    """Return the policy of a name: ``drf/best-fit``, ``ps-dsf/joint/residual``, ``slots:14``.

    Suffixes after ``drf/best-fit``, for instance: ``/over-share:600`` preempts tasks that have run
    for at least 600 s. With ``/half-life:604800`` past use counts, halved every week. Under
    ``/reserve`` the first waiting group of each set of servers has a reserved start, under
    ``/reserve:4`` the first four. ``/spare:gpu``, always the last suffix, keeps servers with GPUs
    for tasks that ask for GPUs.

    Raises
    ------
    InputError
        When there is no such policy.
    RefusalError
        When the combination is not defined.
    """
    if isinstance(name, str):
        plain, spare, resource = name.partition(SPARE)
        if spare:
            policy = parse_policy(plain)
            if not resource:
                raise InputError("spare: give the name of a resource, as in /spare:gpu", "policy")
            policy.name += f"{SPARE}{resource}"
            policy.spares = resource
            return policy
        plain, _, suffix = name.rpartition("/")
        option, colon, value = suffix.partition(":")
        if plain and option in SUFFIXES:
            policy = parse_policy(plain)
            policy.add_suffix(option, value if colon else None)
            return policy
    if isinstance(name, str) and name.startswith("slots:"):
        slots = parse_number_of(name.removeprefix("slots:"), "slots", MAX_SLOTS)
        return Policy(f"slots:{slots}", "drf", "first-fit", SLOTS_ROW, slots)
    criterion, *rest = name.split("/") if isinstance(name, str) else [""]
    variants = rest[1:]
    if not rest or any(variant not in VARIANTS for variant in variants):
        grammar = (
            "CRITERION/SELECTION[/residual or /oblivious], or slots:S; then perhaps "
            "/over-quota[:SECONDS] or /over-share[:SECONDS] to preempt tasks that ran so long, "
            "/half-life:SECONDS of past use, or /reserve[:N] for N reserved starts; "
            "last perhaps /spare:RESOURCE; "
            f"criteria: {', '.join(CRITERIA)}; selections: {', '.join(SELECTIONS)}"
        )
        hint = did_you_mean(f"{name}/best-fit" if name in CRITERIA else name, ROWS)
        raise InputError(f"no policy is named {name!r:.60}; known: {grammar}{hint}", "policy")
    if len(variants) > 1:
        raise RefusalError(str(name), "give at most one of residual and oblivious, once")
    return find_policy(criterion, rest[0], "residual" in variants, "oblivious" in variants)


def parse_number_of(digits: str, option: str, maximum: int) -> int:
    """Return the number of an option in a name, such as ``reserve:4`` or ``slots:14``."""
    is_number = digits.isascii() and digits.isdigit()
    is_number = is_number and len(digits.lstrip("0")) <= len(str(maximum))
    if not is_number or not 1 <= int(digits) <= maximum:
        message = f"{option}: takes a number from 1 to {maximum:,}, not {digits!r:.60}"
        raise InputError(message, "policy")
    return int(digits)


def parse_seconds(text: str) -> float:
    """Return the seconds of an option in a name, such as ``over-share:600``."""
    try:
        seconds = float(text) if text.isascii() and text[:1].isdigit() else -1.0
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < MAX_SECONDS:
        raise InputError(f"must give a number of seconds from 0, not {text!r:.60}", "policy")
    return seconds


def find_policy(
    criterion: str, select: str, residual: bool = False, oblivious: bool = False
) -> Policy:
    """Return the policy of a criterion and a selection.

    Raises
    ------
    InputError
        When the criterion or the selection is not known.
    RefusalError
        When the combination is not defined.
    """
    for what, option, given, names in (
        ("criterion", "criterion", criterion, CRITERIA),
        ("selection", "select", select, SELECTIONS),
    ):
        if given not in names:
            message = f"no {what} is named {given!r}; known: {', '.join(names)}"
            raise InputError(f"{message}{did_you_mean(given, names)}", option)
    name = f"{criterion}/{select}" + "/residual" * residual + "/oblivious" * oblivious
    row = ROWS.get(name)
    if row is None:
        raise RefusalError(name, why_undefined(criterion, select, oblivious))
    return Policy(name, criterion, select, row)


def why_undefined(criterion: str, select: str, oblivious: bool) -> str:
    """Return why a combination is not in the table."""
    if criterion in ("fifo", "easy"):
        return f"{criterion} has no scores of users; use first-fit or best-fit"
    if oblivious:
        if select != "rrr":
            return "offers visit the servers in turn; use rrr"
        return f"{criterion} divides by the tasks a user could run, so it must know demands"
    if select == "joint":
        return (
            f"{criterion} gives a user the same score on every server, so there is no pair to "
            "choose; use first-fit or best-fit"
        )
    return (
        f"{select} chooses the user before the server, by the sum of its scores over the "
        "servers, which is infinite once one of them is full; use joint or rrr"
    )
