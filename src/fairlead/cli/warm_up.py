"""``fairlead warm-up``: compile now what would be compiled on first use."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Any

import typer

from fairlead.cli.progress import progress_bar
from fairlead.cli.streams import emit


def warm_up(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Mechanisms and policies; all when absent."),
    ] = None,
) -> None:
    """Compile now what commands would compile on their first use, as for a container's image.

    What is compiled is kept, in the folder that the environment variable FAIRLEAD_CACHE names, if
    it does.

    \b
    Example:
      fairlead warm-up ps-dsf drf/best-fit
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    from fairlead.mechanisms.catalogue import CATALOGUE
    from fairlead.scheduler.policies import every_policy, parse_policy

    for name in names or ():
        if name not in CATALOGUE:
            parse_policy(name)
    wanted = names or [*CATALOGUE, *every_policy()]
    with progress_bar("Compiling") as on_progress:
        for done, name in enumerate(wanted):
            if on_progress is not None:
                on_progress(done, len(wanted))
            _compile_for(name)
    emit(f"compiled for {len(wanted)} {'name' if len(wanted) == 1 else 'names'}\n")


def _compile_for(name: str) -> None:
    """Solve, or fill and replay, something small."""
    from contextlib import suppress
    from dataclasses import replace

    from fairlead.errors import RefusalError
    from fairlead.mechanisms.catalogue import CATALOGUE, solve
    from fairlead.model.problem import Problem

    pool = Problem.from_arrays([[9, 18]], [[1, 4], [3, 1]], task_limit=[4, 5])
    if name in CATALOGUE:
        with suppress(RefusalError):
            solve(pool, name)
        return
    from fairlead.scheduler.policies import parse_policy
    from fairlead.simulation.filling import fill_by
    from fairlead.simulation.replay import replay
    from fairlead.traces.generator import generate_day

    with suppress(RefusalError):  # what takes arrivals fills nothing
        _ = fill_by(pool, parse_policy(name)).certificate.holds
    day = generate_day(5, jobs=20, seed=1)
    replay(day, name)
    replay(replace(day, job_gang=day.job_tasks > 1), name)
    _compile_for_service(name)


def _compile_for_service(policy: str) -> None:
    """Have jobs come and go as in a service, and one as when a journal is recovered."""
    from fairlead.scheduler.foretold import Foretold
    from fairlead.scheduler.scheduler import Scheduler

    if find_spec("pydantic_core") is not None:
        _live(policy)
    scheduler, demand = Scheduler(["cpu", "memory", "gpu"], policy), {"cpu": 1.0, "memory": 1.0}
    if Foretold.takes(scheduler):
        scheduler.add_server("server", {"cpu": 2.0, "memory": 2.0})
        scheduler.add_queue("user")
        scheduler.submit("user", demand)
        foretold = Foretold(scheduler)
        if (line := foretold.line("user", demand, None)) is not None:
            foretold.will_submit(line, 1, 0, None, 0.0)
        foretold.will_place(0.0, 1)
        foretold.carry_out()


def _live(policy: str) -> None:
    """Have happen once what happens to a service."""
    from fairlead.service.state import ServiceState

    demand = {"cpu": 1.0, "memory": 1.0, "gpu": 0.0}
    job: dict[str, Any] = {"user": "ana", "demand": demand, "tasks": 1, "gang": False}
    job |= {"where": None, "priority": 0, "time_limit": 60.0, "after": []}
    large = demand | {"cpu": 9.0}
    unlike = {"members": [(demand, 1), (demand | {"cpu": 2.0}, 1)], "gang": True, "tasks": 2}
    server = {"capacity": {"cpu": 2.0, "memory": 8.0, "gpu": 0.0}, "labels": {}, "identity": "1"}
    place: tuple[str, dict[str, Any]] = ("place", {"limit": 100})
    events: list[tuple[str, dict[str, Any]]] = [
        ("submit", {"jobs": [job]}),
        ("server", {"name": "a", **server}),
        place,
        ("server", {"name": "b", **server}),
        ("submit", {"jobs": [job | {"user": "bo"}, job | {"tasks": 9}, job | {"demand": large}]}),
        place,
        ("submit", {"jobs": [job | {"tasks": 2, "gang": True}, job | unlike]}),
        place,
        ("user", {"name": "bo", "weight": 2.0}),
        ("modify", {"job": 3, "changes": {"priority": 1}}),
        ("end", {"tasks": [[1, 0, 1, 0, ""]]}),
        place,
        ("hold", {"job": 3}),
        ("release", {"job": 3}),
        ("drain", {"name": "b"}),
        ("lost", {"name": "b"}),
        place,
        ("cancel", {"job": 5}),
        ("policy", {"policy": policy}),
        place,
    ]
    state = ServiceState(policy)
    for second, (kind, body) in enumerate(events):
        state.apply(kind, body, float(second))
    for waiting in list(state.jobs.values()):
        if waiting.group is not None:
            _ = state.core.explain(waiting.group, 60.0), state.foresee(waiting.id, 60.0)
    state.core.shares_question().answer()
    ServiceState.restore(state.snapshot()).apply(*place, 61.0)
