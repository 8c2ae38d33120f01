"""The mechanisms by name: their papers, what is proved of them, and what they accept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairlead.errors import CertificateError, InputError
from fairlead.mechanisms.mechanism import (
    CONSTRAINTS,
    LACKING_SERVERS,
    LIMITS,
    RATES,
    RESOURCE_WEIGHTS,
    ZERO_DEMANDS,
    Claim,
    Mechanism,
    Refutation,
)
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
from fairlead.solvers.threads import threads_for

_DRF = "Ghodsi et al. 2011; Parkes, Procaccia and Shah 2012 (zero demands, weights)"
_WANG = "Wang, Liang and Li 2015 (DRFH)"
_GHODSI = "Ghodsi et al. 2011"
_METIN = "Metin (PDRF)"
_KHAMSE = "Khamse-Ashari et al. 2017 (PS-DSF)"
_KESIDIS = "Kesidis et al. 2018"

CATALOGUE: dict[str, Mechanism] = {
    mechanism.name: mechanism
    for mechanism in (
        Mechanism(
            name="drf",
            summary="dominant resource fairness, all servers as one pool",
            paper=_DRF,
            proved=(
                Claim("sharing-incentive"),
                Claim("envy-freeness"),
                Claim("pareto-optimality"),
                Claim("strategy-proofness"),
                Claim("single-resource-fairness"),
                Claim("bottleneck-fairness"),
                Claim("population-monotonicity", without=(ZERO_DEMANDS,)),
            ),
            accepts=(LIMITS, RESOURCE_WEIGHTS),
            implementation="fairlead.mechanisms.drf:solve_drf",
        ),
        Mechanism(
            name="drf-per-server",
            summary="the naive baseline: dominant resource fairness on each server by itself",
            paper=f"{_WANG}, III-D",
            proved=(Claim("sharing-incentive"),),
            accepts=(CONSTRAINTS,),
            implementation="fairlead.mechanisms.drf:solve_drf_per_server",
        ),
        Mechanism(
            name="drfh",
            summary="max-min of global dominant shares; with placement constraints, C-DRFH",
            paper=f"{_WANG}, IV and V-A; C-DRFH: {_KHAMSE}, II-B",
            proved=(
                Claim("envy-freeness"),
                Claim("pareto-optimality"),
                Claim("strategy-proofness"),
                Claim("single-resource-fairness"),
                Claim(
                    "bottleneck-fairness",
                    without=(
                        CONSTRAINTS,
                        LACKING_SERVERS,
                    ),
                ),
                Claim("population-monotonicity", without=(ZERO_DEMANDS,)),
            ),
            accepts=(CONSTRAINTS, LIMITS),
            implementation="fairlead.mechanisms.max_min_scores:solve_drfh",
        ),
        Mechanism(
            name="cdrf",
            summary="max-min of tasks over the tasks one could run alone, without constraints",
            paper=f"Friedman, Ghodsi and Psomas 2014; {_KHAMSE}, II-B",
            proved=(
                Claim("sharing-incentive"),
                Claim("envy-freeness"),
                Claim("pareto-optimality"),
                Claim("strategy-proofness"),
                Claim("population-monotonicity", without=(ZERO_DEMANDS, LIMITS)),
            ),
            accepts=(LIMITS,),
            implementation="fairlead.mechanisms.max_min_scores:solve_cdrf",
        ),
        Mechanism(
            name="tsf",
            summary="max-min of tasks over the tasks one could run alone were there no constraints",
            paper=f"Wang et al. 2016; {_KHAMSE}, II-B",
            proved=(
                Claim("sharing-incentive", without=(CONSTRAINTS,)),
                Claim("envy-freeness"),
                Claim("pareto-optimality"),
                Claim("strategy-proofness"),
                Claim("population-monotonicity", without=(ZERO_DEMANDS, LIMITS)),
            ),
            accepts=(CONSTRAINTS, LIMITS),
            implementation="fairlead.mechanisms.max_min_scores:solve_tsf",
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
            name="ps-dsf",
            summary="per-server dominant-share fairness, servers divided by resource (RDM)",
            paper=f"{_KHAMSE}, III, Theorem 1",
            proved=(
                Claim("sharing-incentive"),
                Claim("envy-freeness"),
                Claim("single-resource-fairness"),
                Claim("bottleneck-fairness"),
            ),
            accepts=(CONSTRAINTS, LIMITS, RATES),
            implementation="fairlead.mechanisms.psdsf:solve_ps_dsf",
        ),
        Mechanism(
            name="ps-dsf-tdm",
            summary="per-server dominant-share fairness, servers shared by time (TDM)",
            paper=f"{_KHAMSE}, III, Theorem 2",
            proved=(
                Claim("sharing-incentive"),
                Claim("envy-freeness"),
                Claim("pareto-optimality"),
                Claim("strategy-proofness", without=(RATES,)),
                Claim("single-resource-fairness"),
                Claim("bottleneck-fairness"),
            ),
            accepts=(CONSTRAINTS, LIMITS, RATES),
            implementation="fairlead.mechanisms.psdsf:solve_ps_dsf_tdm",
            continuation="fairlead.mechanisms.psdsf:continue_ps_dsf_tdm",
            time_shared=True,
        ),
        Mechanism(
            name="proportional",
            summary="largest sum of phi log(tasks), servers divided by resource (RDM)",
            paper=f"{_KESIDIS}, III, Proposition 2, a = 1; as a market: Eisenberg and Gale 1959",
            proved=(
                Claim("sharing-incentive"),
                Claim("envy-freeness"),
                Claim("pareto-optimality"),
            ),
            accepts=(CONSTRAINTS, LIMITS),
            implementation="fairlead.mechanisms.proportional:solve_proportional",
        ),
        Mechanism(
            name="proportional-tdm",
            summary="the same, servers shared by time (TDM); its totals are those of ps-dsf-tdm",
            paper=f"{_KESIDIS}, III; {_KHAMSE}, Theorem 2",
            proved=(
                Claim("sharing-incentive"),
                Claim("envy-freeness"),
                Claim("pareto-optimality"),
                Claim("strategy-proofness", without=(RATES,)),
                Claim("single-resource-fairness"),
                Claim("bottleneck-fairness"),
            ),
            accepts=(CONSTRAINTS, LIMITS, RATES),
            implementation="fairlead.mechanisms.proportional:solve_proportional_tdm",
            time_shared=True,
            variant_of="ps-dsf-tdm",
        ),
        Mechanism(
            name="alpha-fair",
            summary="largest sum of phi tasks^(1-a)/(1-a): from efficient (a = 0) to even",
            paper=f"{_KESIDIS}, III, eq. 15-17, after Mo and Walrand 2000",
            proved=(Claim("pareto-optimality"),),
            accepts=(CONSTRAINTS, LIMITS),
            implementation="fairlead.mechanisms.proportional:solve_alpha_fair",
            options=("alpha",),
            merges_users=False,
        ),
        Mechanism(
            name="alpha-fair-tdm",
            summary="the same, servers shared by time (TDM)",
            paper=f"{_KESIDIS}, III, eq. 15-17",
            proved=(Claim("pareto-optimality"),),
            accepts=(CONSTRAINTS, LIMITS, RATES),
            implementation="fairlead.mechanisms.proportional:solve_alpha_fair_tdm",
            time_shared=True,
            options=("alpha",),
            merges_users=False,
            variant_of="alpha-fair",
        ),
        Mechanism(
            name="max-tasks",
            summary="task efficiency: the largest sum of phi tasks, however uneven (RDM)",
            paper=f"{_KESIDIS}, III, eq. 18",
            proved=(Claim("pareto-optimality"),),
            accepts=(CONSTRAINTS, LIMITS),
            implementation="fairlead.mechanisms.proportional:solve_max_tasks",
            merges_users=False,
        ),
        Mechanism(
            name="max-tasks-tdm",
            summary="the same, servers shared by time (TDM)",
            paper=f"{_KESIDIS}, III, eq. 18",
            proved=(Claim("pareto-optimality"),),
            accepts=(CONSTRAINTS, LIMITS, RATES),
            implementation="fairlead.mechanisms.proportional:solve_max_tasks_tdm",
            time_shared=True,
            merges_users=False,
            variant_of="max-tasks",
        ),
        Mechanism(
            name="max-min",
            summary="lexicographic max-min of a score of one's choice: drf, tsf or ps-dsf",
            paper=f"{_KESIDIS}, II, Definition 1",
            proved=(Claim("pareto-optimality"),),
            accepts=(CONSTRAINTS, LIMITS),
            implementation="fairlead.mechanisms.max_min_scores:solve_max_min_by_score",
            options=("score",),
            variant_of="drfh",
        ),
        Mechanism(
            name="drf-tasks",
            summary="DRF of whole tasks by turns on one pool; who does not fit leaves",
            paper=f"{_GHODSI}, Algorithm 1; {_METIN}, 6.2 (Pareto-efficient form)",
            proved=(Claim("pareto-optimality"),),
            accepts=(LIMITS, RESOURCE_WEIGHTS),
            implementation="fairlead.mechanisms.drf:solve_drf_tasks",
            whole_tasks=True,
        ),
        Mechanism(
            name="drf-algorithm-1",
            summary="DRF as first published: the first user that does not fit ends it all",
            paper=f"{_GHODSI}, Algorithm 1",
            proved=(),
            accepts=(LIMITS, RESOURCE_WEIGHTS),
            implementation="fairlead.mechanisms.drf:solve_drf_algorithm_1",
            whole_tasks=True,
        ),
        Mechanism(
            name="pdrf",
            summary="whole tasks by a formula near DRF, then one more each where it fits",
            paper=f"{_METIN}, 3.4 and 5",
            proved=(),
            accepts=(LIMITS, RESOURCE_WEIGHTS),
            implementation="fairlead.mechanisms.pdrf:solve_pdrf",
            refuted=(
                Refutation(
                    "pareto-optimality",
                    "by one more task each",
                    f"{_METIN}, 5 states it",
                    "pdrf-pareto-optimality.yaml",
                ),
            ),
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
# show what rounding does, not what the mechanisms do. Variants of the same idea are left to those
# who ask for them.
DIVISIBLE = tuple(name for name, row in CATALOGUE.items() if not row.whole_tasks)
COMPARED = tuple(name for name in DIVISIBLE if not CATALOGUE[name].variant_of)


def find_mechanism(name: str) -> Mechanism:
    """Return the catalogue's row of that name; raise InputError when there is none."""
    if not isinstance(name, str):
        what = "a function" if callable(name) else f"of type {type(name).__name__}"
        raise InputError(
            f"must be the name of a mechanism, such as 'ps-dsf', not {what}; a rule of one's own "
            "is for fairlead.audit(problem, rule)",
            "mechanism",
        )
    if name not in CATALOGUE:
        known = ", ".join(CATALOGUE)
        raise InputError(f"no mechanism is named {name!r}; known: {known}", "mechanism")
    return CATALOGUE[name]


def solve(problem: Problem, mechanism: str, **options: Any) -> Allocation:
    """Divide the cluster by a mechanism and prove the answer.

    Parameters
    ----------
    problem : Problem
    mechanism : str
        A name from the catalogue, such as ``"ps-dsf"``.
    **options
        What the mechanism takes beside the problem: ``alpha`` (a number, 2 when absent) for
        ``alpha-fair`` and ``alpha-fair-tdm``; ``score`` (``"drf"``, ``"tsf"``, ``"ps-dsf"`` or an
        array of (N,) or (N, G) positive numbers, ``"drf"`` when absent) for ``max-min``.

    Returns
    -------
    Allocation
        With a certificate that holds.

    Raises
    ------
    InputError
        When it is not a Problem, no mechanism has that name, or it does not take the options.
    RefusalError
        When the mechanism's definition does not admit the problem.
    CertificateError
        When the answer misses its own condition by more than the tolerance.

    Notes
    -----
    A user without tasks or of weight 0 is due nothing, and gets nothing: the others are served as
    if it were not there, and what they leave stays free.

    Identical servers are solved as one group, and users that differ only in weight as one user;
    what they get is split in proportion. Every condition that certifies a mechanism holds for the
    split exactly if it holds for the whole, so the certificate is that of the merged problem.
    Whole tasks cannot be split in proportion: nothing is merged for mechanisms that give those, nor
    where an option says something of each user or group.
    """
    check_problem(problem)
    row = find_mechanism(mechanism)
    row.refuse_unknown_options(options)
    if problem.due_nothing.all():
        return _nothing(problem, mechanism)
    part, users, groups = active_part(problem)
    if part is problem:
        return _divided(row, problem, options)
    allocation = _divided(row, part, _options_of(options, problem, users, groups))
    is_pooled = allocation.problem is not part
    whole = problem.pooled() if is_pooled else problem
    tasks = np.zeros((whole.n_users, whole.n_groups))
    tasks[np.ix_(users, np.arange(whole.n_groups) if is_pooled else groups)] = allocation.tasks
    return replace(allocation, problem=whole, tasks=tasks)


def _nothing(problem: Problem, mechanism: str) -> Allocation:
    """Return the allocation of users that are all due nothing."""
    condition = NO_USER_IS_DUE
    tasks = np.zeros((problem.n_users, problem.n_groups))
    return Allocation(problem, mechanism, tasks, Certificate(condition, 0.0, 0.0))


def _options_of(
    options: dict[str, Any], problem: Problem, users: IntArray, groups: IntArray
) -> dict[str, Any]:
    """Return options with the rows and columns of some users and groups, where they are tables."""
    tables: dict[tuple[int, ...], Any] = {
        (problem.n_users,): users,
        (problem.n_users, problem.n_groups): np.ix_(users, groups),
    }
    return {
        name: np.asarray(value)[tables[np.shape(value)]] if np.shape(value) in tables else value
        for name, value in options.items()
    }


def _divided(row: Mechanism, problem: Problem, options: dict[str, Any]) -> Allocation:
    """Divide among users that are due something, on groups with servers."""
    row.refuse_unsupported(problem)
    if row.whole_tasks or any(np.ndim(option) for option in options.values()):
        return _proved(_answer(row, problem, options))
    grouped, group_index = merge_groups(problem)
    merged = grouped
    if row.merges_users:
        merged, user_index, share = merge_users(grouped)
    allocation = _proved(_answer(row, merged, options))
    if merged is problem:
        return allocation
    tasks = allocation.tasks
    if row.merges_users:
        tasks = spread_users(tasks, user_index, share)
    if allocation.problem is not merged:  # solved as one pool
        return replace(allocation, problem=problem.pooled(), tasks=tasks)
    tasks = spread_groups(tasks, problem.count, group_index)
    return replace(allocation, problem=problem, tasks=tasks)


def _answer(row: Mechanism, problem: Problem, options: dict[str, Any]) -> Allocation:
    """Solve by as many threads as pay: the unknowns are levels or prices of servers' resources."""
    implementation = row.load()
    with threads_for(problem.n_groups * problem.n_resources):
        return implementation(problem, **options)


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
