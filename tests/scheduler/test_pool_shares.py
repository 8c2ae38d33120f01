"""Shares of the pool after a server comes or goes are those of a count of all servers."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from fairlead.scheduler.rows import _ratio_pair, pair_of
from fairlead.scheduler.scheduler import Scheduler

NAMES = [f"r{i}" for i in range(9)]


@pytest.mark.parametrize("seed", range(10))
def test_changed_totals_give_the_shares_of_all_totals(seed: int) -> None:
    rng = random.Random(seed)
    scheduler, there = Scheduler(NAMES, "drf/best-fit"), []
    for number in range(40):
        if there and rng.random() < 0.3:
            scheduler.remove_server(there.pop(rng.randrange(len(there))))
        else:
            some = rng.sample(NAMES, k=rng.choice([1, 2, 3, 9]))
            scheduler.add_server(f"s{number}", {name: rng.randint(1, 10**6) for name in some})
            there.append(f"s{number}")
        kept = scheduler._core.share.copy(), scheduler._core.scale.copy()
        scheduler._take_pool()
        assert np.array_equal(kept[0], scheduler._core.share)
        assert np.array_equal(kept[1], scheduler._core.scale)


@pytest.mark.parametrize("seed", range(10))
def test_a_ratio_is_a_float_and_its_exact_rest(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        over, amount = rng.randrange(2 ** rng.randint(1, 75)), rng.randint(1, 2**70)
        assert _ratio_pair(over, amount) == pair_of(Fraction(over, amount))
    assert _ratio_pair(3, 0) == (0.0, 0.0)
