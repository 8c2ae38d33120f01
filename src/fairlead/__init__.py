"""fairlead: fair shares for heterogeneous clusters."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from fairlead.formats.problem_file import load
else:

    def __getattr__(name: str) -> object:
        # The parser is slow to import, and neither `fairlead --help` nor arrays in memory need it.
        if name != "load":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from fairlead.formats.problem_file import load  # noqa: PLC0415

        return load

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Allocation",
    "Certificate",
    "CertificateError",
    "FairleadError",
    "InputError",
    "Problem",
    "ProblemError",
    "RefusalError",
    "load",
    "solve",
]
