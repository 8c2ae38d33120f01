"""The number of BLAS threads for small matrices.

Sharing a few hundred unknowns among all cores takes longer than one core takes alone, and ten times
as long on busy cores: waiting threads spin.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache

from threadpoolctl import ThreadpoolController

MOST_UNKNOWNS = 1000  # more unknowns are worth all cores


def threads_for(unknowns: int) -> AbstractContextManager[object]:
    """Return a context that limits BLAS to one thread for matrices of few rows."""
    if unknowns > MOST_UNKNOWNS:
        return nullcontext()
    libraries = _libraries("scipy.linalg" in sys.modules)
    limited: AbstractContextManager[object] = libraries.limit(limits=1, user_api="blas")
    return limited


@cache
def _libraries(_with_scipy: bool) -> ThreadpoolController:
    """Return the loaded BLAS libraries; scipy loads one of its own."""
    return ThreadpoolController()
