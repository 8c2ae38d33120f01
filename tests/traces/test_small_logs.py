"""The small logs are what their generator writes, and hold what makes real logs hard to read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import small_logs
from fairlead.model.workload import Workload
from fairlead.traces import _openb, _swf, google, metacentrum
from fairlead.traces.readers import read_workload


def content(path: Path) -> bytes:
    """The content of a file; the size of its gzip file differs between machines."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def test_examples_equal_the_generator(tmp_path: Path) -> None:
    small_logs.write_all(tmp_path)
    written = {path.relative_to(tmp_path): content(path) for path in tmp_path.rglob("*.*")}
    kept = {
        path.relative_to(small_logs.FOLDER): content(path)
        for path in small_logs.FOLDER.rglob("*.*")
    }
    assert written == kept
    assert len(kept) == 13


def of(path: Path) -> Workload:
    return read_workload(path)[0]


@pytest.mark.parametrize(
    ("path", "notes"),
    [
        (
            small_logs.METACENTRUM,
            (
                metacentrum.NEVER_RAN,
                metacentrum.NODE_EXCLUDED,
                metacentrum.WHOLE_NODES,
            ),
        ),
        (
            small_logs.LAB,
            (_swf.NEVER_RAN, _swf.ROUNDED_UP, _swf.NO_USER),
        ),
        (
            small_logs.OPENB,
            (_openb.NEVER_SCHEDULED, _openb.NO_LIFE, _openb.NO_MEMORY, _openb.SHARED_GPU),
        ),
        (
            small_logs.GOOGLE,
            (google.EARLIER_ATTEMPTS, google.NEVER_RAN, google.LAST_ATTEMPT.format("killed")),
        ),
    ],
    ids=["metacentrum", "lab", "openb", "google"],
)
def test_notes_of_odd_records(path: Path, notes: tuple[str, ...]) -> None:
    found = of(path).notes
    assert {note: found.get(note, 0) for note in notes if not found.get(note)} == {}


def test_gangs_constraints_and_machines_that_come_and_go() -> None:
    metacentrum, tables, park = map(
        of, (small_logs.METACENTRUM, small_logs.OPENB, small_logs.GOOGLE)
    )
    assert metacentrum.job_gang.any()
    for workload in (metacentrum, tables, park):
        assert not workload.places[workload.set_place].all()
    assert tables.set_too_large.any()
    assert {0, 1} <= set(park.server_event.tolist())
    assert park.there_at_start.sum() < park.n_servers
