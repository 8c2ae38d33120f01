"""Quotas: malformed ones, ones that contradict each other, and ones that no servers can satisfy."""

from __future__ import annotations

from itertools import chain, combinations
from random import Random
from typing import Any

import pytest

from effort import cases
from fairlead.errors import ProblemError
from fairlead.model.quotas import ServerKind, check_quotas, check_servers, read_quotas

SERVERS = [
    ServerKind({"type": "a100"}, ["g0"], {"gpu": 8, "cpu": 64}),
    ServerKind({"type": "v100"}, ["g1"], {"gpu": 2, "cpu": 32}),
]
PARENTS = {"p": None, "c": "p", "d": "p", "u": "c"}
A100 = {"where": {"type": "a100"}}


def fault_of(quotas: Any, limits: Any = None) -> str:
    try:
        found = read_quotas(quotas)
        check_quotas(found, PARENTS, limits or {})
        check_servers(found, PARENTS, SERVERS)
    except ProblemError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("quotas", "fault"),
    [
        ([], "quotas: must be a mapping of queues and users, not a list"),
        ({"c": 3}, "quotas.c: must be a mapping of resources, not 3"),
        ({"c": {"gpu": -6}}, "quotas.c.gpu: must be a number from 0, not -6"),
        ({"c": [A100, {"where": {}}]}, r"quotas.c[1].where: must be labels, or names of servers"),
        ({"c": [{"gpu": 1}, {"gpu": 2}]}, "quotas.c[1]: is on the same servers as an earlier"),
        ({"c": {"gpu": 6}, "d": {"gpu": 3}, "p": {"gpu": 8}}, "quotas.p.gpu: 8 is less than the 9"),
        ({"c": {"gpu": 6}, "u": {"gpu": 7}}, "quotas.c.gpu: 6 is less than the 7"),
        (
            {"c": [{"gpu": 6, **A100}, {"gpu": 4}]},
            "quotas.c.gpu: 4 is less than the 6 that are guaranteed on servers with type=a100",
        ),
        ({"c": {"gpu": 6}, "d": {"gpu": 5}}, "11 gpu are guaranteed to c, d; the servers have"),
        (
            {"a": {"gpu": 6, **A100}, "b": {"gpu": 4, **A100}, "c": {"gpu": 1}},
            "10 gpu are guaranteed to a, b; the servers with type=a100 have 8",
        ),
        (
            {"c": {"gpu": 8}, "d": {"gpu": 3, "where": ["g1"]}},
            "11 gpu are guaranteed to d, c; the servers have 10",
        ),
        (
            {"p": {"gpu": 3}, "c": {"gpu": 2, "where": ["g0"]}, "d": {"gpu": 2, "where": ["g1"]}},
            "quotas.p.gpu: 3 is less than the 4 that are guaranteed to c, d",
        ),
        ({"a": {"gpu": 1, "where": ["g2"]}}, "1 gpu are guaranteed to a; the servers g2 have 0"),
    ],
)
def test_a_fault_names_the_quota(quotas: Any, fault: str) -> None:
    assert fault in fault_of(quotas)


def test_quotas_that_can_be_met_are_taken() -> None:
    assert fault_of({}) == ""
    assert fault_of({"a": {"gpu": 6}, "b": {"gpu": 4}}) == ""
    assert fault_of({"p": {"gpu": 9}, "c": {"gpu": 6}, "d": {"gpu": 3}}) == ""
    assert fault_of({"p": {"gpu": 9}, "c": {"gpu": 6}, "u": {"gpu": 5}}) == ""
    everywhere_and_there = [{"gpu": 6, **A100}, {"gpu": 8}]
    assert fault_of({"a": everywhere_and_there, "b": {"gpu": 2, "where": ["g1", "g0"]}}) == ""
    assert "11 gpu" in fault_of({"a": everywhere_and_there, "b": {"gpu": 3}})
    own_and_below = {"p": {"gpu": 8, **A100}, "c": {"gpu": 6}, "d": {"gpu": 2, **A100}}
    assert fault_of(own_and_below) == ""
    assert fault_of({"a": {"gpu": 4}}, {"a": {"gpu": 4}}) == ""
    both = {"u": {"gpu": 3}, "d": {"gpu": 3}}
    assert fault_of(both, {"p": {"gpu": 6}}) == ""
    assert "quotas.u.gpu: 6 for u, d is more than" in fault_of(both, {"p": {"gpu": 5}})
    assert "4 is more than the limit of a, 3" in fault_of({"a": {"gpu": 4}}, {"a": {"gpu": 3}})
    tenths = {"u": {"gpu": 0.1}, "d": {"gpu": 0.2}}  # in floats their sum is above 0.3
    assert fault_of(tenths, {"p": {"gpu": 0.3}}) == ""


def test_unmet_quotas_are_those_of_hall() -> None:
    """Quotas can be met if no set of them asks for more than the servers they may use have."""
    unmet, random = 0, Random(5)
    for _ in range(cases(60)):
        kinds = [
            ServerKind({"type": str(k)}, [f"g{k}"], {"gpu": random.randint(0, 5)}) for k in range(4)
        ]
        quotas = {
            f"q{n}": {
                "gpu": random.choice([0, 1, 2.5, 4]),
                "where": [f"g{k}" for k in range(4) if random.random() < 0.4] or ["none"],
            }
            for n in range(4)
        }
        sets = chain.from_iterable(combinations(quotas.values(), n) for n in range(1, 5))
        expected = any(
            sum(row["gpu"] for row in some)
            > sum(k.total["gpu"] for k in kinds if any(k.names[0] in row["where"] for row in some))
            for some in sets
        )
        try:
            check_servers(read_quotas(quotas), {}, kinds)
            found = False
        except ProblemError as error:
            found = True
            asked, _, rest = error.fault.partition(" gpu are guaranteed to ")
            named = rest.split("; the servers")[0].split(", ")
            assert float(asked) == sum(quotas[name]["gpu"] for name in named)
            has = float(error.fault.rsplit(" ", 1)[1])
            places = set().union(*(quotas[name]["where"] for name in named))
            assert has == sum(k.total["gpu"] for k in kinds if k.names[0] in places)
            assert float(asked) > has
        assert found == expected
        unmet += found
    assert 5 < unmet < cases(60)
