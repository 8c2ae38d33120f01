"""The first sentence of ``allocate --what-if`` names gains and losses; computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.cli.main import run
from fairlead.mechanisms.catalogue import solve
from fairlead.model.problem import Problem
from fairlead.model.problem_changes import change_problem
from fairlead.report.changes import what_if_document

PROBLEM = """\
fairlead: 1
resources: {cpu: cores, memory: GiB, gpu: null}
servers:
  - {name: a100, count: 2, capacity: {cpu: 32, memory: 64, gpu: 8}}
  - {name: m, count: 2, capacity: {cpu: 16, memory: 64}}
users:
  - {name: dee@m, demand: {cpu: 4, memory: 8}, servers: [m], tasks: 2}
  - {name: dee@a100, demand: {cpu: 4, memory: 4, gpu: 1}, servers: [a100], tasks: 40}
  - {name: bo, demand: {cpu: 2, memory: 4, gpu: 1}, servers: [a100], weight: 3}
  - {name: ana, demand: {cpu: 2}, servers: [m], tasks: 3}
"""


def answers(changes: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    path = tmp_path / "p.yaml"
    path.write_text(PROBLEM)
    assert run(["allocate", str(path), *(w for c in changes for w in ("--what-if", c))]) == 0
    return capsys.readouterr().out.splitlines()


def test_it_names_gains_losses_and_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 16 GPUs bo has 12 by weight 3 and dee 4; of 32 GPUs bo has 24 and dee 8.

    On m, dee's 8 cores and ana's 6 stay. Of 96 cores 54 were used, of 160 it is 94.
    """
    lines = answers(["servers:a100+2"], tmp_path, capsys)
    assert lines[1] == (
        "✓ With 2 more servers of a100, bo gains 12 gpu, 24 cores of cpu and 48 GiB of memory, and "
        "dee gains 4 gpu, 16 cores of cpu and 16 GiB of memory; no user loses; the cluster then "
        "uses 100.00 % of gpu (before: 100.00 %), 58.75 % of cpu (before: 56.25 %) and 37.50 % of "
        "memory (before: 31.25 %). These are shares by ps-dsf, not what users hold now."
    )


def test_fewer_servers_and_weights_have_losers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With weight 1 for each, both have 8 GPUs: bo has 4 fewer, dee 4 more."""
    lines = answers(["servers:a100-1", "weight:bo=1"], tmp_path, capsys)
    assert lines[1].startswith(
        "✓ With 1 fewer server of a100, no user gains; bo loses 6 gpu, 12 cores of cpu and 24 GiB "
        "of memory, and dee loses 2 gpu, 8 cores of cpu and 8 GiB of memory; the cluster then uses "
    )
    assert (
        "With weight 1 for bo, dee gains 4 gpu, 16 cores of cpu and 16 GiB of memory; bo loses "
        "4 gpu, 8 cores of cpu and 16 GiB of memory; the cluster then uses "
    ) in lines[1]


def test_a_change_without_effect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = [line for line in answers(["tasks:ana=3"], tmp_path, capsys) if "at most 3" in line]
    assert "With at most 3 tasks of ana, no user gains; no user loses; " in line


def test_kinds_may_gain_one_thing_and_lose_another() -> None:
    """By weights 3 to 1 instead of 1 to 1, dee has 3 of 4 GPUs and 2 of 8 cores."""
    problem = Problem.from_arrays(
        [[0.0, 4.0], [8.0, 0.0]], [[0, 1.0], [1.0, 0], [0, 1.0], [1.0, 0]],
        resources=["cpu", "gpu"], groups=["g", "m"], users=["dee@g", "dee@m", "bo", "cy"],
        eligible=[[True, False], [False, True], [True, False], [False, True]],
    )  # fmt: skip
    swapped = Problem.from_arrays(
        [[0.0, 4.0], [8.0, 0.0]], [[0, 1.0], [1.0, 0], [0, 1.0], [1.0, 0]], weight=[3, 1, 1, 3],
        resources=["cpu", "gpu"], groups=["g", "m"], users=["dee@g", "dee@m", "bo", "cy"],
        eligible=[[True, False], [False, True], [True, False], [False, True]],
    )  # fmt: skip
    before, after = solve(problem, "ps-dsf"), solve(swapped, "ps-dsf")
    verdict = what_if_document(before, {"weight:dee=x": after}, "t").verdict
    assert verdict is not None
    for part in ("dee gains 1 gpu", "cy gains 2 cpu", "bo loses 1 gpu", "dee loses 2 cpu"):
        assert part in verdict.sentence


def test_many_users_are_counted() -> None:
    """Of 12 GPUs each of 6 users has 2; of 18, it has 3."""
    problem = Problem.from_arrays([[1.0]], [[1.0]] * 6, count=[12], resources=["gpu"], groups=["g"])
    more = change_problem(problem, "servers:g+6")
    answer = solve(problem, "drfh")
    verdict = what_if_document(answer, {"servers:g+6": solve(more, "drfh")}, "t").verdict
    assert verdict is not None
    assert verdict.sentence.startswith(
        "With 6 more servers of g, u1 gains 1 gpu, u2 gains 1 gpu, u3 gains 1 gpu, and 3 more "
        "users gain; no user loses; "
    )


def test_more_changes_than_can_be_read_aloud() -> None:
    problem = Problem.from_arrays([[1.0]], [[1.0]] * 2, count=[12], groups=["g"], users=["a", "b"])
    answer = solve(problem, "drfh")
    texts = [f"weight:a={k}" for k in range(2, 7)]
    changed = {text: solve(change_problem(problem, text), "drfh") for text in texts}
    verdict = what_if_document(answer, changed, "t").verdict
    assert verdict is not None
    assert "With weight 4 for a" in verdict.sentence
    assert "With weight 5 for a" not in verdict.sentence
    assert verdict.sentence.endswith(
        " 2 more changes are below. These are shares by drfh, not what users hold now."
    )


def test_users_that_take_no_resource_gain_tasks() -> None:
    """A problem with only rates: twice the servers run twice the tasks."""
    problem = Problem.from_arrays(
        [[1.0]], [[0.0], [0.0]], rates=[[1.0], [2.0]], groups=["g"], users=["ana", "bo"]
    )
    more = solve(change_problem(problem, "servers:g+1"), "ps-dsf-tdm")
    verdict = what_if_document(solve(problem, "ps-dsf-tdm"), {"servers:g+1": more}, "t").verdict
    assert verdict is not None
    assert "With 1 more server of g, 2 users gain: " in verdict.sentence
    assert "ana (+100\u00a0%)" in verdict.sentence
