"""Documents of audits: verdicts with witnesses, and each user's holdings and due share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from fairlead.model.cluster import BoolArray
from fairlead.model.verdict import Verdict
from fairlead.properties import efficiency, envy, feasibility, sharing
from fairlead.properties.audit import AUDITED, Audit
from fairlead.report._fair_comparison import FairComparison, compare_with_fair, shares_figure
from fairlead.report.allocation_document import DOMINANT_SHARE, size_of
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
    figure,
    numbers,
    pairs_table,
    words,
)
from fairlead.report.numbers import amount, change, counted, named, percent, tasks_text

NAMED = 10
# Properties that the holdings decide by themselves, unless some holdings are in doubt.
OF_HOLDINGS = frozenset((feasibility.NAME, efficiency.WASTE, sharing.NAME, envy.NAME))
LISTED = 40  # users, servers or numbers in a cell of a witness


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
        """Return the finding as a statement for the list of properties."""
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
    """Return the finding whether the user furthest below its due share is within a limit."""
    comparison, holdings = compare_with_fair(audit), audit.subject.holdings
    under = -comparison.off
    names = audit.subject.problem.users.names
    missing = np.flatnonzero(np.isnan(under))
    if len(missing):
        return ShareLimit(most, names[missing[0]], np.nan, comparison.due_name)
    under[~comparison.below] = 0.0
    due_name = comparison.due_name
    if holdings.whole_tasks:
        due_name += " by a task or more"
    n, doubt = int(np.argmax(under)), holdings.incomplete
    if not under[n] > 0:
        return ShareLimit(most, "", 0.0, due_name, doubt)
    beyond = {
        names[k]: float(under[k]) for k in np.argsort(-under, kind="stable") if under[k] > most
    }
    return ShareLimit(most, names[n], float(under[n]), due_name, doubt, beyond)


def audit_document(audit: Audit, title: str, share_limit: ShareLimit | None = None) -> Document:
    """Return the document of an audit: properties with witnesses, and held and due shares.

    `share_limit` is the finding of ``--max-under``. Rendering costs O(N (G + R)) time and
    characters.
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
                *(_statement(verdict) for verdict in verdicts),
                *([] if share_limit is None else [share_limit.statement()]),
            ],
        ),
    ]
    blocks.append(Section("All users", [_users(audit, comparison)]))
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


def _statement(verdict: Verdict) -> Statement:
    unit = AUDITED[verdict.name].cases
    detail = ""
    if verdict.detail and verdict.detail not in verdict.sentence:
        detail = verdict.detail
    elif verdict.searched and unit and not verdict.detail:
        detail = f"looked at: {counted(verdict.searched, unit)}"
    fails = verdict.verdict == "fails"
    return Statement(
        verdict.verdict if verdict.applies else MUTED,
        verdict.sentence,
        verdict.name,
        "FAILS" if fails else verdict.verdict,
        detail,
        [witness_table(verdict)] if fails else (),
    )


def _users(audit: Audit, comparison: FairComparison) -> Table:
    """Tabulate each user's holdings, due share, slice and envy."""
    problem, holdings, fair = audit.subject.problem, audit.subject.holdings, audit.fair
    names = problem.users.names

    def change_cell(off: float, is_bad: bool) -> Content:
        return figure(off, lambda v: change(v, "as due"), kind="bad" if is_bad else "")

    def row(n: int) -> list[Content]:
        held = float(comparison.held[n])
        cells: list[Content] = [names[n], figure(float(problem.weight[n]))]
        cells.append(figure(float(holdings.user_tasks[n])))
        if waits:
            cells.append(figure(audit.waiting[n]))
        cells.append(figure(held, percent))
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
        "by weight; margin: its tasks relative to the slice's."
    )
    if fair is not None:
        note += " over/under: its dominant share relative to the fair one."
    if envies:
        note += " envies: the user it envies most, and its own tasks with that user's bundle."
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


def witness_table(verdict: Verdict) -> Table:
    """Tabulate the keys of a witness and its numbers, with seven digits."""
    pairs = [(key.replace("_", " "), _in_words(value)) for key, value in verdict.witness.items()]
    if isfinite(verdict.severity) and verdict.severity > 0:
        pairs.append(("off by", f"{100 * verdict.severity:.4g} %"))
    return pairs_table("Witness", pairs)


def exact(value: float) -> str:
    """Format a number with seven digits, enough to check a witness."""
    if not isfinite(value):
        return "unlimited" if value > 0 else str(value)
    is_whole = float(value).is_integer() and abs(value) < 1e12
    return f"{value:,.0f}" if is_whole else f"{value:,.7g}"


def _in_words(value: Any) -> str:
    """Format any value of a witness as text."""
    if isinstance(value, Mapping):
        return named([_pair_in_words(key, item) for key, item in value.items()], LISTED)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return named([_in_words(item) for item in value], LISTED)
    if isinstance(value, float | int) and not isinstance(value, bool):
        return exact(value)
    return str(value)


def _pair_in_words(key: str, value: Any) -> str:
    text = _in_words(value)
    return f"{key} ({text})" if isinstance(value, Mapping) else f"{key} {text}"
