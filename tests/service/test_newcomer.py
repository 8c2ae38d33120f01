"""The sessions of the README and of docs/running.md work as typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from live_cluster import NOBODY, Cluster, as_ordinary_user

ROOT = Path(__file__).parents[2]
JOBS = "fairlead jobs --all --json"


def session(page: str, folder: Path) -> list[str]:
    """Return the lines of a page's session, with tasks that end soon after its words were seen.

    Until then tasks go on running, on slow machines, too, and a test waits for words instead of
    seconds.
    """
    text = (ROOT / page).read_text()
    (block,) = re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    task = f'--count 30 -- sh -c "[ -e {folder}/seen ] || sleep 2"'
    block = block.replace("--count 12 -- sleep 4", task)
    block = block.replace("$ fairlead wait", "$ touch seen\n$ fairlead wait")
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    return [line for line in lines if not line.startswith("sleep")]


def typed(
    cluster: Cluster, page: str, awaited: list[tuple[str, int, str]]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Type a session into a shell; return the output of each line, and the jobs by id.

    Each awaited line is typed again until some number of its rows match a pattern. The shell is an
    ordinary user's even if root runs the tests, and finds the service by the default of its
    account.
    """
    run = cluster.folder / "run"
    (run / "fairlead").mkdir(parents=True, mode=0o700)
    name = "RUNTIME_DIRECTORY" if os.geteuid() == 0 else "XDG_RUNTIME_DIR"
    cluster.environment |= {name: str(run), "HOME": str(cluster.folder)}
    del cluster.environment["FAIRLEAD_SERVER"]
    lines = [*session(page, cluster.folder), JOBS]
    script = ["set -m", f'fairlead() {{ {sys.executable} -m fairlead "$@"; }}']
    for line in lines:
        script += ["echo @@"]
        if awaited and line == awaited[0][0]:
            _, count, pattern = awaited.pop(0)
            found = f"{line} | tee shown | grep -cE '{pattern}'"
            script += [f'until [ "$({found})" = {count} ]; do sleep 0.2; done; cat shown']
        else:
            script += [line.replace("fairlead serve", f"fairlead serve --port {cluster.port}")]
        if line.startswith("fairlead serve"):  # commands wait only 10 s for a service that starts
            script += ["until fairlead users >users 2>&1; do sleep 0.2; done"]
    script += ["kill -- $(jobs -p | sed s/^/-/)", "wait"]
    before = []
    if os.geteuid() == 0:
        for folder in (cluster.folder, run, run / "fairlead"):
            os.chown(folder, NOBODY, NOBODY)
        before = as_ordinary_user()
    done = subprocess.run(
        [*before, "bash", "-c", "\n".join(script)],
        env=cluster.environment,
        cwd=cluster.folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    print(done.stdout, done.stderr)  # pytest shows it if the test fails
    assert awaited == []
    said = dict(zip(lines, done.stdout.split("@@\n")[1:], strict=True))
    return said, {job["id"]: job for job in json.loads(said[JOBS])["jobs"]}


def test_the_session_of_the_readme_works_as_typed(cluster: Cluster) -> None:
    said, jobs = typed(cluster, "README.md", [("fairlead shares", 2, r"(ana|bo) +50\.00 %")])
    assert "it asks for 5 cpu of at most 4" in said["fairlead explain 3"]
    states = {"1": "finished", "2": "finished", "3": "pending"}
    assert {job: row["state"] for job, row in jobs.items()} == states


@pytest.mark.timeout(240)
def test_the_session_of_running_works_as_typed(cluster: Cluster) -> None:
    servers, fair = "fairlead servers", ("fairlead shares", 3, r"(ana|bo|cy) +33\.33 %")
    awaited = [(servers, 2, " ready"), fair, (servers, 1, " ready")]
    said, jobs = typed(cluster, "docs/running.md", awaited)
    assert "it asks for 5 cpu of at most 4" in said["fairlead explain 4"]
    assert said["fairlead logs 4"] == "done\n"
    assert {job: row["state"] for job, row in jobs.items()} == dict.fromkeys("1234", "finished")
    assert max(row["attempts"] for row in jobs.values()) == 2
    assert re.findall(r"\b(?:ana|bo|cy)\b", said["fairlead history"]) == ["ana", "bo", "cy"]
    assert (cluster.folder / "state" / "fairlead" / "journal.db").exists()
