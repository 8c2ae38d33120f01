"""Rounded times do not count as overuse: jobs of 0 s, and an excess of at most .1 % in a bin."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairlead.cli.main import run

HEADING = "JobID|User|Submit|Start|End|State|AllocTRES|NNodes|NodeList\n"
NODE = "NodeName=n1 CPUTot=32 RealMemory=65536\n"
WARNING = "took more than the servers of the trace have"


def warns(jobs: list[tuple[int, int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    """Return whether a page warns of overuse by jobs that each take the whole node.

    `jobs` has the start and the end of each job in seconds.
    """
    rows = [
        f"{k}|ana|{date(0)}|{date(start)}|{date(end)}|COMPLETED|cpu=32,mem=1G,node=1|1|n1\n"
        for k, (start, end) in enumerate(jobs)
    ]
    table, nodes = tmp_path / "sacct.txt", tmp_path / "nodes.txt"
    table.write_text(HEADING + "".join(rows))
    nodes.write_text(NODE)
    assert run(["simulate", str(table), "--machines", str(nodes), "-p", "recorded"]) == 0
    return WARNING in " ".join(capsys.readouterr().out.split())


def date(second: int) -> str:
    return f"{datetime.fromtimestamp(1_772_438_400 + second, UTC):%Y-%m-%dT%H:%M:%S}"


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        # One after the other: the next one starts in the second in which the last one ended.
        ([(k // 2, (k + 1) // 2) for k in range(10)], False),
        ([(5, 5)] * 9 + [(5, 6)], False),
        ([(0, 0)] * 10, False),
        # Two of a second each on a node for one, beside those of 0 s.
        ([(k // 2, (k + 1) // 2) for k in range(8)] + [(2, 3), (2, 3)], True),
        # Bins of 2000 s, in one of which 1 s (.05 %) or 3 s (.15 %) are taken twice.
        ([(0, 300_501), (300_500, 600_000)], False),
        ([(0, 300_503), (300_500, 600_000)], True),
    ],
)
def test_only_real_overuse_is_called_so(
    jobs: list[tuple[int, int]],
    expected: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert warns(jobs, tmp_path, capsys) == expected
