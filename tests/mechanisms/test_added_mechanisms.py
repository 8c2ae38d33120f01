"""Other packages add mechanisms by entry points, as docs/contributing/add-a-mechanism.md shows."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead import Problem, RefusalError, load, solve
from fairlead.cli.main import run
from fairlead.errors import InputError
from fairlead.mechanisms import added, catalogue
from fairlead.mechanisms.added import mechanism
from fairlead.mechanisms.catalogue import Mechanism, all_mechanisms, find_mechanism
from fairlead.model.problem_changes import rebuilt

GUIDE = Path(__file__).parents[2] / "docs" / "contributing" / "add-a-mechanism.md"
(MODULE,) = re.findall(r"^```py\n(.*?)^```", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
PROBLEM = """
fairlead: 1
servers: [{name: a, capacity: {cpu: 12, memory: 6}}, {name: b, capacity: {cpu: 6}, count: 2}]
users:
  - {name: ana, demand: {cpu: 1, memory: 1}, weight: 2}
  - {name: bo, demand: {cpu: 1}, servers: [b]}
"""


def install(folder: Path, name: str, value: str) -> None:
    """Write what an installer writes of a package with an entry point."""
    metadata = folder / f"{name}-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[fairlead.mechanisms]\n{name} = {value}\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, on the path, with the package of the guide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("slices", "broken_module"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    (tmp_path / "slices.py").write_text(MODULE)
    (tmp_path / "cluster.yaml").write_text(PROBLEM)
    install(tmp_path, "slices", "slices:SLICES")
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_commands_solve_and_audit_by_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["allocate", "cluster.yaml", "-m", "slices", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [user["tasks"] for user in answer["users"]] == pytest.approx([4, 4])
    assert answer["certificate"]["holds"]
    words = ["audit", "cluster.yaml", "-m", "slices", "--property", "sharing-incentive"]
    assert run(words) == 0
    assert "slices" in [row.name for row in all_mechanisms()]


def test_what_it_does_not_accept_is_refused(folder: Path) -> None:
    limited = PROBLEM.replace("weight: 2", "weight: 2, tasks: 3")
    (folder / "cluster.yaml").write_text(limited)
    with pytest.raises(RefusalError, match="finite tasks"):
        solve(load(folder / "cluster.yaml"), "slices")


@pytest.mark.parametrize("source", [None, "row =", "row = 1", "raise ValueError('two\\nlines')"])
def test_a_broken_entry_point_is_one_line(
    folder: Path, source: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if source is not None:
        (folder / "broken_module.py").write_text(source)
    install(folder, "broken", "broken_module:row")
    assert run(["allocate", "cluster.yaml", "-m", "broken"]) == 2
    fault = capsys.readouterr().err
    assert fault.count("\n") == 1
    assert "broken_module:row" in fault


def test_a_misspelt_feature_of_a_row_is_refused(folder: Path) -> None:
    (folder / "slices.py").write_text(
        MODULE.replace('"placement constraints"', '"placement constraint"')
    )
    fault = r"no feature is named 'placement constraint'; known: placement constraints, finite"
    with pytest.raises(InputError, match=fault):
        find_mechanism("slices")


def test_an_entry_point_may_name_a_decorated_function(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: dict[str, Mechanism] = {}
    for module in (added, catalogue):
        monkeypatch.setattr(module, "ADDED", rows)
    (folder / "broken_module.py").write_text(
        "import fairlead\n"
        "@fairlead.mechanism('decorated')\n"
        "def decorated(problem):\n    return problem.gamma / problem.n_users\n"
    )
    install(folder, "decorated", "broken_module:decorated")
    assert find_mechanism("decorated").summary == "decorated"
    with pytest.raises(InputError, match="did you mean 'decorated'"):
        find_mechanism("decorate")


def test_mechanisms_of_fairlead_keep_their_names(folder: Path) -> None:
    install(folder, "drfh", "slices:SLICES")
    problem = load(folder / "cluster.yaml")
    assert solve(problem, "drfh").mechanism == "drfh"


def test_an_allocation_is_of_the_problem_or_its_pool() -> None:
    """Its certificate holds for no other problem, even of the same users and groups."""
    problem = Problem.from_arrays([[4.0]], [[1.0], [1.0], [2.0]], weight=[2, 0, 1])
    mechanism("pool")(lambda asked: solve(asked, "drf"))
    mechanism("more")(lambda asked: solve(rebuilt(asked, count=[2]), "ps-dsf"))
    mechanism("equal")(lambda asked: solve(rebuilt(asked, weight=asked.weight), "ps-dsf"))
    mechanism("other")(lambda asked: solve(rebuilt(asked, weight=[1, 1]), "ps-dsf"))
    for name in ("pool", "equal"):
        assert solve(problem, name).user_tasks == pytest.approx([8 / 3, 0, 2 / 3])
    for name in ("more", "other"):
        with pytest.raises(InputError, match=f"{name}: is an allocation of another problem"):
            solve(problem, name)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"name": " x"}, "must be a name, not ' x'"),
        ({"name": "drf"}, "fairlead has a mechanism named 'drf'"),
        ({"name": "x", "accepts": ["queue"]}, "no feature is named 'queue'"),
        ({"name": "x", "proved": ["envy"]}, "no property is named 'envy'"),
    ],
)
def test_faults_of_added_mechanisms(arguments: Any, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        mechanism(**arguments)
    with pytest.raises(InputError, match="must be a function, not 3"):
        mechanism("x")(3)  # type: ignore[type-var]


def test_a_broken_entry_point_is_not_listed(folder: Path) -> None:
    install(folder, "broken", "broken_module:row")
    assert {"slices", "broken"} & {row.name for row in all_mechanisms()} == {"slices"}
