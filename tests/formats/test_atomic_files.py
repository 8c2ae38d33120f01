"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest

from fairlead.formats.atomic_files import check_writable, write_text
from faults import fault_of


def test_a_failure_leaves_the_older_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    assert "no space left on device" in fault_of(write_text, path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["page.html"]


def test_links_and_modes_stay(tmp_path: Path) -> None:
    link, page, other = (tmp_path / name for name in ("link.html", "page.html", "other"))
    link.symlink_to(page)
    other.touch()
    write_text(link, "new")
    assert page.stat().st_mode == other.stat().st_mode
    page.chmod(0o640)
    write_text(link, "lone \ud800 surrogate")
    assert link.is_symlink()
    assert page.read_text() == "lone ? surrogate"
    assert page.stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    # A pipe of the test's own stands for devices, which the whole machine would lose.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    check_writable(pipe)
    write_text(pipe, "new")
    reader.join(timeout=60)
    assert read == ["new"]
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_paths_that_cannot_be_written_are_refused_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, folder = tmp_path / "problem.yaml", tmp_path / "day"
    problem.touch()
    folder.mkdir()
    (folder / "jobs.csv").touch()
    for path, source, fault in (
        (tmp_path, problem, "is a folder"),
        (tmp_path / "missing" / "x.html", problem, "there is no folder"),
        (problem, problem, "is the trace itself"),
        (folder / "jobs.csv", folder, "is a part of the trace"),
    ):
        assert fault in fault_of(check_writable, path, str(source), "trace")
    check_writable(folder / "page.html", str(folder))
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != tmp_path)
    assert "permission denied" in fault_of(check_writable, tmp_path / "page.html")
