"""``fairlead ray`` as typed, and the pages that show Ray."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import ray
from ray._private import services
from ray.cluster_utils import Cluster

import fairlead.ray
from conftest import ENDED, Connect, running, state, submitted, until
from fairlead.cli import main
from fairlead.cli._application import RAY
from fairlead.errors import InputError
from fairlead.ray.connection import join

pytestmark = pytest.mark.timeout(200)
ROOT = Path(__file__).parents[2]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process, which has joined the cluster: a new one takes two seconds.

    Verbs of a service get the dispatcher as their server.
    """

    def here(*words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        found = main.run(["ray", *words] if words[0] in RAY else [*words, "--server", "ray:"])
        done = subprocess.CompletedProcess(words, found, *capsys.readouterr())
        assert done.returncode == status, done.stderr
        return done

    return here


def test_the_verbs_show_and_cancel(connect: Connect, here: Run) -> None:
    fair = connect("ana")
    held = [fair.submit(time.sleep, 600, demand={"cpu": 2}) for _ in range(3)]
    until(lambda: (submitted(fair), running(fair)) == (3, 2))
    view = json.loads(here("status", "--json").stdout)
    assert view["policy"] == "drf/best-fit"
    assert {"head", "n0", "n1"} <= view["nodes"].keys()
    assert "ana" in here("status").stdout
    shares = json.loads(here("shares", "--json").stdout)
    assert {u["name"]: u["running"] for u in shares["users"]}["ana"] == 2
    assert shares["certificate"]["holds"]
    listed = json.loads(here("jobs", "--json").stdout)["jobs"]
    pending = next(j for j in listed if j["running"] < j["tasks"] - j["ended_tasks"])
    why = json.loads(here("explain", pending["id"], "--json").stdout)
    assert why["servers"]
    assert "there is no job 123456" in here("explain", "123456", status=2).stderr
    here("users", "ana", "--weight", "2")
    users = json.loads(here("users", "--json").stdout)["users"]
    assert {user["name"]: user["weight"] for user in users}["ana"] == 2.0
    here("users", "ana", "--weight", "1")
    here("cancel", *(job["id"] for job in listed))
    for ref in held:
        with pytest.raises(ENDED):
            ray.get(ref, timeout=60)


SCRIPT = """
import sys, ray
ray.init(address="auto")

@ray.remote(num_cpus=1)
def where(n):
    group = ray.util.get_current_placement_group()
    return group is not None and n

print(sum(ray.get([where.remote(n) for n in range(5)])), sys.argv[1])
sys.exit(3)
"""


def test_a_driver_is_captured_with_its_tasks(cluster: Cluster, here: Run, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    words = ("--user", "dee", "--cpu", "1", "--bundles", "2", "--", "python", str(script), "x")
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "ray", "submit", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"RAY_ADDRESS": cluster.address},
        timeout=180,
    )
    assert done.returncode == 3, done.stderr
    assert "10 x" in done.stdout + done.stderr
    jobs = json.loads(here("jobs", "--all", "--user", "dee", "--json").stdout)["jobs"]
    assert jobs[0]["gang"]
    assert until(lambda: json.loads(here("jobs", "--user", "dee", "--json").stdout)["jobs"] == [])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("start", "--user", "ana=x"), "must be a number"),
        (("submit", "--cpu", "1"), "give a command after --"),
        (("submit", "--", "no-such-command"), "no-such-command: there is no such command"),
        (("submit", "--", "python", "no.py"), "no.py: there is no such file"),
        (("submit", "--", "python", "-u", "x.py"), "-u: a captured script takes no options"),
        (("submit", "--", "python", "-m"), "COMMAND: -m needs an argument"),
    ],
)
@pytest.mark.usefixtures("cluster")
def test_bad_words_get_one_line(here: Run, words: tuple[str, ...], says: str) -> None:
    done = here(*words, status=2)
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stdout == ""


def test_a_missing_cluster_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray notes its clusters; without any note it raises where one asks for them."""

    def none_noted(_: str) -> str:
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(services, "canonicalize_bootstrap_address", none_noted)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(InputError, match="no Ray cluster is there; ray start --head starts one"):
        join()
    monkeypatch.setattr(ray, "init", lambda **_: int("no address"))
    with pytest.raises(InputError, match=r"no Ray cluster is there \(.*'no address'\)"):
        join("nonsense")


@pytest.mark.usefixtures("cluster")
def test_the_cluster_of_this_machine_is_joined_by_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given its address instead, Ray 2.60 shows no token, and is refused."""
    asked: list[str] = []
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda address, **_: asked.append(address))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    join()
    assert asked == ["auto"]


@pytest.mark.usefixtures("cluster")
def test_what_the_pages_show_runs(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fair = fairlead.ray.connect(user="eve")
    monkeypatch.setattr(fairlead.ray, "connect", lambda **_: fair)
    for page in ("README.md", "docs/ray.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        pieces = re.findall(r"^```python ray\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        assert pieces
        names: dict[str, object] = {"__name__": "__main__"}
        for piece in pieces:
            exec(compile(piece, page, "exec"), names)
        assert "[0, 1, 4, 9]" in capfd.readouterr().out
    held = [fair.submit(time.sleep, 600, demand={"cpu": 2}) for _ in range(3)]
    until(lambda: running(fair) == 2)
    fair.close()
    until(lambda: "eve" not in {agent["user"] for agent in state()["agents"]})
    until(lambda: not fair.jobs())
    for ref in held:
        with pytest.raises(ENDED):
            ray.get(ref, timeout=60)
