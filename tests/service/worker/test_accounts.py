"""The account that runs a user's tasks is never root, and cannot replace the worker's files."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from pathlib import Path

import pytest

from fairlead.errors import InputError
from fairlead.service.worker._files import create, make_folder, set_owner
from fairlead.service.worker.accounts import Account, Accounts, folder_name, read_accounts
from fairlead.service.worker.worker import LocalProcesses
from live_cluster import NOBODY
from real_attempts import (
    IS_ROOT,
    KEY,
    SERVER,
    ended,
    found_again,
    run,
    shell,
    task,
    text,
    worker_in,
)

MINE = pwd.getpwuid(os.geteuid()).pw_name


def test_a_map_gives_users_accounts_but_never_root() -> None:
    assert Accounts({}, is_root=False).of("ana") is None
    for names, is_root, says in (
        ({"ana": "nobody"}, False, "only a worker that is root"),
        ({"ana": "root"}, True, "never run as root"),
        ({"*": "no-such-account"}, True, "there is no account 'no-such-account'"),
    ):
        with pytest.raises(InputError, match=says):
            Accounts(names, is_root)
    mapped, nobody = Accounts({"ana": "nobody"}, is_root=True), pwd.getpwnam("nobody")
    account = mapped.of("ana")
    assert account is not None
    assert (account.uid, account.is_shared) == (nobody.pw_uid, False)
    for user in ("root", "", "no\0body", "0", "an a", "\ud800"):
        with pytest.raises(InputError, match=r"never run as root|there is no account"):
            mapped.of(user)
    # Here root is the name of a user, not of an account.
    assert Accounts({"*": "nobody"}, is_root=True).of("root") == account


@pytest.mark.parametrize("content", ["[ana]", "ana: [b]", "7: nobody", ""])
def test_a_map_of_accounts_is_names(content: str, tmp_path: Path) -> None:
    path = tmp_path / "accounts.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=r"accounts\.yaml"):
        read_accounts(path)


@pytest.mark.parametrize(
    ("uid", "gid", "groups"),
    [
        (0, 100, [100]),
        (500, 0, [100]),
        (500, 100, [100, 0]),
        (2**32 - 1, 100, [100]),
        (500, 2**32 - 1, [100]),
        (500, 100, [100, 2**32 - 1]),
    ],
)
def test_numbers_that_leave_a_task_roots_are_refused(
    monkeypatch: pytest.MonkeyPatch, uid: int, gid: int, groups: list[int]
) -> None:
    entry = pwd.struct_passwd(("ana", "x", uid, gid, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwnam", lambda _: entry)
    monkeypatch.setattr(os, "getgrouplist", lambda *_: groups)
    for names in ({"ana": "ana"}, None, {}):
        with pytest.raises(InputError):
            Accounts(names, is_root=True).of("ana")


def test_users_without_an_account_share_the_default_one() -> None:
    accounts, nobody = Accounts(None, is_root=True), pwd.getpwnam("nobody")
    for user in ("an a", "..", "0", "nobody", "\ud800", "*"):
        account = accounts.of(user)
        assert account is not None
        assert (account.name, account.uid, account.is_shared) == ("nobody", nobody.pw_uid, True)
    with pytest.raises(InputError, match="never run as root"):
        accounts.of("root")
    own = accounts.of("daemon")
    assert own is not None
    assert (own.uid, own.is_shared) == (pwd.getpwnam("daemon").pw_uid, False)


def test_each_user_has_a_folder_of_a_safe_name() -> None:
    users = ["ana", "Ana", "ANA", "an a", "an_a", ".", "..", ".ana", "-rf", "~", "a/b", "\ud800"]
    users += ["ü" * 200, "ü" * 199, "x" * 200, "x" * 199, folder_name("an a"), folder_name("..")]
    folders = [folder_name(user) for user in users]
    assert len({name.lower() for name in folders}) == len(users) == len(set(users))
    assert folder_name("ana") == "ana"
    for name in folders:
        assert len(name.encode()) <= 255
        assert not {"/", "\0", " "} & set(name)
        assert name[0] not in ".-~"


def test_users_that_share_an_account_have_folders(root: Path) -> None:
    """If the worker is root, a job runs in its user's folder; else where it was submitted."""
    state = root / "state"
    worker = LocalProcesses(SERVER, state, Accounts(None))
    line = 'pwd; echo "$HOME"; id -un; stat -c "%a %U" .'
    for job, user in enumerate(["ana b", ".."], 1):
        environment = {"PATH": os.environ["PATH"], "HOME": "/tmp"}
        attempt = run(
            worker,
            task("sh", "-c", line, key=(job, 0, 1), user=user, environment=environment),
        )
        assert ended(attempt).status == 0
        said = text(attempt).splitlines()
        folder = str(state / "homes" / folder_name(user))
        if IS_ROOT:
            assert said == [folder, folder, "nobody", "700 nobody"]
        else:
            assert said[:3] == ["/tmp", "/tmp", MINE]
    assert (state / "homes").exists() == IS_ROOT


@pytest.mark.skipif(not IS_ROOT, reason="only root's worker uses other accounts")
def test_a_folder_without_access_is_a_fault(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(InputError, match="cannot enter"):
        LocalProcesses(SERVER, tmp_path / "w", Accounts(None))


def test_a_task_has_its_account_and_nothing_of_roots(root: Path) -> None:
    """No program named by the job's environment runs before the account changes."""
    account = Accounts({"*": "nobody"}).of("ana") if IS_ROOT else None
    script, out = root / "script", root / "out"
    script.write_text(f'echo "$(/usr/bin/id -u)" >>{out}\n')
    out.touch()
    out.chmod(0o666)
    for name in ("cd", "echo", "kill", "read", "trap", "sh"):
        (root / name).write_text(f"#!/bin/sh\n. {script}\n")
        (root / name).chmod(0o755)
    environment = {"ENV": str(script), "BASH_ENV": str(script), "LD_PRELOAD": str(script)}
    environment["PATH"] = f"{root}:/usr/bin:/bin"
    line = f". {script}; id -G; cat ../record"
    attempt = shell(root, line, account=account, environment=environment)
    status = ended(attempt).status
    assert set(out.read_text().split()) == {str(account.uid if account else os.geteuid())}
    if account is not None:
        assert status != 0, "it reads nothing of the worker's"
        assert "0" not in text(attempt).splitlines()[0].split()
    assert found_again(attempt).key == KEY


def test_a_folder_shows_others_nothing_even_one_of_before(tmp_path: Path) -> None:
    def modes(folder: Path) -> dict[str, int]:
        paths = (folder, *folder.iterdir())
        return {path.name: stat.S_IMODE(path.stat().st_mode) for path in paths}

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


def test_a_folder_that_others_can_replace_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above, state = tmp_path / "a", tmp_path / "a" / "b"
    make_folder(state, is_root=True)
    state.chmod(0o777)
    with pytest.raises(InputError, match="everybody"):
        make_folder(state, is_root=True)
    state.chmod(0o711)
    for mode in (0o777, 0o775, 0o757):
        above.chmod(mode)
        for folder in (state, state / "deeper"):
            with pytest.raises(InputError, match="another account can replace it"):
                make_folder(folder, is_root=True)
        make_folder(state, is_root=False)
    above.chmod(0o1777)
    make_folder(state, is_root=True)
    monkeypatch.setattr(os, "geteuid", lambda: state.stat().st_uid + 1)
    with pytest.raises(InputError, match="another account"):
        worker_in(state)
    assert list(state.iterdir()) == []


def test_a_link_to_a_folder_is_resolved_once(root: Path) -> None:
    """The owner of the link may later point it to another folder."""
    link, other = root / "open" / "link", root / "open" / "other"
    for folder in (root / "ours", other / "attempts", other / "homes"):
        folder.mkdir(parents=True)
    link.symlink_to(root / "ours")
    if IS_ROOT:
        for path in (link, link.parent, other, other / "attempts"):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    worker = LocalProcesses(SERVER, link, Accounts(None))
    link.unlink()
    link.symlink_to(other)
    assert ended(run(worker, task("true", user="no-account"))).status == 0
    assert os.listdir(other / "attempts") == os.listdir(other / "homes") == []
    assert (root / "ours" / "attempts" / "7.0.1" / "task").is_dir()


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
