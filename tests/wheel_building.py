"""Build wheels from a copy of the sources, without a package index."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PIP = (sys.executable, "-m", "pip")
OFFLINE = ("--no-index", "--no-deps", "--disable-pip-version-check")


PRODUCT = (
    *("src", "setup.py", "build_backend.py", "page_libraries.py", "pyproject.toml"),
    *("package.json", "package-lock.json", "MANIFEST.in", "README.md", "LICENSE"),
)


def copy_of_sources(folder: Path, *parts: str) -> Path:
    """Copy what a wheel is built from, because a build writes into its sources."""
    files = subprocess.run(
        ["git", "ls-files", "-z", *(parts or PRODUCT)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, files):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


def source_distribution(source: Path, folder: Path) -> Path:
    """Pack sources as a source distribution, and return its file."""
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", folder],
        cwd=source, capture_output=True, check=True,
    )  # fmt: skip
    (packed,) = folder.glob("*.tar.gz")
    return packed


def build_wheel(source: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build a wheel into a folder, with some variables of the environment changed."""
    kept = {name: value for name, value in os.environ.items() if name != "FAIRLEAD_PLAIN"}
    return subprocess.run(
        [*PIP, "wheel", *OFFLINE, "-v", "--no-build-isolation", "--wheel-dir", folder, source],
        env={**kept, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def compiler_without_optimisation(folder: Path) -> str:
    """Return a C compiler that takes a third of the time, as tests of packages need no speed."""
    compiler = folder / "cc"
    compiler.write_text(f'#!/bin/sh\nexec {sysconfig.get_config_var("CC")} "$@" -O0\n')
    compiler.chmod(0o755)
    return str(compiler)


def the_wheel(folder: Path) -> Path:
    """Return the only wheel in a folder."""
    (wheel,) = folder.glob("*.whl")
    return wheel
