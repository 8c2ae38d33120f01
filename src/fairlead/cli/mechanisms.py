"""``fairlead mechanisms``: the catalogue."""

from __future__ import annotations

from fairlead.cli.options import AsJson
from fairlead.cli.streams import emit, terminal_width, wants_plain_text


def mechanisms(as_json: AsJson = False) -> None:
    """List the mechanisms: name, idea, paper, what is proved of each, what it accepts.

    \b
    Example:
      fairlead mechanisms --json
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    from fairlead.mechanisms.catalogue import CATALOGUE

    if as_json:
        import json

        rows = {
            row.name: {
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
            for row in CATALOGUE.values()
        }
        emit(json.dumps({"fairlead": 1, "mechanisms": rows}, indent=2) + "\n")
    else:
        from fairlead.report.tables import catalogue_text

        emit(catalogue_text(CATALOGUE.values(), width=terminal_width(), plain=wants_plain_text()))
