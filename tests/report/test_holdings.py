"""The numbers behind the pictures are those of the allocation."""

from __future__ import annotations

import numpy as np
import pytest
from handmade_answers import certificate, crowd, two_servers

from fairlead.model.allocation import Allocation
from fairlead.model.problem import Problem
from fairlead.report.allocation_figures import (
    LARGEST_HOLDERS,
    group_figure,
    group_holdings,
    holds,
    share_figure,
    user_styles,
)
from fairlead.report.charts import COLOUR_OF_OTHERS


def test_a_group_with_few_holders_names_them_all() -> None:
    allocation = two_servers()
    picture = group_holdings(allocation, 0)
    (holding,) = picture.holdings
    assert holding.users == (0,)
    assert holding.tasks == 10
    assert holding.amounts == pytest.approx((2, 10))
    assert holding.shares == pytest.approx((1, 10 / 12))
    assert holding.time == pytest.approx(1)
    assert picture.free == pytest.approx((0, 2))


@pytest.mark.parametrize("g", range(4))
def test_small_holders_are_taken_together_and_nothing_is_lost(g: int) -> None:
    allocation = crowd(200, 4)
    problem = allocation.problem
    picture = group_holdings(allocation, g)
    assert len(picture.holdings) == LARGEST_HOLDERS + 1
    users = [n for holding in picture.holdings for n in holding.users]
    assert sorted(users) == np.flatnonzero(allocation.tasks[:, g] > 0).tolist()
    amounts = np.sum([holding.amounts for holding in picture.holdings], axis=0)
    assert amounts == pytest.approx(allocation.usage[g])
    assert amounts + picture.free == pytest.approx(problem.group_capacity[g])
    alone = [max(*holding.shares, holding.time) for holding in picture.holdings[:-1]]
    assert alone == sorted(alone, reverse=True)
    others = picture.holdings[-1].users
    together = allocation.tasks[list(others), g, None] * problem.demand[list(others)]
    assert (together / problem.group_capacity[g]).max() <= alone[-1] + 1e-12


def test_one_holder_more_than_shown_is_named_rather_than_called_one_other() -> None:
    allocation = crowd(300, 1)
    held = np.flatnonzero(allocation.tasks[:, 0] > 0)
    picture = group_holdings(allocation, 0, largest=len(held) - 1)
    assert all(len(holding.users) == 1 for holding in picture.holdings)


def test_what_a_solver_leaves_behind_is_no_holding() -> None:
    clean = two_servers()
    dusty = Allocation(clean.problem, "drfh", clean.tasks + 1e-10, certificate())
    assert [len(group_holdings(dusty, g).holdings) for g in range(2)] == [1, 1]
    assert holds(dusty).tolist() == [[True, False], [False, True]]


def test_a_resource_that_a_group_lacks_has_no_bar() -> None:
    problem = Problem.from_arrays(
        [[4, 0], [4, 8]], [[1, 0], [1, 2]], resources=["memory", "gpu"], units=["GiB", ""]
    )
    allocation = Allocation(problem, "drfh", np.array([[4.0, 0], [0, 4]]), certificate())
    picture = group_holdings(allocation, 0)
    assert picture.holdings[0].shares == (1.0, 0.0)
    figure = group_figure(allocation, picture, user_styles([allocation]))
    assert figure["layout"]["yaxis"]["ticktext"] == ["memory (GiB)"]


def test_bars_add_up_to_the_whole_group() -> None:
    allocation = crowd(50, 3)
    styles = user_styles([allocation])
    for g in range(3):
        figure = group_figure(allocation, group_holdings(allocation, g), styles)
        for place in range(2):
            assert sum(trace["x"][place] for trace in figure["data"]) == pytest.approx(1)
        assert figure["layout"]["barmode"] == "stack"


def test_time_sharing_has_a_bar_for_time() -> None:
    for mechanism, bars in (("ps-dsf-tdm", 3), ("ps-dsf", 2)):
        allocation = two_servers(mechanism)
        figure = group_figure(allocation, group_holdings(allocation, 0), user_styles([allocation]))
        assert len(figure["data"][0]["x"]) == bars
    labels = [two_servers("ps-dsf-tdm")]
    figure = group_figure(labels[0], group_holdings(labels[0], 1), user_styles(labels))
    assert figure["layout"]["yaxis"]["ticktext"][-1] == "time"
    assert figure["data"][0]["x"][-1] == pytest.approx(1)


def test_users_keep_their_colour_and_the_large_ones_differ() -> None:
    several = [crowd(60, 2, seed=1), crowd(60, 2, seed=2)]
    styles = user_styles(several)
    largest = np.argsort(-np.maximum(several[0].dominant_share, several[1].dominant_share))
    assert len({styles[n] for n in largest[:40]}) == 40
    painted = {}
    for allocation in several:
        for g in range(2):
            picture = group_holdings(allocation, g)
            figure = group_figure(allocation, picture, styles)
            for holding, trace in zip(picture.holdings, figure["data"], strict=False):
                marker = trace["marker"]
                look = (marker["color"], marker["pattern"]["shape"])
                if len(holding.users) > 1:
                    assert look == (COLOUR_OF_OTHERS, "")
                else:
                    assert painted.setdefault(holding.users[0], look) == look


def test_shares_are_drawn_largest_first_and_per_weight_when_weights_differ() -> None:
    allocation = crowd(12, 3)
    figure = share_figure(allocation, user_styles([allocation]))
    bars, diamonds = figure["data"]
    expected = sorted(allocation.dominant_share.tolist(), reverse=True)
    assert bars["x"] == pytest.approx(expected, rel=1e-5)
    per_weight = allocation.dominant_share / allocation.problem.weight
    assert sorted(diamonds["x"]) == pytest.approx(sorted(per_weight.tolist()), rel=1e-5)
    many = crowd(500, 3)
    (curve,) = share_figure(many, user_styles([many]))["data"]
    assert len(curve["y"]) == 500
    assert curve["y"] == sorted(curve["y"], reverse=True)


def test_nothing_left_is_nothing_and_no_rounding_error() -> None:
    assert 57 - 100 * 0.57 > 0
    problem = Problem.from_arrays([[57, 60]], [[0.57, 0.57]])
    allocation = Allocation(problem, "drf", np.array([[100.0]]), certificate())
    assert group_holdings(allocation, 0).free == (0.0, pytest.approx(3.0))
