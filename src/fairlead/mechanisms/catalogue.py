"""The catalogue of mechanisms: papers, proved properties, accepted features; and `solve`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import numpy as np

from fairlead.errors import CertificateError, InputError, RefusalError
from fairlead.formats.file_faults import did_you_mean
from fairlead.model.allocation import Allocation, Certificate
from fairlead.model.cluster import IntArray
from fairlead.model.problem import Problem, check_problem
from fairlead.model.reductions import (
    NO_USER_IS_DUE,
    active_part,
    merge_groups,
    merge_users,
    spread_groups,
    spread_users,
)
from fairlead.solvers.blas_threads import threads_for

CONSTRAINTS = "placement constraints"
LIMITS = "finite tasks"
RATES = "given rates"
RESOURCE_WEIGHTS = "weights per resource"
QUEUES = "queues"
ZERO_DEMANDS = "zero demands"
LACKING_SERVERS = "servers that lack a demanded resource"
OPTIONAL = (CONSTRAINTS, LIMITS, RATES, RESOURCE_WEIGHTS, QUEUES)  # some mechanisms refuse them

# Whether a problem has a feature that a definition or a proof may not admit.
FEATURES: dict[str, Callable[[Problem], bool]] = {
    CONSTRAINTS: lambda problem: problem.has_constraints,
    LIMITS: lambda problem: problem.has_limits,
    RATES: lambda problem: problem.users.rates is not None,
    RESOURCE_WEIGHTS: lambda problem: problem.users.resource_weight is not None,
    QUEUES: lambda problem: problem.users.queues is not None,
    ZERO_DEMANDS: lambda problem: not bool((problem.demand > 0).all()),
    LACKING_SERVERS: lambda problem: not bool((problem.unconstrained_gamma > 0).all()),
}


@dataclass(frozen=True)
class Claim:
    """A property (as an audit names it) that is proved for problems without some features."""

    property: str
    without: tuple[str, ...] = ()  # features with which it is not proved

    def unless(self, *features: str) -> Claim:
        """Return the claim for problems without these features."""
        return Claim(self.property, features)

    def covers(self, problem: Problem) -> bool:
        """Return whether the problem has none of the excluded features, and no queues."""
        if FEATURES[QUEUES](problem):
            return False
        return not any(FEATURES[feature](problem) for feature in self.without)

    def __str__(self) -> str:
        if not self.without:
            return self.property
        return f"{self.property} (without {' or '.join(self.without)})"


@dataclass(frozen=True)
class Refutation:
    """A property that a paper claims for a mechanism, and that an audit refutes."""

    property: str
    where: str  # the conditions under which it fails
    statement: str  # the statement of the paper, with its section
    witness: str  # the file in ``examples/refuted`` whose audit refutes it

    def __str__(self) -> str:
        return f"{self.property} {self.where}, though {self.statement}"


@dataclass(frozen=True)
class Mechanism:
    """One row of the catalogue."""

    name: str  # for `solve` and the command line
    summary: str  # the idea in one line
    paper: str
    proved: tuple[Claim, ...]
    # Optional features of a problem that the definition admits. All mechanisms admit weights per
    # user, weight 0, and zero demands.
    accepts: tuple[str, ...]
    # A function, or ``module:function``, which is imported at the first use.
    implementation: str | Callable[..., Allocation]
    whole_tasks: bool = False  # whether it gives whole tasks; if not, tasks are divisible
    options: tuple[str, ...] = ()  # keywords of the implementation, such as ``"alpha"``
    # Whether users that differ only in weight get tasks in proportion to weight, so that they can
    # be merged for solving.
    merges_users: bool = True
    merges_groups: bool = True  # whether identical servers are solved as one group
    variant_of: str = ""  # the mechanism that represents it in comparisons
    time_shared: bool = False  # servers are shared by time (TDM), not divided by resource (RDM)
    refuted: tuple[Refutation, ...] = ()

    def load(self) -> Callable[..., Allocation]:
        """Return the implementation, imported if necessary."""
        found = self.implementation
        if not isinstance(found, str):
            return found
        module, function = found.split(":")
        loaded: Callable[..., Allocation] = getattr(import_module(module), function)
        return loaded

    def claim(self, name: str) -> Claim | None:
        """Return the proved claim of a property; None if there is none."""
        return next((claim for claim in self.proved if claim.property == name), None)

    def refuse_unknown_options(self, options: dict[str, Any]) -> None:
        """Raise InputError for an option that the implementation does not take."""
        for option in options:
            if option not in self.options:
                takes = " and ".join(self.options) or "none"
                raise InputError(f"{self.name} has no such option; it takes {takes}", option)

    def refuse_unsupported(self, problem: Problem) -> None:
        """Raise RefusalError when the problem has a feature that the definition does not admit."""
        for feature in OPTIONAL:
            if feature not in self.accepts and FEATURES[feature](problem):
                raise RefusalError(self.name, f"its definition does not admit {feature}")


# Abbreviations as in Khamse-Ashari et al., Table I.
SI = Claim("sharing-incentive")
EF = Claim("envy-freeness")
PO = Claim("pareto-optimality")
SP = Claim("strategy-proofness")
BF = Claim("bottleneck-fairness")
SINGLE_RESOURCE = Claim("single-resource-fairness")
MONOTONE = Claim("population-monotonicity").unless(ZERO_DEMANDS)
MONOTONE_WITHOUT_LIMITS = MONOTONE.unless(ZERO_DEMANDS, LIMITS)

_WANG = "Wang, Liang and Li 2015 (DRFH)"
_GHODSI = "Ghodsi et al. 2011"
_METIN = "Metin (PDRF)"
_KHAMSE = "Khamse-Ashari et al. 2017 (PS-DSF)"
_KESIDIS = "Kesidis et al. 2018"

CATALOGUE: dict[str, Mechanism] = {
    mechanism.name: mechanism
    for mechanism in (
        Mechanism(
            "drf",
            "dominant resource fairness, all servers as one pool",
            paper=f"{_GHODSI}; Parkes, Procaccia and Shah 2012 (zero demands, weights)",
            # Parkes et al. prove sharing incentive for weights per resource only if those of each
            # resource add up to the same sum.
            proved=(SI.unless(RESOURCE_WEIGHTS), EF, PO, SP, SINGLE_RESOURCE, BF, MONOTONE),
            accepts=(LIMITS, RESOURCE_WEIGHTS, QUEUES),
            implementation="fairlead.mechanisms.drf:solve_drf",
        ),
        Mechanism(
            "drf-per-server",
            "the naive baseline: dominant resource fairness on each server by itself",
            paper=f"{_WANG}, III-D",
            proved=(SI,),
            accepts=(CONSTRAINTS,),
            implementation="fairlead.mechanisms.drf:solve_drf_per_server",
        ),
        Mechanism(
            "drfh",
            "max-min of global dominant shares; with placement constraints, C-DRFH",
            paper=f"{_WANG}, IV and V-A; C-DRFH: {_KHAMSE}, II-B",
            proved=(EF, PO, SP, SINGLE_RESOURCE, BF.unless(CONSTRAINTS, LACKING_SERVERS), MONOTONE),
            accepts=(CONSTRAINTS, LIMITS, QUEUES),
            implementation="fairlead.mechanisms.max_min:solve_drfh",
        ),
        Mechanism(
            "cdrf",
            "max-min of tasks over the tasks that a user could run alone",
            paper=f"Friedman, Ghodsi and Psomas 2014; {_KHAMSE}, II-B",
            proved=(SI, EF, PO, SP, MONOTONE_WITHOUT_LIMITS),
            accepts=(LIMITS,),
            implementation="fairlead.mechanisms.max_min:solve_cdrf",
        ),
        Mechanism(
            "tsf",
            "max-min of tasks over the tasks that a user could run alone without constraints",
            paper=f"Wang et al. 2016; {_KHAMSE}, II-B",
            proved=(SI.unless(CONSTRAINTS), EF, PO, SP, MONOTONE_WITHOUT_LIMITS),
            accepts=(CONSTRAINTS, LIMITS),
            implementation="fairlead.mechanisms.max_min:solve_tsf",
            refuted=(
                Refutation(
                    "sharing-incentive",
                    "with placement constraints",
                    f"{_KHAMSE}, II-B and Table I state it",
                    "tsf-sharing-incentive.yaml",
                ),
            ),
        ),
        Mechanism(
            "ps-dsf",
            "per-server dominant-share fairness, servers divided by resource (RDM)",
            paper=f"{_KHAMSE}, III, Theorem 1",
            proved=(SI, EF, SINGLE_RESOURCE, BF),
            accepts=(CONSTRAINTS, LIMITS, RATES, QUEUES),
            implementation="fairlead.mechanisms.psdsf:solve_ps_dsf",
        ),
        Mechanism(
            "ps-dsf-tdm",
            "per-server dominant-share fairness, servers shared by time (TDM)",
            paper=f"{_KHAMSE}, III, Theorem 2",
            proved=(SI, EF, PO, SP.unless(RATES), SINGLE_RESOURCE, BF),
            accepts=(CONSTRAINTS, LIMITS, RATES),
            implementation="fairlead.mechanisms.psdsf:solve_ps_dsf_tdm",
            time_shared=True,
        ),
        Mechanism(
            "proportional",
            "largest sum of phi log(tasks), servers divided by resource (RDM)",
            paper=f"{_KESIDIS}, III, Proposition 2, a = 1; as a market: Eisenberg and Gale 1959",
            proved=(SI, EF, PO),
            accepts=(CONSTRAINTS, LIMITS),
            implementation="fairlead.mechanisms.utility:solve_proportional",
        ),
        Mechanism(
            "proportional-tdm",
            "proportional, servers shared by time (TDM); its totals are those of ps-dsf-tdm",
            paper=f"{_KESIDIS}, III; {_KHAMSE}, Theorem 2",
            proved=(SI, EF, PO, SP.unless(RATES), SINGLE_RESOURCE, BF),
            accepts=(CONSTRAINTS, LIMITS, RATES),
            implementation="fairlead.mechanisms.utility:solve_proportional_tdm",
            time_shared=True,
            variant_of="ps-dsf-tdm",
        ),
        Mechanism(
            "alpha-fair",
            "largest sum of phi tasks^(1-a)/(1-a): from efficient (a = 0) to even",
            paper=f"{_KESIDIS}, III, eq. 15-17, after Mo and Walrand 2000",
            proved=(PO,),
            accepts=(CONSTRAINTS, LIMITS),
            implementation="fairlead.mechanisms.utility:solve_alpha_fair",
            options=("alpha",),
            merges_users=False,
        ),
        Mechanism(
            "alpha-fair-tdm",
            "alpha-fair, servers shared by time (TDM)",
            paper=f"{_KESIDIS}, III, eq. 15-17",
            proved=(PO,),
            accepts=(CONSTRAINTS, LIMITS, RATES),
            implementation="fairlead.mechanisms.utility:solve_alpha_fair_tdm",
            time_shared=True,
            options=("alpha",),
            merges_users=False,
            variant_of="alpha-fair",
        ),
        Mechanism(
            "max-tasks",
            "task efficiency: the largest sum of phi tasks, however uneven (RDM)",
            paper=f"{_KESIDIS}, III, eq. 18",
            proved=(PO,),
            accepts=(CONSTRAINTS, LIMITS),
            implementation="fairlead.mechanisms.utility:solve_max_tasks",
            merges_users=False,
        ),
        Mechanism(
            "max-tasks-tdm",
            "max-tasks, servers shared by time (TDM)",
            paper=f"{_KESIDIS}, III, eq. 18",
            proved=(PO,),
            accepts=(CONSTRAINTS, LIMITS, RATES),
            implementation="fairlead.mechanisms.utility:solve_max_tasks_tdm",
            time_shared=True,
            merges_users=False,
            variant_of="max-tasks",
        ),
        Mechanism(
            "max-min",
            "lexicographic max-min of a chosen score: drf, tsf or ps-dsf",
            paper=f"{_KESIDIS}, II, Definition 1",
            proved=(PO,),
            accepts=(CONSTRAINTS, LIMITS),
            implementation="fairlead.mechanisms.max_min:solve_max_min_by_score",
            options=("score",),
            variant_of="drfh",
        ),
        Mechanism(
            "drf-tasks",
            "DRF of whole tasks on one pool; a user whose task does not fit leaves",
            paper=f"{_GHODSI}, Algorithm 1; {_METIN}, 6.2 (Pareto-efficient form)",
            proved=(PO,),
            accepts=(LIMITS, RESOURCE_WEIGHTS),
            implementation="fairlead.mechanisms.drf:solve_drf_tasks",
            whole_tasks=True,
        ),
        Mechanism(
            "drf-algorithm-1",
            "DRF as first published: stops at the first task that does not fit",
            paper=f"{_GHODSI}, Algorithm 1",
            proved=(),
            accepts=(LIMITS, RESOURCE_WEIGHTS),
            implementation="fairlead.mechanisms.drf:solve_drf_algorithm_1",
            whole_tasks=True,
        ),
        Mechanism(
            "pdrf",
            "whole tasks by a formula near DRF, then one more each where it fits",
            paper=f"{_METIN}, 3.4 and 5",
            proved=(),
            accepts=(LIMITS, RESOURCE_WEIGHTS),
            implementation="fairlead.mechanisms.drf:solve_pdrf",
            refuted=(
                Refutation(
                    "pareto-optimality",
                    "after one more task for each user",
                    f"{_METIN}, 5 states it",
                    "pdrf-pareto-optimality.yaml",
                ),
            ),
            whole_tasks=True,
        ),
        Mechanism(
            "pdrf-without-top-up",
            "only the formula of pdrf, as its paper measures it",
            paper=f"{_METIN}, 3.4",
            proved=(),
            accepts=(LIMITS, RESOURCE_WEIGHTS),
            implementation="fairlead.mechanisms.drf:solve_pdrf_without_top_up",
            whole_tasks=True,
        ),
    )
}

_LOGGER = logging.getLogger("fairlead")
ADDED: dict[str, Mechanism] = {}  # by `fairlead.mechanism`, in this process
# The group of entry points; each names a `Mechanism` of another package, or a function that is
# decorated by `fairlead.mechanism`.
GROUP = "fairlead.mechanisms"

# Mechanisms that `compare` uses by default. Comparing whole with divisible tasks would show the
# effect of rounding; variants are compared only on request.
DIVISIBLE = tuple(name for name, row in CATALOGUE.items() if not row.whole_tasks)
COMPARED = tuple(name for name in DIVISIBLE if not CATALOGUE[name].variant_of)


def find_mechanism(name: str) -> Mechanism:
    """Return the catalogue's row of that name; raise InputError when there is none."""
    if not isinstance(name, str):
        what = "a function" if callable(name) else f"of type {type(name).__name__}"
        raise InputError(
            f"must be the name of a mechanism, such as 'ps-dsf', not {what}; "
            "@fairlead.mechanism(NAME) names a function of your own",
            "mechanism",
        )
    row = known_mechanism(name)
    if row is None:
        known = list(dict.fromkeys([*CATALOGUE, *ADDED, *entry_points(group=GROUP).names]))
        near = did_you_mean(name, known)
        fault = f"no mechanism is named {name!r:.60}{near}; known: {', '.join(known)}"
        raise InputError(fault, "mechanism")
    return row


def known_mechanism(name: str) -> Mechanism | None:
    """Return the row of that name, of this package or another one; None if there is none."""
    row = CATALOGUE.get(name) or ADDED.get(name)
    return row or next(map(_load_row, entry_points(group=GROUP, name=name)), None)


def all_mechanisms() -> list[Mechanism]:
    """Return the rows of this package, then the added rows in the order of their names."""
    added = dict(ADDED)
    for point in entry_points(group=GROUP):
        if point.name not in CATALOGUE and point.name not in added:
            try:
                added[point.name] = _load_row(point)
            except InputError as fault:
                _LOGGER.warning("a mechanism of another package is left out: %s", fault)
    return [*CATALOGUE.values(), *(added[name] for name in sorted(added))]


def _load_row(point: EntryPoint) -> Mechanism:
    """Load the row of an entry point; raise InputError if it is unusable."""
    try:
        found = point.load()
    except Exception as fault:
        why = f"cannot be loaded: {type(fault).__name__}: {fault}".replace("\n", " ")
        raise InputError(why, f"{GROUP}: {point.value}") from None
    # A function has added its row by its decorator.
    row = found if isinstance(found, Mechanism) else ADDED.get(point.name)
    place = f"{GROUP}: {point.value}"
    if row is None or row.name != point.name:
        wanted = "must be a Mechanism, or a function added by @fairlead.mechanism, of the name"
        raise InputError(f"{wanted} {point.name!r}", place)
    for feature in row.accepts:
        if feature not in OPTIONAL:
            known = f"no feature is named {feature!r:.60}; known: {', '.join(OPTIONAL)}"
            raise InputError(known, f"{place}: accepts")
    return row


def solve(problem: Problem, mechanism: str, **options: Any) -> Allocation:
    """Divide the cluster by a mechanism and certify the answer.

    Parameters
    ----------
    problem : Problem
    mechanism : str
        A name from the catalogue, such as ``"ps-dsf"``.
    alpha : float, optional
        For ``alpha-fair`` and ``alpha-fair-tdm``; 2 when absent.
    score : str or (N,) or (N, G) array, optional
        For ``max-min``: ``"drf"`` (when absent), ``"tsf"``, ``"ps-dsf"`` or positive numbers.

    Returns
    -------
    Allocation
        With a certificate that holds.

    Raises
    ------
    InputError
        When `problem` is no Problem, the mechanism is unknown, or it does not take an option.
    RefusalError
        When the mechanism's definition does not admit the problem.
    CertificateError
        When the answer violates its own condition by more than the tolerance.

    Notes
    -----
    A user without tasks or of weight 0 gets nothing. The other users get the same as without it.

    Identical servers are solved as one group, and users that differ only in weight as one user;
    their tasks are split in proportion. Every certified condition holds for the split if and only
    if it holds for the merged problem. Users are not merged for ``alpha-fair``, ``max-tasks`` and
    their variants. Nothing is merged for whole tasks, for user-defined mechanisms, or if an option
    is a table of users or groups.

    Examples
    --------
    >>> problem = Problem.from_arrays([[9, 18]], [[1, 4], [3, 1]])
    >>> solve(problem, "drf").user_tasks.round(6).tolist()
    [3.0, 2.0]
    """
    check_problem(problem)
    row = find_mechanism(mechanism)
    row.refuse_unknown_options(options)
    if problem.due_nothing.all():
        nothing = np.zeros((problem.n_users, problem.n_groups))
        return Allocation(problem, mechanism, nothing, Certificate(NO_USER_IS_DUE, 0.0, 0.0))
    part, users, groups = active_part(problem)
    if part is problem:
        return _solve_merged(row, problem, options)
    allocation = _solve_merged(row, part, _restrict_options(options, problem, users, groups))
    is_pooled = allocation.problem is not part
    whole = problem.pooled() if is_pooled else problem
    tasks = np.zeros((whole.n_users, whole.n_groups))
    tasks[np.ix_(users, np.arange(whole.n_groups) if is_pooled else groups)] = allocation.tasks
    return replace(allocation, problem=whole, tasks=tasks)


def _restrict_options(
    options: dict[str, Any], problem: Problem, users: IntArray, groups: IntArray
) -> dict[str, Any]:
    """Return the options, with tables reduced to the rows and columns of some users and groups."""
    tables: dict[tuple[int, ...], Any] = {
        (problem.n_users,): users,
        (problem.n_users, problem.n_groups): np.ix_(users, groups),
    }
    return {
        name: np.asarray(value)[tables[np.shape(value)]] if np.shape(value) in tables else value
        for name, value in options.items()
    }


def _solve_merged(row: Mechanism, problem: Problem, options: dict[str, Any]) -> Allocation:
    """Solve with identical servers as one group, and users that differ only in weight as one."""
    row.refuse_unsupported(problem)
    is_table = any(np.ndim(option) for option in options.values())
    if row.whole_tasks or not row.merges_groups or is_table:
        return _solve_certified(row, problem, options)
    grouped, group_index = merge_groups(problem)
    merged = grouped
    if row.merges_users:
        merged, user_index, share = merge_users(grouped)
    allocation = _solve_certified(row, merged, options)
    if merged is problem:
        return allocation
    tasks = allocation.tasks
    if row.merges_users:
        tasks = spread_users(tasks, user_index, share)
    if allocation.problem is not merged:  # solved as one pool
        return replace(allocation, problem=problem.pooled(), tasks=tasks)
    tasks = spread_groups(tasks, problem.count, group_index)
    return replace(allocation, problem=problem, tasks=tasks)


def _solve_certified(row: Mechanism, problem: Problem, options: dict[str, Any]) -> Allocation:
    """Run the implementation; raise CertificateError unless the certificate holds."""
    implementation = row.load()
    # The largest number of unknown levels or prices; few unknowns are faster on one thread.
    with threads_for(problem.n_groups * problem.n_resources):
        allocation = implementation(problem, **options)
    certificate = allocation.certificate
    if not certificate.holds:
        raise CertificateError(
            f"{allocation.mechanism}: the answer misses its condition by "
            f"{certificate.violation:.3g}, more than the tolerance of {certificate.tolerance:g} "
            f"({certificate.condition})",
            allocation,
            certificate.violation,
        )
    return allocation
