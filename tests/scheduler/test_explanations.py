"""Why a group waits: as found by trying every server and every change on a rebuilt state."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis.stateful import rule
from test_open_core import POLICIES, OfShortRefusals, WithManyGangs

from fairlead.errors import InputError
from fairlead.scheduler import cycle, explain, shape_units
from fairlead.scheduler.explain import NAMED, Miss, Reservation, _Question
from fairlead.scheduler.scheduler import Scheduler
from open_core_machine import DECIMAL, WHICH, Id, drive, machine_for
from oracles import plain_explaining

MANY = 2000


class Explaining(WithManyGangs):
    """Groups are asked why they wait, between all other events."""

    @rule(group=WHICH)
    def explain(self, group: int) -> None:
        key = self.id_of("group", group)
        plain = self.plain.groups.get(key.plain) if isinstance(key, Id) else None
        if plain is not None:
            self.explain_one(key, plain)
            return
        with pytest.raises(InputError):
            self.real.explain(key.real if isinstance(key, Id) else key)
        self.seen["refused to explain"] += 1

    def place(self, limit: Any, now: Any = None) -> None:
        super().place(limit, now)
        waiting = [key for key in self.groups if key.plain in self.plain.groups]
        if waiting:
            key = waiting[len(self.tasks) % len(waiting)]
            self.explain_one(key, self.plain.groups[key.plain])

    def explain_one(self, key: Any, plain: Any) -> None:
        if self.real._waiting > MANY:
            return  # each of some twenty trials would place them all, uncompiled
        before = self.snapshot(self.real)
        got = self.real.explain(key.real)
        assert self.snapshot(self.real) == before
        self.real.check()
        state = "pending" if plain.waits() else "running"
        assert (got.group, got.waiting, got.state) == (key.real, plain.waits(), state)
        assert json.loads(json.dumps(got.to_dict()))["state"] == state
        assert str(got)
        if plain.waits():
            self.compare(got, plain_explaining.explained(self.plain, plain, self.plain.now))

    def compare(self, got: Any, expected: Any) -> None:
        assert (got.allowed, got.open, got.fitting) == expected[:3]
        if not self.plain.slots:
            assert got.lacking == expected.lacking
            if self.profile is DECIMAL:
                assert [m.server for m in got.nearest] == expected.nearest[:NAMED]
        assert got.starts == expected.starts
        assert got.never == expected.never
        found = [(c.kind, c.of, c.starts) for c in got.would_change]
        assert found == [(kind, of, starts) for kind, of, _, starts in expected.changes]
        for change, (_, _, to, _) in zip(got.would_change, expected.changes, strict=True):
            assert to is None or change.to == pytest.approx(float(to), rel=1e-12)
        if not got.starts:
            held = got.reservation
            assert (held and (held.queue, held.at, list(held.servers))) == expected.reservation
            self.seen["reservations"] += held is not None
        if expected.ahead is not None and self.profile is DECIMAL:
            assert [a.queue for a in got.ahead] == expected.ahead
            assert got.n_ahead == len(expected.ahead)
            self.seen["ahead"] += len(expected.ahead)
        self.seen["starts" if got.starts else "waits"] += 1
        self.seen[f"held by {got.held_by}"] += 1
        self.seen["never"] += got.never
        for change in got.would_change:
            self.seen[f"{change.kind} {'helps' if change.starts else 'does not help'}"] += 1


EACH_KERNEL = ["drf/best-fit", "ps-dsf/first-fit", "slots:3", "fifo/first-fit", "drf/rrr/oblivious"]
EACH_KERNEL += ["easy/first-fit", "ps-dsf/joint", "drf/best-fit-first", "tsf/best-fit/residual"]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", EACH_KERNEL)
def test_an_explanation_is_what_trying_everything_finds(policy: str) -> None:
    machine = machine_for(policy, OfShortRefusals, Explaining)
    seen = drive(machine, examples=6, steps=15, shrink=False)
    assert seen["waits"] >= 4


def full(policy: str = "drf/best-fit", **options: Any) -> Scheduler:
    """Return servers a and b that bo's tasks fill."""
    s = Scheduler(["cpu", "memory"], policy, **options)
    s.add_server("a", {"cpu": 4, "memory": 8}, {"gpu": "T4"})
    s.add_server("b", {"cpu": 8, "memory": 8})
    for name in ("ana", "bo"):
        s.add_queue(name)
    s.submit("bo", {"cpu": 1.5, "memory": 1}, 20)
    s.place()
    return s


@pytest.mark.usefixtures("uncompiled")
def test_a_job_that_waits_for_room_is_told_what_is_nearest() -> None:
    s = full()
    g = s.submit("ana", {"cpu": 2, "memory": 1}, 3, where={"gpu": "T4"})
    why = s.explain(g)
    assert (why.starts, why.held_by, why.never) == (False, "room", False)
    assert (why.servers, why.allowed, why.open, why.fitting) == (2, 1, 1, 0)
    assert (why.lacking, why.nearest) == ({"cpu": 1}, (Miss("a", {"cpu": 1.0}),))
    assert [(c.kind, c.of, c.to, c.starts) for c in why.would_change] == [
        ("resource", "cpu", 1.0, True),
        ("where", "gpu", None, False),
        ("weight", "ana", 2.0, False),
        ("priority", "ana", None, False),
        ("server", "a", None, True),
        ("server", "b", None, False),
    ]
    assert str(why).splitlines() == [
        "ana: 3 tasks waiting, 0 running.",
        "No server where it may run has room for a task now.",
        "Servers: 2 there, 1 allowed; 0 with room now.",
        "Of those allowed and open, 1 has too little cpu.",
        "Nearest: a lacks 1 cpu.",
        "It would start now if it asked for 1 cpu instead of 2; or if there were one more server "
        "like a.",
        "It would still wait if it did not ask for gpu=T4; or if the weight of ana were 2; or if "
        "it had the highest priority in its queue; or if there were one more server like b.",
    ]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("demand", "where", "held_by", "reason"),
    [
        ({"cpu": 9}, None, "size", "is large enough: it asks for 9 cpu of at most 8"),
        ({"cpu": 8, "memory": 9}, {"gpu": "T4"}, "size", "8 cpu of at most 4 and 9 memory of at"),
        ({"cpu": 1}, {"gpu": "V100"}, "where", "may run on none of the servers"),
    ],
)
def test_what_never_fits_is_told_why(demand: Any, where: Any, held_by: str, reason: str) -> None:
    s = full()
    why = s.explain(s.submit("ana", demand, where=where))
    assert (why.never, why.held_by) == (True, held_by)
    assert reason in why.reason
    assert why.to_dict()["never"] is True


@pytest.mark.usefixtures("uncompiled")
def test_what_holds_a_group_back_though_it_fits_has_a_name() -> None:
    s = full(strict_fifo=True)
    s.submit("ana", {"cpu": 3, "memory": 1})
    why = s.explain(s.submit("ana", {"cpu": 0.5, "memory": 1}))
    assert (why.held_by, why.fitting) == ("strict order", 2)
    assert ("priority", True) in [(c.kind, c.starts) for c in why.would_change]
    s = full("fifo/first-fit")
    why = s.explain(s.submit("ana", {"cpu": 0.5, "memory": 1}, now=1.0))
    assert (why.held_by, [a.queue for a in why.ahead]) == ("fifo", ["bo"])
    s = full()
    why = s.explain(s.submit("ana", {"cpu": 0.5, "memory": 1}, 4, gang=True))
    assert (why.held_by, why.fitting) == ("gang", 2)
    g = s.submit("ana", {"cpu": 0.5, "memory": 1}, 2, gang=True)
    s.submit("bo", {"cpu": 0.5, "memory": 1})
    s.set_weight("bo", 10**6)
    assert s.explain(g).starts
    s.drain("b")
    why = s.explain(s.submit("ana", {"cpu": 0.5, "memory": 1}, where=["b"]))
    assert (why.held_by, why.allowed, why.open) == ("drained", 1, 0)
    s = full("drf/rrr/oblivious")
    g = s.submit("bo", {"cpu": 0.5, "memory": 1})
    assert s.explain(g).starts  # what is new is heard of


@pytest.mark.usefixtures("uncompiled")
def test_a_gang_is_held_by_what_holds_it() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_server("a", {"cpu": 2})
    s.add_queue("ana")
    s.add_queue("bo")
    s.submit("ana", {"cpu": 1})
    g = s.submit("bo", {"cpu": 1}, 2, gang=True)
    assert s.explain(g).held_by == "order"  # there is room for both of it until ana's is placed
    s.place()
    assert s.explain(g).held_by == "gang"
    s = Scheduler(["cpu"], "fifo/first-fit")
    s.add_server("a", {"cpu": 2})
    s.add_server("b", {"cpu": 2})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 2})
    s.place()
    assert s.explain(s.submit("ana", {"cpu": 2}, 2, gang=True)).held_by == "gang"
    assert s.explain(s.submit("ana", {"cpu": 1})).held_by == "fifo"


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", ["drf/rrr/oblivious", "ps-dsf/rrr/oblivious"])
def test_where_demands_are_unknown_a_gang_starts_on_one_server(policy: str) -> None:
    s = Scheduler(["cpu"], policy)
    for name in ("a", "b"):
        s.add_server(name, {"cpu": 3})
    s.add_queue("ana")
    s.submit_gang("ana", [({"cpu": 2}, 1), ({"cpu": 1}, 1)])
    assert len({p.server for p in s.place()}) == 1
    wide = s.submit_gang("ana", [({"cpu": 2}, 1), ({"cpu": 1}, 2)])
    narrow = s.submit("ana", {"cpu": 1.5}, 2, gang=True)
    assert [p.group for p in s.place(100.0)] == [narrow] * 2
    more = s.submit("ana", {"cpu": 1.5}, 2, gang=True)
    assert s.place(200.0) == []
    why = s.explain(wide)
    assert (why.held_by, why.never) == ("gang", True)
    assert "none is large enough for all of it" in why.reason
    why = s.explain(more)
    assert (why.held_by, why.never) == ("room", False)
    s.add_server("c", {"cpu": 1.5})
    s.place(300.0)
    why = s.explain(more)
    assert (why.held_by, why.never) == ("gang", False)
    assert "none has room for all of it now" in why.reason


@pytest.mark.usefixtures("uncompiled")
def test_under_best_fit_first_others_take_no_room_that_is_left() -> None:
    s = Scheduler(["cpu", "memory"], "tsf/best-fit-first")
    for name, cpu, memory in (("a", 1, 1), ("b", 3, 3), ("c", 1, 4)):
        s.add_server(name, {"cpu": cpu, "memory": memory})
    s.add_queue("q0")
    s.add_queue("q1", 2)
    g = s.submit("q1", {"cpu": 2, "memory": 3}, 2)
    s.submit("q0", {"memory": 3}, 3, priority=1)
    assert s.explain(g).held_by == "best server"


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("select", ["first-fit", "best-fit"])
def test_who_might_delay_a_reservation_is_told_what_limit_would_do(select: str) -> None:
    s = Scheduler(["cpu", "memory"], f"easy/{select}")
    for name in "ab":
        s.add_server(name, {"cpu": 4, "memory": 8})
    for name in ("ana", "bo"):
        s.add_queue(name)
    s.submit("bo", {"cpu": 3, "memory": 4}, 2, time_limit=50, now=0)
    s.place(0)
    wide = s.submit("bo", {"cpu": 4, "memory": 8}, 2, gang=True, now=1)
    g = s.submit("ana", {"cpu": 1, "memory": 1}, time_limit=60, now=2)
    s.place(10)
    why = s.explain(g)
    assert (why.held_by, why.fitting) == ("reservation", 2)
    assert why.reservation == Reservation("bo", wide, 50.0, ("a", "b"))
    limits = [(c.change, c.to, c.starts) for c in why.would_change if c.kind == "limit"]
    assert limits == [("its time limit were 40 s at the most", 40.0, True)]
    words = str(why).splitlines()
    assert words[1] == "It may run for 1 m, and so might delay the first group that waits."
    when = "is to start in 40 s on a, b, or before if tasks end early."
    assert words[-3] == f"The first group that waits, of bo, {when}"
    told = s.explain(wide)
    assert told.held_by == "room"
    assert told.reservation == why.reservation
    assert f"It {when}" in str(told)
    assert told.to_dict()["reservation"] == {
        "user": "bo", "group": wide, "at": 50.0, "servers": ["a", "b"],
    }  # fmt: skip
    s.place(50)
    assert "is to start at any moment on a, b" in str(s.explain(wide))
    unlimited = s.submit("ana", {"cpu": 1, "memory": 1}, now=3)
    assert "It has no time limit" in s.explain(unlimited).reason


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("start", [0.0, 1_763_000_000.0])
def test_a_limit_that_is_said_is_short_enough(start: float) -> None:
    s = Scheduler(["cpu"], "easy/first-fit")
    s.add_server("a", {"cpu": 4})
    for name in ("ana", "bo"):
        s.add_queue(name)
    s.submit("ana", {"cpu": 3}, time_limit=100_000.7, now=start)
    s.place(start)
    s.submit("ana", {"cpu": 4}, time_limit=3600, now=start)
    g = s.submit("bo", {"cpu": 1}, time_limit=200_000, now=start)
    s.place(start)
    (change,) = [c for c in s.explain(g).would_change if c.kind == "limit"]
    said = float(change.change.split()[4])
    assert 100_000.69 < said <= change.to <= 100_000.7000001
    assert change.starts
    assert "(0 s ago)" in str(s.explain(g))
    assert "in 1.157 d on a" in str(s.explain(g))
    s.cancel(g)
    g = s.submit("bo", {"cpu": 1}, time_limit=said, now=start)
    assert [p.group for p in s.place(start)] == [g]


@pytest.mark.usefixtures("uncompiled")
def test_nobody_knows_when_what_has_no_limit_ends() -> None:
    s = Scheduler(["cpu"], "easy/first-fit")
    s.add_server("a", {"cpu": 4})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 3})
    s.place(0)
    g = s.submit("ana", {"cpu": 2}, time_limit=5, now=1)
    why = s.explain(g)
    assert (why.held_by, why.reservation) == ("room", Reservation("ana", g, math.inf, ()))
    assert why.to_dict()["reservation"]["at"] is None
    assert "It can start at no known time: tasks in its way have no time limit." in str(why)
    s.submit("ana", {"cpu": 1}, now=2)
    assert [p.group for p in s.place(3)] != [g]  # whoever fits goes before it


@pytest.mark.usefixtures("uncompiled")
def test_who_is_ahead_takes_the_room() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_server("a", {"cpu": 2})
    s.add_queue("ana")
    s.add_queue("bo")
    s.submit("ana", {"cpu": 1}, 3)
    tasks = s.place()
    g = s.submit("bo", {"cpu": 1}, 3)
    s.add_server("b", {"cpu": 1})
    h = s.submit("ana", {"cpu": 0.5})
    why = s.explain(h)
    assert (why.held_by, why.starts, why.fitting) == ("order", False, 1)
    assert [(a.queue, a.score) for a in why.ahead] == [("bo", 0.0)]
    assert why.measure == "dominant share by weight"
    assert s.explain(g).starts
    assert "It starts" in str(s.explain(g))
    done = s.submit("bo", {"cpu": 5})
    s.cancel(done)
    with pytest.raises(InputError):
        s.explain(done)
    assert s.explain(tasks[0].group).state == "pending"  # one of its three waits


@pytest.mark.usefixtures("uncompiled")
def test_what_runs_waits_for_nothing() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_server("a", {"cpu": 2})
    s.add_queue("ana")
    g = s.submit("ana", {"cpu": 1})
    s.place()
    why = s.explain(g)
    assert (why.state, why.held_by, why.would_change) == ("running", "nothing", ())
    assert str(why) == "ana: 0 tasks waiting, 1 running.\nAll of its tasks run."


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", ["tsf/first-fit", "ps-dsf/best-fit"])
def test_scores_with_another_server_are_as_if_it_joined(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = Scheduler(["cpu", "memory"], policy)
    for k in range(6):
        s.add_server(f"s{k}", {"cpu": 1.1 + k % 3, "memory": 0.7 * k}, {"zone": "ab"[k % 2]})
    groups = []
    for k in range(8):
        queue, demand = f"q{k % 3}", {"cpu": 0.3 + k / 70, "memory": k / 30}
        if k < 3:
            s.add_queue(queue, 1 + k)
        groups.append(s.submit(queue, demand, 3 + k, [None, {"zone": "a"}, ["s1", "s5"]][k % 3]))
        s.place(limit=2)
    s.remove_server("s4")
    s.place()
    found: list[list[Any]] = []
    rank_all, sum_all, sums = cycle.rank_all, shape_units.sum_all, []

    def noting(core: Any) -> None:
        found[-1].append(core.queues[["total", "total_low"]].tolist())
        rank_all(core)

    def counting(core: Any, asks: bool) -> None:
        sums.append(len(found))
        sum_all(core, asks)

    monkeypatch.setattr(cycle, "rank_all", noting)
    monkeypatch.setattr(shape_units, "sum_all", counting)
    for is_foreseen in (True, False):
        if not is_foreseen:
            monkeypatch.setattr(_Question, "_foresee", lambda *_: None)
        found.append([])
        for group in groups:
            s.explain(group)
    assert found[0] == found[1]
    assert len({str(totals) for totals in found[0]}) >= 3
    # What is like a server that others name is not of its kind: they name another one.
    assert 0 < sums.count(1) < sums.count(2)


def test_of_many_classes_those_with_most_servers_are_tried(monkeypatch: Any) -> None:
    monkeypatch.setattr(explain, "CLASSES", 2)
    s = full()
    s.add_server("c", {"cpu": 1, "memory": 1})
    s.add_server("d", {"cpu": 1, "memory": 1})
    s.place()
    why = s.explain(s.submit("ana", {"cpu": 2}))
    assert [c.of for c in why.would_change if c.kind == "server"] == ["c", "a"]
    assert why.untried == 1
    assert [c.starts for c in why.would_change if c.kind == "server"] == [False, True]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("policy", POLICIES)
def test_without_servers_nothing_ever_starts(policy: str) -> None:
    s = Scheduler(["cpu", "memory"], policy)
    s.add_queue("ana")
    g = s.submit("ana", {"cpu": 1}, 2)
    s.submit("ana", {"cpu": 2}, 2, gang=True)
    why = s.explain(g)
    assert (why.never, why.held_by, why.servers) == (True, "where", 0)
    assert [c.starts for c in why.would_change] == [False, False]
    s.add_server("a", {"memory": 1})
    why = s.explain(g)
    assert (why.never, why.held_by, why.short) == (True, "size", {"cpu": (1.0, 0.0)})
