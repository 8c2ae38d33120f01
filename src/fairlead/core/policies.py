"""The table of policies: a criterion ranks the queues, a selection names the server."""

from __future__ import annotations

import re

from mypy_extensions import i64

from fairlead.core.counting import Counting
from fairlead.core.criteria.criterion import Criterion
from fairlead.core.criteria.drf import DominantShare
from fairlead.core.criteria.ps_dsf import PerServerShare
from fairlead.core.criteria.slots import Slots, SlotShare
from fairlead.core.criteria.tsf import TaskShare
from fairlead.core.selection.best_fit import BestFit
from fairlead.core.selection.first_fit import FirstFit
from fairlead.core.selection.selection import Selection
from fairlead.errors import InputError

CRITERIA: dict[str, type[Criterion]] = {
    "drf": DominantShare,
    "tsf": TaskShare,
    "ps-dsf": PerServerShare,
    "slots": SlotShare,
}
SLOTS = re.compile("slots:([0-9]{1,9})")
MOST_SLOTS = 1_000_000
SELECTIONS = ("first-fit", "best-fit")
WITH_TREES = ("drf", "slots")  # criteria under which queues may stand below queues


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

    def make_criterion(self, width: i64) -> Criterion:
        """Return its criterion, for a number of amounts."""
        return CRITERIA[self.criterion](width)

    def make_selection(self, width: i64, criterion: Criterion) -> Selection:
        """Return its selection."""
        if self.selection == "best-fit":
            return BestFit(width, criterion.total)
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
        if name.startswith("slots/"):
            parts = []
        if len(parts) == 2 and parts[0] in CRITERIA and parts[1] in SELECTIONS:
            return Policy(name, parts[0], parts[1])
    raise InputError(f"no policy is named {name!r:.60}", "policy")
