"""A replayed journal: the placements of the live policy, and those of others."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic_core import to_json

import fairlead
from fairlead.errors import InputError
from fairlead.model.run_log import RunLog
from fairlead.service.jobs import Effects, TaskKey
from fairlead.service.journal.event_journal import (
    Batch,
    Journal,
    digest_of_placements,
    repeat_event,
)
from fairlead.service.service_state import ServiceState
from fairlead.simulation.journal_replay import repeated_starts, replay_journal
from fairlead.simulation.metrics.summary import summarise
from fairlead.traces.journal_trace import NOWHERE, JournalWorkload, read_journal
from fairlead.traces.readers import read_workload
from service.test_state import a_job, drive

LIVE = "drf/best-fit"
OTHERS = ["fifo/first-fit", "ps-dsf/joint", "easy/first-fit", "drf/rrr/oblivious"]


class Written:
    """A journal of random events, and its placements."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        events: int = 250,
        policy: str = LIVE,
        order: int = 0,
        places: Sequence[Any] = (),  # places of further jobs
    ) -> None:
        self.path = folder / f"journal-{seed}.db"
        self.journal = Journal(self.path)
        self.starts: list[tuple[TaskKey, str, float]] = []
        self.ends: dict[TaskKey, tuple[float, int | None]] = {}
        self.tell(0.0, "policy", {"policy": policy, "seed": order}, None, Effects())
        servers = [("a", 4.0), ("b", 2.0)]
        if policy == LIVE:  # one that offers nothing would take part in the orders that are drawn
            servers.insert(0, ("idle", 0.0))
        for name, cpu in servers:
            capacity = {"cpu": cpu, "memory": 8.0 * (cpu > 0), "gpu": 2.0 * (cpu > 0)}
            body = {"name": name, "capacity": capacity, "labels": {}, "identity": "1"}
            self.tell(0.0, "server", body, None, Effects())
        # Without checks, as test_state has them.
        if events:
            drive(policy, seed, events, (0.5, 3.0), self.tell, checks=False, order=order)
        for where in places:
            self.tell(1.0, "submit", {"jobs": [a_job(where=where)]}, None, Effects())
        self.journal.close()

    def tell(
        self, now: float, kind: str, body: dict[str, Any], outcome: Any, effects: Effects
    ) -> None:
        batch = Batch()
        if kind == "place":
            body = body | {"placed": digest_of_placements(outcome)}
        batch.add(now, kind, to_json(body))
        self.journal.commit(batch, effects)
        self.starts += [(run.key, run.server, now) for run in effects.starts]
        self.ends |= {past.key: (past.ended, past.status) for past in effects.attempts}


Write = Callable[[int], Written]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Return what gives the journal of a seed; reading leaves a journal as it is."""
    folder = tmp_path_factory.mktemp("journals")
    return cache(lambda seed: Written(folder, seed))


@pytest.mark.parametrize("seed", [4])
def test_the_live_policy_repeats_every_start(seed: int, write: Write) -> None:
    written = write(seed)
    workload = read_journal(written.path)
    log = replay_journal(workload, LIVE)
    names = [
        (numbers[task], workload.cluster.groups[server].split(" ")[0], start)
        for numbers in [{n: task for task, n in workload.recording.numbers.items()}]
        for task, server, start in zip(log.task, log.server, log.start, strict=True)
    ]
    happened = [(key[:2], server, at) for key, server, at in written.starts]
    assert names[: len(happened)] == happened
    assert repeated_starts(workload, log) == (len(happened), len(happened))
    fewer = replay_journal(workload, "fifo/first-fit")
    assert repeated_starts(workload, fewer)[0] < len(happened)
    assert len(happened) > 30
    for (key, _, _), end, lost in zip(written.starts, log.end, log.lost, strict=False):
        if key in written.ends:
            ended, status = written.ends[key]
            assert end == ended
            assert lost or status is not None


def forget_half(path: Path) -> float:
    """Delete the first half of a journal's events, behind a snapshot; return its moment."""
    journal = Journal(path)
    state, half = ServiceState(LIVE), journal.seq // 2
    moment = 0.0
    for seq, now, kind, body in journal.events():
        repeat_event(state, kind, body, now, path, seq)
        if seq == half:
            moment = now
            journal.save(half, [state.snapshot()])
    journal.save(journal.seq, [state.snapshot()])
    journal.delete_old(moment + 0.001)
    journal.close()
    return moment


def starts_in(workload: JournalWorkload, log: RunLog) -> dict[Any, tuple[str, float, bool]]:
    """Return the server, the end and whether it was lost, of each start; all by the same clock."""
    tasks = {number: task for task, number in workload.recording.numbers.items()}
    begin = workload.recording.begin
    names = [name.split(" ")[0] for name in workload.cluster.groups]
    return {
        (tasks[task], begin + start): (names[server], begin + end, lost)
        for task, server, start, end, lost in zip(
            log.task, log.server, log.start, log.end, log.lost, strict=True
        )
    }


@pytest.mark.parametrize("seed", [5])
def test_a_replay_begins_behind_deleted_events(seed: int, tmp_path: Path) -> None:
    written = Written(tmp_path, seed)
    whole = read_journal(written.path)
    before = starts_in(whole, replay_journal(whole, LIVE))
    moment = forget_half(written.path)
    rest = read_journal(written.path)
    log = replay_journal(rest, LIVE)
    # Durations of tasks without a recorded end are estimated from the others.
    seen = {key[:2] for key, (_, status) in written.ends.items() if status is not None}
    kept = {at: how for at, how in before.items() if how[1] > moment and at[0] in seen}
    found = starts_in(rest, log)
    assert {at: how for at, how in found.items() if at[0] in seen and how[1] > moment} == kept
    assert any(start < moment for _, start in kept)
    assert repeated_starts(rest, log)[0] == repeated_starts(rest, log)[1] == len(found)
    other = replay_journal(rest, "ps-dsf/joint")
    assert set(other.task) <= set(range(rest.n_tasks))
    check_room(rest, other)
    for outcome in fairlead.simulate(written.path, ["slots:4", "recorded"], processes=1).values():
        assert outcome.workload.n_tasks == rest.n_tasks < whole.n_tasks


def test_a_random_policy_goes_by_the_seed_that_the_service_had(tmp_path: Path) -> None:
    written = Written(tmp_path, 3, policy="drf/rrr", order=5)
    workload = read_journal(written.path)
    assert set(workload.recording.policies) == {("drf/rrr", 5)}
    made = len(written.starts)
    assert made > 30
    for seed in (0, 5):
        log = replay_journal(workload, "drf/rrr", seed)
        assert repeated_starts(workload, log) == (made, made)
    assert repeated_starts(workload, replay_journal(workload, "drf/rrr", 6))[0] < made


def test_jobs_for_servers_that_never_joined_are_counted(tmp_path: Path) -> None:
    written = Written(tmp_path, 1, events=0, places=[["gone"], {"kind": "gone"}, ["a"], None])
    workload = read_journal(written.path)
    assert workload.notes[NOWHERE] == 2
    assert workload.places[workload.set_place].all(axis=1).tolist() == [True, True, False, True]


@pytest.mark.parametrize(("policy", "seed"), list(zip(OTHERS, [4, 4, 12, 12], strict=True)))
def test_under_another_policy_tasks_last_as_long(policy: str, seed: int, write: Write) -> None:
    written = write(seed)
    workload = read_journal(written.path)
    log = replay_journal(workload, policy)
    done = ~log.lost
    last = Counter(log.task[done].tolist())
    assert last
    assert max(last.values()) == 1, "a task ended well twice"
    told = {(task, start) for task, start in zip(log.task, log.start, strict=True)}
    lasted = (log.end - log.start)[done]
    other = np.abs(lasted - workload.task_duration[log.task[done]]) > 1e-9
    as_recorded = {
        (workload.recording.numbers[key.job, key.index], at) for key, _, at in written.starts
    }
    for task, start in zip(log.task[done][other], log.start[done][other], strict=True):
        assert (task, start) in as_recorded & told
    check_room(workload, log)
    assert summarise(workload, log).to_dict()["tasks"] == workload.n_tasks


def recorder(path: Path) -> tuple[Journal, ServiceState, Callable[..., None]]:
    """Return a journal, its state, and a function that applies and records an event."""
    journal, state = Journal(path), ServiceState(LIVE)

    def tell(now: float, kind: str, **body: Any) -> None:
        outcome, batch = state.apply(kind, body, now), Batch()
        is_placing = kind in ("place", "preempt")
        placed = {"placed": digest_of_placements(outcome)} if is_placing else {}
        batch.add(now, kind, to_json(body | placed))
        journal.commit(batch, state.take_effects())

    return journal, state, tell


def tell_preemption(tell: Callable[..., None]) -> None:
    """Record that both tasks of ana fill a server from 1 s, and bo's task stops one at 3 s."""
    tell(0.0, "policy", policy=f"{LIVE}/over-share", seed=0)
    capacity = {"cpu": 2.0, "memory": 8.0, "gpu": 0.0}
    tell(0.0, "server", name="a", capacity=capacity, labels={}, identity="1")
    tell(0.0, "submit", jobs=[a_job("ana", tasks=2)])
    tell(1.0, "place", limit=9)
    tell(2.0, "submit", jobs=[a_job("bo")])
    tell(2.0, "place", limit=9)
    tell(3.0, "preempt", limit=9)


@pytest.mark.parametrize(("min_run", "at"), [("", 3.0), (":4", 5.0)])
def test_another_policy_preempts_recorded_tasks_at_once(
    min_run: str, at: float, tmp_path: Path
) -> None:
    """Both tasks of ana ran from 1 s to 9 s; with preemption, one stops for bo once it may."""
    journal, _, tell = recorder(tmp_path / "journal.db")
    capacity = {"cpu": 2.0, "memory": 8.0, "gpu": 0.0}
    tell(0.0, "server", name="a", capacity=capacity, labels={}, identity="1")
    tell(0.0, "submit", jobs=[a_job("ana", tasks=2)])
    tell(1.0, "place", limit=9)
    tell(2.0, "submit", jobs=[a_job("bo")])
    tell(3.0, "place", limit=9)
    tell(9.0, "end", tasks=[[1, 0, 1, 0, ""], [1, 1, 1, 0, ""]])
    tell(9.0, "place", limit=9)
    tell(11.0, "end", tasks=[[2, 0, 1, 0, ""]])
    journal.close()
    log = replay_journal(read_journal(tmp_path / "journal.db"), f"{LIVE}/over-share{min_run}")
    runs = sorted(zip(log.start.tolist(), log.end.tolist(), log.lost.tolist(), strict=True))
    assert runs == [
        (1.0, at, True),
        (1.0, 9.0, False),
        (at, at + 2, False),
        (at + 2, at + 10, False),
    ]


def test_a_lost_server_returns_at_once_under_any_policy(tmp_path: Path) -> None:
    """The recorded gang ran on b alone; under first-fit it is on a and b when b is lost."""
    journal, _, tell = recorder(tmp_path / "journal.db")
    server = {"labels": {}, "identity": "1"}
    small, large = ({"cpu": cpu, "memory": 8.0, "gpu": 0.0} for cpu in (1.0, 4.0))
    tell(0.0, "server", name="a", capacity=small, **server)
    tell(0.0, "server", name="b", capacity=large, **server)
    tell(0.0, "submit", jobs=[a_job(tasks=2, gang=True)])
    tell(1.0, "place", limit=9)
    tell(2.0, "lost", name="b")
    tell(2.0, "server", name="b", capacity=large, **server)
    tell(2.0, "place", limit=9)
    tell(5.0, "end", tasks=[[1, 0, 2, 0, ""], [1, 1, 2, 0, ""]])
    journal.close()
    workload = read_journal(tmp_path / "journal.db")
    log = replay_journal(workload, "fifo/first-fit")
    runs = zip(log.server.tolist(), log.start.tolist(), log.end.tolist(), strict=True)
    assert sorted(runs) == [(0, 1.0, 2.0), (0, 2.0, 5.0), (1, 1.0, 2.0), (2, 2.0, 5.0)]


def test_a_task_that_awaits_victims_starts_once(tmp_path: Path) -> None:
    """Events are deleted up to 3 s, when bo's task waits for one of ana's to stop."""
    policy = f"{LIVE}/over-share"
    journal, state, tell = recorder(tmp_path / "journal.db")
    tell_preemption(tell)
    journal.save(journal.seq, [state.snapshot()])
    (victim,) = [key for run in state.jobs[2].running.values() for key in run.awaits]
    tell(5.0, "end", tasks=[[*victim, 143, ""]])
    tell(9.0, "end", tasks=[[2, 0, 1, 0, ""]])
    journal.save(journal.seq, [state.snapshot()])
    journal.delete_old(4.0)
    journal.close()
    workload = read_journal(tmp_path / "journal.db")
    for other in (policy, LIVE):
        log = replay_journal(workload, other)
        (bo,) = np.flatnonzero(log.task == 2)
        assert (log.start[bo], log.end[bo]) == (5.0, 9.0)
        check_room(workload, log)


def test_a_task_that_never_started_has_no_run_time(tmp_path: Path) -> None:
    """Bo's task waits 100 s for a victim until the server is lost; so its run time is a guess."""
    journal, _, tell = recorder(tmp_path / "journal.db")
    tell_preemption(tell)
    tell(103.0, "user", name="bo", weight=1.0)
    assert read_journal(tmp_path / "journal.db").task_duration[2] == 1.0
    tell(103.0, "lost", name="a")
    assert read_journal(tmp_path / "journal.db").task_duration[2] == 1.0
    journal.close()


def test_a_server_that_lost_its_capacity_is_in_the_trace(tmp_path: Path) -> None:
    """Events are deleted up to 2 s, when a task runs on a server that has no capacity left."""
    journal, state, tell = recorder(tmp_path / "journal.db")
    capacity = {"cpu": 2.0, "memory": 8.0, "gpu": 1.0}
    server = {"name": "a", "labels": {}, "identity": "1"}
    tell(0.0, "server", capacity=capacity, **server)
    tell(0.0, "server", **server | {"name": "b"}, capacity=capacity)
    tell(0.0, "submit", jobs=[a_job(where=["a"], demand={"cpu": 1.0, "gpu": 0.5})])
    tell(1.0, "place", limit=9)
    tell(2.0, "server", capacity=dict.fromkeys(capacity, 0.0), **server)
    journal.save(journal.seq, [state.snapshot()])
    tell(3.0, "server", capacity=capacity, **server)
    tell(4.0, "end", tasks=[[1, 0, 1, 0, ""]])
    journal.save(journal.seq, [state.snapshot()])
    journal.delete_old(2.5)
    journal.close()
    workload = read_journal(tmp_path / "journal.db")
    for policy in (LIVE, "fifo/first-fit"):
        log = replay_journal(workload, policy)
        assert [workload.cluster.groups[number] for number in log.server] == ["a"]
        assert (log.start.tolist(), log.end.tolist()) == ([1.0], [4.0])
        check_room(workload, log)


def test_a_modified_job_of_the_first_state_has_its_last_request(tmp_path: Path) -> None:
    """Events are deleted up to 1 s; then the waiting job's tasks ask for both cores."""
    journal, state, tell = recorder(tmp_path / "journal.db")
    capacity = {"cpu": 2.0, "memory": 8.0, "gpu": 0.0}
    tell(0.0, "server", name="a", capacity=capacity, labels={}, identity="1")
    tell(0.0, "submit", jobs=[a_job(demand={"cpu": 2.0}), a_job(tasks=2)])
    tell(1.0, "place", limit=9)
    journal.save(journal.seq, [state.snapshot()])
    tell(2.0, "modify", job=2, changes={"demand": {"cpu": 2.0}})
    tell(3.0, "end", tasks=[[1, 0, 1, 0, ""]])
    tell(3.0, "place", limit=9)
    tell(5.0, "end", tasks=[[2, 0, 1, 0, ""]])
    tell(5.0, "place", limit=9)
    tell(7.0, "end", tasks=[[2, 1, 1, 0, ""]])
    journal.save(journal.seq, [state.snapshot()])
    journal.delete_old(1.5)
    journal.close()
    workload = read_journal(tmp_path / "journal.db")
    log = replay_journal(workload, "fifo/first-fit")
    assert log.start.tolist() == [1.0, 3.0, 5.0]
    check_room(workload, log)


def test_a_task_that_starts_after_the_last_event_ends(tmp_path: Path) -> None:
    """Bo's task starts at the journal's last time: by preemption, and in the replay by a place."""
    journal, state, tell = recorder(tmp_path / "journal.db")
    tell_preemption(tell)
    (victim,) = [key for run in state.jobs[2].running.values() for key in run.awaits]
    tell(5.0, "end", tasks=[[*victim, 143, ""]])
    journal.close()
    workload = read_journal(tmp_path / "journal.db")
    log = replay_journal(workload, "fifo/first-fit")
    (bo,) = np.flatnonzero(log.task == 2)
    assert (log.start[bo], log.end[bo]) == (5.0, 5.0 + workload.task_duration[2])


def test_a_policy_without_preemption_stops_no_task(tmp_path: Path) -> None:
    """The service preempted one of ana's tasks from 1 s, at 4 s; later it ran for 6 s."""
    journal, state, tell = recorder(tmp_path / "journal.db")
    tell_preemption(tell)
    (victim,) = [key for run in state.jobs[2].running.values() for key in run.awaits]
    tell(4.0, "end", tasks=[[*victim, 143, ""]])
    tell(5.0, "end", tasks=[[2, 0, 1, 0, ""]])
    tell(5.0, "place", limit=9)
    other = [1, 1 - victim.index, 1, 0, ""]
    tell(11.0, "end", tasks=[[1, victim.index, 2, 0, ""], other])
    journal.close()
    log = replay_journal(read_journal(tmp_path / "journal.db"), "fifo/first-fit")
    runs = zip(log.start.tolist(), log.end.tolist(), log.lost.tolist(), strict=True)
    assert sorted(runs) == [(1.0, 7.0, False), (1.0, 11.0, False), (7.0, 8.0, False)]


def check_room(workload: JournalWorkload, log: fairlead.RunLog) -> None:
    """Assert that no server holds more than it has, at any start."""
    sets = np.repeat(np.arange(workload.n_sets), workload.set_tasks)
    demand = workload.shapes[workload.set_shape[sets[log.task]]]
    for start, server in zip(log.start, log.server, strict=True):
        there = (log.server == server) & (log.start <= start) & (log.end > start)
        assert (demand[there].sum(axis=0) <= workload.cluster.capacity[server] + 1e-9).all()


def test_a_journal_is_a_trace_like_others(write: Write) -> None:
    written = write(1)
    before = written.path.read_bytes()
    workload, found = read_workload(written.path)
    assert found == "journal of a service"
    outcomes = fairlead.simulate(
        written.path, [LIVE, "ps-dsf/joint", "slots:4", "recorded"], processes=1
    )
    assert list(outcomes) == [LIVE, "ps-dsf/joint", "slots:4", "recorded"]
    changed = fairlead.simulate(written.path, LIVE, what_if="weight:ana=3", processes=1)
    assert len(changed) == 2
    assert not isinstance(changed[LIVE].workload, JournalWorkload)
    assert workload.n_tasks == outcomes[LIVE].workload.n_tasks
    assert written.path.read_bytes() == before


def test_reading_it_names_the_packages_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Written(tmp_path, 1, events=5)
    monkeypatch.delitem(sys.modules, "fairlead.service.journal.event_journal")
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(InputError, match=r"needs sqlalchemy: .*'\.\[serve\]'"):
        read_workload(written.path)


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    import sqlite3

    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE things (a)")
    with pytest.raises(InputError, match="no journal of fairlead serve"):
        read_workload(other)
    empty = tmp_path / "empty.db"
    Journal(empty).close()
    with pytest.raises(InputError, match="holds no job"):
        read_workload(empty)
