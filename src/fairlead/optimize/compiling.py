"""Compile functions on their first use, keep them on disk, and say when that takes time.

Functions are compiled once per installation, and again when any source changes that has compiled
functions in it. They are kept in the package's folder or else in the user's; or in the folder that
the environment variable ``FAIRLEAD_CACHE`` names. Loading a compiled function from there says
nothing. The message goes to the logger ``fairlead``; the command line shows it on standard error.
"""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from signal import SIGINT, getsignal, signal
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, TypeVar, cast
from zlib import crc32

from numba import __version__ as numba_version
from numba import config, njit, types
from numba.core import event
from numba.core.registry import CPUDispatcher

_LOGGER = logging.getLogger("fairlead")
CACHE = "FAIRLEAD_CACHE"
if os.environ.get(CACHE):
    config.CACHE_DIR = os.environ[CACHE]  # type: ignore[attr-defined]
_PACKAGE = Path(__file__).resolve().parents[1]

_KERNEL: dict[str, Any] = {
    "cache": True,
    "error_model": "numpy",
    "_nrt": False,
    "forceinline": True,
    "no_cfunc_wrapper": True,
}
_SEPARATE = _KERNEL | {"forceinline": False}
# Kernels are linked as `programs` says where numba's insides are those that this was tried with;
# elsewhere numba compiles each of them by itself, which takes longer, and may run slower.
IS_LINKED = numba_version.startswith("0.68.") and not config.DISABLE_JIT  # type: ignore[attr-defined]
if IS_LINKED:
    from fairlead.optimize.programs import (
        PartCache,
        PartCompiler,
        ProgramCache,
        ProgramCompiler,
    )
_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Announcement(event.Listener):
    """Logs the first compilation of a process."""

    def __init__(self) -> None:
        self.announced = False

    def on_start(self, started: event.Event) -> None:
        """Log, unless that was done."""
        if not self.announced and started.data:
            self.announced = True
            function = started.data["dispatcher"]
            _LOGGER.info(
                "compiling %s for the first use, which takes up to a minute; %s ...",
                function.__module__,
                _where_kept(function),
            )

    def on_end(self, _event: event.Event) -> None:
        """Say nothing: the answer that follows tells."""


def _where_kept(function: Any) -> str:
    folder = getattr(function._cache, "cache_path", None)
    if folder is not None:
        return f"it is kept in {folder}"
    return f"it cannot be kept: name a folder that can be written in {CACHE}"


event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]


class _HeldInterruptions(event.Listener):
    """Holds interruptions back while LLVM works, and hands them over after each function.

    LLVM's callbacks swallow an interruption, and then the half compiled function fails.
    """

    def __init__(self) -> None:
        self.depth, self.held = 0, False
        self.handler: Any = None

    def on_start(self, _event: event.Event) -> None:
        """Hold interruptions back, on the main thread, to which alone they come."""
        if current_thread() is not main_thread():
            return
        self._hand_over()
        if self.depth == 0:
            self.handler = getsignal(SIGINT)
            if callable(self.handler):
                signal(SIGINT, self._hold)
        self.depth += 1

    def on_end(self, _event: event.Event) -> None:
        """Hand over what was held back."""
        if current_thread() is not main_thread():
            return
        self.depth -= 1
        if self.depth == 0 and callable(self.handler):
            signal(SIGINT, self.handler)
        self._hand_over()

    def _hold(self, _number: int, _frame: FrameType | None) -> None:
        self.held = True

    def _hand_over(self) -> None:
        if self.held:
            self.held = False
            self.handler(SIGINT, None)


event.register("numba:compile", _HeldInterruptions())  # type: ignore[no-untyped-call]


def compiled(function: _Function) -> _Function:
    """Compile a function on its first use, and keep it on disk."""
    return cast("_Function", _compile(function, {"cache": True}))


def kernel(function: _Function) -> _Function:
    """Compile a function that allocates nothing into those that call it; x / 0 is infinity.

    Without reference counts and handed-on arguments, kernels run up to twenty times faster.
    """
    return cast("_Function", _program(function, _KERNEL))


def long_kernel(function: _Function) -> _Function:
    """Compile a kernel that runs for long: other threads of Python go on meanwhile."""
    return cast("_Function", _program(function, _SEPARATE | {"nogil": True}))


def inner_kernel(function: _Function) -> _Function:
    """Compile a kernel that only kernels call.

    A wrapper for Python, to unpack tuples of twenty arrays, would take a third of compile time.
    """
    return cast("_Function", _part(function, _KERNEL))


def separate_kernel(function: _Function) -> _Function:
    """Compile a kernel that only kernels call, and that is not compiled into them.

    For what is long and called once per event or less: code is compiled again for each caller
    that it goes into.
    """
    return cast("_Function", _part(function, _SEPARATE))


def entry_kernel(function: _Function) -> _Function:
    """Compile a kernel that Python calls; kernels may, too."""
    return cast("_Function", _program(function, _SEPARATE))


def _part(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Compile a function that kernels call."""
    options = options | {"no_cpython_wrapper": True}
    if not IS_LINKED:
        return _compile(function, options)
    part = _compile(function, options | {"pipeline_class": PartCompiler})
    return _kept_in(PartCache, part, function)


def _program(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Compile a function that Python calls; kernels call a part of the same name."""
    if not IS_LINKED:
        return _compile(function, options)
    program = _compile(function, options | {"pipeline_class": ProgramCompiler})
    program.__class__ = _Program
    program.part = _part(function, options)
    return _kept_in(ProgramCache, program, function)


class _Program(CPUDispatcher):
    """What Python calls; where a kernel names it, the part is meant."""

    part: Any

    @property
    def _numba_type_(self) -> Any:
        return types.Dispatcher(self.part)


class DirectCalls:
    """Calls kernels without finding out again what their arguments are.

    For an object of forty arrays that takes 5 us, more than most kernels. Calls are told apart by
    Python's classes alone; so it is for one owner, whose arrays are of the same types each time.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[Any, ...], Any] = {}

    def __call__(self, kernel: Any, *arguments: Any) -> Any:
        """Call a kernel, the first time as usual."""
        key = (kernel, *map(type, arguments))
        entry = self._entries.get(key)
        if entry is not None:
            return entry(*arguments)
        answer = kernel(*arguments)
        if isinstance(kernel, CPUDispatcher):
            found: Any = kernel.overloads[tuple(map(kernel.typeof_pyval, arguments))]
            self._entries[key] = found.entry_point
        return answer

    def __reduce__(self) -> tuple[Any, ...]:
        """Have copies begin anew."""
        return DirectCalls, ()


def _compile(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Compile a function, kept on disk where there is a place to keep it."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    try:
        return _renew_with_sources(_for_any_number(njit(**options)(function)))
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        # Neither the package's folder nor the user's home can be written.
        return _for_any_number(njit(**(options | {"cache": False}))(function))


def _kept_in(cache_: Any, dispatcher: Any, function: Callable[..., Any]) -> Any:
    """Have a cache of another class keep a function, where there is a place to keep it."""
    if getattr(dispatcher._cache, "cache_path", None) is not None:
        dispatcher._cache = cache_(function)
        _renew_with_sources(dispatcher)
    return dispatcher


def _with_room(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function with room for the frames of all that it calls, and collect no garbage.

    Looking through all that a compiler makes takes a twentieth of its time.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        return function(*arguments)
    finally:
        if is_collecting:
            gc.enable()


# CPython, from 3.11 on, asks the system for 16 KB of frames whenever calls get deeper than what it
# has, and gives them back on the way up. Compiling goes up and down there some 300,000 times, a
# sixth of its time. For a function that claims this many words it asks for twice as many, once.
_with_room.__code__ = _with_room.__code__.replace(co_stacksize=2**16)


def _for_any_number(dispatcher: Any) -> Any:
    """Have a function that others call with a constant not be compiled for that number alone."""
    dispatcher.compile = partial(_with_room, dispatcher.compile)
    template_for, any_like = dispatcher.get_call_template, cast("Any", types.unliteral)

    def get_call_template(arguments: Any, named: Any) -> Any:
        named = {name: any_like(kind) for name, kind in named.items()}
        return template_for([any_like(kind) for kind in arguments], named)

    dispatcher.get_call_template = get_call_template
    return dispatcher


def _renew_with_sources(dispatcher: Any) -> Any:
    """Have the cache on disk forget a function when a source changes that it may call.

    The cache by itself only notices changes in the function's own file, and only after it has read
    what names classes that may have other names by now.
    """
    kept = dispatcher._cache._cache_file
    kept._source_stamp = _stamp_of_sources()
    kept._version = f"{kept._version}, sources {kept._source_stamp}"
    return dispatcher


@cache
def _stamp_of_sources() -> int:
    """Return a number that changes when a source of this package does that is compiled.

    And with what else makes other machine code: checks of indices, and lines for debuggers.
    """
    modes = config.BOUNDSCHECK, config.DEBUGINFO_DEFAULT  # type: ignore[attr-defined]
    stamp = crc32(repr(modes).encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        if b"optimize.compiling" in source or b"numba" in source:
            stamp = crc32(source, stamp)
    return stamp
