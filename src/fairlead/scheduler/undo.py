"""What if: events on pages that are copied when they are written, and forgotten at the end.

Long arrays move, once, into memory that the system maps as often as it is asked to. A question gets
a mapping of its own: a page that it writes becomes a copy, all others are those of what is so. So a
question costs what it touches, and whatever it did is gone with its mapping.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any
from weakref import WeakSet, finalize

import numpy as np

# Arrays of fewer bytes are copied: sooner done than mapped.
MAPPED = 2**15
# So many files at most. Arrays that have grown since move to another one; then all move to one.
MOST_FILES = 8
_LINE = 64  # bytes to which arrays are aligned
_MISSING, _ALL = object(), object()
_NEVER_CHANGED = (str, int, float, bool, frozenset, type(None))  # Tables note what changes


class NotedTable(dict[Any, Any]):
    """A dictionary that notes what was there while somebody asks; its values never change."""

    journal: list[tuple[NotedTable, Any, Any]] | None = None

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.journal is not None:
            self.journal.append((self, key, self.get(key, _MISSING)))
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self._note_all()
        super().__delitem__(key)

    def pop(self, key: Any, *default: Any) -> Any:
        """Do as any dictionary does."""
        if key in self:
            self._note_all()
        return super().pop(key, *default)

    def undo(self, key: Any, was: Any) -> None:
        """Have a key be what was noted."""
        if key is _ALL:
            super().clear()
            super().update(was)
        elif was is _MISSING:
            super().pop(key, None)
        else:
            super().__setitem__(key, was)

    def _note_all(self) -> None:
        """Note everything: a key that is put back would be the last one."""
        if self.journal is not None:
            self.journal.append((self, _ALL, dict(self)))


class _Mapped:
    """Copies of arrays, one after the other in a file without a name."""

    def __init__(self, arrays: list[Any]) -> None:
        self._kinds, self._size = [], 0
        for array in arrays:
            self._kinds.append((array.shape, array.dtype, self._size))
            self._size += -(-array.nbytes // _LINE) * _LINE
        self._file = _new_file()
        finalize(self, os.close, self._file)
        os.ftruncate(self._file, self._size)
        self.arrays = self._views(mmap.ACCESS_WRITE)
        for view, array in zip(self.arrays, arrays, strict=True):
            view[...] = array

    def __reduce__(self) -> Any:
        """Whoever copies a scheduler copies its arrays, and not the file."""
        return _NotMapped, ()

    def own(self) -> dict[int, Any]:
        """Return arrays that are these until they are written, by the numbers of these."""
        return dict(zip(map(id, self.arrays), self._views(mmap.ACCESS_COPY), strict=True))

    def _views(self, access: int) -> list[Any]:
        pages = mmap.mmap(self._file, self._size, access=access)
        return [np.ndarray(shape, kind, pages, start) for shape, kind, start in self._kinds]


class _NotMapped:
    arrays: tuple[()] = ()


def _new_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("fairlead")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


@contextmanager
def undone(scheduler: Any) -> Iterator[None]:
    """Have a scheduler go on with copies of its rows, and with the rows themselves at the end."""
    _move(scheduler)
    _asked.add(scheduler)
    kept = dict(vars(scheduler))
    copies: dict[int, Any] = {}
    for mapped in scheduler._mapped:
        copies |= mapped.own()
    journal: list[tuple[NotedTable, Any, Any]] = []
    tables = [(table, table.journal) for table in kept.values() if isinstance(table, NotedTable)]
    random = scheduler._random.bit_generator.state
    own = {n: _copied(v, copies) for n, v in kept.items() if n not in ("_mapped", "_random")}
    question = object()
    vars(scheduler).update(own, _mapped=[], _question=question)
    for table, _ in tables:
        table.journal = journal
    try:
        yield
    finally:
        if scheduler._question is not question:
            raise RuntimeError("a question ends before those that were asked in it")
        for table, key, was in reversed(journal):
            table.undo(key, was)
        for table, outer in tables:
            table.journal = outer
        vars(scheduler).clear()
        vars(scheduler).update(kept)
        scheduler._random.bit_generator.state = random


_asked: WeakSet[Any] = WeakSet()


def _part() -> None:
    """Have what a process has of its parent's schedulers be its own: mappings are shared."""
    for scheduler in list(_asked):
        copies: dict[int, Any] = {}
        for mapped in scheduler._mapped:
            copies |= {id(array): array.copy() for array in mapped.arrays}
        _replace_all(scheduler, copies)
        scheduler._mapped = []


def _replace_all(scheduler: Any, others: dict[int, Any]) -> None:
    """Have a scheduler have other arrays, which are given by the numbers of those it has."""
    for name, value in vars(scheduler).items():
        vars(scheduler)[name] = _replaced(value, lambda array: others.get(id(array), array))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_part)


def _move(scheduler: Any) -> None:
    """Have all long arrays of a scheduler be mapped."""
    found: dict[int, Any] = {}

    def note(array: Any) -> Any:
        if array.nbytes >= MAPPED:
            found[id(array)] = array
        return array

    for value in vars(scheduler).values():
        _replaced(value, note)
    used = [m for m in scheduler._mapped if any(id(array) in found for array in m.arrays)]
    if len(used) >= MOST_FILES:
        used = []
    there = {id(array) for mapped in used for array in mapped.arrays}
    new = [array for key, array in found.items() if key not in there]
    if new:
        used.append(_Mapped(new))
        _replace_all(scheduler, dict(zip(map(id, new), used[-1].arrays, strict=True)))
    scheduler._mapped = used


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    """Return a copy; an array that is there twice is one array in it, too."""

    def copy_of(array: Any) -> Any:
        if id(array) not in copies:
            copies[id(array)] = array.copy()
        return copies[id(array)]

    if isinstance(value, (*_NEVER_CHANGED, NotedTable)) or callable(value):
        return value
    if isinstance(value, np.ndarray | tuple):
        return _replaced(value, copy_of)
    if isinstance(value, list | set):  # what stands in it is never changed
        return value.copy()
    return deepcopy(value)


def _replaced(value: Any, other: Callable[[Any], Any]) -> Any:
    """Return another array for each, in tuples with names too."""
    if isinstance(value, np.ndarray):
        return other(value)
    if isinstance(value, tuple) and hasattr(value, "_replace"):
        return type(value)(*(_replaced(part, other) for part in value))
    return value
