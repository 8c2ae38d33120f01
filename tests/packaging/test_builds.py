"""A build compiles modules where it can, else says why not, and fails on faulty sources."""

from __future__ import annotations

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
from wheel_building import ROOT, build_wheel, copy_of_sources, source_distribution, the_wheel

PURE = f"fairlead-{fairlead.__version__}-py3-none-any.whl"
# Neither PATH leads to a C compiler.
WITHOUT_COMPILER = {"PATH": str(Path(sys.executable).parent)}
WITHOUT_MYPYC = Path(__file__).parent / "without_mypyc"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_sources(tmp_path_factory.mktemp("source"))


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        (WITHOUT_COMPILER, "no C compiler"),
        ({"FAIRLEAD_PLAIN": "1"}, "FAIRLEAD_PLAIN is set"),
        ({"CC": "cc -nostdinc"}, "Python's headers"),
        ({"PYTHONPATH": str(WITHOUT_MYPYC)}, "mypyc cannot be imported"),
    ],
)
def test_a_build_without_compiling_is_pure(
    source: Path, tmp_path: Path, environment: dict[str, str], reason: str
) -> None:
    done = build_wheel(source, tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    assert reason in done.stdout + done.stderr
    assert the_wheel(tmp_path).name == PURE
    names = zipfile.ZipFile(the_wheel(tmp_path)).namelist()
    assert "fairlead/scheduler/build.py" in names
    assert [name for name in names if name.endswith((".so", ".c"))] == []


def test_faulty_sources_fail_where_there_is_a_compiler(tmp_path: Path) -> None:
    source = copy_of_sources(tmp_path / "source")
    faulty = source / "src" / "fairlead" / "scheduler" / "faulty.py"
    faulty.write_text('"""Faulty."""\n\nWORD: int = "word"\n')
    done = build_wheel(source, tmp_path)
    assert done.returncode != 0
    assert "faulty.py:3: error" in done.stdout + done.stderr
    assert list(tmp_path.glob("*.whl")) == []
    assert build_wheel(source, tmp_path, FAIRLEAD_PLAIN="1").returncode == 0


def test_a_source_distribution_builds_in_plain_python(source: Path, tmp_path: Path) -> None:
    """The wheel of test_wheel.py is one that is compiled from a source distribution."""
    packed = source_distribution(source, tmp_path)
    with tarfile.open(packed) as archive:
        names = archive.getnames()
    assert [name for name in names if name.endswith((".so", ".c", ".checksum"))] == []
    assert build_wheel(packed, tmp_path, FAIRLEAD_PLAIN="1").returncode == 0
    assert the_wheel(tmp_path).name == PURE


def test_a_build_in_a_checkout_replaces_the_last_one(tmp_path: Path) -> None:
    source = copy_of_sources(tmp_path)
    scheduler = source / "src" / "fairlead" / "scheduler"
    (scheduler / f"gone{EXTENSION_SUFFIXES[0]}").touch()
    command = [sys.executable, "-W", "ignore", "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(command, cwd=source, env=WITHOUT_COMPILER, capture_output=True, check=True)
    assert list(scheduler.rglob("*.so")) == []
    assert list(scheduler.rglob("*.checksum")) == []


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
