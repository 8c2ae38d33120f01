"""Loops of a worker that continue after faults."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import NoReturn, TypeVar

LOG = logging.getLogger("fairlead.service.worker")
FAULT_PAUSE = 5.0  # seconds after a fault, which may recur at once
Item = TypeVar("Item")


async def repeat(
    step: Callable[[], Awaitable[None]], pause: float = 0.0, last: type[Exception] | None = None
) -> NoReturn:
    """Repeat a step for ever; log its faults and continue, but raise one of type `last`."""
    while True:
        try:
            await step()
        except Exception as fault:
            if last is not None and isinstance(fault, last):
                raise
            LOG.exception("%s failed and is repeated", getattr(step, "__name__", step))
            await asyncio.sleep(FAULT_PAUSE)
        await asyncio.sleep(pause)


def do_all(act: Callable[[Item], None], items: Iterable[Item]) -> None:
    """Act on all items; raise the first fault after the last item."""
    faults = []
    for item in items:
        try:
            act(item)
        except Exception as fault:
            faults.append(fault)
    if faults:
        raise faults[0]
