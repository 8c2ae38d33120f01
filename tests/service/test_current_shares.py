"""Shares are computed once for all callers that wait, and a failure is logged once."""

from __future__ import annotations

import asyncio
import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead.errors import FairleadError
from fairlead.service._overview import CurrentShares


class State:
    """Stands for the state's thread; each question is answered by its number after 0.05 s."""

    def __init__(self) -> None:
        self.asked, self.fails = 0, False
        self.shares: Any = CurrentShares(self)  # type: ignore[arg-type]

    async def ask(self, _: object) -> tuple[Any, dict[str, Any]]:
        self.asked += 1
        number = self.asked

        def answer() -> int:
            time.sleep(0.05)
            if self.fails:
                raise FairleadError("no programme")
            return number

        return SimpleNamespace(answer=answer), {}


def test_callers_of_one_time_share_a_computation() -> None:
    async def run() -> None:
        state = State()
        gone = asyncio.create_task(state.shares.now())
        await asyncio.sleep(0.01)
        later = [asyncio.create_task(state.shares.now()) for _ in range(5)]
        gone.cancel()  # a caller that leaves stops no computation
        assert (await state.shares.recent(patience=5)).shares == 1
        assert {(await caller).shares for caller in later} == {2}  # of a later state
        assert state.asked == 2

    asyncio.run(run())


def test_a_failure_is_raised_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        state = State()
        await state.shares.now()
        state.fails = True
        failing = asyncio.create_task(state.shares.now())
        await asyncio.sleep(0.01)
        waiting = [asyncio.create_task(state.shares.recent(patience=5)) for _ in range(3)]
        with pytest.raises(FairleadError):
            await failing
        assert await asyncio.gather(*waiting) == [None] * 3
        assert await state.shares.recent(patience=5, most_age=60) is None

    with caplog.at_level(logging.WARNING, logger="fairlead.service"):
        asyncio.run(run())
    assert [record.getMessage() for record in caplog.records] == ["no shares were found"]
