"""Documents of arrivals show the numbers of the run."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.mechanisms.dynamic_run import DynamicRun, run_dynamic
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.report.dynamic_document import dynamic_document
from fairlead.report.numbers import percent, precise_percent
from fairlead.report.terminal import to_terminal

VERDICTS = [
    Verdict("sharing-incentive", "holds", {}, 6, "all 6 steps"),
    Verdict("dynamic-envy-freeness", "unknown", {}, 6, "6 of 7 steps"),
    Verdict("strategy-proofness", "fails", {"agent": "u1", "its_share": 0.5}, 6),
]


def run_of(users: int) -> DynamicRun:
    random = np.random.default_rng(2)
    demand = random.uniform(0.1, 1, (users, 3))
    return run_dynamic(
        Problem.from_arrays([[20.0] * 3], demand, weight=random.choice([1, 2], users))
    )


def text_of(run: DynamicRun, width: int | None = None, count: int = 3) -> str:
    return to_terminal(dynamic_document(run, VERDICTS[:count], "x"), width=width, plain=True)


def test_every_user_is_listed_with_its_shares() -> None:
    run = run_of(30)
    lines = [line.split() for line in text_of(run).splitlines()]
    for n in range(30):
        shares = (run.levels[n], run.shares[n], run.full_knowledge_shares[n])
        cells = [word for share in shares for word in precise_percent(float(share)).split()]
        ratio = percent(float(run.shares[n] / run.full_knowledge_shares[n])).split()
        weight = f"{run.problem.weight[n]:g}"
        assert [f"u{n + 1}", weight, str(n + 1), *cells, *ratio] in lines
    for resource, used in zip(run.problem.cluster.resources, run.used.tolist(), strict=True):
        assert [resource, "used", *percent(used).split()] in lines


def test_a_terminal_lists_the_first_and_last_arrivals() -> None:
    text = text_of(run_of(150), 120)
    rows = [line.split() for line in text.splitlines() if line.startswith(" u")][1:]
    assert [int(row[2]) for row in rows] == [*range(1, 21), *range(131, 151)]
    assert "... and 110 users between them" in text


@pytest.mark.parametrize(
    ("count", "mark", "summary"),
    [
        (0, "✓", "after step"),
        (1, "✓", "Properties that hold: 1 of 1."),
        (2, "✓", "Properties that hold: 1 of 2; the rest could not be refuted."),
        (3, "✗", "NOT EVERY PROPERTY HOLDS: strategy-proofness."),
    ],
)
def test_the_verdict_has_the_least_level(count: int, mark: str, summary: str) -> None:
    run = run_of(20)
    verdict = text_of(run, count=count).splitlines()[1]
    ratio = run.levels / run.full_knowledge_levels
    assert verdict.startswith(f"{mark} In the end the least level is {percent(float(ratio[-1]))}")
    assert f"after step {ratio.argmin() + 1}: {percent(float(ratio.min()))}." in verdict
    assert summary in verdict
