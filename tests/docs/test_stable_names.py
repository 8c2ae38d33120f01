"""Names on the pages: docs/stability.md lists those of modules, and those of tests exist."""

from __future__ import annotations

import json
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Pages for users; those of docs/contributing change the sources themselves.
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
IMPORT = re.compile(r"^from (fairlead\.[\w.]+) import ([\w, ]+)$", re.MULTILINE)
LINE = re.compile(r"^(?:- |  )`fairlead\..*$", re.MULTILINE)
PATH = re.compile(r"`(fairlead\.[\w.]+)`")
LISTED = [
    name
    for line in LINE.findall((ROOT / "docs" / "stability.md").read_text("utf-8"))
    for name in PATH.findall(line)
]


def used_in(text: str) -> set[str]:
    return {
        f"{module}.{name}" for module, names in IMPORT.findall(text) for name in names.split(", ")
    }


def test_names_that_a_page_imports_are_listed() -> None:
    unlisted = {page.name: used_in(page.read_text("utf-8")) - set(LISTED) for page in PAGES}
    assert {page: names for page, names in unlisted.items() if names} == {}


def test_names_that_notebooks_import_are_listed() -> None:
    used: set[str] = set()
    for path in (ROOT / "docs" / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        used |= used_in("\n".join("".join(cell["source"]) for cell in cells))
    assert "fairlead.traces.generator.generate_day" in used
    assert used <= set(LISTED)


@pytest.mark.parametrize("name", LISTED)
def test_a_listed_name_is_documented(name: str) -> None:
    if "ray" in name and find_spec("ray") is None:
        pytest.skip("ray is not installed")
    module, _, attribute = name.rpartition(".")
    assert getattr(import_module(module), attribute).__doc__


EXAMPLES = {"test_NAME", "test_equal_treatment", "test_ledger"}  # written by the reader of a page


def test_the_pages_name_tests_that_exist() -> None:
    folders = ("tests", "papers/tests", "benchmarks")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    known = {file.stem for file in files}
    for file in files:
        known |= set(re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8")))
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"]
    missing = {
        f"{page.name}: {name}"
        for page in pages
        for name in re.findall(r"\btest_\w+", page.read_text(encoding="utf-8"))
        if name not in known | EXAMPLES
    }
    assert missing == set()
