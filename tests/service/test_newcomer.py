"""The sessions of docs/running.md and of the README, as typed into a shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from live_cluster import NOBODY, Cluster, as_ordinary_user

ROOT = Path(__file__).parents[2]
OTHER = "other" if os.geteuid() == 0 else "own"  # only root can become another account


def session(page: str, folder: Path) -> list[str]:
    """Return the lines of a page's session, with tasks that end soon after its words were seen.

    Until then tasks go on running, on slow machines, too, and `typed` waits for words
    instead of seconds.
    """
    text = (ROOT / page).read_text()
    (block,) = re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    task = f'--count 30 -- sh -c "[ -e {folder}/seen ] || sleep 2"'
    block = block.replace("--count 12 -- sleep 4", task)
    block = block.replace("$ fairlead wait", "$ touch seen\n$ fairlead wait")
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    return [line for line in lines if not line.startswith("sleep")]


# Types a line again, as people do, until a word is in as many lines of its output as expected.
AGAIN = """again() {
    for _ in $(seq 300); do
        said="$(eval "$1")"
        [ "$(grep -cE -- "$2" <<<"$said")" = "$3" ] && break
        sleep 0.2
    done
    echo "$said"
}"""


def typed(
    cluster: Cluster,
    page: str,
    *more: str,
    again: dict[str, list[tuple[str, str, int]]],
    account: str = "own",
) -> list[tuple[str, str]]:
    """Type a page's session and further lines; return each line with its output.

    The lines in `again` are repeated until their output has a word in that many lines: other tests
    run meanwhile. All else is typed at once, also while the service is starting. With the account
    ``other``, root's shell becomes another user's first.
    """
    lines = [*session(page, cluster.folder), *more]
    waits = {line: list(words) for line, words in again.items()}
    assert lines[0].startswith("fairlead serve")
    lines[0] = lines[0].replace("serve", f"serve --port {cluster.port}")
    script = ["set -m", f'fairlead() {{ {sys.executable} -m fairlead "$@"; }}', AGAIN]
    for line in lines:
        wait = waits[line].pop(0) if waits.get(line) else None
        script += ["echo @@", "again '{}' '{}' {}".format(*wait) if wait else line]
    script += ["kill -- $(jobs -p | sed s/^/-/)", "wait"]
    run = str(cluster.folder / "run")  # each service gets its own folder
    (cluster.folder / "run" / "fairlead").mkdir(parents=True, mode=0o700)
    environment = {**cluster.environment, "HOME": str(cluster.folder)}
    environment |= {"RUNTIME_DIRECTORY": run} if os.geteuid() == 0 else {"XDG_RUNTIME_DIR": run}
    del environment["FAIRLEAD_SERVER"]
    before = []
    if account == "other":
        for folder in (cluster.folder, Path(run), Path(run) / "fairlead"):
            os.chown(folder, NOBODY, NOBODY)
        before = as_ordinary_user()
    done = subprocess.run(
        [*before, "bash", "-c", "\n".join(script)],
        env=environment,
        cwd=cluster.folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    parts = done.stdout.split("@@\n")[1:]
    assert len(parts) == len(lines), done.stdout + done.stderr
    return list(zip(lines, parts, strict=True))


def test_the_session_of_running_works_as_typed(cluster: Cluster) -> None:
    again = {
        "fairlead servers": [("fairlead servers", "ready", n) for n in (2, 1)],
        "fairlead shares": [("fairlead shares", r"(ana|bo|cy) +33\.33", 3)],
    }
    both = typed(cluster, "docs/running.md", "fairlead jobs --all --json", again=again)
    said, shown = dict(both), "\n".join(f"$ {line}\n{text}" for line, text in both)
    servers = [text.count(" ready") for line, text in both if line == "fairlead servers"]
    assert servers == [2, 1], shown
    assert shares_of(said["fairlead shares"]) == dict.fromkeys(["ana", "bo", "cy"], "33.33"), shown
    assert "it asks for 5 cpu of at most 4" in said["fairlead explain 4"], shown
    assert said["fairlead logs 4"] == "done\n", shown
    jobs = json.loads(said["fairlead jobs --all --json"])["jobs"]
    assert {job["id"]: job["state"] for job in jobs} == dict.fromkeys("1234", "finished"), shown
    assert max(job["attempts"] for job in jobs) == 2, shown
    assert re.findall(r"\b(?:ana|bo|cy)\b", said["fairlead history"]) == ["ana", "bo", "cy"]
    assert (cluster.folder / "state" / "fairlead" / "journal.db").exists()


def test_the_session_of_the_readme_works_as_typed(cluster: Cluster) -> None:
    again = {"fairlead shares": [("fairlead shares", r"(ana|bo) +50\.00", 2)]}
    both = typed(cluster, "README.md", "fairlead jobs --all --json", again=again, account=OTHER)
    said, shown = dict(both), "\n".join(f"$ {line}\n{text}" for line, text in both)
    assert shares_of(said["fairlead shares"]) == {"ana": "50.00", "bo": "50.00"}, shown
    assert "it asks for 5 cpu of at most 4" in said["fairlead explain 3"], shown
    jobs = json.loads(said["fairlead jobs --all --json"])["jobs"]
    states = {"1": "finished", "2": "finished", "3": "pending"}
    assert {job["id"]: job["state"] for job in jobs} == states, shown


def shares_of(text: str) -> dict[str, str]:
    """Return the share column of the output of `fairlead shares`, by user."""
    rows = [line.split() for line in text.splitlines() if " %" in line]
    return {row[0]: row[1] for row in rows}
