"""Every command and piece of code in the README and in docs/ runs, in the order of its page."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import fairlead
import kubernetes_dumps
from fairlead.cli._application import CLIENTS, SERVING, Verb, find_verb
from fairlead.cli.main import run
from fairlead.cli.parameters import parse_words
from fairlead.simulation import log_audit
from fairlead_papers.pdrf import _runs_of_formula

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("papers/docs/*.md")),
]
# What belongs to others, or to a shell: shown, not run here.
FOREIGN = ("kubectl ", "git ", "pip install ", "cd ")
# How often commands try: twice runs all that the number on a page does.
REPEATS = ("--seeds", "--trials", "--random", "--lies")
# An audit that finds something has run.
MAY_SAY_NO = ("audit",)

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
OUTPUT = re.compile(r"```\n\n```text\n(.*?)^```", re.DOTALL | re.MULTILINE)  # right after code
LINE = re.compile(r"^    ((?:fairlead|make|python|kubectl|git|pip|cd) .*)$", re.MULTILINE)


def pieces_of(text: str) -> list[tuple[str, str]]:
    """Return what a page shows to be run, in its order: the language, and the text."""
    found = [(m.start(), m[1], m[2]) for m in BLOCK.finditer(text)]
    outside = BLOCK.sub(lambda block: " " * len(block[0]), text)
    found += [(m.start(), "sh", m[1]) for m in LINE.finditer(outside)]
    return [(language, piece) for _, language, piece in sorted(found)]


def problem_of_the_readme() -> str:
    (problem,) = [
        piece
        for language, piece in pieces_of((ROOT / "README.md").read_text(encoding="utf-8"))
        if language == "yaml"
    ]
    return problem


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what readers have: a problem, a cluster, what another scheduler did."""
    (tmp_path / "cluster.yaml").write_text(problem_of_the_readme(), encoding="utf-8")
    for beside in ("examples", "tests", "benchmarks"):
        (tmp_path / beside).symlink_to(ROOT / beside)
    nodes = [kubernetes_dumps.node(name) for name in ("n1", "n2")]
    pods = [
        kubernetes_dumps.pod(name, {"cpu": "1", "memory": "2Gi"}, on="n1", namespace=name)
        for name in ("research", "web")
    ]
    for name, items in (("cluster", [*nodes, *pods]), ("nodes", nodes), ("pods", pods)):
        kubernetes_dumps.write(tmp_path, *items).rename(tmp_path / f"{name}.json")
    held = fairlead.solve(fairlead.load(tmp_path / "cluster.yaml"), "drfh")
    (tmp_path / "theirs.json").write_text(held.to_json(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("few_instants")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_runs(
    page: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    do_little(monkeypatch)
    names: dict[str, object] = {"fairlead": fairlead}
    names["problem"] = fairlead.load(folder / "cluster.yaml")
    text = page.read_text(encoding="utf-8")
    for language, piece in pieces_of(text):
        if language == "python":
            capsys.readouterr()
            exec(compile(piece, page.name, "exec"), names)
            shown = OUTPUT.match(text, text.index(piece) + len(piece))
            assert shown is None or capsys.readouterr().out == shown[1]
        elif language == "yaml":
            check_yaml(piece, folder)
        elif language == "sh":
            for line in piece.splitlines():
                check_command(line, capsys)
        else:
            # Whole sessions with a service run in tests/service/test_newcomer.py, and what is
            # added to a copy of the package in tests/docs/test_guides.py.
            assert language in ("text", "json", "console", "py"), (
                f"{page.name}: what is {language!r}?"
            )
            if language == "json":
                json.loads(piece)


def do_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands try and measure less often by default, in this process."""
    monkeypatch.setattr("fairlead.cli.audit.LIES", 10)
    monkeypatch.setattr(log_audit, "audit_log", partial(log_audit.audit_log, instants=20))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    few = _runs_of_formula.RUNS_OF_ROW._replace(quick=20)
    monkeypatch.setattr(_runs_of_formula, "RUNS_OF_ROW", few)


def check_yaml(piece: str, folder: Path) -> None:
    (folder / "shown.yaml").write_text(piece, encoding="utf-8")
    assert fairlead.load(folder / "shown.yaml").n_users


def check_command(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line, comments=True)
    if not words or line.startswith(FOREIGN):
        return
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
        assert words[1] in targets, line
    elif words[:3] == ["python", "-m", "pytest"]:
        for path in (word.split("::")[0] for word in words[3:] if not word.startswith("-")):
            assert (ROOT / path).exists(), line
    elif words[0] == "python":
        done = subprocess.run(
            [sys.executable, *words[1:]],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        assert done.returncode == 0, done.stderr
    else:
        assert words[0] == "fairlead", line
        for option in set(REPEATS) & set(words):
            words[words.index(option) + 1] = "2"
        if words[1:3] == ["trace", "generate"] and "--servers" in words:
            words[words.index("--servers") + 1] = "10"  # a day of many takes seconds
        if words[1] in (*SERVING, *CLIENTS, "ray") or (words[1] == "explain" and len(words) == 3):
            parses(words[1:])
            return
        capsys.readouterr()
        status = run(words[1:])
        out, err = capsys.readouterr()
        assert status in ((0, 1) if words[1] in MAY_SAY_NO else (0,)), f"{line}: {err}"
        assert out
        for option in ("--report", "-o", "--output"):
            if option in words:
                assert Path(words[words.index(option) + 1]).exists(), line


def parses(words: list[str]) -> None:
    """Parse a verb's words without running it: verbs of a service run for ever, or need one."""
    _, verb, rest = find_verb(words)
    assert isinstance(verb, Verb)
    assert parse_words(verb.load(), rest) is not None
