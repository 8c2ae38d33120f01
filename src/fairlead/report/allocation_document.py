"""Documents of allocations: one, or several to the same problem side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fairlead.mechanisms.catalogue import known_mechanism
from fairlead.model.allocation import ONLY_FEASIBLE, Allocation, Certificate
from fairlead.model.cluster import BoolArray, FloatArray
from fairlead.model.problem import Problem
from fairlead.model.ties import largest_first
from fairlead.report._allocation_figures import (
    LARGEST_HOLDERS,
    comparison_figure,
    group_figure,
    group_holdings,
    is_weighted,
    runs_on,
    share_figure,
    user_colours,
)
from fairlead.report.charts import USERS_DRAWN, shortened
from fairlead.report.document import (
    FAILS,
    HOLDS,
    Block,
    Cell,
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
    proof,
    table_of,
    words,
)
from fairlead.report.numbers import UNCHANGED, amount, counted, named, number, percent, tasks_text
from fairlead.report.numbers import resource_label as label_of

GROUPS_LISTED = 6  # in a cell of a table
LONGEST_NAME = 40  # characters of a user's name in the verdict
DOMINANT_SHARE = (
    "A dominant share is the largest share that a user holds of any resource of the whole cluster"
)


def allocation_document(allocation: Allocation, title: str) -> Document:
    """Return the document of one answer: each user's tasks and servers, and the proof.

    `title` names the problem, such as its file. Rendering costs O(N (G + R)) time and characters.
    """
    return Document(
        title,
        "fair shares",
        f"{size_of(allocation.problem)}, divided by {allocation.mechanism}",
        verdict_of(allocation),
        [share_picture(allocation), *details(allocation)],
        allocation.to_dict,
    )


def comparison_document(
    answers: Mapping[str, Allocation], refused: Mapping[str, str], title: str
) -> Document:
    """Return the document of several answers to one problem, side by side.

    `refused` maps each mechanism without an answer to the reason.
    """
    largest_problem = max((a.problem for a in answers.values()), key=lambda p: p.n_groups)
    about = "Dominant share of every user under each mechanism; tasks are in the table below"
    blocks: list[Block] = [
        Picture(f"{DOMINANT_SHARE}.", lambda: comparison_figure(answers), about),
        Section("Users under each mechanism", _side_by_side(answers)),
    ]
    if refused:
        lines = [f"{name}: {reason}" for name, reason in refused.items()]
        blocks.append(Listing(lines, "no answer from", "warning"))
    return Document(
        title,
        "fair shares",
        f"{size_of(largest_problem)}, divided in {counted(len(answers), 'way')}",
        _comparison_verdict(answers),
        blocks,
        lambda: {
            "fairlead": 1,
            "mechanisms": {name: answer.to_dict() for name, answer in answers.items()},
            "refused": dict(refused),
        },
    )


def size_of(problem: Problem) -> str:
    """Return the numbers of users, servers and groups as text."""
    users = counted(problem.n_users, "user")
    if problem.cluster.groups == ("pool",):
        return f"{users} on one pool of all servers"
    servers = counted(int(problem.count.sum()), "server")
    return f"{users} on {servers} in {counted(problem.n_groups, 'group')}"


def verdict_of(allocation: Allocation) -> Statement:
    """Describe the smallest and largest shares, and the most used resource, in a sentence."""
    condition = allocation.certificate.condition
    proved = "Feasible, nothing more is proved" if condition in ONLY_FEASIBLE else "Proved"
    proved = proved if allocation.certificate.holds else "NOT PROVED"
    kind = HOLDS if allocation.certificate.holds else FAILS
    due = ~allocation.problem.due_nothing
    if not due.any():
        return Statement(kind, f"{proved}: no user is due anything.")
    names = [allocation.problem.users.names[n] for n in np.flatnonzero(due)]
    share = _shares_by_weight(allocation)
    least, most = float(share.min()), float(share.max())
    what = f"dominant share{' per unit of weight' if is_weighted(allocation) else ''}"
    lowest, highest = share <= least * (1 + UNCHANGED), share >= most * (1 - UNCHANGED)
    if highest.all():
        text = f"the {what} is the same for all, {percent(least)}"
    else:
        text = (
            f"the least {what} is {percent(least)} ({_names_of(names, lowest)}), "
            f"the largest {percent(most)} ({_names_of(names, highest)})"
        )
    if not due.all():
        text += f"; due nothing: {_names_of(allocation.problem.users.names, ~due)}"
    used = allocation.utilization
    fullest = max(used, key=used.__getitem__)
    return Statement(kind, f"{proved}: {text}. {percent(used[fullest])} of all {fullest} is used.")


def _names_of(names: Sequence[str], chosen: BoolArray) -> str:
    """Name up to two users, or count them."""
    count = int(chosen.sum())
    if count > 2:
        return f"{count:,} of {len(names):,} users"
    return " and ".join(shortened(names[int(n)], LONGEST_NAME) for n in np.flatnonzero(chosen))


def share_picture(allocation: Allocation) -> Picture:
    """Return the first picture of an answer: dominant shares."""
    caption = f"{DOMINANT_SHARE}."
    if allocation.problem.n_users > USERS_DRAWN:
        caption += f" The {USERS_DRAWN} largest; the table has all."
    if is_weighted(allocation):
        caption += " Diamonds mark the share divided by the user's weight."
    about = f"Dominant share of users under {allocation.mechanism}; a table has the numbers"
    return Picture(caption, lambda: share_figure(allocation), about)


def details(
    allocation: Allocation, users: Sequence[Block] = (), after: Sequence[Block] = ()
) -> Iterator[Block]:
    """Yield the blocks of an answer: users, resources, proof, and the holders of each group.

    `users` replaces the table of users. `after` is inserted after the use of resources.
    """
    row = known_mechanism(allocation.mechanism)
    if row is not None:
        idea = f"{allocation.mechanism}: {row.summary} ({row.paper})."
        yield Prose(idea, page_only=True)
    if allocation.problem.users.queues is not None:
        yield Section("Queues", [_queues_table(allocation)])
    yield Section("Users", users or [users_table(allocation)])
    yield Section("Use of resources", [_used_tiles(allocation)])
    yield from after
    yield proof(allocation.certificate)
    yield Section("Users of each group", lambda: _groups(allocation), page_only=True)


def users_table(allocation: Allocation) -> Table:
    """Tabulate each user's tasks, share and servers."""
    problem, share = allocation.problem, allocation.dominant_share
    runs, colours = runs_on(allocation), user_colours(allocation)
    queues = problem.users.queues

    def row(n: int) -> list[Content]:
        limit, tasks = float(problem.task_limit[n]), float(allocation.user_tasks[n])
        limited = f"of {number(limit)}" if np.isfinite(limit) else ""
        return [
            Cell(problem.users.names[n], swatch=colours[n]),
            *([] if queues is None else [queues.name_of(queues.of_user[n]) or "–"]),
            figure(float(problem.weight[n])),
            Cell(number(tasks), tasks, note=limited),
            allocation.dominant_resource[n],
            figure(float(share[n]), percent),
            _places(allocation, n, np.flatnonzero(runs[n])),
        ]

    return Table(
        f"Users and their tasks under {allocation.mechanism}",
        [
            *words("user", *([] if queues is None else ["queue"])),
            *numbers("weight", "tasks"),
            *words("dominant resource"),
            *numbers("dominant share"),
            *words("where (tasks)"),
        ],
        problem.n_users,
        row,
        size=share,
        each="user",
    )


def _queues_table(allocation: Allocation) -> Table:
    """Tabulate each queue's part of the cluster by weight, and its dominant share."""
    problem, queues = allocation.problem, allocation.problem.users.queues
    assert queues is not None
    parts, _ = queues.parts(problem.weight, ~problem.due_nothing)

    def row(q: int) -> list[Content]:
        return [
            queues.names[q],
            queues.name_of(queues.parent[q]) or "–",
            figure(float(queues.weight[q])),
            figure(float(parts[q]), percent),
            figure(float(allocation.queue_share[q]), percent),
        ]

    return Table(
        "Queues, their parts by weight and their dominant shares",
        [*words("queue", "parent"), *numbers("weight", "part", "dominant share")],
        len(queues.names),
        row,
        each="queue",
    )


def _places(
    allocation: Allocation, n: int, groups: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> str:
    """List the groups with most tasks of user n, in the problem's order, with numbers of tasks."""
    tasks, names = allocation.tasks[n], allocation.problem.cluster.groups
    shown = np.sort(groups[largest_first(tasks[groups])[:GROUPS_LISTED]])
    left = len(groups) - len(shown)
    listed = ", ".join(f"{names[g]} {number(float(tasks[g]))}" for g in shown)
    return f"{listed}, and {left} more" if left else listed


def _used_tiles(allocation: Allocation) -> Tiles:
    problem, cluster = allocation.problem, allocation.problem.cluster
    used = allocation.usage.sum(axis=0)
    tiles = [
        (
            f"{label_of(cluster, r)} used",
            percent(allocation.utilization[resource]),
            f"{number(float(used[r]))} of "
            f"{amount(float(problem.total_capacity[r]), cluster.units[r])}",
        )
        for r, resource in enumerate(cluster.resources)
    ]
    return Tiles([*tiles, ("tasks", number(float(allocation.user_tasks.sum())), "in all")])


def _groups(allocation: Allocation) -> Iterator[Block]:
    yield Prose(
        "Each bar is all that a group of identical servers has of one resource. Users keep their "
        f"colour from picture to picture. A bar shows its {LARGEST_HOLDERS} largest holders, and "
        "smaller ones together as “others”. Free capacity is pale."
    )
    colours = user_colours(allocation)
    for g in range(allocation.problem.n_groups):
        yield from _group(allocation, g, colours)


def _group(allocation: Allocation, g: int, colours: Sequence[str]) -> Iterator[Block]:
    """Yield the picture and the table of one group's holders."""
    problem, cluster = allocation.problem, allocation.problem.cluster
    held = group_holdings(allocation, g)
    present = np.flatnonzero(problem.group_capacity[g] > 0).tolist()
    pooled = cluster.groups == ("pool",)
    name = "all servers as one pool" if pooled else cluster.groups[g]
    parts = "" if pooled else f"{counted(int(problem.count[g]), 'server')}, each "
    parts += ", ".join(
        f"{amount(float(cluster.capacity[g, r]), cluster.units[r])} {cluster.resources[r]}"
        for r in present
    )
    parts += "".join(f"; {key}: {value}" for key, value in cluster.labels[g].items())
    yield Picture(
        f"{parts}. {counted(sum(len(h.users) for h in held.holdings), 'holder')}.",
        group_figure(allocation, held, colours),
        f"Shares of {name} by user and resource; the numbers are in the table below",
        heading=name,
    )

    def cells(amounts: Sequence[float]) -> Iterator[Content]:
        for r in present:
            yield number(amounts[r])
            yield figure(amounts[r] / float(problem.group_capacity[g, r]), percent, kind="dim")

    columns = [*words("user"), *numbers("tasks")]
    for r in present:
        columns += numbers(label_of(cluster, r), "share")
    rows: list[list[Content]] = [
        [holding.name, number(holding.tasks), *cells(holding.amounts)] for holding in held.holdings
    ]
    free: list[Content] = ["free", "", *cells(held.free)]
    yield table_of(f"Holders of {name}", columns, rows, foot=[free], folded="as a table")


def _shares_by_weight(allocation: Allocation) -> FloatArray:
    """Return the dominant shares of users that are due something, by weight if weights differ."""
    due = ~allocation.problem.due_nothing
    weight = allocation.problem.weight if is_weighted(allocation) else np.ones(len(due))
    shares: FloatArray = allocation.dominant_share[due] / weight[due]
    return shares


def _pooled_only(answers: Mapping[str, Allocation]) -> list[str]:
    """Return the mechanisms on one pool of all servers; none if all are on one pool."""
    pooled = [name for name, a in answers.items() if a.problem.cluster.groups == ("pool",)]
    return pooled if len(pooled) < len(answers) else []


def _comparison_verdict(answers: Mapping[str, Allocation]) -> Statement:
    """Name the mechanisms with the highest and lowest minimum share, and with most tasks."""
    holds = all(allocation.certificate.holds for allocation in answers.values())
    proved = "" if holds else " NOT ALL IS PROVED."
    kind = HOLDS if holds else FAILS
    pooled = _pooled_only(answers)
    names = [f"{name} (as one pool)" if name in pooled else name for name in answers]
    shares = [_shares_by_weight(allocation) for allocation in answers.values()]
    if not all(map(len, shares)):
        return Statement(kind, f"No user is due anything.{proved}")
    least = np.array([share.min() for share in shares])
    tasks = np.array([answer.user_tasks.sum() for answer in answers.values()])

    def holders(of: BoolArray) -> str:
        return named([names[k] for k in np.flatnonzero(of)], 2)

    best, worst, most = float(least.max()), float(least.min()), float(tasks.max())
    if best - worst <= UNCHANGED * best:
        text = f"The least share is {percent(best)} under {_all_of(names)}"
    else:
        near = UNCHANGED * best
        text = (
            f"The least share is largest under {holders(least >= best - near)}, {percent(best)}, "
            f"and smallest under {holders(least <= worst + near)}, {percent(worst)}"
        )
    if most - tasks.min() <= UNCHANGED * most:
        text += f". {tasks_text(most)} in all under {_all_of(names)}"
    else:
        text += f". Most tasks run under {holders(tasks >= most * (1 - UNCHANGED))}: {number(most)}"
    return Statement(kind, f"{text}.{proved}")


def _all_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else "each"


def _proof_of(certificate: Certificate) -> str:
    if not certificate.holds:
        return "FAILS"
    return "feasible" if certificate.condition in ONLY_FEASIBLE else "holds"


def _side_by_side(answers: Mapping[str, Allocation]) -> list[Block]:
    """Tabulate tasks by user and mechanism, with figures of each mechanism below."""
    allocations = list(answers.values())
    problem = allocations[0].problem
    tasks = np.stack([allocation.user_tasks for allocation in allocations], axis=1)
    per_weight = [_shares_by_weight(a) for a in allocations]

    def row(n: int) -> list[Content]:
        return [problem.users.names[n], *map(figure, tasks[n].tolist())]

    foot: list[list[Content]] = [
        [f"{name} used", *(percent(a.utilization[name]) for a in allocations)]
        for name in problem.cluster.resources
    ]
    for label, summary in (("least share", np.min), ("mean share", np.mean)):
        cells = (percent(float(summary(share))) if len(share) else "–" for share in per_weight)
        foot.append([label, *cells])
    foot.append(["violation", *(f"{a.certificate.violation:.1g}" for a in allocations)])
    foot.append(["proof", *(_proof_of(a.certificate) for a in allocations)])
    explanation = (
        "share: dominant share of the whole cluster, divided by the user's weight. violation: "
        "how far the answer misses the condition that proves it, relative."
    )
    if pooled := _pooled_only(answers):
        explanation += (
            f" On one pool of all servers: {named(pooled, 2)}; these tasks need not fit on the "
            "servers."
        )
    return [
        Table(
            "Tasks of every user under each mechanism",
            [*words("tasks"), *numbers(*answers)],
            problem.n_users,
            row,
            size=np.max([allocation.dominant_share for allocation in allocations], axis=0),
            each="user",
            foot=foot,
            note=explanation,
        ),
    ]
