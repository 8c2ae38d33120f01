"""Processes that end with the one that started them, and leave interruptions to it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from threading import Thread


def serve_parent() -> None:
    """Have this process ignore interruptions, and end as soon as its parent is gone.

    A parent that is killed ends nobody: a child would go on for hours, or for ever, as it waits
    until somebody reads what it writes (its siblings hold the other end of its pipe open).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


@contextmanager
def interruptions_held() -> Iterator[None]:
    """Hold interruptions back while processes are started that will leave them to this one.

    Until it has said so, a new process would answer one with a traceback. It is born with
    interruptions held back, and those that wait then are dropped by `serve_parent`.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
