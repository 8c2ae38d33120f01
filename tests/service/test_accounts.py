"""The account that runs a user's tasks: never root, whatever the user's name is."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from fairlead.errors import InputError
from fairlead.service.engines.protocol import Start
from fairlead.service.worker.accounts import Account, Accounts, folder_name, read_accounts
from fairlead.service.worker.worker import Declaration, LocalProcesses
from real_attempts import IS_ROOT, KEY, ended, found_again, shell, text
from real_workers import a_job, run

MINE = pwd.getpwuid(os.geteuid()).pw_name
SERVER = Declaration("a", 4.0, 4.0, ())


def other_account() -> Account | None:
    """Return another account, if the tests may use one."""
    return Accounts({"*": "nobody"}).of("ana") if IS_ROOT else None


def test_the_account_of_a_task() -> None:
    mine = Accounts({}, is_root=False)
    assert mine.of("ana") is None
    with pytest.raises(InputError, match="only a worker that is root"):
        Accounts({"ana": "nobody"}, is_root=False)
    with pytest.raises(InputError, match="never run as root"):
        Accounts({"ana": "root"}, is_root=True)
    with pytest.raises(InputError, match="there is no account 'no-such-account'"):
        Accounts({"*": "no-such-account"}, is_root=True)
    mapped = Accounts({"ana": "nobody"}, is_root=True)
    nobody = mapped.of("ana")
    assert nobody is not None
    assert nobody.uid == pwd.getpwnam("nobody").pw_uid
    for user in ("root", "", "no\0body", "0", "\ud800"):
        with pytest.raises(InputError, match=r"never run as root|there is no account"):
            mapped.of(user)
    everybody = Accounts({"*": "nobody"}, is_root=True)
    assert everybody.of("root") == nobody, "root here is the name of a user, not of an account"


@pytest.mark.parametrize("content", ["[ana]", "ana: [b]", "7: nobody", ""])
def test_a_map_of_accounts_is_names(content: str, tmp_path: Path) -> None:
    path = tmp_path / "accounts.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=r"accounts\.yaml"):
        read_accounts(path)


def entry(name: str, uid: int, gid: int) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, gid, "", "/", "/bin/sh"))


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
    monkeypatch.setattr(pwd, "getpwnam", lambda name: entry(name, uid, gid))
    monkeypatch.setattr(os, "getgrouplist", lambda *_: groups)
    with pytest.raises(InputError):
        Accounts({"ana": "ana"}, is_root=True)
    with pytest.raises(InputError):
        Accounts({}, is_root=True).of("ana")
    with pytest.raises(InputError):
        Accounts(None, is_root=True)


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
    with pytest.raises(InputError, match="there is no account"):
        Accounts({}, is_root=True).of("an a")


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
    said = {}
    for job, user in enumerate(["ana b", ".."], 1):
        environment = {"PATH": os.environ["PATH"], "HOME": "/tmp"}
        spec = a_job("sh", "-c", line, user=user, environment=environment)
        task = Start((job, 0, 1), "a", {"cpu": 1.0}, None, spec)
        run(worker, task)
        assert ended(worker._attempts[task.key]).status == 0
        said[user] = text(worker._attempts[task.key]).splitlines()
    for user, (directory, home, account, owned) in said.items():
        if IS_ROOT:
            folder = str(state / "homes" / folder_name(user))
            assert (directory, home, account, owned) == (folder, folder, "nobody", "700 nobody")
        else:
            assert (directory, home, account) == ("/tmp", "/tmp", MINE)
    assert (state / "homes").exists() == IS_ROOT


@pytest.mark.skipif(not IS_ROOT, reason="only root's worker uses other accounts")
def test_a_folder_without_access_is_a_fault(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(InputError, match="cannot enter"):
        LocalProcesses(SERVER, tmp_path / "w", Accounts(None))


def test_a_task_has_its_account_and_nothing_of_roots(root: Path) -> None:
    account = other_account()
    attempt = shell(root, "id -u; id -G; cat ../record", account=account)
    status = ended(attempt).status
    lines = text(attempt).splitlines()
    assert lines[0] == str(account.uid if account else os.geteuid())
    if account is not None:
        assert status != 0, "it reads nothing of the worker's"
        assert "0" not in lines[1].split()
    assert found_again(attempt).key == KEY


def test_a_users_job_runs_under_its_account(root: Path) -> None:
    """No program named by the job's environment runs before the account changes."""
    account = other_account()
    script, out = root / "script", root / "out"
    script.write_text(f'echo "$(/usr/bin/id -u)" >>{out}\n')
    out.touch()
    out.chmod(0o666)
    for name in ("cd", "echo", "kill", "read", "trap", "sh"):
        (root / name).write_text(f"#!/bin/sh\n. {script}\n")
        (root / name).chmod(0o755)
    environment = {"ENV": str(script), "BASH_ENV": str(script), "LD_PRELOAD": str(script)}
    environment["PATH"] = f"{root}:/usr/bin:/bin"
    attempt = shell(root, f". {script}", account=account, environment=environment)
    assert ended(attempt).status == 0
    expected = str(account.uid if account else os.geteuid())
    assert set(out.read_text().split()) == {expected}
