"""A scheduler and the plain one, told the same; what one says differently is an error."""

from __future__ import annotations

from typing import Any

from fairlead.errors import InputError, RefusalError
from fairlead.scheduler.scheduler import Scheduler
from oracles.plain_gangs import RememberingScheduler

REFUSED = (InputError, RefusalError)


class Both:
    """Passes events to both schedulers, which give the same ids, and compares their answers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.plain = RememberingScheduler(*arguments, **options)
        self.real = Scheduler(*arguments, **options)
        self.log: list[str] = []

    def __getattr__(self, event: str) -> Any:
        def tell(*arguments: Any, **options: Any) -> Any:
            self.log.append(f"s.{event}(*{arguments}, **{options})")
            expected = self.outcome(self.plain, event, arguments, options)
            got = self.outcome(self.real, event, arguments, options)
            assert got == expected, "\n".join([*self.log, f"expected {expected}", f"got {got}"])
            if got == "refused":
                raise InputError("refused")
            self.real.check()
            return getattr(self, "placed", None) if event == "place" else got

        return tell

    def outcome(self, scheduler: Any, event: str, arguments: Any, options: Any) -> Any:
        try:
            found = getattr(scheduler, event)(*arguments, **options)
        except REFUSED:
            return "refused"
        if event != "place":
            return found
        self.placed = found
        return [(p.task, p.group, p.queue, p.server, p.attempt, p.index) for p in found]
