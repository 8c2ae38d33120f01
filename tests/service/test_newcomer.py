"""The sessions of the README and of docs/running.md."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from live_cluster import NOBODY, Cluster, as_ordinary_user

ROOT = Path(__file__).parents[2]


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


def use_own_socket(cluster: Cluster) -> None:
    """Let the service and its commands find each other by the default of their account."""
    run = cluster.folder / "run"
    (run / "fairlead").mkdir(parents=True, mode=0o700)
    name = "RUNTIME_DIRECTORY" if os.geteuid() == 0 else "XDG_RUNTIME_DIR"
    cluster.environment |= {name: str(run), "HOME": str(cluster.folder)}
    del cluster.environment["FAIRLEAD_SERVER"]


def shares_of(text: str) -> dict[str, str]:
    """Return the share column of the output of `fairlead shares`, by user."""
    rows = [line.split() for line in text.splitlines() if " %" in line]
    return {row[0]: row[1] for row in rows}


def test_the_session_of_the_readme_works_as_typed(cluster: Cluster) -> None:
    """In a shell, which is an ordinary user's even if root runs the tests."""
    use_own_socket(cluster)
    lines = [*session("README.md", cluster.folder), "fairlead jobs --all --json"]
    script = ["set -m", f'fairlead() {{ {sys.executable} -m fairlead "$@"; }}']
    for line in lines:
        typed = line.replace("fairlead serve", f"fairlead serve --port {cluster.port}")
        if line == "fairlead shares":  # typed again until both users hold what is fair
            held = 'fairlead shares | tee shown | grep -cE "(ana|bo) +50\\.00"'
            typed = f'until [ "$({held})" = 2 ]; do sleep 0.2; done; cat shown'
        script += ["echo @@", typed]
    script += ["kill -- $(jobs -p | sed s/^/-/)", "wait"]
    before = []
    if os.geteuid() == 0:
        for folder in (cluster.folder, cluster.folder / "run", cluster.folder / "run" / "fairlead"):
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
    shown = done.stdout + done.stderr
    said = dict(zip(lines, done.stdout.split("@@\n")[1:], strict=True))
    assert shares_of(said["fairlead shares"]) == {"ana": "50.00", "bo": "50.00"}, shown
    assert "it asks for 5 cpu of at most 4" in said["fairlead explain 3"], shown
    jobs = json.loads(said["fairlead jobs --all --json"])["jobs"]
    states = {"1": "finished", "2": "finished", "3": "pending"}
    assert {job["id"]: job["state"] for job in jobs} == states, shown


def carry_out(cluster: Cluster, line: str) -> str:
    """Carry out a line of a shell in this process; return its output."""
    program, *words = shlex.split(line)
    if words[-1] == "&":
        cluster._start(f"%{len(cluster.processes) + 1}", words[:-1])
    elif program == "kill":
        cluster.kill(words[-1])
    elif program == "touch":
        (cluster.folder / words[0]).touch()
    else:
        return cluster.run(*words).stdout
    return ""


@pytest.mark.timeout(240)
def test_the_session_of_running_works(cluster: Cluster) -> None:
    use_own_socket(cluster)
    said: dict[str, str] = {}
    ready = [2, 1]
    for line in session("docs/running.md", cluster.folder):
        typed = line.replace("fairlead serve", f"fairlead serve --port {cluster.port}")
        if line == "fairlead servers":
            expected = ready.pop(0)
            while cluster.run("servers").stdout.count(" ready") != expected:
                time.sleep(0.2)
        elif line == "fairlead shares":
            fair = dict.fromkeys(["ana", "bo", "cy"], "33.33")
            while shares_of(cluster.run("shares").stdout) != fair:
                time.sleep(0.2)
        else:
            said[line] = carry_out(cluster, typed)
    assert ready == []
    assert "it asks for 5 cpu of at most 4" in said["fairlead explain 4"]
    assert said["fairlead logs 4"] == "done\n"
    jobs = json.loads(cluster.run("jobs", "--all", "--json").stdout)["jobs"]
    assert {job["id"]: job["state"] for job in jobs} == dict.fromkeys("1234", "finished")
    assert max(job["attempts"] for job in jobs) == 2
    assert re.findall(r"\b(?:ana|bo|cy)\b", said["fairlead history"]) == ["ana", "bo", "cy"]
    assert (cluster.folder / "state" / "fairlead" / "journal.db").exists()
