"""fairlead: fair shares for heterogeneous clusters."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fairlead.errors import (
    CertificateError,
    FairleadError,
    InputError,
    ProblemError,
    RefusalError,
)
from fairlead.mechanisms.catalogue import solve
from fairlead.model.allocation import Allocation, Certificate
from fairlead.model.problem import Problem

__version__ = "0.1.0"

if TYPE_CHECKING:
    from fairlead.formats.problem_file import load
    from fairlead.mechanisms.dynamic import DynamicDRF
    from fairlead.metrics.outcomes import simulate
    from fairlead.properties.audit import audit
    from fairlead.scheduler.filling import fill
else:
    # The parser and the compiler are slow to import, and `fairlead --help` needs neither.
    _LATER = {
        "audit": "fairlead.properties.audit",
        "DynamicDRF": "fairlead.mechanisms.dynamic",
        "fill": "fairlead.scheduler.filling",
        "load": "fairlead.formats.problem_file",
        "simulate": "fairlead.metrics.outcomes",
    }

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LATER[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Allocation",
    "Certificate",
    "CertificateError",
    "DynamicDRF",
    "FairleadError",
    "InputError",
    "Problem",
    "ProblemError",
    "RefusalError",
    "audit",
    "fill",
    "load",
    "simulate",
    "solve",
]
