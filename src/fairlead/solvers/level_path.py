"""Path following (pseudo-arclength continuation) for several levels per server.

These are the levels of PS-DSF where users demand different resources. L[i,r] is the level at which
resource r of server i is used up; it is infinite if the resource is never used up. User n, of
weight phi[n], could run gamma[n,i] tasks on server i alone. It is served there up to the lowest
level of the resources it demands, so that its total x[n] of tasks is

    x[n] = phi[n] max_i gamma[n,i] min_(r demanded) L[i,r].

Its tasks run only where the maximum is attained, and every resource with a finite level is just
used up. With soft maxima and minima of temperature tau (as ``tau log sum exp(value / tau)``), and
an imaginary user that takes the fraction ``tau phi_min L[i,r]`` of each resource, this is one
smooth equation per server and resource in the logarithms of the levels: log of use = 0.

Raising one level may lower another. So the solutions at all temperatures are a curve on which the
temperature need not fall steadily. Newton's method at ever lower temperatures would lose the curve.
Therefore the curve itself is followed, with log tau as one more unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairlead.model.cluster import BoolArray, FloatArray

# A level further from the best than this many temperatures has no weight in a soft extremum.
NEGLIGIBLE = 25.0
# Bounds that keep floats finite: of arguments of `exp`, and of uses whose logarithm is taken.
LARGEST_EXPONENT = 300.0
SMALLEST_USE = 1e-300
# On the curve, errors of the equations are below this fraction of the temperature.
PRECISION = 1e-3
# Logarithms of temperatures this close count as equal.
ROUNDING = 1e-9
MAX_CORRECTIONS = 6
# A correction may be at most as long as half the step, or as this bound for short steps. Longer
# corrections may reach another part of the curve.
LONGEST_CORRECTION = 1.0
# A step of length 1 changes the log level of a used-up resource by this many temperatures. It
# changes log tau, or the log level of another resource, by 1.
TEMPERATURES_PER_STEP = 3.0
FIRST_STEP = 0.3
SMALLEST_STEP = 1e-9
SHORTER, LONGER = 1 / 3, 3.0  # factors of a step that failed, or was corrected quickly
MAX_STEPS = 1000
# The parabola through the tasks at tau, tau / 2 and tau / 4 has at 0 the sum of these tasks times
# these factors.
PARABOLA = (1 / 3, -2.0, 8 / 3)
# Tasks that fall below this fraction of their value while tau falls to a quarter are 0 at tau = 0.
VANISHING = 0.1
LOG_2 = float(np.log(2.0))


@dataclass(frozen=True, eq=False)
class LevelProblem:
    """N users on G servers with R resources, whose levels are sought: here one for each resource.

    `fairlead.solvers.soft_max_newton` finds one level for each server.
    """

    log_rate: FloatArray  # (N, G): log gamma, -inf where a user cannot run
    log_weight: FloatArray  # (N,): log phi
    log_limit: FloatArray  # (N,): log of the task limit, infinite for none
    # (R, N, G): use by one task, relative to the server's capacity; 0 where a user cannot run
    use: FloatArray


@dataclass(frozen=True, eq=False)
class _Point:
    """The M = R G equations and their derivatives, at given levels and a temperature."""

    at: FloatArray  # (M + 1,): logarithms of the levels, then of the temperature
    tasks: FloatArray  # (N, G)
    error: FloatArray  # (M,): log of the use of each resource
    slopes: FloatArray  # (M, M + 1): derivatives of `error` by `at`
    idle: FloatArray  # (M,): the imaginary user's part of the use; near 1 if not used up

    @property
    def temperature(self) -> float:
        return float(np.exp(self.at[-1]))

    @property
    def largest_error(self) -> float:
        """The largest absolute error of an equation, divided by the temperature."""
        return float(np.abs(self.error).max() / self.temperature)

    @property
    def scale(self) -> FloatArray:
        """(M + 1,): weight of a change of each unknown in the length of a step."""
        return np.append(1.0 / (TEMPERATURES_PER_STEP * self.temperature + self.idle), 1.0)

    def solve(self, row: FloatArray, right: FloatArray) -> FloatArray:
        """Return d (M + 1,) such that ``slopes @ d = right[:-1]`` and ``row @ d = right[-1]``.

        d is NaN if the equations are singular.
        """
        try:
            change = np.linalg.solve(np.vstack([self.slopes, row]), right)
        except np.linalg.LinAlgError:
            change = np.full(right.size, np.nan)
        return np.asarray(change, dtype=np.float64)


def _evaluate(problem: LevelProblem, at: FloatArray) -> _Point:
    """Evaluate the use of each resource, and its derivatives by all levels and by log tau.

    The derivatives of a soft extremum by its arguments sum up to 1, and are the weights of
    `_soft_weights`. Its derivative by log tau is tau times the entropy of these weights, which is
    log_sum + mean; it is negative for a soft minimum.

    - First, levels become tasks: by a soft minimum over resources, a soft maximum over servers, and
      a soft minimum with the task limit. `warming` (N,) is the derivative of log tasks by log tau.
    - Then tasks become uses, with the derivatives of their logarithms.
    """
    n_resources, _, n_groups = problem.use.shape
    tau = float(np.exp(at[-1]))
    # Soft minima of the levels of the resources that a user demands, (N, G).
    levels = at[:-1].reshape(n_resources, 1, n_groups)
    level = np.where(problem.use > 0.0, levels, np.inf)
    lowest = level.min(axis=0)
    # Log of gamma times the level on each server: a user runs where this is largest, (N, G).
    attraction = problem.log_rate + np.where(problem.log_rate > -np.inf, lowest, 0.0)
    best = attraction.max(axis=1, keepdims=True)
    runs = attraction >= best - tau * (NEGLIGIBLE + np.log(n_resources))
    above = (level - np.where(runs, lowest, 0.0)) / tau
    weight, log_sum, mean = _soft_weights(above, runs & (above < NEGLIGIBLE), axis=0)
    entropy = log_sum + mean
    # Soft maxima over the servers, (N,).
    attraction = np.where(runs, attraction - tau * log_sum, -np.inf)
    top = attraction.max(axis=1)
    below = (top[:, None] - attraction) / tau
    part, log_sum, mean = _soft_weights(below, runs, axis=1)  # part of a user's tasks, (N, G)
    lost = (part * entropy).sum(axis=1)
    log_tasks = problem.log_weight + top + tau * log_sum
    warming = tau * (log_sum + mean - lost)
    # Soft minima with the limits, (N,): `surplus` is the excess of log tasks over the log limit, in
    # temperatures, and `elasticity` the derivative of the limited by the unlimited log tasks.
    surplus = np.clip((log_tasks - problem.log_limit) / tau, -LARGEST_EXPONENT, LARGEST_EXPONENT)
    elasticity = 1.0 / (1.0 + np.exp(surplus))
    soft = np.logaddexp(0.0, surplus)
    warming = elasticity * warming - tau * (soft - (1.0 - elasticity) * surplus)
    # The minimum clips log tasks like `surplus`; their difference is then the log limit.
    log_tasks = np.minimum(log_tasks, problem.log_limit + tau * surplus) - tau * soft

    # Uses by each user, (R, N, G), and their relative change with log tau, (N, G).
    tasks = np.exp(np.minimum(log_tasks, LARGEST_EXPONENT))[:, None] * part
    taken = tasks * problem.use
    change = warming[:, None] - mean[:, None] - entropy + lost[:, None]
    change += np.where(runs, below, 0.0)
    slopes = np.empty((at.size - 1, at.size))
    factor = (elasticity - 1.0 / tau)[:, None]
    slopes[:, :-1] = _by_user(taken * factor).T @ _by_user(part * weight)
    slopes[:, -1] = (taken * change).sum(axis=1).ravel()
    for g in range(n_groups):
        own = slice(g, len(slopes), n_groups)  # the equations of server g
        slopes[own, own] += taken[:, :, g] @ weight[:, :, g].T / tau
    # The imaginary user has the least weight of all users.
    lightest = np.exp(problem.log_weight.min())
    idle = tau * lightest * np.exp(np.minimum(at[:-1], LARGEST_EXPONENT))
    used = taken.sum(axis=1).ravel() + np.maximum(idle, SMALLEST_USE)
    slopes[np.diag_indices(idle.size)] += idle
    slopes[:, -1] += idle
    slopes /= used[:, None]
    return _Point(at, tasks, np.log(used), slopes, idle / used)


def _by_user(values: FloatArray) -> FloatArray:
    """Return values (R, N, G) as rows (N, R G)."""
    return values.transpose(1, 0, 2).reshape(values.shape[1], -1)


def _soft_weights(
    distance: FloatArray, counts: BoolArray, axis: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the weights exp(-distance) divided by their sum, the log of this sum, and the mean.

    The mean is that of the distances by these weights. Entries outside the mask `counts` have no
    weight.
    """
    distance = np.where(counts, distance, np.inf)
    raw = np.exp(-distance)
    total = raw.sum(axis=axis, keepdims=True)
    part = raw / np.where(total > 0.0, total, 1.0)
    mean = (part * np.where(counts, distance, 0.0)).sum(axis=axis)
    total = total.squeeze(axis)
    return part, np.log(np.where(total > 0.0, total, 1.0)), mean


def _temperature_direction(n_unknowns: int) -> FloatArray:
    """Return the direction (n_unknowns,) in which only the temperature rises."""
    direction = np.zeros(n_unknowns)
    direction[-1] = 1.0
    return direction


def _predict(here: _Point, tangent: FloatArray, step: float) -> FloatArray:
    """Predict the unknowns after a step along the tangent.

    Logarithms of the levels of used-up resources are nearly linear in the temperature, those of
    other levels in its logarithm.
    """
    warming = step * tangent[-1]
    change = step * tangent
    if warming != 0.0:
        change[:-1] *= np.where(here.idle < 0.5, np.expm1(warming) / warming, 1.0)
    return np.asarray(here.at + change, dtype=np.float64)


def _correct(
    problem: LevelProblem, at: FloatArray, row: FloatArray, longest: float
) -> tuple[_Point, int] | None:
    """Return the curve's point on the plane through `at` normal to `row`, and Newton's steps to it.

    None if Newton's steps diverge, or one is longer than `longest`.
    """
    previous = np.inf
    for corrections in range(MAX_CORRECTIONS):
        here = _evaluate(problem, at)
        if here.largest_error < PRECISION:
            return here, corrections
        error = here.largest_error
        if not error < np.inf or (corrections > 1 and error > 0.5 * previous):
            return None
        previous = error
        change = here.solve(row, -np.append(here.error, 0.0))
        if not np.abs(change * here.scale).max() <= longest:
            return None
        at = at + change
    return None


def _take_step(
    problem: LevelProblem, here: _Point, tangent: FloatArray, step: float, goal: float
) -> tuple[_Point, float] | None:
    """Return the next point, whose log tau is at least `goal`, and the next step's length.

    None if even the shortest step fails.
    """
    row = tangent * here.scale**2
    row /= np.abs(row).max()
    while step > SMALLEST_STEP:
        at, normal = _predict(here, tangent, step), row
        if at[-1] < goal:  # correct at the temperature of the goal
            at = _predict(here, tangent, (goal - here.at[-1]) / tangent[-1])
            at[-1], normal = goal, _temperature_direction(at.size)
        found = _correct(problem, at, normal, max(0.5 * step, LONGEST_CORRECTION))
        if found is not None:
            point, corrections = found
            return point, step * LONGER if corrections < 3 else step
        step *= SHORTER
    return None


def _settle(problem: LevelProblem, at: FloatArray) -> _Point:
    """Return the curve's point at the temperature of `at`, by Newton's method from there."""
    best = here = _evaluate(problem, at)
    for _ in range(MAX_CORRECTIONS):
        right = -np.append(here.error, 0.0)
        change = here.solve(_temperature_direction(at.size), right)
        if not np.abs(change).max() < LARGEST_EXPONENT:
            break
        here = _evaluate(problem, here.at + change)
        if here.largest_error < best.largest_error:
            best = here
        elif best.largest_error < PRECISION:
            break
    return best


def _tasks_at_zero(problem: LevelProblem, here: _Point) -> FloatArray | None:
    """Extrapolate the tasks to temperature 0 from three temperatures: tau, tau / 2 and tau / 4.

    None if the curve is not found at one of them.
    """
    points = []
    for _ in PARABOLA:
        here = _settle(problem, here.at)
        if here.largest_error > 0.5:
            return None
        points.append(here.tasks)
        warming = _temperature_direction(here.at.size)
        cooling = here.solve(warming, -warming)
        if np.isnan(cooling).any():
            return None
        here = replace(here, at=_predict(here, cooling, LOG_2))
    stays = points[-1] > VANISHING * points[0]
    tasks = sum(factor * found for factor, found in zip(PARABOLA, points, strict=True))
    return np.where(stays, np.maximum(tasks, 0.0), 0.0)


def follow_level_path(problem: LevelProblem, temperatures: Sequence[float]) -> Iterator[FloatArray]:
    """Follow the curve of levels to low temperatures; yield ever better tasks at temperature 0.

    Parameters
    ----------
    problem : LevelProblem
    temperatures : sequence of float
        Temperatures below 1, in descending order. From each, tasks are extrapolated to
        temperature 0. Rounding errors are about 1e-16 / temperature.

    Yields
    ------
    (N, G) float
        Tasks of each user on each server, 0 where negligible. Ends early if the curve is lost.

    Notes
    -----
    PS-DSF: Khamse-Ashari et al. 2017; the curve is derived in ``docs/design``. Some 300 to 1000
    Newton steps of O(N G R + (G R)^3), or O(N (G R)^2) at high temperatures.
    """
    here = _settle(problem, np.zeros(problem.use[:, 0].size + 1))
    # The direction of travel, first towards lower temperatures: each tangent is chosen with a
    # positive product with it, so that the curve is not followed backwards.
    forward, step = -_temperature_direction(here.at.size), FIRST_STEP
    steps_left = MAX_STEPS if here.largest_error < PRECISION else 0
    for goal in np.log(temperatures):
        while here.at[-1] > goal + ROUNDING:
            steps_left -= 1
            tangent = here.solve(forward, _temperature_direction(here.at.size))
            if steps_left < 0 or np.isnan(tangent).any():
                return
            tangent /= np.abs(tangent * here.scale).max()
            forward = tangent * here.scale**2
            forward /= np.abs(forward).max()
            found = _take_step(problem, here, tangent, step, goal)
            if found is None:
                return
            here, step = found
        tasks = _tasks_at_zero(problem, here)
        if tasks is not None:
            yield tasks
