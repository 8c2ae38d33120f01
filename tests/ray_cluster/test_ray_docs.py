"""What the README and docs/ray.md show of Ray runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("page", ["README.md", "docs/ray.md"])
def test_what_a_page_shows_runs(page: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    pieces = re.findall(r"^```python ray\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert pieces
    names: dict[str, object] = {"__name__": "__main__"}
    for piece in pieces:
        exec(compile(piece, page, "exec"), names)
    assert "[0, 1, 4, 9]" in capfd.readouterr().out
    names["fair"].close()  # type: ignore[attr-defined]
