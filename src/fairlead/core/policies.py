"""The table of policies: a criterion ranks queues, a selection names servers, a way places by both.

Where scores are known before a server is chosen, the way is the `Cycle`.
"""

from __future__ import annotations

import re

from mypy_extensions import i64

from fairlead.core.comparing import Comparison
from fairlead.core.counting import Counting
from fairlead.core.criteria.criterion import Criterion
from fairlead.core.criteria.drf import DominantShare
from fairlead.core.criteria.easy import Backfilling, BackfillingCycle
from fairlead.core.criteria.fifo import Submission, SubmissionCycle
from fairlead.core.criteria.ps_dsf import PerServerShare
from fairlead.core.criteria.residual import ResidualDominantShare, ResidualTaskShare
from fairlead.core.criteria.server_share import (
    ObliviousServerShare,
    ResidualServerShare,
    ServerShare,
)
from fairlead.core.criteria.slots import Slots, SlotShare
from fairlead.core.criteria.tsf import TaskShare
from fairlead.core.cycle import Cycle
from fairlead.core.placing import Placing
from fairlead.core.rounds import Rounds
from fairlead.core.selection.best_fit import BestFit
from fairlead.core.selection.best_fit_first import BestFitFirst, BestFitFirstWay
from fairlead.core.selection.first_fit import FirstFit
from fairlead.core.selection.joint import Joint
from fairlead.core.selection.mirrored import Mirrored
from fairlead.core.selection.offers import Offers
from fairlead.core.selection.round_robin import RoundRobin
from fairlead.core.selection.selection import Selection
from fairlead.core.state import State
from fairlead.core.tables import zeros
from fairlead.errors import InputError

Row = tuple[type[Criterion], type[Selection], type[Placing]]
ROWS: dict[str, Row] = {
    "drf/first-fit": (DominantShare, FirstFit, Cycle),
    "drf/first-fit/residual": (ResidualDominantShare, FirstFit, Comparison),
    "drf/best-fit": (DominantShare, BestFit, Cycle),
    "drf/best-fit/residual": (ResidualDominantShare, BestFit, Comparison),
    "drf/best-fit-first": (DominantShare, BestFitFirst, BestFitFirstWay),
    "drf/best-fit-first/residual": (ResidualDominantShare, BestFitFirst, BestFitFirstWay),
    "drf/rrr": (DominantShare, FirstFit, RoundRobin),
    "drf/rrr/residual": (ResidualDominantShare, FirstFit, RoundRobin),
    "drf/rrr/oblivious": (DominantShare, FirstFit, Offers),
    "tsf/first-fit": (TaskShare, FirstFit, Cycle),
    "tsf/first-fit/residual": (ResidualTaskShare, FirstFit, Comparison),
    "tsf/best-fit": (TaskShare, BestFit, Cycle),
    "tsf/best-fit/residual": (ResidualTaskShare, BestFit, Comparison),
    "tsf/best-fit-first": (TaskShare, BestFitFirst, BestFitFirstWay),
    "tsf/best-fit-first/residual": (ResidualTaskShare, BestFitFirst, BestFitFirstWay),
    "tsf/rrr": (TaskShare, FirstFit, RoundRobin),
    "tsf/rrr/residual": (ResidualTaskShare, FirstFit, RoundRobin),
    "ps-dsf/first-fit": (PerServerShare, FirstFit, Cycle),
    "ps-dsf/best-fit": (PerServerShare, BestFit, Cycle),
    "ps-dsf/best-fit-first": (PerServerShare, BestFitFirst, BestFitFirstWay),
    "ps-dsf/joint": (ServerShare, FirstFit, Joint),
    "ps-dsf/joint/residual": (ResidualServerShare, FirstFit, Joint),
    "ps-dsf/rrr": (ServerShare, FirstFit, RoundRobin),
    "ps-dsf/rrr/residual": (ResidualServerShare, FirstFit, RoundRobin),
    "ps-dsf/rrr/oblivious": (ObliviousServerShare, FirstFit, Offers),
    "fifo/first-fit": (Submission, FirstFit, SubmissionCycle),
    "fifo/best-fit": (Submission, BestFit, SubmissionCycle),
    "easy/first-fit": (Backfilling, FirstFit, BackfillingCycle),
    "easy/best-fit": (Backfilling, BestFit, BackfillingCycle),
}
SLOTS_ROW: Row = (SlotShare, FirstFit, Cycle)
SLOTS = re.compile("slots:([0-9]{1,9})")
MOST_SLOTS = 1_000_000
WITH_TREES = (DominantShare, Submission)  # under these a `Cycle` serves queues below queues


class Policy:
    """A criterion, a selection and a way of placing that have a meaning together.

    Attributes
    ----------
    name : str
    slots : int
        The slots of the largest server; 0 where tasks take amounts.
    has_trees : bool
        Whether queues may stand below queues.
    is_oblivious : bool
        Whether demands are unknown.
    """

    def __init__(self, name: str, row: Row, slots: int = 0) -> None:
        self.name = name
        self.row = row
        self.slots = slots
        criterion, _, way = row
        self.has_trees = issubclass(way, Cycle) and issubclass(criterion, WITH_TREES)
        self.is_oblivious = way is Offers

    def make_counting(self, resources: i64, largest: list[int] | None) -> Counting:
        """Return how it counts amounts."""
        if self.slots:
            return Slots(resources, self.slots, largest)
        return Counting(resources)

    def make_placing(self, counting: Counting, rounds: Rounds, is_strict: bool) -> Placing:
        """Return a way of placing, with a state in which nothing is known yet."""
        make_criterion, make_selection, make_way = self.row
        width = counting.width
        if issubclass(make_criterion, Submission):
            return self.make_submission(counting, rounds)
        criterion = make_criterion(width)
        selection = make_selection(width, criterion.total)
        is_last_of_equals = make_selection is BestFitFirst
        state = State(counting, criterion, selection, is_last_of_equals, rounds)
        return make_way(state, is_strict)

    def make_submission(self, counting: Counting, rounds: Rounds) -> Placing:
        """Return a way of placing in the order of submission."""
        make_selection = self.row[1]
        width = counting.width
        total = zeros(width)
        mirrored = Mirrored(make_selection(width, total), make_selection(width, total))
        if self.row[0] is Backfilling:
            backfilling = Backfilling(width, mirrored)
            backfilling.total = total
            state = State(counting, backfilling, mirrored, False, rounds)
            return BackfillingCycle(state, backfilling)
        order = Submission(width, mirrored)
        order.total = total
        return SubmissionCycle(State(counting, order, mirrored, False, rounds), order)


def parse_policy(name: object) -> Policy:
    """Return the policy of a name such as ``drf/best-fit``."""
    if isinstance(name, str):
        found = SLOTS.fullmatch(name)
        if found:
            slots = int(found.group(1))
            if not 1 <= slots <= MOST_SLOTS:
                raise InputError(f"must be from 1 to {MOST_SLOTS:,}", "slots")
            return Policy(name, SLOTS_ROW, slots)
        row = ROWS.get(name)
        if row is not None:
            return Policy(name, row)
    raise InputError(f"no policy is named {name!r:.60}", "policy")
