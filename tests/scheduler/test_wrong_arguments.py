"""Arguments that are malformed, unknown or gone are refused, and change nothing."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from fairlead.errors import InputError
from fairlead.scheduler.scheduler import Scheduler

NUMBERS = [nan, inf, -1, -0.5, 2**63, 10**400, "1", True, 1j, [1]]
TIMES = [nan, inf, "0", True, 10**400]
WEIGHTS = [nan, inf, -1, "1", None, True, 1j, [1], 10**200, 1e-200]
AMOUNTS = [*({"cpu": wrong} for wrong in NUMBERS), 5, "cpu", {"disk": 1}, [1, 1]]
WHOLE = [-1, 1.5, 2**62 + 1, 10**400, "1", True, nan]
IDS = [-1, 2**62 + 7, -(2**63), 1.5, nan, "nobody", None, True, [1], {}, 99]
NAMES = ["", 0, -1, 2**63, None, nan, True, ["a"], b"a", "nobody"]
NEW_NAMES = [*NAMES[:-1], "a\nb", "b\x00", "x\x7f", "\ud800"]
LABELS = [{"zone": 1}, {1: "a"}, {"": "a"}, {"zone": "a\tb"}, 5, "zone", ["zone"]]
WHERE = ["", "a", [], [1], [""], 5, {"zone": None}, {"zone": ["a"]}, {"zo\tne": "x"}]
MEMBERS = [[], 5, [5], [()], ["ab"], "ab", [({"cpu": 1},)], {"cpu": 1}]
ONE = {"cpu": 1}
GROUP, TASK = 0, 1  # ids in `refusing`
# Methods, valid arguments, and for each of these, arguments that are refused in its place.
CALLS: list[tuple[str, list[Any], list[list[Any]]]] = [
    ("add_server", ["b", ONE, None, 0], [[*NEW_NAMES, "a"], AMOUNTS, LABELS, WHOLE[1:]]),
    ("set_server", ["a", ONE, None], [NAMES, AMOUNTS, LABELS]),
    ("drain", ["a"], [NAMES]),
    ("undrain", ["a"], [NAMES]),
    ("remove_server", ["a"], [NAMES]),
    ("add_queue", ["z", 1, "team"], [[*NEW_NAMES, "n"], WEIGHTS, [*NAMES[5:], "n"]]),
    ("set_weight", ["n", 1], [NAMES, WEIGHTS]),
    ("set_limit", ["n", ONE, 1], [NAMES, AMOUNTS, WHOLE]),
    ("set_quota", ["n", ONE, None], [NAMES, AMOUNTS, WHERE]),
    ("remove_queue", ["m"], [[*NAMES, "n", "team"]]),
    ("submit", ["n", ONE, 1], [[*NAMES, "team"], [*AMOUNTS, None, {}], [0, *WHOLE, 2**62]]),
    ("submit_gang", ["n", [(ONE, 1)]], [NAMES, MEMBERS]),
    ("set_priority", [GROUP, 0], [IDS, WHOLE[1:]]),
    ("cancel", [GROUP], [IDS]),
    ("finish", [TASK], [IDS]),
    ("fail", [TASK], [IDS]),
    ("evict", [TASK], [IDS]),
    ("devices", [TASK], [IDS]),
    ("assume", [GROUP, "a", 0.0], [IDS, NAMES, TIMES]),
    ("place", [0.0, 0], [[*TIMES, None], WHOLE]),
    ("explain", [GROUP, 0.0, 1], [IDS, TIMES, [0, *WHOLE]]),
    ("unplaceable_groups", [1], [[0, *WHOLE]]),
]
OPTIONS = {
    "now": [*TIMES, None],
    "priority": [0.5, "1", None, 2**63, True],
    "where": WHERE,
    "attempts": [0, *WHOLE],
    "time_limit": [0, -1, nan, inf, "1", True, 10**400, Fraction(1, 10**400)],
}


def refusing(policy: str = "drf/first-fit") -> Scheduler:
    s = Scheduler(["cpu"], policy)
    s.add_server("a", {"cpu": 4})
    for name, parent in (("n", None), ("m", None), ("team", None), ("q", "team")):
        s.add_queue(name, 1, parent)
    assert s.submit("n", {"cpu": 1}, 2) == GROUP
    assert [start.task for start in s.place(0.0, 1)] == [TASK]
    return s


@pytest.mark.parametrize(("event", "valid", "wrong"), CALLS, ids=[call[0] for call in CALLS])
def test_wrong_arguments_change_nothing(
    event: str, valid: list[Any], wrong: list[list[Any]]
) -> None:
    s = refusing()
    before = s.snapshot()
    for at, values in enumerate(wrong):
        for value in values:
            with pytest.raises(InputError):
                getattr(s, event)(*valid[:at], value, *valid[at + 1 :])
            assert s.snapshot() == before
    getattr(s, event)(*valid)


@pytest.mark.parametrize("option", OPTIONS)
def test_wrong_options_change_nothing(option: str) -> None:
    s = refusing()
    before = s.snapshot()
    for value in OPTIONS[option]:
        with pytest.raises(InputError):
            s.submit("n", {"cpu": 1}, **{option: value})
        with pytest.raises(InputError):
            s.submit_gang("n", [({"cpu": 1}, 2)], **{option: value})
        assert s.snapshot() == before


@pytest.mark.parametrize(
    "wrong",
    [
        *({"resources": wrong} for wrong in ("cpu", [], ["cpu", "cpu"], [1], ["c\x1bpu"])),
        *({"quanta": {"cpu": wrong}} for wrong in (0, *NUMBERS[:4], *NUMBERS[6:])),
        *({"quanta": wrong} for wrong in (5, "cpu", {"disk": 1}, [1, 1])),
        *({"seed": wrong} for wrong in WHOLE),
        *({"strict_fifo": wrong} for wrong in (0, None, "yes")),
        *({"refuse_seconds": wrong} for wrong in (*NUMBERS[:4], 0, None)),
        *({"devices": wrong} for wrong in (["disk"], ["cpu", "cpu"], [1], "cpu", 0, "", {}, None)),
        *({"devices": ["cpu"], "quanta": {"cpu": part}} for part in (0.3, 2.0**-63)),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Scheduler(**{"resources": ["cpu"], "policy": "drf/first-fit", **wrong})


@pytest.mark.parametrize("amount", [2**62, 1e298, 1e308, 10**400])
def test_past_use_beyond_any_holding_is_refused(amount: float) -> None:
    with pytest.raises(InputError):
        refusing("drf/first-fit/half-life:60").set_past_use("n", {"cpu": amount})


def test_numbers_of_numpy_are_plain_numbers() -> None:
    s = refusing()
    s.add_queue("z", np.int64(2))
    s.set_limit("z", {"cpu": np.uint8(3)}, np.int32(9))
    s.submit("z", {"cpu": np.int8(1)}, np.int64(5), now=np.float32(1))
    s.add_server("b", {"cpu": np.int64(2**30)})
    assert [start.queue for start in s.place(2.0)] == ["z", "z", "n", "z"]
