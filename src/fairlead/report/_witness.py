"""Lay out the witness of a failed property, so that a reader can check it by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.properties import efficiency, lies
from fairlead.report.document import Content, Table, figure, pairs_table, table_of, words
from fairlead.report.document import numbers as number_columns
from fairlead.report.numbers import named, resource_label

MOST_COLUMNS = 10  # wider tables list each user's groups in one column of text
NAMES_LISTED = 40

# Labels of witness keys that do not explain themselves.
MEANING = {
    "kind": "fault",
    "could": "tasks that it could run",
    "slice": "tasks of its slice of every server",
    "margin": "margin, relative to the slice",
    "short": "users below their slice",
    "envious": "users that envy",
    "leaves": "leaving user",
    "loses": "user that loses most",
    "before": "its tasks before",
    "after": "its tasks after",
    "held": "its holdings",
    "fair": "max-min fair holdings",
    "fair_tasks": "tasks when fair",
    "drf": "tasks under DRF",
    "limit": "tasks that it has in all",
    "honest": "true tasks when it tells the truth",
    "gained": "true tasks with the result of the lie",
}


def exact(value: float) -> str:
    """Format a number with seven digits, enough to check a witness."""
    if not isfinite(value):
        return "unlimited" if value > 0 else str(value)
    if float(value).is_integer() and abs(value) < 1e12:
        return f"{value:,.0f}"
    if 1e4 <= abs(value) < 1e12:
        return f"{value:,.2f}"
    return f"{value:.7g}"


def witness_tables(verdict: Verdict, problem: Problem, tasks: FloatArray) -> list[Table]:
    """Lay out the witness of a verdict as tables, if it has one.

    A lie is compared with the true `problem`, and a better allocation with the present `tasks`
    (N,).
    """
    rest = dict(verdict.witness)
    if "margin" in rest:
        rest["margin"] = _percent(rest["margin"])
    tables: list[Table] = []
    if verdict.name == lies.NAME and {"user", "demand", "truth"} <= rest.keys():
        tables = _lie_tables(rest, problem)
    elif verdict.name == efficiency.PARETO and "better" in rest:
        tables = [_better_table(rest.pop("better"), problem, tasks)]
    if isfinite(verdict.severity) and verdict.severity > 0:
        rest["off by"] = _percent(verdict.severity)
    if rest:
        pairs = [(MEANING.get(key, key.replace("_", " ")), _in_words(v)) for key, v in rest.items()]
        tables.insert(0, pairs_table("Witness", pairs))
    return tables


def _in_words(value: Any) -> str:
    """Format any value of a witness as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_in_words(item)}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return named([_in_words(item) for item in value], NAMES_LISTED)
    if isinstance(value, float | int) and not isinstance(value, bool):
        return exact(value)
    return str(value)


def _percent(fraction: float) -> str:
    percent = 100 * fraction
    text = f"{percent:,.0f} %" if abs(percent) >= 1000 else f"{percent:.4g} %"
    return text.replace("-", "−")


def _lie_tables(rest: dict[str, Any], problem: Problem) -> list[Table]:
    """Tabulate reported and true demands, rates and servers; remove them from `rest`."""
    n = problem.users.names.index(rest["user"])
    reported, truth = rest.pop("demand"), rest.pop("truth")
    cluster = problem.cluster
    tables = []
    if "rates" not in rest or reported != truth:
        labels = {name: resource_label(cluster, r) for r, name in enumerate(cluster.resources)}
        rows = [
            (labels.get(r, r), figure(reported[r], exact), figure(truth[r], exact)) for r in truth
        ]
        columns = [*words("demand of one task"), *number_columns("reported", "true")]
        tables.append(table_of("Demand of one task", columns, rows))
    if "rates" in rest:
        rates, given = rest.pop("rates"), problem.users.rates
        rate_rows = [
            (group, exact(rates[group]), "" if given is None else exact(given[n, g]))
            for g, group in enumerate(cluster.groups)
        ]
        columns = [*words("rate on"), *number_columns("reported", "true")]
        tables.append(table_of("Rates", columns, rate_rows))
    if "servers" in rest:
        allowed, eligible = set(rest.pop("servers")), problem.users.eligible[n]
        yes_no = ("may not run", "may run")
        places = [
            (group, yes_no[group in allowed], yes_no[bool(eligible[g])])
            for g, group in enumerate(cluster.groups)
            if (group in allowed) != bool(eligible[g])
        ]
        columns = words("servers (others as in truth)", "reported", "true")
        tables.append(table_of("Where it may run", columns, places))
    return tables


def _better_table(
    better: Mapping[str, Mapping[str, float]], problem: Problem, tasks: FloatArray
) -> Table:
    """Tabulate a better allocation, with a row for each user."""
    used = {group for places in better.values() for group in places}
    groups = [g for g in problem.cluster.groups if g in used]
    position = {name: n for n, name in enumerate(problem.users.names)}
    in_words = len(groups) > MOST_COLUMNS
    columns = words("user", "where") if in_words else [*words("user"), *number_columns(*groups)]
    rows = []
    for user, places in better.items():
        row: list[Content] = [user]
        if in_words:
            row.append(_in_words(places))
        else:
            row += [figure(places[g], exact) if g in places else "" for g in groups]
        row += [figure(sum(places.values()), exact), figure(float(tasks[position[user]]), exact)]
        rows.append(row)
    columns += number_columns("tasks in all", "now")
    return table_of("A better allocation, in tasks", columns, rows)
