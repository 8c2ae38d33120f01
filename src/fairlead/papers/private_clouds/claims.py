"""What the paper says of Tables II to V, and whether it is so of given outcomes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairlead.papers.private_clouds.printed import (
    BF_DRF,
    DRF,
    PS_DSF,
    RESIDUAL,
    RRR_PS_DSF,
    RRR_RESIDUAL,
    TSF,
)
from fairlead.papers.private_clouds.study import Outcome
from fairlead.papers.verdict import Claim
from fairlead.report.numbers import number

Outcomes = Mapping[str, Outcome]

# "Superior in terms of task efficiency": the printed totals are 1.8 times those of DRF and TSF.
MUCH_MORE = 1.5
# "Comparable", of the total; the printed ones are 0.2 % apart.
COMPARABLE = 0.02
# "Modest": the printed improvement is 2.4 %.
MODEST = 0.05
# How many times as much the tasks of DRF and TSF vary; printed, 3.9 to 4.7 times.
VARIES_MORE = 3.0
# What DRF and TSF leave over of what they do not use up; printed, 62.6 and 62.8 %.
MOSTLY_LEFT = 0.5
# Unused, of 100 or 30 units, under the others; printed, at most 10.
LITTLE_LEFT = 10.0
GLOBAL = (DRF, TSF)
BY_SERVER = (RRR_PS_DSF, PS_DSF, RESIDUAL)


def judge_tasks(outcomes: Outcomes) -> tuple[Claim, ...]:
    """Say whether schedulers that look at each server run more tasks (Table II)."""
    total = {name: outcome.total for name, outcome in outcomes.items()}
    most_global = max(total[name] for name in GLOBAL)
    least = min(total[name] for name in BY_SERVER)
    apart = abs(total[RRR_PS_DSF] / total[PS_DSF] - 1)
    better = total[RESIDUAL] / total[PS_DSF] - 1
    as_jointly = np.array_equal(outcomes[RRR_RESIDUAL].tasks, outcomes[RESIDUAL].tasks)
    always = not outcomes[RRR_RESIDUAL].tasks_sd.any()
    return (
        Claim(
            "PS-DSF and rPS-DSF run far more tasks than DRF and TSF in rounds: at least "
            f"{MUCH_MORE:g} times as many",
            least >= MUCH_MORE * most_global,
            f"{number(least)} at least, {number(most_global)} at most",
        ),
        Claim(
            "choosing the server by best-fit makes DRF run far more tasks, too",
            total[BF_DRF] >= MUCH_MORE * total[DRF],
            f"{number(total[BF_DRF])}, and {number(total[DRF])} in rounds",
        ),
        Claim(
            f"PS-DSF in rounds is comparable to choosing jointly: within {100 * COMPARABLE:g} %",
            apart <= COMPARABLE,
            f"{number(total[RRR_PS_DSF])} and {number(total[PS_DSF])} tasks",
        ),
        Claim(
            f"scoring by what is free runs more tasks, but modestly: up to {100 * MODEST:g} %",
            0 < better <= MODEST,
            f"{number(total[RESIDUAL])} and {number(total[PS_DSF])} tasks",
        ),
        Claim(
            "rPS-DSF in rounds is as rPS-DSF in every trial",
            as_jointly and always,
            "no trial differs" if as_jointly and always else "trials differ",
        ),
    )


def judge_variation(outcomes: Outcomes) -> tuple[Claim, ...]:
    """Say whether PS-DSF varies little, and DRF and TSF much (Table III)."""
    steady = float(outcomes[RRR_PS_DSF].tasks_sd.diagonal().max())
    varying = min(float(outcomes[name].tasks_sd.diagonal().min()) for name in GLOBAL)
    across = float(outcomes[RRR_PS_DSF].tasks_sd.max())
    return (
        Claim(
            "tasks of (1,1) and (2,2) vary far less under PS-DSF in rounds than under DRF and "
            f"TSF: those are at least {VARIES_MORE:g} times as far off",
            varying >= VARIES_MORE * steady,
            f"sd {number(varying)} at least, {number(steady)} at most",
        ),
        Claim(
            "under PS-DSF in rounds nothing varies by more than about a task: sd at most 1.1",
            across <= 1.1,
            f"sd {number(across)} at most",
        ),
    )


def judge_unused(outcomes: Outcomes) -> tuple[Claim, ...]:
    """Say who leaves much of what (Table IV)."""
    large = min(float(outcomes[name].unused.diagonal().min()) for name in GLOBAL) / 100
    small = max(float(outcomes[name].unused[[0, 1], [1, 0]].max()) for name in GLOBAL)
    others = max(float(outcomes[name].unused.max()) for name in (*BY_SERVER, BF_DRF))
    return (
        Claim(
            "DRF and TSF leave over most of the larger resource of each server: more than "
            f"{100 * MOSTLY_LEFT:g} %",
            large > MOSTLY_LEFT,
            f"{number(100 * large)} % at least",
        ),
        Claim(
            "DRF and TSF use up the smaller resource of each server",
            small == 0,
            f"{number(small)} left at most",
        ),
        Claim(
            f"the others leave at most {LITTLE_LEFT:g} units of anything",
            others <= LITTLE_LEFT,
            f"{number(others)} at most",
        ),
    )


def judge_unused_variation(outcomes: Outcomes) -> tuple[Claim, ...]:
    """Say how what is left over varies (Table V)."""
    of_small = max(float(outcomes[name].unused_sd[[0, 1], [1, 0]].max()) for name in GLOBAL)
    of_large = min(float(outcomes[name].unused_sd.diagonal().min()) for name in GLOBAL)
    steady = float(outcomes[RRR_PS_DSF].unused_sd.diagonal().max())
    return (
        Claim(
            "DRF and TSF use up the smaller resource of each server in every trial",
            of_small == 0,
            f"sd {number(of_small)} at most",
        ),
        Claim(
            "what is left of the larger resource varies far less under PS-DSF in rounds than "
            f"under DRF and TSF: those are at least {VARIES_MORE:g} times as far off",
            of_large >= VARIES_MORE * steady,
            f"sd {number(of_large)} at least, {number(steady)} at most",
        ),
    )
