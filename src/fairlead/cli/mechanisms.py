"""``fairlead mechanisms``: the catalogue."""

from __future__ import annotations

from fairlead.cli.options import AsJson
from fairlead.cli.streams import show


def mechanisms(as_json: AsJson = False) -> None:
    """List the mechanisms: name, idea, paper, what is proved of each, what it accepts.

    \b
    Example:
      fairlead mechanisms --json
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    from fairlead.mechanisms.catalogue import CATALOGUE
    from fairlead.report.allocation import catalogue_document

    show(catalogue_document(list(CATALOGUE.values())), as_json)
