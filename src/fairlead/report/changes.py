"""Documents of a changed problem: which users gain, which lose, and why."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairlead.mechanisms.comparison import UNCHANGED, ProblemComparison
from fairlead.model.allocation import Allocation
from fairlead.report._allocation_figures import comparison_figure
from fairlead.report.allocation_document import share_picture, size_of, verdict_of
from fairlead.report.document import (
    FAILS,
    HOLDS,
    Block,
    Content,
    Document,
    Listing,
    Picture,
    Section,
    Statement,
    Table,
    figure,
    numbers,
    table_of,
    words,
)
from fairlead.report.numbers import change, counted, named, number, percent

NAMED = 3  # users, resources or changes in a sentence
REASONS = 3  # of a user
AS_IT_IS = "as it is"


def comparison_of_problems(found: ProblemComparison, titles: tuple[str, str]) -> Document:
    """Return the document of two problems: gains of users, and the effect of each difference."""
    gains, rows = found.gains, found.to_frame().rows(named=True)
    shown: list[list[Content]] = []
    for row in rows:
        name = row["user"]
        reasons = [f"{d.text} ({_change(gain)})" for d, gain in found.reasons(name)[:REASONS]]
        tasks = [figure(row["tasks_before"]), figure(row["tasks_after"])]
        shown.append([name, *tasks, _change(gains.get(name, np.nan)), "; ".join(reasons)])
    columns = [*words("user"), *numbers("before", "after", "change"), *words("why")]
    note = (
        "before, after: tasks. change: of tasks; of the dominant share where a user's demand "
        "differs. why: the effect of each difference alone; together they may do more or less."
    )
    blocks: list[Block] = [
        table_of("Tasks of every user before and after", columns, shown, each="user", note=note)
    ]
    texts = [difference.text for difference in found.differences]
    blocks.append(Listing(texts or ["none"], "differences"))
    return Document(
        " and ".join(titles),
        "gains and losses of users",
        f"{size_of(found.before.problem)}, then {size_of(found.after.problem)}, divided by "
        f"{found.before.mechanism}",
        _balance(gains),
        blocks,
        found.to_dict,
    )


def what_if_document(
    allocation: Allocation, changed: Mapping[str, Allocation], title: str
) -> Document:
    """Return the document that compares an answer with those after each of several changes."""
    answers = {AS_IT_IS: allocation, **changed}
    names = allocation.problem.users.names
    held = allocation.user_tasks

    def row(n: int) -> list[Content]:
        cells: list[Content] = [names[n], number(float(held[n]))]
        for answer in changed.values():
            tasks = float(answer.user_tasks[n])
            cells.append(f"{number(tasks)} ({_change(_gain(float(held[n]), tasks))})")
        return cells

    foot: list[list[Content]] = [
        [f"{name} used", *(percent(answer.utilization[name]) for answer in answers.values())]
        for name in allocation.problem.cluster.resources
    ]
    columns = [*words("tasks"), *numbers(*answers)]
    table = Table(
        "Tasks of every user with each change",
        columns,
        len(names),
        row,
        size=allocation.dominant_share,
        each="user",
        foot=foot,
    )
    about = "Dominant share of every user with each change; tasks are in the table below"
    lines = [
        f"{'' if answer.certificate.holds else 'NOT PROVED: '}{text}: "
        f"{_balance(_gains(allocation, answer)).sentence}"
        for text, answer in changed.items()
    ]
    caution = f"These are shares by {allocation.mechanism}, not what users hold now."
    proved = all(answer.certificate.holds for answer in answers.values())
    more = [Listing(lines[NAMED:], "tasks with further changes")] if len(lines) > NAMED else []
    return Document(
        title,
        "what if",
        f"{size_of(allocation.problem)}, divided by {allocation.mechanism}, "
        f"with {counted(len(changed), 'change')} one by one",
        Statement(HOLDS if proved else FAILS, " ".join([*lines[:NAMED], caution])),
        [
            Picture("", lambda: comparison_figure(answers), about),
            *more,
            Section("Users with each change", [table]),
            Section("As it is", [verdict_of(allocation)]),
            Section("Shares as it is", [share_picture(allocation)], page_only=True),
        ],
        lambda: (
            allocation.to_dict()
            | {"what_if": {text: answer.to_dict() for text, answer in changed.items()}}
        ),
    )


def _change(gain: float) -> str:
    return "–" if np.isnan(gain) else change(gain)


def _gains(before: Allocation, after: Allocation) -> dict[str, float]:
    """Return the relative change of each user's tasks."""
    pairs = zip(before.user_tasks.tolist(), after.user_tasks.tolist(), strict=True)
    names = before.problem.users.names
    return {name: _gain(*pair) for name, pair in zip(names, pairs, strict=True)}


def _gain(before: float, after: float) -> float:
    return after / before - 1.0 if before > 0 else np.inf if after > 0 else 0.0


def _balance(gains: Mapping[str, float]) -> Statement:
    """Name the users with the largest gains and losses."""
    order = sorted(gains, key=lambda name: gains[name])
    losing = [name for name in order if gains[name] < -UNCHANGED]
    gaining = [name for name in reversed(order) if gains[name] > UNCHANGED]
    parts = []
    for users, verb in ((losing, "lose"), (gaining, "gain")):
        if users:
            shown = named([f"{name} ({_change(gains[name])})" for name in users], NAMED)
            count = counted(len(users), "user")
            parts.append(f"{count} {verb}{'s' * (len(users) == 1)}: {shown}")
    sentence = "; ".join(parts) or "no user gains or loses"
    return Statement(FAILS if losing else HOLDS, f"{sentence[0].upper()}{sentence[1:]}.")
