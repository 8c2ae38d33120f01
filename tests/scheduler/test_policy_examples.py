"""Rules of single policies that random events rarely meet."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.scheduler.scheduler import Scheduler
from oracles.plain_scheduler import Scheduler as Plain


@pytest.fixture(params=[Plain, Scheduler], ids=["plain", "real"])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


def placed(s: Any, *arguments: Any) -> list[tuple[str, str]]:
    return [(p.queue, p.server) for p in s.place(*arguments)]


@pytest.mark.parametrize("select", ["first-fit", "best-fit"])
def test_fifo_passes_over_oversized_groups_alone(make: Any, select: str) -> None:
    s = make(["cpu", "memory"], f"fifo/{select}")
    s.add_server("a", {"cpu": 2, "memory": 2})
    s.add_server("b", {"cpu": 2, "memory": 2}, labels={"gpu": "T4"})
    s.drain("b")
    for queue in ("ana", "bo"):
        s.add_queue(queue)
    s.submit("ana", {"cpu": 1}, 1, where={"gpu": "T4"}, now=1.0)
    s.submit("bo", {"cpu": 1, "memory": 1}, 5, now=2.0)
    s.submit("ana", {"cpu": 1}, 1, now=3.0)
    assert placed(s) == [("bo", "a")] * 2
    assert placed(s) == []
    s.undrain("b")
    assert placed(s) == [("ana", "b"), ("bo", "b")]
    s.remove_server("b")
    assert placed(s) == []
    s.set_server("a", capacity={"cpu": 5, "memory": 5}, labels={"gpu": "T4"})
    assert placed(s) == [("ana", "a"), ("bo", "a"), ("bo", "a")]


def test_best_fit_first_waits_for_its_best_server(make: Any) -> None:
    s = make(["cpu", "memory"], "drf/best-fit-first")
    s.add_server("a", {"cpu": 4, "memory": 1})
    s.add_server("b", {"cpu": 0.5, "memory": 0.5})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 1, "memory": 1}, 3)
    assert placed(s) == []  # b is in its proportions, and too small
    s.set_server("b", capacity={"cpu": 0.5, "memory": 4})
    assert placed(s) == [("ana", "a")]
    s.add_server("c", {"cpu": 3, "memory": 3})
    s.drain("b")
    assert placed(s) == [("ana", "c")] * 2


@pytest.mark.parametrize("seed", range(6))
def test_a_score_with_another_task_is_no_bound(make: Any, seed: int) -> None:
    """On a it is bo's turn, as ana has more of what x takes; on b ana's, whose y takes memory."""
    s = make(["cpu", "memory"], "tsf/rrr/residual", seed=seed)
    for name in "ab":
        s.add_server(name, {"cpu": 20, "memory": 20})
    for queue, runs in (("ana", 4), ("bo", 1)):
        s.add_queue(queue)
        group = s.submit(queue, {"cpu": 1}, runs)
        for _ in range(runs):
            s.assume(group, "a")
    s.submit("ana", {"cpu": 1}, 5, where=["a"], priority=1)
    s.submit("ana", {"memory": 1}, 5, where=["b"])
    s.submit("bo", {"cpu": 1}, 5)
    assert sorted(placed(s, 0.0, 2)) == [("ana", "b"), ("bo", "a")]


def test_fifo_looks_behind_a_gang_that_could_never_start(make: Any) -> None:
    s = make(["cpu"], "fifo/best-fit")
    s.add_server("a", {"cpu": 2})
    s.add_queue("ana")
    s.add_queue("bo")
    s.submit("ana", {"cpu": 1}, tasks=3, gang=True, priority=1, now=5.0)
    s.submit("ana", {"cpu": 1}, now=1.0)
    s.submit("bo", {"cpu": 1}, tasks=2, now=3.0)
    assert placed(s) == [("ana", "a"), ("bo", "a")]
    s.add_server("b", {"cpu": 4})
    assert placed(s) == [("bo", "b"), ("ana", "b"), ("ana", "b"), ("ana", "b")]


def test_a_gang_may_stop_being_oversized(make: Any) -> None:
    s = make(["cpu"], "fifo/first-fit")
    s.add_server("a", {"cpu": 2})
    s.add_queue("ana")
    s.add_queue("bo")
    s.submit("ana", {"cpu": 1})
    gang = s.submit("ana", {"cpu": 1}, tasks=3, gang=True, now=1.0)
    s.submit("bo", {"cpu": 1}, now=2.0)
    started = s.place()
    assert [p.queue for p in started] == ["ana", "bo"]  # the gang could never start
    for p in started:
        s.finish(p.task)
    s.assume(gang, "a")
    s.submit("bo", {"cpu": 1}, now=3.0)
    assert not placed(s)  # what is left of it could, and nothing passes over it


@pytest.mark.parametrize(
    ("policy", "starts"), [("fifo/first-fit", 0), ("easy/first-fit", 0), ("drf/first-fit", 2)]
)
def test_what_idle_servers_cannot_hold_never_starts(make: Any, policy: str, starts: int) -> None:
    """On idle servers the larger task takes a, which the other needs; now a is taken."""
    s = make(["cpu"], policy)
    for name in "ab":
        s.add_server(name, {"cpu": 4})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 3}, time_limit=9)
    s.place()
    s.submit("ana", {"cpu": 4}, time_limit=9, where=["a"])
    s.submit_gang("ana", [({"cpu": 4}, 1), ({"cpu": 1}, 1, ["a"])], time_limit=1)
    assert len(s.place()) == starts


def test_what_comes_next_of_a_queue_may_score_less(make: Any) -> None:
    """Ana has more processors than bo has memory, and no more fit: then it is a task of memory."""
    s = make(["cpu", "memory"], "ps-dsf/joint/residual")
    s.add_server("a", {"cpu": 10, "memory": 100})
    s.add_queue("ana")
    s.add_queue("bo")
    s.submit("ana", {"cpu": 4}, 3)
    s.submit("ana", {"memory": 1}, 2)
    s.submit("bo", {"memory": 10}, 8)
    queues = [queue for queue, _ in placed(s, 0.0, 12)]
    assert " ".join(queues) == "ana bo bo bo bo ana ana ana bo bo bo bo"
