"""What compiles says so, once, also when it is asked to compile beforehand."""

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


def test_what_is_warm_is_not_compiled_again(tmp_path):
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(PROBLEM))
    cache = str(tmp_path / "cache")
    commands = [["warm-up", "nobody"], ["warm-up", "drf"]]
    commands += [["allocate", str(path), "-m", "drf", "--json"]]
    refused, warmed, used = (
        subprocess.run(
            [sys.executable, "-m", "fairlead.cli.main", *command],
            capture_output=True,
            text=True,
            env=os.environ | {"FAIRLEAD_CACHE": cache},
            check=False,
        )
        for command in commands
    )
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert (warmed.returncode, warmed.stdout) == (0, "compiled for 1 name\n")
    assert warmed.stderr.count("\n") == 1
    assert "compiling fairlead." in warmed.stderr
    assert cache in warmed.stderr
    assert (used.returncode, used.stderr) == (0, "")
    assert json.loads(used.stdout)["mechanism"] == "drf"
