"""fairlead: fair shares for heterogeneous clusters."""

from __future__ import annotations

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

__all__ = [
    "Allocation",
    "Certificate",
    "CertificateError",
    "FairleadError",
    "InputError",
    "Problem",
    "ProblemError",
    "RefusalError",
    "solve",
]
