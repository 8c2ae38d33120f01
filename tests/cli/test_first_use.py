"""The first use after an installation says that it compiles; later ones are silent."""

from __future__ import annotations

import json
import os
import subprocess
import sys

PROBLEM = {
    "fairlead": 1,
    "servers": [{"name": "pool", "capacity": {"cpu": 9, "memory": 18}}],
    "users": [{"name": "A", "demand": {"cpu": 1, "memory": 4}}],
}


def test_compiling_is_announced_once(tmp_path):
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(PROBLEM))
    command = [sys.executable, "-m", "fairlead.cli.main", "allocate", str(path), "-m", "drf"]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    runs = [
        subprocess.run(
            [*command, "--json"], capture_output=True, text=True, env=environment, check=False
        )
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [0, 0]
    assert runs[0].stderr.count("\n") == 1
    assert "compiling" in runs[0].stderr
    assert runs[1].stderr == ""
    assert json.loads(runs[0].stdout) == json.loads(runs[1].stdout)
