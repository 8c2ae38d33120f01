"""The page of reproductions: pictures in the papers' layout, beside what the papers say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fairlead.papers.reproduction import Entry, Reproduction
from fairlead.papers.tables import interval_text, written
from fairlead.papers.verdict import DIFFERS
from fairlead.report.page import embedded_json, environment


def reproductions_page(found: Mapping[str, tuple[Entry, Reproduction]]) -> str:
    """Show what came of each table and figure, at least one, as a whole HTML document."""
    figures: dict[str, Any] = {}
    parts = [_part(entry, reproduction, figures) for entry, reproduction in found.values()]
    names = list(found)
    title = names[0] if len(names) == 1 else "Papers beside ours"
    return (
        environment()
        .get_template("reproductions.html")
        .render(
            title=title,
            left_out=[],
            parts=parts,
            figures=embedded_json(figures),
            plotly=Markup(get_plotlyjs()),
        )
    )


def _part(entry: Entry, reproduction: Reproduction, figures: dict[str, Any]) -> dict[str, Any]:
    """Collect what the page shows of one, and put its pictures with the others."""
    key = entry.key.replace("/", "-")
    pictures = []
    for k, picture in enumerate(reproduction.pictures):
        figures[f"{key}-{k}"] = picture.figure
        pictures.append({"key": f"{key}-{k}", "caption": picture.caption, "about": picture.about})
    return {
        "key": key,
        "name": entry.key,
        "entry": entry,
        "holds": reproduction.verdict != DIFFERS,
        "reproduction": reproduction,
        "readings": [
            {
                "what": reading.what,
                "ours": written(reading, reading.ours),
                "paper": written(reading, reading.paper),
                "interval": interval_text(reading),
                "verdict": reading.verdict,
            }
            for reading in reproduction.readings
        ],
        "pictures": pictures,
    }
