"""Reads a page as a browser would, for the tests of pages."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b85decode
from functools import lru_cache
from html.parser import HTMLParser
from typing import Any

PACKED = re.compile(
    r'<script type="application/gzip" id="(\w+)" data-bytes="(\d+)">([^<]*)</script>'
)


def unpacked(page: str) -> dict[str, str]:
    """Return what a page holds in compressed form, by name."""
    return {name: _unpacked(text, int(size)) for name, size, text in PACKED.findall(page)}


@lru_cache(maxsize=4)  # the script that draws is the same in all pages, and takes longest
def _unpacked(text: str, size: int) -> str:
    return gzip.decompress(b85decode(text.replace(",", "<"))[:size]).decode()


class Reader(HTMLParser):
    """Collects elements, scripts and visible text of a page, compressed parts included."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.shown: list[str] = []
        self.open: list[str] = []
        packed = unpacked(page)
        contents = json.loads(packed.get("contents", '{"figures": {}, "kept": {}}'))
        page = PACKED.sub(lambda found: found[0].replace(found[3], ""), page)
        for place, html in contents["kept"].items():
            start = page.index(f'id="{place}"')
            end = page.index("</tbody>" if place.endswith("rows") else "</div>", start)
            page = page[:end] + html + page[end:]
        self.figures: dict[str, Any] = contents["figures"]
        self.chart_script = packed.get("charts", "")
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br", "link"):
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open and self.open[-1] != "style":
            self.shown.append(data)

    @property
    def text(self) -> str:
        """All that is shown, in one line."""
        return " ".join("".join(self.shown).split())

    def figure(self, about: str) -> Any:
        """Return the data of the only picture whose description starts so."""
        (key,) = [
            a["data-figure"]
            for _, a in self.elements
            if "data-figure" in a and str(a["aria-label"]).startswith(about)
        ]
        return self.figures[str(key)]

    def pictures(self) -> list[str]:
        """Return the descriptions of all pictures."""
        return [str(a["aria-label"]) for _, a in self.elements if "data-figure" in a]

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


def read_harmless(page: str) -> Reader:
    """Read a page after a look that it fetches nothing, and that no name became a part of it."""
    reader = Reader(page)
    assert reader.open == []
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttpRequest", PACKED.sub("", page))
    for tag, attributes in reader.elements:
        assert tag not in ("b", "link", "iframe", "img", "object", "embed", "base", "form")
        assert not {"src", "action"} & attributes.keys()
        assert not any(attribute.startswith("on") for attribute in attributes)
    drawn = [a["data-figure"] for _, a in reader.elements if "data-figure" in a]
    assert sorted(reader.figures) == sorted(map(str, drawn))
    places = {f"#{a['id']}" for _, a in reader.elements if "id" in a}
    assert {str(a["href"]) for _, a in reader.elements if "href" in a} <= places
    assert len(reader.scripts) == 1 + len(unpacked(page))
    return reader
