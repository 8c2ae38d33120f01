"""Questions are answered before waiting requests, change nothing, and fail alone."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from asked_service import Asked, served
from fairlead.service import _state_thread as state_thread
from fairlead.service._state_thread import Transaction
from fairlead.service.messages import UnavailableError


def rest(tx: Transaction, seconds: float = 0.03) -> float:
    time.sleep(seconds)
    return tx.now


def busy_with(ask: Asked, requests: int) -> list[Future[float]]:
    return [ask.service.state_thread.enqueue(rest) for _ in range(requests)]


@served
async def test_a_question_passes_waiting_requests(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_thread, "REQUESTS_AT_ONCE", 2)
    (job,) = await ask.submit({"cpu": 5})
    waiting = busy_with(ask, 60)
    answer = await ask("GET", f"/v1/jobs/{job}/explain")
    assert answer["held_by"] == "where"  # `where` names a server that does not exist yet
    assert sum(future.done() for future in waiting) < 30
    await asyncio.wait_for(asyncio.wrap_future(waiting[-1]), 20)


@served
async def test_many_questions_leave_time_for_requests(ask: Asked) -> None:
    thread = ask.service.state_thread
    asked = [asyncio.create_task(thread.ask(partial(rest, seconds=0.05))) for _ in range(40)]
    await asyncio.sleep(0)
    request = busy_with(ask, 1)[0]
    await asyncio.wait_for(asyncio.wrap_future(request), 20)
    assert sum(task.done() for task in asked) < 30
    assert len(await asyncio.gather(*asked)) == 40


@served
async def test_a_question_that_changes_the_state_is_undone(ask: Asked) -> None:
    (job,) = await ask.submit({})

    def cancel(tx: Transaction) -> None:
        tx.apply("cancel", job=int(job), reason="by a question")

    with pytest.raises(UnavailableError, match="internal error"):
        await ask.service.state_thread.ask(cancel)
    assert (await ask("GET", f"/v1/jobs/{job}"))["state"] == "pending"
    assert await ask.submit({})


@served
async def test_a_question_is_told_that_the_journal_is_gone(ask: Asked) -> None:
    thread: Any = ask.service.state_thread
    thread.ready, thread.fault = False, "the disk is full"
    thread._retry = lambda: None
    with pytest.raises(UnavailableError, match="the disk is full"):
        await thread.ask(lambda tx: tx.now)
    thread.ready = True
    assert await thread.ask(lambda tx: tx.now) > 0
