"""fairlead: fair shares for heterogeneous clusters."""

from __future__ import annotations

from importlib import import_module

from fairlead.errors import (
    CertificateError,
    FairleadError,
    InputError,
    ProblemError,
    RefusalError,
)

__version__ = "0.1.0"

TYPE_CHECKING = False  # instead of importing `typing`, which takes longer than this module
if TYPE_CHECKING:
    from fairlead import mechanisms
    from fairlead.formats.problem_file import load
    from fairlead.mechanisms.added import mechanism
    from fairlead.mechanisms.catalogue import solve
    from fairlead.mechanisms.comparison import compare
    from fairlead.mechanisms.dynamic_drf import DynamicDRF
    from fairlead.model.allocation import Allocation, Certificate
    from fairlead.model.problem import Problem
    from fairlead.properties.audit import audit
    from fairlead.scheduler.scheduler import Scheduler
    from fairlead.simulation.filling import fill
    from fairlead.simulation.simulate import simulate
    from fairlead.simulation.studies import study
else:
    # Modules that compute are slow to import. `fairlead --help` needs none of them, and the console
    # script handles Ctrl-C only after this import.
    _LATER = {
        "Allocation": "fairlead.model.allocation",
        "Certificate": "fairlead.model.allocation",
        "Problem": "fairlead.model.problem",
        "audit": "fairlead.properties.audit",
        "compare": "fairlead.mechanisms.comparison",
        "DynamicDRF": "fairlead.mechanisms.dynamic_drf",
        "fill": "fairlead.simulation.filling",
        "load": "fairlead.formats.problem_file",
        "mechanism": "fairlead.mechanisms.added",
        "mechanisms": "fairlead",
        "Scheduler": "fairlead.scheduler.scheduler",
        "simulate": "fairlead.simulation.simulate",
        "solve": "fairlead.mechanisms.catalogue",
        "study": "fairlead.simulation.studies",
    }

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "mechanisms":
            return import_module("fairlead.mechanisms")  # a package that can be called
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
    "Scheduler",
    "audit",
    "compare",
    "fill",
    "load",
    "mechanism",
    "mechanisms",
    "simulate",
    "solve",
    "study",
]
