"""Headless Chromium, and services whose live page it shows; `make test-page` runs what needs it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from live_cluster import Cluster
from live_page import Opened

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
OPTIONS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
PATIENCE = 20_000.0  # milliseconds
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    assert CHROMIUM, "install Chromium (Debian's package chromium), or name it in CHROMIUM"
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield started
        started.close()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A service with two workers; tests use users of their own."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    made.start_service()
    for name in ("node1", "node2"):
        made.start_worker(name, "--label", f"rack={name[-1]}", cpu=4)
    yield made
    made.close()


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A service without workers, for one test."""
    made = Cluster(tmp_path)
    made.start_service()
    yield made
    made.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Opened]:
    """Open a view of a service; at the end, check the page's errors and its requests."""
    pages: list[Page] = []
    faults: list[str] = []

    def opened(url: str, view: str = "", width: int = 1200, scheme: str = "light") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
            locale="en-GB",
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda fault: faults.append(str(fault)))
        page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(url) else faults.append(asked.url),
        )
        pages.append(page)
        page.goto(f"{url}/{view}")
        return page

    yield opened
    for page in pages:
        page.context.close()
    assert faults == []
