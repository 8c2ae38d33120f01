"""Undo: each event leaves behind the call of its inverse, and questions end by making those calls.

That is exact, because all that decides is whole numbers and keys of order. Calls are made in the
reverse order of events. What is derived (indexes, turns, parked lines) follows the inverse events
like any others; only which gangs are parked is restored by calls, as it decides which are tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead.scheduler.snapshot_rows import RoundsRow
    from fairlead.scheduler.state import State


class WhatIf:
    """A block of events that are taken back at its end; blocks may stand in one another."""

    state: State
    mark: int = 0  # events of the blocks around this one
    is_outermost: bool = False
    now: float = 0.0
    ids: int = 0
    joined: int = 0
    added: int = 0
    used: list[int]
    rounds: RoundsRow | None = None

    def __init__(self, state: State) -> None:
        self.state = state
        self.used = []

    def __enter__(self) -> None:
        """Begin to note the inverse of each event."""
        state = self.state
        self.is_outermost = state.steps is None
        if state.steps is None:
            state.steps = []
        self.mark = len(state.steps)
        self.now = state.now
        self.ids, self.joined, self.added = state.ids, state.joined, state.added
        self.used = state.used
        self.rounds = state.rounds.save()

    def __exit__(self, *fault: object) -> None:
        """Take all events back."""
        state = self.state
        steps = state.steps
        state.steps = None
        state.is_undoing = True
        if steps is not None:
            while len(steps) > self.mark:
                steps.pop()()
        state.is_undoing = False
        state.now = self.now
        state.ids, state.joined, state.added = self.ids, self.joined, self.added
        state.used = self.used
        if self.rounds is not None:
            state.rounds.restore(self.rounds)
        state.steps = None if self.is_outermost else steps
