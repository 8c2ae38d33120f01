"""Tests and test files that the pages name exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = {"test_NAME", "test_equal_treatment", "test_ledger"}  # written by the reader of a page


def test_the_pages_name_tests_that_exist() -> None:
    files = list((ROOT / "tests").rglob("test_*.py")) + list((ROOT / "benchmarks").glob("*.py"))
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
