"""The table of policies: who is next (the criterion) and where a task goes (the selection).

A criterion or a selection is a row here and a module of its own, which holds the kernel that is
named in the row. Nothing here is compiled, so that a name can be refused at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from fairlead.errors import InputError, RefusalError
from fairlead.model.arguments import switch

# How a queue's key comes about: from what it holds, as the sum of what its tasks add, from when its
# first group was submitted; or there is none, since scores are those on the server in view, or with
# the task at hand.
DRF, SUMMED, FIFO, ON_SERVER, AT_HAND = 0, 1, 2, 3, 4
MOST_SLOTS = 1_000_000


class Criterion(NamedTuple):
    """Whose turn it is.

    Attributes
    ----------
    key : int
        How a queue's key comes about.
    is_alike : bool
        Whether a queue scores alike on every server.
    by_place : bool
        Whether servers count only for tasks that may run there.
    takes_demands : bool
        Whether a score takes to know what the next task demands.
    places : str
        The kernel that places, where that is not the selection's.
    backfills : bool
        Whether there is a reservation, and time limits matter.
    """

    key: int
    is_alike: bool = True
    by_place: bool = False
    takes_demands: bool = False
    places: str = ""
    backfills: bool = False


class Selection(NamedTuple):
    """Where a task goes.

    Attributes
    ----------
    places, residual, oblivious : str
        The kernel that places, as module and name: plainly, by residual scores, or where demands
        are unknown; empty where there is none. Braces stand for the criterion.
    scanned : str
        The kernel that places by residual scores, or else plainly, where gangs wait; empty where it
        is the same as without.
    indexed : str
        What the index of free amounts holds: ``"fitting"`` servers that some task fits on,
        ``"all"`` servers, or nothing.
    on_server : bool
        Whether scores relate to the server in view, where they are not alike on all of them.
    last_of_equals : bool
        Whether of equal queues the one added last is first.
    """

    places: str = ""
    residual: str = ""
    oblivious: str = ""
    scanned: str = ""
    indexed: str = ""
    on_server: bool = False
    last_of_equals: bool = False


CRITERIA = {
    "drf": Criterion(DRF),
    "tsf": Criterion(SUMMED, takes_demands=True),
    "ps-dsf": Criterion(SUMMED, is_alike=False, by_place=True),
    "fifo": Criterion(FIFO, places="fifo.place_oldest"),
    "easy": Criterion(FIFO, places="backfilling.place_or_backfill", backfills=True),
}
SELECTIONS = {
    "first-fit": Selection(
        "cycle.place",
        residual="placing_at_hand.place_by_residual_{}",
        scanned="scanning.place_by_scan",
    ),
    "best-fit": Selection(
        "cycle.place",
        residual="placing_at_hand.place_by_residual_{}",
        scanned="scanning.place_by_scan",
        indexed="fitting",
    ),
    "best-fit-first": Selection(
        "favourites.place_on_best",
        residual="placing_at_hand.place_on_best_by_residual_{}",
        scanned="scanning.place_on_best_by_scan",
        indexed="all",
        last_of_equals=True,
    ),
    "rrr": Selection(
        "round_robin.visit_servers",
        residual="round_robin.visit_by_residual",
        oblivious="offering.make_offers",
        on_server=True,
    ),
    "joint": Selection(
        "placing_at_hand.place_jointly",
        residual="placing_at_hand.place_jointly",
        scanned="scanning.place_by_scan",
        on_server=True,
    ),
}


class Policy(NamedTuple):
    """A criterion and a selection that have a meaning together.

    Attributes
    ----------
    criterion, select : str
        Their names.
    residual : bool
        Whether free amounts stand for capacities in the score.
    oblivious : bool
        Whether demands are unknown: all that a server has free is offered to a queue, which takes
        what it can use and declines the rest for a while (Kesidis et al., VI).
    slots : int
        Slots into which the largest server is cut; tasks take whole ones (Wang, Liang and
        Li, VI); 0 where tasks take amounts.
    """

    criterion: str
    select: str
    residual: bool = False
    oblivious: bool = False
    slots: int = 0

    @property
    def name(self) -> str:
        """The name by which `parse_policy` gives this policy."""
        if self.slots:
            return f"slots:{self.slots}"
        forms = "/residual" * self.residual + "/oblivious" * self.oblivious
        return f"{self.criterion}/{self.select}{forms}"

    @property
    def is_random(self) -> bool:
        """Whether another seed may give another answer."""
        return self.select == "rrr"

    @property
    def key(self) -> int:
        """How a queue's key comes about."""
        criterion, selection = CRITERIA[self.criterion], SELECTIONS[self.select]
        if self.is_at_hand and self.select != "rrr":
            return AT_HAND
        is_on_server = selection.on_server and (self.residual or not criterion.is_alike)
        return ON_SERVER if is_on_server else criterion.key

    @property
    def has_trees(self) -> bool:
        """Whether queues may have queues below them."""
        by_share = self.key == DRF and self.select in ("first-fit", "best-fit")
        return self.key == FIFO or by_share

    @property
    def backfills(self) -> bool:
        """Whether there is a reservation, and time limits matter."""
        return CRITERIA[self.criterion].backfills

    @property
    def is_at_hand(self) -> bool:
        """Whether scores relate to the task at hand."""
        return self.select == "joint" or self.residual

    @property
    def indexed(self) -> str:
        """What the index of free amounts holds; see `Selection`."""
        if self.select == "joint" and self.residual:
            return "fitting"
        return SELECTIONS[self.select].indexed

    @property
    def kernel(self) -> Any:
        """The kernel that places."""
        criterion, selection = CRITERIA[self.criterion], SELECTIONS[self.select]
        named = criterion.places or selection.places
        if self.residual or self.oblivious:
            named = selection.residual if self.residual else selection.oblivious
        return _kernel(named.format(self.criterion))

    @property
    def scan(self) -> Any:
        """The kernel that places where gangs wait; None where it is the same as without."""
        row = SELECTIONS[self.select]
        plainly = not self.residual and row.places == "cycle.place"
        return _kernel(row.scanned) if row.scanned and not plainly else None


def _kernel(named: str) -> Any:
    module, name = named.split(".")
    return getattr(import_module(f"fairlead.scheduler.{module}"), name)


def find_policy(
    criterion: str, select: str, residual: bool = False, oblivious: bool = False
) -> Policy:
    """Return the policy of that criterion and selection.

    Raises
    ------
    InputError
        When the criterion or the selection is not known.
    RefusalError
        When they have no meaning together.
    """
    policy = Policy(criterion, select, switch(residual, "residual"))
    if criterion not in CRITERIA:
        known = ", ".join(CRITERIA)
        raise InputError(f"no criterion is named {criterion!r}; known: {known}", "criterion")
    if select not in SELECTIONS:
        known = ", ".join(SELECTIONS)
        raise InputError(f"no selection is named {select!r}; known: {known}", "select")
    row = CRITERIA[criterion]
    if row.places and (residual or oblivious or select not in ("first-fit", "best-fit")):
        raise RefusalError(
            policy.name, f"{criterion} has no scores of users; take first-fit or best-fit"
        )
    if select == "joint" and row.is_alike:
        raise RefusalError(
            policy.name,
            f"{criterion} scores a user alike on every server, so there is no pair to choose; "
            "take first-fit or best-fit",
        )
    if residual and not row.is_alike and not SELECTIONS[select].on_server:
        raise RefusalError(
            policy.name,
            f"{select} chooses the user before the server, by the sum of its scores over the "
            "servers, which is infinite once one of them is full; take joint or rrr",
        )
    offered = policy._replace(oblivious=oblivious)
    if oblivious and select != "rrr":
        raise RefusalError(offered.name, "offers go round the servers; take rrr")
    if oblivious and row.takes_demands:
        raise RefusalError(
            offered.name,
            f"{criterion} divides by the tasks a user could run, which takes demands",
        )
    return offered


def every_policy() -> list[str]:
    """Return the names of all policies that have a meaning, with one number of slots."""
    found = ["slots:8"]
    for criterion in CRITERIA:
        for select in SELECTIONS:
            for form in ("", "/residual", "/oblivious"):
                try:
                    found.append(parse_policy(f"{criterion}/{select}{form}").name)
                except RefusalError:
                    continue
    return found


def parse_policy(name: str) -> Policy:
    """Return the policy of a name: ``drf/best-fit``, ``ps-dsf/joint/residual``, ``slots:14``.

    Raises
    ------
    InputError
        When the name is none.
    RefusalError
        When its parts have no meaning together.
    """
    if isinstance(name, str) and name.startswith("slots:"):
        return Policy("drf", "first-fit", slots=_slots(name))
    criterion, *rest = name.split("/") if isinstance(name, str) else [""]
    forms = rest[1:]
    if not rest or any(form not in ("residual", "oblivious") for form in forms):
        grammar = (
            "CRITERION/SELECTION with /residual or /oblivious after it, or slots:S; "
            f"criteria: {', '.join(CRITERIA)}; selections: {', '.join(SELECTIONS)}"
        )
        raise InputError(f"no policy is named {name!r:.60}; known: {grammar}", "policy")
    if len(forms) > 1:
        raise RefusalError(name, "residual and oblivious do not go together, nor does one twice")
    return find_policy(criterion, rest[0], "residual" in forms, "oblivious" in forms)


def _slots(name: str) -> int:
    digits = name.removeprefix("slots:")
    is_number = digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) < 8
    if not is_number or not 1 <= int(digits) <= MOST_SLOTS:
        fault = f"takes a number from 1 to {MOST_SLOTS:,} for the largest server, not {digits!r}"
        raise InputError(f"slots: {fault}", "policy")
    return int(digits)
