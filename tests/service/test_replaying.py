"""Events told together are events told one by one."""

from __future__ import annotations

import random
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import InputError
from fairlead.scheduler.foretold import WIDTH, Foretold
from fairlead.service import replaying
from fairlead.service.jobs import Effects
from fairlead.service.replaying import Retelling, digest_of_placements, tell
from fairlead.service.state import ServiceState
from service.test_state import a_job, drive

Event = tuple[int, float, str, dict[str, Any]]
PATH = Path("journal.db")


class Events:
    """Events as a journal has them."""

    def __init__(self) -> None:
        self.listed: list[Event] = []

    def note(self, now: float, kind: str, body: dict[str, Any], outcome: Any, _: Effects) -> None:
        body = deepcopy(body)
        if kind == "place":
            body["placed"] = digest_of_placements(outcome)
        self.listed.append((len(self.listed) + 1, now, kind, body))


def servers(events: Events, state: ServiceState, **cpus: float) -> None:
    for name, cpu in cpus.items():
        capacity = {"cpu": cpu, "memory": 8.0, "gpu": 2.0}
        body = {"name": name, "capacity": capacity, "labels": {}, "identity": "1"}
        state.apply("server", body, 0.0)
        events.note(0.0, "server", body, None, Effects())


def alone(policy: str, events: list[Event]) -> bytes:
    state = ServiceState(policy)
    for seq, now, kind, body in deepcopy(events):
        tell(state, kind, body, now, PATH, seq)
    return state.snapshot()


def together(policy: str, events: list[Event]) -> bytes:
    state = ServiceState(policy)
    replay = Retelling(state, PATH, replaying.FEW)
    for event in deepcopy(events):
        replay.tell(*event)
    replay.finish()
    state.check()
    return state.snapshot()


@pytest.fixture
def foretold(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps were carried out by each call."""
    sizes: list[int] = []
    carry_out = Foretold.carry_out

    def noted(self: Foretold) -> None:
        sizes.append(len(self._steps) // WIDTH)
        carry_out(self)

    monkeypatch.setattr(Foretold, "carry_out", noted)
    return sizes


@pytest.mark.parametrize("at_once", [2, 100])
@pytest.mark.parametrize(
    ("policy", "gangs"),
    [
        ("drf/best-fit", 0.0),
        ("drf/best-fit", 0.3),
        ("ps-dsf/first-fit", 0.0),
        ("ps-dsf/first-fit", 0.3),
        ("tsf/best-fit", 0.3),
        ("slots:4", 0.0),  # a gang that never starts is not always said to
        ("fifo/first-fit", 0.3),
    ],
)
def test_random_events_give_the_same_state(
    policy: str, gangs: float, at_once: int, monkeypatch: pytest.MonkeyPatch, foretold: list[int]
) -> None:
    monkeypatch.setattr(replaying, "AT_ONCE", at_once)
    for seed in range(4):
        events = Events()
        servers(events, ServiceState(policy), a=4, b=2)
        drive(policy, seed, 200, (0.0, 0.5, 3.0), events.note, checks=False, gangs=gangs)
        assert together(policy, events.listed) == alone(policy, events.listed)
    assert (sum(foretold) > 200) == (policy != "fifo/first-fit")  # whose cycle is another


@pytest.fixture(scope="module")
def crowd() -> list[Event]:
    """More users than are looked through one by one, more tasks than there are rows at first."""
    rng, events, state = random.Random(1), Events(), ServiceState("drf/best-fit")
    servers(events, state, **{f"s{n}": 16.0 for n in range(10)})
    running: list[Any] = []
    for n in range(3000):
        now, ends = float(n), n % 3 == 2 and len(running) > 50
        kind, body = "place", {"limit": 50}
        if n % 3 == 0 or n < 900:
            cpu = rng.choice([1.0, 2.0, 8.0])
            kind = "submit"
            body = {"jobs": [a_job(f"u{rng.randrange(600)}", tasks=2, demand={"cpu": cpu})]}
        elif ends:
            kind = "end"
            body = {"tasks": [[*running.pop(rng.randrange(50)).key, 0, ""] for _ in range(2)]}
        outcome = state.apply(kind, deepcopy(body), now)
        events.note(now, kind, body, outcome, state.take_effects())
        if kind == "place":
            running += outcome
    assert state.core._trees is not None
    return events.listed


def test_a_crowd_gives_the_same_state(crowd: list[Event], foretold: list[int]) -> None:
    assert together("drf/best-fit", crowd) == alone("drf/best-fit", crowd)
    assert max(foretold) > 20
    assert sum(foretold) > 1000


def test_an_event_that_differs_is_named(crowd: list[Event]) -> None:
    damaged = deepcopy(crowd)
    places = [event for event in damaged if event[2] == "place"]
    seq, _, _, body = places[len(places) // 2]
    body["placed"] += 1
    with pytest.raises(InputError, match=rf"event {seq}: places other tasks"):
        together("drf/best-fit", damaged)


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("submit", {"jobs": [a_job("u1", tasks=0)]}),
        ("submit", {"jobs": [a_job("u1", tasks=10**30)]}),
        ("submit", {"jobs": [a_job("u1", tasks="1")]}),
        ("submit", {"jobs": [a_job("u1", time_limit=-1.0)]}),
        ("submit", {"jobs": 3}),
        ("place", {"limit": 1.5}),
        ("place", {}),
        ("end", {"tasks": [[1, 0]]}),
    ],
)
def test_an_event_that_cannot_be_is_named(
    kind: str, damage: dict[str, Any], crowd: list[Event]
) -> None:
    damaged = deepcopy(crowd)
    seq, _, _, body = [event for event in damaged if event[2] == kind][-5]
    body.clear()
    body.update(deepcopy(damage))
    with pytest.raises(InputError, match=rf"event {seq}: cannot be carried out again"):
        together("drf/best-fit", damaged)
