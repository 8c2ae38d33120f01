"""Names of classes stand once; the mark of stored results changes with any source."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from fairlead import source_digest


def test_any_source_that_is_edited_changes_the_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_digest, "_folder_of", lambda _: tmp_path)
    files = [tmp_path / "a.py", tmp_path / "room" / "b.py", tmp_path / "room" / "c.py"]
    (tmp_path / "room").mkdir()
    for path in files:
        path.write_text(f"# {path.name}\n")
    stamp = source_digest.digest_of_sources.__wrapped__
    first = stamp()
    (tmp_path / "room" / "b.cpython-311.pyc").write_bytes(b"x")
    assert stamp() == first
    seen = {first}
    for path in files:
        path.write_text(path.read_text() + "# changed\n")
        seen.add(stamp())
    files[1].rename(tmp_path / "room" / "d.py")
    seen.add(stamp())
    assert len(seen) == 5


def test_the_stamp_is_that_of_the_named_packages() -> None:
    assert source_digest._folder_of("fairlead") == Path(source_digest.__file__).parent
    assert (
        len({source_digest.digest_of_sources(), source_digest.digest_of_sources("fairlead_papers")})
        == 2
    )


@pytest.mark.parametrize("is_scheduler", [False, True])
def test_a_class_name_stands_once(is_scheduler: bool) -> None:
    """Each name means one thing; the scheduler's names are exempt."""
    root = Path(source_digest.__file__).parent
    found = Counter(
        node.name
        for path in root.rglob("*.py")
        if (root / "scheduler" in path.parents) is is_scheduler
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    assert len(found) > 60
    assert [name for name, times in found.items() if times > 1] == []
