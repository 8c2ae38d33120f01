"""Jobs of the services whose live page the tests look at, and checks of a page."""

from __future__ import annotations

from collections.abc import Callable

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from live_cluster import Cluster

Opened = Callable[..., Page]


def submit(cluster: Cluster, *words: str) -> str:
    """Submit a job by the command, and return its number."""
    done = cluster.run("submit", "--chdir", "/tmp", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def check_access(page: Page) -> None:
    """Check that axe-core finds no fault, and that nothing is wider than the window."""
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= window
