"""Snapshots: the same events give the same bytes, also after a restore in between."""

from __future__ import annotations

from hashlib import sha256

import pytest

from fairlead.errors import InputError
from fairlead.scheduler.scheduler import Scheduler
from scheduler.consistency import check


def busy() -> Scheduler:
    s = Scheduler(["cpu", "memory"], "drf/best-fit", {"cpu": 10**400 / 10**399}, seed=7)
    for name in ("a", "ä\U0001f600", "c"):
        s.add_server(name, {"cpu": 40, "memory": 4}, labels={"zone": name})
    s.add_queue("ana", 3)
    s.add_queue("bo")
    s.submit("ana", {"cpu": 10, "memory": 1}, 9, where={"zone": "a"}, attempts=2)
    s.submit("ana", {"cpu": 10, "memory": 1}, 9, where=["c", "nobody"])
    s.submit("bo", {"cpu": 99}, 3)
    for placement in s.place()[:2]:
        s.fail(placement.task)
    s.remove_server("ä\U0001f600")
    return s


def test_the_same_events_give_the_same_bytes() -> None:
    data = busy().snapshot()
    assert data == busy().snapshot()
    restored = Scheduler.restore(bytearray(data))
    check(restored)
    assert restored.snapshot() == data
    a, b = busy(), restored
    assert a.place() == b.place()
    for s in (a, b):
        s.add_server("ä\U0001f600", {"cpu": 400, "memory": 90})
        s.submit("ana", {"cpu": 10}, 3)
    assert a.place() == b.place()
    assert a.snapshot() == b.snapshot() != data


def test_the_server_that_is_cut_into_slots_is_kept() -> None:
    s = Scheduler(["cpu"], "slots:4", largest={"cpu": 8})
    s.add_server("a", {"cpu": 2})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 0.5}, 4)
    again = Scheduler.restore(s.snapshot())
    assert len(again.place()) == len(s.place()) == 1
    assert again.snapshot() == s.snapshot()


def test_wrong_snapshots_are_refused_in_one_line() -> None:
    data = busy().snapshot()
    head = data.index(b"\n")
    cut = [data[:k] for k in (0, 5, head, head + 1, head + 99, len(data) // 2, len(data) - 1)]
    flipped = [
        data[:k] + bytes([data[k] ^ 1]) + data[k + 1 :]
        for k in range(0, len(data), len(data) // 97)
    ]
    later = data.replace(b'"version":', b'"version":9')
    digest = sha256(b"{}").hexdigest().encode()
    empty = data[: data.index(b'"sha256":')] + b'"sha256":"' + digest + b'"}\n{}\n'
    for wrong in [*cut, *flipped, later, empty, data + b"x", data.decode(), None, 5, [data]]:
        with pytest.raises(InputError, match=r"^data: ") as caught:
            Scheduler.restore(wrong)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
