"""Fair shares inside one Ray cluster; see docs/ray.md.

import fairlead

fair = fairlead.ray.connect(user="ana")

@fair.remote(cpu=1, memory="2Gi", where={"gpu": "T4"})
def train(seed): ...

ray.get([train.remote(seed) for seed in range(100)])
"""

from __future__ import annotations

import os
from importlib.util import find_spec

from fairlead.errors import InputError, how_to_install

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
for _package in ("ray", "fastapi", "uvicorn", "sqlalchemy", "httpx"):
    if find_spec(_package) is None:
        raise InputError(f"{_package} is not installed: {how_to_install('ray')}")

from fairlead.ray.connection import start, stop  # noqa: E402
from fairlead.ray.fair import Fair, FairClass, FairFunction, connect  # noqa: E402

__all__ = ["Fair", "FairClass", "FairFunction", "connect", "start", "stop"]
