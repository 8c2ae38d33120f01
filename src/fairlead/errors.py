"""What can go wrong, as one tree.

::

    FairleadError
    ├── InputError            unusable input: says the source, the place in it and the fault
    │   └── ProblemError      values without meaning (a NaN, a user that fits nowhere)
    ├── RefusalError          a mechanism whose definition does not admit this problem
    └── CertificateError      an answer that failed its own proof; never returned silently
        └── NoConvergenceError    a solver stopped before it had an answer to prove

The command line turns `InputError` and `RefusalError` into one line on standard error and exit
status 2.
"""

from __future__ import annotations


class FairleadError(Exception):
    """The root of everything that fairlead raises on purpose."""


class InputError(FairleadError):
    """Unusable input.

    Parameters
    ----------
    fault : str
        What is wrong, in a few words.
    place : str
        Where in the source: a key path such as ``users[3].demand.cpu``, or a row number.
    source : str
        The file, or empty when the values came from Python.
    """

    def __init__(self, fault: str, place: str = "", source: str = "") -> None:
        self.fault = fault
        self.place = place
        self.source = source
        super().__init__(": ".join(part for part in (source, place, fault) if part))

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str]]:
        """Travel between processes whole."""
        return type(self), (self.fault, self.place, self.source)

    def within(self, source: str) -> InputError:
        """Return the same error, naming the file it came from."""
        return type(self)(self.fault, self.place, source)


class ProblemError(InputError):
    """A problem whose values have no meaning."""


class RefusalError(FairleadError):
    """A mechanism was asked for something that its definition does not admit.

    Parameters
    ----------
    mechanism : str
        The mechanism's name.
    reason : str
        What of the problem it does not admit.
    """

    def __init__(self, mechanism: str, reason: str) -> None:
        self.mechanism = mechanism
        self.reason = reason
        super().__init__(f"{mechanism}: {reason}")

    def __reduce__(self) -> tuple[type[RefusalError], tuple[str, str]]:
        """Travel between processes whole."""
        return type(self), (self.mechanism, self.reason)


def how_to_install(extra: str) -> str:
    """Return how to install the packages of an extra: from the source, as no index has fairlead."""
    return f"run pip install '.[{extra}]' in the folder of fairlead's source"


class CertificateError(FairleadError):
    """An answer violates the condition that would prove it, by more than the tolerance."""


class NoConvergenceError(CertificateError):
    """A solver stopped before its residuals were small: the numbers are too far apart for it."""
