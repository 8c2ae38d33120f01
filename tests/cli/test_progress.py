"""Progress bars of stages, and of several replays at once."""

from __future__ import annotations

import io
import sys

import pytest

from fairlead.cli.streams import progress_bar, replay_bars


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


def test_a_bar_is_shown_to_people_only_and_taken_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress_bar("Filling") as report:
        assert report is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("Filling") as report:
        assert report is not None
        report(3, 4)
    out, err = capsys.readouterr()
    assert out == ""
    assert "Filling" in err
    assert err.endswith("\x1b[2K")
