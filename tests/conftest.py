"""Settings that all tests share."""

from __future__ import annotations

import gc
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from effort import load_profile
from fairlead.mechanisms.catalogue import ADDED
from fairlead.simulation import simulate as outcomes
from fairlead.simulation.metrics.summary import summarise

load_profile()

# These mostly wait: they are begun first, beside what computes.
WAITING = ("tests/service/test_newcomer", "tests/service/")

# Where each log lies below the folder of real ones, and the small one that stands in for it.
LOGS = {
    "metacentrum_log": ("metacentrum-wagap-2013/wagap-2013.swf.gz", "metacentrum.swf.gz"),
    "openb_folder": ("alibaba-openb-v2023", "openb"),
    "job_events": ("google-2011-job-events", "google-2011/job_events"),
}
EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "logs"
REAL_LOGS = Path(__file__).parent / "real_logs"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the folder of real logs."""
    parser.addoption(
        "--traces", type=Path, help="run what reads logs, on the real ones of a folder"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a folder that lacks a log, before anything runs; keep to the order of collecting."""
    # A program started in the background ignores interruptions, and so would those it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.option.loadscopereorder = False  # else pytest-xdist begins with what has most tests
    folder = config.getoption("traces")
    for path, _ in LOGS.values():
        if folder is not None and not (folder / path).exists():
            raise pytest.UsageError(f"--traces {folder}: has no {path}; see docs/traces.md")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests of real logs, unless they are there."""
    return True if collection_path == REAL_LOGS and config.getoption("traces") is None else None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name the tests that were not run."""
    asked = any(Path(argument).resolve() in REAL_LOGS.parents for argument in config.args)
    if asked and config.getoption("traces") is None:
        terminalreporter.write_line(
            "not run: tests/real_logs, as no real logs were named; docs/traces.md says where they "
            "come from, and make test-traces TRACES=FOLDER runs all that reads logs on them"
        )


@pytest.fixture
def few_instants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solve fair shares at five moments of a run, not at a hundred, which show the same."""
    monkeypatch.setattr(outcomes, "summarise", partial(summarise, instants=5))


def _log(name: str) -> object:
    def log(request: pytest.FixtureRequest) -> Path:
        folder, (path, small) = request.config.getoption("traces"), LOGS[name]
        return EXAMPLES / small if folder is None else folder / path

    return pytest.fixture(scope="session", name=name)(log)


metacentrum_log, openb_folder, job_events = map(_log, LOGS)


@pytest.fixture(autouse=True)
def added_mechanisms() -> Iterator[None]:
    """Forget the mechanisms that a test added."""
    before = dict(ADDED)
    yield
    ADDED.clear()
    ADDED.update(before)


@pytest.fixture
def log(request: pytest.FixtureRequest) -> Path:
    """Return the log that a test names as its parameter."""
    path: Path = request.getfixturevalue(request.param)
    return path


def pytest_collection_finish() -> None:
    """Look for garbage more rarely, and not in all that was imported and collected."""
    gc.freeze()
    gc.set_threshold(10_000)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the longest tests; with real logs, keep those that read logs."""
    scopes = Counter(_scope_of(item.nodeid) for item in items)
    items.sort(key=lambda item: _when_begun(_scope_of(item.nodeid), scopes))
    if config.getoption("traces") is not None:
        items[:] = [
            item
            for item in items
            if REAL_LOGS in item.path.parents or {"log", *LOGS} & set(item.fixturenames)
        ]


def _scope_of(nodeid: str) -> str:
    """Return the file, whose tests go to one process together."""
    return nodeid.split("::", maxsplit=1)[0]


def _when_begun(scope: str, scopes: Counter[str]) -> tuple[int, int, str]:
    """Return the sort key of a file: files that wait come first, then those with many tests."""
    waits = next((n for n, begins in enumerate(WAITING) if scope.startswith(begins)), len(WAITING))
    return waits, -scopes[scope], scope
