"""Documents of audits: which properties hold, and who holds what beside what is due."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fairlead.model.cluster import BoolArray
from fairlead.model.ties import first_largest, first_smallest, largest_first, smallest_first
from fairlead.model.verdict import Verdict
from fairlead.properties import efficiency, envy, feasibility, sharing
from fairlead.properties.audit import AUDITED, Audit
from fairlead.report.against_fair import AgainstFair, against_fair
from fairlead.report.allocation import DOMINANT_SHARE, size_of
from fairlead.report.audit_figures import (
    ENVY_SHOWN,
    LARGEST_MARGIN,
    ROWS,
    by_gain,
    envy_figure,
    gained,
    margins_figure,
    ratios_figure,
    shares_figure,
    users_in_envy,
)
from fairlead.report.document import (
    FAILS,
    HOLDS,
    MUTED,
    PAGE,
    UNKNOWN,
    Block,
    Cell,
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
    words,
)
from fairlead.report.numbers import (
    UNCHANGED,
    amount,
    change,
    counted,
    named,
    number,
    percent,
)
from fairlead.report.witness import BEYOND, witness_blocks

NAMED = 5
# What holdings alone decide, unless a part of them is in doubt.
OF_WHAT_IS_HELD = frozenset((feasibility.NAME, efficiency.WASTE, sharing.NAME, envy.NAME))


def audit_document(audit: Audit, title: str, left_out: Sequence[str] = ()) -> Document:
    """Show which properties hold, each with its witness, and everybody beside what is due.

    Parameters
    ----------
    audit : Audit
    title : str
        What was divided, such as the problem file's name.
    left_out : sequence of str
        Users that were left out because they fit no server, and why.

    Notes
    -----
    Rendering costs O(N (G + R)) time and characters, and O(K^3 G R) for the K users in envy if
    these are few.
    """
    subject, against = audit.subject, against_fair(audit)
    pooled = subject.problem.n_groups == 1 and subject.given.n_groups > 1
    one_pool = ", judged as one pool, as it sees them" if pooled else ""
    resources = counted(subject.given.n_resources, "resource")
    # A property with nothing to ask says least.
    verdicts = sorted(audit, key=lambda verdict: not verdict.applies)
    blocks: list[Block] = [
        _shares(audit, against),
        Section("Property by property", [_statement(audit, verdict) for verdict in verdicts]),
        Section("Who holds what, beside what is due", list(_beside_due(audit, against))),
    ]
    if against.envies.any():
        blocks.append(Section("Who envies another", list(_envy(audit, against)), only=PAGE))
    blocks += [
        Section("Would a slice of every server be better?", [_margins(audit, against)]),
        Section("Everybody", [_users(audit, against)]),
    ]
    if audit.due_nothing:
        users = named(audit.due_nothing, NAMED)
        blocks.append(Prose(f"Due nothing, without a task or of weight 0: {users}.", "small"))
    blocks += _beyond_verdicts(audit)
    return Document(
        title,
        f"audit of {subject.name}",
        f"audit of {subject.name}: {size_of(audit.whole.given)}, {resources}{one_pool}",
        _opening(audit, against),
        blocks,
        audit.to_dict,
        left_out,
    )


def _beyond_verdicts(audit: Audit) -> Iterator[Listing]:
    """List tasks and users that no verdict counts, and constraints beyond the model."""
    holdings, names = audit.subject.holdings, audit.subject.problem.users.names
    never = [f"{task.name} ({task.user}): {task.why}" for task in holdings.unrunnable]
    if never:
        what = f"waiting, and due nothing: no server could run {counted(len(never), 'task')}"
        yield Listing(never, what)
    if holdings.idle:
        idle = [f"{user.name}: {user.why}" for user in holdings.idle]
        yield Listing(idle, f"due nothing: {counted(len(idle), 'user')}")
    undecided = [
        f"{task.name} ({names[task.user]}): {task.undecided}"
        for task in holdings.waiting
        if task.undecided
    ]
    if undecided:
        what = f"waiting under constraints that are not modelled: {counted(len(undecided), 'task')}"
        yield Listing(undecided, what)
    if holdings.not_modelled:
        yield Listing(holdings.not_modelled, "taken or asked for, and not modelled", "warning")
    if skipped := holdings.skipped:
        yield Listing(skipped, f"skipped: {counted(len(skipped), 'row')}", "warning")


def _opening(audit: Audit, against: AgainstFair) -> Statement:
    """Describe in a sentence the victims, and the properties that fail."""
    names = audit.subject.problem.users.names
    parts = [
        _some(
            names,
            wronged := against.short,
            "runs less than it would on its slice of every server",
            "run less than they would on their slices of every server",
        )
    ]
    if audit.fair is not None:
        by = audit.fair.mechanism
        one, several = f"its fair share by {by}", f"their fair share by {by}"
        wronged = against.below
        parts = [_some(names, wronged, f"holds less than {one}", f"hold less than {several}")]
    fail = [verdict.name for verdict in audit if verdict.verdict == "fails"]
    unknown = [verdict.name for verdict in audit if verdict.verdict == "unknown"]
    if audit.fair is None and sharing.NAME in unknown and not wronged.any():
        parts.clear()  # some users may run less
    idle = np.flatnonzero(audit.subject.holdings.user_tasks == 0)
    if len(idle):
        parts.append(f"{named([names[n] for n in idle], NAMED)} got nothing")
    if missing := int(np.isnan(against.ratio).sum()):
        parts.append(f"a number is missing of {counted(missing, 'user')}")
    elif against.envies.any() or envy.NAME not in unknown:
        envious = int(against.envies.sum())
        several = f"{envious:,} envy another"
        one = _some(names, against.envies, "envies another", "")
        parts.append(several if envious > 1 else one)
    said = "no property fails"
    if fail:
        verb = "fails" if len(fail) == 1 else "fail"
        said = f"{len(fail)} of {len(audit)} properties {verb}: {', '.join(fail)}"
    elif unknown:
        said += f"; not decided: {', '.join(unknown)}"
    who = "; ".join(parts)
    if who:
        who = f"{who[0].upper() if who.startswith('nobody') else who[0]}{who[1:]}."
    said = f"{said[0].upper()}{said[1:]}."
    # First what the mark before the sentence stands for.
    fine = not (wronged.any() or len(idle) or missing or against.envies.any())
    order = (said, who) if fine == bool(fail) else (who, said)
    decided = any(verdict.verdict == "holds" for verdict in audit)
    is_open = bool(OF_WHAT_IS_HELD.intersection(unknown)) or not decided
    kind = FAILS if not audit.holds else UNKNOWN if is_open else HOLDS
    return Statement(kind, " ".join(order).strip())


def _some(names: Sequence[str], whose: BoolArray, does: str, do: str) -> str:
    """Count the users who are it; name the one if there is one only."""
    count = int(whose.sum())
    if count > 1:
        return f"{count:,} of {len(names):,} users {do}"
    return f"{names[int(whose.argmax())]} {does}" if count else f"nobody {does}"


def _shares(audit: Audit, against: AgainstFair) -> Picture:
    known = ~np.isnan(against.ratio)
    chosen, missing = "", ""
    if known.sum() > ROWS:
        chosen = f"The {ROWS // 2} users furthest over and the {ROWS // 2} furthest under, "
        chosen += f"of {len(known):,}. "
    if not known.all():
        missing = f" Without {counted(int((~known).sum()), 'user')}: a number is missing."
    worth = ": what a part of every server, by weight, would be worth to it"
    return Picture(
        f"{chosen}Dots: dominant shares. {DOMINANT_SHARE}. Diamonds: {against.what}"
        f"{worth if audit.fair is None else ', as a dominant share'}. Beside them: how far the "
        f"first is from the second; sorted by that.{missing}",
        lambda: shares_figure(audit, against),
        "Dominant share of each user beside what is due; the numbers are in the table below",
    )


def _statement(audit: Audit, verdict: Verdict) -> Statement:
    unit = AUDITED[verdict.name].cases
    detail, shown_by = "", list[Table]()
    if verdict.detail and verdict.detail not in verdict.sentence:
        detail = verdict.detail
    elif verdict.searched and unit and not verdict.detail:
        detail = f"looked at: {counted(verdict.searched, unit)}"
    if verdict.verdict == "fails":
        tasks = audit.subject.holdings.user_tasks
        shown_by = witness_blocks(verdict, audit.subject.given, tasks)
    return Statement(
        verdict.verdict if verdict.applies else MUTED,
        verdict.sentence,
        verdict.name,
        "FAILS" if verdict.verdict == "fails" else verdict.verdict,
        detail,
        shown_by,
    )


def _beside_due(audit: Audit, against: AgainstFair) -> Iterator[Block]:
    """Yield how many are wronged, who is furthest off, and of many users how all are off."""
    yield _tiles(audit, against)
    if audit.fair is not None:
        lines = []
        for word, order, those in (
            ("over", largest_first(against.ratio), against.off >= UNCHANGED),
            ("under", smallest_first(against.ratio), against.below),
        ):
            names = audit.subject.problem.users.names
            off = [f"{names[n]} ({change(float(against.off[n]))})" for n in order if those[n]]
            if off:
                lines.append(f"{word} the {against.what}: {named(off, NAMED)}")
        if lines:
            yield Listing(lines)
    if (~np.isnan(against.ratio)).sum() > ROWS:
        yield Picture(
            f"All {len(against.ratio):,} users by how much they hold of their {against.what}; at "
            "the line it is as much. The last bar also counts who has more.",
            lambda: ratios_figure(against),
            "How many users hold which part of what is due",
        )


def _tiles(audit: Audit, against: AgainstFair) -> Tiles:
    """Sum up in a few numbers, each with who is worst off."""
    names, gain = audit.subject.problem.users.names, audit.envy.gain

    def count(whose: BoolArray) -> str:
        return f"{int(whose.sum()):,} of {len(names):,}"

    tiles = []
    if audit.fair is not None:
        worst = ""
        if against.below.any():
            n = first_smallest(against.ratio)
            worst = f"furthest: {names[n]}, {change(float(against.off[n]))}"
        below = f"users below their fair share by {audit.fair.mechanism}"
        tiles.append((below, count(against.below), worst, None))
    worst = ""
    if against.short.any():
        n = first_smallest(np.where(against.short, 1 + against.margin, np.inf))
        worst = f"furthest: {names[n]}, {change(float(against.margin[n]), 'under 0.1 %')}"
    if against.unasked.any():
        worst += f"{'; ' if worst else ''}{count(against.unasked)} not asked: slice under one task"
    tiles.append(("users below their slice of every server", count(against.short), worst, None))
    worst = ""
    if against.envies.any():
        n = first_largest(1 + np.where(against.envies, gain, 0.0))
        would_gain = f"would gain {gained(float(gain[n])).lstrip('+')}"
        worst = f"most: {names[n]}, {would_gain if np.isfinite(gain[n]) else 'has nothing'}"
    envious = "not known" if np.isnan(against.ratio).any() else count(against.envies)
    return Tiles([*tiles, ("users that envy", envious, worst, None)])


def _envy(audit: Audit, against: AgainstFair) -> Iterator[Block]:
    """Draw who envies another; of many, list them."""
    involved, envy = users_in_envy(audit, against), audit.envy
    scaled = "Bundles are scaled by weight, and of use only where a user may run."
    if len(involved) <= ENVY_SHOWN:
        capped = ""
        if (envy.gain[against.envies] > LARGEST_MARGIN).any():
            capped = f" Gains above {change(LARGEST_MARGIN)} have the colour of that."
        yield Picture(
            "By how much the user of the row would run more tasks with what the user of the column "
            f"has: the darker, the more.{capped} {scaled} Of all users only those that envy, and "
            "those that they envy most or that envy too.",
            lambda: envy_figure(audit, against, involved),
            "By how much each user would gain with the bundle of another",
        )
        return
    names, order = audit.subject.problem.users.names, by_gain(audit, against)

    def row(k: int) -> list[Content]:
        n = int(order[k])
        tasks, gain = float(audit.subject.holdings.user_tasks[n]), float(envy.gain[n])
        return [
            names[n],
            names[int(envy.envied[n])],
            _figure(tasks, number(tasks)),
            _figure(float(envy.could[n]), number(float(envy.could[n]))),
            _figure(gain, gained(gain)),
        ]

    columns = (Column("tasks"), Column("with its bundle"), Column("gain"))
    yield Table(
        "Who envies another, the largest gain first",
        (words("user"), words("envies most"), *columns),
        len(order),
        row,
        each="user",
        rest="that would gain less",
        note=scaled,
    )


def _margins(audit: Audit, against: AgainstFair) -> Picture:
    short, unasked = int(against.short.sum()), int(against.unasked.sum())
    falls = f"{counted(short, 'user')} fall{'s' if short == 1 else ''}" if short else "Nobody falls"
    notes = [f"{falls} short."]
    if float(np.nanmax(against.margin, initial=0.0)) > LARGEST_MARGIN:
        notes.append(f"Margins above {change(LARGEST_MARGIN)} are drawn as that.")
    if audit.subject.holdings.whole_tasks:
        notes.append("Tasks are whole: who lacks less than one does not fall short.")
    if unasked:
        notes.append(
            f"Of {counted(unasked, 'user')} that run less, the slice is less than one whole task: "
            "nothing is asked for them."
        )
    return Picture(
        "Tasks of each user, relative to those that its part of every server, by weight, would "
        f"run: below zero it would be better off alone. {' '.join(notes)}",
        lambda: margins_figure(audit, against),
        "Margin of each user over its slice of every server; the numbers are in the table below",
    )


def _users(audit: Audit, against: AgainstFair) -> Table:
    """Tabulate each user's holdings, due share, tasks of its slice, and whom it envies."""
    problem, holdings, fair = audit.subject.problem, audit.subject.holdings, audit.fair
    weighted = bool((problem.weight != problem.weight[0]).any())
    waits, envies, is_given = any(audit.waiting), against.envies.any(), audit.subject.divide is None
    widest = float(np.nanmax(against.held, initial=0.0)) or 1.0
    columns = [
        words("user"),
        *([Column("weight")] if weighted else []),
        Column("tasks"),
        *([Column("waiting")] if waits else []),
        Column("dominant share"),
        *(map(Column, ("fair tasks", "fair share", "over/under")) if fair is not None else []),
        Column("slice"),
        Column("margin"),
        *([words("envies")] if envies else []),
        *([words("holds")] if is_given else []),
    ]

    def row(n: int) -> list[Content]:
        weight, tasks = float(problem.weight[n]), float(holdings.user_tasks[n])
        held, sliced, margin = (float(v[n]) for v in (against.held, audit.slices, against.margin))
        cells: list[Content] = [problem.users.names[n]]
        cells += [_figure(weight, number(weight))] if weighted else []
        cells.append(_figure(tasks, number(tasks)))
        cells += [_figure(audit.waiting[n], f"{audit.waiting[n]:,}")] if waits else []
        part = 0.0 if np.isnan(held) else held / widest
        cells.append(_figure(held, percent(held), part=part))
        if fair is not None:
            due, off = float(against.due[n]), float(against.off[n])
            fair_tasks = float(fair.user_tasks[n])
            cells += [_figure(fair_tasks, number(fair_tasks)), _figure(due, percent(due))]
            cells.append(_figure(off, change(off, "as due"), bad=bool(against.below[n])))
        cells.append(_figure(sliced, number(sliced)))
        cells.append(_figure(margin, change(margin, "as due"), bad=bool(against.short[n])))
        envied = problem.users.names[int(audit.envy.envied[n])]
        could = f"{envied}: {number(float(audit.envy.could[n]))} tasks"
        cells += [could if against.envies[n] else ""] if envies else []
        return [*cells, _held(audit, n)] if is_given else cells

    return Table(
        "Users, what they hold, and what is due",
        tuple(columns),
        problem.n_users,
        row,
        size=np.nan_to_num(against.held),
        each="user",
        note=_headings(audit, against),
    )


def _figure(value: float, text: str, *, bad: bool = False, part: float | None = None) -> Cell:
    """Return a cell of a figure that may be missing."""
    if np.isnan(value):
        return Cell("–", BEYOND)
    return Cell(text, min(value, BEYOND), part, "bad" if bad else "")


def _held(audit: Audit, n: int) -> str:
    """Describe a user's holdings of every resource."""
    cluster = audit.subject.problem.cluster
    amounts = audit.subject.holdings.user_amounts[n].tolist()
    return ", ".join(
        f"{resource} {amount(held, unit)}"
        for held, unit, resource in zip(amounts, cluster.units, cluster.resources, strict=True)
        if held != 0
    )


def _headings(audit: Audit, against: AgainstFair) -> str:
    """Explain the headings of the table."""
    has_fair, is_whole = audit.fair is not None, audit.subject.holdings.whole_tasks
    said = [f"{DOMINANT_SHARE}."]
    if has_fair:
        said.append("over/under: how far that is from the fair share.")
    said.append(
        "slice: the tasks that a user could run with its part of every server; margin: how far its "
        "tasks are from these."
    )
    if is_whole:
        said.append("Tasks are whole: who lacks less than one does not fall short of its slice.")
    if is_whole and has_fair:
        said.append("Fair tasks are divisible; whole ones, placed one by one, may be far off.")
    if against.envies.any():
        said.append("envies: who it envies most, and the tasks that it would run with that bundle.")
    return " ".join(said)
