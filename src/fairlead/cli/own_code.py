"""Mechanisms and policies in a file of the user's: ``-m FILE.py:NAME``, ``-p FILE.py:NAME``."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fairlead.errors import InputError

if TYPE_CHECKING:
    from types import CodeType

    from fairlead.simulation.planned_runs import NamedRule


@dataclass(frozen=True)
class _Apart:
    """A function of the user's that prints to standard error: standard output has the answer."""

    function: Callable[..., Any]

    def __call__(self, *given: Any, **options: Any) -> Any:
        with _output_apart():
            return self.function(*given, **options)

    @property
    def __code__(self) -> CodeType:
        """That of the function, so that its faults name its file and line."""
        code: CodeType = self.function.__code__
        return code


@contextmanager
def _output_apart() -> Iterator[None]:
    """Send standard output to standard error, that of C code and commands, too."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)  # text that C still holds
        os.dup2(kept, 1)
        os.close(kept)


def mechanism_of(text: str) -> str:
    """Return the name of a mechanism; one in a file is added to the catalogue.

    A function without the decorator `fairlead.mechanism` is added by its own name.
    """
    if not _names_file(text):
        return text
    from fairlead.mechanisms.added import mechanism
    from fairlead.mechanisms.catalogue import ADDED

    file, name = _parts_of(text)
    before = ADDED.get(name)
    function = _load(file, name, lambda: ADDED.get(name) is not before)
    if function is not None:  # None has the name of its decorator
        same = (r.name for r in ADDED.values() if _function_of(r.implementation) is function)
        found = next(same, None)
        if found is None:
            mechanism(name)(function)
        name = found or name
    for row in list(ADDED.values()):
        if not isinstance(row.implementation, str | _Apart):
            ADDED[row.name] = replace(row, implementation=_Apart(row.implementation))
    return name


def _function_of(implementation: object) -> object:
    """Return the user's function of an added mechanism; None if it is not known."""
    return next(iter(getattr(implementation, "args", ())), None)


def policies_of(texts: Sequence[str]) -> list[str | NamedRule]:
    """Return the names of policies, and the rules in files.

    A rule has the name of its function; of two of one name the later is ``file.name``.
    """
    from fairlead.simulation.planned_runs import NamedRule

    found: dict[str, str | NamedRule] = {}
    names: set[str] = set()
    for text in dict.fromkeys(texts):
        if not _names_file(text):
            found[text] = text
            continue
        file, name = _parts_of(text)
        unused = f"{file.stem}.{name}" if name in names else name
        names.add(unused)
        found[text] = NamedRule(unused, _Apart(_load(file, name)))
    return [found[text] for text in texts]


def refuse_on_ray(policies: Sequence[str | NamedRule], ray: str | None) -> None:
    """Raise InputError for rules in files, which other machines do not have."""
    for policy in policies if ray is not None else ():
        if not isinstance(policy, str) and isinstance(policy.rule, _Apart):
            fault = f"{policy.name} is a rule in a file, which runs on this machine only"
            raise InputError(f"{fault}; a rule of an installed package runs there", "--ray")


def refuse_mechanisms_on_ray(names: Sequence[str], ray: str | None) -> None:
    """Raise InputError for mechanisms in files, which other machines do not have."""
    from fairlead.mechanisms.catalogue import ADDED

    for name in names if ray is not None else ():
        if name in ADDED and isinstance(ADDED[name].implementation, _Apart):
            fault = f"{name} is a mechanism in a file, which runs on this machine only"
            raise InputError(f"{fault}; a mechanism of an installed package runs there", "--ray")


def _names_file(text: str) -> bool:
    """Return whether a text names a function in a file; raise InputError for a file alone."""
    if text.endswith(".py"):
        raise InputError(f"name a function in it: {text}:NAME", "", text)
    return ".py:" in text


def _parts_of(text: str) -> tuple[Path, str]:
    file, _, name = text.rpartition(":")
    return Path(file), name


def _load(file: Path, name: str, is_known: Callable[[], bool] = lambda: False) -> Any:
    """Run a file and return its function of that name; its folder is searched for imports.

    None without such a function, if the name is known after the run.
    """
    if not file.is_file():
        raise InputError("there is no such file", "", str(file))
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise InputError("is not a Python file", "", str(file))
    module = module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)
    try:
        with _output_apart():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as fault:
        why = f"cannot be loaded: {type(fault).__name__}: {fault}".replace("\n", " ")
        raise InputError(why, "", str(file)) from None
    function = getattr(module, name, None)
    if not callable(function) and is_known():
        return None
    if not callable(function):
        has = [key for key, value in vars(module).items() if _is_of(module, key, value)]
        known = f"; it has {', '.join(has)}" if has else ""
        raise InputError(f"has no function named {name!r:.60}{known}", "", str(file))
    return function


def _is_of(module: ModuleType, key: str, value: object) -> bool:
    """Return whether a value is a function that a module defines for others."""
    return callable(value) and getattr(value, "__module__", "") == module.__name__ and key[0] != "_"
