"""Where a verb's work is done: on this machine, or on the nodes of a Ray cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Annotated

from fairlead.cli.parameters import Option
from fairlead.errors import InputError

if TYPE_CHECKING:
    from fairlead.executors.executor import Executor

LOCAL = "local"
RayAddress = Annotated[
    str | None,
    Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Work on a Ray cluster: HOST:PORT, auto for the one of this machine, or local, which "
        "starts Ray here and is meant without an address.",
    ),
]


def with_address(words: list[str]) -> list[str]:
    """Return a command line in which `--ray` has an address, which options of the parser must."""
    end = words.index("--") if "--" in words else len(words)
    found: list[str] = []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        found.append(word)
        is_address = following in ("auto", LOCAL) or (":" in following and following[0] != "-")
        if word == "--ray" and len(found) <= end and not is_address:
            found.append(LOCAL)
            end += 1
    return found


@contextmanager
def executor_on(ray: str | None, processes: int | None = None) -> Iterator[Executor]:
    """Provide an executor in a block: local processes or a Ray cluster.

    Raises
    ------
    InputError
        When Ray is not installed, or there is no such cluster, or it has another fairlead.
    """
    from fairlead.executors.local_processes import Processes

    if ray is None:
        yield Processes(processes)
        return
    if processes is not None:
        raise InputError("is for this machine; a Ray cluster has its own", "--processes")
    from fairlead.executors.ray_tasks import ray_executor

    with ExitStack() as stack:
        # Ray prints there what becomes of its nodes and workers.
        nothing = stack.enter_context(open(os.devnull, "w"))
        stack.enter_context(redirect_stdout(nothing))
        with _nothing_complains():
            executor = stack.enter_context(ray_executor(ray))
        yield executor


@contextmanager
def _nothing_complains() -> Iterator[None]:
    """Drop what Ray's compiled parts write to standard error while a cluster is joined."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
