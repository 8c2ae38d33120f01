"""Hooks of mkdocs: add pages from outside docs/ and the API reference, and adapt links."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import fairlead

ROOT = Path(__file__).resolve().parents[1]
# Pages of the site and the files that they are made of, by their paths in the repository.
OUTSIDE = {
    "index.md": "README.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "reproducing.md": "papers/docs/reproducing.md",
    "distributed.md": "papers/docs/distributed.md",
}
# Lines of docs/stability.md that list public names in modules.
LISTED = re.compile(r"^(?:- |  )`fairlead\..*$", re.M)
PATH = re.compile(r"`(fairlead\.[\w.]+)`")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside docs/, and the reference of the public API."""
    for page, source in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    script = Path(__file__).with_name("iframe-worker.js").read_text("utf-8")
    files.append(File.generated(config, "assets/iframe-worker.js", content=script))
    stability = (ROOT / "docs" / "stability.md").read_text("utf-8")
    in_modules = [name for line in LISTED.findall(stability) for name in PATH.findall(line)]
    names = [f"fairlead.{name}" for name in fairlead.__all__] + in_modules
    head = "# Reference\n\nAll public names. [Stability](stability.md) states what may change."
    parts = "\n\n".join(f"::: {name}" for name in names)
    files.append(File.generated(config, "reference.md", content=f"{head}\n\n{parts}\n"))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point links into the repository to the site's pages; of other such links keep the text."""
    uri = page.file.src_uri
    source = PurePosixPath(OUTSIDE.get(uri, f"docs/{uri}"))
    pages = {made_of: name for name, made_of in OUTSIDE.items()}

    def adapt(link: re.Match[str]) -> str:
        mark, text, target = link.groups()
        if re.match(r"[a-z]+:|#", target):
            return link[0]
        path, hash_, anchor = target.partition("#")
        found = os.path.normpath(source.parent / path)
        if found not in pages and not ((ROOT / found).is_file() and found.startswith("docs/")):
            return text
        goal = pages.get(found, found.removeprefix("docs/"))
        return f"{mark}[{text}]({os.path.relpath(goal, PurePosixPath(uri).parent)}{hash_}{anchor})"

    return LINK.sub(adapt, markdown)
