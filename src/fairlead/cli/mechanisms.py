"""``fairlead mechanisms``: the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.cli.options import AsJson
from fairlead.cli.streams import show

if TYPE_CHECKING:
    from fairlead.report.document import Document


def mechanisms(as_json: AsJson = False) -> None:
    """List the mechanisms: idea, paper, proved properties and accepted problems.

    \b
    Example:
      fairlead mechanisms --json
    """
    show(_catalogue_document(), as_json)


def _catalogue_document() -> Document:
    from fairlead.mechanisms.catalogue import all_mechanisms
    from fairlead.report.document import Block, Document, Prose, pairs_table
    from fairlead.report.numbers import counted

    blocks: list[Block] = []
    values = {}
    rows = all_mechanisms()
    for row in rows:
        pairs = [("paper", row.paper), ("proved", "; ".join(map(str, row.proved)) or "nothing")]
        if row.refuted:
            pairs.append(("refuted", "; ".join(map(str, row.refuted))))
        pairs += [
            ("accepts", ", ".join(("weights", "zero demands", *row.accepts))),
            ("tasks", "whole" if row.whole_tasks else "divisible"),
        ]
        blocks += [Prose(f"{row.name}: {row.summary}", "strong"), pairs_table(row.name, pairs)]
        values[row.name] = {
            "summary": row.summary,
            "paper": row.paper,
            "proved": [claim.property for claim in row.proved],
            "proved_without": {
                claim.property: list(claim.without) for claim in row.proved if claim.without
            },
            "refuted": {
                refutation.property: f"{refutation.where}, though {refutation.statement}"
                for refutation in row.refuted
            },
            "accepts": list(row.accepts),
            "whole_tasks": row.whole_tasks,
        }
    lead = f"{counted(len(rows), 'mechanism')}, and their proved properties"
    answer = {"fairlead": 1, "mechanisms": values}
    return Document("mechanisms", "mechanisms", lead, None, blocks, lambda: answer)
