"""Progress bars of replays side by side."""

from __future__ import annotations

import io
import sys

import pytest

from fairlead.cli.streams import replay_bars


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_each_replay_has_a_bar_with_its_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    with replay_bars() as (report, _):
        assert report is not None
        report("drf/best-fit", 50, 200, 5400.0)
        report("drf/best-fit, weight:[red]=2", 200, 200, 36_000.0)
    shown = screen.getvalue()
    assert "drf/best-fit, at 1.5 h" in shown
    assert "25%" in shown
    assert "weight:[red]=2, at 10.0 h" in shown
    assert "100%" in shown


def test_nobody_watches_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with replay_bars() as (report, _):
        assert report is None
