"""The table of policies: a criterion ranks the queues, a selection names the server."""

from __future__ import annotations

import re

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.core.counting import Counting
from fairlead.core.criteria.criterion import Criterion
from fairlead.core.criteria.drf import DominantShare
from fairlead.core.criteria.easy import Backfilling, BackfillingCycle
from fairlead.core.criteria.fifo import Submission, SubmissionCycle
from fairlead.core.criteria.ps_dsf import PerServerShare
from fairlead.core.criteria.slots import Slots, SlotShare
from fairlead.core.criteria.tsf import TaskShare
from fairlead.core.cycle import Cycle
from fairlead.core.selection.best_fit import BestFit
from fairlead.core.selection.first_fit import FirstFit
from fairlead.core.selection.mirrored import Mirrored
from fairlead.core.selection.selection import Selection
from fairlead.core.state import State
from fairlead.core.tables import zeros
from fairlead.errors import InputError

CRITERIA: dict[str, type[Criterion]] = {
    "drf": DominantShare,
    "tsf": TaskShare,
    "ps-dsf": PerServerShare,
    "slots": SlotShare,
}
NAMED = ("drf", "tsf", "ps-dsf", "fifo", "easy")  # criteria that a selection goes with
IN_ORDER = ("fifo", "easy")  # criteria by the time of submission
SLOTS = re.compile("slots:([0-9]{1,9})")
MOST_SLOTS = 1_000_000
SELECTIONS = ("first-fit", "best-fit")
WITH_TREES = ("drf", "slots", "fifo", "easy")  # criteria under which queues may stand below queues


class Policy:
    """A criterion and a selection that have a meaning together.

    Attributes
    ----------
    name : str
    criterion, selection : str
    slots : int
        The slots of the largest server; 0 where tasks take amounts.
    has_trees : bool
        Whether queues may stand below queues.
    """

    def __init__(self, name: str, criterion: str, selection: str, slots: int = 0) -> None:
        self.name = name
        self.criterion = criterion
        self.selection = selection
        self.slots = slots
        self.has_trees = criterion in WITH_TREES

    def make_counting(self, resources: i64, largest: list[int] | None) -> Counting:
        """Return how it counts amounts."""
        if self.slots:
            return Slots(resources, self.slots, largest)
        return Counting(resources)

    def make_cycle(self, counting: Counting, is_strict: bool) -> Cycle:
        """Return a way of placing, with a state in which nothing is known yet."""
        width = counting.width
        if self.criterion in IN_ORDER:
            total = zeros(width)
            real, empty = self.make_selection(width, total), self.make_selection(width, total)
            mirrored = Mirrored(real, empty)
            if self.criterion == "easy":
                backfilling = Backfilling(width, mirrored)
                backfilling.total = total
                state = State(counting, backfilling, mirrored, False)
                return BackfillingCycle(state, backfilling)
            order = Submission(width, mirrored)
            order.total = total
            return SubmissionCycle(State(counting, order, mirrored, False), order)
        criterion = CRITERIA[self.criterion](width)
        selection = self.make_selection(width, criterion.total)
        return Cycle(State(counting, criterion, selection, False), is_strict)

    def make_selection(self, width: i64, total: vec[i64]) -> Selection:
        """Return its selection for a pool's total, which changes as servers come and go."""
        if self.selection == "best-fit":
            return BestFit(width, total)
        return FirstFit(width)


def parse_policy(name: object) -> Policy:
    """Return the policy of a name such as ``drf/best-fit``."""
    if isinstance(name, str):
        found = SLOTS.fullmatch(name)
        if found:
            slots = int(found.group(1))
            if not 1 <= slots <= MOST_SLOTS:
                raise InputError(f"must be from 1 to {MOST_SLOTS:,}", "slots")
            return Policy(name, "slots", "first-fit", slots)
        parts = name.split("/")
        if len(parts) == 2 and parts[0] in NAMED and parts[1] in SELECTIONS:
            return Policy(name, parts[0], parts[1])
    raise InputError(f"no policy is named {name!r:.60}", "policy")
