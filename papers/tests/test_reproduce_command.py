"""The command ``fairlead reproduce``."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.main import run
from fairlead.simulation.runs import RunsInterrupted
from fairlead_papers import _reproduction_document as document
from fairlead_papers import entries as catalogue
from fairlead_papers import setting as setting_module
from fairlead_papers.entries import CATALOGUE
from fairlead_papers.reproduction import DIFFERS, VERDICTS, PrintedClaim, Reading, Reproduction
from fairlead_papers.setting import Parameter, Setting
from small_problems import ROOT, only_line

Capture = pytest.CaptureFixture[str]
KEYS = list(CATALOGUE)
PAPERS = list(dict.fromkeys(entry.paper.key for entry in CATALOGUE.values()))


# Sizes of the experiments here; tests of the papers check the verdicts with larger ones.
FEW = {
    "setting": {"SERVERS_OF_DAY": 10, "USERS_OF_DAY": 4},
    "drfh._drfh_examples": {"PROBLEMS": 3},
    "psdsf._compared_properties": {"PROBLEMS": 3},
    "psdsf._theorem_and_lemma": {"PROBLEMS_OF_LEMMA_1": 5, "PROBLEMS_OF_THEOREM_1": 5},
    "psdsf.four_classes": {"USER_4_LEAVES": 20.0, "USER_4_RETURNS": 40.0, "END": 60.0},
    "private_clouds._trials_of_schedulers": {"TRIALS": 20, "DRAWN_TRIALS": 20},
    "pdrf._runs_of_formula": {"RUNS_OF_ROW": 20},
    "dynamic._dynamic_properties": {"SEQUENCES": 5},
    "dynamic._full_knowledge": {"SEQUENCES": 5},
    "dynamic._solvers_compared": {"SEQUENCES_OF_THEOREM_1": 5, "SEQUENCES_OF_ALGORITHM_1": 10},
}


@pytest.fixture(scope="module", autouse=True)
def few() -> Iterator[None]:
    """Make quick runs even smaller."""
    with pytest.MonkeyPatch.context() as patch:
        for name, sizes in FEW.items():
            module = import_module(f"fairlead_papers.{name}")
            for size, value in sizes.items():
                usual = getattr(module, size)
                if isinstance(usual, Parameter):
                    patch.setattr(module, size, usual._replace(quick=value))
                else:
                    patch.setattr(module, size, value)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of the quick day, shared by the tests of this file."""
    return tmp_path_factory.mktemp("runs") / "kept"


def answer_of(capsys: Capture, *arguments: object) -> tuple[int, dict[str, Any]]:
    words = ["reproduce", *map(str, arguments), "--quick", "--processes", "1", "--json"]
    status = run(words)
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, dict)
    return status, answer


def test_it_lists_what_there_is(capsys: Capture) -> None:
    assert run(["reproduce", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["catalogue"]
    assert list(listed) == KEYS
    for key, row in listed.items():
        assert set(row) == {"paper", "number", "shows", "printed", "takes", "parameters"}
        for parameter in CATALOGUE[key].parameters:
            assert parameter.name in json.dumps(row["parameters"])


@pytest.mark.parametrize("key", KEYS)
def test_each_quickly(key: str, runs: Path, capsys: Capture) -> None:
    status, answer = answer_of(capsys, key, "--runs", runs)
    assert (answer["fairlead"], answer["seed"], answer["quick"]) == (1, 0, True)
    ((name, found),) = answer["reproductions"].items()
    assert name == key
    texts, lists = {"verdict", "why", "note", "setting"}, {"readings", "claims", "findings"}
    assert set(found) == texts | lists | {"data"}
    assert found["verdict"] in VERDICTS
    assert status == (found["verdict"] == DIFFERS and not CATALOGUE[key].known_to_differ)
    assert found["why"].endswith(".")
    assert found["readings"] or found["claims"]
    assert all(reading["ours"] is not None for reading in found["readings"])
    assert all(claim["measured"] for claim in found["claims"])
    for finding in found["findings"]:
        check_that_it_shows(finding["command"])
    assert found["data"]


def check_that_it_shows(command: str) -> None:
    """Check the command of a finding: it names an entry or an existing test, or it fails."""
    words = shlex.split(command)
    if words[0] == "pytest":
        path, wanted = words[1], words[3]
        names = re.findall(r"^def (test_\w+)", (ROOT / path).read_text(encoding="utf-8"), re.M)
        assert any(wanted in name for name in names), command
    elif words[:2] == ["fairlead", "reproduce"]:
        assert words[2] in CATALOGUE, command
    else:
        assert words[:2] == ["fairlead", "audit"], command
        assert run(["audit", str(ROOT / words[2]), *words[3:]]) == 1, command


def test_figures_share_their_runs(tmp_path: Path, capsys: Capture) -> None:
    """Figure 8 needs the run of Figure 7 again, and the run on dedicated servers."""
    names, folder = ["drfh/figure-6", "drfh/figure-7", "drfh/figure-8"], tmp_path / "runs"
    words = ["--quick", "--processes", "1", "--runs", str(folder)]
    assert run(["reproduce", *names, *words]) in (0, 1)
    assert "finished before" not in capsys.readouterr().err  # by this command itself
    first = answer_of(capsys, *names, "--runs", folder)
    kept = sorted(folder.glob("day-*-seed-0/*.parquet"))
    assert [path.stem for path in kept] == ["drf_best-fit", "drf_best-fit_dedicated", "slots_14"]
    times = [path.stat().st_mtime_ns for path in kept]
    for path in folder.glob("*.json"):  # figures are computed again, from runs
        path.unlink()
    assert answer_of(capsys, *names[::-1], "--runs", folder) == first
    # Another seed is another day, kept beside it.
    answer_of(capsys, "drfh/figure-6", "--seed", 1, "--runs", folder)
    assert [path.stat().st_mtime_ns for path in kept] == times
    assert len(list(folder.glob("day-*-seed-1"))) == 1


def test_named_papers_are_shown_in_full(runs: Path, capsys: Capture) -> None:
    """The tests above have kept all runs, so the whole page is read from them."""
    words = ["--quick", "--runs", str(runs)]
    status = run(["reproduce", *words])
    summary = capsys.readouterr().out
    assert [key for key in KEYS if f"{key} " not in summary] == []
    assert run(["reproduce", *PAPERS, *words]) == status
    details = capsys.readouterr().out
    assert len(re.findall("^[✓✗]  verdict ", details, re.MULTILINE)) == len(CATALOGUE)


def test_what_was_kept_is_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    key, folder = "drfh/figure-3", tmp_path / "runs"
    first = answer_of(capsys, key, "--runs", folder)
    kept = folder / "drfh_figure-3-quick-seed-0.json"
    stored = kept.read_text(encoding="utf-8")
    monkeypatch.setitem(CATALOGUE, key, replace(CATALOGUE[key], compute=unreachable))
    assert answer_of(capsys, key, "--runs", folder) == first
    # Of another version, or not whole: computed again.
    for spoilt in (stored.replace('["', '["0', 1), stored[:-9], "", "[]"):
        kept.write_text(spoilt, encoding="utf-8")
        with pytest.raises(AssertionError, match="is computed"):
            run(["reproduce", key, "--quick", "--runs", str(folder)])
    # And results of one seed, or of quick runs, are not taken for others.
    kept.write_text(stored, encoding="utf-8")
    for other in (["--quick", "--seed", "1"], []):
        with pytest.raises(AssertionError, match="is computed"):
            run(["reproduce", key, *other, "--runs", str(folder)])


def test_a_full_disk_takes_nothing_from_what_was_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    caplog: pytest.LogCaptureFixture,
) -> None:
    key, folder = "drfh/figure-3", tmp_path / "runs"
    expected = answer_of(capsys, key)

    def full(_draft: Path, _target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    assert answer_of(capsys, key, "--runs", folder) == expected
    kept = folder / "drfh_figure-3-quick-seed-0.json"
    fault = "cannot be written: no space left on device"
    assert caplog.messages == [f"{key} is finished, but not kept: {kept}: {fault}"]


def unreachable(setting: Setting) -> Reproduction:
    raise AssertionError(f"it is computed, with {setting}")


@pytest.fixture
def pigs_fly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace each reproduction by one that differs from its paper."""
    claim = PrintedClaim("pigs fly", False, "0 of 3")
    reading = Reading("pigs", ours=1.0, paper=1.0, digit=0.1)
    found = Reproduction("nothing", (reading,), (claim,), note="The paper has 100.")
    monkeypatch.setattr(catalogue, "reproduce", lambda *_: found)


@pytest.mark.usefixtures("pigs_fly")
def test_what_differs_is_exit_1(capsys: Capture) -> None:
    assert run(["reproduce", "drfh/figure-4"]) == 1
    out = capsys.readouterr().out
    assert "✗  verdict  differs  Does not hold here: pigs fly (0 of 3)." in out
    assert "✗ Ours differs from the paper.\n" in out
    assert run(["reproduce", "drfh/figure-7"]) == 0  # a known difference
    assert "✓ Ours differs from the paper, which is a known" in capsys.readouterr().out
    assert run(["reproduce"]) == 1
    # Of two experiments only one has the parameter.
    words = ["reproduce", "drfh/figure-3", "drfh/figure-4", "--set", "servers=150"]
    assert run(words) == 0
    assert "1 differs, 1 without a verdict, as parameters" in capsys.readouterr().out
    assert run(["reproduce", "drfh/figure-4", "--set", "servers=150"]) == 0
    assert "With the paper's parameters: The paper has 100.\n" in capsys.readouterr().out


KEPT = ["--runs", "kept"]


@pytest.mark.parametrize(
    ("where", "fault", "words", "said"),
    [
        ((catalogue, "reproduce"), KeyboardInterrupt(), [], "nothing was kept (--runs FOLDER"),
        (
            (setting_module, "run_policies"),
            RunsInterrupted(("drf/best-fit",), 3, Path("kept")),
            KEPT,
            "0 of 1, and 1 of 3 runs for the next, are finished and kept in kept; the same command "
            "continues with the others\n",
        ),
        ((catalogue, "reproduce"), KeyboardInterrupt(), KEPT, "none of 1 was finished"),
        (
            (document, "reproductions_document"),
            KeyboardInterrupt(),
            KEPT,
            "1 of 1 are finished and kept in kept; the same command",
        ),
    ],
)
def test_an_interruption_says_what_is_kept(
    where: tuple[object, str],
    fault: BaseException,
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(*where, interrupted)
    monkeypatch.chdir(tmp_path)
    figure = "drfh/figure-5" if isinstance(fault, RunsInterrupted) else "drfh/figure-3"
    assert run(["reproduce", figure, "--quick", *words]) == 130
    assert only_line(capsys).startswith(f"fairlead: interrupted; {said}")


def test_a_parameter_changes_the_experiment(tmp_path: Path, capsys: Capture) -> None:
    """Findings with other parameters are kept, but not read."""
    for servers in (50, 60):
        words = ["--set", f"servers={servers}", "--runs", tmp_path]
        status, answer = answer_of(capsys, "drfh/figure-4", *words)
        assert status == 0
        assert answer["set"] == {"servers": servers}
        found = answer["reproductions"]["drfh/figure-4"]
        assert found["setting"].startswith(f"{servers} servers with")
        assert found["verdict"] is None
        assert [reading["verdict"] for reading in found["readings"]] == [None] * 4
    assert len(list(tmp_path.iterdir())) == 2
