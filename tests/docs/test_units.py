"""The systemd units in docs/ say what systemd reads: it knows no comment at the end of a line."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = [
    (path.name, unit)
    for path in sorted(ROOT.glob("docs/**/*.md"))
    for unit in re.findall(r"^```\w*\n(\[Unit\]\n.*?)^```", path.read_text(), re.DOTALL | re.M)
]
KEYS = {
    "Unit": {"Description", "After"},
    "Service": {"User", "Environment", "ExecStart", "Restart", "KillMode", "LimitNOFILE"}
    | {"NoNewPrivileges", "ProtectSystem", "ReadWritePaths", "RuntimeDirectory"},
    "Install": {"WantedBy"},
}


def settings_of(unit: str) -> list[tuple[str, str, str]]:
    """Return section, key and value of every line that systemd reads."""
    found, section = [], ""
    for line in unit.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and line[0] not in "#;":
            key, _, value = line.partition("=")
            found.append((section, key, value))
    return found


def test_the_units_have_settings_that_systemd_knows() -> None:
    found = [(page, *setting) for page, unit in UNITS for setting in settings_of(unit)]
    commands = [value.split()[1] for _, _, key, value in found if key == "ExecStart"]
    assert commands == ["serve", "worker"]
    for page, section, key, value in found:
        assert key in KEYS[section], f"{page}: {section}.{key}"
        assert "#" not in value, f"{page}: {key}"  # a comment at the end of a line is none


@pytest.mark.parametrize(("page", "unit"), UNITS)
def test_systemd_ignores_no_line_of_a_unit(page: str, unit: str, tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        return
    path = tmp_path / "fairlead.service"
    path.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit, flags=re.M))
    done = subprocess.run(
        [verify, "verify", "--man=no", str(path)], capture_output=True, text=True, check=False
    )
    about_it = [line for line in done.stderr.splitlines() if path.name in line]
    assert not about_it, page
