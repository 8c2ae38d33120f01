"""Limit BLAS to one thread for small matrices.

For a few hundred unknowns, all cores together are slower than one core; if the cores are busy, ten
times slower, because waiting threads spin.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache

from threadpoolctl import ThreadpoolController

MOST_UNKNOWNS = 1000  # with more, all cores are faster than one


def threads_for(unknowns: int) -> AbstractContextManager[object]:
    """Return a context that limits BLAS to one thread for at most `MOST_UNKNOWNS` unknowns."""
    if unknowns > MOST_UNKNOWNS:
        return nullcontext()
    libraries = _libraries("scipy.linalg" in sys.modules)
    limited: AbstractContextManager[object] = libraries.limit(limits=1, user_api="blas")
    return limited


@cache
def _libraries(_with_scipy: bool) -> ThreadpoolController:
    """Return the controller of the loaded BLAS libraries; loading scipy adds another library."""
    return ThreadpoolController()
