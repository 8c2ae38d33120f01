"""The scheduler runs compiled, or in plain Python on request, and warns of a stale build."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import fairlead
from fairlead.cli.main import run
from fairlead.compiled import (
    LOOPS,
    PACKAGE,
    checksum_of_sources,
    how_it_runs,
    is_current,
    plain_is_selected,
    record_build,
    sources_to_compile,
)

EXTENSION = EXTENSION_SUFFIXES[0]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Copy all sources into a checkout without extensions."""
    copy = tmp_path / "checkout" / "src" / "fairlead"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.so", "*.checksum", "*.pyc"))
    return copy


def imported(package: Path, **environment: str) -> tuple[str, str]:
    """Import all compiled modules in a process; return how they run, and standard error."""
    modules = [f"fairlead.{loop.removesuffix('.py').replace('/', '.')}" for loop in LOOPS]
    clean = {name: value for name, value in os.environ.items() if name != "FAIRLEAD_PLAIN"}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import {', '.join(modules)}, fairlead.scheduler\n"
            "from fairlead.compiled import how_it_runs\n"
            "print(how_it_runs())",
        ],
        env={**clean, "PYTHONPATH": str(package.parent), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), done.stderr


def test_the_version_names_how_the_scheduler_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"fairlead {fairlead.__version__} ({how_it_runs()})\n"


def test_built_modules_run_unless_plain_is_selected() -> None:
    built = list(Path(PACKAGE).rglob(f"*{EXTENSION}"))
    assert (bool(built) and not plain_is_selected()) == (how_it_runs() == "compiled")


def test_the_switch_holds_in_subpackages(package: Path) -> None:
    (deep := package / "scheduler" / "deep").mkdir()
    (deep / "__init__.py").write_text('"""Deep."""\n')
    (deep / "rule.py").write_text("HOW = 'source'\n")
    compiled = [deep / "rule", package / "scheduler" / "_devices", package / "solvers" / "turns"]
    for module in compiled:
        module.with_suffix(EXTENSION).write_bytes(b"no extension")
    modules = (
        "fairlead.solvers.turn_heap, fairlead.scheduler._devices, fairlead.scheduler.deep.rule"
    )
    paths = {"PYTHONPATH": str(package.parent)}
    for plain, status in (("1", 0), ("0", 1), ("", 1)):
        done = subprocess.run(
            [sys.executable, "-c", f"import {modules}"],
            env={**os.environ, **paths, "FAIRLEAD_PLAIN": plain},
            capture_output=True,
            check=False,
        )
        assert done.returncode == status


def test_an_edited_source_warns_in_one_line(package: Path) -> None:
    record_build(checksum_of_sources(str(package)), str(package))
    source = package / "scheduler" / "_devices.py"
    source.write_text(source.read_text() + "# edited\n")
    _, warning = imported(package)
    assert warning.count("\n") == 1
    assert f"make -C {package.parents[1]} built" in warning
    assert imported(package, FAIRLEAD_PLAIN="1") == ("plain Python", "")


def test_modules_added_renamed_and_removed_are_noticed(package: Path) -> None:
    record_build(checksum_of_sources(str(package)), str(package))
    (added := package / "scheduler" / "rule.py").write_text("")
    assert is_current(str(package)) is False
    record_build(checksum_of_sources(str(package)), str(package))
    renamed = added.rename(package / "scheduler" / "law.py")
    assert is_current(str(package)) is False
    record_build(checksum_of_sources(str(package)), str(package))
    renamed.unlink()
    assert is_current(str(package)) is False


def test_only_compiled_modules_make_packed_arrays() -> None:
    """A compiled function never frees a packed array that an interpreted caller passes."""
    compiled = set(sources_to_compile())
    makers = [
        str(path)
        for path in Path(PACKAGE).rglob("*.py")
        if "from librt" in path.read_text(encoding="utf-8") and str(path) not in compiled
    ]
    assert makers == []
