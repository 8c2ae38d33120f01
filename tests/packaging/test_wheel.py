"""The wheel works by itself: compiled, with its dependencies and no tool of developers."""

from __future__ import annotations

import json
import os
import subprocess
import venv
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import fairlead
from wheel_building import (
    OFFLINE,
    PIP,
    ROOT,
    build_wheel,
    compiler_without_optimisation,
    copy_of_sources,
    source_distribution,
    the_wheel,
)

# PATH leads to no C compiler.
ALONE = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "FAIRLEAD_PLAIN"}} | {
    "PATH": "",
}


def declared(name: str, found: set[str]) -> set[str]:
    """Names of a package and of all that it needs to run, here."""
    if name not in found:
        found.add(name)
        for text in distribution(name).requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                declared(needed.name, found)
    return found


def link(name: str, site: Path) -> None:
    """Link a package of this environment into another one."""
    package = distribution(name)
    for top in {path.parts[0] for path in package.files or () if path.parts[0] != ".."}:
        if top != "__pycache__" and not (site / top).exists():
            (site / top).symlink_to(package.locate_file(top))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the wheel and what it declares, without an index to ask."""
    folder = tmp_path_factory.mktemp("wheel")
    source = copy_of_sources(folder / "source")
    compiler = compiler_without_optimisation(folder)
    done = build_wheel(source_distribution(source, folder), folder, CC=compiler)
    assert done.returncode == 0, done.stderr
    wheel = the_wheel(folder)
    names = zipfile.ZipFile(wheel).namelist()
    assert f"fairlead/scheduler/_devices{EXTENSION_SUFFIXES[0]}" in names
    assert "fairlead/scheduler/_devices.py" in names
    assert [name for name in names if name.endswith((".c", ".h", ".o", ".checksum"))] == []
    venv.create(folder / "empty", symlinks=True)
    python = folder / "empty" / "bin" / "python"
    site = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()
    )  # fmt: skip
    subprocess.run(
        [*PIP, f"--python={python}", "install", "--quiet", *OFFLINE, wheel], check=True, env=ALONE
    )
    for name in declared("fairlead", set()) - {"fairlead"}:
        link(name, site)
    return python


def said(python: Path, *arguments: object) -> str:
    return checked(python.with_name("fairlead"), *arguments)


def run_alone(program: Path, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=program.parent,
        env=ALONE | more,
    )


def checked(python: Path, *arguments: object) -> str:
    done = run_alone(python, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_version(python: Path) -> None:
    assert said(python, "--version") == f"fairlead {fairlead.__version__} (compiled)\n"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == fairlead.__version__
    assert "cff-version" in citation


def test_it_works(python: Path, tmp_path: Path) -> None:
    park, report = ROOT / "examples" / "papers" / "psdsf-figure-1.yaml", tmp_path / "report.html"
    answer = json.loads(said(python, "allocate", park, "--json"))
    assert [user["tasks"] for user in answer["users"]] == pytest.approx([3, 3, 6])
    others = [
        ["compare", park, "--report", report],
        ["trace", "info", ROOT / "examples" / "logs" / "lab.swf"],
        ["mechanisms"],
    ]
    # One after another in one process, which imports once.
    script = "import sys; from fairlead.cli.main import run; sys.exit(any(map(run, {})))"
    words = [[str(word) for word in verb] for verb in others]
    out = checked(python, "-c", script.format(words))
    assert "<html" in report.read_text(encoding="utf-8")
    assert "10 users" in out
    assert "dominant resource fairness, all servers as one pool" in out


def test_reproduce_is_a_verb_of_the_papers(python: Path, tmp_path: Path) -> None:
    product = run_alone(python.with_name("fairlead"), "reproduce", "--list")
    assert product.returncode == 2
    assert "no such command" in product.stderr
    source = copy_of_sources(tmp_path / "source", "papers") / "papers"
    folder = tmp_path / "added"
    words = ["install", "--quiet", *OFFLINE, "--no-build-isolation", "--target", folder, source]
    subprocess.run([*PIP, *words], check=True)
    both = run_alone(
        python.with_name("fairlead"), "reproduce", "psdsf/figure-1", PYTHONPATH=str(folder)
    )
    assert both.returncode == 0, both.stderr
    assert "psdsf/figure-1" in both.stdout


def test_developers_tools_are_not_there(python: Path) -> None:
    tools = ("pytest", "hypothesis", "matplotlib", "clarabel", "yaml")
    script = "import sys; from importlib.util import find_spec; print(*filter(find_spec, {}))"
    assert checked(python, "-c", script.format(("json", *tools))) == "json\n"
