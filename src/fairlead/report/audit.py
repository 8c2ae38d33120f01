"""Documents of audits: properties that hold or fail, and each user's holdings and due share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from fairlead.model.cluster import BoolArray
from fairlead.model.ties import first_largest, first_smallest, largest_first, smallest_first
from fairlead.model.verdict import Verdict
from fairlead.properties import efficiency, envy, feasibility, sharing
from fairlead.properties.audit import AUDITED, Audit
from fairlead.report._audit_figures import (
    ENVY_SHOWN,
    LARGEST_MARGIN,
    by_gain,
    envy_figure,
    gain_text,
    margins_figure,
    shares_figure,
    users_in_envy,
)
from fairlead.report._fair_comparison import FairComparison, compare_with_fair
from fairlead.report._witness import witness_tables
from fairlead.report.allocation import DOMINANT_SHARE, size_of
from fairlead.report.charts import USERS_DRAWN
from fairlead.report.document import (
    FAILS,
    HOLDS,
    MUTED,
    UNKNOWN,
    Block,
    Column,
    Content,
    Document,
    Listing,
    Picture,
    Prose,
    Section,
    Statement,
    Table,
    Tiles,
    figure,
    numbers,
    words,
)
from fairlead.report.numbers import (
    UNCHANGED,
    amount,
    change,
    counted,
    named,
    percent,
    tasks_text,
)

NAMED = 10
# Properties that the holdings decide by themselves, unless some holdings are in doubt.
OF_HOLDINGS = frozenset((feasibility.NAME, efficiency.WASTE, sharing.NAME, envy.NAME))


@dataclass(frozen=True)
class ShareLimit:
    """The finding of ``--max-under``: whether a user is below its due share by more than a limit.

    With whole tasks, only users that lack at least one task count as below.
    """

    most: float  # the limit, relative to the due share, such as 0.2
    user: str  # the user furthest below its due share; empty if none is below
    under: float  # how far below, relative to the due share; NaN if a number is missing
    due: str  # name of the due shares
    doubt: str = ""  # why the audited amounts do not decide the finding; empty if they do
    beyond: Mapping[str, float] = field(default_factory=dict)  # `under` of users beyond the limit

    @property
    def finding(self) -> str:
        """``holds``, ``fails`` or ``unknown``."""
        if self.doubt:
            return UNKNOWN
        return HOLDS if self.under <= self.most else FAILS

    @property
    def holds(self) -> bool:
        """Whether all users are certainly within the limit."""
        return self.finding == HOLDS

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        under = None if np.isnan(self.under) else self.under
        values: dict[str, Any] = {"most": self.most, "user": self.user, "under": under}
        values |= {"due": self.due, "beyond": dict(self.beyond)}
        return values | {"holds": self.holds, "finding": self.finding}

    def statement(self) -> Statement:
        """Return a statement for the list of properties."""
        limit = f"at most {percent(self.most)} below the {self.due}"
        return Statement(self.finding, self.sentence, limit, self.finding)

    @property
    def sentence(self) -> str:
        """The finding in words."""
        if not self.user:
            found = f"no user is below the {self.due}"
        elif len(self.beyond) > 1:
            users = [f"{user} ({percent(under)})" for user, under in self.beyond.items()]
            found = f"{counted(len(users), 'user')} are below by more: {named(users, NAMED)}"
        else:
            by = "by an unknown amount" if np.isnan(self.under) else f"by {percent(self.under)}"
            found = f"{self.user} is furthest below, {by}"
        return f"{found}; not certain: {self.doubt}" if self.doubt else found


def share_limit_of(audit: Audit, most: float) -> ShareLimit:
    """Compare the user furthest below its due share with a limit."""
    comparison, holdings = compare_with_fair(audit), audit.subject.holdings
    under, doubts = -comparison.off, holdings.doubts
    names = audit.subject.problem.users.names
    missing = np.flatnonzero(np.isnan(under))
    if len(missing):
        return ShareLimit(most, names[missing[0]], np.nan, comparison.due_name)
    under[~comparison.below] = 0.0
    due_name = comparison.due_name
    if holdings.whole_tasks:
        due_name += " by a task or more"
    doubt = ""
    if doubts is not None:
        # A user that may hold more than was counted leaves all due shares as they are, but it may
        # itself not be below its due share.
        changes_due = doubts.wants.any() or doubts.servers or doubts.users
        certain = (under > most) & ~doubts.holds
        if changes_due or ((under > most).any() and not certain.any()):
            doubt = doubts.why
        elif certain.any():
            under[~certain] = 0.0
    n = int(np.argmax(under))
    if not under[n] > 0:
        return ShareLimit(most, "", 0.0, due_name, doubt)
    beyond = {
        names[k]: float(under[k]) for k in np.argsort(-under, kind="stable") if under[k] > most
    }
    return ShareLimit(most, names[n], float(under[n]), due_name, doubt, beyond)


def audit_document(
    audit: Audit, title: str, left_out: Sequence[str] = (), share_limit: ShareLimit | None = None
) -> Document:
    """Show which properties hold, each with its witness, and each user's holdings and due share.

    Parameters
    ----------
    audit : Audit
    title : str
        Name of the divided problem, such as its file's.
    left_out : sequence of str
        Users that were left out because they fit no server, and why.
    share_limit : ShareLimit, optional
        The finding of ``--max-under``, shown below the properties.

    Returns
    -------
    Document
        Rendering costs O(N (G + R)) time and characters, and O(K^3 G R) more for the picture of
        envy among K users, if there are few.
    """
    subject, comparison = audit.subject, compare_with_fair(audit)
    pooled = subject.problem.n_groups == 1 and subject.given.n_groups > 1
    one_pool = ", taken as one pool, as by the mechanism" if pooled else ""
    resources = counted(subject.given.n_resources, "resource")
    # Properties that do not apply come last.
    verdicts = sorted(audit, key=lambda verdict: not verdict.applies)
    blocks: list[Block] = [
        _shares(audit, comparison),
        Section(
            "Property by property",
            [
                *(_statement(audit, verdict) for verdict in verdicts),
                *([] if share_limit is None else [share_limit.statement()]),
            ],
        ),
        Section("Holdings and due shares", list(_over_and_under(audit, comparison))),
    ]
    if comparison.envies.any():
        blocks.append(Section("Envy", [_envy(audit, comparison)], page_only=True))
    blocks += [
        Section("Margins over a slice of every server", [_margins(comparison, audit)], True),
        Section("All users", [_users(audit, comparison)]),
    ]
    if audit.due_nothing:
        users = named(audit.due_nothing, NAMED)
        blocks.append(Prose(f"Due nothing, without a task or of weight 0: {users}.", "small"))
    blocks += _beyond_verdicts(audit)
    return Document(
        title,
        f"audit of {subject.name}",
        f"audit of {subject.name}: {size_of(audit.whole.given)}, {resources}{one_pool}",
        _verdict(audit, comparison, share_limit),
        blocks,
        lambda: (
            audit.to_dict() | ({} if share_limit is None else {"max_under": share_limit.to_dict()})
        ),
        left_out,
    )


def _beyond_verdicts(audit: Audit) -> Iterator[Listing]:
    """List tasks and users outside all verdicts, and constraints outside the model."""
    holdings, names = audit.subject.holdings, audit.subject.problem.users.names
    undecided = [task for task in holdings.waiting if task.undecided]
    for heading, noun, lines, kind in (
        (
            "waiting, and due nothing: no server could run",
            "task",
            [f"{task.name} ({task.user}): {task.why}" for task in holdings.unrunnable],
            "",
        ),
        ("due nothing:", "user", [f"{user.name}: {user.why}" for user in holdings.idle], ""),
        (
            "waiting under constraints that are not modelled:",
            "task",
            [f"{task.name} ({names[task.user]}): {task.undecided}" for task in undecided],
            "",
        ),
        ("used or requested, and not modelled:", "note", holdings.not_modelled, "warning"),
        ("skipped:", "row", holdings.skipped, "warning"),
    ):
        if lines:
            yield Listing(lines, f"{heading} {counted(len(lines), noun)}", kind)


def _verdict(
    audit: Audit, comparison: FairComparison, share_limit: ShareLimit | None = None
) -> Statement:
    """Name the failed properties, and count the users below their share or in envy."""
    names = audit.subject.problem.users.names
    fail = [verdict.name for verdict in audit if verdict.verdict == "fails"]
    unknown = [verdict.name for verdict in audit if verdict.verdict == "unknown"]
    text = "No property fails"
    if fail:
        text = f"{len(fail)} of {len(audit)} properties fail: {', '.join(fail)}"
    elif unknown:
        text += f"; not decided: {', '.join(unknown)}"
    if share_limit is not None and not share_limit.holds:
        by = f"more than {percent(share_limit.most)} below"
        found = f"{share_limit.user} is {by} its due share"
        if len(share_limit.beyond) > 1:
            found = f"{named(list(share_limit.beyond), NAMED)} are {by} their due shares"
        if share_limit.doubt:
            found = "It is not certain that no user is too far below its due share"
        text = f"{found}. {text}" if fail or unknown else found
    counts = []
    if audit.fair is not None:
        by = f"below the fair share by {audit.fair.mechanism}"
        counts.append(_count_of(names, comparison.below, by))
    elif comparison.short.any() or sharing.NAME not in unknown:
        counts.append(_count_of(names, comparison.short, "below the slice of every server"))
    idle = audit.subject.holdings.user_tasks == 0
    if idle.any():
        counts.append(_count_of(names, idle, "without a task"))
    if missing := int(np.isnan(comparison.ratio).sum()):
        counts.append(f"with a missing number: {counted(missing, 'user')}")
    elif comparison.envies.any() or envy.NAME not in unknown:
        counts.append(_count_of(names, comparison.envies, "envious"))
    decided = any(verdict.verdict == "holds" for verdict in audit)
    is_open = bool(OF_HOLDINGS.intersection(unknown)) or not decided
    is_refused = not audit.holds or (share_limit is not None and not share_limit.holds)
    kind = FAILS if is_refused else UNKNOWN if is_open else HOLDS
    listed = "; ".join(counts)
    return Statement(kind, f"{text}. Users {listed}." if counts else f"{text}.")


def _count_of(names: Sequence[str], chosen: BoolArray, what: str) -> str:
    """Count the chosen users, or name a single one: ``envious: ana``."""
    count = int(chosen.sum())
    users = names[int(chosen.argmax())] if count == 1 else f"{count:,} of {len(names):,}"
    return f"{what}: {users if count else 'none'}"


def _shares(audit: Audit, comparison: FairComparison) -> Picture:
    known = ~np.isnan(comparison.ratio)
    chosen, missing = "", ""
    if known.sum() > USERS_DRAWN:
        half = USERS_DRAWN // 2
        chosen = (
            f"The {half} users furthest over and the {half} furthest under, of {len(known):,}. "
        )
    if not known.all():
        missing = f" Without {counted(int((~known).sum()), 'user')}: a number is missing."
    return Picture(
        f"{chosen}Dots: dominant shares. {DOMINANT_SHARE}. Diamonds: {comparison.due_name}, as a "
        "dominant share. Percentages are the differences of dots from diamonds, which sort the "
        f"users.{missing}",
        lambda: shares_figure(audit, comparison),
        "Dominant share of each user and its due share; the numbers are in the table below",
    )


def _statement(audit: Audit, verdict: Verdict) -> Statement:
    unit = AUDITED[verdict.name].cases
    detail = ""
    if verdict.detail and verdict.detail not in verdict.sentence:
        detail = verdict.detail
    elif verdict.searched and unit and not verdict.detail:
        detail = f"looked at: {counted(verdict.searched, unit)}"
    fails = verdict.verdict == "fails"
    tasks = audit.subject.holdings.user_tasks
    return Statement(
        verdict.verdict if verdict.applies else MUTED,
        verdict.sentence,
        verdict.name,
        "FAILS" if fails else verdict.verdict,
        detail,
        witness_tables(verdict, audit.subject.given, tasks) if fails else (),
    )


def _over_and_under(audit: Audit, comparison: FairComparison) -> Iterator[Block]:
    """Count users below their share or in envy, and list those furthest from the fair share."""
    yield _tiles(audit, comparison)
    if audit.fair is None:
        return
    names = audit.subject.problem.users.names
    lines = []
    for word, order, chosen in (
        ("over", largest_first(comparison.ratio), comparison.off >= UNCHANGED),
        ("under", smallest_first(comparison.ratio), comparison.below),
    ):
        off = [f"{names[n]} ({change(float(comparison.off[n]))})" for n in order if chosen[n]]
        if off:
            lines.append(f"{word} the {comparison.due_name}: {named(off, NAMED)}")
    if lines:
        yield Listing(lines)


def _tiles(audit: Audit, comparison: FairComparison) -> Tiles:
    """Count users below fair share, below slice, and in envy, with the worst case of each."""
    names, gain = audit.subject.problem.users.names, audit.envy.gain

    def count(chosen: BoolArray) -> str:
        return f"{int(chosen.sum()):,} of {len(names):,}"

    tiles = []
    if audit.fair is not None:
        worst = ""
        if comparison.below.any():
            n = first_smallest(np.where(comparison.below, comparison.ratio, np.inf))
            worst = f"furthest: {names[n]}, {change(float(comparison.off[n]))}"
        label = f"users below their fair share by {audit.fair.mechanism}"
        tiles.append((label, count(comparison.below), worst, None))
    worst = ""
    if comparison.short.any():
        n = first_smallest(np.where(comparison.short, 1 + comparison.margin, np.inf))
        worst = f"furthest: {names[n]}, {change(float(comparison.margin[n]), 'under 0.1 %')}"
    if comparison.below_tiny.any():
        worst += (
            f"{'; ' if worst else ''}{count(comparison.below_tiny)} not judged: "
            "slice under one task"
        )
    tiles.append(("users below their slice of every server", count(comparison.short), worst, None))
    worst = ""
    if comparison.envies.any():
        n = first_largest(1 + np.where(comparison.envies, gain, 0.0))
        worst = f"largest gain: {names[n]}, {gain_text(float(gain[n]))}"
    envious = "not known" if np.isnan(comparison.ratio).any() else count(comparison.envies)
    return Tiles([*tiles, ("users that envy", envious, worst, None)])


def _envy(audit: Audit, comparison: FairComparison) -> Picture | Table:
    """Draw the envy among a few users, or list it for many."""
    involved, found = users_in_envy(audit, comparison), audit.envy
    scaled = "Bundles are scaled by weight, and of use only where a user may run."
    if len(involved) <= ENVY_SHOWN:
        return Picture(
            "By how much the user of the row would run more tasks with the bundle of the user of "
            f"the column: the darker, the more. Gains above {change(LARGEST_MARGIN)} have one "
            f"colour. {scaled} Users that neither envy nor are envied most are left out.",
            lambda: envy_figure(audit, comparison, involved),
            "By how much each user would gain with the bundle of another",
        )
    names, order = audit.subject.problem.users.names, by_gain(audit, comparison)

    def row(k: int) -> list[Content]:
        n = int(order[k])
        return [
            names[n],
            names[int(found.envied[n])],
            figure(float(audit.subject.holdings.user_tasks[n])),
            figure(float(found.could[n])),
            figure(float(found.gain[n]), gain_text),
        ]

    return Table(
        "Users that envy another, the largest gain first",
        [*words("user", "envies most"), *numbers("tasks", "with its bundle", "gain")],
        len(order),
        row,
        each="user",
        rest="that would gain less",
        note=scaled,
    )


def _margins(comparison: FairComparison, audit: Audit) -> Picture:
    notes = [f"Users that fall short: {int(comparison.short.sum()):,}."]
    if len(comparison.margin) > USERS_DRAWN:
        notes.append(f"The {USERS_DRAWN} least of {len(comparison.margin):,} margins.")
    if float(np.nanmax(comparison.margin, initial=0.0)) > LARGEST_MARGIN:
        notes.append(f"Margins above {change(LARGEST_MARGIN)} are drawn as that.")
    if audit.subject.holdings.whole_tasks:
        notes.append("Tasks are whole: a user that lacks less than one does not fall short.")
    return Picture(
        "Tasks of each user, relative to the tasks of its slice of every server, by weight. "
        f"Users below zero would be better off alone. {' '.join(notes)}",
        lambda: margins_figure(audit, comparison),
        "Margin of each user over its slice of every server; the numbers are in the table below",
    )


def _users(audit: Audit, comparison: FairComparison) -> Table:
    """Tabulate each user's holdings, due share, slice and envy."""
    problem, holdings, fair = audit.subject.problem, audit.subject.holdings, audit.fair
    names, widest = problem.users.names, float(np.nanmax(comparison.held, initial=0.0)) or 1.0

    def change_cell(off: float, is_bad: bool) -> Content:
        return figure(off, lambda v: change(v, "as due"), kind="bad" if is_bad else "")

    def row(n: int) -> list[Content]:
        held = float(comparison.held[n])
        cells: list[Content] = [names[n], figure(float(problem.weight[n]))]
        cells.append(figure(float(holdings.user_tasks[n])))
        if waits:
            cells.append(figure(audit.waiting[n]))
        cells.append(figure(held, percent, part=None if np.isnan(held) else held / widest))
        if fair is not None:
            cells += [
                figure(float(fair.user_tasks[n])),
                figure(float(comparison.due[n]), percent),
                change_cell(float(comparison.off[n]), bool(comparison.below[n])),
            ]
        cells.append(figure(float(audit.slices[n])))
        cells.append(change_cell(float(comparison.margin[n]), bool(comparison.short[n])))
        if envies:
            envied = names[int(audit.envy.envied[n])]
            text = f"{envied}: {tasks_text(float(audit.envy.could[n]))}"
            cells.append(text if comparison.envies[n] else "")
        if is_given:
            cells.append(_held_amounts(audit, n))
        return cells

    waits, envies = any(audit.waiting), bool(comparison.envies.any())
    is_given = audit.subject.divide is None
    columns: list[Column] = [*words("user"), *numbers("weight", "tasks")]
    columns += numbers("waiting") if waits else []
    columns += numbers("dominant share")
    columns += numbers("fair tasks", "fair share", "over/under") if fair is not None else []
    columns += numbers("slice", "margin")
    columns += words("envies") if envies else []
    columns += words("holds") if is_given else []
    note = (
        f"{DOMINANT_SHARE}. slice: the tasks that the user could run on its slice of every server, "
        "by weight; margin: its tasks relative to the slice's. over/under: its dominant share "
        "relative to the fair one. envies: the user it envies most, and its own tasks with the "
        "bundle of that user."
    )
    if holdings.whole_tasks:
        note += " Tasks are whole: a user that lacks less than one does not fall short."
        note += " Fair tasks are divisible; whole ones may be far off." if fair is not None else ""
    size = np.nan_to_num(comparison.held)
    about = "Users, their holdings and their due shares"
    return Table(about, columns, problem.n_users, row, size=size, each="user", note=note)


def _held_amounts(audit: Audit, n: int) -> str:
    cluster = audit.subject.problem.cluster
    amounts = audit.subject.holdings.user_amounts[n].tolist()
    return ", ".join(
        f"{resource} {amount(held, unit) if isfinite(held) else '–'}"
        for held, unit, resource in zip(amounts, cluster.units, cluster.resources, strict=True)
        if held != 0
    )
