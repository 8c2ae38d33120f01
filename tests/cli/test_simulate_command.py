"""The command ``fairlead simulate``."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import fairlead
from fairlead.cli.main import run
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload, first_seconds
from fairlead.simulation import runs as run_processes
from fairlead.simulation.metrics.comparison import compare
from fairlead.simulation.runs import RunsInterrupted
from fairlead.simulation.simulate import Outcome
from fairlead.traces.parquet_trace import write_parquet
from oracles.plain_replay import plain_replay
from page_reader import Reader
from small_problems import workload

pytestmark = pytest.mark.usefixtures("few_instants")

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "day.parquet"
    write_parquet(workload(), path)
    return path


@pytest.fixture(autouse=True)
def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_processes, "replay", plain_replay)


def simulate(*arguments: object) -> int:
    return run(["simulate", *map(str, arguments)])


def figures(capsys: Capture, *arguments: object) -> dict[str, Any]:
    capsys.readouterr()
    assert simulate(*arguments, "--json") == 0
    out, err = capsys.readouterr()
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    return found


def printed(capsys: Capture) -> str:
    """Return what was printed, in one line."""
    return " ".join(capsys.readouterr().out.split())


def summary_of(changed: Workload, log: RunLog) -> Any:
    return json.loads(json.dumps(Outcome("", changed, log).to_dict()))


def test_the_json_has_each_policy(trace: Path, capsys: Capture) -> None:
    policies = ("drf/best-fit", "slots:12", "ps-dsf/rrr")
    words = [word for policy in policies for word in ("--policy", policy)]
    found = figures(capsys, trace, *words, "--seed", 7, "--strict-fifo")
    assert (found["fairlead"], found["trace"], found["seed"]) == (1, str(trace), 7)
    assert found["format"] == "Parquet trace"
    assert found["strict_fifo"] is True
    assert found["too_large"] == {"tasks": 2, "jobs": ["giant"]}
    assert list(found["policies"]) == list(policies)
    for name, of_policy in found["policies"].items():
        log = plain_replay(workload(), name, seed=7, strict_fifo=True)
        assert of_policy == summary_of(workload(), log)
        assert of_policy["unplaceable_jobs"] == ["giant"]


def test_options_are_those_of_python(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    tree = tmp_path / "tree.yaml"
    tree.write_text("fairlead: 1\nqueues: [{name: team, weight: 3}]\nusers: {ana: team}\n")
    words = ["-p", "drf/best-fit", "--half-life", 60, "--fair", "ps-dsf", "--queues", tree]
    found = figures(capsys, trace, *words, "--what-if", "weight:team=1", "--load", 2)
    runs = fairlead.simulate(
        trace,
        "drf/best-fit/half-life:60",
        fair="ps-dsf",
        queues=tree,
        what_if="weight:team=1",
        load=2,
        processes=1,
    )
    assert found["policies"] == json.loads(json.dumps({n: r.to_dict() for n, r in runs.items()}))
    first, changed = runs.values()
    assert first.to_dict() != changed.to_dict()


def test_dedicated_servers_and_a_time_window(trace: Path, capsys: Capture) -> None:
    words = [trace, "-p", "drf/best-fit", "--dedicated", "--to", "1.5h"]
    found = figures(capsys, *words)
    shared, alone = fairlead.simulate(
        first_seconds(workload(), 5400), "drf/best-fit", dedicated=True, processes=1
    ).values()
    both = {"drf/best-fit": shared.to_dict(), "drf/best-fit, dedicated": alone.to_dict()}
    assert found["policies"] == json.loads(json.dumps(both))
    assert both["drf/best-fit"]["jobs"] == 3
    sharing = compare(shared.summary, alone.summary).to_dict()
    assert found["sharing"] == {**json.loads(json.dumps(sharing)), "baseline": list(both)[1]}


def test_figures_after_a_warm_up(trace: Path, capsys: Capture) -> None:
    words = (trace, "-p", "drf/best-fit", "--warm-up", "30s", "--explain", "ana")
    found = figures(capsys, *words)
    outcome = Outcome("", workload(), plain_replay(workload(), "drf/best-fit"), since=30.0)
    one = found["policies"]["drf/best-fit"]
    assert one == json.loads(json.dumps(outcome.to_dict()))
    assert found["explained"]["policies"]["drf/best-fit"] is not None
    found = figures(capsys, *words[:4], "1h", "--explain", "ana")
    assert found["policies"]["drf/best-fit"]["unplaceable_jobs"] == []
    assert found["explained"]["policies"]["drf/best-fit"] is None  # no job of ana is measured
    study = figures(capsys, shutil.copy(trace, trace.with_name("other.parquet")), *words[:5])
    times = study["figures"]["mean_completion_time"]["drf/best-fit"]
    assert times == pytest.approx([one["mean_completion_time"]] * 2)
    assert simulate(*words[:5]) == 0
    assert "after a warm-up of 30 s" in printed(capsys)


LAB = Path(__file__).parents[2] / "examples" / "logs" / "lab.swf"  # from 2013-01-01 00:00:51


@pytest.mark.parametrize(
    ("more", "hours"), [(("--from", "2h"), 4), (("--load", "0.5", "--to", "12h"), 12)]
)
def test_a_warm_up_may_end_at_a_date(more: tuple[str, ...], hours: int, capsys: Capture) -> None:
    words = (LAB, "-p", "drf/best-fit", *more, "--warm-up", "2013-01-01T06:00:51")
    assert figures(capsys, *words)["policies"]["drf/best-fit"]["measured_since"] == hours * 3600


def test_a_load_of_1_changes_nothing(capsys: Capture) -> None:
    words = (LAB, "-p", "recorded", "-p", "drf/best-fit")
    assert figures(capsys, *words, "--load", 1) == figures(capsys, *words)


def page(path: Path) -> str:
    return Reader(path.read_text()).text


def test_a_page_of_what_came_of_it(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    report = tmp_path / "page.html"
    words = ["-p", "drf/best-fit", "-p", "slots:4", "--what-if", "weight:ana=3", "--dedicated"]
    assert simulate(trace, *words) == 0
    without = capsys.readouterr().out
    assert simulate(trace, *words, "--report", report) == 0
    assert capsys.readouterr().out == without
    said = "Reference: drf/best-fit. The trace does not record when its tasks started."
    assert said in page(report)
    assert [path.name for path in tmp_path.iterdir()] == ["day.parquet", "page.html"]


def test_a_full_disk_takes_no_figures_away(
    trace: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, page = tmp_path / "runs", tmp_path / "page.html"
    words = [trace, "--policy", "drf/best-fit", "--policy", "slots:4"]
    assert simulate(*words) == 0
    expected = capsys.readouterr().out
    replace = os.replace

    def full(draft: Path, target: Path) -> None:
        if str(target).endswith(".parquet"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(draft, target)

    monkeypatch.setattr(os, "replace", full)
    assert simulate(*words, "--runs", runs, "--report", page) == 2
    out, err = capsys.readouterr()
    assert out == expected
    assert err.endswith(f"fairlead: {runs}: 2 of 2 runs could not be kept\n")
    assert page.exists()
    assert not list(tmp_path.rglob("*.part"))


def swf(*rows: str) -> bytes:
    return "".join(f"{row}\n" for row in ("; MaxProcs: 8", *rows)).encode()


WAITED = swf(
    "1 0 0 100 8 -1 -1 8 9 -1 1 1 1 1 1 -1 -1 -1",
    "2 5 200 10 1 -1 -1 1 9 -1 1 2 1 1 1 -1 -1 -1",
    "3 50 50 100 7 -1 -1 7 9 -1 0 1 1 1 1 -1 -1 -1",
)


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """Write a log in which user-2 waited, although a later job started and left enough room."""
    path = tmp_path / "log.swf"
    path.write_bytes(WAITED)
    return path


def test_what_the_log_says_happened_is_a_policy(
    logged: Path, tmp_path: Path, capsys: Capture
) -> None:
    words = [logged, "-p", "recorded", "-p", "drf/best-fit", "--what-if", "weight:user-1=2"]
    found = figures(capsys, *words, "--runs", tmp_path / "runs")["policies"]
    assert list(found) == ["recorded", "drf/best-fit", "drf/best-fit, weight:user-1=2"]
    recorded, replayed = found["recorded"], found["drf/best-fit"]
    assert (recorded["mean_wait"], replayed["mean_wait"]) == (250 / 3, 145 / 3)
    assert recorded["got_nothing"] == {"user-2": 200.0}
    assert (tmp_path / "runs" / "recorded.parquet").exists()
    report = tmp_path / "page.html"
    assert simulate(*words, "--runs", tmp_path / "runs", "--report", report) == 0
    assert "recorded: finished before, read from " in capsys.readouterr().err
    assert simulate(logged, "-p", "drf/best-fit", "--report", report) == 0
    assert "Reference: recorded, the schedule in the log." in page(report)
    others = ("-p", "slots:4", "-p", "drf/first-fit", "-p", "drf/rrr")
    assert simulate(*words, *others) == 0
    said = printed(capsys)
    assert "recorded 1 user-2 for 3.333 min" in said
    assert "Compared with drf/best-fit: with weight:user-1=2 the mean wait is " in said


@pytest.mark.parametrize(
    ("where", "fault", "finished"),
    [
        (
            "fairlead.cli._replays.simulate",
            RunsInterrupted(("drf/best-fit",), 2, Path("runs")),
            "1 of 2 runs are finished and kept in runs: drf/best-fit",
        ),
        (
            "fairlead.report.simulation_document.simulation_document",
            KeyboardInterrupt(),
            "2 of 2 runs are finished and kept in runs: drf/best-fit, slots:12",
        ),
    ],
)
def test_an_interruption_names_the_kept_runs(
    where: str,
    fault: BaseException,
    finished: str,
    trace: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.chdir(trace.parent)
    monkeypatch.setattr(where, interrupted)
    words = ["-p", "drf/best-fit", "-p", "slots:12", "--processes", 1, "--runs", "runs"]
    assert simulate(trace, *words) == 130
    said = f"fairlead: interrupted; {finished}; the same command "
    assert capsys.readouterr().err.startswith(said)
