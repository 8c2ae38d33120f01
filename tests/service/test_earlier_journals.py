"""Journals of an earlier version are refused by a service, and read as traces."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic_core import from_json, to_json

from asked_service import change
from fairlead.cli.main import run
from fairlead.errors import InputError
from fairlead.service._state_snapshot import HEAD, split_snapshot
from fairlead.service.journal.event_journal import (
    Batch,
    Journal,
    digest_of_placements,
    reading,
)
from fairlead.service.service_state import ServiceState
from fairlead.traces.journal_trace import JournalWorkload, read_journal
from service.test_state import a_job

POLICY = "drf/first-fit"
HAS_ALL = {"cpu": 4.0, "memory": 4.0, "gpu": 0.0}
SERVERS = [("server", {"name": n, "capacity": HAS_ALL, "labels": {}}) for n in "ab"]
EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("policy", {"policy": POLICY, "seed": 0}),
    *((kind, body | {"identity": "1"}) for kind, body in SERVERS),
    ("submit", {"jobs": [a_job(tasks=2), a_job(user="bo")]}),
    ("place", {"limit": 100}),
    ("end", {"tasks": [[1, 0, 1, 0, ""]]}),
    ("submit", {"jobs": [a_job(user="cy")]}),
    ("place", {"limit": 100}),
    ("end", {"tasks": [[2, 0, 1, 0, ""]]}),
]


def write(path: Path, saved: Sequence[int] = (9,), elsewhere: str = "b") -> Path:
    """Write events as the earlier version did, with starts on the server `elsewhere`."""
    journal, state = Journal(path), ServiceState(POLICY)
    snapshots = {}
    for seq, (kind, body) in enumerate(EVENTS, 1):
        outcome = state.apply(kind, dict(body), float(seq))
        placed = {"placed": 1 + digest_of_placements(outcome)} if kind == "place" else {}
        batch = Batch()
        batch.add(float(seq), kind, to_json(body | placed))
        journal.commit(batch, state.take_effects())
        if seq in saved:
            snapshots[seq] = earlier_snapshot(state, elsewhere)
    for seq, data in snapshots.items():
        journal.save(seq, [data])
    journal.close()
    change(
        path,
        "UPDATE meta SET value = '1' WHERE key = 'format'",
        f"UPDATE attempts SET server = '{elsewhere}'",
    )
    return path


def earlier_snapshot(state: ServiceState, elsewhere: str) -> bytes:
    """Return a snapshot of the earlier version, with the first of the scheduler's tables."""
    part, _ = split_snapshot(state.snapshot())
    part["version"] = 1
    for row in part["running"]:
        row[5] = elsewhere
    ours = to_json(part)
    scheduler = to_json({"policy": POLICY, "seed": 0, "resources": state.resources, "queues": []})
    mark = b"fairlead scheduler snapshot\n" + (6).to_bytes(8, "little")
    theirs = mark + len(scheduler).to_bytes(8, "little") + scheduler + bytes(64)
    return len(ours).to_bytes(HEAD, "big") + ours + theirs


def starts(path: Path) -> list[tuple[str, str, float]]:
    """Return the job, server and time of each start that is read, in the order of tasks."""
    workload = read_journal(path)
    assert not isinstance(workload, JournalWorkload)
    jobs = np.repeat(workload.set_job, workload.set_tasks)
    names = [workload.cluster.groups[server] for server in workload.task_server]
    return [
        (str(workload.job_names[job]), name, float(start))
        for job, name, start in zip(jobs, names, workload.task_start, strict=True)
    ]


def test_serve_refuses_it_and_simulate_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "old.db")
    before = path.read_bytes()
    with pytest.raises(InputError, match="start that version once and stop it"):
        Journal(path)
    assert path.read_bytes() == before
    assert run(["simulate", str(path), "--policy", "fifo/first-fit", "--json"]) == 0
    assert from_json(capsys.readouterr().out)["policies"]["fifo/first-fit"]["tasks"] == 4


def test_tasks_start_where_they_were_recorded(tmp_path: Path) -> None:
    path = write(tmp_path / "old.db")
    assert starts(path) == [("1", "b", 4.0), ("1", "b", 4.0), ("2", "b", 4.0), ("3", "b", 7.0)]


def test_a_start_known_to_no_row_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "old.db", saved=())  # as if the service was killed
    assert [at for _, _, at in starts(path)] == [4.0, np.inf, 4.0, np.inf]


def test_a_trace_begins_behind_deleted_events(tmp_path: Path) -> None:
    path = write(tmp_path / "old.db", saved=(6, 9))
    change(path, "DELETE FROM events WHERE seq <= 5")
    assert [job for job, _, _ in starts(path)] == ["1", "2", "3"]


def test_a_start_that_cannot_be_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "old.db", elsewhere="c")
    with pytest.raises(InputError, match=r"old.db: event 5: .* on 'c'"):
        read_journal(path)


def test_without_digests_it_is_to_be_started_once(tmp_path: Path) -> None:
    path = write(tmp_path / "old.db")
    change(path, "ALTER TABLE events DROP COLUMN digest")
    with pytest.raises(InputError, match="start that version once"):
        read_journal(path)


def test_without_events_it_is_to_be_started_once(tmp_path: Path) -> None:
    path = write(tmp_path / "old.db")
    change(path, "DROP TABLE events")
    with pytest.raises(InputError, match="start that version once"):
        read_journal(path)


def test_a_snapshot_without_a_scheduler_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "old.db", saved=(6,))
    with reading(path) as journal:
        ((_, whole),) = journal.snapshots.sound()
    ours = whole[: len(whole) - len(split_snapshot(whole)[1])]
    change(path, "UPDATE meta SET value = '2'")
    with closing(Journal(path)) as journal:
        journal.save(6, [ours])
    change(path, "UPDATE meta SET value = '1'", "DELETE FROM events WHERE seq <= 5")
    with pytest.raises(InputError, match="no snapshot is left"):
        read_journal(path)
