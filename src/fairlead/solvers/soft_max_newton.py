"""Newton's method with a soft maximum and falling temperature, for one level per server.

These are the levels of PS-DSF where all users of a server demand the same resources; see
`level_path` for others. Let server i serve its users up to level L[i]. User n, of weight
phi[n], could run gamma[n,i] tasks on server i alone. It takes x[n] = phi[n] max_i gamma[n,i] L[i]
tasks, from the servers that attain the maximum. PS-DSF requires that the most used resource of
every server is just used up. With soft maxima of temperature tau over servers and over resources,
this is one smooth equation per server in the logarithms of the levels, for any number of users.

Raising a server's level moves users to it from all others, and raising all levels equally raises
all use equally. So the Jacobian is an M-matrix (positive diagonal, no positive entry off it,
positive row sums) at every point and every temperature up to 1: it is never singular, and the
solution at each temperature is unique. Following it from tau = 1 downwards leads to a PS-DSF
allocation to within a few tau.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.model.cluster import FloatArray
from fairlead.solvers.level_path import LevelProblem

# Factor of the temperature from one solution to the next. If Newton's method fails, the square root
# is taken, as long as the factor is below SLOWEST_COOLING.
COOLING = 0.3
SLOWEST_COOLING = 0.9
NEWTON_STEPS = 40
SMALLEST_STEP = 1e-3  # relative to the first trial step
LARGEST_EXPONENT = 700.0
SMALLEST_USE = 1e-300
LARGEST_LOG_TASKS = 300.0
# A longer step (change of the logarithm of a level) would overflow.
LONGEST_STEP = 20.0
# Newton's method stops once errors of the equations are below this fraction of the temperature,
# which is about the error of the levels.
PRECISION = 1e-2
# A smaller share of a user's tasks is a rounding error of the soft maximum.
NEGLIGIBLE = 1e-10


def _idle_rate(problem: LevelProblem) -> float:
    """Return the rate of an imaginary user that takes the capacity left by task limits.

    Where task limits leave a server partly unused, it would have no finite level. The imaginary
    user takes the fraction ``tau * rate * L`` of a server at level L, which is tau if the user of
    smallest weight fills the server alone. The rate is 0 without task limits.
    """
    if not np.isfinite(problem.log_limit).any():
        return 0.0
    return float(np.exp(problem.log_weight.min()))


@dataclass(frozen=True, eq=False)
class _AtLevels:
    """The equations at given levels and a temperature."""

    levels: FloatArray  # (G,): log L
    temperature: float
    share: FloatArray  # (N, G): fraction of a user's tasks on each server
    elasticity: FloatArray  # (N,): derivative of log x by the log x without the task limit
    tasks: FloatArray  # (N, G)
    used: FloatArray  # (R, G): use relative to capacity, the imaginary user's included
    idle: FloatArray  # (G,): the imaginary user's use of each resource
    importance: FloatArray  # (R, G): derivatives of the soft maximum over resources, of sum 1
    error: FloatArray  # (G,): log of the soft maximum of use

    @property
    def largest(self) -> float:
        """The largest error."""
        return float(np.abs(self.error).max())


def _evaluate(problem: LevelProblem, levels: FloatArray, temperature: float) -> _AtLevels:
    """Evaluate the use of every server at the logarithms of its level (G,) and a temperature."""
    attraction = problem.log_rate + levels
    best = attraction.max(axis=1)
    share = np.exp((attraction - best[:, None]) / temperature)
    total = share.sum(axis=1)
    share /= total[:, None]
    log_tasks = problem.log_weight + best + temperature * np.log(total)
    surplus = (log_tasks - problem.log_limit) / temperature
    elasticity = 1.0 / (1.0 + np.exp(np.minimum(surplus, LARGEST_EXPONENT)))
    log_tasks = log_tasks - temperature * np.logaddexp(0.0, surplus)
    tasks = share * np.exp(np.minimum(log_tasks, LARGEST_LOG_TASKS))[:, None]
    idle = temperature * _idle_rate(problem) * np.exp(np.minimum(levels, LARGEST_EXPONENT))
    used = np.einsum("ng,rng->rg", tasks, problem.use) + idle
    log_used = np.log(np.maximum(used, SMALLEST_USE))
    largest = log_used.max(axis=0)
    importance = np.exp((log_used - largest) / temperature)
    summed = importance.sum(axis=0)
    return _AtLevels(
        levels=levels,
        temperature=temperature,
        share=share,
        elasticity=elasticity,
        tasks=tasks,
        used=used,
        idle=idle,
        importance=importance / summed,
        error=largest + temperature * np.log(summed),
    )


def _newton_direction(problem: LevelProblem, state: _AtLevels) -> FloatArray:
    """Return the change of the log levels (G,) at which the linearised errors are 0."""
    tau = state.temperature
    pull = np.zeros_like(state.share)
    for r, use in enumerate(problem.use):
        safe = np.where(state.used[r] > 0, state.used[r], 1.0)
        pull += use * (state.importance[r] / safe)
    pull *= state.tasks
    jacobian = (pull * (state.elasticity - 1.0 / tau)[:, None]).T @ state.share
    own = np.arange(len(state.levels))
    jacobian[own, own] += pull.sum(axis=0) / tau
    idle_pull = np.where(state.used > 0, state.importance * state.idle, 0.0)
    jacobian[own, own] += (idle_pull / np.where(state.used > 0, state.used, 1.0)).sum(axis=0)
    return np.asarray(-np.linalg.solve(jacobian, state.error), dtype=np.float64)


def _settle(problem: LevelProblem, state: _AtLevels) -> _AtLevels:
    """Return the solution at the state's temperature, by Newton's method with step halving."""
    for _ in range(NEWTON_STEPS):
        if state.largest < PRECISION * state.temperature:
            break
        try:
            direction = _newton_direction(problem, state)
        except np.linalg.LinAlgError:
            break
        step = longest = min(1.0, LONGEST_STEP / max(float(np.abs(direction).max()), 1e-300))
        while step >= SMALLEST_STEP * longest:
            trial = _evaluate(problem, state.levels + step * direction, state.temperature)
            if trial.largest < (1 - 1e-4 * step) * state.largest:
                break
            step *= 0.5
        else:  # no step reduces the error
            break
        state = trial
    return state


def follow_soft_levels(
    problem: LevelProblem, temperatures: Sequence[float]
) -> Iterator[FloatArray]:
    """Follow the soft levels to low temperatures; yield ever better tasks at temperature 0.

    Parameters
    ----------
    problem : LevelProblem
        Every server can run some user, and all users that it can run demand the same resources.
    temperatures : sequence of float
        Accepted relative errors of the levels, descending from below 1. Rounding errors of the
        splits are about 1e-16 / temperature, so 1e-8 is the last sensible one.

    Yields
    ------
    (N, G) float
        Tasks of each user on each server, 0 where negligible.

    Notes
    -----
    PS-DSF: Khamse-Ashari et al. 2017; the soft levels are derived in ``docs/design``. Some 100 to
    200 Newton steps of O(N G (R + G) + G^3), the G^2 N as a matrix product. At low temperatures
    tasks are nearly linear in the temperature. So the tasks at 0 are extrapolated from the last two
    temperatures, with an error of about the square of the temperature.
    """
    levels = np.zeros(problem.log_rate.shape[1])
    state = _settle(problem, _evaluate(problem, levels, 1.0))
    before, cooling = state, COOLING
    for goal in temperatures:
        while state.temperature > goal:
            cooler = max(state.temperature * cooling, goal)
            here = _evaluate(problem, state.levels, cooler)
            if before is not state:
                slope = (state.levels - before.levels) / (state.temperature - before.temperature)
                guess = state.levels + slope * (cooler - state.temperature)
                ahead = _evaluate(problem, guess, cooler)
                here = ahead if ahead.largest < here.largest else here
            settled = _settle(problem, here)
            if settled.largest > cooler and cooling < SLOWEST_COOLING:
                cooling = cooling**0.5
                continue
            before, state = state, settled
            cooling = max(cooling**2, COOLING)
        yield _at_zero(before, state)


def _at_zero(warmer: _AtLevels, state: _AtLevels) -> FloatArray:
    """Return the tasks at temperature 0 on the line through two states."""
    tasks = state.tasks
    if warmer is not state:
        further = state.temperature / (warmer.temperature - state.temperature)
        tasks = np.maximum(tasks + further * (tasks - warmer.tasks), 0.0)
    return np.where(state.share > NEGLIGIBLE, tasks, 0.0)
