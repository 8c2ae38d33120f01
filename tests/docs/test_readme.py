"""The README's tables are those of the program."""

from __future__ import annotations

import re
from pathlib import Path

from fairlead.mechanisms.catalogue import CATALOGUE

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


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
