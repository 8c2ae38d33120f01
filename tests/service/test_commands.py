"""The commands of a batch system, as people type them, with errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.main import run
from fairlead.report.live import forecast_text
from fairlead.service.client import calls
from fairlead.service.client.exchange import Reply
from live_cluster import Cluster, free_port

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(
    one: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    monkeypatch.setenv("FAIRLEAD_SERVER", one.url)
    monkeypatch.delenv("FAIRLEAD_TOKEN", raising=False)

    def typed(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run(list(words))
        return status, *capsys.readouterr()

    return typed


def fault_of(typed: Typed, *words: str) -> str:
    """Return the one line that a command prints when it fails."""
    status, out, err = typed(*words)
    assert (status, out) == (2, ""), err
    (line,) = err.strip().splitlines()
    return line


def all_jobs(typed: Typed) -> dict[str, dict[str, Any]]:
    rows = json.loads(typed("jobs", "--all", "--json")[1])["jobs"]
    return {row["id"]: row for row in rows}


SHORT = ("--user", "ana", "--chdir", "/tmp", "--cpu", "100m")
# Options of jobs that wait for a server that does not exist.
HOLD = ("--where", "nowhere-else", "--user", "ana", "--chdir", "/tmp")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["submit"], "command"),
        (["submit", "-u", "ana", "--cpu", "lots", "--", "true"], "fairlead: cpu: "),
        (["submit", "--count", "2", "--gang", "2", "--", "true"], "gang"),
        (["submit", "--env", "=1", "--", "true"], "env"),
        (["submit", "--file", "no-such-file.yaml"], "no-such-file.yaml"),
        (["submit", "--file", "no-such-file.yaml", "--cpu", "3"], "an option of a job"),
        (["cancel", "x"], "'x' is not a job's id"),
        (["worker", "--name", "b", "--label", "gpu="], "'gpu='"),
        (["token", "list", "--db", "/no/such/journal.db"], "no such file"),
        (["token", "list", "--db", ""], "--db: must be a file or sqlite:///FILE, not ''"),
        (["token", "add", "ana", "--for-server", "a"], "--role worker"),
        (["wait", "999"], "999"),
        (["jobs", "--state", "asleep"], "state"),
        (["submit", "-w", "a=1", "-w", "a=2", "--", "true"], "--where: gives 'a' twice"),
        (["modify", "1", "--anywhere", "-w", "a=1"], "--anywhere: cannot be combined with --where"),
        (["drain", "a/b"], "'a/b' is not a valid name"),
        (["worker", "--memory=-1"], "--memory: must not be negative"),
        (["worker", "--cpu", "0", "--memory", "0", "--gpu", "0"], "--cpu: must be more"),
        (["token", "add", "a/b"], "NAME: 'a/b' has characters that are not allowed"),
        (["what-if"], "give a change"),
        (["what-if", "--weight", "ana"], "--weight: must be KEY=VALUE"),
        (["what-if", "--weight", "ana=nan"], "--weight: must be a number, not 'nan'"),
        (["what-if", "--like", "a=0.5"], "like.a: "),
        (["what-if", "--quota", "ana=4"], "--quota: must be RESOURCE:AMOUNT"),
        (["what-if", "--quota", "ana=cpu:1,cpu:2"], "gives 'cpu' twice"),
    ],
    ids=" ".join,
)
def test_a_fault_of_a_command_is_one_line(words: list[str], says: str, typed: Typed) -> None:
    line = fault_of(typed, *words)
    assert line.startswith("fairlead: ")
    assert says in line


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty"),
        ("jobs: 5", "list of jobs"),
        ("- {command: [x], user: ana}\n- {command: [x], user: ana, colour: red}", "jobs[1].colour"),
        ("- {", "line"),
        ("- {command: ['true'], user: ana, after: !!set {'1'}}", "a value that JSON lacks"),
        ("- {command: ['true'], user: ana, after: ['999']}", "no job 999"),
    ],
)
def test_a_file_of_jobs_is_taken_whole_or_not(
    content: str, says: str, typed: Typed, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(content)
    before = all_jobs(typed).keys()
    line = fault_of(typed, "submit", "--file", str(path))
    assert "jobs.yaml" in line
    assert says in line
    assert all_jobs(typed).keys() == before


def test_a_file_of_too_many_jobs_is_refused(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.json"
    job = {"command": ["true"], "user": "ana", "where": ["nowhere-else"]}
    path.write_text(json.dumps([job] * 9))
    before = all_jobs(typed).keys()
    for bound, number in (("MOST_JOBS", 8), ("MOST_BYTES", 200)):
        with monkeypatch.context() as bounded:
            bounded.setattr(f"fairlead.service.client.calls.{bound}", number)
            line = fault_of(typed, "submit", "--file", str(path))
            assert f"{path}: 9 jobs of" in line
            assert str(number) in line
    assert all_jobs(typed).keys() == before


@pytest.mark.parametrize("words", [["users"], ["wait", "1"], ["when", "1"]])
def test_an_answer_of_another_kind_is_one_line(
    words: list[str], typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(*_: object) -> Reply:
        return Reply(200, {}, b'{"users": [{}], "jobs": 5, "state": 1}')

    monkeypatch.setattr("fairlead.service.client.exchange.Channel.ask", ask)
    line = fault_of(typed, *words)
    assert "does not answer as a fairlead service of this version" in line


IMPORTED = """
import sys
from fairlead.cli.main import run
slow = "http httpx logging numpy pydantic rich ssl typing_extensions yaml_rs".split()
for line in sys.argv[1:]:
    run(line.split())
    print(line, sorted(set(slow) & set(sys.modules)), file=sys.stderr)
"""


def test_commands_import_little(one: Cluster, typed: Typed) -> None:
    job = typed("submit", *HOLD, "--", "true")[1].strip()
    path = one.folder / "light.json"
    path.write_text(json.dumps([{"command": ["true"], "user": "ana", "where": ["nowhere-else"]}]))
    lines = ["jobs", "shares", f"explain {job}", f"cancel {job}", f"wait {job}"]
    lines += ["submit --user ana -w no=where -- true", f"submit --file {path}"]
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *lines],
        env=one.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert {f"{line} []" for line in lines} <= set(done.stderr.splitlines())
    with one.client() as client:
        for view in client.jobs():
            client.cancel(view.id)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's worker asks for accounts")
def test_a_user_without_an_account_is_refused_at_once(typed: Typed) -> None:
    job = typed("submit", "--user", "cy", "--chdir", "/tmp", "--", "true")[1].strip()
    status, _, err = typed("wait", job, "--timeout", "30s")
    assert (status, "there is no account 'cy'" in err) == (126, True)


def test_without_a_service_the_fault_is_named(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.service.client.plain_client.PATIENCE", 0.0)
    monkeypatch.setenv("FAIRLEAD_SERVER", f"http://127.0.0.1:{free_port()}")
    assert "no service at http://127.0.0.1:" in fault_of(typed, "jobs")


def test_a_jobs_life_by_command(typed: Typed) -> None:
    status, out, err = typed("submit", *HOLD, "--", "true")
    absent = "fairlead: there is no server 'nowhere-else' now; write a label as KEY=VALUE\n"
    assert (status, err) == (0, absent)
    job = out.strip()
    assert typed("hold", job)[0] == 0
    assert all_jobs(typed)[job]["state"] == "held"
    assert "held" in typed("explain", job)[1]
    assert typed("when", job) == (0, f"job {job} is held\n", "")
    assert typed("release", job)[0] == 0
    assert typed("modify", job, "--where", "kind=small", "--cpu", "500m", "--time", "1m")[0] == 0
    assert typed("wait", job)[0] == 0
    row = all_jobs(typed)[job]
    assert (row["state"], row["exit_status"]) == ("finished", 0)
    assert typed("when", job)[1].endswith("; it is finished\n")
    assert json.loads(typed("when", job, "--json")[1])["starts"] == row["started"]
    assert typed("cancel", job) == (0, "", f"fairlead: job {job} is finished already\n")


def test_root_names_the_user_of_a_job(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    file = tmp_path / "jobs.yaml"
    file.write_text("jobs:\n- {command: [true-command]}\n")
    assert "--user: must be given" in fault_of(typed, "submit", "--", "true")
    assert "jobs[0].user: must be given" in fault_of(typed, "submit", "--file", str(file))


EXPECTED = {"not_before": 0.0, "expected": 4600.0, "earliest": None, "rests_on": 1234}
INTERVAL = {"earliest": 2800.0, "latest": 8200.0, "starts": 9000.0}


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"starts": 1060.0, "not_before": 1060.0}, "starts at AT at the latest, in 60 s, if"),
        ({"not_before": 1060.0, "reason": "why"}, "unknown; not before AT, in 60 s; why"),
        ({"reason": "it waits for job 1"}, "is pending: it waits for job 1"),
        ({"never": True, "reason": "why"}, "cannot start on the present servers: why"),
        (EXPECTED, "in 60 min (a rough guess: "),
        (EXPECTED | INTERVAL, ", and four times in five between 30 min and 2 h, going by"),
        (EXPECTED | {"earliest": 1000.0, "latest": 8200.0}, "four times in five within 2 h"),
    ],
)
def test_when_is_said_in_a_line(told: dict[str, object], says: str) -> None:
    at = datetime.fromtimestamp(1060.0).strftime("%m-%d %H:%M:%S")
    view = {"job": "7", "state": "pending", "starts": None, "not_before": None, "reason": ""}
    view |= {"never": False}
    assert says.replace("AT", at) in forecast_text(view | told, 1000.0)


def test_wait_and_logs_pass_on_how_jobs_ended(typed: Typed) -> None:
    line = "echo said $FAIRLEAD_INDEX of $FAIRLEAD_TASKS; exit 7"
    failed = typed("submit", "--count", "2", *SHORT, "--", "sh", "-c", line)[1].strip()
    worked = typed("submit", *SHORT, "--", "true")[1].strip()
    assert typed("wait", failed, worked)[0] == typed("wait", worked, failed)[0] == 7
    assert typed("wait", worked, worked)[0] == 0
    assert typed("logs", failed, "--index", "1")[1] == "said 1 of 2\n"
    assert typed("logs", failed, "--index", "2")[0] == 2
    assert typed("logs", failed, "--stderr")[1] == ""


def test_a_time_to_wait_is_for_all_jobs_together(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [typed("submit", *HOLD, "--", "true")[1].strip() for _ in range(3)]
    asked: list[float] = []
    request_of = calls.wait

    def noted(job: str, seconds: float) -> object:
        asked.append(seconds)
        return request_of(job, seconds)

    monkeypatch.setattr(calls, "wait", noted)
    assert typed("wait", *jobs, "--timeout", "0.5")[0] == 1
    assert 0 <= sum(asked) < 0.6
    assert typed("cancel", *jobs)[0] == 0


def test_of_several_jobs_none_is_told_where_one_is_wrong(typed: Typed) -> None:
    jobs = [typed("submit", *HOLD, "--", "true")[1].strip() for _ in range(2)]
    for wrong in ("999999", "abc"):
        assert wrong in fault_of(typed, "cancel", jobs[0], wrong, jobs[1])
    assert {all_jobs(typed)[job]["state"] for job in jobs} == {"pending"}
    assert typed("cancel", *jobs)[0] == 0


def test_jobs_whose_ids_cannot_be_printed_are_named(typed: Typed) -> None:
    with pytest.MonkeyPatch.context() as patched, open("/dev/full", "w") as full:
        patched.setattr("sys.stdout", full)
        status, _, said = typed("submit", *HOLD, "--count", "1", "--", "true")
    assert (status, len(said.splitlines())) == (2, 2)  # one line, which names the missing server
    job = said.split()[-1]
    assert typed("cancel", job)[0] == 0


def test_a_time_limit_can_be_changed_and_removed(one: Cluster, typed: Typed) -> None:
    _, out, err = typed("submit", *HOLD, "--time", "30", "--", "true")
    job = out.strip()
    assert "write 30m" in err.splitlines()[-1], "a bare number is seconds, and a warning says so"
    for words, limit, warns in (
        (("--time", "45"), 45.0, True),
        (("--time", "2-12"), 216000.0, False),
        (("--priority", "1"), 216000.0, False),
        (("--time", "INFINITE"), None, False),
    ):
        status, _, err = typed("modify", job, *words)
        assert (status, "for minutes" in err) == (0, warns)
        with one.client() as client:
            assert client.job(job).time_limit == limit
    typed("cancel", job)


def test_what_if_compares_users(typed: Typed) -> None:
    job = typed("submit", *HOLD, "--", "true")[1].strip()
    out = typed("what-if", "--weight", "ana=2", "--like", "a=3", "--quota", "ana=cpu:1")[1]
    assert "Nothing was changed" in out
    found = json.loads(typed("what-if", "--drain", "a", "--json")[1])
    assert {"starts", "stops", "users", "is_cut"} <= found.keys()
    assert typed("cancel", job)[0] == 0
