"""What the catalogue says of a mechanism: its idea, what is proved or refuted, what it accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from fairlead.errors import InputError, RefusalError
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem

CONSTRAINTS = "placement constraints"
LIMITS = "finite tasks"
RATES = "given rates"
RESOURCE_WEIGHTS = "weights per resource"
ZERO_DEMANDS = "zero demands"
LACKING_SERVERS = "servers that lack a demanded resource"

# Whether a problem has a feature that a definition or a proof may not admit.
FEATURES: dict[str, Callable[[Problem], bool]] = {
    CONSTRAINTS: lambda problem: problem.has_constraints,
    LIMITS: lambda problem: problem.has_limits,
    RATES: lambda problem: problem.users.rates is not None,
    RESOURCE_WEIGHTS: lambda problem: problem.users.resource_weight is not None,
    ZERO_DEMANDS: lambda problem: not bool((problem.demand > 0).all()),
    LACKING_SERVERS: lambda problem: not bool((problem.unconstrained_gamma > 0).all()),
}


@dataclass(frozen=True)
class Claim:
    """A property (as an audit names it) that is proved, but not with the features in `without`."""

    property: str
    without: tuple[str, ...] = ()

    def covers(self, problem: Problem) -> bool:
        """Return whether the claim says something of this problem."""
        return not any(FEATURES[feature](problem) for feature in self.without)

    def __str__(self) -> str:
        """Return the claim in words."""
        if not self.without:
            return self.property
        return f"{self.property} (without {' or '.join(self.without)})"


@dataclass(frozen=True)
class Refutation:
    """A property that a paper states of a mechanism, and that does not hold."""

    property: str  # by the name that an audit uses
    where: str  # under which conditions it does not hold
    statement: str  # what the paper says, and where
    witness: str  # the file among ``examples/refuted`` whose audit shows it

    def __str__(self) -> str:
        """Return the refutation in words."""
        return f"{self.property} {self.where}, though {self.statement}"


@dataclass(frozen=True)
class Mechanism:
    """One row of the catalogue.

    Attributes
    ----------
    name : str
        The name used on the command line and in `solve`.
    summary : str
        The idea in one line.
    paper : str
        Where it is defined.
    refuted : tuple of Refutation
        Properties that a paper states of it and that an audit refutes.
    accepts : tuple of str
        Optional features of a problem that its definition admits; weights per user, weight 0
        among them, and zero demands are admitted by all.
    implementation : str
        ``module:function`` of the solver, imported when first asked for.
    options : tuple of str
        Keywords that its solver takes beside the problem, such as ``"alpha"``.
    merges_users : bool
        Whether users that are alike but for their weights get tasks in proportion to these, so that
        they can be solved as one.
    variant_of : str
        The mechanism that it is another form of, and beside which it is compared only on request;
        empty for most.
    time_shared : bool
        Whether servers are shared by time (TDM) instead of divided by resource (RDM).
    continuation : str
        ``module:function`` of what comes close, faster, from the answer to a like problem; empty
        for most. Only where totals are unique, so that the start does not matter.
    """

    name: str
    summary: str
    paper: str
    proved: tuple[Claim, ...]
    accepts: tuple[str, ...]
    implementation: str
    whole_tasks: bool = False
    options: tuple[str, ...] = ()
    merges_users: bool = True
    variant_of: str = ""
    time_shared: bool = False
    continuation: str = ""
    refuted: tuple[Refutation, ...] = ()

    def load(self) -> Callable[..., Allocation]:
        """Import the solver."""
        return _import(self.implementation)

    def load_continuation(self) -> Callable[[Problem, FloatArray], Allocation] | None:
        """Import what comes close from the answer to a like problem, None where nothing does."""
        return _import(self.continuation) if self.continuation else None

    def refuse_unknown_options(self, options: dict[str, Any]) -> None:
        """Raise `InputError` for an option that its solver does not take."""
        for option in options:
            if option not in self.options:
                takes = " and ".join(self.options) or "none"
                raise InputError(f"{self.name} has no such option; it takes {takes}", option)

    def claim(self, of: str) -> Claim | None:
        """Return what is proved of a property, by its name; None if nothing is."""
        return next((claim for claim in self.proved if claim.property == of), None)

    def refuse_unsupported(self, problem: Problem) -> None:
        """Raise `RefusalError` when the problem has what the definition does not admit."""
        for feature in (CONSTRAINTS, LIMITS, RATES, RESOURCE_WEIGHTS):
            if feature not in self.accepts and FEATURES[feature](problem):
                raise RefusalError(self.name, f"its definition does not admit {feature}")


def _import(path: str) -> Callable[..., Allocation]:
    module, function = path.split(":")
    found: Callable[..., Allocation] = getattr(import_module(module), function)
    return found
