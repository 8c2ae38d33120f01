"""Alpha-fair shares and other sums of utilities: the definition (eq. 17), and what it implies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from fairlead import CertificateError, InputError, Problem, RefusalError, solve
from fairlead.certificates.bottleneck_theorems import certify_time_sharing
from fairlead.certificates.utility_prices import Stage, certify_largest_utility
from fairlead.mechanisms.catalogue import CONSTRAINTS, LIMITS, RATES
from fairlead.mechanisms.utility import AlphaUtility, maximize_utility
from fairlead.model.problem_changes import rebuilt
from oracles import definitions, examples, utility
from spoilers import each_way
from strategies import problems

DIVIDED = problems(features=(CONSTRAINTS, LIMITS))
TIMED = problems(features=(CONSTRAINTS, LIMITS, RATES))


# Without 0, 1 and 2, which other tests put to eq. 17 as mechanisms.
@pytest.mark.parametrize("alpha", [0.25, 4.0])
@pytest.mark.parametrize("mechanism", ["alpha-fair", "alpha-fair-tdm"])
@settings(max_examples=4)
@given(data=st.data())
def test_no_feasible_allocation_improves_on_it(mechanism, alpha, data):
    time_shared = mechanism.endswith("-tdm")
    problem = data.draw(TIMED if time_shared else DIVIDED)
    try:
        allocation = solve(problem, mechanism, alpha=alpha)
    except CertificateError:
        reject()  # an honest refusal, where totals or prices lie decades apart
    assert allocation.certificate.holds
    missed = utility.alpha_fair_violation(problem, allocation.tasks, alpha, time_shared=time_shared)
    assert missed <= 2e-6


@pytest.mark.parametrize("alpha", [3.0, 5.0])
def test_users_with_all_their_tasks_do_not_bid(alpha):
    problem = Problem.from_arrays(
        [[6, 1, 7], [6, 1, 7], [7, 4, 4], [9, 10, 3], [7, 3, 2]],
        [[6, 3, 1], [3, 5, 8], [3, 5, 7], [4, 6, 5], [1, 3, 10]],
        count=[3, 4, 4, 4, 2],
        weight=[1, 2, 2, 4.02880624, 2],
        task_limit=[19.1510761, 4.10723304, 5971.42857, 0.00703333333, 5.53333333],
        rates=[
            [10, 0.71108501, 59.68055851, 4, 10],
            [np.nan] * 5,
            [2, 2, 13.09402173, 33.1070278, 14.46217509],
            [10, 7, 63.22817801, 2, 9.5694065],
            [4, 9, 26.35232958, 3, 24.37710581],
        ],
    )
    # Four have all they want, and one the rest: so it is for each alpha, however steep.
    expected = solve(problem, "alpha-fair-tdm", alpha=2.0).user_tasks
    assert np.isclose(expected, problem.task_limit, rtol=1e-12, atol=0.0).sum() == 4
    totals = solve(problem, "alpha-fair-tdm", alpha=alpha).user_tasks
    np.testing.assert_allclose(totals, expected, rtol=1e-9)


def test_or_bid_where_only_such_prices_lead_there():
    problem = Problem.from_arrays(
        [[4], [7], [6]],
        [[9], [6], [3], [8], [5], [3]],
        count=[3, 1, 1],
        weight=[42.03, 3, 4.888, 1, 2, 0.4646],
        task_limit=[0.0001857, np.inf, 0.0003918, 83.29, 1.318, 0.000305],
        rates=[
            [1.45, 3.497, 2.588],
            [53.33, 2.079, 4.069],
            [7.323, 14.04, 19.1],
            [1.572, 8.689, 33.7],
            [np.nan] * 3,
            [11.32, 2.586, 2.802],
        ],
    )
    tasks = solve(problem, "alpha-fair-tdm", alpha=4.0).tasks
    assert utility.alpha_fair_violation(problem, tasks, 4.0, time_shared=True) <= 2e-6


@pytest.mark.parametrize(
    ("name", "alpha"), [("proportional", 1.0), ("max-tasks", 0.0), ("alpha-fair", 2.0)]
)
@pytest.mark.parametrize("form", ["", "-tdm"])
def test_names_of_one_alpha(name, alpha, form):
    problem = examples.ps_dsf_section_v()
    expected = solve(problem, f"alpha-fair{form}", alpha=alpha).user_tasks
    np.testing.assert_allclose(solve(problem, name + form).user_tasks, expected, rtol=1e-7)


@pytest.mark.parametrize("time_shared", [False, True])
@settings(max_examples=5)
@given(data=st.data())
def test_spoiled_answers_fail(time_shared, data):
    problem = data.draw(TIMED if time_shared else DIVIDED)
    right = solve(problem, "proportional-tdm" if time_shared else "proportional")
    even = np.ones((1 if time_shared else problem.n_resources, problem.n_groups))
    for name, tasks in each_way(data.draw, problem, right.tasks):
        with np.errstate(divide="ignore", invalid="ignore"):
            log_marginal = AlphaUtility(1.0, problem.weight).log_marginal(tasks.sum(axis=1))
        tried = [even]
        if np.isfinite(log_marginal).all():
            missed = utility.alpha_fair_violation(problem, tasks, 1.0, time_shared=time_shared)
            if missed < 1e-4:
                continue
            # The prices of the linear programme itself prove most.
            worth = np.exp(log_marginal)[:, None] * np.ones(tasks.shape)
            tried.append(utility.most_worth(problem, worth, time_shared=time_shared)[1])
        for prices in tried:
            stages, elasticity = [Stage(prices, 0.0)], np.ones(len(tasks))
            assert not certify_largest_utility(
                problem, tasks, log_marginal, elasticity, stages, time_shared=time_shared
            ).holds, name


# The tie between the two papers: PS-DSF under TDM is weighted proportional fairness.


@settings(max_examples=8)
@given(problem=TIMED)
def test_proportional_by_time_is_ps_dsf(problem):
    allocation = solve(problem, "proportional-tdm")
    assert definitions.theorem_2_violation(problem, allocation.tasks) <= 1e-5
    assert certify_time_sharing(problem, allocation.tasks).violation <= 1e-5
    # With finite tasks, Theorem 2 leaves several totals where a user has all it wants.
    if not problem.has_limits:
        other = solve(problem, "ps-dsf-tdm").user_tasks
        np.testing.assert_allclose(allocation.user_tasks, other, rtol=1e-5)


@pytest.mark.parametrize("alpha", [-1, -1e-9, float("nan"), float("inf"), 33, "x", "3", True, None])
def test_an_alpha_that_means_nothing(alpha):
    with pytest.raises(InputError, match="alpha: must be a number"):
        solve(Problem.from_arrays([[1.0]], [[1.0]]), "alpha-fair", alpha=alpha)


def test_options_are_refused_where_they_mean_nothing():
    problem = Problem.from_arrays([[1.0]], [[1.0]])
    with pytest.raises(InputError, match="alpha: ps-dsf has no such option; it takes none"):
        solve(problem, "ps-dsf", alpha=1)
    with pytest.raises(InputError, match="beta: alpha-fair has no such option; it takes alpha"):
        solve(problem, "alpha-fair", beta=1)


# Any concave utility of any score.


def _shifted_log(level):
    return 1 / (1 + level)


def _shifted_log_curvature(level):
    return -1 / (1 + level) ** 2


@settings(max_examples=5)
@given(problem=DIVIDED.filter(lambda p: not p.has_limits), seed=st.integers(0, 99))
def test_another_utility_of_scores_that_differ_by_server(problem, seed):
    score = np.random.default_rng(seed).uniform(0.5, 2, (problem.n_users, problem.n_groups))
    allocation = maximize_utility(problem, _shifted_log, _shifted_log_curvature, score=score)
    assert allocation.certificate.holds
    level = (allocation.tasks * score).sum(axis=1) / problem.weight
    missed = utility.improvement(
        problem, allocation.tasks, _shifted_log(level), time_shared=False, score=score
    )
    assert missed <= 2e-6


def test_the_logarithm_as_another_utility_is_proportional():
    problem = examples.ps_dsf_figure_1()
    general = maximize_utility(problem, lambda level: 1 / level, lambda level: -(level**-2.0))
    np.testing.assert_allclose(
        general.user_tasks, solve(problem, "proportional").user_tasks, rtol=1e-8
    )


def test_faults_of_utilities():
    problem = examples.ps_dsf_figure_1()
    log = (lambda level: 1 / level, lambda level: -(level**-2.0))
    with pytest.raises(InputError, match="score: must be a number, "):
        maximize_utility(problem, *log, score=[1, 2])
    with pytest.raises(InputError, match="marginal: must return 3 positive numbers"):
        maximize_utility(problem, lambda level: -level, log[1])
    with pytest.raises(InputError, match="curvature: must return 3 zero or negative numbers"):
        maximize_utility(problem, log[0], lambda level: level)
    limited = Problem.from_arrays([[4.0], [2.0]], [[1.0]], task_limit=[2])
    with pytest.raises(RefusalError, match="finite tasks with scores that differ by server"):
        maximize_utility(limited, *log, score=[[1, 2]])
    rates = Problem.from_arrays([[12.0]], [[1.0], [2.0]], rates=[[12.0], [6.0]])
    with pytest.raises(RefusalError, match="given rates divide the time of servers"):
        maximize_utility(rates, *log)
    assert maximize_utility(rates, *log, time_shared=True).user_tasks == pytest.approx([6, 3])
    with pytest.raises(RefusalError, match="does not admit queues"):
        maximize_utility(rates.with_queues([{"name": "q"}], ["q", None]), *log)


def test_another_utility_gives_idle_users_nothing():
    log = (lambda level: 1 / level, lambda level: -(level**-2.0))
    problem = Problem.from_arrays(
        [[12.0], [5.0]], [[1.0], [1.0], [2.0]], count=[1, 0], weight=[1, 0, 1]
    )
    answer = maximize_utility(problem, *log, score=[1, 5, 2])
    assert answer.problem is problem
    assert answer.user_tasks == pytest.approx([6, 0, 3])
    assert maximize_utility(
        rebuilt(problem, weight=[1, 1, 1], task_limit=[np.inf, 0, 2]), *log
    ).user_tasks == pytest.approx([8, 0, 2])
