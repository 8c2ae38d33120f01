"""The mechanisms by name: their papers, what is proved of them, and what they accept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module

from fairlead.errors import CertificateError, InputError, RefusalError
from fairlead.model.allocation import Allocation
from fairlead.model.merging import merge_groups, merge_users, spread_groups, spread_users
from fairlead.model.problem import Problem

CONSTRAINTS = "placement constraints"
LIMITS = "finite tasks"
RATES = "given rates"
RESOURCE_WEIGHTS = "weights per resource"


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
    proved : tuple of str
        Properties that the paper proves of it, by the names that an audit uses.
    accepts : tuple of str
        Optional features of a problem that its definition admits; weights per user and zero
        demands are admitted by all.
    implementation : str
        ``module:function`` of the solver, imported when first asked for.
    whole_tasks : bool
        Whether it gives whole tasks; the others divide them.
    """

    name: str
    summary: str
    paper: str
    proved: tuple[str, ...]
    accepts: tuple[str, ...]
    implementation: str
    whole_tasks: bool = False

    def load(self) -> Callable[[Problem], Allocation]:
        """Import the solver."""
        module, function = self.implementation.split(":")
        solver: Callable[[Problem], Allocation] = getattr(import_module(module), function)
        return solver

    def refuse_unsupported(self, problem: Problem) -> None:
        """Raise `RefusalError` when the problem has what the definition does not admit."""
        features = {
            CONSTRAINTS: problem.has_constraints,
            LIMITS: problem.has_limits,
            RATES: problem.users.rates is not None,
            RESOURCE_WEIGHTS: problem.users.resource_weight is not None,
        }
        for feature, present in features.items():
            if present and feature not in self.accepts:
                raise RefusalError(self.name, f"its definition does not admit {feature}")


_DRF = "Ghodsi et al. 2011; Parkes, Procaccia and Shah 2012 (zero demands, weights)"
_WANG = "Wang, Liang and Li 2015 (DRFH)"
_GHODSI = "Ghodsi et al. 2011"
_METIN = "Metin (PDRF)"
_KHAMSE = "Khamse-Ashari et al. 2017 (PS-DSF)"

CATALOGUE: dict[str, Mechanism] = {
    mechanism.name: mechanism
    for mechanism in (
        Mechanism(
            name="drf",
            summary="dominant resource fairness, all servers as one pool",
            paper=_DRF,
            proved=(
                "sharing-incentive",
                "envy-freeness",
                "pareto-optimality",
                "strategy-proofness",
                "single-resource-fairness",
                "bottleneck-fairness",
                "population-monotonicity",
            ),
            accepts=(LIMITS, RESOURCE_WEIGHTS),
            implementation="fairlead.mechanisms.drf:solve_drf",
        ),
        Mechanism(
            name="drf-per-server",
            summary="the naive baseline: dominant resource fairness on each server by itself",
            paper=f"{_WANG}, III-D",
            proved=("sharing-incentive",),
            accepts=(CONSTRAINTS,),
            implementation="fairlead.mechanisms.drf:solve_drf_per_server",
        ),
        Mechanism(
            name="drfh",
            summary="max-min of global dominant shares; with placement constraints, C-DRFH",
            paper=f"{_WANG}, IV and V-A; C-DRFH: {_KHAMSE}, II-B",
            proved=(
                "envy-freeness",
                "pareto-optimality",
                "strategy-proofness",
                "single-resource-fairness",
                "bottleneck-fairness",
                "population-monotonicity",
            ),
            accepts=(CONSTRAINTS, LIMITS),
            implementation="fairlead.mechanisms.drfh:solve_drfh",
        ),
        Mechanism(
            name="cdrf",
            summary="max-min of tasks over the tasks one could run alone, without constraints",
            paper=f"Friedman, Ghodsi and Psomas 2014; {_KHAMSE}, II-B",
            proved=(
                "sharing-incentive",
                "envy-freeness",
                "pareto-optimality",
                "strategy-proofness",
            ),
            accepts=(LIMITS,),
            implementation="fairlead.mechanisms.tsf:solve_cdrf",
        ),
        Mechanism(
            name="tsf",
            summary="max-min of tasks over the tasks one could run alone were there no constraints",
            paper=f"Wang et al. 2016; {_KHAMSE}, II-B",
            proved=(
                "sharing-incentive",
                "envy-freeness",
                "pareto-optimality",
                "strategy-proofness",
            ),
            accepts=(CONSTRAINTS, LIMITS),
            implementation="fairlead.mechanisms.tsf:solve_tsf",
        ),
        Mechanism(
            name="ps-dsf",
            summary="per-server dominant-share fairness, servers divided by resource (RDM)",
            paper=f"{_KHAMSE}, III, Theorem 1",
            proved=(
                "sharing-incentive",
                "envy-freeness",
                "single-resource-fairness",
                "bottleneck-fairness",
            ),
            accepts=(CONSTRAINTS, LIMITS, RATES),
            implementation="fairlead.mechanisms.psdsf:solve_ps_dsf",
        ),
        Mechanism(
            name="ps-dsf-tdm",
            summary="per-server dominant-share fairness, servers shared by time (TDM)",
            paper=f"{_KHAMSE}, III, Theorem 2",
            proved=(
                "sharing-incentive",
                "envy-freeness",
                "pareto-optimality",
                "strategy-proofness",
                "single-resource-fairness",
                "bottleneck-fairness",
            ),
            accepts=(CONSTRAINTS, LIMITS, RATES),
            implementation="fairlead.mechanisms.psdsf:solve_ps_dsf_tdm",
        ),
        Mechanism(
            name="drf-tasks",
            summary="DRF of whole tasks by turns on one pool; who does not fit leaves",
            paper=f"{_GHODSI}, Algorithm 1; {_METIN}, 6.2 (Pareto-efficient form)",
            proved=("pareto-optimality",),
            accepts=(LIMITS, RESOURCE_WEIGHTS),
            implementation="fairlead.mechanisms.drf_tasks:solve_drf_tasks",
            whole_tasks=True,
        ),
        Mechanism(
            name="drf-algorithm-1",
            summary="DRF as first published: the first user that does not fit ends it all",
            paper=f"{_GHODSI}, Algorithm 1",
            proved=(),
            accepts=(LIMITS, RESOURCE_WEIGHTS),
            implementation="fairlead.mechanisms.drf_tasks:solve_drf_algorithm_1",
            whole_tasks=True,
        ),
        Mechanism(
            name="pdrf",
            summary="whole tasks by a formula near DRF, then one more each where it fits",
            paper=f"{_METIN}, 3.4 and 5",
            proved=(),
            accepts=(LIMITS, RESOURCE_WEIGHTS),
            implementation="fairlead.mechanisms.pdrf:solve_pdrf",
            whole_tasks=True,
        ),
        Mechanism(
            name="pdrf-without-top-up",
            summary="the formula of pdrf alone, as its paper measures it",
            paper=f"{_METIN}, 3.4",
            proved=(),
            accepts=(LIMITS, RESOURCE_WEIGHTS),
            implementation="fairlead.mechanisms.pdrf:solve_pdrf_without_top_up",
            whole_tasks=True,
        ),
    )
}


# Mechanisms whose answers can be set side by side: whole tasks beside fractions of tasks would
# show what rounding does, not what the mechanisms do.
DIVISIBLE = tuple(name for name, row in CATALOGUE.items() if not row.whole_tasks)


def find_mechanism(name: str) -> Mechanism:
    """Return the catalogue's row of that name.

    Raises
    ------
    InputError
        When there is none.
    """
    if name not in CATALOGUE:
        known = ", ".join(CATALOGUE)
        raise InputError(f"no mechanism is named {name!r}; known: {known}", "mechanism")
    return CATALOGUE[name]


def solve(problem: Problem, mechanism: str) -> Allocation:
    """Divide the cluster by a mechanism and prove the answer.

    Parameters
    ----------
    problem : Problem
        Who shares what.
    mechanism : str
        A name from the catalogue, such as ``"ps-dsf"``.

    Returns
    -------
    Allocation
        With a certificate that holds.

    Raises
    ------
    InputError
        When no mechanism has that name.
    RefusalError
        When the mechanism's definition does not admit the problem.
    CertificateError
        When the answer misses its own condition by more than the tolerance.

    Notes
    -----
    Identical servers are solved as one group, and users that differ only in weight as one user;
    what they get is split in proportion. Every condition that certifies a mechanism holds for the
    split exactly if it holds for the whole, so the certificate is that of the merged problem.
    Whole tasks cannot be split in proportion: nothing is merged for mechanisms that give those.
    """
    row = find_mechanism(mechanism)
    row.refuse_unsupported(problem)
    if row.whole_tasks:
        return _proved(row.load()(problem))
    grouped, group_index = merge_groups(problem)
    merged, user_index, share = merge_users(grouped)
    allocation = _proved(row.load()(merged))
    if merged is problem:
        return allocation
    tasks = spread_users(allocation.tasks, user_index, share)
    if allocation.problem is not merged:  # solved as one pool
        return replace(allocation, problem=problem.pooled(), tasks=tasks)
    tasks = spread_groups(tasks, problem.count, group_index)
    return replace(allocation, problem=problem, tasks=tasks)


def _proved(allocation: Allocation) -> Allocation:
    """Return the allocation if its certificate holds."""
    certificate = allocation.certificate
    if not certificate.holds:
        raise CertificateError(
            f"{allocation.mechanism}: the answer misses its condition by "
            f"{certificate.violation:.3g}, more than the tolerance of {certificate.tolerance:g} "
            f"({certificate.condition})"
        )
    return allocation
