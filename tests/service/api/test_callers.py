"""The service identifies its callers, and callers the service; nobody else can read a token."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock, patch

import pytest
from starlette.exceptions import HTTPException

from asked_service import Asked, served
from fairlead.cli.main import run
from fairlead.errors import InputError
from fairlead.service import tls_certificate
from fairlead.service.client import Client, addresses
from fairlead.service.client.addresses import (
    Address,
    check_socket,
    find_socket,
    listen_tcp,
    listen_unix,
)
from fairlead.service.client.exchange import Channel, NotReachedError
from fairlead.service.engines.worker_loop import WorkerLoop
from fairlead.service.http.access import Access, Peer, account_name
from fairlead.service.journal.event_journal import reading
from fairlead.service.journal.tokens import Caller
from fairlead.service.rate_limits import Limits
from fairlead.service.worker import machine, worker, worker_token
from fairlead.service.worker.worker_token import read_token
from live_cluster import NOBODY, Cluster, as_ordinary_user, until
from real_attempts import IS_ROOT

CONNECT = """
import socket, sys
kind, place = sys.argv[1:3]
with socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET) as sock:
    sock.connect(place if kind == "unix" else ("127.0.0.1", int(place)))
    sock.sendall(b"x")
    sock.recv(1)
"""


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_the_account_at_the_other_end_is_known(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run" / "s"
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    listening = listen_unix(path) if kind == "unix" else listen_tcp("127.0.0.1", 0)
    place = str(path if kind == "unix" else listening.getsockname()[1])
    before, uid = (as_ordinary_user(), NOBODY) if IS_ROOT else ([], os.geteuid())
    words = [*before, sys.executable, "-c", CONNECT, kind, place]
    with listening, subprocess.Popen(words) as process:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1)
            assert Peer(connection).uid == uid
            connection.sendall(b"y")
        assert process.wait(30) == 0


def circle(folder: Path) -> None:
    (folder / "link").unlink()
    (folder / "link").symlink_to("link")


def give_away(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


ROOT_ONLY = pytest.mark.skipif(not IS_ROOT, reason="only root gives files away")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda folder: (folder / "above" / "run").chmod(0o777), id="open folder"),
        pytest.param(lambda folder: (folder / "above").chmod(0o777), id="open folder above"),
        pytest.param(lambda folder: give_away(folder / "above"), id="folder", marks=ROOT_ONLY),
        pytest.param(lambda folder: give_away(folder / "link"), id="link", marks=ROOT_ONLY),
        pytest.param(circle, id="links in a circle"),
    ],
)
def test_a_socket_that_others_can_replace_is_refused(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """A client looks at each request, also on the way through links."""
    (tmp_path / "above" / "run").mkdir(parents=True)
    (tmp_path / "link").symlink_to("above")
    path = tmp_path / "link" / "run" / "s"
    assert check_socket(path) == tmp_path / "above" / "run" / "s"
    with listen_unix(path):
        connection = Channel(Address.of(f"unix:{path}", ""))
        change(tmp_path)
        with pytest.raises(InputError, match="as it can change"):
            asyncio.run(connection.ask("GET", "/", {}, b""))
    with pytest.raises(InputError, match="as it can change"):
        check_socket(path)


def test_a_folder_of_another_account_hides_no_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, own = tmp_path / "system", tmp_path / "own" / "fairlead.sock"
    system.mkdir()
    monkeypatch.setattr(addresses, "SYSTEM_FOLDER", system)
    monkeypatch.setattr(addresses, "own_socket", lambda: own)
    own.parent.mkdir()
    (system / "fairlead.sock").touch()
    assert find_socket() == own
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_123)  # so another account owns the folder
    assert find_socket() == system / "fairlead.sock"
    (system / "fairlead.sock").unlink()
    assert find_socket() == own


@pytest.mark.parametrize(
    "server",
    [
        "http://[::1",
        "http://a:99999",
        "http://a:x",
        "http://a:0",
        "http://",
        "http://a..b",
        "ftp://a",
        "unix:",
        f"unix:/{'x' * 107}",
        "unix:/a\0b",
    ],
)
def test_malformed_addresses_are_refused(server: str) -> None:
    with pytest.raises(InputError):
        Address.of(server, "")


@pytest.mark.parametrize("token", ["two words", "two\nlines", "tök", f"fairlead_{'x' * 43}"])
def test_malformed_tokens_are_refused(token: str) -> None:
    with pytest.raises(InputError):
        Address.of("http://a", token)
    assert Address.of("http://a", " tok\n").token == "tok", "blanks around a token are no fault"


def test_one_service_has_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "run" / "s"
    with listen_unix(path), pytest.raises(InputError, match="another service"):
        listen_unix(path)
    listen_unix(path).close()  # the file stays, but nothing listens on it
    path.parent.chmod(0o777)
    with pytest.raises(InputError, match="as it can change"):
        listen_unix(path)


def test_an_impostor_is_shown_no_token() -> None:
    ours, theirs = tls_certificate.make(), tls_certificate.make()
    token = f"fairlead_{'x' * 43}.{tls_certificate.digest(ours)}"
    heard: list[bytes] = []
    context = tls_certificate.server_context(theirs)

    def listen(listening: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listening.accept()
            with suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
                heard.append(secured.recv(1000))

    with listen_tcp("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=listen, args=(listening,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        address = Address.of(url, token)
        assert (address.is_verified, Address.of(url, "").is_verified) == (True, False)
        for _ in range(2):
            with pytest.raises(NotReachedError, match="certificate is not that of the service"):
                asyncio.run(Channel(address).ask("GET", "/v1/jobs", {}, b""))
        thread.join(10)
    assert b"".join(heard) == b""


@served
async def test_the_rights_of_local_accounts(ask: Asked) -> None:
    """Root and the service's account are admins; others are users, only on the Unix socket."""

    def caller(uid: int | None, *, is_unix: bool) -> Caller | int:
        peer = SimpleNamespace(is_unix=is_unix, uid=uid)
        scope = {"headers": [(b"host", b"localhost")], "state": {"peer": peer}}
        try:
            return Access(ask.service, Limits()).identify(scope)
        except HTTPException as refusal:
            return refusal.status_code

    for uid in (0, os.geteuid()):
        admin = Caller(f"uid {uid}", "admin", "")
        assert caller(uid, is_unix=True) == caller(uid, is_unix=False) == admin
    user = Caller(f"uid {NOBODY}", "user", account_name(NOBODY))
    assert caller(NOBODY, is_unix=True) == user
    assert caller(NOBODY, is_unix=False) == 401
    assert caller(None, is_unix=True) == 401
    ask.service.journal.tokens.add(Caller("boss", "admin", ""), "secret")
    assert caller(0, is_unix=False) == 401, "once there is a token, TCP needs one"
    assert caller(NOBODY, is_unix=True) == user


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
        assert not journal.tokens.is_required()
    assert run(words) == 0


@pytest.mark.parametrize(
    "words",
    [["x", "--role", "king"], ["x", "--for-server", "a"], [""], ["x", "--user", "a/b"], ["uid 0"]],
)
def test_a_refused_token_makes_no_journal(tmp_path: Path, words: list[str]) -> None:
    assert run(["token", "add", *words, "--db", str(tmp_path / "j.db")]) == 2
    assert list(tmp_path.iterdir()) == []
