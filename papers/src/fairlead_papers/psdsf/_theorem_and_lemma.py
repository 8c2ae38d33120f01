"""Check Theorem 1 and Lemma 1 of Khamse-Ashari et al. 2017 on random problems."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np

from fairlead.certificates.bottleneck_theorems import certify_bottleneck
from fairlead.errors import CertificateError, InputError
from fairlead.mechanisms.catalogue import solve
from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.properties.lies import Lie, declared_problem, usable_tasks
from fairlead.report.numbers import number, percent
from fairlead_papers.psdsf import PAPER
from fairlead_papers.psdsf._two_servers import largest_gain
from fairlead_papers.reproduction import Finding, PrintedClaim, Reproduction, TextTable
from fairlead_papers.setting import Parameter, Setting
from fairlead_papers.surveys.random_problems import Distribution

PROBLEMS_OF_THEOREM_1 = Parameter("problems", 200, quick=25)
MECHANISMS = {"ps-dsf": "PS-DSF", "tsf": "TSF", "drfh": "C-DRFH"}
DISTRIBUTION = Distribution(constrained=0.4)
# A violation or a gain up to the first is rounding, from the second on it is not. Answers with a
# number in between are not judged.
LARGEST_ROUNDING, SMALLEST_NOTABLE = 1e-6, 1e-4
NOTE_OF_THEOREM_1 = (
    "The theorem is proved in the paper. The check is that two tests agree on the answers of three "
    "mechanisms: the condition on bottlenecks, by which answers are certified, and the definition, "
    "by a linear programme for each user."
)


@dataclass(frozen=True)
class JudgedAnswer:
    """Violations of the condition and of the definition by one answer."""

    mechanism: str
    missing: float  # the largest violation of Theorem 1
    gain: float  # the largest gain by Definition 5, see `largest_gain`

    @property
    def clear(self) -> bool:
        """Whether each number is either rounding or notable."""
        return all(
            v <= LARGEST_ROUNDING or v >= SMALLEST_NOTABLE for v in (self.missing, self.gain)
        )


@PAPER.reproduces(
    "theorem-1",
    "Theorem 1",
    "bottlenecks of all users on all servers, and the definition, on random problems",
    "an answer is PS-DSF if and only if every user has a bottleneck on every server it may use",
    "ten seconds",
    parameters=(PROBLEMS_OF_THEOREM_1,),
)
def reproduce_theorem_1(setting: Setting) -> Reproduction:
    """Test answers to random problems by the condition and the definition."""
    problems = setting.value(PROBLEMS_OF_THEOREM_1)
    what = "problems, by condition and by definition"
    each = setting.do_all(what, _judge_answers, setting.generators(problems))
    judged = list(chain.from_iterable(each))
    return Reproduction(
        setting=(
            f"{problems} random problems of at most {DISTRIBUTION.users} users, "
            f"{DISTRIBUTION.servers} servers and {DISTRIBUTION.resources} resources, "
            f"{setting.seed_text}; answers of PS-DSF, TSF and C-DRFH under resource division."
        ),
        claims=judge_theorem(judged),
        findings=(_not_unique(),),
        note=NOTE_OF_THEOREM_1,
        tables=(_theorem_table(judged),),
        data={
            name: {
                "missing": [j.missing for j in judged if j.mechanism == name],
                "gain": [j.gain for j in judged if j.mechanism == name],
            }
            for name in MECHANISMS
        },
    )


def _judge_answers(random: np.random.Generator) -> list[JudgedAnswer]:
    problem = DISTRIBUTION.draw(random)
    judged = []
    for name in MECHANISMS:
        tasks = solve(problem, name).tasks
        missing = certify_bottleneck(problem, tasks).violation
        judged.append(JudgedAnswer(name, missing, largest_gain(problem, tasks)))
    return judged


def judge_theorem(judged: list[JudgedAnswer]) -> tuple[PrintedClaim, ...]:
    """Judge whether the condition and the definition agree, both ways, on clear answers."""
    clear = [j for j in judged if j.clear]
    with_bottleneck = [j for j in clear if j.missing <= LARGEST_ROUNDING]
    without = [j for j in clear if j.missing > LARGEST_ROUNDING]
    raised = sum(j.gain > LARGEST_ROUNDING for j in with_bottleneck)
    stuck = sum(j.gain <= LARGEST_ROUNDING for j in without)
    ours = [j for j in judged if j.mechanism == "ps-dsf"]
    missing = sum(j.missing > LARGEST_ROUNDING for j in ours)
    return (
        PrintedClaim(
            "if every user has a bottleneck on every server that it may use, no user can gain at "
            "the expense of higher shares only",
            raised == 0 and bool(with_bottleneck),
            f"{raised} exceptions among {len(with_bottleneck)} answers",
        ),
        PrintedClaim(
            "if a user lacks one, a user can gain so",
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
    """Return a problem with two equal servers, and two PS-DSF answers to it, (2, 2) tasks each."""
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
        "III speaks of the PS-DSF allocation, as if it were unique.",
        "Under resource division it need not be, not even in users' totals. Two servers of (6, 6), "
        f"tasks of (2, 1) and (1, 2): with each user on a server of its own both have {apart} "
        f"tasks, with both on both servers {together}. Each answer satisfies Theorem 1 (violation "
        f"{missing:.2g}) and Definition 5 (gain {gain:.2g}).",
        "pytest papers/tests/test_psdsf_theorem_1.py -k two_answers",
    )


def _theorem_table(judged: list[JudgedAnswer]) -> TextTable:
    rows = []
    for name, called in MECHANISMS.items():
        mine = [j for j in judged if j.mechanism == name]
        rows.append(
            [
                called,
                str(len(mine)),
                str(sum(j.missing <= LARGEST_ROUNDING for j in mine)),
                str(sum(j.gain <= LARGEST_ROUNDING for j in mine)),
                str(sum(not j.clear for j in mine)),
            ]
        )
    headings = ["", "answers", "all have bottlenecks", "no user can gain", "unclear"]
    return TextTable("The condition and the definition.", headings, rows)


MECHANISM = "ps-dsf"
PROBLEMS_OF_LEMMA_1 = Parameter("problems", 400, quick=40)
LIES_OF_EACH = 4
# Relative changes of the liar's tasks up to the first are rounding; a loss of another user counts
# if it is larger than the second.
OWN_ROUNDING, LOSS = 1e-7, 1e-4
# Standard deviation of the logarithm of a declared over the true amount.
SPREAD = 0.5
DEMANDS, SERVERS = "demands", "servers"
NOTE_OF_LEMMA_1 = (
    "The lemma covers lies about demands and about servers. The search found no lie about demands "
    "that refutes it. Many lies about servers do: a user can claim a server that it cannot use, "
    "and so take capacity from users that can."
)


@dataclass(frozen=True)
class LieEffect:
    """The effect of one lie."""

    about: str  # ``demands`` or ``servers``
    own: float  # relative change of the tasks that the liar can really run
    others: float  # relative change of the tasks of the user that lost most

    @property
    def harms_for_nothing(self) -> bool:
        """Whether another user lost tasks and the liar did not."""
        return self.own >= -OWN_ROUNDING and self.others < -LOSS


@PAPER.reproduces(
    "lemma-1",
    "Lemma 1",
    "effects of lies about demands and servers on other users, on random problems",
    "no lie lowers the tasks of others without lowering the liar's own",
    "half a minute",
    known_to_differ=True,
    parameters=(PROBLEMS_OF_LEMMA_1,),
)
def reproduce_lemma_1(setting: Setting) -> Reproduction:
    """Search random problems for lies that refute the lemma."""
    problems = setting.value(PROBLEMS_OF_LEMMA_1)
    each = setting.do_all("problems with lies", _measure_lies, setting.generators(problems))
    effects = list(chain.from_iterable(each))
    problem, lie = useless_server_claim()
    example = measure_lie(problem, lie, SERVERS)
    return Reproduction(
        setting=(
            f"{problems} random problems with positive demands, {LIES_OF_EACH} lies about demands "
            f"and as many about servers on each, under resource division, {setting.seed_text}."
        ),
        claims=judge_lies([*effects, example]),
        findings=(_finding(problem, lie),),
        note=NOTE_OF_LEMMA_1,
        tables=(_lemma_table(effects),),
        data={
            about: {
                "lies": sum(t.about == about for t in effects),
                "harm_for_nothing": sum(t.about == about and t.harms_for_nothing for t in effects),
            }
            for about in (DEMANDS, SERVERS)
        },
    )


def useless_server_claim() -> tuple[Problem, Lie]:
    """Return two servers with a user each, and the lie of user 2 that it can use both."""
    problem = Problem.from_arrays(
        [[3], [1]], [[1], [1]], eligible=[[1, 0], [0, 1]], users=["user 1", "user 2"]
    )
    return problem, Lie(1, problem.demand[1], np.array([True, True]), None)


def measure_lie(problem: Problem, lie: Lie, about: str) -> LieEffect:
    """Divide with and without a lie, and compare the tasks that each user can really run."""
    honest = solve(problem, MECHANISM).user_tasks
    lied = declared_problem(problem, lie)
    tasks = solve(lied, MECHANISM).tasks
    own = usable_tasks(problem, lied, lie.user, tasks[lie.user])
    change = tasks.sum(axis=1) / honest - 1.0
    return LieEffect(
        about, own / float(honest[lie.user]) - 1.0, float(np.delete(change, lie.user).min())
    )


def judge_lies(effects: list[LieEffect]) -> tuple[PrintedClaim, ...]:
    """Judge, for each kind of lie, whether one lowered others' tasks but not the liar's."""
    claims = []
    for about in (DEMANDS, SERVERS):
        mine = [t for t in effects if t.about == about]
        harmful = [t for t in mine if t.harms_for_nothing]
        worst = min((t.others for t in harmful), default=0.0)
        measured = f"{len(harmful)} of {len(mine)} lies lower only others' tasks"
        if harmful:
            measured += f", one user's by up to {percent(-worst)}"
        claims.append(
            PrintedClaim(
                f"if all users demand all resources, a lie about {about} that lowers another "
                "user's tasks lowers the liar's, too",
                bool(mine) and not harmful,
                measured,
            )
        )
    return tuple(claims)


def _measure_lies(random: np.random.Generator) -> list[LieEffect]:
    """Draw a problem and lies, and measure the effect of each."""
    problem = DISTRIBUTION.draw(random)
    effects = []
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
                continue  # such a user would get no tasks
            try:
                effects.append(measure_lie(problem, Lie(user, demand, eligible, None), about))
            except (InputError, CertificateError):
                continue  # an invalid problem, or no certified answer to it
    return effects


def _finding(problem: Problem, lie: Lie) -> Finding:
    honest = solve(problem, MECHANISM).user_tasks
    lied = declared_problem(problem, lie)
    tasks = solve(lied, MECHANISM).tasks
    own = usable_tasks(problem, lied, lie.user, tasks[lie.user])
    before, after = (number(float(v)) for v in (honest[0], tasks[0].sum()))
    return Finding(
        "Lemma 1: if all users demand all resources, a user cannot lower the utilization of others "
        "by lying about demands or eligible servers without lowering its own.",
        "Wrong for servers. Servers of 3 and 1 units, user 1 only on the first, user 2 only on the "
        f"second. If user 2 claims both, user 1 falls from {before} tasks to {after}, and user 2 "
        f"can run {number(own)} task as before.",
        "pytest papers/tests/test_psdsf_theorem_1.py -k lemma_does_not_cover",
    )


def _lemma_table(effects: list[LieEffect]) -> TextTable:
    rows = []
    for about in (DEMANDS, SERVERS):
        mine = [t for t in effects if t.about == about]
        rows.append(
            [
                about,
                str(len(mine)),
                str(sum(t.own > OWN_ROUNDING for t in mine)),
                str(sum(t.others < -LOSS for t in mine)),
                str(sum(t.harms_for_nothing for t in mine)),
            ]
        )
    headings = ["lies about", "number", "pay", "others lose", "others lose, the liar does not"]
    return TextTable("Lies on random problems.", headings, rows)
