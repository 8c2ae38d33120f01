"""No task and no other account can read the worker's token or identity."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from fairlead.cli.main import run as run_command
from fairlead.errors import InputError
from fairlead.service.engines.protocol import Start
from fairlead.service.engines.worker_loop import WorkerLoop
from fairlead.service.worker import machine, worker, worker_token
from fairlead.service.worker._files import create, make_folder, set_owner
from fairlead.service.worker.accounts import Account, Accounts
from fairlead.service.worker.worker import Declaration, LocalProcesses
from fairlead.service.worker.worker_token import read_token
from live_cluster import NOBODY, Cluster, as_ordinary_user, until
from real_attempts import IS_ROOT
from real_workers import a_job, run, worker_in

SECRET = f"fairlead_{'x' * 43}.{'y' * 43}"
# Looks for the secret in all files of other processes; `own` shows that it can read some.
THIEF = r"""
for file in /proc/[0-9]*/environ; do
    tr '\0' '\n' <"$file" 2>/dev/null
done | sed -n 's/^FAIRLEAD_TOKEN.*=/stolen /p; s/^FAIRLEAD_JOB=.*/own/p'
cat "/proc/$(cut -d ' ' -f 4 "/proc/$PPID/stat")/maps"
"""


def test_a_task_cannot_read_its_workers_token(cluster: Cluster) -> None:
    """One worker has its token in its environment, the other in a file, which has precedence."""
    made = cluster.run("token", "add", "a", "--role", "worker", "--db", str(cluster.db))
    secret = made.stdout.strip()
    cluster.start_service()
    file = cluster.folder / "token"
    file.write_text(f"{secret}\nof both servers\n")
    file.chmod(0o600)
    if IS_ROOT:  # tasks run under the account of their worker
        os.chown(file, NOBODY, NOBODY)
        cluster.accounts = []
        cluster.before = as_ordinary_user()
    tokens = {
        "a": {"FAIRLEAD_TOKEN": secret},
        "b": {"FAIRLEAD_TOKEN": "of-another", "FAIRLEAD_TOKEN_FILE": str(file)},
    }
    for server, environment in tokens.items():
        state = cluster.folder / f"worker-{server}"
        state.mkdir()
        if IS_ROOT:
            os.chown(state, NOBODY, NOBODY)
        with patch.dict(cluster.environment, environment):
            cluster.start_worker(server)
    with cluster.client() as client:
        until(lambda: len(client.servers()) == 2)
        for server in tokens:
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
        "sys.modules['fairlead.cli._application'] = fake; sys.exit(run(sys.argv[1:]))"
    )
    statuses = {}
    for verb in ("worker", "jobs"):
        done = subprocess.run([sys.executable, "-c", code, verb], check=False)
        statuses[verb] = done.returncode
    assert statuses == {"worker": 0, "jobs": 2}


@pytest.fixture
def without_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `fairlead worker` in this process end at once, in place of running tasks."""

    async def end(_loop: WorkerLoop) -> None:
        pass

    monkeypatch.setattr(WorkerLoop, "run", end)
    monkeypatch.setattr(worker, "LocalProcesses", Mock())
    monkeypatch.setattr(machine, "take_ignored_signals", Mock())
    monkeypatch.setattr(worker_token, "hide_memory", lambda: "")


@pytest.mark.usefixtures("without_tasks")
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
    monkeypatch.setattr(os, "getresuid", lambda: (uid, uid, uid))
    monkeypatch.setenv("FAIRLEAD_SERVER", server)
    monkeypatch.setenv("FAIRLEAD_TOKEN", token)
    assert run_command(["worker", "--name", "a", "--cpu", "1"]) == status
    said = capsys.readouterr().err + caplog.text
    assert says in said
    assert ("--for-server" in said) == (says == "--for-server a")


@pytest.mark.parametrize("mode", [0o640, 0o602])
def test_a_token_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "token"
    file.write_text(SECRET)
    file.chmod(mode)
    with pytest.raises(InputError) as fault:
        read_token(file)
    assert str(file) in str(fault.value)
    assert SECRET not in str(fault.value)


@pytest.mark.parametrize("content", [b"", b"\n", b"a b", b"\xff\xfe", b"a\0b", b"\nsecond"])
def test_a_token_file_without_a_token_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(InputError, match="token"):
        read_token(file)


def test_pipes_and_folders_are_no_token_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError):
            read_token(path)


# The worker's folder


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}


def test_a_folder_shows_others_nothing_even_one_of_before(tmp_path: Path) -> None:
    state = tmp_path / "state"
    expected = {"attempts": 0o711, "identity": 0o600, "lock": 0o600}
    before = os.umask(0)
    try:
        identity = worker_in(state).identity
    finally:
        os.umask(before)
    assert modes(state) == expected | {"state": 0o711}
    shutil.copytree(state, tmp_path / "again")
    for path, mode in ((".", 0o775), ("identity", 0o644), ("attempts", 0o755), ("lock", 0o644)):
        (tmp_path / "again" / path).chmod(mode)
    assert worker_in(tmp_path / "again").identity == identity
    assert modes(tmp_path / "again") == expected | {"again": 0o711}


def test_a_folder_of_another_account_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: state.stat().st_uid + 1)
    with pytest.raises(InputError, match="another account"):
        worker_in(state)
    assert list(state.iterdir()) == []


def test_a_folder_that_others_can_replace_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "a" / "b"
    make_folder(state, is_root=True)
    state.chmod(0o777)
    with pytest.raises(InputError, match="everybody"):
        make_folder(state, is_root=True)
    state.chmod(0o711)
    for mode in (0o777, 0o775, 0o757):
        (tmp_path / "a").chmod(mode)
        with pytest.raises(InputError, match="another account can replace it"):
            make_folder(state, is_root=True)
        with pytest.raises(InputError, match="another account can replace it"):
            make_folder(state / "deeper", is_root=True)
        make_folder(state, is_root=False)
    (tmp_path / "a").chmod(0o1777)
    make_folder(state, is_root=True)
    assert list(state.iterdir()) == []


def test_a_link_to_a_folder_is_resolved_once(root: Path) -> None:
    """The owner of the link may later point it to another folder."""
    link, other = root / "open" / "link", root / "open" / "other"
    for folder in (root / "ours", link.parent, other / "attempts", other / "homes"):
        folder.mkdir(parents=True)
    link.symlink_to(root / "ours")
    if IS_ROOT:
        for path in (link, link.parent, other, other / "attempts"):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    server = Declaration("a", 1.0, 1.0, ())
    engine = LocalProcesses(server, link, Accounts(None, is_root=IS_ROOT))
    link.unlink()
    link.symlink_to(other)
    run(engine, Start((1, 0, 1), "a", {"cpu": 1.0}, None, a_job("true", user="no-account")))
    assert until(engine._attempts[1, 0, 1].poll).status == 0
    assert os.listdir(other / "attempts") == os.listdir(other / "homes") == []
    assert (root / "ours" / "attempts" / "1.0.1" / "task").is_dir()


@pytest.mark.parametrize("name", ["lock", "identity", "attempts"])
def test_a_link_in_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    """A group may have had the right to write the folder before."""
    other = tmp_path / "other"
    if name == "attempts":
        other.mkdir(mode=0o755)
    else:
        other.write_text("secret")
        other.chmod(0o644)
    mode = other.stat().st_mode
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / name).symlink_to(other)
    with pytest.raises(InputError):
        worker_in(tmp_path / "state")
    assert other.stat().st_mode == mode


def test_no_file_is_given_away_by_a_link(root: Path) -> None:
    """Files and folders that a task's account gets are opened without following links."""
    account = Account("nobody", NOBODY, NOBODY, [NOBODY], "/")
    (root / "ours").mkdir()
    (root / "file").touch()
    (root / "link").symlink_to(root / "ours")
    (root / "name").symlink_to(root / "file")
    with pytest.raises(OSError, match="link"):
        set_owner(root / "link", account)
    with pytest.raises(FileExistsError):
        create(root / "name", "", account=account)
    assert (root / "ours").stat().st_uid == (root / "file").stat().st_uid == os.geteuid()
