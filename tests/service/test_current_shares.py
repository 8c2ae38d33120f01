"""Shares are computed once for all callers that wait, and a failure is logged once."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

from fairlead.errors import FairleadError
from fairlead.service._current_shares import CurrentShares


class Question:
    """Answers its number after .1 s; odd numbers may be made to fail."""

    def __init__(self, number: int, fails: bool) -> None:
        self.number, self.fails = number, fails

    def answer(self) -> int:
        time.sleep(0.1)
        if self.fails:
            raise FairleadError("no programme")
        return self.number


class State:
    """Stands for the state's thread; counts the questions."""

    def __init__(self) -> None:
        self.asked = 0
        self.fails = False

    async def ask(self, _: object) -> tuple[Question, dict[str, Any]]:
        self.asked += 1
        return Question(self.asked, self.fails), {}


def of(state: State) -> CurrentShares:
    return CurrentShares(state)  # type: ignore[arg-type]


def test_callers_of_one_time_share_a_computation() -> None:
    async def run() -> tuple[int, set[Any]]:
        state = State()
        shares = of(state)
        first = asyncio.create_task(shares.now())
        await asyncio.sleep(0.01)
        later = [asyncio.create_task(shares.now()) for _ in range(5)]
        recent = await shares.recent(patience=5)
        assert (await first).shares == recent.shares == 1  # type: ignore[union-attr]
        found = {(await caller).shares for caller in later}
        return state.asked, found

    assert asyncio.run(run()) == (2, {2})  # later calls get a later state


def test_a_caller_that_leaves_stops_no_computation() -> None:
    async def run() -> None:
        shares = of(State())
        gone = asyncio.create_task(shares.now())
        await asyncio.sleep(0.01)
        gone.cancel()
        found = await shares.recent(patience=5)
        assert found is not None
        assert str(found.shares) == "1"

    asyncio.run(run())


def test_a_failure_is_raised_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        state = State()
        shares = of(state)
        await shares.now()
        state.fails = True
        failing = asyncio.create_task(shares.now())
        await asyncio.sleep(0.01)
        waiting = [asyncio.create_task(shares.recent(patience=5)) for _ in range(3)]
        with pytest.raises(FairleadError):
            await failing
        assert await asyncio.gather(*waiting) == [None] * 3
        assert await shares.recent(patience=5, most_age=60) is None

    with caplog.at_level(logging.WARNING, logger="fairlead.service"):
        asyncio.run(run())
    assert [record.getMessage() for record in caplog.records] == ["no shares were found"]
