"""Documents of divided clusters: one answer, or several side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fairlead.mechanisms.catalogue import CATALOGUE, Mechanism
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.problem import Problem
from fairlead.model.ties import largest_first
from fairlead.report.allocation_figures import (
    LARGEST_HOLDERS,
    Style,
    comparison_figure,
    group_figure,
    group_holdings,
    holder_name,
    holds,
    is_weighted,
    share_figure,
    user_styles,
)
from fairlead.report.charts import shortened
from fairlead.report.document import (
    FAILS,
    HOLDS,
    PAGE,
    Block,
    Cell,
    Column,
    Content,
    Document,
    Facts,
    Listing,
    Picture,
    Prose,
    Section,
    Statement,
    Table,
    Tabs,
    Tiles,
    proof,
    table_of,
    words,
)
from fairlead.report.numbers import UNCHANGED, amount, counted, number, percent, resource_label

GROUPS_LISTED, GROUPS_IN_SHORT = 12, 1
# Of names in the opening sentence.
LONGEST_NAME = 40
# Of several mechanisms together, below the table of all.
USERS_OF_ALL = 1000
DOMINANT_SHARE = (
    "A dominant share is the largest share that a user holds of any resource of the whole cluster"
)


def allocation_document(
    allocation: Allocation, title: str, left_out: Sequence[str] = ()
) -> Document:
    """Show one answer: who gets what and where, and why it is the answer.

    Parameters
    ----------
    allocation : Allocation
    title : str
        What was divided, such as the problem file's name.
    left_out : sequence of str
        Users that were left out because they fit no server, and why.

    Notes
    -----
    Rendering costs O(N (G + R)) time and characters.
    """
    styles = user_styles([allocation])
    about = _about(allocation.mechanism)
    return Document(
        title,
        "fair shares",
        f"{size_of(allocation.problem)}, divided by {allocation.mechanism}",
        verdict_of(allocation),
        [*opening(allocation, styles), *details(allocation, about, styles)],
        allocation.to_dict,
        left_out,
    )


def comparison_document(
    answers: Mapping[str, Allocation],
    refused: Mapping[str, str],
    title: str,
    left_out: Sequence[str] = (),
) -> Document:
    """Show several answers to one problem, by mechanism, side by side, and each by itself.

    `refused` says why the other mechanisms have no answer; the rest is as in
    `allocation_document`.
    """
    allocations = list(answers.values())
    largest_problem = max((a.problem for a in allocations), key=lambda p: p.n_groups)
    styles = user_styles(allocations)
    caption = f"{DOMINANT_SHARE}."
    blocks: list[Block] = [
        Picture(
            caption,
            lambda: comparison_figure(answers),
            "Dominant share of every user under each mechanism; tasks are in the table below",
        ),
        Section("Who gets what under each mechanism", _side_by_side(answers)),
    ]
    if refused:
        lines = [f"{name}: {reason}" for name, reason in refused.items()]
        blocks.append(Listing(lines, "no answer from", "warning"))
    most = USERS_OF_ALL // len(answers)
    each = {
        name: [
            *opening(allocation, styles),
            *details(allocation, _about(name), styles, [users_table(allocation, styles, most)]),
        ]
        for name, allocation in answers.items()
    }
    blocks.append(Section("Each mechanism by itself", [Tabs("Mechanism", each)], only=PAGE))
    return Document(
        title,
        "fair shares",
        f"{size_of(largest_problem)}, divided in {counted(len(answers), 'way')}",
        _verdict_of_comparison(answers),
        blocks,
        lambda: {
            "fairlead": 1,
            "mechanisms": {name: answer.to_dict() for name, answer in answers.items()},
            "refused": dict(refused),
        },
        left_out,
    )


def size_of(problem: Problem) -> str:
    """Describe how many users share how much."""
    users = counted(problem.n_users, "user")
    if problem.cluster.groups == ("pool",):
        return f"{users} on one pool of all servers"
    servers = counted(int(problem.count.sum()), "server")
    return f"{users} on {servers} in {counted(problem.n_groups, 'group')}"


def _about(mechanism: str) -> tuple[str, str]:
    row = CATALOGUE.get(mechanism)
    return ("", "") if row is None else (row.summary, row.paper)


def verdict_of(allocation: Allocation) -> Statement:
    """Describe in a sentence the least and largest shares, and the exhausted resources."""
    due_nothing = allocation.problem.due_nothing
    used = allocation.utilization
    fullest = max(used, key=used.__getitem__)
    proved = "Proved" if allocation.certificate.holds else "NOT PROVED"
    kind = HOLDS if allocation.certificate.holds else FAILS
    if due_nothing.all():
        return Statement(kind, f"{proved}: no user is due anything.")
    said = _least_and_most(allocation, ~due_nothing)
    if due_nothing.any():
        verb = "is" if due_nothing.sum() == 1 else "are"
        said += f"; {_who(allocation.problem.users.names, due_nothing)} {verb} due nothing"
    return Statement(kind, f"{proved}: {said}. {percent(used[fullest])} of all {fullest} is used.")


def _least_and_most(allocation: Allocation, due: BoolArray) -> str:
    """Name the users with the least and the largest share, of those that are due something."""
    share = _shares_by_weight(allocation)
    least, most = float(share.min()), float(share.max())
    names = [allocation.problem.users.names[n] for n in np.flatnonzero(due)]
    weighted = " per unit of weight" if is_weighted(allocation) else ""
    what = f"dominant share{weighted}"
    nothing = allocation.user_tasks[due] == 0
    lowest, highest = share <= least * (1 + UNCHANGED), share >= most * (1 - UNCHANGED)
    if len(names) == 1:
        said = f"{shortened(names[0], LONGEST_NAME)} has a {what} of {percent(float(share[0]))}"
    elif highest.all():
        said = f"everybody has the same {what}, {percent(least)}"
    elif nothing.any():
        has = "has" if highest.sum() == 1 else "have"
        said = (
            f"{_who(names, nothing)} got nothing; {_who(names, highest)} {has} the largest {what}, "
            f"{percent(most)}"
        )
    else:
        has = "has" if lowest.sum() == 1 else "have"
        said = (
            f"{_who(names, lowest)} {has} the least {what}, {percent(least)}, "
            f"and {_who(names, highest)} the largest, {percent(most)}"
        )
    return said


def _who(names: Sequence[str], those: BoolArray) -> str:
    """Name one or two users; of more say how many they are."""
    count = int(those.sum())
    if count > 2:
        return f"{count:,} of {len(names):,} users"
    return " and ".join(shortened(names[int(n)], LONGEST_NAME) for n in np.flatnonzero(those))


def opening(allocation: Allocation, styles: Sequence[Style]) -> list[Block]:
    """Return the picture that an answer opens with."""
    caption = f"{DOMINANT_SHARE}."
    if is_weighted(allocation):
        caption += " Diamonds mark the same divided by the user's weight."
    about = f"Dominant share of every user under {allocation.mechanism}; a table has the numbers"
    return [Picture(caption, lambda: share_figure(allocation, styles), about)]


def details(
    allocation: Allocation,
    about: tuple[str, str],
    styles: Sequence[Style],
    users: Sequence[Block] | None = None,
) -> Iterator[Block]:
    """Yield what there is to say of one answer: users, resources, proof, and who holds each group.

    `about` has the idea and the paper of the mechanism, `users` what takes the place of the table
    of users.
    """
    summary, paper = about
    if summary:
        said = f"{allocation.mechanism}: {summary} ({paper})."
        yield Prose(said, "lead", only=PAGE)
    yield Section("Who gets what", users or [users_table(allocation, styles)])
    yield Section("What is used", [used_tiles(allocation)])
    yield proof(allocation.certificate)
    yield Section("Who holds what, group by group", lambda: _groups(allocation, styles), only=PAGE)


def users_table(allocation: Allocation, styles: Sequence[Style], most: int = 0) -> Table:
    """Tabulate what users get, and where; a page lists at most `most` users."""
    problem, share = allocation.problem, allocation.dominant_share
    where = holds(allocation)
    largest = float(share.max(initial=0.0)) or 1.0

    def row(n: int) -> list[Content]:
        limit = float(problem.task_limit[n])
        tasks, weight = float(allocation.user_tasks[n]), float(problem.weight[n])
        limited = f"of {number(limit)}" if np.isfinite(limit) else ""
        return [
            Cell(problem.users.names[n], swatch=styles[n].colour),
            Cell(number(weight), weight),
            Cell(number(tasks), tasks, note=limited),
            allocation.dominant_resource[n],
            Cell(percent(float(share[n])), float(share[n]), part=float(share[n]) / largest),
            Cell(
                _where_text(allocation, n, where[n], GROUPS_LISTED),
                brief=_where_text(allocation, n, where[n], GROUPS_IN_SHORT),
            ),
        ]

    columns = (
        words("user"),
        Column("weight"),
        Column("tasks"),
        words("dominant resource"),
        Column("dominant share"),
        words("where (tasks)"),
    )
    about = f"Users and their tasks under {allocation.mechanism}"
    return Table(about, columns, problem.n_users, row, size=share, each="user", on_page=most)


def _where_text(allocation: Allocation, n: int, where: np.ndarray[Any, Any], most: int) -> str:
    """List the groups where user n runs most, with its tasks there, in the problem's order."""
    tasks = allocation.tasks[n]
    held = np.flatnonzero(where)
    left = max(0, len(held) - most)
    if left:
        held = np.sort(held[largest_first(tasks[held])[:most]])
    names = allocation.problem.cluster.groups
    listed = ", ".join(f"{names[g]} {number(float(tasks[g]))}" for g in held)
    return f"{listed}{',' * (most > 1)} and {left} more" if left else listed


def used_tiles(allocation: Allocation) -> Tiles:
    """Describe the use of every resource, and the number of tasks."""
    problem = allocation.problem
    cluster = problem.cluster
    used = allocation.usage.sum(axis=0)
    tiles: list[tuple[str, str, str, float | None]] = [
        (
            f"{resource_label(cluster, r)} used",
            percent(allocation.utilization[resource]),
            f"{number(float(used[r]))} of "
            f"{amount(float(problem.total_capacity[r]), cluster.units[r])}",
            allocation.utilization[resource],
        )
        for r, resource in enumerate(cluster.resources)
    ]
    return Tiles([*tiles, ("tasks", number(float(allocation.user_tasks.sum())), "in all", None)])


def _groups(allocation: Allocation, styles: Sequence[Style]) -> Iterator[Block]:
    yield Prose(
        "Each bar is all that a group of identical servers has of one resource. Users keep their "
        "colour from picture to picture; where colours repeat, a pattern tells them apart. A bar "
        f"shows its {LARGEST_HOLDERS} largest holders, and smaller ones together as “others”. Pale "
        "is free."
    )
    for g in range(allocation.problem.n_groups):
        yield from _group(allocation, g, styles)


def _group(allocation: Allocation, g: int, styles: Sequence[Style]) -> Iterator[Block]:
    problem = allocation.problem
    cluster = problem.cluster
    picture = group_holdings(allocation, g)
    has = problem.group_capacity[g] > 0
    present = [r for r in range(problem.n_resources) if has[r]]
    lacks = [cluster.resources[r] for r in range(problem.n_resources) if not has[r]]
    pooled = cluster.groups == ("pool",)
    name = "all servers as one pool" if pooled else cluster.groups[g]
    each = ", ".join(
        f"{amount(float(cluster.capacity[g, r]), cluster.units[r])} {cluster.resources[r]}"
        for r in present
    )
    servers = "" if pooled else f"{counted(int(problem.count[g]), 'server')}, each "
    said = servers + each + (f"; no {', '.join(lacks)}" if lacks else "")
    labels = "".join(f"; {key}: {value}" for key, value in cluster.labels[g].items())
    holders = sum(len(holding.users) for holding in picture.holdings)
    yield Picture(
        f"{said}{labels}. {counted(holders, 'holder')}.",
        group_figure(allocation, picture, styles),
        f"Shares of {name} by user and resource; the numbers are in the table below",
        heading=name,
    )
    headings = [words("user"), Column("tasks")]
    for r in present:
        headings += [Column(resource_label(cluster, r)), Column("share")]
    rows: list[list[Content]] = []
    for holding in picture.holdings:
        held = [
            cell
            for r in present
            for cell in (
                number(holding.amounts[r]),
                Cell(percent(holding.shares[r]), holding.shares[r], kind="dim"),
            )
        ]
        rows.append([holder_name(allocation, holding), number(holding.tasks), *held])
    free: list[Content] = ["free", ""]
    for r in present:
        share = picture.free[r] / float(problem.group_capacity[g, r])
        free += [number(picture.free[r]), Cell(percent(share), share, kind="dim")]
    yield table_of(f"Holders of {name}", headings, rows, foot=(free,), folded="as a table")


def _verdict_of_comparison(answers: Mapping[str, Allocation]) -> Statement:
    """Describe where the least share is largest and smallest, and where most tasks run."""
    pooled = _pooled_only(answers)
    labels = {name: f"{name} (as one pool)" if name in pooled else name for name in answers}
    least = {
        labels[name]: float(_shares_by_weight(allocation).min(initial=np.inf))
        for name, allocation in answers.items()
    }
    tasks = {labels[name]: float(answer.user_tasks.sum()) for name, answer in answers.items()}
    holds_all = all(allocation.certificate.holds for allocation in answers.values())
    proved = "" if holds_all else " NOT ALL IS PROVED."
    kind = HOLDS if holds_all else FAILS
    if not all(np.isfinite(share) for share in least.values()):
        return Statement(kind, f"No user is due anything.{proved}")
    kindest, worst, most = max(least.values()), min(least.values()), max(tasks.values())
    if len(answers) == 1:
        said = f"The least share is {percent(kindest)}, and {number(most)} tasks run"
    elif kindest - worst <= UNCHANGED * kindest:
        said = f"The least share is the same everywhere, {percent(kindest)}"
    else:
        near = UNCHANGED * kindest
        at_best = [name for name, share in least.items() if share >= kindest - near]
        at_worst = [name for name, share in least.items() if share <= worst + near]
        said = (
            f"The least share is largest under {_listed(at_best)}, {percent(kindest)}, and "
            f"smallest under {_listed(at_worst)}, {percent(worst)}"
        )
    if len(answers) > 1 and most - min(tasks.values()) <= UNCHANGED * most:
        said += f". All run {number(most)} tasks"
    elif len(answers) > 1:
        at_most = [name for name, count in tasks.items() if count >= most * (1 - UNCHANGED)]
        said += f". Most tasks run under {_listed(at_most)}: {number(most)}"
    return Statement(kind, f"{said}.{proved}")


def _shares_by_weight(allocation: Allocation) -> FloatArray:
    """Return the dominant share per unit of weight of each user that is due something."""
    due = ~allocation.problem.due_nothing
    shares: FloatArray = allocation.dominant_share[due] / allocation.problem.weight[due]
    return shares


def _pooled_only(answers: Mapping[str, Allocation]) -> set[str]:
    """Return which answers take all servers as one pool, where others do not."""
    pooled = {name for name, a in answers.items() if a.problem.cluster.groups == ("pool",)}
    return pooled if len(pooled) < len(answers) else set()


def _listed(names: Sequence[str]) -> str:
    """List a few names; of more than three the first two, and how many more there are."""
    if len(names) > 3:
        return f"{names[0]}, {names[1]} and {len(names) - 2} others"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _side_by_side(answers: Mapping[str, Allocation]) -> list[Block]:
    """Set users against mechanisms, and what sums each mechanism up."""
    allocations = list(answers.values())
    problem = allocations[0].problem
    tasks = np.stack([allocation.user_tasks for allocation in allocations], axis=1)
    most = np.maximum(tasks.max(axis=1), np.finfo(float).tiny)
    largest = np.max([allocation.dominant_share for allocation in allocations], axis=0)
    per_weight = [_shares_by_weight(a) for a in allocations]
    one_pool = ""
    if pooled := sorted(_pooled_only(answers)):
        takes = "takes" if len(pooled) == 1 else "take"
        one_pool = (
            f" {_listed(pooled)} {takes} all servers as one pool: their tasks need not fit on "
            "the servers."
        )

    def row(n: int) -> list[Content]:
        cells = zip(tasks[n].tolist(), (tasks[n] / most[n]).tolist(), strict=True)
        return [problem.users.names[n], *(Cell(number(t), t, part=p) for t, p in cells)]

    foot: list[list[Content]] = [
        [f"{name} used", *(percent(a.utilization[name]) for a in allocations)]
        for name in problem.cluster.resources
    ]
    for label, summary in (("least share", np.min), ("mean share", np.mean)):
        cells = (percent(float(summary(share))) if len(share) else "–" for share in per_weight)
        foot.append([label, *cells])
    foot.append(["violation", *(f"{a.certificate.violation:.1g}" for a in allocations)])
    foot.append(["proof", *("holds" if a.certificate.holds else "FAILS" for a in allocations)])
    return [
        Table(
            "Tasks of every user under each mechanism",
            (words("tasks"), *map(Column, answers)),
            problem.n_users,
            row,
            size=largest,
            each="user",
            foot=tuple(foot),
        ),
        Prose(
            "Bars compare a number of tasks with the most that the user gets under any of the "
            "mechanisms.",
            "small",
            only=PAGE,
        ),
        Prose(
            "share: dominant share of the whole cluster, divided by the user's weight. violation: "
            f"how far the answer misses the condition that proves it, relative.{one_pool}",
            "small",
        ),
    ]


def catalogue_document(rows: Sequence[Mechanism]) -> Document:
    """Describe the mechanisms: idea, paper, what is proved, what is accepted, kind of tasks."""
    blocks: list[Block] = []
    for row in rows:
        refuted = [("refuted", "; ".join(map(str, row.refuted)))] if row.refuted else []
        facts = [
            ("paper", row.paper),
            ("proved", "; ".join(map(str, row.proved)) or "nothing"),
            *refuted,
            ("accepts", ", ".join(("weights", "zero demands", *row.accepts))),
            ("tasks", "whole" if row.whole_tasks else "divisible"),
        ]
        blocks += [Prose(f"{row.name}: {row.summary}", "strong"), Facts(facts)]
    values = {
        row.name: {
            "summary": row.summary,
            "paper": row.paper,
            "proved": [claim.property for claim in row.proved],
            "proved_without": {
                claim.property: list(claim.without) for claim in row.proved if claim.without
            },
            "refuted": {
                refutation.property: f"{refutation.where}, though {refutation.statement}"
                for refutation in row.refuted
            },
            "accepts": list(row.accepts),
            "whole_tasks": row.whole_tasks,
        }
        for row in rows
    }
    lead = f"{counted(len(rows), 'mechanism')}, and what is proved of each"
    about = {"fairlead": 1, "mechanisms": values}
    return Document("mechanisms", "mechanisms", lead, None, blocks, lambda: about)
