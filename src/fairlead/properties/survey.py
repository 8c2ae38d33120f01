"""Which mechanism has which property? Audits over random problems, and the smallest witnesses.

A property that a paper proves stands up to the search or is refuted by a witness; one that nobody
claims gets a witness.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairlead.errors import CertificateError, InputError, RefusalError
from fairlead.formats.writing import document_of
from fairlead.mechanisms.catalogue import Claim, find_mechanism
from fairlead.model.allocation import FORMAT_VERSION
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.properties import lies as lying
from fairlead.properties.audit import PROPERTIES, audit_subject
from fairlead.properties.drawing import Distribution
from fairlead.properties.lies import Lie
from fairlead.properties.shrinking import shrink, size_of
from fairlead.properties.subject import Subject, subject_of

LIES = 60
# Problems that one process audits before it reports.
CHUNK = 5
# A violation smaller than this, relative, may be what a certified answer misses.
TOLERANCE = 1e-5
# Witnesses keep so much of what they show while they shrink, at most this much.
KEPT, ENOUGH = 0.5, 0.02
LIES_WHILE_SHRINKING = 20
ATTEMPTS = 250


@dataclass(frozen=True, eq=False)
class Witness:
    """A problem on which a mechanism lacks a property.

    Attributes
    ----------
    problem : Problem
    verdict : Verdict
        What the audit of the mechanism says there.
    lie : Lie or None
        The lie that pays, where that is what it shows.
    covered : bool
        Whether the claim says that the mechanism has the property there.
    number : int
        Which of the random problems it came from.
    """

    problem: Problem
    verdict: Verdict
    lie: Lie | None
    covered: bool
    number: int

    def order(self) -> tuple[Any, ...]:
        """Return by what witnesses are preferred: against a claim, then small, then the first."""
        return (not self.covered, *size_of(self.problem), self.number)


@dataclass(frozen=True, eq=False)
class Cell:
    """What is known of one property of one mechanism.

    Attributes
    ----------
    mechanism, property : str
    claim : Claim or None
        What is proved of it.
    asked : int
        Random problems on which the property was checked, its premise being met.
    covered : int
        Those of them of which the claim says something.
    violations : int
        Problems on which it fails.
    refutations : int
        Those of them of which the claim says something.
    witness : Witness or None
        The smallest witness against it.
    """

    mechanism: str
    property: str
    claim: Claim | None
    asked: int = 0
    covered: int = 0
    violations: int = 0
    refutations: int = 0
    witness: Witness | None = None

    def joined(self, other: Cell) -> Cell:
        """Return both counts together, with the smaller witness."""
        witnesses = [w for w in (self.witness, other.witness) if w is not None]
        return replace(
            self,
            asked=self.asked + other.asked,
            covered=self.covered + other.covered,
            violations=self.violations + other.violations,
            refutations=self.refutations + other.refutations,
            witness=min(witnesses, key=Witness.order) if witnesses else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as plain values, for JSON."""
        values: dict[str, Any] = {
            "mechanism": self.mechanism,
            "property": self.property,
            "claimed": self.claim is not None,
        }
        if self.claim is not None and self.claim.without:
            values["claimed_without"] = list(self.claim.without)
        values |= {
            "asked": self.asked,
            "violations": self.violations,
            "refutations": self.refutations,
        }
        if self.witness is not None:
            values["witness"] = {
                "problem": document_of(self.witness.problem),
                "verdict": self.witness.verdict.to_dict(),
            }
        return values


@dataclass(frozen=True, eq=False)
class Survey:
    """A table of mechanisms and properties.

    Attributes
    ----------
    mechanisms : tuple of str
    properties : tuple of str
    problems : int
        How many random problems were drawn.
    seed : int
    distribution : Distribution
        What they looked like.
    cells : dict
        By mechanism and property.
    unproved : dict
        By mechanism, on how many problems it found no certified answer.
    refused : dict
        By mechanism, how many problems its definition does not admit.
    """

    mechanisms: tuple[str, ...]
    properties: tuple[str, ...]
    problems: int
    seed: int
    distribution: Distribution
    cells: dict[tuple[str, str], Cell]
    unproved: dict[str, int]
    refused: dict[str, int]

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
    seed : int
    lies : int
        Lies to try on each problem.
    workers : int, optional
        Processes; as many as there are processors when absent. The result is the same.
    on_progress : callable, optional
        Called with what is being done, how much of it is done, and how much there is.

    Returns
    -------
    Survey
        Its witnesses shrunk as far as single steps lead.

    Raises
    ------
    InputError
        For an unknown mechanism or number.
    """
    for name in mechanisms:
        find_mechanism(name)
    if problems < 1:
        raise InputError(f"must be a positive whole number, not {problems}", "random")
    look = distribution or Distribution()
    wanted = tuple(name for name in PROPERTIES if name in properties)
    names = tuple(dict.fromkeys(mechanisms))
    cells = {
        (name, of): Cell(name, of, find_mechanism(name).claim(of))
        for name in names
        for of in wanted
    }
    unproved, refused = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    jobs = [
        _Job(names, wanted, look, seed, range(k, min(k + CHUNK, problems)), lies)
        for k in range(0, problems, CHUNK)
    ]
    with ProcessPoolExecutor(workers or os.cpu_count() or 1) as pool:
        for done, part in enumerate(_in_any_order(pool, _audit_some, jobs), start=1):
            for key, cell in part.cells.items():
                cells[key] = cells[key].joined(cell)
            for name in names:
                unproved[name] += part.unproved[name]
                refused[name] += part.refused[name]
            if on_progress is not None:
                on_progress("problems", min(done * CHUNK, problems), problems)
        shown = [cell for cell in cells.values() if cell.witness is not None]
        for done, cell in enumerate(_in_any_order(pool, shrink_witness, shown), start=1):
            cells[cell.mechanism, cell.property] = cell
            if on_progress is not None:
                on_progress("witnesses", done, len(shown))
    return Survey(names, wanted, problems, seed, look, cells, unproved, refused)


@dataclass(frozen=True, eq=False)
class _Job:
    mechanisms: tuple[str, ...]
    properties: tuple[str, ...]
    distribution: Distribution
    seed: int
    numbers: range
    lies: int


@dataclass(frozen=True, eq=False)
class _Part:
    cells: dict[tuple[str, str], Cell]
    unproved: dict[str, int]
    refused: dict[str, int]


def _in_any_order(pool: Executor, work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
    """Yield results as they come; joining them does not depend on the order."""
    for future in as_completed([pool.submit(work, job) for job in jobs]):
        yield future.result()


def _audit_some(job: _Job) -> _Part:
    """Audit all mechanisms on some of the problems."""
    cells: dict[tuple[str, str], Cell] = {}
    unproved, refused = dict.fromkeys(job.mechanisms, 0), dict.fromkeys(job.mechanisms, 0)
    for number in job.numbers:
        problem = job.distribution.draw(np.random.default_rng([job.seed, number]))
        for name in job.mechanisms:
            try:
                found = _audit_one(name, problem, job, number)
            except RefusalError:
                refused[name] += 1
                continue
            except CertificateError:
                unproved[name] += 1
                continue
            for cell in found:
                key = (name, cell.property)
                cells[key] = cells[key].joined(cell) if key in cells else cell
    return _Part(cells, unproved, refused)


def _audit_one(name: str, problem: Problem, job: _Job, number: int) -> Iterator[Cell]:
    row = find_mechanism(name)
    found = audit_subject(
        subject_of(problem, name), properties=job.properties, lies=job.lies, seed=number
    )
    cells = []
    for verdict in found:
        if not verdict.applies or (verdict.verdict == "unknown" and not verdict.searched):
            continue
        claim = row.claim(verdict.name)
        covered = claim is not None and claim.covers(problem)
        fails = verdict.verdict == "fails" and verdict.severity > TOLERANCE
        lie = found.lie if verdict.name == lying.NAME else None
        witness = Witness(problem, verdict, lie, covered, number) if fails else None
        cells.append(
            Cell(
                name,
                verdict.name,
                claim,
                asked=1,
                covered=int(covered),
                violations=int(fails),
                refutations=int(fails and covered),
                witness=witness,
            )
        )
    return iter(cells)


def shrink_witness(cell: Cell) -> Cell:
    """Return the cell with a smaller witness, if there is one."""
    witness = cell.witness
    if witness is None:
        return cell
    best = [witness]
    enough = min(KEPT * witness.verdict.severity, ENOUGH)

    def shows(problem: Problem) -> bool:
        if cell.claim is not None and witness.covered and not cell.claim.covers(problem):
            return False
        found = _check_again(cell, problem, best[0])
        if found is None or not found.verdict.severity >= enough:
            return False
        best[0] = found
        return True

    shrink(witness.problem, shows, ATTEMPTS)
    return replace(cell, witness=best[0])


def _check_again(cell: Cell, problem: Problem, witness: Witness) -> Witness | None:
    """Return what the mechanism shows on another problem, None if it does not answer."""
    try:
        subject = subject_of(problem, cell.mechanism)
        lie = None if witness.lie is None else _translated(witness, subject)
        if cell.property == lying.NAME:
            if lie is None:
                return None
            verdict, lie = lying.search_lies(
                subject, LIES_WHILE_SHRINKING, witness.number, user=lie.user, first=lie
            )
        else:
            verdict = audit_subject(subject, properties=(cell.property,))[0]
    except (RefusalError, CertificateError):
        return None
    return Witness(problem, verdict, lie, witness.covered, witness.number)


def _translated(witness: Witness, subject: Subject) -> Lie | None:
    """Return the witness's lie as it reads in another problem, None where its user is gone."""
    before, now = witness.problem, subject.given
    assert witness.lie is not None
    user = before.users.names[witness.lie.user]
    if user not in now.users.names:
        return None
    n = now.users.names.index(user)
    resource = [before.cluster.resources.index(r) for r in now.cluster.resources]
    group = [before.cluster.groups.index(g) for g in now.cluster.groups]
    rates = witness.lie.rates
    changed = witness.lie.eligible[group] != before.users.eligible[witness.lie.user, group]
    return Lie(
        user=n,
        demand=witness.lie.demand[resource],
        eligible=now.users.eligible[n] ^ changed,
        rates=None if rates is None else rates[group],
    )
