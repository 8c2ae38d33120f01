"""Folders of attempts are removed, whatever files their tasks left in them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.service.worker import _discarded_folders as folders
from fairlead.service.worker._discarded_folders import DISCARDED, discard, remove_discarded
from live_cluster import NOBODY, as_ordinary_user
from real_attempts import IS_ROOT

DEPTH = 1500  # deeper than the interpreter's stack and than the longest path


def left_of(root: Path) -> list[str]:
    """Discard and remove a tree; return the names that are left in its parent folder."""
    discard(root / "tree")
    while remove_discarded(root):
        pass
    return sorted(os.listdir(root))


def test_a_tree_of_any_depth_and_names_is_removed(root: Path) -> None:
    (root / "tree").mkdir()
    at = os.open(root / "tree", os.O_RDONLY)
    for _ in range(DEPTH):
        for name in (b"\xff\n\x1b", b"\xfe" + b"x" * 200):
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=at))
        os.mkfifo("-rf", dir_fd=at)
        os.mkdir(b"\xff" * 20, dir_fd=at)
        below = os.open(b"\xff" * 20, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    assert left_of(root) == []


def test_links_are_removed_and_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "kept").chmod(0o755)
    (root / "tree" / "a").mkdir(parents=True)
    for place in (root / "tree", root / "tree" / "a"):
        (place / "link").symlink_to(tmp_path / "kept")
        os.link(tmp_path / "kept" / "file", place / "hard")
    assert left_of(root) == []
    assert (tmp_path / "kept" / "file").exists()
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o755


def test_an_ordinary_account_removes_what_it_locked(root: Path) -> None:
    root.chmod(0o777)
    code = (
        "import os, sys; from pathlib import Path; from test_removal import left_of; "
        "from fairlead.service.worker.worker_token import hide_memory; hide_memory(); "
        "root = Path(sys.argv[1]); os.makedirs(root / 'tree' / 'a' / 'b' / 'c'); "
        "[p.chmod(0) for p in (root / 'tree' / 'a' / 'b', root / 'tree' / 'a')]; "
        "sys.exit(str(left_of(root)) if left_of(root) else 0)"
    )
    here = str(Path(__file__).parent)
    path = os.pathsep.join([here, *sys.path])
    words = [*(as_ordinary_user() if IS_ROOT else []), sys.executable, "-c", code, str(root)]
    done = subprocess.run(words, env=os.environ | {"PYTHONPATH": path}, check=False)
    assert done.returncode == 0


@pytest.mark.skipif(not IS_ROOT, reason="only root could empty another account's folder")
def test_a_folder_of_another_account_is_not_emptied(root: Path) -> None:
    theirs = root / "tree" / "task" / "a" / "moved" / "private"
    theirs.mkdir(parents=True)
    (theirs / "thesis").touch()
    for path, account in ((root / "tree" / "task", NOBODY), (theirs.parent, NOBODY + 1)):
        for each in (path, *path.rglob("*")):
            os.chown(each, account, account)
    discard(root / "tree")
    assert not remove_discarded(root)
    assert len(list(root.rglob("thesis"))) == 1
    assert not list(root.rglob("a"))  # the task's own folders are gone


def test_a_turn_ends_and_the_next_goes_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "tree").mkdir()
    for k in range(50):
        (root / "tree" / f"{k}").mkdir()
        (root / "tree" / f"{k}" / "file").touch()
    discard(root / "tree")
    clock = iter(range(10**6))
    monkeypatch.setattr(folders, "monotonic", lambda: float(next(clock)))
    assert remove_discarded(root, 5.0)
    assert os.listdir(root) == [DISCARDED]
    turns = 0
    while remove_discarded(root, 5.0):
        turns += 1
    assert turns > 0
    assert os.listdir(root) == []


def test_a_folder_that_cannot_be_removed_ends_the_turn(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def immutable(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    for name in ("a", "b"):
        (root / "tree" / name).mkdir(parents=True)
    (root / "tree" / "b" / "file").touch()
    discard(root / "tree")
    with monkeypatch.context() as kernel:
        for function in ("unlink", "rmdir", "rename"):
            kernel.setattr(os, function, immutable)
        assert not remove_discarded(root)
    assert len(caplog.records) == 1
    assert not remove_discarded(root)
    assert os.listdir(root) == []


@pytest.mark.parametrize("is_deep", [False, True])
def test_a_mount_is_left_as_it_is(root: Path, tmp_path: Path, is_deep: bool) -> None:
    (tmp_path / "file").touch()
    inner = root / "tree" / "a" if is_deep else root / "tree"
    place = inner / "mount"
    place.mkdir(parents=True)
    words = ["mount", "--bind", str(tmp_path), str(place)]
    is_mounted = IS_ROOT and subprocess.run(words, check=False, capture_output=True).returncode == 0
    left = left_of(root)
    if is_mounted:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        (where,) = [line.split()[1] for line in mounts if str(root) in line]
        subprocess.run(["umount", where], check=True)
        assert left == [DISCARDED]
        remove_discarded(root)
    assert os.listdir(root) == []
    assert (tmp_path / "file").exists()


def test_folders_made_since_are_removed_later(root: Path) -> None:
    (root / "tree").mkdir()
    inside = os.open(root / "tree", os.O_RDONLY)
    discard(root / "tree")
    os.mkdir("later", dir_fd=inside)
    os.close(inside)
    assert left_of(root) == []
