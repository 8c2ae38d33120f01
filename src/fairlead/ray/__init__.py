"""Fair shares for the users of one Ray cluster; see docs/ray.md.

import fairlead

fair = fairlead.ray.connect(user="ana")

@fair.remote(cpu=1, memory="2Gi", where={"gpu": "T4"})
def train(seed): ...

ray.get([train.remote(seed) for seed in range(100)])
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fairlead.errors import InputError, how_to_install

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
for _package in ("ray", "fastapi", "uvicorn", "sqlalchemy", "httpx"):
    if find_spec(_package) is None:
        raise InputError(f"{_package} is not installed: {how_to_install('ray')}")

if TYPE_CHECKING:
    from fairlead.ray.connection import start, stop
    from fairlead.ray.fair import Fair, FairClass, FairFunction, connect
else:

    def __getattr__(name: str) -> object:
        """Import a public name at its first use, because agents need none and start faster."""
        if name in ("start", "stop"):
            return getattr(import_module("fairlead.ray.connection"), name)
        if name in __all__:
            return getattr(import_module("fairlead.ray.fair"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Fair", "FairClass", "FairFunction", "connect", "start", "stop"]
