"""The scheduler runs as it was built, in plain Python on request, and warns of a stale build."""

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
    SCHEDULER,
    is_current,
    plain_is_asked,
    record_build,
    remove_build,
    sources_to_compile,
)
from fairlead.scheduler.build import COMPILED, how_it_runs

PACKAGE = Path(fairlead.__file__).parent


@pytest.fixture
def scheduler(tmp_path: Path) -> str:
    """Copy what an import of the scheduler needs into a checkout without extensions."""
    package = tmp_path / "checkout" / "src" / "fairlead"
    shutil.copytree(
        SCHEDULER, package / "scheduler", ignore=shutil.ignore_patterns("*.so", "*.checksum")
    )
    for name in ("__init__.py", "errors.py", "compiled.py"):
        shutil.copy(PACKAGE / name, package / name)
    return str(package / "scheduler")


def imported(scheduler: str, **environment: str) -> tuple[str, str]:
    """Import the scheduler of a checkout in a process; return how it runs, and standard error."""
    clean = {name: value for name, value in os.environ.items() if name != "FAIRLEAD_PLAIN"}
    done = subprocess.run(
        [sys.executable, "-c", "from fairlead.scheduler.build import *; print(how_it_runs())"],
        env={**clean, "PYTHONPATH": str(Path(scheduler).parents[1]), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), done.stderr


def test_version_says_how_the_core_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"fairlead {fairlead.__version__} ({how_it_runs()})\n"


def test_compiled_unless_plain_is_asked() -> None:
    built = list(Path(SCHEDULER).rglob(f"*{EXTENSION_SUFFIXES[0]}"))
    assert (bool(built) and not plain_is_asked()) == COMPILED


def test_the_switch_holds_in_subpackages(scheduler: str) -> None:
    (deep := Path(scheduler) / "deep").mkdir()
    (deep / "__init__.py").write_text('"""Deep."""\n')
    (deep / "rule.py").write_text("HOW = 'source'\n")
    for module in (deep / "rule", Path(scheduler) / "build"):
        module.with_suffix(EXTENSION_SUFFIXES[0]).write_bytes(b"no extension")
    program = "import fairlead.scheduler.build; import fairlead.scheduler.deep.rule"
    paths = {"PYTHONPATH": str(Path(scheduler).parents[1])}
    for plain, status in (("1", 0), ("0", 1), ("", 1)):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **paths, "FAIRLEAD_PLAIN": plain},
            capture_output=True,
            check=False,
        )
        assert done.returncode == status


def test_extensions_of_another_python_are_left_alone(scheduler: str) -> None:
    (Path(scheduler) / "build.cpython-399-x86_64-linux-gnu.so").write_bytes(b"of another Python")
    assert imported(scheduler) == ("plain Python", "")


def test_an_edited_source_makes_one_line(scheduler: str) -> None:
    record_build(scheduler)
    source = Path(scheduler) / "build.py"
    source.write_text(source.read_text() + "# edited\n")
    _, warning = imported(scheduler)
    assert warning.count("\n") == 1
    assert f"make -C {Path(scheduler).parents[2]} setup" in warning
    assert imported(scheduler, FAIRLEAD_PLAIN="1") == ("plain Python", "")


def test_modules_added_renamed_and_removed_are_noticed(scheduler: str) -> None:
    record_build(scheduler)
    (added := Path(scheduler) / "rule.py").write_text("")
    assert is_current(scheduler) is False
    record_build(scheduler)
    renamed = added.rename(Path(scheduler) / "law.py")
    assert is_current(scheduler) is False
    record_build(scheduler)
    renamed.unlink()
    assert is_current(scheduler) is False


def test_times_of_files_decide_nothing(scheduler: str) -> None:
    record_build(scheduler)
    for path in sources_to_compile(scheduler):
        os.utime(path, (2e9, 2e9))
    assert is_current(scheduler) is True
    assert imported(scheduler)[1] == ""


def test_without_a_record_nothing_is_compared(scheduler: str) -> None:
    assert is_current(scheduler) is None
    assert imported(scheduler)[1] == ""


def test_removing_a_build_leaves_that_of_other_pythons(scheduler: str) -> None:
    record_build(scheduler)
    (Path(scheduler) / f"build{EXTENSION_SUFFIXES[0]}").touch()
    (Path(scheduler).parents[1] / f"fairlead__mypyc{EXTENSION_SUFFIXES[0]}").touch()
    (other := Path(scheduler) / "build.cpython-399-x86_64-linux-gnu.so").touch()
    remove_build(scheduler)
    left = [
        path
        for path in Path(scheduler).parents[1].rglob("*")
        if path.suffix in {".so", ".checksum"}
    ]
    assert left == [other]


def test_only_compiled_modules_make_packed_arrays() -> None:
    """A compiled function never frees a packed array that an interpreted caller gives it."""
    compiled = set(sources_to_compile())
    makers = [
        str(path)
        for path in PACKAGE.rglob("*.py")
        if "from librt" in path.read_text(encoding="utf-8") and str(path) not in compiled
    ]
    assert makers == []
