"""The command ``fairlead audit``."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead import load
from fairlead.cli.main import run
from fairlead.mechanisms import catalogue
from fairlead.mechanisms.catalogue import Claim
from fairlead.properties.audit import AUDITED
from kubernetes_dumps import node, pod, write
from small_problems import ROOT, answer_of, only_line

UNFAIR = ROOT / "examples" / "refuted" / "tsf-sharing-incentive.yaml"


# Under proportional fairness bo gains if it asks for more memory than it needs.
TEMPTING = """\
fairlead: 1
resources: [cpu, memory]
servers:
  - {name: s, capacity: {cpu: 60, memory: 100}}
users:
  - {name: ana, demand: {cpu: 1, memory: 9}}
  - {name: bo, demand: {cpu: 7, memory: 1}}
"""


def saved(tmp_path: Path, document: object, name: str = "theirs.json") -> str:
    path = tmp_path / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def test_all_properties_are_checked_with_so_many_lies(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = answer_of(["audit", str(small), "-m", "drfh", "--lies", "20"], capsys)
    assert [row["name"] for row in answer["properties"]] == list(AUDITED)
    assert answer["properties"][5]["searched"] == 20


def test_an_audit_that_fails_exits_1_and_names_the_victim(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["audit", str(UNFAIR), "-m", "tsf", "--property", "sharing-incentive"]
    assert run(words) == 1
    sentence = "ana runs 1.778 tasks; a slice of every server would run 2"
    assert re.search(rf"✗ +sharing-incentive +FAILS +{sentence}", capsys.readouterr().out)
    (row,) = answer_of(words, capsys, 1)["properties"]
    assert row["witness"]["user"] == "ana"
    assert row["witness"]["margin"] == pytest.approx(-1 / 9)


def test_a_lie_that_pays_is_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "witness"
    words = ["audit", saved(tmp_path, TEMPTING, "c.yaml"), "-m", "proportional", "--lies", "40"]
    answer = answer_of([*words, "--save-witness", str(folder)], capsys, 1, is_quiet=False)
    witness = next(row for row in answer["properties"] if row["name"] == "strategy-proofness")
    truth, lie = load(folder / "truth.yaml"), load(folder / "lie.yaml")
    user = truth.users.names.index(witness["witness"]["user"])
    assert (truth.demand[user] != lie.demand[user]).any()


def test_an_allocation_stands_beside_the_fair_one(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"name": "ana", "servers": {"high-memory": 10}},
        {"name": "bo", "servers": {"high-cpu": 4}},
    ]
    theirs = saved(tmp_path, {"users": rows})
    answer = answer_of(["audit", str(small), "--allocation", theirs, "-m", "drfh"], capsys, 1)
    assert (answer["audited"], answer["fair_by"]) == ("theirs.json", "drfh")
    bo = answer["users"][1]
    assert (bo["tasks"], bo["fair_tasks"]) == (4, pytest.approx(10))


def test_lenient_skips_a_row_and_counts_it(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"name": "ana", "servers": {"high-memory": 10}},
        {"name": "bo", "servers": {"high-cpu": 10}},
        {"name": "cy", "servers": {"high-cpu": 1}},
    ]
    words = ["audit", str(small), "--allocation", saved(tmp_path, {"users": rows}), "--lenient"]
    assert run(words) == 0
    out, err = capsys.readouterr()
    assert "skipped: users[2]" in err
    assert "skipped: 1 row" in out


@pytest.fixture
def in_folder_of_small(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.parent)


def holdings(trials: int | None = None, **held: dict[str, float]) -> list[str]:
    """Write the tasks of each user on each server, and return the words of their audit."""
    rows = [{"name": name, "servers": servers} for name, servers in held.items()]
    whole = {} if trials is None else {"trials": trials}
    Path("held.json").write_text(json.dumps({"users": rows, **whole}))
    return ["--allocation", "held.json", "--max-under"]


@pytest.mark.usefixtures("in_folder_of_small")
def test_a_gate_fails_when_a_user_is_too_far_below(capsys: pytest.CaptureFixture[str]) -> None:
    """ana holds 5 of her 10 fair tasks: 50 % below."""
    words = ["audit", "small.yaml", "-m", "drfh"]
    words += holdings(ana={"high-memory": 5}, bo={"high-cpu": 10})
    found = answer_of([*words, "49.9%"], capsys, status=1)["max_under"]
    assert (found["user"], found["holds"]) == ("ana", False)
    assert found["under"] == pytest.approx(0.5)
    beside = answer_of([*words, "0.501"], capsys)
    assert beside["max_under"]["holds"]
    assert [row["name"] for row in beside["properties"]] == ["feasibility"]
    assert run([*words, "20%", "--format", "csv"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("max-under,fails,true,0,")


@pytest.mark.usefixtures("in_folder_of_small")
def test_a_gate_names_the_users_that_are_below(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is due 10 of the cores; u1 holds 4, the others 5, and one more user the rest."""
    names = [*(f"u{n}" for n in range(12)), "zoe"]
    users = [{"name": name, "demand": {"cpu": 1}} for name in names]
    servers = [{"name": "a", "capacity": {"cpu": 10 * len(users)}}]
    Path("many.json").write_text(json.dumps({"fairlead": 1, "servers": servers, "users": users}))
    tasks = dict.fromkeys(names, 5.0) | {"u1": 4.0, "zoe": 10.0}
    words = ["audit", "many.json", *holdings(**{n: {"a": held} for n, held in tasks.items()})]
    assert run([*words, "20%"]) == 1
    assert "12 users are below by more: u1 (60.00 %), u0 (50.00 %)" in capsys.readouterr().out
    beyond = answer_of([*words, "20%"], capsys, status=1)["max_under"]["beyond"]
    assert beyond == pytest.approx(dict.fromkeys(names[:-1], 0.5) | {"u1": 0.6})


@pytest.mark.usefixtures("in_folder_of_small")
@pytest.mark.parametrize(
    ("ana", "bo", "words", "finding", "user"),
    [
        (2, 1, [], "holds", ""),  # less than a task below 2.5 and 1.25
        (1, 1, [], "fails", "ana"),
        (2, -1, ["--lenient"], "unknown", "bo"),
        (-1, 1, ["--lenient"], "unknown", "ana"),
    ],
)
def test_gates_of_whole_tasks_and_skipped_rows(
    ana: int, bo: int, words: list[str], finding: str, user: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 5 cores 2.5 tasks of one core are due to ana, and 1.25 of two cores to bo."""
    Path("five.yaml").write_text(
        "{fairlead: 1, resources: [cpu], servers: [{name: a, capacity: {cpu: 5}}],"
        " users: [{name: ana, demand: {cpu: 1}}, {name: bo, demand: {cpu: 2}}]}"
    )
    held = holdings(trials=1, ana={"a": ana}, bo={"a": bo})
    status = 0 if finding == "holds" else 1
    gate = answer_of(["audit", "five.yaml", *held, "20%", *words], capsys, status, is_quiet=False)
    assert (gate["max_under"]["finding"], gate["max_under"]["user"]) == (finding, user)


@pytest.fixture
def dumps(tmp_path: Path) -> list[str]:
    """Write one file of nodes and one of pods; a pod fits no node, and one waits for a claim."""
    claim = {"resourceClaims": [{"name": "gpu"}]}
    kinds = {
        "nodes": [node("a"), node("b")],
        "pods": [
            pod("web-1", {"cpu": "1"}, on="a", namespace="shop"),
            pod("web-2", {"cpu": "1"}, namespace="shop", nodeSelector={"disk": "sdd"}),
            pod("job-1", {"cpu": "1"}, namespace="lab", **claim),
        ],
    }
    options = []
    for name, items in kinds.items():
        path = write(tmp_path, *items).rename(tmp_path / f"{name}.json")
        options += ["--kubernetes", str(path)]
    return options


def test_nodes_and_pods_may_be_given_apart(
    dumps: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answer = answer_of(["audit", *dumps, "--ignore", "pods"], capsys)
    assert answer["audited"] == "nodes.json, pods.json"
    held = {row["name"]: row["holds"] for row in answer["users"]}
    assert held == {"shop": {"cpu": 1}, "lab": {}}
    assert run(["audit", *dumps]) == 0
    shown = capsys.readouterr().out
    assert "shop/web-2 (shop): its placement constraint allows no group" in shown
    assert "lab/job-1 (lab): resourceClaims" in shown


def test_options_of_a_kubernetes_dump(dumps: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--user-from", "label:team", "--weight", "namespace:lab=2", "--resource", "cpu"]
    answer = answer_of(["audit", *dumps, *options], capsys)
    assert [row["weight"] for row in answer["users"]] == [1, 2]
    assert run(["audit", *dumps, "--report", dumps[-1]]) == 2
    assert "is the dump itself" in only_line(capsys)


SMALL_SURVEY = ["--random", "8", "--lies", "5", "--seed", "2", "--constrained", "0.6"]


def test_a_survey_says_what_stands_and_shows_witnesses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "witnesses"
    arguments = [*SMALL_SURVEY, "-m", "drf-per-server", "-m", "drf", "--save-witness", str(folder)]
    answer = answer_of(["audit", *arguments], capsys, is_quiet=False)
    assert (answer["problems"], answer["seed"]) == (8, 2)
    assert answer["distribution"]["constrained"] == 0.6
    assert answer["refused"]["drf"] > 0  # it does not admit constraints
    cells = {(row["mechanism"], row["property"]): row for row in answer["table"]}
    cell = cells["drf-per-server", "single-resource-fairness"]
    assert 0 < cell["violations"] <= cell["asked"] <= 8
    assert load(folder / "drf-per-server.single-resource-fairness.yaml").n_resources == 1


def test_a_refuted_claim_fails_a_survey(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = catalogue.CATALOGUE["drf-tasks"]
    boast = replace(row, proved=(*row.proved, Claim("envy-freeness")))
    monkeypatch.setitem(catalogue.CATALOGUE, "drf-tasks", boast)
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # in this process, which knows the boast
    assert run(["audit", *SMALL_SURVEY, "-m", "drf-tasks"]) == 1
    assert "refuted on 8 random problems: drf-tasks, envy-freeness" in capsys.readouterr().out
