"""Compare the growth of our methods with published ones: figures of docs/beyond-the-papers.md.

``python -m pytest benchmarks/test_growth.py`` takes some minutes, draws the pictures in
``docs/pictures`` and writes the measured figures into the page. Every test gives all methods the
same input, warms them up, and checks that they give the same answer. The published methods are in
Python with NumPy, and stop at smaller sizes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import pytest

from conic import solve_by_cones
from fairlead import Problem, solve
from fairlead.certificates.bottleneck_theorems import certify_time_sharing
from fairlead.mechanisms import psdsf
from fairlead.mechanisms.drf import (
    solve_drf_per_server,
    solve_drf_tasks,
    solve_pdrf,
    solve_pdrf_without_top_up,
)
from fairlead.mechanisms.dynamic_drf import DynamicDRF
from fairlead.mechanisms.max_min import score_drf
from fairlead.model.quanta import to_whole_pool
from fairlead.simulation.filling import fill
from fairlead.simulation.replay import replay
from fairlead.traces.generator import generate_day
from growth import Line, Panel, in_words, machine, publish, seconds_of, write
from heap_loop import serve_task_by_task
from merged_lp import solve_merged_lp
from random_problems import GOOGLE_PARK, google_park, random_problem
from replay_scan import replay_by_scan
from scans import scan
from server_procedure import ServerProcedure

Answer = TypeVar("Answer")

PARK_SERVERS = 12_583
# Violation at which rounds over the servers stop, and the seconds after which they give up.
GOAL, PATIENCE = 1e-6, 3.0
SEEDS = (1, 2, 3)
# Numbers of servers, all different, with ten users each.
CLUSTERS = (3, 5, 10, 20, 40, 80)


def test_machine() -> None:
    """Write the description of the machine into the page."""
    write("machine", f"Measured on: {machine()}.")


def timed(action: Callable[[], Answer]) -> tuple[float, Answer]:
    """Return the processor seconds of an action, and its answer."""
    start = time.process_time()
    answer = action()
    return time.process_time() - start, answer


def pool_of(n_tasks: float, largest: int) -> Problem:
    """Return a pool of 10 resources and 1,000 users on which about `n_tasks` tasks fit.

    Demands are whole, up to `largest`.
    """
    rng = np.random.default_rng(1)
    demand = rng.integers(1, largest + 1, (1_000, 10)).astype(float)
    reserve = rng.integers(50_000, 100_001, (1, 10)).astype(float) * largest
    problem = Problem.from_arrays(reserve, demand)
    scale = n_tasks / solve_drf_tasks(problem).user_tasks.sum()
    return Problem.from_arrays(np.rint(reserve * scale), demand)


def count_wrong_in_pdrf(runs: int) -> list[float]:
    """Return the mean number of 1,000 users with other tasks by PDRF's formula than by DRF.

    The second number is that after the top-up. Pools are as in Metin's Table 1.
    """
    rng = np.random.default_rng(1)
    wrong = np.zeros(2)
    for _ in range(runs):
        demand = rng.integers(1, 11, (1_000, 10)).astype(float)
        problem = Problem.from_arrays(rng.integers(50_000, 100_001, (1, 10)).astype(float), demand)
        exact = solve_drf_tasks(problem).user_tasks
        for k, solver in enumerate((solve_pdrf_without_top_up, solve_pdrf)):
            wrong[k] += (solver(problem).user_tasks != exact).sum()
    return (wrong / runs).tolist()  # type: ignore[no-any-return]


def test_whole_tasks() -> None:
    ours, heap = Line("jump, with its proof", True), Line("heap loop (Algorithm 1's turns)")
    formula = Line("PDRF, with its proof")
    # Large demands have no ties, which the heap's floats could break differently.
    for n_tasks in (1e4, 1e5, 1e6, 1e7, 1e9, 1e11):
        problem = pool_of(n_tasks, 100_000)
        pool = to_whole_pool(problem)
        exact = solve_drf_tasks(problem).user_tasks
        ours.add(n_tasks, seconds_of(partial(solve_drf_tasks, problem)))
        solve_pdrf(problem)
        formula.add(n_tasks, seconds_of(partial(solve_pdrf, problem)))
        if n_tasks <= 1e6:
            given = (pool.demand, pool.capacity, pool.step)
            assert (serve_task_by_task(*given) == exact).all()
            heap.add(n_tasks, seconds_of(partial(serve_task_by_task, *given)))
    wrong, still_wrong = count_wrong_in_pdrf(100)
    assert wrong > still_wrong > 0
    # Bounds on slopes are wide, so that they also hold on a busy machine.
    assert abs(ours.exponent) < 0.3
    assert heap.exponent > 0.7
    publish(
        "whole-tasks",
        [Panel("1,000 users, 10 resources", "tasks in all", [ours, heap, formula])],
        f"PDRF's formula gives {wrong:.0f} of 1,000 users a number of tasks that differs from "
        f"DRF's. After PDRF's top-up, the numbers of {still_wrong:.1f} users differ. These are "
        "means of 100 pools as in Metin's Table 1, with demands of 1 to 10.",
    )


def agents_of(n_agents: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(0.01, 1.0, (n_agents, 4))


def shares_of(demand: np.ndarray, solver: str) -> np.ndarray:
    agents = DynamicDRF(*demand.shape, solver=solver)
    agents.arrive_all(demand)
    return agents.shares


def test_arrivals() -> None:
    ours, halving = Line("stack of stairs", True), Line("halving (Algorithm 1, corrected)")
    programme = Line("linear programme (LP 1, HiGHS)")
    for solver in ("stack", "halving", "lp"):  # warms up
        shares_of(agents_of(5), solver)
    for n_agents in (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000):
        demand = agents_of(n_agents)
        ours.add(n_agents, seconds_of(partial(shares_of, demand, "stack")))
        shares = shares_of(demand, "stack")
        if n_agents <= 10_000:
            seconds, found = timed(partial(shares_of, demand, "halving"))
            assert found == pytest.approx(shares, rel=1e-8)
            halving.add(n_agents, seconds)
        if n_agents <= 300:
            assert shares_of(demand, "lp") == pytest.approx(shares, rel=1e-6)
            programme.add(n_agents, seconds_of(partial(shares_of, demand, "lp")))
    assert ours.exponent < 1.5
    assert halving.exponent > 1.2  # calls of NumPy still count at these sizes
    publish(
        "arrivals",
        [Panel("all arrivals together, 4 resources", "agents", [ours, halving, programme])],
    )


class Rounds(NamedTuple):
    """The result of rounds over the servers."""

    seconds: float  # processor time
    tasks: np.ndarray  # (N, G)
    violation: float  # of Theorem 1 or 2


def run_rounds_by_filling(problem: Problem, mechanism: str) -> Rounds:
    """Run Algorithm I, each server filled at once, until Theorem 1 or 2 holds to the goal."""
    begin = time.process_time()
    sweeps = psdsf.prepare_sweeps(problem, mechanism)
    while sweeps.certificate.violation > GOAL and time.process_time() - begin < PATIENCE:
        sweeps.run(sweeps.last, 200 * problem.n_users * problem.n_groups, GOAL)
    return Rounds(time.process_time() - begin, sweeps.best, sweeps.certificate.violation)


def run_rounds_as_printed(problem: Problem, mechanism: str) -> Rounds:
    """Run Algorithm I as printed until Theorem 1 or 2 holds to the goal."""
    sweeps = psdsf.prepare_sweeps(problem, mechanism)
    if mechanism == "ps-dsf":
        start = solve_drf_per_server(problem).tasks
    else:  # DRF divides the only resource, time, by weight
        start = problem.gamma * (problem.weight / problem.weight.sum())[:, None]
    begin = time.process_time()
    procedure, violation = ServerProcedure(problem, sweeps.use, start), np.inf
    while violation > GOAL and time.process_time() - begin < PATIENCE:
        procedure.run(10)
        violation = sweeps.certify(problem, procedure.tasks).violation
    return Rounds(time.process_time() - begin, procedure.tasks, violation)


def measure_ps_dsf(mechanism: str, rivals: tuple[Line, Line]) -> tuple[Line, str]:
    """Measure ours and two variants of Algorithm I over growing clusters, by medians over problems.

    Adds times to `rivals`. Returns our times, and sentences on the spread between problems and on
    unfinished runs.
    """
    ours, said = Line(f"ours, {mechanism}", True), []
    methods = (run_rounds_by_filling, run_rounds_as_printed)
    small = random_problem(np.random.default_rng(1), 10, 2, 2)
    for other in (mechanism, "proportional-tdm"):  # warms up; the first may call the second
        solve(small, other)
    for method in methods:
        method(small, mechanism)
    spread = 1.0
    for n_servers in CLUSTERS:
        problems = [different_servers(n_servers, seed) for seed in SEEDS]
        found = [timed(partial(solve, problem, mechanism)) for problem in problems]
        ours.add(n_servers, float(np.median([seconds for seconds, _ in found])))
        answers = [answer for _, answer in found]
        furthest = max(answer.certificate.violation for answer in answers)
        assert furthest <= GOAL
        for line, method in zip(rivals, methods, strict=True):
            if line.unfinished:
                continue
            runs = [method(problem, mechanism) for problem in problems]
            line.add(n_servers, float(np.median([run.seconds for run in runs])))
            reached = float(np.median([run.violation for run in runs]))
            line.unfinished = reached > GOAL
            if line.unfinished:
                said.append(
                    f"{line.name}, stopped after {PATIENCE:.0f} s with {n_servers} servers, has a "
                    f"violation of {reached:.0e}; ours has {furthest:.0e} or less."
                )
            elif method is run_rounds_by_filling:
                every = [run.seconds for run in runs]
                spread = max(spread, max(every) / min(every))
            for answer, run in zip(answers, runs, strict=True):
                if run.violation <= GOAL and mechanism == "ps-dsf-tdm":  # else not unique
                    assert run.tasks.sum(axis=1) == pytest.approx(answer.user_tasks, rel=1e-4)
    said.append(
        f"{rivals[0].name}, took up to {spread:.0f} times as long for the slowest of {len(SEEDS)} "
        "random problems of one size as for the fastest."
    )
    return ours, " ".join(said)


def different_servers(n_servers: int, seed: int) -> Problem:
    """Draw different servers, and ten times as many weighted users."""
    rng = np.random.default_rng(seed)
    return random_problem(rng, 10 * n_servers, n_servers, 2, weighted=True, largest_count=1)


def lines_of_algorithm_1() -> tuple[Line, Line]:
    return Line("Algorithm I, each server filled at once"), Line("Algorithm I as printed")


def test_sharing_time() -> None:
    rivals = lines_of_algorithm_1()
    ours, said = measure_ps_dsf("ps-dsf-tdm", rivals)
    cones, programme = Line("conic solver (Clarabel)"), Line("ours, proportional-tdm", True)
    apart = 0.0
    for n_servers in CLUSTERS:
        problem = different_servers(n_servers, SEEDS[0])
        seconds, tasks = timed(partial(solve_by_cones, problem))
        exact = solve(problem, "ps-dsf-tdm").user_tasks
        solve_programme = partial(solve, problem, "proportional-tdm")
        assert certify_time_sharing(problem, solve_programme().tasks).violation <= GOAL
        assert solve_programme().user_tasks == pytest.approx(exact, rel=1e-7)
        programme.add(n_servers, seconds_of(solve_programme))
        apart = max(apart, float(np.abs(tasks.sum(axis=1) / exact - 1.0).max()))
        cones.add(n_servers, seconds)
    assert apart < 0.1  # totals err by about the root of its tolerance on the objective
    publish(
        "sharing-time",
        [
            Panel(
                "PS-DSF under TDM, ten users a server", "servers", [ours, programme, *rivals, cones]
            )
        ],
        f"Totals of the conic solver, on the programme of this section, are within {apart:.0e} of "
        f"ours. It and `proportional-tdm` solve only the first of the {len(SEEDS)} problems of "
        "each size.",
        said,
    )


def test_levels() -> None:
    rivals = lines_of_algorithm_1()
    ours, _ = measure_ps_dsf("ps-dsf", rivals)
    publish("levels", [Panel("PS-DSF under RDM, ten users a server", "servers", [ours, *rivals])])


def park_of(n_servers: float, demand: np.ndarray) -> Problem:
    """Return about `n_servers` servers in the proportions of Google's cluster, in 10 groups."""
    count = np.maximum(1, np.round(GOOGLE_PARK[:, 0] * n_servers / PARK_SERVERS)).astype(int)
    return Problem.from_arrays(GOOGLE_PARK[:, 1:], demand, count=count)


def one_by_one(park: Problem) -> Problem:
    """Return the same servers, each as a group of its own."""
    return Problem.from_arrays(np.repeat(park.cluster.capacity, park.count, axis=0), park.demand)


def level_of(problem: Problem) -> float:
    """Return the least global dominant share under DRFH."""
    return float((solve(problem, "drfh").user_tasks * score_drf(problem)).min())


def test_prices() -> None:
    by_users = (Line("ours, all levels, with proof", True), Line("LP on merged groups (HiGHS)"))
    level_of(google_park(np.random.default_rng(1), 20))
    for n_users in (30, 100, 300, 1_000, 3_000, 10_000):
        problem = google_park(np.random.default_rng(1), n_users)
        by_users[0].add(n_users, seconds_of(partial(level_of, problem)))
        if n_users <= 3_000:
            first_level = partial(solve_merged_lp, problem, score_drf(problem))
            assert first_level() == pytest.approx(level_of(problem), rel=1e-7)
            by_users[1].add(n_users, seconds_of(first_level))
    by_servers = (
        Line("ours, all levels, with proof", True),
        Line("LP over all servers (eq. 4-7)"),
        Line("the same LP on merged groups"),
    )
    demand = np.random.default_rng(1).uniform(0.01, 0.5, (30, 2))
    for n_servers in (40, 125, 400, 1_250, PARK_SERVERS):
        merged = park_of(n_servers, demand)
        listed, score = one_by_one(merged), score_drf(merged)
        size = listed.n_groups
        by_servers[0].add(size, seconds_of(partial(level_of, listed)))
        by_servers[2].add(size, seconds_of(partial(solve_merged_lp, merged, score)))
        if n_servers <= 1_250:
            as_printed = partial(solve_merged_lp, listed, score)
            assert as_printed() == pytest.approx(level_of(listed), rel=1e-7)
            by_servers[1].add(size, seconds_of(as_printed))
    publish(
        "prices",
        [
            Panel("Google's cluster of 12,583 servers", "users", by_users),
            Panel("30 users, clusters like Google's", "servers, listed one by one", by_servers),
        ],
        has_table=True,
    )


def test_proofs() -> None:
    from proof_times import PROVED, measure_proof

    panels = []
    for title, size_name, sizes, prepare in PROVED:
        solving, proving = Line("answer and proof", True), Line("proof alone")
        measure_proof(prepare, sizes[0])  # warms up
        for size in sizes:
            whole, proof = measure_proof(prepare, size)
            solving.add(size, whole)
            proving.add(size, proof)
        panels.append(Panel(title, size_name, [solving, proving]))
    parts = [
        proof / whole
        for whole, proof in (
            (panel.lines[0].seconds[-1], panel.lines[1].seconds[-1]) for panel in panels
        )
    ]
    publish(
        "proofs",
        panels,
        f"At the largest sizes the proof takes between {min(parts):.1%} and {max(parts):.0%} of "
        "the time.",
    )


def measure_filling(criterion: str, select: str, parks: tuple[int, ...]) -> Panel:
    """Compare fillings of parks by 100 users with scans, which make the same placements."""
    name = f"{criterion}/{select}, 100 users"
    ours, plain = Line("indexed", True), Line("scanning")
    demand = np.random.default_rng(1).uniform(0.005, 0.06, (100, 2))
    fill(park_of(20, demand), criterion, select)  # warms up
    for n_servers in parks:
        park = park_of(n_servers, demand)
        size = int(park.count.sum())
        ours.add(size, seconds_of(partial(fill, park, criterion, select)))
        if n_servers <= parks[-2]:
            scanned = partial(scan, park, select)
            assert np.array_equal(scanned(), fill(park, criterion, select).order)
            plain.add(size, seconds_of(scanned))
    return Panel(name, "servers", [ours, plain])


def measure_replay() -> Panel:
    """Compare replays of days under drf/best-fit with scans; tasks grow with servers."""
    ours, plain = Line("indexed", True), Line("scanning")
    for n_servers in (40, 126, 398, 1_258, 3_980, PARK_SERVERS):
        jobs = round(26_000 * n_servers / PARK_SERVERS)
        day = generate_day(n_servers, exact=True, jobs=jobs, load=0.8, seed=1)
        ours.add(n_servers, seconds_of(partial(replay, day, "drf/best-fit")))
        if n_servers <= 398:
            log = replay(day, "drf/best-fit")
            task, server = replay_by_scan(day)
            assert np.array_equal(log.task, task)
            assert np.array_equal(log.server, server)
            plain.add(n_servers, seconds_of(partial(replay_by_scan, day)))
    return Panel("a day replayed, drf/best-fit, load 0.8", "servers (79 tasks each)", [ours, plain])


def test_placing() -> None:
    panels = [
        measure_filling("drf", "first-fit", (125, 400, 1_250, PARK_SERVERS)),
        measure_filling("drf", "best-fit", (125, 400, 1_250, PARK_SERVERS)),
        measure_filling("ps-dsf", "joint", (40, 125, 400, 1_250)),
        measure_replay(),
    ]
    each = panels[-1].lines[0].seconds[-1]
    said = f"With the indexes, the replay of a day on all 12,583 servers takes {in_words(each)}."
    publish("placing", panels, said, has_table=True)
