"""Tokens identify callers, and no task and no other account can read a worker's token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import AsyncMock, Mock, patch

import pytest

from fairlead.cli.main import run
from fairlead.errors import InputError
from fairlead.service.client import Client
from fairlead.service.engines.worker_loop import WorkerLoop
from fairlead.service.journal.event_journal import reading
from fairlead.service.worker import machine, worker, worker_token
from fairlead.service.worker.worker_token import read_token
from live_cluster import NOBODY, Cluster, as_ordinary_user, until
from real_attempts import IS_ROOT

SECRET = f"fairlead_{'x' * 43}.{'y' * 43}"
# Looks for the secret in all files of other processes; `own` shows that it can read some.
THIEF = r"""
for file in /proc/[0-9]*/environ; do
    tr '\0' '\n' <"$file" 2>/dev/null
done | sed -n 's/^FAIRLEAD_TOKEN.*=/stolen /p; s/^FAIRLEAD_JOB=.*/own/p'
cat "/proc/$(cut -d ' ' -f 4 "/proc/$PPID/stat")/maps"
"""


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[Cluster, dict[str, str]]]:
    """A service with a token of each role."""
    with TemporaryDirectory() as folder, closing(Cluster(Path(folder))) as made:
        made.environment["FAIRLEAD_TOKEN"] = ""
        tokens = {}
        for name, role in (("ana", "user"), ("boss", "admin"), ("a", "worker")):
            words = ("token", "add", name, "--role", role, "--db", str(made.db))
            tokens[role] = made.run(*words).stdout.strip()
        made.start_service()
        yield made, tokens


def test_tokens_identify_callers(secured: tuple[Cluster, dict[str, str]]) -> None:
    cluster, tokens = secured

    def typed(token: str, *words: str) -> tuple[int, str, str]:
        with patch.dict(cluster.environment, FAIRLEAD_TOKEN=token):
            done = cluster.run(*words)
        return done.returncode, done.stdout, done.stderr

    with Client(cluster.url, tokens["admin"]) as client:  # over TLS
        assert client.jobs() == []
    job = typed(tokens["user"], "submit", "--", "true")[1].strip()
    (row,) = json.loads(typed(tokens["user"], "jobs", "--json")[1])["jobs"]
    assert (row["id"], row["user"]) == (job, "ana")
    assert typed(tokens["admin"], "submit", "--user", "bo", "--", "true")[0] == 0
    for words, token, says in (
        (("submit", "--", "true"), tokens["admin"], "user: must be given"),
        (("jobs",), "wrong", "not known"),
        (("jobs",), "\xfc", "no token"),
        (("jobs", "--server", cluster.url), "", "a token is needed"),
    ):
        status, _, err = typed(token, *words)
        assert (status, err.count("\n"), says in err) == (2, 1, True), err


def test_a_task_cannot_read_its_workers_token(secured: tuple[Cluster, dict[str, str]]) -> None:
    """One worker has its token in its environment, the other in a file, which has precedence."""
    cluster, secret = secured[0], secured[1]["worker"]
    file = cluster.folder / "token"
    file.write_text(f"{secret}\nof both servers\n")
    file.chmod(0o600)
    if IS_ROOT:  # tasks run under the account of their worker
        os.chown(file, NOBODY, NOBODY)
        cluster.accounts = []
        cluster.before = as_ordinary_user()
    environments = {
        "a": {"FAIRLEAD_TOKEN": secret},
        "b": {"FAIRLEAD_TOKEN": "of-another", "FAIRLEAD_TOKEN_FILE": str(file)},
    }
    for server, environment in environments.items():
        state = cluster.folder / f"worker-{server}"
        state.mkdir()
        if IS_ROOT:
            os.chown(state, NOBODY, NOBODY)
        with patch.dict(cluster.environment, environment):
            cluster.start_worker(server)
    with cluster.client() as client:
        until(lambda: len(client.servers()) == 2)
        for server in environments:
            words = ("--user", "ana", "--chdir", "/tmp", "--where", server, "--", "sh", "-c", THIEF)
            job = cluster.run("submit", *words).stdout.strip()
            until(lambda job=job: client.wait(job, 5).ended)
            assert client.job(job).exit_status != 0, "the worker's memory is not to be seen"
            said = cluster.run("logs", job).stdout
            assert "own" in said
            assert "stolen" not in said
            assert secret not in said


def test_a_workers_memory_is_hidden_before_the_rest() -> None:
    """The token is in the environment during the imports, which take long."""
    code = (
        "import ctypes, sys, types; from fairlead.cli.main import run; "
        "fake = types.ModuleType('application'); "
        "fake.run_command = lambda _: "
        "2 * ctypes.CDLL(None).prctl(3) + any(m in sys.modules for m in ('typer', 'logging')); "
        "sys.modules['fairlead.cli._application'] = fake; sys.exit(run(['worker']))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("uid", "server", "token", "status", "says"),
    [
        (0, "http://127.0.0.1:1", "", 2, "--server: a worker of root "),
        (0, "http://127.0.0.1:1", SECRET, 0, ""),
        (0, "unix:/s", SECRET, 0, ""),
        (1, "unix:/s", SECRET, 0, "--for-server a"),
        (1, "unix:/s", "", 0, ""),
    ],
)
def test_a_worker_knows_its_service_and_warns_of_its_tasks(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    uid: int,
    server: str,
    token: str,
    status: int,
    says: str,
) -> None:
    """Root's worker needs a verified service; tasks of others can read their worker's token."""
    monkeypatch.setattr(WorkerLoop, "run", AsyncMock())  # in place of running tasks
    monkeypatch.setattr(worker, "LocalProcesses", Mock())
    monkeypatch.setattr(machine, "take_ignored_signals", Mock())
    monkeypatch.setattr(worker_token, "hide_memory", lambda: "")
    monkeypatch.setattr(os, "getresuid", lambda: (uid, uid, uid))
    monkeypatch.setenv("FAIRLEAD_SERVER", server)
    monkeypatch.setenv("FAIRLEAD_TOKEN", token)
    assert run(["worker", "--name", "a", "--cpu", "1"]) == status
    said = capsys.readouterr().err + caplog.text
    assert says in said
    assert ("--for-server" in said) == (says == "--for-server a")


@pytest.mark.parametrize("content", [b"", b"\n", b"a b", b"\xff\xfe", b"a\0b", b"\nsecond"])
def test_a_token_file_without_a_token_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_bytes(content)
    with pytest.raises(InputError, match="must be a token"):
        read_token(file)


def test_only_a_file_of_the_owner_alone_holds_a_token(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for mode in (0o640, 0o602):
        (tmp_path / oct(mode)).write_text(SECRET)
        (tmp_path / oct(mode)).chmod(mode)
    for path in (*tmp_path.iterdir(), tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match="--token-file") as fault:
            read_token(path)
        assert SECRET not in str(fault.value)


def test_a_token_that_cannot_be_printed_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j.db"
    words = ["token", "add", "boss", "--role", "admin", "--db", str(path)]
    with monkeypatch.context() as patched, open("/dev/full", "w") as full:
        patched.setattr("sys.stdout", full)
        assert run(words) == 2
    with reading(path) as journal:
        assert journal.tokens.all() == {}
        assert not journal.tokens.is_closed()
    assert run(words) == 0


@pytest.mark.parametrize(
    "words",
    [["x", "--role", "king"], ["x", "--for-server", "a"], [""], ["x", "--user", "a/b"], ["uid 0"]],
)
def test_a_refused_token_makes_no_journal(tmp_path: Path, words: list[str]) -> None:
    assert run(["token", "add", *words, "--db", str(tmp_path / "j.db")]) == 2
    assert list(tmp_path.iterdir()) == []
