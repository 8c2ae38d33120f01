"""The core runs as it was built, in plain Python on request, and warns of a stale build."""

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
    CORE,
    core_sources,
    is_current,
    plain_is_asked,
    record_build,
    remove_build,
)
from fairlead.core.build import COMPILED, how_core_runs

PACKAGE = Path(fairlead.__file__).parent


@pytest.fixture
def core(tmp_path: Path) -> str:
    """Copy what an import of the core needs into a checkout without extensions."""
    package = tmp_path / "checkout" / "src" / "fairlead"
    shutil.copytree(CORE, package / "core", ignore=shutil.ignore_patterns("*.so", "*.checksum"))
    for name in ("__init__.py", "errors.py", "compiled.py"):
        shutil.copy(PACKAGE / name, package / name)
    return str(package / "core")


def imported(core: str, **environment: str) -> tuple[str, str]:
    """Import the core of a checkout in a process; return how it runs, and standard error."""
    clean = {name: value for name, value in os.environ.items() if name != "FAIRLEAD_PLAIN"}
    done = subprocess.run(
        [sys.executable, "-c", "from fairlead.core.build import *; print(how_core_runs())"],
        env={**clean, "PYTHONPATH": str(Path(core).parents[1]), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), done.stderr


def test_version_says_how_the_core_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"fairlead {fairlead.__version__} ({how_core_runs()})\n"


def test_compiled_unless_plain_is_asked() -> None:
    built = list(Path(CORE).rglob(f"*{EXTENSION_SUFFIXES[0]}"))
    assert (bool(built) and not plain_is_asked()) == COMPILED


def test_the_switch_holds_in_subpackages(core: str) -> None:
    (deep := Path(core) / "deep").mkdir()
    (deep / "__init__.py").write_text('"""Deep."""\n')
    (deep / "rule.py").write_text("HOW = 'source'\n")
    for module in (deep / "rule", Path(core) / "build"):
        module.with_suffix(EXTENSION_SUFFIXES[0]).write_bytes(b"no extension")
    program = "from fairlead.core.deep.rule import HOW; from fairlead.core import build; print(HOW)"
    paths = {"PYTHONPATH": str(Path(core).parents[1])}
    for plain, status in (("1", 0), ("0", 1), ("", 1)):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **paths, "FAIRLEAD_PLAIN": plain},
            capture_output=True,
            check=False,
        )
        assert done.returncode == status


def test_extensions_of_another_python_are_left_alone(core: str) -> None:
    (Path(core) / "build.cpython-399-x86_64-linux-gnu.so").write_bytes(b"of another Python")
    assert imported(core) == ("plain Python", "")


def test_an_edited_source_makes_one_line(core: str) -> None:
    record_build(core)
    source = Path(core) / "build.py"
    source.write_text(source.read_text() + "# edited\n")
    _, warning = imported(core)
    assert warning.count("\n") == 1
    assert f"make -C {Path(core).parents[2]} setup" in warning
    assert imported(core, FAIRLEAD_PLAIN="1") == ("plain Python", "")


def test_modules_added_renamed_and_removed_are_noticed(core: str) -> None:
    record_build(core)
    (added := Path(core) / "rule.py").write_text("")
    assert is_current(core) is False
    record_build(core)
    renamed = added.rename(Path(core) / "law.py")
    assert is_current(core) is False
    record_build(core)
    renamed.unlink()
    assert is_current(core) is False


def test_times_of_files_decide_nothing(core: str) -> None:
    record_build(core)
    for path in core_sources(core):
        os.utime(path, (2e9, 2e9))
    assert is_current(core) is True
    assert imported(core)[1] == ""


def test_without_a_record_nothing_is_compared(core: str) -> None:
    assert is_current(core) is None
    assert imported(core)[1] == ""


def test_removing_a_build_leaves_that_of_other_pythons(core: str) -> None:
    record_build(core)
    (Path(core) / f"build{EXTENSION_SUFFIXES[0]}").touch()
    (Path(core).parents[1] / f"fairlead__mypyc{EXTENSION_SUFFIXES[0]}").touch()
    (other := Path(core) / "build.cpython-399-x86_64-linux-gnu.so").touch()
    remove_build(core)
    left = [
        path for path in Path(core).parents[1].rglob("*") if path.suffix in {".so", ".checksum"}
    ]
    assert left == [other]
