"""Progress bars on standard error, for people who watch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

SECONDS_PER_HOUR = 3600.0


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar on standard error, if that is a terminal, and take it away afterwards.

    Yields
    ------
    callable or None
        To be called with what is done and what there is to do.
    """
    with stages_bar() as report:
        yield None if report is None else partial(report, what)


@contextmanager
def stages_bar() -> Iterator[Callable[[str, int, int], None] | None]:
    """Show a progress bar whose stages are named as they come, as `progress_bar` does.

    Yields
    ------
    callable or None
        To be called with what is being done, how much of it is done, and how much there is.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)

        def report(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        yield report


@contextmanager
def replay_bars() -> Iterator[
    tuple[Callable[[str, int, int, float], None] | None, Callable[[str, int, int], None] | None]
]:
    """Show a progress bar for each of several replays and other steps at once.

    Yields
    ------
    callable or None, callable or None
        The first to be called with the name of a replay, tasks started, tasks in all, and the
        moment in seconds; a bar appears when its name is first heard. The second with what is being
        done, how much of it is done, and how much there is: its bar goes when all is done.
    """
    if not sys.stderr.isatty():
        yield None, None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, TaskID

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bars: dict[str, TaskID] = {}

        def step(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(escape(what), total=total)
            progress.update(bars[what], completed=done)
            if done >= total:
                progress.remove_task(bars.pop(what))

        def replayed(name: str, started: int, tasks: int, moment: float) -> None:
            what = f"{name}, at {moment / SECONDS_PER_HOUR:,.1f} h"
            if name not in bars:
                bars[name] = progress.add_task(escape(what), total=tasks)
            progress.update(bars[name], description=escape(what), completed=started, total=tasks)

        yield replayed, step
