"""The first session of docs/running.md, as typed into a shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from live_cluster import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "running.md"


def session() -> list[str]:
    (block,) = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return [line.removeprefix("$ ") for line in block.splitlines()]


def test_the_first_session(cluster: Cluster) -> None:
    lines = session()
    assert lines[0].startswith("fairlead serve")
    lines[0] = lines[0].replace("serve", f"serve --port {cluster.port}")
    script = ["set -m", f'fairlead() {{ {sys.executable} -m fairlead "$@"; }}']
    for number, line in enumerate(lines):
        script += [f"echo '@{number}'", line]
    script += ["fairlead jobs --all --json >jobs.json", "kill %1 %2", "wait"]
    environment = cluster.environment | {"HOME": str(cluster.folder)}
    if cluster.accounts:
        environment["FAIRLEAD_ACCOUNTS"] = cluster.accounts[-1]
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        env=environment,
        cwd=cluster.folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    said = dict(zip(lines, re.split(r"^@\d+\n", done.stdout, flags=re.M)[1:], strict=True))
    shown = "\n".join(f"$ {line}\n{text}" for line, text in said.items()) + done.stderr
    before, after = [text.splitlines() for line, text in split_twice(done.stdout, lines, "servers")]
    assert sum("ready" in line for line in before) == 2, shown
    shares = [row.split() for row in said["fairlead shares"].splitlines() if " %" in row]
    assert {row[0]: row[1] for row in shares} == dict.fromkeys(["ana", "bo", "cy"], "33.33"), shown
    assert "it asks for 5 cpu of at most 4" in said["fairlead explain 4"], shown
    assert sum("ready" in line for line in after) == 1, shown
    assert said["fairlead logs 4"] == "done\n", shown
    jobs = json.loads((cluster.folder / "jobs.json").read_text())["jobs"]
    assert {job["id"]: job["state"] for job in jobs} == dict.fromkeys("1234", "finished"), shown
    assert max(job["attempts"] for job in jobs) == 2, shown
    assert [name for name in ("ana", "bo", "cy") if name in said["fairlead history"]] == [
        "ana",
        "bo",
        "cy",
    ]
    assert os.path.exists(cluster.folder / "state" / "fairlead" / "journal.db")


def split_twice(out: str, lines: list[str], verb: str) -> list[tuple[str, str]]:
    """Return what a verb said each time, where it is typed twice."""
    parts = re.split(r"^@\d+\n", out, flags=re.M)[1:]
    return [(line, part) for line, part in zip(lines, parts, strict=True) if verb in line]
