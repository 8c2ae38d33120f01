"""``fairlead warm-up``: compile now what would be compiled on first use."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from fairlead.cli.progress import progress_bar
from fairlead.cli.streams import emit


def warm_up(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MECHANISM]...", help="All when absent."),
    ] = None,
) -> None:
    """Compile now what mechanisms would compile on their first use, as for a container's image.

    What is compiled is kept, in the folder that the environment variable FAIRLEAD_CACHE names, if
    it does.

    \b
    Example:
      fairlead warm-up drf ps-dsf
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    from fairlead.mechanisms.catalogue import CATALOGUE, find_mechanism

    for name in names or ():
        find_mechanism(name)
    wanted = names or list(CATALOGUE)
    with progress_bar("Compiling") as on_progress:
        for done, name in enumerate(wanted):
            if on_progress is not None:
                on_progress(done, len(wanted))
            _compile_for(name)
    emit(f"compiled for {len(wanted)} {'name' if len(wanted) == 1 else 'names'}\n")


def _compile_for(name: str) -> None:
    """Solve a small problem."""
    from fairlead.errors import RefusalError
    from fairlead.mechanisms.catalogue import solve
    from fairlead.model.problem import Problem

    pool = Problem.from_arrays([[9, 18]], [[1, 4], [3, 1]], task_limit=[4, 5])
    with suppress(RefusalError):
        solve(pool, name)
