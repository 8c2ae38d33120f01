"""Files, commands and figures that docs/beyond-the-papers.md names exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "beyond-the-papers.md").read_text(encoding="utf-8")
SECTIONS = TEXT.split("\n## ")[1:]
LARGEST_PICTURE = 60_000


def test_pictures_are_small_with_selectable_text() -> None:
    for picture in re.findall(r"\]\((pictures/\S+\.svg)\)", TEXT):
        drawn = (ROOT / "docs" / picture).read_text(encoding="utf-8")
        assert len(drawn.encode()) < LARGEST_PICTURE
        assert "<text" in drawn
        assert "fill: #ffffff" in drawn  # readable on dark pages


def test_every_section_has_a_claim_and_a_measured_picture() -> None:
    assert len(SECTIONS) == 7
    benchmarks = (ROOT / "benchmarks" / "test_growth.py").read_text(encoding="utf-8")
    tests = re.findall(r"^def (test_\w+)", benchmarks, re.MULTILINE)
    for section in SECTIONS:
        (mark,) = re.findall(r"\(pictures/(\S+)\.svg\)", section)
        assert re.findall(r"<!-- measured: (\S+) -->", section) in ([], [mark])
        assert "slope" in (ROOT / "docs" / "pictures" / f"{mark}.svg").read_text(encoding="utf-8")
        assert [test for test in tests if mark.replace("-", "_") in test] == [
            f"test_{mark.replace('-', '_')}"
        ]
        assert "**Claim.**" in section
