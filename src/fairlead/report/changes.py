"""Documents of a changed problem: which users gain, which lose, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fairlead.mechanisms.problem_comparison import UNCHANGED, ProblemComparison
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.problem_changes import change_in_words
from fairlead.model.ties import largest_first
from fairlead.report._allocation_figures import comparison_figure, user_styles
from fairlead.report.allocation import amounts_of_users, share_picture, size_of, verdict_of
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
from fairlead.report.numbers import amount, change, counted, named, number, percent

NAMED = 3  # users, resources or changes in a sentence
REASONS = 3  # of a user
AS_IT_IS = "as it is"


def comparison_of_problems(found: ProblemComparison, titles: tuple[str, str]) -> Document:
    """Show gains and losses of users between two problems, and the effect of each difference."""
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
    allocation: Allocation,
    changed: Mapping[str, Allocation],
    title: str,
    left_out: Sequence[str] = (),
) -> Document:
    """Compare an answer with the answers to the problem after each of several changes."""
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
    styles = user_styles([allocation])
    lines = [
        f"{text}: {_balance(_gains(allocation, answer)).sentence}"
        for text, answer in changed.items()
    ]
    return Document(
        title,
        "what if",
        f"{size_of(allocation.problem)}, divided by {allocation.mechanism}, "
        f"with {counted(len(changed), 'change')} one by one",
        _effects(allocation, changed),
        [
            Picture("", lambda: comparison_figure(answers), about),
            Listing(lines, "tasks with a change"),
            Section("Users with each change", [table]),
            Section("As it is", [verdict_of(allocation)]),
            Section("Shares as it is", [share_picture(allocation, styles)], page_only=True),
        ],
        lambda: (
            allocation.to_dict()
            | {"what_if": {text: answer.to_dict() for text, answer in changed.items()}}
        ),
        left_out,
    )


def _effects(before: Allocation, changed: Mapping[str, Allocation]) -> Statement:
    """Describe the gains and losses of amounts by the first changes, a sentence for each."""
    sentences = [_effect(before, after, text) for text, after in list(changed.items())[:NAMED]]
    if len(changed) > NAMED:
        more = len(changed) - NAMED
        sentences.append(f"{counted(more, 'more change')} {'is' if more == 1 else 'are'} below.")
    sentences.append(f"These are shares by {before.mechanism}, not what users hold now.")
    proved = all(answer.certificate.holds for answer in (before, *changed.values()))
    return Statement(HOLDS if proved else FAILS, " ".join(sentences))


def _effect(before: Allocation, after: Allocation, text: str) -> str:
    proved = "" if after.certificate.holds else "NOT PROVED: "
    what = f"{proved}With {change_in_words(text)}"
    if not before.problem.demand.any(axis=1).all():  # a user with only rates holds no amounts
        sentence = _balance(_gains(before, after)).sentence
        return f"{what}, {sentence[0].lower()}{sentence[1:]}"
    names = before.problem.users.names
    held, then = amounts_of_users(before), amounts_of_users(after)
    moved = np.where(np.abs(then - held) > UNCHANGED * np.maximum(then, held), then - held, 0.0)
    gains = _movers(names, np.maximum(moved, 0.0), after, "gain")
    losses = _movers(names, np.maximum(-moved, 0.0), after, "lose")
    used = after.utilization
    parts = [
        f"{percent(used[name])} of {name} (before: {percent(before.utilization[name])})"
        for name in sorted(used, key=lambda name: -used[name])[:NAMED]
    ]
    return f"{what}, {gains}; {losses}; the cluster then uses {_listed(parts)}."


def _movers(names: Sequence[str], moved: FloatArray, answer: Allocation, verb: str) -> str:
    """Name the users with the largest gains or losses, and count the others.

    `moved` has a row for each name and a column for each resource, and no values below 0.
    """
    cluster, total = answer.problem.cluster, answer.problem.total_capacity
    share = np.divide(moved, total, out=np.zeros_like(moved), where=total > 0)
    largest = share.max(axis=1)
    count = int((largest > 0).sum())
    parts = []
    for n in largest_first(largest)[: min(count, NAMED)]:
        amounts = []
        for r in largest_first(share[n])[:NAMED]:
            if moved[n, r] > 0:
                value = amount(float(moved[n, r]), cluster.units[r])
                amounts.append(f"{value}{' of' * bool(cluster.units[r])} {cluster.resources[r]}")
        parts.append(f"{names[n]} {verb}s {_listed(amounts)}")
    if count > NAMED:
        more = count - NAMED
        parts.append(f"{counted(more, 'more user')} {verb}{'s' * (more == 1)}")
    return _listed(parts, ", and ") or f"no user {verb}s"


def _listed(parts: Sequence[str], last: str = " and ") -> str:
    """Join words: ``a, b and c``."""
    return last.join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def _change(gain: float) -> str:
    if np.isnan(gain):
        return "–"
    return "from nothing" if np.isinf(gain) else change(gain)


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
