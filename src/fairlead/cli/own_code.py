"""Load mechanisms and policies from Python files: ``-m FILE.py:NAME``, ``-p FILE.py:NAME``."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fairlead.cli.streams import redirected
from fairlead.errors import InputError

if TYPE_CHECKING:
    from types import CodeType

    from fairlead.simulation.planned_runs import NamedRule


@dataclass(frozen=True)
class _UserFunction:
    """A function from a file, with its output sent to standard error: the answer is on stdout."""

    function: Callable[..., Any]

    def __call__(self, *values: Any, **options: Any) -> Any:
        with _stdout_to_stderr():
            return self.function(*values, **options)

    @property
    def __code__(self) -> CodeType:
        """The wrapped function's code, from which error messages take its file and line."""
        code: CodeType = self.function.__code__
        return code


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Send standard output to standard error, also that of C code and child processes."""
    sys.stdout.flush()
    with redirected(1, 2), redirect_stdout(sys.stderr):
        try:
            yield
        finally:
            with suppress(OSError, AttributeError):
                ctypes.CDLL(None).fflush(None)  # text in C buffers


def load_mechanism(text: str) -> str:
    """Add a mechanism from ``FILE.py:NAME`` to the catalogue, and return its name there.

    A plain name is returned unchanged. A function without the decorator `fairlead.mechanism` is
    added under its own name. NAME may also be the name given to the decorator.
    Raises InputError as `_load` does.
    """
    if not _names_file(text):
        return text
    from fairlead.mechanisms.added import mechanism
    from fairlead.mechanisms.catalogue import ADDED

    file, name = _split_reference(text)
    before = ADDED.get(name)
    function = _load(file, name, lambda: ADDED.get(name) is not before)
    if function is not None:  # else the file's decorator has added the mechanism as `name`
        names = (r.name for r in ADDED.values() if _function_of(r.implementation) is function)
        added_as = next(names, None)
        if added_as is None:
            mechanism(name)(function)
        name = added_as or name
    for row in list(ADDED.values()):  # the file may have added several
        if not isinstance(row.implementation, str | _UserFunction):
            ADDED[row.name] = replace(row, implementation=_UserFunction(row.implementation))
    return name


def _function_of(implementation: object) -> object:
    """Return the function that an added mechanism calls, or None if it is unknown."""
    # `fairlead.mechanism` stores a `partial` with the function as its first argument.
    return next(iter(getattr(implementation, "args", ())), None)


def load_policies(texts: Sequence[str]) -> list[str | NamedRule]:
    """Return names of policies unchanged, and load the rules named ``FILE.py:NAME``.

    A rule is named after its function; a second rule of that name is named ``file.name``.
    Raises InputError as `_load` does.
    """
    from fairlead.simulation.planned_runs import NamedRule

    found: dict[str, str | NamedRule] = {}
    names: set[str] = set()
    for text in dict.fromkeys(texts):
        if not _names_file(text):
            found[text] = text
            continue
        file, name = _split_reference(text)
        label = f"{file.stem}.{name}" if name in names else name
        names.add(label)
        found[text] = NamedRule(label, _UserFunction(_load(file, name)))
    return [found[text] for text in texts]


def refuse_rules_on_ray(policies: Sequence[str | NamedRule], ray: str | None) -> None:
    """Raise InputError for rules in files, which other machines do not have."""
    for policy in policies if ray is not None else ():
        if not isinstance(policy, str) and isinstance(policy.rule, _UserFunction):
            raise _local_only(policy.name, "rule")


def refuse_mechanisms_on_ray(names: Sequence[str], ray: str | None) -> None:
    """Raise InputError for mechanisms in files, which other machines do not have."""
    from fairlead.mechanisms.catalogue import ADDED

    for name in names if ray is not None else ():
        if name in ADDED and isinstance(ADDED[name].implementation, _UserFunction):
            raise _local_only(name, "mechanism")


def _local_only(name: str, what: str) -> InputError:
    fault = f"{name} is a {what} in a file, which runs on this machine only"
    return InputError(f"{fault}; put it into a package that all machines have", "--ray")


def _names_file(text: str) -> bool:
    """Return whether a text is ``FILE.py:NAME``; raise InputError for a file without NAME."""
    if text.endswith(".py"):
        raise InputError(f"name a function in it: {text}:NAME", "", text)
    return ".py:" in text


def _split_reference(text: str) -> tuple[Path, str]:
    file, _, name = text.rpartition(":")
    return Path(file), name


def _load(file: Path, name: str, is_known: Callable[[], bool] = lambda: False) -> Any:
    """Run a file, with its folder on the import path, and return its function of that name.

    Returns None if the file has no such function, but `is_known` is true after the run: the file
    has registered the name in another way.
    Raises InputError if the file is missing or fails, or has no such function.
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
    sys.modules.setdefault(file.stem, module)  # dataclasses look it up; a library's module stays
    try:
        with _stdout_to_stderr():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as fault:
        why = f"cannot be loaded: {type(fault).__name__}: {fault}".replace("\n", " ")
        raise InputError(why, "", str(file)) from None
    function = getattr(module, name, None)
    if callable(function):
        return function
    if is_known():
        return None
    public = [key for key, value in vars(module).items() if _is_public(module, key, value)]
    known = f"; it has {', '.join(public)}" if public else ""
    raise InputError(f"has no function named {name!r:.60}{known}", "", str(file))


def _is_public(module: ModuleType, key: str, value: object) -> bool:
    """Return whether a value is a function that the module defines, named without a leading _."""
    return callable(value) and getattr(value, "__module__", "") == module.__name__ and key[0] != "_"
