"""DRF and PS-DSF in trees of queues: printed trees, the plain cases, guarantees, witnesses."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from effort import cases
from fairlead.certificates.bottleneck_theorems import certify_bottleneck
from fairlead.certificates.queue_levels import certify_queue_levels, certify_queue_stops
from fairlead.errors import NoConvergenceError, RefusalError
from fairlead.mechanisms import queue_trees
from fairlead.mechanisms.catalogue import CATALOGUE, QUEUES, solve
from fairlead.model.problem import Problem
from fairlead.properties.audit import audit
from fairlead.properties.envy import measure_envy
from fairlead.properties.queue_guarantees import SHARES as GUARANTEE
from fairlead.properties.sharing import measure_slices
from fairlead.scheduler.scheduler import Scheduler
from random_trees import random_queues, random_tree

CPU, GPU = [1, 0], [0, 1]
NEARLY = 1 - 1e-6


def tree(
    demand: list[list[float]], parents: dict[str, str | None], users: list[str | None]
) -> Problem:
    """Return a problem of one pool (12, 12)."""
    rows = [{"name": name, "parent": parent} for name, parent in parents.items()]
    return Problem.from_arrays([[12, 12]], demand).with_queues(rows, users)


@pytest.mark.parametrize("mechanism", ["drf", "drfh", "ps-dsf"])
def test_the_printed_trees_are_divided_as_printed(mechanism: str) -> None:
    one = tree([GPU, CPU, GPU], {"n2": None}, [None, "n2", "n2"])
    assert solve(one, mechanism).user_tasks == pytest.approx([6, 12, 6])
    two = tree([CPU, CPU, CPU, GPU, GPU], {"n3": None}, [None, None, "n3", "n3", None])
    assert solve(two, mechanism).user_tasks == pytest.approx([4, 4, 4, 6, 6])


@pytest.mark.parametrize("mechanism", ["drf", "drfh", "ps-dsf"])
def test_a_queue_grows_alone_while_its_level_stays(mechanism: str) -> None:
    """The first two stop at level 2 of their queue, whose third user has 1 of the other resource.

    It grows to 2 before the fourth goes on, and both then share the rest.
    """
    limit = [1, 1, np.inf, np.inf]
    flat = Problem.from_arrays([[12, 12]], [CPU, CPU, GPU, [1, 1]], task_limit=limit)
    problem = flat.with_queues([{"name": "q"}], ["q", "q", "q", None])
    assert solve(problem, mechanism).user_tasks == pytest.approx([1, 1, 6, 6])


def without_queues(problem: Problem) -> Problem:
    users = problem.users
    return Problem.from_arrays(
        problem.cluster.capacity,
        users.demand,
        weight=users.weight,
        eligible=users.eligible,
        task_limit=users.task_limit,
    )


@pytest.mark.parametrize("seed", range(cases(6)))
def test_without_inner_queues_it_is_the_plain_mechanism(seed: int) -> None:
    plain = without_queues(random_tree(Random(seed), servers=3, limits=seed % 2 == 1))
    names = [f"q{n}" for n in range(plain.n_users)]
    one_each = [{"name": q, "weight": w} for q, w in zip(names, plain.weight, strict=True)]
    above_all = [{"name": "all", "weight": 7}]
    for problem in (
        plain.with_queues([], [None] * plain.n_users),
        plain.with_queues(above_all, ["all"] * plain.n_users),
        plain.with_queues(one_each, names),
    ):
        assert certify_bottleneck(plain, solve(problem, "ps-dsf").tasks).holds
        for mechanism in ("drfh",) if plain.has_constraints else ("drf", "drfh"):
            tasks = solve(plain, mechanism).user_tasks
            assert solve(problem, mechanism).user_tasks == pytest.approx(tasks)


@pytest.mark.parametrize("seed", range(cases(5)))
def test_answers_with_less_or_more_are_not_certified(seed: int) -> None:
    problem = random_tree(Random(seed), servers=4, limits=seed % 2 == 1)
    answer = solve(problem, "drfh")
    assert answer.certificate.holds
    pool = solve(problem.pooled(), "drf")
    user = int(np.flatnonzero(answer.user_tasks)[0])
    for factor in (0.99, 1.01):
        tasks, pooled = answer.tasks.copy(), pool.tasks.copy()
        tasks[user] *= factor
        pooled[user] *= factor
        assert not certify_queue_levels(pool.problem, pooled, [pooled.T]).holds
        for price in (0.0, 1.0):
            prices = np.full((1, problem.n_groups, problem.n_resources), price)
            assert not certify_queue_stops(problem, tasks, tasks.sum(axis=1)[None], prices).holds


def test_small_whole_tasks_are_placed_as_the_tree_is_divided() -> None:
    for seed in range(cases(5)):
        random = Random(seed)
        rows, of_user = random_queues(random, 5)
        demand = np.array([[random.choice([0, 1, 2, 3]) for _ in "cg"] for _ in of_user])
        demand[~demand.any(axis=1)] = 1
        weight = [random.choice([1, 2, 3]) for _ in of_user]
        limit = [random.choice([np.inf, 200]) for _ in of_user]
        problem = Problem.from_arrays([[2400, 2400]], demand, weight=weight, task_limit=limit)
        divided = solve(problem.with_queues(rows, of_user), "drf").user_tasks
        s = Scheduler(("cpu", "gpu"), policy="drf/first-fit")
        s.add_server("pool", {"cpu": 2400, "gpu": 2400})
        for row in rows:
            if row["name"] in {*of_user, *(other["parent"] for other in rows)}:
                s.add_queue(str(row["name"]), row["weight"], row["parent"])
        for n, queue in enumerate(of_user):
            s.add_queue(f"u{n}", weight[n], queue)
            amounts = {r: int(d) for r, d in zip(("cpu", "gpu"), demand[n], strict=True) if d}
            s.submit(f"u{n}", amounts, int(min(limit[n], 2400)))
        placed = Counter(p.queue for p in s.place())
        found = [placed[f"u{n}"] for n in range(len(of_user))]
        assert found == pytest.approx(divided, abs=12), seed


@pytest.mark.parametrize("seed", range(cases(10)))
def test_on_a_pool_every_queue_and_user_has_its_part(seed: int) -> None:
    problem = random_tree(Random(seed), limits=seed % 2 == 1)
    answer = solve(problem, "drf")
    assert answer.certificate.holds
    pool = problem.pooled()
    assert solve(pool, "drfh").user_tasks == pytest.approx(answer.user_tasks)
    assert (answer.user_tasks >= measure_slices(pool) * NEARLY).all()
    assert audit(problem, "drf", properties=[GUARANTEE])[GUARANTEE].verdict == "holds"
    assert not envied_siblings(pool, answer.tasks)


def envied_siblings(problem: Problem, tasks: np.ndarray) -> list[int]:
    """Return the users that envy one of the same queue."""
    queues = problem.users.queues
    assert queues is not None
    found = []
    for q in range(-1, len(queues.names)):
        siblings = queues.of_user == q
        among = np.where(siblings[:, None], tasks, 0.0)
        gain = measure_envy(problem, among).gain
        found += [n for n in np.flatnonzero(siblings) if gain[n] > 1e-6]
    return found


@pytest.mark.parametrize("seed", range(cases(8)))
def test_ps_dsf_gives_every_member_its_part_of_any_one_server(seed: int) -> None:
    problem = random_tree(Random(seed), servers=3, limits=seed % 2 == 1)
    try:
        answer = solve(problem, "ps-dsf")
    except NoConvergenceError:
        assert problem.has_limits
        return
    assert answer.certificate.holds
    wants = answer.user_tasks < problem.task_limit * NEARLY
    part = problem.part * problem.gamma.max(axis=1)
    assert (answer.user_tasks >= part * NEARLY)[wants].all()
    assert not envied_siblings(problem, answer.tasks)


def test_ps_dsf_may_give_a_queue_more_than_its_part() -> None:
    """On each server the queue counts with the member that may run there, of two."""
    eligible = [[True, False], [False, True], [True, True]]
    problem = Problem.from_arrays([[3], [3]], [[1]] * 3, eligible=eligible)
    problem = problem.with_queues([{"name": "team"}], ["team", "team", None])
    answer = solve(problem, "ps-dsf")
    assert answer.user_tasks == pytest.approx([2, 2, 2])
    verdict = audit(problem, answer, properties=["sharing-incentive"])["sharing-incentive"]
    assert verdict.verdict == "fails"
    assert verdict.witness["user"] == "u3"
    assert verdict.witness["slice"] == pytest.approx(3)


def test_no_answer_is_given_where_none_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below its limit the last user counts on the first server, at the limit it does not."""
    problem = Problem.from_arrays(
        [[3, 3], [3, 6], [6, 6]],
        [[3, 2], [1, 1], [2, 3], [2, 3]],
        eligible=[[True, False, True], [True] * 3, [True] * 3, [True, True, False]],
        task_limit=[np.inf, np.inf, 1, 1],
    )
    problem = problem.with_queues([{"name": "team"}], ["team", None, "team", "team"])
    monkeypatch.setattr(queue_trees, "MAX_SWEEPS", 500)
    with pytest.raises(NoConvergenceError):
        solve(problem, "ps-dsf")


def test_a_skipped_stop_is_no_filling() -> None:
    problem = tree([CPU, CPU, CPU, GPU, GPU], {"n3": None}, [None, None, "n3", "n3", None])
    at_once = np.array([[4.0, 4, 4, 5, 7]])  # of 12 GPUs, a user alone got more than the team
    certificate = certify_queue_levels(problem, at_once.T, [at_once])
    assert certificate.detail["unfair_growth"] > 0.1
    assert max(certificate.detail["overuse"], certificate.detail["unused"]) == pytest.approx(0)


def test_three_mechanisms_admit_queues() -> None:
    problem = tree([GPU, CPU], {"team": None}, ["team", None])
    assert [name for name, row in CATALOGUE.items() if QUEUES in row.accepts] == [
        "drf",
        "drfh",
        "ps-dsf",
    ]
    with pytest.raises(RefusalError, match="does not admit queues"):
        solve(problem, "tsf")
    rates = Problem.from_arrays([[1]], [[1], [1]], rates=[[1], [2]])
    with pytest.raises(RefusalError, match="given rates"):
        solve(rates.with_queues([{"name": "team"}], ["team", None]), "ps-dsf")


def test_json_of_a_tree_has_parts_and_shares_of_queues() -> None:
    flat = Problem.from_arrays([[12, 12]], [CPU, GPU, GPU], weight=[1, 0, 2])
    rows = [{"name": "a", "weight": 3}, {"name": "b", "parent": "a"}, {"name": "idle"}]
    found = solve(flat.with_queues(rows, ["b", "idle", None]), "drf").to_dict()
    table = [(q["name"], q["parent"], q["part"], q["dominant_share"]) for q in found["queues"]]
    assert table == [("a", None, 0.6, 1.0), ("b", "a", 0.6, 1.0), ("idle", None, 0.0, 0.0)]
    assert [user["queue"] for user in found["users"]] == ["b", "idle", None]
