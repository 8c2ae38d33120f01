"""The mechanisms of fair division; `catalogue` lists them, and solves a problem by name.

The package can be called: ``fairlead.mechanisms()`` returns the catalogue as a table.

>>> mechanisms()["name"][0]
'drf'
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = [
    "added",
    "catalogue",
    "comparison",
    "drf",
    "dynamic_drf",
    "dynamic_run",
    "fair_share",
    "max_min",
    "psdsf",
    "queue_trees",
    "utility",
]


class CallablePackage(ModuleType):
    """A package that can also be called as a function."""

    def __call__(self) -> Any:
        """Return the mechanisms as a frame; see `comparison.catalogue_frame`."""
        comparison = import_module("fairlead.mechanisms.comparison")  # which imports this package
        return comparison.catalogue_frame()


sys.modules[__name__].__class__ = CallablePackage
