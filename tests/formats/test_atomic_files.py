"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest

from fairlead.errors import InputError
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


def test_a_link_is_followed(tmp_path: Path) -> None:
    link = tmp_path / "link.html"
    link.symlink_to(tmp_path / "page.html")
    write_text(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "page.html").read_text() == "new"


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


def test_names_that_are_no_text_do_not_stop_a_page(tmp_path: Path) -> None:
    write_text(tmp_path / "page.html", "lone \ud800 surrogate")
    assert "lone ? surrogate" in (tmp_path / "page.html").read_text()


def test_paths_that_cannot_be_written_are_refused_early(tmp_path: Path) -> None:
    problem = tmp_path / "problem.yaml"
    problem.write_text("fairlead: 1")
    for path, fault in (
        (tmp_path, "is a folder"),
        (tmp_path / "missing" / "x.html", "there is no folder"),
        (problem, "is the problem file itself"),
    ):
        with pytest.raises(InputError, match=fault):
            check_writable(path, source=str(problem))


def test_a_page_is_no_part_of_the_folder_that_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "day"
    folder.mkdir()
    table = folder / "jobs.csv"
    table.write_text("job")
    with pytest.raises(InputError, match="is a part of the trace"):
        check_writable(table, source=str(folder), what="trace")
    check_writable(folder / "page.html", source=str(folder), what="trace")


def test_a_read_only_folder_is_refused_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != tmp_path)
    assert "permission denied" in fault_of(check_writable, tmp_path / "page.html")
