"""A build compiles modules where it can, else says why not, and fails on faulty sources."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import fairlead
from fairlead.compiled import record_build
from wheel_building import ROOT, build_wheel, copy_of_sources, source_distribution, the_wheel

PURE = f"fairlead-{fairlead.__version__}-py3-none-any.whl"
COMPILER = str(shutil.which("cc"))
WITHOUT_MYPYC = Path(__file__).parent / "without_mypyc"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_sources(tmp_path_factory.mktemp("source"))


def build_extensions(source: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Compile modules in the sources themselves; PATH leads to neither a C compiler nor npm."""
    command = [sys.executable, "-W", "ignore", "setup.py", "--quiet", "build_ext", "--inplace"]
    path = {"PATH": str(Path(sys.executable).parent)}
    return subprocess.run(
        command, cwd=source, env=path | environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({}, "no C compiler"),
        ({"CC": COMPILER, "FAIRLEAD_PLAIN": "1"}, "FAIRLEAD_PLAIN is set"),
        ({"CC": f"{COMPILER} -nostdinc"}, "Python's headers"),
        ({"CC": COMPILER, "PYTHONPATH": str(WITHOUT_MYPYC)}, "mypyc cannot be imported"),
    ],
)
def test_a_build_that_compiles_nothing_removes_the_last_one(
    source: Path, environment: dict[str, str], reason: str
) -> None:
    package = source / "src" / "fairlead"
    (package / "scheduler" / f"gone{EXTENSION_SUFFIXES[0]}").touch()
    record_build("of the last build", str(package))
    done = build_extensions(source, **environment)
    assert done.returncode == 0, done.stderr
    assert reason in done.stderr
    assert [*package.rglob("*.so"), *package.rglob("*.checksum")] == []


def test_faulty_sources_fail_where_there_is_a_compiler(source: Path) -> None:
    faulty = source / "src" / "fairlead" / "scheduler" / "faulty.py"
    faulty.write_text('"""Faulty."""\n\nWORD: int = "word"\n')
    done = build_extensions(source, CC=COMPILER)
    faulty.unlink()
    assert done.returncode != 0
    assert "faulty.py:3: error" in done.stdout + done.stderr


def test_a_source_distribution_builds_in_plain_python(source: Path, tmp_path: Path) -> None:
    """The wheel of test_wheel.py is one that is compiled from a source distribution."""
    (source / "src" / "fairlead" / "scheduler" / f"old{EXTENSION_SUFFIXES[0]}").touch()
    packed = source_distribution(source, tmp_path)
    with tarfile.open(packed) as archive:
        names = archive.getnames()
    assert [name for name in names if name.endswith((".so", ".c", ".checksum"))] == []
    done = build_wheel(packed, tmp_path, FAIRLEAD_PLAIN="1")
    assert done.returncode == 0, done.stderr
    assert the_wheel(tmp_path).name == PURE
    names = zipfile.ZipFile(the_wheel(tmp_path)).namelist()
    assert "fairlead/scheduler/_devices.py" in names
    assert [name for name in names if name.endswith((".so", ".c"))] == []


def test_the_build_admits_the_compiler_of_the_constraints() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    )
    required = map(Requirement, project["build-system"]["requires"])
    admitted = {needed.name: needed.specifier for needed in required}
    assert pins["mypy"] in admitted["mypy"]
    developers = map(Requirement, project["project"]["optional-dependencies"]["dev"])
    (same,) = (needed for needed in developers if needed.name == "mypy")
    assert same.specifier == admitted["mypy"]


def test_the_oldest_python_admits_each_pinned_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    refusing = [
        f"{package.metadata['Name']} {package.version}"
        for package in distributions()
        if (needed := package.metadata.get("Requires-Python"))
        and not SpecifierSet(needed).contains(oldest)
    ]
    assert refusing == []


def test_all_installs_every_extra_and_the_page_lists_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])
    assert (everything.name, everything.extras) == ("fairlead", extras.keys() - {"all", "dev"})
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert [extra for extra in extras if f"\n| `{extra}` | " not in page] == []
