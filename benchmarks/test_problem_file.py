"""Read 100,000 servers listed one by one, beside PyYAML's C loader on the same text.

The plain version only parses; ours parses, validates, reads amounts and merges. Run with
``pytest benchmarks/test_problem_file.py -s``; the ratio is printed.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml
from pytest_benchmark.fixture import BenchmarkFixture

from fairlead.formats.problem_file import load
from fairlead.model.problem import Problem
from fairlead.model.reductions import merge_groups

SERVERS, USERS = 100_000, 50

# Wang, Liang and Li 2015, Table I: the kinds of servers in one of Google's clusters.
KINDS = (
    (0.5, 0.5), (0.5, 0.25), (0.5, 0.75), (1.0, 1.0), (0.25, 0.25),
    (0.5, 0.12), (0.5, 0.03), (0.5, 0.97), (1.0, 0.5), (0.5, 0.06),
)  # fmt: skip

HEAD = "fairlead: 1\nresources: {cpu: of the largest server, memory: of the largest server}\n"


def _write(folder: Path, style: str) -> Path:
    rows = [(f"s{k}", *KINDS[k % len(KINDS)]) for k in range(SERVERS)]
    users = [(f"user{n}", 0.01 * (n % 7 + 1), 0.01 * (n % 3 + 1)) for n in range(USERS)]
    path = folder / f"listed.{'json' if style == 'json' else 'yaml'}"
    if style == "json":
        document = {
            "fairlead": 1,
            "servers": [{"name": s, "capacity": {"cpu": c, "memory": m}} for s, c, m in rows],
            "users": [{"name": u, "demand": {"cpu": c, "memory": m}} for u, c, m in users],
        }
        path.write_text(json.dumps(document))
        return path
    row = "  - {{name: {}, {}: {{cpu: {}, memory: {}}}}}\n"
    if style == "block":
        row = "  - name: {}\n    {}:\n      cpu: {}\n      memory: {}\n"
    path.write_text(
        HEAD
        + "servers:\n"
        + "".join(row.format(s, "capacity", c, m) for s, c, m in rows)
        + "users:\n"
        + "".join(row.format(u, "demand", c, m) for u, c, m in users)
    )
    return path


def _read_and_merge(path: Path) -> Problem:
    return merge_groups(load(path))[0]


@pytest.mark.parametrize("style", ["flow", "block", "json"])
def test_read_validate_and_merge(benchmark: BenchmarkFixture, tmp_path: Path, style: str) -> None:
    path = _write(tmp_path, style)
    merged = benchmark.pedantic(_read_and_merge, (path,), rounds=3, warmup_rounds=1)
    assert merged.n_groups == len(KINDS)
    assert merged.count.sum() == SERVERS
    start = time.perf_counter()
    with path.open() as file:
        yaml.load(file, yaml.CSafeLoader) if style != "json" else json.load(file)
    plain = time.perf_counter() - start
    ours = benchmark.stats.stats.median
    name = "json.load" if style == "json" else "PyYAML's CSafeLoader"
    benchmark.extra_info["plain"] = plain
    print(
        f"\n{style}: read, validated and merged in {ours:.2f} s; "
        f"{name} alone takes {plain:.2f} s, {plain / ours:.1f} times as long"
    )
