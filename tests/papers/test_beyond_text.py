"""What docs/beyond-the-papers.md refers to is there: tests, pictures, commands, figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "beyond-the-papers.md").read_text(encoding="utf-8")
LARGEST_PICTURE = 60_000


def is_defined(name: str, source: str) -> bool:
    return re.search(rf"^def {name}\(", source, re.MULTILINE) is not None


def test_a_name_that_only_begins_alike_is_not_defined() -> None:
    assert is_defined("test_one", "import os\n\ndef test_one(a):\n")
    assert not is_defined("test_one", "def test_one_more(a):\n    test_one()\n")


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/\S+?::\w+)`", TEXT))))
def test_every_test_that_is_named_is_there(named: str) -> None:
    file, name = named.split("::")
    assert is_defined(name, (ROOT / file).read_text(encoding="utf-8"))


@pytest.mark.parametrize("picture", re.findall(r"\]\((pictures/\S+\.svg)\)", TEXT))
def test_pictures_are_small_and_their_text_is_text(picture: str) -> None:
    drawn = (ROOT / "docs" / picture).read_text(encoding="utf-8")
    assert len(drawn.encode()) < LARGEST_PICTURE
    assert "<text" in drawn
    assert "fill: #ffffff" in drawn  # readable on dark pages


def test_every_section_has_its_picture_and_its_figures() -> None:
    sections = TEXT.split("\n## ")[1:]
    assert len(sections) == 7
    for section in sections:
        (mark,) = re.findall(r"<!-- measured: (\S+) -->", section)
        assert f"(pictures/{mark}.svg)" in section
        figures = section.split("-->\n")[1]
        assert "| slope |" in figures
        assert f"-k {mark.replace('-', '_')}`" in figures
        assert "**Claim.**" in section
        assert "**Held by**" in section


@pytest.mark.parametrize("name", re.findall(r"test_growth\.py -k (\w+)`", TEXT))
def test_every_command_runs_one_test(name: str) -> None:
    source = (ROOT / "benchmarks" / "test_growth.py").read_text(encoding="utf-8")
    tests = re.findall(r"^def (test_\w+)", source, re.MULTILINE)
    assert [test for test in tests if name in test] == [f"test_{name}"]


@pytest.mark.parametrize("link", re.findall(r"\]\(((?!pictures)[^#)]+\.md)\)", TEXT))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / "docs" / link).is_file()
