"""What shows that a property fails, laid out so that one can check it by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.properties import efficiency, lies
from fairlead.report.document import PAGE, Cell, Column, Content, Table, table_of
from fairlead.report.numbers import counted, number, resource_label

# A table has no more columns than this; more are put into words.
COLUMNS = 10
NAMES_LISTED = 40
# What cannot be compared is sorted after all numbers.
BEYOND = 1e300

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
) -> list[Table]:
    """Lay out the numbers of a verdict; none where there is nothing to show.

    `problem` is as it was given: what a liar's lie differs from. `tasks`, (N,), is what everybody
    has now, beside which a better allocation is shown.
    """
    rest = dict(verdict.witness)
    if "margin" in rest:
        rest["margin"] = _percent(rest["margin"])
    blocks: list[Table] = []
    if verdict.name == lies.NAME and {"user", "demand", "truth"} <= rest.keys():
        blocks = _lie_tables(rest, problem)
    elif verdict.name == efficiency.PARETO and "better" in rest:
        blocks = [_better_table(rest.pop("better"), problem, tasks)]
    if isfinite(verdict.severity) and verdict.severity > 0:
        rest["off by"] = _percent(verdict.severity)
    if rest:
        pairs = [(MEANING.get(key, key.replace("_", " ")), say(v)) for key, v in rest.items()]
        blocks.insert(0, _table("", ["", ""], pairs, (1,)))
    return blocks


def problem_blocks(problem: Problem) -> list[Table]:
    """Lay out a small problem: the servers, and the users with all that was said of them."""
    return [_servers(problem), _users(problem)]


def problem_line(problem: Problem) -> str:
    """Put a small problem into a line: servers, tasks, and what else there is."""
    cluster, users = problem.cluster, problem.users
    servers = ", ".join(
        f"{name} {_vector(cluster.capacity[g])}{_times(int(cluster.count[g]))}"
        for g, name in enumerate(cluster.groups)
    )
    rows = []
    for n, name in enumerate(users.names):
        row = f"{name} {_vector(users.demand[n])}"
        if users.weight[n] != 1:
            row += f" weight {number(float(users.weight[n]))}"
        if not users.eligible[n].all():
            allowed = [cluster.groups[g] for g in np.flatnonzero(users.eligible[n])]
            row += f" only on {' and '.join(allowed)}"
        if np.isfinite(users.task_limit[n]):
            row += f" with {number(float(users.task_limit[n]))} tasks"
        rows.append(row)
    return f"servers {servers}; tasks {', '.join(rows)}"


def _vector(amounts: FloatArray) -> str:
    return f"({', '.join(number(float(amount)) for amount in amounts)})"


def _times(count: int) -> str:
    return f" x {count:,}" if count > 1 else ""


def _table(
    caption: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[Content]],
    in_words: Sequence[int] = (),
) -> Table:
    """Return a small table of a page; the first column is of words, and those of `in_words`."""
    columns = [Column(heading, k == 0 or k in in_words) for k, heading in enumerate(headings)]
    about = caption or "What shows it"
    return table_of(about, columns, rows, captioned=bool(caption), only=PAGE)


def _figure(value: float) -> Cell:
    return Cell(exact(value), float(value) if isfinite(value) else BEYOND)


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


def _lie_tables(rest: dict[str, Any], problem: Problem) -> list[Table]:
    """Set what was told beside the truth; takes out of the witness what it shows."""
    n = problem.users.names.index(rest["user"])
    told, truth = rest.pop("demand"), rest.pop("truth")
    cluster = problem.cluster
    labels = {name: resource_label(cluster, r) for r, name in enumerate(cluster.resources)}
    blocks = []
    if "rates" not in rest or told != truth:
        rows = [(labels.get(r, r), _figure(told[r]), _figure(truth[r])) for r in truth]
        blocks.append(_table("Demand of one task", ["resource", "told", "true"], rows))
    if "rates" in rest:
        rates, given = rest.pop("rates"), problem.users.rates
        rates_told = [
            (group, _figure(rates[group]), "" if given is None else _figure(given[n, g]))
            for g, group in enumerate(cluster.groups)
        ]
        blocks.append(_table("Rates", ["servers", "told", "true"], rates_told))
    if "servers" in rest:
        blocks.append(_places_table(set(rest.pop("servers")), problem, n))
    return blocks


def _places_table(told: set[str], problem: Problem, n: int) -> Table:
    """Show where a liar says that it may run, other than the truth."""
    groups, eligible = problem.cluster.groups, problem.users.eligible[n]
    different = [g for g, group in enumerate(groups) if (group in told) != bool(eligible[g])]
    yes_no = ("may not run", "may run")
    rows = [(groups[g], yes_no[groups[g] in told], yes_no[bool(eligible[g])]) for g in different]
    same = len(groups) - len(different)
    others = f"; the truth on {counted(same, 'other group')}" if same else ""
    return _table(f"Where it may run{others}", ["servers", "told", "true"], rows, (1, 2))


def _better_table(
    better: Mapping[str, Mapping[str, float]], problem: Problem, tasks: FloatArray | None
) -> Table:
    """Lay out a better allocation, user by group."""
    used = {group for places in better.values() for group in places}
    groups = [g for g in problem.cluster.groups if g in used]
    groups += sorted(used.difference(groups))
    position = {name: n for n, name in enumerate(problem.users.names)}
    in_words, several = len(groups) > COLUMNS, len(groups) > 1
    headings = ["user", "where"] if in_words else ["user", *groups]
    headings += (["in all"] if several else []) + ([] if tasks is None else ["now"])
    rows = []
    for user, places in better.items():
        row: list[Content] = [user]
        if in_words:
            row.append(say(places))
        else:
            row.extend(_figure(places[g]) if g in places else "" for g in groups)
        if several:
            row.append(_figure(sum(places.values())))
        if tasks is not None:
            row.append(_figure(tasks[position[user]]))
        rows.append(row)
    return _table("A better allocation, in tasks", headings, rows, (1,) if in_words else ())


def _servers(problem: Problem) -> Table:
    cluster = problem.cluster
    several = bool((cluster.count != 1).any())
    headings = ["group", *(["how many"] if several else [])]
    headings += [resource_label(cluster, r) for r in range(problem.n_resources)]
    rows: list[list[Content]] = []
    for g, group in enumerate(cluster.groups):
        count = [_figure(cluster.count[g])] if several else []
        rows.append([group, *count, *map(_figure, cluster.capacity[g])])
    return _table("Servers", headings, rows)


def _users(problem: Problem) -> Table:
    """List users with their demands, and what else is said of any of them."""
    cluster, users = problem.cluster, problem.users
    labels = [resource_label(cluster, r) for r in range(problem.n_resources)]
    columns: list[tuple[str, list[Content]]] = [("user", list(users.names))]

    def add(heading: str, figures: FloatArray) -> None:
        columns.append((heading, ["" if np.isnan(v) else _figure(v) for v in figures.tolist()]))

    for r, label in enumerate(labels):
        add(f"{label} per task", users.demand[:, r])
    if users.resource_weight is not None:
        for r, label in enumerate(labels):
            add(f"weight, {label}", users.resource_weight[:, r])
    elif (users.weight != 1).any():
        add("weight", users.weight)
    if users.rates is not None:
        for g, group in enumerate(cluster.groups):
            add(f"rate on {group}", users.rates[:, g])
    if problem.has_limits:
        add("tasks in all", users.task_limit)
    in_words: tuple[int, ...] = ()
    if problem.has_constraints:
        in_words = (len(columns),)
        columns.append(("may run on", [_places(problem, n) for n in range(problem.n_users)]))
    rows = [[cells[n] for _, cells in columns] for n in range(problem.n_users)]
    return _table("Users", [heading for heading, _ in columns], rows, in_words)


def _places(problem: Problem, n: int) -> str:
    eligible = problem.users.eligible[n]
    if eligible.all():
        return "all servers"
    return say([problem.cluster.groups[g] for g in np.flatnonzero(eligible)])
