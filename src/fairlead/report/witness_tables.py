"""What shows that a property fails, as small tables that one can check by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.properties import lies, pareto
from fairlead.report.numbers import counted, resource_label

# A table has no more columns than this; more are put into words.
COLUMNS = 10
NAMES_LISTED = 40

# What the keys of witnesses mean, where the word alone does not say it.
MEANING = {
    "kind": "what is wrong",
    "could": "tasks that it could run",
    "slice": "tasks of its slice of every server",
    "margin": "margin, relative to the slice",
    "short": "who falls short",
    "envious": "users that envy",
    "leaves": "who leaves",
    "loses": "who loses most",
    "before": "its tasks before",
    "after": "its tasks after",
    "held": "what it holds",
    "fair": "what is max-min fair",
    "fair_tasks": "tasks when fair",
    "drf": "tasks under DRF",
    "limit": "tasks that it has in all",
    "honest": "true tasks when it tells the truth",
    "gained": "true tasks with what it gets for the lie",
    "tasks": "tasks",
}


@dataclass(frozen=True)
class Block:
    """A small table.

    Attributes
    ----------
    caption : str
        What it shows; may be empty.
    headings : tuple of str
        One for each column; empty where the first column says it all.
    rows : tuple of tuples of str
        The first of each names the row.
    words : tuple of int
        Columns that are not numbers; the first never is.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[int, ...] = ()


def exact(value: float) -> str:
    """Write a number with the seven digits that it takes to check a witness."""
    if not isfinite(value):
        return "unlimited" if value > 0 else str(value)
    if float(value).is_integer() and abs(value) < 1e12:
        return f"{value:,.0f}"
    if 1e4 <= abs(value) < 1e12:
        return f"{value:,.2f}"
    return f"{value:.7g}"


def witness_blocks(
    verdict: Verdict, problem: Problem, tasks: FloatArray | None = None
) -> list[Block]:
    """Lay out the numbers of a verdict; none where there is nothing to show.

    Parameters
    ----------
    verdict : Verdict
    problem : Problem
        As it was given: what a liar's lie differs from.
    tasks : (N,) float, optional
        What everybody has now, beside which a better allocation is shown.
    """
    rest = dict(verdict.witness)
    if "margin" in rest:
        rest["margin"] = _percent(rest["margin"])
    blocks: list[Block] = []
    if verdict.name == lies.NAME and {"user", "demand", "truth"} <= rest.keys():
        blocks = _lie_blocks(rest, problem)
    elif verdict.name == pareto.NAME and "better" in rest:
        blocks = [_better_block(rest.pop("better"), problem, tasks)]
    if isfinite(verdict.severity) and verdict.severity > 0:
        rest["off by"] = _percent(verdict.severity)
    if rest:
        pairs = tuple((MEANING.get(key, key.replace("_", " ")), say(v)) for key, v in rest.items())
        blocks.insert(0, Block("", (), pairs, (1,)))
    return blocks


def problem_blocks(problem: Problem) -> list[Block]:
    """Lay out a small problem: the servers, and the users with all that was said of them."""
    return [_servers(problem), _users(problem)]


def say(value: Any) -> str:
    """Put any value of a witness into words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {say(item)}" for key, item in value.items())
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        listed = [say(item) for item in value[:NAMES_LISTED]]
        more = len(value) - len(listed)
        return ", ".join(listed) + (f" and {more:,} more" if more else "")
    if isinstance(value, float | int) and not isinstance(value, bool):
        return exact(value)
    return str(value)


def _percent(fraction: float) -> str:
    percent = 100 * fraction
    text = f"{percent:,.0f} %" if abs(percent) >= 1000 else f"{percent:.4g} %"
    return text.replace("-", "−")


def _lie_blocks(rest: dict[str, Any], problem: Problem) -> list[Block]:
    """Set what was told beside the truth; takes out of the witness what it shows."""
    n = problem.users.names.index(rest["user"])
    told, truth = rest.pop("demand"), rest.pop("truth")
    cluster = problem.cluster
    labels = {name: resource_label(cluster, r) for r, name in enumerate(cluster.resources)}
    rows = tuple((labels.get(r, r), exact(told[r]), exact(truth[r])) for r in truth)
    blocks = []
    if "rates" not in rest or told != truth:
        blocks.append(Block("Demand of one task", ("resource", "told", "true"), rows))
    if "rates" in rest:
        rates = rest.pop("rates")
        given = problem.users.rates
        rows = tuple(
            (group, exact(rates[group]), "" if given is None else exact(float(given[n, g])))
            for g, group in enumerate(cluster.groups)
        )
        blocks.append(Block("Rates", ("servers", "told", "true"), rows))
    if "servers" in rest:
        blocks.append(_places_block(set(rest.pop("servers")), problem, n))
    return blocks


def _places_block(told: set[str], problem: Problem, n: int) -> Block:
    """Show where a liar says that it may run, other than the truth."""
    groups, eligible = problem.cluster.groups, problem.users.eligible[n]
    different = [g for g, group in enumerate(groups) if (group in told) != bool(eligible[g])]
    yes_no = ("may not run", "may run")
    rows = tuple(
        (groups[g], yes_no[groups[g] in told], yes_no[bool(eligible[g])]) for g in different
    )
    same = len(groups) - len(different)
    others = f"; the truth on {counted(same, 'other group')}" if same else ""
    return Block(f"Where it may run{others}", ("servers", "told", "true"), rows, (1, 2))


def _better_block(
    better: Mapping[str, Mapping[str, float]], problem: Problem, tasks: FloatArray | None
) -> Block:
    """Lay out a better allocation, user by group."""
    used = {group for places in better.values() for group in places}
    groups = [g for g in problem.cluster.groups if g in used]
    groups += sorted(used.difference(groups))
    position = {name: n for n, name in enumerate(problem.users.names)}
    in_words = len(groups) > COLUMNS
    headings = ["user", "where"] if in_words else ["user", *groups]
    several = len(groups) > 1
    headings += (["in all"] if several else []) + ([] if tasks is None else ["now"])
    rows = []
    for user, places in better.items():
        row = [user]
        if in_words:
            row.append(say(places))
        else:
            row.extend(exact(places[g]) if g in places else "" for g in groups)
        if several:
            row.append(exact(sum(places.values())))
        if tasks is not None:
            row.append(exact(float(tasks[position[user]])))
        rows.append(tuple(row))
    return Block(
        "A better allocation, in tasks", tuple(headings), tuple(rows), (1,) if in_words else ()
    )


def _servers(problem: Problem) -> Block:
    cluster = problem.cluster
    several = bool((cluster.count != 1).any())
    headings = ["group", *(["how many"] if several else [])]
    headings += [resource_label(cluster, r) for r in range(problem.n_resources)]
    rows = []
    for g, group in enumerate(cluster.groups):
        count = [f"{int(cluster.count[g]):,}"] if several else []
        rows.append((group, *count, *(exact(float(c)) for c in cluster.capacity[g])))
    return Block("Servers", tuple(headings), tuple(rows))


def _users(problem: Problem) -> Block:
    """List users with their demands, and what else is said of any of them."""
    cluster, users = problem.cluster, problem.users
    labels = [resource_label(cluster, r) for r in range(problem.n_resources)]
    columns: list[tuple[str, list[str]]] = [
        (f"{label} per task", [exact(float(d)) for d in users.demand[:, r]])
        for r, label in enumerate(labels)
    ]
    if users.resource_weight is not None:
        for r, label in enumerate(labels):
            weights = [exact(float(w)) for w in users.resource_weight[:, r]]
            columns.append((f"weight, {label}", weights))
    elif (users.weight != 1).any():
        columns.append(("weight", [exact(float(w)) for w in users.weight]))
    if users.rates is not None:
        for g, group in enumerate(cluster.groups):
            rates = ["" if np.isnan(rate) else exact(float(rate)) for rate in users.rates[:, g]]
            columns.append((f"rate on {group}", rates))
    if problem.has_limits:
        columns.append(("tasks in all", [exact(float(t)) for t in users.task_limit]))
    words: tuple[int, ...] = ()
    if problem.has_constraints:
        words = (len(columns) + 1,)
        columns.append(("may run on", [_places(problem, n) for n in range(problem.n_users)]))
    rows = tuple(
        (name, *(values[n] for _, values in columns)) for n, name in enumerate(users.names)
    )
    return Block("Users", ("user", *(heading for heading, _ in columns)), rows, words)


def _places(problem: Problem, n: int) -> str:
    eligible = problem.users.eligible[n]
    if eligible.all():
        return "all servers"
    return say([problem.cluster.groups[g] for g in np.flatnonzero(eligible)])
