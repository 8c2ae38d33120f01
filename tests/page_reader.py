"""Reads a page as a browser would, for the tests of pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser

from fairlead.report.charts import Figure
from fairlead.report.document import Block, Document, Picture, Section

FORBIDDEN = ("b", "script", "link", "iframe", "img", "object", "embed", "base", "form")


def figures_of(document: Document) -> dict[str, Figure]:
    """Return the figures of a document by their descriptions."""
    figures: dict[str, Figure] = {}
    for picture in _pictures(document.blocks):
        figure = picture.figure() if callable(picture.figure) else picture.figure
        figures[picture.about] = figure
    return figures


def figure_of(document: Document, about: str) -> Figure:
    """Return the only figure whose description starts so."""
    (found,) = [f for name, f in figures_of(document).items() if name.startswith(about)]
    return found


def _pictures(blocks: Iterable[Block]) -> Iterator[Picture]:
    for block in blocks:
        if isinstance(block, Picture):
            yield block
        elif isinstance(block, Section):
            yield from _pictures(block.blocks() if callable(block.blocks) else block.blocks)


class Reader(HTMLParser):
    """Collects elements and visible text of a page; texts of pictures are apart."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.shown: list[str] = []
        self.open: list[str] = []
        self.drawn: list[str] = []  # texts in pictures, and those under the pointer
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "svg" in self.open:
            self.drawn.append(data)
        elif self.open and self.open[-1] != "style":
            self.shown.append(data)

    @property
    def text(self) -> str:
        """All that is shown, in one line."""
        return " ".join("".join(self.shown).split())

    def pictures(self) -> list[str]:
        """Return the descriptions of all pictures."""
        return [str(a["aria-label"]) for t, a in self.elements if t == "svg" and "aria-label" in a]

    def table(self, about: str) -> list[tuple[str, dict[str, str | None]]]:
        """Return the elements from the only table whose description starts so to the next."""
        starts = [
            k
            for k, (_, a) in enumerate(self.elements)
            if a.get("role") == "region" and str(a["aria-label"]).startswith(about)
        ]
        (start,) = starts
        ends = [k for k, (_, a) in enumerate(self.elements) if a.get("role") == "region"]
        end = min((k for k in ends if k > start), default=len(self.elements))
        return self.elements[start:end]

    def numbers(self, about: str) -> list[list[float]]:
        """Return the numbers of a table, a list for each row that has some."""
        rows: list[list[float]] = []
        for tag, attributes in self.table(about):
            if tag == "tr":
                rows.append([])
            elif "data-value" in attributes:
                rows[-1].append(float(str(attributes["data-value"])))
        return [row for row in rows if row]


def read_harmless(page: str) -> Reader:
    """Read a page after a look that it fetches nothing, and that no name became a part of it."""
    reader = Reader(page)
    assert reader.open == []
    assert not re.search(r"https?:|url\((?!#)|@import|fetch\(|XMLHttpRequest", page)
    for tag, attributes in reader.elements:
        assert tag not in [
            "b",
            "script",
            "link",
            "iframe",
            "img",
            "object",
            "embed",
            "base",
            "form",
        ]
        assert not {"src", "action"} & attributes.keys()
        assert not any(attribute.startswith("on") for attribute in attributes)
        assert "href" not in attributes
    return reader
