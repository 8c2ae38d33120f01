"""Lemma 1 of Khamse-Ashari et al. 2017: lies that take from others and cost the liar nothing."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np

from fairlead.errors import CertificateError, InputError
from fairlead.mechanisms.catalogue import solve
from fairlead.model.problem import Problem
from fairlead.properties.lies import Lie, tell, usable_tasks
from fairlead.report.numbers import number, percent
from fairlead_papers.psdsf import PAPER
from fairlead_papers.reproduction import Finding, Reproduction, TextTable
from fairlead_papers.setting import Setting
from fairlead_papers.surveys.drawing import Distribution
from fairlead_papers.verdict import PrintedClaim

MECHANISM = "ps-dsf"
PROBLEMS, QUICK_PROBLEMS = 400, 40
LIES_OF_EACH = 4
LOOK = Distribution(constrained=0.4)
# Changes of tasks below the first, relative, are rounding; losses above the second are none.
OWN_ROUNDING, LOSS = 1e-7, 1e-4
# How far a declared amount is off, as the standard deviation of its logarithm.
SPREAD = 0.5
DEMANDS, SERVERS = "demands", "servers"
NOTE = (
    "The lemma covers lies about demands and about servers. Of the former no search found one that "
    "it would not allow. Of the latter there are many: a user can claim a server that it cannot "
    "use, and take from those who can."
)


@dataclass(frozen=True)
class Told:
    """What one lie about ``demands`` or ``servers`` did."""

    about: str
    own: float  # what the liar's true tasks changed by, relative
    others: float  # the same of the user that lost most

    @property
    def harms_for_nothing(self) -> bool:
        """Whether somebody lost and the liar did not."""
        return self.own >= -OWN_ROUNDING and self.others < -LOSS


@PAPER.reproduces(
    "lemma-1",
    "Lemma 1",
    "what lies about demands and servers do to others, on random problems",
    "no lie lowers the tasks of others without lowering the liar's own",
    "half a minute",
    known_to_differ=True,
)
def reproduce(setting: Setting) -> Reproduction:
    """Tell lies on random problems, and the one that refutes the lemma; half a minute."""
    problems = QUICK_PROBLEMS if setting.quick else PROBLEMS
    each = setting.do_all("problems that users lie on", _lies_on, setting.generators(problems))
    told = list(chain.from_iterable(each))
    problem, lie = claims_a_server_in_vain()
    example = measure_lie(problem, lie, SERVERS)
    return Reproduction(
        setting=(
            f"{problems} random problems with positive demands, {LIES_OF_EACH} lies about demands "
            f"and as many about servers on each, under resource division, seed {setting.seed}"
            f"{' (quick)' if setting.quick else ''}."
        ),
        claims=judge_lies([*told, example]),
        findings=(_finding(problem, lie),),
        note=NOTE,
        tables=(_table(told),),
        data={
            about: {
                "lies": sum(t.about == about for t in told),
                "harm_for_nothing": sum(t.about == about and t.harms_for_nothing for t in told),
            }
            for about in (DEMANDS, SERVERS)
        },
    )


def claims_a_server_in_vain() -> tuple[Problem, Lie]:
    """Return two servers with a user each, and the lie of the second to want the first as well."""
    problem = Problem.from_arrays(
        [[3], [1]], [[1], [1]], eligible=[[1, 0], [0, 1]], users=["user 1", "user 2"]
    )
    return problem, Lie(1, problem.demand[1], np.array([True, True]), None)


def measure_lie(problem: Problem, lie: Lie, about: str) -> Told:
    """Divide with and without a lie, and compare what everybody can run of its true tasks."""
    honest = solve(problem, MECHANISM).user_tasks
    lied = tell(problem, lie)
    tasks = solve(lied, MECHANISM).tasks
    own = usable_tasks(problem, lied, lie.user, tasks[lie.user])
    change = tasks.sum(axis=1) / honest - 1.0
    return Told(
        about, own / float(honest[lie.user]) - 1.0, float(np.delete(change, lie.user).min())
    )


def judge_lies(told: list[Told]) -> tuple[PrintedClaim, ...]:
    """Check for each kind of lie whether one took from others and cost the liar nothing."""
    claims = []
    for about in (DEMANDS, SERVERS):
        mine = [t for t in told if t.about == about]
        harmful = [t for t in mine if t.harms_for_nothing]
        worst = min((t.others for t in harmful), default=0.0)
        measured = f"{len(harmful)} of {len(mine)} lies do"
        if harmful:
            measured += f", at worst {percent(-worst)} of somebody's tasks"
        claims.append(
            PrintedClaim(
                f"where all demand everything, a lie about {about} lowers nobody else's tasks "
                "without lowering the liar's own",
                bool(mine) and not harmful,
                measured,
            )
        )
    return tuple(claims)


def _lies_on(random: np.random.Generator) -> list[Told]:
    problem = LOOK.draw(random)
    told = []
    for about in (DEMANDS, SERVERS):
        for _ in range(LIES_OF_EACH):
            user = int(random.integers(problem.n_users))
            demand, eligible = problem.demand[user], problem.users.eligible[user]
            if about == DEMANDS:
                some = random.random(problem.n_resources) < 0.6
                demand = demand * np.exp(random.normal(0.0, SPREAD, problem.n_resources) * some)
            else:
                eligible = random.random(problem.n_groups) < 0.5
            if not (eligible & (problem.fitting[user] > 0)).any():
                continue  # who may run nowhere gets nothing
            try:
                told.append(measure_lie(problem, Lie(user, demand, eligible, None), about))
            except (InputError, CertificateError):
                continue  # a lie that cannot be told, or that no certified answer was found to
    return told


def _finding(problem: Problem, lie: Lie) -> Finding:
    honest = solve(problem, MECHANISM).user_tasks
    lied = tell(problem, lie)
    tasks = solve(lied, MECHANISM).tasks
    own = usable_tasks(problem, lied, lie.user, tasks[lie.user])
    before, after = (number(float(v)) for v in (honest[0], tasks[0].sum()))
    return Finding(
        "Lemma 1: where all demand everything, a user cannot lower the utilization of others by "
        "lying about demands or eligible servers without lowering its own.",
        "Not so of servers. Servers of 3 and 1 units, user 1 only on the first, user 2 only on the "
        f"second. If user 2 claims both, user 1 falls from {before} tasks to {after}, and user 2 "
        f"can run {number(own)} task as before.",
        "pytest tests/properties/test_published_table.py -k lemma_1",
    )


def _table(told: list[Told]) -> TextTable:
    rows = []
    for about in (DEMANDS, SERVERS):
        mine = [t for t in told if t.about == about]
        rows.append(
            [
                about,
                str(len(mine)),
                str(sum(t.own > OWN_ROUNDING for t in mine)),
                str(sum(t.others < -LOSS for t in mine)),
                str(sum(t.harms_for_nothing for t in mine)),
            ]
        )
    headings = ["lies about", "told", "pay", "others lose", "others lose, the liar does not"]
    return TextTable("Lies on random problems.", headings, rows)
