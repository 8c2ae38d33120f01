"""A stand-in until the replay is there."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.errors import RefusalError
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload


def replay(
    workload: Workload,  # noqa: ARG001
    policy: str,
    *,
    strict_fifo: bool = False,  # noqa: ARG001
    seed: int = 0,  # noqa: ARG001
    on_progress: Callable[[int, float], None] | None = None,  # noqa: ARG001
) -> RunLog:
    """Refuse."""
    raise RefusalError(policy, "the replay is not there yet")
