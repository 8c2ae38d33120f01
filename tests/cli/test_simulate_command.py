"""The command ``fairlead simulate``."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_problems import only_line, workload

import small_logs
from fairlead.cli.main import run
from fairlead.model.queues import read_queues
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload, first_seconds
from fairlead.simulation import runs as run_processes
from fairlead.simulation._dedicated import replay_dedicated
from fairlead.simulation.metrics.comparison import compare
from fairlead.simulation.metrics.summary import summarise
from fairlead.simulation.simulate import Outcome
from fairlead.traces.parquet_trace import write_parquet
from fairlead.traces.what_if import change_workload
from oracles.plain_replay import plain_replay
from page_reader import Reader

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


def test_users_in_a_tree_of_queues(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    tree = tmp_path / "tree.yaml"
    tree.write_text(
        "fairlead: 1\nqueues: [{name: team, weight: 3}]\nusers: {ana: team, nobody: team}\n"
    )
    words = ("--policy", "drf/best-fit", "--queues", tree, "--what-if", "weight:team=1")
    found = figures(capsys, trace, *words)
    for name, weight in (("drf/best-fit", 3), ("drf/best-fit, weight:team=1", 1)):
        rows = [{"name": "team", "weight": weight}]
        queues = read_queues(rows, ["team", None], workload().users)
        changed = replace(workload(), queues=queues)
        expected = summary_of(changed, plain_replay(changed, "drf/best-fit"))
        assert found["policies"][name] == expected


def test_a_tree_names_resources_of_the_trace(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    typo = tmp_path / "typo.yaml"
    typo.write_text("fairlead: 1\nlimits: {ana: {gpus: 1}}\n")
    fault = refused(capsys, trace, "--policy", "drf/best-fit", "--queues", typo)
    assert "limits.ana.gpus: the trace has no such resource; it has cpu, memory" in fault


def test_what_if_and_dedicated(trace: Path, capsys: Capture) -> None:
    changes = ("weight:ana=3", "servers:high-cpu-1")
    words = [word for change in changes for word in ("--what-if", change)]
    found = figures(capsys, trace, "--policy", "drf/best-fit", *words, "--dedicated")
    assert list(found["policies"]) == [
        "drf/best-fit",
        *(f"drf/best-fit, {change}" for change in changes),
        "drf/best-fit, dedicated",
    ]
    for change in changes:
        changed = change_workload(workload(), change)
        expected = summary_of(changed, plain_replay(changed, "drf/best-fit"))
        assert found["policies"][f"drf/best-fit, {change}"] == expected
    shared = plain_replay(workload(), "drf/best-fit")
    alone = replay_dedicated(workload(), "drf/best-fit", plain_replay)
    assert found["policies"]["drf/best-fit, dedicated"] == summary_of(workload(), alone)
    given = workload()
    expected = compare(summarise(given, shared), summarise(given, alone)).to_dict()
    assert found["sharing"] == json.loads(
        json.dumps(expected | {"baseline": "drf/best-fit, dedicated"})
    )


def test_options_become_suffixes_of_policies(trace: Path, capsys: Capture) -> None:
    found = figures(capsys, trace, "-p", "drf/best-fit", "--half-life", 60)
    assert list(found["policies"]) == ["drf/best-fit/half-life:60"]


def test_only_the_first_hours(trace: Path, capsys: Capture) -> None:
    found = figures(capsys, trace, "--policy", "drf/best-fit", "--to", "1.5h")
    early = first_seconds(workload(), 5400)
    assert early.n_jobs == 3
    expected = summary_of(early, plain_replay(early, "drf/best-fit"))
    assert found["policies"]["drf/best-fit"] == expected


def test_figures_after_a_warm_up(trace: Path, capsys: Capture) -> None:
    policies = ("-p", "drf/best-fit", "-p", "drf/rrr")
    found = figures(capsys, trace, *policies, "--warm-up", "30s")["policies"]
    for name, of_policy in found.items():
        outcome = Outcome("", workload(), plain_replay(workload(), name), since=30.0)
        assert of_policy == json.loads(json.dumps(outcome.to_dict()))
        assert (of_policy["measured_since"], of_policy["jobs"]) == (30.0, 3)
    hour = figures(capsys, trace, *policies, "--warm-up", "1h")["policies"]["drf/rrr"]
    assert (hour["tasks"], hour["unplaceable"], hour["unplaceable_jobs"]) == (5, 0, [])
    assert simulate(trace, *policies, "--warm-up", "1h") == 0
    assert "after a warm-up of 60 min" in printed(capsys)


LAB = Path(__file__).parents[2] / "examples" / "logs" / "lab.swf"  # from 2013-01-01 00:00:51


@pytest.mark.parametrize(
    ("more", "after"),
    [(("--from", "2h"), "4h"), (("--load", "0.5"), "12h"), (("--seeds", "2"), "6h")],
)
def test_a_warm_up_may_end_at_a_date(more: tuple[str, ...], after: str, capsys: Capture) -> None:
    words = (LAB, "-p", "drf/best-fit", *more, "--warm-up")
    by_date = figures(capsys, *words, "2013-01-01T06:00:51")
    assert by_date == figures(capsys, *words, after)


def test_jobs_of_the_warm_up_are_not_explained(trace: Path, capsys: Capture) -> None:
    words = ("-p", "drf/best-fit", "--explain", "ana")
    for more, is_explained in (((), True), (("--warm-up", "1h"), False)):
        found = figures(capsys, trace, *words, *more)["explained"]["policies"]
        assert (found["drf/best-fit"] is not None) == is_explained


def test_a_study_is_measured_after_a_warm_up(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    other = tmp_path / "other.parquet"
    write_parquet(workload(), other)
    found = figures(capsys, trace, other, "-p", "drf/best-fit", "--warm-up", "30s")
    one = figures(capsys, trace, "-p", "drf/best-fit", "--warm-up", "30s")
    mean = one["policies"]["drf/best-fit"]["mean_wait"]
    assert found["measured_since"] == 30.0
    assert found["figures"]["mean_wait"]["drf/best-fit"] == pytest.approx([mean, mean])


def page(path: Path) -> str:
    return Reader(path.read_text()).text


def gains_of(path: Path) -> list[list[float]]:
    """Return the numbers of the table of gains, a row for each policy."""
    return Reader(path.read_text()).numbers("Users that gain and lose")


def test_a_page_of_what_came_of_it(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    report = tmp_path / "page.html"
    words = ["-p", "drf/best-fit", "-p", "slots:4", "--what-if", "weight:ana=3", "--dedicated"]
    assert simulate(trace, *words) == 0
    without = capsys.readouterr().out
    assert simulate(trace, *words, "--report", report) == 0
    assert capsys.readouterr().out == without
    said = "Reference: drf/best-fit. The trace does not say when its tasks started."
    assert said in page(report)
    assert len(gains_of(report)) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["day.parquet", "page.html"]


def test_unwritable_pages_are_refused_before_anything_runs(
    trace: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_arguments: object, **_options: object) -> None:
        raise AssertionError("it ran")

    folder = Path(shutil.copytree(small_logs.OPENB, tmp_path / "openb"))
    part = next(folder.iterdir())
    monkeypatch.setattr(run_processes, "replay", never)
    words = ["--policy", "drf/best-fit", "--report"]
    before = trace.read_bytes()
    assert "is the trace itself" in refused(capsys, trace, *words, trace)
    assert "is a part of the trace" in refused(capsys, folder, *words, part)
    assert trace.read_bytes() == before


def refused(capsys: Capture, *arguments: object) -> str:
    capsys.readouterr()
    assert simulate(*arguments) == 2
    return only_line(capsys)


def test_fairness_is_held_against_the_mechanism_that_is_named(trace: Path, capsys: Capture) -> None:
    found = figures(capsys, trace, "--policy", "drf/best-fit", "--fair", "ps-dsf")
    assert found["policies"]["drf/best-fit"]["fairness"]["mechanism"] == "ps-dsf"


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
    assert replayed["users"]["user-2"]["longest_without"] == 95
    assert (tmp_path / "runs" / "recorded.parquet").exists()
    assert simulate(*words) == 0
    assert "recorded 1 user-2 for 3.333 min" in printed(capsys)


def test_a_change_is_compared_with_its_own_policy(
    logged: Path, tmp_path: Path, capsys: Capture
) -> None:
    others = ("-p", "slots:4", "-p", "drf/first-fit", "-p", "drf/rrr")
    words = (logged, "-p", "recorded", "-p", "drf/best-fit", *others)
    words += ("--what-if", "weight:user-1=2", "--report", tmp_path / "page.html")
    assert simulate(*words) == 0
    said = "Compared with drf/best-fit: with weight:user-1=2 the mean wait is "
    assert said in printed(capsys)


def test_on_the_page_today_is_what_the_log_says(logged: Path, tmp_path: Path) -> None:
    report = tmp_path / "page.html"
    assert simulate(logged, "-p", "drf/best-fit", "--report", report) == 0
    assert "Reference: recorded, the schedule in the log." in page(report)
    assert len(gains_of(report)) == 1


def test_a_log_of_more_than_its_servers_hold_says_so(logged: Path, capsys: Capture) -> None:
    logged.write_bytes(WAITED.replace(b"3 50 50 100", b"3 50 0 100"))
    assert simulate(logged, "-p", "recorded") == 0
    assert "took more than the servers of the trace have" in printed(capsys)


SLOW = """
import sys, time
from pathlib import Path
from fairlead.simulation import runs as run_processes
from oracles.plain_replay import plain_replay

def replay(workload, policy, **options):
    if policy == "slots:4":
        Path(sys.argv[1]).touch()
        time.sleep(600)
    return plain_replay(workload, policy, **options)

run_processes.replay = replay
from fairlead.cli.main import run
sys.exit(run(sys.argv[2:]))
"""


def test_an_interruption_says_what_is_finished_and_how_to_go_on(
    trace: Path, tmp_path: Path, capsys: Capture
) -> None:
    started, runs = tmp_path / "started", tmp_path / "runs"
    words = ["simulate", str(trace), "--policy", "drf/best-fit", "--policy", "slots:4"]
    words += ["--runs", str(runs)]
    tests = Path(__file__).resolve().parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, str(started), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), *sys.path])},
        start_new_session=True,
    ) as process:
        for _ in range(600):
            time.sleep(0.1)
            if started.exists() and (runs / "drf_best-fit.parquet").exists():
                break
        # As Ctrl-C does: every process of the terminal hears of it.
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    *before, err = err.splitlines(keepends=True)
    assert [line.startswith("fairlead: slots:4: a slot is ") for line in before] == [True]
    assert err == (
        f"fairlead: interrupted; 1 of 2 runs are finished and kept in {runs}: drf/best-fit; the "
        "same command goes on with the others\n"
    )
    assert run([*words, "--json"]) == 0
    again = capsys.readouterr()
    assert again.err.startswith("fairlead: drf/best-fit: finished before, read from ")
    assert list(json.loads(again.out)["policies"]) == ["drf/best-fit", "slots:4"]


def test_without_a_folder_no_run_is_kept() -> None:
    assert run_processes.resume_text(("drf/best-fit",), 2, None).startswith("nothing is kept (")


def test_an_interruption_after_the_replays_names_the_kept_runs(
    trace: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    runs = tmp_path / "runs"
    monkeypatch.setattr("fairlead.report.simulation.simulation_document", interrupted)
    words = (trace, "-p", "drf/best-fit", "-p", "slots:12", "--processes", 1, "--runs", runs)
    assert simulate(*words) == 130
    kept = f"2 of 2 runs are finished and kept in {runs}: drf/best-fit, slots:12; "
    assert capsys.readouterr().err.startswith(f"fairlead: interrupted; {kept}")
    assert len(list(runs.iterdir())) == 2
