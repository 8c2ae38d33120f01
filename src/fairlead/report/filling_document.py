"""Documents of fillings with whole tasks: of one, or of the means of several trials."""

from __future__ import annotations

import numpy as np

from fairlead.report.allocation_document import (
    details,
    share_picture,
    size_of,
    users_table,
    verdict_of,
)
from fairlead.report.document import (
    Block,
    Content,
    Document,
    Prose,
    Section,
    Statement,
    Table,
    figure,
    numbers,
    words,
)
from fairlead.report.numbers import (
    amount,
    counted,
    named,
    number,
    percent,
    resource_label,
    spread,
    tasks_text,
)
from fairlead.simulation.filling import RoomLeft
from fairlead.simulation.trials import Trials, TrialSummary

NAMED = 3  # users in a note


def filling_document(trials: Trials, title: str) -> Document:
    """Return the document of a filling, or of the means and spread of several random ones."""
    allocation, policy = trials.allocation, trials.policy
    means = f", means of {counted(trials.trials, 'trial')}" if trials.varies else ""
    users: list[Block] = [users_table(allocation)]
    if trials.varies:
        users = [_means(trials)]
    users += [Prose(note, "small") for note in (_note(trials), _fractions(trials)) if note]
    verdict = verdict_of(allocation)
    tasks = f"{tasks_text(float(trials.total.mean))}{' on average' if trials.varies else ''}"
    return Document(
        title,
        "whole tasks",
        f"{size_of(trials.problem)}, filled by {policy.name}{means}",
        Statement(verdict.kind, f"{tasks}, and no other fits. {verdict.sentence}"),
        [
            share_picture(allocation),
            *details(allocation, users, _room_left(trials)),
        ],
        trials.to_dict,
    )


def _note(trials: Trials) -> str:
    """Describe how much the numbers depend on chance; empty if they do not."""
    if trials.varies:
        return (
            "All numbers of tasks are means. ±: half the 95 % confidence interval of the mean "
            f"(Student's t). sd: standard deviation of one trial. Seed {trials.seed}."
        )
    if trials.policy.is_random:
        return (
            f"One trial of a random policy, seed {trials.seed}; --trials 200 shows how far "
            "another may differ."
        )
    return ""


def _fractions(trials: Trials) -> str:
    """List the users with a fractional number of tasks, of which the fraction is not placed."""
    limit, names = trials.problem.task_limit, trials.problem.users.names
    users = np.flatnonzero(np.isfinite(limit) & (limit != np.floor(limit)))
    parts = [f"{np.floor(limit[n]):,.0f} of {limit[n]:,.12g} of {names[n]}" for n in users]
    return f"Only whole tasks are placed: {named(parts, NAMED)}." if parts else ""


def _means(trials: Trials) -> Table:
    """Tabulate means by user and group."""
    problem = trials.problem
    columns = numbers("tasks, mean", "±", "sd", "sd / mean")
    pairs = np.argwhere(trials.tasks.mean > 0).tolist()

    def row(k: int) -> list[Content]:
        n, g = pairs[k]
        return [
            problem.users.names[n],
            problem.cluster.groups[g],
            *_cells(trials.tasks, n, g),
            *_cells(trials.user_tasks, n)[:1],
        ]

    return Table(
        "Mean tasks of each user on each group",
        [*words("user", "on"), *columns, *numbers("on all")],
        len(pairs),
        row,
        each="pair",
        rest="of user and group",
        foot=[["all", "all", *_cells(trials.total), ""]],
    )


def _room_left(trials: Trials) -> list[Section]:
    """Return free amounts, and for a single filling the resources that further tasks lack."""
    room = RoomLeft(trials.first)
    users, cluster = room.unfinished, trials.problem.cluster
    if trials.varies or not users:
        return [_left_over(trials)]

    def row(k: int) -> list[Content]:
        lack = room.lack(users[k])
        short = (f"{lacking:,} of {name}" for name, lacking in lack.lacking.items())
        nearest = (
            f"{amount(free, cluster.units[r])} of {cluster.resources[r]} for {number(asked)}"
            for r, (free, asked) in lack.amounts.items()
        )
        # Under best-fit-first a task starts only on its user's best server.
        has = f"has {', '.join(nearest)}" if lack.amounts else "has room, but is not the best"
        left = number(lack.left) if lack.left < np.inf else "any number"
        return [
            lack.user,
            left,
            f"{lack.servers:,}",
            ", ".join(short),
            f"{lack.nearest} {has}",
        ]

    parts = " (of devices: on the freest one, or the wholly free ones)"
    table = Table(
        "What the servers lack for one more task of each user",
        [*words("user"), *numbers("tasks left", "may use"), *words("lack", "nearest server")],
        len(users),
        row,
        each="user",
        note="lack: how many of the servers that the user may use lack a resource; nearest "
        f"server: free amounts{parts if cluster.devices else ''} for what a task takes",
        rest="with fewer tasks left",
    )
    return [_left_over(trials), Section("Why no further task fits", [table])]


def _left_over(trials: Trials) -> Section:
    """Tabulate the free amount of each resource on each group."""
    problem = trials.problem
    cluster, capacity = problem.cluster, problem.group_capacity
    present = np.argwhere(capacity > 0)
    share = trials.unused.mean[capacity > 0] / capacity[capacity > 0]
    shown = 3 if trials.varies else 1

    def row(k: int) -> list[Content]:
        g, r = present[k].tolist()
        return [
            cluster.groups[g],
            resource_label(cluster, r),
            *_cells(trials.unused, g, r)[:shown],
            figure(float(capacity[g, r])),
            figure(float(share[k]), percent),
        ]

    headings = ("left over", "±", "sd")[:shown]
    columns = [*words("group", "resource"), *numbers(*headings, "of", "share")]
    table = Table("Free amounts", columns, len(present), row, size=share, rest="with less free")
    return Section("Left over", [table])


def _cells(summary: TrialSummary, *index: int) -> list[Content]:
    """Format a mean, its margin of error, the standard deviation, and deviation / mean."""
    mean = float(summary.mean[index])
    if summary.margin is None or summary.sd is None:
        return [figure(mean), "", "", ""]
    margin, sd = float(summary.margin[index]), float(summary.sd[index])
    relative = sd / mean if mean > 0 else 0.0
    return [
        figure(mean),
        figure(margin, spread),
        figure(sd, spread),
        figure(relative, percent),
    ]
