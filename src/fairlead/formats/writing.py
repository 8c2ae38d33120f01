"""Write a problem as YAML or JSON, all at once or not at all."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.formats.replacing import write_text
from fairlead.formats.schema import FORMAT_VERSION
from fairlead.model.problem import Problem

# Text that YAML 1.1 and 1.2 both read as itself without quotes.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))


def document_of(problem: Problem) -> dict[str, Any]:
    """Return the plain values of a problem file: plain numbers in declared units, no defaults."""
    cluster, units = problem.cluster, problem.cluster.units
    resources: Any = list(cluster.resources)
    if any(units):
        resources = {r: u or None for r, u in zip(resources, units, strict=True)}
    return {
        "fairlead": FORMAT_VERSION,
        "resources": resources,
        "servers": [_server(problem, g) for g in range(problem.n_groups)],
        "users": [_user(problem, n) for n in range(problem.n_users)],
    }


def render(document: Mapping[str, Any], *, as_json: bool) -> str:
    """Return a document as text: indented JSON, or YAML with one row a line."""
    if as_json:
        return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    return "".join(_yaml_lines(document))


def write_document(document: Mapping[str, Any], path: str | Path) -> None:
    """Write a document, replacing the file at once or not at all.

    JSON when the path ends in ``.json``, else YAML; ``-`` is standard output. Raises InputError.
    """
    text = render(document, as_json=str(path).lower().endswith(".json"))
    if str(path) == "-":
        sys.stdout.write(text)
        return
    write_text(Path(path), text)


def _server(problem: Problem, g: int) -> dict[str, Any]:
    cluster = problem.cluster
    row: dict[str, Any] = {"name": cluster.groups[g]}
    if cluster.count[g] != 1:
        row["count"] = int(cluster.count[g])
    row["capacity"] = _amounts(cluster.resources, cluster.capacity[g])
    if cluster.labels[g]:
        row["labels"] = dict(cluster.labels[g])
    return row


def _user(problem: Problem, n: int) -> dict[str, Any]:
    users, groups = problem.users, np.array(problem.cluster.groups, dtype=object)
    row: dict[str, Any] = {"name": users.names[n]}
    if (users.demand[n] > 0).any():
        row["demand"] = _amounts(problem.cluster.resources, users.demand[n])
    if users.resource_weight is not None:
        weights = users.resource_weight[n]
        row["weight"] = {
            r: _plain(w) for r, w in zip(problem.cluster.resources, weights, strict=True)
        }
    elif users.weight[n] != 1:
        row["weight"] = _plain(users.weight[n])
    if not users.eligible[n].all():
        row["servers"] = groups[users.eligible[n]].tolist()
    if np.isfinite(users.task_limit[n]):
        row["tasks"] = _plain(users.task_limit[n])
    if users.rates is not None and not np.isnan(users.rates[n, 0]):
        row["rates"] = {groups[g]: _plain(users.rates[n, g]) for g in users.rates[n].nonzero()[0]}
    return row


def _amounts(resources: tuple[str, ...], amounts: Any) -> dict[str, float]:
    return {r: _plain(a) for r, a in zip(resources, amounts, strict=True) if a != 0}


def _plain(number: float) -> float:
    """Return a number as Python's own, whole where it is whole and short."""
    value = float(number)
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _yaml_lines(document: Mapping[str, Any]) -> Iterator[str]:
    for key, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{key}:\n"
            for row in value:
                yield f"  - {_flow(row)}\n"
        else:
            yield f"{key}: {_flow(value)}\n"


def _flow(value: Any) -> str:
    """Return a value in YAML's flow style, text without quotes where it needs none."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
