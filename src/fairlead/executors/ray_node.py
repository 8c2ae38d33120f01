"""What a node of a Ray cluster does with a job, and who it says that it is."""

from __future__ import annotations

import pickle
import platform
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import ray

from fairlead.executors.local_processes import Reporter, attempt
from fairlead.source_digest import digest_of_sources

SECONDS_BETWEEN_REPORTS = 0.5


def stamp() -> tuple[str, str, str]:
    """Return the fairlead of this process, the digest of its sources, and its Python."""
    return sys.modules["fairlead"].__version__, digest_of_sources(), platform.python_version()


def in_words(of: tuple[str, str, str]) -> str:
    """Return the versions of fairlead and of Python."""
    return f"fairlead {of[0]} (sources {of[1][:8]}) with Python {of[2]}"


def do_one(given: Any, number: int, reports: Any) -> bytes:
    """Do one of the jobs, and return the pickled answer or error."""
    work, jobs = _unpacked(given)
    listens = []
    if reports is not None:
        tell = reports.tell.remote
        listens.append(Reporter(lambda *r: tell(number, *r), SECONDS_BETWEEN_REPORTS))
    return pickle.dumps(attempt(work, jobs[number], *listens))


@lru_cache(maxsize=1)
def _unpacked(given: Any) -> tuple[Callable[..., Any], Sequence[Any]]:
    work, jobs = pickle.loads(ray.get(given))
    return work, jobs
