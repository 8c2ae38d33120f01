"""The table of policies: a criterion ranks queues, a selection names servers, a cycle places."""

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
from fairlead.scheduler._rounds import Rounds
from fairlead.scheduler._rule_cycle import RuleCycle
from fairlead.scheduler._state import State
from fairlead.scheduler._used_amounts import ServiceTime
from fairlead.scheduler.criteria.criterion import Criterion
from fairlead.scheduler.criteria.drf import DominantShare
from fairlead.scheduler.criteria.easy import BackfillingCycle, BackfillingTime
from fairlead.scheduler.criteria.fifo import SubmissionCycle, SubmissionTime
from fairlead.scheduler.criteria.hierarchy import TreeCycle
from fairlead.scheduler.criteria.past_use import PastUse
from fairlead.scheduler.criteria.ps_dsf import (
    ObliviousServerShare,
    PerServerShare,
    ResidualServerShare,
    ServerShare,
)
from fairlead.scheduler.criteria.residual import ResidualDominantShare, ResidualTaskShare
from fairlead.scheduler.criteria.server_trees import ServerTreeCycle, TreeServerShare
from fairlead.scheduler.criteria.slots import Slots, SlotShare
from fairlead.scheduler.criteria.tsf import TaskShare
from fairlead.scheduler.own_rules import Rule
from fairlead.scheduler.random_order import RandomOrder
from fairlead.scheduler.selection.best_fit import BestFit
from fairlead.scheduler.selection.best_fit_first import BestFitFirst, BestFitFirstCycle
from fairlead.scheduler.selection.first_fit import FirstFit
from fairlead.scheduler.selection.joint import Joint
from fairlead.scheduler.selection.round_robin import Offers, RoundRobin
from fairlead.scheduler.selection.selection import Selection

REFUSE_SECONDS: Final = Fraction(5)  # until a declined server is offered again

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
WITH_MEMORY: dict[str, Row] = {
    "drf/first-fit": (PastUse, FirstFit, QueueCycle),
    "drf/best-fit": (PastUse, BestFit, QueueCycle),
}
SLOTS_ROW: Row = (SlotShare, FirstFit, TreeCycle)
CRITERIA = list({name.split("/")[0]: None for name in ROWS})
SELECTIONS = list({name.split("/")[1]: None for name in ROWS})
FORMS = ("residual", "oblivious")
MOST_SLOTS = 1_000_000
MOST_SECONDS = 1e15
HALF_LIFE = "half-life"
WITH_TREES = (TreeCycle, SubmissionCycle, ServerTreeCycle)  # may have inner queues
WITH_QUOTAS = "drf/first-fit or drf/best-fit"
RESERVE = "reserve"
SPARE = "/spare:"
MOST_RESERVED = 10_000
PREEMPTION = (OVER_QUOTA, OVER_SHARE)


class Policy:
    """A combination of criterion, selection and cycle that is defined.

    Attributes
    ----------
    name : str
    criterion, select : str
        Their names.
    residual : bool
        Whether the score uses free amounts in place of capacities.
    is_oblivious : bool
        Whether demands are unknown.
    is_random : bool
        Whether another seed may give other placements.
    slots : int
        The slots of the largest server; 0 if tasks take amounts.
    preempts : str
        Which queues tasks are taken from, ``over-quota`` or ``over-share``; empty for none.
    min_run : float
        Seconds that a task runs at least before it is stopped for another one.
    half_life : float
        Of past use, in seconds; 0 if that does not count.
    reserves : int
        The most groups with reserved starts that may run on one server; 0 for none.
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
        """Whether the scheduler must know the time of each event, also of ends of tasks."""
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
            fault = "parents of queues need drf, fifo or easy, with first-fit or best-fit"
            if not self.reserves:
                fault += ", or ps-dsf/rrr"
            raise RefusalError(self.name, fault)

    def require_amounts(self) -> None:
        """Raise RefusalError if tasks take slots, which limits of amounts do not fit."""
        if self.slots:
            raise RefusalError(self.name, "tasks take slots; limit their number instead")

    def require_quotas(self) -> None:
        """Raise RefusalError unless queues may have quotas."""
        if self.row[2] is not TreeCycle or self.slots:
            raise RefusalError(self.name, f"quotas need {WITH_QUOTAS}")

    def renamed(self, name: str) -> Policy:
        """Return a copy under another name."""
        found = Policy(name, self.criterion, self.select, self.row, self.slots)
        found.preempts, found.min_run = self.preempts, self.min_run
        found.half_life, found.reserves = self.half_life, self.reserves
        return found

    def preempting(self, preempts: str, min_run: float) -> Policy:
        """Return the policy with preemption; raise RefusalError where that has no meaning."""
        if self.preempts:
            raise RefusalError(self.name, "names a kind of preemption already")
        if self.reserves:
            raise RefusalError(self.name, "preemption would break reservations; use one of the two")
        if preempts == OVER_QUOTA:
            self.require_quotas()
        if self.row[2] is not TreeCycle:
            raise RefusalError(self.name, f"preemption needs {WITH_QUOTAS}, or slots:S")
        name = f"{self.name}/{preempts}" + (f":{min_run:.15g}" if min_run else "")
        found = self.renamed(name)
        found.preempts = preempts
        found.min_run = min_run
        return found

    def remembering(self, half_life: float) -> Policy:
        """Return the policy in which past use counts; RefusalError where that has no meaning."""
        row = WITH_MEMORY.get(self.name)
        if row is None:
            raise RefusalError(self.name, f"a half-life of past use needs {WITH_QUOTAS}")
        if half_life <= 0.0:
            raise InputError("the half-life must be positive", "policy")
        name = f"{self.name}/{HALF_LIFE}:{half_life:.15g}"
        found = Policy(name, self.criterion, self.select, row)
        found.half_life = half_life
        return found

    def reserving(self, most: int) -> Policy:
        """Return the policy with reserved starts; RefusalError where they have no meaning."""
        if self.reserves:
            raise RefusalError(self.name, "names a number of reservations already")
        if self.preempts:
            raise RefusalError(self.name, "preemption would break reservations; use one of the two")
        if self.is_oblivious:
            raise RefusalError(self.name, "no start can be reserved where demands are unknown")
        if issubclass(self.row[2], SubmissionCycle):
            raise RefusalError(
                self.name,
                "in order of submission, easy reserves one start; more are for others, such as drf",
            )
        name = f"{self.name}/{RESERVE}" + (f":{most}" if most != 1 else "")
        found = self.renamed(name)
        found.reserves = most
        return found

    def sparing(self, resource: str) -> Policy:
        """Return the policy that keeps servers with a resource for tasks that ask for it."""
        if not resource:
            raise InputError("spare: needs the name of a resource", "policy")
        found = self.renamed(f"{self.name}{SPARE}{resource}")
        found.spares = resource
        return found

    def make_cycle(
        self,
        resources: Sequence[str],
        order: RandomOrder,
        is_strict: bool = False,
        refuse_seconds: Fraction = REFUSE_SECONDS,
        largest: list[int] | None = None,
        devices: dict[int, int] | None = None,
    ) -> Cycle:
        """Return the cycle of a scheduler without servers and queues.

        `order` is for round-robin. `largest` (R,), in quanta, is the server that is cut into slots.
        `devices` has the resources that come in devices, with the quanta of one; slots ignore it.
        """
        make_criterion, make_selection, make_cycle = self.row
        if self.spares and self.spares not in resources:
            known = ", ".join(resources)
            fault = f"spare: no resource is named {self.spares!r:.60}; known: {known}"
            raise InputError(fault, "policy")
        spared = resources.index(self.spares) if self.spares else -1
        many = len(resources)
        counting = Slots(many, self.slots, largest) if self.slots else Counting(many, devices)
        width = counting.width
        criterion = make_criterion(width)
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
        return ReservingCycle(cycle, self.reserves) if self.reserves else cycle


class OwnPolicy(Policy):
    """A user-defined rule under a name."""

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
        """Set the names in its cycle: resources, with quanta per unit; jobs; groups of servers.

        The cycle gets a copy of the rule, so that no run depends on what another one left in it.
        """
        assert isinstance(cycle, RuleCycle)
        try:
            rule = deepcopy(self.rule)
        except Exception as fault:
            why = f"cannot be copied for a run: {type(fault).__name__}: {fault}"
            raise InputError(why.replace("\n", " "), self.name) from None
        cycle.set_rule(rule, self.name, resources, quanta, jobs, servers)

    def __reduce__(self) -> tuple[Callable[[object], Policy], tuple[str]]:
        """Refuse: processes are given the rule, and make the policy themselves."""
        raise InputError("a user-defined rule has no name elsewhere", self.name)


def parse_policy(name: object) -> Policy:
    """Return the policy of a name: ``drf/best-fit``, ``ps-dsf/joint/residual``, ``slots:14``.

    ``drf/best-fit/over-share:600`` is ``drf/best-fit`` with preemption of tasks that have run for
    600 s at least; in ``drf/best-fit/half-life:604800`` past use counts, halved in a week. Under
    ``drf/best-fit/reserve`` the first waiting group of each set of servers has a reserved start,
    with ``reserve:4`` the first four. ``/spare:gpu`` at the end keeps servers with GPUs for tasks
    that ask for some.

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
            return parse_policy(plain).sparing(resource)
        plain, _, last = name.rpartition("/")
        preempts, colon, seconds = last.partition(":")
        if plain and preempts in PREEMPTION:
            return parse_policy(plain).preempting(preempts, seconds_of(seconds) if colon else 0.0)
        if plain and preempts == HALF_LIFE:
            return parse_policy(plain).remembering(seconds_of(seconds))
        if plain and preempts == RESERVE:
            number = number_of(seconds, RESERVE, MOST_RESERVED) if colon else 1
            return parse_policy(plain).reserving(number)
    if isinstance(name, str) and name.startswith("slots:"):
        slots = number_of(name.removeprefix("slots:"), "slots", MOST_SLOTS)
        return Policy(f"slots:{slots}", "drf", "first-fit", SLOTS_ROW, slots)
    criterion, *rest = name.split("/") if isinstance(name, str) else [""]
    forms = rest[1:]
    if not rest or any(form not in FORMS for form in forms):
        grammar = (
            "CRITERION/SELECTION with /residual or /oblivious after it, or slots:S, and "
            "/over-quota or /over-share for preemption, perhaps :SECONDS after tasks started, or "
            "/half-life:SECONDS of past use, or /reserve:N for reserved starts of N groups, "
            "and at the end perhaps /spare:RESOURCE; "
            f"criteria: {', '.join(CRITERIA)}; selections: {', '.join(SELECTIONS)}"
        )
        whole = [f"{one}/{two}" for one in CRITERIA for two in SELECTIONS]
        hint = did_you_mean(f"{name}/best-fit" if name in CRITERIA else name, whole)
        raise InputError(f"no policy is named {name!r:.60}; known: {grammar}{hint}", "policy")
    if len(forms) > 1:
        raise RefusalError(str(name), "give at most one of residual and oblivious, once")
    return find_policy(criterion, rest[0], "residual" in forms, "oblivious" in forms)


def number_of(digits: str, part: str, most: int) -> int:
    """Return the number that a part of a name gives, such as ``reserve:4`` or ``slots:14``."""
    is_number = digits.isascii() and digits.isdigit()
    is_number = is_number and len(digits.lstrip("0")) <= len(str(most))
    if not is_number or not 1 <= int(digits) <= most:
        fault = f"{part}: takes a number from 1 to {most:,}, not {digits!r:.60}"
        raise InputError(fault, "policy")
    return int(digits)


def seconds_of(text: str) -> float:
    """Return the least time of runs that ``over-share:600`` gives."""
    try:
        seconds = float(text) if text.isascii() and text[:1].isdigit() else -1.0
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < MOST_SECONDS:
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
    if criterion not in CRITERIA:
        known = ", ".join(CRITERIA)
        fault = f"no criterion is named {criterion!r}; known: {known}"
        raise InputError(f"{fault}{did_you_mean(criterion, CRITERIA)}", "criterion")
    if select not in SELECTIONS:
        known = ", ".join(SELECTIONS)
        fault = f"no selection is named {select!r}; known: {known}"
        raise InputError(f"{fault}{did_you_mean(select, SELECTIONS)}", "select")
    name = f"{criterion}/{select}" + "/residual" * residual + "/oblivious" * oblivious
    row = ROWS.get(name)
    if row is None:
        raise RefusalError(name, why_meaningless(criterion, select, oblivious))
    return Policy(name, criterion, select, row)


def why_meaningless(criterion: str, select: str, oblivious: bool) -> str:
    """Return why a combination is not in the table."""
    if criterion in ("fifo", "easy"):
        return f"{criterion} has no scores of users; use first-fit or best-fit"
    if oblivious:
        if select != "rrr":
            return "offers visit the servers in turn; use rrr"
        return f"{criterion} divides by the tasks a user could run, for which demands must be known"
    if select == "joint":
        return (
            f"{criterion} scores a user alike on every server, so there is no pair to choose; "
            "use first-fit or best-fit"
        )
    return (
        f"{select} chooses the user before the server, by the sum of its scores over the "
        "servers, which is infinite once one of them is full; use joint or rrr"
    )
