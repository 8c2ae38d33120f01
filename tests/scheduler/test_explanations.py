"""Explanations compared with those found by trying each server and change on a copy."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from fairlead.errors import InputError
from fairlead.scheduler import _explain
from fairlead.scheduler.explanation import NAMED, Reservation, ServerShortage
from fairlead.scheduler.scheduler import Scheduler
from oracles import plain_explaining
from scheduler.consistency import check
from scheduler.random_life import VARIED_POLICIES, ComparedLife, lives, make_life


class ExplainedLife(ComparedLife):
    """A life in which groups are explained between other events."""

    def on_explain(self) -> None:
        waiting = [key for key, group in self.s.plain.groups.items() if group.n_waiting()]
        self.explain(self.random.choice([*waiting, *waiting, self.a_group()]))

    def explain(self, key: int) -> None:
        both = self.s
        plain = both.plain.groups.get(key)
        if plain is None:
            with pytest.raises(InputError):
                both.real.explain(key)
            return
        before = both.real.snapshot()
        got = both.real.explain(key)
        assert both.real.snapshot() == before
        check(both.real)
        state = "pending" if plain.n_waiting() else "running"
        assert (got.group, got.waiting, got.state) == (key, plain.n_waiting(), state)
        assert json.loads(json.dumps(got.to_dict()))["state"] == state
        assert str(got)
        if plain.n_waiting():
            self.compare(got, plain_explaining.explain_group(both.plain, plain, both.plain.now))

    def on_place(self) -> None:
        super().on_place()
        self.on_explain()

    on_explain_again = on_explain
    on_place_again = on_place
    on_place_more = on_place

    def compare(self, got: Any, expected: Any) -> None:
        assert (got.allowed, got.open, got.fitting) == expected[:3]
        assert got.lacking == expected.lacking
        assert [miss.server for miss in got.nearest] == expected.nearest[:NAMED]
        assert (got.starts, got.never) == (expected.starts, expected.never)
        found = [(c.kind, c.of, c.starts) for c in got.would_change]
        assert found == [(kind, of, starts) for kind, of, _, starts in expected.changes]
        for change, (_, _, to, _) in zip(got.would_change, expected.changes, strict=True):
            assert (change.to is None) == (to is None)
            assert to is None or change.to == pytest.approx(float(to), rel=1e-12)
        if not got.starts:
            held = got.reservation
            assert (held and (held.queue, held.at, list(held.servers))) == expected.reservation
        assert got.held_by == expected.held_by
        if expected.ahead is not None:
            assert [a.queue for a in got.ahead] == expected.ahead[:NAMED]
            assert got.n_ahead == len(expected.ahead)
            self.s.seen["ahead"] += len(expected.ahead)
        self.s.seen["starts" if got.starts else "waits"] += 1


@pytest.mark.parametrize("policy", VARIED_POLICIES)
def test_an_explanation_is_as_defined(policy: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(24, 24 + (number := lives(4))):
        life = make_life(policy, seed, ExplainedLife)
        for _ in range(90):
            life.step()
        seen += life.s.seen
    assert seen["waits"] >= 2 * number
    assert seen["ahead"] >= number // 4


def full(policy: str = "drf/best-fit", **options: Any) -> Scheduler:
    """Return a scheduler with servers a and b, which bo's tasks fill."""
    s = Scheduler(["cpu", "memory"], policy, **options)
    s.add_server("a", {"cpu": 4, "memory": 8}, {"gpu": "T4"})
    s.add_server("b", {"cpu": 8, "memory": 8})
    for name in ("ana", "bo"):
        s.add_queue(name)
    s.submit("bo", {"cpu": 1.5, "memory": 1}, 20)
    s.place()
    return s


def test_a_job_without_room_names_the_nearest_servers() -> None:
    s = full()
    g = s.submit("ana", {"cpu": 2, "memory": 1}, 3, where={"gpu": "T4"})
    why = s.explain(g)
    assert (why.starts, why.held_by, why.never) == (False, "room", False)
    assert (why.servers, why.allowed, why.open, why.fitting) == (2, 1, 1, 0)
    assert (why.lacking, why.nearest) == ({"cpu": 1}, (ServerShortage("a", {"cpu": 1.0}),))
    assert [(c.kind, c.of, c.to, c.starts) for c in why.would_change] == [
        ("resource", "cpu", 1.0, True),
        ("where", "gpu", None, False),
        ("weight", "ana", 2.0, False),
        ("priority", "ana", None, False),
        ("server", "a", None, True),
        ("server", "b", None, False),
    ]
    text = str(why)
    for fact in ("3 waiting, 0 running", "a lacks 1 cpu", "1 cpu instead of 2", "gpu=T4"):
        assert fact in text


@pytest.mark.parametrize(
    ("demand", "where", "held_by", "short"),
    [
        ({"cpu": 9}, None, "size", {"cpu": (9.0, 8.0)}),
        (
            {"cpu": 8, "memory": 9},
            {"gpu": "T4"},
            "size",
            {"cpu": (8.0, 4.0), "memory": (9.0, 8.0)},
        ),
        ({"cpu": 1}, {"gpu": "V100"}, "where", {}),
    ],
)
def test_a_job_that_never_fits_says_why(demand: Any, where: Any, held_by: str, short: Any) -> None:
    s = full()
    why = s.explain(s.submit("ana", demand, where=where))
    assert (why.never, why.held_by, why.short) == (True, held_by, short)
    assert why.to_dict()["never"] is True
    assert "too little" not in str(why)


def test_a_group_that_might_delay_names_a_short_limit() -> None:
    s = Scheduler(["cpu", "memory"], "easy/best-fit")
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
    assert limits == [("its time limit were at most 40 s", 40.0, True)]
    assert "It may run for 1 min" in why.reason
    assert "of bo, is to start in 40 s on a, b" in str(why)
    assert s.explain(wide).to_dict()["reservation"]["servers"] == ["a", "b"]
    s.place(50)
    assert "is to start at any moment on a, b" in str(s.explain(wide))
    unlimited = s.submit("ana", {"cpu": 1, "memory": 1}, now=3)
    assert "It has no time limit" in s.explain(unlimited).reason


@pytest.mark.parametrize("start", [0.0, 1_763_000_000.0])
def test_a_named_time_limit_is_short_enough(start: float) -> None:
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
    said = float(change.change.split()[6])
    assert 100_000.69 < said <= change.to <= 100_000.7000001
    assert change.starts
    assert "(0 s ago)" in str(s.explain(g))
    assert "in 1.157 d on a" in str(s.explain(g))
    s.cancel(g)
    g = s.submit("bo", {"cpu": 1}, time_limit=said, now=start)
    assert [p.group for p in s.place(start)] == [g]


@pytest.mark.parametrize(
    ("policy", "behind"), [("fifo/first-fit", "fifo"), ("easy/best-fit", "nothing")]
)
def test_the_place_of_a_group_in_the_line_is_explained(policy: str, behind: str) -> None:
    s = Scheduler(["cpu"], policy)
    for name in "ab":
        s.add_server(name, {"cpu": 4})
    s.add_queue("ana")
    gang = s.submit_gang("ana", [({"cpu": 4}, 1), ({"cpu": 1}, 1, ["a"])])
    assert s.explain(gang).held_by == "gang"  # its larger task takes a, even on empty servers
    s.submit("ana", {"cpu": 3}, 2, time_limit=9)
    late = s.submit("ana", {"cpu": 4})
    assert s.explain(late).held_by == "order"
    s.place()
    assert s.explain(s.submit("ana", {"cpu": 1})).held_by == behind


def test_tasks_without_limits_allow_no_reserved_time() -> None:
    s = Scheduler(["cpu"], "easy/first-fit")
    s.add_server("a", {"cpu": 4})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 3})
    s.place(0)
    why = s.explain(s.submit("ana", {"cpu": 2}, time_limit=5, now=1))
    assert why.to_dict()["reservation"]["at"] is None
    assert "It can start at no known time: tasks in its way have no time limit." in str(why)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ({"gpu": "A100"}, "No server has gpu=A100."),
        ({"gpu": "A100", "big": "yes"}, "No server has big and gpu=A100."),
        ({"zone": "b", "gpu": "T4"}, "No server has gpu=T4 and zone=b."),
        (["zz"], "None of the servers that it names is present."),
    ],
)
def test_labels_that_no_server_has_are_named(where: Any, reason: str) -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_server("a", {"cpu": 4}, labels={"gpu": "T4"})
    s.add_server("b", {"cpu": 4}, labels={"zone": "b"})
    s.add_queue("ana")
    why = s.explain(s.submit("ana", {"cpu": 1}, where=where))
    assert (why.held_by, why.never, why.reason) == ("where", True, reason)


def test_in_a_tree_siblings_are_ahead_on_every_level() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_server("a", {"cpu": 8})
    s.add_queue("lab", 2)
    s.add_queue("ana", 1, "lab")
    s.add_queue("bo", 1, "lab")
    s.add_queue("cy")
    s.submit("ana", {"cpu": 1}, 9)
    s.place(limit=4)
    s.submit("cy", {"cpu": 1}, 9)
    s.submit("bo", {"cpu": 1}, 9)
    why = s.explain(s.submit("ana", {"cpu": 2}))
    assert (why.ahead, why.n_ahead) == ((("cy", 0.0), ("bo", 0.0)), 2)
    # ana counts with bo's score, which is the least, and its own next task: 1/8, by lab's weight.
    assert (why.above, why.score) == ((("lab", 0.0625),), 0.5)
    assert [c.of for c in why.would_change if c.kind == "weight"] == ["ana", "lab"]
    assert "; lab has 0.0625 / ana has 0.5." in str(why)


@pytest.mark.parametrize("policy", ["ps-dsf/joint", "ps-dsf/rrr"])
def test_scores_are_on_the_nearest_server(policy: str) -> None:
    s = Scheduler(["cpu"], policy)
    s.add_server("b", {"cpu": 8})
    s.add_server("a", {"cpu": 2})
    for name in ("ana", "bo"):
        s.add_queue(name)
    first = s.submit("ana", {"cpu": 1}, 10)
    assert len(s.place()) == 10
    assert s.explain(first).state == "running"
    s.submit("bo", {"cpu": 4})
    s.drain("a")
    why = s.explain(s.submit("ana", {"cpu": 1}))
    assert (why.measure, why.score) == ("share of the capacity of b", 10 / 8)
    assert why.ahead == (("bo", 0.0),)
    why = s.explain(s.submit("ana", {"cpu": 1}, where=["a"]))
    assert why.measure == "share of the capacity of a"


def test_only_the_largest_server_classes_are_tried() -> None:
    s = full()
    for k in range(_explain.MAX_CLASSES):
        s.add_server(f"s{k}", {"cpu": 1, "memory": 1}, {"rack": str(k)})
    s.add_server("d", {"cpu": 1, "memory": 1}, {"rack": "9"})
    s.place()
    why = s.explain(s.submit("ana", {"cpu": 2}))
    of = [c.of for c in why.would_change if c.kind == "server"]
    assert of == ["s9", "a", "b", *(f"s{k}" for k in range(30) if k != 9)]
    assert [c.of for c in why.would_change if c.kind == "server" and c.starts] == ["a", "b"]


def test_a_trial_ends_after_many_other_starts() -> None:
    s = Scheduler(["cpu"], "drf/first-fit")
    s.add_server("a", {"cpu": 2000})
    s.add_queue("ana")
    s.submit("ana", {"cpu": 1}, 1500)
    last = s.submit("ana", {"cpu": 1})
    before = s.snapshot()
    found = s.explain(last, most=1000)
    assert (found.held_by, found.starts, found.would_change) == ("order", False, ())
    assert found.reason == "At least 1,000 other tasks start before it."
    assert s.explain(last).starts
    assert s.explain(last, most=2000).starts
    assert s.snapshot() == before
    with pytest.raises(InputError):
        s.explain(last, most=0)
