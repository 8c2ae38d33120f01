"""Orders of a false service are refused; those of a later version are understood."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from fairlead.service.engines.protocol import Orders, first_fault
from fairlead.service.worker._attempts import folder_name

KEY = [7, 0, 1]
JOB = {"user": "ana", "command": ["true"], "environment": {}, "directory": "/", "tasks": 1}
NONE: dict[str, Any] = {"seen": 0, "start": [], "stop": [], "logs": [], "jobs": {}}
START = ["a", KEY, {"cpu": 1.0, "gpu": 0}, None]
GOOD = NONE | {"seen": 1, "start": [START], "jobs": {"7": JOB}}


def started(*changes: object) -> dict[str, Any]:
    """Return orders whose start begins with other parts than the right ones."""
    return GOOD | {"start": [START, [*changes, *START[len(changes) :]]]}


def spec(**changes: object) -> dict[str, Any]:
    return GOOD | {"jobs": {"7": JOB | changes}}


MALFORMED = {
    "nothing": None,
    "a list": [],
    "a part": {"seen": 0},
    "a path in a key": started("a", ["../../x", 0, 1]),
    "text of digits in a key": started("a", ["7", 0, 1]),
    "a fraction in a key": started("a", [7.5, 0, 1]),
    "a flag in a key": started("a", [True, 0, 1]),
    "a job below 1": started("a", [0, 0, 1]),
    "a job too large": started("a", [2**53 + 1, 0, 1]),
    "an index below 0": started("a", [7, -1, 1]),
    "an index too large": started("a", [7, 10**6 + 1, 1]),
    "an attempt below 1": started("a", [7, 0, 0]),
    "an attempt too large": started("a", [7, 0, 2**31 + 1]),
    "a key of two": started("a", [7, 0]),
    "a key of four": started("a", [7, 0, 1, 1]),
    "no demand": started("a", KEY, None),
    "less than nothing": started("a", KEY, {"cpu": -1.0}),
    "an amount too large": started("a", KEY, {"cpu": 1e10}),
    "an amount as text": started("a", KEY, {"cpu": "1"}),
    "a limit of 0": started("a", KEY, {}, 0.0),
    "a name too long": started("a" * 201),
    "a slash in a name": started("a/b"),
    "no command": spec(command=[]),
    "a command that is text": spec(command="rm -rf /"),
    "a word with a zero": spec(command=["a\0b"]),
    "a user with a slash": spec(user="../root"),
    "no user": spec(user=None),
    "a directory that is a number": spec(directory=5),
    "an environment of numbers": spec(environment={"A": 1}),
    "tasks below 1": spec(tasks=0),
    "a job's id that is none": GOOD | {"jobs": {"../7": JOB}},
    "a stop of a path": GOOD | {"stop": [["a", ["../../x", 0, 1], "why"]]},
    "a stop for a number": GOOD | {"stop": [["a", KEY, 5]]},
    "a reason too long": GOOD | {"stop": [["a", KEY, "x" * 1001]]},
    "logs of another file": GOOD | {"logs": [["q", "a", KEY, "../record", 0]]},
    "logs before the begin": GOOD | {"logs": [["q", "a", KEY, "stdout", -1]]},
    "no number of what was seen": GOOD | {"seen": "1"},
}


@pytest.mark.parametrize("orders", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_orders_are_refused(orders: object) -> None:
    with pytest.raises(ValidationError):
        Orders.model_validate(orders)


def test_a_fault_names_its_place() -> None:
    with pytest.raises(ValidationError) as fault:
        Orders.model_validate(MALFORMED["a path in a key"])
    assert first_fault(fault.value).startswith("start.1.1.0: ")


@pytest.mark.parametrize("key", [("../../x", 0, 1), (1, 0, True), (1, 0), (-1, 0, 1), (1.0, 0, 1)])
def test_a_path_is_of_three_numbers(key: Any) -> None:
    with pytest.raises(ValueError, match="three numbers"):
        folder_name(key)


def test_fields_of_a_later_version_are_ignored() -> None:
    later = GOOD | {"later": 1, "jobs": {"7": JOB | {"name": "x", "later": 2}}}
    assert Orders.model_validate(later) == Orders.model_validate(GOOD)
