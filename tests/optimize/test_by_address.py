"""Named tuples that kernels hand on by address: what is read, written and kept alive."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numba import typeof

from fairlead.optimize.by_address import by_address
from fairlead.optimize.compiling import compiled, entry_kernel, separate_kernel


@by_address
class Inner(NamedTuple):
    """Two arrays of unlike kinds."""

    sums: Any
    weight: Any


@by_address
class Outer(NamedTuple):
    """One in another, between numbers."""

    begin: int
    inner: Inner
    scale: float
    beside: Any


@separate_kernel
def add(inner: Inner, position: int, amount: float) -> None:
    inner.sums[position] += amount * inner.weight[position, 1]


@entry_kernel
def add_all(outer: Outer) -> int:
    for position in range(outer.begin, outer.inner.sums.size):
        add(outer.inner, position, outer.scale)
        outer.beside[position] = outer.inner.sums[position] > 1.0
    return outer.begin


@compiled
def counted(outer: Outer) -> float:
    add_all(outer)
    sums = outer.inner.sums
    return float(sums.copy().sum())


def given() -> Outer:
    inner = Inner(np.zeros(4), np.arange(8.0).reshape(4, 2))
    return Outer(1, inner, 0.5, np.zeros(4, dtype=bool))


def test_fields_are_read_and_arrays_written_through_addresses() -> None:
    outer = given()
    assert add_all(outer) == 1
    assert outer.inner.sums.tolist() == [0.0, 1.5, 2.5, 3.5]
    assert outer.beside.tolist() == [False, True, True, True]


def test_what_counts_references_counts_as_many_back() -> None:
    outer = given()
    counted(outer)
    before = sys.getrefcount(outer.inner.sums), sys.getrefcount(outer.beside)
    for _ in range(100):
        counted(outer)
    assert (sys.getrefcount(outer.inner.sums), sys.getrefcount(outer.beside)) == before
    assert outer.inner.sums.tolist() == [0.0, 151.5, 252.5, 353.5]


def test_types_are_told_apart_as_numba_does_though_they_are_remembered() -> None:
    """By kinds of numbers, dimensions, strides, what can be written, and the kinds of all else."""
    inner = given().inner
    kept = np.zeros(4)
    kept.flags.writeable = False
    others = [
        np.zeros(4, dtype=np.int64),
        np.zeros((4, 1)),
        np.zeros(8)[::2],
        kept,
        np.zeros(4, dtype=[("high", float)]),
        np.zeros(4, dtype=[("low", float)]),
        None,
        True,
        1.0,
    ]
    found = [typeof(Inner(inner.sums, inner.weight))]
    found += [typeof(Inner(other, inner.weight)) for other in others]
    assert len(set(found)) == len(found)
    assert [typeof(Inner(other, inner.weight)) for other in others] == found[1:]
    for other, kind in zip(others, found[1:], strict=True):
        assert kind.types[0] == typeof(other)
