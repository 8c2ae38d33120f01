"""Reproduce Figures 1 to 3, Table I and section IV of Wang, Liang and Li 2014."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import chdtrc

from fairlead.mechanisms.catalogue import solve
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.problem import Problem
from fairlead.properties.audit import audit
from fairlead.report.numbers import number
from fairlead.traces.generator import SERVERS, TABLE_I, draw_cluster
from fairlead_papers.drfh import PAPER
from fairlead_papers.reproduction import (
    Finding,
    PrintedClaim,
    Reading,
    Reproduction,
    TextTable,
    compare_amount,
)
from fairlead_papers.setting import Parameter, Setting
from fairlead_papers.surveys.random_problems import Distribution
from fairlead_papers.surveys.survey import Count, MechanismProperty, count_violations, in_words

# Printed tasks, by user and server, under DRF on each server and under DRFH.
PER_SERVER_TASKS = np.array([[5.0, 1.0], [1.0, 5.0]])
TOGETHER_TASKS = np.array([[10.0, 0.0], [0.0, 10.0]])
DOMINANT_SHARE = 5 / 7


def figure_1() -> Problem:
    """Return Fig. 1: a server with much memory and one with much CPU, and two such users."""
    return Problem.from_arrays(
        [[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]], resources=["cpu", "memory"], units=["", "GB"]
    )


@PAPER.reproduces(
    "figure-3",
    "Figures 1 to 3",
    "two different servers and two users, under DRF on each server and under DRFH",
    "6 tasks each, 5 of them on the better server, under DRF on each server; 10 each, with a "
    "global dominant share of 5/7, under DRFH",
    "a second",
)
def reproduce_figure_3(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
    """Divide each server by DRF, and both together by DRFH."""
    problem = figure_1()
    apart, together = solve(problem, "drf-per-server"), solve(problem, "drfh")
    readings = (
        *_readings("DRF on each server", apart.tasks, PER_SERVER_TASKS),
        *_readings("DRFH", together.tasks, TOGETHER_TASKS),
        compare_amount(
            "global dominant share under DRFH", together.dominant_share.min(), DOMINANT_SHARE, 1e-6
        ),
    )
    return Reproduction(
        setting="Two servers with 2 CPU and 12 GB, and 12 CPU and 2 GB; tasks of (0.2 CPU, 1 GB) "
        "and (1 CPU, 0.2 GB); divisible.",
        readings=readings,
        claims=judge_division(apart.tasks, together.tasks),
        data={"per_server": apart.tasks, "drfh": together.tasks},
    )


def judge_division(apart: FloatArray, together: FloatArray) -> tuple[PrintedClaim, ...]:
    """Judge whether DRFH gives all users more than DRF on each server, (N, S) tasks each."""
    both = np.stack([apart.sum(axis=1), together.sum(axis=1)])
    return (
        PrintedClaim(
            "DRF on each server is not Pareto optimal: all users can have more tasks",
            bool((both[1] > both[0] + 1e-9).all()),
            "; ".join(
                f"user {n + 1}: {number(apart_)} and {number(together_)} tasks"
                for n, (apart_, together_) in enumerate(both.T.tolist())
            ),
        ),
    )


def _readings(how: str, ours: FloatArray, printed: FloatArray) -> list[Reading]:
    return [
        compare_amount(
            f"{how}: tasks of user {n + 1} on server {i + 1}",
            ours[n, i],
            float(printed[n, i]),
            1e-6,
        )
        for n in range(2)
        for i in range(2)
    ]


DRAWN = Parameter("servers", 2_000, quick=2_000, most=1_000_000)
# A draw is rejected if fewer than one in a thousand draws are so far from the table.
DOUBTED = 1e-3
# The chi-square test merges classes with fewer expected servers.
FEWEST_EXPECTED = 5.0


@PAPER.reproduces(
    "table-1",
    "Table I",
    "the servers of a Google cluster, from which the servers of the other figures are drawn",
    "ten classes of servers, 53 % of them with half of the CPU and memory of the largest",
    "a second",
    parameters=(DRAWN,),
)
def reproduce_table_1(setting: Setting) -> Reproduction:
    """Draw servers as for the later figures, and compare their classes with the table."""
    rng = np.random.default_rng(setting.seed)
    servers = setting.value(DRAWN)
    cluster = draw_cluster(servers, rng)
    drawn = counts_by_class(cluster.capacity, cluster.count)
    printed = np.array([count for count, _, _ in TABLE_I])
    classes = [f"{cpu:.2f} CPU, {memory:.2f} memory" for _, cpu, memory in TABLE_I]
    expected = [f"{count * servers / SERVERS:.1f}" for count in printed.tolist()]
    columns = (classes, map(str, printed.tolist()), expected, map(str, drawn.tolist()))
    rows = list(zip(*columns, strict=True))
    total = (cluster.capacity * cluster.count[:, None]).sum(axis=0).tolist()
    return Reproduction(
        setting=f"{servers:,} servers drawn from the table's {SERVERS:,}, seed {setting.seed}: "
        f"{total[0]:,.1f} CPU and {total[1]:,.1f} memory in total, in units of the largest server.",
        claims=judge_draw(drawn, printed),
        findings=(
            Finding(
                "The classes of the servers drawn for Fig. 4 (100) and for Table II and Figs. 5 to "
                "8 (2,000) are not printed; of the 100 only the total capacity is.",
                "The 100 servers of drfh/figure-4 have this total; papers/docs/reproducing.md says "
                "how they were found. The 2,000 are drawn by the seed.",
                "fairlead reproduce drfh/figure-4",
            ),
        ),
        tables=(TextTable("Servers by class.", ["class", "printed", "expected", "drawn"], rows),),
        data={"printed": printed, "drawn": drawn},
    )


def counts_by_class(capacity: FloatArray, count: IntArray) -> IntArray:
    """Count the servers of each row of the table, (10,) int."""
    classes = np.array([[cpu, memory] for _, cpu, memory in TABLE_I])
    same = (capacity[:, None, :] == classes).all(axis=2)
    return np.asarray((same * count[:, None]).sum(axis=0))


def judge_draw(drawn: IntArray, printed: IntArray) -> tuple[PrintedClaim, ...]:
    """Judge whether servers, counted by row of the table, (10,), have its proportions."""
    expected = printed * drawn.sum() / printed.sum()
    common = expected >= FEWEST_EXPECTED
    observed = np.append(drawn[common], drawn[~common].sum())
    foreseen = np.append(expected[common], expected[~common].sum())
    # By hand, as scipy.stats takes a second to load.
    chance = float(chdtrc(len(foreseen) - 1, ((observed - foreseen) ** 2 / foreseen).sum()))
    return (
        PrintedClaim(
            "the drawn servers have the table's proportions (chi-square, at one in a thousand)",
            chance >= DOUBTED,
            f"{number(chance)} of draws are farther from it",
        ),
    )


DRFH, SHARING = "drfh", "sharing-incentive"
PROVED = (
    "envy-freeness",
    "pareto-optimality",
    "strategy-proofness",
    "single-server-drf",
    "single-resource-fairness",
    "bottleneck-fairness",
    "population-monotonicity",
)
PROBLEMS = Parameter("problems", 300, quick=20)
LIES = Parameter("lies", 60, quick=10)
# The paper's premises: positive demands, and tasks that may run on any server.
DISTRIBUTION = Distribution(constrained=0.0)


@PAPER.reproduces(
    "section-4",
    "Section IV",
    "properties of DRFH, searched for counterexamples",
    "envy-free, Pareto optimal, truthful; DRF on one server, fair on one resource and at one "
    "bottleneck; no user loses when others leave",
    "half a minute",
    parameters=(
        PROBLEMS,
        LIES,
    ),
)
def reproduce_section_4(setting: Setting) -> Reproduction:
    """Search random problems for violations of proved properties."""
    problems, lies = setting.value(PROBLEMS), setting.value(LIES)
    counts = count_violations(setting, (DRFH,), (*PROVED, SHARING), DISTRIBUTION, problems, lies)
    unlike_servers = Problem.from_arrays([[1, 20], [30, 1]], [[1, 1], [1, 5]])
    short = audit(unlike_servers, DRFH, properties=(SHARING,))[0]
    rows = [
        [in_words(property_name), str(counts[DRFH, property_name])]
        for property_name in (*PROVED, SHARING)
    ]
    return Reproduction(
        setting=(
            f"{problems} random problems of at most {DISTRIBUTION.users} users, "
            f"{DISTRIBUTION.servers} servers and {DISTRIBUTION.resources} resources, positive "
            f"demands, no placement constraints; {lies} lies on each, {setting.seed_text}."
        ),
        claims=judge_properties(counts),
        findings=(
            Finding(
                "IV-D: different servers can be cut into equal slices in many ways, so sharing "
                "incentive is neither proved nor refuted, but measured on dedicated clouds "
                "(Fig. 8).",
                "DRFH lacks it for an equal slice of every server. Servers of (1, 20) and (30, 1); "
                f"Ana's tasks take (1, 1), Bo's (1, 5). Bo runs {number(short.witness['tasks'])} "
                f"tasks; half of each server would run {number(short.witness['slice'])}. It fails "
                f"on {counts[DRFH, SHARING].violations} of the random problems.",
                "fairlead audit examples/witnesses/drfh-sharing-incentive.yaml -m drfh",
            ),
        ),
        note="A search that finds nothing proves nothing; the proofs are the paper's.",
        tables=(
            TextTable("Violations / problems that meet the premises.", ["property", "DRFH"], rows),
        ),
        data={
            property_name: vars(counts[DRFH, property_name]) for property_name in (*PROVED, SHARING)
        },
    )


def judge_properties(counts: Mapping[MechanismProperty, Count]) -> tuple[PrintedClaim, ...]:
    """Judge for each proved property whether the search found no violation."""
    return tuple(
        PrintedClaim(
            f"DRFH has {in_words(property_name)}",
            counts[DRFH, property_name].holds,
            counts[DRFH, property_name].sentence,
        )
        for property_name in PROVED
    )
