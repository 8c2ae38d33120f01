"""Which mechanism has which property? Audits over random problems, and the smallest witnesses.

A property that a paper proves stands up to the search or is refuted by a witness; one that nobody
claims gets a witness.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children
from typing import Any

from fairlead.errors import FairleadError
from fairlead.mechanisms.catalogue import find_mechanism
from fairlead.model.allocation import FORMAT_VERSION
from fairlead.model.arguments import whole_number
from fairlead.processes import interruptions_held, serve_parent
from fairlead.properties.audit import PROPERTIES, check_properties
from fairlead.properties.drawing import Distribution
from fairlead.properties.survey_work import SurveyCell, SurveyJob, audit_some, shrink_witness

LIES = 60
# Problems that one process audits before it reports.
CHUNK = 5


@dataclass(frozen=True, eq=False)
class Survey:
    """A table of mechanisms and properties."""

    mechanisms: tuple[str, ...]
    properties: tuple[str, ...]
    problems: int  # how many random problems were drawn
    seed: int
    distribution: Distribution  # what they looked like
    cells: dict[tuple[str, str], SurveyCell]  # by mechanism and property
    unproved: dict[str, int]  # by mechanism, on how many problems it found no certified answer
    refused: dict[str, int]  # by mechanism, how many problems its definition does not admit

    @property
    def holds(self) -> bool:
        """Whether no claim was refuted."""
        return not any(cell.refutations for cell in self.cells.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the survey as plain values, for JSON."""
        return {
            "fairlead": FORMAT_VERSION,
            "problems": self.problems,
            "seed": self.seed,
            "distribution": self.distribution.to_dict(),
            "unproved": self.unproved,
            "refused": self.refused,
            "table": [cell.to_dict() for cell in self.cells.values()],
        }


def survey(
    mechanisms: Sequence[str],
    problems: int,
    *,
    distribution: Distribution | None = None,
    properties: Sequence[str] = PROPERTIES,
    seed: int = 0,
    lies: int = LIES,
    workers: int | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Survey:
    """Audit mechanisms on random problems and keep the smallest witness of each violation.

    Parameters
    ----------
    mechanisms : sequence of str
        Names from the catalogue.
    problems : int
        How many to draw, at least 1. The same seed and number give the same problem.
    distribution : Distribution, optional
        What they look like.
    properties : sequence of str
        Those to check.
    lies : int
        Lies to try on each problem.
    workers : int, optional
        Processes; as many as there are processors when absent. The result is the same; one works
        in this process.
    on_progress : callable, optional
        Called with what is being done, how much of it is done, and how much there is.

    Returns
    -------
    Survey
        Its witnesses shrunk as far as single steps lead.

    Raises
    ------
    InputError
        For an unknown mechanism or property, or a number that is none.
    """
    for name in mechanisms:
        find_mechanism(name)
    whole_number(problems, "random", 1)
    for what, number in (("lies", lies), ("seed", seed), ("workers", workers or 0)):
        whole_number(number, what)
    look = distribution or Distribution()
    checked = check_properties(properties)
    wanted = tuple(name for name in PROPERTIES if name in checked)
    names = tuple(dict.fromkeys(mechanisms))
    cells = {
        (name, of): SurveyCell(name, of, find_mechanism(name).claim(of))
        for name in names
        for of in wanted
    }
    unproved, refused = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    jobs = [
        SurveyJob(names, wanted, look, seed, range(k, min(k + CHUNK, problems)), lies)
        for k in range(0, problems, CHUNK)
    ]
    with _workers(workers or os.cpu_count() or 1) as each:
        for done, part in enumerate(each(audit_some, jobs), start=1):
            for key, cell in part.cells.items():
                cells[key] = cells[key].joined(cell)
            for name in names:
                unproved[name] += part.unproved[name]
                refused[name] += part.refused[name]
            if on_progress is not None:
                on_progress("problems", min(done * CHUNK, problems), problems)
        shown = [cell for cell in cells.values() if cell.witness is not None]
        for done, cell in enumerate(each(shrink_witness, shown), start=1):
            cells[cell.mechanism, cell.property] = cell
            if on_progress is not None:
                on_progress("witnesses", done, len(shown))
    return Survey(names, wanted, problems, seed, look, cells, unproved, refused)


@contextmanager
def _workers(
    count: int,
) -> Iterator[Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]]:
    """Yield what maps work over jobs, in any order; one worker is this process.

    When the block is left early, as by an interruption, the others are ended at once; they leave
    interruptions to this process. One that is killed ends the work.
    """
    if count == 1:
        yield map
        return
    others = set(active_children())
    executor = ProcessPoolExecutor(count, initializer=serve_parent)

    def each(work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
        with interruptions_held():  # the first of these starts the processes
            given = [executor.submit(work, job) for job in jobs]
        for finished in as_completed(given):
            yield finished.result()

    try:
        yield each
    except BrokenProcessPool as error:
        raise FairleadError(
            "a process ended without an answer (killed, or out of memory?)"
        ) from error
    finally:
        for child in set(active_children()) - others:
            child.terminate()
        executor.shutdown(cancel_futures=True)
