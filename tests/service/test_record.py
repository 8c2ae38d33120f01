"""An attempt's record: written fields are read again, wherever a full disk cut the file off."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.service.worker._attempts import (
    RECORD,
    AttemptEnd,
    Leader,
    Record,
    append_field,
    read_record,
    write_record,
)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    made = Record(key=(7, 0, 1), devices=[2], time_limit=9.5, memory=2e9, boot="b", submitted=1.5)
    write_record(tmp_path, made)
    return made


def test_fields_come_back(tmp_path: Path, record: Record) -> None:
    assert read_record(tmp_path) == record
    record.leader, record.stop = Leader(31, 7), "time limit"
    record.ended, record.is_reported = AttemptEnd(None, "it vanished\nhere"), True
    for field in ("leader", "stop", "ended", "is_reported"):
        append_field(tmp_path, record, field)
    assert read_record(tmp_path) == record


@pytest.mark.parametrize("cut", ["\n", '\n{"sto', "\n[]", '\n{"key": 5}'])
def test_a_damaged_line_hides_no_other(tmp_path: Path, record: Record, cut: str) -> None:
    with (tmp_path / RECORD).open("a") as file:
        file.write(cut)
    record.leader = Leader(31, 7)
    append_field(tmp_path, record, "leader")
    assert read_record(tmp_path) == record
