"""The README's tables are those of the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fairlead
from fairlead.mechanisms.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_mechanisms_is_the_catalogues() -> None:
    rows = re.findall(
        r"^\| `([a-z0-9-]+)` \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", README, re.MULTILINE
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


def test_all_witnesses_are_known() -> None:
    assert {path.stem for path in (ROOT / "examples" / "witnesses").iterdir()} == set(WITNESSES)
    assert all(f"`{name}.yaml`" in README for name in WITNESSES)


@pytest.mark.parametrize("name", WITNESSES)
def test_a_witness_shows_what_its_name_says(name: str) -> None:
    mechanism, lacks = WITNESSES[name]
    problem = fairlead.load(ROOT / "examples" / "witnesses" / f"{name}.yaml")
    (verdict,) = fairlead.audit(problem, mechanism, properties=[lacks])
    assert verdict.verdict == "fails"
