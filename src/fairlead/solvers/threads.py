"""One thread for small matrices.

To share a few hundred unknowns among all cores takes longer than to solve for them alone, and on
cores that have other work ten times as long: threads that wait spin.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache

from threadpoolctl import ThreadpoolController

# With more unknowns than this all cores are worth it.
MOST_UNKNOWNS = 1000


def threads_for(unknowns: int) -> AbstractContextManager[object]:
    """Return a context that gives matrices of `unknowns` rows as many threads as pay."""
    if unknowns > MOST_UNKNOWNS:
        return nullcontext()
    limited: AbstractContextManager[object] = _libraries("scipy.linalg" in sys.modules).limit(
        limits=1, user_api="blas"
    )
    return limited


@cache
def _libraries(_with_scipy: bool) -> ThreadpoolController:
    """Return the libraries for linear algebra that are loaded; scipy brings one of its own."""
    return ThreadpoolController()
