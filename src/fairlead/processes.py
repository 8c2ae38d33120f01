"""Processes that end with the one that started them, and leave interruptions to it."""

from __future__ import annotations

import os
import signal
from multiprocessing import parent_process
from threading import Thread


def serve_parent() -> None:
    """Have this process ignore interruptions, and end as soon as its parent is gone.

    A parent that is killed ends nobody: a child would go on for hours, or for ever, as it waits
    until somebody reads what it writes (its siblings hold the other end of its pipe open).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
