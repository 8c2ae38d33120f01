"""Theorem 1 of Khamse-Ashari et al. 2017, by the definition on random problems; and uniqueness."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np

from fairlead.certificates.bottleneck_theorems import certify_bottleneck
from fairlead.mechanisms.catalogue import solve
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.report.numbers import number
from fairlead_papers.psdsf import PAPER
from fairlead_papers.psdsf.definition import largest_gain
from fairlead_papers.reproduction import Finding, Reproduction, TextTable
from fairlead_papers.setting import Setting
from fairlead_papers.surveys.drawing import Distribution
from fairlead_papers.verdict import PrintedClaim

PROBLEMS, QUICK_PROBLEMS = 200, 25
MECHANISMS = {"ps-dsf": "PS-DSF", "tsf": "TSF", "drfh": "C-DRFH"}
LOOK = Distribution(constrained=0.4)
# Below the first a bottleneck is missed, or a gain is, by rounding; above the second it is no
# rounding. In between nothing is said.
NOTHING, SOMETHING = 1e-6, 1e-4
NOTE = (
    "The theorem is proved in the paper. What is checked is that the condition on bottlenecks, by "
    "which every answer here is certified, and the definition, by a linear programme for each "
    "user, say the same of answers by three mechanisms."
)


@dataclass(frozen=True)
class Judged:
    """What the two ways to see PS-DSF say of one answer."""

    mechanism: str
    missing: float  # by how much the worst-off user misses a bottleneck
    gain: float  # by how much somebody could be raised at the expense of higher shares only

    @property
    def clear(self) -> bool:
        """Whether neither number is between rounding and something."""
        return all(v <= NOTHING or v >= SOMETHING for v in (self.missing, self.gain))


@PAPER.reproduces(
    "theorem-1",
    "Theorem 1",
    "bottlenecks for everybody everywhere, and the definition, on random problems",
    "an answer is PS-DSF if and only if every user has a bottleneck on every server it may use",
    "ten seconds",
)
def reproduce(setting: Setting) -> Reproduction:
    """Ask both of the answers to random problems; ten seconds or so."""
    problems = QUICK_PROBLEMS if setting.quick else PROBLEMS
    what = "problems, by condition and by definition"
    each = setting.do_all(what, _judge_answers, setting.generators(problems))
    judged = list(chain.from_iterable(each))
    return Reproduction(
        setting=(
            f"{problems} random problems of at most {LOOK.users} users, {LOOK.servers} servers and "
            f"{LOOK.resources} resources, seed {setting.seed}{' (quick)' if setting.quick else ''};"
            " answers of PS-DSF, TSF and C-DRFH under resource division."
        ),
        claims=judge_theorem(judged),
        findings=(_not_unique(),),
        note=NOTE,
        tables=(_table(judged),),
        data={
            name: {
                "missing": [j.missing for j in judged if j.mechanism == name],
                "gain": [j.gain for j in judged if j.mechanism == name],
            }
            for name in MECHANISMS
        },
    )


def _judge_answers(random: np.random.Generator) -> list[Judged]:
    problem = LOOK.draw(random)
    judged = []
    for name in MECHANISMS:
        tasks = solve(problem, name).tasks
        missing = certify_bottleneck(problem, tasks).violation
        judged.append(Judged(name, missing, largest_gain(problem, tasks)))
    return judged


def judge_theorem(judged: list[Judged]) -> tuple[PrintedClaim, ...]:
    """Check that the condition and the definition agree, each way, on the clear cases."""
    clear = [j for j in judged if j.clear]
    with_bottleneck = [j for j in clear if j.missing <= NOTHING]
    without = [j for j in clear if j.missing > NOTHING]
    raised = sum(j.gain > NOTHING for j in with_bottleneck)
    stuck = sum(j.gain <= NOTHING for j in without)
    ours = [j for j in judged if j.mechanism == "ps-dsf"]
    missing = sum(j.missing > NOTHING for j in ours)
    return (
        PrintedClaim(
            "where every user has a bottleneck on every server it may use, nobody can be raised at "
            "the expense of higher shares only",
            raised == 0 and bool(with_bottleneck),
            f"{raised} exceptions among {len(with_bottleneck)} answers",
        ),
        PrintedClaim(
            "where somebody has none, somebody can be raised so",
            stuck == 0 and bool(without),
            f"{stuck} exceptions among {len(without)} answers",
        ),
        PrintedClaim(
            "there is a PS-DSF answer, and ours is one",
            missing == 0 and bool(ours),
            f"{missing} answers of {len(ours)} miss a bottleneck",
        ),
    )


def two_answers() -> tuple[Problem, tuple[FloatArray, FloatArray]]:
    """Return a problem of two like servers and two PS-DSF answers to it, (2, 2) tasks each."""
    problem = Problem.from_arrays([[6, 6], [6, 6]], [[2, 1], [1, 2]], resources=["CPU", "memory"])
    apart = np.array([[3.0, 0.0], [0.0, 3.0]])
    together = np.array([[2.0, 2.0], [2.0, 2.0]])
    return problem, (apart, together)


def _not_unique() -> Finding:
    problem, answers = two_answers()
    missing = max(certify_bottleneck(problem, tasks).violation for tasks in answers)
    gain = max(largest_gain(problem, tasks) for tasks in answers)
    apart, together = (number(float(tasks.sum(axis=1)[0])) for tasks in answers)
    return Finding(
        "III speaks of the PS-DSF allocation as of one; that there may be several is not said.",
        "Under resource division there may be, even in totals. Two servers of (6, 6), tasks of "
        f"(2, 1) and (1, 2): with each user on a server of its own both have {apart} tasks, with "
        f"both on both servers {together}. Each answer satisfies Theorem 1 (a bottleneck is missed "
        f"by {missing:.2g}) and Definition 5 (a gain of {gain:.2g}).",
        "pytest tests/papers/test_psdsf_theorem_1.py -k two_answers",
    )


def _table(judged: list[Judged]) -> TextTable:
    rows = []
    for name, called in MECHANISMS.items():
        mine = [j for j in judged if j.mechanism == name]
        rows.append(
            [
                called,
                str(len(mine)),
                str(sum(j.missing <= NOTHING for j in mine)),
                str(sum(j.gain <= NOTHING for j in mine)),
                str(sum(not j.clear for j in mine)),
            ]
        )
    headings = ["", "answers", "everybody has bottlenecks", "nobody can be raised", "unclear"]
    return TextTable("The condition and the definition.", headings, rows)
