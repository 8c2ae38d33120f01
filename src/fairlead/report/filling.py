"""Documents of fillings with whole tasks, and of the means of several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairlead.model.ties import largest_first
from fairlead.report.allocation import details, opening, size_of, users_table, verdict_of
from fairlead.report.allocation_figures import Style, user_styles
from fairlead.report.charts import (
    USERS_WITH_A_ROW_EACH,
    Figure,
    Trace,
    dots,
    hover,
    listed,
)
from fairlead.report.document import (
    PAGE,
    Block,
    Cell,
    Column,
    Content,
    Document,
    Picture,
    Prose,
    Section,
    Statement,
    Table,
    words,
)
from fairlead.report.numbers import counted, number, percent, resource_label, spread
from fairlead.scheduler.policies import Policy
from fairlead.simulation.trials import Trials, TrialSummary

# Beyond this many rows, means are not listed group by group even into a pipe.
ROWS_IN_PIPE = 2000
# Bars shorter than this part of the picture are not seen beside their dot.
SHORTEST_BAR = 0.02

_WANG = "Wang, Liang and Li 2015 (DRFH), V-B"
_KESIDIS = "Kesidis et al., max-min fairness and progressive filling"
_LEAST = {
    "drf": "the least dominant share of the whole cluster",
    "tsf": "the fewest tasks for what it could run alone, were there no constraints",
    "ps-dsf": "the least virtual dominant share",
}
_LEAST_SUM = "the least sum of virtual dominant shares over the servers it may use"
_WHERE = {
    "first-fit": "on the first server with room for it",
    "best-fit": "on the server with room whose shape is most like the task's",
    "best-fit-first": "on the server whose shape is most like the task's, or not at all",
    "rrr": "on the server whose turn it is; in each round the servers take turns in random order",
    "joint": "user and server chosen together",
}


def filling_document(trials: Trials, title: str, left_out: Sequence[str] = ()) -> Document:
    """Show a filling like any other answer, and if it is random, how much of it is chance.

    The other arguments are as in `fairlead.report.allocation.allocation_document`.
    """
    allocation, policy = trials.allocation, trials.policy
    styles = user_styles([allocation])
    means = f", means of {counted(trials.trials, 'trial')}" if trials.varies else ""
    users: list[Block] = [_means(trials)] if trials.varies else [users_table(allocation, styles)]
    if trials.varies:
        caption = (
            "A dot is the mean over the trials. The thick bar around it is the 95 % confidence "
            "interval of that mean; the thin one reaches one standard deviation of one trial to "
            "either side."
        )
        spread_of = "Mean tasks with their spread; the numbers are in the table above"
        users.append(Picture(caption, lambda: chance_figure(trials, styles), spread_of))
    if note := _note(trials):
        users.append(Prose(note, "small"))
    answer = list(details(allocation, about(policy), styles, users))
    return Document(
        title,
        "whole tasks",
        f"{size_of(trials.problem)}, filled by {policy.name}{means}",
        _verdict(trials),
        [*opening(allocation, styles), *answer[:-1], _left_over(trials), answer[-1]],
        trials.to_dict,
        left_out,
    )


def about(policy: Policy) -> tuple[str, str]:
    """Describe a policy in a line, with its source."""
    least = _LEAST[policy.criterion]
    if policy.criterion == "ps-dsf" and policy.select not in ("rrr", "joint"):
        least = _LEAST_SUM
    free = ", measured against what is free" if policy.residual else ""
    idea = (
        f"whole tasks, one at a time: the next goes to the user with {least}"
        f"{free}, {_WHERE[policy.select]}"
    )
    is_wangs = policy.criterion == "drf" and policy.select.endswith("-fit") and not policy.residual
    return idea, _WANG if is_wangs else _KESIDIS


def _verdict(trials: Trials) -> Statement:
    said = verdict_of(trials.allocation)
    tasks = number(float(trials.total.mean))
    some = f"{tasks} tasks on average" if trials.varies else f"{tasks} tasks"
    return Statement(said.kind, f"{some}, and no other fits. {said.sentence}")


def _note(trials: Trials) -> str:
    """Describe the part of chance in the numbers."""
    if trials.varies:
        return (
            "All numbers of tasks are means. ±: the mean lies so close with 95 % confidence "
            f"(Student's t). sd: standard deviation of one trial. Seed {trials.seed}."
        )
    if trials.policy.is_random:
        return (
            f"One trial of a random policy, seed {trials.seed}; --trials 200 tells how far "
            "another may differ."
        )
    if trials.trials > 1:
        return "Nothing here is random: every trial gives this, and it was computed once."
    return ""


def _means(trials: Trials) -> Table:
    """List the means, on every group and in all; in all only where that is too much."""
    problem = trials.problem
    held = trials.tasks.mean > 0
    columns = (Column("tasks, mean"), Column("±"), Column("sd"), Column("sd / mean", only=PAGE))
    about = "Mean tasks, and how far they vary"
    pairs: list[tuple[int, int | None]] = []
    for n in range(problem.n_users):
        groups = np.flatnonzero(held[n]).tolist()
        pairs += [(n, g) for g in groups] + ([(n, None)] if len(groups) != 1 else [])

    def by_group(k: int) -> list[Content]:
        n, g = pairs[k]
        if g is None:
            return [problem.users.names[n], "all", *_cells(trials.user_tasks, n)]
        return [problem.users.names[n], problem.cluster.groups[g], *_cells(trials.tasks, n, g)]

    in_all = Table(
        f"{about}, on all servers",
        (words("user"), *columns),
        problem.n_users,
        lambda n: [problem.users.names[n], *_cells(trials.user_tasks, n)],
        size=trials.allocation.dominant_share,
        each="user",
        foot=(["everybody", *_cells(trials.total)],),
        note="on all servers; group by group: --json",
    )
    return Table(
        about,
        (words("user"), words("on"), *columns),
        len(pairs),
        by_group,
        each="user",
        foot=(["everybody", "all", *_cells(trials.total)],),
        keys=2,
        in_pipe=ROWS_IN_PIPE,
        instead=in_all,
    )


def _left_over(trials: Trials) -> Section:
    """List what nobody holds of each resource on each group, as far as there is any to hold."""
    problem = trials.problem
    cluster, capacity = problem.cluster, problem.group_capacity
    present = np.argwhere(capacity > 0)
    share = trials.unused.mean[capacity > 0] / capacity[capacity > 0]

    def row(k: int) -> list[Content]:
        g, r = present[k].tolist()
        cells = _cells(trials.unused, g, r)
        return [
            cluster.groups[g],
            resource_label(cluster, r),
            *(cells[:3] if trials.varies else cells[:1]),
            Cell(number(float(capacity[g, r])), float(capacity[g, r])),
            Cell(percent(float(share[k])), float(share[k]), part=float(share[k])),
        ]

    varying = (Column("±"), Column("sd")) if trials.varies else ()
    columns = (words("group"), words("resource"), Column("left over"), *varying)
    about = "What nobody holds"
    table = Table(
        about,
        (*columns, Column("of"), Column("share")),
        len(present),
        row,
        size=share,
        rest="with smaller shares left over",
        keys=2,
    )
    return Section("Left over", [table])


def _cells(summary: TrialSummary, *index: int) -> list[Content]:
    """Write a mean, its margin, the deviation, and that relative to the mean."""
    mean = float(summary.mean[index])
    if summary.margin is None or summary.sd is None:
        return [Cell(number(mean), mean), "", "", ""]
    margin, sd = float(summary.margin[index]), float(summary.sd[index])
    relative = sd / mean if mean > 0 else 0.0
    return [
        Cell(number(mean), mean),
        Cell(spread(margin), margin),
        Cell(spread(sd), sd),
        Cell(percent(relative), relative, part=relative),
    ]


def chance_figure(trials: Trials, styles: Sequence[Style]) -> Figure:
    """Draw mean tasks with the margin of the mean and the deviation of one trial.

    A row per user and group if these are few, else per user, and only the largest users if these
    are many. Where nothing varies by as much as can be seen, deviations are drawn by themselves, as
    shares of the mean. There have to be several trials of a random policy.
    """
    rows = _rows(trials)
    largest = max((mean for _, _, mean, _, _ in rows), default=0.0)
    widest = max((sd for *_, sd in rows), default=0.0)
    shares = 0 < widest < SHORTEST_BAR * largest
    traces: list[Trace] = []
    colours = [styles[n].colour for n, *_ in rows]
    for place, ((_, _, mean, margin, sd), colour) in enumerate(zip(rows, colours, strict=True)):
        unit = mean if shares and mean > 0 else 1.0
        x = 0.0 if shares else mean
        # An error bar has one colour for all of its trace, so each is a trace.
        for reach, thickness, cap in ((sd / unit, 1.5, 4), (margin / unit, 6, 0)):
            bar = {"type": "data", "array": [reach], "thickness": thickness, "width": cap}
            drawn = dots("", [x], [place], colour=colour, size=1)
            traces.append(drawn | {"error_x": bar | {"color": colour}})
    said = [
        hover(name, f"{number(mean)} ± {spread(margin)} tasks", f"sd {spread(sd)}")
        for _, name, mean, margin, sd in rows
    ]
    means = [0.0 if shares else mean for _, _, mean, _, _ in rows]
    traces.append(dots("", means, list(range(len(rows))), said, colour=colours))
    title = "deviation from the mean, as a share of it" if shares else "tasks"
    drawn = listed([name for _, name, *_ in rows], title)
    if shares:
        drawn["xaxis"].pop("rangemode")
    else:
        drawn["xaxis"].pop("tickformat")
    return {"data": traces, "layout": drawn}


def _rows(trials: Trials) -> list[tuple[int, str, float, float, float]]:
    """Return user, name, mean, margin and deviation of every row of the picture."""
    problem = trials.problem
    users, groups = problem.users.names, problem.cluster.groups
    pairs = np.argwhere(trials.tasks.mean > 0).tolist()
    if len(pairs) <= USERS_WITH_A_ROW_EACH:
        named: list[tuple[int, str, TrialSummary, tuple[int, ...]]] = [
            (n, f"{users[n]} on {groups[g]}", trials.tasks, (n, g)) for n, g in pairs
        ]
    else:
        largest = largest_first(trials.allocation.dominant_share)[:USERS_WITH_A_ROW_EACH]
        named = [(n, users[n], trials.user_tasks, (n,)) for n in sorted(largest.tolist())]
    rows = []
    for n, name, summary, index in named:
        assert summary.margin is not None
        assert summary.sd is not None
        mean, margin, sd = (float(v[index]) for v in (summary.mean, summary.margin, summary.sd))
        rows.append((n, name, mean, margin, sd))
    return rows
