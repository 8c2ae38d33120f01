"""The tables in the README and of mechanisms are those of the program."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import fairlead
from fairlead.mechanisms.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MECHANISMS = (ROOT / "docs" / "mechanisms.md").read_text(encoding="utf-8")


def test_the_table_of_mechanisms_is_the_catalogues() -> None:
    rows = re.findall(
        r"^\| `([a-z0-9-]+)` \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", MECHANISMS, re.MULTILINE
    )
    short = {
        "sharing-incentive": "SI",
        "envy-freeness": "EF",
        "pareto-optimality": "PO",
        "strategy-proofness": "SP",
    }
    assert rows == [
        (
            row.name,
            ", ".join(row.accepts),
            ", ".join(
                f"{short[claim.property]}{'*' if claim.without else ''}"
                for claim in row.proved
                if claim.property in short
            )
            or "nothing",
        )
        for row in CATALOGUE.values()
    ]


WITNESSES = {
    "drfh-sharing-incentive": ("drfh", "sharing-incentive"),
    "ps-dsf-pareto-optimality": ("ps-dsf", "pareto-optimality"),
    "proportional-strategy-proofness": ("proportional", "strategy-proofness"),
}


def test_the_readme_is_two_screens() -> None:
    assert len(README.splitlines()) <= 100


def test_fairlead_is_never_installed_from_an_index() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("papers/docs/*.md")]
    sources = [*pages, *ROOT.glob("src/**/*.py")]
    from_index = re.compile(r"pip install +['\"]?fairlead")
    assert not [path.name for path in sources if from_index.search(path.read_text("utf-8"))]


@pytest.mark.parametrize("name", WITNESSES)
def test_a_witness_shows_what_its_name_says(name: str) -> None:
    mechanism, lacks = WITNESSES[name]
    assert f"`{name}.yaml`" in MECHANISMS
    problem = fairlead.load(ROOT / "examples" / "witnesses" / f"{name}.yaml")
    (verdict,) = fairlead.audit(problem, mechanism, properties=[lacks], lies=20)
    assert verdict.verdict == "fails"


def test_what_fillings_come_near_to(tmp_path: Path) -> None:
    """On the README's problem, with servers so large that one task hardly counts."""
    text = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)[0]
    (tmp_path / "cluster.yaml").write_text(text, encoding="utf-8")
    small = fairlead.load(tmp_path / "cluster.yaml")
    problem = fairlead.Problem.from_arrays(
        small.cluster.capacity * 100,
        small.demand,
        count=small.cluster.count,
        weight=small.weight,
        eligible=small.users.eligible,
        task_limit=small.task_limit * 100,
    )
    for criterion, select, residual, mechanism, close in (
        ("ps-dsf", "joint", True, "ps-dsf", True),
        ("drf", "best-fit", False, "drfh", True),
        ("ps-dsf", "joint", False, "ps-dsf", False),
    ):
        placed = fairlead.fill(problem, criterion=criterion, select=select, residual=residual)
        fair = fairlead.solve(problem, mechanism).user_tasks
        apart = abs(placed.tasks.sum(axis=1) / fair - 1).max()
        assert apart < 0.002 if close else apart > 0.3


def test_how_far_fillings_are_from_shares_is_what_is_measured() -> None:
    """One line of the table in docs/filling.md, which the script prints."""
    script = runpy.run_path(str(ROOT / "benchmarks" / "fillings_beside_shares.py"))
    page = (ROOT / "docs" / "filling.md").read_text(encoding="utf-8")
    assert script["table_row"](3, script["FILLINGS"][0]) in page
