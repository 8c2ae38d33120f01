"""Search for jobs with filters, an order and pages, for the live page.

Live jobs are searched outside the state's thread, so the result may be slightly old. Of ended jobs,
only the latest 100,000 are searched; they are in the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairlead.service.jobs import Job
from fairlead.service.messages import JobQuery

ENDED_STATES = ("ended", "finished", "failed", "cancelled")  # "ended" is any of the others


SORT_KEYS: dict[str, Callable[[Job], Any]] = {
    "id": lambda job: job.id,
    "user": lambda job: job.user,
    "name": lambda job: job.name or "",
    "state": lambda job: job.state,
    "tasks": lambda job: job.tasks,
    "running": lambda job: len(job.running),
    "priority": lambda job: job.priority,
    "submitted": lambda job: job.submitted,
    "started": lambda job: job.started or float("inf"),
}


def find_live(jobs: Sequence[Job], wanted: JobQuery) -> list[int]:
    """Return the ids of the wanted jobs in order; ties go to the smaller id."""
    text = wanted.text.casefold()
    found = [
        job
        for job in jobs
        if (wanted.user is None or job.user == wanted.user)
        and (wanted.state in ("live", job.state) or (wanted.state == "held" and job.held))
        and (
            not text
            or text in (job.name or "").casefold()
            or text in job.user.casefold()
            or text == str(job.id)
        )
    ]
    found.sort(key=SORT_KEYS[wanted.sort], reverse=wanted.descending)
    return [job.id for job in found]
