"""Pages of --report in Chromium: on a screen, on a phone and when printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

import fairlead
from fairlead.report.page import to_page
from fairlead.report.simulation_document import simulation_document
from fairlead.traces.generator import generate_day
from live_page import check_access

# Pictures whose curves, bars or dots are not within the window's width.
OUTSIDE = """() => [...document.querySelectorAll(".plot")].filter((plot) => {
  const box = plot.getBoundingClientRect();
  const shapes = [...plot.querySelectorAll(".curves, .bar, .mark, text")];
  return !shapes.length || shapes.some((shape) => {
    const at = shape.getBoundingClientRect();
    return at.width && (at.left < box.left - 8 || at.right > box.right + 8);
  });
}).map((plot) => plot.textContent)"""
WIDE_TABLES = """() => [...document.querySelectorAll(".scroll")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1)
  .map((box) => `${box.ariaLabel}: ${box.scrollWidth}`)"""
HIDDEN = """() => [...document.querySelectorAll(".plot")]
  .filter((plot) => plot.getBoundingClientRect().height < 40).length"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    day = generate_day(servers=6, users=4, jobs=60, hours=6, seed=3)
    runs = fairlead.simulate(day, ["drf/best-fit", "fifo/first-fit"], processes=1)
    path = Path(tmp_path_factory.mktemp("report")) / "page.html"
    path.write_text(to_page(simulation_document(runs, "day")))
    return path.as_uri()


@pytest.mark.parametrize("width", [1280, 420])
def test_pictures_are_within_the_window(browser: Browser, report: str, width: int) -> None:
    with browser.new_context(viewport={"width": width, "height": 900}) as context:
        page = context.new_page()
        page.goto(report)
        assert page.locator(".plot").count() > 6
        assert page.evaluate(HIDDEN) == 0
        assert page.evaluate(OUTSIDE) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_tables_are_as_wide_as_a_screen(browser: Browser, report: str) -> None:
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.goto(report)
        check_access(page)
        assert page.evaluate(WIDE_TABLES) == []


def test_print_shows_all_pictures(browser: Browser, report: str) -> None:
    with browser.new_context(viewport={"width": 700, "height": 900}) as context:
        page = context.new_page()
        page.goto(report)
        page.emulate_media(media="print")
        assert page.evaluate(HIDDEN) == 0
        assert page.evaluate(OUTSIDE) == []
