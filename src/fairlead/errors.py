"""The exceptions of fairlead, as one tree.

::

    FairleadError
    ├── InputError            unusable input; names the file, the place in it and the fault
    │   └── ProblemError      meaningless values (a NaN, a user that fits no server)
    ├── RefusalError          a problem that the mechanism's definition does not admit
    └── CertificateError      an answer that violates its certificate
        └── NoConvergenceError    a solver that stopped without an answer

The command line prints each of them as one line on standard error. Its exit status is 1 for a
`CertificateError`, and 2 for the others.
"""

from __future__ import annotations


class FairleadError(Exception):
    """Base class of all errors that fairlead raises on purpose.

    >>> issubclass(InputError, FairleadError)
    True
    """


class InputError(FairleadError):
    """Unusable input.

    Parameters
    ----------
    fault : str
        The fault in a few words.
    place : str
        Place in the source: a path of keys such as ``users[3].demand.cpu``, a row number, or the
        name of an argument.
    source : str
        The file; empty for values from Python.

    Examples
    --------
    >>> print(InputError("must be a number", "users[3].weight", "cluster.yaml"))
    cluster.yaml: users[3].weight: must be a number
    """

    def __init__(self, fault: str, place: str = "", source: str = "") -> None:
        fault = fault.replace("\n", " ")  # an array or a table in it has several lines
        self.fault = fault
        self.place = place
        self.source = source
        super().__init__(": ".join(part for part in (source, place, fault) if part))

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str]]:
        """Pickle the three arguments, not the message."""
        return type(self), (self.fault, self.place, self.source)

    def within(self, source: str) -> InputError:
        """Return the same error with the file as its source."""
        return type(self)(self.fault, self.place, source)


class ProblemError(InputError):
    """A problem with meaningless values.

    >>> import fairlead
    >>> fairlead.Problem.from_arrays([[4, 0]], [[1, 1]], users=["bo"])
    Traceback (most recent call last):
    fairlead.errors.ProblemError: users[0]: user 'bo' fits no server: no server has r2
    """


class RefusalError(FairleadError):
    """A problem that the definition of a mechanism does not admit.

    Parameters
    ----------
    mechanism : str
        Name of the mechanism.
    reason : str
        Why the problem is not admitted, such as a feature that it has.

    Examples
    --------
    >>> print(RefusalError("drf-tasks", "placement constraints are not admitted"))
    drf-tasks: placement constraints are not admitted
    """

    def __init__(self, mechanism: str, reason: str) -> None:
        self.mechanism = mechanism
        self.reason = reason
        super().__init__(f"{mechanism}: {reason}")

    def __reduce__(self) -> tuple[type[RefusalError], tuple[str, str]]:
        """Pickle the two arguments, not the message."""
        return type(self), (self.mechanism, self.reason)


def how_to_install(extra: str) -> str:
    """Return how to install an extra: from the source, because no package index has fairlead."""
    return f"run pip install '.[{extra}]' in the folder of fairlead's source"


class CertificateError(FairleadError):
    """An answer that violates its certificate by more than the tolerance.

    Parameters
    ----------
    message : str
    answer : Allocation, optional
        The answer to the reduced problem: without users that are due nothing, and with equal
        servers and equal users merged.
    violation : float, optional
        The violation of the certificate's condition.

    Examples
    --------
    >>> print(CertificateError("ps-dsf: no certified answer was found"))
    ps-dsf: no certified answer was found
    """

    def __init__(self, message: str, answer: object = None, violation: float | None = None) -> None:
        self.answer = answer
        self.violation = violation
        super().__init__(message)


class NoConvergenceError(CertificateError):
    """A solver stopped without an answer, usually because numbers differ too much in size."""


def fault_of(function: object, name: str, fault: Exception | SystemExit) -> FairleadError:
    """Return an error of one line for an exception that a user-defined function raised.

    It has the `name` of the function, the exception, and the line that failed in the function's
    file if the traceback has one.
    """
    code = getattr(function, "__code__", None)
    place, frame = "", fault.__traceback__
    while frame is not None and code is not None:
        if frame.tb_frame.f_code.co_filename == code.co_filename:
            place = f" ({code.co_filename}, line {frame.tb_lineno})"
        frame = frame.tb_next
    what = f"{type(fault).__name__}: {fault}".replace("\n", " ")
    return FairleadError(f"{name}: {what}{place}")
