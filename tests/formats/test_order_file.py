"""The order of placements as comma-separated values."""

from __future__ import annotations

import csv

import numpy as np

from fairlead.formats.order_file import order_text
from fairlead.model.problem import Problem

PROBLEM = Problem.from_arrays(
    [[4], [1], [2]],
    [[1], [1]],
    count=[2, 1, 3],
    groups=["big", 'odd, "name"', "old"],
    users=["ana", "bo 'hus"],
)


def test_servers_are_counted_within_their_group() -> None:
    order = np.array([[0, 0], [1, 1], [0, 2], [1, 3], [0, 5]])
    rows = list(csv.DictReader(order_text(PROBLEM, order, {}).splitlines(keepends=True)))
    assert [row["step"] for row in rows] == ["1", "2", "3", "4", "5"]
    assert [row["user"] for row in rows] == ["ana", "bo 'hus", "ana", "bo 'hus", "ana"]
    assert [row["group"] for row in rows] == ["big", "big", 'odd, "name"', "old", "old"]
    assert [row["server"] for row in rows] == [
        "big-0", "big-1", 'odd, "name"-0', "old-0", "old-2",
    ]  # fmt: skip


def test_devices_of_a_task_are_listed() -> None:
    text = order_text(PROBLEM, np.array([[0, 0], [1, 1]]), {"gpu": [[0, 1], []]})
    rows = list(csv.DictReader(text.splitlines(keepends=True)))
    assert [row["gpu_devices"] for row in rows] == ["0 1", ""]
