"""Which mechanism has which property? Audits over random problems, and the smallest witnesses.

A property that a paper proves stands up to the search or is refuted by a witness; one that nobody
claims gets a witness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.executors.executor import Executor
from fairlead.executors.local_processes import Processes
from fairlead.mechanisms.catalogue import find_mechanism
from fairlead.model.allocation import FORMAT_VERSION
from fairlead.model.arguments import whole_number
from fairlead.properties.audit import PROPERTIES, check_properties
from fairlead_papers.surveys.drawing import Distribution
from fairlead_papers.surveys.work import (
    SurveyCell,
    SurveyJob,
    SurveyPart,
    audit_some,
    shrink_witness,
)

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
    executor: Executor | None = None,
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
    executor : Executor, optional
        What audits, several problems at a time; the processors of this machine when absent. The
        result is the same.
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
    for what, number in (("lies", lies), ("seed", seed)):
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
    executor = executor or Processes()
    parts = 0

    def count(_: int, part: SurveyPart) -> None:
        nonlocal parts
        parts += 1
        for key, cell in part.cells.items():
            cells[key] = cells[key].joined(cell)
        for name in names:
            unproved[name] += part.unproved[name]
            refused[name] += part.refused[name]
        if on_progress is not None:
            on_progress("problems", min(parts * CHUNK, problems), problems)

    executor.do_all(audit_some, jobs, count)
    shown = [cell for cell in cells.values() if cell.witness is not None]
    small: dict[tuple[str, str], SurveyCell] = {}

    def keep(_: int, cell: SurveyCell) -> None:
        small[cell.mechanism, cell.property] = cell
        if on_progress is not None:
            on_progress("witnesses", len(small), len(shown))

    executor.do_all(shrink_witness, shown, keep)
    return Survey(names, wanted, problems, seed, look, cells | small, unproved, refused)
