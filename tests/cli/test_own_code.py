"""Mechanisms and policies in a user's file: ``-m FILE.py:NAME``, ``-p FILE.py:NAME``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.cli.own_code import load_mechanism, load_policies
from fairlead.errors import InputError
from fairlead.traces.generator import generate_day
from fairlead.traces.parquet_trace import write_parquet
from small_problems import install

pytestmark = pytest.mark.usefixtures("few_instants")
Process = Callable[..., subprocess.CompletedProcess[str]]
CODE = """
import fairlead

def even(problem):
    "Each user gets an equal part of every server."
    return problem.gamma / problem.n_users

@fairlead.mechanism("half", summary="half of even")
def halved(problem, part=0.5):
    return part * even(problem)

def greedy(problem):
    return 2 * problem.gamma

def broken(problem):
    return problem.nothing

def sjf(view):
    "Shortest job first."
    groups = [group for group in view.waiting if view.fits(group)]
    return min(groups, key=lambda group: group.time_limit, default=None)

def wrong(view):
    return view.nothing

def leaves(view):
    raise SystemExit(3)

number = 5
"""

TALKS = """
import os, subprocess
import fairlead
print("loaded")

def first(view):
    print("a rule")
    os.write(1, b"past print\\n")
    subprocess.run(["echo", "a command"])
    return next((group for group in view.waiting if view.fits(group)), None)

def even(problem):
    print("even")
    return problem.gamma / problem.n_users

@fairlead.mechanism("half")
def halved(problem):
    print("half")
    return problem.gamma / problem.n_users / 2
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return str(path)


@pytest.fixture
def talks(tmp_path: Path) -> str:
    path = tmp_path / "talks.py"
    path.write_text(TALKS)
    return str(path)


@pytest.fixture
def day(tmp_path: Path) -> str:
    path = tmp_path / "day.parquet"
    write_parquet(generate_day(servers=4, users=3, jobs=12, hours=60, seed=1), path)
    return str(path)


def test_a_mechanism_in_a_file_is_known_to_each_verb(
    command: Process, mine: str, small: Path
) -> None:
    answer = json.loads(command("allocate", str(small), "-m", f"{mine}:even", "--json").stdout)
    assert answer["mechanism"] == "even"
    assert answer["certificate"]["holds"]
    # The file runs twice, and adds the mechanism again.
    words = ("compare", str(small), "-m", f"{mine}:even", "-m", f"{mine}:half", "--json")
    assert list(json.loads(command(*words).stdout)["mechanisms"]) == ["even", "half"]
    words = ("audit", str(small), "-m", f"{mine}:halved", "--property", "non-wastefulness")
    done = command(*words)
    assert done.returncode == 1
    assert "half" in done.stdout


def test_a_mechanism_in_a_file_on_random_problems(command: Process, mine: str) -> None:
    words = ("audit", "--random", "3", "-m", f"{mine}:even", "-m", f"{mine}:half", "--lies", "2")
    done = command(*words, "--property", "pareto-optimality", "--json")
    answer = json.loads(done.stdout)
    rows = {row["mechanism"]: row for row in answer["table"]}
    assert rows["half"]["violations"] == rows["half"]["asked"] == 3  # half of all stays idle
    assert set(answer["unproved"]) == {"even", "half"}
    assert done.returncode == 0  # neither mechanism claims the property
    done = command(*words, "--ray", "none:1")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "even is a mechanism in a file, which runs on this machine only" in done.stderr


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("mine.py", "name a function in it: "),
        ("mine.py:none", "no function named 'none'; it has even, halved, greedy, broken, sjf"),
        ("mine.py:number", "has no function named 'number'"),
        ("other.py:even", "there is no such file"),
        ("bad.py:even", "cannot be loaded: SyntaxError"),
        ("exits.py:even", "cannot be loaded: SystemExit: 3"),
    ],
)
def test_a_file_without_the_function_is_refused(mine: str, name: str, fault: str) -> None:
    folder = Path(mine).parent
    (folder / "bad.py").write_text("def even(")
    (folder / "exits.py").write_text("raise SystemExit(3)")
    with pytest.raises(InputError, match=fault):
        load_mechanism(f"{folder}/{name}")
    with pytest.raises(InputError, match=fault):
        load_policies([f"{folder}/{name}"])


def test_a_fault_of_a_mechanism_is_one_line(command: Process, mine: str, small: Path) -> None:
    done = command("allocate", str(small), "-m", f"{mine}:greedy")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "greedy: gives " in done.stderr
    done = command("compare", str(small), "-m", f"{mine}:broken", "-m", "ps-dsf", "--json")
    assert list(json.loads(done.stdout)["mechanisms"]) == ["ps-dsf"]
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("fairlead: broken: AttributeError")


def test_a_policy_and_fair_shares_in_a_file(command: Process, mine: str, day: str) -> None:
    words = ("-p", f"{mine}:sjf", "-p", "drf/best-fit", "--fair", f"{mine}:even", "--json")
    found = json.loads(command("simulate", day, *words).stdout)["policies"]
    assert list(found) == ["sjf", "drf/best-fit"]
    assert {f["fairness"]["mechanism"] for f in found.values()} == {"even"}


@pytest.mark.parametrize(
    ("verb", "option", "fault"),
    [
        ("explain", (), "does not say why tasks wait"),
        ("simulate", ("--explain", "user-1"), "does not say why tasks wait"),
        ("simulate", ("--what-if", "preempt:over-share"), "does not stop tasks"),
        ("simulate", ("--preempt", "over-share"), "takes no --preempt"),
        ("simulate", ("--ray", "local"), "runs on this machine only"),
    ],
)
def test_options_that_a_rule_does_not_take(
    verb: str, option: tuple[str, ...], fault: str, command: Process, mine: str, day: str
) -> None:
    job = ("job-0",) if verb == "explain" else ()
    done = command(verb, day, *job, "-p", f"{mine}:sjf", *option)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert fault in done.stderr


@pytest.mark.parametrize("processes", ["1", "2"])
def test_printed_text_does_not_spoil_the_answer(
    command: Process, talks: str, day: str, processes: str
) -> None:
    fair = ("--fair", f"{talks}:even", "--json", "--processes", processes)
    done = command("simulate", day, "-p", f"{talks}:first", "-p", "drf/best-fit", *fair)
    assert list(json.loads(done.stdout)["policies"]) == ["first", "drf/best-fit"]
    said = set(done.stderr.splitlines())
    assert {"loaded", "a rule", "even", "past print", "a command"} <= said


@pytest.mark.parametrize(
    ("rule", "fault", "option"),
    [
        ("wrong", "AttributeError: 'ClusterView' object has no attribute 'nothing'", ()),
        ("leaves", "SystemExit: 3", ("--seeds", "2")),
    ],
)
def test_a_rule_that_raises_ends_the_command(
    rule: str, fault: str, option: tuple[str, ...], command: Process, mine: str, day: str
) -> None:
    words = ("simulate", day, "-p", "drf/best-fit", "-p", f"{mine}:{rule}", "--processes", "2")
    line = CODE[: CODE.index(f"def {rule}")].count("\n") + 2
    done = command(*words, *option)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"fairlead: {rule}: {fault} ({mine}, line {line})\n"


def test_a_package_adds_a_policy_by_an_entry_point(
    command: Process, mine: str, day: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(mine).parent
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    points = "[fairlead.policies]\nmine/sjf = mine:sjf\nmine/lost = mine:lost\n"
    install(folder, "mine", f"{points}[fairlead.mechanisms]\nhalf = mine:halved\n")
    done = command("simulate", day, "-p", "mine/sjf", "--fair", "half", "--json")
    found = json.loads(done.stdout)["policies"]["mine/sjf"]
    assert found["fairness"]["mechanism"] == "half"
    done = command("simulate", day, "-p", "mine/lost")
    assert done.returncode == 2
    assert "mine:lost: cannot be loaded" in done.stderr
    refused = command("simulate", day, "-p", "mine/sjb").stderr
    assert "of other packages: mine/lost, mine/sjf; did you mean 'mine/sjf'?" in refused
    assert "half: half of even" in command("mechanisms").stdout


def test_rules_of_one_name_have_that_of_their_file(mine: str) -> None:
    other = Path(mine).with_name("theirs.py")
    other.write_text(Path(mine).read_text())
    _, known, second = load_policies([f"{mine}:sjf", "drf/best-fit", f"{other}:sjf"])
    assert known == "drf/best-fit"
    assert not isinstance(second, str)
    assert second.name == "theirs.sjf"
